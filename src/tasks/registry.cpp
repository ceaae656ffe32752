// The table behind registry.h.
#include "tasks/registry.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <string>
#include <utility>

#include "support/suggest.h"

namespace nru::tasks {
namespace {

// A function's static: exists before the first registrar of any file needs it.
std::vector<TaskInfo>& table() {
  static std::vector<TaskInfo> all;
  return all;
}

}  // namespace

const std::vector<TaskInfo>& tasks() { return table(); }

const TaskInfo& find_task(std::string_view name) {
  std::vector<std::string> names;
  for (const TaskInfo& info : table()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  throw Error(fmt::format("unknown task '{}'{}", name, did_you_mean(name, names)));
}

Registrar::Registrar(TaskInfo info) {
  // Kept in order here, because the order in which files register is up to the linker.
  const auto by_name = [](const TaskInfo& a, const TaskInfo& b) { return a.name < b.name; };
  const auto at = std::upper_bound(table().begin(), table().end(), info, by_name);
  table().insert(at, std::move(info));
}

}  // namespace nru::tasks
