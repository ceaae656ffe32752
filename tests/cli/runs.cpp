#include "runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "../support/test_files.h"
#include "support/safetensors.h"

namespace nru::test {

namespace fs = std::filesystem;

Arguments small_run() {
  return {"train",     "--quiet",
          "--task",    "copy",
          "--cell",    "nru",
          "--lag",     "5",
          "--set",     "cell.hidden_size=8",
          "--set",     "cell.memory_size=4",
          "--set",     "cell.heads=1",
          "--set",     "batch_size=12",
          "--set",     "log_every=7",
          "--set",     "evaluate_every=50",
          "--set",     "checkpoint_every=30",
          "--set",     "task_options.evaluation_batches=2",
          "--updates", "60"};
}

Snapshot snapshot(const fs::path& directory) {
  Snapshot files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && entry.path().filename() != ".lock")
      files[fs::relative(entry.path(), directory).string()] = read_bytes(entry.path());
  }
  return files;
}

namespace {

std::string checkpoint_difference(const fs::path& a, const fs::path& b) {
  const auto first = SafetensorsFile::load(a / "checkpoint.safetensors");
  const auto second = SafetensorsFile::load(b / "checkpoint.safetensors");
  if (first.tensors().size() != second.tensors().size()) return "tensors of the checkpoint";
  for (const TensorView& tensor : first.tensors()) {
    const TensorView* other = second.find(tensor.name);
    if (other == nullptr || other->shape != tensor.shape ||
        !std::equal(tensor.bytes.begin(), tensor.bytes.end(), other->bytes.begin(),
                    other->bytes.end()))
      return "checkpoint: " + tensor.name;
  }
  auto metadata = first.metadata(), other = second.metadata();
  metadata.erase("seconds");
  other.erase("seconds");
  return metadata == other ? "" : "metadata of the checkpoint";
}

// The lines without their last column, the seconds.
std::string metrics_without_seconds(const fs::path& run) {
  std::istringstream in(read_bytes(run / "metrics.csv"));
  std::string text;
  for (std::string line; std::getline(in, line);) text += line.substr(0, line.rfind(',')) + "\n";
  return text;
}

}  // namespace

std::string difference(const fs::path& a, const fs::path& b) {
  if (const std::string found = checkpoint_difference(a, b); !found.empty()) return found;
  if (read_bytes(a / "best.safetensors") != read_bytes(b / "best.safetensors"))
    return "best.safetensors";
  if (metrics_without_seconds(a) != metrics_without_seconds(b)) return "metrics.csv";
  auto first = json_file(a / "result.json"), second = json_file(b / "result.json");
  first.erase("seconds");
  second.erase("seconds");
  return first == second ? "" : "result.json: " + nlohmann::json::diff(first, second).dump();
}

nlohmann::json parse_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << "not JSON: " << text;
  return json;
}

nlohmann::json json_file(const fs::path& path) { return parse_json(read_bytes(path)); }

long last_logged_update(const fs::path& run) {
  const std::string text = read_bytes(run / "metrics.csv");
  const std::size_t end = text.rfind('\n');
  if (end == std::string::npos || end == 0) return -1;
  const std::size_t start = text.rfind('\n', end - 1);
  if (start == std::string::npos) return -1;  // the header
  return std::atol(text.c_str() + start + 1);
}

}  // namespace nru::test
