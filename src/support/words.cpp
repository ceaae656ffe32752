#include "support/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nru {

std::string format_duration(double seconds) {
  const std::int64_t s = std::llround(std::clamp(seconds, 0.0, 1e15));
  const std::int64_t minute = 60, hour = 60 * minute, day = 24 * hour;
  if (s < minute) return fmt::format("{}s", s);
  if (s < hour) return fmt::format("{}m {:02}s", s / minute, s % minute);
  if (s < day) return fmt::format("{}h {:02}m", s / hour, s % hour / minute);
  return fmt::format("{}d {:02}h", s / day, s % day / hour);
}

std::string format_count(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const int first = count < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./=:,@%+") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace nru
