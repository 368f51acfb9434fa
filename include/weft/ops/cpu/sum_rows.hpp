// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/ops/cpu/indexed_rows.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>

/// CPU kernel that sums rows of equal index.
WEFT_COLD_BEGIN
namespace weft::detail {

/// Sums rows of equal index, in the order of the lists and of their indices. Each sum is stored at the first occurrence
/// of its index; the index at all later occurrences is -1. Each chunk covers some of these positions.
template <class T>
class row_sums_kernel final : public kernel {
 public:
  explicit row_sums_kernel(const prepare_context& p) : axis_(p.inputs[0].extents, 0) {
    std::size_t count = 0;
    for (std::size_t i = 1; i < p.node.inputs.size(); i += 2) {
      const value_info& indices = p.inputs[i + 1];
      lists_.push_back({p.input_slots[i], p.input_slots[i + 1], p.output_slots[i - 1], p.output_slots[i],
                        indices.type == dtype::int64, count, count + indices.extents.elements()});
      count = lists_.back().end;
    }
    chunks_ = device::chunks(count, count * axis_.inner, 65536);
    if (chunks_.count > 16) chunks_.count = 16;  // each chunk reads all positions
    indices_.resize(count);
    first_.resize(count);
    std::size_t size = 4;
    while (size < 2 * count) size *= 2, --shift_;
    table_.resize(size);
  }

  void run(const kernel_context& f) override {
    find_first_places(f);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) { add(f, begin, end); });
  }
  std::string describe() const override { return str_cat({"sum_rows ", first_.size(), " of ", axis_.extent, " rows"}); }

 private:
  struct list {
    std::uint32_t rows, indices, sums, places;  // slots; the last two are written
    bool wide;
    std::size_t begin, end;  // among the rows of all lists
  };

  void find_first_places(const kernel_context& f) {
    __builtin_memset(table_.data(), 0, table_.size() * sizeof(std::size_t));
    for (const list& l : lists_) {
      const row_indices indices{f.buffers[l.indices], l.wide};
      check_row_indices(indices, l.end - l.begin, axis_.extent);
      std::int64_t* const places = reinterpret_cast<std::int64_t*>(f.buffers[l.places]);
      for (std::size_t k = l.begin; k < l.end; ++k) {
        indices_[k] = indices[k - l.begin];
        first_[k] = first_place(indices_[k], k);
        places[k - l.begin] = first_[k] == k ? indices_[k] : -1;
      }
    }
  }
  /// Returns the first position of an index, from a hash table of positions + 1.
  std::size_t first_place(std::int64_t index, std::size_t here) {
    std::size_t i = static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15u >> shift_;
    for (; table_[i] != 0; i = (i + 1) & (table_.size() - 1))
      if (indices_[table_[i] - 1] == index) return table_[i] - 1;
    table_[i] = here + 1;
    return here;
  }

  void add(const kernel_context& f, std::size_t begin, std::size_t end) const {
    for (const list& from : lists_)
      for (std::size_t k = from.begin > begin ? from.begin : begin; k < from.end; ++k) {
        if (first_[k] < begin || first_[k] >= end) continue;
        const list* to = lists_.begin();
        while (first_[k] >= to->end) ++to;
        const T* const x = reinterpret_cast<const T*>(f.buffers[from.rows]) + (k - from.begin) * axis_.inner;
        T* const y = reinterpret_cast<T*>(f.buffers[to->sums]) + (first_[k] - to->begin) * axis_.inner;
        if (first_[k] == k)
          __builtin_memcpy(y, x, axis_.inner * sizeof(T));
        else
          for (std::size_t i = 0; i < axis_.inner; ++i) y[i] += x[i];
      }
  }

  axis_rows axis_;
  sequence<list> lists_;
  sequence<std::int64_t> indices_;
  sequence<std::size_t> first_, table_;
  unsigned shift_ = 62;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
