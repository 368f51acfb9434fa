#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/operation.hpp>

/// Rows by their numbers, on a CPU.
WEFT_COLD_BEGIN
namespace weft::detail {

/// The numbers of rows, 32 or 64 bits wide.
struct row_numbers {
  const std::byte* at;
  bool wide;
  std::int64_t operator[](std::size_t k) const { return device::index_at(at, wide, k); }
};

/// Throws out_of_range if one of them is not the number of a row.
inline void check_row_numbers(const row_numbers& numbers, std::size_t count, std::size_t rows) {
  for (std::size_t k = 0; k < count; ++k)
    if (numbers[k] < 0 || numbers[k] >= static_cast<std::int64_t>(rows))
      throw error(error_code::out_of_range, "gather",
                  {"number ", k, " of the rows is ", numbers[k], ", and there are ", rows, ": 0 to ",
                   static_cast<std::int64_t>(rows) - 1});
}

/// Rows along an axis, one for each number. `Back`: the transpose, which adds rows up where the numbers say. A chunk of
/// it has some rows of the result, so that no two write to one, and each is summed in the order of the numbers.
template <class T, bool Back>
class indexed_rows_kernel final : public kernel {
 public:
  indexed_rows_kernel(const prepare_context& p, std::size_t axis)
      : in_(p.input_slots[0]),
        numbers_(p.input_slots[1]),
        out_(p.output_slots[0]),
        name_(p.c.op->name),
        wide_(p.inputs[1].type == dtype::int64),
        rows_((Back ? p.outputs[0] : p.inputs[0]).extents, axis),
        count_(p.inputs[1].extents.elements()),
        chunks_(rows_.outer * (Back ? rows_.extent : count_),
                rows_.outer * rows_.inner * (Back ? rows_.extent + count_ : count_), 65536) {
    if (Back && chunks_.count > 16) chunks_.count = 16;  // each reads all numbers
  }

  void run(const kernel_context& f) override {
    const T* const x = reinterpret_cast<const T*>(f.buffers[in_]);
    T* const y = reinterpret_cast<T*>(f.buffers[out_]);
    const row_numbers numbers{f.buffers[numbers_], wide_};
    check_row_numbers(numbers, count_, rows_.extent);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      if constexpr (Back)
        scatter(x, numbers, y, begin, end);
      else
        gather(x, numbers, y, begin, end);
    });
  }
  std::string describe() const override { return str_cat({name_, " ", count_, " of ", rows_.extent, " rows"}); }

 private:
  void gather(const T* x, const row_numbers& numbers, T* y, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t outer = i / count_, row = static_cast<std::size_t>(numbers[i % count_]);
      __builtin_memcpy(y + i * rows_.inner, x + (outer * rows_.extent + row) * rows_.inner, rows_.inner * sizeof(T));
    }
  }
  void scatter(const T* x, const row_numbers& numbers, T* y, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin * rows_.inner; i < end * rows_.inner; ++i) y[i] = T();
    for (std::size_t outer = begin / rows_.extent; end > outer * rows_.extent; ++outer)
      for (std::size_t k = 0; k < count_; ++k) {
        const std::size_t row = outer * rows_.extent + static_cast<std::size_t>(numbers[k]);
        if (row < begin || row >= end) continue;
        const T* const from = x + (outer * count_ + k) * rows_.inner;
        T* const to = y + row * rows_.inner;
        for (std::size_t i = 0; i < rows_.inner; ++i) to[i] = static_cast<T>(to[i] + from[i]);
      }
  }

  std::uint32_t in_, numbers_, out_;
  const char* name_;
  bool wide_;
  axis_rows rows_;
  std::size_t count_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
