// The basics of a CUDA device for the host side: errors, memory, streams and graphs. No CUDA header
// is needed to include this one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct CUstream_st;
struct CUgraphExec_st;

namespace nru::kernels::cuda {

using StreamHandle = CUstream_st*;  // cudaStream_t

// Anything that CUDA or cuBLAS refuses. The text names the call or kernel, and its shape.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

int device_count();  // 0 where there is no GPU, or no driver that serves this build
// Why that is 0: what CUDA says, and of which versions driver and build are. Empty where it is not.
std::string why_no_device();
void use_device(int number);  // for what this thread does from here on
std::string device_name();    // of the current device, such as "NVIDIA H200"
// Those that the kernels were compiled for, such as "80-real, 90"; without "-real" later ones too.
const char* built_architectures();
// The CUDA version that the driver supports, such as "13.0"; empty where none can be loaded.
std::string driver_version();

struct DeviceLimits {
  int major = 0;            // compute capability
  int shared_bytes = 0;     // of a CTA, at most
  int multiprocessors = 0;  // 132 on an H200
};
// Of the current device; zeros where there is none. Each device is asked once.
DeviceLimits device_limits();

void wait(StreamHandle stream);  // until all work of the stream is done
// The same for work that takes long, by a thread that is not Unrecorded (below): it is so for each
// look only, so that others can record meanwhile.
void wait_in_looks(StreamHandle stream);

// The current device of this thread, until the end of the scope.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

// Somebody else's pool of device memory. What it hands out belongs to the stream: released memory
// may be handed out again to work that is queued behind on the same stream.
struct MemoryPool {
  void* (*allocate)(std::size_t bytes, StreamHandle stream) = nullptr;
  void (*release)(void* memory) = nullptr;  // must not throw
};

// Buffers of this thread take new memory from a pool, until the end of the scope, instead of from
// the device. For callers that make a Sequence per call: taking memory from the device waits for
// all its work. Such buffers may be used on this stream alone.
class PoolScope {
 public:
  PoolScope(const MemoryPool& pool, StreamHandle stream);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  MemoryPool pool_before_;
  StreamHandle stream_before_;
};

using Memory = std::unique_ptr<void, void (*)(void*)>;

// `bytes` of device memory, all zero (for the stream, if it is a pool's). May be called while a
// stream is being captured.
Memory allocate(std::size_t bytes);

void upload(const void* from, std::size_t bytes, void* to, StreamHandle stream);
void download(const void* from, std::size_t bytes, void* to, StreamHandle stream);  // and waits

// Where several threads use the device: while one of them records a graph, the others must not
// allocate, wait, or launch a kernel for the first time (which loads it), or the recording is void.
// A thread holds one of these while it does any of that; it waits where another thread records, and
// recording waits for it. What is done inside a recording needs none. Objects of this header hold
// one where they need it.
class Unrecorded {
 public:
  Unrecorded();
  ~Unrecorded();
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;
};

// A stream of its own, which waits for no other.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  StreamHandle handle() const { return handle_; }

 private:
  StreamHandle handle_ = nullptr;
};

// The work that a function gives to a stream, recorded once, to be repeated as a whole: thousands
// of small kernels then follow each other without the host. The function runs once, for the
// recording; nothing is computed until launch(). All memory that it names must live as long as the
// graph.
class Graph {
 public:
  Graph() = default;
  Graph(StreamHandle stream, const std::function<void()>& work);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  bool recorded() const { return executable_ != nullptr; }
  std::size_t nodes() const { return nodes_; }  // kernels, copies and the like
  void launch();

 private:
  StreamHandle stream_ = nullptr;
  CUgraphExec_st* executable_ = nullptr;
  std::size_t nodes_ = 0;
};

// Growing device memory. New memory is zero; old values are lost on growth. What was outgrown is
// kept until the buffer goes: a graph recorded earlier may still point to it.
template <class T>
class Buffer {
 public:
  T* require(std::size_t count) {
    if (count > size_) {
      blocks_.push_back(allocate(count * sizeof(T)));
      size_ = count;
    }
    return data();
  }
  T* data() const { return blocks_.empty() ? nullptr : static_cast<T*>(blocks_.back().get()); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

 private:
  std::vector<Memory> blocks_;
  std::size_t size_ = 0;
};

}  // namespace nru::kernels::cuda
