// The one list of run keys behind config.h: reading, writing and comparing all go through it.
#pragma once

#include <string_view>

#include "training/config.h"

namespace nru::training {

// In front of the options of the cell and of the task.
inline constexpr std::string_view kCellPrefix = "cell.";
inline constexpr std::string_view kTaskPrefix = "task_options.";

// A RunConfig with the values of `run`, which has every key of run_keys().
RunConfig from_run_keys(const OptionMap& run);

}  // namespace nru::training
