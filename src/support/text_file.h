// Whole text files into memory, with errors a user can act on.
#pragma once

#include <filesystem>
#include <string>

namespace nru {

// The content of the file. Throws nru::Error with the path and the reason (missing, a directory, no
// permission) when it cannot be read; `what` ("configuration", "metrics file") says in the message
// what was wanted.
std::string read_text_file(const std::filesystem::path& path, const std::string& what);

}  // namespace nru
