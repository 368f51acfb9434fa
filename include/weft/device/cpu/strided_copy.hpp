// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/loop.hpp>
#include <weft/device/kernel.hpp>
#include <weft/device/strided_copy.hpp>

WEFT_COLD_BEGIN
namespace weft::device {

/// Runs strided copies: whole rows by memcpy, transposes in squares that fit into the first-level cache on both sides.
class strided_copy_kernel final : public kernel {
 public:
  strided_copy_kernel(const char* name, strided_copies what, sequence<std::uint32_t> in, sequence<std::uint32_t> out,
                      sequence<std::size_t> out_elements)
      : description_(what.describe(name)),
        what_(static_cast<strided_copies&&>(what)),
        in_(static_cast<sequence<std::uint32_t>&&>(in)),
        out_(static_cast<sequence<std::uint32_t>&&>(out)),
        out_elements_(static_cast<sequence<std::size_t>&&>(out_elements)) {
    for (strided_region& r : what_.regions) {
      r.merge_axes();
      if (r.extents.rank == 0) r.extents.push_back(1), r.ends[0].stride[0] = r.ends[1].stride[0] = 1;
      if (const std::size_t inner = r.turned_from(); inner + 2 < r.extents.rank) r.move_inwards(inner);
    }
  }

  void run(const kernel_context& f) override {
    const std::size_t size = size_of(what_.type);
    if (what_.fills)
      for (std::size_t k = 0; k < out_.size(); ++k)
        detail::splat(size, f.buffers[out_[k]], &what_.fill, out_elements_[k]);
    for (const strided_region& r : what_.regions) {
      if (r.extents.elements() == 0) continue;
      const std::byte* const from = f.buffers[in_[r.from]] + r.from_offset * static_cast<std::int64_t>(size);
      std::byte* const to = f.buffers[out_[r.to]] + r.to_offset * static_cast<std::int64_t>(size);
      chunks rows(static_cast<std::size_t>(r.extents[0]), r.extents.elements() * size, std::size_t{256} << 10);
      rows.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
        const auto at = static_cast<std::int64_t>(begin) * static_cast<std::int64_t>(size);
        copy(r, from + at * r.from_stride()[0], to + at * r.to_stride()[0], static_cast<std::int64_t>(end - begin),
             size);
      });
    }
  }

  std::string describe() const override { return description_; }

 private:
  /// `outer`: the number of elements along the outermost axis.
  static void copy(const strided_region& r, const std::byte* from, std::byte* to, std::int64_t outer,
                   std::size_t size) {
    switch (size) {
      case 1:
        return walk<std::uint8_t>(r, from, to, outer);
      case 2:
        return walk<std::uint16_t>(r, from, to, outer);
      case 4:
        return walk<std::uint32_t>(r, from, to, outer);
      default:
        return walk<std::uint64_t>(r, from, to, outer);
    }
  }

  template <class T>
  static void walk(const strided_region& r, const std::byte* source, std::byte* target, std::int64_t outer) {
    const T* from = reinterpret_cast<const T*>(source);
    T* to = reinterpret_cast<T*>(target);
    const std::size_t rank = r.extents.rank;
    if (rank == 1) return row(from, to, outer, r.from_stride()[0], r.to_stride()[0]);
    std::int64_t index[max_rank]{};
    const std::size_t rows = rank - 2;  // the last two axes are processed together
    for (;;) {
      plane(from, to, rows == 0 ? outer : r.extents[rows], r.extents[rows + 1], r.from_stride() + rows,
            r.to_stride() + rows);
      std::size_t axis = rows;
      for (;;) {
        if (axis-- == 0) return;
        from += r.from_stride()[axis], to += r.to_stride()[axis];
        const std::int64_t n = axis == 0 ? outer : r.extents[axis];
        if (++index[axis] < n) break;
        from -= r.from_stride()[axis] * n, to -= r.to_stride()[axis] * n;
        index[axis] = 0;
      }
    }
  }

  template <class T>
  static void row(const T* from, T* to, std::int64_t n, std::int64_t from_step, std::int64_t to_step) {
    if (from_step == 1 && to_step == 1) {
      __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }

  template <class T>
  static void plane(const T* from, T* to, std::int64_t rows, std::int64_t columns, const std::int64_t* from_step,
                    const std::int64_t* to_step) {
    if (from_step[0] != 1 || to_step[1] != 1 || from_step[1] == 1) {
      for (std::int64_t i = 0; i < rows; ++i)
        row(from + i * from_step[0], to + i * to_step[0], columns, from_step[1], to_step[1]);
      return;
    }
    constexpr std::int64_t side = 32;
    for (std::int64_t i0 = 0; i0 < rows; i0 += side)
      for (std::int64_t j0 = 0; j0 < columns; j0 += side) {
        const std::int64_t height = rows - i0 < side ? rows - i0 : side,
                           width = columns - j0 < side ? columns - j0 : side;
        const T* const x = from + i0 + j0 * from_step[1];
        T* const y = to + i0 * to_step[0] + j0;
        if (height == side && width == side)
          square(x, y, side, side, from_step[1], to_step[0]);
        else
          square(x, y, height, width, from_step[1], to_step[0]);
      }
  }

  template <class T>
  [[gnu::always_inline]] static void square(const T* x, T* y, std::int64_t height, std::int64_t width,
                                            std::int64_t from_step, std::int64_t to_step) {
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) y[i * to_step + j] = x[i + j * from_step];
  }

  std::string description_;
  strided_copies what_;
  sequence<std::uint32_t> in_, out_;
  sequence<std::size_t> out_elements_;
};

}  // namespace weft::device
WEFT_COLD_END
