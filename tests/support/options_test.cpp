// Options: defaults, conversion, every kind of wrong input, and values that survive being text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nru/options.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "test_files.h"

namespace nru {
namespace {

using test::error_of;
using testing::HasSubstr;

const std::vector<OptionSpec> kSpecs = {
    {"hidden_size", int64_t{80}, "units", {}},
    {"dropout", 0.0, "between layers", {}},
    {"layer_norm", false, "normalise", {}},
    {"combine", "mean", "heads", {"mean", "sum"}},
    {"note", "", "free text", {}},
};

std::string resolve_error(const OptionMap& given) {
  return error_of([&] { resolve_options(kSpecs, given, "cell nru"); });
}

TEST(Options, DefaultsFillWhatIsNotGiven) {
  const OptionMap options = resolve_options(kSpecs, {{"hidden_size", int64_t{7}}}, "cell nru");
  EXPECT_EQ(options.size(), kSpecs.size());
  EXPECT_EQ(get<int64_t>(options, "hidden_size"), 7);
  EXPECT_EQ(get<double>(options, "dropout"), 0.0);
  EXPECT_EQ(get<bool>(options, "layer_norm"), false);
  EXPECT_EQ(get<std::string>(options, "combine"), "mean");
}

TEST(Options, IntegerStandsForADouble) {
  const OptionMap options = resolve_options(kSpecs, {{"dropout", int64_t{1}}}, "cell nru");
  EXPECT_EQ(get<double>(options, "dropout"), 1.0);
}

TEST(Options, UnknownKeySuggestsTheNearest) {
  EXPECT_EQ(resolve_error({{"hiden_size", int64_t{7}}}),
            "unknown option 'hiden_size' for cell nru; did you mean 'hidden_size'?");
  EXPECT_EQ(resolve_error({{"quux", true}}),
            "unknown option 'quux' for cell nru; known: hidden_size, dropout, layer_norm, combine, "
            "note");
  EXPECT_EQ(error_of([] {
              resolve_options({}, {{"quux", true}}, "cell rnn-id");
            }),
            "unknown option 'quux': cell rnn-id has none");
}

TEST(Options, WrongTypeNamesTypeValueAndDefault) {
  EXPECT_EQ(resolve_error({{"hidden_size", 4.5}}),
            "option 'hidden_size' for cell nru must be an integer, not 4.5; the default is 80");
  EXPECT_EQ(resolve_error({{"hidden_size", true}}),
            "option 'hidden_size' for cell nru must be an integer, not true; the default is 80");
  EXPECT_THAT(resolve_error({{"dropout", "high"}}), HasSubstr("must be a number, not \"high\""));
  EXPECT_THAT(resolve_error({{"dropout", true}}), HasSubstr("must be a number, not true"));
  EXPECT_THAT(resolve_error({{"layer_norm", int64_t{1}}}),
              HasSubstr("must be true or false, not 1"));
  EXPECT_THAT(resolve_error({{"combine", int64_t{1}}}), HasSubstr("must be a string, not 1"));
}

TEST(Options, ValueOutsideTheChoices) {
  EXPECT_EQ(resolve_error({{"combine", "maen"}}),
            "option 'combine' for cell nru cannot be 'maen'; choose mean or sum (did you mean "
            "'mean'?)");
  EXPECT_EQ(resolve_error({{"combine", "product"}}),
            "option 'combine' for cell nru cannot be 'product'; choose mean or sum");
  EXPECT_EQ(resolve_error({{"combine", "sum"}}), "");
  EXPECT_EQ(resolve_error({{"note", "anything goes"}}), "");
}

TEST(Options, AskingForWhatWasNotDeclaredIsABug) {
  const OptionMap options = resolve_options(kSpecs, {}, "cell nru");
  EXPECT_THROW(get<int64_t>(options, "heads"), std::logic_error);
  EXPECT_THROW(get<double>(options, "hidden_size"), std::logic_error);
}

TEST(OptionText, IsToml) {
  EXPECT_EQ(to_string(OptionValue(true)), "true");
  EXPECT_EQ(to_string(OptionValue(int64_t{-3})), "-3");
  EXPECT_EQ(to_string(OptionValue(1.0)), "1.0");
  EXPECT_EQ(to_string(OptionValue(-0.0)), "-0.0");
  EXPECT_EQ(to_string(OptionValue(0.1)), "0.1");
  EXPECT_EQ(to_string(OptionValue(1e-3)), "0.001");
  EXPECT_EQ(to_string(OptionValue(1e22)), "1e+22");
  EXPECT_EQ(to_string(OptionValue(std::numeric_limits<double>::infinity())), "inf");
  EXPECT_EQ(to_string(OptionValue("mean")), "\"mean\"");
  EXPECT_EQ(to_string(OptionValue("a\"b\\c\n\x01")), R"("a\"b\\c\n\u0001")");
}

TEST(OptionText, RoundTripsWithItsType) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<OptionValue> values = {true,
                                           false,
                                           int64_t{0},
                                           std::numeric_limits<int64_t>::min(),
                                           std::numeric_limits<int64_t>::max(),
                                           0.0,
                                           1.0,
                                           1e15,
                                           1e16,
                                           1e17,
                                           1.0 / 3,
                                           std::numeric_limits<double>::denorm_min(),
                                           std::numeric_limits<double>::max(),
                                           inf,
                                           -inf,
                                           "",
                                           "true",
                                           "12",
                                           "1.5",
                                           "inf",
                                           "two words",
                                           "tab\tquote\"back\\slash\n",
                                           "Grüße",
                                           "\x7f\x1f"};
  for (const OptionValue& value : values) {
    EXPECT_EQ(parse_option_value(to_string(value)), value) << to_string(value);
  }
  const OptionValue nan = parse_option_value(to_string(OptionValue(std::nan(""))));
  EXPECT_TRUE(std::isnan(std::get<double>(nan)));
}

TEST(OptionText, RandomDoublesRoundTripExactly) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    const OptionValue back = parse_option_value(to_string(OptionValue(value)));
    ASSERT_EQ(back, OptionValue(value)) << to_string(OptionValue(value));
  }
}

TEST(OptionText, ReadsWhatPeopleType) {
  EXPECT_EQ(parse_option_value("true"), OptionValue(true));
  EXPECT_EQ(parse_option_value("+7"), OptionValue(int64_t{7}));
  EXPECT_EQ(parse_option_value("1_000"), OptionValue(int64_t{1000}));
  EXPECT_EQ(parse_option_value("1e-3"), OptionValue(0.001));
  EXPECT_EQ(parse_option_value("+.5"), OptionValue(0.5));
  EXPECT_EQ(parse_option_value("-inf"), OptionValue(-std::numeric_limits<double>::infinity()));
  EXPECT_EQ(parse_option_value("relu"), OptionValue("relu"));
  EXPECT_EQ(parse_option_value("a b"), OptionValue("a b"));
  EXPECT_EQ(parse_option_value("runs/x-1"), OptionValue("runs/x-1"));
  EXPECT_EQ(parse_option_value("-"), OptionValue("-"));
  EXPECT_EQ(parse_option_value("."), OptionValue("."));
  EXPECT_EQ(parse_option_value("1e"), OptionValue("1e"));
  EXPECT_EQ(parse_option_value("_1"), OptionValue("_1"));
  EXPECT_EQ(parse_option_value("--1"), OptionValue("--1"));
  EXPECT_EQ(parse_option_value("infinity"), OptionValue("infinity"));
  EXPECT_EQ(parse_option_value("\"12\""), OptionValue("12"));
  EXPECT_EQ(parse_option_value(R"('C:\new')"), OptionValue(R"(C:\new)"));
  EXPECT_EQ(parse_option_value(R"("\u00e9\U0001F600")"), OptionValue("\u00e9\U0001F600"));
}

TEST(OptionText, RefusesWhatItCannotRead) {
  const auto error = [](std::string_view text) {
    return error_of([&] { parse_option_value(text); });
  };
  EXPECT_THAT(error(""), HasSubstr("empty"));
  EXPECT_THAT(error("99999999999999999999"), HasSubstr("99999999999999999999 is out of range"));
  EXPECT_THAT(error("1e999"), HasSubstr("1e999 is out of range"));
  EXPECT_THAT(error("\"abc"), HasSubstr("no closing quote"));
  EXPECT_THAT(error("\""), HasSubstr("no closing quote"));
  EXPECT_THAT(error("\"abc\\"), HasSubstr("unknown escape"));
  EXPECT_THAT(error("'a'b"), HasSubstr("goes on after its closing quote"));
  EXPECT_THAT(error(R"("\q")"), HasSubstr("unknown escape"));
  EXPECT_THAT(error(R"("\u12")"), HasSubstr("4 hexadecimal digits"));
  EXPECT_THAT(error(R"("\ud800")"), HasSubstr("bad \\u escape"));
  EXPECT_THAT(error(R"("\U00110000")"), HasSubstr("8 hexadecimal digits"));
}

}  // namespace
}  // namespace nru
