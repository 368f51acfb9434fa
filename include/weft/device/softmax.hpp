// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>

namespace weft {

/// The function computed on each row of logits, for every kind of device. `weights` is the softmax of attention: a row
/// of -infinity becomes zeros, and a second result is the logarithm of each row's sum.
enum class softmax_kind : unsigned char { softmax, log_softmax, weights, cross_entropy, sparse_cross_entropy };

}  // namespace weft
