// Text for people: the small things every subcommand prints with.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace nru::cli {

// To standard output. Throws nru::Error when it cannot be written (a full disk), as does
// flush_output(); main() flushes at the end, so that no command succeeds whose output was lost.
// A reader that has closed its end (`nru list | head -1`) has seen enough: nothing more is printed.
void print(std::string_view text);
void flush_output();
bool output_is_read();   // false once such a reader has left
std::ostream& errors();  // standard error

// While one lives, all three mean `log`, in this thread: commands that run side by side in one
// process each have their own.
class OutputTo {
 public:
  explicit OutputTo(std::ostream& log);
  OutputTo(const OutputTo&) = delete;
  OutputTo& operator=(const OutputTo&) = delete;
  ~OutputTo();
};

// Control characters, line ends among them, become spaces: an error is one line, and a file name
// cannot drive the terminal.
std::string one_line(std::string_view text);

// "" for a value that may follow a flag, else what is wrong with it: the parser would take a flag
// as the value of the one before, and `--out --resume` would train in a directory of that name.
std::string not_a_flag(const std::string& value);

// For CLI::Option::transform: takes a number from `least` to `most`. Any other value is an
// nru::Error, "--jobs abc is not possible; choose 1 to 1024", with `choose` at its end.
using NumberCheck = std::function<std::string(std::string&)>;
NumberCheck whole_number(const std::string& flag, std::int64_t least, std::int64_t most,
                         const std::string& choose);
NumberCheck any_number(const std::string& flag, double least, double most,
                       const std::string& choose);

// Rows of cells as lines: columns padded to their widest cell, two spaces between, no blanks at the
// ends of lines. `right` says which columns are numbers and line up at the right; columns beyond it
// do not.
std::string align(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<bool>& right = {}, std::string_view indent = "");

}  // namespace nru::cli
