// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/ops/cpu/unfused.hpp>
#include <weft/ops/cpu/update.hpp>
#include <weft/ops/cpu/update_loop.hpp>
#include <weft/ops/operation.hpp>
#include <weft/ops/state.hpp>
#include <weft/ops/update_view.hpp>

/// An optimizer (train/optimizers.hpp; docs/how-to/optimizers.md) as an operation. ops/gpu/update.hpp generates GPU
/// kernels from its formula.
namespace weft {

/// Operands: see `update_view`.
template <class Optimizer, class T>
struct update_op {
  static constexpr const char* name = Optimizer::name;
  static constexpr const update_layout* update = &detail::layout_of<Optimizer>;
  using attributes = update_attributes;
  static constexpr bool writes = true;
  static constexpr fusion_kind fusion = [] {
    if constexpr (requires { Optimizer::fusion; })
      return Optimizer::fusion;
    else
      return fusion_kind::none;
  }();

  static kernel* prepare(const prepare_context& p, const attributes&) {
    return detail::prepare_update(p, detail::layout_of<Optimizer>,
                                  detail::unfused<detail::update_block<Optimizer, T, false>>(),
                                  detail::advance_numbers<Optimizer, T>);
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand <= detail::slots_of<Optimizer> ? operand_use::update : operand_use::read;
  }
  static std::string attributes_text(const node_def& c) { return update_view(c).attributes_text(); }
};

namespace detail {

/// True if the optimizer declares that it leaves rows without a gradient, and their slots, unchanged.
template <class Optimizer>
inline constexpr bool updates_by_rows = [] {
  if constexpr (requires { Optimizer::by_rows; })
    return Optimizer::by_rows && norms_of<Optimizer> == 0;
  else
    return false;
}();

}  // namespace detail

/// The update operations of an optimizer, one for each element type.
template <class Optimizer>
struct update_ops {
  template <class T>
  using of = update_op<Optimizer, T>;
};

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/update.hpp>
#endif
