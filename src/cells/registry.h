// The one table of cells: what the command line, configurations, tests, benchmark and Python read.
// Each cell's file registers itself, so adding a cell adds one file and edits none.
#pragma once

#include <nru/layer.h>
#include <nru/options.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/program.h"

namespace nru {

struct CellInfo {
  std::string name;
  std::string summary;              // one line for `nru list`
  std::vector<OptionSpec> options;  // keys under cell.
  std::map<std::string, OptionMap>
      sizes;            // size class of the task -> options that differ from the defaults
  bool clip = true;     // false: the paper trains this cell without gradient clipping
  bool chrono = false;  // true: chrono_t_max defaults to the task's longest dependency
  // Settings by preset ("authors", "recommended"), then by "TASK@LAG" or "TASK"; any keys of a
  // configuration.
  std::map<std::string, std::map<std::string, OptionMap>> presets = {};
  // Defaults of the cell's class, nru::X and nru.X in Python, where they differ from `options`,
  // whose defaults are the paper's runs.
  OptionMap class_defaults = {};
  std::function<std::shared_ptr<LayerImpl>(std::int64_t input_size, const OptionMap& options)>
      make = {};
  // Names and shapes of the layer's parameters, without drawing any.
  std::function<std::vector<kernels::Parameter>(std::int64_t input_size, const OptionMap& options)>
      parameters = {};
  // Draws the output layer, V [O,H] and c [O], of a network with this cell. Empty: V Xavier-normal,
  // c = 0.
  std::function<void(Initializer& init, const torch::Tensor& weight, const torch::Tensor& bias,
                     std::int64_t input_size, const OptionMap& options)>
      initialise_output = {};
};

// All cells, sorted by name.
const std::vector<CellInfo>& cells();

// Throws nru::Error with the nearest name when there is no such cell.
const CellInfo& find_cell(std::string_view name);

// A cell's file holds one per row of the table; cell_row() of cells/cell.h makes the row.
class CellRegistrar {
 public:
  explicit CellRegistrar(CellInfo info);
};

}  // namespace nru
