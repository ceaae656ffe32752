// Everything an application needs: the recurrent layers, and torch.
#pragma once

#include <nru/cells/eurnn.h>
#include <nru/cells/goru.h>
#include <nru/cells/gru.h>
#include <nru/cells/janet.h>
#include <nru/cells/lstm.h>
#include <nru/cells/nru.h>
#include <nru/cells/rnn.h>
#include <nru/cells/sru.h>
#include <nru/error.h>
#include <nru/layer.h>
#include <nru/torch_all.h>
#include <nru/version.h>
