// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/adaptive_pooling.hpp>

/// Pools with a given number of windows as layers for `sequential`. Not part of `<weft/nn.hpp>`.
namespace weft::nn {

/// weft::adaptive_avg_pool2d (torch.nn.AdaptiveAvgPool2d): `adaptive_avg_pool2d<7>`.
template <size2d Result>
struct adaptive_avg_pool2d {
  auto operator()(const Expression auto& x) const { return weft::adaptive_avg_pool2d<Result>(x); }
};

/// weft::adaptive_max_pool2d (torch.nn.AdaptiveMaxPool2d).
template <size2d Result>
struct adaptive_max_pool2d {
  auto operator()(const Expression auto& x) const { return weft::adaptive_max_pool2d<Result>(x); }
};

/// weft::adaptive_avg_pool1d (torch.nn.AdaptiveAvgPool1d).
template <int Result>
struct adaptive_avg_pool1d {
  auto operator()(const Expression auto& x) const { return weft::adaptive_avg_pool1d<Result>(x); }
};

/// weft::adaptive_max_pool1d (torch.nn.AdaptiveMaxPool1d).
template <int Result>
struct adaptive_max_pool1d {
  auto operator()(const Expression auto& x) const { return weft::adaptive_max_pool1d<Result>(x); }
};

}  // namespace weft::nn
