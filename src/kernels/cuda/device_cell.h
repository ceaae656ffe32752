// A cell's pointwise functions on the device, beside its Program (program.h): what a .cu file of a
// cell adds.
//
// The functions get the same Rows as on the CPU, with three differences: the values lie in device
// memory (the tables of pointers in host memory); the work goes to a stream; and sums over rows are
// not formed by them. Phases off the recurrent path count no events. A gradient that no product
// forms (peepholes, layer norm, angles) is summed up over the steps for each row of the batch on
// its own, in rows.parameter_gradients[p] + row * size, by one thread per element, and the skeleton
// adds the rows in a fixed order at the end: no atomics, the same bits every time.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/product.h"
#include "kernels/program.h"

namespace nru::kernels::cuda {

using DevicePointwise = std::function<void(const Rows<float>&, cudaStream_t)>;

struct DevicePhase {
  DevicePointwise forward,
      backward;  // null: nothing to do (backward: d_pre is the gradient itself)
  // relu or tanh: forward() is no more than that, in place, and may be left to the product.
  Finish finish = Finish::none;
};

struct DeviceCell {
  std::vector<DevicePhase> phases;  // those of the program
  std::vector<int> row_sums;        // parameters whose gradients backward functions sum up by row
  // Program::derived and Program::prepare.
  std::size_t derived = 0;
  std::function<void(const float* const* parameters, float* derived, cudaStream_t)> prepare;
};

using MakeDeviceCell = std::function<DeviceCell(const Program<float>&)>;

// Enters a cell in the table that find_cell() reads, by Program::cell. For a static object in the
// cell's .cu file.
struct DeviceCellEntry {
  DeviceCellEntry(const std::string& cell, MakeDeviceCell make);
};

bool has_cell(const std::string& cell);
DeviceCell make_cell(const Program<float>& program);  // Error if there is none

}  // namespace nru::kernels::cuda
