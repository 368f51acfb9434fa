// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstdint>

#include <weft/graph/fill.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/index/gather.hpp>

/// Layers that add the position of each step to a sequence. Not part of <weft/nn.hpp>.
namespace weft::nn {

/// A sequence needs two axes, [..., steps, features], with a static number of features.
template <class X>
struct operand_has_no_steps : mistake<(X::rank < 2 || X::spec[X::rank - (X::rank > 0)] < 1)> {};

/// Positions must be integers of a graph.
template <class At>
struct positions_are_not_integers : mistake<!(At::symbolic && std::is_integral_v<value_t<At>>)> {};

/// The mistake in a call of a layer of positions, if there is one.
template <class X, class T>
using positions_mistake = first_mistake<value_not_in_a_graph<X>, operand_has_no_steps<dims_t<X>>,
                                        element_types_differ<value_t<X>, T>, not_floating<T>>;

#define WEFT_NEEDS_STEPS(layer)                                                                                     \
  layer                                                                                                             \
      ": needs a node [..., steps, features] of the layer's element type, and positions [steps] or [batch, steps] " \
      "of integers"

namespace detail {

/// Returns the indices of the steps of x [..., steps, features].
template <class X>
auto steps_of(const X& x) {
  return range<std::int32_t, extent_of<dims_t<X>, dims_t<X>::rank - 2>()>(graph_of(x));
}

}  // namespace detail

/// Returns the position of each step, [batch, steps]: those of the first steps, [batch], plus 0, 1, and so on. `tokens`
/// [batch, steps, ...] has as many steps. For embeddings of positions: `places(nn::step_positions(at, tokens))`.
template <Expression P, Expression X>
auto step_positions(const P& positions, const X& tokens) {
  return let(expand_dims<1>(positions) + range<std::int32_t, extent_of<dims_t<X>, 1>()>(graph_of(tokens)));
}

/// Adds a trained row to each step: x + table[positions], x [..., steps, features], table [Context, features]
/// (torch.nn.Embedding of torch.arange(steps)). By default, positions count from 0; `layer(x, at)` takes them from
/// integers [steps] or [batch, steps], for a text that is read in parts. A step throws out_of_range if a position is
/// not in [0, Context). In torch's files, the table is the weight of an Embedding.
template <int Context, Element T = float>
struct positional_embedding {
  stored_initializer table_init = init::normal{.stddev = 0.02};
  layer_state state{detail::layer_class::embedding};
  mutable parameter table{};

  template <Expression X, Expression At>
  auto operator()(const X& e, const At& at) const {
    using mistaken = first_mistake<positions_mistake<X, T>, positions_are_not_integers<At>>;
    static_assert(correct<mistaken>, WEFT_NEEDS_STEPS("positional_embedding"));
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, dims_t<X>>(e);
    } else {
      constexpr int width = static_extent<X, -1>();
      const auto x = let(e);
      const parameter_request request{"table", shape(Context, width), table_init, table};
      layer_call call(state, x.erased(), &request, 1, dtype_of<T>);
      return call.result(x + gather<0>(variable_node<T, dims<Context, width>>(call[0]), at));
    }
  }
  template <Expression X>
  auto operator()(const X& x) const {
    if constexpr (correct<positions_mistake<X, T>>)
      return (*this)(x, detail::steps_of(x));
    else
      return (*this)(x, x);
  }

  void visit(const std::string& path, layer_visitor& v) const { v.layer(path, state, {{"table", &table}}); }
};

/// Adds waves to each step, without variables, for sequences of any length (Vaswani et al., NeurIPS 2017): position p
/// adds sin(p / 10000^(i / features)) to even features i, and cos(p / 10000^((i - 1) / features)) to odd features.
/// `layer(x, at)` takes the positions from integers or numbers [steps] or [batch, steps].
struct sinusoidal_embedding {
  template <Expression X, Expression At>
  auto operator()(const X& x, const At& at) const {
    using T = value_t<X>;
    using mistaken = first_mistake<positions_mistake<X, T>, value_not_in_a_graph<At>>;
    static_assert(correct<mistaken>, WEFT_NEEDS_STEPS("sinusoidal_embedding"));
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, dims_t<X>>(x);
    } else {
      constexpr int width = static_extent<X, -1>();
      tensor<T, dims<width>> rates;
      tensor<bool, dims<width>> even;
      for (int i = 0; i < width; ++i) {
        rates(i) = static_cast<T>(std::pow(10000.0, -static_cast<double>(i - i % 2) / width));
        even(i) = i % 2 == 0;
      }
      graph& g = graph_of(x);
      const auto angles = let(expand_dims<-1>(cast<T>(at)) * constant(g, rates));
      return let(x + select(constant(g, even), sin(angles), cos(angles)));
    }
  }
  template <Expression X>
  auto operator()(const X& x) const {
    if constexpr (correct<positions_mistake<X, value_t<X>>>)
      return (*this)(x, detail::steps_of(x));
    else
      return (*this)(x, x);
  }
};

#undef WEFT_NEEDS_STEPS

}  // namespace weft::nn
