// Symbols and ids: JSON and back, what people type and read, errors.
#include "tasks/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"

namespace nru::tasks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Vocabulary of(std::u32string_view symbols) {
  Vocabulary vocabulary;
  for (const char32_t symbol : symbols) vocabulary.add(symbol);
  return vocabulary;
}

std::string decode(const Vocabulary& vocabulary, const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += vocabulary.decode(id);
  return text;
}

TEST(Vocabulary, IdsByFirstAppearance) {
  Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.add(U'b'), 0);
  EXPECT_EQ(vocabulary.add(U'é'), 1);
  EXPECT_EQ(vocabulary.add(U'b'), 0);
  EXPECT_EQ(vocabulary.add(Vocabulary::kEndOfSentence), 2);
  EXPECT_EQ(vocabulary.size(), 3);
  EXPECT_EQ(vocabulary.find(U'é'), 1);
  EXPECT_EQ(vocabulary.find(U'a'), std::nullopt);
  EXPECT_EQ(vocabulary.find(U'ü'), std::nullopt);
  EXPECT_EQ(vocabulary.name(1), "é");
  EXPECT_EQ(vocabulary.name(2), "<eos>");
  EXPECT_THROW(vocabulary.name(3), std::out_of_range);
}

// What a text of sentences calls `_` and <eos> is a blank and a line end to people.
TEST(Vocabulary, SentencesAreTypedAndReadAsText) {
  Vocabulary vocabulary = of(U"the_ca");
  vocabulary.add(Vocabulary::kEndOfSentence);
  EXPECT_TRUE(vocabulary.has_sentences());
  EXPECT_THAT(vocabulary.encode("the cat\n"), ElementsAre(0, 1, 2, 3, 4, 5, 0, 6));
  EXPECT_EQ(vocabulary.encode("the_"), vocabulary.encode("the "));
  EXPECT_EQ(decode(vocabulary, vocabulary.encode("the cat\n")), "the cat\n");
}

TEST(Vocabulary, PlainTextIsItself) {
  const Vocabulary vocabulary = of(U"a_ \n€");
  EXPECT_FALSE(vocabulary.has_sentences());
  EXPECT_THAT(vocabulary.encode("a_ \n€"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(decode(vocabulary, {0, 1, 2, 3, 4}), "a_ \n€");
}

TEST(Vocabulary, JsonKeepsEverySymbol) {
  Vocabulary vocabulary = of(U"a\"\\\n\t_€𝄞");
  vocabulary.add(0);
  vocabulary.add(Vocabulary::kEndOfSentence);
  const std::string json = vocabulary.to_json();
  EXPECT_THAT(json, testing::StartsWith(R"(["a","\"","\\","\n","\t","_","€")"));
  EXPECT_THAT(json, testing::EndsWith(R"("<eos>"])"));
  const Vocabulary read = Vocabulary::from_json(json, "file");
  ASSERT_EQ(read.size(), vocabulary.size());
  for (std::int32_t id = 0; id < read.size(); ++id) EXPECT_EQ(read.name(id), vocabulary.name(id));
  EXPECT_EQ(read.to_json(), json);
}

TEST(Vocabulary, BrokenJsonIsRefused) {
  const auto error = [](const std::string& json) {
    return test::error_of([&] { Vocabulary::from_json(json, "best.safetensors"); });
  };
  for (const char* json : {"", "[", "{}", "3", "\"abc\""})
    EXPECT_EQ(error(json), "best.safetensors: the vocabulary is not a JSON array of symbols");
  EXPECT_THAT(error(R"(["a","bc"])"), HasSubstr(R"(entry 1 of the vocabulary, "bc", is not a)"));
  EXPECT_THAT(error(R"(["a",""])"), HasSubstr("entry 1"));
  EXPECT_THAT(error(R"([1])"), HasSubstr("entry 0 of the vocabulary, 1, is not a symbol"));
  EXPECT_THAT(error(R"(["a","b","b"])"), HasSubstr(R"(entry 2 of the vocabulary, "b", is there)"));
}

TEST(Vocabulary, UnknownCharactersAreNamedWithWhatThereIs) {
  Vocabulary vocabulary = of(U"the_");
  vocabulary.add(Vocabulary::kEndOfSentence);
  const auto error = [&](const std::string& text) {
    return test::error_of([&] { vocabulary.encode(text); });
  };
  EXPECT_EQ(error("the T"), "the model has never seen 'T' (byte 4 of the text); did you mean 't'?");
  EXPECT_EQ(error("€"),
            "the model has never seen '€' (byte 0 of the text); it knows t h e _ <eos>");
  EXPECT_EQ(error("the\xFF"), "the text is not UTF-8 at byte 3");
}

}  // namespace
}  // namespace nru::tasks
