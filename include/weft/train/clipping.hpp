// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>

#include <weft/ops/reduce/reduce.hpp>
#include <weft/train/changed_gradients.hpp>

/// Limits the size of gradients. A bound or a norm is a number or a scalar of the graph. A sparse gradient (gather)
/// stays sparse, so optimizers leave the other rows unchanged.
WEFT_COLD_BEGIN
namespace weft {

/// Clips each element to [`lowest`, `highest`] (tf.clip_by_value). A sparse gradient stays sparse if the bounds are
/// numbers and 0 is between them. Throws invalid_argument if both are numbers and `highest` is less than `lowest`.
///
///     auto train = apply_gradients(adam{}, clip_by_value(compute_gradients(loss), -1, 1));
template <class Gradients>
  requires(!Expression<Gradients>)
[[nodiscard]] auto clip_by_value(const Gradients& gradients, hyperparameter lowest, hyperparameter highest);
/// Clips each element of an expression.
template <Expression Expr, class Low, class High>
[[nodiscard]] auto clip_by_value(const Expr& x, const Low& lowest, const High& highest);

/// Scales each gradient down to the Euclidean norm `norm` if its own norm is greater (tf.clip_by_norm). Throws
/// invalid_argument if `norm` is a number that is not positive.
template <class Gradients>
  requires(!Expression<Gradients>)
[[nodiscard]] auto clip_by_norm(const Gradients& gradients, hyperparameter norm);
/// Scales an expression down to the Euclidean norm `norm` if its own norm is greater or, with axes, each of its parts
/// along them. After an update, `assign(table, clip_by_norm<1>(table, 2))` limits the norm of each row
/// (tf.keras.constraints.MaxNorm, max_norm of torch.nn.Embedding).
template <int... Axes, Expression Expr, class Norm>
[[nodiscard]] auto clip_by_norm(const Expr& x, const Norm& norm);

/// Returns the Euclidean norm of all gradients together (tf.linalg.global_norm), a scalar node. Rows with equal indices
/// are summed first; TensorFlow counts each separately. The type is float unless a gradient is double.
template <class Gradients>
[[nodiscard]] auto global_norm(const Gradients& gradients);

/// Scales all gradients by one factor so that their global norm is at most `norm` (tf.clip_by_global_norm;
/// torch.nn.utils.clip_grad_norm_, which adds 1e-6 to the divisor). If the norm is not finite, all elements become NaN,
/// as in TensorFlow. Throws invalid_argument if `norm` is a number that is not positive.
///
///     auto train = apply_gradients(adam{}, clip_by_global_norm(compute_gradients(loss, w, b), 1.0), global_step(g));
template <class Gradients>
[[nodiscard]] auto clip_by_global_norm(const Gradients& gradients, hyperparameter norm);
/// Uses `known_norm`, a result of global_norm(), instead of the gradients' own norm.
template <class Gradients>
[[nodiscard]] auto clip_by_global_norm(const Gradients& gradients, hyperparameter norm, hyperparameter known_norm);

namespace detail {

inline void check_bounds(const hyperparameter& lowest, const hyperparameter& highest) {
  for (const hyperparameter& h : {lowest, highest})
    if (h.is_number() && std::isnan(h.number()))
      throw error(error_code::invalid_argument, "clip_by_value", "a bound is NaN");
  if (lowest.is_number() && highest.is_number() && highest.number() < lowest.number())
    throw error(error_code::invalid_argument, "clip_by_value", "the lowest value must not exceed the highest");
}
inline void check_norm(const char* who, const hyperparameter& norm) {
  if (norm.is_number() && !(norm.number() > 0))
    throw error(error_code::invalid_argument, who, "the norm to clip to must be above 0");
}

/// Notes that `gradient` becomes `changed`: parameter servers clip the mean of the workers' gradients instead.
inline void note_clip(const variable_gradient<symbol, symbol>& gradient, const gradient_parts& parts, symbol changed,
                      const gradient_clip& how, value norm = {}) {
  graph_of(gradient.variable).note_clip({changed.id(), gradient.gradient.id(), parts.summed, how, norm});
}

inline symbol record_squares(const gradient_parts& parts) {
  symbol total;
  for (const symbol& part : parts.all) {
    const symbol one = record_sum_of_squares(part);
    total = total.is_number() ? one : total + one;
  }
  return total;
}

inline symbol_gradients record_clip_by_value(const symbol_gradients& gradients, hyperparameter lowest,
                                             hyperparameter highest) {
  check_bounds(lowest, highest);
  const bool keeps_zero = lowest.is_number() && highest.is_number() && lowest.number() <= 0 && highest.number() >= 0;
  return change_all(gradients, [&](symbol_gradients all, bool by_rows) {
    for (auto& each : all) {
      const dtype type = each.gradient.type();
      gradient_parts parts = parts_of(each, by_rows && keeps_zero);
      for (symbol& part : parts.all)
        part = math::maximum(math::minimum(part, in_type(highest, type)), in_type(lowest, type));
      const symbol clipped = whole_of(each, parts);
      if (lowest.is_number() && highest.is_number())
        note_clip(each, parts, clipped, {clip_kind::by_value, lowest.number(), highest.number()});
      each.gradient = clipped;
    }
    return all;
  });
}

inline symbol_gradients record_clip_by_norm(const symbol_gradients& gradients, hyperparameter norm) {
  check_norm("clip_by_norm", norm);
  return change_all(gradients, [&](symbol_gradients all, bool by_rows) {
    for (auto& each : all) {
      const symbol most = in_type(norm, each.gradient.type());
      gradient_parts parts = parts_of(each, by_rows);
      const symbol scale = most / math::maximum(math::sqrt(record_squares(parts)), most);
      for (symbol& part : parts.all) part = part * scale;
      const symbol clipped = whole_of(each, parts);
      if (norm.is_number()) note_clip(each, parts, clipped, {clip_kind::by_norm, 0, norm.number()});
      each.gradient = clipped;
    }
    return all;
  });
}

inline symbol record_global_norm(const symbol_gradients& all, bool by_rows) {
  bool wide = false;
  for (const auto& each : all) wide |= each.gradient.type() == dtype::float64;
  const dtype type = wide ? dtype::float64 : dtype::float32;
  symbol total;
  for (const auto& each : all) {
    const symbol one = math::convert(record_squares(parts_of(each, by_rows)), type);
    total = total.is_number() ? one : total + one;
  }
  return math::sqrt(total);
}
inline symbol record_global_norm(const symbol_gradients& all) {
  const symbol norm = record_global_norm(all, true);
  if (!are_by_rows(all)) return norm;
  symbol_gradients whole = all;
  for (auto& each : whole) each.gradient = without_rows(each.gradient);
  graph_of(norm).note_whole(norm.id(), record_global_norm(whole, false).id());
  return norm;
}

/// `is_own`: `known` is the norm of these gradients.
inline symbol_gradients record_clip_by_global_norm(const symbol_gradients& gradients, hyperparameter norm, symbol known,
                                                   bool is_own) {
  check_norm("clip_by_global_norm", norm);
  return change_all(gradients, [&](symbol_gradients all, bool by_rows) {
    const symbol of_all = by_rows ? known : without_rows(known), most = in_type(norm, of_all.type());
    // The difference is 0, or NaN if the norm is not finite.
    const symbol scale = most * math::minimum(1 / of_all, 1 / most) + (of_all - of_all);
    for (auto& each : all) {
      gradient_parts parts = parts_of(each, by_rows);
      const symbol by = math::convert(scale, each.gradient.type());
      for (symbol& part : parts.all) part = part * by;
      const symbol clipped = whole_of(each, parts);
      if (is_own && norm.is_number())
        note_clip(each, parts, clipped, {clip_kind::by_global_norm, 0, norm.number()}, known.id());
      each.gradient = clipped;
    }
    return all;
  });
}

template <class Gradients>
struct norm_type;
template <class Gradient, class V>
struct norm_type<variable_gradient<Gradient, V>> {
  using type = value_t<V>;
};
template <class... Pair>
struct norm_type<std::tuple<Pair...>> {
  using type = std::conditional_t<(std::is_same_v<typename norm_type<Pair>::type, double> || ...), double, float>;
};
template <class T>
struct norm_type<variable_gradients<T>> {
  using type = T;
};

}  // namespace detail

template <class Gradients>
  requires(!Expression<Gradients>)
auto clip_by_value(const Gradients& gradients, hyperparameter lowest, hyperparameter highest) {
  static_assert(correct<changed_value_is_not_a_gradient<Gradients>>, WEFT_NEEDS_OF_CHANGE("clip_by_value"));
  if constexpr (correct<changed_value_is_not_a_gradient<Gradients>>)
    return detail::changed(
        gradients, detail::record_clip_by_value(detail::symbols_of("clip_by_value", gradients), lowest, highest));
  else
    return gradients;
}
template <Expression Expr, class Low, class High>
auto clip_by_value(const Expr& x, const Low& lowest, const High& highest) {
  if constexpr (std::is_arithmetic_v<Low> && std::is_arithmetic_v<High>)
    detail::check_bounds(static_cast<double>(lowest), static_cast<double>(highest));
  return max(min(x, highest), lowest);
}

template <class Gradients>
  requires(!Expression<Gradients>)
auto clip_by_norm(const Gradients& gradients, hyperparameter norm) {
  static_assert(correct<changed_value_is_not_a_gradient<Gradients>>, WEFT_NEEDS_OF_CHANGE("clip_by_norm"));
  if constexpr (correct<changed_value_is_not_a_gradient<Gradients>>)
    return detail::changed(gradients, detail::record_clip_by_norm(detail::symbols_of("clip_by_norm", gradients), norm));
  else
    return gradients;
}
template <int... Axes, Expression Expr, class Norm>
auto clip_by_norm(const Expr& x, const Norm& norm) {
  if constexpr (std::is_arithmetic_v<Norm>) detail::check_norm("clip_by_norm", static_cast<double>(norm));
  const auto value = materialize(x);
  return value * materialize(norm / max(sqrt(sum<Axes..., keep_dims>(square(value))), norm));
}

template <class Gradients>
auto global_norm(const Gradients& gradients) {
  static_assert(correct<changed_value_is_not_a_gradient<Gradients>>, WEFT_NEEDS_OF_CHANGE("global_norm"));
  if constexpr (correct<changed_value_is_not_a_gradient<Gradients>>)
    return node<typename detail::norm_type<Gradients>::type>(
        detail::record_global_norm(detail::symbols_of("global_norm", gradients)));
  else
    return node<float>(symbol());
}

template <class Gradients>
auto clip_by_global_norm(const Gradients& gradients, hyperparameter norm) {
  static_assert(correct<changed_value_is_not_a_gradient<Gradients>>, WEFT_NEEDS_OF_CHANGE("clip_by_global_norm"));
  if constexpr (correct<changed_value_is_not_a_gradient<Gradients>>) {
    const auto all = detail::symbols_of("clip_by_global_norm", gradients);
    return detail::changed(gradients,
                           detail::record_clip_by_global_norm(all, norm, detail::record_global_norm(all), true));
  } else {
    return gradients;
  }
}
template <class Gradients>
auto clip_by_global_norm(const Gradients& gradients, hyperparameter norm, hyperparameter known_norm) {
  static_assert(correct<changed_value_is_not_a_gradient<Gradients>>, WEFT_NEEDS_OF_CHANGE("clip_by_global_norm"));
  if constexpr (correct<changed_value_is_not_a_gradient<Gradients>>) {
    using T = typename detail::norm_type<Gradients>::type;
    const auto all = detail::symbols_of("clip_by_global_norm", gradients);
    const symbol known = known_norm.is_number()
                             ? detail::as_scalar(graph_of(all[0].variable), known_norm.number(), dtype_of<T>)
                             : detail::in_type(known_norm, dtype_of<T>);
    return detail::changed(gradients, detail::record_clip_by_global_norm(all, norm, known, false));
  } else {
    return gradients;
  }
}

template <class...>
auto clip_by_value(...) WEFT_DELETED;  // (compute_gradients(loss, w), -1.0, 1.0), or (x, -1.0f, 1.0f)
template <class...>
auto clip_by_norm(...) WEFT_DELETED;  // (compute_gradients(loss, w), 1.0), or (x, 1.0f)
template <class...>
auto clip_by_global_norm(...) WEFT_DELETED;  // (compute_gradients(loss, w, b), 1.0)

}  // namespace weft
WEFT_COLD_END
