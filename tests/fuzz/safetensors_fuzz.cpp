// libFuzzer entry point for the safetensors reader: any input either loads or is an nru::Error.
// Another exception, a crash or a sanitizer report is a finding. To run it for a minute:
//
//   flags="-std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc"
//   sources="tests/fuzz/safetensors_fuzz.cpp $(ls src/support/*.cpp)"
//   clang++ $flags $sources -lfmt -lz -o build/safetensors_fuzz
//   build/safetensors_fuzz -max_total_time=60 -max_len=4096
//
// A folder with a checkpoint or two as first argument gives it a start.
#include <nru/error.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "support/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  try {
    const auto file = nru::SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    // What loaded must be readable to the last byte and found by name.
    unsigned sum = 0;
    for (const nru::TensorView& tensor : file.tensors()) {
      for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
      if (file.find(tensor.name) != &tensor) std::abort();
    }
    volatile unsigned keep = sum;
    (void)keep;
  } catch (const nru::Error&) {
  }
  return 0;
}
