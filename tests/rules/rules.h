// The house rules of ARCHITECTURE.md as functions over file contents, apart from the tests that
// apply them to the tree, so that the rules themselves can be tested on examples that break them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace nru::rules {

// Path from the repository root, with forward slashes -> the file's text.
using Tree = std::map<std::string, std::string>;

// Each complaint is one line, "path:line: what is wrong"; no complaints means the rule holds.
using Complaints = std::vector<std::string>;

inline constexpr int kMaxLines = 450;

// Reads the files that people write: sources, tests, scripts and build files.
Tree read_tree(const std::string& root);

// Who may know whom: what each room of src/, and include/nru/, may include.
Complaints check_room_includes(const Tree& tree);

// torch is included in include/nru/torch.h alone, and the torch-free rooms do not reach that header
// through any chain of includes.
Complaints check_torch(const Tree& tree);

Complaints check_length(const Tree& tree);

// No notes to self: an open end is an issue, or it is done now.
Complaints check_open_ends(const Tree& tree);

}  // namespace nru::rules
