// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <type_traits>

#include <weft/train/optimizer.hpp>

/// Changes gradients between compute_gradients() and apply_gradients(), as symbols of any number of variables.
WEFT_COLD_BEGIN
namespace weft {

/// The argument must be the result of compute_gradients(), or one or a tuple of its parts.
template <class X>
struct changed_value_is_not_a_gradient
    : mistake<!correct<applied_value_is_not_a_gradient<X>> || is_step_counter<X> || std::is_same_v<X, std::tuple<>>> {};
template <class... X>
struct changed_value_is_not_a_gradient<std::tuple<X...>>
    : mistake<sizeof...(X) == 0 || (!correct<changed_value_is_not_a_gradient<X>> || ...)> {};

#define WEFT_NEEDS_OF_CHANGE(name)                                                                                    \
  name ": pass the result of compute_gradients(), or std::tuple{of_w, of_b}; each gradient must be an expression of " \
       "its variable's element type and extents"

namespace detail {

using symbol_gradients = sequence<variable_gradient<symbol, symbol>>;

/// The primitives that changes of gradients use.
template <class T>
inline constexpr primitive_set in_changes{
    primitive::add,     primitive::subtract,   primitive::multiply, primitive::divide, primitive::negate,
    primitive::less,    primitive::less_equal, primitive::select,   primitive::sqrt,   primitive::sign,
    primitive::maximum, primitive::minimum,    primitive::convert};
/// Converts a row's index to the gradient's type.
template <class T>
using row_number = skeleton::apply<formula::cast<T>, T, skeleton::argument<0, std::int64_t>>;

template <class T, class Compiler = gpu::this_compiler>
void use_changes(graph& g) {
  gpu::compiled<Compiler>::template primitives<T>();
  gpu::compiled<Compiler>::template map<row_number<T>>();
  g.use(primitives_in<T, in_changes<T>>);
}

template <class Gradient, class T, class D, class Dev>
void append_changed(const variable_gradient<Gradient, variable_node<T, D, Dev>>& pair, symbol_gradients& all) {
  use_changes<T>(graph_of(pair.variable.erased()));
  all.push_back({let(pair.gradient).erased(), pair.variable.erased(), pair.loss, pair.beside});
}
template <class... Pair>
void append_changed(const std::tuple<Pair...>& pairs, symbol_gradients& all) {
  std::apply([&](const auto&... pair) { (append_changed(pair, all), ...); }, pairs);
}
template <class T>
void append_changed(const variable_gradients<T>& list, symbol_gradients& all) {
  for (const auto& pair : list) {
    use_changes<T>(graph_of(pair.variable));
    all.push_back(pair);
  }
}
/// Throws invalid_argument unless all gradients belong to variables of one graph.
void check_changed(const char* who, const symbol_gradients&);
template <class Gradients>
symbol_gradients symbols_of(const char* who, const Gradients& gradients) {
  symbol_gradients all;
  append_changed(gradients, all);
  check_changed(who, all);
  return all;
}

// Returns the same types with the gradients replaced.
template <class Gradient, class V>
auto with_symbols(const variable_gradient<Gradient, V>& pair, const variable_gradient<symbol, symbol>*& next) {
  const variable_gradient<symbol, symbol>& one = *next++;
  return variable_gradient<decltype(node_of<V>(symbol())), V>{node_of<V>(one.gradient), pair.variable, one.loss,
                                                              one.beside};
}
template <class... Pair>
auto with_symbols(const std::tuple<Pair...>& pairs, const variable_gradient<symbol, symbol>*& next) {
  // Braces evaluate from left to right.
  return std::apply(
      [&](const auto&... pair) {
        return std::tuple<decltype(with_symbols(pair, next))...>{with_symbols(pair, next)...};
      },
      pairs);
}
template <class T>
variable_gradients<T> with_symbols(const variable_gradients<T>& list, const variable_gradient<symbol, symbol>*& next) {
  variable_gradients<T> changed;
  for (std::size_t i = 0; i < list.size(); ++i) changed.pairs.push_back(*next++);
  return changed;
}
template <class Gradients>
auto changed(const Gradients& gradients, const symbol_gradients& to) {
  const variable_gradient<symbol, symbol>* next = to.begin();
  return with_symbols(gradients, next);
}

/// Returns a number unchanged, and converts a scalar of the graph to `type`.
inline symbol in_type(const hyperparameter& h, dtype type) {
  return h.is_number() || type == dtype::float64 ? h.node() : math::convert(h.node(), type);
}

/// Replaces the rows of a sparse gradient, in find_rows' order, by those that begin at `next`. `as` describes the
/// variable.
inline symbol replace_rows(graph& g, symbol gradient, const symbol*& next, const value_info& as) {
  node_def c = g[gradient.id().node].def;
  if (c.op->row_sums) {
    c.inputs[0] = (next++)->id();
    c.outputs = {as};
    return g.record(static_cast<node_def&&>(c));
  }
  const symbol first = replace_rows(g, symbol(&g, c.inputs[0]), next, as);
  return first + replace_rows(g, symbol(&g, c.inputs[1]), next, as);
}

/// The parts of a gradient. A sparse gradient's parts are its lists of rows: each row's sum at the first occurrence of
/// its index, and zeros at the others. So the parts have the gradient's elements, except the rows that are not used,
/// which are zeros. A dense gradient is its only part.
struct gradient_parts {
  bool rows;
  sequence<symbol> all;
  std::uint32_t summed = graph_node::no_node;  // the node that sums rows with equal indices
};
inline gradient_parts parts_of(const variable_gradient<symbol, symbol>& pair) {
  graph& g = graph_of(pair.variable);
  const symbol gradient = pair.gradient;
  sequence<value> lists;
  const operation* sums = nullptr;
  if (!find_rows(g, gradient.id(), lists, sums)) return {false, {gradient}};
  const dtype type = gradient.type();
  node_def c;
  c.op = sums;
  c.inputs = {pair.variable.id()};  // only the extents are read
  c.inputs.append(lists.data(), lists.size());
  for (std::size_t k = 0; k < lists.size(); ++k)
    c.outputs.push_back(k % 2 == 0 ? g.info(lists[k]) : value_info{dtype::int64, g.info(lists[k]).extents});
  const symbol summed = g.record(static_cast<node_def&&>(c));
  gradient_parts parts{true, {}, summed.id().node};
  for (std::uint32_t k = 0; k < lists.size(); k += 2) {
    symbol number = summed.output(k + 1);
    number = record_part(type == dtype::float64 ? *part_alone<row_number<double>>() : *part_alone<row_number<float>>(),
                         &number, nullptr);
    const std::size_t axes = number.extents().rank, row_axes = g.info(lists[k]).extents.rank;
    if (row_axes > axes)  // one index for each row
      number = expand_dims(number, axis_set::of_bits((std::int64_t{1} << row_axes) - (std::int64_t{1} << axes)));
    parts.all.push_back(math::select(0 <= number, summed.output(k), 0));
  }
  return parts;
}
/// Assembles a gradient from its parts.
inline symbol whole_of(const variable_gradient<symbol, symbol>& pair, const gradient_parts& parts) {
  const symbol* next = parts.all.begin();
  return parts.rows ? replace_rows(graph_of(pair.variable), pair.gradient, next, pair.gradient.info()) : *next;
}

/// Returns the parts of a gradient: its rows if it is sparse and `by_rows` is set, else the whole gradient.
inline gradient_parts parts_of(const variable_gradient<symbol, symbol>& pair, bool by_rows) {
  return by_rows ? parts_of(pair) : gradient_parts{false, {pair.gradient}};
}
/// Returns true if any gradient is sparse or computed from rows.
inline bool are_by_rows(const symbol_gradients& all) {
  for (const auto& each : all) {
    sequence<value> lists;
    const operation* sums = nullptr;
    graph& g = graph_of(each.variable);
    if (find_rows(g, each.gradient.id(), lists, sums) || without_rows(each.gradient).id() != each.gradient.id())
      return true;
  }
  return false;
}
/// Changes gradients by `change(gradients, by_rows)`. A cluster changes the mean of sparse gradients, which is dense,
/// so both forms are recorded, and a step runs one of them.
template <class Change>
symbol_gradients change_all(const symbol_gradients& all, const Change& change) {
  const symbol_gradients changed = change(all, true);
  if (!are_by_rows(all)) return changed;
  symbol_gradients whole = all;
  for (auto& each : whole) each.gradient = without_rows(each.gradient);
  whole = change(whole, false);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (changed[i].gradient.id() != whole[i].gradient.id())
      graph_of(all[i].variable).note_whole(changed[i].gradient.id(), whole[i].gradient.id());
  return changed;
}

inline void check_changed(const char* who, const symbol_gradients& all) {
  for (const auto& each : all) {
    check_same_graph(who, all[0].variable.builder(), each.variable);
    const std::string& name = graph_of(each.variable)[each.variable.id().node].name;
    if (each.gradient.is_number())
      throw error(error_code::invalid_argument, who,
                  {"the gradient of ", name,
                   " must have the variable's extents, but is a number: use an expression of the gradient"});
    check_same_graph(who, all[0].variable.builder(), each.gradient);
    if (!(each.gradient.info() == each.variable.info()))
      throw error(error_code::invalid_argument, who,
                  {"the gradient of ", name, " is ", weft::name(each.gradient.type()), " of extents ",
                   to_string(each.gradient.extents()), ", but must match the variable, ",
                   weft::name(each.variable.type()), " of ", to_string(each.variable.extents())});
  }
  if (all.empty()) throw error(error_code::invalid_argument, who, "there are no gradients");
}

}  // namespace detail
}  // namespace weft
WEFT_COLD_END
