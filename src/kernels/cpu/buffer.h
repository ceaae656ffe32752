// Growing, zero-initialised, cache-line aligned storage.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace nru::kernels {

inline constexpr std::size_t kAlignment = 64;

template <class T>
class Buffer {
 public:
  // Room for `count` values and one vector of slack behind them. New memory is zero; old values are
  // lost on growth.
  T* require(std::size_t count) {
    if (count > size_) {
      const std::size_t bytes = (count * sizeof(T) + 2 * kAlignment - 1) / kAlignment * kAlignment;
      memory_.reset(static_cast<T*>(std::aligned_alloc(kAlignment, bytes)));
      if (!memory_) throw std::bad_alloc();
      std::memset(memory_.get(), 0, bytes);
      size_ = count;
    }
    return memory_.get();
  }
  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> memory_;
  std::size_t size_ = 0;
};

// Distance between rows of `width` values: whole cache lines, and never a multiple of 1 KiB, where
// the rows of a tile would compete for the same few cache sets.
template <class T>
int padded_width(int width) {
  constexpr int line = kAlignment / sizeof(T);
  const int padded = (width + line - 1) / line * line;
  return padded * sizeof(T) % 1024 == 0 ? padded + line : padded;
}

}  // namespace nru::kernels
