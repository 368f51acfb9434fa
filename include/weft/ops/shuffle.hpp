#pragma once

#include <weft/ops/gather.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/sort.hpp>

/// Rows in random order. Included by name, not by <weft/weft.hpp>.
namespace weft {

/// The operand with its first axis in an order drawn at random (tf.random.shuffle): `shuffle(images)`. New in each
/// step, and drawn as random_uniform draws, so it is the same on any number of threads, on CPUs and GPUs, and after a
/// restart at that step. Two calls with one seed and axes of one length have the same order, so that images stay with
/// their labels: `shuffle(images, {.seed = 1})`, `shuffle(labels, {.seed = 1})`. TensorFlow's has no gradient; this one
/// takes what arrives back to the rows. In a graph only: tensors have no steps.
template <Expression Expr>
[[nodiscard]] auto shuffle(const Expr& e, random_options options = {}) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<value_not_in_a_graph<Expr>, axis_out_of_range<D, 0>>;
  static_assert(correct<mistake>, "shuffle: takes a value of a graph that has an axis");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<value_t<Expr>, D>(e);
  } else {
    using rows = dims<detail::extent_at<D, 0>::value>;
    gpu::compile_kernels<random_uniform_op, double>();
    const auto x = let(e);
    // Draws numbers of 53 random bits: a million of them are all different but for once in twenty thousand times.
    const node<double, rows> drawn(detail::record_random<random_uniform_op<double>>(
        *x.erased().builder(), {dtype::float64, rows::spec}, 0, 1, options));
    return gather<0, outer_indexing>(x, argsort(drawn));  // of [n, n], too
  }
}

template <auto...>
auto shuffle(...) WEFT_DELETED;  // along the first axis; random_options: seed, as in shuffle(x, {.seed = 7})

}  // namespace weft
