#include "kernels/cuda/sequence.h"

#include <cstring>

#include "kernels/cuda/check.h"
#include "kernels/cuda/sequence_state.h"

namespace nru::kernels::cuda {
namespace {

std::vector<int> padded_widths(const Program<float>& program) {
  std::vector<int> ld;
  for (const Part& part : program.parts) ld.push_back(padded_width(part.width));
  ld[kInput] = program.parts[kInput].width;  // read by cuBLAS alone, where the caller has it
  return ld;
}

void check_call(const SequenceInputs<float>& inputs) {
  if (inputs.steps < 1 || inputs.batch < 1) {
    throw std::invalid_argument("a sequence needs at least one step and one row");
  }
  if (inputs.embedding) throw std::invalid_argument("embeddings on a device: embedding.h");
}

}  // namespace

void check_factors(const Program<float>& program) {
  for (const auto& phase : program.phases) {
    const std::size_t factors = phase.segments.size() + (phase.bias >= 0 ? 1 : 0);
    if (factors <= OuterGroup::kMaxFactors) continue;
    throw std::logic_error("the phase of \"" + program.parts[phase.part].name +
                           "\" of the cell \"" + program.cell + "\" has " +
                           std::to_string(factors) + " weights and biases, more than the " +
                           std::to_string(OuterGroup::kMaxFactors) + " of an OuterGroup");
  }
}

bool supports(const Program<float>& program) { return has_cell(program.cell); }

Sequence::State::State(std::shared_ptr<const Program<float>> p, const SequenceOptions& o)
    : program(std::move(p)),
      cell(make_cell(*program)),
      options(o),
      stream(o.stream),
      gemm(o.stream, o.tf32),
      plan(plan_backward(*program)),
      ld(padded_widths(*program)),
      weights(*program, ld) {
  check_factors(*program);
  const std::size_t parts = program->parts.size();
  for (std::size_t i = 0; i < parts; ++i) {
    if (program->parts[i].kind == PartKind::state) states.push_back(static_cast<int>(i));
  }
  if (states.size() >= kMaxStates) {
    throw Error("the cell \"" + program->cell + "\" has " + std::to_string(states.size()) +
                " state parts, more than its CUDA kernels hold");
  }
  storage.resize(parts);
  current.resize(parts);
  previous.resize(parts);
  gradient.resize(parts);
  bulk.resize(parts);
  gradient_pointers.resize(parts);
  bulk_pointers.resize(parts);
  d_pre.resize(program->phases.size());
  row_sums.resize(program->parameters.size());
  row_sum_pointers.resize(program->parameters.size());
  loss.require(1);
  largest.require(parts);
  readout_ended.require(1);
}

SequenceResult Sequence::State::result() {
  std::vector<unsigned> bits(program->parts.size());
  std::vector<std::int64_t> of_rows(static_cast<std::size_t>(batch) * kEvents);
  SequenceResult r;
  download(loss.data(), sizeof r.loss, &r.loss, stream);
  download(events.data(), of_rows.size() * sizeof(std::int64_t), of_rows.data(), stream);
  download(largest.data(), bits.size() * sizeof(unsigned), bits.data(), stream);
  for (std::size_t i = 0; i < of_rows.size(); ++i) r.events[i % kEvents] += of_rows[i];
  for (std::size_t p = 0; measured && p < bits.size(); ++p) {
    float value;
    std::memcpy(&value, &bits[p], sizeof value);
    if (program->parts[p].kind == PartKind::state) r.max_abs.push_back(value);
    if (static_cast<int>(p) == program->output) r.max_output = value;
  }
  return r;
}

Sequence::Sequence(std::shared_ptr<const Program<float>> program, const SequenceOptions& options)
    : state_(std::make_unique<State>(std::move(program), options)) {}
Sequence::~Sequence() = default;
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;

void Sequence::forward(const SequenceInputs<float>& inputs, const SequenceOutputs<float>& outputs,
                       bool keep) {
  check_call(inputs);
  state_->forward({&inputs, &outputs, nullptr, nullptr}, keep, false);
}

void Sequence::backward(const SequenceInputs<float>& inputs,
                        const SequenceGradients<float>& gradients) {
  state_->backward({&inputs, nullptr, &gradients, nullptr});
}

void Sequence::train(const SequenceInputs<float>& inputs, const SequenceOutputs<float>& outputs,
                     const Readout<float>& readout, const SequenceGradients<float>& gradients) {
  check_call(inputs);
  const SequenceCall call{&inputs, &outputs, &gradients, &readout};
  state_->forward(call, true, true);
  state_->backward(call);
}

void Sequence::evaluate(const SequenceInputs<float>& inputs, const SequenceOutputs<float>& outputs,
                        const Readout<float>& readout) {
  check_call(inputs);
  state_->forward({&inputs, &outputs, nullptr, &readout}, false, true);
}

SequenceResult Sequence::result() { return state_->result(); }

DeviceResult Sequence::device_result() const {
  return {state_->loss.data(), state_->events.data(), state_->batch, state_->largest.data()};
}

std::size_t Sequence::stash_bytes() const {
  std::size_t bytes = 0;
  for (const auto& part : state_->storage) bytes += part.bytes();
  return bytes;
}

}  // namespace nru::kernels::cuda
