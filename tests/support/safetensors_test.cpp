// Safetensors files that are right: round trips, layout, files from elsewhere, refusals to save.
#include "support/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "safetensors_files.h"

namespace nru {
namespace {

using test::error_of;
using test::file_of;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<float> kFloats = {1.5f, -2.0f, 3.25f, 0.0f, -0.0f, 1e-40f};
const std::vector<double> kDoubles = {3.141592653589793};
const std::vector<uint8_t> kBytes = {1, 2, 255};

std::vector<TensorView> some_tensors() {
  return {{"bytes", DType::U8, {3}, std::as_bytes(std::span(kBytes))},
          {"weight", DType::F32, {2, 3}, std::as_bytes(std::span(kFloats))},
          {"empty", DType::F32, {0, 7}, {}},
          {"scalar", DType::F64, {}, std::as_bytes(std::span(kDoubles))}};
}

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST(Safetensors, RoundTrip) {
  const TempDir dir;
  const std::map<std::string, std::string> metadata = {
      {"update", "42"}, {"", "empty key"}, {"quote \" and \\ and \n", "Grüße \x01"}};
  save_safetensors(dir / "a.safetensors", some_tensors(), metadata);
  const SafetensorsFile file = SafetensorsFile::load(dir / "a.safetensors");
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.name(), (dir / "a.safetensors").string());
  for (const TensorView& wanted : some_tensors()) {
    const TensorView* found = file.find(wanted.name);
    ASSERT_NE(found, nullptr) << wanted.name;
    EXPECT_EQ(found->name, wanted.name);
    EXPECT_EQ(found->dtype, wanted.dtype);
    EXPECT_EQ(found->shape, wanted.shape);
    EXPECT_EQ(copy_of(found->bytes), copy_of(wanted.bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(found->bytes.data()) % dtype_size(found->dtype), 0u);
  }
  EXPECT_EQ(file.find("weigh"), nullptr);
}

TEST(Safetensors, EveryDtypeKeepsItsNameAndSize) {
  const TempDir dir;
  const std::vector<std::pair<std::string, std::size_t>> dtypes = {
      {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
      {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
      {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}};
  for (const auto& [name, size] : dtypes) {
    const std::string text = R"({"t":{"dtype":")" + name + R"(","shape":[3],"data_offsets":[0,)" +
                             std::to_string(3 * size) + "]}}";
    write_bytes(dir / "a", file_of(text, std::string(3 * size, '\1')));
    const SafetensorsFile file = SafetensorsFile::load(dir / "a");
    EXPECT_EQ(dtype_name(file.tensors()[0].dtype), name);
    EXPECT_EQ(dtype_size(file.tensors()[0].dtype), size);
    save_safetensors(dir / "b", file.tensors(), {});
    EXPECT_EQ(SafetensorsFile::load(dir / "b").tensors()[0].dtype, file.tensors()[0].dtype);
  }
}

TEST(Safetensors, NothingAtAllRoundTrips) {
  const TempDir dir;
  save_safetensors(dir / "a", {}, {});
  const SafetensorsFile file = SafetensorsFile::load(dir / "a");
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_TRUE(file.metadata().empty());
}

TEST(Safetensors, BytesDependOnContentAlone) {
  const TempDir dir;
  auto tensors = some_tensors();
  save_safetensors(dir / "a", tensors, {{"k", "v"}});
  std::reverse(tensors.begin(), tensors.end());
  save_safetensors(dir / "b", tensors, {{"k", "v"}});
  EXPECT_EQ(read_bytes(dir / "a"), read_bytes(dir / "b"));
}

// What other readers rely on, checked with an independent JSON parser.
TEST(Safetensors, LayoutIsThePublishedOne) {
  const TempDir dir;
  save_safetensors(dir / "a", some_tensors(), {{"k", "v"}});
  const std::string bytes = read_bytes(dir / "a");
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), 8);
  EXPECT_EQ(size % 8, 0u);
  const std::string text = bytes.substr(8, size);
  EXPECT_EQ(text.front(), '{');
  const auto header = nlohmann::json::parse(text);
  EXPECT_EQ(header["__metadata__"]["k"], "v");
  EXPECT_EQ(header["scalar"],
            nlohmann::json(
                {{"dtype", "F64"}, {"shape", nlohmann::json::array()}, {"data_offsets", {0, 8}}}));
  EXPECT_EQ(header["weight"],
            nlohmann::json({{"dtype", "F32"}, {"shape", {2, 3}}, {"data_offsets", {8, 32}}}));
  EXPECT_EQ(bytes.substr(8 + size + 32), "\1\2\xff");
}

TEST(Safetensors, ChecksumsAreThoseOfZlib) {
  // Values from Python's zlib.crc32, so that the two keys mean the same to others.
  const TempDir dir;
  const std::string data = "123456789";
  save_safetensors(dir / "a", {{"t", DType::U8, {9}, std::as_bytes(std::span(data))}}, {});
  EXPECT_THAT(read_bytes(dir / "a"), HasSubstr(R"("nru.crc32":"cbf43926")"));
}

TEST(Safetensors, EmptyTensorDoesNotHideTheDataBeforeIt) {
  // Damage in front of an empty tensor with a null pointer must still be noticed.
  const TempDir dir;
  save_safetensors(
      dir / "a",
      {{"a", DType::F32, {6}, std::as_bytes(std::span(kFloats))}, {"b", DType::F32, {0}, {}}}, {});
  std::string bytes = read_bytes(dir / "a");
  bytes[bytes.size() - 24] ^= 1;
  write_bytes(dir / "a", bytes);
  EXPECT_THAT(error_of([&] { SafetensorsFile::load(dir / "a"); }), HasSubstr("data's checksum"));
}

TEST(Safetensors, FileFromElsewhereLoads) {
  // As Python's safetensors writes it: other order, no checksums, padded with spaces.
  const TempDir dir;
  const std::string text =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I64","shape":[1],"data_offsets":[4,12]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}    )";
  write_bytes(dir / "a",
              file_of(text, std::string("\0\0\x80\x3f", 4) + "\5" + std::string(7, '\0')));
  const SafetensorsFile file = SafetensorsFile::load(dir / "a");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  float one = 0;
  std::memcpy(&one, file.require("a", DType::F32, {}).bytes.data(), sizeof one);
  EXPECT_EQ(one, 1.0f);
  int64_t five = 0;
  std::memcpy(&five, file.require("b", DType::I64, {1}).bytes.data(), sizeof five);
  EXPECT_EQ(five, 5);
}

TEST(Safetensors, ViewsSurviveAMove) {
  const TempDir dir;
  save_safetensors(dir / "a", some_tensors(), {});
  SafetensorsFile first = SafetensorsFile::load(dir / "a");
  const SafetensorsFile second = std::move(first);
  EXPECT_EQ(copy_of(second.find("weight")->bytes), copy_of(std::as_bytes(std::span(kFloats))));
}

TEST(Safetensors, RequireNamesWhatDiffers) {
  const TempDir dir;
  save_safetensors(dir / "a", some_tensors(), {});
  const SafetensorsFile file = SafetensorsFile::load(dir / "a");
  const std::string name = (dir / "a").string();
  EXPECT_EQ(file.require("weight", DType::F32, {2, 3}).bytes.size(), 24u);
  EXPECT_EQ(error_of([&] {
              file.require("wieght", DType::F32, {2, 3});
            }),
            name + " has no tensor 'wieght'; did you mean 'weight'?");
  EXPECT_THAT(error_of([&] {
                file.require("weight", DType::F32, {3, 2});
              }),
              AllOf(HasSubstr(name), HasSubstr("F32 [2, 3] where F32 [3, 2] is needed")));
  EXPECT_THAT(error_of([&] {
                file.require("weight", DType::F64, {2, 3});
              }),
              HasSubstr("F32 [2, 3] where F64 [2, 3] is needed"));
}

TEST(Safetensors, RefusesToSaveWhatCouldNotBeLoaded) {
  const TempDir dir;
  const auto bytes = std::as_bytes(std::span(kBytes));
  const auto error = [&](const std::vector<TensorView>& tensors,
                         const std::map<std::string, std::string>& metadata = {}) {
    return error_of([&] { save_safetensors(dir / "a", tensors, metadata); });
  };
  EXPECT_THAT(error({{"t", DType::U8, {3}, bytes}, {"t", DType::U8, {3}, bytes}}),
              HasSubstr("the name is taken"));
  EXPECT_THAT(error({{"__metadata__", DType::U8, {3}, bytes}}), HasSubstr("the name is reserved"));
  EXPECT_THAT(error({{"t", DType::U8, {4}, bytes}}),
              HasSubstr("3 bytes do not make shape [4] of U8"));
  EXPECT_THAT(error({{"t", DType::U8, {-3}, bytes}}), HasSubstr("do not make shape [-3]"));
  EXPECT_THAT(error({{"\xff", DType::U8, {3}, bytes}}), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(error({}, {{"k", "\xc3"}}), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(error({}, {{"nru.crc32", "0"}}), HasSubstr("the name is reserved"));
  EXPECT_THAT(error({}, {{"nru.header_crc32", "0"}}), HasSubstr("the name is reserved"));
  EXPECT_EQ(test::count_files(dir.path()), 0u);
}

}  // namespace
}  // namespace nru
