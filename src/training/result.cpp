// result.json with nlohmann's ordered JSON, so that the keys come in the order of the
// documentation.
#include "training/result.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "support/atomic_file.h"
#include "support/json.h"
#include "support/suggest.h"
#include "support/text_file.h"
#include "training/criteria.h"

namespace nru::training {
namespace {

using Json = nlohmann::ordered_json;

constexpr RunStatus kStatuses[] = {RunStatus::finished, RunStatus::solved, RunStatus::diverged,
                                   RunStatus::interrupted, RunStatus::failed};

Json metrics_json(const std::optional<Metrics>& metrics) {
  if (!metrics) return Json::object();
  return {{"loss", or_null(metrics->loss)},
          {"accuracy", or_null(metrics->accuracy)},
          {"bpc", or_null(metrics->bpc)}};
}

template <class T>
std::optional<T> optional_of(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<T>();
}

std::optional<Metrics> metrics_of(const Json& value) {
  if (!value.is_object()) throw Error("metrics must be an object");
  if (value.empty()) return std::nullopt;
  return Metrics{optional_of<double>(value.at("loss")), optional_of<double>(value.at("accuracy")),
                 optional_of<double>(value.at("bpc"))};
}

RunStatus status_of(const std::string& name) {
  std::vector<std::string> known;
  for (RunStatus status : kStatuses) {
    if (name == to_string(status)) return status;
    known.emplace_back(to_string(status));
  }
  throw Error(fmt::format("unknown status '{}'{}", name, did_you_mean(name, known)));
}

Result result_of(const Json& json) {
  Result result;
  json.at("task").get_to(result.task);
  json.at("cell").get_to(result.cell);
  json.at("seed").get_to(result.seed);
  json.at("parameters").get_to(result.parameters);
  json.at("updates").get_to(result.updates);
  result.status = status_of(json.at("status").get<std::string>());
  result.baseline_loss = optional_of<double>(json.at("baseline_loss"));
  result.solved_at = optional_of<std::int64_t>(json.at("solved_at"));
  result.solved_at_1pct = optional_of<std::int64_t>(json.at("solved_at_1pct"));
  json.at("spikes").get_to(result.spikes);
  result.recoveries = json.value("recoveries", std::int64_t{0});  // older results have none
  json.at("preset").get_to(result.preset);
  result.average = json.value("average", 0.0);
  json.at("seconds").get_to(result.seconds);
  json.at("device").get_to(result.device);
  json.at("commit").get_to(result.commit);
  json.at("versions").get_to(result.versions);
  const Json& final = json.at("final");
  result.final = {metrics_of(final.at("train")), metrics_of(final.at("valid")),
                  metrics_of(final.at("test"))};
  const Json& best = json.at("best");
  result.best = {optional_of<std::int64_t>(best.at("update")), metrics_of(best.at("valid")),
                 metrics_of(best.at("test"))};
  return result;
}

}  // namespace

const char* to_string(RunStatus status) {
  switch (status) {
    case RunStatus::finished:
      return "finished";
    case RunStatus::solved:
      return "solved";
    case RunStatus::diverged:
      return "diverged";
    case RunStatus::interrupted:
      return "interrupted";
    case RunStatus::failed:
      return "failed";
  }
  return "?";
}

std::string moved_to(const std::string& before, std::int64_t update, const std::string& device) {
  if (before.empty() || update == 0) return device;
  const bool is_there = before == device || before.ends_with(" on " + device);
  return is_there ? before : fmt::format("{}, from update {} on {}", before, update + 1, device);
}

std::string to_json(const Result& result) {
  const Json json = {{"task", result.task},
                     {"cell", result.cell},
                     {"seed", result.seed},
                     {"parameters", result.parameters},
                     {"updates", result.updates},
                     {"status", to_string(result.status)},
                     {"baseline_loss", or_null(result.baseline_loss)},
                     {"solved_at", or_null(result.solved_at)},
                     {"solved_at_1pct", or_null(result.solved_at_1pct)},
                     {"spikes", result.spikes},
                     {"recoveries", result.recoveries},
                     {"preset", result.preset},
                     {"average", result.average},
                     {"seconds", result.seconds},
                     {"device", result.device},
                     {"commit", result.commit},
                     {"versions", Json(result.versions)},
                     {"final",
                      {{"train", metrics_json(result.final.train)},
                       {"valid", metrics_json(result.final.valid)},
                       {"test", metrics_json(result.final.test)}}},
                     {"best",
                      {{"update", or_null(result.best.update)},
                       {"valid", metrics_json(result.best.valid)},
                       {"test", metrics_json(result.best.test)}}}};
  // `replace`: a path or version that is not UTF-8 must not cost the whole result.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result parse_result(const std::string& text, const std::string& name) {
  const auto reject = [&](const std::string& reason) {
    return Error(
        fmt::format("{} is not a result of nru: {}; run the training again", name, reason));
  };
  try {
    return result_of(Json::parse(text));
  } catch (const Json::exception& error) {
    throw reject(error.what());
  } catch (const Error& error) {
    throw reject(error.what());
  }
}

void write_result(const std::filesystem::path& path, const Result& result) {
  write_file_atomically(path, to_json(result));
}

Result read_result(const std::filesystem::path& path) {
  return parse_result(read_text_file(path, "result"), path.string());
}

bool is_outdated(const Result& result, const Goal& goal, std::int64_t logged) {
  if (logged > result.updates) return true;
  if (result.status != RunStatus::finished && result.status != RunStatus::solved) return false;
  if (result.updates >= goal.updates) return false;
  if (!result.solved_at) return true;
  const bool settled = result.updates - *result.solved_at >= SolvedTracker::settled_after;
  return !goal.stop_when_solved && !(goal.stop_when_settled && settled);
}

}  // namespace nru::training
