// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/random_words.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/tensor/owned.hpp>

/// GPU kernel of dropout.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// Creates a dropout_element once the rate is known: on the host, or in the step.
template <class T>
struct dropout_factory {
  using element = weft::device::dropout_element<T>;
  static constexpr int words = element::words;

  double rate;
  const void* computed;
  bool wide;

  WEFT_HOST_DEVICE element make() const {
    if (!computed) return element(rate);
    return element(wide ? *static_cast<const double*>(computed) : double{*static_cast<const float*>(computed)});
  }
};

template <class T>
kernel* prepare_dropout(const prepare_context& p, device&) {
  using body = draw_body<T, dropout_factory<T>, T>;
  static const function code = function_of<body>("dropout");
  check_size("dropout", p.outputs[0].extents);
  const weft::detail::dropout_rate rate(p);
  body b{
      {attributes_of<dropout_op<T>>(p.node).key, 0}, nullptr, nullptr, nullptr, 0, {rate.number, nullptr, rate.wide}};
  b.elements = static_cast<std::uint32_t>(p.outputs[0].extents.elements());
  owned<launch_kernel> k(new launch_kernel("dropout of " + to_string(p.outputs[0].extents)));
  if (b.elements == 0) return k.release();
  auto& l = add_draw(*k, b, code, p.input_slots[1], p.output_slots[0]);
  l.point(offset_in(b, b.x), p.input_slots[0]);
  if (rate.computed) l.point(offset_in(b, b.factory.computed), rate.slot);
  return k.release();
}

}  // namespace detail

template <class T>
struct kernels<dropout_op<T>> : installed<dropout_op<T>, detail::prepare_dropout<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
