// metrics.csv: one line per log entry, readable by anything, appended as the run goes.
//
// The file only ever holds whole lines up to a crash: each append is one write, and a failed one is
// cut off again. A resumed run drops what lies behind its checkpoint, so its file equals the
// uninterrupted one's in every column but `seconds`. For that, the loop writes the lines of an
// update before it saves that update's checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/posix.h"

namespace nru::training {

// Columns in the order of the file; an empty optional is an empty field.
struct MetricsRow {
  std::int64_t update = 0;
  std::optional<std::int64_t> epoch;
  std::string split;  // train | valid | test
  std::optional<double> loss;
  std::optional<double> relative_loss;  // over the batch's baseline
  std::optional<double> accuracy;       // 0..1
  std::optional<double> exact;          // 0..1, sequences without an error
  std::optional<double> bpc;
  std::optional<double> grad_norm;  // before clipping
  std::optional<double> max_memory;
  std::optional<double> max_hidden;
  std::optional<std::int64_t> skipped;
  std::optional<std::int64_t> overflows;
  std::optional<double> seconds;

  bool operator==(const MetricsRow&) const = default;
};

// "update,epoch,split,...": the first line, without its end.
const std::string& metrics_header();
// One line without its end. Numbers are the shortest text that reads back equal.
std::string format_metrics_row(const MetricsRow& row);

// The rows of a file. A last line without a line end was being written when the run died: it is
// left out. Anything else that does not fit the columns is an nru::Error with file and line.
std::vector<MetricsRow> read_metrics(const std::filesystem::path& path);
// The same one row at a time, in order: a long run's file needs no more memory than its text. Rows
// before an error have been visited.
void for_each_metrics_row(const std::filesystem::path& path,
                          const std::function<void(const MetricsRow&)>& visit);

class MetricsWriter {
 public:
  // A new file with the header; replaces an old one.
  static MetricsWriter create(const std::filesystem::path& path);
  // The old file without the rows after `last_update`; a new one where there is none.
  static MetricsWriter resume(const std::filesystem::path& path, std::int64_t last_update);

  // Handed to the system before the call returns, so that a killed process loses nothing. On a full
  // disk throws nru::Error and leaves the file without the rows.
  void append(std::span<const MetricsRow> rows);
  void append(const MetricsRow& row) { append(std::span(&row, 1)); }
  // Down to the disk: call before saving a checkpoint that counts on these rows.
  void sync();

 private:
  explicit MetricsWriter(const std::filesystem::path& path);  // opens a file that exists

  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace nru::training
