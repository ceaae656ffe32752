// Damaged files and killed writers: nothing but a whole, unchanged file ever loads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <random>
#include <thread>

#include "safetensors_files.h"
#include "support/safetensors.h"

namespace nru {
namespace {

using test::error_of;
using test::file_of;
using test::read_bytes;
using test::TempDir;
using testing::StartsWith;

std::string small_file() {
  const TempDir dir;
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<uint8_t> flags = {1, 0, 1};
  save_safetensors(dir / "a",
                   {{"weight", DType::F32, {2, 3}, std::as_bytes(std::span(weight))},
                    {"flags", DType::BOOL, {3}, std::as_bytes(std::span(flags))}},
                   // \u0001 is written as an escape, whose digits have bits to flip too.
                   {{"update", "17"}, {"control\x1b", "quote \" \x0f"}});
  return read_bytes(dir / "a");
}

std::string load_error(const std::string& bytes) {
  return error_of([&] { SafetensorsFile::parse(std::as_bytes(std::span(bytes)), "the-file"); });
}

TEST(SafetensorsDamage, EveryTruncationIsRefused) {
  const std::string whole = small_file();
  ASSERT_EQ(load_error(whole), "");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(load_error(whole.substr(0, length)), StartsWith("cannot load the-file: "))
        << length;
  }
}

TEST(SafetensorsDamage, EveryExtensionIsRefused) {
  const std::string whole = small_file();
  for (std::size_t extra = 1; extra <= 16; ++extra) {
    EXPECT_THAT(load_error(whole + std::string(extra, '\0')), StartsWith("cannot load the-file: "));
  }
}

TEST(SafetensorsDamage, EveryFlippedBitIsRefused) {
  const std::string whole = small_file();
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(load_error(damaged), StartsWith("cannot load the-file: "))
        << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST(SafetensorsDamage, RandomBytesAreRefusedAndNothingElse) {
  std::mt19937 random(20240);
  std::uniform_int_distribution<int> byte(0, 255);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(byte(random));
    // Half of them get past the size of the header.
    if (i % 2 == 0) bytes = file_of("{" + bytes, bytes.substr(0, bytes.size() / 2));
    EXPECT_THAT(load_error(bytes), StartsWith("cannot load the-file: "));
  }
}

TEST(SafetensorsDamage, RandomTokensAreRefusedOrConsistent) {
  // Random sentences of the header's own vocabulary reach deeper than random bytes. Some may be
  // valid; those must then describe bytes that are there. Anything but nru::Error fails the test.
  const std::vector<std::string> words = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          ":",
                                          "\"t\"",
                                          "\"__metadata__\"",
                                          "\"dtype\"",
                                          "\"shape\"",
                                          "\"data_offsets\"",
                                          "\"F32\"",
                                          "\"U8\"",
                                          "0",
                                          "1",
                                          "4",
                                          "-1",
                                          "1e9",
                                          "null",
                                          "true",
                                          "18446744073709551615",
                                          "9223372036854775807",
                                          "\"\\ud83d\"",
                                          "\"nru.crc32\"",
                                          "\xff",
                                          R"("t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})",
                                          R"("__metadata__":{"k":"v"})"};
  std::mt19937 random(77);
  int valid = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string header = "{";
    const auto length = random() % 4 == 0 ? 1 + random() % 2 : random() % 20;
    for (std::size_t w = 0; w < length; ++w) header += words[random() % words.size()];
    if (random() % 2 == 0) header += "}";
    const std::string bytes = file_of(header, "1234");
    try {
      const auto file = SafetensorsFile::parse(std::as_bytes(std::span(bytes)), "the-file");
      std::size_t total = 0;
      for (const TensorView& tensor : file.tensors()) total += tensor.bytes.size();
      EXPECT_EQ(total, 4u);
      ++valid;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith("cannot load the-file: "));
    }
  }
  EXPECT_GT(valid, 0);  // else the vocabulary reaches nothing
}

// One of two checkpoints that differ in every byte of data and in size.
struct Checkpoint {
  std::vector<float> weight;
  std::string update;

  void save(const std::filesystem::path& path) const {
    save_safetensors(path,
                     {{"weight",
                       DType::F32,
                       {static_cast<int64_t>(weight.size())},
                       std::as_bytes(std::span(weight))}},
                     {{"update", update}});
  }

  bool equals(const SafetensorsFile& file) const {
    const TensorView* found = file.find("weight");
    const auto expected = std::as_bytes(std::span(weight));
    return found != nullptr && file.metadata().at("update") == update &&
           std::equal(found->bytes.begin(), found->bytes.end(), expected.begin(), expected.end());
  }
};

TEST(SafetensorsKill, FiftyKillsDuringSavingAlwaysLeaveALoadableFile) {
  const TempDir dir;
  const auto path = dir / "checkpoint.safetensors";
  const Checkpoint even{std::vector<float>(100'000, 1.25f), "even"};
  const Checkpoint odd{std::vector<float>(150'000, -7.5f), "odd"};
  odd.save(path);
  std::mt19937 random(5);
  int left_over = 0;
  for (int kill = 0; kill < 50; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) {
        even.save(path);
        odd.save(path);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    // An exception in the child would end it before the kill, by another signal.
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const SafetensorsFile file = SafetensorsFile::load(path);
    EXPECT_TRUE(even.equals(file) || odd.equals(file)) << "after kill " << kill;
    if (test::count_files(dir.path()) > 1) ++left_over;
    ASSERT_LE(test::count_files(dir.path()), 2u);  // temporary files do not pile up
  }
  // Kills did hit the middle of a save, and the next save cleans up after the last.
  EXPECT_GT(left_over, 0);
  even.save(path);
  EXPECT_TRUE(even.equals(SafetensorsFile::load(path)));
  EXPECT_EQ(test::count_files(dir.path()), 1u);
}

}  // namespace
}  // namespace nru
