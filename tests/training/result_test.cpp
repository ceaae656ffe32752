// result.json: the published form, the round trip, and what is refused.
#include "training/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "../support/test_files.h"

namespace nru::training {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

Result full_result() {
  Result result;
  result.task = "copy";
  result.cell = "nru";
  result.seed = 3;
  result.parameters = 23569;
  result.updates = 12300;
  result.status = RunStatus::solved;
  result.baseline_loss = 0.17328679513998632;
  result.solved_at = 12300;
  result.spikes = 2;
  result.recoveries = 3;
  result.preset = "paper";
  result.average = 0.999;
  result.seconds = 35.25;
  result.device = "cpu";
  result.commit = "abc";
  result.versions = {{"torch", "1.13.0"}, {"nru", "0.1.0"}};
  result.final.train = Metrics{0.1, std::nullopt, std::nullopt};
  result.final.valid = Metrics{1.0 / 3, 0.99, std::nullopt};
  result.best.update = 12000;
  result.best.valid = Metrics{0.3, 1.0, 1.47};
  return result;
}

TEST(ResultFile, HasThePublishedKeysInOrder) {
  const Json json = Json::parse(to_json(full_result()));
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  EXPECT_THAT(keys, testing::ElementsAre("task", "cell", "seed", "parameters", "updates", "status",
                                         "baseline_loss", "solved_at", "solved_at_1pct", "spikes",
                                         "recoveries", "preset", "average", "seconds", "device",
                                         "commit", "versions", "final", "best"));
  EXPECT_EQ(json["status"], "solved");
  EXPECT_TRUE(json["solved_at_1pct"].is_null());
  EXPECT_EQ(json["final"].dump(),
            R"({"train":{"loss":0.1,"accuracy":null,"bpc":null},)"
            R"("valid":{"loss":0.3333333333333333,"accuracy":0.99,"bpc":null},"test":{}})");
  EXPECT_EQ(json["best"].dump(),
            R"({"update":12000,"valid":{"loss":0.3,"accuracy":1.0,"bpc":1.47},"test":{}})");
  EXPECT_EQ(json["versions"]["torch"], "1.13.0");
}

TEST(ResultFile, RoundTripThroughADirectory) {
  const test::TempDir directory;
  const auto path = directory / "result.json";
  for (RunStatus status : {RunStatus::finished, RunStatus::solved, RunStatus::diverged,
                           RunStatus::interrupted, RunStatus::failed}) {
    Result result = full_result();
    result.status = status;
    write_result(path, result);
    EXPECT_EQ(read_result(path), result);
  }
  write_result(path, Result{});
  EXPECT_EQ(read_result(path), Result{});
  EXPECT_EQ(test::count_files(directory.path()), 1u);
}

TEST(ResultFile, TellsAllDevicesOfARunThatWasMoved) {
  const std::string gpu = "cuda (NVIDIA H200)", cpu = "cpu (AVX2)";
  EXPECT_EQ(moved_to("", 0, gpu), gpu);
  EXPECT_EQ(moved_to(gpu, 300, gpu), gpu);
  const std::string there = moved_to(gpu, 300, cpu);
  EXPECT_EQ(there, "cuda (NVIDIA H200), from update 301 on cpu (AVX2)");
  EXPECT_EQ(moved_to(there, 400, cpu), there);
  EXPECT_EQ(moved_to(there, 400, gpu), there + ", from update 401 on " + gpu);
  EXPECT_EQ(moved_to(gpu, 0, cpu), cpu);  // nothing was trained before
  EXPECT_EQ(moved_to("", 300, cpu), cpu);
}

TEST(ResultFile, NonFiniteMetricsBecomeNull) {
  Result result = full_result();
  result.final.valid->loss = std::nan("");
  const Result back = parse_result(to_json(result), "result.json");
  EXPECT_FALSE(back.final.valid->loss.has_value());
  EXPECT_EQ(back.final.valid->accuracy, 0.99);
}

TEST(ResultFile, TextThatIsNotUtf8DoesNotCostTheResult) {
  Result result = full_result();
  result.device = "GPU \xff";
  EXPECT_EQ(parse_result(to_json(result), "result.json").device, "GPU \xef\xbf\xbd");
}

TEST(ResultFile, RefusesWhatIsNotAResult) {
  const auto error = [](const std::string& text) {
    return test::error_of([&] { parse_result(text, "some/result.json"); });
  };
  EXPECT_THAT(error("{"), AllOf(HasSubstr("some/result.json"), HasSubstr("not a result")));
  EXPECT_THAT(error("[]"), HasSubstr("not a result"));
  EXPECT_THAT(error("{}"), HasSubstr("task"));
  Json json = Json::parse(to_json(full_result()));
  json["status"] = "solvd";
  EXPECT_THAT(error(json.dump()), HasSubstr("did you mean 'solved'"));
  json = Json::parse(to_json(full_result()));
  json["solved_at"] = "soon";
  EXPECT_THAT(error(json.dump()), HasSubstr("not a result"));
  json = Json::parse(to_json(full_result()));
  json["final"]["test"] = 3;
  EXPECT_THAT(error(json.dump()), HasSubstr("metrics must be an object"));
  EXPECT_THAT(test::error_of([] { read_result("/nowhere/result.json"); }),
              HasSubstr("cannot read the result /nowhere/result.json"));
}

}  // namespace
}  // namespace nru::training
