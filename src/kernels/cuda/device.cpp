#include "kernels/cuda/device.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/cuda/check.h"

namespace nru::kernels::cuda {
namespace {

thread_local MemoryPool current_pool;
thread_local StreamHandle pool_stream = nullptr;

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

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Unrecorded::Unrecorded() {
  if (depth == 0) gate().enter();
  ++depth;
}
Unrecorded::~Unrecorded() {
  if (--depth == 0) gate().leave();
}

void fail(const std::string& what, cudaError_t error) {
  cudaGetLastError();  // told here: it is not for the next check_launch(), of another kernel
  throw Error("CUDA: " + what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) +
              ")");
}

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // a machine without a driver is no error here
  return 0;
}

std::string why_no_device() {
  int count = 0, runtime = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return "";
  cudaGetLastError();
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const std::string driver = driver_version(), build = version_text(runtime);
  if (driver.empty()) return "there is no driver that this build for CUDA " + build + " could load";
  if (error == cudaSuccess) error = cudaErrorNoDevice;
  return std::string(cudaGetErrorString(error)) + "; the driver is for CUDA " + driver +
         ", this build for " + build;
}

void use_device(int number) { check(cudaSetDevice(number), "choosing the device"); }

std::string device_name() {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties.name;
}

const char* built_architectures() { return NRU_CUDA_ARCHITECTURES; }

std::string driver_version() {
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return version > 0 ? version_text(version) : "";
}

void wait(StreamHandle stream) {
  check(cudaStreamSynchronize(stream), "waiting for the work of a stream");
}

void wait_in_looks(StreamHandle stream) {
  using std::chrono::microseconds;
  const auto done = [&] {
    const Unrecorded unrecorded;
    const cudaError_t state = cudaStreamQuery(stream);
    if (state != cudaErrorNotReady) check(state, "waiting for the work of a stream");
    return state == cudaSuccess;
  };
  for (microseconds pause(20); !done(); pause = std::min(2 * pause, microseconds(320)))
    std::this_thread::sleep_for(pause);
}

DeviceScope::DeviceScope(int device) {
  check(cudaGetDevice(&before_), "cudaGetDevice");
  check(cudaSetDevice(device), "choosing the device");
}
DeviceScope::~DeviceScope() { cudaSetDevice(before_); }

PoolScope::PoolScope(const MemoryPool& pool, StreamHandle stream)
    : pool_before_(std::exchange(current_pool, pool)),
      stream_before_(std::exchange(pool_stream, stream)) {}
PoolScope::~PoolScope() {
  current_pool = pool_before_;
  pool_stream = stream_before_;
}

Memory allocate(std::size_t bytes) {
  if (current_pool.allocate) {
    Memory memory(current_pool.allocate(bytes > 0 ? bytes : 1, pool_stream), current_pool.release);
    check(cudaMemsetAsync(memory.get(), 0, bytes, pool_stream), "clearing memory of a pool");
    return memory;
  }
  const Unrecorded unrecorded;
  const RelaxedCapture relaxed;
  void* taken = nullptr;
  const cudaError_t error = cudaMalloc(&taken, bytes > 0 ? bytes : 1);
  if (error != cudaSuccess) fail("allocating " + std::to_string(bytes) + " bytes", error);
  Memory memory(taken, [](void* p) {
    const Unrecorded unrecorded;
    cudaFree(p);
  });
  // On a stream of its own: the default stream waits for others, which a capture does not allow.
  const Stream stream;
  check(cudaMemsetAsync(taken, 0, bytes, stream.handle()), "clearing new memory");
  wait(stream.handle());
  return memory;
}

void upload(const void* from, std::size_t bytes, void* to, StreamHandle stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying to the device");
}

// Waits before the copy, too: a copy to ordinary memory waits inside of the driver for the work
// before it, and would keep all other threads from launching anything until then.
void download(const void* from, std::size_t bytes, void* to, StreamHandle stream) {
  wait(stream);
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
  cudaError_t error = cudaGraphGetNodes(graph, nullptr, &nodes_);
  if (error == cudaSuccess) error = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "instantiating a graph");
}
Graph::~Graph() {
  if (!executable_) return;
  const Unrecorded unrecorded;
  cudaGraphExecDestroy(executable_);
}
Graph::Graph(Graph&& other) noexcept
    : stream_(other.stream_),
      executable_(std::exchange(other.executable_, nullptr)),
      nodes_(other.nodes_) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(executable_, other.executable_);
  std::swap(nodes_, other.nodes_);
  return *this;
}

void Graph::launch() {
  const Unrecorded unrecorded;
  check(cudaGraphLaunch(executable_, stream_), "launching a graph");
}

}  // namespace nru::kernels::cuda
