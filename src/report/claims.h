// What the paper says, held against the runs.
#pragma once

#include <string>
#include <vector>

#include "report/collection.h"
#include "report/ranking.h"

namespace nru::report {

enum class Verdict { confirmed, not_confirmed, not_run };

const char* to_string(Verdict verdict);  // "confirmed", "not confirmed", "not run"

struct Judgement {
  std::string claim;
  Verdict verdict = Verdict::not_run;
  std::string reason;  // the numbers behind it, in words
};

// A claim about several cells is refuted by one of them; it is confirmed when all have runs that
// count, and "not run" until then. Runs with other settings than the experiment's do not count, and
// one that was to make fewer updates only for what it reached: what it did not solve is open, and
// so is what the rest of it could have spoilt.
Judgement judge(const experiments::Claim& claim, const std::vector<Series>& series,
                const Ranking& ranking = {});

}  // namespace nru::report
