// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/random/random.hpp>

/// Random permutation of rows. Not part of <weft/weft.hpp>.
namespace weft {

/// Permutes the first axis at random (tf.random.shuffle): `shuffle(images)`. Every step draws a new order from the
/// numbers of random_uniform, so the order is the same for any number of threads, on CPUs and GPUs, and after a restart
/// at that step. Two calls with equal seeds and equal lengths of the first axis use the same order, so images stay
/// aligned with labels: `shuffle(images, {.seed = 1})`, `shuffle(labels, {.seed = 1})`. Unlike TensorFlow's, it has a
/// gradient, which returns to the original rows. Requires a graph, since tensors have no steps.
template <Expression Expr>
[[nodiscard]] auto shuffle(const Expr& e, random_options options = {}) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<value_not_in_a_graph<Expr>, axis_out_of_range<D, 0>>;
  static_assert(correct<mistake>, "shuffle: needs a value in a graph that has at least one axis");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<value_t<Expr>, D>(e);
  } else {
    using rows = dims<detail::extent_at<D, 0>::value>;
    gpu::compile_kernels<random_uniform_op, double>();
    const auto x = let(e);
    // Draws numbers of 53 random bits: among a million, two are equal with a probability of one in twenty thousand.
    const node<double, rows> drawn(detail::record_random<random_uniform_op<double>>(
        *x.erased().builder(), {dtype::float64, rows::spec}, 0, 1, options));
    return gather<0, outer_indexing>(x, argsort(drawn));  // also for [n, n]
  }
}

WEFT_OTHER_CALLS(shuffle);  // shuffles the first axis; takes random_options: shuffle(x, {.seed = 7})

}  // namespace weft
