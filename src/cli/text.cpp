#include "cli/text.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace nru::cli {
namespace {

thread_local std::ostream* redirected = nullptr;

std::atomic<bool> reader_left{false};

void output_failed() {
  const int code = errno;
  if (redirected == nullptr && code == EPIPE) {
    reader_left = true;
    return;
  }
  const bool full = code == ENOSPC || code == EDQUOT;
  throw Error(fmt::format("cannot write to standard output: {}; {}send it elsewhere",
                          std::strerror(code), full ? "free some space or " : ""));
}

// All of `text` as a number; false where it is none.
template <class T>
bool read_number(std::string_view text, T& value) {
  if (text.starts_with("+") && !text.starts_with("+-")) text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc{} && rest == end;
}

// Characters, not bytes: continuation bytes of UTF-8 take no room.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

void print(std::string_view text) {
  if (!output_is_read()) return;
  const bool written = redirected != nullptr
                           ? redirected->write(text.data(), std::ssize(text)).good()
                           : std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written) output_failed();
}

void flush_output() {
  if (!output_is_read()) return;
  const bool flushed =
      redirected != nullptr ? redirected->flush().good() : std::fflush(stdout) == 0;
  if (!flushed) output_failed();
}

bool output_is_read() { return redirected != nullptr || !reader_left; }

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

NumberCheck whole_number(const std::string& flag, std::int64_t least, std::int64_t most,
                         const std::string& choose) {
  return [=](std::string& text) {
    std::int64_t value = 0;
    if (read_number(text, value) && value >= least && value <= most) {
      text = std::to_string(value);  // the parser would take 010 for 8
      return "";
    }
    double real = 0;
    const bool means_one = text.find_first_of(".eE") != std::string::npos &&
                           read_number(text, real) && real == std::floor(real) &&
                           real >= static_cast<double>(least) && real <= static_cast<double>(most);
    throw Error(fmt::format("{} {} is not possible; choose {}{}", flag, text, choose,
                            means_one ? fmt::format("; write {:.0f}", real) : ""));
  };
}

NumberCheck any_number(const std::string& flag, double least, double most,
                       const std::string& choose) {
  return [=](std::string& text) {
    double value = 0;
    if (read_number(text, value) && value >= least && value <= most) return "";  // false for NaN
    throw Error(fmt::format("{} {} is not possible; choose {}", flag, text, choose));
  };
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
