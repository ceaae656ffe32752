#include "training/kernel_update.h"

#ifdef NRU_HAS_CUDA

#include <fmt/format.h>

#include "kernels/cuda/embedding.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/sequence.h"
#include "training/flat_parameters.h"

namespace nru::training {

namespace cuda = kernels::cuda;

struct KernelUpdate::State {
  State(const ModelSettings& settings, const tasks::Batch& batch, bool tf32)
      : model(settings),
        flat(*model),
        steps{0, batch.steps, batch.rows, nullptr},
        sequence(model->layer()->program<float>(0), {.stream = stream.handle(), .tf32 = tf32}),
        embedding(stream.handle()),
        adam({}, 1.0, stream.handle()) {
    upload(flat.values(), static_cast<std::size_t>(flat.size()), values);
    for (auto* buffer : {&gradients, &m, &v}) buffer->require(flat.size());
    for (const auto& p : model->layer()->program<float>(0)->parameters) {
      const auto offset = flat.entry(fmt::format("layer.{}_l0", p.name)).offset;
      layer_values.push_back(values.data() + offset);
      layer_gradients.push_back(gradients.data() + offset);
    }
    inputs.steps = batch.steps;
    inputs.batch = batch.rows;
    inputs.parameters = layer_values.data();
    set_input(batch);
    set_readout(batch);
    forward_graph = cuda::Graph(stream.handle(), [&] { run_forward(); });
    gradient_graph = cuda::Graph(stream.handle(), [&] { run_gradients(); });
    update_graph = cuda::Graph(stream.handle(), [&] { run_update(); });
  }

  template <class T>
  void upload(const T* from, std::size_t count, cuda::Buffer<T>& to) {
    cuda::upload(from, count * sizeof(T), to.require(count), stream.handle());
    cuda::wait(stream.handle());
  }

  void set_input(const tasks::Batch& batch) {
    if (!batch.dense.empty()) {
      upload(batch.dense.data(), batch.dense.size(), dense);
      inputs.dense = dense.data();
      return;
    }
    upload(batch.symbols.data(), batch.symbols.size(), symbols);
    if (!model->embedding()) {
      inputs.symbols = symbols.data();
      return;
    }
    const auto offset = flat.entry("embedding.weight").offset;
    table = values.data() + offset;
    table_gradient = gradients.data() + offset;
    const auto count = batch.symbols.size() * model->settings().embedding_size;
    inputs.dense = dense.require(count);
    dense_gradient.require(count);
  }

  void set_readout(const tasks::Batch& batch) {
    upload(batch.targets.data(), batch.targets.size(), targets);
    const auto weight = flat.entry("output.weight").offset, bias = flat.entry("output.bias").offset;
    readout.classes = static_cast<int>(model->settings().output_size);
    readout.weight = values.data() + weight;
    readout.bias = values.data() + bias;
    readout.weight_gradient = gradients.data() + weight;
    readout.bias_gradient = gradients.data() + bias;
    readout.targets = targets.data();
    readout.first_step = batch.loss_from;
    readout.scale = 1 / batch.weight_sum();
  }

  int width() const { return static_cast<int>(model->settings().embedding_size); }
  void embed() {
    if (table) embedding.forward(steps, symbols.data(), table, width(), dense.data());
  }

  void run_forward() {
    embed();
    sequence.forward(inputs, {}, /*keep=*/true);
  }
  void run_gradients() {
    embed();
    kernels::SequenceGradients<float> to;
    to.parameters = layer_gradients.data();
    to.input = dense_gradient.data();  // null without an embedding
    sequence.train(inputs, {}, readout, to);
    if (table) {
      embedding.backward(steps, symbols.data(), static_cast<int>(model->settings().input_size),
                         dense_gradient.data(), width(), table_gradient);
    }
  }
  void run_update() {
    run_gradients();
    adam.update(gradients.data(), sequence.device_loss(), values.data(), m.data(), v.data(),
                nullptr, flat.size());
  }

  void launch(cuda::Graph& graph) {
    graph.launch();
    cuda::wait(stream.handle());
  }

  Model model;  // its parameters are where those on the device start from
  FlatParameters flat;
  cuda::Steps steps;
  cuda::Stream stream;
  cuda::Sequence sequence;
  cuda::Embedding embedding;
  cuda::Adam adam;
  cuda::Buffer<float> values, gradients, m, v;  // flat
  cuda::Buffer<float> dense, dense_gradient;    // [T,B,I]
  cuda::Buffer<std::int32_t> symbols, targets;  // [T,B]
  const float* table = nullptr;                 // of the embedding
  float* table_gradient = nullptr;
  std::vector<const float*> layer_values;
  std::vector<float*> layer_gradients;
  kernels::SequenceInputs<float> inputs;
  kernels::Readout<float> readout;
  cuda::Graph forward_graph, gradient_graph, update_graph;
};

KernelUpdate::KernelUpdate(const ModelSettings& settings, const tasks::Batch& batch, bool tf32)
    : state_(std::make_unique<State>(settings, batch, tf32)) {}
KernelUpdate::~KernelUpdate() = default;
void KernelUpdate::update() { state_->launch(state_->update_graph); }
void KernelUpdate::gradients() { state_->launch(state_->gradient_graph); }
void KernelUpdate::forward() { state_->launch(state_->forward_graph); }
double KernelUpdate::loss() { return state_->sequence.result().loss; }
std::int64_t KernelUpdate::parameters() const { return state_->flat.size(); }

}  // namespace nru::training

#endif
