// What `nru bench` times, whatever the device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cells/model.h"
#include "cells/registry.h"
#include "tasks/task.h"
#include "training/benchmark.h"

namespace nru::training {

// The functions return when their work is done, on the GPU too.
struct Contender {
  BenchRow row;
  double flop = 0;                  // of an update
  double bytes = 0;                 // that it must move
  std::function<void()> update;     // a whole training update, on the same batch each time
  std::function<void()> forward;    // parts of it, where they can be told apart: the forward pass,
  std::function<void()> gradients;  // and all up to the gradients
  std::vector<double> seconds;      // of the updates
};

tasks::Batch random_batch(const Workload& w);

// What `nru bench` makes of a cell for a task: its sizes in the paper.
ModelSettings model_settings(const Workload& w, const CellInfo& cell);

struct MultipliedWeights {
  double layer = 0;     // all that multiply at every step
  double of_input = 0;  // those of them that multiply x
  double output = 0;
};
// 2 FLOP per weight and row forward, 4 backward; the output layer only where there is a loss. What
// x is multiplied by counts once per row of an embedding: no more than that is needed.
double update_flop(const Workload& w, const MultipliedWeights& weights);
MultipliedWeights multiplied_weights(const Workload& w, const CellInfo& cell, const Model& model);

// Parameters with their gradient and Adam's two moments, each read and written; the input read;
// every state written once and read once. `states`: their width, all together.
double update_bytes(const Workload& w, double parameters, double states);

// What the backends of a bench are compared at, whichever take part: the NRU's number of parameters
// if it is among the cells (none named: all are), else that of the last.
std::int64_t equal_parameters(const Workload& w, const std::vector<std::string>& cell_names);

// The hidden size of torch's own layer whose network, output layer included, comes nearest to that
// many parameters; `gates` is 4 for an LSTM.
std::int64_t equal_hidden_size(const Workload& w, int gates, std::int64_t parameters);
std::int64_t torch_parameters(const Workload& w, int gates, std::int64_t hidden);
MultipliedWeights torch_weights(const Workload& w, int gates, std::int64_t hidden);

bool wanted(const std::vector<std::string>& names, const std::string& name);

// Contenders take turns. One that has had its seconds (and at least three updates) rests.
void take_turns(std::vector<Contender>& contenders, double seconds);

// Seconds of `work`: the median of at least three runs and about `seconds`.
double median_seconds(const std::function<void()>& work, double seconds);

// Median, best and number of updates go into the row; peak in FLOP/s.
void finish_row(Contender& contender, double peak);

}  // namespace nru::training
