// The one list of run keys behind config.h: reading, writing and comparing all go through it.
#pragma once

#include "training/config.h"

namespace nru::training {

// A RunConfig with the values of `run`, which has every key of run_keys().
RunConfig from_run_keys(const OptionMap& run);

}  // namespace nru::training
