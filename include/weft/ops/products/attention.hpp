// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/eager.hpp>
#include <weft/ops/products/attention_op.hpp>

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

/// The meaning of a further operand of attention.
enum class attention_role : unsigned char { mask, lengths, position };

/// The result of attention_mask, key_lengths and query_position.
template <attention_role Role, Expression X>
struct attention_argument {
  static constexpr attention_role role = Role;
  X value;
};

/// A mask of attention, which broadcasts to [batch, heads, queries, keys]: of bool, true where a query attends to a
/// key, or of the queries' type, which is added to the scores.
template <Expression X>
[[nodiscard]] auto attention_mask(const X& x) {
  return attention_argument<attention_role::mask, X>{x};
}
/// The number of valid keys of each example, [batch] of std::int32_t. Keys and values beyond can be NaN. A step throws
/// out_of_range if a length is negative or exceeds the number of keys.
template <Expression X>
[[nodiscard]] auto key_lengths(const X& x) {
  return attention_argument<attention_role::lengths, X>{x};
}
/// The place of the first query among the keys, of std::int32_t: a scalar, or [batch]. It is 0 without this argument.
template <Expression X>
[[nodiscard]] auto query_position(const X& x) {
  return attention_argument<attention_role::position, X>{x};
}

namespace detail {

template <class A>
concept AttentionOperand = requires { requires A::role <= attention_role::position; };

}  // namespace detail

/// Returns softmax(scale * queries keys^T + mask) values, `[batch, heads, queries, value_width]`, of queries `[batch,
/// heads, queries, width]`, keys `[batch, kv_heads, keys, width]` and values `[batch, kv_heads, keys, value_width]`
/// (torch.nn.functional.scaled_dot_product_attention, jax.nn.dot_product_attention). Head h reads the keys of head h /
/// (heads / kv_heads), as torch does with enable_gqa. Scores are computed by tiles and not stored, and their gradients
/// compute them again. Further operands, in any order: `attention_mask(m)`, `key_lengths(n)` and `query_position(p)`.
/// If a query attends to no key, its result is 0, as are its gradients. Gradients of an added mask and gradients of
/// gradients store scores.
template <Expression Query, Expression K, Expression V, detail::AttentionOperand... A>
[[nodiscard]] auto attention(const Query& queries, const K& keys, const V& values,
                             const attention_options& options = {}, const A&... operands);
/// Overload without options.
template <Expression Query, Expression K, Expression V, detail::AttentionOperand First, detail::AttentionOperand... A>
[[nodiscard]] auto attention(const Query& queries, const K& keys, const V& values, const First& first,
                             const A&... operands) {
  return attention(queries, keys, values, attention_options(), first, operands...);
}

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
template <class T, class Query, class K, class A>
constexpr bool attention_operand_fits() {
  using X = decltype(A::value);
  using D = dims_t<X>;
  if constexpr (A::role == attention_role::mask)
    return (std::is_same_v<value_t<X>, bool> || std::is_same_v<value_t<X>, T>) &&
           broadcasts_to_scores(D::spec, Query::spec, K::spec);
  else
    return std::is_same_v<value_t<X>, std::int32_t> && D::rank <= 1 &&
           (A::role == attention_role::position || D::rank == 1) && (D::rank == 0 || D::spec[0] == Query::spec[0]);
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

template <class Query, class K, class V, class... A>
constexpr auto find_attention_mistake() {
  using T = value_t<Query>;
  using basic =
      first_mistake<attention_extents_differ<dims_t<Query>, dims_t<K>, dims_t<V>>, element_types_differ<T, value_t<K>>,
                    element_types_differ<T, value_t<V>>, matmul_undefined_for<T>>;
  if constexpr (!correct<basic>)
    return basic{};
  else
    return first_mistake<mistake<false>, attention_argument_does_not_fit<T, dims_t<Query>, dims_t<K>, A>...>{};
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

/// The number of operands with a role.
template <attention_role Role, class... A>
inline constexpr int operands_with = ((A::role == Role) + ... + 0);
/// Returns the operand in a tuple, which is empty for other roles.
template <attention_role Role, class A>
auto operand_with(const A& a) {
  if constexpr (A::role == Role)
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

template <Expression Query, Expression K, Expression V, detail::AttentionOperand... A>
auto attention(const Query& queries, const K& keys, const V& values, const attention_options& options,
               const A&... operands) {
  using T = value_t<Query>;
  using mistake = decltype(detail::find_attention_mistake<Query, K, V, A...>());
  static_assert(
      correct<mistake>,
      "attention: needs queries [batch, heads, queries, width], keys [batch, kv_heads, keys, width] and values "
      "[batch, kv_heads, keys, value_width] of one floating-point type");
  using role = attention_role;
  constexpr int masks = detail::operands_with<role::mask, A...>, limits = detail::operands_with<role::lengths, A...>,
                places = detail::operands_with<role::position, A...>;
  static_assert(masks <= 1 && limits <= 1 && places <= 1,
                "attention: takes one mask, one key_lengths and one query_position: combine masks by && or +");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, dims_t<Query>>(queries, keys, values);
  } else if constexpr (is_storage_type<T>) {
    return cast<T>(attention(cast<float>(queries), cast<float>(keys), cast<float>(values), options,
                             detail::widened<T>(operands)...));
  } else {
    using D = with_extent<dims_t<Query>, 3, extent_of<dims_t<V>, 3>()>;
    if constexpr ((Query::symbolic || K::symbolic || V::symbolic)) {
      gpu::compile_kernels<matmul_op, T>();
      gpu::compile_kernels<gpu::moves, T>();
      gpu::compile_kernels<softmax_op, T>();
    }
    const auto all =
        std::tuple_cat(std::tuple{materialize(queries), materialize(keys), materialize(values)},
                       detail::operand_with<role::mask>(operands)..., detail::operand_with<role::lengths>(operands)...,
                       detail::operand_with<role::position>(operands)...);
    const detail::attention_attributes a{options.causal, options.alibi, options.window, options.scale,
                                         masks > 0,      limits > 0,    places > 0};
    return std::apply([&](const auto&... x) { return detail::call_attention<T, D>(a, x...); }, all);
  }
}

}  // namespace weft
WEFT_COLD_END
