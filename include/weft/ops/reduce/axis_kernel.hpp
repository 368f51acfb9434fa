// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/ops/operation.hpp>

namespace weft {

/// Computes a row of the same extent from each row along an axis. `Rows` has a `name` and a function `run(rows, x, y,
/// begin, end)` for the groups [begin, end) of rows. For other numbers of operands or results, up to four in all, it
/// has their pointers as members instead, the number of `operands`, a function `bind` that passes each pointer to its
/// argument with its number, and a function `run(rows, begin, end)`.
template <class T, class Rows>
class axis_kernel final : public kernel {
 public:
  axis_kernel(const prepare_context& p, std::size_t axis, const Rows& how)
      : slots_{p.input_slots[0], p.output_slots[0]},
        rows_(p.inputs[0].extents, axis),
        how_(how),
        chunks_(rows_.extent ? rows_.groups() : 0, p.inputs[0].extents.elements()) {
    if constexpr (binds)
      how_.bind([&](int k, auto&) {
        slots_[k] = k < Rows::operands ? p.input_slots[k] : p.output_slots[k - Rows::operands];
      });
  }
  void run(const kernel_context& f) override {
    if constexpr (binds) {
      Rows how = how_;
      how.bind([&]<class Pointer>(int k, Pointer& to) { to = reinterpret_cast<Pointer>(f.buffers[slots_[k]]); });
      chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) { how.run(rows_, begin, end); });
    } else {
      const T* x = reinterpret_cast<const T*>(f.buffers[slots_[0]]);
      T* y = reinterpret_cast<T*>(f.buffers[slots_[1]]);
      chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) { how_.run(rows_, x, y, begin, end); });
    }
  }
  std::string describe() const override { return str_cat({Rows::name, " over ", rows_.extent}); }

 private:
  static constexpr bool binds = requires { Rows::operands; };

  std::uint32_t slots_[4]{};
  axis_rows rows_;
  Rows how_;
  device::chunks chunks_;
};

}  // namespace weft
