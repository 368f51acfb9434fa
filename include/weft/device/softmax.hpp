// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>

namespace weft {

/// The function computed on each row of logits, for every kind of device.
enum class softmax_kind : unsigned char { softmax, log_softmax, cross_entropy, sparse_cross_entropy };

}  // namespace weft
