// Every task with every option that its batches depend on, at sizes that no tile of a kernel
// divides, and the batches worth looking at: the first ones, the ends of epochs, large indices.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data_files.h"

namespace nru::test {

struct TaskCase {
  std::string name;  // for SCOPED_TRACE
  std::unique_ptr<tasks::Task> task;

  std::vector<std::uint64_t> indices(tasks::Split split) const {
    const auto pass = static_cast<std::uint64_t>(task->evaluation_batches(split));
    if (split != tasks::Split::train) return {0, pass / 2, pass - 1};
    std::vector<std::uint64_t> indices = {0, 1, 2, 3, 41, 1'000'003, (std::uint64_t{1} << 40) + 5};
    if (const auto epoch = static_cast<std::uint64_t>(task->updates_per_epoch())) {
      for (const std::uint64_t at : {epoch - 1, epoch, 2 * epoch - 1, 7 * epoch}) {
        indices.push_back(at);
      }
    }
    return indices;
  }
};

class TaskCases {
 public:
  TaskCases() {
    for (const char* labels : {"recall", "random", "random_all"}) {
      for (const char* carry : {"state", "memory"}) {
        const OptionMap options = {{"labels", std::string(labels)},
                                   {"carry", std::string(carry)},
                                   {"reset_every", std::int64_t{3}}};
        for (const int lag : {1, 57}) add("copy", 10, lag, options);
      }
    }
    add("copy", 10, 100);
    add("copy", 1, 1000);
    add("copy", 10, 70, {{"first_lag", std::int64_t{7}}, {"first_updates", std::int64_t{3}}});
    add("copy", 10, 57,
        {{"reset_every", std::int64_t{4}},
         {"first_reset_every", std::int64_t{2}},
         {"first_updates", std::int64_t{3}}});
    for (const bool per_row : {false, true}) {
      for (const int rows : {1, 10, 67}) add("copy-variable", rows, 100, {{"per_row", per_row}});
      add("copy-variable", 9, 30, {{"per_row", per_row}, {"lag_min", std::int64_t{29}}});
    }
    for (const bool loss_all : {false, true}) {
      for (const int lag : {10, 11, 100}) add("denoise", 13, lag, {{"loss_all", loss_all}});
    }
    write_small_mnist(files_.path(), 660, 1003);
    for (const bool permute : {true, false}) {
      for (const int rows : {7, 100})
        add("psmnist", rows, 0, {{"data", files_.path().string()}, {"permute", permute}});
    }
    add("psmnist", 9, 0, {{"data", files_.path().string()}, {"dropout", 0.3}});
    std::string text;
    for (int at = 0; at < 5000; ++at) text += static_cast<char>('a' + at * at % 23);
    write_bytes(files_ / "text", text);
    for (const int lanes : {1, 5, 40}) {
      for (const std::int64_t window : {1, 10, 150}) {
        add("char-lm", lanes, 0, {{"text", (files_ / "text").string()}, {"window", window}});
      }
    }
    add("char-lm", 5, 0,
        {{"text", (files_ / "text").string()},
         {"window", std::int64_t{10}},
         {"reset_every", std::int64_t{2}}});
  }

  // Calls `see(task, split, index)` for every batch, with a trace of what it is.
  void for_each(const std::function<void(const tasks::Task&, tasks::Split, std::uint64_t)>& see) {
    for (const TaskCase& c : cases_) {
      for (const auto split : {tasks::Split::train, tasks::Split::valid, tasks::Split::test}) {
        for (const std::uint64_t index : c.indices(split)) {
          SCOPED_TRACE(c.name + ", " + tasks::to_string(split) + " " + std::to_string(index));
          see(*c.task, split, index);
        }
      }
    }
  }

 private:
  void add(const std::string& name, int rows, int lag, const OptionMap& options = {}) {
    std::string text = name + " of " + std::to_string(rows) + " rows, lag " + std::to_string(lag);
    for (const auto& [key, value] : options) text += ", " + key + " " + to_string(value);
    cases_.push_back({text, make_task(name, rows, options, 7, lag)});
  }

  TempDir files_;
  std::vector<TaskCase> cases_;
};

}  // namespace nru::test
