#include "experiments/worker.h"

#include <fmt/format.h>
#include <nru/error.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "experiments/cores.h"
#include "support/posix.h"
#include "training/signals.h"

namespace nru::experiments {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLookForSignals = 100;  // milliseconds; poll() may be asleep in another thread
constexpr int kCannotStart = 2;

std::string line_of(const Json& json) {
  try {
    return json.dump() + "\n";
  } catch (const Json::exception&) {
    throw Error("a worker cannot take names that are not UTF-8; choose another --out");
  }
}

template <class Read>
auto read_line(std::string_view line, Read read) {
  try {
    return read(Json::parse(line));
  } catch (const Json::exception&) {
    throw Error(fmt::format(
        "not a command for nru worker: '{}'; write {{\"id\": 1, \"arguments\": [...], \"log\": "
        "FILE, \"cores\": [...]}}",
        line));
  }
}

// The threads of a worker, one per command.
class Commands {
 public:
  Commands(int answers, const RunCommand& run) : answers_(answers), run_(run) {}
  ~Commands() {
    join([](const Thread&) { return true; });
  }

  void start(WorkerCommand command) {
    join([](const Thread& thread) { return thread.over.load(); });
    Thread& thread = threads_.emplace_back();
    try {
      thread.thread = std::thread([this, &thread, command] {
        answer({command.id, run(command.launch)});
        thread.over = true;
      });
    } catch (const std::system_error& error) {
      threads_.pop_back();
      std::ofstream(command.launch.log, std::ios::app)
          << "nru: cannot start another thread: " << error.what() << "; use fewer --jobs\n";
      answer({command.id, kCannotStart});
    }
  }

 private:
  struct Thread {
    std::thread thread;
    std::atomic<bool> over = false;
  };

  int run(const Launch& launch) const {
    CoreSet(launch.cores).pin_this_thread();
    std::ofstream log(launch.log, std::ios::app);
    return log ? run_(launch.arguments, log) : kCannotStart;
  }

  // Nobody may be listening any more; the runs matter, not the answer.
  void answer(const WorkerAnswer& answer) {
    const std::string line = to_line(answer);
    const std::lock_guard lock(mutex_);
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t written =
          uninterrupted([&] { return ::write(answers_, line.data() + sent, line.size() - sent); });
      if (written < 0) return;
      sent += static_cast<std::size_t>(written);
    }
  }

  template <class Choose>
  void join(Choose choose) {
    threads_.remove_if([&](Thread& thread) {
      if (!choose(thread)) return false;
      thread.thread.join();
      return true;
    });
  }

  int answers_;
  const RunCommand& run_;
  std::mutex mutex_;           // of the answers
  std::list<Thread> threads_;  // a list: they know their places
};

}  // namespace

std::string to_line(const WorkerCommand& command) {
  return line_of({{"id", command.id},
                  {"arguments", command.launch.arguments},
                  {"log", command.launch.log.string()},
                  {"cores", command.launch.cores}});
}

std::string to_line(const WorkerAnswer& answer) {
  return line_of({{"id", answer.id}, {"code", answer.code}});
}

WorkerCommand read_command(std::string_view line) {
  return read_line(line, [](const Json& json) {
    return WorkerCommand{
        json.at("id").get<int>(),
        {json.at("arguments").get<std::vector<std::string>>(), json.at("log").get<std::string>(),
         json.at("cores").get<std::vector<int>>()}};
  });
}

WorkerAnswer read_answer(std::string_view line) {
  return read_line(line, [](const Json& json) {
    return WorkerAnswer{json.at("id").get<int>(), json.at("code").get<int>()};
  });
}

bool LineBuffer::next(std::string& line) {
  const std::size_t end = text_.find('\n');
  if (end == std::string::npos) return false;
  line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return true;
}

int serve(int requests, int answers, const RunCommand& run) {
  const training::SignalGuard signals;
  {
    Commands commands(answers, run);
    LineBuffer lines;
    std::string line;
    while (training::SignalGuard::received() == 0) {
      pollfd ready{requests, POLLIN, 0};
      if (::poll(&ready, 1, kLookForSignals) <= 0) continue;
      char piece[4096];
      const ssize_t got = uninterrupted([&] { return ::read(requests, piece, sizeof piece); });
      if (got <= 0) break;
      lines.add({piece, static_cast<std::size_t>(got)});
      while (lines.next(line)) commands.start(read_command(line));
    }
  }  // waits for all of them
  const int signal = training::SignalGuard::received();
  return signal == 0 ? 0 : 128 + signal;
}

}  // namespace nru::experiments
