// Times whole updates on the GPU at kernel level: forward, loss, backward, clipping and Adam in one
// graph. No torch, no task: random data of a task's shape. For the tuning of src/kernels/cuda.
//
//   cuda_update [--products tiles|cublas] [--generic] [--tf32] [--filter TEXT] [--streams N]
//               [--once]
//
// --generic: no whole-sequence kernels. --streams: N runs side by side. --once: one update of each,
// for a profiler.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/sequence.h"
#include "kernels/eurnn.h"
#include "kernels/goru.h"
#include "kernels/gru.h"
#include "kernels/janet.h"
#include "kernels/lstm.h"
#include "kernels/nru.h"
#include "kernels/rnn.h"
#include "kernels/sru.h"

namespace {

using namespace nru::kernels;

struct Shape {
  const char* task;
  int steps, batch, classes, first_step;
};

// Steps as the tasks have them: copy T=100 is 120 steps with the loss on the last 10.
const Shape kCopy{"copy", 120, 10, 9, 110}, kPsmnist{"psmnist", 785, 100, 10, 784},
    kPtb{"char-ptb", 150, 128, 50, 0};

struct Case {
  std::string cell;
  Shape shape;
  Program<float> program;
};

std::vector<Case> cases() {
  const std::vector<double> scales = {0, 0.5, 0.9, 0.99, 0.999};
  const auto nru = [](int I, int H, int M, bool relu) {
    return nru_program<float>(
        {.input = I, .hidden = H, .memory = M, .heads = 4, .relu_heads = relu});
  };
  return {
      {"nru", kCopy, nru(10, 80, 64, false)},
      {"nru", kPsmnist, nru(1, 212, 256, false)},
      {"nru", kPtb, nru(200, 1000, 576, true)},
      {"rnn", kPsmnist, rnn_program<float>({1, 400, false, true})},
      {"lstm", kPsmnist, lstm_program<float>({1, 200, true})},
      {"gru", kPsmnist, gru_program<float>({1, 232})},
      {"janet", kPsmnist, janet_program<float>({1, 283})},
      {"sru", kPsmnist, sru_program<float>({1, 150, 155, 50, scales})},
      {"eurnn", kPsmnist, eurnn_program<float>({.input = 1, .hidden = 1024})},
      {"goru", kPsmnist, goru_program<float>({.input = 1, .hidden = 282})},
      {"lstm", kCopy, lstm_program<float>({10, 70, true})},
      {"eurnn", kCopy, eurnn_program<float>({.input = 10, .hidden = 589, .complex = true})},
      {"lstm", kPtb, lstm_program<float>({200, 630, true})},
      {"gru", kPtb, gru_program<float>({200, 750})},
      {"eurnn", kPtb, eurnn_program<float>({.input = 200, .hidden = 8192})},
  };
}

// One training run: all buffers on the device, and its update as a graph.
class Run {
 public:
  Run(const Case& c, cuda::SequenceOptions options)
      : shape_(c.shape),
        program_(std::make_shared<const Program<float>>(c.program)),
        sequence_(program_, with_stream(options)),
        adam_({}, 1.0, stream_.handle()) {
    const int I = program_->parts[kInput].width, H = program_->parts[program_->output].width;
    std::mt19937 random(1);
    std::vector<float> values;
    std::vector<std::size_t> offsets;
    const auto append = [&](std::size_t count, double scale) {
      std::uniform_real_distribution<float> draw(-scale, scale);
      offsets.push_back(values.size());
      for (std::size_t i = 0; i < count; ++i) values.push_back(draw(random));
    };
    for (const Parameter& p : program_->parameters)
      append(p.size(), p.rotations > 0 ? 3 : 0.3 / std::sqrt(p.columns > 0 ? p.columns : 4));
    append(static_cast<std::size_t>(shape_.classes) * H, 1 / std::sqrt(H));
    append(shape_.classes, 0.1);
    count_ = static_cast<std::int64_t>(values.size());
    upload(values, values_);
    for (auto* buffer : {&gradients_, &m_, &v_}) buffer->require(count_);
    for (std::size_t p = 0; p < program_->parameters.size(); ++p) {
      parameters_.push_back(values_.data() + offsets[p]);
      parameter_gradients_.push_back(gradients_.data() + offsets[p]);
    }
    const std::size_t positions = static_cast<std::size_t>(shape_.steps) * shape_.batch;
    std::vector<float> x(positions * I);
    for (float& value : x) value = std::uniform_real_distribution<float>(-1, 1)(random);
    upload(x, dense_);
    std::vector<std::int32_t> targets(positions);
    for (auto& t : targets) t = static_cast<std::int32_t>(random() % shape_.classes);
    upload(targets, targets_);

    inputs_.steps = shape_.steps;
    inputs_.batch = shape_.batch;
    inputs_.parameters = parameters_.data();
    inputs_.dense = dense_.data();
    readout_.classes = shape_.classes;
    const std::size_t last = offsets.size() - 2;
    readout_.weight = values_.data() + offsets[last];
    readout_.bias = values_.data() + offsets[last + 1];
    readout_.weight_gradient = gradients_.data() + offsets[last];
    readout_.bias_gradient = gradients_.data() + offsets[last + 1];
    readout_.targets = targets_.data();
    readout_.first_step = shape_.first_step;
    readout_.scale = 1.0 / ((shape_.steps - shape_.first_step) * shape_.batch);
    update_ = cuda::Graph(stream_.handle(), [&] { update(); });
    forward_ = cuda::Graph(stream_.handle(), [&] { sequence_.forward(inputs_, {}, true); });
  }

  void launch() { update_.launch(); }
  void launch_forward() { forward_.launch(); }
  void wait() { cuda::wait(stream_.handle()); }
  std::int64_t parameters() const { return count_; }
  double loss() { return sequence_.result().loss; }
  std::int64_t skipped() { return adam_.report().skipped; }

 private:
  cuda::SequenceOptions with_stream(cuda::SequenceOptions options) const {
    options.stream = stream_.handle();
    return options;
  }
  template <class T>
  void upload(const std::vector<T>& from, cuda::Buffer<T>& to) {
    cuda::upload(from.data(), from.size() * sizeof(T), to.require(from.size()), stream_.handle());
    wait();
  }
  void update() {
    SequenceGradients<float> g;
    g.parameters = parameter_gradients_.data();
    sequence_.train(inputs_, {}, readout_, g);
    adam_.update(gradients_.data(), sequence_.device_result().loss,
                 {values_.data(), m_.data(), v_.data()}, count_);
  }

  Shape shape_;
  std::shared_ptr<const Program<float>> program_;
  cuda::Stream stream_;
  cuda::Sequence sequence_;
  cuda::Adam adam_;
  std::int64_t count_ = 0;
  cuda::Buffer<float> values_, gradients_, m_, v_, dense_;
  cuda::Buffer<std::int32_t> targets_;
  std::vector<const float*> parameters_;
  std::vector<float*> parameter_gradients_;
  SequenceInputs<float> inputs_;
  Readout<float> readout_;
  cuda::Graph update_, forward_;
};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Median milliseconds of `work` followed by a wait.
template <class F>
double median_ms(Run& run, const F& work) {
  std::vector<double> times;
  double spent = 0;
  for (int i = 0; i < 3 || (spent < 0.4 && i < 200); ++i) {
    const double start = seconds();
    work();
    run.wait();
    const double time = seconds() - start;
    if (i > 0) times.push_back(time * 1e3);  // the first is a warm-up
    spent += time;
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

void print_times(const Case& c, const cuda::SequenceOptions& options) {
  Run run(c, options);
  const double forward = median_ms(run, [&] { run.launch_forward(); });
  const double update = median_ms(run, [&] { run.launch(); });
  const std::string path =
      options.whole_sequence ? cuda::path_of(c.program, c.shape.batch) : "generic";
  std::printf(
      "%-9s %-6s %-8s %9lld  update %8.3f ms  forward %6.2f us/step  rest %6.2f us/step  loss "
      "%.4f skipped %lld\n",
      c.shape.task, c.cell.c_str(), path.c_str(), static_cast<long long>(run.parameters()), update,
      forward * 1e3 / c.shape.steps, (update - forward) * 1e3 / c.shape.steps, run.loss(),
      static_cast<long long>(run.skipped()));
  std::fflush(stdout);
}

// Several runs side by side, each on its own stream.
void print_throughput(const Case& c, const cuda::SequenceOptions& options, int streams) {
  std::vector<std::unique_ptr<Run>> runs;
  for (int i = 0; i < streams; ++i) runs.push_back(std::make_unique<Run>(c, options));
  for (auto& run : runs) run->launch();
  for (auto& run : runs) run->wait();
  constexpr int kRounds = 60;
  const double start = seconds();
  for (int round = 0; round < kRounds; ++round) {
    for (auto& run : runs) run->launch();
  }
  for (auto& run : runs) run->wait();
  std::printf("%-9s %-6s %3d streams: %8.0f updates/s\n", c.shape.task, c.cell.c_str(), streams,
              kRounds * streams / (seconds() - start));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  cuda::SequenceOptions options;
  std::string filter;
  int streams = 0;
  bool once = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--tf32") {
      options.tf32 = true;
      continue;
    }
    if (option == "--generic") {
      options.whole_sequence = false;
      continue;
    }
    if (option == "--once") {
      once = true;
      continue;
    }
    ++i;
    if (option == "--products" && (value == "tiles" || value == "cublas")) {
      options.step_products =
          value == "tiles" ? cuda::StepProducts::tiles : cuda::StepProducts::cublas;
    } else if (option == "--filter") {
      filter = value;
    } else if (option == "--streams") {
      streams = std::stoi(value);
    } else {
      std::fprintf(stderr, "cuda_update: what is %s %s?\n", option.c_str(), value.c_str());
      return 2;
    }
  }
  if (cuda::device_count() == 0) {
    std::fprintf(stderr, "cuda_update: no CUDA device\n");
    return 2;
  }
  try {
    for (const Case& c : cases()) {
      if ((c.shape.task + (" " + c.cell)).find(filter) == std::string::npos) continue;
      if (once) {
        Run run(c, options);
        run.launch();
        run.wait();
        continue;
      }
      streams > 0 ? print_throughput(c, options, streams) : print_times(c, options);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_update: %s\n", error.what());
    return 1;
  }
}
