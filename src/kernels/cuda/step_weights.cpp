#include "kernels/cuda/step_weights.h"

#include <algorithm>

namespace nru::kernels::cuda {

StepWeights::StepWeights(const Program<float>& program, const std::vector<int>& ld)
    : program_(&program), ld_(ld) {
  forward_.resize(program.phases.size());
  backward_.resize(program.phases.size());
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    const auto& phase = program.phases[p];
    const int outputs = program.parts[phase.part].width;
    std::vector<int> written;  // parts whose gradients the newest backward launch writes
    for (std::size_t s = 0; phase.recurrent && s < phase.segments.size(); ++s) {
      const int part = phase.segments[s].part, segment = static_cast<int>(s);
      if (part == kInput) continue;
      if (forward_[p].empty() || forward_[p].back().segments.size() == kMaxProductSegments)
        forward_[p].emplace_back();
      StepProduct& f = forward_[p].back();
      f.segments.push_back(segment);
      f.rows = outputs;
      f.depth += ld[part];
      // Two segments of one part meet in one gradient: the second must find the first one's sum.
      if (backward_[p].empty() || std::count(written.begin(), written.end(), part) ||
          written.size() == kMaxProductSegments) {
        backward_[p].emplace_back();
        written.clear();
      }
      StepProduct& b = backward_[p].back();
      b.segments.push_back(segment);
      written.push_back(part);
      b.rows += program.parts[part].width;
      b.depth = ld[phase.part];
    }
  }
}

void StepWeights::add_blocks(const float* const* parameters, int phase_index,
                             const StepProduct& product, bool transposed,
                             std::vector<PackBlock>* blocks) const {
  const auto& phase = program_->phases[phase_index];
  const int outputs = program_->parts[phase.part].width;
  float* to = product.weights.data();
  for (int index : product.segments) {
    const Segment& s = phase.segments[index];
    const int width = program_->parts[s.part].width;
    const int columns = program_->parameters[s.parameter].columns;
    const float* from =
        parameters[s.parameter] + static_cast<std::size_t>(s.row) * columns + s.column;
    if (transposed) {
      blocks->push_back({from, 1, columns, width, outputs, to, product.depth});
      to += static_cast<std::size_t>(width) * product.depth;
    } else {
      blocks->push_back({from, columns, 1, outputs, width, to, product.depth});
      to += ld_[s.part];
    }
  }
}

void StepWeights::pack(const float* const* parameters, bool backward, cudaStream_t stream) {
  std::vector<PackBlock> blocks;
  for (std::size_t p = 0; p < program_->phases.size(); ++p) {
    const int phase = static_cast<int>(p);
    for (StepProduct& product : forward_[p]) {
      product.weights.require(static_cast<std::size_t>(product.rows) * product.depth);
      add_blocks(parameters, phase, product, false, &blocks);
    }
    for (StepProduct& product : backward_[p]) {
      if (!backward) continue;
      product.weights.require(static_cast<std::size_t>(product.rows) * product.depth);
      add_blocks(parameters, phase, product, true, &blocks);
    }
  }
  pack_blocks(blocks, stream);
}

}  // namespace nru::kernels::cuda
