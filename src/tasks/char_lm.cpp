// Character-level language model: predict the next character of the Penn Treebank, or of any text.
//
// The text is cut into batch_size equal, contiguous lanes (the remainder is dropped), and all lanes
// are read side by side in windows of `window` steps. Gradients stop at a window's beginning but
// the state goes on from one window to the next, and is zero at the beginning of each epoch and of
// each evaluation (and, with `reset_every`, every so many windows):
//
//   lane 0   |---- window 0 ----|---- window 1 ----| ... |- last -|
//   lane 1   |------------------|------------------| ... |--------|
//
// Each window's targets are its inputs moved on by one, so a lane of n tokens has n-1 predictions,
// and the last window is as short as it must be (48 of 150 steps on the Penn Treebank).
#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "support/sha256.h"
#include "tasks/accuracy.h"
#include "tasks/corpus.h"
#include "tasks/cuda/rule_batches.h"
#include "tasks/data_sets.h"
#include "tasks/lane_rule.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

// The published experiments divide by this instead of ln 2.
constexpr double kAuthorsLn2 = 0.693;
constexpr std::int64_t kLongestWindow = 1'000'000;
constexpr std::int64_t kMostWindows = 1'000'000'000;
constexpr std::int64_t kWidestEmbedding = 1'000'000;

void check_range(const char* key, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    throw Error(fmt::format("task_options.{} {} is not possible; choose {} to {}", key, value,
                            least, most));
  }
}

Corpus load(const OptionMap& options) {
  const auto text = get<std::string>(options, "text"), data = get<std::string>(options, "data");
  if (text.empty()) {
    const auto paths = locate_data_set(find_data_set("ptb"), data);
    return load_corpus({paths[0], paths[1], paths[2]});
  }
  if (!data.empty()) {
    throw Error(
        "task_options.text and task_options.data are both set; text is a text of your own, data "
        "where the Penn Treebank lies");
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(text, ignored)) return load_corpus(text_files_in(text));
  const auto valid = get<double>(options, "valid_fraction");
  const auto test = get<double>(options, "test_fraction");
  if (!(valid > 0 && test > 0 && valid + test < 1)) {
    throw Error(
        fmt::format("task_options.valid_fraction {} and test_fraction {} are not possible; "
                    "both must be above 0 and their sum below 1",
                    valid, test));
  }
  return load_corpus(text, valid, test);
}

class CharLm : public Task {
 public:
  explicit CharLm(const TaskSettings& settings)
      : lanes_(settings.batch_size),
        window_(get<std::int64_t>(settings.options, "window")),
        reset_every_(get<std::int64_t>(settings.options, "reset_every")),
        embedding_(get<std::int64_t>(settings.options, "embedding")),
        authors_metric_(get<bool>(settings.options, "authors_metric")) {
    check_range("window", window_, 1, kLongestWindow);
    check_range("reset_every", reset_every_, 0, kMostWindows);
    check_range("embedding", embedding_, 0, kWidestEmbedding);
    if (lanes_ < 1)
      throw Error(fmt::format("batch_size {} is not possible; choose 1 or more", lanes_));
    corpus_ = load(settings.options);
    for (const Split split : {Split::train, Split::valid, Split::test}) {
      if (rule(split).predictions() >= 1) continue;
      const std::size_t size = corpus_.of(split).size();
      throw Error(fmt::format(
          "the {} text of {} characters is too short for batch_size {}; {}", to_string(split), size,
          lanes_, size < 2 ? "give it more text" : fmt::format("choose {} or less", size / 2)));
    }
  }

  int input_size() const override { return corpus_.vocabulary.size(); }
  int embedding_size() const override { return static_cast<int>(embedding_); }
  int output_size() const override { return corpus_.vocabulary.size(); }
  bool carries_state() const override { return windows_of(Split::train) > 1 && reset_every_ != 1; }
  std::int64_t evaluation_batches(Split split) const override { return windows_of(split); }
  std::int64_t updates_per_epoch() const override { return windows_of(Split::train); }

  BatchShape shape(Split split, std::uint64_t index) const override {
    const LaneRule rule = this->rule(split);
    const std::int64_t begin = rule.begin(index);
    BatchShape shape;
    shape.steps = static_cast<int>(std::min(window_, rule.predictions() - begin));
    shape.rows = lanes_;
    const bool reset = begin == 0 || (reset_every_ > 0 && begin / window_ % reset_every_ == 0);
    shape.carry = reset ? Carry::nothing : Carry::state;
    shape.weight_sum = shape.counted_positions();
    return shape;
  }

  void make_batch(Split split, std::uint64_t index, Batch& batch) const override {
    batch.reshape(shape(split, index));
    for (int lane = 0; lane < lanes_; ++lane) {
      const std::int32_t* token = corpus_.of(split).data() + rule(split).at(index, 0, lane);
      for (std::size_t at = lane; at < batch.symbols.size(); at += lanes_, ++token) {
        batch.symbols[at] = token[0];
        batch.targets[at] = token[1];
      }
    }
  }

#ifdef NRU_HAS_CUDA
  std::unique_ptr<DeviceBatches> device_batches() const override {
    auto train = on_device(corpus_.of(Split::train));
    auto valid = on_device(corpus_.of(Split::valid));
    auto test = on_device(corpus_.of(Split::test));
    const std::array rules{DeviceText{rule(Split::train), train.data()},
                           DeviceText{rule(Split::valid), valid.data()},
                           DeviceText{rule(Split::test), test.data()}};
    return make_rule_batches(rules, std::move(train), std::move(valid), std::move(test));
  }
#endif

  Score score(const Batch& batch, std::span<const std::int32_t> predictions) const override {
    return count_right(batch, predictions);
  }

  // The published figures are means over windows, however short the last one is.
  double evaluation_weight(const Batch& batch) const override {
    return authors_metric_ ? 1 : batch.weight_sum();
  }
  std::optional<double> bpc(double loss) const override {
    return loss / (authors_metric_ ? kAuthorsLn2 : std::log(2.0));
  }

  std::map<std::string, std::string> metadata() const override {
    Sha256 text;
    for (const auto& tokens : corpus_.tokens) {
      const auto bytes = std::as_bytes(std::span(tokens));
      text.update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
    return {{"vocabulary", corpus_.vocabulary.to_json()}, {"text", text.hex_digest()}};
  }

 private:
  LaneRule rule(Split split) const {
    return {static_cast<std::int64_t>(corpus_.of(split).size()) / lanes_, window_};
  }
  std::int64_t windows_of(Split split) const { return rule(split).windows(); }

  int lanes_;
  std::int64_t window_;
  std::int64_t reset_every_;  // windows; 0: only where the text begins
  std::int64_t embedding_;
  bool authors_metric_;
  Corpus corpus_;
};

TaskInfo char_lm_info() {
  TaskInfo info;
  info.name = "char-lm";
  info.summary = "character model: predict the next character of the Penn Treebank or of any text";
  info.options = {
      {"text",
       std::string(),
       "a text file in UTF-8, or a folder with train.txt, valid.txt, test.txt; empty: the Penn "
       "Treebank",
       {}},
      {"valid_fraction", 0.05, "part of a single text file that validates", {}},
      {"test_fraction", 0.05, "part of a single text file that tests, at its end", {}},
      {"data", std::string(), "where the Penn Treebank lies; empty: the data directory", {}},
      {"window", std::int64_t{150}, "steps that gradients flow back through", {}},
      {"reset_every",
       std::int64_t{0},
       "windows between two resets of the state; 0: it goes on through the whole text",
       {}},
      {"embedding", std::int64_t{200}, "width of the learned embedding; 0: one-hot input", {}},
      {"authors_metric",
       false,
       "evaluate as the authors did: all windows alike, bits by 0.693 instead of ln 2",
       {}}};
  info.paths = {"text", "data"};
  info.defaults.epochs = 20;
  info.defaults.batch_size = 128;
  info.size_class = "char-lm";
  info.select_by = SelectBy::loss;
  info.widths = {50, 200, 50};
  // As published: a third of the window. Chrono initialisation needs 2 at least.
  info.chrono_t_max = [](const TaskSettings& settings) {
    return static_cast<int>(std::clamp<std::int64_t>(
        get<std::int64_t>(settings.options, "window") / 3, 2, kLongestWindow));
  };
  info.make = [](const TaskSettings& settings) { return std::make_unique<CharLm>(settings); };
  return info;
}

const Registrar registrar(char_lm_info());

}  // namespace
}  // namespace nru::tasks
