// SIGINT and SIGTERM as a request: the run finishes its update, saves, and ends.
#pragma once

namespace nru::training {

// While one lives, the two signals only set a flag, which all threads see. A second signal of the
// same kind ends the process at once, in case saving hangs. Guards may live side by side and inside
// one another: the first of them starts with a clean flag, and with the last the signals have their
// old effect again.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  // 0, or the number of the first signal that came.
  static int received();
};

}  // namespace nru::training
