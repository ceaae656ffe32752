#include "kernels/cpu/threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace nru::kernels {
namespace {

// Denormals cost a hundred cycles each and mean nothing here: a gate's tail at 1e-40 is zero.
class FlushDenormals {
 public:
#if defined(__SSE2__)
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#endif
};

void pause_briefly() {
#if defined(__SSE2__)
  _mm_pause();
#endif
}

// One parallel_pieces call: threads take the next piece until none is left.
struct Job {
  const std::function<void(int)>* work;
  int pieces;
  std::atomic<int> next{0};
  std::atomic<int> helpers_inside{0};
  std::mutex error_mutex;
  std::exception_ptr error;

  void run() {
    const FlushDenormals flush;
    for (int i = next.fetch_add(1); i < pieces; i = next.fetch_add(1)) {
      try {
        (*work)(i);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next = pieces;
      }
    }
  }
};

thread_local bool inside_job = false;

// Never destroyed: its threads wait for jobs until the process ends.
class Pool {
 public:
  pid_t process() const { return process_; }

  // False if another thread is using the pool: the caller then works alone.
  bool run(Job& job, int helpers) {
    const std::unique_lock owner(owner_, std::try_to_lock);
    if (!owner.owns_lock()) return false;
    {
      const std::lock_guard lock(mutex_);
      try {
        for (; threads_ < helpers; ++threads_) std::thread([this] { serve(); }).detach();
      } catch (const std::system_error&) {  // a limit of the system: those there are will do
      }
      job_ = &job;
      seats_ = helpers;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job.run();
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;  // no helper may enter any more
    }
    for (int spins = 0; job.helpers_inside.load(std::memory_order_acquire) != 0; ++spins) {
      spins < kSpins ? pause_briefly() : std::this_thread::yield();
    }
    return true;
  }

 private:
  static constexpr int kSpins = 20'000;  // about 200 microseconds

  void serve() {
    inside_job = true;
    std::uint64_t seen = 0;
    for (;;) {
      for (int spins = 0; spins < kSpins && generation_.load(std::memory_order_acquire) == seen;
           ++spins) {
        pause_briefly();
      }
      Job* job = nullptr;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
        seen = generation_.load(std::memory_order_relaxed);
        if (job_ && seats_ > 0) {
          --seats_;
          job = job_;
          job->helpers_inside.fetch_add(1);
        }
      }
      if (!job) continue;
      job->run();
      job->helpers_inside.fetch_sub(1, std::memory_order_release);
    }
  }

  const pid_t process_ = getpid();
  std::mutex owner_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> generation_{0};
  Job* job_ = nullptr;
  int seats_ = 0;
  int threads_ = 0;
};

// fork() copies a pool without its threads, and its mutexes perhaps locked, so each process makes
// one of its own.
Pool& pool() {
  static std::atomic<Pool*> instance{nullptr};
  Pool* found = instance.load();
  if (found && found->process() == getpid()) return *found;
  auto made = std::make_unique<Pool>();
  if (instance.compare_exchange_strong(found, made.get())) return *made.release();
  return *found;  // another thread was faster
}

}  // namespace

void parallel_pieces(int pieces, int threads, const std::function<void(int)>& work) {
  Job job;
  job.work = &work;
  job.pieces = pieces;
  const int helpers = std::min(threads, pieces) - 1;
  if (helpers < 1 || inside_job) {
    job.run();
  } else {
    inside_job = true;
    if (!pool().run(job, helpers)) job.run();
    inside_job = false;
  }
  if (job.error) std::rethrow_exception(job.error);
}

int available_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace nru::kernels
