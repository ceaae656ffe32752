// The rules of the synthetic tasks: what stands at each position of each row, as functions that run
// on the host and on a device alike, so that a batch has one definition. C++17, and knows nothing
// but the generator: nvcc reads this file too.
//
// A rule has
//   Row                           what is drawn once for a row
//   row(index, row)               draws it
//   at(index, row, drawn, step)   what stands at a position
// Numbers other than symbols are drawn from elements that no symbol reaches, so that a row's
// numbers do not depend on how many rows there are.
#pragma once

#include <cstdint>

#include "kernels/philox.h"

namespace nru::tasks {

// What they share: ten symbols to remember, and a marker that asks for them.
struct RecallRule {
  static constexpr int kRecall = 10;  // symbols to remember
  static constexpr int kSymbols = 8;  // different ones
  static constexpr int kBlank = 0;
  static constexpr int kMarker = kSymbols + 1;

  struct Position {
    int symbol;
    int target;
    float weight;  // read only where the batch has weights
  };

  kernels::Philox random;

  // Symbol i of a row: 1..8.
  NRU_HOST_DEVICE int symbol(std::uint64_t index, int row, int i) const {
    return 1 + static_cast<int>(random.below(kSymbols, index, element(0, row, kRecall, i)));
  }
  // The symbols one after the other from step `begin` on, blanks around them.
  NRU_HOST_DEVICE int symbols_from(std::uint64_t index, int row, int begin, int step) const {
    const int i = step - begin;
    return i >= 0 && i < kRecall ? symbol(index, row, i) : kBlank;
  }
  // The input of copying memory: symbols, and the marker `lag` steps after the last.
  NRU_HOST_DEVICE int shown(std::uint64_t index, int row, int lag, int step) const {
    return step == lag + kRecall - 1 ? kMarker : symbols_from(index, row, 0, step);
  }

  static constexpr std::uint64_t kLags = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kPlaces = std::uint64_t{2} << 40;
  static constexpr std::uint64_t kLabels = std::uint64_t{3} << 40;

  // Number i of a row that has `count` of them.
  NRU_HOST_DEVICE static constexpr std::uint64_t element(std::uint64_t first, int row, int count,
                                                         int i) {
    return first + static_cast<std::uint64_t>(row) * count + i;
  }
};

struct CopyRule : RecallRule {
  enum class Labels { recall, random, random_all };
  struct Row {
    int lag;
  };

  int lag;
  Labels labels;
  // The first batches may have another lag.
  int first_lag;
  std::uint64_t first_updates;

  NRU_HOST_DEVICE static constexpr int steps(int lag) { return lag + 2 * kRecall; }
  NRU_HOST_DEVICE bool is_first(std::uint64_t index) const { return index < first_updates; }
  NRU_HOST_DEVICE Row row(std::uint64_t index, int) const {
    return {is_first(index) ? first_lag : lag};
  }
  NRU_HOST_DEVICE Position at(std::uint64_t index, int row, const Row& drawn, int step) const {
    return {shown(index, row, drawn.lag, step), target(index, row, drawn.lag, step), 1.0f};
  }

 private:
  NRU_HOST_DEVICE int target(std::uint64_t index, int row, int lag, int step) const {
    const int asked = lag + kRecall;
    if (labels == Labels::recall) return symbols_from(index, row, asked, step);
    if (labels == Labels::random && step < asked) return kBlank;
    const int least = labels == Labels::random ? 1 : 0;
    const std::uint64_t drawn = element(kLabels, row, steps(lag), step);
    return least + static_cast<int>(random.below(kSymbols + 1 - least, index, drawn));
  }
};

struct CopyVariableRule : RecallRule {
  struct Row {
    int lag;
  };

  int least_lag, most_lag;
  bool per_row;

  NRU_HOST_DEVICE Row row(std::uint64_t index, int row) const {
    const auto lags = static_cast<std::uint32_t>(most_lag - least_lag + 1);
    const std::uint64_t drawn = element(kLags, per_row ? row : 0, 1, 0);
    return {least_lag + static_cast<int>(random.below(lags, index, drawn))};
  }
  NRU_HOST_DEVICE Position at(std::uint64_t index, int row, const Row& drawn, int step) const {
    return {shown(index, row, drawn.lag, step), symbols_from(index, row, drawn.lag + kRecall, step),
            step < CopyRule::steps(drawn.lag) ? weight(drawn.lag) : 0.0f};
  }
  // Of each position of a row, so that every row counts alike.
  NRU_HOST_DEVICE static float weight(int lag) {
    return 1.0f / static_cast<float>(CopyRule::steps(lag));
  }
};

struct DenoiseRule : RecallRule {
  struct Row {
    int places[kRecall];  // of the symbols: different steps of 0..lag-1, in no order
  };

  int lag;

  NRU_HOST_DEVICE static constexpr int steps(int lag) { return lag + 1 + kRecall; }
  // Every choice of places is equally likely. Floyd's way: one draw each, no rejection; a step
  // drawn twice is replaced by the largest one allowed so far.
  NRU_HOST_DEVICE Row row(std::uint64_t index, int row) const {
    Row drawn{};
    for (int i = 0; i < kRecall; ++i) {
      const int last = lag - kRecall + i;
      int place = static_cast<int>(random.below(static_cast<std::uint32_t>(last + 1), index,
                                                element(kPlaces, row, kRecall, i)));
      for (int other = 0; other < i; ++other) {
        if (drawn.places[other] == place) place = last;
      }
      drawn.places[i] = place;
    }
    return drawn;
  }
  NRU_HOST_DEVICE Position at(std::uint64_t index, int row, const Row& drawn, int step) const {
    return {input(index, row, drawn, step), symbols_from(index, row, lag + 1, step), 1.0f};
  }

 private:
  NRU_HOST_DEVICE int input(std::uint64_t index, int row, const Row& drawn, int step) const {
    if (step == lag) return kMarker;
    int before = 0;
    bool here = false;
    for (const int place : drawn.places) {
      before += place < step;
      here = here || place == step;
    }
    return here ? symbol(index, row, before) : kBlank;
  }
};

}  // namespace nru::tasks
