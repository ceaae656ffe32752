// The NRU: its equations in torch operations, its initialisation, its row in the table.
#include <nru/cells/nru.h>

#include <cmath>

#include "cells/cell.h"
#include "kernels/layer_norm.h"
#include "kernels/nru.h"
#include "kernels/nru_norm.h"

namespace nru {
namespace {

constexpr std::int64_t kLargestProduct = 100'000'000;  // the kernels count rows in ints
constexpr double kLargestScale = 1000;                 // of initial weights

bool is_square(std::int64_t n) {
  const auto root = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(n))));
  return n > 0 && root * root == n;
}

// The memory size nearest to `size` that works: `factor` * it must be a square, `heads` * it within
// the limit. 0: there is none.
std::int64_t nearest_memory_size(std::int64_t size, std::int64_t factor, std::int64_t heads) {
  const std::int64_t most = kLargestProduct / heads;
  for (std::int64_t distance = 1; distance < most; ++distance) {
    for (const std::int64_t other : {size - distance, size + distance}) {
      if (other >= 1 && other <= most && is_square(factor * other)) return other;
    }
  }
  return 0;
}

// V [B,k,M] -> V / max(|V|_5, clamp) over M. The norm is taken relative to the largest entry, so
// that fifth powers stay in range; no gradient flows through a clamped norm, and a head that is not
// finite writes nothing.
Tensor normalise(const Tensor& V, NRUOptions::Overflow overflow) {
  const Tensor largest = V.abs().amax(2, /*keepdim=*/true).detach();
  const Tensor finite = torch::isfinite(largest);
  const Tensor scale =
      torch::where(finite.logical_and(largest > 0), largest, torch::ones_like(largest));
  const Tensor values = torch::where(finite, V, torch::zeros_like(V));
  const Tensor norm = scale * (values / scale).abs().pow(5).sum(2, true).clamp_min(1).pow(0.2);
  const Tensor live = (largest > 0).logical_and(norm > kernels::kNormClamp);
  const Tensor v = torch::where(live, values / norm, (values / kernels::kNormClamp).detach());
  if (overflow == NRUOptions::Overflow::safe) return v;
  return torch::where(norm <= kernels::kAuthorsLargestNorm, v, torch::zeros_like(v));
}

}  // namespace

template <>
struct Cell<NRUOptions> : CellOf<NRUOptions> {
  using CellOf::CellOf;
  using N = NRUOptions;

  static void check(const NRUOptions& o) {
    if (o.memory_size() < 1)
      throw Error(fmt::format("memory_size must be at least 1, got {}", o.memory_size()));
    if (o.heads() < 1) throw Error(fmt::format("heads must be at least 1, got {}", o.heads()));
    if (o.heads() > kLargestProduct / o.memory_size()) {
      throw Error(
          fmt::format("heads * memory_size must be at most {}, got heads = {} and memory_size = {}",
                      kLargestProduct, o.heads(), o.memory_size()));
    }
    if (!(o.write_scale() >= 0 && o.write_scale() <= kLargestScale)) {
      throw Error(
          fmt::format("write_scale must be 0 to {}, got {}", kLargestScale, o.write_scale()));
    }
    if (o.write_scale() == 0 && o.head_activation() == N::HeadActivation::relu) {
      throw Error(
          "with write_scale = 0 ReLU heads would never learn to write: their gradient at 0 is 0; "
          "choose a small write_scale, such as 0.1");
    }
    if (!(o.write_limit() >= 0 && std::isfinite(o.write_limit()))) {
      throw Error(fmt::format("write_limit must be a number above 0, or 0 for no limit, got {}",
                              o.write_limit()));
    }
    const std::int64_t factor = o.direction() == N::Direction::shared ? o.heads() : 1;
    if (o.direction() == N::Direction::full || is_square(factor * o.memory_size())) return;
    const std::int64_t nearest = nearest_memory_size(o.memory_size(), factor, o.heads());
    throw Error(
        fmt::format("{} must be a square, got heads = {} and memory_size = {}; {}",
                    o.direction() == N::Direction::shared ? "heads * memory_size"
                                                          : "memory_size (direction per_head)",
                    o.heads(), o.memory_size(),
                    nearest > 0 ? fmt::format("the nearest memory_size that works is {}", nearest)
                                : "no memory_size works with so many heads"));
  }

  static void read(const OptionMap& map, NRUOptions& o) {
    const auto text = [&](const char* key) { return get<std::string>(map, key); };
    o.memory_size(get<std::int64_t>(map, "memory_size")).heads(get<std::int64_t>(map, "heads"));
    o.combine(text("combine") == "sum" ? N::Combine::sum : N::Combine::mean);
    o.head_activation(text("head_activation") == "relu" ? N::HeadActivation::relu
                                                        : N::HeadActivation::linear);
    o.direction(text("direction") == "full"       ? N::Direction::full
                : text("direction") == "per_head" ? N::Direction::per_head
                                                  : N::Direction::shared);
    o.overflow(text("overflow") == "authors" ? N::Overflow::authors : N::Overflow::safe);
    o.memory_update(text("memory_update") == "multiply" ? N::MemoryUpdate::multiply
                                                        : N::MemoryUpdate::add);
    o.heads_see_input(get<bool>(map, "heads_see_input")).layer_norm(get<bool>(map, "layer_norm"));
    o.write_scale(get<double>(map, "write_scale")).write_limit(get<double>(map, "write_limit"));
  }

  template <class T>
  static kernels::Program<T> program(const NRUOptions& o, int input_size) {
    kernels::NruShape s;
    s.input = input_size;
    s.hidden = static_cast<int>(o.hidden_size());
    s.memory = static_cast<int>(o.memory_size());
    s.heads = static_cast<int>(o.heads());
    s.direction = o.direction() == N::Direction::shared     ? kernels::NruDirection::shared
                  : o.direction() == N::Direction::per_head ? kernels::NruDirection::per_head
                                                            : kernels::NruDirection::full;
    s.sum_heads = o.combine() == N::Combine::sum;
    s.relu_heads = o.head_activation() == N::HeadActivation::relu;
    s.heads_see_input = o.heads_see_input();
    s.layer_norm = o.layer_norm();
    s.authors_overflow = o.overflow() == N::Overflow::authors;
    s.multiply_memory = o.memory_update() == N::MemoryUpdate::multiply;
    s.write_limit = o.write_limit();
    return kernels::nru_program<T>(s);
  }

  // Head outputs of one side -> unit directions [B,k,M].
  Tensor directions(const Tensor& numbers) const {
    const std::int64_t B = numbers.size(0), k = options.heads(), M = options.memory_size();
    Tensor V;
    if (options.direction() == N::Direction::full) {
      V = numbers.reshape({B, k, M});
    } else {
      const std::int64_t blocks = options.direction() == N::Direction::per_head ? k : 1;
      const auto pq =  // p of all blocks, then q
          numbers.reshape({B, 2, blocks, numbers.size(1) / (2 * blocks)});
      const Tensor p = pq.select(1, 0).unsqueeze(3), q = pq.select(1, 1).unsqueeze(2);
      V = (p * q).reshape({B, k, M});  // vec(p q^T), row-major, cut into heads
    }
    if (options.head_activation() == N::HeadActivation::relu) V = V.relu();
    return normalise(V, options.overflow());
  }

  StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const {
    const Tensor &h_prev = state[0], &m_prev = state[1];  // [B,H], [B,M]
    const bool relu = options.head_activation() == N::HeadActivation::relu;
    const double limit = options.write_limit();
    const auto f = [=](const Tensor& t) {
      const Tensor strength = relu ? t.relu() : t;
      return limit > 0 ? strength.clamp(-limit, limit) : strength;
    };

    Tensor a = torch::linear(torch::cat({x, h_prev, m_prev}, 1), w("weight"), w("bias"));
    if (options.layer_norm())
      a = torch::layer_norm(a, {a.size(1)}, w("norm_weight"), w("norm_bias"),
                            kernels::kLayerNormEps);
    const Tensor h = a.relu();

    const Tensor zeta =
        torch::cat(options.heads_see_input() ? Tensors{x, h, m_prev} : Tensors{h, m_prev}, 1);
    const Tensor heads = torch::linear(zeta, w("head_weight"), w("head_bias"));  // [B, 2k + 2D]
    const std::int64_t k = options.heads(), D = (heads.size(1) - 2 * k) / 2;
    const auto parts = heads.split_with_sizes({k, k, D, D}, 1);
    const Tensor alpha = f(parts[0]).unsqueeze(2), beta = f(parts[1]).unsqueeze(2);  // [B,k,1]
    const Tensor write = directions(parts[2]), erase = directions(parts[3]);         // [B,k,M]

    const double c = options.combine() == N::Combine::mean ? 1.0 / static_cast<double>(k) : 1.0;
    const Tensor change = c * (alpha * write - beta * erase).sum(1);
    const Tensor m =
        options.memory_update() == N::MemoryUpdate::add ? m_prev + change : m_prev * change;
    return {h, {h, m}};
  }

  void initialise(Initializer& init, const Weights& w) const {
    init.linear(w("weight"), w("weight").size(1));
    init.linear(w("bias"), w("weight").size(1));
    if (options.layer_norm()) {
      init.constant(w("norm_weight"), 1);
      init.constant(w("norm_bias"), 0);
    }
    init.linear(w("head_weight"), w("head_weight").size(1));
    init.linear(w("head_bias"), w("head_weight").size(1));
    const torch::NoGradGuard no_grad;
    for (const char* name : {"head_weight", "head_bias"})  // of alpha and beta
      w(name).narrow(0, 0, 2 * options.heads()).mul_(options.write_scale());
  }
};

template class CellLayer<NRUImpl, NRUOptions>;

namespace {

// On the copying tasks: no spike in 24 runs of 200,000 updates (docs/results.md).
const OptionMap kCalm = {
    {"clip_state", 0.1}, {"cell.write_limit", 4.0}, {"amsgrad", true}, {"anneal", 0.5}};

const CellRegistrar registrar(cell_row<NRUImpl>({
    .name = "nru",
    .summary = "Non-saturating Recurrent Unit: a ReLU network that writes to an external memory",
    .options = {{"hidden_size", std::int64_t{80}, "units of h", {}},
                {"memory_size", std::int64_t{64}, "size of the memory m", {}},
                {"heads",
                 std::int64_t{4},
                 "write and erase heads k; k * memory_size must be a square",
                 {}},
                {"combine", std::string("mean"), "how heads add up", {"mean", "sum"}},
                {"head_activation",
                 std::string("linear"),
                 "f of alpha, beta and the directions",
                 {"linear", "relu"}},
                {"direction",
                 std::string("shared"),
                 "how directions are factored",
                 {"shared", "per_head", "full"}},
                {"overflow",
                 std::string("safe"),
                 "norms: scale-safe, or frozen on float32 overflow as published",
                 {"safe", "authors"}},
                {"memory_update",
                 std::string("add"),
                 "m = m' + the heads' sum, or m = m' * it, from a memory of ones",
                 {"add", "multiply"}},
                {"heads_see_input", false, "heads read x_t too, as the paper's text says", {}},
                {"layer_norm", false, "layer norm on the pre-activation of h", {}},
                {"write_scale",
                 1.0,
                 "factor of alpha's and beta's initial weights; 0 for long sequences",
                 {}},
                {"write_limit",
                 0.0,
                 "alpha and beta are cut off at plus and minus this, such as 4; 0 for no limit",
                 {}}},
    .sizes = {{"copy",
               {{"hidden_size", std::int64_t{80}},
                {"memory_size", std::int64_t{64}},
                {"heads", std::int64_t{4}}}},
              {"psmnist",
               {{"hidden_size", std::int64_t{212}},
                {"memory_size", std::int64_t{256}},
                {"heads", std::int64_t{4}}}},
              {"char-lm",
               {{"hidden_size", std::int64_t{1000}},
                {"memory_size", std::int64_t{576}},
                {"heads", std::int64_t{4}},
                {"head_activation", std::string("relu")}}}},
    .presets = {{"authors",
                 {{"copy@100", {{"clip_norm", 0.5}, {"amsgrad", true}}},
                  {"copy@200", {{"clip_norm", 0.5}, {"amsgrad", true}}},
                  {"copy-variable@200", {{"clip_norm", 1.0}, {"amsgrad", true}}}}},
                {"recommended",
                 {{"copy", kCalm},
                  {"copy-variable", kCalm},
                  {"psmnist",
                   {{"average", 0.999},
                    {"anneal", 0.6},
                    {"cell.overflow", std::string("authors")},
                    {"task_options.dropout", 0.2}}},
                  {"char-lm", {{"average", 0.999}, {"anneal", 0.5}}}}}},
}));

}  // namespace
}  // namespace nru
