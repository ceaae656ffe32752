// Other programs, run without a shell: no quoting, no surprises in file names.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nru {

// The file that a shell would run for this name.
std::optional<std::filesystem::path> find_program(const std::string& name);

struct ProcessResult {
  int code = 0;        // exit code, or minus the signal that ended it; 127: could not be run
  std::string errors;  // what it wrote to its standard error
};

// Runs words[0], found on PATH, in `directory` (empty: this one) to its end, with nothing to read
// and its output thrown away. `tick` is called a few times a second meanwhile. Throws nru::Error
// when no process can be started.
ProcessResult run_program(const std::vector<std::string>& words,
                          const std::filesystem::path& directory = {},
                          const std::function<void()>& tick = {});

}  // namespace nru
