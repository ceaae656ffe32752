#include "support/data_file.h"

#include <fmt/format.h>
#include <nru/error.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "support/text_file.h"

namespace nru {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest window; a gzip header, not zlib's own
constexpr std::size_t kFirstRoom = std::size_t{1} << 16;

// A zlib stream that ends itself.
class Inflater {
 public:
  Inflater() {
    if (::inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { ::inflateEnd(&stream_); }
  z_stream& operator*() { return stream_; }
  z_stream* operator->() { return &stream_; }

 private:
  z_stream stream_{};
};

[[noreturn]] void too_large(const std::string& name, std::uint64_t most) {
  throw Error(fmt::format("{}: holds more than {} bytes; this is not a data file that nru knows",
                          name, most));
}

[[noreturn]] void damaged(const std::string& name, std::size_t offset, const std::string& reason) {
  throw Error(fmt::format("{}: damaged gzip file at byte {}: {}; get the file again", name, offset,
                          reason));
}

// zlib counts in 32 bits.
uInt piece_of(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view bytes, const std::string& name, std::uint64_t most_bytes) {
  Inflater stream;
  std::string out(std::min<std::uint64_t>(std::max(4 * bytes.size(), kFirstRoom), most_bytes + 1),
                  '\0');
  std::size_t read = 0, written = 0;
  for (;;) {
    if (written > most_bytes) too_large(name, most_bytes);
    if (written == out.size())
      out.resize(std::min<std::uint64_t>(2 * std::uint64_t{out.size()}, most_bytes + 1));
    // zlib takes its input without const and does not write to it.
    stream->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data())) + read;
    stream->avail_in = piece_of(bytes.size() - read);
    stream->next_out = reinterpret_cast<Bytef*>(out.data()) + written;
    stream->avail_out = piece_of(out.size() - written);
    const uInt in = stream->avail_in, room = stream->avail_out;
    const int status = ::inflate(&*stream, Z_NO_FLUSH);
    read += in - stream->avail_in;
    written += room - stream->avail_out;
    if (status == Z_STREAM_END) {
      if (written > most_bytes) too_large(name, most_bytes);
      if (read == bytes.size()) break;
      if (!is_gzip(bytes.substr(read)))
        damaged(name, read, "something follows the compressed data");
      ::inflateReset(&*stream);
    } else if (status == Z_BUF_ERROR ||
               (status == Z_OK && read == bytes.size() && written < out.size())) {
      damaged(name, read, "it ends too early");
    } else if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (status != Z_OK) {
      damaged(name, read, stream->msg != nullptr ? stream->msg : "invalid data");
    }
  }
  out.resize(written);
  return out;
}

std::string read_data_file(const std::filesystem::path& path, const std::string& what,
                           std::uint64_t most_bytes) {
  std::error_code unknown;
  const std::uint64_t size = std::filesystem::file_size(path, unknown);
  if (!unknown && size > most_bytes) too_large(path.string(), most_bytes);
  std::string content = read_text_file(path, what);
  return is_gzip(content) ? gunzip(content, path.string(), most_bytes) : content;
}

}  // namespace nru
