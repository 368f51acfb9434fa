// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/products/einsum.hpp>

/// Products of vectors, matrices and tensors by the names that NumPy, TensorFlow and PyTorch give them. Not part of
/// <weft/weft.hpp>. Each is an einsum.
namespace weft {

/// Numbers of axes as a template argument; negative ones count from the end.
template <int... Axes>
struct axis_numbers {};

/// tensordot takes one axis of b for each axis of a.
template <class AxesOfA, class AxesOfB>
struct numbers_of_axes_differ : mistake<true> {};
template <int... A, int... B>
struct numbers_of_axes_differ<axis_numbers<A...>, axis_numbers<B...>> : mistake<sizeof...(A) != sizeof...(B)> {};

/// The operands have at least this number of axes.
template <class A, class B, int Axes>
struct operands_lack_axes : mistake<(Axes<0 || Axes> static_cast<int>(A::rank) || Axes > static_cast<int>(B::rank))> {};

namespace detail {

/// The subscripts of a tensordot: the axes of a are the letters a, b, ..., those of b i, j, ....
template <class A, class B, int... AxesOfA, int... AxesOfB>
constexpr auto tensordot_subscripts(axis_numbers<AxesOfA...>, axis_numbers<AxesOfB...>) {
  constexpr std::size_t count = sizeof...(AxesOfA);
  const std::size_t of_a[] = {axis_number<A, AxesOfA>..., 0}, of_b[] = {axis_number<B, AxesOfB>..., 0};
  char text[5 * max_rank]{}, letters[max_rank + 1]{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < A::rank; ++i) text[n++] = static_cast<char>('a' + i);
  text[n++] = ',';
  for (std::size_t i = 0; i < B::rank; ++i) letters[i] = static_cast<char>('i' + i);
  for (std::size_t k = 0; k < count; ++k) letters[of_b[k]] = static_cast<char>('a' + of_a[k]);
  for (std::size_t i = 0; i < B::rank; ++i) text[n++] = letters[i];
  text[n++] = '-', text[n++] = '>';
  for (std::size_t i = 0; i < A::rank; ++i) {
    bool kept = true;
    for (std::size_t k = 0; k < count; ++k) kept = kept && of_a[k] != i;
    if (kept) text[n++] = static_cast<char>('a' + i);
  }
  for (std::size_t i = 0; i < B::rank; ++i)
    if (letters[i] >= 'i') text[n++] = letters[i];
  return fixed_string(text);
}

template <class A, class B, class AxesOfA, class AxesOfB>
struct tensordot_of;
template <class A, class B, int... AxesOfA, int... AxesOfB>
struct tensordot_of<A, B, axis_numbers<AxesOfA...>, axis_numbers<AxesOfB...>> {
  using mistake = first_mistake<numbers_of_axes_differ<axis_numbers<AxesOfA...>, axis_numbers<AxesOfB...>>,
                                axis_out_of_range<dims_t<A>, AxesOfA...>, axis_out_of_range<dims_t<B>, AxesOfB...>>;
  static constexpr auto subscripts() {
    if constexpr (correct<mistake>)
      return tensordot_subscripts<dims_t<A>, dims_t<B>>(axis_numbers<AxesOfA...>{}, axis_numbers<AxesOfB...>{});
    else
      return fixed_string("");
  }
};

template <fixed_string Subscripts, class A, class B>
auto checked_einsum(const A& a, const B& b) {
  if constexpr (correct<einsum_mistake<Subscripts, A, B>>)
    return einsum<Subscripts>(a, b);
  else
    return after_mistake<value_t<A>, dims_t<A>>(a, b);
}

/// The last axes of A, and the first ones of B.
template <class A, class B, std::size_t... Index>
auto numbered_axes(indices<Index...>) {
  constexpr int first = static_cast<int>(dims_t<A>::rank - sizeof...(Index));
  return tensordot_of<A, B, axis_numbers<first + static_cast<int>(Index)...>,
                      axis_numbers<static_cast<int>(Index)...>>();
}

}  // namespace detail

/// Sums the products over pairs of axes: `tensordot<axis_numbers<1, 2>, axis_numbers<0, -1>>(a, b)` of `[m, j, k]` and
/// `[j, n, k]` is `[m, n]`. The result has the other axes of a, then those of b.
template <class AxesOfA, class AxesOfB, Expression A, Expression B>
[[nodiscard]] auto tensordot(const A& a, const B& b) {
  using of = detail::tensordot_of<A, B, AxesOfA, AxesOfB>;
  static_assert(correct<typename of::mistake>,
                "tensordot: needs as many axes of b as of a: tensordot<axis_numbers<1, 2>, axis_numbers<0, 1>>(a, b)");
  if constexpr (correct<typename of::mistake>) {
    static_assert(correct<einsum_mistake<of::subscripts(), A, B>>,
                  "tensordot: the summed axes of a and b must have equal extents, and elements one type");
    return detail::checked_einsum<of::subscripts()>(a, b);
  } else {
    return detail::after_mistake<value_t<A>, dims_t<A>>(a, b);
  }
}

/// Sums the products over the last `Axes` axes of a and the first ones of b (tf.tensordot, torch.tensordot):
/// `tensordot<2>(a, b)` of `[m, j, k]` and `[j, k, n]` is `[m, n]`; with 0, the outer product of all axes.
template <int Axes = 2, Expression A, Expression B>
[[nodiscard]] auto tensordot(const A& a, const B& b) {
  using mistake = operands_lack_axes<dims_t<A>, dims_t<B>, Axes>;
  static_assert(correct<mistake>,
                "tensordot: sums over the last axes of a and the first ones of b: tensordot<1>(a, b)");
  if constexpr (correct<mistake>) {
    using of = decltype(detail::numbered_axes<A, B>(typename detail::make_indices<std::size_t{Axes}>::type()));
    static_assert(correct<einsum_mistake<of::subscripts(), A, B>>,
                  "tensordot: the last extents of a must be the first ones of b, and elements of one type");
    return detail::checked_einsum<of::subscripts()>(a, b);
  } else {
    return detail::after_mistake<value_t<A>, dims_t<A>>(a, b);
  }
}

/// Sums the products over the last axes: `[..., n]` and `[..., n]`, whose leading axes broadcast (torch.linalg.vecdot,
/// tf.tensordot, torch.dot).
template <Expression A, Expression B>
[[nodiscard]] auto vecdot(const A& a, const B& b) {
  static_assert(correct<einsum_mistake<"...i,...i->...", A, B>>, "vecdot: needs vectors [..., n] of one type");
  return detail::checked_einsum<"...i,...i->...">(a, b);
}

/// Sums the products over the last axes for all pairs of rows: `[..., n]` and `[___, n]` make `[..., ___]`
/// (numpy.inner, torch.inner).
template <Expression A, Expression B>
[[nodiscard]] auto inner(const A& a, const B& b) {
  return tensordot<axis_numbers<-1>, axis_numbers<-1>>(a, b);
}

/// Multiplies all pairs of elements: `[..., m]` and `[..., n]` make `[..., m, n]`; leading axes broadcast
/// (torch.outer).
template <Expression A, Expression B>
[[nodiscard]] auto outer(const A& a, const B& b) {
  static_assert(correct<einsum_mistake<"...i,...j->...ij", A, B>>, "outer: needs vectors [..., n] of one type");
  return detail::checked_einsum<"...i,...j->...ij">(a, b);
}

/// Multiplies matrices `[..., m, n]` with vectors `[..., n]`; leading axes broadcast (tf.linalg.matvec, torch.mv).
template <Expression A, Expression B>
[[nodiscard]] auto matvec(const A& a, const B& b) {
  static_assert(correct<einsum_mistake<"...ij,...j->...i", A, B>>,
                "matvec: needs matrices [..., m, n] and vectors [..., n] of one type");
  return detail::checked_einsum<"...ij,...j->...i">(a, b);
}

/// Multiplies matrices `[..., m, k]` with `[..., k, n]`, whose leading axes broadcast (numpy.matmul, torch.matmul). For
/// equal leading axes, this is `matmul(a, b)`.
template <Expression A, Expression B>
[[nodiscard]] auto broadcast_matmul(const A& a, const B& b) {
  static_assert(correct<einsum_mistake<"...ij,...jk->...ik", A, B>>,
                "broadcast_matmul: needs matrices [..., m, k] and [..., k, n] of one type");
  return detail::checked_einsum<"...ij,...jk->...ik">(a, b);
}

WEFT_OTHER_CALLS(tensordot);  // axes are template arguments: tensordot<1>(a, b), or axis_numbers<1> for each

}  // namespace weft
