// Environment variables for the length of a scope.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace nru::test {

// Sets a variable for a scope, or takes it away.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace nru::test
