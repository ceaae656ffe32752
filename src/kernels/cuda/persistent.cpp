#include "kernels/cuda/persistent.h"

#include <algorithm>
#include <vector>

namespace nru::kernels::cuda {
namespace {

// Behind a function: static objects of other files enter themselves before main().
std::vector<PersistentDesign>& designs() {
  static std::vector<PersistentDesign> table;
  return table;
}

}  // namespace

Matrix weight_block(const Program<float>& program, const PersistentCall& call, int phase,
                    int part) {
  for (const Segment& s : program.phases[phase].segments) {
    const int columns = program.parameters[s.parameter].columns;
    if (s.part == part)
      return {call.parameters[s.parameter] + static_cast<std::size_t>(s.row) * columns + s.column,
              columns};
  }
  throw Error("the program of \"" + program.cell + "\" lacks a block of weights");
}

PersistentDesignEntry::PersistentDesignEntry(PersistentDesign design) {
  auto& table = designs();
  const auto later = std::find_if(table.begin(), table.end(), [&](const PersistentDesign& other) {
    return other.order > design.order;
  });
  table.insert(later, std::move(design));
}

ChosenPath choose_path(const Program<float>& program, int batch, bool lengths, bool state_limit) {
  for (const PersistentDesign& design : designs()) {
    if ((lengths && !design.lengths) || (state_limit && !design.state_limit)) continue;
    if (auto kernels = design.make(program, batch))
      return {design.name, design.state_limit, std::move(kernels)};
  }
  return {};
}

std::string path_of(const Program<float>& program, int batch, bool state_limit) {
  return choose_path(program, batch, false, state_limit).name;
}

}  // namespace nru::kernels::cuda
