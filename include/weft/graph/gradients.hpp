#pragma once

#include <tuple>

#include <weft/graph/graph.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/enter.hpp>

namespace weft {

/// Reverse mode: walks the nodes between xs and ys backwards and lets each write its gradient in symbols.
inline std::vector<symbol> graph::differentiate(const std::vector<symbol>& ys, const std::vector<symbol>& upstream,
                                                const std::vector<symbol>& xs, bool partial) {
  const auto count = static_cast<std::uint32_t>(nodes_.size());
  std::vector<char> depends(count, 0), is_end(count, 0);
  std::uint32_t first = count, last = 0;
  for (const symbol& x : xs) {
    depends[x.id().node] = 1;
    is_end[x.id().node] = partial;
    if (x.id().node < first) first = x.id().node;
  }
  for (const symbol& y : ys)
    if (y.id().node > last) last = y.id().node;
  for (std::uint32_t n = first; n < count; ++n)
    for (const value& in : nodes_[n].what.inputs)
      if (depends[in.node] && is_floating(info(in).type)) depends[n] = 1;

  constexpr std::size_t max_inputs = 64;
  std::vector<std::vector<symbol>> arriving(count);  // per node and output
  const auto arrive = [&](value at, symbol g) {
    auto& outputs = arriving[at.node];
    outputs.resize(nodes_[at.node].what.outputs.size());
    outputs[at.output] = outputs[at.output].is_number() ? g : outputs[at.output] + g;
  };
  for (std::size_t i = 0; i < ys.size(); ++i)
    if (depends[ys[i].id().node]) arrive(ys[i].id(), upstream[i]);

  for (std::uint32_t n = last + 1; n-- > first && !ys.empty();) {
    if (arriving[n].empty() || !depends[n] || is_end[n]) continue;
    const invocation what = nodes_[n].what;  // a copy: recording moves the nodes
    std::vector<symbol> inputs, outputs, results(what.inputs.size());
    bool wanted[max_inputs], any = false;
    if (what.inputs.size() > max_inputs)
      throw error(error_code::internal, nodes_[n].name, "more inputs than a gradient handles");
    for (std::size_t i = 0; i < what.inputs.size(); ++i) {
      const value in = what.inputs[i];
      inputs.push_back({this, in});
      wanted[i] = depends[in.node] && is_floating(info(in).type);
      any = any || wanted[i];
    }
    if (!any) continue;
    for (std::uint32_t o = 0; o < what.outputs.size(); ++o) outputs.push_back({this, {n, o}});
    if (!what.op->gradient)
      throw error(error_code::unimplemented, nodes_[n].name, std::string(what.op->name) + " has no gradient");
    gradient_context context(what, inputs.data(), outputs.data(), arriving[n].data(), wanted, results.data());
    what.op->gradient(context);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (wanted[i] && !results[i].is_number()) arrive(what.inputs[i], results[i]);
  }

  std::vector<symbol> results;
  for (const symbol& x : xs) {
    const auto& outputs = arriving[x.id().node];
    results.push_back(outputs.empty() ? symbol() : outputs[x.id().output]);
  }
  return results;
}

/// Gradients exist of float and double values with respect to float and double values.
template <class T>
struct gradient_of_non_floating : mistake<!is_differentiable<T>> {};

namespace detail {

inline std::vector<symbol> gradients(symbol y, const std::vector<symbol>& xs) {
  const std::vector<symbol> of{y};
  const symbol one = y.extents().rank == 0 ? as_scalar(*y.where(), 1, y.type()) : record_fill(*y.where(), 1, y.info());
  auto results = y.where()->differentiate(of, {one}, xs, false);
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (results[i].is_number()) results[i] = record_fill(*y.where(), 0, xs[i].info());
  return results;
}

template <class T, class X>
void use_primitives(const X& x) {
  if constexpr (is_differentiable<T>) static_cast<graph*>(x.erased().where())->use(primitives<T>);
}

}  // namespace detail

/// The gradients of y, summed over its elements, with respect to each x: a tuple of nodes of the xs' types (tf.gradients). Zeros
/// where x has no influence on y. Gradients of gradients are gradients again.
template <Expression Y, Expression... Xs>
  requires(Y::symbolic && (is_node<Xs> && ...))
[[nodiscard]] auto gradients(const Y& y, const Xs&... xs) {
  static_assert(correct<gradient_of_non_floating<value_t<Y>>>, "gradients: y is neither float nor double");
  static_assert((correct<gradient_of_non_floating<value_t<Xs>>> && ...), "gradients: an x is neither float nor double");
  if constexpr (is_differentiable<value_t<Y>> && (is_differentiable<value_t<Xs>> && ...)) {
    const auto root = let(y);
    detail::use_primitives<value_t<Y>>(root);
    (detail::use_primitives<value_t<Xs>>(root), ...);
    const auto results = detail::gradients(root.erased(), {xs.erased()...});
    auto next = [&, i = std::size_t{0}]() mutable { return results[i++]; };
    return std::tuple{node<value_t<Xs>, dims_t<Xs>, device_t<Xs>>(next())...};
  } else {
    return std::tuple{node<value_t<Xs>, dims_t<Xs>, device_t<Xs>>(xs.erased())...};
  }
}

}  // namespace weft
