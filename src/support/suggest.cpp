// Edit distance with swaps of neighbours (optimal string alignment), on lower-cased names.
#include "support/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace nru {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  // Three rows of the usual table: a swap looks two rows back.
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

// A slip changes about one letter in three at most; in very short names one.
std::size_t tolerance(std::size_t length) { return std::max<std::size_t>(1, length / 3); }

// Below this many letters a common beginning says nothing.
constexpr std::size_t kMeaningfulPrefix = 3;

// More names than this make an error message unreadable.
constexpr std::size_t kMostNames = 24;

}  // namespace

std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates) {
  const std::string wanted = lower(name);
  std::optional<std::string> best;
  std::size_t best_distance = tolerance(wanted.size()) + 1;
  for (const std::string& candidate : candidates) {
    const std::string known = lower(candidate);
    std::size_t distance = edit_distance(wanted, known);
    // Everything replaced is not a slip: "a" does not suggest "b".
    if (distance > 0 && distance >= std::min(wanted.size(), known.size())) continue;
    if (wanted.size() >= kMeaningfulPrefix && known.starts_with(wanted)) {
      distance = std::min<std::size_t>(distance, 1);
    }
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  if (candidates.empty()) return "";
  if (const auto found = nearest(name, candidates)) {
    return fmt::format("; did you mean '{}'?", *found);
  }
  const auto shown = std::min(candidates.size(), kMostNames);
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(shown);
  std::string text = fmt::format("; known: {}", fmt::join(candidates.begin(), end, ", "));
  if (shown < candidates.size()) text += fmt::format(", ... ({} in all)", candidates.size());
  return text;
}

}  // namespace nru
