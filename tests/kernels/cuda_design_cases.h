// The table of cases of the whole-sequence kernels: a row for each design (kernels/cuda/
// persistent.h), with the sizes at the borders of its compiled tiles. Small cells meet the designs
// in the table of all cells (sequence_cases.h), too.
#pragma once

#include <string>
#include <vector>

#include "sequence_cases.h"

namespace nru::kernels::cuda {

struct DesignCases {
  std::string name;
  std::string path;             // as path_of() says
  bool clusters;                // needs a GPU of compute capability 9
  std::vector<CellCase> cells;  // "declined" in a name: the generic path takes it
  std::vector<RunCase> runs;
  // Many steps and rows, in windows and as a whole: a CTA that another one laps would show there.
  std::vector<CellCase> long_cells;
  std::vector<RunCase> long_runs;
  std::vector<NruShape> extremes;  // NRUs for heads out of all bounds
};

inline void PrintTo(const DesignCases& c, std::ostream* out) { *out << c.name; }

const std::vector<DesignCases>& design_cases();

NruShape nru_of(int input, int hidden, int memory, int heads);
NruShape with(NruShape shape, bool NruShape::*option);
NruShape limited(NruShape shape);  // with a write_limit that cuts off many strengths

}  // namespace nru::kernels::cuda
