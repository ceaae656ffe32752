// The two things every direct use of POSIX file calls needs.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace nru {

// A file descriptor that closes itself; negative = none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Repeats a call that a signal interrupted: training handles SIGINT and SIGTERM and goes on.
template <class Call>
auto uninterrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace nru
