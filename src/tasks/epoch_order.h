// The order in which an epoch goes through n items: a permutation that is a pure function of
// (seed, epoch), one entry at a time, so that any batch of any epoch can be made without the ones
// before it.
//
// A Feistel network with Philox as its round function permutes the 2k-bit numbers, with 2^2k the
// smallest such power that is at least n; a result of n or more goes through it again until it is
// below n (at most 4 times on average), which leaves a permutation of 0..n-1.
#pragma once

#include <cstdint>

#include "kernels/philox.h"

namespace nru::tasks {

class EpochOrder {
 public:
  EpochOrder(std::uint64_t seed, std::uint32_t n)
      : random_(seed, kernels::Stream::epoch_order), n_(n) {
    while ((std::uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
  }

  // The item at this place (< n) of the epoch.
  NRU_HOST_DEVICE std::uint32_t at(std::uint64_t epoch, std::uint32_t place) const {
    std::uint32_t item = place;
    do {
      item = mix(epoch, item);
    } while (item >= n_);
    return item;
  }

 private:
  // Four rounds already look random to any test that cannot choose its inputs; more are cheap.
  static constexpr std::uint64_t kRounds = 8;

  NRU_HOST_DEVICE std::uint32_t mix(std::uint64_t epoch, std::uint32_t value) const {
    const std::uint32_t mask = (std::uint32_t{1} << half_bits_) - 1;
    std::uint32_t left = value >> half_bits_, right = value & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint32_t next = left ^ (random_.block(epoch, round << 32 | right).v[0] & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  kernels::Philox random_;
  std::uint32_t n_;
  int half_bits_ = 1;
};

}  // namespace nru::tasks
