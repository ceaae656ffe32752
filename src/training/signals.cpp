#include "training/signals.h"

#include <atomic>
#include <csignal>
#include <iterator>
#include <mutex>

namespace nru::training {
namespace {

struct Request {
  int signal;
  const char* name;
};
constexpr Request kRequests[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}};

std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a handler may use it
std::mutex guards_mutex;
int guards = 0;  // alive
struct sigaction previous[std::size(kRequests)];

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
  for (std::size_t i = 0; i < std::size(kRequests); ++i) {
    const int signal = kRequests[i].signal;
    sigaction(signal, nullptr, &previous[i]);
    const bool nohup = signal == SIGHUP && previous[i].sa_handler == SIG_IGN;
    if (!nohup) sigaction(signal, &action, nullptr);
  }
}

SignalGuard::~SignalGuard() {
  const std::lock_guard lock(guards_mutex);
  if (--guards > 0) return;
  for (std::size_t i = 0; i < std::size(kRequests); ++i)
    sigaction(kRequests[i].signal, &previous[i], nullptr);
}

int SignalGuard::received() { return first_signal; }

const char* name_of_request(int signal) {
  for (const Request& request : kRequests) {
    if (request.signal == signal) return request.name;
  }
  return nullptr;
}

void survive_closed_pipes() { ::signal(SIGPIPE, SIG_IGN); }

}  // namespace nru::training
