// `nru report RUNS_DIR`: tables, figures and one page of a folder of runs, beside the paper's
// values.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/text.h"
#include "report/report.h"
#include "support/words.h"

namespace nru::cli {
namespace {

namespace fs = std::filesystem;

struct Given {
  std::string runs, out, experiments, thin;
  bool json = false;
};

// One experiment's folder given where the paper's figures want the one above it.
std::string hint(const report::Collection& runs) {
  if (runs.folder_of.empty()) return "";
  fs::path parent = (runs.root / "..").lexically_normal();
  if (!parent.has_filename()) parent = parent.parent_path();
  return fmt::format("  these are runs of {}: nru report {} gives the paper's figures and claims\n",
                     runs.folder_of, shell_word(parent.string()));
}

std::string human_text(const report::Report& made, const report::Written& written) {
  std::string text = summary_of(made) + "\n";
  for (const report::Section& section : made.sections) {
    for (const report::Run* run : section.runs) {
      if (run->problem.empty()) continue;
      text += fmt::format("  {}: {}\n", run->directory.string(), one_line(run->problem));
    }
  }
  for (const std::string& note : made.collection.notes)
    text += fmt::format("  {}\n", one_line(note));
  text += hint(made.collection);
  return text + fmt::format("wrote {}\n", written.files.back().string());
}

int report_runs(const Given& given) {
  report::Collection runs = report::read_collection(
      given.runs, experiments::load_experiments(experiments::find_experiments(given.experiments)));
  if (!given.thin.empty()) {
    const int copied = write_thinned(runs, given.thin);
    if (!given.json) print(fmt::format("copied {} runs, thinned, to {}\n", copied, given.thin));
  }
  const report::Report made = report::make_report(std::move(runs));
  const fs::path out =
      given.out.empty() ? fs::path(given.runs) / report::kReportFolder : fs::path(given.out);
  const report::Written written = write_report(made, out);
  print(given.json ? to_json(made) : human_text(made, written));
  if (!written.warning.empty()) {
    flush_output();
    errors() << fmt::format("nru: {}; the page and the tables are there\n",
                            one_line(written.warning));
  }
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("report", "Tables, figures and one page of a folder of runs");
  const auto given = std::make_shared<Given>();
  command->add_option("RUNS_DIR", given->runs, "folder of runs: the --out of nru reproduce")
      ->required()
      ->type_name("");
  command->add_option("--out", given->out, "where to write; default RUNS_DIR/report")
      ->type_name("DIR");
  command
      ->add_option("--experiments", given->experiments,
                   "folder of the experiments' *.toml; default: the paper's")
      ->type_name("DIR");
  command
      ->add_option("--thin", given->thin,
                   "also copy the runs there without weights, metrics thinned to what plots need")
      ->type_name("DIR");
  command->add_flag("--json", given->json, "print tables and claims as JSON");
  command->footer(R"(Examples:
  nru report runs/reproduce                            report.html, report.md, figures/
  nru report runs/reproduce --out ~/report
  nru report runs/reproduce --thin results             a small copy that gives the same report
  nru report runs                                      runs of one's own, by task)");
  command->callback(
      [given, &invocation] { invocation.run = [given] { return report_runs(*given); }; });
}

}  // namespace nru::cli
