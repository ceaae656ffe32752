// The two exceptions a caller of nru may want to tell apart from a bug.
//
// Everything else that escapes the library (std::logic_error, std::bad_alloc, c10::Error) is an
// internal error; the command line maps Error to exit code 2 and Diverged to 3.
#pragma once

#include <stdexcept>

namespace nru {

// What the user gave was wrong: a file, a configuration, a flag, a size, a shape. The message is
// one line with the offending value and the way to put it right.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Training met non-finite values and stopped. Not an Error: the input was valid, the run was not.
class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace nru
