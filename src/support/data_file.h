// Data files, plain or gzipped: published data sets come both ways, under names that do not always
// say which, so the content decides.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace nru {

// More than any data set here; a gzip file of a megabyte can unpack to a thousand.
constexpr std::uint64_t kLargestDataFile = std::uint64_t{2} << 30;

// The file's content, unpacked where it is gzip (of any number of members). Throws nru::Error with
// the path and the reason when it cannot be read, is a damaged or cut gzip file, or holds more than
// `most_bytes`; `what` ("text", "IDX file") says in the message what was wanted.
std::string read_data_file(const std::filesystem::path& path, const std::string& what,
                           std::uint64_t most_bytes = kLargestDataFile);

bool is_gzip(std::string_view bytes);

// `bytes` unpacked; `name` stands for them in errors.
std::string gunzip(std::string_view bytes, const std::string& name,
                   std::uint64_t most_bytes = kLargestDataFile);

}  // namespace nru
