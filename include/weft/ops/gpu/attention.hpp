// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/math_policy.hpp>
#include <weft/device/gpu/softmax.hpp>
#include <weft/ops/gpu/matmul.hpp>
#include <weft/ops/products/attention_op.hpp>

/// GPU kernels of attention: products and softmax of slices of the queries, whose scores take limited memory.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// The scores of consecutive queries, from query `first` of all groups.
template <class T>
struct attention_scores {
  weft::device::attention_problem s;
  double octave;  // -8 log(2) / heads
  const bool* mask;
  const T* bias;
  const std::int32_t *lengths, *positions;
  const T* logs;
  std::int64_t first;
  T *scores, *slopes, *inner;

  /// Returns score i with its biases, or -infinity if the query does not attend to the key.
  WEFT_HOST_DEVICE T score(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t j = at % s.keys, row = first + at / s.keys, group = row / s.rows(), b = group / s.kv_heads;
    const std::int64_t head = s.head(group, row % s.rows()), query = row % s.rows() % s.queries;
    const std::int64_t place = s.place(b, query, positions), entry = s.mask_at(b, head, query) + j * s.mask_steps[3];
    const auto keys = s.attended(b, place, lengths);
    if (j < keys.begin || j >= keys.end || (mask && !mask[entry])) return -static_cast<T>(__builtin_inff());
    T value = scores[i];
    if (s.alibi)
      value -= math::exp(static_cast<T>(octave * static_cast<double>(head + 1))) *
               static_cast<T>(place < j ? j - place : place - j);
    return bias ? value + bias[entry] : value;
  }
};

template <class T>
struct attention_limit : attention_scores<T> {
  WEFT_HOST_DEVICE void operator()(std::size_t i) const { this->scores[i] = this->score(i); }
};
/// Replaces scores by weights, and the gradients of weights by those of products of queries and keys.
template <class T>
struct attention_slopes : attention_scores<T> {
  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    const std::size_t row = i / static_cast<std::size_t>(this->s.keys);
    const T weight = math::exp(this->score(i) - this->logs[row]);
    this->scores[i] = weight;
    this->slopes[i] =
        weight == 0 ? T(0) : weight * (this->slopes[i] - this->inner[row]) * static_cast<T>(this->s.scale);
  }
};
/// The inner products of rows.
template <class T>
struct row_products {
  const T *a, *b;
  T* to;
  std::int64_t width;
  WEFT_HOST_DEVICE void operator()(std::size_t row) const {
    T sum = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      const std::size_t i = row * static_cast<std::size_t>(width) + static_cast<std::size_t>(d);
      sum += a[i] * b[i];
    }
    to[row] = sum;
  }
};
/// Copies keys or values, with zeros after the lengths.
template <class T>
struct without_padding {
  weft::device::attention_problem s;
  std::int64_t width;
  const T* from;
  const std::int32_t* lengths;
  T* to;
  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    const std::int64_t row = static_cast<std::int64_t>(i) / width;
    to[i] = row % s.keys < lengths[row / s.keys / s.kv_heads] ? from[i] : T(0);
  }
};

/// A slice is some groups, or some rows of one group. Kernels exist for all slices but the last, and for the last.
template <class T, bool Gradient>
class attention_slices final : public kernel {
  enum slot : std::uint32_t { q, k, v, y, up, scores, slopes, dq, dk, dv, slot_count };

 public:
  attention_slices(const prepare_context& p, device& on, const weft::device::attention_problem& s,
                   const weft::detail::attention_operands& o)
      : s_(s), o_(o), groups_(s.groups()), rows_(s.rows()) {
    for (std::size_t i = 0; i < p.node.inputs.size(); ++i) in_[i] = p.input_slots[i];
    for (std::size_t i = 0; i < p.node.outputs.size(); ++i) out_[i] = p.output_slots[i];
    bool_mask_ = o.mask >= 0 && p.inputs[o.mask].type == dtype::boolean;
    const auto limit = static_cast<std::int64_t>(math.attention_bytes / sizeof(T) / (Gradient ? 2 : 1));
    const std::int64_t most = s.keys > 0 && limit / s.keys < groups_ * rows_ ? limit / s.keys : groups_ * rows_;
    if (groups_ * rows_ == 0) return;
    step_ = most >= rows_ ? most / rows_ * rows_ : most > 0 ? most : 1;
    if (s.heads > 0) octave_ = -5.545177444479562 / static_cast<double>(s.heads);
    const std::int64_t all = step_ < rows_ ? rows_ : groups_ * rows_;
    prepare(parts_[0], on, step_);
    if (all % step_) prepare(parts_[1], on, all % step_);
  }

  void run(const kernel_context& f) override {
    queue& to = *f.queue;
    const auto in = [&](int i) { return i < 0 ? nullptr : f.buffers[in_[i]]; };
    const auto numbers = [](std::byte* x) { return reinterpret_cast<T*>(x); };
    std::byte* room = to.workspace(workspace_bytes());
    const auto take = [&](std::int64_t n) {
      std::byte* const at = room ? room + used_by_libraries() : nullptr;
      if (room) room += aligned(n);
      return at;
    };
    std::byte *key = in(1), *value = in(2);
    const auto* const lengths = reinterpret_cast<const std::int32_t*>(in(o_.lengths));
    if (lengths)
      for (const bool second : {false, true}) {
        const std::int64_t width = second ? s_.value_width : s_.width, n = groups_ * s_.keys * width;
        std::byte*& x = second ? value : key;
        const without_padding<T> work{s_, width, numbers(x), lengths, numbers(x = take(n))};
        launch_each(to, "attention", work, static_cast<std::size_t>(n));
      }
    const std::int64_t keys = groups_ * s_.keys;
    if (Gradient && keys > 0 && (rows_ == 0 || step_ < rows_)) {  // several slices add to the gradients of one group
      to.clear(f.buffers[out_[1]], elements(keys * s_.width));
      to.clear(f.buffers[out_[2]], elements(keys * s_.value_width));
    }
    attention_scores<T> a{};
    a.s = s_, a.octave = octave_;
    a.mask = bool_mask_ ? reinterpret_cast<const bool*>(in(o_.mask)) : nullptr;
    a.bias = bool_mask_ ? nullptr : numbers(in(o_.mask));
    a.lengths = lengths;
    a.positions = reinterpret_cast<const std::int32_t*>(in(o_.positions));
    a.scores = numbers(take(step_ * s_.keys));
    if (Gradient) a.slopes = numbers(take(step_ * s_.keys)), a.inner = numbers(take(step_));

    for (std::int64_t at = 0, many; at < groups_ * rows_; at += many) {
      const std::int64_t end = step_ < rows_ ? (at / rows_ + 1) * rows_ : groups_ * rows_, group = at / rows_;
      many = end - at < step_ ? end - at : step_;
      part& with = parts_[many == step_ ? 0 : 1];
      const auto n = static_cast<std::size_t>(many), all = n * static_cast<std::size_t>(s_.keys);
      const auto moved = [](std::byte* x, std::int64_t by) { return x + elements(by); };
      std::byte* frame[slot_count]{};
      frame[q] = moved(in(0), at * s_.width);
      frame[k] = moved(key, group * s_.keys * s_.width);
      frame[v] = moved(value, group * s_.keys * s_.value_width);
      frame[scores] = reinterpret_cast<std::byte*>(a.scores);
      a.first = at;
      const kernel_context c{frame, nullptr, &to};
      with.products[0]->run(c);
      if constexpr (Gradient) {
        frame[y] = moved(in(o_.end), at * s_.value_width);
        frame[up] = moved(in(o_.end + 2), at * s_.value_width);
        frame[slopes] = reinterpret_cast<std::byte*>(a.slopes);
        frame[dq] = moved(f.buffers[out_[0]], at * s_.width);
        frame[dk] = moved(f.buffers[out_[1]], group * s_.keys * s_.width);
        frame[dv] = moved(f.buffers[out_[2]], group * s_.keys * s_.value_width);
        a.logs = numbers(in(o_.end + 1)) + at;
        with.products[1]->run(c);
        launch_each(to, "attention", row_products<T>{numbers(frame[up]), numbers(frame[y]), a.inner, s_.value_width},
                    n);
        launch_each(to, "attention", attention_slopes<T>{a}, all);
        for (int i = 2; i < 5; ++i) with.products[i]->run(c);
      } else {
        frame[y] = moved(f.buffers[out_[0]], at * s_.value_width);
        launch_each(to, "attention", attention_limit<T>{a}, all);
        std::byte* const logs = f.buffers[out_[1]];
        using body_type = softmax_body<softmax_kind::weights, T>;
        body_type body{};
        body.rows = static_cast<std::uint32_t>(many), body.columns = static_cast<std::uint32_t>(s_.keys);
        body.lanes_log = softmax_lanes_log(body.columns);
        body.x = body.y = a.scores;
        body.second = logs ? numbers(logs) + at : nullptr;
        const unsigned rows = 256u >> body.lanes_log;
        launch(to, function_of<body_type>("attention"), body, (body.rows + rows - 1) / rows);
        with.products[1]->run(c);
      }
    }
  }
  std::size_t workspace_bytes() const override {
    std::size_t bytes = aligned(step_ * s_.keys) * (Gradient ? 2 : 1) + aligned(step_);
    if (o_.lengths >= 0) bytes += aligned(groups_ * s_.keys * s_.width) + aligned(groups_ * s_.keys * s_.value_width);
    return bytes + used_by_libraries();
  }
  std::string describe() const override {
    return str_cat({Gradient ? "attention_gradient " : "attention ", s_.batch, "x", s_.heads, "x", s_.queries, "x",
                    s_.width, " of ", s_.keys, " keys",
                    parts_[0].products[0] ? ", by " + parts_[0].products[0]->describe() : std::string()});
  }

 private:
  struct part {
    owned<kernel> products[5];
  };

  static std::size_t elements(std::int64_t n) { return static_cast<std::size_t>(n) * sizeof(T); }
  static std::size_t aligned(std::int64_t n) { return (elements(n) + alignment - 1) / alignment * alignment; }
  /// The products use the beginning of the queue's workspace.
  std::size_t used_by_libraries() const {
    std::size_t most = 0;
    for (const part& x : parts_)
      for (const auto& one : x.products)
        if (one && one->workspace_bytes() > most) most = one->workspace_bytes();
    return (most + alignment - 1) / alignment * alignment;
  }
  void prepare(part& x, device& on, std::int64_t rows) {
    const std::int64_t g = rows > rows_ ? rows / rows_ : 1, r = rows / g, w = s_.width, n = s_.value_width, m = s_.keys;
    const bool add = step_ < rows_;
    const auto product = [&](slot a, const shape& of_a, slot b, const shape& of_b, slot c, const shape& of_c,
                             bool transpose_a, bool transpose_b, double factor, bool accumulate) {
      node_def node;
      node.op = &operation_of<matmul_op<T>>;
      node.attributes = words_of(weft::detail::matmul_attributes{transpose_a, transpose_b});
      const value_info in[] = {{dtype_of<T>, of_a}, {dtype_of<T>, of_b}}, out{dtype_of<T>, of_c};
      const std::uint32_t slots[] = {a, b}, result = c;
      return owned<kernel>(make_product<T>({node, in, &out, slots, &result}, {result, factor, accumulate}, on));
    };
    const shape query(g, r, w), key(g, m, w), value(g, m, n), result(g, r, n), all(g, r, m);
    x.products[0] = product(q, query, k, key, scores, all, false, true, s_.scale, false);
    if constexpr (Gradient) {
      x.products[1] = product(up, result, v, value, slopes, all, false, true, 1, false);
      x.products[2] = product(slopes, all, k, key, dq, query, false, false, 1, false);
      x.products[3] = product(slopes, all, q, query, dk, key, true, false, 1, add);
      x.products[4] = product(scores, all, up, result, dv, value, true, false, 1, add);
    } else {
      x.products[1] = product(scores, all, v, value, y, result, false, false, 1, false);
    }
  }

  weft::device::attention_problem s_;
  weft::detail::attention_operands o_;
  std::int64_t groups_, rows_, step_ = 0;  ///< queries of a slice
  double octave_ = 0;
  std::uint32_t in_[9]{}, out_[3]{};
  bool bool_mask_;
  part parts_[2];
};

template <class T, bool Gradient>
kernel* prepare_attention(const prepare_context& p, device& on) {
  const auto a = attributes_of<attention_op<T>>(p.node);
  return new attention_slices<T, Gradient>(p, on, weft::detail::attention_problem_of(p, a), a.operands());
}

}  // namespace detail

template <class T>
struct kernels<attention_op<T>> : installed<attention_op<T>, detail::prepare_attention<T, false>>,
                                  installed<attention_gradient_op<T>, detail::prepare_attention<T, true>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
