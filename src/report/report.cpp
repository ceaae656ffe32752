#include "report/report.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "support/atomic_file.h"
#include "support/text_file.h"
#include "training/run_directory.h"

namespace nru::report {
namespace {

namespace fs = std::filesystem;
using experiments::Experiment;

// Where an experiment comes in the report: the summary, the tasks, the analysis, then the rest.
std::size_t place_in_paper(const Experiment& experiment) {
  static const std::vector<std::string> order = {
      "ranking",    "copy-100",      "copy-200",    "copy-variable-100", "copy-variable-200",
      "converge",   "denoise-100",   "char-ptb",    "multiplicative",    "psmnist",
      "memory-map", "gradient-norm", "memory-size", "sensitivity",       "random-labels",
      "forgetting", "stability"};
  return static_cast<std::size_t>(std::ranges::find(order, experiment.name) - order.begin());
}

Section section_of(const Collection& collection, const Experiment& experiment) {
  Section section;
  section.experiment = &experiment;
  const std::vector<Series> series = series_of(collection, experiment);
  const bool ranks = experiment.figure == experiments::FigureKind::ranking;
  const Ranking ranking = ranks ? rank_all(collection, experiment) : Ranking{};
  section.tables = tables_of(collection, experiment, series, ranking);
  section.figures = figures_of(collection, experiment, series);
  for (const experiments::Claim& claim : experiment.claims) {
    section.claims.push_back(judge(claim, series, ranking));
  }
  std::set<std::string> deviations;
  for (const Run& run : collection.runs) {
    if (run.experiment != experiment.name) continue;
    ++section.planned;
    if (run.state == RunState::missing) continue;
    section.runs.push_back(&run);
    deviations.insert(run.deviations.begin(), run.deviations.end());
  }
  std::ranges::stable_sort(section.runs, {}, [](const Run* run) {
    return std::tuple(place_of(run->cell), run->variant, run->seed);
  });
  section.deviations.assign(deviations.begin(), deviations.end());
  return section;
}

bool is_of_the_paper(const Section& section) {
  return !section.experiment->paper.empty() && !section.runs.empty();
}

void make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) {
    throw Error(fmt::format("cannot make the folder {}: {}; choose another one", folder.string(),
                            failure.message()));
  }
}

std::string to_svg(const NamedFigure& figure) {
  return std::visit([](const auto& drawing) { return report::to_svg(drawing); }, figure.drawing);
}

// The static figures by name. Each is a process of its own, so they are drawn side by side.
std::map<std::string, std::string> draw_figures(const Report& report) {
  std::vector<const NamedFigure*> figures;
  for (const Section& section : report.sections) {
    for (const NamedFigure& figure : section.figures.figures) figures.push_back(&figure);
  }
  std::map<std::string, std::string> svgs;
  const std::size_t at_once = std::max(1u, std::thread::hardware_concurrency());
  std::deque<std::pair<const NamedFigure*, std::future<std::string>>> drawing;
  for (std::size_t next = 0; next < figures.size() || !drawing.empty();) {
    if (next < figures.size() && drawing.size() < at_once) {
      const NamedFigure* figure = figures[next++];
      drawing.emplace_back(figure, std::async(std::launch::async, [=] { return to_svg(*figure); }));
      continue;
    }
    svgs[drawing.front().first->name] = drawing.front().second.get();
    drawing.pop_front();
  }
  return svgs;
}

std::string thinned_metrics(const Run& run) {
  std::string text = training::metrics_header() + "\n";
  Rows rows = run.train;
  rows.insert(rows.end(), run.valid.begin(), run.valid.end());
  std::ranges::stable_sort(rows, {}, &training::MetricsRow::update);
  for (const training::MetricsRow& row : rows) text += training::format_metrics_row(row) + "\n";
  return text;
}

void copy_text(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (!fs::exists(from, ignored)) return;
  write_file_atomically(to, read_text_file(from, "file"));
}

}  // namespace

int Report::claims(Verdict verdict) const {
  int count = 0;
  for (const Section& section : sections) {
    count += static_cast<int>(std::ranges::count(section.claims, verdict, &Judgement::verdict));
  }
  return count;
}

int Report::runs() const {
  int count = 0;
  for (const Section& section : sections) count += static_cast<int>(section.runs.size());
  return count;
}

Report make_report(Collection collection) {
  Report report;
  report.collection = std::move(collection);
  std::vector<const Experiment*> order;
  for (const Experiment& experiment : report.collection.experiments) order.push_back(&experiment);
  std::ranges::stable_sort(order, {}, [](const Experiment* one) { return place_in_paper(*one); });
  for (const Experiment* one : order) {
    report.sections.push_back(section_of(report.collection, *one));
  }
  // Runs of one's own alone are no attempt at the paper.
  if (std::ranges::none_of(report.sections, is_of_the_paper)) {
    std::erase_if(report.sections, [](const Section& section) { return section.runs.empty(); });
  }
  return report;
}

Written write_report(const Report& report, const fs::path& folder) {
  Written written;
  const auto write = [&](const fs::path& path, const std::string& text) {
    write_file_atomically(path, text);
    written.files.push_back(path);
  };
  make_folder(folder / "figures");
  std::map<std::string, std::string> svgs;
  try {
    svgs = draw_figures(report);
  } catch (const Error& error) {
    written.warning = error.what();
  }
  for (const auto& [name, svg] : svgs) write(folder / "figures" / (name + ".svg"), svg);
  write(folder / "report.md", to_markdown(report));
  write(folder / "report.html", to_html(report, svgs));
  return written;
}

int write_thinned(const Collection& collection, const fs::path& folder) {
  std::error_code failure;
  if (fs::equivalent(folder, collection.root, failure)) {
    throw Error(
        fmt::format("{} holds the runs themselves; thin into another folder", folder.string()));
  }
  int copied = 0;
  for (const Run& run : collection.runs) {
    if (run.state == RunState::missing) continue;
    const fs::path to = folder / fs::relative(run.directory, collection.root);
    const training::RunPaths from{run.directory}, target{to};
    make_folder(to);
    if (!run.config.empty()) write_file_atomically(target.config(), run.config);
    copy_text(from.result(), target.result());
    if (!run.train.empty() || !run.valid.empty()) {
      write_file_atomically(target.metrics(), thinned_metrics(run));
      write_file_atomically(to / "measures.json", to_json(run.measures));
    }
    for (const char* name : {"memory.csv", "memory_change.csv", "gradient_flow.csv", "groups.csv",
                             "input.csv", "lags.csv"}) {
      const fs::path table = run.directory / "inspect" / name;
      std::error_code ignored;
      if (!fs::exists(table, ignored)) continue;
      make_folder(to / "inspect");
      copy_text(table, to / "inspect" / name);
    }
    ++copied;
  }
  return copied;
}

}  // namespace nru::report
