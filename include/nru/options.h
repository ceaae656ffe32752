// Options by name: how cells and tasks declare their settings, and how values from TOML files,
// `--set key=value` and Python reach them through one checked door.
//
// A cell lists its OptionSpecs once; the defaults, the types, the help text, the error messages and
// `nru list` all come from that list.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace nru {

using OptionValue = std::variant<bool, int64_t, double, std::string>;
using OptionMap = std::map<std::string, OptionValue>;

struct OptionSpec {
  std::string key;
  OptionValue default_value;         // its alternative is the option's type
  std::string help;                  // one line
  std::vector<std::string> choices;  // for string options: the allowed values; empty = any
};

// The complete map: every key of `specs`, with the given value or the default. Integers become
// doubles where the default is a double. Throws nru::Error for unknown keys, wrong types and values
// outside `choices`; `owner` ("cell nru", "task copy") says in the message whose option it is.
OptionMap resolve_options(const std::vector<OptionSpec>& specs, const OptionMap& given,
                          const std::string& owner);

// The value as TOML text. Round-trips through parse_option_value with type and value intact:
// doubles are the shortest text that reads back equal and always look like floats ("1.0"), strings
// are quoted.
std::string to_string(const OptionValue& value);

// The right-hand side of `--set key=value`: true/false, an integer, a float, a "quoted" or
// 'literal' TOML string, or else a bare word, which is a string. Throws nru::Error for an empty
// value, a broken quotation and numbers out of range.
OptionValue parse_option_value(std::string_view text);

// "true or false", "an integer", "a number", "a string": for messages and help.
std::string_view type_name(const OptionValue& value);

// The value of a resolved map. Asking for a key or type that the specs do not declare is a bug in
// the caller, hence std::logic_error and not nru::Error.
template <class T>
T get(const OptionMap& options, const std::string& key) {
  static_assert(std::is_same_v<T, bool> || std::is_same_v<T, int64_t> ||
                    std::is_same_v<T, double> || std::is_same_v<T, std::string>,
                "options hold bool, int64_t, double or std::string");
  const auto found = options.find(key);
  if (found == options.end()) throw std::logic_error("no option '" + key + "' was declared");
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr)
    throw std::logic_error("option '" + key + "' was declared with another type");
  return *value;
}

}  // namespace nru
