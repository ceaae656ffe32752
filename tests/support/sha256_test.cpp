// SHA-256 on the vectors of FIPS 180-4 and of NIST's validation program, whole and in pieces.
#include "support/sha256.h"

#include <gtest/gtest.h>

namespace nru {
namespace {

struct Vector {
  std::string message;
  std::string digest;
};

const Vector kVectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
     "qrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {"\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
    {std::string(55, '\0'), "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7"},
    {std::string(56, '\0'), "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb"},
    {std::string(57, '\0'), "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785"},
    {std::string(64, '\0'), "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"},
    {std::string(1000, 'A'), "c2e686823489ced2017f6059b8b239318b6364f6dcd835d0a519105a1eadd6e4"},
    {std::string(1'000'000, 'a'),
     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

TEST(Sha256, PublishedVectors) {
  for (const Vector& v : kVectors)
    EXPECT_EQ(sha256_hex(v.message), v.digest) << v.message.size() << " bytes";
}

TEST(Sha256, PiecesOfAnySizeGiveTheSame) {
  for (const Vector& v : kVectors) {
    if (v.message.size() > 2000) continue;
    for (std::size_t first = 0; first <= v.message.size(); ++first) {
      Sha256 hash;
      hash.update(v.message.substr(0, first));
      hash.update("");
      hash.update(v.message.substr(first));
      ASSERT_EQ(hash.hex_digest(), v.digest) << first << " of " << v.message.size();
    }
    Sha256 by_byte;
    for (const char c : v.message) by_byte.update(std::string_view(&c, 1));
    EXPECT_EQ(by_byte.hex_digest(), v.digest);
  }
}

}  // namespace
}  // namespace nru
