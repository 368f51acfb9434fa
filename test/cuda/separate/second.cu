// SPDX-License-Identifier: BSL-1.0
#include "unit.hpp"

namespace {

struct own {
  static constexpr const char* name = "own";
  template <class V>
  WEFT_HOST_DEVICE static V apply(V x) {
    return weft::math::exp(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static V gradient(V g, V, V y) {
    return g * y;
  }
};

}  // namespace

unit second_unit() { return look<own>(); }
std::vector<float> train_second(const weft::session_options& options) { return train<own>(options); }
