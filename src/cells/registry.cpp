// The table behind registry.h.
#include "cells/registry.h"

#include <utility>

#include "support/table.h"

namespace nru {
namespace {

// A function's static: exists before the first registrar of any file needs it.
Table<CellInfo>& table() {
  static Table<CellInfo> all("cell");
  return all;
}

}  // namespace

const std::vector<CellInfo>& cells() { return table().rows(); }

const CellInfo& find_cell(std::string_view name) { return table().find(name); }

CellRegistrar::CellRegistrar(CellInfo info) { table().add(std::move(info)); }

}  // namespace nru
