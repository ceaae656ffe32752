#include "rules.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace nru::rules {
namespace {

namespace fs = std::filesystem;

// What a room may include of this project, as prefixes of the include path. `except` takes away
// from what `allow` gives.
struct Room {
  std::string folder;
  bool torch_free;
  std::vector<std::string> allow;
  std::vector<std::string> except = {};
};

const std::vector<Room>& rooms() {
  static const std::vector<Room> table = {
      {"src/kernels/", true, {"kernels/"}},
      {"src/support/", true, {"support/", "nru/error.h", "nru/options.h"}},
      {"src/cells/", false, {"cells/", "kernels/", "support/", "nru/"}},
      // Before the room around it: its kernels are launched like all others.
      {"src/tasks/cuda/",
       true,
       {"tasks/", "kernels/philox.h", "kernels/cuda/device.h", "kernels/cuda/each.cuh",
        "kernels/cuda/launch.cuh"}},
      {"src/tasks/",
       true,
       {"tasks/", "support/", "kernels/philox.h", "nru/error.h", "nru/options.h"}},
      // Models and tasks through their interfaces only: no cell by name.
      {"src/training/",
       false,
       {"training/", "support/", "cells/registry.h", "cells/model.h", "cells/torch_cuda.h",
        "tasks/task.h", "tasks/registry.h", "tasks/cuda/device_batches.h", "kernels/", "nru/"},
       {"nru/cells/", "nru/nru.h"}},
      {"src/experiments/",
       true,
       {"experiments/", "training/", "support/", "nru/error.h", "nru/options.h", "nru/version.h"}},
      {"src/report/",
       true,
       {"report/", "support/", "experiments/definition.h", "training/criteria.h",
        "training/metrics.h", "training/result.h", "training/run_directory.h", "nru/error.h",
        "nru/options.h", "nru/version.h"}},
      {"src/python/",
       false,
       {"python/", "cells/functional.h", "cells/registry.h", "nru/error.h", "nru/options.h",
        "nru/torch.h", "nru/version.h"}},
      {"src/cli/", false, {""}},
      {"include/nru/", false, {"nru/"}},
  };
  return table;
}

struct Include {
  int line;
  bool quoted;
  std::string path;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> found;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, pattern))
      found.push_back({number, match[1] == "\"", match[2]});
  }
  return found;
}

bool starts_with_any(const std::string& path, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return path.starts_with(prefix); });
}

// The file of this project that an include path means, or "" for a system or library header.
std::string resolve(const std::string& path) {
  if (path.starts_with("nru/")) return "include/" + path;
  for (const Room& room : rooms()) {
    if (("src/" + path).starts_with(room.folder)) return "src/" + path;
  }
  return "";
}

bool is_torch(const std::string& path) {
  return starts_with_any(path, {"torch/", "ATen/", "c10/", "caffe2/"});
}

bool is_code(const std::string& path) {
  static const std::set<std::string> extensions = {".h", ".cpp", ".cu", ".cuh"};
  return extensions.contains(fs::path(path).extension().string());
}

std::string at(const std::string& path, int line) {
  return path + ":" + std::to_string(line) + ": ";
}

}  // namespace

Tree read_tree(const std::string& root) {
  static const std::set<std::string> text = {".h",  ".cpp",  ".cu",  ".cuh", ".cmake",
                                             ".py", ".toml", ".txt", ".in",  ""};
  Tree tree;
  for (const char* folder : {".ci", "bench", "cmake", "examples", "experiments", "include",
                             "python", "src", "tests", "tools"}) {
    const fs::path base = fs::path(root) / folder;
    if (!fs::exists(base)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(base)) {
      if (!entry.is_regular_file() || !text.contains(entry.path().extension().string())) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      if (!in) throw std::runtime_error("cannot read " + entry.path().string());
      std::ostringstream content;
      content << in.rdbuf();
      tree[fs::relative(entry.path(), root).generic_string()] = content.str();
    }
  }
  return tree;
}

Complaints check_room_includes(const Tree& tree) {
  Complaints complaints;
  for (const auto& [path, text] : tree) {
    if (!path.starts_with("src/") && !path.starts_with("include/")) continue;
    if (!is_code(path)) continue;
    const auto room = std::find_if(rooms().begin(), rooms().end(), [&](const Room& candidate) {
      return path.starts_with(candidate.folder);
    });
    if (room == rooms().end()) {
      complaints.push_back(at(path, 1) + "lies in no room that tests/rules/rules.cpp knows");
      continue;
    }
    for (const Include& include : includes_of(text)) {
      if (resolve(include.path).empty()) {
        if (include.quoted) {
          complaints.push_back(at(path, include.line) + "\"" + include.path +
                               "\" is not written relative to src/");
        }
      } else if (!starts_with_any(include.path, room->allow) ||
                 starts_with_any(include.path, room->except)) {
        complaints.push_back(at(path, include.line) + room->folder + " may not know " +
                             include.path);
      }
    }
  }
  return complaints;
}

Complaints check_torch(const Tree& tree) {
  const std::string door = "include/nru/torch.h";
  const std::set<std::string> doors = {door, "include/nru/torch_all.h", "src/cells/torch_cuda.h"};
  Complaints complaints;
  for (const auto& [path, text] : tree) {
    if (!is_code(path) || doors.contains(path)) continue;
    for (const Include& include : includes_of(text)) {
      if (is_torch(include.path)) {
        complaints.push_back(at(path, include.line) + include.path + " is included by " + door +
                             " and its like alone");
      }
    }
  }

  std::set<std::string> seen;
  std::function<bool(const std::string&)> reaches_torch = [&](const std::string& path) {
    if (path == door) return true;
    const auto file = tree.find(path);
    if (file == tree.end() || !seen.insert(path).second) return false;
    const std::vector<Include> includes = includes_of(file->second);
    return std::any_of(includes.begin(), includes.end(), [&](const Include& include) {
      return is_torch(include.path) || reaches_torch(resolve(include.path));
    });
  };
  for (const auto& [path, text] : tree) {
    if (!is_code(path)) continue;
    const bool torch_free = std::any_of(rooms().begin(), rooms().end(), [&](const Room& room) {
      return room.torch_free && path.starts_with(room.folder);
    });
    seen.clear();
    if (torch_free && reaches_torch(path)) {
      complaints.push_back(at(path, 1) + "reaches torch, and its room is torch-free");
    }
  }
  return complaints;
}

Complaints check_length(const Tree& tree) {
  Complaints complaints;
  for (const auto& [path, text] : tree) {
    const auto lines = static_cast<int>(lines_of(text).size());
    if (lines > kMaxLines) {
      complaints.push_back(at(path, lines) + "more than " + std::to_string(kMaxLines) + " lines");
    }
  }
  return complaints;
}

Complaints check_open_ends(const Tree& tree) {
  // Spelt in two halves, or this file would complain about itself.
  static const std::regex pattern(
      "\\b(TO"
      "DO|FIX"
      "ME)\\b");
  Complaints complaints;
  for (const auto& [path, text] : tree) {
    int number = 0;
    for (const std::string& line : lines_of(text)) {
      ++number;
      if (std::regex_search(line, pattern)) complaints.push_back(at(path, number) + line);
    }
  }
  return complaints;
}

}  // namespace nru::rules
