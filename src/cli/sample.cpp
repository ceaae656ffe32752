// `nru sample RUN`: text from a character model. Needs the run's weights and nothing else: the
// vocabulary lies beside them.
#include <fmt/format.h>
#include <nru/error.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/run_weights.h"
#include "cli/text.h"
#include "support/safetensors.h"
#include "tasks/vocabulary.h"
#include "training/checkpoint.h"
#include "training/sampler.h"

namespace nru::cli {
namespace {

struct Given {
  std::string run, weights, prompt;
  double temperature = 1;
  std::int64_t length = 400;
  std::uint64_t seed = 1;
  bool json = false;
};

tasks::Vocabulary vocabulary_of(const SafetensorsFile& file) {
  const auto found = file.metadata().find("vocabulary");
  if (found == file.metadata().end()) {
    throw Error(fmt::format(
        "{} holds no vocabulary, so there is no text to write; nru sample needs a run of char-lm",
        file.name()));
  }
  return tasks::Vocabulary::from_json(found->second, file.name());
}

// The network behind the weights, from what the file itself says of the sizes.
Model model_of(const training::RunConfig& config, const SafetensorsFile& file,
               std::int64_t symbols) {
  const TensorView* embedding = file.find("embedding.weight");
  const bool embedded = embedding != nullptr && embedding->shape.size() == 2;
  return Model(ModelSettings{.cell = config.cell,
                             .cell_options = config.cell_options,
                             .input_size = symbols,
                             .output_size = symbols,
                             .embedding_size = embedded ? embedding->shape[1] : 0});
}

// What a prompt of nothing stands for: the start of a line, where the text has lines.
std::vector<std::int32_t> first_symbols(const tasks::Vocabulary& vocabulary,
                                        const std::string& prompt) {
  if (!prompt.empty()) return vocabulary.encode(prompt);
  if (const auto end = vocabulary.find(tasks::Vocabulary::kEndOfSentence)) return {*end};
  return {vocabulary.find(U'\n').value_or(0)};
}

int sample(const Given& given) {
  const training::RunPaths paths{given.run};
  const training::RunConfig config = config_of(paths);
  const SafetensorsFile file = SafetensorsFile::load(choose_weights(paths, given.weights).path);
  const tasks::Vocabulary vocabulary = vocabulary_of(file);
  Model model = model_of(config, file, vocabulary.size());
  training::FlatParameters parameters(*model);
  training::load_weights(file, parameters);

  training::Sampler sampler(model, given.seed);
  for (const std::int32_t symbol : first_symbols(vocabulary, given.prompt)) sampler.read(symbol);
  std::string text;
  if (!given.json) print(given.prompt);
  for (std::int64_t i = 0; i < given.length && output_is_read(); ++i) {
    const std::int32_t symbol = sampler.draw(given.temperature);
    text += vocabulary.decode(symbol);
    if (!given.json) {
      print(vocabulary.decode(symbol));
      flush_output();
    }
    sampler.read(symbol);
  }
  if (given.json) {
    const nlohmann::ordered_json json = {{"run", given.run},
                                         {"prompt", given.prompt},
                                         {"temperature", given.temperature},
                                         {"seed", given.seed},
                                         {"text", text}};
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else {
    print("\n");
  }
  return 0;
}

}  // namespace

void add_sample(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("sample", "Write text with a character model");
  const auto given = std::make_shared<Given>();
  command->add_option("RUN", given->run, "run directory of a char-lm run")
      ->required()
      ->type_name("");
  command
      ->add_option("--weights", given->weights, "best or last; default: best where there are any")
      ->type_name("NAME");
  command->add_option("--prompt", given->prompt, "what the text begins with")->type_name("TEXT");
  command
      ->add_option("--temperature", given->temperature,
                   "below 1 safer, above 1 wilder, 0 the most likely character (default 1)")
      ->type_name("X")
      ->transform(CLI::Validator(
          any_number("--temperature", 0, std::numeric_limits<double>::max(),
                     "0 (the most likely character) or more, 1 being the model's own"),
          ""));
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  command->add_option("--length", given->length, "characters to write (default 400)")
      ->type_name("N")
      ->transform(CLI::Validator(whole_number("--length", 1, kMost, "1 or more"), ""));
  command->add_option("--seed", given->seed, "the same seed writes the same text (default 1)")
      ->type_name("N")
      ->transform(CLI::Validator(whole_number("--seed", 0, kMost, "0 or more"), ""));
  command->add_flag("--json", given->json, "print JSON");
  command->footer(R"(Examples:
  nru sample runs/char-lm-nru-seed1 --prompt "the company said "
  nru sample runs/char-lm-nru-seed1 --temperature 0.7 --length 1000 --seed 3)");
  command->callback([given, &invocation] { invocation.run = [given] { return sample(*given); }; });
}

}  // namespace nru::cli
