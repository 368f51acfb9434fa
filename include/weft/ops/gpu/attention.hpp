// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/products/attention_op.hpp>

/// GPU kernels of attention: a thread for each query, and for the gradients of keys and values one for each key.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// Part 0 computes the result, part 1 the gradient of the queries, and part 2 those of keys and values.
template <class T, int Part>
struct attention_body {
  static constexpr unsigned threads = 64;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  weft::device::attention_problem s;
  double octave;  // -8 log(2) / heads
  bool bool_mask;
  const T *q, *k, *v, *mask, *result, *logs, *up;
  const std::int32_t *lengths, *positions;
  T *first, *second;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const auto i = static_cast<std::int64_t>(at.block) * threads + at.thread;
    if (i >= s.groups() * (Part == 2 ? s.keys : s.rows())) return;
    if constexpr (Part == 0) attend(i);
    if constexpr (Part == 1) differentiate_query(i);
    if constexpr (Part == 2) differentiate_key(i);
  }

 private:
  struct query {
    std::int64_t group, b, head, index, place;
    weft::device::attention_problem::range keys;
  };

  WEFT_HOST_DEVICE query query_at(std::int64_t i) const {
    query x{};
    x.group = i / s.rows();
    x.b = x.group / s.kv_heads;
    x.head = s.head(x.group, i % s.rows());
    x.index = i % s.rows() % s.queries;
    x.place = s.place(x.b, x.index, positions);
    x.keys = s.attended(x.b, x.place, lengths);
    return x;
  }
  WEFT_HOST_DEVICE static T product(const T* a, const T* b, std::int64_t n) {
    T sum = 0;
    for (std::int64_t d = 0; d < n; ++d) sum += a[d] * b[d];
    return sum;
  }
  /// Returns true if the query attends to key j, which is in its range, and computes the score.
  WEFT_HOST_DEVICE bool score(std::int64_t i, const query& x, std::int64_t j, T& value) const {
    const std::int64_t entry = s.mask_at(x.b, x.head, x.index) + j * s.mask_steps[3];
    if (bool_mask && !reinterpret_cast<const bool*>(mask)[entry]) return false;
    value = static_cast<T>(s.scale) * product(q + i * s.width, k + (x.group * s.keys + j) * s.width, s.width);
    if (s.alibi) {
      const std::int64_t far = x.place < j ? j - x.place : x.place - j;
      value -= math::exp(static_cast<T>(octave * static_cast<double>(x.head + 1))) * static_cast<T>(far);
    }
    if (mask && !bool_mask) value += mask[entry];
    return true;
  }
  WEFT_HOST_DEVICE void attend(std::int64_t i) const {
    const query x = query_at(i);
    T* const y = first + i * s.value_width;
    for (std::int64_t d = 0; d < s.value_width; ++d) y[d] = 0;
    T largest = 0, total = 0, value = 0;
    bool any = false;
    for (std::int64_t j = x.keys.begin; j < x.keys.end; ++j) {
      if (!score(i, x, j, value) || value == -static_cast<T>(__builtin_inff())) continue;
      const T before = largest;
      if (!any || value > largest) largest = value;
      const T kept = any ? math::exp(before - largest) : T(0), weight = math::exp(value - largest);
      any = true;
      total = total * kept + weight;
      const T* const from = v + (x.group * s.keys + j) * s.value_width;
      for (std::int64_t d = 0; d < s.value_width; ++d) y[d] = y[d] * kept + weight * from[d];
    }
    for (std::int64_t d = 0; any && d < s.value_width; ++d) y[d] /= total;
    if (second) second[i] = any ? largest + math::log(total) : static_cast<T>(__builtin_inff());
  }
  /// Returns the gradient of the score of a query that attends to key j, and its weight.
  WEFT_HOST_DEVICE T slope(std::int64_t i, const query& x, std::int64_t j, T& weight) const {
    T value = 0;
    weight = 0;
    if (!score(i, x, j, value)) return 0;
    weight = math::exp(value - logs[i]);
    const T* const from = up + i * s.value_width;
    return weight * static_cast<T>(s.scale) *
           (product(from, v + (x.group * s.keys + j) * s.value_width, s.value_width) -
            product(from, result + i * s.value_width, s.value_width));
  }
  WEFT_HOST_DEVICE void differentiate_query(std::int64_t i) const {
    const query x = query_at(i);
    T* const to = first + i * s.width;
    for (std::int64_t d = 0; d < s.width; ++d) to[d] = 0;
    T weight = 0;
    for (std::int64_t j = x.keys.begin; j < x.keys.end; ++j) {
      const T each = slope(i, x, j, weight);
      for (std::int64_t d = 0; d < s.width; ++d) to[d] += each * k[(x.group * s.keys + j) * s.width + d];
    }
  }
  WEFT_HOST_DEVICE void differentiate_key(std::int64_t at) const {
    const std::int64_t group = at / s.keys, j = at % s.keys;
    for (std::int64_t d = 0; d < s.width; ++d) first[at * s.width + d] = 0;
    for (std::int64_t d = 0; d < s.value_width; ++d) second[at * s.value_width + d] = 0;
    T weight = 0;
    for (std::int64_t i = group * s.rows(); i < (group + 1) * s.rows(); ++i) {
      const query x = query_at(i);
      if (j < x.keys.begin || j >= x.keys.end) continue;
      const T each = slope(i, x, j, weight);
      for (std::int64_t d = 0; d < s.width; ++d) first[at * s.width + d] += each * q[i * s.width + d];
      for (std::int64_t d = 0; d < s.value_width; ++d)
        second[at * s.value_width + d] += weight * up[i * s.value_width + d];
    }
  }
};

template <class T, int Part>
void add_attention(launch_kernel& k, const prepare_context& p, const weft::device::attention_problem& s,
                   const weft::detail::attention_operands& o) {
  using body = attention_body<T, Part>;
  static const function code = function_of<body>("attention");
  const std::int64_t items = s.groups() * (Part == 2 ? s.keys : s.rows());
  if (items == 0) return;
  body b{};
  b.s = s;
  b.octave = s.heads ? -5.545177444479562 / static_cast<double>(s.heads) : 0;
  b.bool_mask = o.mask >= 0 && p.inputs[o.mask].type == dtype::boolean;
  auto& l = add_body(k, b, code, static_cast<unsigned>((items + body::threads - 1) / body::threads));
  l.point(offset_in(b, b.q), p.input_slots[0]);
  l.point(offset_in(b, b.k), p.input_slots[1]);
  l.point(offset_in(b, b.v), p.input_slots[2]);
  if (o.mask >= 0) l.point(offset_in(b, b.mask), p.input_slots[o.mask]);
  if (o.lengths >= 0) l.point(offset_in(b, b.lengths), p.input_slots[o.lengths]);
  if (o.positions >= 0) l.point(offset_in(b, b.positions), p.input_slots[o.positions]);
  if (Part > 0) {
    l.point(offset_in(b, b.result), p.input_slots[o.end]);
    l.point(offset_in(b, b.logs), p.input_slots[o.end + 1]);
    l.point(offset_in(b, b.up), p.input_slots[o.end + 2]);
  }
  l.point(offset_in(b, b.first), p.output_slots[Part == 2 ? 1 : 0]);
  if (Part != 1) l.point(offset_in(b, b.second), p.output_slots[Part == 2 ? 2 : 1]);
}

template <class T, bool Gradient>
kernel* prepare_attention(const prepare_context& p, device&) {
  const auto a = attributes_of<attention_op<T>>(p.node);
  const auto s = weft::detail::attention_problem_of(p, a);
  auto* k = new launch_kernel(p.node.op->name);
  if constexpr (Gradient) {
    add_attention<T, 1>(*k, p, s, a.operands());
    add_attention<T, 2>(*k, p, s, a.operands());
  } else {
    add_attention<T, 0>(*k, p, s, a.operands());
  }
  return k;
}

}  // namespace detail

template <class T>
struct kernels<attention_op<T>> : installed<attention_op<T>, detail::prepare_attention<T, false>>,
                                  installed<attention_gradient_op<T>, detail::prepare_attention<T, true>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
