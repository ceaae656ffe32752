// Runs the cases of sequence_cases.h on a CUDA device: the buffers of a SequenceData<float>,
// mirrored in device memory.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "../support/needs_cuda.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/sequence.h"
#include "sequence_cases.h"

namespace nru::kernels::cuda {

// Vectors of the host with a copy on the device.
class Mirror {
 public:
  explicit Mirror(StreamHandle stream) : stream_(stream) {}

  template <class T>
  void add(std::vector<T>& values) {
    if (values.empty()) return;
    Entry& entry = entries_[values.data()];
    entry.host = values.data();
    entry.bytes = values.size() * sizeof(T);
    entry.device.require(entry.bytes);
  }
  void upload() {
    for (auto& [key, e] : entries_) cuda::upload(e.host, e.bytes, e.device.data(), stream_);
  }
  void download() {
    for (auto& [key, e] : entries_) cuda::download(e.device.data(), e.bytes, e.host, stream_);
  }

  template <class T>
  T* device(T* host) const {
    return host ? reinterpret_cast<T*>(entries_.at(host).device.data()) : nullptr;
  }
  // A table of pointers, null if there is none.
  template <class T>
  std::vector<T*> devices(T* const* hosts, std::size_t count) const {
    std::vector<T*> result;
    for (std::size_t i = 0; hosts && i < count; ++i) result.push_back(device(hosts[i]));
    return result;
  }

 private:
  struct Entry {
    void* host = nullptr;
    std::size_t bytes = 0;
    Buffer<char> device;
  };
  StreamHandle stream_;
  std::map<const void*, Entry> entries_;
};

class DeviceData {
 public:
  // The results' memory is filled with NaN: what a call does not write shows.
  DeviceData(SequenceData<float>& data, StreamHandle stream) : data_(data), mirror_(stream) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const auto poison = [&](auto& vectors) {
      for (auto& v : vectors) std::fill(v.begin(), v.end(), kNan);
    };
    poison(data.states);
    poison(data.final_state);
    poison(data.parameter_gradients);
    poison(data.initial_gradients);
    for (auto* v : {&data.output, &data.input_gradient, &data.readout_weight_gradient,
                    &data.readout_bias_gradient}) {
      std::fill(v->begin(), v->end(), kNan);
      mirror_.add(*v);
    }
    for (auto* vectors : {&data.parameters, &data.initial, &data.states, &data.final_state,
                          &data.final_gradient, &data.parameter_gradients, &data.initial_gradients})
      for (auto& v : *vectors) mirror_.add(v);
    for (auto* v : {&data.dense, &data.readout_weight, &data.readout_bias, &data.weights,
                    &data.output_gradient})
      mirror_.add(*v);
    mirror_.add(data.symbols);
    mirror_.add(data.targets);
    mirror_.add(data.predictions);
    mirror_.add(data.lengths);
    mirror_.upload();
  }

  SequenceInputs<float> inputs() {
    SequenceInputs<float> in = data_.inputs();
    parameters_ = mirror_.devices(in.parameters, data_.parameters.size());
    initial_ = mirror_.devices(in.initial, data_.initial.size());
    in.parameters = parameters_.data();
    in.initial = in.initial ? initial_.data() : nullptr;
    in.dense = mirror_.device(in.dense);
    in.symbols = mirror_.device(in.symbols);
    in.lengths = mirror_.device(in.lengths);
    return in;
  }
  SequenceOutputs<float> outputs() {
    SequenceOutputs<float> out = data_.outputs();
    states_ = mirror_.devices(out.states, data_.states.size());
    final_state_ = mirror_.devices(out.final_state, data_.final_state.size());
    return {mirror_.device(out.output), states_.data(), final_state_.data()};
  }
  SequenceGradients<float> gradients(bool with_output) {
    SequenceGradients<float> g = data_.gradients(with_output);
    final_gradient_ = mirror_.devices(g.final_state, data_.final_gradient.size());
    parameter_gradients_ = mirror_.devices(g.parameters, data_.parameters.size());
    initial_gradients_ = mirror_.devices(g.initial, data_.initial.size());
    g.output = mirror_.device(g.output);
    g.final_state = g.final_state ? final_gradient_.data() : nullptr;
    g.parameters = parameter_gradients_.data();
    g.input = mirror_.device(g.input);
    g.initial = g.initial ? initial_gradients_.data() : nullptr;
    return g;
  }
  Readout<float> readout() {
    Readout<float> r = data_.readout();
    r.weight = mirror_.device(r.weight);
    r.bias = mirror_.device(r.bias);
    r.targets = mirror_.device(r.targets);
    r.weights = mirror_.device(r.weights);
    r.weight_gradient = mirror_.device(r.weight_gradient);
    r.bias_gradient = mirror_.device(r.bias_gradient);
    r.predictions = mirror_.device(r.predictions);
    return r;
  }
  void download() { mirror_.download(); }

 private:
  SequenceData<float>& data_;
  Mirror mirror_;
  std::vector<const float*> parameters_, initial_, final_gradient_;
  std::vector<float*> states_, final_state_, parameter_gradients_, initial_gradients_;
};

// The calls of SequenceData, on a device. Results are in `data` afterwards.
inline SequenceResult train(SequenceData<float>& data, Sequence& sequence, StreamHandle stream) {
  DeviceData device(data, stream);
  sequence.train(device.inputs(), device.outputs(), device.readout(), device.gradients(false));
  device.download();
  return sequence.result();
}
inline SequenceResult evaluate(SequenceData<float>& data, Sequence& sequence, StreamHandle stream) {
  DeviceData device(data, stream);
  sequence.evaluate(device.inputs(), device.outputs(), device.readout());
  device.download();
  return sequence.result();
}
inline void forward(SequenceData<float>& data, Sequence& sequence, StreamHandle stream, bool keep) {
  DeviceData device(data, stream);
  sequence.forward(device.inputs(), device.outputs(), keep);
  device.download();
}
inline void forward_backward(SequenceData<float>& data, Sequence& sequence, StreamHandle stream) {
  DeviceData device(data, stream);
  sequence.forward(device.inputs(), device.outputs(), true);
  sequence.backward(device.inputs(), device.gradients(true));
  device.download();
}

}  // namespace nru::kernels::cuda
