#include "tasks/text.h"

#include <fmt/format.h>
#include <nru/error.h>

#include "support/utf8.h"

namespace nru::tasks {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }

// A text that is read from front to back, one code point at a time.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  bool done() const { return at_ >= text_.size(); }
  char byte() const { return text_[at_]; }
  std::size_t at() const { return at_; }
  void skip(std::size_t bytes) { at_ += bytes; }

  char32_t next() {
    const auto code = decode_utf8(text_, at_);
    if (!code) {
      fail(fmt::format("byte {:#04x} is not UTF-8; convert the file to UTF-8",
                       static_cast<unsigned char>(byte())));
    }
    at_ += code->bytes;
    return code->value;
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw Error(fmt::format("{}: byte {}: {}", name_, at_, reason));
  }

 private:
  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

void scan_plain(Reader& reader, const SymbolSink& sink) {
  while (!reader.done()) {
    const std::size_t at = reader.at();
    sink(reader.next(), at);
  }
}

void scan_spelt(Reader& reader, const SymbolSink& sink) {
  bool apart = true;      // a blank or a line end came before
  bool sentence = false;  // something, if only a blank, came after the last line end
  for (; !reader.done();) {
    const std::size_t at = reader.at();
    sentence = true;
    if (is_blank(reader.byte())) {
      reader.skip(1);
      apart = true;
    } else if (reader.byte() == '\n') {
      reader.skip(1);
      sink(Vocabulary::kEndOfSentence, at);
      apart = true;
      sentence = false;
    } else {
      if (!apart) reader.fail("expected a blank between characters, as in the rest of the file");
      sink(reader.next(), at);
      apart = false;
    }
  }
  if (sentence) sink(Vocabulary::kEndOfSentence, reader.at());
}

// Blanks at both ends of a line are dropped, each one inside it becomes `_`. Ends without the
// empty sentence.
void scan_words(Reader& reader, const SymbolSink& sink) {
  std::size_t blanks = 0;  // since the last character
  bool begun = false;      // the line has a character
  bool sentence = false;
  for (; !reader.done();) {
    const std::size_t at = reader.at();
    sentence = true;
    if (is_blank(reader.byte())) {
      reader.skip(1);
      ++blanks;
    } else if (reader.byte() == '\n') {
      reader.skip(1);
      sink(Vocabulary::kEndOfSentence, at);
      begun = sentence = false;
      blanks = 0;
    } else {
      for (; begun && blanks > 0; --blanks) sink(U'_', at - blanks);
      blanks = 0;
      sink(reader.next(), at);
      begun = true;
    }
  }
  if (sentence) sink(Vocabulary::kEndOfSentence, reader.at());
}

}  // namespace

void scan_text(std::string_view text, TextForm form, const std::string& name,
               const SymbolSink& sink) {
  Reader reader(text, name);
  if (text.starts_with(kByteOrderMark)) reader.skip(kByteOrderMark.size());
  switch (form) {
    case TextForm::plain:
      return scan_plain(reader, sink);
    case TextForm::spelt:
      return scan_spelt(reader, sink);
    case TextForm::words:
      scan_words(reader, sink);
      return sink(Vocabulary::kEndOfSentence, text.size());
  }
}

TextForm form_of_sentences(std::string_view text) {
  std::size_t characters = 0;  // of the current word
  bool begun = false;
  for (const char c : text) {
    if (c == '\n' && begun) break;
    const bool continued =
        (static_cast<unsigned char>(c) & 0xC0) == 0x80;  // inside a UTF-8 character
    if (is_blank(c) || c == '\n') {
      characters = 0;
    } else if (!continued) {
      begun = true;
      if (++characters > 1) return TextForm::words;
    }
  }
  return TextForm::spelt;
}

std::string spell(std::string_view words, const std::string& name) {
  std::string spelt;
  spelt.reserve(2 * words.size() + 2);
  bool empty = true;
  Reader reader(words, name);
  scan_words(reader, [&](char32_t symbol, std::size_t) {
    if (symbol == Vocabulary::kEndOfSentence) {
      spelt += empty ? " \n " : "\n ";
      empty = true;
    } else {
      append_utf8(spelt, symbol);
      spelt += ' ';
      empty = false;
    }
  });
  return spelt;
}

}  // namespace nru::tasks
