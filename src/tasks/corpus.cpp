#include "tasks/corpus.h"

#include <fmt/format.h>
#include <nru/error.h>

#include "support/data_file.h"
#include "tasks/data_sets.h"
#include "tasks/text.h"

namespace nru::tasks {
namespace {

namespace fs = std::filesystem;

constexpr std::array kSplits = {Split::train, Split::valid, Split::test};

// The symbols of a file, each passed through `id_of` (symbol, byte) -> id.
template <class IdOf>
std::vector<std::int32_t> read_tokens(const fs::path& path, const IdOf& id_of) {
  const std::string text = read_data_file(path, "text");
  const bool sentences = path.filename().string().starts_with("ptb.");
  std::vector<std::int32_t> tokens;
  tokens.reserve(sentences ? text.size() / 2 : text.size());
  scan_text(text, sentences ? form_of_sentences(text) : TextForm::plain, path.string(),
            [&](char32_t symbol, std::size_t at) { tokens.push_back(id_of(symbol, at)); });
  if (tokens.empty()) throw Error(path.string() + ": byte 0: expected text, found an empty file");
  return tokens;
}

}  // namespace

Corpus load_corpus(const std::array<fs::path, 3>& files) {
  Corpus corpus;
  Vocabulary& vocabulary = corpus.vocabulary;
  corpus.tokens[0] =
      read_tokens(files[0], [&](char32_t symbol, std::size_t) { return vocabulary.add(symbol); });
  for (std::size_t i : {1, 2}) {
    corpus.tokens[i] = read_tokens(files[i], [&](char32_t symbol, std::size_t at) {
      const auto id = vocabulary.find(symbol);
      if (id) return *id;
      Vocabulary one;
      throw Error(
          fmt::format("{}: byte {}: the symbol '{}' (U+{:04X}) does not occur in {}, so no "
                      "model can learn it; take it out or put it there too",
                      files[i].string(), at, one.name(one.add(symbol)),
                      static_cast<std::uint32_t>(symbol), files[0].string()));
    });
  }
  return corpus;
}

Corpus load_corpus(const fs::path& file, double valid_fraction, double test_fraction) {
  Corpus corpus;
  std::vector<std::int32_t> all =
      read_tokens(file, [&](char32_t s, std::size_t) { return corpus.vocabulary.add(s); });
  const auto share = [&](double fraction) {
    return static_cast<std::ptrdiff_t>(fraction * static_cast<double>(all.size()));
  };
  const auto test = all.end() - share(test_fraction);
  const auto valid = test - share(valid_fraction);
  corpus.tokens[2].assign(test, all.end());
  corpus.tokens[1].assign(valid, test);
  all.erase(valid, all.end());
  corpus.tokens[0] = std::move(all);
  return corpus;
}

std::array<fs::path, 3> text_files_in(const fs::path& folder) {
  std::array<fs::path, 3> files;
  for (const Split split : kSplits) {
    const std::string name = to_string(split);
    DataFile file;
    file.name = name + ".txt";
    file.other_names = {"ptb.char." + name + ".txt", "ptb." + name + ".txt"};
    const auto path = find_data_file(file, folder);
    if (!path) {
      throw Error(
          fmt::format("no {0} in {1}; a folder of texts holds train.txt, valid.txt and "
                      "test.txt, or give one file",
                      file.name, folder.string()));
    }
    files[static_cast<std::size_t>(split)] = *path;
  }
  return files;
}

}  // namespace nru::tasks
