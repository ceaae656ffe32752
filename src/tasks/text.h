// Text files as sequences of symbols, in the three forms they come in:
//
//   plain   any UTF-8 text; every character, line ends included, is a symbol
//   spelt   the Penn Treebank's character files: "t h e _ c a t \n", one sentence a line
//   words   the word files these were made from: " the cat \n"
//
// Spelt and word files give the same symbols: `_` for a blank between words, <eos> for the end of a
// line. The published spelt files end with "\n ", and that last blank counts as one more, empty
// sentence, as in the published experiments; word files end without it and get it too.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "tasks/vocabulary.h"

namespace nru::tasks {

enum class TextForm { plain, spelt, words };

// Called for each symbol with the byte it starts at.
using SymbolSink = std::function<void(char32_t symbol, std::size_t offset)>;

// All symbols of `text` in order; a byte order mark at its beginning is not one. Throws nru::Error,
// beginning with `name`, for bytes that are not UTF-8, and in spelt text for characters without a
// blank between them.
void scan_text(std::string_view text, TextForm form, const std::string& name,
               const SymbolSink& sink);

// The form of a file of the Penn Treebank, from its first sentence.
TextForm form_of_sentences(std::string_view text);

// A word file as the spelt file of the same sentences, byte for byte as published.
std::string spell(std::string_view words, const std::string& name);

}  // namespace nru::tasks
