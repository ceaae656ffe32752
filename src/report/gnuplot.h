// Running gnuplot, and writing what it reads.
#pragma once

#include <string>
#include <string_view>

namespace nru::report {

// What the program writes to its standard output when it reads `script`. Throws nru::Error when
// gnuplot is not there (with the way to get it) or complains.
std::string run_gnuplot(std::string_view script);

// A string literal of gnuplot's language, one line, whatever `text` holds.
std::string gnuplot_string(std::string_view text);

// A number for a data block; "NaN", which gnuplot leaves out, where it is not finite.
std::string gnuplot_number(double value);

}  // namespace nru::report
