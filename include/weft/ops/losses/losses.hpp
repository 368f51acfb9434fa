// SPDX-License-Identifier: BSL-1.0
#pragma once

/// All losses other than softmax_cross_entropy. Not part of <weft/weft.hpp>.
#include <weft/ops/losses/classification.hpp>
#include <weft/ops/losses/metric_learning.hpp>
#include <weft/ops/losses/regression.hpp>
