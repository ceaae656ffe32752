// Three texts or one cut in three, and the vocabulary they share.
#include "tasks/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../support/gzip.h"
#include "data_files.h"
#include "tasks/text.h"

namespace nru::tasks {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class CorpusFiles : public testing::Test {
 protected:
  std::array<std::filesystem::path, 3> write(const std::string& train, const std::string& valid,
                                             const std::string& test, const std::string& form) {
    const std::string texts[] = {train, valid, test};
    const char* names[] = {"train", "valid", "test"};
    std::array<std::filesystem::path, 3> files;
    for (std::size_t i = 0; i < 3; ++i) {
      files[i] = directory_ / fmt(form, names[i]);
      test::write_bytes(files[i], texts[i]);
    }
    return files;
  }
  static std::string fmt(std::string form, const std::string& name) {
    return form.replace(form.find('*'), 1, name);
  }

  test::TempDir directory_;
};

TEST_F(CorpusFiles, PlainFiles) {
  const Corpus corpus = load_corpus(write("ab\na", "ba", "\n", "*.txt"));
  EXPECT_EQ(corpus.vocabulary.to_json(), R"(["a","b","\n"])");
  EXPECT_THAT(corpus.of(Split::train), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(corpus.of(Split::valid), ElementsAre(1, 0));
  EXPECT_THAT(corpus.of(Split::test), ElementsAre(2));
}

TEST_F(CorpusFiles, TreebankFilesInBothFormsAndGzippedAreTheSame) {
  const std::string words[] = {" the cat \n sat \n", " sat \n", " the \n"};
  std::string spelt[3];
  for (std::size_t i = 0; i < 3; ++i) spelt[i] = spell(words[i], "words");
  for (const Corpus& corpus : {load_corpus(write(words[0], words[1], words[2], "ptb.*.txt")),
                               load_corpus(write(spelt[0], spelt[1], spelt[2], "ptb.char.*.txt")),
                               load_corpus(write(test::gzip(spelt[0]), test::gzip(spelt[1]),
                                                 test::gzip(spelt[2]), "ptb.char.*.txt.gz"))}) {
    EXPECT_EQ(corpus.vocabulary.to_json(), R"(["t","h","e","_","c","a","<eos>","s"])");
    EXPECT_THAT(corpus.of(Split::train), ElementsAre(0, 1, 2, 3, 4, 5, 0, 6, 7, 5, 0, 6, 6));
    EXPECT_THAT(corpus.of(Split::valid), ElementsAre(7, 5, 0, 6, 6));
  }
}

TEST_F(CorpusFiles, ASymbolThatTheTrainingTextLacks) {
  const auto files = write("abc", "a€", "x", "*.txt");
  EXPECT_THAT(test::error_of([&] { load_corpus(files); }),
              AllOf(StartsWith(files[1].string() + ": byte 1: the symbol '€' (U+20AC) does not"),
                    HasSubstr(files[0].string())));
  EXPECT_THAT(test::error_of([&] { load_corpus(write("abc", "a", "aax", "*.txt")); }),
              HasSubstr("test.txt: byte 2: the symbol 'x'"));
}

TEST_F(CorpusFiles, EmptyAndBrokenFiles) {
  EXPECT_THAT(test::error_of([&] { load_corpus(write("abc", "", "a", "*.txt")); }),
              HasSubstr("valid.txt: byte 0: expected text, found an empty file"));
  EXPECT_THAT(test::error_of([&] { load_corpus(write("", "", "", "ptb.*.txt")); }),
              HasSubstr("ptb.train.txt: byte 0: expected text, found an empty file"));
  EXPECT_THAT(test::error_of([&] { load_corpus(write("ab\xFF", "a", "a", "*.txt")); }),
              HasSubstr("train.txt: byte 2: byte 0xff is not UTF-8"));
  test::write_bytes(directory_ / "one", "");
  EXPECT_THAT(test::error_of([&] { load_corpus(directory_ / "one", 0.1, 0.1); }),
              HasSubstr("one: byte 0: expected text"));
}

TEST_F(CorpusFiles, OneFileIsCutInThree) {
  test::write_bytes(directory_ / "one.txt", "aaaaaaaaaaaabbcddddz");  // z only at its end
  const Corpus corpus = load_corpus(directory_ / "one.txt", 0.15, 0.25);
  EXPECT_EQ(corpus.vocabulary.size(), 5);
  EXPECT_EQ(corpus.of(Split::train).size(), 12u);
  EXPECT_THAT(corpus.of(Split::valid), ElementsAre(1, 1, 2));
  EXPECT_THAT(corpus.of(Split::test), ElementsAre(3, 3, 3, 3, 4));
}

TEST_F(CorpusFiles, FolderOfTexts) {
  write("a", "a", "a", "ptb.char.*.txt");
  EXPECT_EQ(text_files_in(directory_.path())[1], directory_ / "ptb.char.valid.txt");
  write("a", "a", "a", "*.txt.gz");
  EXPECT_EQ(text_files_in(directory_.path())[2], directory_ / "test.txt.gz");
  const test::TempDir empty;
  EXPECT_EQ(test::error_of([&] { text_files_in(empty.path()); }),
            "no train.txt in " + empty.path().string() +
                "; a folder of texts holds train.txt, valid.txt and test.txt, or give one file");
}

// The published counts and the entropy of single characters.
TEST(CorpusGolden, PennTreebank) {
  const auto directory = test::real_data("ptb");
  if (!directory) GTEST_SKIP() << "no Penn Treebank here; get it with: nru data get ptb";
  const auto paths = locate_data_set(find_data_set("ptb"), *directory);
  const Corpus corpus = load_corpus({paths[0], paths[1], paths[2]});
  EXPECT_EQ(corpus.vocabulary.size(), 50);
  EXPECT_TRUE(corpus.vocabulary.has_sentences());
  EXPECT_EQ(corpus.of(Split::train).size(), 5'017'483u);
  EXPECT_EQ(corpus.of(Split::valid).size(), 393'043u);
  EXPECT_EQ(corpus.of(Split::test).size(), 442'424u);
  std::vector<double> counts(50, 0);
  for (const std::int32_t id : corpus.of(Split::train)) ++counts[id];
  double bits = 0;
  for (const double count : counts) bits -= count / 5'017'483 * std::log2(count / 5'017'483);
  EXPECT_NEAR(bits, 4.334, 5e-4);
}

}  // namespace
}  // namespace nru::tasks
