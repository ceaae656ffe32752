// Whatever a caller gets wrong is an nru::Error that names the value and the way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nru/cells/lstm.h>
#include <nru/cells/nru.h>
#include <nru/error.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace nru {
namespace {

using testing::HasSubstr;
using torch::Tensor;

// The message of the nru::Error that `act` throws, which is one line; a failure if it throws none.
std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "not an nru::Error: " << other.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

#define EXPECT_ERROR(statement, ...) \
  EXPECT_THAT(message_of([&] { statement; }), testing::AllOf(__VA_ARGS__))

// ---- sizes ----

TEST(Sizes, HeadsTimesMemoryMustBeASquare) {
  const auto make = [](std::int64_t heads, std::int64_t memory) {
    NRU made(NRUOptions(3, 5).heads(heads).memory_size(memory));
  };
  const auto nearest = [](int memory) { return HasSubstr("is " + std::to_string(memory)); };
  EXPECT_ERROR(make(4, 63), HasSubstr("heads = 4"), HasSubstr("memory_size = 63"), nearest(64));
  EXPECT_ERROR(make(2, 576), HasSubstr("heads = 2"), HasSubstr("memory_size = 576"), nearest(578));
  EXPECT_ERROR(make(12, 576), HasSubstr("heads = 12"), nearest(588));
  EXPECT_ERROR(make(1, 2), nearest(1));
  EXPECT_ERROR(make(3, 1), nearest(3));
  EXPECT_ERROR(make(7, 64), nearest(63));
  // 20011 is a prime: the least square, 20011 * 20011, is too large for the kernels.
  EXPECT_ERROR(make(20011, 1), HasSubstr("heads = 20011"), HasSubstr("no memory_size works"));
  make(2, 578);
  make(12, 588);
  make(7, 63);
}

TEST(Sizes, PerHeadNeedsASquareMemoryAndFullNeedsNothing) {
  const auto make = [](std::int64_t heads, std::int64_t memory, NRUOptions::Direction direction) {
    NRU made(NRUOptions(3, 5).heads(heads).memory_size(memory).direction(direction));
  };
  using Direction = NRUOptions::Direction;
  EXPECT_ERROR(make(2, 8, Direction::per_head), HasSubstr("per_head"), HasSubstr("memory_size = 8"),
               HasSubstr("is 9"));
  make(2, 9, Direction::per_head);
  make(2, 7, Direction::full);
}

TEST(Sizes, MustBePositive) {
  EXPECT_ERROR(NRU(NRUOptions(0, 5)), HasSubstr("input_size"), HasSubstr("0"));
  EXPECT_ERROR(NRU(NRUOptions(3, -2)), HasSubstr("hidden_size"), HasSubstr("-2"));
  EXPECT_ERROR(NRU(NRUOptions(3, 5).memory_size(0)), HasSubstr("memory_size"), HasSubstr("0"));
  EXPECT_ERROR(NRU(NRUOptions(3, 5).heads(-1)), HasSubstr("heads"), HasSubstr("-1"));
  EXPECT_ERROR(NRU(NRUOptions(3, 5).write_scale(-0.5)), HasSubstr("write_scale"),
               HasSubstr("-0.5"));
  EXPECT_ERROR(NRU(NRUOptions(3, 5).write_scale(std::nan(""))), HasSubstr("write_scale"));
  EXPECT_ERROR(NRU(NRUOptions(3, 5).write_limit(-0.5)), HasSubstr("write_limit"),
               HasSubstr("-0.5"));
  EXPECT_ERROR(NRU(NRUOptions(3, 5).write_limit(INFINITY)), HasSubstr("write_limit"));
  EXPECT_ERROR(NRU(NRUOptions(3, 5).state_gradient_limit(-1)), HasSubstr("state_gradient_limit"));
  EXPECT_ERROR(NRU(NRUOptions(3, 5))->set_state_gradient_limit(std::nan("")),
               HasSubstr("state_gradient_limit"));
  EXPECT_ERROR(
      NRU(NRUOptions(3, 5).write_scale(0).head_activation(NRUOptions::HeadActivation::relu)),
      HasSubstr("ReLU heads"), HasSubstr("0.1"));
  EXPECT_ERROR(LSTM(LSTMOptions(-7, 5)), HasSubstr("input_size"), HasSubstr("-7"));
  EXPECT_ERROR(LSTM(LSTMOptions(3, 0)), HasSubstr("hidden_size"), HasSubstr("0"));
  EXPECT_ERROR(LSTM(LSTMOptions(3, 5).num_layers(0)), HasSubstr("num_layers"), HasSubstr("0"));
}

TEST(Sizes, DropoutIsAProbabilityBelowOne) {
  for (const double wrong : {1.0, 1.5, -0.1, std::nan("")})
    EXPECT_ERROR(LSTM(LSTMOptions(3, 5).dropout(wrong)), HasSubstr("dropout"), HasSubstr("[0, 1)"));
  EXPECT_ERROR(LSTM(LSTMOptions(3, 5).dropout(1.5)), HasSubstr("1.5"));
}

TEST(Sizes, ChronoNeedsATimeOfTwo) {
  EXPECT_ERROR(LSTM(LSTMOptions(3, 5).chrono_t_max(1)), HasSubstr("chrono_t_max"),
               HasSubstr("at least 2"), HasSubstr("got 1"));
  EXPECT_ERROR(LSTM(LSTMOptions(3, 5).chrono_t_max(-4)), HasSubstr("chrono_t_max"),
               HasSubstr("-4"));
  EXPECT_ERROR(LSTM(LSTMOptions(3, 5).chrono_t_max(4294967296)), HasSubstr("chrono_t_max"),
               HasSubstr("at most 4294967295"), HasSubstr("got 4294967296"));
  LSTM longest(LSTMOptions(3, 5).chrono_t_max(4294967295));
}

// ---- what forward, step and states are given ----

class Inputs : public testing::TestWithParam<Backend> {
 protected:
  NRU layer{NRUOptions(3, 5).memory_size(4).heads(1).num_layers(2).backend(GetParam())};
  NRU batch_first{NRUOptions(3, 5).memory_size(4).heads(1).batch_first(true).backend(GetParam())};
  Tensor x = torch::randn({6, 4, 3});
};

INSTANTIATE_TEST_SUITE_P(Backends, Inputs, testing::Values(Backend::fused, Backend::reference),
                         [](const auto& info) {
                           return info.param == Backend::fused ? "fused" : "reference";
                         });

TEST_P(Inputs, OfTheWrongShape) {
  EXPECT_ERROR(layer->forward(torch::randn({6, 4, 2})), HasSubstr("[T, B, I]"), HasSubstr("I = 3"),
               HasSubstr("[6, 4, 2]"));
  EXPECT_ERROR(batch_first->forward(torch::randn({6, 4, 2})), HasSubstr("[B, T, I]"),
               HasSubstr("[6, 4, 2]"));
  EXPECT_ERROR(layer->forward(torch::randn({6, 3})), HasSubstr("[T, B, I]"), HasSubstr("[6, 3]"));
  EXPECT_ERROR(layer->forward(Tensor()), HasSubstr("undefined"));
  EXPECT_ERROR(layer->step(x), HasSubstr("[B, I]"), HasSubstr("[6, 4, 3]"));
  EXPECT_ERROR(layer->step(torch::randn({4, 5})), HasSubstr("I = 3"), HasSubstr("[4, 5]"));
  EXPECT_ERROR(layer->states(x[0]), HasSubstr("[T, B, I]"), HasSubstr("[4, 3]"));
}

TEST_P(Inputs, WithoutAStep) {
  EXPECT_ERROR(layer->forward(torch::randn({0, 4, 3})), HasSubstr("empty"), HasSubstr("[0, 4, 3]"));
  EXPECT_ERROR(batch_first->forward(torch::randn({6, 0, 3})), HasSubstr("empty"),
               HasSubstr("[6, 0, 3]"));
  EXPECT_ERROR(layer->forward(torch::randn({0, 0, 3})), HasSubstr("at least one step"));
  EXPECT_ERROR(layer->states(torch::randn({0, 4, 3})), HasSubstr("empty"));
}

TEST_P(Inputs, OfAnotherType) {
  EXPECT_ERROR(layer->forward(x.to(torch::kDouble)), HasSubstr("Double"), HasSubstr("Float"),
               HasSubstr(".to("));
  EXPECT_ERROR(layer->forward(torch::ones({6, 4, 3}, torch::kLong)), HasSubstr("Long"),
               HasSubstr("Float"));
  EXPECT_ERROR(layer->step(x[0].to(torch::kDouble)), HasSubstr("Double"));
  layer->to(torch::kDouble);
  EXPECT_ERROR(layer->forward(x), HasSubstr("Float"), HasSubstr("Double"));
}

TEST_P(Inputs, StatesThatDoNotFit) {
  const auto state = [](at::IntArrayRef h, at::IntArrayRef m) {
    return State{{torch::zeros(h), torch::zeros(m)}};
  };
  layer->forward(x, state({2, 4, 5}, {2, 4, 4}));
  EXPECT_ERROR(layer->forward(x, State{{torch::zeros({2, 4, 5})}}), HasSubstr("2 parts (h, m)"),
               HasSubstr("got 1"));
  EXPECT_ERROR(layer->forward(x, state({1, 4, 5}, {2, 4, 4})), HasSubstr("part h"),
               HasSubstr("[2, 4, 5]"), HasSubstr("[1, 4, 5]"));
  EXPECT_ERROR(layer->forward(x, state({2, 4, 5}, {2, 3, 4})), HasSubstr("part m"),
               HasSubstr("[2, 4, 4]"), HasSubstr("[2, 3, 4]"));
  EXPECT_ERROR(layer->step(x[0], state({2, 4, 5}, {2, 4, 9})), HasSubstr("part m"),
               HasSubstr("[2, 4, 9]"));
  EXPECT_ERROR(layer->states(x, state({2, 4}, {2, 4, 4})), HasSubstr("part h"),
               HasSubstr("[2, 4]"));
  EXPECT_ERROR(layer->forward(x, State{{Tensor(), Tensor()}}), HasSubstr("part h"),
               HasSubstr("undefined"));
  State mixed = state({2, 4, 5}, {2, 4, 4});
  mixed.parts[1] = mixed.parts[1].to(torch::kDouble);
  EXPECT_ERROR(layer->forward(x, mixed), HasSubstr("part m"), HasSubstr("Double"),
               HasSubstr("Float"));
  // The batch of batch_first input is its first dimension.
  EXPECT_ERROR(batch_first->forward(x, state({1, 4, 5}, {1, 4, 4})), HasSubstr("[1, 6, 5]"));
}

TEST_P(Inputs, LengthsThatDoNotFit) {
  const auto with = [&](const Tensor& lengths) { layer->forward(x, {}, lengths); };
  with(torch::tensor({1, 6, 3, 2}));
  EXPECT_ERROR(with(torch::tensor({1, 6, 0, 2})), HasSubstr("1..6"), HasSubstr("got 0"));
  EXPECT_ERROR(with(torch::tensor({1, -3, 4, 2})), HasSubstr("1..6"), HasSubstr("got -3"));
  EXPECT_ERROR(with(torch::tensor({7, 6, 3, 2})), HasSubstr("1..6"), HasSubstr("got 7"));
  EXPECT_ERROR(with(torch::tensor({1, 6, 3})), HasSubstr("4 integers"), HasSubstr("[3]"));
  EXPECT_ERROR(with(torch::ones({4, 1}, torch::kLong)), HasSubstr("4 integers"),
               HasSubstr("[4, 1]"));
  EXPECT_ERROR(with(torch::ones({4})), HasSubstr("integers"), HasSubstr("Float"));
  EXPECT_ERROR(with(torch::ones({4}, torch::kBool)), HasSubstr("integers"), HasSubstr("Bool"));
  // Steps and batch of batch_first input.
  EXPECT_ERROR(batch_first->forward(x, {}, torch::tensor({1, 5, 3, 2, 1, 1})), HasSubstr("1..4"),
               HasSubstr("got 5"));
}

// A layer without kernels for a type still works, and can say why it is slower.
TEST(UsesKernels, SaysWhyNot) {
  LSTM fused(3, 5), reference(LSTMOptions(3, 5).backend(Backend::reference));
  std::string reason = "old";
  EXPECT_TRUE(fused->uses_kernels(torch::randn({2, 2, 3}), &reason));
  EXPECT_EQ(reason, "");
  EXPECT_FALSE(reference->uses_kernels(torch::randn({2, 2, 3}), &reason));
  EXPECT_THAT(reason, HasSubstr("reference"));
  const Tensor half = torch::randn({2, 2, 3}).to(torch::kBFloat16);
  EXPECT_FALSE(fused->uses_kernels(half, &reason));
  EXPECT_THAT(reason, HasSubstr("BFloat16"));
  fused->to(torch::kBFloat16);
  EXPECT_EQ(std::get<0>(fused->forward(half)).scalar_type(), torch::kBFloat16);
}

}  // namespace
}  // namespace nru
