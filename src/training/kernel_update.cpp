#include "training/kernel_update.h"

#ifdef NRU_HAS_CUDA

#include "kernels/cuda/optimizer.h"
#include "training/cuda_network.h"

namespace nru::training {

namespace cuda = kernels::cuda;

struct KernelUpdate::State {
  State(const ModelSettings& settings, const tasks::Batch& host_batch, bool tf32)
      : model(settings),
        flat(*model),
        network(model, flat, tf32),
        adam({}, 1.0, network.stream()),
        batch(memory.upload(host_batch, network.stream())) {
    for (auto* buffer : {&m, &v}) buffer->require(flat.size());
    cuda::upload(flat.values(), static_cast<std::size_t>(flat.size()) * sizeof(float),
                 network.values(), network.stream());
    cuda::wait(network.stream());
    const auto graph = [&](const std::function<void()>& work) {
      return cuda::Graph(network.stream(), work);
    };
    forward = graph([&] { network.forward(batch); });
    gradients = graph([&] { network.train(batch, {}, {}); });
    update = graph([&] {
      network.train(batch, {}, {});
      adam.update(network.gradients(), network.sequence().device_result().loss,
                  {network.values(), m.data(), v.data()}, network.size());
    });
  }

  void run(cuda::Graph& graph) {
    graph.launch();
    cuda::wait(network.stream());
  }

  Model model;
  FlatParameters flat;
  CudaNetwork network;
  cuda::Adam adam;
  DeviceBatchMemory memory;
  tasks::DeviceBatch batch;
  cuda::Buffer<float> m, v;
  cuda::Graph forward, gradients, update;
};

KernelUpdate::KernelUpdate(const ModelSettings& settings, const tasks::Batch& batch, bool tf32)
    : state_(std::make_unique<State>(settings, batch, tf32)) {}
KernelUpdate::~KernelUpdate() = default;
void KernelUpdate::update() { state_->run(state_->update); }
void KernelUpdate::gradients() { state_->run(state_->gradients); }
void KernelUpdate::forward() { state_->run(state_->forward); }
std::string KernelUpdate::path() const {
  return cuda::path_of(state_->network.program(), state_->batch.shape.rows);
}
std::vector<float> KernelUpdate::gradient_values() const {
  std::vector<float> values(static_cast<std::size_t>(state_->flat.size()));
  cuda::download(state_->network.gradients(), values.size() * sizeof(float), values.data(),
                 state_->network.stream());
  return values;
}
double KernelUpdate::loss() { return state_->network.sequence().result().loss; }

}  // namespace nru::training

#endif
