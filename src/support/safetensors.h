// The safetensors file format: named tensors and string metadata, no code, readable from Python.
//
//   8 bytes   N, little-endian unsigned: the size of the header
//   N bytes   JSON: {"__metadata__": {string: string}, NAME: {dtype, shape, data_offsets}, ...}
//   the rest  the tensors' bytes, little-endian, row-major, without holes
//
// The reader is strict: whatever is not exactly such a file is an nru::Error that names the file
// and the reason. Files we write also carry two CRC-32 values in the metadata, over the data and
// over the header, so that any flipped bit is noticed; files from elsewhere load without them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nru {

enum class DType {
  F64,
  F32,
  F16,
  BF16,
  F8_E4M3,
  F8_E5M2,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL
};

std::string_view dtype_name(DType dtype);  // as the format spells it: "F32"
std::size_t dtype_size(DType dtype);       // bytes per element

struct TensorView {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;        // empty = a scalar
  std::span<const std::byte> bytes;  // row-major; not owned
};

// Written atomically (see atomic_file.h). The bytes depend on the content alone, not on the order
// of `tensors`: they are laid out by element size, largest first, then by name, which also aligns
// each one to its element size. Throws nru::Error for duplicate or reserved names, sizes that do
// not match their shape, text that is not UTF-8, and when the file cannot be written.
void save_safetensors(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
                      const std::map<std::string, std::string>& metadata);

namespace safetensors {
struct Header;
}

// A loaded file. Owns the bytes its views point to; moving it keeps the views valid.
class SafetensorsFile {
 public:
  static SafetensorsFile load(const std::filesystem::path& path);

  // The same for a file already in memory (copied); `name` stands for the path in error messages.
  static SafetensorsFile parse(std::span<const std::byte> file, const std::string& name);

  // In the order of the data section. The first tensor starts at an address fit for any element
  // type; in files of our own, all do.
  const std::vector<TensorView>& tensors() const { return tensors_; }

  // nullptr when there is none of that name.
  const TensorView* find(std::string_view name) const;

  // The tensor, or nru::Error when it is missing or of another dtype or shape.
  const TensorView& require(std::string_view name, DType dtype,
                            const std::vector<int64_t>& shape) const;

  // Without the two checksum entries.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // What the error messages call this file.
  const std::string& name() const { return name_; }

 private:
  SafetensorsFile(std::string name, safetensors::Header header, std::unique_ptr<std::byte[]> data,
                  std::size_t size);

  std::string name_;
  std::unique_ptr<std::byte[]> data_;
  std::vector<TensorView> tensors_;                        // bytes point into data_
  std::map<std::string, std::size_t, std::less<>> index_;  // name -> position in tensors_
  std::map<std::string, std::string> metadata_;
};

}  // namespace nru
