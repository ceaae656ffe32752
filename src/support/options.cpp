// Checking options against their specs, and option values as text.
#include <fmt/format.h>
#include <nru/error.h>
#include <nru/options.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "support/suggest.h"
#include "support/toml_string.h"

namespace nru {
namespace {

constexpr std::string_view kDigits = "0123456789";

bool is_digit(char c) { return kDigits.find(c) != std::string_view::npos; }

// How to write a whole number that was given as 1e5 where an integer belongs; else "".
std::string as_integer(const OptionSpec& spec, const OptionValue& given) {
  constexpr double kMost = 9e18;
  const auto* real = std::get_if<double>(&given);
  if (real == nullptr || !std::holds_alternative<int64_t>(spec.default_value)) return "";
  const bool whole = std::abs(*real) <= kMost && *real == std::floor(*real);  // false for NaN
  return whole ? fmt::format("; write {}", static_cast<int64_t>(*real)) : "";
}

// `given` as the type of the spec's default, or an Error.
OptionValue checked(const OptionSpec& spec, const OptionValue& given, const std::string& owner) {
  OptionValue value = given;
  if (const auto* integer = std::get_if<int64_t>(&given);
      integer != nullptr && std::holds_alternative<double>(spec.default_value)) {
    value = static_cast<double>(*integer);
  }
  if (value.index() != spec.default_value.index()) {
    throw Error(fmt::format("option '{}' for {} must be {}, not {}{}; the default is {}", spec.key,
                            owner, type_name(spec.default_value), to_string(given),
                            as_integer(spec, given), to_string(spec.default_value)));
  }
  const auto* word = std::get_if<std::string>(&value);
  if (word != nullptr && !spec.choices.empty() &&
      std::find(spec.choices.begin(), spec.choices.end(), *word) == spec.choices.end()) {
    const auto close = nearest(*word, spec.choices);
    throw Error(fmt::format("option '{}' for {} cannot be '{}'; choose {}{}", spec.key, owner,
                            *word, fmt::join(spec.choices, " or "),
                            close ? fmt::format(" (did you mean '{}'?)", *close) : ""));
  }
  return value;
}

// 1_000 -> 1000, as TOML allows: an underscore stands between two digits.
std::string without_separators(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool separates = text[i] == '_' && i > 0 && i + 1 < text.size() &&
                           is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (!separates) result += text[i];
  }
  return result;
}

template <class T>
T number(std::string_view digits, std::string_view written) {
  T value{};
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure == std::errc::result_out_of_range) {
    throw Error(fmt::format("the number {} is out of range; the limits are those of {}", written,
                            std::is_same_v<T, int64_t> ? "64-bit integers" : "64-bit floats"));
  }
  if (failure != std::errc{} || end != digits.data() + digits.size()) {
    throw std::logic_error(fmt::format("'{}' was taken for a number", written));
  }
  return value;
}

// digits [. digits] [e [sign] digits], with digits on at least one side of the point.
bool is_float(std::string_view text) {
  std::size_t at = 0;
  const auto skip_digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - start;
  };
  std::size_t digits = skip_digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    digits += skip_digits();
  }
  if (digits == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (skip_digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace

std::string_view type_name(const OptionValue& value) {
  static constexpr std::string_view kNames[] = {"true or false", "an integer", "a number",
                                                "a string"};
  return kNames[value.index()];
}

OptionMap resolve_options(const std::vector<OptionSpec>& specs, const OptionMap& given,
                          const std::string& owner) {
  OptionMap resolved;
  std::vector<std::string> keys;
  for (const OptionSpec& spec : specs) {
    keys.push_back(spec.key);
    const auto found = given.find(spec.key);
    resolved[spec.key] =
        found == given.end() ? spec.default_value : checked(spec, found->second, owner);
  }
  for (const auto& [key, value] : given) {
    if (resolved.contains(key)) continue;
    if (keys.empty()) throw Error(fmt::format("unknown option '{}': {} has none", key, owner));
    throw Error(fmt::format("unknown option '{}' for {}{}", key, owner, did_you_mean(key, keys)));
  }
  return resolved;
}

std::string to_string(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) {
    std::string text = fmt::format("{}", *real);  // the shortest that reads back equal
    // "1" would read back as an integer; 'n' is in "inf" and "nan".
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
  }
  return quote_toml(std::get<std::string>(value));
}

OptionValue parse_option_value(std::string_view text) {
  if (text.empty()) throw Error("the value is empty; write \"\" for the empty string");
  if (text == "true" || text == "false") return text == "true";
  if (text.front() == '"' || text.front() == '\'') return unquote_toml(text);

  const bool negative = text.front() == '-';
  const bool has_sign = negative || text.front() == '+';
  const std::string_view magnitude = text.substr(has_sign ? 1 : 0);
  const std::string plain = without_separators(magnitude);
  const std::string signed_plain = (negative ? "-" : "") + plain;  // from_chars knows no '+'
  if (plain == "inf" || plain == "nan") return number<double>(signed_plain, text);
  if (!plain.empty() && std::all_of(plain.begin(), plain.end(), is_digit)) {
    return number<int64_t>(signed_plain, text);
  }
  if (is_float(plain)) return number<double>(signed_plain, text);
  return std::string(text);
}

}  // namespace nru
