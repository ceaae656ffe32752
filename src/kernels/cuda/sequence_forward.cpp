// Forward half of the time loop on the device.
#include <algorithm>

#include "kernels/cuda/entry.h"
#include "kernels/cuda/readout.h"
#include "kernels/cuda/sequence_state.h"

namespace nru::kernels::cuda {
namespace {

// Rows of a window without `keep`: enough for the products over all its steps, and for the host to
// stay ahead.
constexpr int kWindowRows = 8192;

// Multiplications of a step's product from which on cuBLAS is faster than product.h.
constexpr double kLargeProduct = 5e8;

}  // namespace

// The path of this call, kept for a backward pass and for further calls of its kind.
void Sequence::State::choose(const SequenceCall& call) {
  const SequenceInputs<float>& inputs = *call.inputs;
  const bool lengths = inputs.lengths != nullptr;
  const bool limited = options.state_limit || (call.gradients && call.gradients->state_limit > 0);
  if (inputs.batch == path_batch && lengths == path_lengths && limited == path_limited) return;
  path_batch = inputs.batch;
  path_lengths = lengths;
  path_limited = limited;
  const bool free = options.whole_sequence && options.step_products == StepProducts::automatic;
  path = free ? choose_path(*program, inputs.batch, lengths, limited) : ChosenPath{};
}

int Sequence::State::window_steps(const SequenceInputs<float>& inputs, bool keep) const {
  return keep ? inputs.steps : std::min(inputs.steps, std::max(16, kWindowRows / inputs.batch));
}

Rows<float> Sequence::State::rows_at(const SequenceCall& call, int slot, long long count) {
  const int batch = call.inputs->batch;
  for (std::size_t p = 0; p < storage.size(); ++p) {
    if (p == kInput) continue;
    current[p] = at(static_cast<int>(p), slot + 1, batch);
    previous[p] = at(static_cast<int>(p), slot, batch);
  }
  Rows<float> rows;
  rows.count = static_cast<int>(count);
  rows.ld = ld.data();
  rows.current = current.data();
  rows.previous = previous.data();
  rows.parameters = call.inputs->parameters;
  rows.derived = derived.data();
  return rows;
}

// The block of weights that a segment means, as the caller stores it.
Matrix Sequence::State::weight_block(const SequenceCall& call, const Segment& s) const {
  const int columns = program->parameters[s.parameter].columns;
  return {
      call.inputs->parameters[s.parameter] + static_cast<std::size_t>(s.row) * columns + s.column,
      columns};
}

// Who forms a product of the time loop: product.h, or else cuBLAS.
bool Sequence::State::in_tiles(const StepProduct& product, int batch) const {
  if (options.step_products != StepProducts::automatic)
    return options.step_products == StepProducts::tiles;
  return static_cast<double>(batch) * product.rows * product.depth < kLargeProduct;
}

// Whether a phase's product also does its pointwise function, a plain activation.
bool Sequence::State::finishes_forward(int phase, int batch) const {
  const auto& products = weights.forward(phase);
  return cell.phases[phase].finish != Finish::none && products.size() == 1 &&
         in_tiles(products[0], batch);
}

// `operands` holds rows, inputs and outputs.
void Sequence::State::step_product(const StepProduct& product, const Product& operands) {
  Product p = operands;
  p.weights = product.weights.data();
  p.depth = product.depth;
  if (in_tiles(product, p.rows)) return run_product(p, stream);
  const float* weights_of_output = p.weights;
  for (int o = 0; o < p.outputs; ++o) {
    int offset = 0;
    for (int i = 0; i < p.inputs; ++i) {
      gemm.nt(p.rows, p.output[o].width, p.input[i].ld, {p.input[i].data, p.input[i].ld},
              {weights_of_output + offset, p.depth}, i > 0 || p.output[o].accumulate,
              p.output[o].data, p.output[o].ld);
      offset += p.input[i].ld;
    }
    weights_of_output += static_cast<std::size_t>(p.output[o].width) * p.depth;
  }
}

void Sequence::State::begin_forward(const SequenceCall& call, int window, bool keep) {
  const SequenceInputs<float>& inputs = *call.inputs;
  for (std::size_t p = 0; p < storage.size(); ++p) {
    if (p == kInput) continue;
    storage[p].require(static_cast<std::size_t>(window + 1) * inputs.batch * ld[p]);
  }
  batch = inputs.batch;
  if (!path.kernels) weights.pack(inputs.parameters, keep, stream);
  if (cell.prepare) cell.prepare(inputs.parameters, derived.require(cell.derived), stream);
  SequenceStart start;
  start.batch = batch;
  for (int part : states) {
    SequenceStart::State& state = start.state[start.states];
    state.from = inputs.initial ? inputs.initial[start.states] : nullptr;
    state.to = at(part, 0, batch);
    state.width = width(part);
    state.ld = ld[part];
    state.otherwise = static_cast<float>(program->parts[part].initial);
    ++start.states;
  }
  start.events = events.require(2 * static_cast<std::size_t>(batch) * kEvents);
  start.loss = loss.data();
  start.largest = largest.data();
  start.parts = static_cast<int>(largest.size());
  start_sequence(start, stream);
}

// The window's input and its share in one launch, if it is narrow.
bool Sequence::State::share_input(const SequenceCall& call, const Steps& steps, int slot) {
  const SequenceInputs<float>& inputs = *call.inputs;
  if (!InputShare::fits(*program)) return false;
  InputShare share;
  share.steps = steps;
  share.dense = inputs.dense;
  share.symbols = inputs.symbols;
  share.input = width(kInput);
  if (inputs.dense && !inputs.lengths) {
    x = inputs.dense + static_cast<std::size_t>(steps.begin) * inputs.batch * share.input;
  } else {
    x = share.x = input.require(static_cast<std::size_t>(steps.rows()) * share.input);
  }
  for (const auto& phase : program->phases) {
    InputShare::Phase& to = share.phase[share.phases++];
    to.bias = phase.bias >= 0 ? inputs.parameters[phase.bias] + phase.bias_row : nullptr;
    to.pre = at(phase.part, slot + 1, inputs.batch);
    to.width = width(phase.part);
    to.ld = ld[phase.part];
    for (const Segment& s : phase.segments) {
      if (s.part != kInput) continue;
      const Matrix block = weight_block(call, s);
      to.weights = block.data;
      to.ld_weights = block.ld;
    }
  }
  input_share(share, stream);
  return true;
}

// The window's input, and what it and the bias give to the pre-activations of all its steps.
void Sequence::State::load_window(const SequenceCall& call, const Steps& steps, int slot) {
  const SequenceInputs<float>& inputs = *call.inputs;
  if (share_input(call, steps, slot)) return;
  const int I = width(kInput);
  if (inputs.dense && !inputs.lengths) {
    x = inputs.dense + static_cast<std::size_t>(steps.begin) * inputs.batch * I;
  } else {
    float* to = input.require(static_cast<std::size_t>(steps.rows()) * I);
    load_input(steps, inputs.dense, inputs.symbols, I, to, stream);
    x = to;
  }
  for (const auto& phase : program->phases) {
    float* pre = at(phase.part, slot + 1, inputs.batch);
    const float* bias = phase.bias >= 0 ? inputs.parameters[phase.bias] + phase.bias_row : nullptr;
    fill_rows(pre, ld[phase.part], width(phase.part), steps.rows(), bias, stream);
    for (const Segment& s : phase.segments) {
      if (s.part != kInput) continue;
      gemm.nt(static_cast<int>(steps.rows()), width(phase.part), I, {x, I}, weight_block(call, s),
              true, pre, ld[phase.part]);
    }
  }
}

void Sequence::State::fill_persistent_call(const SequenceCall& call, const Steps& steps,
                                           PersistentCall* whole) {
  for (std::size_t p = 0; p < storage.size(); ++p) current[p] = storage[p].data();
  whole->steps = steps.steps;
  whole->batch = steps.batch;
  whole->ld = ld.data();
  whole->parameters = call.inputs->parameters;
  whole->derived = derived.data();
  whole->slots = current.data();
  whole->lengths = steps.lengths;
  whole->begin = steps.begin;
  whole->memory = [this](std::size_t bytes) { return path_memory.require(bytes); };
}

void Sequence::State::run_step(const SequenceCall& call, int step, int slot) {
  const SequenceInputs<float>& inputs = *call.inputs;
  Rows<float> rows = rows_at(call, slot, inputs.batch);
  rows.events = events.data();
  for (std::size_t p = 0; p < program->phases.size(); ++p) {
    const auto& phase = program->phases[p];
    if (!phase.recurrent) continue;
    const bool finished = finishes_forward(static_cast<int>(p), inputs.batch);
    for (const StepProduct& product : weights.forward(static_cast<int>(p))) {
      Product operands;
      operands.rows = inputs.batch;
      for (int index : product.segments) {
        const Segment& s = phase.segments[index];
        operands.input[operands.inputs++] = {s.previous ? previous[s.part] : current[s.part],
                                             ld[s.part]};
      }
      operands.outputs = 1;
      operands.output[0] = {current[phase.part], ld[phase.part], width(phase.part), 1};
      if (finished) operands.output[0].finish = cell.phases[p].finish;
      step_product(product, operands);
    }
    if (cell.phases[p].forward && !finished) cell.phases[p].forward(rows, stream);
  }
  if (!inputs.lengths) return;
  HeldStates held;
  held.events = events.data();
  held.events_before = events.data() + static_cast<std::size_t>(inputs.batch) * kEvents;
  for (int part : states) {
    held.before[held.count] = previous[part];
    held.after[held.count] = current[part];
    held.ld[held.count++] = ld[part];
  }
  hold_finished_rows(held, step, inputs.batch, inputs.lengths, stream);
}

// The recurrence over the window.
void Sequence::State::run_steps(const SequenceCall& call, const Steps& steps, bool keep) {
  if (!path.kernels) {
    for (int i = 0; i < steps.steps; ++i) run_step(call, steps.begin + i, i);
    return;
  }
  PersistentForward whole;
  fill_persistent_call(call, steps, &whole);
  whole.keep = keep;
  whole.events = events.data();
  whole.largest = measured ? largest.data() : nullptr;
  path.kernels->forward(whole, stream);
}

// Phases off the recurrent path: all steps of the window at once.
void Sequence::State::run_bulk_phases(const SequenceCall& call, const Steps& steps, int slot) {
  for (std::size_t p = 0; p < program->phases.size(); ++p) {
    const auto& phase = program->phases[p];
    if (phase.recurrent) continue;
    const Rows<float> rows = rows_at(call, slot, steps.rows());
    for (const Segment& s : phase.segments) {
      if (s.part == kInput) continue;
      gemm.nt(rows.count, width(phase.part), width(s.part),
              {s.previous ? previous[s.part] : current[s.part], ld[s.part]}, weight_block(call, s),
              true, current[phase.part], ld[phase.part]);
    }
    if (cell.phases[p].forward) cell.phases[p].forward(rows, stream);
  }
}

void Sequence::State::store_outputs(const SequenceCall& call, const Steps& steps, int slot) {
  const SequenceOutputs<float>& out = *call.outputs;
  const int batch = call.inputs->batch, output = program->output;
  if (measured) {
    for (std::size_t p = 1; p < program->parts.size(); ++p) {
      const int part = static_cast<int>(p);
      const bool state = program->parts[p].kind == PartKind::state;
      if ((!state && part != output) || (state && path.kernels)) continue;
      largest_magnitude(steps, at(part, slot + 1, batch), ld[p], width(part), largest.data() + p,
                        stream);
    }
  }
  if (out.output) {
    copy_steps_out(steps, true, at(output, slot + 1, batch), ld[output], width(output), out.output,
                   stream);
  }
  for (std::size_t s = 0; out.states && s < states.size(); ++s) {
    const int part = states[s];
    copy_steps_out(steps, false, at(part, slot + 1, batch), ld[part], width(part), out.states[s],
                   stream);
  }
}

// Output layer and loss. Leaves the gradients of the logits; if a backward pass follows and the
// layer is small, that of its input, too.
void Sequence::State::run_readout(const SequenceCall& call, const Steps& steps, int slot) {
  const Readout<float>& readout = *call.readout;
  const int first = std::max(steps.begin, readout.first_step), end = steps.begin + steps.steps;
  if (first >= end) return;
  const int output = program->output, classes = readout.classes;
  CrossEntropy c;
  c.steps = {first, end - first, steps.batch, steps.lengths};
  const int rows = static_cast<int>(c.steps.rows());
  c.logits = logits.require(static_cast<std::size_t>(rows) * classes);
  c.classes = classes;
  c.targets = readout.targets;
  c.weights = readout.weights;
  c.scale = readout.scale;
  c.predictions = readout.predictions;
  c.losses = losses.require(rows);
  SmallReadout small;
  small.entropy = c;
  small.output = at(output, slot + 1 + first - steps.begin, steps.batch);
  small.ld = ld[output];
  small.width = width(output);
  if (small.fits()) {
    small.weight = readout.weight;
    small.bias = readout.bias;
    small.total = loss.data();
    small.ended = readout_ended.data();
    output_gradient_done = call.gradients;
    if (output_gradient_done) {
      float* all = bulk[output].require(static_cast<std::size_t>(steps.rows()) * ld[output]);
      small.d_output = all + static_cast<std::size_t>(first) * steps.batch * ld[output];
    }
    return small_readout(small, stream);
  }
  fill_rows(c.logits, classes, classes, rows, readout.bias, stream);
  gemm.nt(rows, classes, width(output), {small.output, small.ld}, {readout.weight, width(output)},
          true, c.logits, classes);
  softmax_cross_entropy(c, stream);
  add_losses(c.losses, rows, readout.scale, loss.data(), stream);
}

void Sequence::State::forward(const SequenceCall& call, bool keep, bool measure) {
  const SequenceInputs<float>& inputs = *call.inputs;
  const int window = window_steps(inputs, keep);
  measured = measure;
  output_gradient_done = false;
  choose(call);
  begin_forward(call, window, keep);
  int last = 0;  // slot of the newest state
  for (int begin = 0; begin < inputs.steps; begin += window) {
    const Steps steps{begin, std::min(window, inputs.steps - begin), inputs.batch, inputs.lengths};
    for (std::size_t s = 0; begin > 0 && s < states.size(); ++s) {
      const int part = states[s];
      copy_rows(at(part, last, inputs.batch), ld[part], at(part, 0, inputs.batch), ld[part],
                ld[part], inputs.batch, stream);
    }
    load_window(call, steps, 0);
    run_steps(call, steps, keep);
    run_bulk_phases(call, steps, 0);
    store_outputs(call, steps, 0);
    if (call.readout) run_readout(call, steps, 0);
    last = steps.steps;
  }
  for (std::size_t s = 0; call.outputs->final_state && s < states.size(); ++s) {
    const int part = states[s];
    copy_rows(at(part, last, inputs.batch), ld[part], call.outputs->final_state[s], width(part),
              width(part), inputs.batch, stream);
  }
}

}  // namespace nru::kernels::cuda
