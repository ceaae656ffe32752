#include "support/tar.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <cstdint>

namespace nru {
namespace {

// The header of a member (POSIX ustar), a block of 512 bytes, and what this needs of it.
constexpr std::size_t kBlock = 512;
constexpr std::size_t kNameAt = 0, kNameSize = 100;
constexpr std::size_t kSizeAt = 124, kSizeSize = 12;
constexpr std::size_t kChecksumAt = 148, kChecksumSize = 8;
constexpr std::size_t kTypeAt = 156;
constexpr std::size_t kPrefixAt = 345, kPrefixSize = 155;

std::string_view field(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view all = header.substr(at, size);
  return all.substr(0, all.find('\0'));
}

// Octal digits with blanks around them.
std::optional<std::uint64_t> number(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(' ') + 1 - first);
  std::uint64_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value * 8 + static_cast<std::uint64_t>(digit - '0');
  }
  return value;
}

// The sum of the header's bytes with the checksum itself as blanks.
std::uint64_t checksum(std::string_view header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksumAt && i < kChecksumAt + kChecksumSize;
    sum += own ? ' ' : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

bool is_regular(char type) { return type == '0' || type == '\0'; }

}  // namespace

std::optional<std::string_view> find_in_tar(std::string_view archive, std::string_view name,
                                            const std::string& archive_name) {
  const auto fail = [&](std::size_t at, const char* reason) {
    throw Error(fmt::format("{}: damaged tar archive at byte {}: {}; get it again", archive_name,
                            at, reason));
  };
  const std::string ending = "/" + std::string(name);
  for (std::size_t at = 0; at < archive.size();) {
    if (archive.size() - at < kBlock) fail(at, "it ends too early");
    const std::string_view header = archive.substr(at, kBlock);
    if (header.find_first_not_of('\0') == std::string_view::npos) break;  // the end mark
    const auto size = number(field(header, kSizeAt, kSizeSize));
    if (number(field(header, kChecksumAt, kChecksumSize)) != checksum(header) || !size)
      fail(at, "no header of a file");
    const std::size_t content = at + kBlock;
    if (*size > archive.size() - content) fail(content, "it ends too early");
    const std::string path = fmt::format("/{}/{}", field(header, kPrefixAt, kPrefixSize),
                                         field(header, kNameAt, kNameSize));
    if (is_regular(header[kTypeAt]) && path.ends_with(ending))
      return archive.substr(content, *size);
    at = content + (*size + kBlock - 1) / kBlock * kBlock;
  }
  return std::nullopt;
}

}  // namespace nru
