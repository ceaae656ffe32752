#include "training/signals.h"

#include <atomic>
#include <csignal>
#include <mutex>

namespace nru::training {
namespace {

std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a handler may use it
std::mutex guards_mutex;
int guards = 0;  // alive
struct sigaction previous_int, previous_term;

void remember(int number) {
  int none = 0;
  first_signal.compare_exchange_strong(none, number);
}

}  // namespace

SignalGuard::SignalGuard() {
  const std::lock_guard lock(guards_mutex);
  if (guards++ > 0) return;
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  // RESETHAND: the next one has the default effect.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

SignalGuard::~SignalGuard() {
  const std::lock_guard lock(guards_mutex);
  if (--guards > 0) return;
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
}

int SignalGuard::received() { return first_signal; }

}  // namespace nru::training
