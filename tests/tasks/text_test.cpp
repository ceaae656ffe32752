// Texts as symbols: plain, spelt and word files, and files that are none of them.
#include "tasks/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"

namespace nru::tasks {
namespace {

using testing::ElementsAre;

// The symbols with | for the end of a sentence.
std::u32string scan(std::string_view text, TextForm form) {
  std::u32string symbols;
  scan_text(text, form, "file", [&](char32_t symbol, std::size_t) {
    symbols += symbol == Vocabulary::kEndOfSentence ? U'|' : symbol;
  });
  return symbols;
}

std::vector<std::size_t> offsets(std::string_view text, TextForm form) {
  std::vector<std::size_t> at;
  scan_text(text, form, "file", [&](char32_t, std::size_t offset) { at.push_back(offset); });
  return at;
}

TEST(Text, PlainTextIsAllItsCharacters) {
  EXPECT_EQ(scan("a _\n€ b\n", TextForm::plain), U"a _\n€ b\n");
  EXPECT_EQ(scan("\xEF\xBB\xBFz", TextForm::plain), U"z");
  EXPECT_EQ(scan("", TextForm::plain), U"");
  EXPECT_THAT(offsets("a€b", TextForm::plain), ElementsAre(0, 1, 4));
}

TEST(Text, SpeltTextHasOneSentenceALine) {
  EXPECT_EQ(scan("t h e _ c a t \n s a t \n ", TextForm::spelt), U"the_cat|sat||");
  EXPECT_EQ(scan("t h e\ns a t\n", TextForm::spelt), U"the|sat|");
  EXPECT_EQ(scan("a  b\r\n\nc", TextForm::spelt), U"ab||c|");
  EXPECT_THAT(offsets("a _ €\n ", TextForm::spelt), ElementsAre(0, 2, 4, 7, 9));
}

TEST(Text, WordsAreTheSameSentences) {
  EXPECT_EQ(scan(" the cat \n sat \n", TextForm::words), U"the_cat|sat||");
  EXPECT_EQ(scan("the cat\r\nsat", TextForm::words), U"the_cat|sat||");
  EXPECT_THAT(offsets(" ab c \n", TextForm::words), ElementsAre(1, 2, 3, 4, 6, 7));
}

TEST(Text, SpellingMakesThePublishedForm) {
  EXPECT_EQ(spell(" the cat \n sat \n", "file"), "t h e _ c a t \n s a t \n ");
  EXPECT_EQ(spell("a\n\nb\n", "file"), "a \n  \n b \n ");
  for (const std::string words : {" the cat \n <unk> N \n", " a \n", " é €\n"}) {
    EXPECT_EQ(scan(spell(words, "file"), TextForm::spelt), scan(words, TextForm::words));
  }
}

TEST(Text, TheFirstSentenceTellsTheForm) {
  EXPECT_EQ(form_of_sentences("t h e _ c a t \n"), TextForm::spelt);
  EXPECT_EQ(form_of_sentences(" \n é a \n no more"), TextForm::spelt);
  EXPECT_EQ(form_of_sentences(" a cat \n"), TextForm::words);
  EXPECT_EQ(form_of_sentences(""), TextForm::spelt);
}

TEST(Text, BrokenFilesAreNamedWithTheByte) {
  const auto error = [](std::string_view text, TextForm form) {
    return test::error_of([&] { scan(text, form); });
  };
  EXPECT_EQ(error("ab\xE9 c", TextForm::plain),
            "file: byte 2: byte 0xe9 is not UTF-8; convert the file to UTF-8");
  EXPECT_EQ(error("a b \xE9", TextForm::spelt),
            "file: byte 4: byte 0xe9 is not UTF-8; convert the file to UTF-8");
  EXPECT_EQ(error(" ab \xC3 ", TextForm::words),
            "file: byte 4: byte 0xc3 is not UTF-8; convert the file to UTF-8");
  EXPECT_EQ(error("a b cd", TextForm::spelt),
            "file: byte 5: expected a blank between characters, as in the rest of the file");
}

}  // namespace
}  // namespace nru::tasks
