#include "cli/text.h"

#include <nru/error.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace nru::cli {
namespace {

thread_local std::ostream* redirected = nullptr;

[[noreturn]] void output_failed() {
  throw Error(std::string("cannot write to standard output: ") + std::strerror(errno) +
              "; free some space or send it elsewhere");
}

// Characters, not bytes: continuation bytes of UTF-8 take no room.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

void print(std::string_view text) {
  const bool written = redirected != nullptr
                           ? redirected->write(text.data(), std::ssize(text)).good()
                           : std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written) output_failed();
}

void flush_output() {
  const bool flushed =
      redirected != nullptr ? redirected->flush().good() : std::fflush(stdout) == 0;
  if (!flushed) output_failed();
}

std::ostream& errors() { return redirected != nullptr ? *redirected : std::cerr; }

OutputTo::OutputTo(std::ostream& log) { redirected = &log; }
OutputTo::~OutputTo() { redirected = nullptr; }

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7F) c = ' ';
  }
  return line;
}

std::string not_a_flag(const std::string& value) {
  return value.starts_with("--") ? "expected a value, found the flag " + value : "";
}

std::string align(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right,
                  std::string_view indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      const bool at_right = i < right.size() && right[i];
      line += (i > 0 ? "  " : "") + (at_right ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace nru::cli
