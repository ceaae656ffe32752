// report.md and the JSON of `nru report --json`.
#include <fmt/format.h>
#include <nru/version.h>

#include <nlohmann/json.hpp>

#include "report/escape.h"
#include "report/report.h"
#include "report/values.h"
#include "support/words.h"

namespace nru::report {
namespace {

using Json = nlohmann::ordered_json;

std::string table_text(const Table& table) {
  std::string text, rule;
  if (!table.title.empty()) text += fmt::format("{}:\n\n", markdown(table.title));
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    text += fmt::format("| {} ", markdown(table.head[i]));
    rule += table.number[i] ? "|---:" : "|---";
  }
  text += "|\n" + rule + "|\n";
  for (const std::vector<std::string>& row : table.rows) {
    for (const std::string& cell : row) text += fmt::format("| {} ", markdown(cell));
    text += "|\n";
  }
  return text + "\n";
}

std::string claims_text(const std::vector<Judgement>& claims) {
  if (claims.empty()) return "";
  Table table{"", {"the paper says", "verdict", "because"}, {false, false, false}, {}};
  for (const Judgement& claim : claims) {
    table.rows.push_back({claim.claim, to_string(claim.verdict), claim.reason});
  }
  return table_text(table);
}

std::string runs_text(const Section& section) {
  std::string text;
  for (const Run* run : section.runs) {
    if (run->problem.empty()) continue;
    text += fmt::format("- {} is {}: {}\n", markdown(run->directory.filename().string()),
                        to_string(run->state), markdown(run->problem));
  }
  return text.empty() ? "" : text + "\n";
}

std::string section_text(const Section& section) {
  const experiments::Experiment& experiment = *section.experiment;
  std::string text = fmt::format("## {}\n\n", markdown(experiment.title));
  if (!experiment.paper.empty())
    text += fmt::format("In the paper: {}. ", markdown(experiment.paper));
  text += markdown(experiment.note) + "\n\n";
  if (!section.deviations.empty()) {
    text += fmt::format("**These runs are not the paper's:** {}.\n\n",
                        markdown(fmt::format("{}", fmt::join(section.deviations, "; "))));
  }
  if (section.empty() && section.planned > 0) {
    text += fmt::format("Not run: 0 of {} runs.\n\n", section.planned);
  }
  for (const NamedFigure& figure : section.figures.figures) {
    text += fmt::format("![{}](figures/{}.svg)\n\n", markdown(figure.caption), figure.name);
  }
  if (!section.empty() || !experiment.paper_values.empty()) {
    for (const Table& table : section.tables) text += table_text(table);
  }
  return text + claims_text(section.claims) + runs_text(section);
}

}  // namespace

std::string summary_of(const Report& report) {
  const int confirmed = report.claims(Verdict::confirmed),
            refuted = report.claims(Verdict::not_confirmed), open = report.claims(Verdict::not_run);
  const auto is = [](int count) { return count == 1 ? "is" : "are"; };
  std::string text = fmt::format("{} run{}.", report.runs(), report.runs() == 1 ? "" : "s");
  if (confirmed + refuted + open == 0) return text;
  return text +
         fmt::format(" Of the paper's claims {} {} confirmed, {} {} not, {} {} not been run.",
                     confirmed, is(confirmed), refuted, is(refuted), open,
                     open == 1 ? "has" : "have");
}

std::string to_markdown(const Report& report) {
  std::string text = fmt::format("# Report\n\n{} ", summary_of(report));
  text += "Values are medians over seeds, with the least and the greatest in parentheses.\n\n";
  for (const Section& section : report.sections) text += section_text(section);
  for (const std::string& note : report.collection.notes) text += "- " + markdown(note) + "\n";
  return text;
}

std::string to_json(const Report& report) {
  Json sections = Json::array();
  for (const Section& section : report.sections) {
    Json tables = Json::array(), claims = Json::array(), runs = Json::array(),
         figures = Json::array();
    for (const Table& table : section.tables) {
      tables.push_back({{"title", table.title}, {"head", table.head}, {"rows", table.rows}});
    }
    for (const Judgement& claim : section.claims) {
      claims.push_back({{"claim", claim.claim},
                        {"verdict", to_string(claim.verdict)},
                        {"reason", claim.reason}});
    }
    for (const Run* run : section.runs) {
      runs.push_back({{"directory", run->directory.string()},
                      {"cell", run->cell},
                      {"variant", run->variant},
                      {"seed", run->seed},
                      {"state", to_string(run->state)},
                      {"updates", run->result ? run->result->updates : run->measures.last_update},
                      {"problem", run->problem}});
    }
    for (const NamedFigure& figure : section.figures.figures) figures.push_back(figure.name);
    sections.push_back({{"name", section.experiment->name},
                        {"title", section.experiment->title},
                        {"paper", section.experiment->paper},
                        {"deviations", section.deviations},
                        {"planned", section.planned},
                        {"runs", runs},
                        {"figures", figures},
                        {"tables", tables},
                        {"claims", claims}});
  }
  const Json json = {{"runs", report.runs()},
                     {"confirmed", report.claims(Verdict::confirmed)},
                     {"not_confirmed", report.claims(Verdict::not_confirmed)},
                     {"not_run", report.claims(Verdict::not_run)},
                     {"sections", sections},
                     {"notes", report.collection.notes}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace nru::report
