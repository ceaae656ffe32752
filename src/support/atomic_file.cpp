// Atomic replacement of a file with POSIX calls; std::ofstream can neither fsync nor say why it
// failed.
#include "support/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "support/posix.h"

namespace nru {
namespace {

namespace fs = std::filesystem;

std::string_view fix_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another directory";
    case ENOENT:
    case ENOTDIR:
      return "create the directory first or choose another path";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a directory you may write to";
    case EISDIR:
      return "choose a path that is not a directory";
    case ELOOP:
      return "remove the link of the name .NAME.tmp beside it";
    case EBUSY:
      return "stop the other programs that write it";
    case ENAMETOOLONG:
      return "choose a shorter name";
    default:
      return "check the disk and the path";
  }
}

[[noreturn]] void fail(const fs::path& target, int code) {
  throw Error(
      fmt::format("cannot write {}: {}; {}", target.string(), std::strerror(code), fix_for(code)));
}

bool same_file(int fd, const fs::path& path) {
  struct stat open_file {};
  struct stat named_file {};
  return ::fstat(fd, &open_file) == 0 && ::lstat(path.c_str(), &named_file) == 0 &&
         open_file.st_dev == named_file.st_dev && open_file.st_ino == named_file.st_ino;
}

// The temporary file, empty and locked. The lock makes two writers of one target take turns: with a
// fixed name, one could otherwise rename what the other is still writing. It dies with its process.
Descriptor open_temporary(const fs::path& temporary, const fs::path& target) {
  constexpr int kMostTurns = 1000;  // far more than writers of one file; never endless
  for (int turn = 0; turn < kMostTurns; ++turn) {
    // No O_TRUNC: until the lock is ours the content may be another writer's.
    Descriptor file(uninterrupted([&] {
      return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                    0666);
    }));
    if (file.get() < 0) fail(target, errno);
    const int locked = uninterrupted([&] { return ::flock(file.get(), LOCK_EX); });
    const bool unsupported = locked < 0 && (errno == ENOLCK || errno == EOPNOTSUPP);
    if (locked < 0 && !unsupported) fail(target, errno);
    if (!same_file(file.get(), temporary)) continue;  // renamed by the writer we waited for
    if (::ftruncate(file.get(), 0) < 0) fail(target, errno);
    return file;
  }
  fail(target, EBUSY);
}

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& target) {
  while (!bytes.empty()) {
    const ssize_t written = uninterrupted([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (written < 0) fail(target, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// Makes the rename itself survive a power failure.
void sync_directory(const fs::path& directory, const fs::path& target) {
  const Descriptor opened(
      uninterrupted([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (opened.get() < 0) fail(target, errno);
  // Some file systems cannot sync directories and say EINVAL; the file itself is then as safe as it
  // gets.
  if (uninterrupted([&] { return ::fsync(opened.get()); }) < 0 && errno != EINVAL) {
    fail(target, errno);
  }
}

// Removes the temporary file unless it was renamed. Declared after the Descriptor, so that it acts
// while the lock is still held and cannot remove another writer's file.
class RemoveOnFailure {
 public:
  explicit RemoveOnFailure(const fs::path& path) : path_(path) {}
  RemoveOnFailure(const RemoveOnFailure&) = delete;
  RemoveOnFailure& operator=(const RemoveOnFailure&) = delete;
  ~RemoveOnFailure() {
    if (armed_) ::unlink(path_.c_str());
  }
  void disarm() { armed_ = false; }

 private:
  const fs::path& path_;
  bool armed_ = true;
};

using Pieces = std::span<const std::span<const std::byte>>;

struct Place {
  fs::path target, directory, temporary;
  bool in_place = false;  // a device or a pipe, of which there is but the target
};

Place place_of(const fs::path& name) {
  if (!name.has_filename()) fail(name, EISDIR);
  std::error_code ignored;
  const fs::file_status there = fs::status(name, ignored);  // of what a link leads to
  if (fs::exists(there) && !fs::is_regular_file(there) && !fs::is_directory(there))
    return {.target = name, .directory = {}, .temporary = {}, .in_place = true};
  // A link stays one: the file that it leads to is replaced.
  const bool linked = fs::is_regular_file(there) && fs::is_symlink(name, ignored);
  Place place;
  place.target = linked ? fs::canonical(name) : name;
  place.directory = place.target.has_parent_path() ? place.target.parent_path() : fs::path(".");
  place.temporary = place.directory / ("." + place.target.filename().string() + ".tmp");
  return place;
}

// Devices and pipes (/dev/stdout) are written to, never replaced.
void write_in_place(const fs::path& target, Pieces pieces) {
  const Descriptor file(
      uninterrupted([&] { return ::open(target.c_str(), O_WRONLY | O_CLOEXEC); }));
  if (file.get() < 0) fail(target, errno);
  for (const auto piece : pieces) write_all(file.get(), piece, target);
}

}  // namespace

void write_file_atomically(const fs::path& name, Pieces pieces) {
  const Place place = place_of(name);
  if (place.in_place) {
    write_in_place(name, pieces);
    return;
  }
  const Descriptor file = open_temporary(place.temporary, place.target);
  RemoveOnFailure cleanup(place.temporary);
  for (const auto piece : pieces) write_all(file.get(), piece, place.target);
  if (uninterrupted([&] { return ::fsync(file.get()); }) < 0) fail(place.target, errno);
  if (::rename(place.temporary.c_str(), place.target.c_str()) < 0) fail(place.target, errno);
  cleanup.disarm();
  sync_directory(place.directory, place.target);
}

void check_can_be_written(const fs::path& name) {
  const Place place = place_of(name);
  if (place.in_place) return;  // to open a pipe would be to use it
  if (fs::is_directory(place.target)) fail(place.target, EISDIR);
  const Descriptor file = open_temporary(place.temporary, place.target);
  const RemoveOnFailure cleanup(place.temporary);
}

void write_file_atomically(const fs::path& target, std::span<const std::byte> bytes) {
  write_file_atomically(target, std::span<const std::span<const std::byte>>(&bytes, 1));
}

void write_file_atomically(const fs::path& target, std::string_view text) {
  write_file_atomically(target, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace nru
