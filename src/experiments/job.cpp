// What the files of a run say, read while the run may be writing them.
#include "experiments/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "support/posix.h"
#include "support/text_file.h"
#include "training/progress.h"
#include "training/result.h"
#include "training/run_directory.h"

namespace nru::experiments {
namespace {

namespace fs = std::filesystem;
using training::Result;
using training::RunPaths;
using training::RunStatus;

// The end of a file after its first `skip` bytes, enough for several lines of metrics or an error.
std::string tail(const fs::path& path, off_t skip = 0) {
  constexpr off_t kEnough = 4096;
  const Descriptor file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  struct stat facts {};
  if (file.get() < 0 || ::fstat(file.get(), &facts) < 0) return "";
  std::string text(static_cast<std::size_t>(std::clamp<off_t>(facts.st_size - skip, 0, kEnough)),
                   '\0');
  const ssize_t got = uninterrupted([&] {
    return ::pread(file.get(), text.data(), text.size(),
                   facts.st_size - static_cast<off_t>(text.size()));
  });
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// Whole lines, the last one first; the first of the text is left out, it may be half a line.
std::vector<std::string_view> lines_from_the_end(std::string_view text) {
  std::vector<std::string_view> lines;
  std::size_t end = text.rfind('\n');
  while (end != std::string_view::npos && end > 0) {
    const std::size_t start = text.rfind('\n', end - 1);
    if (start == std::string_view::npos) break;
    lines.push_back(text.substr(start + 1, end - start - 1));
    end = start;
  }
  return lines;
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A damaged one counts as missing: the run goes on and writes it anew, or says why it cannot.
std::optional<Result> read_if_whole(const fs::path& path) {
  try {
    return training::read_result(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// More updates than any run makes where their number is not known yet.
training::Goal goal_of(const Job& job) {
  return {job.updates > 0 ? job.updates : std::numeric_limits<std::int64_t>::max(),
          job.config.stop_when_solved, job.config.stop_when_settled};
}

// Made for the weights that are there now. Of the files of every inspection the last one.
bool inspected(const RunPaths& paths) {
  std::error_code failure;
  const auto made = fs::last_write_time(paths.directory / "inspect" / "gradient_flow.csv", failure);
  if (failure) return false;
  const auto weights = fs::last_write_time(paths.best(), failure);
  return !failure && made >= weights;
}

std::int64_t budget(std::int64_t updates, std::int64_t epochs, const Job& job) {
  return epochs > 0 ? epochs * job.updates_per_epoch : updates;
}

std::int64_t integer_of(const training::GivenValues& stored, const std::string& key) {
  const auto found = stored.find(key);
  const auto* value =
      found == stored.end() ? nullptr : std::get_if<std::int64_t>(&found->second.value);
  return value == nullptr ? 0 : *value;
}

}  // namespace

std::optional<Progressed> last_progress(const fs::path& directory) {
  const std::string text = tail(RunPaths{directory}.metrics());
  for (const std::string_view line : lines_from_the_end(text)) {
    std::vector<std::string_view> fields;  // update,epoch,split,loss,relative_loss,...
    for (std::string_view rest = line; fields.size() < 5;) {
      const std::size_t comma = rest.find(',');
      fields.push_back(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    if (fields.size() < 5 || fields[2] != "train") continue;
    if (const auto update = number<std::int64_t>(fields[0]))
      return Progressed{*update, number<double>(fields[3]), number<double>(fields[4])};
  }
  return std::nullopt;
}

RunState look_at(const Job& job) {
  const RunPaths paths{job.directory()};
  RunState state;
  std::error_code ignored;
  if (!fs::exists(paths.config(), ignored)) return state;
  state.stage = RunState::Stage::begun;
  const auto logged = last_progress(paths.directory);
  if (logged) state.updates = logged->update;
  const auto found = read_if_whole(paths.result());
  if (!found) return state;
  const Result& result = *found;
  state.seconds = result.seconds;
  state.solved_at = result.solved_at;
  const bool outdated = training::is_outdated(result, goal_of(job), state.updates);
  state.updates = std::max(state.updates, result.updates);
  if (outdated) return state;
  if (result.status == RunStatus::diverged) {
    state.stage = RunState::Stage::diverged;
  } else if (result.status == RunStatus::finished || result.status == RunStatus::solved) {
    state.stage = RunState::Stage::done;
  }
  state.inspection_missing = job.inspect && fs::exists(paths.best(), ignored) && !inspected(paths);
  return state;
}

void check_fits(const Job& job) {
  const RunPaths paths{job.directory()};
  std::error_code ignored;
  if (!fs::exists(paths.config(), ignored)) return;
  const auto stored = training::read_flat_toml(read_text_file(paths.config(), "configuration"),
                                               paths.config().string());
  // What is done is done, on whatever device.
  const bool may_move = look_at(job).stage == RunState::Stage::done;
  const auto differences = training::config_differences(stored, job.config, may_move);
  if (!differences.empty()) {
    throw Error(fmt::format(
        "{} holds a run of another configuration ({}{}); choose another --out, or remove it",
        job.directory().string(), differences.front(),
        differences.size() > 1 ? fmt::format("; {} more", differences.size() - 1) : ""));
  }
  const std::int64_t there =
      budget(integer_of(stored, "updates"), integer_of(stored, "epochs"), job);
  if (job.updates > 0 && there > job.updates) {
    throw Error(fmt::format(
        "{} holds a run of {} updates and the plan has {}; choose another --out, or remove it",
        job.directory().string(), training::format_count(there),
        training::format_count(job.updates)));
  }
}

bool in_use(const fs::path& directory) {
  const fs::path path = RunPaths{directory}.lock();
  const Descriptor lock(uninterrupted([&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); }));
  if (lock.get() < 0) return false;
  return uninterrupted([&] { return ::flock(lock.get(), LOCK_EX | LOCK_NB); }) < 0 &&
         errno == EWOULDBLOCK;
}

std::string last_words(const fs::path& log, std::int64_t skip) {
  constexpr std::string_view kProgram = "nru: ";
  std::string text = "\n" + tail(log, skip) + "\n";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') c = ' ';  // what is shown on a terminal
  }
  std::string_view last;
  for (const std::string_view line : lines_from_the_end(text)) {
    if (line.starts_with(kProgram)) return std::string(line.substr(kProgram.size()));
    if (last.empty() && line.find_first_not_of(' ') != std::string_view::npos) last = line;
  }
  return std::string(last);
}

std::int64_t log_size(const fs::path& log) {
  std::error_code missing;
  const auto size = fs::file_size(log, missing);
  return missing ? 0 : static_cast<std::int64_t>(size);
}

std::vector<std::string> train_command(const Job& job, std::size_t threads) {
  std::vector<std::string> words = {"train", "--resume"};
  for (const auto& [key, value] : job.run.settings) {
    words.push_back("--set");
    words.push_back(fmt::format("{}={}", key, nru::to_string(value)));
  }
  words.insert(words.end(), {"--threads", fmt::format("{}", threads), "--out", job.config.out});
  return words;
}

std::vector<std::string> inspect_command(const Job& job) { return {"inspect", job.config.out}; }

}  // namespace nru::experiments
