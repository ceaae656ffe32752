// Which run to start next, how long it all takes, which cores a run gets: the arithmetic of the
// scheduler, apart from the processes so that it can be tested without any.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nru::experiments {

// What runs have in common that take alike per unit of cost (updates * steps * rows * parameters).
// Different cells do not: an EURNN of as many parameters is several times slower than an LSTM.
struct Kind {
  std::string task, cell;
};

// How fast runs are on this machine.
class Speeds {
 public:
  // Some run of the kind took so long for so much.
  void measured(const Kind& kind, double cost, double seconds);
  // Of the kind; else of its cell on any task; else of all together. Empty before any measurement.
  std::optional<double> seconds_per_cost(const Kind& kind) const;
  // The time for `cost`; empty while nothing is known.
  std::optional<double> seconds(const Kind& kind, double cost) const;

 private:
  struct Sum {
    double cost = 0, seconds = 0;
  };
  // By task and cell; "" stands for any.
  std::map<std::pair<std::string, std::string>, Sum> sums_;
};

// What is left of a run.
struct Work {
  Kind kind;
  double cost = 0;
};

// The index of the longest, the first of them on a tie. Longest first, so that no long run is left
// over when the other cores have nothing more to do. `queue` must not be empty.
std::size_t longest(const std::vector<Work>& queue, const Speeds& speeds);

// Seconds until all is done when `slots` runs go side by side, longest first: `running` and
// `queued` say what each still needs.
double time_left(std::vector<double> running, std::vector<double> queued, std::size_t slots);

// Shares the cores out among `jobs` runs: each core to one run, as evenly as it goes. With more
// runs than cores nobody is pinned: every run gets all of them.
std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, std::size_t jobs);

}  // namespace nru::experiments
