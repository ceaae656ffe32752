// The processor cores that a process or a thread may use.
#pragma once

#include <sched.h>

#include <memory>
#include <vector>

namespace nru::experiments {

// The cores this thread may use.
std::vector<int> allowed_cores();

// Some cores as the system wants them, of any number: a fixed cpu_set_t ends at 1024.
class CoreSet {
 public:
  explicit CoreSet(const std::vector<int>& cores);  // none: no restriction
  // From now on this thread, and what it starts, uses these cores only. Best effort: nothing but
  // speed depends on it. A system call and no more, so it may follow a fork.
  void pin_this_thread() const;

 private:
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  std::unique_ptr<cpu_set_t, Free> set_;
};

}  // namespace nru::experiments
