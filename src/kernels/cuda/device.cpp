#include "kernels/cuda/device.h"

#include <utility>

#include "kernels/cuda/check.h"

namespace nru::kernels::cuda {
namespace {

thread_local MemoryPool current_pool;
thread_local StreamHandle pool_stream = nullptr;

}  // namespace

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

const char* built_architectures() { return NRU_CUDA_ARCHITECTURES; }

std::string driver_version() {
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void wait(StreamHandle stream) {
  check(cudaStreamSynchronize(stream), "waiting for the work of a stream");
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
  const RelaxedCapture relaxed;
  void* taken = nullptr;
  const cudaError_t error = cudaMalloc(&taken, bytes > 0 ? bytes : 1);
  if (error != cudaSuccess) fail("allocating " + std::to_string(bytes) + " bytes", error);
  Memory memory(taken, [](void* p) { cudaFree(p); });
  // On a stream of its own: the default stream waits for others, which a capture does not allow.
  const Stream stream;
  check(cudaMemsetAsync(taken, 0, bytes, stream.handle()), "clearing new memory");
  wait(stream.handle());
  return memory;
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
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "creating a stream");
}
Stream::~Stream() {
  if (handle_) cudaStreamDestroy(handle_);
}
Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Graph::Graph(StreamHandle stream, const std::function<void()>& work) : stream_(stream) {
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
  if (executable_) cudaGraphExecDestroy(executable_);
}
Graph::Graph(Graph&& other) noexcept
    : stream_(other.stream_), executable_(std::exchange(other.executable_, nullptr)) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(executable_, other.executable_);
  return *this;
}

void Graph::launch() { check(cudaGraphLaunch(executable_, stream_), "launching a graph"); }

}  // namespace nru::kernels::cuda
