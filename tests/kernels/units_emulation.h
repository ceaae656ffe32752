// The kernels of the cells of gates (src/kernels/cuda/units_*.cu) without a GPU: their code, thread
// by thread, on emulated clusters, against the kernels of the CPU. What a call needs comes from the
// cell's program.
//
// To be included before the file of the cell.
#pragma once

#include "emulated_cluster.h"
// After it:
#include "emulation.h"
#include "kernels/cuda/units_kernel.cuh"

namespace nru::kernels::cuda {

// Who is, while kernels run (see emulated_cluster.h).
inline int held_back = emulated::Cluster::kNobody;

// ---- units_kernel.cuh ----

// Static: the library has one for the same types.
template <class Cta, class Memory, class Call>
static void launch_units(const char* name, const Call& call, cudaStream_t) {
  for (int i = 0; i < (call.of.batch + kClusterRows - 1) / kClusterRows; ++i) {
    emulated::Cluster cluster(i, sizeof(Memory), held_back, static_cast<unsigned>(i));
    ASSERT_TRUE(cluster.run([&] { Cta(call, cluster.shared<Memory>()).run(); }))
        << name << ": the threads wait for each other";
  }
}

// A case on the CPU, and its recurrence by the code of the kernels.
class UnitsEmulation {
 public:
  UnitsEmulation(const CellCase& cell, const RunCase& run)
      : cell_(cell),
        data_(cell, run, 0.2),
        program_(*data_.program),
        positions_(data_.positions()) {
    if (!in_the_loop()) std::ranges::fill(data_.output_gradient, 0.f);
    kernels::Sequence<float> sequence(data_.program, 1);
    data_.forward(sequence, true);
    data_.backward(sequence);
    for (const Part& part : program_.parts) {
      slots_.emplace_back(positions_ + run.batch, part.width);
      gradients_.emplace_back(run.batch, part.width);
      ld_.push_back(slots_.back().ld);
    }
    for_states([&](int part, int state) {
      const int width = program_.parts[part].width;
      for (int row = 0; row < run.batch; ++row)
        for (int j = 0; j < width; ++j)
          slots_[part].at(row, j) = data_.initial[state][row * width + j];
    });
    for (const Phase<float>& phase : program_.phases) {
      d_pre_.emplace_back(positions_, program_.parts[phase.part].width);
      if (phase.recurrent) share_input(phase);
    }
    for (const Parameter& parameter : program_.parameters)
      row_sums_.emplace_back(run.batch * parameter.size(), NAN);
    largest_.resize(program_.parts.size());
  }

  const Program<float>& program() const { return program_; }

  void expect_the_same(Persistent& kernels) {
    const Tables tables(*this);
    forward(tables, kernels);
    for_states([&](int part, int state) {
      const std::vector<float> values = dense(slots_[part], program_.parts[part].width, batch());
      near(program_.parts[part].name.c_str(), values, data_.states[state], 1e-6);
      float largest = 0;
      for (float x : values) largest = std::max(largest, std::abs(x));
      EXPECT_EQ(__uint_as_float(largest_[part]), largest);
    });
    backward(tables, kernels);
    for_states([&](int part, int state) {
      near("gradient of the initial state", dense(gradients_[part], program_.parts[part].width),
           data_.initial_gradients[state], bound());
    });
    for (std::size_t p = 0; p < program_.parameters.size(); ++p) {
      if (const auto got = gradient_of(static_cast<int>(p)))
        near(program_.parameters[p].name.c_str(), *got, data_.parameter_gradients[p], bound());
    }
  }

 private:
  // What a call takes by part, phase or parameter.
  struct Tables {
    std::vector<const float*> parameters, final_state;
    std::vector<float*> slots, d_pre, gradient, row_sums;
    explicit Tables(UnitsEmulation& of) : final_state(of.program_.parts.size()) {
      for (const auto& values : of.data_.parameters) parameters.push_back(values.data());
      for (Rows& rows : of.slots_) slots.push_back(rows.data());
      for (Rows& rows : of.d_pre_) d_pre.push_back(rows.data());
      for (Rows& rows : of.gradients_) gradient.push_back(rows.data());
      for (auto& sums : of.row_sums_) row_sums.push_back(sums.data());
      of.for_states(
          [&](int part, int state) { final_state[part] = of.data_.final_gradient[state].data(); });
    }
  };

  int batch() const { return data_.run.batch; }
  double bound() const { return 1e-5 * cell_.looseness; }
  // Whether the output is a state, and no phase outside of the time loop makes it.
  bool in_the_loop() const { return program_.parts[program_.output].kind == PartKind::state; }
  template <class F>
  void for_states(const F& f) const {
    int state = 0;
    for (std::size_t part = 0; part < program_.parts.size(); ++part)
      if (program_.parts[part].kind == PartKind::state) f(static_cast<int>(part), state++);
  }
  std::size_t weight_at(const Segment& segment, int output, int input) const {
    const Parameter& parameter = program_.parameters[segment.parameter];
    return static_cast<std::size_t>(segment.row + output) * parameter.columns + segment.column +
           input;
  }

  // What input and bias give to the pre-activations.
  void share_input(const Phase<float>& phase) {
    const int inputs = data_.input_width();
    for (std::size_t p = 0; p < positions_; ++p) {
      for (int o = 0; o < program_.parts[phase.part].width; ++o) {
        double sum = phase.bias >= 0 ? data_.parameters[phase.bias][phase.bias_row + o] : 0.;
        for (const Segment& segment : phase.segments) {
          for (int i = 0; segment.part == kInput && i < inputs; ++i)
            sum += double(data_.parameters[segment.parameter][weight_at(segment, o, i)]) *
                   data_.dense[p * inputs + i];
        }
        slots_[phase.part].at(batch() + p, o) = static_cast<float>(sum);
      }
    }
  }

  template <class Call>
  Call call_of(const Tables& tables) {
    Call call;
    call.steps = data_.run.steps;
    call.batch = batch();
    call.ld = ld_.data();
    call.parameters = tables.parameters.data();
    call.slots = tables.slots.data();
    call.memory = [this](std::size_t bytes) {
      memory_.resize(std::max(memory_.size(), bytes));
      return memory_.data();
    };
    return call;
  }
  void forward(const Tables& tables, Persistent& kernels) {
    auto call = call_of<PersistentForward>(tables);
    call.keep = true;
    call.largest = largest_.data();
    kernels.forward(call, nullptr);
  }
  void backward(const Tables& tables, Persistent& kernels) {
    auto call = call_of<PersistentBackward>(tables);
    Rows bulk(positions_, program_.parts[program_.output].width);
    call.bulk = bulk.data();
    call.bulk_first = data_.run.steps;
    if (in_the_loop()) {
      call.bulk_first = 0;
      for (std::size_t p = 0; p < positions_; ++p)
        for (int j = 0; j < data_.output_width(); ++j)
          bulk.at(p, j) = data_.output_gradient[p * data_.output_width() + j];
    }
    call.final_state = tables.final_state.data();
    call.d_pre = tables.d_pre.data();
    call.gradient = tables.gradient.data();
    call.row_sums = tables.row_sums.data();
    kernels.backward(call, nullptr);
  }

  // From d_pre and what it was multiplied with, or the sums of rows; nothing for a parameter that
  // has to do with no phase in the time loop.
  std::optional<std::vector<double>> gradient_of(int parameter) {
    std::vector<double> sums(program_.parameters[parameter].size());
    bool found = false;
    for (std::size_t f = 0; f < program_.phases.size(); ++f) {
      const Phase<float>& phase = program_.phases[f];
      if (!phase.recurrent) continue;
      const int outputs = program_.parts[phase.part].width;
      for (std::size_t p = 0; p < positions_; ++p) {
        for (int o = 0; o < outputs; ++o) {
          const double d = d_pre_[f].at(p, o);
          if (phase.bias == parameter) sums[phase.bias_row + o] += d;
          for (const Segment& segment : phase.segments) {
            for (int i = 0; segment.parameter == parameter && i < width(segment); ++i)
              sums[weight_at(segment, o, i)] += d * value(segment, p, i);
          }
        }
      }
      found = found || phase.bias == parameter ||
              std::ranges::any_of(phase.segments,
                                  [&](const Segment& s) { return s.parameter == parameter; });
    }
    if (!std::isnan(row_sums_[parameter][0])) {
      found = true;
      for (std::size_t i = 0; i < row_sums_[parameter].size(); ++i)
        sums[i % sums.size()] += row_sums_[parameter][i];
    }
    return found ? std::optional(sums) : std::nullopt;
  }
  int width(const Segment& segment) const { return program_.parts[segment.part].width; }
  float value(const Segment& segment, std::size_t position, int i) {
    if (segment.part == kInput) return data_.dense[position * data_.input_width() + i];
    return slots_[segment.part].at(segment.previous ? position : position + batch(), i);
  }

  CellCase cell_;
  SequenceData<float> data_;
  const Program<float>& program_;
  std::size_t positions_;
  std::vector<Rows> slots_, gradients_, d_pre_;
  std::vector<int> ld_;
  std::vector<std::vector<float>> row_sums_;
  std::vector<unsigned> largest_;
  std::vector<char> memory_;
};

inline const RunCase kShort{"", 3, 5, false, true}, kShorter{"", 2, 3, false, true};

template <class Kernels, class Shape>
void expect_the_same(const Shape& shape, const RunCase& run, int held = emulated::Cluster::kNobody,
                     double looseness = 1) {
  SCOPED_TRACE(testing::Message() << "h" << shape.hidden << ", held back: " << held);
  ASSERT_TRUE(Kernels::holds(shape));
  UnitsEmulation emulation({"", shape, looseness}, run);
  Kernels kernels(emulation.program(), shape);
  held_back = held;
  emulation.expect_the_same(kernels);
}

// With every CTA and some warps held back in turn.
template <class Kernels, class Shape>
void expect_nobody_is_overtaken(const Shape& shape, double looseness = 1) {
  const RunCase run{"", 5, 4, false, true};
  for (int cta = 0; cta < emulated::kCtas; ++cta) {
    expect_the_same<Kernels>(shape, run, emulated::Cluster::whole_cta(cta), looseness);
    for (int warp : {cta, kClusterWarps - 1 - cta})
      expect_the_same<Kernels>(shape, run, kClusterWarps * cta + warp, looseness);
  }
}

}  // namespace nru::kernels::cuda
