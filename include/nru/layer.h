// What all recurrent layers share: the conventions of torch::nn::LSTM, written once.
//
//   nru::NRU layer(nru::NRUOptions(10, 80).memory_size(64).heads(4));
//   auto [output, state] = layer->forward(x);          // x [T,B,10] -> output [T,B,80]
//   auto [more, next]    = layer->forward(x2, state);  // the state carries on
//
// A cell (include/nru/cells/*.h) adds its options, its equations and its initialisation.
#pragma once

#include <nru/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace nru {

namespace kernels {
template <class T>
struct Program;
}
class Initializer;
class FunctionalLayer;  // src/cells/functional.h: a layer whose parameters the caller keeps

enum class Backend {
  fused,  // the sequence kernels, where there is one for the tensor's type and device; otherwise
          // the reference
  reference,  // the equations in torch operations: any type, any device, any order of derivative
};

// The recurrent state: one tensor [num_layers, B, width] per part, in the cell's order (NRU: h, m;
// LSTM: h, c; RNN, GRU, JANET: h; SRU: mu).
struct State {
  std::vector<torch::Tensor> parts;

  bool empty() const { return parts.empty(); }
  const torch::Tensor& h() const { return parts.at(0); }
  const torch::Tensor& m() const { return parts.at(1); }   // NRU
  const torch::Tensor& c() const { return parts.at(1); }   // LSTM
  const torch::Tensor& mu() const { return parts.at(0); }  // SRU, which carries no h
  State detach() const;
};

// Options that every layer has. XOptions derive from this with their own chained setters.
template <class Derived>
struct LayerOptions {
  using Self = Derived;

  LayerOptions(std::int64_t input_size, std::int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}

#define NRU_OPTION(type, name, ...)                     \
 public:                                                \
  Self& name(type value) {                              \
    name##_ = std::move(value);                         \
    return static_cast<Self&>(*this);                   \
  }                                                     \
  const type& name() const noexcept { return name##_; } \
                                                        \
 private:                                               \
  type name##_ = __VA_ARGS__

  NRU_OPTION(std::int64_t, input_size, 0);
  NRU_OPTION(std::int64_t, hidden_size, 0);
  NRU_OPTION(std::int64_t, num_layers, 1);
  NRU_OPTION(double, dropout, 0.0);      // between stacked layers, in training mode
  NRU_OPTION(bool, batch_first, false);  // [B,T,F] instead of [T,B,F]
  NRU_OPTION(Backend, backend, Backend::fused);
  // In backward passes, what a step sends back to the state before it is, row by row, scaled down
  // to this norm where it is longer: a row that is about to tip over cannot drown the others. 0:
  // never, gradients are those of the loss.
  NRU_OPTION(double, state_gradient_limit, 0.0);
};

// What the base class needs of the options, whatever the cell.
struct LayerSettings {
  std::int64_t input_size = 0, hidden_size = 0, num_layers = 1;
  double dropout = 0;
  bool batch_first = false;
  Backend backend = Backend::fused;
  double state_gradient_limit = 0;

  template <class Derived>
  static LayerSettings from(const LayerOptions<Derived>& o) {
    return {o.input_size(),  o.hidden_size(), o.num_layers(),          o.dropout(),
            o.batch_first(), o.backend(),     o.state_gradient_limit()};
  }
};

// The parameters of one stacked layer by name, without the layer suffix: weights("head_bias").
class Weights {
 public:
  Weights(const std::vector<std::string>& names, std::vector<torch::Tensor> tensors)
      : names_(&names), tensors_(std::move(tensors)) {}
  const torch::Tensor& operator()(std::string_view name) const;
  const std::vector<torch::Tensor>& tensors() const { return tensors_; }

 private:
  const std::vector<std::string>* names_;
  std::vector<torch::Tensor> tensors_;
};

// What one time step makes, all [B, width].
struct StepValues {
  torch::Tensor output;
  std::vector<torch::Tensor> state;
};

class LayerImpl : public torch::nn::Module {
 public:
  // x [T,B,I] (or [B,T,I] with batch_first) -> output [T,B,H], state after each row's last step. An
  // empty state is initial_state(). lengths [B], integer, 1..T: the output past a row's length is
  // zero, and its final state is the one at its length.
  std::tuple<torch::Tensor, State> forward(const torch::Tensor& x, const State& state = {},
                                           const torch::Tensor& lengths = {});

  // One step of a stream: x [B,I] -> output [B,H] and the next state.
  std::tuple<torch::Tensor, State> step(const torch::Tensor& x, const State& state = {});

  // Every part of the top layer's state after every step, [T,B,width] each (or [B,T,width]): for
  // plots and analyses. Without gradients. Past a row's length they stay as they are there.
  std::vector<torch::Tensor> states(const torch::Tensor& x, const State& state = {},
                                    const torch::Tensor& lengths = {});

  // Zero, but for parts that the cell's header says otherwise of.
  State initial_state(std::int64_t batch) const;

  // Draws all parameters anew. The same seed gives the same network on every machine. Without one
  // (and in the constructor) the seed comes from torch's generator, so torch::manual_seed() governs
  // as usual.
  void reset_parameters(std::uint64_t seed);
  void reset_parameters();

  const LayerSettings& settings() const { return settings_; }
  void set_backend(Backend backend) { settings_.backend = backend; }
  void set_state_gradient_limit(double limit);
  const std::vector<std::string>& state_names() const { return state_names_; }
  Weights weights(std::int64_t layer) const;

  // The kernels' view of a stacked layer, for callers that drive them directly.
  template <class T>
  std::shared_ptr<const kernels::Program<T>> program(std::int64_t layer) const;

  // Whether forward() would use the kernels for tensors like x, and if not, why. Tangents of
  // forward-mode differentiation and tensors of function transforms go to the reference anyway.
  bool uses_kernels(const torch::Tensor& x, std::string* reason = nullptr) const;

 protected:
  explicit LayerImpl(LayerSettings settings);

  // What a cell contributes. Called for each stacked layer, whose input size may differ from the
  // first's.
  virtual kernels::Program<float> float_program(std::int64_t input_size) const = 0;
  virtual kernels::Program<double> double_program(std::int64_t input_size) const = 0;
  virtual StepValues reference_step(const torch::Tensor& x, const std::vector<torch::Tensor>& state,
                                    const Weights& weights) const = 0;
  virtual void initialise(Initializer& init, const Weights& weights) const = 0;

  // Registers and draws the parameters; the last line of the constructor.
  void build();

  std::shared_ptr<torch::nn::Module> copy_into(std::shared_ptr<LayerImpl> copy,
                                               const OptionalDevice& device) const;

 private:
  friend class FunctionalLayer;
  struct Kernels {
    std::shared_ptr<const kernels::Program<float>> float_program;
    std::shared_ptr<const kernels::Program<double>> double_program;
  };
  struct LayerRun {
    torch::Tensor output;
    std::vector<torch::Tensor> final_state;
  };
  // What forward(), step() and states() compute, as functions of the parameters.
  using Parameters = std::vector<std::vector<torch::Tensor>>;  // by stacked layer
  std::tuple<torch::Tensor, State> forward_with(const Parameters& parameters,
                                                const torch::Tensor& x, const State& state,
                                                const torch::Tensor& lengths, bool training) const;
  std::tuple<torch::Tensor, State> step_with(const Parameters& parameters, const torch::Tensor& x,
                                             const State& state, bool training) const;
  std::vector<torch::Tensor> states_with(const Parameters& parameters, const torch::Tensor& x,
                                         const State& state, const torch::Tensor& lengths) const;
  void initialise_with(const Parameters& parameters, std::uint64_t seed) const;

  static void check_settings(const LayerSettings& settings);
  void stack();
  Parameters own_parameters() const;
  void check_input(const torch::Tensor& x, std::int64_t dimensions,
                   const torch::Tensor& parameter) const;
  State initial_state(std::int64_t batch, const torch::Tensor& like) const;
  State checked_state(const State& state, std::int64_t batch, const torch::Tensor& like) const;
  // A copy on the CPU: the backward pass reads it again, and the caller may have changed theirs.
  torch::Tensor checked_lengths(const torch::Tensor& lengths, std::int64_t steps,
                                std::int64_t batch) const;
  // One stacked layer after the other, with dropout in between: `run` makes the LayerRun of a layer
  // from its number, its input and its initial state.
  template <class Run>
  std::tuple<torch::Tensor, State> run_stack(torch::Tensor values, const State& initial,
                                             bool training, const Run& run) const;
  LayerRun run_layer(std::int64_t layer, const std::vector<torch::Tensor>& parameters,
                     const torch::Tensor& x, const std::vector<torch::Tensor>& initial,
                     const torch::Tensor& lengths) const;
  std::vector<torch::Tensor> layer_states(std::int64_t layer,
                                          const std::vector<torch::Tensor>& parameters,
                                          const torch::Tensor& x,
                                          const std::vector<torch::Tensor>& initial,
                                          const torch::Tensor& lengths) const;
  LayerRun run_reference(const std::vector<torch::Tensor>& parameters, const torch::Tensor& x,
                         const std::vector<torch::Tensor>& initial, const torch::Tensor& lengths,
                         std::vector<std::vector<torch::Tensor>>* all_states = nullptr) const;
  std::int64_t layer_input(std::int64_t layer) const {
    return layer == 0 ? settings_.input_size : settings_.hidden_size;
  }

  LayerSettings settings_;
  std::vector<std::string> state_names_, parameter_names_;
  std::vector<std::int64_t> state_widths_;
  std::vector<double> state_initial_;  // value of every entry of a part in initial_state()
  std::vector<Kernels> kernels_;       // by stacked layer
};

// What a cell's file in src/cells/ defines: its checks, its kernel program, its equations in torch
// operations and its initialisation (src/cells/cell.h).
template <class Options>
struct Cell;

// The layer class of a cell. Defined in src/cells/cell.h and instantiated in the cell's file.
template <class Impl, class OptionsOfCell>
class CellLayer : public LayerImpl {
 public:
  using Options = OptionsOfCell;

  explicit CellLayer(const Options& options);
  CellLayer(std::int64_t input_size, std::int64_t hidden_size)
      : CellLayer(Options(input_size, hidden_size)) {}
  std::shared_ptr<torch::nn::Module> clone(const OptionalDevice& device = {}) const final;

  const Options options;

 private:
  kernels::Program<float> float_program(std::int64_t input_size) const final;
  kernels::Program<double> double_program(std::int64_t input_size) const final;
  StepValues reference_step(const torch::Tensor& x, const std::vector<torch::Tensor>& state,
                            const Weights& weights) const final;
  void initialise(Initializer& init, const Weights& weights) const final;

  std::shared_ptr<const Cell<Options>> cell_;
};

// The module XImpl with options XOptions, and X, its holder, as torch's own modules have them.
#define NRU_LAYER(X)                                      \
  class X##Impl : public CellLayer<X##Impl, X##Options> { \
   public:                                                \
    using CellLayer::CellLayer;                           \
  };                                                      \
  TORCH_MODULE(X)

}  // namespace nru
