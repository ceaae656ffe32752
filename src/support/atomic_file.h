// Whole files written so that a reader, or a kill at any moment, sees the old or the new content
// and never a part: temporary file in the same directory, fsync, rename, fsync of the directory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace nru {

// Replace (or create) the file at `target`. On failure (missing directory, permission, full disk)
// throws nru::Error with the path, the system's reason and the fix; the target then still has its
// old content and the temporary file is gone.
//
// The temporary file of NAME is always `.NAME.tmp`: what a killed process leaves behind is
// overwritten by the next save and does not pile up. Writers of the same target take turns through
// a lock on it. Where the target is a link, the file it leads to is replaced; a device or a pipe
// (/dev/stdout) is written to as it is.
void write_file_atomically(const std::filesystem::path& target, std::string_view text);
void write_file_atomically(const std::filesystem::path& target, std::span<const std::byte> bytes);

// The same for the concatenation of `pieces`, so that tensors go to the disk from where they lie.
void write_file_atomically(const std::filesystem::path& target,
                           std::span<const std::span<const std::byte>> pieces);

// Before long work whose result goes there: throws as write_file_atomically() would for want of a
// directory or of permission. Leaves nothing behind, and what is at `target` as it is.
void check_can_be_written(const std::filesystem::path& target);

}  // namespace nru
