// Name suggestions: likely slips are recognised, unlikely ones are not invented.
#include "support/suggest.h"

#include <gtest/gtest.h>

namespace nru {
namespace {

const std::vector<std::string> kCells = {"rnn-orth", "rnn-id", "lstm", "lstm-chrono", "gru",
                                         "janet",    "sru",    "goru", "nru"};

TEST(Suggest, FindsTheNameBehindASlip) {
  EXPECT_EQ(nearest("lstm", kCells), "lstm");
  EXPECT_EQ(nearest("lsmt", kCells), "lstm");          // two letters swapped
  EXPECT_EQ(nearest("lst", kCells), "lstm");           // one missing
  EXPECT_EQ(nearest("jannet", kCells), "janet");       // one too many
  EXPECT_EQ(nearest("rnn_orth", kCells), "rnn-orth");  // one wrong
  EXPECT_EQ(nearest("nur", kCells), "nru");
  EXPECT_EQ(nearest("LSTM", kCells), "lstm");  // case is not a difference
}

TEST(Suggest, SwapCountsAsOneSlipAndNotTwo) {
  // Three letters allow one slip: found only if the swap is one.
  EXPECT_EQ(nearest("gur", {"gru"}), "gru");
  EXPECT_EQ(nearest("ugr", {"gru"}), std::nullopt);
}

TEST(Suggest, BeginningOfANameIsClose) {
  EXPECT_EQ(nearest("copy-var", {"denoise", "copy-variable"}), "copy-variable");
  EXPECT_EQ(nearest("co", {"copy-variable"}), std::nullopt);
}

TEST(Suggest, NothingCloseIsNothing) {
  EXPECT_EQ(nearest("transformer", kCells), std::nullopt);
  EXPECT_EQ(nearest("", kCells), std::nullopt);
  EXPECT_EQ(nearest("x", {"y"}), std::nullopt);
  EXPECT_EQ(nearest("lstm", {}), std::nullopt);
}

TEST(Suggest, FirstOfEquallyCloseNamesWins) {
  EXPECT_EQ(nearest("xru", kCells), "gru");  // gru, sru and nru are all one letter away
}

TEST(Suggest, MessageTail) {
  EXPECT_EQ(did_you_mean("lsmt", kCells), "; did you mean 'lstm'?");
  EXPECT_EQ(did_you_mean("transformer", {"gru", "nru"}), "; known: gru, nru");
  EXPECT_EQ(did_you_mean("anything", {}), "");
}

TEST(Suggest, LongListsAreCut) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("weight_" + std::to_string(i));
  const std::string text = did_you_mean("zzzzzzzzzz", names);
  EXPECT_NE(text.find("weight_23, ... (100 in all)"), std::string::npos) << text;
  EXPECT_EQ(text.find("weight_24"), std::string::npos) << text;
}

}  // namespace
}  // namespace nru
