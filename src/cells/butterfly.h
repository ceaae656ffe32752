// What the reference of EURNN and GORU share: the butterfly and the modReLU in torch operations,
// the checks of their options, and the output layer that their authors' code draws.
#pragma once

#include <nru/cells/eurnn.h>
#include <nru/options.h>
#include <nru/torch.h>

#include <cstdint>

#include "cells/initializer.h"
#include "kernels/modrelu.h"

namespace nru {

// Q of include/nru/cells/eurnn.h. Layer l is y_j = cos(t_j) x_j + sin(t_j) x_{partner of j} with t
// = -theta at a and theta at b of a pair, and 0 where there is no partner.
class TorchButterfly {
 public:
  explicit TorchButterfly(std::int64_t n);

  // x [.., n] -> Q x
  torch::Tensor apply(const torch::Tensor& x, const torch::Tensor& theta) const;
  // x [.., 2, n], Re and Im -> Q x
  torch::Tensor apply(const torch::Tensor& x, const torch::Tensor& theta, const torch::Tensor& phi,
                      const torch::Tensor& omega) const;

 private:
  // All [L, n]: where a coordinate's angle is, its sign (0: no partner), its partner (itself then).
  torch::Tensor angle_, sign_, partner_;
};

// modReLU of z [B, n], or [B, 2, n], Re and Im; b [n].
torch::Tensor mod_relu(const torch::Tensor& z, const torch::Tensor& b, ModReLU form,
                       double epsilon);

kernels::ModRelu kernel_form(ModReLU form);

// Throws nru::Error for a size or an epsilon that cannot be.
void check_butterfly(std::int64_t hidden_size, bool strict_fft, ModReLU form, double epsilon);

// The options of both, as rows of the table of cells declare them, and their values.
std::vector<OptionSpec> butterfly_options(double epsilon);

template <class Options>
void read_butterfly_options(const OptionMap& map, Options& o) {
  o.modrelu(get<std::string>(map, "modrelu") == "sign" ? ModReLU::sign : ModReLU::smooth);
  o.epsilon(get<double>(map, "epsilon"));
  o.strict_fft(get<bool>(map, "strict_fft"));
}

// The output layer of EURNN and GORU networks (option output_init): V ~ U(+-sqrt(6/(I+O))) and c =
// 0.01 as in their authors' code, which makes up for the tiny states of the start; or as for all
// other cells.
void initialise_butterfly_output(Initializer& init, const torch::Tensor& weight,
                                 const torch::Tensor& bias, std::int64_t input_size,
                                 const OptionMap& options);

}  // namespace nru
