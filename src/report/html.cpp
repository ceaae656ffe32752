// report.html: the words of the page. What its charts show goes along as data (page_data.cpp), how
// they do it is in src/report/page.
#include <fmt/format.h>
#include <nru/version.h>

#include "report/escape.h"
#include "report/page_data.h"
#include "report/report.h"
#include "report/values.h"
#include "support/words.h"

namespace nru::report {
namespace {

std::string element(const char* tag, const std::string& attributes, const std::string& content) {
  return fmt::format("<{0}{1}{2}>{3}</{0}>\n", tag, attributes.empty() ? "" : " ", attributes,
                     content);
}

// "not confirmed" as the name of a class.
std::string class_of(std::string words) {
  for (char& c : words) {
    if (c == ' ') c = '-';
  }
  return words;
}

std::string table_html(const Table& table, const std::string& label) {
  std::string head, body;
  const auto cell = [&](const char* tag, const char* scope, std::size_t column,
                        const std::string& text) {
    return fmt::format("<{0}{1}{2}>{3}</{0}>", tag, scope,
                       table.number[column] ? " class=\"number\"" : "", html(text));
  };
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    head += cell("th", " scope=\"col\"", i, table.head[i]);
  }
  for (const std::vector<std::string>& row : table.rows) {
    std::string cells;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells += i == 0 ? cell("th", " scope=\"row\"", i, row[i]) : cell("td", "", i, row[i]);
    }
    body += element("tr", "", cells);
  }
  const std::string caption = table.title.empty() ? "" : element("caption", "", html(table.title));
  const std::string& name = table.title.empty() ? label : table.title;
  return element("div",
                 fmt::format("class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: "
                             "{}\"",
                             html(name)),
                 element("table", "",
                         caption + element("thead", "", element("tr", "", head)) +
                             element("tbody", "", body)));
}

std::string claims_html(const std::vector<Judgement>& claims) {
  if (claims.empty()) return "";
  std::string items;
  for (const Judgement& claim : claims) {
    const std::string verdict = to_string(claim.verdict);
    items += element(
        "li", fmt::format("class=\"{}\"", class_of(verdict)),
        fmt::format(
            "<span class=\"verdict\">{}</span><span>{}<span class=\"because\">{}</span></span>",
            verdict, html(claim.claim), html(claim.reason)));
  }
  return "<h3>What the paper says</h3>\n" + element("ul", "class=\"claims\"", items);
}

std::string run_html(const Run& run, const std::filesystem::path& root) {
  std::string facts;
  const auto fact = [&](const char* name, const std::string& value) {
    if (!value.empty()) facts += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, html(value));
  };
  const std::string state = to_string(run.state);
  fact("Problem", run.problem);
  if (run.result) {
    const training::Result& result = *run.result;
    fact("Updates", format_count(result.updates));
    fact("Solved at", result.solved_at ? format_count(*result.solved_at) : "not solved");
    if (result.spikes > 0) fact("Spikes", format_count(result.spikes));
    if (result.recoveries > 0) fact("Recoveries", format_count(result.recoveries));
    if (result.average > 0) fact("Average of weights", fmt::format("{}", result.average));
    fact("Parameters", format_count(result.parameters));
    fact("Preset", result.preset);
    fact("Time", format_duration(result.seconds));
    fact("Device", result.device);
    fact("Commit", result.commit);
    for (const auto& [name, version] : result.versions) fact("Version", name + " " + version);
  } else {
    fact("Updates so far", format_count(run.measures.last_update));
  }
  fact("Seed", fmt::format("{}", run.seed));
  fact("Not as planned", fmt::format("{}", fmt::join(run.deviations, "; ")));
  fact("Directory", std::filesystem::relative(run.directory, root).string());
  const std::string summary = fmt::format(
      "{}{}, seed {} <span class=\"state {}\">{}</span>", html(style_of(run.cell).label),
      run.variant.empty() ? "" : " " + html(run.variant), run.seed, state, state);
  std::string content = element("summary", "", summary) + element("dl", "", facts);
  if (!run.config.empty())
    content += element("pre", "tabindex=\"0\" role=\"region\" aria-label=\"Configuration\"",
                       html(run.config));
  return element("details", "class=\"run\"", content);
}

std::string runs_html(const Section& section, const std::filesystem::path& root) {
  if (section.runs.empty()) return "";
  std::string content =
      element("summary", "",
              fmt::format("{} of {} runs: configuration, seed, commit, device, time",
                          section.runs.size(), section.planned));
  for (const Run* run : section.runs) content += run_html(*run, root);
  return element("details", "class=\"runs\"", content);
}

// `svg`: shown as it is; empty: the scripts draw the figure.
std::string figure_html(const NamedFigure& figure, const std::string& svg) {
  if (std::holds_alternative<HeatMap>(figure.drawing)) return "";  // map_html shows it
  const std::string caption = html(figure.caption), name = html(figure.name);
  std::string content = element("figcaption", "", caption);
  if (!svg.empty()) {
    content += fmt::format("<img src=\"data:image/svg+xml;base64,{}\" alt=\"{}\">", to_base64(svg),
                           caption);
  } else {
    content += element("noscript", "",
                       fmt::format("<img src=\"figures/{}.svg\" alt=\"{}\">", name, caption));
  }
  return element("figure", fmt::format("class=\"chart\" data-figure=\"{}\"", name), content);
}

std::string map_html(const NamedMap& map) {
  return element(
      "figure", fmt::format("class=\"map\" data-map=\"{}\"", html(map.name)),
      element("figcaption", "",
              fmt::format("Memory of {}: every column is a step. Move through the steps "
                          "with the slider, or point at the map.",
                          html(map.label))) +
          element("noscript", "",
                  fmt::format("<img src=\"figures/{}.svg\" alt=\"Change of the memory\">",
                              html(map.name))));
}

std::string section_html(const Section& section, const std::filesystem::path& root,
                         const std::map<std::string, std::string>& svgs) {
  const experiments::Experiment& experiment = *section.experiment;
  std::string text = element("h2", "", html(experiment.title));
  const std::string where =
      experiment.paper.empty() ? "" : fmt::format("In the paper: {}. ", html(experiment.paper));
  text += element("p", "class=\"quiet\"", where + html(experiment.note));
  if (!section.deviations.empty()) {
    text += element("p", "class=\"warning\"",
                    fmt::format("These runs are not the paper's: {}.",
                                html(fmt::format("{}", fmt::join(section.deviations, "; ")))));
  }
  if (section.empty() && section.planned > 0) {
    text += element("p", "", fmt::format("Not run yet: 0 of {} runs.", section.planned));
  }
  for (const NamedFigure& figure : section.figures.figures) {
    const auto svg = svgs.find(figure.name);
    text += figure_html(figure, svg == svgs.end() ? "" : svg->second);
  }
  for (const NamedMap& map : section.figures.maps) text += map_html(map);
  if (!section.empty() || !experiment.paper_values.empty()) {
    for (const Table& table : section.tables) text += table_html(table, experiment.title);
  }
  text += claims_html(section.claims) + runs_html(section, root);
  return element("section", fmt::format("id=\"{}\"", html(experiment.name)), text);
}

std::string contents_html(const Report& report) {
  std::string items;
  for (const Section& section : report.sections) {
    const std::string count = section.planned > 0
                                  ? fmt::format("<span class=\"count\">{} of {} runs</span>",
                                                section.runs.size(), section.planned)
                                  : "";
    items += element("li", "",
                     fmt::format("<a href=\"#{}\">{}{}</a>", html(section.experiment->name),
                                 html(section.experiment->title), count));
  }
  return element("ul", "", items);
}

std::string summary_html(const Report& report) {
  const auto tile = [](const char* kind, int count, const char* words) {
    return element("li", fmt::format("class=\"{}\"", kind),
                   fmt::format("<b>{}</b> {}", count, words));
  };
  const int confirmed = report.claims(Verdict::confirmed),
            refuted = report.claims(Verdict::not_confirmed), open = report.claims(Verdict::not_run);
  const bool paper = confirmed + refuted + open > 0;
  std::string tiles = tile("plain", report.runs(), report.runs() == 1 ? "run" : "runs");
  if (paper) {
    tiles += tile("good", confirmed, "claims confirmed") + tile("bad", refuted, "not confirmed") +
             tile("plain", open, "not run");
  }
  const std::string about =
      "The paper's figures and tables, made again, beside what the paper says. ";
  return element("p", "class=\"quiet\"",
                 (paper ? about : "") + "Lines and values are medians over seeds.") +
         element("ul", "class=\"tiles\"", tiles);
}

std::string footer_html(const Report& report) {
  std::string text = fmt::format("Made by nru {} (commit {}).", html(version()), html(commit()));
  for (const std::string& note : report.collection.notes) text += " " + html(note) + ".";
  return text;
}

// The template with every {{name}} replaced; what is put in is not looked at again.
std::string fill(std::string_view page,
                 const std::map<std::string, std::string, std::less<>>& parts) {
  std::string text;
  for (;;) {
    const std::size_t open = page.find("{{");
    text += page.substr(0, open);
    if (open == std::string_view::npos) return text;
    const std::size_t close = page.find("}}", open);
    text += parts.at(std::string(page.substr(open + 2, close - open - 2)));
    page.remove_prefix(close + 2);
  }
}

}  // namespace

std::string to_html(const Report& report, const std::map<std::string, std::string>& svgs,
                    const PageAssets& assets) {
  const std::map<std::string, std::string> none;
  std::string sections;
  for (const Section& section : report.sections) {
    sections += section_html(section, report.collection.root, assets.library.empty() ? svgs : none);
  }
  return fill(assets.html, {{"title", "Non-saturating recurrent units: report"},
                            {"style", std::string(assets.style)},
                            {"summary", summary_html(report)},
                            {"contents", contents_html(report)},
                            {"sections", sections},
                            {"footer", footer_html(report)},
                            {"data", page_data(report)},
                            {"library", std::string(assets.library)},
                            {"script", std::string(assets.script)}});
}

}  // namespace nru::report
