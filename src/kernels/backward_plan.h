// What a backward pass can know from the program alone: which gradients arrive for many steps at
// once, and which products add to a gradient instead of overwriting it. Shared by all devices.
#pragma once

#include <vector>

#include "kernels/program.h"

namespace nru::kernels {

struct BackwardPlan {
  // By part: a gradient of all steps arrives in bulk, as that of the output does, or that of a part
  // which a phase off the recurrent path reads.
  std::vector<char> has_bulk;
  std::vector<char> joins_path;  // by part: and it is added in the time loop
  // By phase and segment: the product adds to what is there. It overwrites unless something has
  // written the gradient before it.
  std::vector<std::vector<char>> accumulate;
  bool off_path = false;  // the program has phases off the recurrent path
};

template <class T>
BackwardPlan plan_backward(const Program<T>& program) {
  const std::size_t parts = program.parts.size(), phases = program.phases.size();
  BackwardPlan plan;
  plan.has_bulk.assign(parts, 0);
  plan.has_bulk[program.output] = 1;
  for (const Phase<T>& phase : program.phases) {
    plan.off_path |= !phase.recurrent;
    for (const Segment& s : phase.segments) plan.has_bulk[s.part] |= !phase.recurrent;
  }
  plan.has_bulk[kInput] = 0;
  plan.joins_path = plan.has_bulk;
  for (const Phase<T>& phase : program.phases) plan.joins_path[phase.part] &= phase.recurrent;

  std::vector<char> bulk_written(parts), previous_written(parts), current_written(parts);
  bulk_written[program.output] = 1;
  for (std::size_t p = 0; p < parts; ++p) {
    previous_written[p] = program.parts[p].carries;
    current_written[p] = program.parts[p].kind == PartKind::state || plan.has_bulk[p];
  }
  plan.accumulate.resize(phases);
  for (std::size_t p = phases; p-- > 0;) {  // in the order of the backward pass
    const Phase<T>& phase = program.phases[p];
    for (const Segment& s : phase.segments) {
      char& written = !phase.recurrent ? bulk_written[s.part]
                      : s.previous     ? previous_written[s.part]
                                       : current_written[s.part];
      plan.accumulate[p].push_back(written);
      written = 1;
    }
  }
  return plan;
}

}  // namespace nru::kernels
