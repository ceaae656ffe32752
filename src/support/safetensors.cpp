// Saving and loading of safetensors files; the header's rules are in safetensors_header.cpp.
#include "support/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "support/atomic_file.h"
#include "support/posix.h"
#include "support/safetensors_header.h"
#include "support/suggest.h"

namespace nru {
namespace {

using namespace safetensors;

// In the order of the file.
std::vector<const TensorView*> in_file_order(const std::vector<TensorView>& tensors) {
  std::vector<const TensorView*> ordered;
  for (const TensorView& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(), [](const TensorView* a, const TensorView* b) {
    const auto size_a = dtype_size(a->dtype), size_b = dtype_size(b->dtype);
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  return ordered;
}

void check_savable(const std::vector<TensorView>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::map<std::string_view, int> uses;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == kMetadataKey || ++uses[tensor.name] > 1) {
      throw Error(fmt::format("cannot save a tensor as {}: the name is {}; choose another",
                              shown(tensor.name),
                              tensor.name == kMetadataKey ? "reserved" : "taken"));
    }
    if (tensor_bytes(tensor.dtype, tensor.shape) != tensor.bytes.size()) {
      throw Error(fmt::format("cannot save tensor {}: {} bytes do not make shape {} of {}",
                              shown(tensor.name), tensor.bytes.size(), shape_text(tensor.shape),
                              dtype_name(tensor.dtype)));
    }
  }
  for (const std::string_view reserved : {kDataChecksumKey, kHeaderChecksumKey}) {
    if (metadata.contains(std::string(reserved))) {
      throw Error(fmt::format("cannot save metadata {}: the name is reserved; choose another",
                              shown(reserved)));
    }
  }
}

[[noreturn]] void unreadable(const std::string& file, std::string_view reason) {
  throw Error(fmt::format("cannot read {}: {}; check the path", file, reason));
}

void read_exactly(int fd, std::span<std::byte> into, const std::string& file) {
  while (!into.empty()) {
    const ssize_t got = uninterrupted([&] { return ::read(fd, into.data(), into.size()); });
    if (got < 0) unreadable(file, std::strerror(errno));
    if (got == 0) malformed(file, "it became shorter while it was read");
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

std::unique_ptr<std::byte[]> allocate(uint64_t size, const std::string& file) {
  try {
    return std::make_unique_for_overwrite<std::byte[]>(size);
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format(
        "cannot load {}: its {} bytes of tensors do not fit in memory; free some", file, size));
  }
}

// Drops the data section's checksum from the metadata, with the header's, once it is found right.
void check_data(std::map<std::string, std::string>& metadata, std::span<const std::byte> data,
                const std::string& file) {
  const auto found = metadata.find(std::string(kDataChecksumKey));
  if (found == metadata.end()) return;
  if (const std::string actual = checksum({&data, 1}); actual != found->second) {
    malformed(file,
              fmt::format("the data's checksum is {} instead of {}", actual, shown(found->second)));
  }
  metadata.erase(found);
  metadata.erase(std::string(kHeaderChecksumKey));
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  check_savable(tensors, metadata);
  Header header{.entries = {}, .metadata = metadata};
  std::vector<std::span<const std::byte>> pieces(1);  // the header's place, then the tensors
  uint64_t offset = 0;
  for (const TensorView* tensor : in_file_order(tensors)) {
    const uint64_t end = offset + tensor->bytes.size();
    header.entries.push_back({tensor->name, tensor->dtype, tensor->shape, offset, end});
    pieces.push_back(tensor->bytes);
    offset = end;
  }
  header.metadata[std::string(kDataChecksumKey)] = checksum(std::span(pieces).subspan(1));
  const std::string head = write_header(header);
  if (head.size() - kLengthBytes > kMaxHeaderBytes) {
    throw Error(
        fmt::format("cannot save {}: names and metadata take {} bytes, more than the limit of "
                    "{}; store less metadata",
                    path.string(), head.size(), kMaxHeaderBytes));
  }
  pieces[0] = std::as_bytes(std::span(head));
  write_file_atomically(path, pieces);
}

SafetensorsFile::SafetensorsFile(std::string name, Header header, std::unique_ptr<std::byte[]> data,
                                 std::size_t size)
    : name_(std::move(name)), data_(std::move(data)), metadata_(std::move(header.metadata)) {
  const std::span<const std::byte> section(data_.get(), size);
  check_data(metadata_, section, name_);
  for (Entry& entry : header.entries) {
    index_.emplace(entry.name, tensors_.size());
    tensors_.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape),
                        section.subspan(entry.begin, entry.end - entry.begin)});
  }
}

SafetensorsFile SafetensorsFile::load(const std::filesystem::path& path) {
  const std::string name = path.string();
  // Not blocking, so that a named pipe is refused below instead of waited for.
  const Descriptor file(
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) < 0) unreadable(name, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) unreadable(name, "it is not a regular file");
  const auto file_size = static_cast<uint64_t>(status.st_size);

  std::byte start[kLengthBytes] = {};
  read_exactly(file.get(), std::span(start).first(std::min<uint64_t>(kLengthBytes, file_size)),
               name);
  std::string text(header_size(start, file_size, name), '\0');
  read_exactly(file.get(), std::as_writable_bytes(std::span(text)), name);
  const uint64_t data_size = file_size - kLengthBytes - text.size();
  Header header = parse_header(text, data_size, name);
  auto data = allocate(data_size, name);
  read_exactly(file.get(), {data.get(), data_size}, name);
  return SafetensorsFile(name, std::move(header), std::move(data), data_size);
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> file, const std::string& name) {
  const uint64_t text_size = header_size(file, file.size(), name);
  const auto text = file.subspan(kLengthBytes, text_size);
  const auto section = file.subspan(kLengthBytes + text_size);
  Header header =
      parse_header({reinterpret_cast<const char*>(text.data()), text.size()}, section.size(), name);
  auto data = allocate(section.size(), name);
  std::copy(section.begin(), section.end(), data.get());
  return SafetensorsFile(name, std::move(header), std::move(data), section.size());
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorView& SafetensorsFile::require(std::string_view name, DType dtype,
                                           const std::vector<int64_t>& shape) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr) {
    std::vector<std::string> names;
    for (const TensorView& known : tensors_) names.push_back(known.name);
    throw Error(fmt::format("{} has no tensor '{}'{}", name_, name, did_you_mean(name, names)));
  }
  if (tensor->dtype != dtype || tensor->shape != shape) {
    throw Error(
        fmt::format("{} has tensor '{}' as {} {} where {} {} is needed; it belongs to another "
                    "configuration",
                    name_, name, dtype_name(tensor->dtype), shape_text(tensor->shape),
                    dtype_name(dtype), shape_text(shape)));
  }
  return *tensor;
}

}  // namespace nru
