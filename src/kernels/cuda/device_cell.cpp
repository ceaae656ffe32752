#include "kernels/cuda/device_cell.h"

#include <map>

#include "kernels/cuda/device.h"

namespace nru::kernels::cuda {
namespace {

// Behind a function: static objects of other files enter themselves before main().
std::map<std::string, MakeDeviceCell>& table() {
  static std::map<std::string, MakeDeviceCell> cells;
  return cells;
}

}  // namespace

DeviceCellEntry::DeviceCellEntry(const std::string& cell, MakeDeviceCell make) {
  table()[cell] = std::move(make);
}

bool has_cell(const std::string& cell) { return table().count(cell) > 0; }

DeviceCell make_cell(const Program<float>& program) {
  const auto entry = table().find(program.cell);
  if (entry == table().end()) {
    throw Error("the cell \"" + program.cell + "\" has no CUDA kernels: use its reference there");
  }
  DeviceCell cell = entry->second(program);
  if (cell.phases.size() != program.phases.size()) {
    throw Error("the CUDA kernels of \"" + program.cell + "\" do not fit its program");
  }
  return cell;
}

}  // namespace nru::kernels::cuda
