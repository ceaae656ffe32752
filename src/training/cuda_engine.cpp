// The engine of a CUDA device, and its updater: the whole update as one graph, with the batch made,
// the gradients applied and the outcome kept on the device.
#include "training/cuda_engine.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#ifdef NRU_HAS_CUDA
#include "kernels/cuda/device_state.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/update_log.h"
#include "training/cuda_network.h"
#endif

namespace nru::training {

#ifdef NRU_HAS_CUDA
namespace {

namespace cuda = kernels::cuda;
using tasks::Batch;
using tasks::BatchShape;
using tasks::DeviceBatch;

// Runs that share a device make their objects, and each kernel's first launch, one after the other.
// What the driver does then is long and rare, and not worth any risk at once in many threads.
std::unique_lock<std::mutex> one_at_a_time() {
  static std::mutex mutex;
  return std::unique_lock(mutex);
}

class CudaEngine : public Engine {
 public:
  CudaEngine(Model model, FlatParameters& flat, bool tf32)
      : Engine(model), model_(model), flat_(&flat), network_(model, flat, tf32) {
    const auto& parts = network_.program().parts;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].kind == kernels::PartKind::state) state_parts_.push_back(static_cast<int>(p));
    }
  }

  std::unique_ptr<Updater> make_updater(const tasks::Task& task, FlatParameters& parameters,
                                        Optimizer& optimizer) override;

  std::string device() const override { return fmt::format("cuda ({})", cuda::device_name()); }

  CudaNetwork& network() { return network_; }
  // The first state part that is not the output, -1: there is none.
  int memory_part() const {
    const auto found = std::find(is_output().begin(), is_output().end(), false);
    return found == is_output().end() ? -1 : state_parts_[found - is_output().begin()];
  }

  // Whose parameters are the newer ones: the host's are copied before each use until the device
  // trains on its own.
  void set_device_ahead(bool ahead) { device_ahead_ = ahead; }
  void upload_parameters() {
    cuda::upload(flat_->values(), bytes(), network_.values(), network_.stream());
  }

 protected:
  StepOutcome train(const Batch& batch, const CarriedState& initial, CarriedState& final) override {
    const cuda::Unrecorded unrecorded;
    const auto call = begin(batch, initial);
    network_.train(call.batch, call.initial, call.state.parts(), row_limit(batch.rows));
    const StepOutcome o = outcome(network_.sequence().result());
    cuda::download(network_.gradients(), bytes(), flat_->gradients(), network_.stream());
    final = call.state.get();
    return o;
  }

  StepOutcome predict(const Batch& batch, const CarriedState& initial, CarriedState& final,
                      std::vector<std::int32_t>* predictions) override {
    const cuda::Unrecorded unrecorded;
    const auto call = begin(batch, initial);
    std::int32_t* best = predictions ? predictions_.require(batch.targets.size()) : nullptr;
    network_.evaluate(call.batch, call.initial, call.state.parts(), best);
    const StepOutcome o = outcome(network_.sequence().result());
    if (predictions) {
      predictions->assign(batch.targets.size(), 0);
      // Before loss_from there are none.
      const std::size_t first = static_cast<std::size_t>(batch.loss_from) * batch.rows;
      cuda::download(best + first, (predictions->size() - first) * sizeof *best,
                     predictions->data() + first, network_.stream());
    }
    final = call.state.get();
    return o;
  }

 private:
  struct Call {
    DeviceBatch batch;
    std::vector<const float*> initial;
    cuda::DeviceState& state;
  };

  std::size_t bytes() const { return static_cast<std::size_t>(flat_->size()) * sizeof(float); }

  Call begin(const Batch& batch, const CarriedState& initial) {
    if (!device_ahead_) upload_parameters();
    auto& state = states_[batch.rows];
    if (!state) {
      state =
          std::make_unique<cuda::DeviceState>(network_.program(), batch.rows, network_.stream());
    }
    Call call{memory_.upload(batch, network_.stream()), {}, *state};
    if (!initial.empty()) {
      state->set(initial);
      call.initial.assign(state->parts().begin(), state->parts().end());
    }
    return call;
  }

  Model model_;  // owns the program
  FlatParameters* flat_;
  CudaNetwork network_;
  std::vector<int> state_parts_;
  DeviceBatchMemory memory_;
  std::map<int, std::unique_ptr<cuda::DeviceState>> states_;  // by batch size
  cuda::Buffer<std::int32_t> predictions_;
  bool device_ahead_ = false;
};

// Each look waits for the device: 0.02 s between them at copy size, 0.5 s at psMNIST size.
constexpr int kUpdatesPerLook = 100;
static_assert(kUpdatesPerLook <= cuda::UpdateLog::kCapacity);

// Where an update is so few kernels that launching its graph counts, as with many short runs side
// by side (the driver launches one graph at a time), one graph makes this many.
constexpr int kUpdatesPerGraph = 20;
constexpr std::size_t kFewKernels = 64;

class CudaUpdater : public Updater {
 public:
  CudaUpdater(const tasks::Task& task, CudaEngine& engine, FlatParameters& parameters,
              Optimizer& optimizer)
      : task_(&task),
        batches_(task.device_batches()),
        engine_(&engine),
        network_(&engine.network()),
        parameters_(&parameters),
        optimizer_(&optimizer),
        adam_(optimizer.settings(), optimizer.clip_norm(), network_->stream()),
        log_(network_->stream()) {
    for (const auto& [host, device] : optimizer_state()) device->require(host->size());
    publish();
  }

  std::int64_t most_at_once() const override { return kUpdatesPerLook; }

  void run(std::int64_t first, std::int64_t count, std::vector<UpdateOutcome>& outcomes) override {
    if (next_ != first) log_.restart(static_cast<std::uint64_t>(first));
    next_ = first + count;
    std::vector<double> baselines;
    for (std::int64_t i = first; i < next_;) i += launch(i, next_ - i, baselines);
    cuda::wait_in_looks(network_->stream());
    const cuda::Unrecorded unrecorded;
    const auto records = log_.read(static_cast<std::uint64_t>(next_), static_cast<int>(count));
    for (std::size_t i = 0; i < records.size(); ++i) {
      outcomes.push_back(outcome(records[i], baselines[i]));
    }
  }

  void fetch() override {
    const cuda::Unrecorded unrecorded;
    download(network_->values(), parameters_->values());
    for (const auto& [host, device] : optimizer_state())
      if (!host->empty()) download(device->data(), host->data());
    optimizer_->set_steps(adam_.report().steps);
    if (state_) engine_->set_carried(state_->get());
  }

  void publish() override {
    const cuda::Unrecorded unrecorded;
    engine_->upload_parameters();
    engine_->set_device_ahead(true);
    for (const auto& [host, device] : optimizer_state())
      if (!host->empty()) upload(host->data(), device->data());
    cuda::AdamReport report;
    report.steps = optimizer_->steps();
    report.caution = optimizer_->caution();
    adam_.resume(report);
    if (state_) state_->set(engine_->carried());
  }

 private:
  // What a recorded update depends on. All else of a batch is read on the device.
  using Key = std::tuple<int, int, int, bool, tasks::Carry>;
  static Key key_of(const BatchShape& shape) {
    return {shape.steps, shape.rows, shape.loss_from, shape.weighted, shape.carry};
  }
  // A batch's place is that of its key: a graph reads where it was recorded, and one place for all
  // would move when a larger batch comes.
  struct Recorded {
    DeviceBatchMemory memory;
    cuda::Graph one, many;  // an update, kUpdatesPerGraph updates; recorded when first wanted
  };

  // What Adam keeps beside the parameters, on both sides; empty on the host: not kept.
  std::array<std::pair<std::vector<float>*, cuda::Buffer<float>*>, 4> optimizer_state() {
    return {{{&optimizer_->m(), &m_},
             {&optimizer_->v(), &v_},
             {&optimizer_->v_max(), &v_max_},
             {&optimizer_->average(), &average_}}};
  }

  std::size_t bytes() const {
    return static_cast<std::size_t>(parameters_->size()) * sizeof(float);
  }
  void download(const float* from, float* to) {
    cuda::download(from, bytes(), to, network_->stream());
  }
  void upload(const float* from, float* to) {
    cuda::upload(from, bytes(), to, network_->stream());
    cuda::wait(network_->stream());
  }

  // Queues update i and, up to `most` in all, those that go with it in one graph. Appends the
  // baselines of their batches; gives how many they are.
  std::int64_t launch(std::int64_t i, std::int64_t most, std::vector<double>& baselines) {
    const BatchShape shape = next_batch(i);
    baselines.push_back(shape.baseline);
    const auto [found, is_new] = graphs_.try_emplace(key_of(shape));
    auto& [memory, one, many] = found->second;
    if (!batches_) {
      const cuda::Unrecorded unrecorded;
      memory.upload(batch_, network_->stream());
    }
    if (is_new) {
      // Kernels are loaded and memory is taken the first time, neither of which a recording likes.
      const auto turn = one_at_a_time();
      const cuda::Unrecorded unrecorded;
      update(shape, memory);
      return 1;
    }
    record(one, memory, shape, 1);
    if (one.nodes() > kFewKernels || most < kUpdatesPerGraph || !followed(i, shape, baselines)) {
      one.launch();
      return 1;
    }
    record(many, memory, shape, kUpdatesPerGraph);
    many.launch();
    return kUpdatesPerGraph;
  }

  void record(cuda::Graph& graph, DeviceBatchMemory& memory, const BatchShape& shape, int updates) {
    if (graph.recorded()) return;
    graph = cuda::Graph(network_->stream(), [&] {
      for (int u = 0; u < updates; ++u) update(shape, memory);
    });
  }

  // Whether the device makes the batches after i, as many as go into one graph, in this one's
  // shape; then appends their baselines.
  bool followed(std::int64_t i, const BatchShape& shape, std::vector<double>& baselines) const {
    if (!batches_) return false;
    std::vector<double> next;
    for (std::int64_t j = i + 1; j < i + kUpdatesPerGraph; ++j) {
      const BatchShape other = task_->shape(tasks::Split::train, static_cast<std::uint64_t>(j));
      if (key_of(other) != key_of(shape)) return false;
      next.push_back(other.baseline);
    }
    baselines.insert(baselines.end(), next.begin(), next.end());
    return true;
  }

  // The shape of batch i, which is made where the device does not make it.
  BatchShape next_batch(std::int64_t i) {
    const auto index = static_cast<std::uint64_t>(i);
    if (batches_) return task_->shape(tasks::Split::train, index);
    task_->make_batch(tasks::Split::train, index, batch_);
    return batch_.shape();
  }

  // The state that batches carry on; null: this task's do not.
  cuda::DeviceState* carried_state(const BatchShape& shape) {
    if (task_->carries_state() && !state_) {
      state_ =
          std::make_unique<cuda::DeviceState>(network_->program(), shape.rows, network_->stream());
      state_->set(engine_->carried());
    }
    return state_.get();
  }

  // One whole update, of the batch that is, or will be, in `memory`.
  void update(const BatchShape& shape, DeviceBatchMemory& memory) {
    const DeviceBatch batch = memory.require(shape);
    if (batches_) batches_->make(tasks::Split::train, log_.index(), batch, network_->stream());
    std::vector<const float*> initial;
    std::vector<float*> final;
    if (cuda::DeviceState* state = carried_state(shape)) {
      final = state->parts();
      for (std::size_t p = 0; p < final.size() && shape.carry != tasks::Carry::nothing; ++p) {
        const bool fresh = shape.carry == tasks::Carry::memory && engine_->is_output()[p];
        initial.push_back(fresh ? nullptr : final[p]);
      }
    }
    network_->train(batch, initial, final, engine_->row_limit(shape.rows));
    if (state_) state_->mend(engine_->state_limit());
    adam_.update(network_->gradients(), network_->sequence().device_result().loss,
                 {network_->values(), m_.data(), v_.data(), v_max_.data(), average_.data()},
                 network_->size());
    log_.append(network_->sequence(), adam_, network_->program().output, engine_->memory_part());
  }

  UpdateOutcome outcome(const cuda::UpdateRecord& record, double baseline) const {
    UpdateOutcome o;
    o.step.loss = record.loss;
    o.step.max_hidden = record.max_output;
    if (engine_->memory_part() >= 0) o.step.max_memory = record.max_memory;
    o.step.overflows = record.overflows;
    o.norm = record.norm;
    o.skipped = !optimizer_->accepts(record.loss, record.norm);
    o.baseline = baseline;
    return o;
  }

  const tasks::Task* task_;
  std::unique_ptr<tasks::DeviceBatches> batches_;  // null: made by the host
  CudaEngine* engine_;
  CudaNetwork* network_;
  FlatParameters* parameters_;
  Optimizer* optimizer_;
  cuda::Adam adam_;
  cuda::UpdateLog log_;
  cuda::Buffer<float> m_, v_, v_max_, average_;
  std::unique_ptr<cuda::DeviceState> state_;  // of tasks that carry one
  Batch batch_;
  std::map<Key, Recorded> graphs_;
  std::int64_t next_ = 0;
};

std::unique_ptr<Updater> CudaEngine::make_updater(const tasks::Task& task,
                                                  FlatParameters& parameters,
                                                  Optimizer& optimizer) {
  const auto turn = one_at_a_time();
  const cuda::Unrecorded unrecorded;
  return std::make_unique<CudaUpdater>(task, *this, parameters, optimizer);
}

int number_of(const std::string& device) {
  return device.starts_with("cuda:") ? std::stoi(device.substr(5)) : 0;
}

}  // namespace

void require_device(const std::string& device) {
  if (device == "cpu") return;
  const int count = cuda::device_count();
  if (number_of(device) >= count) {
    throw Error(fmt::format(
        "device '{}' is not there: this machine has {} CUDA device{}{}; use {}--device cpu", device,
        count, count == 1 ? "" : "s", count == 0 ? fmt::format(" ({})", cuda::why_no_device()) : "",
        count > 0 ? fmt::format("cuda:0 .. cuda:{}, or ", count - 1) : ""));
  }
}

std::unique_ptr<Engine> make_cuda_engine(Model model, FlatParameters& parameters,
                                         const std::string& device, bool tf32) {
  const auto turn = one_at_a_time();
  require_device(device);
  cuda::use_device(number_of(device));
  const cuda::Unrecorded unrecorded;
  const auto program = model->layer()->program<float>(0);
  if (!cuda::supports(*program)) {
    throw Error(fmt::format("the cell '{}' has no CUDA kernels; use --device cpu", program->cell));
  }
  return std::make_unique<CudaEngine>(model, parameters, tf32);
}

#else

void require_device(const std::string& device) {
  if (device == "cpu") return;
  throw Error(fmt::format(
      "this build has no CUDA kernels, got device = '{}'; build with nvcc on the PATH, or use "
      "--device cpu",
      device));
}

std::unique_ptr<Engine> make_cuda_engine(Model, FlatParameters&, const std::string& device, bool) {
  require_device(device);
  throw std::logic_error("make_cuda_engine() is for CUDA devices");
}

#endif

}  // namespace nru::training
