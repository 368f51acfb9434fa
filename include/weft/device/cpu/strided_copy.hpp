// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/loop.hpp>
#include <weft/device/cpu/strided_walk.hpp>
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
        const detail::strided_walk walk{r.extents, r.from_stride(), r.to_stride()};
        walk.copy(from + at * r.from_stride()[0], to + at * r.to_stride()[0], static_cast<std::int64_t>(end - begin),
                  size);
      });
    }
  }

  std::string describe() const override { return description_; }

 private:
  std::string description_;
  strided_copies what_;
  sequence<std::uint32_t> in_, out_;
  sequence<std::size_t> out_elements_;
};

}  // namespace weft::device
WEFT_COLD_END
