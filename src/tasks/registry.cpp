// The table behind registry.h.
#include "tasks/registry.h"

#include <utility>

#include "support/table.h"

namespace nru::tasks {
namespace {

// A function's static: exists before the first registrar of any file needs it.
Table<TaskInfo>& table() {
  static Table<TaskInfo> all("task");
  return all;
}

}  // namespace

const std::vector<TaskInfo>& tasks() { return table().rows(); }

const TaskInfo& find_task(std::string_view name) { return table().find(name); }

Registrar::Registrar(TaskInfo info) { table().add(std::move(info)); }

}  // namespace nru::tasks
