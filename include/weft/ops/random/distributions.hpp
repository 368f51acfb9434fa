// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/random_streams.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/random/random.hpp>

/// Random numbers of distributions whose parameters are values of the graph: one number for each element of the
/// parameter, in the parameter's type. Reproducible like random_uniform (graph/random.hpp), except that GPUs may differ
/// in the last bits and, rarely, in a rejection. They have no gradients. Not part of <weft/weft.hpp>. For several
/// numbers of one parameter, pass `broadcast_to<dims<100, 3>>(parameter)`.
namespace weft {

WEFT_COLD_BEGIN

/// Inputs: the parameters, and the position.
template <class T, class Draw>
struct streamed_op {
  static constexpr const char* name = Draw::name;
  struct attributes {
    attribute<std::uint64_t> key;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) { return new on_cpu(p, a.key); }
  static void gradient(gradient_context&, const attributes&) {
    throw error(error_code::unimplemented, name, "has no gradient by its parameter: use stop_gradient(parameter)");
  }

 private:
  struct on_cpu final : kernel {
    std::uint32_t in, position, out;
    std::uint64_t key;
    device::chunks chunks;

    on_cpu(const prepare_context& p, std::uint64_t k)
        : in(p.input_slots[0]),
          position(p.input_slots[1]),
          out(p.output_slots[0]),
          key(k),
          chunks(p.outputs[0].extents.elements(), p.outputs[0].extents.elements(), 512) {}
    void run(const kernel_context& f) override {
      const device::random_source from{key, *reinterpret_cast<const std::uint64_t*>(f.buffers[position])};
      const T* const x = reinterpret_cast<const T*>(f.buffers[in]);
      T* const y = reinterpret_cast<T*>(f.buffers[out]);
      chunks.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i)
          y[i] = static_cast<T>(Draw()(device::element_stream{from, i}, static_cast<double>(x[i])));
      });
    }
    std::string describe() const override { return str_cat({name, " of ", chunks.items}); }
  };
};
/// Draws of gamma distributions; the operand has their shapes.
template <class T>
using gamma_operation = streamed_op<T, device::gamma_draw>;
/// Draws of Poisson distributions; the operand has their rates.
template <class T>
using poisson_operation = streamed_op<T, device::poisson_draw>;
/// Names both operations for their GPU kernels.
template <class T>
struct streamed_ops {};

WEFT_COLD_END

/// The first mistake in the parameter of a distribution, if any.
template <class Expr>
using parameter_mistake = first_mistake<value_not_in_a_graph<Expr>, not_floating<value_t<Expr>>>;

namespace detail {

/// Uniform numbers in (0, 1), one for each element of extents D.
template <class T, class D>
node<T, D> drawn_uniform(op_builder& where, const random_options& options) {
  gpu::compile_kernels<random_uniform_op, T>();
  constexpr double half_step = sizeof(T) == 8 ? 0x1p-54 : 0x1p-25;
  return node<T, D>(record_random<random_uniform_op<T>>(where, {dtype_of<T>, D::spec}, half_step, 1, options));
}

/// Numbers of the standard Gumbel distribution, one for each element of x.
template <class X>
auto drawn_gumbel(const X& x, const random_options& options) {
  return let(-log(-log(drawn_uniform<value_t<X>, dims_t<X>>(*x.erased().builder(), options))));
}

/// A Bernoulli variable for each element of extents D.
template <class D, class X, class P>
auto drawn_bool(const X& in_graph, const P& probability, const random_options& options) {
  return let(drawn_uniform<double, D>(*in_graph.erased().builder(), options) < probability);
}

template <template <class> class Op, class X>
auto drawn_from_stream(const X& parameter, const random_options& options) {
  using T = value_t<X>;
  gpu::compile_kernels<streamed_ops, T>();
  const symbol x = let(parameter).erased();
  const symbol position = record_random_position(*x.builder());
  return node_of<X>(record<Op<T>>({x, position}, x.info(), {x.builder()->random_key(options.seed.get())}));
}

}  // namespace detail

/// Returns 1 with the given probabilities, otherwise 0 (torch.bernoulli): `random_bernoulli(p)`.
template <Expression P>
[[nodiscard]] auto random_bernoulli(const P& probabilities, random_options options = {}) {
  static_assert(correct<parameter_mistake<P>>,
                "random_bernoulli: needs float or double probabilities in a graph: constant(g, p)");
  if constexpr (correct<parameter_mistake<P>>) {
    const auto p = let(probabilities);
    return let(cast<value_t<P>>(detail::drawn_bool<dims_t<P>>(p, cast<double>(p), options)));
  } else {
    return detail::same_after_mistake(probabilities);
  }
}

/// Returns numbers of exponential distributions with the given rates (torch.Tensor.exponential_).
template <Expression R>
[[nodiscard]] auto random_exponential(const R& rates, random_options options = {}) {
  static_assert(correct<parameter_mistake<R>>,
                "random_exponential: needs float or double rates in a graph: constant(g, rate)");
  if constexpr (correct<parameter_mistake<R>>) {
    const auto r = let(rates);
    return let(-log(detail::drawn_uniform<value_t<R>, dims_t<R>>(*r.erased().builder(), options)) / r);
  } else {
    return detail::same_after_mistake(rates);
  }
}

/// Returns numbers of gamma distributions with the given shapes and rate 1 (tf.random.gamma): `random_gamma(shapes) /
/// rates`. NaN for a shape that is not positive.
template <Expression A>
[[nodiscard]] auto random_gamma(const A& shapes, random_options options = {}) {
  static_assert(correct<parameter_mistake<A>>,
                "random_gamma: needs float or double shapes in a graph: constant(g, shape)");
  if constexpr (correct<parameter_mistake<A>>)
    return detail::drawn_from_stream<gamma_operation>(shapes, options);
  else
    return detail::same_after_mistake(shapes);
}

/// Returns whole numbers of Poisson distributions with the given rates (tf.random.poisson, torch.poisson). NaN for a
/// rate that is negative.
template <Expression R>
[[nodiscard]] auto random_poisson(const R& rates, random_options options = {}) {
  static_assert(correct<parameter_mistake<R>>,
                "random_poisson: needs float or double rates in a graph: constant(g, rate)");
  if constexpr (correct<parameter_mistake<R>>)
    return detail::drawn_from_stream<poisson_operation>(rates, options);
  else
    return detail::same_after_mistake(rates);
}

WEFT_OTHER_CALLS(random_bernoulli);    // probabilities of a graph, and options: random_bernoulli(p, {.seed = 7})
WEFT_OTHER_CALLS(random_exponential);  // rates of a graph, and options: random_exponential(rates, {.seed = 7})
WEFT_OTHER_CALLS(random_gamma);        // shapes of a graph, and options: random_gamma(shapes, {.seed = 7}) / rates
WEFT_OTHER_CALLS(random_poisson);      // rates of a graph, and options: random_poisson(rates, {.seed = 7})

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/distributions.hpp>
#endif
