// The operators behind the Python module, torch.ops.nru.*. There is one set for all cells: what a
// layer is (cell, sizes, options, stacking) comes as a string of JSON, its tensors as arguments.
//
//   settings = {"cell": "nru", "input_size": 10, "num_layers": 1, "dropout": 0.0,
//               "batch_first": false, "backend": "fused",
//               "options": {"hidden_size": 80, "memory_size": 64, ...}}
//
// A string and not an object, because a module that holds only strings, numbers and parameters can
// be copied and pickled.
#include <nru/error.h>
#include <nru/torch.h>
#include <nru/version.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "cells/functional.h"
#include "cells/registry.h"

namespace nru {
namespace {

using nlohmann::json;
using torch::Tensor;

// c10::optional in older torch, std::optional in newer: the template behind nru::OptionalDevice.
template <class>
struct OptionalOf;
template <template <class> class Optional>
struct OptionalOf<Optional<torch::Device>> {
  using Tensor = Optional<torch::Tensor>;
};
using OptionalTensor = OptionalOf<OptionalDevice>::Tensor;

constexpr std::size_t kMostLayers = 1000;  // kept between calls

// Runs `act`; what the user got wrong becomes Python's ValueError.
template <class Act>
auto translated(const Act& act) {
  try {
    return act();
  } catch (const Error& error) {
    C10_THROW_ERROR(ValueError, error.what());
  }
}

json to_json(const OptionValue& value) {
  return std::visit([](const auto& v) { return json(v); }, value);
}

OptionValue from_json(const std::string& key, const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  throw Error("option '" + key + "' cannot be " + value.dump());
}

Backend backend_named(const std::string& name) {
  if (name == "fused") return Backend::fused;
  if (name == "reference") return Backend::reference;
  throw Error("backend cannot be '" + name + "'; choose fused or reference");
}

FunctionalLayer parse_layer(const std::string& settings) {
  const json given = json::parse(settings);
  LayerSettings common;
  common.input_size = given.at("input_size").get<std::int64_t>();
  common.num_layers = given.at("num_layers").get<std::int64_t>();
  common.dropout = given.at("dropout").get<double>();
  common.batch_first = given.at("batch_first").get<bool>();
  common.backend = backend_named(given.at("backend").get<std::string>());
  common.state_gradient_limit = given.at("state_gradient_limit").get<double>();
  OptionMap options;
  for (const auto& [key, value] : given.at("options").items()) options[key] = from_json(key, value);
  return FunctionalLayer(given.at("cell").get<std::string>(), common, options);
}

// The layer that a string describes, made once.
std::shared_ptr<const FunctionalLayer> layer_of(const std::string& settings) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const FunctionalLayer>> layers;
  const std::lock_guard lock(mutex);
  if (const auto found = layers.find(settings); found != layers.end()) return found->second;
  try {
    auto made = std::make_shared<const FunctionalLayer>(parse_layer(settings));
    if (layers.size() >= kMostLayers) layers.clear();
    return layers[settings] = made;
  } catch (const json::exception& error) {
    throw Error("settings of a layer: " + std::string(error.what()));
  }
}

// The table of cells: everything that the Python classes are made of.
std::string cell_table() {
  return translated([] {
    json rows = json::array();
    for (const CellInfo& cell : cells()) {
      json options = json::array();
      for (const OptionSpec& spec : cell.options) {
        const auto changed = cell.class_defaults.find(spec.key);
        const OptionValue& value =
            changed == cell.class_defaults.end() ? spec.default_value : changed->second;
        options.push_back({{"key", spec.key},
                           {"default", to_json(value)},
                           {"help", spec.help},
                           {"choices", spec.choices}});
      }
      LayerSettings smallest;
      smallest.input_size = 1;
      rows.push_back({{"name", cell.name},
                      {"summary", cell.summary},
                      {"options", options},
                      {"chrono", cell.chrono},
                      {"state", FunctionalLayer(cell.name, smallest, {}).state_names()}});
    }
    return json{{"version", version()}, {"cells", rows}}.dump();
  });
}

std::string parameter_shapes(const std::string& settings) {
  return translated([&] {
    json rows = json::array();
    for (const auto& [name, shape] : layer_of(settings)->parameter_shapes())
      rows.push_back({name, shape});
    return rows.dump();
  });
}

void initialise(at::TensorList parameters, const std::string& settings, std::int64_t seed) {
  translated([&] {
    layer_of(settings)->initialise(parameters.vec(), static_cast<std::uint64_t>(seed));
    return 0;
  });
}

// Output and final state parts, in one list.
std::vector<Tensor> joined(const std::tuple<Tensor, State>& result) {
  std::vector<Tensor> all{std::get<0>(result)};
  const auto& parts = std::get<1>(result).parts;
  all.insert(all.end(), parts.begin(), parts.end());
  return all;
}

std::vector<Tensor> forward(const Tensor& x, at::TensorList state, at::TensorList parameters,
                            const OptionalTensor& lengths, const std::string& settings,
                            bool training) {
  return translated([&] {
    return joined(layer_of(settings)->forward(parameters.vec(), x, State{state.vec()},
                                              lengths.value_or(Tensor()), training));
  });
}

std::vector<Tensor> step(const Tensor& x, at::TensorList state, at::TensorList parameters,
                         const std::string& settings, bool training) {
  return translated([&] {
    return joined(layer_of(settings)->step(parameters.vec(), x, State{state.vec()}, training));
  });
}

std::vector<Tensor> states(const Tensor& x, at::TensorList state, at::TensorList parameters,
                           const OptionalTensor& lengths, const std::string& settings) {
  return translated([&] {
    return layer_of(settings)->states(parameters.vec(), x, State{state.vec()},
                                      lengths.value_or(Tensor()));
  });
}

// Composite operators: autograd records what they are made of, the bridge's function for the fused
// kernels and torch's own operations for the reference.
TORCH_LIBRARY(nru, m) {
  m.def("cells() -> str", &cell_table);
  m.def("parameters(str settings) -> str", &parameter_shapes);
  m.def("initialise(Tensor(a!)[] parameters, str settings, int seed) -> ()", &initialise);
  m.def(
      "forward(Tensor x, Tensor[] state, Tensor[] parameters, Tensor? lengths, str settings, bool "
      "training) -> Tensor[]",
      &forward);
  m.def(
      "step(Tensor x, Tensor[] state, Tensor[] parameters, str settings, bool training) -> "
      "Tensor[]",
      &step);
  m.def(
      "states(Tensor x, Tensor[] state, Tensor[] parameters, Tensor? lengths, str settings) -> "
      "Tensor[]",
      &states);
}

}  // namespace
}  // namespace nru
