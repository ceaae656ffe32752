// When a run has exploded, and what to do about it: option `recover`.
//
// An exploding network does not come back by itself. Where gradients overflow, updates are skipped,
// the weights stay as they are and the next batch explodes as the last one did. Where they are
// still finite they have grown through so many steps that their direction is noise, and clipping
// leaves them many times larger than a healthy gradient: a single bad batch spoils good weights. So
// updates with a loss out of all proportion are skipped, and where that does not help the run goes
// back to weights that were good.
//
// Losses are judged against that of a guess, log(classes), in windows of 100 updates:
// - A window is bad if many of its updates were skipped, or if it is above a guess after there was
//   one below: back to the weights kept, at half the learning rate.
// - After any other the weights it began with are kept if no window was better, or better by little
//   only, so that a plateau keeps its newest. (Not those it ended with: they may be about to
//   explode. Nor those of a window below a guess that had losses above two.) Whenever weights are
//   kept, and after five such windows in a row, the learning rate doubles again.
// - Losses of a million guesses are skipped; of two, once a window was below one.
// - A loss above a hundred guesses is not worth keeping. Where nothing is kept yet, a run starts
//   anew from smaller initial weights instead of going back.
// As long as no loss is that bad, nothing changes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/optimizer.h"

namespace nru::training {

class Recovery {
 public:
  static constexpr int window = 100;        // updates
  static constexpr int most_skipped = 50;   // of a window; more: it is bad
  static constexpr int most_in_a_row = 20;  // of them in a row; so many: it is bad
  static constexpr double skip_above = 2;   // guesses, once a window was below one; before that:
  static constexpr double out_of_bounds = 1e6;  // guesses
  static constexpr double keep_below = 100;     // guesses
  static constexpr double keep_within = 1.1;    // of the best window
  static constexpr double shrink = 0.8;         // initial weights, each time
  static constexpr int most_halvings = 10;      // of the learning rate
  static constexpr int calm_enough = 5;         // windows in a row that undo one
  static constexpr int most_failures = 20;      // recoveries in a row

  enum class Verdict {
    go_on,
    keep,        // the weights that the window began with are good
    go_back,     // to those kept
    start_anew,  // from initial weights, times `shrink` once more
    give_up,
  };

  explicit Recovery(double guess) : guess_(guess) {}

  // An update: its loss, or none where it was skipped.
  void add(std::optional<double> loss);
  // After every `window` updates; begins the next window.
  Verdict judge();

  kernels::Caution caution() const;                        // of the updates to come
  std::int64_t recoveries() const { return recoveries_; }  // so far
  double last_mean() const { return mean_; }               // of the window that was judged last

  // For the checkpoint.
  std::vector<double> state() const;
  // Throws nru::Error when the numbers cannot come from state().
  void restore(std::span<const double> state);

  bool operator==(const Recovery&) const = default;

 private:
  bool learned() const;  // a window was below a guess
  Verdict recover();

  double guess_;
  double sum_ = 0, worst_ = 0, applied_ = 0, skipped_ = 0;  // of the window in hand
  double in_row_ = 0, longest_row_ = 0;
  double mean_ = 0;
  std::optional<double> best_;  // of the windows whose weights were kept
  std::int64_t halvings_ = 0;
  std::int64_t calm_in_row_ = 0;  // windows that were neither bad nor kept
  std::int64_t failures_ = 0, recoveries_ = 0;
};

}  // namespace nru::training
