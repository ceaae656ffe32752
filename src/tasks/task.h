// What a network is asked to learn: the interface between tasks and training.
//
// A task makes batches and judges predictions; it knows no model and no torch. Every batch is a
// pure function of (settings, split, index), so a run can be repeated, resumed and spread over
// machines without carrying generator state.
//
// A task is one file: a class derived from Task and a static Registrar (registry.h) that adds its
// TaskInfo to the table which the command line, configurations, tests and reports read.
#pragma once

#include <nru/options.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nru::tasks {

class DeviceBatches;  // tasks/cuda/device_batches.h

enum class Split { train, valid, test };

inline constexpr int kLongestLag = 1'000'000;  // of any task

// What a batch starts from. The state that goes on is that of the batch before it in the same
// split, detached: no gradient flows into earlier batches.
enum class Carry {
  nothing,  // zero
  state,    // all of the final state of batch index-1
  memory  // only its parts that are not the output (m of the NRU, c of the LSTM); the rest is zero
};

const char* to_string(Split split);

// What holds of a batch whether its arrays are filled or not. The loss of a batch is
// sum(w * cross_entropy) / sum(w) over its positions, with w = 0 before loss_from and the batch's
// weights (or 1 where it has none) from there on.
struct BatchFrame {
  int steps = 0;
  int rows = 0;
  int loss_from = 0;  // first step that counts in the loss
  // Loss of the memory-less predictor on this batch. 0: the task has none, or the batch is easier.
  double baseline = 0;
  Carry carry = Carry::nothing;

  // From loss_from on: sum(w) without weights.
  double counted_positions() const { return static_cast<double>(steps - loss_from) * rows; }
  bool operator==(const BatchFrame&) const = default;
};

// What whoever lays out memory for a batch, or has it made on a device, must know of it.
struct BatchShape : BatchFrame {
  int dense_width = 0;    // I of the dense input; 0: symbols
  bool weighted = false;  // has weights of its own
  double weight_sum = 0;  // sum(w)

  bool operator==(const BatchShape&) const = default;
};

// One minibatch, time-major.
struct Batch : BatchFrame {
  // Exactly one of the two inputs is filled.
  std::vector<std::int32_t> symbols;  // [T,B] class ids, fed one-hot or through an embedding
  std::vector<float> dense;           // [T,B,I] real-valued input
  std::vector<std::int32_t> targets;  // [T,B] class ids; read only where the loss counts
  std::vector<float> weights;         // [T,B], or empty: every position from loss_from counts alike

  double weight_sum() const;  // sum(w): the batch's weight in a mean over batches
  BatchShape shape() const;
  // Takes this shape; the arrays that it needs have their sizes and any values, the others none.
  void reshape(const BatchShape& shape);
};

// Counts made from predictions. Counts, not rates, so that batches of unequal size add up exactly.
struct Score {
  std::int64_t right = 0;      // positions predicted correctly ...
  std::int64_t counted = 0;    // ... of so many that accuracy is about
  std::int64_t exact = 0;      // sequences without an error ...
  std::int64_t sequences = 0;  // ... of so many; 0 where the question makes no sense

  Score& operator+=(const Score& other);
  std::optional<double> accuracy() const;    // 0..1
  std::optional<double> exact_rate() const;  // 0..1
  bool operator==(const Score&) const = default;
};

// A part of a sequence that has a meaning of its own.
struct Stretch {
  std::string name;
  int begin = 0, end = 0;  // steps
};

class Task {
 public:
  virtual ~Task() = default;

  // Number of symbols, or the width I of the dense input.
  virtual int input_size() const = 0;
  // Width of the learned embedding of the symbols; 0: one-hot (or dense) input goes straight to the
  // cell.
  virtual int embedding_size() const { return 0; }
  virtual int output_size() const = 0;

  // Fills `batch` anew and reuses its memory. For Split::train, index counts updates from 0; for
  // the others it counts the batches of one evaluation, 0 .. evaluation_batches(split)-1.
  virtual void make_batch(Split split, std::uint64_t index, Batch& batch) const = 0;
  // The shape of that batch. Made from the batch itself unless a task knows better: a trainer whose
  // batches are made on a device asks for it before every update.
  virtual BatchShape shape(Split split, std::uint64_t index) const;
  // Makes the same batches on the current CUDA device; null where the task cannot, or the build has
  // no CUDA. Holds its own copy of what it needs of the task.
  virtual std::unique_ptr<DeviceBatches> device_batches() const;
  // Whether any training batch carries something, so that a checkpoint must hold it.
  virtual bool carries_state() const { return false; }
  virtual std::int64_t evaluation_batches(Split split) const = 0;
  // Updates that make one pass over the training data; 0 where data is generated without end.
  virtual std::int64_t updates_per_epoch() const { return 0; }

  // predictions [T,B]: the most likely class at every position.
  virtual Score score(const Batch& batch, std::span<const std::int32_t> predictions) const = 0;
  // The batch's weight in the mean loss of a split.
  virtual double evaluation_weight(const Batch& batch) const { return batch.weight_sum(); }
  // Bits per character of a mean loss in nats, for tasks that are reported so.
  virtual std::optional<double> bpc(double /*loss*/) const { return std::nullopt; }

  // Expected loss of the best predictor without memory; 0: none is defined.
  virtual double baseline() const { return 0; }

  // The parts of a batch's first row, in order, where they mean something; for analyses.
  virtual std::vector<Stretch> stretches(const Batch& /*batch*/) const { return {}; }

  // What else the weights need to be of use without the task's data (the vocabulary of a text), and
  // what tells these data from others; in the metadata of best.safetensors and of checkpoints.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
};

// The widths of a network on a task.
struct Widths {
  int input = 0;      // symbols, or width of the dense input
  int embedding = 0;  // 0: none
  int output = 0;

  bool operator==(const Widths&) const = default;
};

// What a task is made from, already checked against its TaskInfo.
struct TaskSettings {
  std::uint64_t seed = 1;
  int batch_size = 1;
  int lag = 0;        // T; 0 for tasks without one
  OptionMap options;  // task_options.*, every key present
};

// Run settings a task brings along; the cell, the preset and the user may override them.
struct RunDefaults {
  std::int64_t updates = 0;  // exactly one of updates and epochs is positive
  std::int64_t epochs = 0;
  int batch_size = 10;
  std::optional<int> lag;       // empty: the task knows no lag and refuses the key
  std::int64_t log_every = 10;  // updates
  std::int64_t evaluate_every =
      0;  // updates; 0: after each epoch, or only at the end where there are none
  double learning_rate = 1e-3;
  double clip_norm = 1.0;
  bool amsgrad = false;
};

// The validation metric that picks best.safetensors.
enum class SelectBy { loss, accuracy };

struct TaskInfo {
  std::string name;
  std::string summary;              // one line for `nru list`
  std::vector<OptionSpec> options;  // keys under task_options.
  std::vector<std::string> paths;   // those of them that say where data lie
  RunDefaults defaults;
  std::string size_class;  // which sizes of a cell apply: "copy", "psmnist" or "char-lm"
  SelectBy select_by = SelectBy::loss;
  Widths widths;  // on the paper's data, for parameter counts where the data is not at hand
  // The longest dependency in steps, T_max of chrono initialisation. Here and not in Task, because
  // a configuration is resolved before any data is loaded.
  std::function<int(const TaskSettings&)> chrono_t_max;
  std::function<std::unique_ptr<Task>(const TaskSettings&)>
      make;  // throws nru::Error on impossible settings
};

}  // namespace nru::tasks
