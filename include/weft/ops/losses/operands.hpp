// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/reduce/reductions.hpp>

/// Mistakes in the operands of losses. Losses of two operands are elementwise: `mean(huber_loss(predictions,
/// targets))`. Their operands have equal extents or are numbers. They do not broadcast, because `[batch]` against
/// `[batch, 1]` would yield `[batch, batch]`.
namespace weft {

/// The operands of an elementwise loss must have equal extents.
template <class A, class B>
struct loss_operands_differ : mistake<!(A::spec == B::spec)> {};

namespace detail {

template <class X, class Y>
constexpr auto find_loss_mistake() {
  if constexpr (Number<Y>)
    return not_floating<value_t<X>>{};
  else
    return first_mistake<loss_operands_differ<dims_t<X>, dims_t<Y>>, element_types_differ<value_t<X>, value_t<Y>>,
                         not_floating<value_t<X>>>{};
}

}  // namespace detail

/// The first mistake in the operands of an elementwise loss, if any.
template <class X, class Y>
using loss_mistake = decltype(detail::find_loss_mistake<X, Y>());

namespace detail {

/// Calls f(x, y) unless the operands have a mistake.
template <class X, class Y, class F>
auto loss_of(const X& x, const Y& y, const F& f) {
  if constexpr (correct<loss_mistake<X, Y>>)
    return f(x, y);
  else
    return same_after_mistake(x);
}

}  // namespace detail
}  // namespace weft
