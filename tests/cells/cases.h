// The one table of layers that the tests of cells run through: golden values apart, every check in
// this folder that is not about one cell's own equations takes its layers from here. A new cell
// adds rows to all_cases() and is checked by all of them.
#pragma once

#include <gtest/gtest.h>
#include <nru/cells/eurnn.h>
#include <nru/cells/goru.h>
#include <nru/cells/gru.h>
#include <nru/cells/janet.h>
#include <nru/cells/lstm.h>
#include <nru/cells/nru.h>
#include <nru/cells/rnn.h>
#include <nru/cells/sru.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace nru {

// What a test may ask of any layer, whatever the cell.
struct Variant {
  Variant(Backend b) : backend(b) {}  // NOLINT: make(Backend::fused) is the common call

  Backend backend;
  std::int64_t num_layers = 1;
  bool batch_first = false;
  double dropout = 0;
};

struct Case {
  std::string name;  // letters, digits and underscores: part of the test's name
  std::function<std::shared_ptr<LayerImpl>(const Variant&)> make;
  // How much a fused float32 value may err, in errors of plain float32 torch operations.
  double float_bound = 2;
};

inline void PrintTo(const Case& c, std::ostream* to) { *to << c.name; }
inline std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

template <class Impl, class Options>
Case make_case(std::string name, const Options& options) {
  return {std::move(name), [options](const Variant& v) -> std::shared_ptr<LayerImpl> {
            Options o = options;
            o.backend(v.backend).num_layers(v.num_layers).dropout(v.dropout);
            o.batch_first(v.batch_first);
            return std::make_shared<Impl>(o);
          }};
}

// For layers whose products sum some hundred terms: the kernels add them one after the other, as a
// BLAS does for matrices of a size that matters; for matrices as small as a test's, OpenBLAS on
// AVX-512 has kernels that keep 16 partial sums and so round less.
inline Case wide(Case c) {
  c.float_bound = 3;
  return c;
}

// Sizes are odd on purpose, or just beside a vector's width. R is the number of rows of p q^T that
// each head owns: a whole number means the factored write, otherwise the general one.
inline std::vector<Case> nru_cases() {
  const auto o = [](std::int64_t input, std::int64_t hidden, std::int64_t heads,
                    std::int64_t memory) {
    return NRUOptions(input, hidden).heads(heads).memory_size(memory);
  };
  const auto row = [](const char* name, const NRUOptions& options) {
    return make_case<NRUImpl>(std::string("nru_") + name, options);
  };
  using N = NRUOptions;
  constexpr auto relu = N::HeadActivation::relu;
  constexpr auto sum = N::Combine::sum;
  constexpr auto per_head = N::Direction::per_head, full = N::Direction::full;
  constexpr auto authors = N::Overflow::authors;
  constexpr auto multiply = N::MemoryUpdate::multiply;
  return {
      row("smallest", o(1, 1, 1, 1)),
      row("k1_R3", o(3, 5, 1, 9)),
      row("k4_R1", o(3, 5, 4, 4)),
      row("k2_R2", o(3, 7, 2, 8)),
      row("k2_R4", o(1, 9, 2, 32)),
      wide(row("k4_R4", o(3, 17, 4, 64))),
      wide(row("k1_R8", o(3, 5, 1, 64))),
      wide(row("k2_R8", o(2, 5, 2, 128))),
      wide(row("k3_R5", o(3, 5, 3, 75))),
      row("k9_straddles", o(3, 5, 9, 4)),
      row("k2_R2_sum", o(3, 5, 2, 8).combine(sum)),
      row("k9_straddles_sum", o(3, 5, 9, 4).combine(sum)),
      row("k4_R1_relu", o(3, 5, 4, 4).head_activation(relu)),
      row("k2_R4_relu_sum", o(3, 7, 2, 32).head_activation(relu).combine(sum)),
      row("k8_straddles_relu", o(3, 7, 8, 18).head_activation(relu)),
      row("k2_R2_sees_input", o(3, 5, 2, 8).heads_see_input(true)),
      row("k9_straddles_sees_input", o(3, 5, 9, 4).heads_see_input(true)),
      row("k4_R1_layer_norm", o(3, 9, 4, 4).layer_norm(true)),
      row("k2_R2_everything",
          o(3, 7, 2, 8).layer_norm(true).heads_see_input(true).head_activation(relu).combine(sum)),
      row("per_head", o(3, 5, 3, 9).direction(per_head)),
      row("per_head_relu", o(3, 7, 3, 4).direction(per_head).head_activation(relu)),
      row("full", o(3, 5, 3, 7).direction(full)),
      row("full_relu_sum", o(3, 7, 3, 5).direction(full).head_activation(relu).combine(sum)),
      row("k2_R2_authors", o(3, 5, 2, 8).overflow(authors)),
      row("k9_straddles_authors", o(3, 5, 9, 4).overflow(authors)),
      row("k2_R2_limit", o(3, 5, 2, 8).write_limit(0.4)),
      row("k4_R1_limit_relu", o(3, 5, 4, 4).head_activation(relu).write_limit(0.4)),
      row("k9_straddles_limit", o(3, 5, 9, 4).write_limit(0.4)),
      row("multiply", o(3, 5, 2, 8).memory_update(multiply)),
      row("k9_straddles_multiply_relu",
          o(3, 7, 9, 4).memory_update(multiply).head_activation(relu)),
      row("full_multiply", o(3, 5, 3, 7).memory_update(multiply).direction(full)),
  };
}

inline std::vector<Case> lstm_cases() {
  const auto row = [](const char* name, const LSTMOptions& options) {
    return make_case<LSTMImpl>(std::string("lstm_") + name, options);
  };
  return {
      row("smallest", LSTMOptions(1, 1)),
      row("plain", LSTMOptions(3, 5)),
      row("plain_wide", LSTMOptions(2, 17)),
      row("peephole", LSTMOptions(3, 7).peephole(true)),
      row("peephole_wide", LSTMOptions(1, 19).peephole(true)),
  };
}

inline std::vector<Case> rnn_cases() {
  const auto row = [](const char* name, const RNNOptions& options) {
    return make_case<RNNImpl>(std::string("rnn_") + name, options);
  };
  constexpr auto relu = RNNOptions::Activation::relu;
  return {
      row("smallest", RNNOptions(1, 1)),
      row("tanh", RNNOptions(3, 5)),
      row("relu", RNNOptions(2, 17).activation(relu)),
      row("relu_layer_norm", RNNOptions(3, 9).activation(relu).layer_norm(true)),
      row("tanh_layer_norm", RNNOptions(3, 19).layer_norm(true)),
  };
}

inline std::vector<Case> gru_cases() {
  const auto row = [](const char* name, const GRUOptions& options) {
    return make_case<GRUImpl>(std::string("gru_") + name, options);
  };
  return {
      row("smallest", GRUOptions(1, 1)),
      row("reset_before", GRUOptions(3, 5)),
      row("reset_before_wide", GRUOptions(2, 17)),
      row("reset_after", GRUOptions(3, 7).reset_after(true)),
      row("reset_after_wide", GRUOptions(1, 19).reset_after(true)),
  };
}

inline std::vector<Case> janet_cases() {
  const auto row = [](const char* name, const JANETOptions& options) {
    return make_case<JANETImpl>(std::string("janet_") + name, options);
  };
  return {
      row("smallest", JANETOptions(1, 1)),
      row("plain", JANETOptions(3, 5)),
      row("plain_wide", JANETOptions(2, 17)),
      row("beta", JANETOptions(3, 9).beta(1)),
      row("negative_beta", JANETOptions(3, 7).beta(-0.5)),
  };
}

inline std::vector<Case> sru_cases() {
  const auto row = [](const char* name, const SRUOptions& options) {
    return make_case<SRUImpl>(std::string("sru_") + name, options);
  };
  return {
      row("small", SRUOptions(1, 4).stat_size(3).recur_size(1)),
      row("plain", SRUOptions(3, 5).stat_size(7).recur_size(4)),
      row("wide", SRUOptions(2, 17).stat_size(9).recur_size(19)),
      row("original_scales",
          SRUOptions(3, 7).stat_size(5).recur_size(3).scales(SRUOptions::original_scales())),
      row("one_scale", SRUOptions(3, 7).stat_size(8).recur_size(8).scales({0.9})),
  };
}

// Butterflies within one vector and across several, with and without coordinates that have no
// partner. With a wide eps: at z = 0 the slope of the smooth modReLU changes by 2 b / eps^2 per
// unit of z, so that at the default of 0.01 (GORU: 0.001) every float32 code, the plain composition
// too, errs by 1e-5 and more, and many differences come out kinked. The defaults are what the
// golden vectors, the tests of the kernels and LargeOnesEqualTheReference have.
inline std::vector<Case> butterfly_cases() {
  const auto eurnn = [](const char* name, EURNNOptions options) {
    return make_case<EURNNImpl>(std::string("eurnn_") + name, options.epsilon(0.1));
  };
  const auto goru = [](const char* name, GORUOptions options) {
    return make_case<GORUImpl>(std::string("goru_") + name, options.epsilon(0.1));
  };
  constexpr auto sign = ModReLU::sign;
  return {
      eurnn("smallest", EURNNOptions(1, 2)),
      eurnn("n4", EURNNOptions(3, 4)),
      eurnn("n6", EURNNOptions(3, 6)),
      eurnn("n17", EURNNOptions(1, 17)),
      eurnn("n33", EURNNOptions(3, 33)),
      eurnn("n6_sign", EURNNOptions(3, 6).modrelu(sign)),
      eurnn("n17_sign", EURNNOptions(3, 17).modrelu(sign)),
      make_case<EURNNImpl>("eurnn_n6_exact", EURNNOptions(3, 6).modrelu(sign).epsilon(0)),
      eurnn("complex_smallest", EURNNOptions(1, 2).complex(true)),
      eurnn("complex_n4", EURNNOptions(3, 4).complex(true)),
      eurnn("complex_n6", EURNNOptions(3, 6).complex(true)),
      eurnn("complex_n17", EURNNOptions(1, 17).complex(true)),
      eurnn("complex_n33", EURNNOptions(3, 33).complex(true)),
      goru("smallest", GORUOptions(1, 2)),
      goru("n4", GORUOptions(3, 4)),
      goru("n6", GORUOptions(3, 6)),
      goru("n17", GORUOptions(1, 17)),
      goru("n33", GORUOptions(3, 33)),
      goru("n17_sign", GORUOptions(3, 17).modrelu(sign)),
  };
}

inline std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& rows : {nru_cases(), lstm_cases(), rnn_cases(), gru_cases(), janet_cases(),
                           sru_cases(), butterfly_cases()})
    all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

}  // namespace nru
