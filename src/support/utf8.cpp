#include "support/utf8.h"

namespace nru {
namespace {

struct Form {
  std::size_t bytes;
  char32_t bits;      // of the lead byte
  char32_t smallest;  // a smaller value in this form is overlong
};

std::optional<Form> form_of(unsigned char lead) {
  if (lead < 0x80) return Form{1, lead, 0};
  if (lead < 0xC0) return std::nullopt;
  if (lead < 0xE0) return Form{2, lead & 0x1Fu, 0x80};
  if (lead < 0xF0) return Form{3, lead & 0x0Fu, 0x800};
  if (lead < 0xF8) return Form{4, lead & 0x07u, 0x10000};
  return std::nullopt;
}

}  // namespace

std::optional<CodePoint> decode_utf8(std::string_view text, std::size_t at) {
  const auto form = form_of(static_cast<unsigned char>(text[at]));
  if (!form || text.size() - at < form->bytes) return std::nullopt;
  char32_t value = form->bits;
  for (std::size_t i = 1; i < form->bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xC0) != 0x80) return std::nullopt;
    value = (value << 6) | (byte & 0x3Fu);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < form->smallest || value > 0x10FFFF || surrogate) return std::nullopt;
  return CodePoint{value, form->bytes};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto code = decode_utf8(text, 0);
    if (!code) return false;
    text.remove_prefix(code->bytes);
  }
  return true;
}

void append_utf8(std::string& out, char32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace nru
