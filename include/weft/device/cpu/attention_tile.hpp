// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <weft/device/attention.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>
#include <weft/device/cpu/matmul_reference.hpp>
#include <weft/device/cpu/transpose_elements.hpp>
#include <weft/device/cpu/vector_loops.hpp>

/// Attention by tiles (Dao, FlashAttention-2, ICLR 2024). A tile of scores has a row for each key and a column for each
/// query, so that maxima and sums over keys are vectors, and all products read their operands in place.
namespace weft::detail {

/// A block of queries that share keys, and its tile of scores.
template <class T>
struct attention_tile {
  static constexpr std::size_t most_queries = 64, most_keys = 128;

  const device::attention_problem* s;
  const T* bias;
  const bool* mask;
  T *queries, *scores;  // [width, lanes] and [keys_at_once(), lanes]
  T* packed = nullptr;  // memory for packed products; null for the thread's own
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
                        n, packed);
    else
      reference::matmul(matmul_shape{n, lanes, width}, factor, from_key, width, queries, lanes, T(0), scores, lanes,
                        packed);
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

/// An attention: the operands that are not given are null.
template <class T>
struct attention_call {
  const device::attention_problem& s;
  const T *queries, *keys, *values, *bias;
  const bool* mask;
  const std::int32_t *lengths, *positions;
  T *result, *logs;

  /// The number of blocks of queries.
  std::size_t blocks() const { return static_cast<std::size_t>(s.groups()) * blocks_of_group(); }
  /// Computes one block. `memory`: attention_tile<T>::elements(width) elements.
  void run(std::size_t i, T* memory, T* packed = nullptr) const {
    attention_tile<T> t = tile(memory);
    t.packed = packed;
    start(t, i / blocks_of_group(), i % blocks_of_group() * queries_of_block(), queries_of_block());
    attend(t);
  }
  attention_tile<T> tile(T* memory) const {
    attention_tile<T> t;
    t.s = &s;
    t.bias = bias;
    t.mask = mask;
    t.scores = memory;
    t.queries = memory + t.most_keys * t.most_queries;
    return t;
  }
  void start(attention_tile<T>& t, std::size_t group, std::size_t row, std::size_t most) const {
    const auto width = static_cast<std::size_t>(s.width), rows = static_cast<std::size_t>(s.rows());
    t.start(group, row, most, lengths, positions);
    t.transpose(queries + (group * rows + row) * width, width, t.queries);
  }

 private:
  std::size_t queries_of_block() const { return s.rows() <= 4 ? 1 : attention_tile<T>::most_queries; }
  std::size_t blocks_of_group() const {
    return (static_cast<std::size_t>(s.rows()) + queries_of_block() - 1) / queries_of_block();
  }

  void attend(attention_tile<T>& t) const {
    constexpr std::size_t most = attention_tile<T>::most_queries;
    const auto n = static_cast<std::size_t>(s.value_width), lanes = t.lanes;
    const auto all_keys = static_cast<std::size_t>(s.keys), width = static_cast<std::size_t>(s.width);
    const T* const k = keys + t.group * all_keys * width;
    const T* const v = values + t.group * all_keys * n;
    const std::size_t place = t.group * static_cast<std::size_t>(s.rows()) + t.first;
    T* const y = result + place * n;
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
                                 first ? T(0) : T(1), y, n, t.packed);
      first = false;
    }
    for (std::size_t i = 0; i < t.count; ++i) factor[i] = total[i] == 0 ? T(0) : T(1) / total[i];
    if (first)
      for (std::size_t i = 0; i < t.count * n; ++i) y[i] = 0;
    else
      scale(y, n, factor, t.count);
    for (std::size_t i = 0; logs && i < t.count; ++i)
      logs[place + i] = total[i] == 0 ? std::numeric_limits<T>::infinity() : largest[i] + math::log(total[i]);
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
      const std::size_t columns = one ? 1 : lanes;
      WEFT_VECTORIZE
      for (std::size_t i = 0; i < columns; ++i) {
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

}  // namespace weft::detail
