#include "experiments/schedule.h"

#include <algorithm>
#include <array>
#include <functional>

namespace nru::experiments {

namespace {

// Where a kind's measurements are counted, the closest to it first.
std::array<std::pair<std::string, std::string>, 3> places(const Kind& kind) {
  return {{{kind.task, kind.cell}, {"", kind.cell}, {"", ""}}};
}

}  // namespace

void Speeds::measured(const Kind& kind, double cost, double seconds) {
  if (cost <= 0 || seconds <= 0) return;
  for (const auto& place : places(kind)) {
    sums_[place].cost += cost;
    sums_[place].seconds += seconds;
  }
}

std::optional<double> Speeds::seconds_per_cost(const Kind& kind) const {
  for (const auto& place : places(kind)) {
    if (const auto found = sums_.find(place); found != sums_.end())
      return found->second.seconds / found->second.cost;
  }
  return std::nullopt;
}

std::optional<double> Speeds::seconds(const Kind& kind, double cost) const {
  const auto per_cost = seconds_per_cost(kind);
  return per_cost ? std::optional(*per_cost * cost) : std::nullopt;
}

std::size_t longest(const std::vector<Work>& queue, const Speeds& speeds) {
  const auto length = [&](const Work& work) {
    return speeds.seconds(work.kind, work.cost).value_or(work.cost);
  };
  const auto found =
      std::max_element(queue.begin(), queue.end(),
                       [&](const Work& a, const Work& b) { return length(a) < length(b); });
  return static_cast<std::size_t>(found - queue.begin());
}

double time_left(std::vector<double> running, std::vector<double> queued, std::size_t slots) {
  std::vector<double> ends = std::move(running);  // when each slot is free
  ends.resize(std::max({slots, ends.size(), std::size_t{1}}), 0.0);
  std::sort(queued.begin(), queued.end(), std::greater<>());
  for (const double seconds : queued) *std::min_element(ends.begin(), ends.end()) += seconds;
  return *std::max_element(ends.begin(), ends.end());
}

std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, std::size_t jobs) {
  if (jobs > cores.size()) return std::vector(jobs, cores);
  std::vector<std::vector<int>> shares(jobs);
  for (std::size_t job = 0; job < jobs; ++job) {
    const std::size_t first = job * cores.size() / jobs, last = (job + 1) * cores.size() / jobs;
    shares[job].assign(cores.begin() + static_cast<std::ptrdiff_t>(first),
                       cores.begin() + static_cast<std::ptrdiff_t>(last));
  }
  return shares;
}

}  // namespace nru::experiments
