// A cluster of CTAs on the CPU, thread by thread: for the kernels of src/kernels/cuda/cluster_*.cuh
// and units_*.cuh (and, with emulated_group.h, groups_*.cuh) and those of single CTAs, where there
// is no GPU, and to look for races that a GPU's own pace may hide for years.
//
// Every thread is a fiber that runs until it has to wait for others: at an exchange of lanes, a
// barrier, or bytes that are under way. Who goes on is drawn at random, and so is when a store into
// another CTA arrives. A warp or a whole CTA can be held back until nobody else gets on: whatever
// must not be overtaken then is.
//
// To be included before any CUDA header: it gives the names of device code a meaning.
#pragma once

#define NRU_EMULATED_CLUSTER 1

#include <cuda_runtime.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#undef __forceinline__
#define __forceinline__ inline
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __noinline__
#define __noinline__
#undef __grid_constant__
#define __grid_constant__

namespace nru::kernels::emulated {

constexpr int kCtas = 4, kThreads = 256;  // unless told otherwise

struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  int cta = 0, thread = 0, warp = 0;  // warp: of all
  bool done = false;
  const std::function<bool()>* waits_for = nullptr;
  bool can_go_on() const { return !done && (!waits_for || (*waits_for)()); }
  int lane() const { return thread % 32; }
};

// Values that lanes show each other. Two sets take turns: a lane may be one exchange ahead.
struct Lanes {
  std::uint64_t value[2][32];
  int arrived[2] = {0, 0}, left[2] = {0, 0}, turn[32] = {};
};

struct Meeting {
  int arrived = 0;
  long number = 0;
  std::vector<bool> here;  // by thread of all
};

struct BytesBarrier {  // see ByteBarrier in cluster_exchange.cuh
  int pending = 1;
  long bytes = 0;
  std::uint32_t phase = 0;
  void settle() {
    if (pending != 0 || bytes != 0) return;
    ++phase;
    pending = 1;
  }
};

// An address in the cluster's shared memory: the CTA, and where in its memory.
inline std::uint32_t address(int cta, std::uint32_t offset) {
  return static_cast<std::uint32_t>(cta) << 24 | offset;
}
inline int cta_of(std::uint32_t address) { return static_cast<int>(address >> 24); }
inline std::uint32_t offset_of(std::uint32_t address) { return address & 0xffffff; }

struct Parcel {
  std::uint32_t to, barrier;
  float4 value;
};

class Cluster {
 public:
  // Who is held back: a warp of all, or whole_cta(), or kNobody.
  static constexpr int kNobody = -1;
  static int whole_cta(int cta) { return -2 - cta; }

  Cluster(int number, std::size_t shared_bytes, int held_back, unsigned seed, int ctas = kCtas,
          int threads = kThreads)
      : number_(number),
        threads_(threads),
        held_back_(held_back),
        random_(seed),
        // What a kernel does not set itself is not a number.
        memory_(ctas,
                std::vector<float4>(shared_bytes / sizeof(float4) + 1, float4{NAN, NAN, NAN, NAN})),
        lanes_(ctas * threads / 32),
        ctas_(ctas) {}

  // All threads run `body`; false if they wait for each other for ever, if one comes to a barrier
  // again before the others have come once, or something sent arrives when all have ended.
  bool run(const std::function<void()>& body) {
    body_ = body;
    fibers_.resize(ctas() * threads());
    running_ = this;
    for (int i = 0; i < ctas() * threads(); ++i) start(fibers_[i], i);
    bool ended = false;
    while (!ended) {
      const long before = progress_;
      ended = round(false);
      if (ended || progress_ != before) continue;
      // Nobody gets on: time for what is under way, then for those who are held back.
      if (!parcels_.empty()) {
        deliver();
        continue;
      }
      ended = round(true);
      if (!ended && progress_ == before) return false;
    }
    return parcels_.empty() && !came_twice_;
  }

  template <class Shared>
  Shared& shared() {
    return *reinterpret_cast<Shared*>(memory_[fiber_->cta].data());
  }

  // ---- for the code that runs in a fiber ----
  static Cluster& running() { return *running_; }
  const Fiber& fiber() const { return *fiber_; }
  int number() const { return number_; }
  int ctas() const { return static_cast<int>(ctas_.size()); }
  int threads() const { return threads_; }  // of a CTA
  void wait_until(const std::function<bool()>& condition) {
    if (condition()) return;
    fiber_->waits_for = &condition;
    swapcontext(&fiber_->context, &scheduler_);
    fiber_->waits_for = nullptr;
  }

  // Every lane shows a value and gets f(the values of all).
  template <class F>
  auto exchange(std::uint64_t value, const F& f) {
    Lanes& lanes = lanes_[fiber_->warp];
    const int set = lanes.turn[fiber_->lane()]++ & 1;
    wait_until([&] { return lanes.arrived[set] < 32 || lanes.left[set] == 32; });
    if (lanes.arrived[set] == 32) lanes.arrived[set] = lanes.left[set] = 0;
    lanes.value[set][fiber_->lane()] = value;
    ++lanes.arrived[set];
    wait_until([&] { return lanes.arrived[set] == 32; });
    const auto result = f(lanes.value[set]);
    ++lanes.left[set];
    return result;
  }
  void meet_cta() { meet(ctas_[fiber_->cta], threads()); }
  void meet_cluster() { meet(all_, ctas() * threads()); }
  // A barrier with a number, of `count` threads of a CTA.
  void meet_at(int number, int count) { meet(named_[{fiber_->cta, number}], count); }
  void arrive_at(int number, int count) {
    arrive(named_[{fiber_->cta, number}], count);
    perhaps_others_first();
  }

  std::uint32_t address_of(const void* p) const {
    const char* base = reinterpret_cast<const char*>(memory_[fiber_->cta].data());
    return address(fiber_->cta, static_cast<std::uint32_t>(static_cast<const char*>(p) - base));
  }
  BytesBarrier& barrier(std::uint32_t address) { return barriers_[address]; }
  void send(const Parcel& parcel) {
    parcels_.push_back(parcel);
    perhaps_others_first();
  }

 private:
  void perhaps_others_first() {
    if (random_() % 2) swapcontext(&fiber_->context, &scheduler_);
  }
  static void enter() {
    running_->body_();
    running_->fiber_->done = true;
    swapcontext(&running_->fiber_->context, &running_->scheduler_);
  }
  void start(Fiber& fiber, int i) {
    fiber.cta = i / threads();
    fiber.thread = i % threads();
    fiber.warp = i / 32;
    fiber.stack.resize(64 * 1024);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, enter, 0);
  }
  bool is_held_back(int warp) const {
    return warp == held_back_ || whole_cta(32 * warp / threads()) == held_back_;
  }
  // Each warp gets on once, or those that are held back do; true if all threads have ended.
  bool round(bool held_back) {
    std::vector<int> order(lanes_.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    bool ended = true;
    for (int w : order) {
      for (int lane = 0; lane < 32; ++lane) {
        fiber_ = &fibers_[32 * w + lane];
        ended = ended && fiber_->done;
        if (is_held_back(w) != held_back || !fiber_->can_go_on()) continue;
        ++progress_;
        swapcontext(&scheduler_, &fiber_->context);
      }
      while (!parcels_.empty() && random_() % 3) deliver();
    }
    return ended;
  }
  void deliver() {
    std::swap(parcels_[random_() % parcels_.size()], parcels_.back());
    const Parcel parcel = parcels_.back();
    parcels_.pop_back();
    std::memcpy(reinterpret_cast<char*>(memory_[cta_of(parcel.to)].data()) + offset_of(parcel.to),
                &parcel.value, sizeof parcel.value);
    BytesBarrier& barrier = barriers_[parcel.barrier];
    barrier.bytes -= static_cast<long>(sizeof parcel.value);
    barrier.settle();
    ++progress_;
  }
  void arrive(Meeting& meeting, int count) {
    meeting.here.resize(fibers_.size());
    const std::size_t me = fiber_ - fibers_.data();
    if (meeting.here[me]) came_twice_ = true;
    meeting.here[me] = true;
    if (++meeting.arrived < count) return;
    meeting.here.assign(fibers_.size(), false);
    meeting.arrived = 0;
    ++meeting.number;
  }
  void meet(Meeting& meeting, int count) {
    const long number = meeting.number;
    arrive(meeting, count);
    wait_until([&] { return meeting.number != number; });
  }

  inline static Cluster* running_ = nullptr;
  int number_, threads_, held_back_;
  std::mt19937 random_;
  std::function<void()> body_;
  std::vector<Fiber> fibers_;
  Fiber* fiber_ = nullptr;
  ucontext_t scheduler_;
  long progress_ = 0;
  bool came_twice_ = false;
  std::vector<std::vector<float4>> memory_;  // by CTA
  std::vector<Lanes> lanes_;                 // by warp
  std::vector<Meeting> ctas_;                // all threads of each
  Meeting all_;
  std::map<std::pair<int, int>, Meeting> named_;  // by CTA and number
  std::map<std::uint32_t, BytesBarrier> barriers_;
  std::vector<Parcel> parcels_;
};

// ---- what device code calls ----

struct Index {
  int x, y;
};
inline Index thread_index() { return {Cluster::running().fiber().thread, 0}; }
inline Index block_index() {
  const Cluster& cluster = Cluster::running();
  return {cluster.number() * cluster.ctas() + cluster.fiber().cta, 0};
}
// An object and no macro: launches have members of the name blockDim.
struct BlockSize {
  struct Threads {
    operator int() const { return Cluster::running().threads(); }
  } x;
};

template <class T>
T value_of_lane(T value, int lane) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return Cluster::running().exchange(bits, [&](const std::uint64_t* all) {
    T result;
    std::memcpy(&result, &all[lane], sizeof result);
    return result;
  });
}
template <class T>
T shuffle_xor(T value, int mask) {
  return value_of_lane(value, Cluster::running().fiber().lane() ^ mask);
}
template <class T>
T shuffle(T value, int lane, int width = 32) {
  return value_of_lane(value, Cluster::running().fiber().lane() / width * width + lane % width);
}
inline unsigned ballot(bool vote) {
  return Cluster::running().exchange(vote, [](const std::uint64_t* all) {
    unsigned result = 0;
    for (int lane = 0; lane < 32; ++lane) result |= (all[lane] ? 1u : 0u) << lane;
    return result;
  });
}
inline unsigned reduce_max(unsigned value) {
  return Cluster::running().exchange(value, [](const std::uint64_t* all) {
    return static_cast<unsigned>(*std::max_element(all, all + 32));
  });
}

}  // namespace nru::kernels::emulated

#define threadIdx (::nru::kernels::emulated::thread_index())
#define blockIdx (::nru::kernels::emulated::block_index())
#define __shfl_xor_sync(lanes, value, mask) ::nru::kernels::emulated::shuffle_xor(value, mask)
#define __shfl_sync(lanes, value, ...) ::nru::kernels::emulated::shuffle(value, __VA_ARGS__)
#define __ballot_sync(lanes, vote) ::nru::kernels::emulated::ballot(vote)
#define __all_sync(lanes, vote) (::nru::kernels::emulated::ballot(vote) == 0xffffffffu)
#define __reduce_max_sync(lanes, value) ::nru::kernels::emulated::reduce_max(value)
#define __syncwarp() ::nru::kernels::emulated::ballot(true)
#define __syncthreads() ::nru::kernels::emulated::Cluster::running().meet_cta()

inline constexpr nru::kernels::emulated::BlockSize blockDim{};

inline void __threadfence() {}  // fibers take turns
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned>(bits)); }
template <class T>
T __ldg(const T* from) {
  return *from;
}
inline float __log2f(float x) { return std::log2(x); }
template <class T>
T atomicMax(T* at, T value) {
  return std::exchange(*at, std::max(*at, value));
}
template <class T>
T atomicAdd(T* at, T value) {
  return std::exchange(*at, *at + value);
}

namespace nru::kernels::cuda {

using std::max;
using std::min;

// ---- barriers.cuh ----

template <int kBarrier, int kCount>
void arrive() {
  emulated::Cluster::running().arrive_at(kBarrier, kCount);
}
template <int kBarrier, int kCount>
void await() {
  emulated::Cluster::running().meet_at(kBarrier, kCount);
}

// ---- cluster_exchange.cuh ----

inline std::uint32_t shared_address(const void* p) {
  return emulated::Cluster::running().address_of(p);
}
inline int cluster_rank() { return emulated::Cluster::running().fiber().cta; }
inline std::uint32_t address_in(std::uint32_t address, int rank) {
  return emulated::address(rank, emulated::offset_of(address));
}
inline void cluster_barrier() { emulated::Cluster::running().meet_cluster(); }

class ByteBarrier {
 public:
  explicit ByteBarrier(std::uint64_t* memory) : address_(shared_address(memory)) {}
  std::uint32_t address() const { return address_; }
  void initialise() const { state() = {}; }
  void expect(std::uint32_t bytes) const {
    state().bytes += bytes;
    --state().pending;
    state().settle();
  }
  void wait(std::uint32_t phase) const {
    emulated::Cluster::running().wait_until([&] { return (state().phase & 1) != phase; });
  }

 private:
  emulated::BytesBarrier& state() const { return emulated::Cluster::running().barrier(address_); }
  std::uint32_t address_;
};

inline void send(bool does, std::uint32_t to, float4 value, std::uint32_t barrier) {
  if (does) emulated::Cluster::running().send({to, barrier, value});
}

}  // namespace nru::kernels::cuda
