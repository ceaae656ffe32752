#include "cuda_design_cases.h"

namespace nru::kernels::cuda {
namespace {

// Those with linear heads, then the same with ReLU heads.
std::vector<CellCase> and_with_relu(std::vector<CellCase> cases) {
  for (std::size_t i = 0, linear = cases.size(); i < linear; ++i)
    cases.push_back({cases[i].name + "_relu", with(*cases[i].nru(), &NruShape::relu_heads)});
  return cases;
}
std::vector<NruShape> and_with_relu(const NruShape& shape) {
  return {shape, with(shape, &NruShape::relu_heads)};
}

const RunCase kOneStep{"T1_B1", 1, 1, false, false}, kTwoSteps{"T2_B5_state", 2, 5, false, true},
    kTwelveSteps{"T12_B11", 12, 11, false, false};

// With and without the fast write.
DesignCases rows_cases() {
  const auto relu = [](const NruShape& shape) { return with(shape, &NruShape::relu_heads); };
  const NruShape copy = nru_of(10, 80, 64, 4);
  DesignCases design{"rows", "rows", false, {}, {}, {{"", copy}}, {}, {}};
  design.cells = {
      {"h80_m64_k4", copy},
      {"h80_m64_k4_relu", relu(copy)},
      {"h79_m36_k4_R3", nru_of(3, 79, 36, 4)},
      {"h128_m64_k4", nru_of(10, 128, 64, 4)},
      {"h81_m64_k4_relu", relu(nru_of(10, 81, 64, 4))},
      {"h113_m49_k1_R7", nru_of(1, 113, 49, 1)},
      {"h128_m144_k4_R6", nru_of(2, 128, 144, 4)},
      {"h100_m144_k4_relu", relu(nru_of(2, 100, 144, 4))},
      {"h33_m100_k4_R5", nru_of(40, 33, 100, 4)},  // an input too wide for input_share()
      {"h17_m36_k9_R2", nru_of(5, 17, 36, 9)},
      {"h60_m32_k8_R2_relu", relu(nru_of(5, 60, 32, 8))},
      {"h90_m144_k1_R12_relu", relu(nru_of(5, 90, 144, 1))},
      {"h80_m64_k4_limit", limited(copy)},
      {"h100_m144_k4_relu_limit", limited(relu(nru_of(2, 100, 144, 4)))},
      {"h20_m64_k16_R2_declined", nru_of(5, 20, 64, 16)},  // more head outputs than compiled
  };
  design.runs = {kOneStep,
                 {"T12_B3_lengths_state", 12, 3, true, true},
                 kTwelveSteps,
                 {"T7_B5_lengths_state_limit", 7, 5, true, true, 0.02}};
  for (bool lengths : {false, true}) {
    for (double limit : {0.0, 0.02})
      design.long_runs.push_back({"", 120, 150, lengths, true, limit});
  }
  for (const NruShape& shape : {nru_of(3, 40, 64, 4), nru_of(3, 21, 50, 2)}) {
    for (const NruShape& s : and_with_relu(shape)) design.extremes.push_back(s);
  }
  design.extremes.push_back(limited(nru_of(3, 40, 64, 4)));
  return design;
}

DesignCases cluster_cases() {
  DesignCases design{"cluster", "cluster", true, {}, {}, {{"", nru_of(1, 212, 256, 4)}}, {}, {}};
  design.cells = and_with_relu({
      {"h128_m256_k4", nru_of(1, 128, 256, 4)},
      {"h41_m196_k4_R7", nru_of(3, 41, 196, 4)},
      {"h129_m100_k4_R5", nru_of(2, 129, 100, 4)},
      {"h212_m256_k4", nru_of(1, 212, 256, 4)},
      {"h224_m256_k4_sum", with(nru_of(3, 224, 256, 4), &NruShape::sum_heads)},
      {"h150_m50_k2_R5_sees_input", with(nru_of(5, 150, 50, 2), &NruShape::heads_see_input)},
      {"h131_m9_k1_R3_authors", with(nru_of(5, 131, 9, 1), &NruShape::authors_overflow)},
      {"h256_m256_k4", nru_of(1, 256, 256, 4)},
      {"h300_m256_k4", nru_of(1, 300, 256, 4)},
      {"h320_m147_k3_R7", nru_of(2, 320, 147, 3)},
      {"h200_m256_k1_R16", nru_of(1, 200, 256, 1)},
      {"h137_m242_k2_R11", nru_of(1, 137, 242, 2)},
      {"h200_m256_k16_R4", nru_of(1, 200, 256, 16)},
      {"h133_m81_k9_R3", nru_of(4, 133, 81, 9)},
      {"h200_m400_k4_R10", nru_of(1, 200, 400, 4)},
      {"h224_m361_k1_R19_declined", nru_of(1, 224, 361, 1)},
  });
  design.runs = {kOneStep, kTwoSteps, kTwelveSteps};
  design.long_runs = {{"", 200, 101, false, true}};
  design.extremes = and_with_relu(nru_of(3, 140, 256, 4));
  return design;
}

DesignCases gate_cases() {
  const std::vector<double> scales = {0, 0.5, 0.9, 0.99, 0.999};
  DesignCases design{"gates", "cluster", true, {}, {}, {}, {}, {}};
  design.cells = {
      {"rnn_4", RnnShape{3, 4}},
      {"rnn_143_norm", RnnShape{10, 143, false, true}},
      {"rnn_160_tanh", RnnShape{3, 160, true}},
      {"rnn_161_tanh_norm", RnnShape{3, 161, true, true}},
      {"rnn_400_norm", RnnShape{1, 400, false, true}},
      {"rnn_416_norm", RnnShape{2, 416, false, true}},
      {"rnn_399", RnnShape{40, 399}},
      {"rnn_417_declined", RnnShape{1, 417}},
      {"lstm_4", LstmShape{3, 4}},
      {"lstm_70_peephole", LstmShape{10, 70, true}},
      {"lstm_72", LstmShape{3, 72}},
      {"lstm_73_peephole", LstmShape{3, 73, true}},
      {"lstm_200_peephole", LstmShape{1, 200, true}},
      {"lstm_199", LstmShape{2, 199}},
      {"lstm_201_declined", LstmShape{1, 201}},
      {"gru_4", GruShape{3, 4}},
      {"gru_82", GruShape{10, 82}},
      {"gru_96", GruShape{3, 96}},
      {"gru_97", GruShape{3, 97}},
      {"gru_232", GruShape{1, 232}},
      {"gru_240", GruShape{2, 240}},
      {"gru_241_declined", GruShape{1, 241}},
      {"gru_reset_after_declined", GruShape{1, 40, true}},
      {"janet_101", JanetShape{10, 101}},
      {"janet_112_beta", JanetShape{3, 112, 1}},
      {"janet_113", JanetShape{3, 113}},
      {"janet_283", JanetShape{1, 283}},
      {"janet_288_beta", JanetShape{2, 288, 0.5}},
      {"janet_289_declined", JanetShape{1, 289}},
      // With looser gradients: see the butterfly's sizes in sequence_cases.h.
      {"goru_4", GoruShape{3, 4}, 10},
      {"goru_5", GoruShape{3, 5}, 10},
      {"goru_33_sign", GoruShape{10, 33, ModRelu::sign}},
      {"goru_98", GoruShape{10, 98}, 10},
      {"goru_112", GoruShape{3, 112}, 10},
      {"goru_113_sign", GoruShape{3, 113, ModRelu::sign}},
      {"goru_282", GoruShape{1, 282}, 10},
      {"goru_288", GoruShape{2, 288}, 10},
      {"goru_289_declined", GoruShape{1, 289}},
      {"sru_copy", SruShape{10, 60, 55, 16, scales}},
      {"sru_psmnist", SruShape{1, 150, 155, 50, scales}},
      {"sru_full", SruShape{2, 33, 160, 64, scales}},
      {"sru_one_scale", SruShape{2, 20, 157, 37, {0.9}}},
      {"sru_three_scales", SruShape{2, 20, 91, 5, {0.1, 0.5, 0.9}}},
      {"sru_six_scales_declined", SruShape{2, 20, 40, 5, {0, 0.1, 0.3, 0.5, 0.7, 0.9}}},
      {"sru_161_declined", SruShape{2, 20, 161, 5, scales}},
      {"sru_recur_3_declined", SruShape{2, 20, 30, 3, scales}},
  };
  design.runs = {kOneStep, kTwoSteps, kTwelveSteps};
  design.long_cells = {
      {"rnn", RnnShape{1, 400, false, true}},
      {"rnn_tanh", RnnShape{1, 9, true}},
      {"lstm", LstmShape{1, 200, true}},
      {"gru", GruShape{1, 232}},
      {"janet", JanetShape{1, 283}},
      {"sru", SruShape{1, 150, 155, 50, scales}},
      {"goru", GoruShape{1, 282}},
  };
  design.long_runs = {{"", 200, 101, false, true}};
  return design;
}

// Sizes around the numbers of a warp, and of the layers in shared memory; even and odd rows. The
// epsilon is large: with the usual one, among so many units there are always some so near to zero
// that rounding errors grow a thousandfold in their gradients (see the table of all cells, which
// has it at small sizes).
DesignCases eurnn_cases() {
  const auto real = [](int n) { return EurnnShape{.input = 2, .hidden = n, .epsilon = 0.1}; };
  const auto complex = [](int n) {
    return EurnnShape{.input = 10, .hidden = n, .complex = true, .epsilon = 0.1};
  };
  EurnnShape sign = real(77);
  sign.modrelu = ModRelu::sign;
  DesignCases design{"eurnn", "rows", false, {}, {}, {}, {}, {}};
  design.cells = {
      {"real_5", real(5), 10},
      {"real_33", real(33), 10},
      {"real_64", real(64), 10},
      {"real_65", real(65), 10},
      {"real_513", real(513), 10},
      {"real_1000", real(1000), 10},
      {"real_1024", real(1024), 10},
      {"real_1025_declined", real(1025)},
      {"real_77_sign", sign},
      {"complex_5", complex(5), 10},
      {"complex_33", complex(33), 10},
      {"complex_128", complex(128), 10},
      {"complex_589", complex(589), 10},
      {"complex_1000", complex(1000), 10},
      {"complex_1024", complex(1024), 10},
      {"complex_1025_declined", complex(1025)},
  };
  design.runs = {kOneStep, {"T12_B3_lengths_state", 12, 3, true, true}, kTwelveSteps};
  // A small input: cuBLAS, which makes a large one's share, gives a window other last bits.
  design.long_cells = {
      {"real", real(1024)},
      {"complex", EurnnShape{.input = 2, .hidden = 589, .complex = true, .epsilon = 0.1}}};
  for (bool lengths : {false, true}) design.long_runs.push_back({"", 120, 150, lengths, true});
  return design;
}

DesignCases groups_cases() {
  const NruShape paper = with(nru_of(200, 1000, 576, 4), &NruShape::relu_heads);
  DesignCases design{"groups", "groups", true, {}, {}, {{"", paper}}, {}, {}};
  design.cells = and_with_relu({
      {"h1000_m576_k4", nru_of(20, 1000, 576, 4)},
      {"h1024_m576_k4_sum", with(nru_of(2, 1024, 576, 4), &NruShape::sum_heads)},
      {"h643_m300_k3_R10", nru_of(5, 643, 300, 3)},
      {"h700_m1024_k4", nru_of(3, 700, 1024, 4)},
      {"h641_m256_k1_R16_sees_input", with(nru_of(5, 641, 256, 1), &NruShape::heads_see_input)},
      {"h401_m484_k4_R11_authors", with(nru_of(5, 401, 484, 4), &NruShape::authors_overflow)},
      {"h1024_m1024_k4_declined", nru_of(5, 1024, 1024, 4)},  // not enough shared memory
  });
  design.runs = {kOneStep, {"T2_B33_state", 2, 33, false, true}, {"T7_B5", 7, 5, false, false}};
  design.long_runs = {{"", 150, 128, false, true}};
  design.extremes = and_with_relu(nru_of(3, 330, 576, 4));
  return design;
}

}  // namespace

NruShape nru_of(int input, int hidden, int memory, int heads) {
  return {.input = input, .hidden = hidden, .memory = memory, .heads = heads};
}
NruShape with(NruShape shape, bool NruShape::*option) {
  shape.*option = true;
  return shape;
}

NruShape limited(NruShape shape) {
  shape.write_limit = 0.1;
  return shape;
}

const std::vector<DesignCases>& design_cases() {
  static const std::vector<DesignCases> designs = {rows_cases(), cluster_cases(), gate_cases(),
                                                   eurnn_cases(), groups_cases()};
  return designs;
}

}  // namespace nru::kernels::cuda
