#pragma once

#include <weft/tensor/tensor.hpp>

namespace test {

/// The gradients that make_adam_values.py, make_norm_values.py and make_optimizer_values.py have: of several sizes, some 0.
template <class T>
weft::tensor<T, weft::dims<4>> gradient_of(int step) {
  weft::tensor<T, weft::dims<4>> g;
  const double sizes[] = {1, 0x1p-10, 0x1p6, 0x1p-20};
  for (int i = 0; i < 4; ++i)
    g(i) = static_cast<T>((step + i) % 7 == 3 ? 0 : ((step * 7919 + i * 31) % 257 - 128) / 64.0 * sizes[i]);
  return g;
}

}  // namespace test
