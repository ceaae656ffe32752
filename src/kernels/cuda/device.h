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

int device_count();           // 0 where there is no GPU, or no driver
void use_device(int number);  // for what this thread does from here on
std::string device_name();    // of the current device, such as "NVIDIA H200"

void wait(StreamHandle stream);  // until all work of the stream is done

// `bytes` of device memory, all zero. May be called while a stream is being captured.
void* allocate(std::size_t bytes);
void release(void* memory) noexcept;

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
  void launch();

 private:
  StreamHandle stream_ = nullptr;
  CUgraphExec_st* executable_ = nullptr;
};

// Growing device memory. New memory is zero; old values are lost on growth. What was outgrown is
// kept until the buffer goes: a graph recorded earlier may still point to it.
template <class T>
class Buffer {
 public:
  T* require(std::size_t count) {
    if (count > size_) {
      blocks_.emplace_back(static_cast<T*>(allocate(count * sizeof(T))));
      size_ = count;
    }
    return data();
  }
  T* data() const { return blocks_.empty() ? nullptr : blocks_.back().get(); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

 private:
  struct Release {
    void operator()(T* p) const { release(p); }
  };
  std::vector<std::unique_ptr<T, Release>> blocks_;
  std::size_t size_ = 0;
};

}  // namespace nru::kernels::cuda
