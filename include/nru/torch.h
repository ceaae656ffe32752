// The one place that includes torch. ivalue.h comes first because clang 14 needs it complete before
// the others in C++20.
#pragma once

#include <ATen/core/ivalue.h>
// (keep the order)
#include <torch/torch.h>
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
