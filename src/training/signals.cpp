#include "training/signals.h"

#include <csignal>

namespace nru::training {
namespace {

volatile std::sig_atomic_t first_signal = 0;
struct sigaction previous_int, previous_term;

void remember(int number) {
  if (first_signal == 0) first_signal = number;
}

}  // namespace

SignalGuard::SignalGuard() {
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  // RESETHAND: the next one has the default effect.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

SignalGuard::~SignalGuard() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
}

int SignalGuard::received() { return first_signal; }

}  // namespace nru::training
