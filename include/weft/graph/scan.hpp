// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <utility>

#include <weft/graph/loop.hpp>

/// A loop over the rows of arrays. Included by <weft/control_flow.hpp>.
namespace weft {

/// Options of `scan`.
struct scan_options {
  bool reverse = false;  ///< runs from the last row to the first; stacked results keep the order of the rows
};

/// A value whose rows the iterations read: `rows(x)`.
template <Expression X>
struct scanned_rows {
  X value;
};
/// Marks an operand of scan, `[T, ...]`, of which iteration t receives row t, `[...]`.
template <Expression X>
[[nodiscard]] auto rows(const X& x) {
  return scanned_rows<X>{x};
}

/// scan requires at least one operand `rows(x)`, which determines the number of iterations.
template <class... Operands>
struct scan_has_no_rows : mistake<true> {};

namespace detail {
constexpr bool same_count_of_rows(const shape& a, const shape& b) { return a.rank == 0 || b.rank == 0 || a[0] == b[0]; }
}  // namespace detail

/// Operands that are scanned together must have the same number of rows.
template <class A, class B>
struct scanned_extents_differ : mistake<!detail::same_count_of_rows(A::spec, B::spec)> {};

WEFT_COLD_BEGIN
namespace detail {

template <class X>
struct loop_operand<scanned_rows<X>> {
  using expression = X;
  static constexpr loop_role role = loop_role::rows;
};

template <class Rows, class Indices>
struct row_dims_at;
template <class Rows, std::size_t... Index>
struct row_dims_at<Rows, indices<Index...>> {
  using type = dims<extent_at<Rows, Index + 1>::value...>;
};
template <class Rows>
using row_dims = typename row_dims_at<Rows, typename make_indices<Rows::rank - 1>::type>::type;

/// The stacked results of all iterations: [T, ...] for results [...], where T is the number of scanned rows.
template <class Rows, class Row>
struct stacked_dims_of;
template <class Rows, auto... Extents>
struct stacked_dims_of<Rows, dims<Extents...>> {
  using type = dims<extent_at<Rows, 0>::value, Extents...>;
};
template <class Rows, class Row>
using stacked_dims = typename stacked_dims_of<Rows, typename Row::dims_type>::type;

template <bool Symbolic, class X, bool IsRows>
struct scan_parameter_of {
  using type = parameter<Symbolic, X>;
};
template <class X>
struct scan_parameter_of<true, X, true> {
  using type = node<value_t<X>, row_dims<typename dims_t<X>::dims_type>, device_t<X>>;
};
template <class X>
struct scan_parameter_of<false, X, true> {
  using type = tensor<value_t<X>, row_dims<typename dims_t<X>::dims_type>, device_t<X>>;
};
template <bool Symbolic, class X>
using scan_parameter = typename scan_parameter_of<Symbolic, operand_expression<X>, is_rows<X>>::type;

/// The dims of the first scanned operand.
template <class X, class... More>
constexpr auto first_scanned() {
  if constexpr (is_rows<X>)
    return std::type_identity<typename dims_t<operand_expression<X>>::dims_type>{};
  else
    return first_scanned<More...>();
}
template <class... X>
using scanned_dims = typename decltype(first_scanned<X...>())::type;

/// Applies `f` to `Count` elements of a tuple, starting at `Begin`.
template <std::size_t Begin, std::size_t Count, class Tuple, class F>
auto part_of(const Tuple& t, const F& f) {
  return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    return std::tuple{f(std::get<Begin + Index>(t), Index)...};
  }(std::make_index_sequence<Count>());
}

// ---- mistakes ----

template <class Carries, class Results, class Indices>
struct leading_results;
template <class... C, class Results, std::size_t... Index>
struct leading_results<std::tuple<C...>, Results, std::index_sequence<Index...>> {
  using mistake = loop_variables_change<std::tuple<typename typed_as<C>::type...>,
                                        std::tuple<typename typed_as<std::tuple_element_t<Index, Results>>::type...>>;
};

template <class Rows, class Carries, class... R>
constexpr auto find_result_mistake(std::tuple<R...> (*)()) {
  constexpr std::size_t carries = std::tuple_size_v<Carries>;
  constexpr std::size_t compared = sizeof...(R) < carries ? sizeof...(R) : carries;
  using variables = typename leading_results<Carries, std::tuple<R...>, std::make_index_sequence<compared>>::mistake;
  if constexpr (!correct<variables>)
    return variables{};
  else
    return first_mistake<extents_are_not_valid<stacked_dims<Rows, dims_t<R>>>...>{};
}

template <class Body, class... X>
constexpr auto find_body_of_scan_mistake() {
  constexpr bool symbolic = (operand_expression<X>::symbolic || ...);
  if constexpr (!is_subgraph_of<Body, scan_parameter<symbolic, X>...>) {
    return subgraph_takes_other_parameters<scan_parameter<symbolic, X>...>{};
  } else {
    using result = result_of_subgraph<Body, scan_parameter<symbolic, X>...>;
    if constexpr (!correct<result_mistake<symbolic, result>>)
      return result_mistake<symbolic, result>{};
    else
      return find_result_mistake<scanned_dims<X...>, carries_of<X...>>(
          static_cast<typename as_tuple_of_results<result>::type (*)()>(nullptr));
  }
}
template <class X>
constexpr bool is_scan_operand() {
  return Expression<operand_expression<X>>;
}
template <class Rows, class X>
constexpr auto find_rows_mistake() {
  if constexpr (is_rows<X>)
    return first_mistake<scalar_has_no_rows<dims_t<operand_expression<X>>>,
                         scanned_extents_differ<Rows, dims_t<operand_expression<X>>>>{};
  else
    return scalar_has_no_rows<dims<1>>{};
}
template <class Body, class... X>
constexpr auto find_scan_mistake() {
  if constexpr (!(is_scan_operand<X>() && ...)) {
    return operands_are_not_expressions<X...>{};
  } else if constexpr (!(is_rows<X> || ...)) {
    return scan_has_no_rows<X...>{};
  } else {
    using mistake = first_mistake<decltype(find_rows_mistake<scanned_dims<X...>, X>())...>;
    if constexpr (!correct<mistake>)
      return mistake{};
    else
      return find_body_of_scan_mistake<Body, X...>();
  }
}

// ---- in a graph ----

/// Records a scan in symbols: first the parameters of the body, then the results that the body returned, then the loop.
class scan_recorder {
 public:
  struct operand {
    symbol value;
    loop_role role;
  };

  /// Takes operands in any order. At least one of them must be rows.
  scan_recorder(graph& where, const sequence<operand>& operands) : where_(where), body_(where, "body") {
    for (const operand& x : operands) {
      const value_info& info = x.value.info();
      parameters_.push_back(x.role == loop_role::invariant
                                ? x.value
                                : make_parameter(body_.made(), x.role == loop_role::rows ? row_of(info) : info));
    }
    for (const loop_role wanted : {loop_role::carry, loop_role::rows})
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].role != wanted) continue;
        if (wanted == loop_role::rows && rows_++ == 0) count_ = operands[i].value.extents()[0];
        carries_ += wanted == loop_role::carry;
        loop_.inputs.push_back(operands[i].value.id());
        body_.made().parameters.push_back(parameters_[i].id());
      }
    body_.begin();
  }

  /// The body's parameter for operand i.
  const symbol& parameter(std::size_t i) const { return parameters_[i]; }
  /// The body's parameter for the next operand.
  const symbol& next_parameter() { return parameters_[taken_++]; }
  /// Receives the results: the carries in order, followed by the values to stack.
  subgraph_recorder& body() { return body_; }

  void record(bool reverse) {
    const subgraph& made = body_.made();
    for (std::size_t r = 0; r < made.results.size(); ++r)
      loop_.outputs.push_back(r < carries_ ? where_.info(loop_.inputs[r])
                                           : rows_of(count_, made.nodes.info(made.results[r])));
    loop_.subgraphs = {body_.number()};
    const std::size_t stacked = made.results.size() - carries_;
    result_ = record_loop(where_, static_cast<node_def&&>(loop_),
                          {count_, carries_, rows_, stacked, false, false, false, reverse, 0});
  }
  /// The last value of carry j.
  symbol last(std::size_t j) const { return result_.output(static_cast<std::uint32_t>(j)); }
  /// Stacked result r.
  symbol stacked(std::size_t r) const {
    const loop_signature s(where_[result_.id().node].def);
    return result_.output(static_cast<std::uint32_t>(s.row_out(r)));
  }

 private:
  graph& where_;
  subgraph_recorder body_;
  node_def loop_;
  sequence<symbol> parameters_;
  std::int64_t count_ = 0;
  std::size_t carries_ = 0, rows_ = 0, taken_ = 0;
  symbol result_;
};

template <class Body, class... X, class... Operands>
auto record_scan(const Body& body, const scan_options& o, std::tuple<X...> (*)(), const Operands&... operands) {
  using rows_dims = scanned_dims<X...>;
  compile_loop_kernels<Operands...>();
  graph& where = graph_around(operands...);
  constexpr std::size_t carries = (std::size_t{is_carry<X>} + ... + 0);
  scan_recorder made(where, {scan_recorder::operand{enter(where, operands).erased(), role_of<X>}...});
  const std::tuple<scan_parameter<true, X>...> parameters{scan_parameter<true, X>(made.next_parameter())...};
  const auto results = made.body().record_results(std::apply(body, parameters));
  made.record(o.reverse);
  const auto tuple = as_tuple(results);
  const auto last = part_of<0, carries>(tuple, [&]<class R>(const R&, std::size_t j) {
    return make_node<value_t<R>, dims_t<R>, device_t<R>>(made.last(j));
  });
  const auto all =
      part_of<carries, std::tuple_size_v<decltype(tuple)> - carries>(tuple, [&]<class R>(const R&, std::size_t r) {
        return make_node<value_t<R>, stacked_dims<rows_dims, dims_t<R>>, device_t<R>>(made.stacked(r));
      });
  return one_or_tuple(std::tuple_cat(last, all));
}

// ---- over tensors ----

inline shape stacked_extents(std::int64_t count, const shape& row) {
  shape to(count);
  for (std::size_t i = 0; i < row.rank; ++i) to.push_back(row[i] < 0 ? 0 : row[i]);  // unknown if no iteration ran
  return to;
}

template <class X, class T>
auto row_at(const T& all, std::int64_t row) {
  shape extents;
  for (std::size_t i = 1; i < all.extents().rank; ++i) extents.push_back(all.extents()[i]);
  scan_parameter<false, X> to(extents);
  const std::size_t elements = extents.elements();
  if (elements > 0)
    __builtin_memcpy(to.data(), all.data() + static_cast<std::size_t>(row) * elements, elements * sizeof(value_t<T>));
  return to;
}

template <class X, class T>
std::int64_t count_of_rows(const T& all) {
  if constexpr (is_rows<X>)
    return all.extents()[0];
  else
    return -1;
}

template <class Body, class... X, std::size_t... Index>
auto run_scan(const Body& body, const scan_options& o, std::tuple<X...> (*)(), std::index_sequence<Index...>,
              std::tuple<parameter<false, operand_expression<X>>...> now) {
  using rows_dims = scanned_dims<X...>;
  constexpr std::size_t carries = (std::size_t{is_carry<X>} + ... + 0);
  using results = typename as_tuple_of_results<
      typename typed_as<result_of_subgraph<Body, scan_parameter<false, X>...>>::type>::type;
  constexpr std::size_t stacked = std::tuple_size_v<results> - carries;
  std::int64_t count = -1;
  for (const std::int64_t n : {count_of_rows<X>(std::get<Index>(now))...}) {
    if (n >= 0 && count >= 0 && n != count)
      throw error(error_code::invalid_argument, "scan",
                  {"the operands must have equal numbers of rows, but have ", count, " and ", n});
    if (n >= 0) count = n;
  }
  auto all = [&]<std::size_t... R>(std::index_sequence<R...>) {
    return std::tuple{tensor<value_t<std::tuple_element_t<carries + R, results>>,
                             stacked_dims<rows_dims, dims_t<std::tuple_element_t<carries + R, results>>>>(
        stacked_extents(count, dims_t<std::tuple_element_t<carries + R, results>>::spec))...};
  }(std::make_index_sequence<stacked>());
  const auto keep = [&](std::int64_t n, std::int64_t row, const auto& next) {
    const auto one = [&]<std::size_t At>(std::integral_constant<std::size_t, At>) {
      const auto& from = std::get<carries + At>(next);
      auto& to = std::get<At>(all);
      if (n == 0) to = std::remove_cvref_t<decltype(to)>(stacked_extents(count, from.extents()));
      const std::size_t elements = from.elements();
      if (elements > 0)
        __builtin_memcpy(to.data() + static_cast<std::size_t>(row) * elements, from.data(),
                         elements * sizeof(value_t<std::remove_cvref_t<decltype(from)>>));
    };
    [&]<std::size_t... At>(std::index_sequence<At...>) {
      (one(std::integral_constant<std::size_t, At>()), ...);
    }(std::make_index_sequence<stacked>());
  };
  const auto next_row = [&](std::int64_t n, const auto&) { return n == count ? -1 : o.reverse ? count - 1 - n : n; };
  const auto last = run_loop<X...>(body, now, next_row, keep);  // before `all` is read
  return one_or_tuple(std::tuple_cat(last, all));
}

}  // namespace detail

/// The mistake in a call of scan, if any.
template <class Body, class... X>
using scan_mistake = decltype(detail::find_scan_mistake<Body, X...>());

namespace detail {

template <class Body, class... X>
auto call_scan(const Body& body, const scan_options& options, const X&... operands) {
  if constexpr (!correct<scan_mistake<Body, X...>>) {
    // scan usually has two results.
    return std::tuple{after_mistake<float, dims<>>(operands...), after_mistake<float, dims<>>(operands...)};
  } else {
    using operand_types = std::tuple<X...> (*)();
    if constexpr ((operand_expression<X>::symbolic || ...))
      return record_scan(body, options, operand_types(), materialize(operand_value(operands))...);
    else
      return run_scan(body, options, operand_types(), std::index_sequence_for<X...>(),
                      std::tuple{materialize(operand_value(operands))...});
  }
}

}  // namespace detail

/// Calls a body once for each row of arrays, in order, and passes it the result for the previous row (jax.lax.scan,
/// tf.scan):
///
///     auto [last, all] = scan([](auto h, auto x, auto w) {
///                               auto next = let(tanh(x + matmul(h, w)));
///                               return std::tuple{next, next};
///                             }, h0, rows(xs), invariant(w));
///
/// The body receives `rows(xs)`, [T, ...], row by row, [...]. Operands that are neither rows nor `invariant(w)` are
/// carries: the body receives the operand first and then the value that it returned in its place, which must have the
/// same elements and extents. The body returns the carries in order, followed by values to stack. scan returns the last
/// carries and the stacked values, [T, ...] each. T is a number or a name, and must be the same for all rows.
/// `{.reverse = true}` runs from the last row to the first.
///
/// The body is called once, when the graph is built, and recorded as a subgraph; see cond for restrictions. Time and
/// memory are linear in T, also for gradients. Gradients of any order pass to all operands. They keep the carries of
/// every iteration, [T, ...], and recompute all other values. Over tensors, scan runs at once.
template <class Body, class... X>
[[nodiscard]] auto scan(const Body& body, const scan_options& options, const X&... operands) {
  static_assert(
      correct<scan_mistake<Body, X...>>,
      "scan: needs a body that returns the carried values and then the values to stack, and rows(x) to iterate over");
  return detail::call_scan(body, options, operands...);
}

/// The same without options: from the first row to the last.
template <class Body, class First, class... X>
  requires(!std::is_same_v<First, scan_options>)
[[nodiscard]] auto scan(const Body& body, const First& first, const X&... operands) {
  static_assert(
      correct<scan_mistake<Body, First, X...>>,
      "scan: needs a body that returns the carried values and then the values to stack, and rows(x) to iterate over");
  return detail::call_scan(body, scan_options(), first, operands...);
}

template <class...>
auto scan(...) WEFT_DELETED;  // scan(body, {.reverse = true}, h0, rows(xs))

/// map has no carries: all of its operands are rows. scan carries a value from row to row.
template <class... Operands>
struct operands_are_not_rows : mistake<!(detail::is_rows<Operands> && ...)> {};

/// Calls a body with each row of arrays, and stacks the results, [T, ...] (tf.map_fn, jax.lax.map):
///
///     auto y = map([&](auto x) { return solve(a, x); }, rows(xs));
///
/// A scan without carries; see scan.
template <class Body, class... X>
  requires(!Expression<Body> && sizeof...(X) > 0)
[[nodiscard]] auto map(const Body& body, const X&... operands) {
  using mistake = first_mistake<operands_are_not_rows<X...>, scan_mistake<Body, X...>>;
  static_assert(correct<mistake>, "map: needs a body that returns a value for each row: map(body, rows(x))");
  return detail::call_scan(body, scan_options(), operands...);
}

/// fold returns the carries, and stacks nothing: its body returns as many values as there are carries. scan stacks.
template <std::size_t Results, std::size_t Carries>
struct fold_stacks_results : mistake<Results != Carries> {};

namespace detail {

template <class Body, class... X>
constexpr auto find_fold_mistake() {
  if constexpr (!correct<scan_mistake<Body, X...>>) {
    return scan_mistake<Body, X...>{};
  } else {
    constexpr bool symbolic = (operand_expression<X>::symbolic || ...);
    using results = typename as_tuple_of_results<result_of_subgraph<Body, scan_parameter<symbolic, X>...>>::type;
    return fold_stacks_results<std::tuple_size_v<results>, (is_carry<X> + ... + 0)>{};
  }
}

}  // namespace detail

/// The mistake in a call of fold, if any.
template <class Body, class... X>
using fold_mistake = decltype(detail::find_fold_mistake<Body, X...>());

/// Combines the rows of arrays with a value, from the first to the last (tf.foldl; with `{.reverse = true}` tf.foldr):
///
///     auto sum = fold([](auto sum, auto x) { return sum + x; }, zero, rows(xs));
///
/// A scan that returns the last carries and stacks nothing; see scan.
template <class Body, class... X>
  requires(!Expression<Body> && sizeof...(X) > 0)
[[nodiscard]] auto fold(const Body& body, const scan_options& options, const X&... operands) {
  static_assert(correct<fold_mistake<Body, X...>>,
                "fold: the body returns the next carries and nothing else: fold(body, start, rows(x))");
  return detail::call_scan(body, options, operands...);
}
/// The same without options: from the first row to the last.
template <class Body, class First, class... X>
  requires(!Expression<Body> && !std::is_same_v<First, scan_options> && sizeof...(X) > 0)
[[nodiscard]] auto fold(const Body& body, const First& first, const X&... operands) {
  static_assert(correct<fold_mistake<Body, First, X...>>,
                "fold: the body returns the next carries and nothing else: fold(body, start, rows(x))");
  return detail::call_scan(body, scan_options(), first, operands...);
}

WEFT_COLD_END
}  // namespace weft
