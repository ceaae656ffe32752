// The header of a safetensors file: from JSON to checked entries and back. Internal to safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/safetensors.h"

namespace nru::safetensors {

constexpr std::size_t kLengthBytes = 8;            // the header's size, in front of it
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kDataChecksumKey = "nru.crc32";
constexpr std::string_view kHeaderChecksumKey = "nru.header_crc32";

struct Entry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // in the data section
};

struct Header {
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
};

[[noreturn]] void malformed(const std::string& file, const std::string& reason);

// A name from a file as an error message may show it: quoted, escaped, of bounded length.
std::string shown(std::string_view name);

// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

std::optional<DType> dtype_from_name(std::string_view name);

// Bytes of a tensor; nothing when a dimension is negative or the product overflows.
std::optional<uint64_t> tensor_bytes(DType dtype, const std::vector<int64_t>& shape);

// The header's size from the first bytes of a file of `file_size` bytes, checked against it.
uint64_t header_size(std::span<const std::byte> start, uint64_t file_size, const std::string& file);

// The JSON as entries and metadata, every field present and of the right kind, no name twice.
Header parse_json(std::string_view text, const std::string& file);

// The same, with entries sorted by position and checked to cover a data section of `data_size`
// bytes exactly.
Header parse_header(std::string_view text, uint64_t data_size, const std::string& file);

// Length, JSON and padding, with the checksum of the header filled in; `header.metadata` must hold
// the checksum of the data already. Throws nru::Error where a text is not UTF-8.
std::string write_header(const Header& header);

// CRC-32 as 8 hexadecimal digits, over the concatenation of `pieces`.
std::string checksum(std::span<const std::span<const std::byte>> pieces);

}  // namespace nru::safetensors
