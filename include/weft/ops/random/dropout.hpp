// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/dropout.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/random/random_position.hpp>

/// Dropout. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

/// Inputs: x, the position and, unless it is a literal, the rate.
template <class T>
struct dropout_op {
  static constexpr const char* name = "dropout";
  struct attributes {
    attribute<std::uint64_t> key;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::dropout_kernel<T>(p, a.key);
  }
  /// The same position and key yield the same mask.
  static void gradient(gradient_context& g, const attributes&) {
    node_def c = g.node;
    c.inputs[0] = g.upstream().id();
    c.outputs[0] = g.upstream().info();
    g.set_gradient(0, g.upstream().builder()->record(static_cast<node_def&&>(c)));
  }
  static bool in_place(const node_def&, const value_info*, const value_info&) { return true; }
};

namespace detail {

WEFT_INSTANTIATE(kernel* prepare_declared<dropout_op<float>>(const prepare_context&));

template <class T>
symbol record_dropout(symbol x, symbol rate, const random_options& options) {
  op_builder& where = *x.builder();
  node_def c;
  c.op = &operation_of<dropout_op<T>>;
  c.inputs = {x.id(), record_random_position(where).id()};
  c.outputs = {x.info()};
  c.attributes = words_of(typename dropout_op<T>::attributes{where.random_key(options.seed.get())});
  if (rate.is_number()) {
    c.literals = {literal_bits(rate.number())};
  } else {
    check_same_graph("dropout", &where, rate);
    c.inputs.push_back(rate.id());
  }
  return where.record(static_cast<node_def&&>(c));
}

WEFT_COLD_END

template <class Rate>
constexpr bool is_dropout_rate() {
  if constexpr (Expression<Rate>)
    return Rate::symbolic && dims_t<Rate>::rank == 0 && std::is_floating_point_v<value_t<Rate>>;
  else
    return std::is_floating_point_v<Rate>;
}

}  // namespace detail

/// Elements must be float, double, half or bfloat16.
template <class T>
struct elements_not_floating : mistake<!is_differentiable<T>> {};

/// The rate, the share of elements that become zero, must be a number such as 0.1, or a float or double scalar of the
/// graph.
template <class Rate>
struct not_a_dropout_rate : mistake<!detail::is_dropout_rate<Rate>()> {};

/// Sets random elements to zero with probability `rate`, in [0, 1), and divides the others by 1 - rate (tf.nn.dropout):
/// `dropout(hidden, 0.5)`. Every call and every step draws anew. The numbers depend only on the graph's seed, the
/// call's index among the calls that draw (or its `{.seed = 7}`), the session's `step_number()` and the element's
/// index. They are therefore the same for any number of threads, on CPUs and GPUs, and after a restart that sets the
/// step number. The gradient draws the same numbers again, so no mask is stored; the rate has no gradient.
///
/// A rate of 0 turns dropout off. To train and evaluate with the same step, pass a scalar of the graph: a placeholder,
/// or `0.5f * cast<float>(training)`. Requires a graph, since tensors have no steps. Throws invalid_argument if the
/// rate is not in [0, 1): at once for a number, in the step for a scalar. On a GPU, the result is NaN instead.
template <Expression Expr, class Rate>
[[nodiscard]] auto dropout(const Expr& e, const Rate& rate, random_options options = {}) {
  using T = value_t<Expr>;
  using mistake = first_mistake<value_not_in_a_graph<Expr>, elements_not_floating<T>, not_a_dropout_rate<Rate>>;
  static_assert(correct<mistake>,
                "dropout: needs a value in a graph, float or double, and a rate: dropout(x, 0.1) sets a tenth of the "
                "elements to 0");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, dims_t<Expr>>(e);
  } else {
    gpu::compile_kernels<dropout_op, T>();
    const symbol x = let(e).erased();
    if constexpr (Expression<Rate>) {
      return detail::node_of<Expr>(detail::record_dropout<T>(x, let(rate).erased(), options));
    } else {
      detail::check_dropout_rate(static_cast<double>(rate));
      if (rate == 0) return detail::node_of<Expr>(x);
      return detail::node_of<Expr>(detail::record_dropout<T>(x, symbol(static_cast<double>(rate)), options));
    }
  }
}

WEFT_OTHER_CALLS(dropout);  // takes a value, a rate and options: dropout(x, 0.1, {.seed = 7}); 0 turns it off

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/dropout.hpp>
#endif
