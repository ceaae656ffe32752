// A text as three sequences of symbol ids: what a character model is trained, selected and tested
// on.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "tasks/task.h"
#include "tasks/vocabulary.h"

namespace nru::tasks {

struct Corpus {
  Vocabulary vocabulary;
  std::array<std::vector<std::int32_t>, 3> tokens;

  const std::vector<std::int32_t>& of(Split split) const {
    return tokens[static_cast<std::size_t>(split)];
  }
};

// Three files: train, valid, test, plain or gzipped. A file whose name begins with "ptb." holds
// sentences (text.h), any other plain text. The vocabulary is that of the training text, ids by
// first appearance; throws nru::Error where another text has a symbol that it lacks, and for empty
// texts.
Corpus load_corpus(const std::array<std::filesystem::path, 3>& files);

// One file, cut in three: the last test_fraction of its symbols are the test text, the
// valid_fraction before it the validation text. The vocabulary is that of the whole file: a rare
// character that happens to stand near its end is no reason to refuse it.
Corpus load_corpus(const std::filesystem::path& file, double valid_fraction, double test_fraction);

// {train,valid,test}.txt in a folder, or the Penn Treebank's names for them; each also with ".gz".
// Throws nru::Error that says which is missing.
std::array<std::filesystem::path, 3> text_files_in(const std::filesystem::path& folder);

}  // namespace nru::tasks
