// What `nru inspect RUN` left in RUN/inspect, where it did.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nru::report {

// A CSV file of numbers: a line of column names, then rows of equal length.
struct NumberTable {
  std::vector<std::string> names;
  std::vector<std::vector<double>> rows;  // empty fields are NaN

  // The column of that name; empty when there is none.
  std::vector<double> column(const std::string& name) const;
};

// Nothing where the file is missing or is not such a table.
std::optional<NumberTable> read_numbers(const std::filesystem::path& path);

// The memory of one sequence after every step.
struct MemoryMap {
  int steps = 0, units = 0;
  std::vector<double> values;   // [steps, units]: m_t
  std::vector<double> changes;  // [steps, units]: m_t - m_(t-1)
  std::vector<int> input;       // [steps] symbols; empty: not known
  struct Stretch {              // steps with a meaning: symbols, blanks, recall
    std::string name;
    int first = 0, last = 0;
  };
  std::vector<Stretch> stretches;  // of copying sequences; else empty

  // The part of sum |change| on blanks before the marker. Nothing without a marker or any change.
  std::optional<double> blank_share() const;
};

std::optional<MemoryMap> read_memory_map(const std::filesystem::path& run_directory);

}  // namespace nru::report
