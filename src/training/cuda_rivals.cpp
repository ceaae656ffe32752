// torch's own layers on the GPU, for `nru bench`.
#include "cells/torch_cuda.h"
#include "training/cuda_benchmark.h"
#include "training/torch_network.h"

namespace nru::training {

#ifdef NRU_TORCH_CUDA

namespace {

// `work` as one graph of torch's, recorded on a stream of its own.
std::shared_ptr<at::cuda::CUDAGraph> record(const c10::cuda::CUDAStream& stream,
                                            const std::function<void()>& work) {
  const c10::cuda::CUDAStreamGuard guard(stream);
  for (int i = 0; i < 3; ++i) work();  // as torch asks: what is set up lazily must be before
  torch::cuda::synchronize();
  auto graph = std::make_shared<at::cuda::CUDAGraph>();
  graph->capture_begin();
  work();
  graph->capture_end();
  return graph;
}

template <class Layer, class Options>
struct Rival : TorchNetwork<Layer, Options> {
  Rival(const Workload& w, std::int64_t hidden, const tasks::Batch& batch, bool tf32)
      : TorchNetwork<Layer, Options>(w, hidden, batch, torch::kCUDA),
        adam(this->parameters),
        tf32(tf32),
        stream(c10::cuda::getStreamFromPool()) {}

  void set_precision() const {
    at::globalContext().setAllowTF32CuBLAS(tf32);
    at::globalContext().setAllowTF32CuDNN(tf32);
  }
  void gradients() {
    adam.drop_gradients();
    this->loss().backward();
  }
  void update() {
    gradients();
    adam.step();
  }

  TorchAdam adam;
  bool tf32;
  c10::cuda::CUDAStream stream;
};

template <class Layer, class Options>
Contender make_rival(const Workload& w, const std::string& name, int gates, int states,
                     std::int64_t parameters, const tasks::Batch& batch, bool tf32, bool graph) {
  const std::int64_t hidden = equal_hidden_size(w, gates, parameters);
  const auto rival = std::make_shared<Rival<Layer, Options>>(w, hidden, batch, tf32);
  Contender c;
  c.row.cell = name;
  c.row.backend = "torch";
  c.row.precision = tf32 ? "tf32" : "float32";
  c.row.graph = graph;
  c.row.parameters = torch_parameters(w, gates, hidden);
  c.flop = update_flop(w, torch_weights(w, gates, hidden));
  c.bytes =
      update_bytes(w, static_cast<double>(c.row.parameters), static_cast<double>(states * hidden));
  const auto timed = [rival, graph](const std::function<void()>& work) -> std::function<void()> {
    if (!graph) {
      return [rival, work] {
        rival->set_precision();
        work();
        torch::cuda::synchronize();
      };
    }
    rival->set_precision();
    const auto recorded = record(rival->stream, work);
    return [rival, recorded] {
      const c10::cuda::CUDAStreamGuard guard(rival->stream);
      recorded->replay();
      rival->stream.synchronize();
    };
  };
  auto* network = rival.get();  // which the functions above keep
  c.forward = timed([network] { network->forward(); });
  c.gradients = timed([network] { network->gradients(); });
  c.update = timed([network] { network->update(); });
  return c;
}

}  // namespace

std::vector<Contender> cuda_rivals(const Workload& w, std::int64_t parameters,
                                   const tasks::Batch& batch, std::string& note) {
  std::vector<Contender> all;
  if (!torch::cuda::is_available()) {
    note = "torch finds no GPU";
    return all;
  }
  using namespace torch::nn;
  for (const bool tf32 : {false, true}) {
    for (const bool graph : {false, true}) {
      all.push_back(make_rival<LSTM, LSTMOptions>(w, "lstm", 4, 2, parameters, batch, tf32, graph));
      all.push_back(make_rival<GRU, GRUOptions>(w, "gru", 3, 1, parameters, batch, tf32, graph));
    }
  }
  return all;
}

#else

std::vector<Contender> cuda_rivals(const Workload&, std::int64_t, const tasks::Batch&,
                                   std::string& note) {
  note = "the torch of this build has no CUDA";
  return {};
}

#endif

}  // namespace nru::training
