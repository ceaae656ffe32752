// A headless Chromium, held through its debugging pipe: the page is loaded, looked at and used as a
// person would.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../support/test_files.h"

namespace nru::test {

// The program's path; empty where there is none.
std::string find_chromium();

class Browser {
 public:
  explicit Browser(const std::string& program);
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;
  ~Browser();

  // Loads the file into a window of that size and waits for it.
  void open(const std::filesystem::path& file, int width = 1280, int height = 900,
            bool dark = false);
  // The value of a JavaScript expression. Throws when it throws.
  nlohmann::json evaluate(const std::string& expression);
  // A key pressed and released, by its DOM name: "ArrowRight".
  void press(const std::string& key);
  // A PNG of the element, or of the window without one.
  void screenshot(const std::filesystem::path& file, const std::string& selector = "");

  // Since the last open(): errors and warnings of the console, and every address asked for.
  const std::vector<std::string>& complaints() const { return complaints_; }
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  nlohmann::json call(const std::string& method, const nlohmann::json& parameters = {});
  nlohmann::json receive();
  void note(const nlohmann::json& event);

  TempDir profile_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  int last_id_ = 0;
  std::string session_, buffer_;
  bool loaded_ = false;
  std::vector<std::string> complaints_, requests_;
};

}  // namespace nru::test
