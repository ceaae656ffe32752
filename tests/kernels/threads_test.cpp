// The pool: every piece once, errors come back, and calls may nest, follow or meet each other.
#include "kernels/cpu/threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace nru::kernels {
namespace {

void expect_each_piece_once(int pieces, int threads) {
  std::vector<std::atomic<int>> done(pieces);
  parallel_pieces(pieces, threads, [&](int i) { ++done[i]; });
  for (int i = 0; i < pieces; ++i) {
    ASSERT_EQ(done[i], 1) << "piece " << i << " of " << pieces << " on " << threads << " threads";
  }
}

TEST(Threads, DoEachPieceOnce) {
  for (int threads : {1, 2, 3, 5, 8}) {
    for (int pieces : {0, 1, 2, 3, 7, 100}) expect_each_piece_once(pieces, threads);
  }
}

TEST(Threads, MayOutnumberThePieces) {
  expect_each_piece_once(2, 16);
  expect_each_piece_once(1, 16);
  expect_each_piece_once(0, 16);
}

TEST(Threads, ZeroOrFewerMeansTheCallerAlone) {
  const auto caller = std::this_thread::get_id();
  for (int threads : {1, 0, -3}) {
    int done = 0;
    parallel_pieces(5, threads, [&](int) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      ++done;
    });
    EXPECT_EQ(done, 5);
  }
}

TEST(Threads, ManyCallsInARow) {
  for (int call = 0; call < 5000; ++call) {
    std::atomic<int> sum = 0;
    parallel_pieces(4, 2 + call % 3, [&](int i) { sum += i + 1; });
    ASSERT_EQ(sum, 10) << call;
  }
}

// Pieces that wait for each other finish only if they run at the same time.
TEST(Threads, WorkAtTheSameTime) {
  std::atomic<int> inside = 0;
  std::set<std::thread::id> ids;
  std::mutex mutex;
  parallel_pieces(3, 3, [&](int) {
    ++inside;
    while (inside < 3) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 3u);
}

TEST(Threads, ExceptionsComeBack) {
  for (int threads : {1, 2, 4}) {
    try {
      parallel_pieces(50, threads, [](int i) {
        if (i == 17) throw std::runtime_error("piece 17");
      });
      ADD_FAILURE() << "nothing was thrown on " << threads << " threads";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), std::string("piece 17"));
    }
    expect_each_piece_once(20, threads);  // and the pool works on
  }
}

TEST(Threads, OneOfSeveralExceptionsComesBack) {
  EXPECT_THROW(parallel_pieces(50, 3, [](int) { throw std::logic_error("all fail"); }),
               std::logic_error);
}

TEST(Threads, NestedCallsRunOnTheirCaller) {
  std::vector<std::atomic<int>> done(60);
  parallel_pieces(6, 3, [&](int outer) {
    const auto caller = std::this_thread::get_id();
    parallel_pieces(10, 3, [&](int inner) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      ++done[outer * 10 + inner];
    });
  });
  for (const auto& d : done) EXPECT_EQ(d, 1);
  EXPECT_THROW(
      parallel_pieces(
          6, 3, [](int) { parallel_pieces(2, 2, [](int) { throw std::logic_error("inner"); }); }),
      std::logic_error);
}

// Two threads of a program may both compute: one gets the pool, the other works alone.
TEST(Threads, CallersMayMeet) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int call = 0; call < 300; ++call) {
        std::atomic<int> sum = 0;
        parallel_pieces(8, 3, [&](int i) { sum += i; });
        wrong += sum != 28;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, FlushDenormalsInPiecesOnly) {
  volatile float tiny = 1e-20f;
  for (int threads : {1, 3}) {
    parallel_pieces(6, threads, [&](int) { EXPECT_EQ(tiny * tiny, 0.f); });
  }
  EXPECT_GT(tiny * tiny, 0.f);
  EXPECT_THROW(parallel_pieces(2, 1, [](int) { throw std::logic_error("stop"); }),
               std::logic_error);
  EXPECT_GT(tiny * tiny, 0.f);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Little enough memory that no further thread's stack fits.
void allow_no_more_threads() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = static_cast<rlim_t>(pages) * sysconf(_SC_PAGESIZE) + (2 << 20);
  const rlimit both{limit, limit};
  if (setrlimit(RLIMIT_AS, &both) != 0) std::exit(2);
}

TEST(ThreadsDeathTest, WorkGetsDoneWhereNoThreadCanBeHad) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        allow_no_more_threads();
        int sum = 0;
        for (int call = 0; call < 3; ++call) parallel_pieces(10, 8, [&](int i) { sum += i; });
        std::exit(sum == 3 * 45 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}
#endif

// Pieces that wait for each other, as above: the child needs threads that run.
TEST(Threads, ForkedProcessesHaveTheirOwn) {
  expect_each_piece_once(8, 3);  // this process has some now
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // in place of waiting for ever
    std::atomic<int> inside = 0;
    parallel_pieces(3, 3, [&](int) {
      ++inside;
      while (inside < 3) std::this_thread::yield();
    });
    std::exit(17);  // through the destructors of everything static
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 17);
  expect_each_piece_once(8, 3);
}

TEST(Threads, ThereIsOneForEachProcessor) {
  EXPECT_GE(available_threads(), 1);
}

}  // namespace
}  // namespace nru::kernels
