// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/device/attention.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>
#include <weft/device/cpu/matmul_reference.hpp>
#include <weft/device/cpu/matrices.hpp>
#include <weft/device/cpu/vector_loops.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernels of attention, by tiles (Dao, FlashAttention-2, ICLR 2024). A tile of scores has a row for each key and a
/// column for each query, so that maxima and sums over keys are vectors, and all products read their operands in place.
namespace weft::detail {

/// The operands of a call by their positions: -1 for those that are not given.
struct attention_operands {
  int mask, lengths, positions, end;
};

/// A block of queries that share keys, and its tile of scores.
template <class T>
struct attention_tile {
  static constexpr std::size_t most_queries = 64, most_keys = 128;

  const device::attention_problem* s;
  const T* bias;
  const bool* mask;
  T *queries, *scores;  // [width, lanes] and [keys_at_once(), lanes]
  std::size_t group, first, count, lanes;
  std::int64_t begin, end, all_begin, all_end;  // the keys to which any query attends, and those to which all do
  std::int32_t low[most_queries], high[most_queries];
  std::int64_t from[most_queries];
  T slope[most_queries], place[most_queries];

  /// Begins with the queries from `row`: at most so many. A tile for one query has one lane.
  void start(std::size_t of_group, std::size_t row, std::size_t most, const std::int32_t* lengths,
             const std::int32_t* positions) {
    group = of_group, first = row;
    count = least(most, static_cast<std::size_t>(s->rows()) - row);
    const std::size_t width = most == 1 ? 1 : matmul_width<T>(detected_isa());
    lanes = (count + width - 1) / width * width;
    begin = all_end = s->keys, end = all_begin = 0;
    for (std::size_t i = 0; i < lanes; ++i) {
      const auto b = static_cast<std::int64_t>(group) / s->kv_heads;
      const auto at = static_cast<std::int64_t>(first + least(i, count - 1));
      const std::int64_t head = s->head(static_cast<std::int64_t>(group), at), query = at % s->queries;
      const std::int64_t p = s->place(b, query, positions);
      const auto [low_key, high_key] = s->attended(b, p, lengths);
      if (low_key < begin) begin = low_key;
      if (high_key > end) end = high_key;
      if (low_key > all_begin) all_begin = low_key;
      if (high_key < all_end) all_end = high_key;
      low[i] = static_cast<std::int32_t>(low_key), high[i] = static_cast<std::int32_t>(high_key);
      from[i] = s->mask_at(b, head, query);
      slope[i] = static_cast<T>(s->slope(head)), place[i] = static_cast<T>(p);
    }
  }

  /// Copies rows [count, n] to columns [n, lanes], followed by zeros.
  void transpose(const T* rows, std::size_t n, T* to) const {
    if (count < lanes) __builtin_memset(to, 0, n * lanes * sizeof(T));
    transpose_elements(count, n, rows, n, to, lanes);
  }

  /// Computes the scores of n keys from `key`; those of keys to which a query does not attend are -infinity.
  void score(const T* keys, std::size_t key, std::size_t n) {
    const auto width = static_cast<std::size_t>(s->width);
    const T *const from_key = keys + key * width, factor = static_cast<T>(s->scale);
    using library::reference;
    if (lanes == 1)
      reference::matmul(matmul_shape{1, n, width, false, true}, factor, queries, width, from_key, width, T(0), scores,
                        n);
    else
      reference::matmul(matmul_shape{n, lanes, width}, factor, from_key, width, queries, lanes, T(0), scores, lanes);
    constexpr T never = -std::numeric_limits<T>::infinity();
    const std::int64_t step = s->mask_steps[3], k = static_cast<std::int64_t>(key);
    if (bias)
      for (std::size_t i = 0; i < lanes; ++i)
        for (std::size_t j = 0; j < n; ++j)
          scores[j * lanes + i] += bias[from[i] + (k + static_cast<std::int64_t>(j)) * step];
    if (mask)
      for (std::size_t i = 0; i < lanes; ++i)
        for (std::size_t j = 0; j < n; ++j)
          if (!mask[from[i] + (k + static_cast<std::int64_t>(j)) * step]) scores[j * lanes + i] = never;
    if (s->alibi)
      multiversioned([=, this] {
        for (std::size_t j = 0; j < n; ++j) {
          const T at = static_cast<T>(key + j);
          WEFT_VECTORIZE
          for (std::size_t i = 0; i < lanes; ++i) {
            const T far = place[i] - at;
            scores[j * lanes + i] -= slope[i] * (far < 0 ? -far : far);
          }
        }
      });
    if (k >= all_begin && k + static_cast<std::int64_t>(n) <= all_end) return;
    multiversioned([=, this] {
      for (std::size_t j = 0; j < n; ++j) {
        const auto at = static_cast<std::int32_t>(key + j);
        WEFT_VECTORIZE
        for (std::size_t i = 0; i < lanes; ++i)
          scores[j * lanes + i] = ((at < low[i]) | (at >= high[i])) ? never : scores[j * lanes + i];
      }
    });
  }

  std::size_t keys_at_once() const { return lanes == 1 ? most_keys * most_queries : most_keys; }
  static constexpr std::size_t elements(std::size_t width) { return (width + most_keys) * most_queries; }
};

/// The base of the kernels of attention and of its gradient: their operands and extents.
template <class T>
class attention_base : public kernel {
 public:
  attention_base(const prepare_context& p, const device::attention_problem& s, const attention_operands& o)
      : s_(s), operands_(o) {
    for (std::size_t i = 0; i < p.node.inputs.size(); ++i) in_[i] = p.input_slots[i];
    for (std::size_t i = 0; i < p.node.outputs.size(); ++i) out_[i] = p.output_slots[i];
    bool_mask_ = o.mask >= 0 && p.inputs[o.mask].type == dtype::boolean;
  }

 protected:
  template <class X>
  const X* input(const kernel_context& f, int i) const {
    return i < 0 ? nullptr : reinterpret_cast<const X*>(f.buffers[in_[i]]);
  }
  T* output(const kernel_context& f, int i) const { return reinterpret_cast<T*>(f.buffers[out_[i]]); }
  /// Throws out_of_range if a length is not 0 to keys.
  void check_lengths(const kernel_context& f) const {
    const auto* const lengths = input<std::int32_t>(f, operands_.lengths);
    for (std::int64_t i = 0; lengths && i < s_.batch; ++i)
      if (lengths[i] < 0 || lengths[i] > s_.keys)
        throw error(
            error_code::out_of_range, "attention",
            {"the length of sequence ", i, " must be 0 to ", s_.keys, ", the number of keys; it is ", lengths[i]});
  }
  attention_tile<T> tile(const kernel_context& f, T* memory) const {
    attention_tile<T> t;
    t.s = &s_;
    t.bias = bool_mask_ ? nullptr : input<T>(f, operands_.mask);
    t.mask = bool_mask_ ? input<bool>(f, operands_.mask) : nullptr;
    t.scores = memory;
    t.queries = memory + t.most_keys * t.most_queries;
    return t;
  }
  void start(attention_tile<T>& t, const kernel_context& f, std::size_t group, std::size_t row,
             std::size_t most = attention_tile<T>::most_queries) const {
    t.start(group, row, most, input<std::int32_t>(f, operands_.lengths), input<std::int32_t>(f, operands_.positions));
    t.transpose(input<T>(f, 0) + place(group, row) * width(), width(), t.queries);
  }
  std::size_t width() const { return static_cast<std::size_t>(s_.width); }
  std::size_t value_width() const { return static_cast<std::size_t>(s_.value_width); }
  std::size_t keys() const { return static_cast<std::size_t>(s_.keys); }
  std::size_t rows() const { return static_cast<std::size_t>(s_.rows()); }
  std::size_t groups() const { return static_cast<std::size_t>(s_.groups()); }
  std::size_t place(std::size_t group, std::size_t row) const { return group * rows() + row; }
  std::string text(const char* name) const {
    return str_cat({name, " ", s_.batch, "x", s_.heads, "x", s_.queries, "x", s_.width, " of ", s_.keys, " keys"});
  }

  device::attention_problem s_;
  attention_operands operands_;

 private:
  std::uint32_t in_[9]{}, out_[3]{};
  bool bool_mask_;
};

/// Outputs: the result and, for each query, the logarithm of its sum of exponentials, infinity if it attends to no key.
template <class T>
class attention_kernel final : public attention_base<T> {
  using base = attention_base<T>;
  using base::s_, base::width, base::value_width, base::keys, base::rows, base::groups, base::place;

 public:
  using base::base;

  void run(const kernel_context& f) override {
    base::check_lengths(f);
    const std::size_t block = rows() <= 4 ? 1 : attention_tile<T>::most_queries;
    const std::size_t blocks = (rows() + block - 1) / block;
    f.threads->parallel_for(groups() * blocks, [&](std::size_t i) {
      static thread_local matmul_scratch scratch;
      T* const memory = static_cast<T*>(scratch.reserve(attention_tile<T>::elements(width()) * sizeof(T)));
      auto tile = base::tile(f, memory);
      base::start(tile, f, i / blocks, i % blocks * block, block);
      attend(f, tile);
    });
  }
  std::string describe() const override { return base::text("attention"); }

 private:
  void attend(const kernel_context& f, attention_tile<T>& t) const {
    constexpr std::size_t most = attention_tile<T>::most_queries;
    const std::size_t n = value_width(), lanes = t.lanes;
    const T* const k = base::template input<T>(f, 1) + t.group * keys() * width();
    const T* const v = base::template input<T>(f, 2) + t.group * keys() * n;
    T* const y = base::output(f, 0) + place(t.group, t.first) * n;
    T largest[most], total[most], factor[most];
    for (std::size_t i = 0; i < most; ++i) largest[i] = std::numeric_limits<T>::lowest(), total[i] = 0;
    bool first = true;
    for (std::size_t at = static_cast<std::size_t>(t.begin), end = static_cast<std::size_t>(t.end), many; at < end;
         at += many) {
      many = least(t.keys_at_once(), end - at);
      t.score(k, at, many);
      exponentials(t.scores, many, lanes, largest, total, factor);
      if (!first) scale(y, n, factor, t.count);
      library::reference::matmul(matmul_shape{t.count, n, many, true}, T(1), t.scores, lanes, v + at * n, n,
                                 first ? T(0) : T(1), y, n);
      first = false;
    }
    for (std::size_t i = 0; i < t.count; ++i) factor[i] = total[i] == 0 ? T(0) : T(1) / total[i];
    if (first)
      for (std::size_t i = 0; i < t.count * n; ++i) y[i] = 0;
    else
      scale(y, n, factor, t.count);
    T* const logs = base::output(f, 1);
    for (std::size_t i = 0; logs && i < t.count; ++i)
      logs[place(t.group, t.first + i)] =
          total[i] == 0 ? std::numeric_limits<T>::infinity() : largest[i] + math::log(total[i]);
  }

  /// Replaces scores by exp(score - largest), and updates the maxima and sums; `factor` is what the change of a maximum
  /// multiplies earlier sums by. The scores of one query are divided among many lanes.
  static void exponentials(T* scores, std::size_t n, std::size_t lanes, T* largest, T* total, T* factor) {
    constexpr std::size_t all = attention_tile<T>::most_queries;
    const bool one = lanes == 1;
    for (; one && n % all != 0; ++n) scores[n] = -std::numeric_limits<T>::infinity();
    if (one) lanes = all, n /= all;
    multiversioned([=] {
      T most[all], sum[all];
      WEFT_VECTORIZE
      for (std::size_t i = 0; i < lanes; ++i) most[i] = largest[one ? 0 : i], sum[i] = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const T* const x = scores + j * lanes;
        WEFT_VECTORIZE
        for (std::size_t i = 0; i < lanes; ++i) most[i] = x[i] > most[i] ? x[i] : most[i];
      }
      for (std::size_t i = 1; one && i < all; ++i) most[0] = most[i] > most[0] ? most[i] : most[0];
      for (std::size_t i = 1; one && i < all; ++i) most[i] = most[0];
      for (std::size_t j = 0; j < n; ++j) {
        T* const x = scores + j * lanes;
        WEFT_VECTORIZE
        for (std::size_t i = 0; i < lanes; ++i) {
          const T e = math::exp(x[i] - most[i]);
          x[i] = e;
          sum[i] += e;
        }
      }
      for (std::size_t i = 1; one && i < all; ++i) sum[0] += sum[i];
      const std::size_t queries = one ? 1 : lanes;
      WEFT_VECTORIZE
      for (std::size_t i = 0; i < queries; ++i) {
        factor[i] = math::exp(largest[i] - most[i]);
        total[i] = total[i] * factor[i] + sum[i];
        largest[i] = most[i];
      }
    });
  }
  static void scale(T* y, std::size_t n, const T* factor, std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i)
      if (factor[i] != 1) weft::detail::scale(y + i * n, n, factor[i]);
  }
};

/// Further inputs: the result, its logarithms and the upstream gradient. Outputs: the gradients of queries, keys and
/// values. Each thread adds to the gradients of different keys; if there are few heads, their keys are divided, and
/// each part has its own gradient of the queries, so that the bits do not depend on the threads.
template <class T>
class attention_gradient_kernel final : public attention_base<T> {
  using base = attention_base<T>;
  using base::s_, base::width, base::value_width, base::keys, base::rows, base::groups, base::place;

 public:
  attention_gradient_kernel(const prepare_context& p, const device::attention_problem& s, const attention_operands& o)
      : base(p, s, o) {
    constexpr std::size_t enough = 16;
    const std::size_t most = (keys() + 2 * tile_keys - 1) / (2 * tile_keys);
    if (groups() > 0 && groups() < enough / 2) parts_ = least((enough + groups() - 1) / groups(), most);
    if (parts_ == 0) parts_ = 1;
  }

  void run(const kernel_context& f) override {
    T* const dq = base::output(f, 0);
    const std::size_t elements = groups() * rows() * width();
    T* const results = parts_ == 1 ? dq : reinterpret_cast<T*>(f.workspace);
    f.threads->parallel_for(groups() * parts_, [&](std::size_t i) {
      const std::size_t part = i % parts_, per = (keys() + parts_ * tile_keys - 1) / (parts_ * tile_keys) * tile_keys;
      const std::size_t begin = least(part * per, keys());
      run_part(f, i / parts_, begin, least(begin + per, keys()), results + part * elements);
    });
    if (parts_ > 1)
      device::chunks(elements, elements).run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
        detail::add(dq + begin, results + begin, results + elements + begin, end - begin);
        for (std::size_t part = 2; part < parts_; ++part)
          detail::accumulate(dq + begin, results + part * elements + begin, end - begin);
      });
  }
  std::size_t workspace_bytes() const override {
    return parts_ == 1 ? 0 : parts_ * groups() * rows() * width() * sizeof(T);
  }
  std::string describe() const override { return base::text("attention_gradient"); }

 private:
  static constexpr std::size_t tile_keys = attention_tile<T>::most_keys, block = attention_tile<T>::most_queries;

  void run_part(const kernel_context& f, std::size_t group, std::size_t begin, std::size_t end, T* dq) const {
    static thread_local matmul_scratch scratch;
    const std::size_t w = width(), n = value_width(), used = attention_tile<T>::elements(w);
    T* const memory = static_cast<T*>(scratch.reserve((used + (tile_keys + n) * block) * sizeof(T)));
    T *const slopes = memory + used, *const upstream = slopes + tile_keys * block;
    const T *const q = base::template input<T>(f, 0) + place(group, 0) * w, *const up =
                                                                                further(f, 2) + place(group, 0) * n;
    const T *const y = further(f, 0) + place(group, 0) * n, *const logs = further(f, 1) + place(group, 0);
    const T* const k = base::template input<T>(f, 1) + group * keys() * w;
    const T* const v = base::template input<T>(f, 2) + group * keys() * n;
    T *const dk = base::output(f, 1) + group * keys() * w, *const dv = base::output(f, 2) + group * keys() * n;
    for (std::size_t i = begin * w; i < end * w; ++i) dk[i] = 0;
    for (std::size_t i = begin * n; i < end * n; ++i) dv[i] = 0;
    dq += place(group, 0) * w;
    auto t = base::tile(f, memory);
    for (std::size_t row = 0; row < rows(); row += block) {
      base::start(t, f, group, row);
      const std::size_t lanes = t.lanes, at_first = static_cast<std::size_t>(t.begin) > begin
                                                        ? static_cast<std::size_t>(t.begin)
                                                        : begin;
      const std::size_t at_end = least(static_cast<std::size_t>(t.end), end);
      T* const to = dq + row * w;
      for (std::size_t i = 0; at_first >= at_end && i < t.count * w; ++i) to[i] = 0;
      if (at_first >= at_end) continue;
      t.transpose(up + row * n, n, upstream);
      T log[block], inner[block];
      for (std::size_t i = 0; i < lanes; ++i) {
        log[i] = i < t.count ? logs[row + i] : std::numeric_limits<T>::infinity();
        inner[i] = 0;
        for (std::size_t d = 0; i < t.count && d < n; ++d) inner[i] += up[(row + i) * n + d] * y[(row + i) * n + d];
      }
      for (std::size_t at = at_first, many; at < at_end; at += many) {
        many = least(tile_keys, at_end - at);
        using library::reference;
        t.score(k, at, many);
        reference::matmul(matmul_shape{many, lanes, n}, T(1), v + at * n, n, upstream, lanes, T(0), slopes, lanes);
        differentiate(t.scores, slopes, many, lanes, log, inner, static_cast<T>(s_.scale));
        reference::matmul(matmul_shape{many, n, t.count}, T(1), t.scores, lanes, up + row * n, n, T(1), dv + at * n, n);
        reference::matmul(matmul_shape{many, w, t.count}, T(1), slopes, lanes, q + row * w, w, T(1), dk + at * w, w);
        reference::matmul(matmul_shape{t.count, w, many, true}, T(1), slopes, lanes, k + at * w, w,
                          at == at_first ? T(0) : T(1), to, w);
      }
    }
  }
  /// Replaces scores by weights, and the gradients of weights by those of scores.
  static void differentiate(T* scores, T* slopes, std::size_t n, std::size_t lanes, const T* log, const T* inner,
                            T scale) {
    multiversioned([=] {
      for (std::size_t j = 0; j < n; ++j) {
        T *const x = scores + j * lanes, *const d = slopes + j * lanes;
        WEFT_VECTORIZE
        for (std::size_t i = 0; i < lanes; ++i) {
          const T weight = math::exp(x[i] - log[i]);
          x[i] = weight;
          d[i] = weight * (d[i] - inner[i]) * scale;
        }
      }
    });
  }
  const T* further(const kernel_context& f, int i) const { return base::template input<T>(f, base::operands_.end + i); }

  std::size_t parts_ = 1;
};

}  // namespace weft::detail
