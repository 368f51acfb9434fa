// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/categorical.hpp>
#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/random/categorical.hpp>

/// GPU kernel that draws a class for each row of logits.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// One thread for each draw, so that sums have the same order as on CPUs.
template <class T>
struct categorical_body {
  static constexpr unsigned threads = 64;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  const T* logits;
  const double* numbers;
  std::int32_t* to;
  std::uint32_t rows, classes, draws;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < rows; i += at.blocks * threads)
      to[i] = weft::device::draw_class(logits + i / draws * classes, classes, numbers[i]);
  }
};

template <class T>
kernel* prepare_categorical(const prepare_context& p, device&) {
  using body = categorical_body<T>;
  static const function code = function_of<body>("categorical");
  weft::detail::check_categorical(p);
  check_size("categorical", p.inputs[0].extents);
  body b{};
  b.rows = static_cast<std::uint32_t>(p.outputs[0].extents.elements());
  b.classes = static_cast<std::uint32_t>(p.inputs[0].extents[p.inputs[0].extents.rank - 1]);
  b.draws = static_cast<std::uint32_t>(weft::detail::draws_of_row(p));
  auto* k = new launch_kernel(str_cat({"categorical, ", b.rows, " of ", b.classes, " classes"}));
  if (b.rows == 0) return k;
  auto& l = add_body(*k, b, code, (b.rows + body::threads - 1) / body::threads);
  l.point(offset_in(b, b.logits), p.input_slots[0]);
  l.point(offset_in(b, b.numbers), p.input_slots[1]);
  l.point(offset_in(b, b.to), p.output_slots[0]);
  return k;
}

}  // namespace detail

template <class T>
struct kernels<categorical_op<T>> : installed<categorical_op<T>, detail::prepare_categorical<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
