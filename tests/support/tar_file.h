// Tar archives for tests of what reads them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace nru::test {

// One member: header and content, padded to whole blocks.
inline std::string tar_member(const std::string& path, const std::string& content,
                              char type = '0') {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, path);
  put(100, "0000644");
  put(124, fmt::format("{:011o}", content.size()));
  put(148, "        ");
  header[156] = type;
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  std::string padding((512 - content.size() % 512) % 512, '\0');
  return header + content + padding;
}

inline std::string tar(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  for (const auto& [path, content] : files) archive += tar_member(path, content);
  return archive + std::string(1024, '\0');
}

}  // namespace nru::test
