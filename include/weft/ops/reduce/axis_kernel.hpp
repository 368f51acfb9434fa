// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/ops/operation.hpp>

namespace weft {

/// Computes a row of the same extent from each row along an axis. `Rows` has a `name` and a function `run(rows, x, y,
/// begin, end)` for the groups [begin, end) of rows.
template <class T, class Rows>
class axis_kernel final : public kernel {
 public:
  axis_kernel(const prepare_context& p, std::size_t axis, const Rows& how)
      : in_(p.input_slots[0]),
        out_(p.output_slots[0]),
        rows_(p.inputs[0].extents, axis),
        how_(how),
        chunks_(rows_.extent ? rows_.groups() : 0, p.inputs[0].extents.elements()) {}
  void run(const kernel_context& f) override {
    const T* x = reinterpret_cast<const T*>(f.buffers[in_]);
    T* y = reinterpret_cast<T*>(f.buffers[out_]);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) { how_.run(rows_, x, y, begin, end); });
  }
  std::string describe() const override { return str_cat({Rows::name, " over ", rows_.extent}); }

 private:
  std::uint32_t in_, out_;
  axis_rows rows_;
  Rows how_;
  device::chunks chunks_;
};

}  // namespace weft
