// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/combine_rows.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/check_extents.hpp>

/// CPU kernels that gather rows by index, and write rows by index.
WEFT_COLD_BEGIN
namespace weft {

/// Which indices an operation accepts. A kernel for GPUs skips all that are out of range.
enum class index_rule : unsigned char {
  in_range,      ///< those of rows
  not_negative,  ///< those of rows; negative ones are skipped
  any,           ///< all; those out of range are skipped
  ascending,     ///< those of rows, in ascending order
};

/// x and the indices share their first `batch_dims` axes and, if `per_element`, the axes after the axis as well.
struct batch_gather_attributes {
  attribute<std::size_t> axis, batch_dims;
  attribute<bool> per_element = false;
  attribute<index_rule> rule = index_rule::in_range;
  attribute<std::size_t> depth = 1;  ///< the axes that an index vector covers, beginning with `axis`
};

namespace detail {

/// Indices, or vectors of indices along several axes, 32 or 64 bits wide.
struct row_indices {
  const std::byte* at;
  bool wide;
  const shape* axes = nullptr;  ///< the extents of the indexed axes; null for one axis

  /// Returns the row of index or vector k among the rows of all indexed axes; -1 if a vector is out of range.
  std::int64_t operator[](std::size_t k) const {
    if (!axes) return device::index_at(at, wide, k);
    std::int64_t row = 0;
    for (std::size_t j = 0; j < axes->rank; ++j) {
      const std::int64_t i = device::index_at(at, wide, k * axes->rank + j);
      if (i < 0 || i >= (*axes)[j]) return -1;
      row = row * (*axes)[j] + i;
    }
    return row;
  }
};

/// Throws out_of_range if the rule does not permit an index, and invalid_argument if indices that must ascend do not.
/// Returns true if the indices ascend.
inline bool check_row_indices(const row_indices& indices, std::size_t count, std::size_t rows,
                              const char* operation = "gather", index_rule rule = index_rule::in_range) {
  const auto end = static_cast<std::int64_t>(rows);
  bool ascend = true, fits = count == 0 || rule == index_rule::any;
  if (count > 0 && !indices.axes) {
    const auto check = [&](const auto& range) {
      fits = fits || ((range.low >= 0 || rule == index_rule::not_negative) && range.high < end);
      ascend = range.ascend;
    };
    if (indices.wide)
      check(device::index_range<std::int64_t>::of(reinterpret_cast<const std::int64_t*>(indices.at), count));
    else
      check(device::index_range<std::int32_t>::of(reinterpret_cast<const std::int32_t*>(indices.at), count));
  } else {
    ascend = count == 0;
  }
  for (std::size_t k = 0; !fits && k < count; ++k) {
    const std::int64_t i = indices[k];
    if (i < 0 ? rule == index_rule::not_negative : i < end) continue;
    if (indices.axes)
      throw error(error_code::out_of_range, operation,
                  {"index vector ", k, " is out of range: its indices must be less than ", to_string(*indices.axes),
                   " and not negative"});
    throw error(
        error_code::out_of_range, operation,
        {"indices must be in [0, ", rows, "), but indices[", k, "] is ", i, ": clamp the indices or use more rows"});
  }
  if (rule == index_rule::ascending && !ascend)
    throw error(error_code::invalid_argument, operation,
                "the segment ids must ascend: sort them, or use the unsorted form, such as unsorted_segment_sum");
  return ascend;
}

/// The mapping from rows of x to lists of indices: one list for each `sharing` outer positions, with an index for a
/// whole row or for each of its elements.
struct index_lists {
  std::size_t count, sharing;
  bool per_element = false;
  shape axes = {};  ///< the extents of the indexed axes if these are several
  index_rule rule = index_rule::in_range;

  /// One list for all rows.
  index_lists(const axis_rows& rows, const shape& indices) : count(indices.elements()), sharing(rows.outer) {}
  /// A list for each position along the first axes.
  index_lists(const shape& x, const shape& indices, const batch_gather_attributes& a)
      : count(1), sharing(1), per_element(a.per_element), rule(a.rule) {
    for (std::size_t i = a.batch_dims; i < a.axis; ++i) sharing *= static_cast<std::size_t>(x[i]);
    const std::size_t end = per_element ? a.axis + 1 : indices.rank - (a.depth > 1);
    for (std::size_t i = a.batch_dims; i < end; ++i) count *= static_cast<std::size_t>(indices[i]);
    for (std::size_t j = 0; a.depth > 1 && j < a.depth; ++j) axes.push_back(x[a.axis + j]);
  }
  row_indices indices(const std::byte* at, bool wide) const { return {at, wide, axes.rank > 0 ? &axes : nullptr}; }
  /// Returns the number of indices, or of vectors of indices, in all lists.
  std::size_t all(const shape& indices) const { return indices.elements() / (axes.rank > 0 ? axes.rank : 1); }
};

/// Gathers rows along axes that are indexed, one for each index. An index that the rule skips yields zeros.
template <class T>
class gathered_rows_kernel final : public kernel {
 public:
  gathered_rows_kernel(const prepare_context& p, const axis_rows& rows, const index_lists& lists, const char* operation)
      : in_(p.input_slots[0]),
        indices_(p.input_slots[1]),
        out_(p.output_slots[0]),
        name_(p.node.op->name),
        operation_(operation),
        wide_(p.inputs[1].type == dtype::int64),
        rows_(rows),
        lists_(lists),
        all_indices_(lists.all(p.inputs[1].extents)),
        chunks_(rows.outer * lists.count, rows.outer * rows.inner * lists.count, 65536) {}

  void run(const kernel_context& f) override {
    const T* const x = reinterpret_cast<const T*>(f.buffers[in_]);
    T* const y = reinterpret_cast<T*>(f.buffers[out_]);
    const row_indices indices = lists_.indices(f.buffers[indices_], wide_);
    check_row_indices(indices, all_indices_, rows_.extent, operation_, lists_.rule);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) { gather(x, indices, y, begin, end); });
  }
  std::string describe() const override { return str_cat({name_, " ", lists_.count, " of ", rows_.extent, " rows"}); }

 private:
  void gather(const T* x, const row_indices& indices, T* y, std::size_t begin, std::size_t end) const {
    const std::size_t inner = rows_.inner, count = lists_.count;
    for (std::size_t i = begin; i < end;) {
      const std::size_t outer = i / count, list = outer / lists_.sharing * count;
      const std::size_t first = outer * count, last = end < first + count ? end : first + count;
      const T* const rows = x + outer * rows_.extent * inner;
      if (!lists_.per_element) {
        for (; i < last; ++i)
          if (const auto row = static_cast<std::size_t>(indices[list + i - first]); row < rows_.extent)
            __builtin_memcpy(y + i * inner, rows + row * inner, inner * sizeof(T));
          else
            for (std::size_t c = 0; c < inner; ++c) y[i * inner + c] = T();
        continue;
      }
      for (; i < last; ++i)
        for (std::size_t c = 0; c < inner; ++c)
          y[i * inner + c] = rows[static_cast<std::size_t>(indices[(list + i - first) * inner + c]) * inner + c];
    }
  }

  std::uint32_t in_, indices_, out_;
  const char *name_, *operation_;
  bool wide_;
  axis_rows rows_;
  index_lists lists_;
  std::size_t all_indices_;
  device::chunks chunks_;
};

/// Combines rows with the rows at their indices: the transpose of a gather if it adds to zeros. Starts from the third
/// input or, without it, from the number that changes nothing. Each chunk writes different rows of the result, and
/// combines them in the order of the indices, so the bits do not depend on the division.
template <class T, combine How>
class written_rows_kernel final : public kernel {
 public:
  written_rows_kernel(const prepare_context& p, const axis_rows& rows, const index_lists& lists, const char* operation)
      : in_(p.input_slots[0]),
        indices_(p.input_slots[1]),
        before_(p.input_slots[p.node.inputs.size() - 1]),
        out_(p.output_slots[0]),
        has_before_(p.node.inputs.size() > 2),
        name_(p.node.op->name),
        operation_(operation),
        wide_(p.inputs[1].type == dtype::int64),
        rows_(rows),
        lists_(lists),
        all_indices_(lists.all(p.inputs[1].extents)),
        chunks_(rows.outer * rows.extent, rows.outer * rows.inner * (rows.extent + lists.count), 65536) {
    // Integers are the same in any order. Each part has its own sums, which must take little memory.
    constexpr std::size_t most = 8;
    if (!std::is_integral_v<T> || How != combine::add || rows.outer * rows.inner != 1 || lists.axes.rank > 0) return;
    parts_ = {lists.count, lists.count, 65536};
    for (const std::size_t fit : {most, lists.count / (2 * rows.extent + 1)})
      if (parts_.count > fit) parts_.count = fit;
  }
  std::size_t workspace_bytes() const override { return parts_.count < 2 ? 0 : parts_.count * part_bytes(); }

  void run(const kernel_context& f) override {
    const row_indices indices = lists_.indices(f.buffers[indices_], wide_);
    const bool in_parts = parts_.count > 1;
    const bool ascend = (!in_parts || lists_.rule != index_rule::any) &&
                        check_row_indices(indices, all_indices_, rows_.extent, operation_, lists_.rule) &&
                        lists_.count == all_indices_ && !lists_.per_element;
    if constexpr (std::is_integral_v<T> && How == combine::add)
      if (in_parts && !ascend) return add_in_parts(f);
    device::chunks chunks = chunks_;
    if (!ascend) {  // each chunk reads all indices
      const std::size_t most = 2 * static_cast<std::size_t>(f.threads->size());
      if (chunks.count > most) chunks.count = most;
    }
    chunks.run(f, [&](std::size_t, std::size_t begin, std::size_t end) { write(f, indices, ascend, begin, end); });
  }
  std::string describe() const override { return str_cat({name_, " ", lists_.count, " of ", rows_.extent, " rows"}); }

 private:
  std::size_t part_bytes() const { return (rows_.extent * sizeof(T) + 63) / 64 * 64; }

  void add_in_parts(const kernel_context& f) const {
    const T* const x = reinterpret_cast<const T*>(f.buffers[in_]);
    T* const y = reinterpret_cast<T*>(f.buffers[out_]);
    const auto sums_of = [&](std::size_t part) { return reinterpret_cast<T*>(f.workspace + part * part_bytes()); };
    const auto add = [&](const auto* indices) {
      parts_.run(f, [&](std::size_t part, std::size_t begin, std::size_t end) {
        T* const sums = sums_of(part);
        __builtin_memset(static_cast<void*>(sums), 0, part_bytes());
        for (std::size_t k = begin; k < end; ++k)
          if (const auto row = static_cast<std::size_t>(indices[k]); row < rows_.extent)
            sums[row] = device::combined<How>(sums[row], x[k]);
      });
    };
    if (wide_)
      add(reinterpret_cast<const std::int64_t*>(f.buffers[indices_]));
    else
      add(reinterpret_cast<const std::int32_t*>(f.buffers[indices_]));
    for (std::size_t i = 0; i < rows_.extent; ++i)
      y[i] = has_before_ ? reinterpret_cast<const T*>(f.buffers[before_])[i] : T();
    for (std::size_t part = 0; part < parts_.count; ++part) {
      const T* const sums = sums_of(part);
      for (std::size_t i = 0; i < rows_.extent; ++i) y[i] = device::combined<How>(y[i], sums[i]);
    }
  }

  void write(const kernel_context& f, const row_indices& indices, bool ascend, std::size_t begin,
             std::size_t end) const {
    const T* const x = reinterpret_cast<const T*>(f.buffers[in_]);
    T* const y = reinterpret_cast<T*>(f.buffers[out_]);
    const std::size_t inner = rows_.inner;
    if (has_before_) {
      if (f.buffers[before_] != f.buffers[out_])  // a variable is written in place
        __builtin_memcpy(static_cast<void*>(y + begin * inner), f.buffers[before_] + begin * inner * sizeof(T),
                         (end - begin) * inner * sizeof(T));
    } else if (How == combine::add || How == combine::update) {
      __builtin_memset(static_cast<void*>(y + begin * inner), 0, (end - begin) * inner * sizeof(T));
    } else {
      // TensorFlow's sorted segments begin with infinity, the others with a finite number.
      const T start = device::start_of<T>(How, lists_.rule == index_rule::ascending);
      for (std::size_t i = begin * inner; i < end * inner; ++i) y[i] = start;
    }
    const std::size_t width = lists_.per_element ? 1 : inner, across = lists_.per_element ? inner : 1;
    device::rows_to_combine<T, How> found{x, y, width, ascend};
    for (std::size_t outer = begin / rows_.extent; end > outer * rows_.extent; ++outer) {
      const std::size_t list = outer / lists_.sharing * lists_.count, above = outer * rows_.extent;
      const std::size_t low = begin > above ? begin - above : 0;
      const std::size_t high = end - above < rows_.extent ? end - above : rows_.extent;
      std::size_t k = ascend ? first_from(indices, low) : 0;
      const std::size_t last = ascend ? first_from(indices, high) : lists_.count;
      for (; k < last; ++k)
        for (std::size_t c = 0; c < across; ++c) {
          const auto row = static_cast<std::size_t>(indices[(list + k) * across + c]);
          found.from[found.count] = (outer * lists_.count + k) * inner + c;
          found.to[found.count] = (above + row) * inner + c;
          found.count += row >= low && row < high;
          if (found.count == found.most) found.flush();
        }
    }
    found.flush();
  }
  /// Returns the first of ascending indices that is not less than `row`.
  std::size_t first_from(const row_indices& indices, std::size_t row) const {
    std::size_t low = 0, high = lists_.count;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (indices[middle] < static_cast<std::int64_t>(row))
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  std::uint32_t in_, indices_, before_, out_;
  bool has_before_;
  const char *name_, *operation_;
  bool wide_;
  axis_rows rows_;
  index_lists lists_;
  std::size_t all_indices_;
  device::chunks chunks_, parts_;
};

}  // namespace detail
}  // namespace weft
WEFT_COLD_END
