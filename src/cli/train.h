// `nru train` after its command line was read: apart from train.cpp, so that parsing needs no
// torch.
#pragma once

#include "training/config.h"

namespace nru::cli {

struct TrainArguments {
  training::ConfigSources sources;
  bool resume = false;
  bool json = false;   // result.json instead of the summary
  bool quiet = false;  // no progress, no summary
};

// Gives the exit code; throws nru::Diverged when the run did.
int train(const TrainArguments& arguments);

}  // namespace nru::cli
