// Safetensors files that are wrong: each rule of the format broken on its own, and the message that
// must name the file and the rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ostream>

#include "safetensors_files.h"
#include "support/safetensors.h"

namespace nru {
namespace {

using test::error_of;
using test::file_of;
using test::TempDir;
using test::write_bytes;
using testing::HasSubstr;
using testing::StartsWith;

struct Malformed {
  const char* name;
  std::string bytes;
  std::string reason;
};

void PrintTo(const Malformed& example, std::ostream* out) { *out << example.name; }

std::string with_length(uint64_t size, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + rest;
}

// A header with one tensor "t" of these fields, and `data`.
std::string tensor(const std::string& fields, const std::string& data = "1234") {
  return file_of("{\"t\":{" + fields + "}}", data);
}

std::string shaped(const std::string& shape, const std::string& data = "1234") {
  return tensor(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,4])", data);
}

std::string offset(const std::string& offsets) {
  return tensor(R"("dtype":"F32","shape":[1],"data_offsets":)" + offsets);
}

// Two one-byte-per-element tensors at these offsets.
std::string two(const std::string& a, const std::string& b, const std::string& data) {
  const auto entry = [](const std::string& range) {
    return R"({"dtype":"U8","shape":[2],"data_offsets":)" + range + "}";
  };
  return file_of("{\"a\":" + entry(a) + ",\"b\":" + entry(b) + "}", data);
}

const std::string kGood = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";

std::vector<Malformed> examples() {
  return {
      // Size of the header.
      {"Empty", "", "only 0 bytes long"},
      {"SevenBytes", "1234567", "only 7 bytes long"},
      {"HeaderSizeZero", with_length(0, "{}"), "header is empty"},
      {"HeaderSizeHuge", with_length(~uint64_t{0}, "{}"), "18446744073709551615 bytes, more than"},
      {"HeaderSizeOverCap", with_length(100'000'001, "{}"), "100000001 bytes, more than the limit"},
      {"HeaderSizeAtCapButAbsent", with_length(100'000'000, "{}"), "cut short: its header is"},
      {"HeaderLargerThanFile", with_length(3, "{}"),
       "cut short: its header is 3 bytes, it holds 2"},
      // Text of the header.
      {"NotJson", file_of("{nonsense}"), "not valid JSON at byte 3"},
      {"JsonCut", file_of("{\"t\":"), "not valid JSON"},
      {"JsonTwice", file_of("{}{}"), "not valid JSON at byte 3"},
      {"ByteOrderMark", file_of("\xef\xbb\xbf{}"), "does not begin with '{'"},
      {"LeadingSpace", file_of(" {}"), "does not begin with '{'"},
      {"Array", file_of("[]"), "does not begin with '{'"},
      {"ZeroByteAfterJson", file_of(std::string("{}\0", 3)), "not valid JSON at byte 3"},
      {"InvalidUtf8", file_of("{\"\xff\":{" + kGood + "}}", "1234"), "not valid UTF-8 at byte 3"},
      {"OverlongUtf8", file_of("{\"\xc0\xaf\":{" + kGood + "}}", "1234"), "not valid UTF-8"},
      {"LoneSurrogate", file_of(R"({"\ud800":{)" + kGood + "}}", "1234"), "not valid"},
      {"DeepNesting", file_of("{\"t\":" + std::string(100000, '[')), "\"t\" is an array"},
      // Duplicates.
      {"TensorTwice", file_of("{\"t\":{" + kGood + "},\"t\":{" + kGood + "}}", "1234"),
       "name \"t\" appears twice"},
      {"TensorTwiceByEscape",
       file_of("{\"t\":{" + kGood + "},\"\\u0074\":{" + kGood + "}}", "1234"),
       "name \"t\" appears twice"},
      {"FieldTwice", tensor(kGood + R"(,"dtype":"F32")"), "field \"dtype\" twice"},
      {"MetadataTwice", file_of(R"({"__metadata__":{},"__metadata__":{}})"), "appears twice"},
      {"MetadataKeyTwice", file_of(R"({"__metadata__":{"k":"a","k":"a"}})"), "key \"k\" twice"},
      // Kinds of values.
      {"TensorNotObject", file_of(R"({"t":5})"), "\"t\" is a number and not an object"},
      {"MetadataNotObject", file_of(R"({"__metadata__":"x"})"), "is a string and not an object"},
      {"MetadataNumber", file_of(R"({"__metadata__":{"k":1}})"),
       "\"k\" is a number and not a string"},
      {"MetadataNull", file_of(R"({"__metadata__":{"k":null}})"), "\"k\" is null"},
      {"MetadataTrue", file_of(R"({"__metadata__":{"k":true}})"), "\"k\" is a truth value"},
      {"MetadataObject", file_of(R"({"__metadata__":{"k":{}}})"), "\"k\" is an object"},
      {"MetadataArray", file_of(R"({"__metadata__":{"k":[]}})"), "\"k\" is an array"},
      {"MissingDtype", tensor(R"("shape":[1],"data_offsets":[0,4])"), "has no dtype"},
      {"MissingShape", tensor(R"("dtype":"F32","data_offsets":[0,4])"), "has no shape"},
      {"MissingOffsets", tensor(R"("dtype":"F32","shape":[1])"), "has no data_offsets"},
      {"UnknownField", tensor(kGood + R"(,"extra":1)"), "unknown field \"extra\""},
      {"UnknownDtype", tensor(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"),
       "unknown dtype \"F31\""},
      {"DtypeNumber", tensor(R"("dtype":7,"shape":[1],"data_offsets":[0,4])"),
       "has a number in its dtype"},
      {"ShapeString", shaped("\"1\""), "has a string in its shape"},
      {"ShapeOfStrings", shaped("[\"1\"]"), "has a string in its shape"},
      {"ShapeNested", shaped("[[1]]"), "has an array in its shape"},
      {"ShapeNull", shaped("null"), "has null in its shape"},
      // Shapes.
      {"ShapeNegative", shaped("[-1]"), "has the negative number -1 in its shape"},
      {"ShapeFraction", shaped("[1.0]"), "has the number 1.0 in its shape"},
      {"ShapeOverInt64", shaped("[9223372036854775808]"),
       "impossible dimension 9223372036854775808"},
      {"ShapeOverUint64", shaped("[18446744073709551616]"), "the number 18446744073709551616"},
      {"ShapeOverflows", shaped("[4294967296,4294967296]"), "[4294967296, 4294967296] overflows"},
      {"ShapeOverflowsTo4", shaped("[4611686018427387905]"), "[4611686018427387905] overflows"},
      {"ShapeOverflowsBehindZero", shaped("[0,4294967296,4294967296]"), "overflows"},
      {"TooManyDimensions",
       shaped("[1" +
              [] {
                std::string more;
                for (int i = 0; i < 64; ++i) more += ",1";
                return more;
              }() +
              "]"),
       "more than 64 dimensions"},
      {"ShapeTooLarge", shaped("[2]"), "needs 8 bytes but has 4"},
      {"ShapeTooSmall", shaped("[0]"), "needs 0 bytes but has 4"},
      // Offsets.
      {"OneOffset", offset("[0]"), "has 1 offsets instead of two"},
      {"NoOffsets", offset("[]"), "has 0 offsets instead of two"},
      {"ThreeOffsets", offset("[0,4,8]"), "more than two offsets"},
      {"OffsetsBackwards", offset("[4,0]"), "ends at 0, before it begins at 4"},
      {"OffsetNegative", offset("[-4,0]"), "negative number -4 in its data_offsets"},
      {"OffsetsHuge", offset("[18446744073709551611,18446744073709551615]"), "leaves a hole"},
      {"StartsLate", offset("[1,5]"), "begins at 1 and leaves a hole after the 0 bytes"},
      {"Hole", two("[0,2]", "[3,5]", "12345"), "\"b\" begins at 3 and leaves a hole"},
      {"Overlap", two("[0,2]", "[1,3]", "123"), "\"b\" begins at 1 and leaves an overlap"},
      {"SameBytesTwice", two("[0,2]", "[0,2]", "12"), "leaves an overlap"},
      {"OutsideTheFile", two("[0,2]", "[2,4]", "123"), "tensors take 4 bytes, it holds 3"},
      {"TrailingBytes", two("[0,2]", "[2,4]", "12345"), "1 bytes follow the last tensor"},
      {"TrailingBytesOnly", file_of("{}", "x"), "1 bytes follow the last tensor"},
      // Checksums.
      {"DataChecksumAlone", file_of(R"({"__metadata__":{"nru.crc32":"00000000"}})"),
       "nru.crc32 without nru.header_crc32"},
      {"HeaderChecksumAlone", file_of(R"({"__metadata__":{"nru.header_crc32":"00000000"}})"),
       "nru.header_crc32 without nru.crc32"},
      {"HeaderChecksumShort",
       file_of(R"({"__metadata__":{"nru.crc32":"00000000","nru.header_crc32":""}})"),
       "does not match its checksum \"\""},
      {"HeaderChecksumWrong",
       file_of(R"({"__metadata__":{"nru.crc32":"00000000","nru.header_crc32":"00000000"}})"),
       "does not match its checksum \"00000000\""},
      {"HeaderChecksumSpaced",
       file_of(R"({"__metadata__":{"nru.crc32":"00000000","nru.header_crc32": "00000000"}})"),
       "does not match its checksum"},
  };
}

class SafetensorsMalformed : public testing::TestWithParam<Malformed> {};

TEST_P(SafetensorsMalformed, IsRefusedWithItsReason) {
  const TempDir dir;
  const auto path = dir / "bad.safetensors";
  write_bytes(path, GetParam().bytes);
  const std::string message = error_of([&] { SafetensorsFile::load(path); });
  EXPECT_THAT(message, StartsWith("cannot load " + path.string() + ": "));
  EXPECT_THAT(message, HasSubstr(GetParam().reason));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  // From memory it is the same in every respect.
  EXPECT_EQ(error_of([&] {
              SafetensorsFile::parse(std::as_bytes(std::span(GetParam().bytes)), path.string());
            }),
            message);
}

INSTANTIATE_TEST_SUITE_P(Rules, SafetensorsMalformed, testing::ValuesIn(examples()),
                         [](const auto& info) { return std::string(info.param.name); });

// The helpers above make valid files where nothing is broken; without this the table proves little.
TEST(SafetensorsMalformedHelpers, MakeValidFiles) {
  const TempDir dir;
  for (const std::string& bytes : {tensor(kGood), shaped("[1]"), shaped("[1,1,1]"), offset("[0,4]"),
                                   two("[0,2]", "[2,4]", "1234"), two("[2,4]", "[0,2]", "1234")}) {
    write_bytes(dir / "good", bytes);
    EXPECT_EQ(error_of([&] { SafetensorsFile::load(dir / "good"); }), "");
  }
}

TEST(SafetensorsUnreadable, IsRefusedWithThePath) {
  const TempDir dir;
  const auto error = [](const std::filesystem::path& path) {
    return error_of([&] { SafetensorsFile::load(path); });
  };
  EXPECT_EQ(error(dir / "none"), "cannot read " + (dir / "none").string() +
                                     ": No such file or directory; check the path");
  EXPECT_THAT(error(dir.path()), HasSubstr(dir.path().string() + ": it is not a regular file"));
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error(dir / "pipe"), HasSubstr("it is not a regular file"));  // and does not wait
  EXPECT_THAT(error("/dev/zero"), HasSubstr("it is not a regular file"));
}

}  // namespace
}  // namespace nru
