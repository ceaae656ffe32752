#include "cells/bridge.h"

#include <fmt/format.h>

#include <algorithm>

#include "cells/cuda_bridge.h"
#include "cells/runner.h"

namespace nru {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A call's tensors as the plain pointers that the kernels take; keeps the tensors alive.
template <class T>
struct Pointers {
  variable_list tensors;  // contiguous
  std::vector<const T*> initial, parameters;
  kernels::SequenceInputs<T> inputs;

  Pointers(const FusedCall& call, const variable_list& from, std::size_t states) {
    for (const Tensor& t : from) tensors.push_back(t.detach().contiguous());
    for (std::size_t i = 1; i < tensors.size(); ++i) {
      (i <= states ? initial : parameters).push_back(tensors[i].data_ptr<T>());
    }
    inputs.steps = static_cast<int>(tensors[0].size(0));
    inputs.batch = static_cast<int>(tensors[0].size(1));
    inputs.dense = tensors[0].data_ptr<T>();
    inputs.initial = initial.data();
    inputs.parameters = parameters.data();
    inputs.lengths = call.lengths.defined() ? call.lengths.data_ptr<std::int64_t>() : nullptr;
  }
};

template <class T>
std::vector<T*> data_pointers(const variable_list& tensors) {
  std::vector<T*> pointers;
  for (const Tensor& t : tensors) pointers.push_back(t.defined() ? t.data_ptr<T>() : nullptr);
  return pointers;
}

std::vector<int> state_widths(const kernels::Program<float>& program) {
  std::vector<int> widths;
  for (const auto& part : program.parts) {
    if (part.kind == kernels::PartKind::state) widths.push_back(part.width);
  }
  return widths;
}

template <class T>
const std::shared_ptr<const kernels::Program<T>>& program_of(const FusedCall& call) {
  if constexpr (std::is_same_v<T, float>) {
    return call.float_program;
  } else {
    return call.double_program;
  }
}

template <class T>
class CpuRunner : public Runner<T> {
 public:
  explicit CpuRunner(std::shared_ptr<const kernels::Program<T>> program)
      // torch's number of threads, which OMP_NUM_THREADS and torch.set_num_threads() govern.
      : sequence_(std::move(program), at::get_num_threads()) {}
  void forward(const kernels::SequenceInputs<T>& inputs, const kernels::SequenceOutputs<T>& outputs,
               bool keep) override {
    sequence_.forward(inputs, outputs, keep);
  }
  void backward(const kernels::SequenceInputs<T>& inputs,
                const kernels::SequenceGradients<T>& gradients) override {
    sequence_.backward(inputs, gradients);
  }

 private:
  kernels::Sequence<T> sequence_;
};

template <class T>
std::unique_ptr<Runner<T>> make_runner(const FusedCall& call, const Tensor& x) {
  if constexpr (std::is_same_v<T, float>) {
    if (x.is_cuda()) return make_cuda_runner(call, x.device());
  }
  return std::make_unique<CpuRunner<T>>(program_of<T>(call));
}

// What one forward pass leaves for its backward pass.
struct Stash : torch::CustomClassHolder {
  FusedCall call;
  std::unique_ptr<Runner<float>> float_runner;
  std::unique_ptr<Runner<double>> double_runner;

  template <class T>
  std::unique_ptr<Runner<T>>& runner() {
    if constexpr (std::is_same_v<T, float>) {
      return float_runner;
    } else {
      return double_runner;
    }
  }
};

template <class T>
variable_list forward(Stash& stash, const variable_list& inputs, bool keep) {
  const auto& program = program_of<T>(stash.call);
  const std::vector<int> widths = state_widths(*stash.call.float_program);
  const Pointers<T> pointers(stash.call, inputs, widths.size());
  const std::int64_t steps = inputs[0].size(0), batch = inputs[0].size(1);
  variable_list results{
      torch::empty({steps, batch, program->parts[program->output].width}, inputs[0].options())};
  for (int width : widths) results.push_back(torch::empty({batch, width}, inputs[0].options()));
  const std::vector<T*> to = data_pointers<T>(results);
  kernels::SequenceOutputs<T> outputs;
  outputs.output = to[0];
  outputs.final_state = to.data() + 1;
  stash.runner<T>() = make_runner<T>(stash.call, inputs[0]);
  stash.runner<T>()->forward(pointers.inputs, outputs, keep);
  return results;
}

template <class T>
variable_list backward(Stash& stash, const variable_list& inputs, const variable_list& gradients,
                       const AutogradContext& context) {
  const std::size_t states = state_widths(*stash.call.float_program).size();
  const Pointers<T> pointers(stash.call, inputs, states);
  variable_list incoming;
  for (const Tensor& g : gradients) incoming.push_back(g.defined() ? g.contiguous() : Tensor());
  variable_list results(inputs.size());
  // Parameters and initial states come for little once the recurrence runs; the input's gradient
  // costs a product.
  for (std::size_t i = context.needs_input_grad(0) ? 0 : 1; i < inputs.size(); ++i) {
    results[i] = torch::empty(inputs[i].sizes(), inputs[i].options());
  }
  const std::vector<T*> from = data_pointers<T>(incoming), to = data_pointers<T>(results);
  const std::vector<const T*> final_state(from.begin() + 1, from.end());
  kernels::SequenceGradients<T> g;
  g.output = from[0];
  g.final_state = final_state.data();
  g.input = to[0];
  g.initial = to.data() + 1;
  g.parameters = to.data() + 1 + states;
  g.state_limit = stash.call.state_gradient_limit;
  stash.runner<T>()->backward(pointers.inputs, g);
  return results;
}

// The gradients as a differentiable function of inputs and incoming gradients.
variable_list differentiable_backward(const FusedCall& call, const variable_list& inputs,
                                      const variable_list& gradients) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const variable_list outputs = call.reference(inputs);
  variable_list wanted, reached, incoming;
  for (const Tensor& t : inputs) {
    if (t.requires_grad()) wanted.push_back(t);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
    reached.push_back(outputs[i]);
    incoming.push_back(gradients[i]);
  }
  const variable_list found = torch::autograd::grad(
      reached, wanted, incoming, /*retain_graph=*/true, /*create_graph=*/true, true);
  variable_list results(inputs.size());
  for (std::size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (inputs[i].requires_grad()) results[i] = found[next++];
  }
  return results;
}

struct FusedSequence : torch::autograd::Function<FusedSequence> {
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<Stash>& stash) {
    const variable_list list(inputs.begin(), inputs.end());
    context->save_for_backward(list);
    context->set_materialize_grads(false);
    context->saved_data["stash"] = at::IValue::make_capsule(stash);
    return list[0].scalar_type() == torch::kFloat ? nru::forward<float>(*stash, list, true)
                                                  : nru::forward<double>(*stash, list, true);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list inputs = context->get_saved_variables();
    const auto capsule = context->saved_data["stash"].toCapsule();
    Stash& stash = *static_cast<Stash*>(capsule.get());
    variable_list results;
    if (torch::GradMode::is_enabled()) {
      results = differentiable_backward(stash.call, inputs, gradients);
    } else if (inputs[0].scalar_type() == torch::kFloat) {
      results = nru::backward<float>(stash, inputs, gradients, *context);
    } else {
      results = nru::backward<double>(stash, inputs, gradients, *context);
    }
    results.emplace_back();  // the stash is no tensor
    // Outputs that the caller still holds would keep the activations, too. Another backward pass
    // ends in get_saved_variables(), with torch's usual error.
    if (!torch::autograd::get_current_graph_task_keep_graph()) context->saved_data.erase("stash");
    return results;
  }
};

}  // namespace

std::string no_kernels_for(const kernels::Program<float>& program, const Tensor& x) {
  const auto type = x.scalar_type();
  if (x.is_cuda()) {
    if (type == torch::kFloat) return no_cuda_kernels_for(program);
    return fmt::format("the CUDA kernels compute in float32, not {}", c10::toString(type));
  }
  if (!x.device().is_cpu()) return fmt::format("there are no kernels for {}", x.device().str());
  if (type == torch::kFloat || type == torch::kDouble) return "";
  return fmt::format("there are no kernels for {}", c10::toString(type));
}

bool are_plain(const variable_list& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) {
    return t.has_storage() && !t._fw_grad(/*level=*/0).defined();
  });
}

variable_list run_fused(const FusedCall& call, const variable_list& inputs) {
  bool gradient = false;
  for (const Tensor& t : inputs) gradient |= t.requires_grad();
  auto stash = c10::make_intrusive<Stash>();
  stash->call = call;
  if (gradient && torch::GradMode::is_enabled())
    return FusedSequence::apply(at::TensorList(inputs), stash);
  const torch::NoGradGuard no_grad;
  return inputs[0].scalar_type() == torch::kFloat ? forward<float>(*stash, inputs, false)
                                                  : forward<double>(*stash, inputs, false);
}

namespace {

template <class T>
std::vector<Tensor> all_states(const FusedCall& call, const variable_list& inputs) {
  const std::vector<int> widths = state_widths(*call.float_program);
  const Pointers<T> pointers(call, inputs, widths.size());
  std::vector<Tensor> results;
  for (int width : widths) {
    results.push_back(
        torch::empty({inputs[0].size(0), inputs[0].size(1), width}, inputs[0].options()));
  }
  const std::vector<T*> to = data_pointers<T>(results);
  kernels::SequenceOutputs<T> outputs;
  outputs.states = to.data();
  make_runner<T>(call, inputs[0])->forward(pointers.inputs, outputs, false);
  return results;
}

}  // namespace

std::vector<Tensor> run_fused_states(const FusedCall& call, const variable_list& inputs) {
  const torch::NoGradGuard no_grad;
  return inputs[0].scalar_type() == torch::kFloat ? all_states<float>(call, inputs)
                                                  : all_states<double>(call, inputs);
}

}  // namespace nru
