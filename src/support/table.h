// A table of named rows that files add themselves to (cells, tasks): adding a row adds a file and
// edits none.
//
// Files register while the program is loaded, in an order that is up to the linker; the table is
// kept sorted by name.
#pragma once

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/suggest.h"

namespace nru {

// Row has a member `name`.
template <class Row>
class Table {
 public:
  // kind: "cell", "task", ... for the error message.
  explicit Table(std::string kind) : kind_(std::move(kind)) {}

  void add(Row row) {
    const auto by_name = [](const Row& a, const Row& b) { return a.name < b.name; };
    rows_.insert(std::upper_bound(rows_.begin(), rows_.end(), row, by_name), std::move(row));
  }

  const std::vector<Row>& rows() const { return rows_; }

  // Throws nru::Error with the nearest name when there is no such row.
  const Row& find(std::string_view name) const {
    std::vector<std::string> names;
    for (const Row& row : rows_) {
      if (row.name == name) return row;
      names.push_back(row.name);
    }
    throw Error(fmt::format("unknown {} '{}'{}", kind_, name, did_you_mean(name, names)));
  }

 private:
  std::string kind_;
  std::vector<Row> rows_;
};

}  // namespace nru
