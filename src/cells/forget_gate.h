// What cells with a forget gate share: the options of its bias, their checks, and the bias they ask
// for. `Options` is LSTMOptions or JANETOptions.
#pragma once

#include <nru/cells/chrono.h>
#include <nru/options.h>
#include <nru/torch.h>

#include <cstdint>
#include <vector>

#include "cells/initializer.h"

namespace nru {

// forget_bias, chrono_t_max and chrono_form, as rows of a table of cells declare them.
std::vector<OptionSpec> forget_options();

template <class Options>
void read_forget_options(const OptionMap& map, Options& o) {
  o.forget_bias(get<double>(map, "forget_bias"));
  o.chrono_t_max(get<std::int64_t>(map, "chrono_t_max"));
  o.chrono_form(get<std::string>(map, "chrono_form") == "paper" ? ChronoForm::paper
                                                                : ChronoForm::integer);
}

// Throws nru::Error unless t_max is 0 (no chrono initialisation), or at least 2 and of 32 bits.
void check_chrono(std::int64_t t_max);

// The bias of a layer's forget gate, [H] in double: log u of the chrono draws, or forget_bias.
template <class Options>
torch::Tensor draw_forget_bias(Initializer& init, const Options& o) {
  if (o.chrono_t_max() == 0) return torch::full({o.hidden_size()}, o.forget_bias(), torch::kDouble);
  return init.chrono(o.hidden_size(), o.chrono_t_max(), o.chrono_form() == ChronoForm::integer);
}

}  // namespace nru
