// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/attention.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/reduce/softmax.hpp>
#include <weft/ops/sequence_steps.hpp>

/// The operation of attention and its gradients, in symbols.
WEFT_COLD_BEGIN
namespace weft {
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

/// Returns the position of each query, of int32: its step, added to the position of the first query if there is one.
inline symbol record_places(const attention_symbols& s) {
  const shape& q = s.queries.extents();
  const symbol rows = reshape(record_steps(s.queries, q[2]), shape(q[2], 1));
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
  const symbol columns = record_steps(s.keys, k[2]);
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
    attended = record_and(attended, record_valid_steps(s.lengths, shape(k[0], 1, 1, k[2]), 0, 3));
  if (!s.mask.is_number() && s.mask.type() == dtype::boolean) attended = record_and(attended, s.mask);
  return attended;
}

/// Returns keys or values with zeros from the length on, where they can be NaN.
template <class T>
symbol valid_rows(const attention_symbols& s, const symbol& x) {
  if (s.lengths.is_number()) return x;
  const shape& e = x.extents();
  return without_padding<T>(record_valid_steps(s.lengths, shape(e[0], 1, e[2], 1), 0, 2), x);
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
  return record_untyped(T(1) / sqrt(node<T>(width)), shape());  // nvcc cannot compile rsqrt alone
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
  const symbol keys = repeat_heads(valid_rows<T>(s, s.keys), q[1]);
  const symbol products = matmul<T>(s.queries, keys, false, true), scale = attention_scale<T>(s);
  const shape all = products.extents();
  symbol scores = scale.is_number() ? record_untyped(leaf(products) * static_cast<T>(scale.number()), all)
                                    : record_untyped(leaf(products) * leaf(scale), all);
  if (s.options.alibi) {
    gpu::compile_kernels<range_op, T>();
    const symbol head =
        reshape(record_range<T>(*scores.builder(), {dtype_of<T>, shape(q[1])}, 1, 1), shape(q[1], 1, 1));
    const symbol slopes =
        record_untyped(exp(leaf(head / extent_symbol<T>(s.queries, 1)) * T(-5.545177444479562)), shape(q[1], 1, 1));
    const symbol places = record_places(s), columns = record_steps(s.keys, all[3]);
    shape distances = places.extents();
    distances[distances.rank - 1] = all[3];
    using index = node<std::int32_t>;
    const symbol far = record_untyped(abs(cast<T>(index(places)) - cast<T>(index(columns))), distances);
    scores = record_untyped(leaf(scores) - leaf(slopes) * leaf(far), all);
  }
  symbol attended = record_attended(s);
  if (!s.mask.is_number() && s.mask.type() != dtype::boolean) {
    scores = record_untyped(leaf(scores) + leaf(s.mask), all);
    attended =
        record_and(attended, record_untyped(leaf(s.mask) != -std::numeric_limits<T>::infinity(), s.mask.extents()));
  }
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
  static constexpr primitive_set gradient_uses{primitive::multiply, primitive::subtract};
  using attributes = detail::attention_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::attention_gradient_kernel<T>(p, detail::attention_problem_of(p, a), a.operands());
  }
  static void gradient(gradient_context& g, const attributes& a) {
    const auto arguments = detail::arguments_of(g, g.node.inputs.size(), true);
    const detail::attention_symbols s = detail::attention_symbols_of([&](std::size_t i) { return arguments[i]; }, a);
    const symbol up = arguments[arguments.size() - 1], value = detail::valid_rows<T>(s, arguments[2]);
    const shape &q = s.queries.extents(), &k = s.keys.extents();
    const symbol weights = detail::record_attention_weights<T>(s);
    const symbol of_weights = matmul<T>(up, detail::repeat_heads(value, q[1]), false, true);
    const symbol of_scores =
        weights * (of_weights - sum(weights * of_weights, {3}, true)) * detail::attention_scale<T>(s);
    detail::give_of_outputs(g, arguments, [&](std::size_t i) {
      if (i == 0) return matmul<T>(of_scores, detail::repeat_heads(detail::valid_rows<T>(s, s.keys), q[1]));
      if (i == 1) return detail::sum_heads(matmul<T>(of_scores, s.queries, true), k);
      return detail::sum_heads(matmul<T>(weights, up, true), value.extents());
    });
  }
};

/// Outputs: the result and, unless nothing reads them, the logarithms of the sums of exponentials.
template <class T>
struct attention_op {
  static constexpr const char* name = "attention";
  static constexpr const char* onnx = "attention()";
  static constexpr primitive_set gradient_uses{primitive::multiply, primitive::subtract};
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
      const symbol value = detail::repeat_heads(detail::valid_rows<T>(s, g.input(2)), s.queries.extents()[1]);
      const symbol of_weights = matmul<T>(up, value, false, true);
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

WEFT_INSTANTIATE(kernel* prepare_declared<attention_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<attention_gradient_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(void gradient_of_declared<attention_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<attention_gradient_op<float>>(gradient_context&));

/// Records an attention.
template <class T>
symbol record_attention(attention_symbols s, const symbol& values) {
  gpu::compile_kernels<attention_op, T>();
  sequence<symbol> operands{s.queries, s.keys, values};
  const auto add = [&](const symbol& x) {
    if (!x.is_number()) operands.push_back(x);
    return !x.is_number();
  };
  s.options.mask = add(s.mask), s.options.lengths = add(s.lengths), s.options.positions = add(s.positions);
  shape extents = s.queries.extents(), rows = extents;
  extents[3] = values.extents()[3];
  rows.rank = 3;
  return record<attention_op<T>>(operands, {{dtype_of<T>, extents}, {dtype_of<T>, rows}}, s.options);
}

}  // namespace detail
}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/attention.hpp>
#endif
