// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/update.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft::detail {

/// The rule by which a parameter server changes a dynamic loss scale after each step, in the form of an optimizer. The
/// gradient is 1 if the step's gradients were finite, else 0.
struct loss_scale_rule {
  hyperparameter growth_interval = 2000, growth_factor = 2, backoff_factor = 0.5, min_scale = 1, max_scale = 16777216;

  static constexpr const char* name = "dynamic_loss_scale";
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("good_steps")}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& scale, V& good_steps, V is_finite) const {
    const V next = good_steps + V(1);
    const bool finite = is_finite > V(0), grows = finite && !(next < V(growth_interval));
    const V grown = min(scale * V(growth_factor), V(max_scale));
    const V reduced = max(scale * V(backoff_factor), V(min_scale));
    good_steps = finite && !grows ? next : V(0);
    scale = finite ? (grows ? grown : scale) : reduced;
  }
};

}  // namespace weft::detail

#pragma pop_macro("slots")
