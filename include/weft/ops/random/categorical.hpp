// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/categorical.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/random/random.hpp>
#include <weft/ops/reduce/argmax.hpp>

/// Samples from categorical distributions. Not part of <weft/weft.hpp>.
namespace weft {

/// Logits must be float, double, half or bfloat16.
template <class T>
struct logits_not_floating : mistake<!is_differentiable<T>> {};

WEFT_COLD_BEGIN

namespace detail {

inline void check_categorical(const prepare_context& p) {
  const std::size_t axis = p.inputs[0].extents.rank - 1;
  check_indices(p, axis);
  if (p.inputs[0].extents[axis] == 0 && p.outputs[0].extents.elements() > 0)
    throw error(error_code::invalid_argument, "categorical",
                {"logits of ", to_string(p.inputs[0].extents), " have no classes to draw from"});
}

}  // namespace detail

/// Inputs: logits, and for each row a double drawn uniformly from [0, 1).
template <class T>
struct categorical_op {
  static constexpr const char* name = "categorical";

  static kernel* prepare(const prepare_context& p) {
    detail::check_categorical(p);
    return new detail::categorical_kernel<T>(p);
  }
};

WEFT_COLD_END

/// Draws one class for each row of logits `[..., n]`, std::int32_t `[...]`, anew in each step (tf.random.categorical
/// with one sample). `categorical<5>(logits)` draws five with replacement, `[..., 5]` (torch.multinomial). The
/// probability of class k is `softmax(logits)[..., k]`. Logits are unnormalised log-probabilities of type float,
/// double, half or bfloat16. A class with logit -inf is never drawn; a row yields -1 if one of its logits is NaN or
/// +inf, or all are -inf. Uses the random numbers of random_uniform and inverts the distribution function in double,
/// rounding every operation separately. The result is therefore the same for any number of threads, on CPUs and GPUs,
/// and after a restart at that step. Has no gradient. A step throws invalid_argument if there are rows but no classes,
/// and out_of_range if there are more than 2^31 classes. Requires a graph, since tensors have no steps.
template <int Draws = 0, Expression Expr>
[[nodiscard]] auto categorical(const Expr& logits, random_options options = {}) {
  static_assert(Draws >= 0, "categorical: the number of draws is negative");
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = first_mistake<value_not_in_a_graph<Expr>, axis_out_of_range<D, -1>, logits_not_floating<T>>;
  static_assert(correct<mistake>,
                "categorical: needs logits [..., classes] in a graph, of float, double, half or bfloat16");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<std::int32_t, D>(logits);
  } else {
    using rows = std::conditional_t<Draws == 0, without_axes<D, (std::uint32_t{1} << (D::rank - 1))>,
                                    with_extent<D, D::rank - 1, Draws>>;
    gpu::compile_kernels<random_uniform_op, double>();
    const auto x = let(logits);
    const node<double, rows> drawn(detail::record_random<random_uniform_op<double>>(
        *x.erased().builder(), {dtype::float64, rows::spec}, 0, 1, options));
    return call_operation<categorical_op<T>, std::int32_t, rows>(rows::spec, {}, x, drawn);
  }
}

WEFT_OTHER_CALLS(categorical);  // takes logits, and random_options: categorical(x, {.seed = 7}); categorical<5>(x)

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/categorical.hpp>
#endif
