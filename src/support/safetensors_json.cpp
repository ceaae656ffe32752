// The header's JSON. It comes in as events, not as a tree: a tree would silently keep one of two
// equal keys, and would be built in full before the first check.
#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "support/safetensors_header.h"

namespace nru::safetensors {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxDimensions = 64;  // as many as numpy and torch handle

// Receives the events of the JSON parser. The format allows three levels: the header, in it the
// metadata and one object per tensor, in those the arrays of integers.
class HeaderEvents : public Json::json_sax_t {
 public:
  explicit HeaderEvents(const std::string& file) : file_(file) {}
  Header header;

  bool start_object(std::size_t) override {
    if (level_ == Level::kOutside) {
      level_ = Level::kHeader;
    } else if (level_ == Level::kHeader) {
      level_ = entry_.name == kMetadataKey ? Level::kMetadata : Level::kTensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& text) override {
    if (level_ == Level::kHeader) {
      if (!names_.insert(text).second) fail("the name " + shown(text) + " appears twice");
      entry_ = Entry{};
      entry_.name = text;
      offsets_.clear();
      fields_.clear();
      return true;
    }
    key_ = text;
    if (level_ == Level::kMetadata) {
      if (header.metadata.contains(text)) fail("metadata has the key " + shown(text) + " twice");
      return true;
    }
    if (text != "dtype" && text != "shape" && text != "data_offsets") {
      fail(fmt::format("tensor {} has the unknown field {}", shown(entry_.name), shown(text)));
    }
    if (!fields_.insert(text).second) {
      fail(fmt::format("tensor {} has the field {} twice", shown(entry_.name), shown(text)));
    }
    return true;
  }

  bool string(std::string& text) override {
    if (level_ == Level::kMetadata) {
      header.metadata.emplace(key_, text);
    } else if (level_ == Level::kTensor && key_ == "dtype") {
      const auto dtype = dtype_from_name(text);
      if (!dtype)
        fail(fmt::format("tensor {} has the unknown dtype {}", shown(entry_.name), shown(text)));
      entry_.dtype = *dtype;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (level_ != Level::kTensor || key_ == "dtype") unexpected("an array");
    level_ = Level::kArray;
    return true;
  }

  bool number_unsigned(Json::number_unsigned_t value) override {
    if (level_ != Level::kArray) unexpected("a number");
    if (key_ == "data_offsets") {
      offsets_.push_back(value);
      if (offsets_.size() > 2) fail("tensor " + shown(entry_.name) + " has more than two offsets");
      return true;
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(fmt::format("tensor {} has the impossible dimension {}", shown(entry_.name), value));
    }
    entry_.shape.push_back(static_cast<int64_t>(value));
    if (entry_.shape.size() > kMaxDimensions) {
      fail(
          fmt::format("tensor {} has more than {} dimensions", shown(entry_.name), kMaxDimensions));
    }
    return true;
  }

  bool end_array() override {
    level_ = Level::kTensor;
    return true;
  }

  bool end_object() override {
    if (level_ == Level::kTensor) finish_tensor();
    level_ = level_ == Level::kHeader ? Level::kOutside : Level::kHeader;
    return true;
  }

  bool number_integer(Json::number_integer_t value) override {
    unexpected(fmt::format("the negative number {}", value));
  }
  bool number_float(Json::number_float_t, const std::string& text) override {
    unexpected(fmt::format("the number {}", text.substr(0, 40)));
  }
  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a truth value"); }
  bool binary(Json::binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const bool encoding = std::strstr(error.what(), "UTF-8") != nullptr;
    fail(fmt::format("the header is not valid {} at byte {}", encoding ? "UTF-8" : "JSON",
                     position));
  }

 private:
  enum class Level { kOutside, kHeader, kMetadata, kTensor, kArray };

  [[noreturn]] void fail(const std::string& reason) { malformed(file_, reason); }

  [[noreturn]] void unexpected(const std::string& what) {
    switch (level_) {
      case Level::kOutside:
        fail("the header is " + what + " and not an object");
      case Level::kHeader:
        fail(fmt::format("the entry {} is {} and not an object", shown(entry_.name), what));
      case Level::kMetadata:
        fail(fmt::format("the metadata value of {} is {} and not a string", shown(key_), what));
      default:
        fail(fmt::format("tensor {} has {} in its {}", shown(entry_.name), what, key_));
    }
  }

  void finish_tensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) {
        fail(fmt::format("tensor {} has no {}", shown(entry_.name), field));
      }
    }
    if (offsets_.size() != 2) {
      fail(fmt::format("tensor {} has {} offsets instead of two", shown(entry_.name),
                       offsets_.size()));
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    header.entries.push_back(std::move(entry_));
  }

  const std::string& file_;
  Level level_ = Level::kOutside;
  std::set<std::string> names_;   // of the header
  Entry entry_;                   // the one being read
  std::string key_;               // the last key inside the metadata or a tensor
  std::set<std::string> fields_;  // the tensor's so far
  std::vector<uint64_t> offsets_;
};

}  // namespace

Header parse_json(std::string_view text, const std::string& file) {
  // The parser would skip a byte order mark, and take a zero byte for the end of the text.
  if (!text.starts_with('{')) malformed(file, "its header does not begin with '{'");
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    malformed(file, fmt::format("the header is not valid JSON at byte {}", zero + 1));
  }
  HeaderEvents events(file);
  Json::sax_parse(text.begin(), text.end(), &events);
  return std::move(events.header);
}

}  // namespace nru::safetensors
