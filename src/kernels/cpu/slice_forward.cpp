// Forward half of a slice: the time loop.
//
// Storage of a part is [slots, rows, ld]. Slot 0 is the initial state; step t of the window writes
// slot t+1. With `keep` the window is the whole sequence and stays for the backward pass; without,
// it is one chunk and is used again and again.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/readout.h"
#include "kernels/cpu/slice.h"

namespace nru::kernels {
namespace {

// Rows times steps of a chunk: deep enough that the weight gradient's products are compute-bound,
// small enough that the activations they read are still in the L2 cache.
constexpr int kChunkRows = 160;

}  // namespace

template <class T>
Slice<T>::Slice(const Program<T>& program, int first_row, int rows)
    : program_(&program),
      ops_(&linear_ops<T>()),
      first_row_(first_row),
      rows_(rows),
      plan_(plan_backward(program)) {
  const std::size_t parts = program.parts.size();
  for (std::size_t p = 0; p < parts; ++p) {
    ld_.push_back(padded_width<T>(program.parts[p].width));
    if (program.parts[p].kind == PartKind::state) states_.push_back(static_cast<int>(p));
  }
  storage_.resize(parts);
  current_.resize(parts);
  previous_.resize(parts);
  max_abs_.resize(parts);
  scratch_.require(program.scratch);
}

template <class T>
int Slice<T>::chunk_steps() const {
  return std::clamp(kChunkRows / rows_, 8, 32);
}

template <class T>
std::size_t Slice<T>::stash_bytes() const {
  std::size_t values = 0;
  for (const auto& part : storage_) values += part.size();
  return values * sizeof(T);
}

template <class T>
Rows<T> Slice<T>::rows_at(int slot, int count) {
  for (std::size_t p = 0; p < storage_.size(); ++p) {
    current_[p] = at(static_cast<int>(p), slot + 1);
    previous_[p] = at(static_cast<int>(p), slot);
  }
  Rows<T> rows;
  rows.count = count;
  rows.ld = ld_.data();
  rows.current = current_.data();
  rows.previous = previous_.data();
  rows.scratch = scratch_.data();
  rows.events = row_events_.data();
  return rows;
}

template <class T>
void Slice<T>::load_initial(const SequenceInputs<T>& inputs) {
  for (std::size_t s = 0; s < states_.size(); ++s) {
    const int part = states_[s], w = width(part);
    T* to = at(part, 0);
    const T* from = inputs.initial ? inputs.initial[s] : nullptr;
    for (int r = 0; r < rows_; ++r) {
      if (from) {
        std::memcpy(to + r * ld_[part], from + static_cast<std::size_t>(first_row_ + r) * w,
                    w * sizeof(T));
      } else {
        std::fill_n(to + r * ld_[part], w, static_cast<T>(program_->parts[part].initial));
      }
    }
  }
}

template <class T>
void Slice<T>::load_input(const SequenceInputs<T>& inputs, int begin, int end, int slot) {
  const int w = width(kInput), ld = ld_[kInput];
  T* to = at(kInput, slot + 1);
  for (int step = begin; step < end; ++step) {
    for (int r = 0; r < rows_; ++r, to += ld) {
      const std::size_t position = static_cast<std::size_t>(step) * inputs.batch + first_row_ + r;
      if (finished(inputs, r, step)) {  // what lies there may be anything, NaN included
        std::memset(to, 0, w * sizeof(T));
      } else if (inputs.embedding) {
        std::memcpy(to, inputs.embedding + inputs.symbols[position] * static_cast<std::size_t>(w),
                    w * sizeof(T));
      } else if (inputs.symbols) {
        std::memset(to, 0, w * sizeof(T));
        to[inputs.symbols[position]] = T(1);
      } else {
        std::memcpy(to, inputs.dense + position * w, w * sizeof(T));
      }
    }
  }
}

template <class T>
void Slice<T>::run_phase(const SliceCall<T>& call, int phase_index, int slot, int count) {
  const Phase<T>& phase = program_->phases[phase_index];
  Rows<T> rows = rows_at(slot, count);
  rows.parameters = call.inputs->parameters;
  rows.derived = call.packed->derived();
  const T* share = call.packed->input_share(phase_index);
  const int ld = ld_[phase.part];
  T* pre = current_[phase.part];
  for (int i = 0; share && i < count; ++i)
    std::memcpy(pre + i * ld, share + embedded_.data()[slot * rows_ + i] * ld, ld * sizeof(T));
  Operand<T> operands[kMostSegments];
  int n = 0;
  for (const Segment& s : phase.segments) {
    if (share && s.part == kInput) continue;
    operands[n++] = {s.previous ? previous_[s.part] : current_[s.part], ld_[s.part], width(s.part)};
  }
  if (n > 0) {
    ops_->multiply(operands, n, count, call.packed->forward(phase_index), width(phase.part),
                   share ? nullptr : call.packed->bias(phase_index), share != nullptr, pre, ld);
  }
  phase.forward(rows);
}

// A row that is past its length keeps its state.
template <class T>
void Slice<T>::hold_finished_rows(const SequenceInputs<T>& inputs, int step, int slot) {
  for (int r = 0; r < rows_; ++r) {
    if (!finished(inputs, r, step)) continue;
    for (int part : states_) {
      std::memcpy(at(part, slot + 1) + r * ld_[part], at(part, slot) + r * ld_[part],
                  width(part) * sizeof(T));
    }
  }
}

template <class T>
void Slice<T>::copy_out(int part, int slot, int begin, int end, const SequenceInputs<T>& inputs,
                        bool zero_finished, T* destination) {
  const int w = width(part), ld = ld_[part];
  const T* from = at(part, slot + 1);
  for (int step = begin; step < end; ++step) {
    T* to = destination + (static_cast<std::size_t>(step) * inputs.batch + first_row_) * w;
    for (int r = 0; r < rows_; ++r, from += ld, to += w) {
      if (zero_finished && finished(inputs, r, step)) {
        std::memset(to, 0, w * sizeof(T));
      } else {
        std::memcpy(to, from, w * sizeof(T));
      }
    }
  }
}

template <class T>
void Slice<T>::store_outputs(const SliceCall<T>& call, int begin, int end, int slot) {
  const SequenceOutputs<T>& out = *call.outputs;
  if (out.output) copy_out(program_->output, slot, begin, end, *call.inputs, true, out.output);
  for (std::size_t s = 0; out.states && s < states_.size(); ++s) {
    copy_out(states_[s], slot, begin, end, *call.inputs, false, out.states[s]);
  }
}

// Adds up what the phases have counted in `count` rows, from step `first_step` on. A row that is
// past its length still runs, on zero input, but nothing that happens to it there is an event.
template <class T>
void Slice<T>::count_events(const SequenceInputs<T>& inputs, int first_step, int count) {
  for (int i = 0; i < count; ++i) {
    std::int64_t* of_row = row_events_.data() + i * kEvents;
    const bool idle = finished(inputs, i % rows_, first_step + i / rows_);
    for (int e = 0; e < kEvents; ++e) {
      if (!idle) events_[e] += of_row[e];
      of_row[e] = 0;
    }
  }
}

// Of rows within their length: what a finished row's output would be means nothing.
template <class T>
void Slice<T>::measure(const SequenceInputs<T>& inputs, int begin, int end, int slot) {
  for (int part = 0; part < static_cast<int>(max_abs_.size()); ++part) {
    if (program_->parts[part].kind != PartKind::state && part != program_->output) continue;
    const int rows = (end - begin) * rows_, block = inputs.lengths ? 1 : rows;
    for (int i = 0; i < rows; i += block) {
      if (finished(inputs, i % rows_, begin + i / rows_)) continue;
      const T value = ops_->max_abs(at(part, slot + 1) + static_cast<std::size_t>(i) * ld_[part],
                                    static_cast<std::size_t>(block) * ld_[part]);
      max_abs_[part] = larger_or_nan(max_abs_[part], value);
    }
  }
}

template <class T>
void Slice<T>::store_final(const SliceCall<T>& call, int slot) {
  for (std::size_t s = 0; call.outputs->final_state && s < states_.size(); ++s) {
    const int part = states_[s], w = width(part);
    for (int r = 0; r < rows_; ++r) {
      std::memcpy(call.outputs->final_state[s] + static_cast<std::size_t>(first_row_ + r) * w,
                  at(part, slot) + r * ld_[part], w * sizeof(T));
    }
  }
}

template <class T>
void Slice<T>::forward(const SliceCall<T>& call, bool keep) {
  const SequenceInputs<T>& inputs = *call.inputs;
  const int chunk = std::min(chunk_steps(), inputs.steps);
  const int window = keep ? inputs.steps : chunk;
  for (std::size_t p = 0; p < storage_.size(); ++p) {
    storage_[p].require(static_cast<std::size_t>(window + 1) * rows_ * ld_[p]);
  }
  if (call.packed->shares_input()) embedded_.require(static_cast<std::size_t>(window) * rows_);
  loss_ = 0;
  events_ = {};
  row_events_.assign(static_cast<std::size_t>(chunk) * rows_ * kEvents, 0);
  std::fill(max_abs_.begin(), max_abs_.end(), T(0));
  load_initial(inputs);
  int last = 0;  // slot of the newest state
  for (int begin = 0; begin < inputs.steps; begin += chunk) {
    const int end = std::min(inputs.steps, begin + chunk), slot = keep ? begin : 0;
    call.packed->shares_input() ? name_embedded(inputs, begin, end, slot)
                                : load_input(inputs, begin, end, slot);
    for (int step = begin; step < end; ++step) {
      for (std::size_t p = 0; p < program_->phases.size(); ++p) {
        if (program_->phases[p].recurrent)
          run_phase(call, static_cast<int>(p), slot + step - begin, rows_);
      }
      if (inputs.lengths) hold_finished_rows(inputs, step, slot + step - begin);
      count_events(inputs, step, rows_);
    }
    for (std::size_t p = 0; p < program_->phases.size(); ++p) {
      if (!program_->phases[p].recurrent)
        run_phase(call, static_cast<int>(p), slot, (end - begin) * rows_);
    }
    count_events(inputs, begin, (end - begin) * rows_);
    if (call.measure) measure(inputs, begin, end, slot);
    store_outputs(call, begin, end, slot);
    if (call.readout && !call.gradients) run_readout(call, begin, end, slot, false);
    last = slot + end - begin;
    for (std::size_t s = 0; !keep && s < states_.size(); ++s) {
      std::memcpy(at(states_[s], 0), at(states_[s], last), sizeof(T) * rows_ * ld_[states_[s]]);
    }
  }
  store_final(call, last);
}

// Output layer and loss of the steps [begin, end) whose values start at `slot`. With `gradient`,
// also the gradients of the output layer, and that of the layer's output into bulk_. Returns false
// if none of these steps has a loss.
template <class T>
bool Slice<T>::run_readout(const SliceCall<T>& call, int begin, int end, int slot, bool gradient) {
  const Readout<T>& readout = *call.readout;
  const int first = std::max(begin, readout.first_step), out = program_->output;
  if (first >= end) return false;
  const int count = (end - first) * rows_, ld = padded_width<T>(readout.classes);
  T* logits = logits_.require(static_cast<std::size_t>(count) * ld);
  T* weights = position_weights_.require(count);
  std::int32_t* targets = position_targets_.require(count);
  std::int32_t* predictions = readout.predictions ? position_predictions_.require(count) : nullptr;
  for (int i = 0; i < count; ++i) {
    const int step = first + i / rows_, r = i % rows_;
    const std::size_t position =
        static_cast<std::size_t>(step) * call.inputs->batch + first_row_ + r;
    targets[i] = readout.targets[position];
    weights[i] = finished(*call.inputs, r, step) ? T(0)
                 : readout.weights               ? T(readout.weights[position])
                                                 : T(1);
  }
  const Operand<T> values{at(out, slot + 1 + first - begin), ld_[out], width(out)};
  ops_->multiply(&values, 1, count, call.packed->readout(), readout.classes,
                 call.packed->readout_bias(), false, logits, ld);
  loss_ +=
      readout.scale * softmax_cross_entropy<T>(logits, ld, readout.classes, count, targets, weights,
                                               static_cast<T>(readout.scale), predictions);
  for (int i = 0; predictions && i < count; ++i) {
    const std::size_t position =
        static_cast<std::size_t>(first + i / rows_) * call.inputs->batch + first_row_ + i % rows_;
    readout.predictions[position] = predictions[i];
  }
  if (!gradient) return true;
  const int index =
      static_cast<int>(program_->parameters.size());  // the readout's slots follow the program's
  const std::size_t silent = static_cast<std::size_t>(first - begin) * rows_ * ld_[out];
  std::memset(bulk_[out].data(), 0, silent * sizeof(T));
  const Operand<T> d_logits{logits, ld, readout.classes};
  ops_->multiply(&d_logits, 1, count, call.packed->readout_backward(), width(out), nullptr, false,
                 bulk_[out].data() + silent, ld_[out]);
  ops_->accumulate_outer(logits, ld, readout.classes, values.data, values.ld, values.width, count,
                         parameter_gradients_[index], width(out));
  ops_->accumulate_columns(logits, ld, readout.classes, count, parameter_gradients_[index + 1]);
  return true;
}

template Slice<float>::Slice(const Program<float>&, int, int);
template Slice<double>::Slice(const Program<double>&, int, int);
template int Slice<float>::chunk_steps() const;
template int Slice<double>::chunk_steps() const;
template std::size_t Slice<float>::stash_bytes() const;
template std::size_t Slice<double>::stash_bytes() const;
template Rows<float> Slice<float>::rows_at(int, int);
template Rows<double> Slice<double>::rows_at(int, int);
template void Slice<float>::forward(const SliceCall<float>&, bool);
template void Slice<double>::forward(const SliceCall<double>&, bool);
template bool Slice<float>::run_readout(const SliceCall<float>&, int, int, int, bool);
template bool Slice<double>::run_readout(const SliceCall<double>&, int, int, int, bool);

}  // namespace nru::kernels
