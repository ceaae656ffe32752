// The parts of torch that layers need; torch_all.h has the rest. Nothing else includes torch.
// ivalue.h comes first because clang 14 needs it complete before the others in C++20.
#pragma once

#include <ATen/core/ivalue.h>
// (keep the order)
#include <torch/autograd.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <type_traits>

namespace nru {

// c10::optional in older torch, std::optional in newer: whatever Module::clone() takes.
namespace detail {
template <class Result, class Class, class Argument>
Argument argument_of(Result (Class::*)(Argument) const);
}
using OptionalDevice =
    std::remove_cvref_t<decltype(detail::argument_of(&torch::nn::Module::clone))>;

}  // namespace nru
