// A layer as a function of its parameters is the layer that owns them, bit for bit.
#include "cells/functional.h"

#include <gmock/gmock.h>
#include <nru/error.h>
#include <nru/nru.h>

#include "cells/registry.h"

namespace nru {
namespace {

using testing::HasSubstr;
using torch::Tensor;

// The functional layer of a cell's class: two layers of 3 to 5, with the class's defaults.
FunctionalLayer functional(const std::string& cell, Backend backend = Backend::fused) {
  LayerSettings settings;
  settings.input_size = 3;
  settings.num_layers = 2;
  settings.backend = backend;
  OptionMap options = find_cell(cell).class_defaults;
  options["hidden_size"] = std::int64_t{5};
  return FunctionalLayer(cell, settings, options);
}

template <class Layer>
void expect_equal(const FunctionalLayer& function, Layer& layer) {
  const auto named = layer->named_parameters();
  ASSERT_EQ(function.parameter_shapes().size(), named.size());
  std::vector<Tensor> drawn;
  for (std::size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ(function.parameter_shapes()[i].name, named[i].key());
    EXPECT_EQ(torch::IntArrayRef(function.parameter_shapes()[i].shape), named[i].value().sizes());
    drawn.push_back(torch::empty_like(named[i].value()));
  }
  layer->reset_parameters(17);
  function.initialise(drawn, 17);
  for (std::size_t i = 0; i < named.size(); ++i)
    EXPECT_TRUE(torch::equal(drawn[i], named[i].value())) << named[i].key();

  const Tensor x = torch::randn({4, 2, 3});
  const auto [output, state] = layer->forward(x);
  const auto [same, same_state] = function.forward(drawn, x, {}, {}, true);
  EXPECT_TRUE(torch::equal(same, output));
  for (std::size_t p = 0; p < state.parts.size(); ++p)
    EXPECT_TRUE(torch::equal(same_state.parts[p], state.parts[p]));
  EXPECT_TRUE(torch::equal(std::get<0>(function.step(drawn, x[0], state, true)),
                           std::get<0>(layer->step(x[0], state))));
  EXPECT_TRUE(
      torch::equal(function.states(drawn, x, state).back(), layer->states(x, state).back()));
}

template <class Layer>
void expect_equal(const std::string& cell) {
  SCOPED_TRACE(cell);
  for (const Backend backend : {Backend::fused, Backend::reference}) {
    Layer layer(typename Layer::Impl::Options(3, 5).num_layers(2).backend(backend));
    expect_equal(functional(cell, backend), layer);
  }
}

TEST(FunctionalLayer, IsTheLayer) {
  expect_equal<NRU>("nru");
  expect_equal<LSTM>("lstm");
  expect_equal<RNN>("rnn-orth");
  expect_equal<GRU>("gru");
  expect_equal<JANET>("janet");
  expect_equal<SRU>("sru");
  expect_equal<EURNN>("eurnn");
  expect_equal<GORU>("goru");
}

TEST(FunctionalLayer, OtherLayersKeepTheirParameters) {
  functional("nru");
  EXPECT_EQ(NRU(3, 5)->parameters().size(), 4u);
  EXPECT_THROW(FunctionalLayer("nru", {.input_size = 3}, {{"memory_size", std::int64_t{63}}}),
               Error);
  EXPECT_EQ(NRU(3, 5)->parameters().size(), 4u);
}

TEST(FunctionalLayer, ParametersThatDoNotFitAreRefused) {
  const FunctionalLayer function = functional("lstm");
  std::vector<Tensor> parameters;
  for (const auto& [name, shape] : function.parameter_shapes())
    parameters.push_back(torch::zeros(shape));
  const Tensor x = torch::randn({4, 2, 3});
  const auto message = [&](const std::vector<Tensor>& given) -> std::string {
    try {
      function.forward(given, x, {}, {}, false);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(message({parameters[0]}), HasSubstr("has 6 parameters, got 1"));
  std::vector<Tensor> wrong = parameters;
  wrong[4] = torch::zeros({20, 3});
  EXPECT_THAT(message(wrong), HasSubstr("weight_hh_l1 must be [20, 5], got [20, 3]"));
  wrong[4] = torch::zeros({20, 5}, torch::kDouble);
  EXPECT_THAT(message(wrong), HasSubstr("weight_hh_l1 is Double"));
}

}  // namespace
}  // namespace nru
