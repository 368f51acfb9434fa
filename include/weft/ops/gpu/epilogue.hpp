// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/ops/elementwise/formulas_of_symbols.hpp>
#include <weft/ops/fused.hpp>
#include <weft/ops/operation.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft::gpu {

/// An epilogue that a library can fuse into the product's kernel: the addition of a bias to each column (each channel),
/// ReLU, or both.
struct known_epilogue {
  bool known = false, has_bias = false, relu = false;
  std::uint32_t bias = 0;  ///< its slot
};

namespace detail {

template <class T>
struct epilogue_texts {
  using a0 = skeleton::argument<0, T>;
  using a1 = skeleton::argument<1, T>;
  using c0 = skeleton::constant<0, T>;
  template <class Op, class... S>
  using apply = skeleton::apply<Op, T, S...>;
  using sum = apply<formula::add, a0, a1>;

  template <class S>
  static bool is(const fused& f) {
    return f.type == dtype_of<T> && skeleton::same(f.text, weft::detail::tokens_of<S>.tokens);
  }
  static bool is_zero(const node_def& c) {
    return !c.literals.empty() && weft::detail::literal_value<T>(c.literals[0]) == T(0);
  }
  static bool is_sum(const fused& f) { return is<sum>(f); }
  static bool is_relu_of_sum(const fused& f, const node_def& c) {
    return is<apply<formula::relu, sum>>(f) ||
           (is_zero(c) && (is<apply<formula::maximum, sum, c0>>(f) || is<apply<formula::maximum, c0, sum>>(f)));
  }
  static bool is_relu(const fused& f, const node_def& c) {
    return is<apply<formula::relu, a0>>(f) ||
           (is_zero(c) && (is<apply<formula::maximum, a0, c0>>(f) || is<apply<formula::maximum, c0, a0>>(f)));
  }
};

// Recognizes ReLU of a storage type, computed in float: rounding before or after ReLU makes no difference. It does for
// a bias: a library rounds the sum once, the expression twice.
template <class T>
bool is_relu_of_storage(const fused& f) {
  using skeleton::apply;
  using wide = apply<formula::cast<float>, float, skeleton::argument<0, T>>;
  return epilogue_texts<T>::template is<apply<formula::cast<T>, T, apply<formula::relu, float, wide>>>(f);
}

}  // namespace detail

/// Recognizes the epilogue in an expression of type T that reads the product in slot `product`, whose last extent is
/// `columns`.
template <class T>
known_epilogue recognise_epilogue(const prepare_context* following, std::uint32_t product, std::int64_t columns) {
  using texts = detail::epilogue_texts<T>;
  if (!following || following->node.op->fusion != fusion_kind::expression || !following->node.detail) return {};
  const node_def& c = following->node;
  const fused& f = *static_cast<const fused*>(c.detail);
  if constexpr (is_storage_type<T>) {
    return {detail::is_relu_of_storage<T>(f), false, true, 0};
  } else {
    if (texts::is_relu(f, c)) return {true, false, true, 0};
    const bool relu = texts::is_relu_of_sum(f, c);
    if (!relu && !texts::is_sum(f)) return {};
    const std::uint32_t* slots = following->input_slots;
    if ((slots[0] == product) == (slots[1] == product)) return {};
    const std::size_t bias = slots[0] == product ? 1 : 0;
    const shape& extents = following->inputs[bias].extents;
    if (extents.rank == 0 || extents[extents.rank - 1] != columns ||
        extents.elements() != static_cast<std::size_t>(columns))
      return {};
    return {true, true, relu, slots[bias]};
  }
}

}  // namespace weft::gpu

#pragma pop_macro("slots")
