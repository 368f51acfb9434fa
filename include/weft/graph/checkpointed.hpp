// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/graph/custom_gradient.hpp>
#include <weft/graph/scopes.hpp>

/// Functions that gradients compute again instead of keeping their values. Not part of <weft/weft.hpp>.
namespace weft {

/// Returns `f(xs...)`. Gradients compute the values between the xs and the result a second time, when their upstream
/// gradient is known, so that a training step does not keep them (tf.recompute_grad, torch.utils.checkpoint; Chen et
/// al., Training Deep Nets with Sublinear Memory Cost, 2016):
///
///     for (const block& b : blocks) h = checkpointed([&](auto x) { return b(x); }, h);
///
/// Everything that the result and at least one x share is computed again; other values that `f` reads, such as
/// variables, are operands with gradients. Random numbers are the same both times. The result is one expression over
/// nodes.
template <class F, Expression... Xs>
[[nodiscard]] auto checkpointed(const F& f, const Xs&... xs);

WEFT_COLD_BEGIN
namespace detail {

/// Records y, with gradients that compute it from the xs again.
symbol record_checkpointed(symbol y, const sequence<symbol>& xs);

/// Marks the nodes on which y depends, down to the ends, which are not marked.
inline sequence<char> nodes_down_to(const graph& g, symbol y, const sequence<char>& ends) {
  sequence<char> found(g.size(), 0);
  found[y.id().node] = !ends[y.id().node];
  for (std::uint32_t n = y.id().node + 1; n-- > 0;)
    if (found[n])
      for (const value& in : g[n].def.inputs) found[in.node] = !ends[in.node];
  return found;
}

struct checkpointed_op : result_with_operands {
  static constexpr const char* name = "checkpointed";
  static void gradient(gradient_context&);
};

inline void checkpointed_op::gradient(gradient_context& c) {
  graph& g = graph_of(c.input(0));
  const std::size_t operands = c.node.inputs.size() - 1;
  const symbol y = c.input(0), upstream = c.upstream();
  sequence<char> ends(g.size(), 0);
  for (std::size_t i = 1; i <= operands; ++i) ends[c.input(i).id().node] = 1;
  const sequence<char> again = nodes_down_to(g, y, ends);
  // Nodes with this dependency are not shared with those of the first computation, and run after the upstream gradient.
  const std::size_t outer = g.control_depth();
  g.enter_control(upstream.id().node);
  // Gradients with respect to identities, since those with respect to variables would count as their whole gradients.
  sequence<symbol> xs, wanted;
  for (std::size_t i = 1; i <= operands; ++i) {
    xs.push_back(record_identity(c.input(i)));
    if (c.needs_gradient(i)) wanted.push_back(xs.back());
  }
  sequence<value> copy_of(y.id().node + 1);  // the first output of each node
  const auto copied = [&](value v) -> value {
    for (std::size_t i = 0; i < operands; ++i)
      if (c.input(i + 1).id() == v) return xs[i].id();
    return again[v.node] ? value{copy_of[v.node].node, v.output} : v;
  };
  for (std::uint32_t n = 0; n <= y.id().node; ++n) {
    if (!again[n] || g[n].def.inputs.empty()) {
      copy_of[n] = {n, 0};
      continue;
    }
    node_def def = g[n].def;
    for (value& in : def.inputs) in = copied(in);
    const device_scope beside(g, value{n, 0});
    copy_of[n] = g.record(static_cast<node_def&&>(def)).id();
  }
  const sequence<symbol> found = g.differentiate({symbol(&g, copied(y.id()))}, {upstream}, wanted, true);
  g.leave_control(outer);
  for (std::size_t i = 1, w = 0; i <= operands; ++i)
    if (c.needs_gradient(i)) c.set_gradient(i, found[w++]);
}

inline symbol record_checkpointed(symbol y, const sequence<symbol>& xs) {
  graph& g = graph_of(y);
  sequence<char> depends(g.size(), 0);
  for (const symbol& x : xs) {
    check_same_graph("checkpointed", &g, x);
    depends[x.id().node] = 1;
  }
  for (std::uint32_t n = 0; n < g.size(); ++n)
    for (const value& in : g[n].def.inputs) depends[n] = depends[n] || depends[in.node];
  sequence<char> ends(g.size(), 0);
  for (std::uint32_t n = 0; n < g.size(); ++n) ends[n] = !depends[n];
  for (const symbol& x : xs) ends[x.id().node] = 1;
  if (ends[y.id().node]) return y;  // nothing is computed
  const sequence<char> between = nodes_down_to(g, y, ends);
  sequence<symbol> operands{y};
  const auto add = [&](value v) {
    for (const symbol& known : operands)
      if (known.id() == v) return;
    operands.push_back({&g, v});
  };
  for (std::uint32_t n = 0; n <= y.id().node; ++n)
    if (between[n])
      for (const value& in : g[n].def.inputs)
        if (ends[in.node] && !is_operation<constant_op>(g[in.node].def.op)) add(in);
  return weft::record<checkpointed_op>(operands, {y.info()});
}

}  // namespace detail
WEFT_COLD_END

template <class F, Expression... Xs>
auto checkpointed(const F& f, const Xs&... xs) {
  static_assert(correct<operands_are_not_in_a_graph<Xs...>>,
                "checkpointed: takes nodes after the function: checkpointed([&](auto x) { return block(x); }, x)");
  if constexpr (correct<operands_are_not_in_a_graph<Xs...>>) {
    using mistake = forward_is_not_an_expression<F, decltype(let(xs))...>;
    static_assert(correct<mistake>, "checkpointed: the function must take the operands and return one expression");
    if constexpr (correct<mistake>)
      return [&](const auto&... x) {
        const auto y = let(f(x...));
        detail::use_primitives<value_t<decltype(y)>>(*y.erased().builder());
        return detail::node_of<std::remove_const_t<decltype(y)>>(
            detail::record_checkpointed(y.erased(), {x.erased()...}));
      }(let(xs)...);
    else
      return std::get<0>(std::tuple{let(xs)...});
  } else {
    return detail::after_mistake<float, dims<>>(xs...);
  }
}

}  // namespace weft
