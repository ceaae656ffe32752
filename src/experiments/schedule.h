// Which run to start next, how long it all takes, which cores a run gets: the arithmetic of the
// scheduler, apart from the processes so that it can be tested without any.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nru::experiments {

// How fast runs are on this machine. The cost of a run is updates * steps * rows * parameters; runs
// of one kind ("copy/nru") take alike per unit of cost, different kinds do not (an EURNN of as many
// parameters is several times slower than an LSTM).
class Speeds {
 public:
  // Some run of the kind took so long for so much.
  void measured(const std::string& kind, double cost, double seconds);
  // Of the kind, or of all kinds together where it was not measured; empty before any measurement.
  std::optional<double> seconds_per_cost(const std::string& kind) const;
  // The time for `cost`; empty while nothing is known.
  std::optional<double> seconds(const std::string& kind, double cost) const;

 private:
  struct Sum {
    double cost = 0, seconds = 0;
  };
  std::map<std::string, Sum> by_kind_;
  Sum all_;
};

// What is left of a run.
struct Work {
  std::string kind;
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
