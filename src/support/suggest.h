// "did you mean ...": the nearest known name to a mistyped one, for every error about a name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nru {

// The candidate closest to `name` by edit distance (insertions, deletions, substitutions and swaps
// of neighbours; case is ignored; a candidate that `name` begins counts as close), the first one on
// a tie. Nothing when none is close enough to be a likely slip.
std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates);

// The tail of an error message: "; did you mean 'x'?", else "; known: a, b, c", else "".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace nru
