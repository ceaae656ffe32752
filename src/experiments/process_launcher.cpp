#include <map>

#include "experiments/launcher.h"

namespace nru::experiments {
namespace {

class ProcessLauncher : public Launcher {
 public:
  int start(const Launch& launch) override {
    children_.emplace(next_, Child(launch.arguments, launch.log, launch.cores));
    return next_++;
  }

  std::optional<Ended> ended(int command) override {
    const auto child = children_.find(command);
    const std::optional<Ended> end = child->second.ended();
    if (end) children_.erase(child);
    return end;
  }

  void stop(int signal) override {
    for (const auto& [command, child] : children_) child.signal(signal);
  }

 private:
  std::map<int, Child> children_;
  int next_ = 0;
};

}  // namespace

std::unique_ptr<Launcher> make_process_launcher() { return std::make_unique<ProcessLauncher>(); }

}  // namespace nru::experiments
