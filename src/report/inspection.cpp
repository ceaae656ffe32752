#include "report/inspection.h"

#include <nru/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "support/text_file.h"

namespace nru::report {
namespace {

constexpr int kMarker = 9;  // the symbol that asks for the recall

template <class Visit>
void for_each_part(std::string_view text, char end, Visit visit) {
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(end), text.size());
    visit(text.substr(0, at));
    text.remove_prefix(std::min(at + 1, text.size()));
  }
}

std::vector<double> numbers_in(std::string_view line) {
  std::vector<double> numbers;
  for_each_part(line, ',', [&](std::string_view field) {
    double number = std::numeric_limits<double>::quiet_NaN();
    std::from_chars(field.data(), field.data() + field.size(), number);
    numbers.push_back(number);
  });
  if (line.ends_with(',')) numbers.push_back(std::numeric_limits<double>::quiet_NaN());
  return numbers;
}

// The file without its first column, which counts the steps.
bool take_matrix(const std::filesystem::path& path, int& steps, int& units,
                 std::vector<double>& values) {
  const std::optional<NumberTable> table = read_numbers(path);
  if (!table || table->names.size() < 2) return false;
  steps = static_cast<int>(table->rows.size());
  units = static_cast<int>(table->names.size()) - 1;
  values.clear();
  for (const std::vector<double>& row : table->rows) {
    values.insert(values.end(), row.begin() + 1, row.end());
  }
  return steps > 0;
}

std::vector<MemoryMap::Stretch> stretches_of(const std::vector<int>& input) {
  const auto marker = std::ranges::find(input, kMarker);
  if (marker == input.end()) return {};
  const int at = static_cast<int>(marker - input.begin());
  int symbols = 0;  // a copying sequence starts with all of them
  while (symbols < at && input[symbols] != 0) ++symbols;
  std::vector<MemoryMap::Stretch> stretches;
  if (symbols > 0) stretches.push_back({"symbols", 0, symbols - 1});
  if (symbols < at) stretches.push_back({symbols > 0 ? "blanks" : "noise", symbols, at - 1});
  stretches.push_back({"recall", at, static_cast<int>(input.size()) - 1});
  return stretches;
}

}  // namespace

std::vector<double> NumberTable::column(const std::string& name) const {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return {};
  std::vector<double> values;
  for (const std::vector<double>& row : rows) values.push_back(row[found - names.begin()]);
  return values;
}

std::optional<NumberTable> read_numbers(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  NumberTable table;
  bool equal = true;
  try {
    for_each_part(read_text_file(path, "table"), '\n', [&](std::string_view line) {
      if (table.names.empty()) {
        for_each_part(line, ',', [&](std::string_view name) { table.names.emplace_back(name); });
      } else {
        table.rows.push_back(numbers_in(line));
        equal = equal && table.rows.back().size() == table.names.size();
      }
    });
  } catch (const Error&) {
    return std::nullopt;
  }
  return equal && !table.names.empty() ? std::optional(std::move(table)) : std::nullopt;
}

std::optional<double> MemoryMap::blank_share() const {
  const auto marker = std::ranges::find(input, kMarker);
  if (marker == input.end()) return std::nullopt;
  double blank = 0, all = 0;
  for (int step = 0; step < steps; ++step) {
    double change = 0;
    for (int unit = 0; unit < units; ++unit) {
      const double value = changes[static_cast<std::size_t>(step) * units + unit];
      if (std::isfinite(value)) change += std::abs(value);
    }
    all += change;
    if (input[step] == 0 && step < marker - input.begin()) blank += change;
  }
  return all > 0 ? std::optional(blank / all) : std::nullopt;
}

std::optional<MemoryMap> read_memory_map(const std::filesystem::path& run_directory) {
  const std::filesystem::path folder = run_directory / "inspect";
  MemoryMap map;
  int steps = 0, units = 0;
  if (!take_matrix(folder / "memory.csv", map.steps, map.units, map.values)) return std::nullopt;
  if (!take_matrix(folder / "memory_change.csv", steps, units, map.changes) || steps != map.steps ||
      units != map.units) {
    return std::nullopt;
  }
  if (const auto table = read_numbers(folder / "input.csv")) {
    for (const double symbol : table->column("input")) {
      map.input.push_back(std::isfinite(symbol) ? static_cast<int>(symbol) : -1);
    }
  }
  if (static_cast<int>(map.input.size()) != map.steps) map.input.clear();
  map.stretches = stretches_of(map.input);
  return map;
}

}  // namespace nru::report
