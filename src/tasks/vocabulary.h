// The symbols of a text model and their ids: characters (Unicode code points), and where the text
// is a list of sentences, the end of a sentence, written "<eos>".
//
// A text of sentences follows the Penn Treebank's conventions: a blank is spelt `_`, a line ends
// with <eos>, and neither blank nor line end is a symbol of its own. Prompts and samples are for
// people, so encode() takes blanks and line ends as typed and decode() gives them back.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nru::tasks {

class Vocabulary {
 public:
  // Not a code point, so no text can contain it.
  static constexpr char32_t kEndOfSentence = 0x110000;

  Vocabulary() { ascii_.fill(-1); }

  // to_json() of a vocabulary: an array of strings in id order. Throws nru::Error, beginning with
  // `where`, for anything else.
  static Vocabulary from_json(const std::string& json, const std::string& where);
  std::string to_json() const;

  // The symbol's id; a symbol that is not known yet gets the next one.
  std::int32_t add(char32_t symbol);
  std::optional<std::int32_t> find(char32_t symbol) const;

  std::int32_t size() const { return static_cast<std::int32_t>(symbols_.size()); }
  bool has_sentences() const { return find(kEndOfSentence).has_value(); }

  // Ids of UTF-8 text that somebody typed. Throws nru::Error for invalid UTF-8 and unknown
  // characters, with the place and what there is instead.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // The symbol as text for people: `_` is a blank and <eos> a line end in a text of sentences.
  std::string decode(std::int32_t id) const;
  // The symbol as it is: "_", "<eos>", "a".
  std::string name(std::int32_t id) const;

 private:
  std::vector<char32_t> symbols_;  // in id order
  // Ids by symbol, -1: none. Nearly every character of nearly every text is ASCII, and a table is
  // ten times as fast as a map.
  std::array<std::int32_t, 128> ascii_;
  std::unordered_map<char32_t, std::int32_t> others_;
};

}  // namespace nru::tasks
