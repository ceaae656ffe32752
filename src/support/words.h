// Counts and times as people read them, words as shells do.
#pragma once

#include <cstdint>
#include <string>

namespace nru {

// "1h 02m", "3m 20s", "7s": at most two units.
std::string format_duration(double seconds);
// 12300 -> "12,300".
std::string format_count(std::int64_t count);
// As a POSIX shell wants it, quoted only where it must be.
std::string shell_word(const std::string& word);

}  // namespace nru
