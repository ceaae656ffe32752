#pragma once

#include <filesystem>

namespace nru {

// Removes a file, or a folder with all that is in it; links are not followed. What cannot be
// removed stays, and a path that is not there is fine.
//
// For std::filesystem::remove_all(), which crashes in programs with some builds of LibTorch: they
// bring functions of the C++ library along, that one among them, and the linker prefers theirs.
void remove_tree(const std::filesystem::path& path) noexcept;

}  // namespace nru
