#include "kernels/cuda/device.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "kernels/cuda/check.h"

namespace nru::kernels::cuda {
namespace {

// While a stream is captured, a thread may call what is not captured (allocations) only in the
// relaxed mode.
class RelaxedCapture {
 public:
  RelaxedCapture() {
    check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode");
  }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Many threads that do not record, or one that does. A recording that waits lets no newcomers in:
// threads that train hold the gate most of the time, and it would never get its turn.
class Gate {
 public:
  void enter() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !recording_ && waiting_ == 0; });
    ++inside_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) changed_.notify_all();
  }
  void begin_recording() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.wait(lock, [&] { return !recording_ && inside_ == 0; });
    --waiting_;
    recording_ = true;
  }
  void end_recording() {
    const std::lock_guard lock(mutex_);
    recording_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0, waiting_ = 0;
  bool recording_ = false;
};

Gate& gate() {
  static Gate the_gate;
  return the_gate;
}

// How often this thread is inside, recording included: the gate is for the outermost.
thread_local int depth = 0;

class Recording {
 public:
  Recording() {
    if (depth > 0) throw std::logic_error("a graph is recorded inside of Unrecorded work");
    gate().begin_recording();
    ++depth;
  }
  ~Recording() {
    --depth;
    gate().end_recording();
  }
};

}  // namespace

Unrecorded::Unrecorded() {
  if (depth == 0) gate().enter();
  ++depth;
}
Unrecorded::~Unrecorded() {
  if (--depth == 0) gate().leave();
}

void fail(const std::string& what, cudaError_t error) {
  throw Error("CUDA: " + what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) +
              ")");
}

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // a machine without a driver is no error here
  return 0;
}

void use_device(int number) { check(cudaSetDevice(number), "choosing the device"); }

std::string device_name() {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties.name;
}

void wait(StreamHandle stream) {
  check(cudaStreamSynchronize(stream), "waiting for the work of a stream");
}

void* allocate(std::size_t bytes) {
  const Unrecorded unrecorded;
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
  if (error != cudaSuccess) fail("allocating " + std::to_string(bytes) + " bytes", error);
  // On a stream of its own: the default stream waits for others, which a capture does not allow.
  const Stream stream;
  check(cudaMemsetAsync(memory, 0, bytes, stream.handle()), "clearing new memory");
  wait(stream.handle());
  return memory;
}

void release(void* memory) noexcept {
  const Unrecorded unrecorded;
  cudaFree(memory);
}

void upload(const void* from, std::size_t bytes, void* to, StreamHandle stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying to the device");
}

void download(const void* from, std::size_t bytes, void* to, StreamHandle stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
        "copying from the device");
  wait(stream);
}

Stream::Stream() {
  const Unrecorded unrecorded;
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "creating a stream");
}
Stream::~Stream() {
  if (!handle_) return;
  const Unrecorded unrecorded;
  cudaStreamDestroy(handle_);
}
Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Graph::Graph(StreamHandle stream, const std::function<void()>& work) : stream_(stream) {
  const Recording recording;
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  try {
    work();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "ending a capture");
  const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "instantiating a graph");
}
Graph::~Graph() {
  if (!executable_) return;
  const Unrecorded unrecorded;
  cudaGraphExecDestroy(executable_);
}
Graph::Graph(Graph&& other) noexcept
    : stream_(other.stream_), executable_(std::exchange(other.executable_, nullptr)) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(executable_, other.executable_);
  return *this;
}

void Graph::launch() {
  const Unrecorded unrecorded;
  check(cudaGraphLaunch(executable_, stream_), "launching a graph");
}

}  // namespace nru::kernels::cuda
