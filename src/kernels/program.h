// A recurrent cell as the kernels see it: a table of parts and phases, and two pointwise functions
// per phase.
//
// A time step is a short list of phases. A phase forms pre = sum_s W_s segment_s + b, where a
// segment is the input x_t, a part of the previous state, or the result of an earlier phase of the
// same step; then a pointwise function maps pre to new values. The backward pass walks the phases
// in reverse: the pointwise backward turns gradients of parts into d_pre, the skeleton sends W_s^T
// d_pre back into the segments, and forms weight gradients over many steps at a time.
//
// Time loop, packing, batch slices, threads, storage and weight gradients are written once
// (sequence.h); a cell contributes one Program. Nothing here knows torch.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nru::kernels {

// Part 0 of every program is the input x.
inline constexpr int kInput = 0;

enum class PartKind {
  input,  // x_t
  state,  // carried from step to step; has an initial value
  step,   // made in a step and kept for the backward pass (gates, heads)
};

// A value that every row has at every time step: [T, B, width].
struct Part {
  std::string name;
  int width = 0;
  PartKind kind = PartKind::step;
  // The gradient of a part turns from "of the current value" into "of the previous value" in the
  // backward pointwise function of the phase that makes it. carries = that function leaves a direct
  // term behind (m_t = m_{t-1} + ...); otherwise nothing is left of it, and the first product that
  // reaches the previous value overwrites.
  bool carries = false;
  double initial = 0;  // of a state part whose initial value the caller does not give
};

struct Parameter {
  std::string name;
  int rows = 0;
  int columns = 0;  // 0: a vector
  // Plane rotations that each value drives per row and step (the angles of a butterfly): for the
  // count of operations only.
  int rotations = 0;
  std::int64_t size() const {
    return static_cast<std::int64_t>(rows) * (columns > 0 ? columns : 1);
  }
  std::vector<std::int64_t> shape() const {
    return columns > 0 ? std::vector<std::int64_t>{rows, columns} : std::vector<std::int64_t>{rows};
  }
};

// One block of a weight matrix and what it multiplies. A phase may use a block of rows: torch
// stacks the gates of a cell in one matrix, whatever the phases they belong to.
struct Segment {
  int part = 0;
  bool previous =
      false;          // the part's value one step ago (state parts only), else the one of this step
  int parameter = 0;  // the block is [outputs, width of the part]
  int column = 0;     // first column of this block
  int row = 0;        // and its first row
};

// What a pointwise function may count, row by row.
enum Event { kOverflow = 0, kClamped = 1, kEvents = 2 };

// What a pointwise function works on: all rows of a slice at one time step (or many steps, for a
// phase off the recurrent path). Row r of part p starts at current[p] + r*ld[p]. Values behind a
// part's width are padding: the products that read a part rely on its padding being zero.
template <class T>
struct Rows {
  int count = 0;
  const int* ld = nullptr;
  T* const* current = nullptr;           // by part
  const T* const* previous = nullptr;    // by part; state parts only
  const T* const* parameters = nullptr;  // by parameter, as the caller stores them
  const T* derived = nullptr;            // Program::derived values
  T* scratch = nullptr;                  // Program::scratch values
  std::int64_t* events = nullptr;        // [count, kEvents]; forward only
  // Backward only:
  T* const* gradient = nullptr;  // by part: d(current) in, d(previous) out (see Part::carries)
  T* d_pre = nullptr;            // [count, ld of the phase's part], to be written
  T* const* parameter_gradients =
      nullptr;  // by parameter: of those that no product touches (peepholes, layer norm)
  T* accumulators = nullptr;  // Program::accumulators values

  std::int64_t* events_of(int row) const { return events + row * kEvents; }
};

template <class T>
using Pointwise = std::function<void(const Rows<T>&)>;

template <class T>
struct Phase {
  int part = 0;  // receives pre, and whatever forward() makes of it in place
  std::vector<Segment> segments;
  int bias = -1;  // parameter, or -1
  Pointwise<T> forward, backward;
  // false: no other step depends on the result, so the phase runs over many steps at once, outside
  // the time loop.
  bool recurrent = true;
  int bias_row = 0;  // first row of the bias
};

template <class T>
struct Program {
  // Name and shape (LstmShape, ...) of the cell: how other devices find their own pointwise
  // functions for these phases.
  std::string cell;
  std::any shape;

  std::vector<Part> parts;
  std::vector<Parameter> parameters;
  std::vector<Phase<T>> phases;
  int output = 1;           // the part that leaves the layer
  std::size_t scratch = 0;  // values that a pointwise function may use, per slice

  // What the pointwise functions read of the parameters in another form (sines and cosines of
  // angles): made once per call, before the first step, and shared by all slices.
  std::size_t derived = 0;
  std::function<void(const T* const* parameters, T* derived)> prepare;

  // Sums over rows and steps that the backward functions keep in a form of their own: zero before
  // a slice's first backward step. After its last one finish() adds what they amount to to the
  // slice's parameter gradients.
  std::size_t accumulators = 0;
  std::function<void(const T* accumulators, T* const* parameter_gradients)> finish;
};

}  // namespace nru::kernels
