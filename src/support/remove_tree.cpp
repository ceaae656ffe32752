#include "support/remove_tree.h"

#include <ftw.h>

#include <cstdio>

namespace nru {

void remove_tree(const std::filesystem::path& path) noexcept {
  constexpr int kOpenFolders = 16;
  ::nftw(
      path.c_str(),
      [](const char* name, const struct stat*, int, FTW*) {
        std::remove(name);
        return 0;  // goes on
      },
      kOpenFolders, FTW_DEPTH | FTW_PHYS);
}

}  // namespace nru
