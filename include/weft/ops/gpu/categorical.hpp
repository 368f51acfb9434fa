// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/categorical.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/random/categorical.hpp>

/// GPU kernel that draws a class for each row of logits.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// One thread for each draw, so that sums have the same order as on CPUs.
template <class T>
struct categorical_work {
  const T* logits;
  const double* numbers;
  std::int32_t* to;
  std::size_t classes, draws;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    to[i] = weft::device::draw_class(logits + i / draws * classes, classes, numbers[i]);
  }
};

template <class T>
kernel* prepare_categorical(const prepare_context& p, device&) {
  using w = categorical_work<T>;
  weft::detail::check_categorical(p);
  const std::size_t n = p.outputs[0].extents.elements();
  const shape& logits = p.inputs[0].extents;
  const w work{nullptr, nullptr, nullptr, static_cast<std::size_t>(logits[logits.rank - 1]),
               weft::detail::draws_of_row(p)};
  return make_each<64>(p, str_cat({"categorical, ", n, " of ", work.classes, " classes"}), work, n, &w::logits,
                       &w::numbers, &w::to);
}

}  // namespace detail

template <class T>
struct kernels<categorical_op<T>> : installed<categorical_op<T>, detail::prepare_categorical<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
