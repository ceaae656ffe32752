// Reading with POSIX calls: std::ifstream opens directories and cannot say why it failed.
#include "support/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/posix.h"

namespace nru {

std::string read_text_file(const std::filesystem::path& path, const std::string& what) {
  const auto fail = [&](int code) {
    throw Error(fmt::format("cannot read the {} {}: {}; check the path and its permissions", what,
                            path.string(), std::strerror(code)));
  };
  const Descriptor file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (file.get() < 0) fail(errno);
  std::string text;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t got = uninterrupted([&] { return ::read(file.get(), chunk, sizeof chunk); });
    if (got < 0) fail(errno);
    if (got == 0) return text;
    text.append(chunk, static_cast<std::size_t>(got));
  }
}

}  // namespace nru
