// A folder of runs in, tables, figures and one page out.
//
//   DIR/report.md        tables and claims
//   DIR/figures/*.svg    static figures
//   DIR/report.html      everything, interactive, in one file that needs nothing else
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "report/claims.h"
#include "report/collection.h"
#include "report/page_assets.h"
#include "report/plots.h"
#include "report/tables.h"

namespace nru::report {

// Everything the report says about one experiment.
struct Section {
  const experiments::Experiment* experiment = nullptr;
  std::vector<Table> tables;
  std::vector<Judgement> claims;
  Figures figures;
  std::vector<std::string> deviations;  // "lag 20 instead of 100": runs that are not the paper's
  std::vector<const Run*> runs;         // its own, missing ones excluded
  int planned = 0;                      // its own in all

  bool empty() const { return runs.empty() && figures.figures.empty(); }
};

struct Report {
  Report() = default;
  Report(Report&&) = default;  // sections point into the collection: no copies

  Collection collection;
  std::vector<Section> sections;  // in the order of the paper
  int claims(Verdict verdict) const;
  int runs() const;  // that are there
};

Report make_report(Collection collection);

// "3 runs. Of the paper's claims 1 is confirmed, 2 are not, 4 have not been run."; without the
// claims where there are none.
std::string summary_of(const Report& report);
std::string to_markdown(const Report& report);
std::string to_json(const Report& report);
// `svgs`: the static figures by name, shown where `assets` come without a charting library.
std::string to_html(const Report& report, const std::map<std::string, std::string>& svgs,
                    const PageAssets& assets = page_assets());

struct Written {
  std::vector<std::filesystem::path> files;
  std::string warning;  // one line when figures could not be drawn; empty: none
};
// Throws nru::Error when a file cannot be written.
Written write_report(const Report& report, const std::filesystem::path& folder);

// A copy of the runs that gives the same report: config.toml and result.json as they are,
// metrics.csv thinned to what plots need, measures.json with what is measured on all of it, the
// tables of inspect/. No weights. Returns how many runs were copied.
int write_thinned(const Collection& collection, const std::filesystem::path& folder);

}  // namespace nru::report
