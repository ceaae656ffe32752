#include "report/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "report/values.h"
#include "support/words.h"

namespace nru::report {
namespace {

using experiments::CheckKind;
using experiments::Claim;

// What is known about one of the names in a claim.
struct Fact {
  std::string key, label;
  const Series* series = nullptr;  // null: the claim names nothing that is shown
  std::optional<double> value;     // median of the claim's metric; nothing: not run
  bool open = false;               // more updates might change it
  bool elsewhere = false;          // no value here, but one with other settings
};

// Why there is no value.
std::string absence(const Fact& fact) {
  return fact.elsewhere ? "only with other settings" : "not run";
}

bool is_rank(const std::string& metric) { return metric == "top1" || metric == "top2"; }

// What a run has reached, and more updates do not take back.
bool is_reached(const std::string& metric) {
  static const std::set<std::string> reached = {"solved_at",  "solved_at_1pct", "best_loss",
                                                "best_ratio", "valid_bpc",      "test_bpc"};
  return reached.contains(metric);
}

// What more updates can only add to.
bool only_grows(const std::string& metric) {
  static const std::set<std::string> growing = {"bursts",     "spikes",     "skipped", "valid_drop",
                                                "max_memory", "max_hidden", "seconds"};
  return growing.contains(metric);
}

class Judge {
 public:
  Judge(const Claim& claim, const std::vector<Series>& series, const Ranking& ranking)
      : claim_(claim), all_(series), ranking_(ranking) {
    for (const Series& one : series) series_.push_back(one.comparable());
  }

  Judgement judgement() const {
    switch (claim_.check) {
      case CheckKind::first:
        return compare(facts(claim_.cells, "solved_at"), others("solved_at"), true);
      case CheckKind::best:
        return compare(facts(claim_.cells, claim_.metric), others(claim_.metric), false);
      case CheckKind::solves:
        return each("solved_at", [](const Fact& fact) {
          return solved_share(fact) > 0.5 ? Verdict::confirmed : unless_open(fact);
        });
      case CheckKind::unsolved:
        return each("solved_at", [](const Fact& fact) {
          if (solved_share(fact) > 0) return Verdict::not_confirmed;
          return fact.open ? Verdict::not_run : Verdict::confirmed;
        });
      case CheckKind::at_baseline:
        return each("best_ratio", [&](const Fact& fact) {
          if (*fact.value < *claim_.value) return Verdict::not_confirmed;
          return fact.open ? Verdict::not_run : Verdict::confirmed;
        });
      case CheckKind::at_least:
        if (is_rank(claim_.metric)) return at_least_rank();
        return each(claim_.metric, [&](const Fact& fact) {
          return *fact.value >= *claim_.value ? Verdict::confirmed : unless_open(fact);
        });
      case CheckKind::at_most:
        return each(claim_.metric, [&](const Fact& fact) { return at_most(fact); });
      case CheckKind::ratio:
        return ratio();
      case CheckKind::order:
        return order();
      case CheckKind::finite:
        return each("skipped", [](const Fact& fact) {
          if (!never_diverged(fact)) return Verdict::not_confirmed;
          return fact.open ? Verdict::not_run : Verdict::confirmed;
        });
    }
    return say(Verdict::not_run, "");
  }

 private:
  Judgement say(Verdict verdict, std::string reason) const {
    return {claim_.text, verdict, std::move(reason)};
  }

  Fact fact(const std::string& key, const std::string& metric) const {
    Fact found{key, style_of(key).label, nullptr, std::nullopt};
    const auto series = std::ranges::find(series_, key, &Series::key);
    if (series != series_.end()) {
      found.series = &*series;
      found.label = series->label;
      if (const auto spread = spread_of(*series, metric)) found.value = spread->median;
      const std::vector<const Run*> runs = series->counted();
      found.open = std::ranges::any_of(runs, [&](const Run* run) { return is_open(*run, metric); });
    }
    if (is_rank(metric)) {
      const auto& counts = metric == "top1" ? ranking_.top1 : ranking_.top2;
      const auto count = counts.find(key);
      if (count != counts.end() && ranking_.complete > 0) found.value = count->second;
    }
    if (!found.value) {
      const auto with_all = std::ranges::find(all_, key, &Series::key);
      found.elsewhere = with_all != all_.end() && spread_of(*with_all, metric).has_value();
    }
    return found;
  }

  std::vector<Fact> facts(const std::vector<std::string>& keys, const std::string& metric) const {
    std::vector<Fact> found;
    for (const std::string& key : keys) found.push_back(fact(key, metric));
    return found;
  }

  std::vector<Fact> others(const std::string& metric) const {
    std::vector<std::string> keys;
    std::ranges::copy_if(claim_.among, std::back_inserter(keys), [&](const std::string& key) {
      return std::ranges::find(claim_.cells, key) == claim_.cells.end();
    });
    return facts(keys, metric);
  }

  // "NRU 12,300": unsolved ones with the budget they had.
  static std::string words(const Fact& fact, const std::string& metric) {
    if (std::isinf(*fact.value) && fact.series != nullptr) {
      return fmt::format("{} not solved in {} updates", fact.label,
                         format_count(budget_of(*fact.series)));
    }
    return fmt::format("{} {}", fact.label, in_words(metric, *fact.value));
  }

  // Those that have been run with their values, the others by name.
  static std::string list(const std::vector<Fact>& facts, const std::string& metric) {
    std::vector<std::string> parts;
    std::map<std::string, std::vector<std::string>> missing;
    for (const Fact& fact : facts) {
      if (fact.value) {
        parts.push_back(words(fact, metric));
      } else {
        missing[absence(fact)].push_back(fact.label);
      }
    }
    for (const auto& [why, labels] : missing) {
      parts.push_back(fmt::format("{} {}", fmt::join(labels, " and "), why));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  // With the name of the metric before it.
  static std::string told(const std::vector<Fact>& facts, const std::string& metric) {
    return fmt::format("{}: {}", title_of(metric), list(facts, metric));
  }

  static double solved_share(const Fact& fact) {
    const std::vector<const Run*> runs = fact.series->counted();
    return static_cast<double>(std::ranges::count_if(runs, &Run::solved)) /
           static_cast<double>(runs.size());
  }

  static bool never_diverged(const Fact& fact) {
    const std::vector<const Run*> runs = fact.series->counted();
    return std::ranges::none_of(runs, [](const Run* run) {
      return run->state == RunState::diverged || run->measures.skipped > 0;
    });
  }

  static Verdict unless_open(const Fact& fact) {
    return fact.open ? Verdict::not_run : Verdict::not_confirmed;
  }

  Verdict at_most(const Fact& fact) const {
    if (*fact.value <= *claim_.value) {
      return fact.open && !is_reached(claim_.metric) ? Verdict::not_run : Verdict::confirmed;
    }
    if (only_grows(claim_.metric)) return Verdict::not_confirmed;
    const bool never = std::isinf(*fact.value) && fact.series != nullptr;
    const bool in_time = never && static_cast<double>(budget_of(*fact.series)) >= *claim_.value;
    return in_time ? Verdict::not_confirmed : unless_open(fact);
  }

  // Every cell of the claim by itself.
  Judgement each(const std::string& metric,
                 const std::function<Verdict(const Fact&)>& verdict_on) const {
    const std::vector<Fact> all = facts(claim_.cells, metric);
    const std::string reason = describe(all, metric);
    bool open = all.empty();
    for (const Fact& fact : all) {
      const Verdict verdict = fact.value ? verdict_on(fact) : Verdict::not_run;
      if (verdict == Verdict::not_confirmed) return say(verdict, reason);
      open = open || verdict == Verdict::not_run;
    }
    return say(open ? Verdict::not_run : Verdict::confirmed, reason);
  }

  // For what is counted over seeds, the count; otherwise the medians.
  std::string describe(const std::vector<Fact>& all, const std::string& metric) const {
    const bool solving = claim_.check == CheckKind::solves || claim_.check == CheckKind::unsolved;
    if (!solving && claim_.check != CheckKind::finite) return told(all, metric);
    std::vector<std::string> parts;
    for (const Fact& fact : all) {
      if (!fact.value) {
        parts.push_back(fmt::format("{} {}", fact.label, absence(fact)));
        continue;
      }
      const std::vector<const Run*> runs = fact.series->counted();
      if (claim_.check == CheckKind::finite) {
        const auto diverged = std::ranges::count(runs, RunState::diverged, &Run::state);
        const Spread skipped = *spread_of(*fact.series, "skipped");
        parts.push_back(fmt::format("{}: {} of {} diverged, at most {} updates skipped", fact.label,
                                    diverged, runs.size(), skipped.high));
      } else {
        parts.push_back(fmt::format("{} {} of {} solved in {} updates", fact.label,
                                    std::ranges::count_if(runs, &Run::solved), runs.size(),
                                    format_count(budget_of(*fact.series))));
      }
    }
    return fmt::format("{}", fmt::join(parts, "; "));
  }

  // Whether `other` is known not to be better than `value`. A run that ended before it could have
  // been says nothing.
  static bool says_nothing(const Fact& other, double value) {
    if (!other.value) return true;
    if (!std::isinf(*other.value) || other.series == nullptr) return other.open;
    const std::vector<const Run*> runs = other.series->counted();
    const bool diverged =
        std::ranges::any_of(runs, [](const Run* run) { return run->state == RunState::diverged; });
    return !diverged && static_cast<double>(budget_of(*other.series)) < value;
  }

  // All of `cells` are better than all of `rest`.
  Judgement compare(const std::vector<Fact>& cells, const std::vector<Fact>& rest,
                    bool must_be_finite) const {
    const std::string metric = claim_.check == CheckKind::first ? "solved_at" : claim_.metric;
    const double sign = lower_is_better(metric) ? 1 : -1;
    std::vector<Fact> shown = rest;
    std::ranges::stable_sort(shown, {}, [&](const Fact& fact) {
      return fact.value ? sign * *fact.value : std::numeric_limits<double>::infinity();
    });
    const std::string reason =
        fmt::format("{}; {}", told(cells, metric), list(shown, metric)) + ranking_note(metric);
    bool open = is_rank(metric) && ranking_.complete < static_cast<int>(ranking_.tasks.size());
    double worst = -std::numeric_limits<double>::infinity();
    for (const Fact& fact : cells) {
      if (!fact.value) return say(Verdict::not_run, reason);
      if (fact.open && (!must_be_finite || std::isinf(*fact.value))) {
        return say(Verdict::not_run, reason);
      }
      worst = std::max(worst, sign * *fact.value);
    }
    if (must_be_finite && std::isinf(worst)) return say(Verdict::not_confirmed, reason);
    for (const Fact& fact : rest) {
      if (says_nothing(fact, worst)) {
        open = true;
      } else if (sign * *fact.value <= worst && !is_open_rank(metric)) {
        return say(Verdict::not_confirmed, reason);
      }
    }
    return say(open ? Verdict::not_run : Verdict::confirmed, reason);
  }

  bool is_open_rank(const std::string& metric) const {
    return is_rank(metric) && ranking_.complete < static_cast<int>(ranking_.tasks.size());
  }

  std::string ranking_note(const std::string& metric) const {
    if (!is_rank(metric)) return "";
    return fmt::format(" ({} of {} tasks have been run with all models)", ranking_.complete,
                       ranking_.tasks.size());
  }

  // "in all seven tasks" can be refuted before all are run.
  Judgement at_least_rank() const {
    const std::vector<Fact> all = facts(claim_.cells, claim_.metric);
    const std::string reason = told(all, claim_.metric) + ranking_note(claim_.metric);
    const double left = static_cast<double>(ranking_.tasks.size()) - ranking_.complete;
    Verdict verdict = Verdict::confirmed;
    for (const Fact& fact : all) {
      const double value = fact.value.value_or(0);
      if (value + left < *claim_.value) return say(Verdict::not_confirmed, reason);
      if (value < *claim_.value) verdict = Verdict::not_run;
    }
    return say(verdict, reason);
  }

  Judgement ratio() const {
    const std::vector<Fact> all = facts(claim_.cells, claim_.metric);
    const std::string values = told(all, claim_.metric);
    if (all.size() != 2 || !all[0].value || !all[1].value) return say(Verdict::not_run, values);
    const auto may_move = [](const Fact& fact) { return fact.open && std::isfinite(*fact.value); };
    if (std::ranges::any_of(all, may_move)) return say(Verdict::not_run, values);
    const auto [numerator, at_least] = bounded(all[0]);
    if (std::isinf(*all[1].value)) return say(unless_open(all[1]), values);
    const double ratio = numerator / *all[1].value;
    const std::string reason =
        fmt::format("ratio {}{:.3g} ({})", at_least ? "at least " : "", ratio, values);
    const bool high_enough = !claim_.low || ratio >= *claim_.low;
    const bool low_enough = !claim_.high || (ratio <= *claim_.high && !at_least);
    if (at_least && claim_.high && ratio <= *claim_.high) return say(Verdict::not_run, reason);
    return say(high_enough && low_enough ? Verdict::confirmed : Verdict::not_confirmed, reason);
  }

  // A cell that did not solve would have needed more than it was given.
  static std::pair<double, bool> bounded(const Fact& fact) {
    if (!std::isinf(*fact.value)) return {*fact.value, false};
    return {static_cast<double>(budget_of(*fact.series)), true};
  }

  Judgement order() const {
    const std::vector<Fact> all = facts(claim_.cells, claim_.metric);
    const double sign = lower_is_better(claim_.metric) ? 1 : -1;
    const std::string reason = told(all, claim_.metric);
    bool open = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      open = open || !all[i].value || all[i].open;
      for (std::size_t j = i + 1; j < all.size(); ++j) {
        if (!all[i].value || !all[j].value || all[i].open || all[j].open) continue;
        if (sign * *all[i].value > sign * *all[j].value) {
          return say(Verdict::not_confirmed, reason);
        }
      }
    }
    return say(open || all.empty() ? Verdict::not_run : Verdict::confirmed, reason);
  }

  const Claim& claim_;
  const std::vector<Series>& all_;
  std::vector<Series> series_;  // with the experiment's settings
  const Ranking& ranking_;
};

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::confirmed:
      return "confirmed";
    case Verdict::not_confirmed:
      return "not confirmed";
    case Verdict::not_run:
      return "not run";
  }
  return "?";
}

Judgement judge(const Claim& claim, const std::vector<Series>& series, const Ranking& ranking) {
  return Judge(claim, series, ranking).judgement();
}

}  // namespace nru::report
