// Chrono initialisation (Tallec and Ollivier, "Can recurrent neural networks warp time?", 2018): a
// forget gate with bias log u remembers for about u steps, so the biases of a layer are spread over
// the time scales up to T. Shared by the cells that have a forget gate: LSTM and JANET.
#pragma once

namespace nru {

// How u is drawn for each unit.
enum class ChronoForm {
  integer,  // from {1..T}: the authors' code
  paper,    // from the reals [1, T-1]
};

}  // namespace nru
