// Philox4x32-10: the counter-based generator behind every random number of nru (batches, initial
// weights, dropout).
//
// Counter-based means that a number is a pure function of (seed, stream, index, element): nothing
// is carried from one draw to the next. Any batch can be made at any time, in any order, on any
// number of threads, on CPU or GPU, and comes out the same; a resumed run needs no generator state.
// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".)
//
// The key has 64 bits and the counter 128. The counter holds (index, element) in full. Seed (64
// bits) and stream (32 bits) do not fit the key side by side, so the key is the first half of the
// Philox block of (key = seed, counter = stream): different streams of a seed get unrelated keys,
// and so do neighbouring seeds.
#pragma once

#include <cmath>
#include <cstdint>

// nvcc compiles this header for the device too; other compilers must not see its keywords.
#ifdef __CUDACC__
#define NRU_HOST_DEVICE __host__ __device__
#else
#define NRU_HOST_DEVICE
#endif

namespace nru::kernels {

// What the numbers are for. The values are part of the definition of a seed: never renumber or
// reuse one, or old runs can no longer be repeated. New purposes go at the end.
enum class Stream : std::uint32_t {
  train_batches = 0,
  valid_batches = 1,
  test_batches = 2,
  initial_weights = 3,
  dropout = 4,
  epoch_order = 5,
  sampled_text = 6,
};

struct Words4 {
  std::uint32_t v[4];
};

struct NormalPair {
  double first;
  double second;
};

// The bare function of Random123: ten rounds on a 128-bit counter with a 64-bit key.
NRU_HOST_DEVICE constexpr Words4 philox4x32_10(Words4 counter, std::uint32_t key0,
                                               std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.v[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.v[2];
    counter = Words4{{static_cast<std::uint32_t>(product1 >> 32) ^ counter.v[1] ^ key0,
                      static_cast<std::uint32_t>(product1),
                      static_cast<std::uint32_t>(product0 >> 32) ^ counter.v[3] ^ key1,
                      static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// [0, 1) with 24 random bits, every value exact in float.
NRU_HOST_DEVICE constexpr float to_unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

// [0, 1) with 53 random bits, every value exact in double.
NRU_HOST_DEVICE constexpr double to_unit_double(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(((std::uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

// 0..n-1 by multiply-shift of 32 bits, without rejection, so that every draw costs exactly one
// word. A value's probability is off by at most a factor 1 +- n/2^32: below what any run can notice
// for the alphabets and lags here.
NRU_HOST_DEVICE constexpr std::uint32_t to_below(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * n) >> 32);
}

// The numbers of one (seed, stream). `index` counts batches (or tensors, or updates); `element`
// counts numbers within it. One (stream, index) should be read through one kind of draw only: word,
// float, double and normal draws of the same (index, element) share bits.
struct Philox {
  std::uint32_t key0 = 0;
  std::uint32_t key1 = 0;

  NRU_HOST_DEVICE constexpr Philox(std::uint64_t seed, std::uint32_t stream) {
    const Words4 key = philox4x32_10(Words4{{stream, 0, 0, 0}}, static_cast<std::uint32_t>(seed),
                                     static_cast<std::uint32_t>(seed >> 32));
    key0 = key.v[0];
    key1 = key.v[1];
  }
  NRU_HOST_DEVICE constexpr Philox(std::uint64_t seed, Stream stream)
      : Philox(seed, static_cast<std::uint32_t>(stream)) {}

  // Four words at once: the unit the others are cut from.
  NRU_HOST_DEVICE constexpr Words4 block(std::uint64_t index, std::uint64_t element) const {
    return philox4x32_10(
        Words4{{static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(element >> 32),
                static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32)}},
        key0, key1);
  }

  NRU_HOST_DEVICE constexpr std::uint32_t word(std::uint64_t index, std::uint64_t element) const {
    return block(index, element / 4).v[element % 4];
  }
  NRU_HOST_DEVICE constexpr float uniform_float(std::uint64_t index, std::uint64_t element) const {
    return to_unit_float(word(index, element));
  }
  NRU_HOST_DEVICE constexpr double uniform_double(std::uint64_t index,
                                                  std::uint64_t element) const {
    const Words4 words = block(index, element / 2);
    const int at = 2 * static_cast<int>(element % 2);
    return to_unit_double(words.v[at], words.v[at + 1]);
  }
  NRU_HOST_DEVICE constexpr std::uint32_t below(std::uint32_t n, std::uint64_t index,
                                                std::uint64_t element) const {
    return to_below(word(index, element), n);
  }

  // Two independent N(0,1) numbers by Box-Muller, in double. 1-u lies in (0,1], so the logarithm is
  // finite.
  NRU_HOST_DEVICE NormalPair normal_pair(std::uint64_t index, std::uint64_t pair) const {
    const Words4 words = block(index, pair);
    const double radius = std::sqrt(-2.0 * std::log(1.0 - to_unit_double(words.v[0], words.v[1])));
    const double angle = 6.283185307179586476925 * to_unit_double(words.v[2], words.v[3]);
    return NormalPair{radius * std::cos(angle), radius * std::sin(angle)};
  }
  // Number `element` of the sequence of normals: half of pair element/2.
  NRU_HOST_DEVICE double normal(std::uint64_t index, std::uint64_t element) const {
    const NormalPair both = normal_pair(index, element / 2);
    return element % 2 == 0 ? both.first : both.second;
  }
};

}  // namespace nru::kernels
