// Loss and gradients of a batch: what training asks of a backend.
//
// The fused engine drives the sequence kernels with the output layer folded in; the reference
// engine goes through the layer in torch operations and autograd; the CUDA engine does on a device
// what the fused one does. All leave the gradients in the flat buffer, so the rest of training does
// not know which one runs.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/model.h"
#include "kernels/sequence.h"
#include "tasks/task.h"
#include "training/flat_parameters.h"

namespace nru::training {

struct StepOutcome {
  double loss = 0;
  std::optional<double> max_hidden;  // largest |h| over all steps
  std::optional<double> max_memory;  // largest |state that is not the output|: m, c, mu
  std::int64_t overflows = 0;        // writes that the NRU dropped because they were not finite
};

// The state behind a batch, which the next one may start from: by state part, [B, width]. Empty, or
// an empty part: zero.
using CarriedState = std::vector<std::vector<float>>;

class Optimizer;
class Updater;

class Engine {
 public:
  explicit Engine(const Model& model);
  virtual ~Engine();

  // Fills the flat gradients.
  StepOutcome compute_gradients(const tasks::Batch& batch);
  // predictions, if not null, becomes [T,B]: the most likely class from batch.loss_from on.
  // Evaluation carries a state of its own from batch to batch and leaves that of training alone.
  StepOutcome evaluate(const tasks::Batch& batch, std::vector<std::int32_t>* predictions);

  // Makes the updates of a run with this engine. All arguments must outlive it.
  virtual std::unique_ptr<Updater> make_updater(const tasks::Task& task, FlatParameters& parameters,
                                                Optimizer& optimizer);

  // What it runs on, for people: "cpu (AVX3)", "cuda (NVIDIA H200)".
  virtual std::string device() const;

  // What the next training batch would carry on from.
  const CarriedState& carried() const { return training_; }
  void set_carried(CarriedState state) { training_ = std::move(state); }
  // A row of the carried state with a larger magnitude anywhere, or a number that is not finite,
  // begins anew: it would spoil every later batch.
  float state_limit() const { return state_limit_; }
  void set_state_limit(float limit) { state_limit_ = limit; }
  // RunConfig::clip_state.
  void set_clip_state(double limit) { clip_state_ = limit; }
  // SequenceGradients::state_limit for a batch of so many rows, whose loss is the mean of theirs.
  double row_limit(int rows) const { return clip_state_ / rows; }
  // What evaluate() would start this batch from.
  CarriedState evaluation_start(const tasks::Batch& batch) const {
    return start(batch, evaluation_);
  }
  // By state part: whether it is also the output, h.
  const std::vector<bool>& is_output() const { return is_output_; }

 protected:
  // One batch, from the state `initial`; `final` becomes the state behind it.
  virtual StepOutcome train(const tasks::Batch& batch, const CarriedState& initial,
                            CarriedState& final) = 0;
  virtual StepOutcome predict(const tasks::Batch& batch, const CarriedState& initial,
                              CarriedState& final, std::vector<std::int32_t>* predictions) = 0;

  // What the sequence kernels report, in the words of training.
  StepOutcome outcome(const kernels::SequenceResult& result) const;

 private:
  CarriedState start(const tasks::Batch& batch, const CarriedState& carried) const;
  void mend(CarriedState& state, int rows) const;

  std::vector<bool> is_output_;
  std::vector<float> initial_;  // by state part: where it begins
  float state_limit_ = std::numeric_limits<float>::max();
  double clip_state_ = 0;
  CarriedState training_, evaluation_, next_;
};

enum class EngineKind { fused, reference };

// threads 0: all cores. The model's parameters must live in `parameters`. (CUDA: cuda_engine.h)
std::unique_ptr<Engine> make_fused_engine(Model model, FlatParameters& parameters, int threads);
std::unique_ptr<Engine> make_reference_engine(Model model, FlatParameters& parameters, int threads);
std::unique_ptr<Engine> make_engine(EngineKind kind, Model model, FlatParameters& parameters,
                                    int threads);

}  // namespace nru::training
