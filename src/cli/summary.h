// What a run came to, in a few lines for people.
#pragma once

#include <optional>
#include <string>

#include "support/terminal.h"
#include "training/config.h"
#include "training/result.h"
#include "training/run_directory.h"

namespace nru::cli {

// "nru copy-100": what a run is, in short.
std::string run_label(const training::RunConfig& config);

// "loss 0.0123 (6.84 % of the baseline), accuracy 97.50 %": what is known of it.
std::string metrics_text(const training::Metrics& metrics, std::optional<double> baseline);

// The lines printed at the end of a run.
std::string summary(const training::RunConfig& config, const training::Result& result,
                    const TerminalStyle& style);

// The loss over the run as a curve in characters, from its metrics.csv; empty when there is nothing
// to draw.
std::string loss_curve(const training::RunPaths& paths, const training::Result& result,
                       const TerminalStyle& style);

// The command that goes on with the run.
std::string resume_command(const std::string& directory);

}  // namespace nru::cli
