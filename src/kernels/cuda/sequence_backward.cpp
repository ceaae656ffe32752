// Backward half of the time loop on the device.
//
// Inside the loop only what the recurrence needs is done: pointwise backward and the products that
// reach the previous step. The pre-activation gradients of all steps are kept, and the weight
// gradients follow as large products after the loop.
#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/sequence_state.h"

namespace nru::kernels::cuda {

void Sequence::State::begin_backward(const SequenceCall& call) {
  const std::size_t steps = call.inputs->steps, batch = call.inputs->batch;
  const auto clear = [&](Buffer<float>& buffer, std::size_t count) {
    float* data = buffer.require(count);
    if (count > 0) {
      check(cudaMemsetAsync(data, 0, count * sizeof(float), stream), "clearing gradients");
    }
    return data;
  };
  for (std::size_t p = 1; p < program->parts.size(); ++p) {
    // Whole-sequence kernels write what they leave behind, and read nothing.
    gradient_pointers[p] =
        path.kernels ? gradient[p].require(batch * ld[p]) : clear(gradient[p], batch * ld[p]);
    if (plan.has_bulk[p]) bulk_pointers[p] = bulk[p].require(steps * batch * ld[p]);
  }
  for (std::size_t p = 0; p < program->phases.size(); ++p) {
    d_pre[p].require(steps * batch * ld[program->phases[p].part]);
  }
  for (int p : cell.row_sums)
    row_sum_pointers[p] = clear(row_sums[p], batch * program->parameters[p].size());
}

// Fills the bulk gradient of the output, and returns the first step that has one.
int Sequence::State::load_output_gradient(const SequenceCall& call) {
  const SequenceInputs<float>& inputs = *call.inputs;
  const int output = program->output;
  if (call.readout) {
    const int first = std::clamp(call.readout->first_step, 0, inputs.steps);
    readout_gradient(call, first);
    return first;
  }
  if (!call.gradients->output) return inputs.steps;
  copy_steps_in({0, inputs.steps, inputs.batch, inputs.lengths}, call.gradients->output,
                width(output), bulk[output].data(), ld[output], stream);
  return 0;
}

// From the gradients of the logits to those of the layer's output.
void Sequence::State::readout_gradient(const SequenceCall& call, int first) {
  const int batch = call.inputs->batch, output = program->output, classes = call.readout->classes;
  const int rows = (call.inputs->steps - first) * batch, H = width(output);
  if (rows == 0 || output_gradient_done) return;
  gemm.nn(rows, H, classes, {logits.data(), classes}, {call.readout->weight, H}, false,
          bulk[output].data() + static_cast<std::size_t>(first) * batch * ld[output], ld[output]);
}

void Sequence::State::add_columns(const float* from, int from_ld, int columns, long long rows,
                                  float* to) {
  column_sums(from, from_ld, columns, rows,
              sums_scratch.require(column_sums_scratch(columns, rows)), to, stream);
}

// Phases off the recurrent path, from bulk gradients to bulk gradients. Steps before `first` have
// none.
void Sequence::State::backward_bulk_phases(const SequenceCall& call, int first) {
  const int batch = call.inputs->batch;
  const long long count = static_cast<long long>(call.inputs->steps - first) * batch;
  if (count == 0) return;
  std::vector<float*> from_first = bulk_pointers;
  for (std::size_t p = 0; p < from_first.size(); ++p) {
    if (from_first[p]) from_first[p] += static_cast<std::size_t>(first) * batch * ld[p];
  }
  for (int p = static_cast<int>(program->phases.size()); p-- > 0;) {
    const auto& phase = program->phases[p];
    if (phase.recurrent) continue;
    Rows<float> rows = rows_at(call, first, count);
    rows.gradient = from_first.data();
    rows.d_pre = d_pre[p].data() + static_cast<std::size_t>(first) * batch * ld[phase.part];
    if (cell.phases[p].backward) {
      cell.phases[p].backward(rows, stream);
    } else {
      copy_rows(from_first[phase.part], ld[phase.part], rows.d_pre, ld[phase.part],
                width(phase.part), count, stream);
    }
    for (std::size_t s = 0; s < phase.segments.size(); ++s) {
      const Segment& segment = phase.segments[s];
      if (segment.part == kInput) continue;
      gemm.nn(static_cast<int>(count), width(segment.part), width(phase.part),
              {rows.d_pre, ld[phase.part]}, weight_block(call, segment), plan.accumulate[p][s],
              from_first[segment.part], ld[segment.part]);
    }
  }
}

// Brings in what arrives at this step. Where nothing does, the gradients are as the step after this
// one left them, and there is nothing to launch.
void Sequence::State::enter(const SequenceCall& call, int step, int bulk_first) {
  const SequenceInputs<float>& inputs = *call.inputs;
  const bool all = step == inputs.steps - 1 || inputs.lengths;
  const bool arrives = step >= bulk_first;
  EnteringParts parts;
  for (int p = 1; p < static_cast<int>(program->parts.size()); ++p) {
    const bool state = program->parts[p].kind == PartKind::state, joins = plan.joins_path[p];
    // A part that is no state keeps nothing of a later step's gradient.
    if (!(joins ? all || arrives || !state : all && state)) continue;
    if (parts.count == kMaxStates) throw Error("too many parts join the recurrent path");
    EnteringPart& part = parts.part[parts.count++];
    part.gradient = gradient_pointers[p];
    if (joins && arrives)
      part.bulk = bulk[p].data() + static_cast<std::size_t>(step) * inputs.batch * ld[p];
    const auto index = std::find(states.begin(), states.end(), p);
    if (state && call.gradients->final_state)
      part.final = call.gradients->final_state[index - states.begin()];
    part.ld = ld[p];
    part.width = width(p);
    part.keep = state;
  }
  if (parts.count > 0) enter_step(parts, step, inputs.steps, inputs.batch, inputs.lengths, stream);
}

// Whether the backward product of the phase after this one also does this one's pointwise function:
// if that is a plain activation, and its gradient is complete with that product. The gradient
// itself is then not stored: nobody else reads it.
bool Sequence::State::finishes_backward(int index, int batch) const {
  const auto& phase = program->phases[index];
  const std::size_t next = index + 1;
  if (cell.phases[index].finish == Finish::none || program->parts[phase.part].carries ||
      next >= program->phases.size() || !program->phases[next].recurrent)
    return false;
  const auto& products = weights.backward(static_cast<int>(next));
  if (products.size() != 1 || !in_tiles(products[0], batch)) return false;
  for (int s : products[0].segments) {
    const Segment& segment = program->phases[next].segments[s];
    if (segment.part == phase.part) return !segment.previous;
  }
  return false;
}

void Sequence::State::backward_phase(const SequenceCall& call, int index, int step) {
  const auto& phase = program->phases[index];
  const int batch = call.inputs->batch;
  Rows<float> rows = rows_at(call, step, batch);
  rows.gradient = gradient_pointers.data();
  rows.d_pre = d_pre[index].data() + static_cast<std::size_t>(step) * batch * ld[phase.part];
  rows.parameter_gradients = row_sum_pointers.data();
  if (finishes_backward(index, batch)) {
    // d_pre is there.
  } else if (cell.phases[index].backward) {
    cell.phases[index].backward(rows, stream);
  } else {
    copy_rows(gradient_pointers[phase.part], ld[phase.part], rows.d_pre, ld[phase.part],
              width(phase.part), batch, stream);
  }
  const bool finishes = index > 0 && finishes_backward(index - 1, batch);
  for (const StepProduct& product : weights.backward(index)) {
    Product operands;
    operands.rows = batch;
    operands.inputs = 1;
    operands.input[0] = {rows.d_pre, ld[phase.part]};
    for (int s : product.segments) {
      const int part = phase.segments[s].part;
      ProductOutput& out = operands.output[operands.outputs++];
      out = {gradient_pointers[part], ld[part], width(part), plan.accumulate[index][s]};
      if (finishes && part == program->phases[index - 1].part) {
        out.finish = cell.phases[index - 1].finish == Finish::relu ? Finish::relu_backward
                                                                   : Finish::tanh_backward;
        out.h = current[part];
        out.d_pre = d_pre[index - 1].data() + static_cast<std::size_t>(step) * batch * ld[part];
      }
    }
    step_product(product, operands);
  }
}

// SequenceGradients::state_limit, for the state before the step in hand.
void Sequence::State::limit_state_gradient(const SequenceCall& call) {
  const double limit = call.gradients->state_limit;
  if (!(limit > 0)) return;
  LimitedParts parts;
  if (states.size() > kMaxStates) throw Error("too many state parts to limit their gradient");
  for (int p : states) parts.part[parts.count++] = {gradient_pointers[p], ld[p], width(p)};
  limit_rows(parts, call.inputs->batch, limit, stream);
}

// The recurrence over all steps, on the path of the forward pass.
void Sequence::State::backward_steps(const SequenceCall& call, int bulk_first) {
  const SequenceInputs<float>& inputs = *call.inputs;
  if (!path.kernels) {
    for (int step = inputs.steps; step-- > 0;) {
      enter(call, step, bulk_first);
      for (int p = static_cast<int>(program->phases.size()); p-- > 0;) {
        if (program->phases[p].recurrent) backward_phase(call, p, step);
      }
      limit_state_gradient(call);
    }
    return;
  }
  if (call.gradients->state_limit > 0 && !path.state_limit) {
    throw Error("the whole-sequence kernels \"" + path.name +
                "\" cannot limit the gradient of the state; make the sequence with "
                "state_limit = true");
  }
  PersistentBackward whole;
  fill_persistent_call(call, {0, inputs.steps, inputs.batch, inputs.lengths}, &whole);
  std::vector<const float*> final_state(program->parts.size());
  for (std::size_t s = 0; call.gradients->final_state && s < states.size(); ++s)
    final_state[states[s]] = call.gradients->final_state[s];
  std::vector<float*> d_pre_pointers;
  for (const auto& buffer : d_pre) d_pre_pointers.push_back(buffer.data());
  for (std::size_t p = 0; p < bulk.size(); ++p) {
    if (plan.joins_path[p]) whole.bulk = bulk[p].data();
  }
  whole.bulk_first = bulk_first;
  whole.final_state = final_state.data();
  whole.d_pre = d_pre_pointers.data();
  whole.gradient = gradient_pointers.data();
  whole.row_sums = row_sum_pointers.data();
  whole.state_limit = call.gradients->state_limit;
  path.kernels->backward(whole, stream);
}

// All products d_pre^T [what it was made of], and that of the output layer.
std::vector<OuterGroup> Sequence::State::outer_groups(const SequenceCall& call, int bulk_first) {
  const int batch = call.inputs->batch;
  std::vector<OuterGroup> groups;
  const auto open = [&](const float* d, int d_ld, int outputs, int first) {
    OuterGroup group;
    group.d = d;
    group.ld = d_ld;
    group.outputs = outputs;
    group.rows = static_cast<long long>(call.inputs->steps - first) * batch;
    return group;
  };
  float* const* to = call.gradients->parameters;
  for (std::size_t p = 0; to && p < program->phases.size(); ++p) {
    const auto& phase = program->phases[p];
    const int first = phase.recurrent ? 0 : bulk_first;
    const std::size_t skipped = static_cast<std::size_t>(first) * batch;
    OuterGroup group =
        open(d_pre[p].data() + skipped * ld[phase.part], ld[phase.part], width(phase.part), first);
    for (const Segment& s : phase.segments) {
      const int columns = program->parameters[s.parameter].columns;
      float* block = to[s.parameter];
      if (block) block += static_cast<std::size_t>(s.row) * columns + s.column;
      const float* values = s.part == kInput ? x + skipped * ld[kInput]
                                             : at(s.part, first + (s.previous ? 0 : 1), batch);
      group.add(values, ld[s.part], width(s.part), block, columns);
    }
    if (phase.bias >= 0 && to[phase.bias])
      group.add(nullptr, 0, 1, to[phase.bias] + phase.bias_row, 1);
    groups.push_back(group);
  }
  if (const Readout<float>* readout = call.readout) {
    const int output = program->output,
              first = std::clamp(readout->first_step, 0, call.inputs->steps);
    OuterGroup group = open(logits.data(), readout->classes, readout->classes, first);
    group.add(at(output, first + 1, batch), ld[output], width(output), readout->weight_gradient,
              width(output));
    group.add(nullptr, 0, 1, readout->bias_gradient, 1);
    groups.push_back(group);
  }
  return groups;
}

// By cuBLAS, one after the other.
void Sequence::State::form_product(const OuterGroup& group) {
  const int rows = static_cast<int>(group.rows);
  for (int f = 0; f < group.factors; ++f) {
    const OuterFactor& factor = group.factor[f];
    if (rows == 0) {
      fill_rows(factor.to, factor.to_ld, factor.columns, group.outputs, nullptr, stream);
    } else if (!factor.values) {
      add_columns(group.d, group.ld, group.outputs, rows, factor.to);
    } else {
      gemm.tn(group.outputs, factor.columns, rows, {group.d, group.ld}, {factor.values, factor.ld},
              false, factor.to, factor.to_ld);
    }
  }
}

void Sequence::State::weight_gradients(const SequenceCall& call, int bulk_first) {
  const std::vector<OuterGroup> groups = outer_groups(call, bulk_first);
  if (OuterSums::fits(groups)) {
    outer_sums.run(groups, stream);
  } else {
    for (const OuterGroup& group : groups) form_product(group);
  }
  for (int p : cell.row_sums) {
    const int size = static_cast<int>(program->parameters[p].size());
    float* const* to = call.gradients->parameters;
    if (to && to[p]) add_columns(row_sum_pointers[p], size, size, call.inputs->batch, to[p]);
  }
}

void Sequence::State::input_gradient(const SequenceCall& call, int bulk_first) {
  float* to = call.gradients->input;
  if (!to) return;
  const int steps = call.inputs->steps, batch = call.inputs->batch, I = width(kInput);
  fill_rows(to, I, I, static_cast<long long>(steps) * batch, nullptr, stream);
  for (std::size_t p = 0; p < program->phases.size(); ++p) {
    const auto& phase = program->phases[p];
    const int first = phase.recurrent ? 0 : bulk_first, rows = (steps - first) * batch;
    for (const Segment& s : phase.segments) {
      if (s.part != kInput || rows == 0) continue;
      const std::size_t skipped = static_cast<std::size_t>(first) * batch;
      gemm.nn(rows, I, width(phase.part),
              {d_pre[p].data() + skipped * ld[phase.part], ld[phase.part]}, weight_block(call, s),
              true, to + skipped * I, I);
    }
  }
}

void Sequence::State::backward(const SequenceCall& call) {
  const SequenceInputs<float>& inputs = *call.inputs;
  begin_backward(call);
  const int bulk_first = load_output_gradient(call);
  if (plan.off_path) backward_bulk_phases(call, bulk_first);
  backward_steps(call, bulk_first);
  weight_gradients(call, bulk_first);
  input_gradient(call, bulk_first);
  for (std::size_t s = 0; call.gradients->initial && s < states.size(); ++s) {
    const int part = states[s];
    if (call.gradients->initial[s]) {
      copy_rows(gradient_pointers[part], ld[part], call.gradients->initial[s], width(part),
                width(part), inputs.batch, stream);
    }
  }
}

}  // namespace nru::kernels::cuda
