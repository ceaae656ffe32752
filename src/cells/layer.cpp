// Stacking, dropout, lengths, layouts, states: everything about a recurrent layer that is not its
// equations.
#include <nru/error.h>
#include <nru/layer.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cells/autocast.h"
#include "cells/bridge.h"
#include "cells/checks.h"
#include "cells/construction.h"
#include "cells/initializer.h"
#include "kernels/program.h"

namespace nru {

using torch::Tensor;

namespace {

// The same values; in a backward pass rows [B,.] of their gradients, over all parts together, are
// scaled down to norm `limit` where they are longer; 0: never.
std::vector<Tensor> limit_gradient(const std::vector<Tensor>& parts, double limit) {
  if (limit == 0) return parts;
  std::vector<std::int64_t> widths;
  for (const Tensor& part : parts) widths.push_back(part.size(1));
  const Tensor joined = torch::cat(parts, 1);
  if (!joined.requires_grad()) return parts;
  joined.register_hook([limit](const Tensor& gradient) {
    const Tensor norm = gradient.to(torch::kDouble).norm(2, 1, /*keepdim=*/true);
    return gradient * torch::where(norm > limit, limit / norm, torch::ones_like(norm)).to(gradient);
  });
  return joined.split_with_sizes(widths, 1);
}

// x [T,B,I] with zeros behind the rows' lengths, where there may be anything: even with a gradient
// of zero a NaN there would reach the weights.
Tensor without_padding(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return x;
  const Tensor step = torch::arange(x.size(0), lengths.options()).unsqueeze(1);
  return torch::where((step < lengths).unsqueeze(2), x, torch::zeros({}, x.options()));
}

// The state that a stacked layer begins with, [B, width] each.
std::vector<Tensor> state_of_layer(const State& state, std::int64_t layer) {
  std::vector<Tensor> parts;
  for (const Tensor& part : state.parts) parts.push_back(part[layer]);
  return parts;
}

// Whether one step of a stacked layer is faster through the kernels, though they pack the weights
// first. It is on the CPU where torch would take many small operations, in the cells whose
// functions need scratch memory (the NRU's heads, rotations), up to about this many weights: there
// up to 4 times as fast, while all others lose. For gradients the kernels keep more than a step
// needs.
constexpr std::int64_t kWeightsWorthPacking = 120'000;
bool step_takes_kernels(const kernels::Program<float>& program, std::vector<Tensor> tensors,
                        const std::vector<Tensor>& parameters) {
  if (program.scratch == 0 || !tensors[0].is_cpu()) return false;
  std::int64_t weights = 0;
  for (const Tensor& p : parameters) weights += p.numel();
  if (weights > kWeightsWorthPacking) return false;
  tensors.insert(tensors.end(), parameters.begin(), parameters.end());
  return !torch::GradMode::is_enabled() ||
         std::none_of(tensors.begin(), tensors.end(), [](auto& t) { return t.requires_grad(); });
}

std::string shape_of(const Tensor& t) { return fmt::format("[{}]", fmt::join(t.sizes(), ", ")); }

}  // namespace

State State::detach() const {
  State copy;
  for (const Tensor& part : parts) copy.parts.push_back(part.detach());
  return copy;
}

const Tensor& Weights::operator()(std::string_view name) const {
  for (std::size_t i = 0; i < names_->size(); ++i) {
    if ((*names_)[i] == name) return tensors_[i];
  }
  throw std::logic_error(
      fmt::format("a cell asked for parameter '{}', which its program does not list", name));
}

LayerImpl::LayerImpl(LayerSettings settings) : settings_(settings) { check_settings(settings); }

void LayerImpl::check_settings(const LayerSettings& settings) {
  check_size("input_size", settings.input_size);
  check_size("hidden_size", settings.hidden_size);
  check_size("num_layers", settings.num_layers);
  if (!(settings.dropout >= 0 && settings.dropout < 1)) {
    throw Error(fmt::format("dropout must be in [0, 1), got {}", settings.dropout));
  }
  const double limit = settings.state_gradient_limit;
  if (!(limit >= 0 && std::isfinite(limit))) {
    throw Error(fmt::format(
        "state_gradient_limit must be a number above 0, or 0 for no limit, got {}", limit));
  }
}

void LayerImpl::set_state_gradient_limit(double limit) {
  LayerSettings settings = settings_;
  settings.state_gradient_limit = limit;
  check_settings(settings);
  settings_ = settings;
}

// The programs of the stacked layers, and what they say about state and parameters.
void LayerImpl::stack() {
  kernels_.clear();
  state_names_.clear();
  state_widths_.clear();
  state_initial_.clear();
  parameter_names_.clear();
  for (std::int64_t layer = 0; layer < settings_.num_layers; ++layer) {
    kernels_.push_back(
        {std::make_shared<const kernels::Program<float>>(float_program(layer_input(layer))),
         std::make_shared<const kernels::Program<double>>(double_program(layer_input(layer)))});
  }
  const kernels::Program<float>& first = *kernels_.front().float_program;
  for (const auto& part : first.parts) {
    if (part.kind != kernels::PartKind::state) continue;
    state_names_.push_back(part.name);
    state_widths_.push_back(part.width);
    state_initial_.push_back(part.initial);
  }
  for (const auto& parameter : first.parameters) parameter_names_.push_back(parameter.name);
}

void LayerImpl::build() {
  stack();
  if (ConstructionScope::current() == Construction::bare) return;
  for (std::int64_t layer = 0; layer < settings_.num_layers; ++layer) {
    for (const auto& p : kernels_[layer].float_program->parameters)
      register_parameter(fmt::format("{}_l{}", p.name, layer), torch::empty(p.shape()));
  }
  if (ConstructionScope::current() == Construction::whole) reset_parameters();
}

void LayerImpl::reset_parameters() {
  reset_parameters(static_cast<std::uint64_t>(
      torch::randint(std::numeric_limits<std::int64_t>::max(), {1}, torch::kInt64)
          .item<std::int64_t>()));
}

void LayerImpl::reset_parameters(std::uint64_t seed) { initialise_with(own_parameters(), seed); }

void LayerImpl::initialise_with(const Parameters& parameters, std::uint64_t seed) const {
  Initializer init(seed);
  for (const auto& tensors : parameters) initialise(init, Weights(parameter_names_, tensors));
}

Weights LayerImpl::weights(std::int64_t layer) const {
  std::vector<Tensor> tensors;
  const auto all = named_parameters(/*recurse=*/false);
  for (const auto& name : parameter_names_)
    tensors.push_back(all[fmt::format("{}_l{}", name, layer)]);
  return Weights(parameter_names_, std::move(tensors));
}

LayerImpl::Parameters LayerImpl::own_parameters() const {
  Parameters parameters;
  for (std::int64_t layer = 0; layer < settings_.num_layers; ++layer)
    parameters.push_back(weights(layer).tensors());
  return parameters;
}

template <>
std::shared_ptr<const kernels::Program<float>> LayerImpl::program(std::int64_t layer) const {
  return kernels_.at(layer).float_program;
}
template <>
std::shared_ptr<const kernels::Program<double>> LayerImpl::program(std::int64_t layer) const {
  return kernels_.at(layer).double_program;
}

State LayerImpl::initial_state(std::int64_t batch) const {
  return initial_state(batch, parameters().front());
}

State LayerImpl::initial_state(std::int64_t batch, const Tensor& like) const {
  const auto options = like.options().requires_grad(false);
  State state;
  for (std::size_t p = 0; p < state_widths_.size(); ++p) {
    state.parts.push_back(
        torch::full({settings_.num_layers, batch, state_widths_[p]}, state_initial_[p], options));
  }
  return state;
}

void LayerImpl::check_input(const Tensor& x, std::int64_t dimensions,
                            const Tensor& parameter) const {
  const char* expected = dimensions == 2         ? "[B, I]"
                         : settings_.batch_first ? "[B, T, I]"
                                                 : "[T, B, I]";
  if (!x.defined() || x.dim() != dimensions || x.size(-1) != settings_.input_size) {
    throw Error(fmt::format("the input must be {} with I = {}, got {}", expected,
                            settings_.input_size,
                            x.defined() ? shape_of(x) : "an undefined tensor"));
  }
  // A batch of no rows has a result, as with torch's layers; a sequence of no steps has not.
  if (dimensions == 3 && x.size(settings_.batch_first ? 1 : 0) == 0)
    throw Error(fmt::format("the input is empty: {}; give at least one step", shape_of(x)));
  if (x.scalar_type() != parameter.scalar_type() || x.device() != parameter.device()) {
    throw Error(fmt::format(
        "the input is {} on {}, the layer's parameters are {} on {}; convert one with .to(...)",
        c10::toString(x.scalar_type()), x.device().str(), c10::toString(parameter.scalar_type()),
        parameter.device().str()));
  }
}

State LayerImpl::checked_state(const State& state, std::int64_t batch, const Tensor& like) const {
  if (state.empty()) return initial_state(batch, like);
  if (state.parts.size() != state_widths_.size()) {
    throw Error(fmt::format("the state must have {} parts ({}), got {}", state_widths_.size(),
                            fmt::join(state_names_, ", "), state.parts.size()));
  }
  for (std::size_t p = 0; p < state.parts.size(); ++p) {
    const std::vector<std::int64_t> expected{settings_.num_layers, batch, state_widths_[p]};
    const Tensor& part = state.parts[p];
    if (!part.defined() || part.sizes() != torch::IntArrayRef(expected)) {
      throw Error(fmt::format("state part {} must be [{}], got {}", state_names_[p],
                              fmt::join(expected, ", "),
                              part.defined() ? shape_of(part) : "an undefined tensor"));
    }
    if (part.scalar_type() != like.scalar_type() || part.device() != like.device()) {
      throw Error(fmt::format("state part {} is {} on {}, the input is {} on {}", state_names_[p],
                              c10::toString(part.scalar_type()), part.device().str(),
                              c10::toString(like.scalar_type()), like.device().str()));
    }
  }
  return state;
}

Tensor LayerImpl::checked_lengths(const Tensor& lengths, std::int64_t steps,
                                  std::int64_t batch) const {
  if (!lengths.defined()) return {};
  if (lengths.dim() != 1 || lengths.size(0) != batch ||
      !at::isIntegralType(lengths.scalar_type(), false)) {
    throw Error(
        fmt::format("lengths must be {} integers, one per row of the batch; got {} of type {}",
                    batch, shape_of(lengths), c10::toString(lengths.scalar_type())));
  }
  const Tensor checked =
      lengths.to(torch::kCPU, torch::kInt64, /*non_blocking=*/false, /*copy=*/true).contiguous();
  if (batch == 0) return checked;
  const std::int64_t low = checked.min().item<std::int64_t>(),
                     high = checked.max().item<std::int64_t>();
  if (low < 1 || high > steps) {
    throw Error(fmt::format("lengths must be in 1..{} (the number of steps), got {}", steps,
                            low < 1 ? low : high));
  }
  return checked;
}

bool LayerImpl::uses_kernels(const Tensor& x, std::string* reason) const {
  std::string why;
  if (settings_.backend == Backend::reference) {
    why = "the reference backend was chosen";
  } else if (x.numel() == 0) {
    why = "the input is empty";
  } else {
    why = no_kernels_for(*kernels_.front().float_program, x);
  }
  if (reason) *reason = why;
  return why.empty();
}

// The one time loop of the reference: works for every cell, type, device and order of derivative.
LayerImpl::LayerRun LayerImpl::run_reference(const std::vector<Tensor>& parameters, const Tensor& x,
                                             const std::vector<Tensor>& initial,
                                             const Tensor& lengths,
                                             std::vector<std::vector<Tensor>>* all_states) const {
  const Weights weights(parameter_names_, parameters);
  const double limit = settings_.state_gradient_limit;
  const Tensor input = without_padding(x, lengths);
  std::vector<Tensor> state = initial, outputs;
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    StepValues values = reference_step(input[t], limit_gradient(state, limit), weights);
    if (lengths.defined()) {
      const Tensor active = (lengths > t).unsqueeze(1);  // [B,1]
      values.output = torch::where(active, values.output, torch::zeros_like(values.output));
      for (std::size_t p = 0; p < state.size(); ++p)
        values.state[p] = torch::where(active, values.state[p], state[p]);
    }
    outputs.push_back(values.output);
    state = std::move(values.state);
    if (all_states) all_states->push_back(state);
  }
  return {torch::stack(outputs), state};
}

LayerImpl::LayerRun LayerImpl::run_layer(std::int64_t layer, const std::vector<Tensor>& parameters,
                                         const Tensor& x, const std::vector<Tensor>& initial,
                                         const Tensor& lengths) const {
  const std::size_t states = initial.size();
  torch::autograd::variable_list inputs{x};
  inputs.insert(inputs.end(), initial.begin(), initial.end());
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  if (!uses_kernels(x) || !are_plain(inputs)) return run_reference(parameters, x, initial, lengths);
  // The call outlives this function inside the autograd graph, hence the strong reference to the
  // module.
  const auto self = std::dynamic_pointer_cast<const LayerImpl>(shared_from_this());
  FusedCall call{kernels_[layer].float_program, kernels_[layer].double_program, lengths, nullptr,
                 settings_.state_gradient_limit};
  call.reference = [self, lengths, states](const torch::autograd::variable_list& in) {
    const LayerRun run = self->run_reference({in.begin() + 1 + states, in.end()}, in[0],
                                             {in.begin() + 1, in.begin() + 1 + states}, lengths);
    torch::autograd::variable_list out{run.output};
    out.insert(out.end(), run.final_state.begin(), run.final_state.end());
    return out;
  };
  const torch::autograd::variable_list out = run_fused(call, inputs);
  return {out[0], {out.begin() + 1, out.end()}};
}

std::tuple<Tensor, State> LayerImpl::forward(const Tensor& x, const State& state,
                                             const Tensor& lengths) {
  return forward_with(own_parameters(), x, state, lengths, is_training());
}

template <class Run>
std::tuple<Tensor, State> LayerImpl::run_stack(Tensor values, const State& initial, bool training,
                                               const Run& run) const {
  std::vector<std::vector<Tensor>> final_parts(state_widths_.size());
  for (std::int64_t layer = 0; layer < settings_.num_layers; ++layer) {
    if (layer > 0 && settings_.dropout > 0)
      values = torch::dropout(values, settings_.dropout, training);
    const LayerRun made = run(layer, values, state_of_layer(initial, layer));
    values = made.output;
    for (std::size_t p = 0; p < final_parts.size(); ++p)
      final_parts[p].push_back(made.final_state[p]);
  }
  State last;
  for (const auto& parts : final_parts) last.parts.push_back(torch::stack(parts));
  return {values, last};
}

std::tuple<Tensor, State> LayerImpl::forward_with(const Parameters& parameters, const Tensor& given,
                                                  const State& state, const Tensor& lengths,
                                                  bool training) const {
  const OutsideAutocast outside(parameters[0][0]);
  const Tensor x = outside(given);
  check_input(x, 3, parameters[0][0]);
  const Tensor by_step = settings_.batch_first ? x.transpose(0, 1) : x;
  const std::int64_t steps = by_step.size(0), batch = by_step.size(1);
  const State initial = checked_state(outside(state), batch, x);
  Tensor checked = checked_lengths(lengths, steps, batch);
  if (checked.defined()) checked = checked.to(x.device());
  auto [output, last] =
      run_stack(by_step, initial, training,
                [&](std::int64_t layer, const Tensor& values, const std::vector<Tensor>& start) {
                  return run_layer(layer, parameters[layer], values, start, checked);
                });
  return {settings_.batch_first ? output.transpose(0, 1) : output, last};
}

std::tuple<Tensor, State> LayerImpl::step(const Tensor& x, const State& state) {
  return step_with(own_parameters(), x, state, is_training());
}

std::tuple<Tensor, State> LayerImpl::step_with(const Parameters& parameters, const Tensor& given,
                                               const State& state, bool training) const {
  const OutsideAutocast outside(parameters[0][0]);
  const Tensor x = outside(given);
  check_input(x, 2, parameters[0][0]);
  const auto run = [&](std::int64_t layer, const Tensor& values,
                       const std::vector<Tensor>& start) -> LayerRun {
    std::vector<Tensor> inputs{values};
    inputs.insert(inputs.end(), start.begin(), start.end());
    if (step_takes_kernels(*kernels_[layer].float_program, inputs, parameters[layer])) {
      LayerRun made = run_layer(layer, parameters[layer], values.unsqueeze(0), start, {});
      return {made.output.squeeze(0), std::move(made.final_state)};
    }
    const Weights weights(parameter_names_, parameters[layer]);
    StepValues made =
        reference_step(values, limit_gradient(start, settings_.state_gradient_limit), weights);
    return {made.output, std::move(made.state)};
  };
  return run_stack(x, checked_state(outside(state), x.size(0), x), training, run);
}

std::vector<Tensor> LayerImpl::states(const Tensor& x, const State& state, const Tensor& lengths) {
  return states_with(own_parameters(), x, state, lengths);
}

std::vector<Tensor> LayerImpl::states_with(const Parameters& parameters, const Tensor& given,
                                           const State& state, const Tensor& lengths) const {
  const torch::NoGradGuard no_grad;
  const OutsideAutocast outside(parameters[0][0]);
  const Tensor x = outside(given);
  check_input(x, 3, parameters[0][0]);
  Tensor values = settings_.batch_first ? x.transpose(0, 1) : x;
  const State initial = checked_state(outside(state), values.size(1), x);
  Tensor checked = checked_lengths(lengths, values.size(0), values.size(1));
  if (checked.defined()) checked = checked.to(x.device());
  const std::int64_t top = settings_.num_layers - 1;
  for (std::int64_t layer = 0; layer < top; ++layer) {
    const std::vector<Tensor> start = state_of_layer(initial, layer);
    values = run_layer(layer, parameters[layer], values, start, checked).output;
  }
  std::vector<Tensor> results =
      layer_states(top, parameters[top], values, state_of_layer(initial, top), checked);
  for (Tensor& t : results) t = settings_.batch_first ? t.transpose(0, 1) : t;
  return results;
}

std::vector<Tensor> LayerImpl::layer_states(std::int64_t layer,
                                            const std::vector<Tensor>& parameters, const Tensor& x,
                                            const std::vector<Tensor>& initial,
                                            const Tensor& lengths) const {
  torch::autograd::variable_list inputs{x};
  inputs.insert(inputs.end(), initial.begin(), initial.end());
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  if (uses_kernels(x) && are_plain(inputs)) {
    return run_fused_states(
        {kernels_[layer].float_program, kernels_[layer].double_program, lengths, nullptr}, inputs);
  }
  std::vector<std::vector<Tensor>> by_step;
  run_reference(parameters, x, initial, lengths, &by_step);
  std::vector<Tensor> results;
  for (std::size_t p = 0; p < initial.size(); ++p) {
    std::vector<Tensor> steps;
    for (const auto& parts : by_step) steps.push_back(parts[p]);
    results.push_back(torch::stack(steps));
  }
  return results;
}

std::shared_ptr<torch::nn::Module> LayerImpl::copy_into(std::shared_ptr<LayerImpl> copy,
                                                        const OptionalDevice& device) const {
  const torch::NoGradGuard no_grad;
  copy->settings_ = settings_;  // the options do not know what setters have changed since
  const Tensor like = parameters().front();
  copy->to(device ? *device : like.device(), like.scalar_type());
  auto targets = copy->named_parameters();
  for (const auto& source : named_parameters()) targets[source.key()].copy_(source.value());
  copy->train(is_training());
  return copy;
}

}  // namespace nru
