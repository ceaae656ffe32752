#include "experiments/cores.h"

namespace nru::experiments {
namespace {

constexpr int kMostCores = 8192;

std::size_t set_bytes() { return CPU_ALLOC_SIZE(kMostCores); }

}  // namespace

CoreSet::CoreSet(const std::vector<int>& cores) {
  if (cores.empty()) return;
  set_.reset(CPU_ALLOC(kMostCores));
  CPU_ZERO_S(set_bytes(), set_.get());
  for (const int core : cores) CPU_SET_S(static_cast<std::size_t>(core), set_bytes(), set_.get());
}

void CoreSet::pin_this_thread() const {
  if (set_) ::sched_setaffinity(0, set_bytes(), set_.get());
}

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t* set = CPU_ALLOC(kMostCores);
  if (::sched_getaffinity(0, set_bytes(), set) == 0) {
    for (int core = 0; core < kMostCores; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), set_bytes(), set)) cores.push_back(core);
    }
  }
  CPU_FREE(set);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

}  // namespace nru::experiments
