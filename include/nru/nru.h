// Everything an application needs: the recurrent layers.
#pragma once

#include <nru/cells/eurnn.h>
#include <nru/cells/goru.h>
#include <nru/cells/lstm.h>
#include <nru/cells/nru.h>
#include <nru/error.h>
#include <nru/layer.h>
#include <nru/version.h>
