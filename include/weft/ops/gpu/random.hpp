// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/random_words.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/random/random.hpp>
#include <weft/tensor/owned.hpp>

/// GPU kernels of random_uniform, random_normal, random_truncated_normal and random_int.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class Element>
struct known_element {
  static constexpr int words = Element::words;
  Element element;
  WEFT_HOST_DEVICE const Element& make() const { return element; }
};

template <class T, class Op>
kernel* prepare_random(const prepare_context& p, device&) {
  using element = typename Op::element;
  using body = draw_body<T, known_element<element>>;
  static const function code = function_of<body>(Op::name);
  check_size(Op::name, p.outputs[0].extents);
  const body b{{attributes_of<Op>(p.node).key, 0},
               nullptr,
               nullptr,
               nullptr,
               static_cast<std::uint32_t>(p.outputs[0].extents.elements()),
               {weft::detail::element_of(p.node, static_cast<element*>(nullptr))}};
  owned<launch_kernel> k(new launch_kernel(str_cat({Op::name, " of ", to_string(p.outputs[0].extents)})));
  if (b.elements) add_draw(*k, b, code, p.input_slots[0], p.output_slots[0]);
  return k.release();
}

}  // namespace detail

template <class T>
struct kernels<random_uniform_op<T>>
    : installed<random_uniform_op<T>, detail::prepare_random<T, random_uniform_op<T>>> {};
template <class T>
struct kernels<random_normal_op<T>> : installed<random_normal_op<T>, detail::prepare_random<T, random_normal_op<T>>> {};
template <class T>
struct kernels<random_truncated_normal_op<T>>
    : installed<random_truncated_normal_op<T>, detail::prepare_random<T, random_truncated_normal_op<T>>> {};
template <class T>
struct kernels<random_int_op<T>> : installed<random_int_op<T>, detail::prepare_random<T, random_int_op<T>>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
