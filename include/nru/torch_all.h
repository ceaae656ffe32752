// All of torch, with its own recurrent layers and optimizers: for applications, and for what is
// compared with them. It takes a third longer to compile than torch.h.
#pragma once

#include <nru/torch.h>
// (keep the order)
#include <torch/torch.h>
