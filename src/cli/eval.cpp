// `nru eval RUN`: the loss and scores of a run's weights on one split, through the same engine that
// trained them.
#include <fmt/format.h>
#include <nru/error.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/live_text.h"
#include "cli/run_weights.h"
#include "cli/summary.h"
#include "cli/text.h"
#include "support/json.h"
#include "support/suggest.h"
#include "training/trainer.h"

namespace nru::cli {
namespace {

using Json = nlohmann::ordered_json;
using training::Evaluation;
using training::RunPaths;

struct Given {
  std::string run;
  std::string split = "test";
  std::string weights;               // empty: best where there are any, else last
  std::string lag, device, threads;  // empty: the run's
  bool json = false;
};

tasks::Split split_of(const std::string& name) {
  std::vector<std::string> known;
  for (const tasks::Split split : {tasks::Split::train, tasks::Split::valid, tasks::Split::test}) {
    if (name == to_string(split)) return split;
    known.emplace_back(to_string(split));
  }
  throw Error(fmt::format("unknown split '{}'{}", name, did_you_mean(name, known)));
}

std::string json_text(const Given& given, const training::RunConfig& config,
                      const WeightsFile& weights, const Evaluation& result) {
  const Json json = {{"run", given.run},
                     {"task", config.task},
                     {"lag", config.lag > 0 ? Json(config.lag) : Json(nullptr)},
                     {"cell", config.cell},
                     {"weights", weights.kind},
                     {"update", or_null(update_of(weights))},
                     {"split", given.split},
                     {"loss", result.loss},
                     {"relative_loss", or_null(result.relative_loss)},
                     {"accuracy", or_null(result.accuracy)},
                     {"exact", or_null(result.exact)},
                     {"bpc", or_null(result.bpc)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string human_text(const Given& given, const training::RunConfig& config,
                       const WeightsFile& weights, const Evaluation& result) {
  const auto update = update_of(weights);
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"loss", fmt::format("{:.6g}", result.loss)});
  if (result.relative_loss)
    rows.push_back({"of the baseline", fmt::format("{:.4g} %", 100 * *result.relative_loss)});
  if (result.accuracy)
    rows.push_back({"accuracy", fmt::format("{:.4g} %", 100 * *result.accuracy)});
  if (result.exact)
    rows.push_back({"exact", fmt::format("{:.4g} % of the sequences", 100 * *result.exact)});
  if (result.bpc) rows.push_back({"bpc", fmt::format("{:.4f}", *result.bpc)});
  return fmt::format("{}, {} weights{}, {} split\n{}", run_label(config), weights.kind,
                     update ? fmt::format(" (update {})", training::format_count(*update)) : "",
                     given.split, align(rows, {}, "  "));
}

int evaluate_run(const Given& given) {
  const tasks::Split split = split_of(given.split);
  const RunPaths paths{given.run};
  const training::RunConfig config =
      config_of(paths, {{"lag", given.lag}, {"device", given.device}, {"threads", given.threads}});
  const WeightsFile weights = choose_weights(paths, given.weights);
  training::Setup setup(config);
  load_weights(weights, setup);
  const Evaluation result = [&] {
    LiveText line;
    return evaluate(*setup.engine, *setup.task, split, [&](std::int64_t done, std::int64_t all) {
      line.show(fmt::format("{} split: batch {} of {}", given.split, training::format_count(done),
                            training::format_count(all)));
    });
  }();
  print(given.json ? json_text(given, config, weights, result)
                   : human_text(given, config, weights, result));
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("eval", "Evaluate the weights of a run");
  const auto given = std::make_shared<Given>();
  command->add_option("RUN", given->run, "run directory")->required()->type_name("");
  command->add_option("--split", given->split, "train, valid or test (default test)")
      ->type_name("NAME");
  command
      ->add_option("--weights", given->weights,
                   "best (by validation) or last; default: best where there are any")
      ->type_name("NAME");
  command
      ->add_option("--lag", given->lag,
                   "another lag than the run's, such as one that training never saw")
      ->type_name("T");
  add_place(*command, given->device, given->threads);
  command->add_flag("--json", given->json, "print JSON");
  command->footer(R"(Examples:
  nru eval runs/copy-100-nru-seed1
  nru eval runs/copy-100-nru-seed1 --lag 2000             how far does it remember?
  nru eval runs/copy-100-nru-seed1 --device cpu            a run that was made on a GPU, without one
  nru eval runs/copy-100-nru-seed1 --split valid --weights last --json)");
  command->callback(
      [given, &invocation] { invocation.run = [given] { return evaluate_run(*given); }; });
}

}  // namespace nru::cli
