// Reading, cutting and appending metrics.csv.
#include "training/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "support/atomic_file.h"
#include "support/text_file.h"

namespace nru::training {
namespace {

constexpr int kColumns = 14;

// Calls `visit(name, field)` for every column in the order of the file: the one place that knows
// it.
template <class Row, class Visit>
void for_each_column(Row& row, Visit visit) {
  visit("update", row.update);
  visit("epoch", row.epoch);
  visit("split", row.split);
  visit("loss", row.loss);
  visit("relative_loss", row.relative_loss);
  visit("accuracy", row.accuracy);
  visit("exact", row.exact);
  visit("bpc", row.bpc);
  visit("grad_norm", row.grad_norm);
  visit("max_memory", row.max_memory);
  visit("max_hidden", row.max_hidden);
  visit("skipped", row.skipped);
  visit("overflows", row.overflows);
  visit("seconds", row.seconds);
}

template <class T>
std::string field_text(const T& value) {
  return fmt::format("{}", value);  // for doubles the shortest that reads back equal
}
template <class T>
std::string field_text(const std::optional<T>& value) {
  return value ? field_text(*value) : std::string();
}

template <class Number>
void parse_field(std::string_view text, Number& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size()) {
    throw Error(fmt::format("'{}' is not a number", text));
  }
}
void parse_field(std::string_view text, std::string& word) { word = text; }
template <class T>
void parse_field(std::string_view text, std::optional<T>& value) {
  if (!text.empty()) parse_field(text, value.emplace());
}

// Cuts the next field off `line`; nothing after the last one.
std::optional<std::string_view> next_field(std::optional<std::string_view>& line) {
  if (!line) return std::nullopt;
  const std::size_t comma = line->find(',');
  const std::string_view field = line->substr(0, comma);
  if (comma == std::string_view::npos) {
    line.reset();
  } else {
    line->remove_prefix(comma + 1);
  }
  return field;
}

MetricsRow parse_row(std::string_view line) {
  const auto fields = std::count(line.begin(), line.end(), ',') + 1;
  if (fields != kColumns) throw Error(fmt::format("{} fields instead of {}", fields, kColumns));
  MetricsRow row;
  std::optional<std::string_view> rest = line;
  for_each_column(row, [&](const char* name, auto& value) {
    try {
      parse_field(*next_field(rest), value);
    } catch (const Error& error) {
      throw Error(fmt::format("column {}: {}", name, error.what()));
    }
  });
  return row;
}

// Calls `visit(line with its end, row)` for the rows of `text`; whatever follows the last line end
// was never finished and is left out.
template <class Visit>
void for_each_line(std::string_view text, const std::filesystem::path& path, Visit visit) {
  for (int number = 1;; ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return;
    const std::string_view line = text.substr(0, end);
    MetricsRow row;
    try {
      if (number > 1) {
        row = parse_row(line);
      } else if (line != metrics_header()) {
        throw Error("the columns are not those of a metrics file");
      }
    } catch (const Error& error) {
      throw Error(fmt::format("{}:{}: {}; the file is damaged, remove it or the run directory",
                              path.string(), number, error.what()));
    }
    if (number > 1) visit(text.substr(0, end + 1), row);
    text.remove_prefix(end + 1);
  }
}

[[noreturn]] void fail(const std::filesystem::path& path, int code) {
  throw Error(fmt::format("cannot write {}: {}; free some space or choose another directory",
                          path.string(), std::strerror(code)));
}

}  // namespace

const std::string& metrics_header() {
  static const std::string header = [] {
    std::vector<std::string> names;
    MetricsRow row;
    for_each_column(row, [&](const char* name, auto&) { names.emplace_back(name); });
    return fmt::format("{}", fmt::join(names, ","));
  }();
  return header;
}

std::string format_metrics_row(const MetricsRow& row) {
  std::vector<std::string> fields;
  for_each_column(row,
                  [&](const char*, const auto& value) { fields.push_back(field_text(value)); });
  return fmt::format("{}", fmt::join(fields, ","));
}

void for_each_metrics_row(const std::filesystem::path& path,
                          const std::function<void(const MetricsRow&)>& visit) {
  const std::string text = read_text_file(path, "metrics file");
  for_each_line(text, path, [&](std::string_view, const MetricsRow& row) { visit(row); });
}

std::vector<MetricsRow> read_metrics(const std::filesystem::path& path) {
  std::vector<MetricsRow> rows;
  for_each_metrics_row(path, [&](const MetricsRow& row) { rows.push_back(row); });
  return rows;
}

MetricsWriter MetricsWriter::create(const std::filesystem::path& path) {
  write_file_atomically(path, metrics_header() + "\n");
  return MetricsWriter(path);
}

MetricsWriter MetricsWriter::resume(const std::filesystem::path& path, std::int64_t last_update) {
  if (!std::filesystem::exists(path)) return create(path);
  const std::string text = read_text_file(path, "metrics file");
  // The kept lines are copied as they are: re-writing numbers could only change them.
  std::string kept = metrics_header() + "\n";
  for_each_line(text, path, [&](std::string_view line, const MetricsRow& row) {
    if (row.update <= last_update) kept += line;
  });
  if (kept != text) write_file_atomically(path, kept);
  return MetricsWriter(path);
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path)
    : path_(path),
      file_(uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC); })) {
  if (file_.get() < 0) fail(path_, errno);
}

void MetricsWriter::append(std::span<const MetricsRow> rows) {
  std::string text;
  for (const MetricsRow& row : rows) text += format_metrics_row(row) + "\n";
  struct stat before {};
  if (::fstat(file_.get(), &before) < 0) fail(path_, errno);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written =
        uninterrupted([&] { return ::write(file_.get(), rest.data(), rest.size()); });
    if (written < 0) {
      const int code = errno;
      // Best effort: should this fail too, readers still know a half line by its missing end.
      [[maybe_unused]] const int cut = ::ftruncate(file_.get(), before.st_size);
      fail(path_, code);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void MetricsWriter::sync() {
  if (uninterrupted([&] { return ::fdatasync(file_.get()); }) < 0) fail(path_, errno);
}

}  // namespace nru::training
