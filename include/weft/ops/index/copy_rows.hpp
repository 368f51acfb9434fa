// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/ops/operation.hpp>
#include <weft/ops/reduce/axis_kernel.hpp>
#include <weft/ops/symbol.hpp>

/// Copies between rows of a variable, in place, for searches that continue several copies of a state. Not part of
/// <weft/weft.hpp>.
WEFT_COLD_BEGIN
namespace weft {

namespace detail {

/// Rows of axis 0 consist of `outer` parts; of each, the first elements along an axis are copied.
class copy_rows_kernel final : public kernel {
 public:
  copy_rows_kernel(const prepare_context& p, std::size_t axis)
      : variable_(p.input_slots[0]),
        sources_(p.input_slots[1]),
        counts_(p.input_slots[2]),
        rows_(static_cast<std::size_t>(p.inputs[0].extents[0])),
        whole_(p.inputs[0].extents, axis),
        bytes_(whole_.inner * size_of(p.inputs[0].type)),
        chunks_(whole_.outer, p.inputs[0].bytes(), std::size_t{256} << 10) {}

  void run(const kernel_context& f) override {
    const auto* const sources = reinterpret_cast<const std::int32_t*>(f.buffers[sources_]);
    const auto* const counts = reinterpret_cast<const std::int32_t*>(f.buffers[counts_]);
    for (std::size_t i = 0; i < rows_; ++i) {
      const auto from = static_cast<std::size_t>(sources[i]);
      if (from >= rows_ || static_cast<std::size_t>(sources[from]) != from ||
          static_cast<std::size_t>(counts[i]) > whole_.extent)
        throw error(error_code::out_of_range, "copy_rows",
                    {"row ", i, " cannot become ", counts[i], " elements of row ", sources[i], ": of ", rows_,
                     " rows, only those that stay the same can be copied"});
    }
    const std::size_t parts = whole_.outer / (rows_ + (rows_ == 0)), part = whole_.extent * bytes_;
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (std::size_t o = begin; o < end; ++o) {
        const std::size_t row = o / parts, from = static_cast<std::size_t>(sources[row]);
        if (from != row)
          __builtin_memcpy(f.buffers[variable_] + o * part, f.buffers[variable_] + (from * parts + o % parts) * part,
                           static_cast<std::size_t>(counts[row]) * bytes_);
      }
    });
  }
  std::string describe() const override { return str_cat({"copy_rows, up to ", rows_}); }

 private:
  std::uint32_t variable_, sources_, counts_;
  std::size_t rows_;
  axis_rows whole_;
  std::size_t bytes_;
  device::chunks chunks_;
};

}  // namespace detail

/// Row i of a variable along axis 0 becomes row sources[i], of which it copies the first counts[i] elements along an
/// axis. A source must keep its own row, so the order of the copies does not matter. Operands: the variable, sources
/// and counts [rows] of std::int32_t. Throws out_of_range before it writes; a GPU ignores such rows.
struct copy_rows_op {
  static constexpr const char* name = "copy_rows";
  static constexpr bool writes = true;
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::copy_rows_kernel(p, a.axis);
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::update : operand_use::read;
  }
};

}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/copy_rows.hpp>
#endif
