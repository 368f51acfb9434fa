// SPDX-License-Identifier: BSL-1.0
#define WEFT_RECURRENT_SOURCE
#include <weft/nn/recurrent.hpp>
