// Values worked out by an independent implementation in plain double arithmetic, to every digit it
// printed.
//
// Batch 1, I = 2, three steps from the zero state, x_t[j] = cos(0.9 t + 0.4 j). Parameter number n,
// counted through the tensors in the order written below, is 0.3 sin(1.7 n + 0.5). L = sum over t
// and j of (j+1) h_t[j]; the last figure is the L2 norm of dL/d(all parameters).
#include <gtest/gtest.h>
#include <nru/cells/eurnn.h>
#include <nru/cells/goru.h>
#include <nru/cells/gru.h>
#include <nru/cells/janet.h>
#include <nru/cells/lstm.h>
#include <nru/cells/nru.h>
#include <nru/cells/rnn.h>
#include <nru/cells/sru.h>

#include <cmath>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace nru {
namespace {

using torch::Tensor;

struct Golden {
  std::string name;
  std::function<std::shared_ptr<LayerImpl>(Backend)> make;
  std::int64_t parameters;
  std::vector<double> h, other;  // the last output, and the first numbers of the final m, c or mu
  double loss, gradient_norm;
};

void PrintTo(const Golden& g, std::ostream* to) { *to << g.name; }

// Fills block after block with the numbered parameters.
class Numbering {
 public:
  void fill(const Tensor& block) {
    const torch::NoGradGuard no_grad;
    Tensor values = torch::empty(block.sizes(), torch::kDouble);
    for (std::int64_t i = 0; i < values.numel(); ++i)
      values.data_ptr<double>()[i] = 0.3 * std::sin(1.7 * static_cast<double>(count_++) + 0.5);
    block.copy_(values);
  }
  std::int64_t count() const { return count_; }

 private:
  std::int64_t count_ = 0;
};

// W, b, then weight and bias of alpha, beta, write, erase; ours are stacked.
std::int64_t number(const NRUImpl& layer) {
  const Weights w = layer.weights(0);
  Numbering numbers;
  numbers.fill(w("weight"));
  numbers.fill(w("bias"));
  const std::int64_t k = layer.options.heads(), side = (w("head_bias").size(0) - 2 * k) / 2;
  std::int64_t first = 0;
  for (const std::int64_t rows : {k, k, side, side}) {
    numbers.fill(w("head_weight").narrow(0, first, rows));
    numbers.fill(w("head_bias").narrow(0, first, rows));
    first += rows;
  }
  return numbers.count();
}

// U, W, b gate by gate, then what else there is.
std::int64_t number_gates(const LayerImpl& layer, std::int64_t gates) {
  const Weights w = layer.weights(0);
  const std::int64_t H = layer.settings().hidden_size;
  Numbering numbers;
  for (std::int64_t gate = 0; gate < gates; ++gate) {
    for (const char* name : {"weight_ih", "weight_hh", "bias_ih"})
      numbers.fill(w(name).narrow(0, gate * H, H));
  }
  for (std::size_t i = 3; i < w.tensors().size(); ++i) numbers.fill(w.tensors()[i]);
  return numbers.count();
}
std::int64_t number(const RNNImpl& layer) { return number_gates(layer, 1); }
std::int64_t number(const LSTMImpl& layer) { return number_gates(layer, 4); }
std::int64_t number(const GRUImpl& layer) { return number_gates(layer, 3); }
std::int64_t number(const JANETImpl& layer) { return number_gates(layer, 2); }

// The others' parameters are in the order of the numbers.
std::int64_t number(const LayerImpl& layer) {
  const Weights w = layer.weights(0);
  Numbering numbers;
  for (const Tensor& p : w.tensors()) numbers.fill(p);
  return numbers.count();
}

template <class Impl, class Options>
Golden golden(const std::string& name, const Options& options, std::int64_t parameters,
              std::vector<double> h, std::vector<double> other, double loss, double gradient_norm) {
  const auto make = [options, parameters](Backend backend) -> std::shared_ptr<LayerImpl> {
    Options o = options;
    auto layer = std::make_shared<Impl>(o.backend(backend));
    layer->to(torch::kDouble);
    EXPECT_EQ(number(*layer), parameters);
    return layer;
  };
  return {name, make, parameters, std::move(h), std::move(other), loss, gradient_norm};
}

std::vector<Golden> goldens() {
  const auto nru = [](std::int64_t memory, std::int64_t heads) {
    return NRUOptions(2, 3).memory_size(memory).heads(heads);
  };
  const LSTMOptions lstm(2, 3);
  const RNNOptions relu = RNNOptions(2, 3).activation(RNNOptions::Activation::relu);
  const EURNNOptions eurnn(2, 4);
  const GORUOptions goru(2, 4);
  return {
      golden<EURNNImpl>("eurnn_real", eurnn, 16,
                        {1.1371646126, -0.0000000000, -0.0000000000, -1.1072907732}, {},
                        -7.1407852251, 34.467891),
      golden<EURNNImpl>("eurnn_real_sign", EURNNOptions(eurnn).modrelu(ModReLU::sign), 16,
                        {1.1786218535, -0.0000000000, -0.0000000000, -1.1570890278}, {},
                        -7.4947030405, 34.689686),
      golden<EURNNImpl>(
          "eurnn_real_n6", EURNNOptions(2, 6), 25,
          {0.8215836559, 0.0715658917, -0.0000000000, -0.4607017116, 1.0917155127, -0.6736680348},
          {}, 0.5892420511, 70.891652),
      golden<EURNNImpl>("eurnn_complex", EURNNOptions(eurnn).complex(true), 32,
                        {-0.0026825299, -0.1026608993, 0.0430935468, -0.2405521217},
                        {0.0289437258, -0.2059536316, -0.8822431315, 0.9026485119}, -0.5830092577,
                        42.671135),
      golden<GORUImpl>("goru", goru, 72, {0.1837659527, -0.0030849872, 0.1751468175, -0.3915387589},
                       {}, -1.0240792016, 15.080633),
      golden<GORUImpl>("goru_sign", GORUOptions(goru).modrelu(ModReLU::sign), 72,
                       {0.1865529755, -0.0030948358, 0.1767226528, -0.3940126768}, {},
                       -1.0291592109, 15.113737),
      golden<RNNImpl>("rnn_relu_norm", RNNOptions(relu).layer_norm(true), 24,
                      {0.0000000000, 0.3540639785, 0.2602338078}, {}, 3.1313602776, 11.851979),
      golden<RNNImpl>("rnn_relu", relu, 18, {0.0013560662, 0.3205987195, 0.0000000000}, {},
                      1.9478870401, 9.681041),
      golden<GRUImpl>("gru_reset_before", GRUOptions(2, 3), 54,
                      {-0.2633642697, 0.2219236304, 0.0614733400}, {}, 1.2118602090, 8.679297),
      golden<GRUImpl>("gru_reset_after", GRUOptions(2, 3).reset_after(true), 57,
                      {-0.3849602864, 0.1716529215, 0.1510865833}, {}, 1.4671102074, 8.907322),
      golden<JANETImpl>("janet", JANETOptions(2, 3), 36,
                        {-0.0492109276, 0.2456223024, -0.1338885194}, {}, 0.9369398025, 8.354935),
      golden<JANETImpl>("janet_beta", JANETOptions(2, 3).beta(1), 36,
                        {-0.0763994211, 0.3727288719, -0.1709760265}, {}, 1.5011237243, 11.877693),
      golden<SRUImpl>(
          "sru", SRUOptions(2, 2).stat_size(3).recur_size(2), 79, {0.0000000000, 0.2467506294},
          {0.1280820894, 0.3206334695, 0.0000000000, 0.0640410447, 0.2463356697, 0.0043788626},
          1.7054448466, 6.557040),
      golden<LSTMImpl>("lstm_peephole", LSTMOptions(lstm).peephole(true), 81,
                       {-0.1173484961, 0.1268414930, 0.0334109144},
                       {-0.2885718331, 0.2627583570, 0.0572444713}, 0.7544354844, 4.427702),
      golden<LSTMImpl>("lstm_plain", lstm, 72, {-0.1241591756, 0.1279693014, 0.0335253404},
                       {-0.2923178828, 0.2685980748, 0.0570181623}, 0.7465324254, 4.548049),
      golden<NRUImpl>("nru_k1_m4", nru(4, 1), 110, {0.2664954988, 0.0000000000, 0.0309958833},
                      {0.0767097594, -1.4974589041, -0.6682201985, -0.4008260202}, 2.1245473701,
                      15.179029),
      golden<NRUImpl>("nru_k2_m8", nru(8, 2), 282, {0.0690388239, 0.0000000000, 0.4865025060},
                      {1.2406226339, -0.6303608343, -1.2094842654, 0.3816849064, 0.5737974003,
                       -0.0698494059, -0.3074302959, 0.1690955658},
                      5.9669185478, 15.715441),
      golden<NRUImpl>("nru_k9_m4", nru(4, 9), 366, {0.0000000000, 0.0307142616, 0.0000000000},
                      {0.1114308598, 0.3518413878, -0.0710881237, -0.2655195724}, 0.9413029888,
                      6.815051),
      golden<NRUImpl>("nru_relu", nru(8, 2).head_activation(NRUOptions::HeadActivation::relu), 282,
                      {0.0000000000, 0.0000000000, 0.3339939707},
                      {0.3717534942, -0.1921796966, -0.3218117704, 0.1806733329, 0.0176495412,
                       0.0140753877, 0.0129524793, 0.0120971075},
                      5.0926309216, 13.758324),
      golden<NRUImpl>("nru_sum", nru(8, 2).combine(NRUOptions::Combine::sum), 282,
                      {0.4194482429, 0.0000000000, 0.6432195603},
                      {6.2177439812, 1.4481069308, -0.4387482207, 2.6075216331, 5.2482826345,
                       2.0940974308, 0.6681057111, 2.2684410353},
                      7.3119906928, 23.662616),
      golden<NRUImpl>("nru_sees_input", nru(8, 2).heads_see_input(true), 322,
                      {0.0000000000, 0.0000000000, 0.3977445817},
                      {0.0323936705, 0.0679900066, -0.2381622017, 0.1770057145, -0.2148322344,
                       -0.0560683366, -0.0364049448, 0.4070094824},
                      5.4118379618, 15.630208),
  };
}

class GoldenVectors : public testing::TestWithParam<Golden> {};

INSTANTIATE_TEST_SUITE_P(Cells, GoldenVectors, testing::ValuesIn(goldens()),
                         [](const auto& info) { return info.param.name; });

// Half a unit of the last digit, and a hair for the rounding of our own sums.
constexpr double kTenDigits = 0.5e-10 + 1e-13, kSixDigits = 0.5e-6 + 1e-12;

void expect_digits(const Tensor& got, const std::vector<double>& expected, const char* what) {
  const Tensor flat = got.detach().reshape({-1});
  ASSERT_EQ(flat.numel(), static_cast<std::int64_t>(expected.size())) << what;
  for (std::size_t j = 0; j < expected.size(); ++j)
    EXPECT_NEAR(flat.data_ptr<double>()[j], expected[j], kTenDigits) << what << "[" << j << "]";
}

TEST_P(GoldenVectors, AllDigitsAgree) {
  Tensor x = torch::empty({3, 1, 2}, torch::kDouble);
  for (int t = 0; t < 3; ++t)
    for (int j = 0; j < 2; ++j) x[t][0][j] = std::cos(0.9 * t + 0.4 * j);
  const Golden& g = GetParam();
  for (const Backend backend : {Backend::reference, Backend::fused}) {
    SCOPED_TRACE(backend == Backend::fused ? "fused" : "reference");
    const auto layer = g.make(backend);
    ASSERT_EQ(layer->uses_kernels(x), backend == Backend::fused);
    const auto [output, state] = layer->forward(x);
    expect_digits(output[2], g.h, "h");
    for (std::size_t p = 0; p < state.parts.size(); ++p) {
      const std::string& name = layer->state_names()[p];
      std::vector<double> expected = name == "h" ? g.h : g.other;
      if (name == "h" && state.parts.size() == 1)  // Re h, Im h
        expected.insert(expected.end(), g.other.begin(), g.other.end());
      expect_digits(state.parts[p].reshape({-1}).slice(0, 0, expected.size()), expected,
                    name.c_str());
    }
    const Tensor loss = (output * torch::arange(1, output.size(2) + 1, torch::kDouble)).sum();
    EXPECT_NEAR(loss.item<double>(), g.loss, kTenDigits);
    loss.backward();
    double squares = 0;
    std::int64_t count = 0;
    for (const Tensor& p : layer->parameters()) {
      squares += p.grad().square().sum().item<double>();
      count += p.numel();
    }
    EXPECT_NEAR(std::sqrt(squares), g.gradient_norm, kSixDigits);
    EXPECT_EQ(count, g.parameters);
  }
}

}  // namespace
}  // namespace nru
