// SHA-256 (FIPS 180-4): tells whether a data set is the published one, byte for byte. Our own,
// because it is a page and a cryptography library would be a large dependency for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nru {

class Sha256 {
 public:
  // Any number of pieces of any size.
  void update(std::string_view bytes);
  // The digest in lower-case hexadecimal, 64 characters. Ends the computation.
  std::string hex_digest();

 private:
  void compress(const unsigned char* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_ = {};  // a block that is not full yet
  std::uint64_t length_ = 0;                    // bytes so far
};

std::string sha256_hex(std::string_view bytes);

}  // namespace nru
