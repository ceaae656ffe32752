// What a cell's file in this folder is made of. It specialises Cell for its options,
//
//   template <>
//   struct Cell<XOptions> : CellOf<XOptions> {
//     using CellOf::CellOf;                                 // const XOptions options
//     static void check(const XOptions& o);                 // optional: throws nru::Error
//     static void read(const OptionMap& map, XOptions& o);  // the options beyond hidden_size
//     template <class T>
//     static kernels::Program<T> program(const XOptions& o, int input_size);
//     StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const;
//     void initialise(Initializer& init, const Weights& w) const;
//   };
//
// instantiates its layer, `template class CellLayer<XImpl, XOptions>;`, and enters its rows in the
// table of cells, `const CellRegistrar registrar(cell_row<XImpl>({.name = "x", ...}));`.
#pragma once

#include <nru/layer.h>
#include <nru/options.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cells/checks.h"
#include "cells/construction.h"
#include "cells/initializer.h"
#include "cells/registry.h"
#include "kernels/program.h"

namespace nru {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

template <class Options>
struct CellOf {
  explicit CellOf(const Options& o) : options(o) {}
  static void check(const Options&) {}

  const Options options;
};

template <class Impl, class Options>
CellLayer<Impl, Options>::CellLayer(const Options& o)
    : LayerImpl(LayerSettings::from(o)), options(o) {
  Cell<Options>::check(o);
  cell_ = std::make_shared<const Cell<Options>>(o);
  build();
}

template <class Impl, class Options>
std::shared_ptr<torch::nn::Module> CellLayer<Impl, Options>::clone(
    const OptionalDevice& device) const {
  const ConstructionScope undrawn(Construction::undrawn);
  return copy_into(std::make_shared<Impl>(options), device);
}

template <class Impl, class Options>
kernels::Program<float> CellLayer<Impl, Options>::float_program(std::int64_t input_size) const {
  return Cell<Options>::template program<float>(options, static_cast<int>(input_size));
}

template <class Impl, class Options>
kernels::Program<double> CellLayer<Impl, Options>::double_program(std::int64_t input_size) const {
  return Cell<Options>::template program<double>(options, static_cast<int>(input_size));
}

template <class Impl, class Options>
StepValues CellLayer<Impl, Options>::reference_step(const Tensor& x, const Tensors& state,
                                                    const Weights& w) const {
  return cell_->step(x, state, w);
}

template <class Impl, class Options>
void CellLayer<Impl, Options>::initialise(Initializer& init, const Weights& w) const {
  cell_->initialise(init, w);
}

// A row of the table of cells; `row` has all but what follows from the class.
template <class Impl>
CellInfo cell_row(CellInfo row) {
  using Options = typename Impl::Options;
  const auto read = [](std::int64_t input_size, const OptionMap& map) {
    Options options(input_size, get<std::int64_t>(map, "hidden_size"));
    Cell<Options>::read(map, options);
    return options;
  };
  row.make = [read](std::int64_t input_size, const OptionMap& map) {
    return std::make_shared<Impl>(read(input_size, map));
  };
  row.parameters = [read](std::int64_t input_size, const OptionMap& map) {
    const Options options = read(input_size, map);
    check_size("input_size", input_size);
    check_size("hidden_size", options.hidden_size());
    Cell<Options>::check(options);
    return Cell<Options>::template program<float>(options, static_cast<int>(input_size)).parameters;
  };
  return row;
}

// The options of a cell and those that it shares with others.
inline std::vector<OptionSpec> joined(std::vector<OptionSpec> own,
                                      const std::vector<OptionSpec>& shared) {
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

// CellInfo::sizes of cells that have one size.
inline std::map<std::string, OptionMap> hidden_sizes(std::int64_t copy, std::int64_t psmnist,
                                                     std::int64_t char_lm) {
  const auto size = [](std::int64_t hidden) { return OptionMap{{"hidden_size", hidden}}; };
  return {{"copy", size(copy)}, {"psmnist", size(psmnist)}, {"char-lm", size(char_lm)}};
}

}  // namespace nru
