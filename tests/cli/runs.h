// Small runs and what their directories hold.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "program.h"

namespace nru::test {

// `nru train` of a network so small that hundreds of updates take a second; add --out.
Arguments small_run();

// name -> content of all files but the lock.
using Snapshot = std::map<std::string, std::string>;
Snapshot snapshot(const std::filesystem::path& directory);

// What differs between two runs beside wall-clock fields: empty when they ended bit for bit alike.
// Compares the tensors and counters of the checkpoint, best.safetensors, metrics.csv and
// result.json.
std::string difference(const std::filesystem::path& a, const std::filesystem::path& b);

nlohmann::json json_file(const std::filesystem::path& path);
// Fails the test when the text is not JSON.
nlohmann::json parse_json(const std::string& text);

// The last update in metrics.csv; -1 before there is one. Never throws: the file may be half made.
long last_logged_update(const std::filesystem::path& run);

}  // namespace nru::test
