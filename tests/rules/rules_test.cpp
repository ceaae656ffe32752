// The house rules hold in this tree, and each rule notices what breaks it.
#include "rules.h"

#include <gmock/gmock.h>

namespace nru::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Tree& tree() {
  static const Tree files = read_tree(NRU_SOURCE_DIR);
  return files;
}

TEST(Tree, FilesAreRead) {
  EXPECT_TRUE(tree().contains("tests/rules/rules_test.cpp"));
  EXPECT_TRUE(tree().contains("include/nru/version.h"));
}

TEST(Tree, RoomsKnowOnlyWhomTheyMay) { EXPECT_THAT(check_room_includes(tree()), IsEmpty()); }

TEST(Tree, OnlyTwoHeadersIncludeTorch) { EXPECT_THAT(check_torch(tree()), IsEmpty()); }

TEST(Tree, FilesAreShort) { EXPECT_THAT(check_length(tree()), IsEmpty()); }

TEST(Tree, NoOpenEnds) { EXPECT_THAT(check_open_ends(tree()), IsEmpty()); }

struct IncludeCase {
  std::string path;
  std::string include;
};

void PrintTo(const IncludeCase& c, std::ostream* out) { *out << c.path << " " << c.include; }

class Forbidden : public ::testing::TestWithParam<IncludeCase> {};

TEST_P(Forbidden, IsReportedWithPathAndLine) {
  const auto& [path, include] = GetParam();
  const Tree one = {{path, "// What it is.\n#include " + include + "\n"}};
  EXPECT_THAT(check_room_includes(one), ElementsAre(HasSubstr(path + ":2: ")));
}

INSTANTIATE_TEST_SUITE_P(
    Includes, Forbidden,
    ::testing::Values(IncludeCase{"src/kernels/cpu/a.cpp", "\"support/suggest.h\""},
                      IncludeCase{"src/kernels/a.h", "<nru/error.h>"},
                      IncludeCase{"src/support/a.cpp", "\"kernels/philox.h\""},
                      IncludeCase{"src/support/a.cpp", "<nru/torch.h>"},
                      IncludeCase{"src/cells/a.cpp", "\"tasks/task.h\""},
                      IncludeCase{"src/tasks/a.cpp", "\"kernels/sequence.h\""},
                      IncludeCase{"src/tasks/a.cpp", "\"kernels/cuda/launch.cuh\""},
                      IncludeCase{"src/tasks/cuda/a.cu", "\"kernels/cuda/sequence.h\""},
                      IncludeCase{"src/tasks/a.cpp", "\"cells/registry.h\""},
                      IncludeCase{"src/tasks/a.cpp", "<cells/registry.h>"},
                      IncludeCase{"src/training/a.cpp", "<nru/cells/nru.h>"},
                      IncludeCase{"src/training/a.cpp", "\"tasks/copy.h\""},
                      IncludeCase{"src/training/a.cpp", "<nru/nru.h>"},
                      IncludeCase{"src/training/a.cpp", "\"cli/train.h\""},
                      IncludeCase{"src/experiments/a.cpp", "\"cells/registry.h\""},
                      IncludeCase{"src/report/a.cpp", "  \"training/trainer.h\""},
                      IncludeCase{"src/report/a.cpp", "\"experiments/scheduler.h\""},
                      IncludeCase{"src/report/a.cpp", "\"page.h\""},
                      IncludeCase{"src/python/a.cpp", "<nru/cells/nru.h>"},
                      IncludeCase{"src/report/a.cpp", "\"../training/result.h\""},
                      IncludeCase{"include/nru/a.h", "\"kernels/sequence.h\""}));

class Allowed : public ::testing::TestWithParam<IncludeCase> {};

TEST_P(Allowed, IsNotReported) {
  const auto& [path, include] = GetParam();
  EXPECT_THAT(check_room_includes({{path, "#include " + include + "\n"}}), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Includes, Allowed,
    ::testing::Values(IncludeCase{"src/kernels/cpu/a.cpp", "\"kernels/cpu/gemm.h\""},
                      IncludeCase{"src/kernels/cpu/a.cpp", "<hwy/highway.h>"},
                      IncludeCase{"src/support/a.cpp", "<nru/options.h>"},
                      IncludeCase{"src/cells/a.cpp", "<nru/cells/nru.h>"},
                      IncludeCase{"src/tasks/a.cpp", "\"kernels/philox.h\""},
                      IncludeCase{"src/tasks/cuda/a.cu", "\"kernels/cuda/launch.cuh\""},
                      IncludeCase{"src/training/a.cpp", "\"tasks/registry.h\""},
                      IncludeCase{"src/report/a.cpp", "\"experiments/definition.h\""},
                      IncludeCase{"src/report/a.cpp", "\"training/result.h\""},
                      IncludeCase{"src/cli/a.cpp", "\"report/page.h\""},
                      IncludeCase{"include/nru/a.h", "<nru/torch.h>"}));

TEST(Rooms, UnknownFolderIsReported) {
  EXPECT_THAT(check_room_includes({{"src/utils/a.cpp", ""}}), ElementsAre(HasSubstr("no room")));
}

TEST(Torch, DirectIncludeIsReported) {
  const Tree one = {{"tests/cells/a_test.cpp", "\n#include <torch/torch.h>\n"}};
  EXPECT_THAT(check_torch(one), ElementsAre(HasSubstr("tests/cells/a_test.cpp:2: ")));
}

TEST(Torch, ItsOwnHeadersMayIncludeIt) {
  for (const char* header :
       {"include/nru/torch.h", "include/nru/torch_all.h", "src/cells/torch_cuda.h"})
    EXPECT_THAT(check_torch({{header, "#include <ATen/ATen.h>\n"}}), IsEmpty());
}

TEST(Torch, ChainOfIncludesFromTorchFreeRoomIsReported) {
  const Tree chain = {{"src/tasks/a.cpp", "#include \"support/b.h\"\n"},
                      {"src/support/b.h", "#include <nru/options.h>\n"},
                      {"include/nru/options.h", "#include <nru/torch.h>\n"}};
  EXPECT_THAT(check_torch(chain),
              ElementsAre(HasSubstr("src/support/b.h"), HasSubstr("src/tasks/a.cpp")));
}

TEST(Length, LimitIsInclusive) {
  std::string text;
  for (int line = 0; line < kMaxLines; ++line) text += "\n";
  EXPECT_THAT(check_length({{"src/cli/a.cpp", text}}), IsEmpty());
  EXPECT_THAT(check_length({{"src/cli/a.cpp", text + "\n"}}), ElementsAre(HasSubstr("450")));
}

TEST(OpenEnds, AreReportedAsWordsOnly) {
  const std::string note =
      "// TO"
      "DO: later\n";
  EXPECT_THAT(check_open_ends({{"tools/a", note}}), ElementsAre(HasSubstr("tools/a:1: ")));
  EXPECT_THAT(check_open_ends({{"tools/a",
                                "// TO"
                                "DOS is not one\n"}}),
              IsEmpty());
}

}  // namespace
}  // namespace nru::rules
