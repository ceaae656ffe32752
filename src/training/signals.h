// SIGINT, SIGTERM and SIGHUP as a request: the run finishes its update, saves, and ends.
#pragma once

namespace nru::training {

// While one lives, the three signals only set a flag, which all threads see. A second signal of the
// same kind ends the process at once, in case saving hangs. Guards may live side by side and inside
// one another: the first of them starts with a clean flag, and with the last the signals have their
// old effect again. A SIGHUP that is ignored already (nohup) stays so.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  // 0, or the number of the first signal that came.
  static int received();
};

// "SIGINT" of those three, nullptr of any other.
const char* name_of_request(int signal);

// From here on, writing to a pipe that nobody reads fails instead of killing the process: Ctrl-C
// ends the `tee` of `nru train 2>&1 | tee log` as well, and the run has yet to be saved, as have
// the runs of a worker whose parent died.
void survive_closed_pipes();

}  // namespace nru::training
