// What the header of a safetensors file promises: sizes, layout and checksums, checked and written.
#include "support/safetensors_header.h"

#include <fmt/format.h>
#include <nru/error.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "support/toml_string.h"

namespace nru {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and tensors are written as they lie in memory");

struct DTypeInfo {
  std::string_view name;
  std::size_t size;
};

// In the order of the enum.
constexpr DTypeInfo kDTypes[] = {
    {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
    {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
    {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1},
};
static_assert(std::size(kDTypes) == static_cast<std::size_t>(DType::BOOL) + 1);

}  // namespace

std::string_view dtype_name(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }
std::size_t dtype_size(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].size; }

namespace safetensors {

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kDTypes); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

namespace {

using Json = nlohmann::json;

constexpr std::string_view kNoChecksumYet = "00000000";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void check_layout(std::vector<Entry>& entries, uint64_t data_size, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin > entry.end) {
      malformed(file, fmt::format("tensor {} ends at {}, before it begins at {}", shown(entry.name),
                                  entry.end, entry.begin));
    }
    const auto expected = tensor_bytes(entry.dtype, entry.shape);
    if (!expected) {
      malformed(file, fmt::format("the size of tensor {} with shape {} overflows",
                                  shown(entry.name), shape_text(entry.shape)));
    }
    if (*expected != entry.end - entry.begin) {
      malformed(file, fmt::format("tensor {} with shape {} and dtype {} needs {} bytes but has {}",
                                  shown(entry.name), shape_text(entry.shape),
                                  dtype_name(entry.dtype), *expected, entry.end - entry.begin));
    }
    if (entry.begin != covered) {
      malformed(file,
                fmt::format("tensor {} begins at {} and leaves {} after the {} bytes before it",
                            shown(entry.name), entry.begin,
                            entry.begin > covered ? "a hole" : "an overlap", covered));
    }
    covered = entry.end;
  }
  if (covered > data_size) {
    malformed(file, fmt::format("the file is cut short: its tensors take {} bytes, it holds {}",
                                covered, data_size));
  }
  if (covered < data_size) {
    malformed(file, fmt::format("{} bytes follow the last tensor", data_size - covered));
  }
}

// The 8 length bytes in front of a header of `size` bytes.
std::string length_prefix(uint64_t size) {
  std::string prefix(kLengthBytes, '\0');
  std::memcpy(prefix.data(), &size, kLengthBytes);
  return prefix;
}

// Where the digits of the header's checksum stand in the text. The key cannot occur elsewhere
// followed by ':"': quotes inside strings are escaped, and tensors are objects.
std::size_t checksum_position(std::string_view text) {
  const std::string key = fmt::format("\"{}\":\"", kHeaderChecksumKey);
  const std::size_t found = text.find(key);
  return found == std::string_view::npos ? found : found + key.size();
}

// The header's checksum covers its length and its text, with zeros for the checksum's own digits.
// It is of the text, not of the meaning, so that no flipped bit can hide, not even in an escape.
std::string header_checksum(std::string_view text, std::size_t digits_at) {
  const std::string prefix = length_prefix(text.size());
  const std::span<const std::byte> pieces[] = {
      bytes_of(prefix), bytes_of(text.substr(0, digits_at)), bytes_of(kNoChecksumYet),
      bytes_of(text.substr(digits_at + kNoChecksumYet.size()))};
  return checksum(pieces);
}

// The two keys come together: damage to either key then cannot switch its check off.
void check_header_checksum(const Header& header, std::string_view text, const std::string& file) {
  const auto found = header.metadata.find(std::string(kHeaderChecksumKey));
  const bool has_header = found != header.metadata.end();
  const bool has_data = header.metadata.contains(std::string(kDataChecksumKey));
  if (!has_header && !has_data) return;
  if (has_header != has_data) {
    malformed(file, fmt::format("the metadata has {} without {}",
                                has_header ? kHeaderChecksumKey : kDataChecksumKey,
                                has_header ? kDataChecksumKey : kHeaderChecksumKey));
  }
  const std::size_t at = checksum_position(text);
  if (found->second.size() != kNoChecksumYet.size() || at == std::string_view::npos ||
      text.substr(at, kNoChecksumYet.size()) != found->second ||
      header_checksum(text, at) != found->second) {
    malformed(file, fmt::format("the header does not match its checksum {}", shown(found->second)));
  }
}

std::string json_string(std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    throw Error(
        fmt::format("{} is not valid UTF-8; safetensors names and metadata must be", shown(text)));
  }
}

}  // namespace

void malformed(const std::string& file, const std::string& reason) {
  throw Error(fmt::format(
      "cannot load {}: {}; it is damaged or not a safetensors file, use another", file, reason));
}

std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 80;
  return name.size() <= kMost ? quote_toml(name) : quote_toml(name.substr(0, kMost)) + "...";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<uint64_t> tensor_bytes(DType dtype, const std::vector<int64_t>& shape) {
  // A zero does not excuse dimensions whose product overflows: strides are computed from them.
  uint64_t bytes = dtype_size(dtype);
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (dimension == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes)) {
      return std::nullopt;
    }
  }
  if (bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return empty ? 0 : bytes;
}

uint64_t header_size(std::span<const std::byte> start, uint64_t file_size,
                     const std::string& file) {
  if (file_size < kLengthBytes || start.size() < kLengthBytes) {
    malformed(file, fmt::format("it is only {} bytes long", file_size));
  }
  uint64_t size = 0;
  std::memcpy(&size, start.data(), kLengthBytes);
  if (size == 0) malformed(file, "its header is empty");
  if (size > kMaxHeaderBytes) {
    malformed(file, fmt::format("its header would be {} bytes, more than the limit of {}", size,
                                kMaxHeaderBytes));
  }
  if (size > file_size - kLengthBytes) {
    malformed(file, fmt::format("the file is cut short: its header is {} bytes, it holds {}", size,
                                file_size - kLengthBytes));
  }
  return size;
}

Header parse_header(std::string_view text, uint64_t data_size, const std::string& file) {
  Header header = parse_json(text, file);
  check_header_checksum(header, text, file);
  check_layout(header.entries, data_size, file);
  return header;
}

std::string write_header(const Header& header) {
  auto metadata = header.metadata;
  metadata[std::string(kHeaderChecksumKey)] = kNoChecksumYet;
  std::string text = fmt::format("{{\"{}\":{{", kMetadataKey);
  const char* separator = "";
  for (const auto& [key, value] : metadata) {
    text += fmt::format("{}{}:{}", separator, json_string(key), json_string(value));
    separator = ",";
  }
  text += "}";
  for (const Entry& entry : header.entries) {
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        json_string(entry.name), dtype_name(entry.dtype),
                        fmt::join(entry.shape, ","), entry.begin, entry.end);
  }
  text += "}";
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  const std::size_t at = checksum_position(text);
  text.replace(at, kNoChecksumYet.size(), header_checksum(text, at));
  return length_prefix(text.size()) + text;
}

std::string checksum(std::span<const std::span<const std::byte>> pieces) {
  auto crc = crc32_z(0, nullptr, 0);
  for (const auto piece : pieces) {
    // zlib takes a null pointer as "start again", and empty tensors may have one.
    if (piece.empty()) continue;
    crc = crc32_z(crc, reinterpret_cast<const unsigned char*>(piece.data()), piece.size());
  }
  return fmt::format("{:08x}", crc);
}

}  // namespace safetensors
}  // namespace nru
