// Usage: report_sample RUNS POINTS         writes the paper's grid with made-up outcomes
//        report_sample RUNS                reports on it into RUNS/report
// For looking at a full report without training, and for measuring it.
#include <fmt/format.h>

#include <cstdlib>

#include "../made_up.h"
#include "report/report.h"

int main(int argc, char** argv) {
  using namespace nru;
  if (argc < 2) return 2;
  const std::filesystem::path root = argv[1];
  const auto paper = experiments::load_experiments(experiments::find_experiments());
  if (argc > 2) {
    test::write_grid(root, paper, std::atoi(argv[2]));
    return 0;
  }
  const report::Report made = report::make_report(report::read_collection(root, paper));
  const report::Written written = write_report(made, root / "report");
  fmt::print("{} runs, {}\n", made.runs(), written.files.back().string());
  return 0;
}
