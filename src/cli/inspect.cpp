// `nru inspect RUN`: what the network of a run does with a sequence. Prints its parameters and how
// its memory moves; leaves the data behind it (CSV, PGM) and figures (SVG) in RUN/inspect.
#include <fmt/format.h>
#include <nru/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/inspect_files.h"
#include "cli/live_text.h"
#include "cli/run_weights.h"
#include "cli/summary.h"
#include "cli/text.h"

namespace nru::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Given {
  std::string run, weights, out;
  std::string device, threads;  // empty: the run's
  std::int64_t index = 0;
  bool json = false;
};

std::vector<ParameterRow> parameter_rows(const training::FlatParameters& parameters) {
  std::vector<ParameterRow> rows;
  for (const auto& entry : parameters.entries()) {
    const float* values = parameters.values() + entry.offset;
    double sum = 0, squares = 0, largest = 0;
    for (std::int64_t i = 0; i < entry.size; ++i) {
      sum += values[i];
      squares += static_cast<double>(values[i]) * values[i];
      largest = std::max(largest, std::fabs(static_cast<double>(values[i])));
    }
    const double mean = sum / static_cast<double>(entry.size);
    const double variance = squares / static_cast<double>(entry.size) - mean * mean;
    rows.push_back({entry.name, fmt::format("{}", fmt::join(entry.shape, " x ")), entry.size, mean,
                    std::sqrt(std::max(variance, 0.0)), largest});
  }
  return rows;
}

Findings find(const Given& given) {
  if (given.index < 0)
    throw Error(fmt::format("index {} is not possible; choose 0 or more", given.index));
  const training::RunPaths paths{given.run};
  Findings found;
  found.config = config_of(paths, {{"device", given.device}, {"threads", given.threads}});
  found.weights = choose_weights(paths, given.weights);
  training::Setup setup(found.config);
  load_weights(found.weights, setup);
  found.parameters = parameter_rows(setup.parameters);
  const std::int64_t batches = setup.task->evaluation_batches(tasks::Split::test);
  if (given.index >= batches) {
    throw Error(
        fmt::format("index {} is beyond the test split; choose 0 to {}", given.index, batches - 1));
  }
  tasks::Batch batch;
  setup.task->make_batch(tasks::Split::test, static_cast<std::uint64_t>(given.index), batch);
  found.stretches = setup.task->stretches(batch);
  found.batch = training::one_row(batch, 0);
  found.memory = memory_map(setup, found.batch);
  found.gradient_flow = gradient_flow(setup, found.batch);
  LiveText line;
  if (found.config.lag > 0) {
    if (setup.task->carries_state())
      found.groups = group_positions(setup);
    else
      found.lags = longer_lags(setup, [&](std::int64_t done, std::int64_t all) {
        line.show(fmt::format("longer lags: batch {} of {}", done, all));
      });
  }
  return found;
}

std::string parameters_text(const Findings& found) {
  std::vector<std::vector<std::string>> rows{
      {"parameter", "shape", "count", "mean", "deviation", "largest"}};
  std::int64_t total = 0;
  for (const ParameterRow& row : found.parameters) {
    rows.push_back({row.name, row.shape, training::format_count(row.size),
                    fmt::format("{:.4f}", row.mean), fmt::format("{:.4f}", row.deviation),
                    fmt::format("{:.4f}", row.largest)});
    total += row.size;
  }
  return align(rows, {false, false, true, true, true, true}, "  ") +
         fmt::format("  {} parameters in all\n", training::format_count(total));
}

std::string memory_text(const Findings& found) {
  if (found.stretches.empty()) return "";  // a text has no parts that would be told apart
  std::string text = fmt::format("\nOne test sequence of {} steps: where {} ({} units) changes\n",
                                 found.memory.steps, found.memory.part, found.memory.units);
  std::vector<std::vector<std::string>> rows;
  for (const tasks::Stretch& stretch : found.stretches) {
    const double steps = stretch.end - stretch.begin;
    rows.push_back({stretch.name, fmt::format("steps {}..{}", stretch.begin, stretch.end - 1),
                    fmt::format("{:.1f} % of all change",
                                100 * found.memory.share(stretch.begin, stretch.end)),
                    fmt::format("in {:.1f} % of the steps", 100 * steps / found.memory.steps)});
  }
  return text + align(rows, {false, false, true, true}, "  ");
}

std::string flow_text(const std::vector<double>& norms) {
  return fmt::format(
      "\nGradient of the last position's loss: |dL/dh| {:.3g} at the last step, {:.3g} half-way, "
      "{:.3g} at the first\n",
      norms.back(), norms[norms.size() / 2], norms.front());
}

// How much of the test split that is: `nru eval` looks at all of it.
std::string part_text(const training::RunConfig& config) {
  const auto [part, all] = training::lag_batches(config);
  if (all == 0) return "";
  const auto sequences = [&](std::int64_t batches) {
    return training::format_count(batches * config.batch_size);
  };
  if (part == all) return fmt::format(" ({} test sequences each)", sequences(all));
  return fmt::format(" (the first {} of {} test sequences each)", sequences(part), sequences(all));
}

std::string lags_text(const Findings& found) {
  std::vector<std::vector<std::string>> rows{{"lag", "accuracy", "exact sequences"}};
  for (const auto& [lag, scores] : found.lags) {
    rows.push_back({training::format_count(lag),
                    fmt::format("{:.2f} %", 100 * scores.accuracy.value_or(0)),
                    fmt::format("{:.1f} %", 100 * scores.exact.value_or(0))});
  }
  return fmt::format("\nAt its lag, and at lags that training never saw{}:\n",
                     part_text(found.config)) +
         align(rows, {true, true, true}, "  ");
}

std::string groups_text(const std::vector<training::GroupPosition>& groups) {
  std::vector<std::vector<std::string>> rows{{"sequence since reset", "accuracy",
                                              "memory at its start",
                                              fmt::format("after {} steps", training::kSettling)}};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    rows.push_back({fmt::format("{}", i + 1),
                    fmt::format("{:.2f} %", 100 * groups[i].score.accuracy().value_or(0)),
                    fmt::format("{:.4g}", groups[i].memory_at_start),
                    fmt::format("{:.4g}", groups[i].memory_after)});
  }
  return "\nSequences without a reset in between:\n" + align(rows, {true, true, true, true}, "  ");
}

std::string human_text(const Findings& found, const std::filesystem::path& folder) {
  const auto update = update_of(found.weights);
  std::string text =
      fmt::format("{}, {} weights{}\n", run_label(found.config), found.weights.kind,
                  update ? fmt::format(" (update {})", training::format_count(*update)) : "");
  text += parameters_text(found) + memory_text(found) + flow_text(found.gradient_flow);
  if (!found.lags.empty()) text += lags_text(found);
  if (!found.groups.empty()) text += groups_text(found.groups);
  return text + fmt::format("\nData and figures are in {}\n", folder.string());
}

std::string json_text(const Given& given, const Findings& found,
                      const std::filesystem::path& folder) {
  Json parameters = Json::array(), shares = Json::array(), lags = Json::array(),
       groups = Json::array();
  for (const ParameterRow& row : found.parameters) {
    parameters.push_back({{"name", row.name},
                          {"shape", row.shape},
                          {"count", row.size},
                          {"mean", row.mean},
                          {"deviation", row.deviation},
                          {"largest", row.largest}});
  }
  for (const tasks::Stretch& stretch : found.stretches) {
    shares.push_back({{"name", stretch.name},
                      {"begin", stretch.begin},
                      {"end", stretch.end},
                      {"share", found.memory.share(stretch.begin, stretch.end)}});
  }
  for (const auto& [lag, scores] : found.lags) {
    lags.push_back({{"lag", lag},
                    {"accuracy", scores.accuracy.value_or(0)},
                    {"exact", scores.exact.value_or(0)},
                    {"relative_loss", scores.relative_loss.value_or(0)}});
  }
  for (const auto& group : found.groups) {
    groups.push_back({{"accuracy", group.score.accuracy().value_or(0)},
                      {"memory_at_start", group.memory_at_start},
                      {"memory_after", group.memory_after}});
  }
  const Json json = {{"run", given.run},
                     {"task", found.config.task},
                     {"cell", found.config.cell},
                     {"weights", found.weights.kind},
                     {"parameters", parameters},
                     {"memory", {{"part", found.memory.part}, {"change", shares}}},
                     {"gradient_flow", found.gradient_flow},
                     {"lags", lags},
                     {"groups", groups},
                     {"files", folder.string()}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int inspect(const Given& given) {
  const Findings found = find(given);
  const std::filesystem::path folder = given.out.empty()
                                           ? std::filesystem::path(given.run) / "inspect"
                                           : std::filesystem::path(given.out);
  const std::string missing = write_files(found, folder);
  print(given.json ? json_text(given, found, folder) : human_text(found, folder));
  if (!missing.empty()) errors() << one_line("nru: no figures: " + missing) << std::endl;
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what the network of a run does with its memory");
  const auto given = std::make_shared<Given>();
  command->add_option("RUN", given->run, "run directory")->required()->type_name("");
  command
      ->add_option("--weights", given->weights, "best or last; default: best where there are any")
      ->type_name("NAME");
  command
      ->add_option("--index", given->index,
                   "which batch of the test split to look at (its first row)")
      ->type_name("N");
  command->add_option("--out", given->out, "folder for data and figures (default RUN/inspect)")
      ->type_name("DIR");
  add_place(*command, given->device, given->threads);
  command->add_flag("--json", given->json, "print JSON");
  command->footer(
      R"(Writes memory.csv, memory_change.csv and .pgm (a row per time step), gradient_flow.csv,
input.csv, lags.csv (how it does at up to twenty times its lag), groups.csv for runs that carry
their state on, and figures as SVG.

Examples:
  nru inspect runs/copy-100-nru-seed1
  nru inspect runs/copy-100-nru-seed1 --device cpu         a run that was made on a GPU, without one
  nru inspect runs/copy-100-nru-seed1 --weights last --index 3)");
  command->callback([given, &invocation] { invocation.run = [given] { return inspect(*given); }; });
}

}  // namespace nru::cli
