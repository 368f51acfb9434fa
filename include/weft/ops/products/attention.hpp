// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/range.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/cpu/attention.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/reduce/softmax.hpp>

/// Scaled dot-product attention in memory linear in the number of keys. Not part of <weft/weft.hpp>.
WEFT_COLD_BEGIN
namespace weft {

/// The options of attention.
struct attention_options {
  bool causal = false;      ///< query i attends to keys 0 to its position, which is i plus any query_position
  std::int64_t window = 0;  ///< if positive, a query attends only to keys after its position - window
  double scale = 0;         ///< multiplies the products of queries and keys; 0: 1 / sqrt(width)
  bool alibi = false;       ///< subtracts 2^(-8 (head + 1) / heads) times the distance of query and key (ALiBi)
};

/// The result of attention_mask.
template <Expression X>
struct attention_mask_argument {
  X value;
};
/// A mask of attention, which broadcasts to [batch, heads, queries, keys]: of bool, true where a query attends to a
/// key, or of the queries' type, which is added to the scores.
template <Expression X>
[[nodiscard]] auto attention_mask(const X& x) {
  return attention_mask_argument<X>{x};
}

/// The result of key_lengths.
template <Expression X>
struct key_lengths_argument {
  X value;
};
/// The number of valid keys of each example, [batch] of std::int32_t. Keys and values beyond can be NaN. A step throws
/// out_of_range if a length is negative or exceeds the number of keys.
template <Expression X>
[[nodiscard]] auto key_lengths(const X& x) {
  return key_lengths_argument<X>{x};
}

/// The result of query_position.
template <Expression X>
struct query_position_argument {
  X value;
};
/// The place of the first query among the keys, of std::int32_t: a scalar, or [batch]. It is 0 without this argument.
template <Expression X>
[[nodiscard]] auto query_position(const X& x) {
  return query_position_argument<X>{x};
}

namespace detail {

template <class A>
inline constexpr bool is_attention_mask = false;
template <class X>
inline constexpr bool is_attention_mask<attention_mask_argument<X>> = true;
template <class A>
inline constexpr bool is_key_lengths = false;
template <class X>
inline constexpr bool is_key_lengths<key_lengths_argument<X>> = true;
template <class A>
inline constexpr bool is_query_position = false;
template <class X>
inline constexpr bool is_query_position<query_position_argument<X>> = true;
template <class A>
concept AttentionOperand = is_attention_mask<A> || is_key_lengths<A> || is_query_position<A>;

}  // namespace detail

/// Returns softmax(scale * queries keys^T + mask) values, `[batch, heads, queries, value_width]`, of queries `[batch,
/// heads, queries, width]`, keys `[batch, kv_heads, keys, width]` and values `[batch, kv_heads, keys, value_width]`
/// (torch.nn.functional.scaled_dot_product_attention, jax.nn.dot_product_attention). Head h reads the keys of head h /
/// (heads / kv_heads), as torch does with enable_gqa. Scores are computed by tiles and not stored, and their gradients
/// compute them again. Further operands, in any order: `attention_mask(m)`, `key_lengths(n)` and `query_position(p)`.
/// If a query attends to no key, its result is 0, as are its gradients. Gradients of an added mask and gradients of
/// gradients store scores.
template <Expression Q, Expression K, Expression V, detail::AttentionOperand... A>
[[nodiscard]] auto attention(const Q& queries, const K& keys, const V& values, const attention_options& options = {},
                             const A&... operands);
/// Overload without options.
template <Expression Q, Expression K, Expression V, detail::AttentionOperand First, detail::AttentionOperand... A>
[[nodiscard]] auto attention(const Q& queries, const K& keys, const V& values, const First& first,
                             const A&... operands) {
  return attention(queries, keys, values, attention_options(), first, operands...);
}

namespace detail {

struct attention_attributes {
  attribute<bool> causal, alibi;
  attribute<std::int64_t> window;
  attribute<double> scale;
  attribute<bool> mask, lengths, positions;  // given

  attention_operands operands() const {
    attention_operands o{-1, -1, -1, 3};
    if (mask) o.mask = o.end++;
    if (lengths) o.lengths = o.end++;
    if (positions) o.positions = o.end++;
    return o;
  }
};

/// Returns the extents of a call. Throws invalid_argument if they do not fit.
inline device::attention_problem attention_problem_of(const prepare_context& p, const attention_attributes& a) {
  const attention_operands o = a.operands();
  const shape &q = p.inputs[0].extents, &k = p.inputs[1].extents, &v = p.inputs[2].extents;
  device::attention_problem s{q[0],
                              q[1],
                              k[1],
                              q[2],
                              k[2],
                              q[3],
                              v[3],
                              {},
                              a.window,
                              a.scale,
                              a.causal,
                              a.alibi,
                              o.positions >= 0 && p.inputs[o.positions].extents.rank == 1};
  if (k[0] != s.batch || v[0] != s.batch || v[1] != s.kv_heads || v[2] != s.keys || k[3] != s.width ||
      (s.kv_heads == 0 ? s.heads != 0 : s.heads % s.kv_heads != 0))
    throw error(error_code::invalid_argument, "attention",
                {"needs queries [batch, heads, queries, width], keys [batch, kv_heads, keys, width] and values [batch, "
                 "kv_heads, keys, value_width], not ",
                 to_string(q), ", ", to_string(k), " and ", to_string(v)});
  if (s.scale == 0) s.scale = 1 / __builtin_sqrt(static_cast<double>(s.width));
  if (o.mask < 0) return s;
  const shape& m = p.inputs[o.mask].extents;
  const std::int64_t whole[] = {s.batch, s.heads, s.queries, s.keys};
  std::int64_t step = 1;
  for (std::size_t i = m.rank; i-- > 0; step *= m[i]) {
    const std::size_t axis = 4 - m.rank + i;
    if (m[i] != 1 && m[i] != whole[axis])
      throw error(error_code::invalid_argument, "attention",
                  {"a mask ", to_string(m), " does not broadcast to the scores, [", s.batch, ", ", s.heads, ", ",
                   s.queries, ", ", s.keys, "]"});
    s.mask_steps[axis] = m[i] == 1 ? 0 : step;
  }
  return s;
}

/// An attention in symbols; operands that are not given are plain numbers.
struct attention_symbols {
  symbol queries, keys, mask, lengths, positions;
  attention_attributes options;
};

inline symbol record_and(const symbol& a, const symbol& b) {
  if (a.is_number()) return b;
  const shape &x = a.extents(), &y = b.extents();
  shape both = x.rank >= y.rank ? x : y;
  const shape& other = x.rank >= y.rank ? y : x;
  for (std::size_t i = 0; i < other.rank; ++i)
    if (std::int64_t& extent = both[both.rank - other.rank + i]; extent == 1) extent = other[i];
  return record_untyped(node<bool>(a) && node<bool>(b), both);
}

inline symbol record_indices(const symbol& like, std::int64_t count) {
  gpu::compile_kernels<range_op, std::int32_t>();
  return record_range<std::int32_t>(*like.builder(), {dtype::int32, shape(count)}, 0, 1);
}

/// Returns the place of each query among the keys, of int32.
inline symbol record_places(const attention_symbols& s) {
  const shape& q = s.queries.extents();
  const symbol rows = reshape(record_indices(s.queries, q[2]), shape(q[2], 1));
  if (s.positions.is_number()) return rows;
  using index = node<std::int32_t>;
  const bool differ = s.positions.extents().rank == 1;
  const shape first = differ ? shape(q[0], 1, 1, 1) : shape(1, 1),
              all = differ ? shape(q[0], 1, q[2], 1) : shape(q[2], 1);
  return record_untyped(index(rows) + index(reshape(s.positions, first)), all);
}

/// Returns the keys to which each query attends, of bool, or a plain number if each query attends to all keys.
inline symbol record_attended(const attention_symbols& s) {
  using index = node<std::int32_t>;
  const shape& k = s.keys.extents();
  const symbol columns = record_indices(s.keys, k[2]);
  symbol attended;
  const bool causal = s.options.causal;
  if (const std::int64_t window = s.options.window; causal || window > 0) {
    const symbol places = record_places(s);
    shape all = places.extents();
    all[all.rank - 1] = k[2];
    if (causal) attended = record_untyped(index(columns) <= index(places), all);
    if (window > 0)
      attended =
          record_and(attended, record_untyped(index(columns) > index(places) - static_cast<std::int32_t>(window), all));
  }
  if (!s.lengths.is_number())
    attended = record_and(attended, record_untyped(index(columns) < index(reshape(s.lengths, shape(k[0], 1, 1, 1))),
                                                   shape(k[0], 1, 1, k[2])));
  if (!s.mask.is_number() && s.mask.type() == dtype::boolean) attended = record_and(attended, s.mask);
  return attended;
}

/// Repeats keys or values for the heads that share them.
inline symbol repeat_heads(const symbol& x, std::int64_t heads) {
  const shape& e = x.extents();
  if (e[1] == heads) return x;
  const symbol each = broadcast_to(expand_dims(x, {2}), shape(e[0], e[1], heads / e[1], e[2], e[3]));
  return reshape(each, shape(e[0], heads, e[2], e[3]));
}
/// The gradient of repeat_heads.
inline symbol sum_heads(const symbol& x, const shape& e) {
  const std::int64_t heads = x.extents()[1];
  return e[1] == heads ? x : sum(reshape(x, shape(e[0], e[1], heads / e[1], e[2], e[3])), {2});
}

/// Returns an extent as a number, or as a symbol if it is only known at run time.
template <class T>
symbol extent_symbol(const symbol& x, std::size_t axis) {
  const std::int64_t n = x.extents()[axis];
  if (n >= 0) return symbol(static_cast<double>(n));
  return sum(fill(*x.builder(), {dtype_of<T>, shape(n)}, 1));
}

template <class T>
symbol attention_scale(const attention_symbols& s) {
  const double given = s.options.scale;
  if (given != 0) return given;
  const symbol width = extent_symbol<T>(s.queries, 3);
  if (width.is_number()) return 1 / __builtin_sqrt(width.number());
  return record_untyped(rsqrt(node<T>(width)), shape());
}

/// The score of masked keys: its exponential is 0, and its differences are finite.
template <class T>
constexpr T lowest_score() {
  return std::is_same_v<T, double> ? static_cast<T>(-1e300) : static_cast<T>(-1e37f);
}

/// Returns the weights of an attention, `[batch, heads, queries, keys]`, by a matrix product and a softmax.
template <class T>
symbol record_attention_weights(const attention_symbols& s) {
  using leaf = node<T>;
  const shape& q = s.queries.extents();
  symbol scores = matmul<T>(s.queries, repeat_heads(s.keys, q[1]), false, true) * attention_scale<T>(s);
  const shape all = scores.extents();
  if (s.options.alibi) {
    gpu::compile_kernels<range_op, T>();
    const symbol head =
        reshape(record_range<T>(*scores.builder(), {dtype_of<T>, shape(q[1])}, 1, 1), shape(q[1], 1, 1));
    const symbol slopes =
        record_untyped(exp(leaf(head / extent_symbol<T>(s.queries, 1)) * T(-5.545177444479562)), shape(q[1], 1, 1));
    const symbol places = record_places(s), columns = record_indices(s.keys, all[3]);
    shape distances = places.extents();
    distances[distances.rank - 1] = all[3];
    using index = node<std::int32_t>;
    const symbol far = record_untyped(abs(cast<T>(index(places)) - cast<T>(index(columns))), distances);
    scores = record_untyped(leaf(scores) - leaf(slopes) * leaf(far), all);
  }
  if (!s.mask.is_number() && s.mask.type() != dtype::boolean) scores = scores + s.mask;
  const symbol attended = record_attended(s);
  if (attended.is_number()) return record<softmax_op<T>>({scores}, scores.info());
  const node<bool> where(attended);
  const symbol limited = record_untyped(weft::select(where, leaf(scores), lowest_score<T>()), all);
  const symbol weights = record<softmax_op<T>>({limited}, limited.info());
  // If a query attends to no key, all of its weights are 0.
  return record_untyped(weft::select(where, leaf(weights), T(0)), all);
}

template <class Inputs>
attention_symbols attention_symbols_of(const Inputs& input, const attention_attributes& a) {
  const attention_operands o = a.operands();
  const auto given = [&](int i) { return i < 0 ? symbol() : input(static_cast<std::size_t>(i)); };
  return {input(0), input(1), given(o.mask), given(o.lengths), given(o.positions), a};
}

}  // namespace detail

/// Inputs: those of attention, its outputs, and the upstream gradient. Outputs: the gradients of queries, keys and
/// values.
template <class T>
struct attention_gradient_op {
  static constexpr const char* name = "attention_gradient";
  using attributes = detail::attention_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::attention_gradient_kernel<T>(p, detail::attention_problem_of(p, a), a.operands());
  }
  static void gradient(gradient_context& g, const attributes& a) {
    const auto arguments = detail::arguments_of(g, g.node.inputs.size(), true);
    const detail::attention_symbols s = detail::attention_symbols_of([&](std::size_t i) { return arguments[i]; }, a);
    const symbol up = arguments[arguments.size() - 1], value = arguments[2];
    const shape &q = s.queries.extents(), &k = s.keys.extents();
    const symbol weights = detail::record_attention_weights<T>(s);
    const symbol of_weights = matmul<T>(up, detail::repeat_heads(value, q[1]), false, true);
    const symbol of_scores =
        weights * (of_weights - sum(weights * of_weights, {3}, true)) * detail::attention_scale<T>(s);
    detail::give_of_outputs(g, arguments, [&](std::size_t i) {
      if (i == 0) return matmul<T>(of_scores, detail::repeat_heads(s.keys, q[1]));
      if (i == 1) return detail::sum_heads(matmul<T>(of_scores, s.queries, true), k);
      return detail::sum_heads(matmul<T>(weights, up, true), value.extents());
    });
  }
};

/// Outputs: the result and, unless nothing reads them, the logarithms of the sums of exponentials.
template <class T>
struct attention_op {
  static constexpr const char* name = "attention";
  using attributes = detail::attention_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::attention_kernel<T>(p, detail::attention_problem_of(p, a), a.operands());
  }
  static void gradient(gradient_context& g, const attributes& a) {
    const symbol up = g.upstream(0);
    sequence<symbol> operands;
    for (std::size_t i = 0; i < g.node.inputs.size(); ++i) operands.push_back(g.input(i));
    const detail::attention_symbols s = detail::attention_symbols_of([&](std::size_t i) { return g.input(i); }, a);
    if (a.mask && g.needs_gradient(3) && s.mask.type() != dtype::boolean) {
      const symbol of_weights = matmul<T>(up, detail::repeat_heads(g.input(2), s.queries.extents()[1]), false, true);
      g.set_gradient(3, sum_to(detail::record_attention_weights<T>(s) * (of_weights - sum(up * g.output(0), {3}, true)),
                               s.mask.extents()));
    }
    if (!g.needs_gradient(0) && !g.needs_gradient(1) && !g.needs_gradient(2)) return;
    operands.push_back(g.output(0));
    operands.push_back(g.output(1));
    operands.push_back(up);
    const symbol first =
        record<attention_gradient_op<T>>(operands, {g.input(0).info(), g.input(1).info(), g.input(2).info()}, a);
    for (std::uint32_t i = 0; i < 3; ++i) g.set_gradient(i, first.output(i));
  }
  static bool optional(const node_def&, std::uint32_t output) { return output == 1; }
};

namespace detail {

constexpr bool attention_fits(const shape& q, const shape& k, const shape& v) {
  if (q.rank != 4 || k.rank != 4 || v.rank != 4 || q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2])
    return false;
  return q[3] == k[3] && (q[1] == k[1] || (k[1] > 0 && q[1] > 0 && q[1] % k[1] == 0));
}
constexpr bool broadcasts_to_scores(const shape& m, const shape& q, const shape& k) {
  const std::int64_t whole[] = {q[0], q[1], q[2], k[2]};
  for (std::size_t i = 0; m.rank <= 4 && i < m.rank; ++i)
    if (m[i] != 1 && m[i] != whole[4 - m.rank + i]) return false;
  return m.rank <= 4;
}
template <class T, class Q, class K, class A>
constexpr bool attention_operand_fits() {
  using X = decltype(A::value);
  using D = dims_t<X>;
  if constexpr (is_attention_mask<A>)
    return (std::is_same_v<value_t<X>, bool> || std::is_same_v<value_t<X>, T>) &&
           broadcasts_to_scores(D::spec, Q::spec, K::spec);
  else
    return std::is_same_v<value_t<X>, std::int32_t> && D::rank <= 1 && (is_query_position<A> || D::rank == 1) &&
           (D::rank == 0 || D::spec[0] == Q::spec[0]);
}

}  // namespace detail

/// Attention needs queries [batch, heads, queries, width], keys [batch, kv_heads, keys, width] and values [batch,
/// kv_heads, keys, value_width]; kv_heads must divide heads.
template <class Queries, class Keys, class Values>
struct attention_extents_differ : mistake<!detail::attention_fits(Queries::spec, Keys::spec, Values::spec)> {};

/// A mask must be of bool or of the queries' type and broadcast to [batch, heads, queries, keys]; key lengths are
/// [batch] of std::int32_t; a query position is a scalar or [batch] of std::int32_t.
template <class T, class Queries, class Keys, class Argument>
struct attention_argument_does_not_fit : mistake<!detail::attention_operand_fits<T, Queries, Keys, Argument>()> {};

namespace detail {

template <class Q, class K, class V, class... A>
constexpr auto find_attention_mistake() {
  using T = value_t<Q>;
  using basic =
      first_mistake<attention_extents_differ<dims_t<Q>, dims_t<K>, dims_t<V>>, element_types_differ<T, value_t<K>>,
                    element_types_differ<T, value_t<V>>, matmul_undefined_for<T>>;
  if constexpr (!correct<basic>)
    return basic{};
  else
    return first_mistake<mistake<false>, attention_argument_does_not_fit<T, dims_t<Q>, dims_t<K>, A>...>{};
}

template <class T, class D, class... X>
auto call_attention(const attention_attributes& a, const X&... x) {
  const shape& q = extents_of(std::get<0>(std::tie(x...)));
  shape extents = q, rows = q;
  extents[3] = extents_of(std::get<2>(std::tie(x...)))[3];
  rows.rank = 3;
  return std::get<0>(call_operation<attention_op<T>>(
      std::tuple{typed_result<T, D>{extents}, typed_result<T, without_axes<D, 8>>{rows}}, a, x...));
}

/// Returns a mask (0), key lengths (1) or a position (2) in a tuple, which is empty for other arguments.
template <int Kind, class A>
auto operand_of_kind(const A& a) {
  if constexpr (Kind == (is_attention_mask<A> ? 0 : is_key_lengths<A> ? 1 : 2))
    return std::tuple{materialize(a.value)};
  else
    return std::tuple<>();
}
/// Converts a mask of T to float.
template <class T, class A>
auto widened(const A& a) {
  if constexpr (std::is_same_v<value_t<decltype(a.value)>, T>)
    return attention_mask(cast<float>(a.value));
  else
    return a;
}

}  // namespace detail

template <Expression Q, Expression K, Expression V, detail::AttentionOperand... A>
auto attention(const Q& queries, const K& keys, const V& values, const attention_options& options,
               const A&... operands) {
  using T = value_t<Q>;
  using mistake = decltype(detail::find_attention_mistake<Q, K, V, A...>());
  static_assert(
      correct<mistake>,
      "attention: needs queries [batch, heads, queries, width], keys [batch, kv_heads, keys, width] and values "
      "[batch, kv_heads, keys, value_width] of one floating-point type");
  static_assert((detail::is_attention_mask<A> + ... + 0) <= 1 && (detail::is_key_lengths<A> + ... + 0) <= 1 &&
                    (detail::is_query_position<A> + ... + 0) <= 1,
                "attention: takes one mask, one key_lengths and one query_position: combine masks by && or +");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, dims_t<Q>>(queries, keys, values);
  } else if constexpr (is_storage_type<T>) {
    return cast<T>(attention(cast<float>(queries), cast<float>(keys), cast<float>(values), options,
                             detail::widened<T>(operands)...));
  } else {
    constexpr bool masked = (detail::is_attention_mask<A> || ...), limited = (detail::is_key_lengths<A> || ...);
    constexpr bool placed = (detail::is_query_position<A> || ...);
    using D = with_extent<dims_t<Q>, 3, extent_of<dims_t<V>, 3>()>;
    if constexpr ((Q::symbolic || K::symbolic || V::symbolic)) {
      gpu::compile_kernels<matmul_op, T>();
      gpu::compile_kernels<gpu::moves, T>();
      gpu::compile_kernels<softmax_op, T>();
    }
    const auto all = std::tuple_cat(std::tuple{materialize(queries), materialize(keys), materialize(values)},
                                    detail::operand_of_kind<0>(operands)..., detail::operand_of_kind<1>(operands)...,
                                    detail::operand_of_kind<2>(operands)...);
    const detail::attention_attributes a{options.causal, options.alibi, options.window, options.scale,
                                         masked,         limited,       placed};
    return std::apply([&](const auto&... x) { return detail::call_attention<T, D>(a, x...); }, all);
  }
}

}  // namespace weft
WEFT_COLD_END
