// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernels that gather and scatter rows by index.
WEFT_COLD_BEGIN
namespace weft::detail {

/// The indices of rows, 32 or 64 bits wide.
struct row_indices {
  const std::byte* at;
  bool wide;
  std::int64_t operator[](std::size_t k) const { return device::index_at(at, wide, k); }
};

/// Throws out_of_range if an index is not the index of a row.
inline void check_row_indices(const row_indices& indices, std::size_t count, std::size_t rows,
                              const char* operation = "gather") {
  for (std::size_t k = 0; k < count; ++k)
    if (indices[k] < 0 || indices[k] >= static_cast<std::int64_t>(rows))
      throw error(error_code::out_of_range, operation,
                  {"indices must be in [0, ", rows, "), but indices[", k, "] is ", indices[k],
                   ": clamp the indices or use more rows"});
}

/// The mapping from rows of x to lists of indices: one list for each `sharing` outer positions, with an index for a
/// whole row or for each of its elements.
struct index_lists {
  std::size_t count, sharing;
  bool per_element;

  /// One list for all rows.
  index_lists(const axis_rows& rows, const shape& indices)
      : count(indices.elements()), sharing(rows.outer), per_element(false) {}
  /// A list for each position along the first axes.
  index_lists(const shape& x, const shape& indices, std::size_t axis, std::size_t batch_dims, bool each)
      : count(1), sharing(1), per_element(each) {
    for (std::size_t i = batch_dims; i < axis; ++i) sharing *= static_cast<std::size_t>(x[i]);
    for (std::size_t i = batch_dims; i < (each ? axis + 1 : indices.rank); ++i)
      count *= static_cast<std::size_t>(indices[i]);
  }
};

/// Gathers rows along an axis, one for each index. `Back`: the transpose, which adds rows at the indices. Each of its
/// chunks writes different rows of the result, and sums each row in the order of the indices.
template <class T, bool Back>
class indexed_rows_kernel final : public kernel {
 public:
  indexed_rows_kernel(const prepare_context& p, std::size_t axis)
      : indexed_rows_kernel(p, axis, {axis_rows(whole(p), axis), p.inputs[1].extents}, "gather") {}
  indexed_rows_kernel(const prepare_context& p, std::size_t axis, const index_lists& lists, const char* operation)
      : in_(p.input_slots[0]),
        indices_(p.input_slots[1]),
        out_(p.output_slots[0]),
        name_(p.node.op->name),
        operation_(operation),
        wide_(p.inputs[1].type == dtype::int64),
        rows_(whole(p), axis),
        lists_(lists),
        all_indices_(p.inputs[1].extents.elements()),
        chunks_(rows_.outer * (Back ? rows_.extent : lists.count),
                rows_.outer * rows_.inner * (Back ? rows_.extent + lists.count : lists.count), 65536) {
    if (Back && chunks_.count > 16) chunks_.count = 16;  // each chunk reads all indices
  }

  void run(const kernel_context& f) override {
    const T* const x = reinterpret_cast<const T*>(f.buffers[in_]);
    T* const y = reinterpret_cast<T*>(f.buffers[out_]);
    const row_indices indices{f.buffers[indices_], wide_};
    check_row_indices(indices, all_indices_, rows_.extent, operation_);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      if constexpr (Back)
        scatter(x, indices, y, begin, end);
      else
        gather(x, indices, y, begin, end);
    });
  }
  std::string describe() const override { return str_cat({name_, " ", lists_.count, " of ", rows_.extent, " rows"}); }

 private:
  static const shape& whole(const prepare_context& p) { return (Back ? p.outputs[0] : p.inputs[0]).extents; }

  void gather(const T* x, const row_indices& indices, T* y, std::size_t begin, std::size_t end) const {
    const std::size_t inner = rows_.inner, count = lists_.count;
    for (std::size_t i = begin; i < end;) {
      const std::size_t outer = i / count, list = outer / lists_.sharing * count;
      const std::size_t first = outer * count, last = end < first + count ? end : first + count;
      const T* const rows = x + outer * rows_.extent * inner;
      if (!lists_.per_element) {
        for (; i < last; ++i)
          __builtin_memcpy(y + i * inner, rows + static_cast<std::size_t>(indices[list + i - first]) * inner,
                           inner * sizeof(T));
        continue;
      }
      for (; i < last; ++i)
        for (std::size_t c = 0; c < inner; ++c)
          y[i * inner + c] = rows[static_cast<std::size_t>(indices[(list + i - first) * inner + c]) * inner + c];
    }
  }
  void scatter(const T* x, const row_indices& indices, T* y, std::size_t begin, std::size_t end) const {
    const std::size_t inner = rows_.inner;
    for (std::size_t i = begin * inner; i < end * inner; ++i) y[i] = T();
    for (std::size_t outer = begin / rows_.extent; end > outer * rows_.extent; ++outer) {
      const std::size_t list = outer / lists_.sharing * lists_.count;
      for (std::size_t k = 0; k < lists_.count; ++k) {
        const std::size_t at = list + k;
        const T* const from = x + (outer * lists_.count + k) * inner;
        if (!lists_.per_element) {
          const std::size_t row = outer * rows_.extent + static_cast<std::size_t>(indices[at]);
          if (row < begin || row >= end) continue;
          T* const to = y + row * inner;
          for (std::size_t i = 0; i < inner; ++i) to[i] = static_cast<T>(to[i] + from[i]);
          continue;
        }
        for (std::size_t c = 0; c < inner; ++c) {
          const std::size_t row = outer * rows_.extent + static_cast<std::size_t>(indices[at * inner + c]);
          if (row < begin || row >= end) continue;
          T& sum = y[row * inner + c];
          sum = static_cast<T>(sum + from[c]);
        }
      }
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

}  // namespace weft::detail
WEFT_COLD_END
