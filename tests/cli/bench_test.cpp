// `nru bench`: its rows, and `nru doctor`'s word on the GPU that some of them need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/needs_cuda.h"
#include "../support/test_files.h"
#include "program.h"
#include "runs.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Bench, RowsSayWhatTheyAre) {
  const Finished finished = nru({"bench", "--task", "copy", "--cell", "nru", "--threads", "1",
                                 "--seconds", "0.01", "--json", "-"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto json = parse_json(finished.out);
  std::vector<std::string> rows;
  for (const auto& row : json.at("rows")) {
    rows.push_back(row.at("backend").get<std::string>() + " " + row.at("cell").get<std::string>());
    EXPECT_EQ(row.at("device"), "cpu");
    EXPECT_EQ(row.at("graph"), false);
    EXPECT_EQ(row.at("precision"), "float32");
    EXPECT_GE(row.at("updates"), 3);
    EXPECT_GT(row.at("floor_ms"), 0);
    EXPECT_GE(row.at("ms_per_update"), row.at("best_ms"));
    // torch's layers have about as many parameters as the NRU.
    EXPECT_NEAR(row.at("parameters").get<double>(), 23569, 500);
  }
  EXPECT_THAT(rows, testing::ElementsAre("fused nru", "reference nru", "torch lstm", "torch gru",
                                         "torch rnn"));
  EXPECT_GT(json.at("machine").at("peak_gflops").at("1"), 0);
}

const Arguments kShort{"bench", "--task", "copy", "--cell", "nru", "--seconds", "0.01"};

TEST(Bench, OneAndTwoThreadsByDefault) {
  const Finished finished = nru(kShort + Arguments{"--backend", "fused", "--json", "-"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  std::vector<int> threads;
  const auto json = parse_json(finished.out);
  for (const auto& row : json.at("rows")) threads.push_back(row.at("threads"));
  const int processors = parse_json(nru({"doctor", "--json"}).out).at("threads");
  EXPECT_EQ(threads, processors > 1 ? std::vector<int>({1, 2}) : std::vector<int>({1}));
}

TEST(Bench, NoMoreThreadsThanProcessors) {
  const int processors = parse_json(nru({"doctor", "--json"}).out).at("threads");
  const Finished finished =
      nru(kShort + Arguments{"--threads", std::to_string(processors + 1), "--json", "-"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr("--threads " + std::to_string(processors + 1) +
                                      " is not possible; choose 1"));
  if (processors > 1) {
    EXPECT_THAT(finished.err, HasSubstr("1 to " + std::to_string(processors)));
  }
}

TEST(Bench, TorchRowsNeedNoOthers) {
  const Finished finished =
      nru(kShort + Arguments{"--backend", "torch", "--threads", "1", "--json", "-"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto json = parse_json(finished.out);
  ASSERT_EQ(json.at("rows").size(), 3u);
  for (const auto& row : json.at("rows"))
    EXPECT_NEAR(row.at("parameters").get<double>(), 23569, 500);
}

TEST(Bench, AFileThatCannotBeWrittenIsToldBeforeTiming) {
  const TempDir directory;
  for (const fs::path& file : {directory / "missing/rows.json", directory.path()}) {
    const Finished finished = nru(kShort + Arguments{"--threads", "1", "--json", file});
    EXPECT_EQ(finished.code, 2);
    EXPECT_THAT(finished.out, testing::IsEmpty());
    EXPECT_THAT(finished.err, HasSubstr("cannot write " + file.string()));
  }
  write_bytes(directory / "old.json", "old");
  for (const char* name : {"new.json", "old.json"})
    EXPECT_EQ(nru({"bench", "--cell", "quux", "--json", directory / name}).code, 2);
  EXPECT_EQ(read_bytes(directory / "old.json"), "old");
  fs::create_symlink("nowhere", directory / "link.json");
  EXPECT_EQ(nru({"bench", "--cell", "quux", "--json", directory / "link.json"}).code, 2);
  EXPECT_TRUE(fs::is_symlink(directory / "link.json"));
  EXPECT_EQ(count_files(directory.path()), 2u);
}

TEST(Bench, AGpuThatIsNotThereIsNamed) {
  const auto cuda = parse_json(nru({"doctor", "--json"}).out).at("cuda");
  const Finished finished = nru({"bench", "--device", "cuda", "--task", "copy", "--cell", "lstm",
                                 "--backend", "fused", "--seconds", "0.01"});
  if (cuda.at("built") == true && cuda.at("devices") > 0) {
    EXPECT_EQ(finished.code, 0) << finished.err;
    return;
  }
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(lines_in(finished.err), 1) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("use --device cpu"));
  EXPECT_THAT(finished.err, HasSubstr(cuda.at("built") == true ? "no CUDA device" : "NRU_CUDA=ON"));
}

TEST(Bench, GpuRowsHaveTimesPerStepAndFloors) {
  NRU_NEEDS_CUDA_DEVICE();
  const Finished finished = nru({"bench", "--device", "cuda", "--task", "copy", "--cell", "nru",
                                 "--seconds", "0.01", "--json", "-"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto json = parse_json(finished.out);
  std::vector<std::string> precisions;
  for (const auto& row : json.at("rows")) {
    EXPECT_EQ(row.at("device"), "cuda");
    EXPECT_GT(row.at("byte_floor_ms"), 0);
    if (row.at("backend") != "fused") continue;
    EXPECT_EQ(row.at("graph"), true);
    EXPECT_GT(row.at("forward_us_per_step"), 0);
    EXPECT_GT(row.at("backward_us_per_step"), 0);
    precisions.push_back(row.at("precision"));
  }
  EXPECT_THAT(precisions, testing::ElementsAre("float32", "tf32"));
  EXPECT_GT(json.at("machine").at("gpu").at("float32_gflops"), 0);
}

TEST(Doctor, TellsWhatThereIsOfCuda) {
  const auto cuda = parse_json(nru({"doctor", "--json"}).out).at("cuda");
  const std::string text = nru({"doctor"}).out;
#ifdef NRU_HAS_CUDA
  EXPECT_EQ(cuda.at("built"), true);
  EXPECT_THAT(text, HasSubstr("kernels for " + cuda.at("architectures").get<std::string>()));
#else
  EXPECT_EQ(cuda.at("built"), false);
  EXPECT_THAT(text, HasSubstr("NRU_CUDA=ON"));
#endif
  EXPECT_THAT(text, HasSubstr(cuda.at("torch") == true ? "torch with CUDA" : "torch without CUDA"));
  if (cuda.at("devices") == 0) {
    EXPECT_THAT(text, Not(HasSubstr("there is a GPU")));
  }
}

}  // namespace
}  // namespace nru::test
