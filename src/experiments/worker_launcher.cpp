// A worker is talked to through a socket that is its standard input and output, and not through
// pipes: writing to a worker that died must not kill the writer.
#include <fmt/format.h>
#include <nru/error.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <set>

#include "experiments/launcher.h"
#include "experiments/worker.h"
#include "support/posix.h"

namespace nru::experiments {
namespace {

constexpr int kInternalError = 1;  // as an exit code

struct Ends {
  Descriptor ours, theirs;
};

Ends make_connection() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
    throw Error(
        fmt::format("cannot talk to another process: {}; close some files", std::strerror(errno)));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

class Worker {
 public:
  explicit Worker(const std::filesystem::path& log) : Worker(make_connection(), log) {}

  // Lost when the worker just died, which ended() tells.
  void send(const WorkerCommand& command) {
    const std::string line = to_line(command);
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t written = uninterrupted([&] {
        return ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      });
      if (written < 0) return;
      sent += static_cast<std::size_t>(written);
    }
  }

  // What has arrived; does not wait.
  std::vector<WorkerAnswer> answers() {
    char piece[4096];
    for (;;) {
      const ssize_t got =
          uninterrupted([&] { return ::recv(socket_.get(), piece, sizeof piece, MSG_DONTWAIT); });
      if (got <= 0) break;
      lines_.add({piece, static_cast<std::size_t>(got)});
    }
    std::vector<WorkerAnswer> answers;
    for (std::string line; lines_.next(line);) answers.push_back(read_answer(line));
    return answers;
  }

  std::optional<Ended> ended() { return process_.ended(); }
  void signal(int number) const { process_.signal(number); }

  // Ends when its commands have ended, and takes no more.
  void retire() {
    retired_ = true;
    ::shutdown(socket_.get(), SHUT_WR);
  }
  bool retired() const { return retired_; }

  std::set<int> running;  // commands, by number

 private:
  Worker(Ends ends, const std::filesystem::path& log)
      : process_({"worker"}, log, {}, ends.theirs.get()), socket_(std::move(ends.ours)) {}

  Child process_;
  Descriptor socket_;
  LineBuffer lines_;
  bool retired_ = false;
};

class WorkerLauncher : public Launcher {
 public:
  explicit WorkerLauncher(std::filesystem::path log) : log_(std::move(log)) {}

  int start(const Launch& launch) override {
    open_log(launch.log);  // fails here with its reason, if it fails
    collect();
    if (workers_.empty() || workers_.back().retired()) workers_.emplace_back(log_);
    workers_.back().send({next_, launch});
    workers_.back().running.insert(next_);
    return next_++;
  }

  std::optional<Ended> ended(int command) override {
    collect();
    const auto end = ends_.find(command);
    if (end == ends_.end()) return std::nullopt;
    const Ended found = end->second;
    ends_.erase(end);
    return found;
  }

  void stop(int signal) override {
    for (const Worker& worker : workers_) worker.signal(signal);
  }

 private:
  void collect() {
    workers_.remove_if([this](Worker& worker) {
      const std::optional<Ended> end = worker.ended();  // before the last look at its answers
      for (const WorkerAnswer& answer : worker.answers()) {
        if (worker.running.erase(answer.id) > 0) ends_[answer.id] = {answer.code, 0};
        // A GPU error may have spoiled the device for the whole process.
        if (answer.code == kInternalError && !worker.retired()) worker.retire();
      }
      if (end) {
        for (const int command : worker.running) ends_[command] = *end;
      }
      return end.has_value();
    });
  }

  std::filesystem::path log_;
  std::list<Worker> workers_;  // the last one takes new commands
  std::map<int, Ended> ends_;  // not yet asked for
  int next_ = 0;
};

}  // namespace

std::unique_ptr<Launcher> make_worker_launcher(std::filesystem::path log) {
  return std::make_unique<WorkerLauncher>(std::move(log));
}

}  // namespace nru::experiments
