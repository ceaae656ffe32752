// Backward half of a slice: the time loop in reverse, a chunk of steps at a time.
//
// Inside the loop only what the recurrence needs is done: pointwise backward and the products that
// reach the previous step. The pre-activation gradients of a chunk are kept, and its weight
// gradients follow as deep products while the chunk's activations are still in cache.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/slice.h"

namespace nru::kernels {
namespace {

// In double: squares may leave the range of float. Sums that do not wait for each other become
// vectors.
template <class T>
double sum_of_squares(const T* x, int count) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  int i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int s = 0; s < kSums; ++s) sums[s] += static_cast<double>(x[i + s]) * x[i + s];
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(x[i]) * x[i];
  for (int s = 1; s < kSums; ++s) sums[0] += sums[s];
  return sums[0];
}

}  // namespace

template <class T>
void Slice<T>::size_gradients(const SliceCall<T>& call) {
  const std::size_t parts = program_->parts.size(), phases = program_->phases.size();
  const std::size_t chunk = std::min(chunk_steps(), call.inputs->steps);
  gradient_.resize(parts);
  bulk_.resize(parts);
  held_.resize(parts);
  gradient_pointers_.resize(parts);
  bulk_pointers_.resize(parts);
  d_pre_.resize(phases);
  d_share_.resize(phases);
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t row_values = static_cast<std::size_t>(rows_) * ld_[p];
    gradient_pointers_[p] = gradient_[p].require(row_values);
    if (call.inputs->lengths) held_[p].require(row_values);
    if (plan_.has_bulk[p]) bulk_pointers_[p] = bulk_[p].require(chunk * row_values);
  }
  for (std::size_t p = 0; p < phases; ++p) {
    d_pre_[p].require(chunk * rows_ * ld_[program_->phases[p].part]);
  }
}

template <class T>
void Slice<T>::load_final_gradient(const SliceCall<T>& call) {
  for (std::size_t p = 0; p < gradient_.size(); ++p) {
    std::memset(gradient_[p].data(), 0, static_cast<std::size_t>(rows_) * ld_[p] * sizeof(T));
  }
  for (std::size_t s = 0; call.gradients->final_state && s < states_.size(); ++s) {
    const T* from = call.gradients->final_state[s];
    const int part = states_[s], w = width(part);
    for (int r = 0; from && r < rows_; ++r) {
      std::memcpy(gradient_[part].data() + r * ld_[part],
                  from + static_cast<std::size_t>(first_row_ + r) * w, w * sizeof(T));
    }
  }
}

template <class T>
void Slice<T>::clear_parameter_gradients(const SliceCall<T>& call) {
  std::vector<std::int64_t> sizes;
  for (const Parameter& p : program_->parameters) sizes.push_back(p.size());
  if (call.readout) {
    sizes.push_back(static_cast<std::int64_t>(call.readout->classes) * width(program_->output));
    sizes.push_back(call.readout->classes);
  }
  sizes.push_back(static_cast<std::int64_t>(call.inputs->embedding_rows) * width(kInput));
  // Products write whole vectors behind the last row.
  constexpr std::size_t kSlack = 2 * kAlignment / sizeof(T);
  std::size_t total = 0;
  for (std::int64_t n : sizes) total += n + kSlack;
  T* next = parameter_storage_.require(total);
  std::memset(next, 0, total * sizeof(T));
  parameter_gradients_.clear();
  for (std::int64_t n : sizes) {
    parameter_gradients_.push_back(next);
    next += n + kSlack;
  }
  for (std::size_t p = 0; p < d_share_.size(); ++p) {
    const std::size_t size =
        static_cast<std::size_t>(call.inputs->embedding_rows + 1) * ld_[program_->phases[p].part];
    if (call.packed->input_share(static_cast<int>(p)))
      std::memset(d_share_[p].require(size), 0, size * sizeof(T));
  }
  if (program_->accumulators > 0) {
    std::memset(accumulators_.require(program_->accumulators), 0,
                program_->accumulators * sizeof(T));
  }
}

template <class T>
bool Slice<T>::load_output_gradient(const SliceCall<T>& call, int begin, int end) {
  if (!call.gradients->output) return false;
  const int part = program_->output, w = width(part), ld = ld_[part];
  T* to = bulk_[part].data();
  for (int step = begin; step < end; ++step) {
    const T* from = call.gradients->output +
                    (static_cast<std::size_t>(step) * call.inputs->batch + first_row_) * w;
    for (int r = 0; r < rows_; ++r, from += w, to += ld) {
      if (finished(*call.inputs, r, step)) {
        std::memset(to, 0, w * sizeof(T));
      } else {
        std::memcpy(to, from, w * sizeof(T));
      }
    }
  }
  return true;
}

// Phases off the recurrent path, all steps of the chunk at once: from bulk gradients to bulk
// gradients.
template <class T>
void Slice<T>::backward_bulk_phases(const SliceCall<T>& call, int begin, int end) {
  const int count = (end - begin) * rows_;
  for (int p = static_cast<int>(program_->phases.size()); p-- > 0;) {
    const Phase<T>& phase = program_->phases[p];
    if (phase.recurrent) continue;
    Rows<T> rows = rows_at(begin, count);
    rows.parameters = call.inputs->parameters;
    rows.derived = call.packed->derived();
    rows.gradient = bulk_pointers_.data();
    rows.d_pre = d_pre_[p].data();
    rows.parameter_gradients = parameter_gradients_.data();
    rows.accumulators = accumulators_.data();
    phase.backward(rows);
    const Operand<T> d{rows.d_pre, ld_[phase.part], width(phase.part)};
    for (std::size_t s = 0; s < phase.segments.size(); ++s) {
      const int part = phase.segments[s].part;
      if (part == kInput) continue;
      ops_->multiply(&d, 1, count, call.packed->backward(p, static_cast<int>(s)), width(part),
                     nullptr, plan_.accumulate[p][s], bulk_[part].data(), ld_[part]);
    }
  }
}

template <class T>
void Slice<T>::backward_phase(const SliceCall<T>& call, int phase_index, int step, int chunk_step) {
  const Phase<T>& phase = program_->phases[phase_index];
  Rows<T> rows = rows_at(step, rows_);
  rows.parameters = call.inputs->parameters;
  rows.derived = call.packed->derived();
  rows.gradient = gradient_pointers_.data();
  rows.d_pre =
      d_pre_[phase_index].data() + static_cast<std::size_t>(chunk_step) * rows_ * ld_[phase.part];
  rows.parameter_gradients = parameter_gradients_.data();
  rows.accumulators = accumulators_.data();
  phase.backward(rows);
  const bool initial_wanted = step > 0 || call.gradients->initial;
  const Operand<T> d{rows.d_pre, ld_[phase.part], width(phase.part)};
  for (std::size_t s = 0; s < phase.segments.size(); ++s) {
    const Segment& segment = phase.segments[s];
    if (segment.part == kInput || (segment.previous && !initial_wanted)) continue;
    ops_->multiply(&d, 1, rows_, call.packed->backward(phase_index, static_cast<int>(s)),
                   width(segment.part), nullptr, plan_.accumulate[phase_index][s],
                   gradient_[segment.part].data(), ld_[segment.part]);
  }
}

// SequenceGradients::state_limit.
template <class T>
void Slice<T>::limit_state_gradient(double limit) {
  for (int r = 0; r < rows_; ++r) {
    double sum = 0;
    for (int part : states_)
      sum += sum_of_squares(gradient_[part].data() + r * ld_[part], width(part));
    if (!(sum > limit * limit)) continue;
    const T scale = static_cast<T>(limit / std::sqrt(sum));
    for (int part : states_) {
      T* g = gradient_[part].data() + r * ld_[part];
      for (int j = 0; j < width(part); ++j) g[j] *= scale;
    }
  }
}

// A finished row takes part with gradient zero, so that it adds nothing to any weight, and gets its
// own gradient back afterwards: the state it ended with is the state it had.
template <class T>
void Slice<T>::backward_step(const SliceCall<T>& call, int step, int chunk_step, bool bulk) {
  const SequenceInputs<T>& inputs = *call.inputs;
  for (int r = 0; inputs.lengths && r < rows_; ++r) {
    if (!finished(inputs, r, step)) continue;
    for (int part : states_) {
      T* g = gradient_[part].data() + r * ld_[part];
      std::memcpy(held_[part].data() + r * ld_[part], g, width(part) * sizeof(T));
      std::memset(g, 0, width(part) * sizeof(T));
    }
  }
  for (std::size_t p = 0; p < bulk_.size(); ++p) {
    if (!plan_.joins_path[p]) continue;
    const std::size_t block = static_cast<std::size_t>(rows_) * ld_[p];
    const T* from = bulk_[p].data() + chunk_step * block;
    if (program_->parts[p].kind != PartKind::state) {  // nothing may be left of a later step's
      std::memset(gradient_[p].data(), 0, block * sizeof(T));
    }
    if (bulk) ops_->add(from, block, gradient_[p].data());
  }
  for (int p = static_cast<int>(program_->phases.size()); p-- > 0;) {
    if (program_->phases[p].recurrent) backward_phase(call, p, step, chunk_step);
  }
  if (call.gradients->state_limit > 0) limit_state_gradient(call.gradients->state_limit);
  for (int r = 0; inputs.lengths && r < rows_; ++r) {
    if (!finished(inputs, r, step)) continue;
    for (int part : states_) {
      std::memcpy(gradient_[part].data() + r * ld_[part], held_[part].data() + r * ld_[part],
                  width(part) * sizeof(T));
    }
  }
}

template <class T>
void Slice<T>::accumulate_weights(const SliceCall<T>& call, int begin, int end) {
  const int depth = (end - begin) * rows_;
  for (std::size_t p = 0; p < program_->phases.size(); ++p) {
    const Phase<T>& phase = program_->phases[p];
    const int outputs = width(phase.part), ld = ld_[phase.part];
    const T* d = d_pre_[p].data();
    const bool shared = call.packed->input_share(static_cast<int>(p)) != nullptr;
    // The embedding's gradient comes from these sums, too.
    if (shared) accumulate_embedded(static_cast<int>(p), begin, end);
    if (!call.gradients->parameters) continue;
    for (const Segment& s : phase.segments) {
      if (shared && s.part == kInput) continue;
      const std::ptrdiff_t columns = program_->parameters[s.parameter].columns;
      ops_->accumulate_outer(d, ld, outputs, at(s.part, begin + (s.previous ? 0 : 1)), ld_[s.part],
                             width(s.part), depth,
                             parameter_gradients_[s.parameter] + s.row * columns + s.column,
                             static_cast<int>(columns));
    }
    if (phase.bias >= 0)
      ops_->accumulate_columns(d, ld, outputs, depth,
                               parameter_gradients_[phase.bias] + phase.bias_row);
  }
}

template <class T>
void Slice<T>::store_input_gradient(const SliceCall<T>& call, int begin, int end) {
  T* d_embedding = call.packed->shares_input() || !call.gradients->embedding
                       ? nullptr
                       : parameter_gradients_.back();
  if (!call.gradients->input && !d_embedding) return;
  const int count = (end - begin) * rows_, w = width(kInput), ld = ld_[kInput];
  T* sum = input_gradient_.require(static_cast<std::size_t>(count) * ld);
  bool any = false;
  for (std::size_t p = 0; p < program_->phases.size(); ++p) {
    const Phase<T>& phase = program_->phases[p];
    for (std::size_t s = 0; s < phase.segments.size(); ++s) {
      if (phase.segments[s].part != kInput) continue;
      const Operand<T> d{d_pre_[p].data(), ld_[phase.part], width(phase.part)};
      ops_->multiply(&d, 1, count, call.packed->backward(static_cast<int>(p), static_cast<int>(s)),
                     w, nullptr, any, sum, ld);
      any = true;
    }
  }
  const T* from = sum;
  for (int step = begin; step < end; ++step) {
    const std::size_t first = static_cast<std::size_t>(step) * call.inputs->batch + first_row_;
    for (int r = 0; r < rows_; ++r, from += ld) {
      if (call.gradients->input)
        std::memcpy(call.gradients->input + (first + r) * w, from, w * sizeof(T));
      if (d_embedding && !finished(*call.inputs, r, step))
        ops_->add(from, w,
                  d_embedding + call.inputs->symbols[first + r] * static_cast<std::size_t>(w));
    }
  }
}

template <class T>
void Slice<T>::backward(const SliceCall<T>& call) {
  const int steps = call.inputs->steps, chunk = std::min(chunk_steps(), steps);
  size_gradients(call);
  load_final_gradient(call);
  clear_parameter_gradients(call);
  for (int end = steps, begin = 0; end > 0; end = begin) {
    begin = (end - 1) / chunk * chunk;
    bool bulk = call.readout ? run_readout(call, begin, end, begin, true)
                             : load_output_gradient(call, begin, end);
    if (plan_.off_path && !bulk) {  // nothing arrives, but the phases' d_pre must say so
      std::memset(bulk_[program_->output].data(), 0,
                  sizeof(T) * (end - begin) * rows_ * ld_[program_->output]);
      bulk = true;
    }
    if (plan_.off_path) backward_bulk_phases(call, begin, end);
    for (int step = end - 1; step >= begin; --step) backward_step(call, step, step - begin, bulk);
    accumulate_weights(call, begin, end);
    store_input_gradient(call, begin, end);
  }
  if (call.packed->shares_input()) finish_embedded(call);
  if (program_->finish) program_->finish(accumulators_.data(), parameter_gradients_.data());
  for (std::size_t s = 0; call.gradients->initial && s < states_.size(); ++s) {
    T* to = call.gradients->initial[s];
    const int part = states_[s], w = width(part);
    for (int r = 0; to && r < rows_; ++r) {
      std::memcpy(to + static_cast<std::size_t>(first_row_ + r) * w,
                  gradient_[part].data() + r * ld_[part], w * sizeof(T));
    }
  }
}

template void Slice<float>::backward(const SliceCall<float>&);
template void Slice<double>::backward(const SliceCall<double>&);

}  // namespace nru::kernels
