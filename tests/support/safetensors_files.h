// Safetensors files by hand, for tests of the reader.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "test_files.h"

namespace nru::test {

// Length, header and data as given, right or wrong.
inline std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t size = header.size();
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + header + data;
}

}  // namespace nru::test
