#include "sequence_cases.h"

#include <cmath>
#include <utility>

namespace nru::kernels {
namespace {

template <class T>
std::vector<T> drawn(std::size_t count, std::uint64_t seed, double scale, double mean = 0) {
  std::vector<T> values;
  for (float v : random_values<float>(count, seed, scale)) {
    values.push_back(static_cast<T>(static_cast<float>(v + mean)));
  }
  return values;
}

}  // namespace

template <class T>
SequenceData<T>::SequenceData(std::shared_ptr<const Program<T>> p, const RunCase& r,
                              double weight_scale, std::uint64_t seed)
    : program(std::move(p)), run(r) {
  seed *= 1000;
  for (const Parameter& p : program->parameters) {
    const double fan_in = p.columns > 0 ? p.columns : 4;
    const double scale = p.rotations > 0 ? 2 : weight_scale / std::sqrt(fan_in);  // angles: all
    parameters.push_back(drawn<T>(p.size(), ++seed, scale, p.name == "norm_weight" ? 1 : 0));
    parameter_gradients.emplace_back(p.size());
  }
  const int I = input_width(), H = output_width();
  dense = drawn<T>(positions() * I, ++seed, 1);
  for (int width : state_widths(*program)) {
    const std::size_t size = static_cast<std::size_t>(run.batch) * width;
    if (run.initial) {
      initial.push_back(drawn<T>(size, ++seed, 0.5));
      initial_gradients.emplace_back(size);
    }
    final_gradient.push_back(drawn<T>(size, ++seed, 0.1));
    final_state.emplace_back(size);
    states.emplace_back(positions() * width);
  }
  const Philox random(++seed, Stream::train_batches);
  for (int b = 0; run.lengths && b < run.batch; ++b) {  // the whole length among them, and 1
    lengths.push_back(b == 0 ? run.steps : b == 1 ? 1 : 1 + random.below(run.steps, 0, b));
  }
  readout_weight = drawn<T>(static_cast<std::size_t>(classes) * H, ++seed, 1 / std::sqrt(H));
  readout_bias = drawn<T>(classes, ++seed, 0.5);
  readout_weight_gradient.resize(readout_weight.size());
  readout_bias_gradient.resize(classes);
  for (float w : random_values<float>(positions(), ++seed)) weights.push_back(std::abs(w));
  for (std::size_t i = 0; i < positions(); ++i) {
    targets.push_back(static_cast<std::int32_t>(random.below(classes, 1, i)));
  }
  scale = 1.0 / static_cast<double>(positions());
  first_step = run.steps / 4;
  output.resize(positions() * H);
  output_gradient = drawn<T>(positions() * H, ++seed, 0.1);
  predictions.assign(positions(), -1);
  input_gradient.resize(dense.size());
}

template <class T>
SequenceInputs<T> SequenceData<T>::inputs() {
  parameter_table_.clear();
  initial_table_.clear();
  for (const auto& p : parameters) parameter_table_.push_back(p.data());
  for (const auto& s : initial) initial_table_.push_back(s.data());
  SequenceInputs<T> in;
  in.steps = run.steps;
  in.batch = run.batch;
  in.parameters = parameter_table_.data();
  in.dense = symbols.empty() ? dense.data() : nullptr;
  in.symbols = symbols.empty() ? nullptr : symbols.data();
  in.embedding = embedding.empty() ? nullptr : embedding.data();
  in.embedding_rows = static_cast<int>(embedding.size()) / input_width();
  in.initial = initial.empty() ? nullptr : initial_table_.data();
  in.lengths = lengths.empty() ? nullptr : lengths.data();
  return in;
}

template <class T>
SequenceOutputs<T> SequenceData<T>::outputs() {
  states_table_ = pointers(states);
  final_table_ = pointers(final_state);
  return {output.data(), states_table_.data(), final_table_.data()};
}

template <class T>
SequenceGradients<T> SequenceData<T>::gradients(bool with_output) {
  final_gradient_table_.clear();
  for (const auto& g : final_gradient) final_gradient_table_.push_back(g.data());
  parameter_gradient_table_ = pointers(parameter_gradients);
  initial_gradient_table_ = pointers(initial_gradients);
  SequenceGradients<T> g;
  g.output = with_output ? output_gradient.data() : nullptr;
  g.final_state = final_gradient.empty() ? nullptr : final_gradient_table_.data();
  g.parameters = parameter_gradient_table_.data();
  g.input = input_gradient.data();
  embedding_gradient.resize(embedding.size());
  g.embedding = embedding.empty() ? nullptr : embedding_gradient.data();
  g.initial = initial_gradients.empty() ? nullptr : initial_gradient_table_.data();
  g.state_limit = state_limit;
  return g;
}

template <class T>
Readout<T> SequenceData<T>::readout() {
  Readout<T> r;
  r.classes = classes;
  r.weight = readout_weight.data();
  r.bias = readout_bias.data();
  r.targets = targets.data();
  r.weights = weights.empty() ? nullptr : weights.data();
  r.first_step = first_step;
  r.scale = scale;
  r.weight_gradient = readout_weight_gradient.data();
  r.bias_gradient = readout_bias_gradient.data();
  r.predictions = predictions.empty() ? nullptr : predictions.data();
  return r;
}

template <class T>
SequenceResult SequenceData<T>::forward(Sequence<T>& sequence, bool keep) {
  return sequence.forward(inputs(), outputs(), keep);
}
template <class T>
void SequenceData<T>::backward(Sequence<T>& sequence) {
  sequence.backward(inputs(), gradients(true));
}
template <class T>
SequenceResult SequenceData<T>::train(Sequence<T>& sequence) {
  return sequence.train(inputs(), outputs(), readout(), gradients(false));
}
template <class T>
SequenceResult SequenceData<T>::evaluate(Sequence<T>& sequence) {
  return sequence.evaluate(inputs(), outputs(), readout());
}

template struct SequenceData<float>;
template struct SequenceData<double>;

}  // namespace nru::kernels
