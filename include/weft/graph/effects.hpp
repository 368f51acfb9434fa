// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <string>

#include <weft/graph/graph.hpp>
#include <weft/ops/node.hpp>

/// Declares what runs in addition to the fetched values: groups of effects, control dependencies, and updates that run
/// with training.
WEFT_COLD_BEGIN
namespace weft {

/// Anything that a step can run: a node, an expression over nodes or an effect.
template <class X>
concept Runnable = requires(const X& x) {
  { x.erased() } -> std::convertible_to<symbol>;
};

/// Returns one effect that runs all given effects and nodes (tf.group). Throws invalid_argument if they belong to
/// different graphs.
template <Runnable First, Runnable... More>
[[nodiscard]] effect group(const First& first, const More&... more);

/// During its lifetime, nodes added to the graph depend on the given effects and nodes: no step runs the new nodes
/// without them, and they run first (tf.control_dependencies). Scopes nest and accumulate:
///
///     const control_dependencies after(g, update_mean, update_variance);
///     auto train = gradient_descent{.learning_rate = 0.1f}.minimize(loss);
///
/// The dependencies do not change which values are read: all nodes of a step read the variables' values from before the
/// step.
class control_dependencies {
 public:
  template <Runnable... X>
  explicit control_dependencies(graph& g, const X&... before);
  template <class = void>
  explicit control_dependencies(...) = delete;  // (graph, train, update): effects and nodes, let(x + 1), one by one
  ~control_dependencies() { graph_.leave_control(outer_); }
  control_dependencies(const control_dependencies&) = delete;
  control_dependencies& operator=(const control_dependencies&) = delete;

 private:
  graph& graph_;
  std::size_t outer_;
};

/// Registers an update, such as an assignment to moving averages. Training a loss then also runs the update if the loss
/// and the update share a computed value (tf.GraphKeys.UPDATE_OPS, but without having to run the updates explicitly):
///
///     add_update(assign(mean, 0.9f * mean + 0.1f * batch_mean));
///
/// Affects only trainings that are recorded after this call.
template <Runnable X>
void add_update(const X& update);
template <class = void>
auto add_update(...) WEFT_DELETED;  // an effect or a node: add_update(assign(mean, x)), add_update(let(x + 1))

/// Only effects and nodes can run. let() turns an expression into a node.
template <class... X>
struct run_value_is_not_a_node : mistake<true> {};

template <class... X>
  requires(!(Runnable<X> && ...))
effect group(const X&...) {
  static_assert(correct<run_value_is_not_a_node<X...>>, "group: takes effects and nodes: group(train, let(x + 1))");
  return effect(symbol());
}
template <class X = effect>
effect group(std::initializer_list<X>) {
  static_assert(correct<run_value_is_not_a_node<std::initializer_list<X>>>,
                "group: takes effects and nodes, one by one: group(train, update)");
  return effect(symbol());
}

namespace detail {

effect record_group(graph& g, const sequence<symbol>& members, const std::string& name);
/// Returns the registered updates that share a computed value with the loss.
sequence<symbol> updates_beside(graph& g, symbol loss);

#if WEFT_DEFINITIONS

WEFT_DECL effect record_group(graph& g, const sequence<symbol>& members, const std::string& name) {
  node_def c;
  c.op = &operation_of<group_op>;
  c.outputs = {{dtype::boolean, shape(0)}};
  const std::uint32_t node = g.add(static_cast<node_def&&>(c), name);
  for (const symbol& m : members) {
    check_same_graph("group", &g, m);
    g.add_control(node, m.id().node);
  }
  return effect(symbol(&g, {node, 0}));
}

WEFT_DECL sequence<symbol> updates_beside(graph& g, symbol loss) {
  sequence<symbol> taken;
  if (g.updates().empty()) return taken;
  // Considers only computed values, because two models can share a variable or a placeholder.
  const auto computed_for = [&](std::uint32_t last) {
    sequence<char> reached(g.size(), 0);
    reached[last] = 1;
    for (std::uint32_t n = last + 1; n-- > 0;)
      if (reached[n])
        for (const value& in : g[n].def.inputs) reached[in.node] = !g[in.node].def.inputs.empty();
    return reached;
  };
  const sequence<char> of_loss = computed_for(loss.id().node);
  for (const std::uint32_t update : g.updates()) {
    const sequence<char> of_update = computed_for(update);
    for (std::uint32_t n = 0; n < update && n <= loss.id().node; ++n)
      if (of_update[n] && of_loss[n]) {
        taken.push_back({&g, {update, 0}});
        break;
      }
  }
  return taken;
}

#endif

}  // namespace detail

template <Runnable First, Runnable... More>
effect group(const First& first, const More&... more) {
  const symbol members[] = {first.erased(), more.erased()...};
  return detail::record_group(*static_cast<graph*>(members[0].builder()), {members, members + 1 + sizeof...(More)},
                              "group");
}

template <Runnable... X>
control_dependencies::control_dependencies(graph& g, const X&... before) : graph_(g.self()), outer_(g.control_depth()) {
  const auto enter = [&](symbol s) {
    detail::check_same_graph("control_dependencies", &g, s);
    g.enter_control(s.id().node);
  };
  (enter(before.erased()), ...);
}

template <Runnable X>
void add_update(const X& update) {
  const symbol s = update.erased();
  static_cast<graph*>(s.builder())->note_update(s.id().node);
}

}  // namespace weft
WEFT_COLD_END
