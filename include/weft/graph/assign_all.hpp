// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/graph/effects.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/graph/variables.hpp>
#include <weft/ops/state.hpp>

/// Copies the variables of one network to another.
WEFT_COLD_BEGIN
namespace weft {

/// Options of `assign_all`.
struct assign_all_options {
  /// target += rate * (from - target), in [0, 1]. A rate below 1 is a soft update (Polyak averaging; tau in DDPG).
  double rate = 1;
};

/// Assigns each variable of `from` to the variable of `target` that has the same name below the scope
/// ("online/hidden/w" to "target/hidden/w"), in one step: the update of a target network, or PyTorch's load_state_dict.
/// It copies the values from before the step. Throws invalid_argument if a variable of one list has no counterpart in
/// the other, if element types or extents differ, or if a variable is in both lists.
[[nodiscard]] effect assign_all(const variable_list& target, const variable_list& from);
/// The same with a rate. Integers and bools are copied. A rate below 1 throws unimplemented for half and bfloat16.
template <class = void>
[[nodiscard]] effect assign_all(const variable_list& target, const variable_list& from, assign_all_options how);
template <class... X>
auto assign_all(const X&...) WEFT_DELETED;  // takes two lists: variables_in(g, "target"), variables_in(g, "online")

namespace detail {

struct assigned_pair {
  symbol to, from;
};
/// Pairs the variables by their names below the scopes.
sequence<assigned_pair> pairs_of(const variable_list& target, const variable_list& from);
effect record_assignments(const sequence<assigned_pair>&);

#if WEFT_DEFINITIONS

WEFT_DECL sequence<assigned_pair> pairs_of(const variable_list& target, const variable_list& from) {
  const char* const who = "assign_all";
  const auto name = [&](const symbol& v) -> const std::string& { return graph_of(v)[v.id().node].name; };
  const auto below = [&](const variable_list& list, const symbol& v) {
    const std::string_view scope = list.scope();
    const std::size_t length = scope.size() - (!scope.empty() && scope.back() == '/');
    const std::string_view whole = name(v);
    return length == 0 ? whole : whole.size() > length ? whole.substr(length + 1) : std::string_view();
  };
  const auto find = [&](const variable_list& list, std::string_view wanted) -> const symbol* {
    for (const symbol& v : list.erased())
      if (below(list, v) == wanted) return &v;
    return nullptr;
  };
  const auto scope = [](const variable_list& list) {
    return list.scope().empty() ? std::string("the graph") : str_cat({"the scope ", list.scope()});
  };
  if (target.size() == 0 || from.size() == 0)
    throw error(error_code::invalid_argument, who, "a list of variables is empty: variables_in(g, scope) makes one");
  for (const symbol& v : target.erased()) {
    check_same_graph(who, v.builder(), from.erased()[0]);
    if (!find(from, below(target, v)))
      throw error(error_code::invalid_argument, who,
                  {"the variable ", name(v), " has no counterpart of the same name in ", scope(from)});
  }
  sequence<assigned_pair> pairs;
  for (const symbol& v : from.erased()) {
    const symbol* const to = find(target, below(from, v));
    if (!to)
      throw error(error_code::invalid_argument, who,
                  {"the variable ", name(v), " has no counterpart of the same name in ", scope(target)});
    if (to->id() == v.id())
      throw error(error_code::invalid_argument, who, {"the variable ", name(v), " is on both sides"});
    if (!(to->info() == v.info()))
      throw error(
          error_code::invalid_argument, who,
          {"the variable ", name(*to), " is ", weft::name(to->type()), " ", graph_of(*to).to_string(to->extents()),
           ", but ", name(v), " is ", weft::name(v.type()), " ", graph_of(v).to_string(v.extents())});
    pairs.push_back({*to, v});
  }
  return pairs;
}

WEFT_DECL effect record_assignments(const sequence<assigned_pair>& pairs) {
  graph& g = graph_of(pairs[0].to);
  sequence<symbol> members;
  for (const assigned_pair& each : pairs)
    members.push_back(record_call(operation_of<assign_op>, {each.to, each.from}, each.to.info()));
  return record_group(g, members, "assign_all");
}

#endif

/// target + rate * (from - target) as one kernel. The nodes of the formula are typed as scalars, because the kernel
/// takes its extents from `target`.
template <class T, class Compiler = gpu::this_compiler>
symbol record_interpolation(symbol target, symbol from, double rate) {
  const node<T> a(target), b(from);
  const auto formula = a + (b - a) * static_cast<T>(rate);
  using skeleton = skeleton_of<std::remove_const_t<decltype(formula)>>;
  gpu::compiled<Compiler>::template map<skeleton>();
  graph_leaves leaves;
  add_leaves(formula, leaves);
  return record_fused(leaves, operation_of<elementwise_op>, &differentiated<skeleton>, dtype_of<T>, target.extents(),
                      {});
}

}  // namespace detail

#if WEFT_DEFINITIONS

WEFT_DECL effect assign_all(const variable_list& target, const variable_list& from) {
  return detail::record_assignments(detail::pairs_of(target, from));
}

#endif

template <class>
effect assign_all(const variable_list& target, const variable_list& from, assign_all_options how) {
  if (!(how.rate >= 0 && how.rate <= 1))
    throw error(error_code::invalid_argument, "assign_all", "the rate must be in [0, 1]");
  auto pairs = detail::pairs_of(target, from);
  for (detail::assigned_pair& each : pairs) {
    if (how.rate == 1 || !is_floating(each.to.type())) continue;
    if (each.to.type() != dtype::float32 && each.to.type() != dtype::float64)
      throw error(error_code::unimplemented, "assign_all",
                  {"a rate below 1 needs variables of float or double, not ", name(each.to.type())});
    each.from = each.to.type() == dtype::float32 ? detail::record_interpolation<float>(each.to, each.from, how.rate)
                                                 : detail::record_interpolation<double>(each.to, each.from, how.rate);
  }
  return detail::record_assignments(pairs);
}

}  // namespace weft
WEFT_COLD_END
