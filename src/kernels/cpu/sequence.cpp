// The threads' side of a sequence call: pack the weights, run the slices, add up what they bring
// back.
#include "kernels/sequence.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/cpu/packed_program.h"
#include "kernels/cpu/slice.h"
#include "kernels/cpu/threads.h"

namespace nru::kernels {
namespace {

// Enough rows that a pass over the weights pays off, enough slices that a batch of 100 can use
// eight cores.
constexpr int kMinSliceRows = 5;
constexpr int kMaxSlices = 8;

// What the slices have room for. A cell's author reads the message, no user ever does.
template <class T>
const Program<T>& check_program(const Program<T>& program) {
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    const Phase<T>& phase = program.phases[p];
    if (phase.segments.size() <= kMostSegments) continue;
    throw std::logic_error(
        "cell " + program.cell + ": phase " + std::to_string(p) + " (" +
        program.parts[phase.part].name + ") has " + std::to_string(phase.segments.size()) +
        " segments; segment " + std::to_string(kMostSegments) + " (" +
        program.parts[phase.segments[kMostSegments].part].name + ") and what follows is too many");
  }
  return program;
}

}  // namespace

int slice_count(int batch) { return std::clamp(batch / kMinSliceRows, 1, kMaxSlices); }

int slice_begin(int batch, int slice) {
  return static_cast<int>(static_cast<std::int64_t>(batch) * slice / slice_count(batch));
}

template <class T>
struct Sequence<T>::State {
  std::shared_ptr<const Program<T>> program;
  int threads;
  PackedProgram<T> packed;
  int batch = 0;
  std::vector<Slice<T>> slices;

  State(std::shared_ptr<const Program<T>> p, int t)
      : program(std::move(p)), threads(t), packed(check_program(*program)) {}

  int thread_count() const { return threads > 0 ? threads : available_threads(); }

  void prepare(const SliceCall<T>& call, bool backward) {
    if (call.inputs->steps < 1 || call.inputs->batch < 1) {
      throw std::invalid_argument("a sequence needs at least one step and one row");
    }
    if (call.inputs->batch != batch) {
      slices.clear();
      batch = call.inputs->batch;
      for (int i = 0; i < slice_count(batch); ++i) {
        const int begin = slice_begin(batch, i);
        slices.emplace_back(*program, begin, slice_begin(batch, i + 1) - begin);
      }
    }
    parallel_pieces(packed.begin(*call.inputs, backward, call.readout != nullptr), thread_count(),
                    [&](int piece) { packed.pack_piece(piece, *call.inputs, call.readout); });
  }

  template <class F>
  void for_slices(const F& work) {
    parallel_pieces(static_cast<int>(slices.size()), thread_count(),
                    [&](int i) { work(slices[i]); });
  }

  SequenceResult result(bool measured) const {
    SequenceResult sum;
    for (const auto& slice : slices) {
      sum.loss += slice.loss();
      for (int e = 0; e < kEvents; ++e) sum.events[e] += slice.events()[e];
    }
    for (int p = 0; measured && p < static_cast<int>(program->parts.size()); ++p) {
      double largest = 0;
      for (const auto& slice : slices) largest = larger_or_nan<double>(largest, slice.max_abs(p));
      if (program->parts[p].kind == PartKind::state) sum.max_abs.push_back(largest);
      if (p == program->output) sum.max_output = largest;
    }
    return sum;
  }

  void reduce(int parameter, std::int64_t size, T* destination) const {
    if (!destination) return;
    std::memcpy(destination, slices[0].parameter_gradient(parameter), size * sizeof(T));
    for (std::size_t i = 1; i < slices.size(); ++i) {
      linear_ops<T>().add(slices[i].parameter_gradient(parameter), size, destination);
    }
  }

  void reduce_gradients(const SliceCall<T>& call) const {
    const int count = static_cast<int>(program->parameters.size());
    const Readout<T>* readout = call.readout;
    const int embedding = count + (readout ? 2 : 0);
    parallel_pieces(embedding + 1, thread_count(), [&](int p) {
      if (p < count) {
        T* const* to = call.gradients->parameters;
        reduce(p, program->parameters[p].size(), to ? to[p] : nullptr);
      } else if (p < embedding) {
        const std::int64_t width = program->parts[program->output].width;
        p == count ? reduce(p, readout->classes * width, readout->weight_gradient)
                   : reduce(p, readout->classes, readout->bias_gradient);
      } else {
        const std::int64_t width = program->parts[kInput].width;
        reduce(p, call.inputs->embedding_rows * width, call.gradients->embedding);
      }
    });
  }
};

template <class T>
Sequence<T>::Sequence(std::shared_ptr<const Program<T>> program, int threads)
    : state_(std::make_unique<State>(std::move(program), threads)) {}
template <class T>
Sequence<T>::~Sequence() = default;
template <class T>
Sequence<T>::Sequence(Sequence&&) noexcept = default;
template <class T>
Sequence<T>& Sequence<T>::operator=(Sequence&&) noexcept = default;

template <class T>
SequenceResult Sequence<T>::forward(const SequenceInputs<T>& inputs,
                                    const SequenceOutputs<T>& outputs, bool keep) {
  SliceCall<T> call{&inputs, &outputs, nullptr, nullptr, &state_->packed, false};
  state_->prepare(call, keep);
  state_->for_slices([&](Slice<T>& slice) { slice.forward(call, keep); });
  return state_->result(false);
}

template <class T>
void Sequence<T>::backward(const SequenceInputs<T>& inputs, const SequenceGradients<T>& gradients) {
  const SliceCall<T> call{&inputs, nullptr, &gradients, nullptr, &state_->packed, false};
  state_->for_slices([&](Slice<T>& slice) { slice.backward(call); });
  state_->reduce_gradients(call);
}

template <class T>
SequenceResult Sequence<T>::train(const SequenceInputs<T>& inputs,
                                  const SequenceOutputs<T>& outputs, const Readout<T>& readout,
                                  const SequenceGradients<T>& gradients) {
  const SliceCall<T> call{&inputs, &outputs, &gradients, &readout, &state_->packed, true};
  state_->prepare(call, true);
  state_->for_slices([&](Slice<T>& slice) {
    slice.forward(call, true);
    slice.backward(call);
  });
  state_->reduce_gradients(call);
  return state_->result(true);
}

template <class T>
SequenceResult Sequence<T>::evaluate(const SequenceInputs<T>& inputs,
                                     const SequenceOutputs<T>& outputs, const Readout<T>& readout) {
  const SliceCall<T> call{&inputs, &outputs, nullptr, &readout, &state_->packed, true};
  state_->prepare(call, false);
  state_->for_slices([&](Slice<T>& slice) { slice.forward(call, false); });
  return state_->result(true);
}

template <class T>
std::size_t Sequence<T>::stash_bytes() const {
  std::size_t bytes = 0;
  for (const auto& slice : state_->slices) bytes += slice.stash_bytes();
  return bytes;
}

template class Sequence<float>;
template class Sequence<double>;

}  // namespace nru::kernels
