#include "tasks/vocabulary.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <nlohmann/json.hpp>

#include "support/utf8.h"

namespace nru::tasks {
namespace {

constexpr std::string_view kEndOfSentenceName = "<eos>";
constexpr std::int32_t kMostListed = 100;  // more symbols make an error message unreadable

std::string to_utf8(char32_t symbol) {
  if (symbol == Vocabulary::kEndOfSentence) return std::string(kEndOfSentenceName);
  std::string text;
  append_utf8(text, symbol);
  return text;
}

std::optional<char32_t> symbol_of(const std::string& text) {
  if (text == kEndOfSentenceName) return Vocabulary::kEndOfSentence;
  if (text.empty()) return std::nullopt;
  const auto code = decode_utf8(text, 0);
  if (!code || code->bytes != text.size()) return std::nullopt;
  return code->value;
}

char32_t lower_case(char32_t symbol) {
  return symbol >= U'A' && symbol <= U'Z' ? symbol - U'A' + U'a' : symbol;
}

}  // namespace

std::int32_t Vocabulary::add(char32_t symbol) {
  if (const auto known = find(symbol)) return *known;
  const std::int32_t id = size();
  symbols_.push_back(symbol);
  if (symbol < ascii_.size()) {
    ascii_[symbol] = id;
  } else {
    others_.emplace(symbol, id);
  }
  return id;
}

std::optional<std::int32_t> Vocabulary::find(char32_t symbol) const {
  if (symbol < ascii_.size()) {
    return ascii_[symbol] >= 0 ? std::optional(ascii_[symbol]) : std::nullopt;
  }
  const auto found = others_.find(symbol);
  return found != others_.end() ? std::optional(found->second) : std::nullopt;
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
  const bool sentences = has_sentences();
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    const auto code = decode_utf8(text, at);
    if (!code) throw Error(fmt::format("the text is not UTF-8 at byte {}", at));
    char32_t symbol = code->value;
    if (sentences && symbol == U' ') symbol = U'_';
    if (sentences && symbol == U'\n') symbol = kEndOfSentence;
    const auto id = find(symbol);
    if (!id) {
      std::string help;
      if (find(lower_case(symbol))) {
        help = fmt::format("; did you mean '{}'?", to_utf8(lower_case(symbol)));
      } else if (size() <= kMostListed) {
        help = "; it knows";
        for (std::int32_t known = 0; known < size(); ++known) help += " " + name(known);
      }
      throw Error(fmt::format("the model has never seen '{}' (byte {} of the text){}",
                              text.substr(at, code->bytes), at, help));
    }
    ids.push_back(*id);
    at += code->bytes;
  }
  return ids;
}

std::string Vocabulary::decode(std::int32_t id) const {
  const char32_t symbol = symbols_.at(static_cast<std::size_t>(id));
  if (symbol == kEndOfSentence) return "\n";
  if (symbol == U'_' && has_sentences()) return " ";
  return to_utf8(symbol);
}

std::string Vocabulary::name(std::int32_t id) const {
  return to_utf8(symbols_.at(static_cast<std::size_t>(id)));
}

std::string Vocabulary::to_json() const {
  nlohmann::json array = nlohmann::json::array();
  for (std::int32_t id = 0; id < size(); ++id) array.push_back(name(id));
  return array.dump();
}

Vocabulary Vocabulary::from_json(const std::string& json, const std::string& where) {
  const auto array = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!array.is_array()) throw Error(where + ": the vocabulary is not a JSON array of symbols");
  Vocabulary vocabulary;
  for (const auto& entry : array) {
    const std::int32_t next = vocabulary.size();
    const auto symbol =
        entry.is_string() ? symbol_of(entry.get_ref<const std::string&>()) : std::nullopt;
    if (!symbol || vocabulary.add(*symbol) != next) {
      throw Error(fmt::format("{}: entry {} of the vocabulary, {}, is {}", where, next,
                              entry.dump(), symbol ? "there twice" : "not a symbol"));
    }
  }
  return vocabulary;
}

}  // namespace nru::tasks
