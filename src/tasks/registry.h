// The one table of tasks. Each task's file registers itself, so adding a task adds one file and
// edits none.
#pragma once

#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace nru::tasks {

// All tasks, sorted by name.
const std::vector<TaskInfo>& tasks();

// Throws nru::Error with the nearest name when there is no such task.
const TaskInfo& find_task(std::string_view name);

// A task's file holds one: `const Registrar registrar(TaskInfo{...});` in an unnamed namespace. The
// files are linked as objects, not through a static library that would drop them.
class Registrar {
 public:
  explicit Registrar(TaskInfo info);
};

}  // namespace nru::tasks
