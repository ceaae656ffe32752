#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nru/error.h>
#include <nru/options.h>

#include <charconv>
#include <cstring>

#include "support/safetensors.h"

namespace nru::training {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const T* data, std::int64_t count) {
  return std::as_bytes(std::span<const T>(data, static_cast<std::size_t>(count)));
}

// In front of a parameter's name: its average.
constexpr char kAverage[] = "average.";

// Views of `values`, which lie as the parameters do.
std::vector<TensorView> parameter_views(const FlatParameters& parameters, const float* values,
                                        const std::string& prefix = "") {
  std::vector<TensorView> views;
  for (const auto& entry : parameters.entries()) {
    views.push_back({prefix + entry.name, DType::F32, entry.shape,
                     bytes_of(values + entry.offset, entry.size)});
  }
  return views;
}

TensorView view_of(const std::string& name, const std::vector<float>& values) {
  return {name,
          DType::F32,
          {static_cast<std::int64_t>(values.size())},
          bytes_of(values.data(), static_cast<std::int64_t>(values.size()))};
}

TensorView view_of(const char* name, const std::vector<double>& values) {
  return {name,
          DType::F64,
          {static_cast<std::int64_t>(values.size())},
          bytes_of(values.data(), static_cast<std::int64_t>(values.size()))};
}

template <class T>
std::string text_of(T value) {
  return fmt::format("{}", value);  // shortest text that reads back equal
}

// A number of the metadata, or an error that names file and key.
template <class T>
T number(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  T value{};
  if (found != file.metadata().end()) {
    const char* end = found->second.data() + found->second.size();
    const auto read = std::from_chars(found->second.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end) return value;
  }
  throw Error(fmt::format("{}: no checkpoint of a run: metadata '{}' is missing or not a number",
                          file.name(), key));
}

template <class T>
std::optional<T> optional_number(const SafetensorsFile& file, const std::string& key) {
  if (!file.metadata().contains(key)) return std::nullopt;
  return number<T>(file, key);
}

std::vector<double> doubles(const SafetensorsFile& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (!view || view->dtype != DType::F64) {
    throw Error(
        fmt::format("{}: no checkpoint of a run: tensor '{}' is missing", file.name(), name));
  }
  std::vector<double> values(view->bytes.size() / sizeof(double));
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}

// A snapshot's tensors by the names they have in the file; an empty one is not kept.
std::map<std::string, std::vector<float>*> tensors_of(Optimizer::Snapshot& snapshot,
                                                      const std::string& name) {
  return {{name + ".values", &snapshot.values},
          {name + ".adam.m", &snapshot.m},
          {name + ".adam.v", &snapshot.v},
          {name + ".adam.v_max", &snapshot.v_max},
          {name + ".average", &snapshot.average}};
}

std::string carried_name(std::size_t part) { return fmt::format("training.state.{}", part); }

// As many state parts as the file holds.
CarriedState carried_in(const SafetensorsFile& file) {
  CarriedState carried;
  while (const TensorView* view = file.find(carried_name(carried.size()))) {
    if (view->dtype != DType::F32) {
      throw Error(fmt::format("{}: tensor '{}' must be F32", file.name(), view->name));
    }
    std::vector<float>& part = carried.emplace_back(view->bytes.size() / sizeof(float));
    std::memcpy(part.data(), view->bytes.data(), view->bytes.size());
  }
  return carried;
}

// Checks all parameters, then copies them.
std::vector<const TensorView*> require_parameters(const SafetensorsFile& file,
                                                  const FlatParameters& parameters,
                                                  const std::string& prefix = "") {
  std::vector<const TensorView*> views;
  for (const auto& entry : parameters.entries()) {
    views.push_back(&file.require(prefix + entry.name, DType::F32, entry.shape));
  }
  return views;
}

void copy_parameters(const std::vector<const TensorView*>& views, const FlatParameters& parameters,
                     float* to) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    std::memcpy(to + parameters.entries()[i].offset, views[i]->bytes.data(),
                views[i]->bytes.size());
  }
}

void copy_moments(const TensorView& view, std::vector<float>& to) {
  if (!to.empty()) std::memcpy(to.data(), view.bytes.data(), view.bytes.size());
}

// The sizes of what is kept are those of the optimizer.
Optimizer::Snapshot load_snapshot(const SafetensorsFile& file, const Optimizer& optimizer,
                                  const std::string& name) {
  Optimizer::Snapshot snapshot = optimizer.snapshot();
  for (const auto& [tensor, values] : tensors_of(snapshot, name)) {
    if (values->empty()) continue;
    const auto size = static_cast<std::int64_t>(values->size());
    copy_moments(file.require(tensor, DType::F32, {size}), *values);
  }
  snapshot.steps = number<std::int64_t>(file, name + "_steps");
  return snapshot;
}

// `views` then point into the snapshot.
void add_snapshot(Optimizer::Snapshot& snapshot, const std::string& name,
                  std::vector<TensorView>& views, std::map<std::string, std::string>& metadata) {
  for (const auto& [tensor, values] : tensors_of(snapshot, name))
    if (!values->empty()) views.push_back(view_of(tensor, *values));
  metadata[name + "_steps"] = text_of(snapshot.steps);
}

bool has_average(const SafetensorsFile& file, const FlatParameters& parameters) {
  return file.find(kAverage + parameters.entries().front().name) != nullptr;
}

}  // namespace

void save_weights(const std::filesystem::path& path, const FlatParameters& parameters,
                  const std::map<std::string, std::string>& metadata) {
  save_safetensors(path, parameter_views(parameters, parameters.values()), metadata);
}

void load_weights(const SafetensorsFile& file, FlatParameters& parameters) {
  const std::string prefix = has_average(file, parameters) ? kAverage : "";
  copy_parameters(require_parameters(file, parameters, prefix), parameters, parameters.values());
}

void load_weights(const std::filesystem::path& path, FlatParameters& parameters) {
  load_weights(SafetensorsFile::load(path), parameters);
}

void require_same_data(const SafetensorsFile& file,
                       const std::map<std::string, std::string>& data) {
  for (const auto& [what, value] : data) {
    const auto found = file.metadata().find(what);
    if (found == file.metadata().end() || found->second == value) continue;
    throw Error(fmt::format(
        "{}: made with another {} than the task's data have now; put the data back as they were, "
        "or train a new run with another --out",
        file.name(), what));
  }
}

void save_checkpoint(const std::filesystem::path& path, const FlatParameters& parameters,
                     Optimizer& optimizer, const TrainingState& state) {
  const std::vector<double> window = state.window.state(), tracker = state.tracker.state();
  std::vector<TensorView> views = parameter_views(parameters, parameters.values());
  views.push_back(view_of("adam.m", optimizer.m()));
  views.push_back(view_of("adam.v", optimizer.v()));
  if (!optimizer.v_max().empty()) views.push_back(view_of("adam.v_max", optimizer.v_max()));
  if (!optimizer.average().empty()) {
    const auto average = parameter_views(parameters, optimizer.average().data(), kAverage);
    views.insert(views.end(), average.begin(), average.end());
  }
  views.push_back(view_of("training.log_window", window));
  views.push_back(view_of("training.solved", tracker));
  for (std::size_t part = 0; part < state.carried.size(); ++part) {
    views.push_back(view_of(carried_name(part), state.carried[part]));
  }
  std::map<std::string, std::string> metadata{
      {"update", text_of(state.update)},
      {"adam_steps", text_of(optimizer.steps())},
      {"skipped_in_a_row", text_of(state.skipped_in_a_row)},
      {"seconds", text_of(state.seconds)},
      {"trained_on", state.trained_on},
  };
  metadata.insert(state.data.begin(), state.data.end());
  if (state.best.update) {
    metadata["best_update"] = text_of(*state.best.update);
    const Metrics& valid = *state.best.valid;
    if (valid.loss) metadata["best_loss"] = text_of(*valid.loss);
    if (valid.accuracy) metadata["best_accuracy"] = text_of(*valid.accuracy);
    if (valid.bpc) metadata["best_bpc"] = text_of(*valid.bpc);
  }
  std::vector<double> recovery;
  Optimizer::Snapshot good, window_start;
  if (state.recovery) {
    recovery = state.recovery->state();
    views.push_back(view_of("training.recovery", recovery));
    add_snapshot(good = state.good, "good", views, metadata);
    add_snapshot(window_start = state.window_start, "window_start", views, metadata);
  }
  save_safetensors(path, views, metadata);
}

void load_checkpoint(const std::filesystem::path& path, FlatParameters& parameters,
                     Optimizer& optimizer, TrainingState& state) {
  const SafetensorsFile file = SafetensorsFile::load(path);
  // Everything that can fail comes before the first change.
  require_same_data(file, state.data);
  const auto views = require_parameters(file, parameters);
  const TensorView& m = file.require("adam.m", DType::F32, {parameters.size()});
  const TensorView& v = file.require("adam.v", DType::F32, {parameters.size()});
  const TensorView* v_max = nullptr;
  if (!optimizer.v_max().empty())
    v_max = &file.require("adam.v_max", DType::F32, {parameters.size()});
  std::vector<const TensorView*> average;
  if (!optimizer.average().empty()) average = require_parameters(file, parameters, kAverage);
  TrainingState loaded;
  loaded.data = state.data;
  loaded.update = number<std::int64_t>(file, "update");
  loaded.skipped_in_a_row = number<std::int64_t>(file, "skipped_in_a_row");
  loaded.seconds = number<double>(file, "seconds");
  if (const auto found = file.metadata().find("trained_on"); found != file.metadata().end())
    loaded.trained_on = found->second;
  const auto steps = number<std::int64_t>(file, "adam_steps");
  loaded.window.restore(doubles(file, "training.log_window"));
  loaded.tracker.restore(doubles(file, "training.solved"));
  loaded.best.update = optional_number<std::int64_t>(file, "best_update");
  if (loaded.best.update) {
    loaded.best.valid = Metrics{optional_number<double>(file, "best_loss"),
                                optional_number<double>(file, "best_accuracy"),
                                optional_number<double>(file, "best_bpc")};
  }
  loaded.carried = carried_in(file);
  if (state.recovery) {
    loaded.recovery = state.recovery;
    loaded.recovery->restore(doubles(file, "training.recovery"));
    loaded.good = load_snapshot(file, optimizer, "good");
    loaded.window_start = load_snapshot(file, optimizer, "window_start");
  }
  copy_parameters(views, parameters, parameters.values());
  copy_parameters(average, parameters, optimizer.average().data());
  copy_moments(m, optimizer.m());
  copy_moments(v, optimizer.v());
  if (v_max) copy_moments(*v_max, optimizer.v_max());
  optimizer.set_steps(steps);
  state = loaded;
}

}  // namespace nru::training
