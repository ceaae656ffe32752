// UTF-8 in and out: every form, its limits, and what is not UTF-8.
#include "support/utf8.h"

#include <gtest/gtest.h>

namespace nru {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text = "x";
    append_utf8(text, code);
    const auto read = decode_utf8(text, 1);
    ASSERT_TRUE(read) << std::hex << static_cast<unsigned>(code);
    ASSERT_EQ(read->value, code);
    ASSERT_EQ(read->bytes, text.size() - 1);
  }
}

TEST(Utf8, KnownSpellings) {
  std::string text;
  for (const char32_t code : {U'a', U'é', U'€', U'𝄞'}) append_utf8(text, code);
  EXPECT_EQ(text, "a\xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9E");
}

TEST(Utf8, WhatIsNotUtf8) {
  for (const std::string text : {"\x80",              // a continuation alone
                                 "\xC3",              // cut
                                 "\xC3(",             // no continuation
                                 "\xE2\x82",          // cut
                                 "\xE2\x28\xA1",      // no continuation
                                 "\xC0\xAF",          // overlong /
                                 "\xE0\x80\xAF",      // overlong /
                                 "\xF0\x80\x80\xAF",  // overlong /
                                 "\xED\xA0\x80",      // surrogate
                                 "\xF4\x90\x80\x80",  // above U+10FFFF
                                 "\xF8\x88\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(decode_utf8(text, 0)) << testing::PrintToString(text);
  }
}

TEST(Utf8, WholeTexts) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("caf\xC3\xA9"));
  EXPECT_FALSE(is_utf8("caf\xE9"));
  EXPECT_FALSE(is_utf8("caf\xC3"));
}

}  // namespace
}  // namespace nru
