// A program with phases off the recurrent path, which run over many steps at once, with parts that
// several phases read, on and off the path:
//   g = tanh(G [x; s']);  s = W [g; s'] + b;  u = tanh(A [s; g]);  y = C [u; s]
// The output is y, or g, which is made on the path but carried nowhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/program.h"

namespace nru::kernels {

struct BulkProgram {
  static constexpr int kState = 1, kGate = 2, kU = 3, kY = 4;  // parts
  static constexpr int I = 3, H = 5, G = 6, U = 7, Y = 9;      // their widths

  template <class T>
  static Phase<T> linear_phase(int part, std::vector<Segment> segments, int bias, bool recurrent) {
    return {part,
            std::move(segments),
            bias,
            [](const Rows<T>&) {},
            [part](const Rows<T>& rows) {
              std::copy_n(rows.gradient[part], rows.count * rows.ld[part], rows.d_pre);
            },
            recurrent};
  }

  template <class T>
  static Phase<T> tanh_phase(int part, std::vector<Segment> segments, bool recurrent) {
    return {part,
            std::move(segments),
            -1,
            [part](const Rows<T>& rows) {
              for (int i = 0; i < rows.count * rows.ld[part]; ++i)
                rows.current[part][i] = std::tanh(rows.current[part][i]);
            },
            [part](const Rows<T>& rows) {
              for (int i = 0; i < rows.count * rows.ld[part]; ++i) {
                const T value = rows.current[part][i];
                rows.d_pre[i] = rows.gradient[part][i] * (1 - value * value);
              }
            },
            recurrent};
  }
};

template <class T>
std::shared_ptr<const Program<T>> bulk_program(int output) {
  using B = BulkProgram;
  Program<T> p;
  p.parts = {{"x", B::I, PartKind::input},
             {"s", B::H, PartKind::state},
             {"g", B::G},
             {"u", B::U},
             {"y", B::Y}};
  p.parameters = {{"G", B::G, B::I + B::H},
                  {"W", B::H, B::G + B::H},
                  {"b", B::H},
                  {"A", B::U, B::H + B::G},
                  {"C", B::Y, B::U + B::H}};
  p.phases = {
      B::tanh_phase<T>(B::kGate, {{kInput, false, 0, 0}, {B::kState, true, 0, B::I}}, true),
      B::linear_phase<T>(B::kState, {{B::kGate, false, 1, 0}, {B::kState, true, 1, B::G}}, 2, true),
      B::tanh_phase<T>(B::kU, {{B::kState, false, 3, 0}, {B::kGate, false, 3, B::H}}, false),
      B::linear_phase<T>(B::kY, {{B::kU, false, 4, 0}, {B::kState, false, 4, B::U}}, -1, false)};
  if (output == B::kGate) {  // nothing off the path is left then
    p.phases.resize(2);
    p.parts.resize(3);
    p.parameters.resize(3);
  }
  p.output = output;
  p.cell = "test of phases off the path";
  return std::make_shared<Program<T>>(std::move(p));
}

}  // namespace nru::kernels
