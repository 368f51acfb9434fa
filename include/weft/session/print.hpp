// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/graph/print_handles.hpp>
#include <weft/session/prepared_step.hpp>

// Text for prepared steps: `std::cout << step`.

namespace weft {

/// Returns one line: the values that the step fetches, the nodes that it runs for their effect, and its feeds.
template <class... Of>
std::string to_string(const step<Of...>& s) {
  return s.summary();
}
template <class... Of>
inline constexpr bool is_printable<step<Of...>> = true;

#if WEFT_DEFINITIONS

WEFT_COLD_BEGIN

namespace detail {

inline void append_values(std::string& text, const char* what, const graph& g, const sequence<value>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const value_info& info = g.info(values[i]);
    append(text, {i ? ", " : what, name(info.type), " ", g.to_string(info.extents), " ", name_text(g, values[i])});
  }
}

}  // namespace detail

WEFT_DECL std::string prepared_step::summary() const {
  if (!plan_) return "step, moved from";
  const graph& g = plan_->graph();
  const plan::step_request& r = plan_->request();
  std::string text;
  detail::append_values(text, "fetches ", g, r.fetches);
  for (std::size_t i = 0; i < r.targets.size(); ++i)
    append(text, {i ? ", " : text.empty() ? "runs " : "; runs ", detail::name_text(g, {r.targets[i], 0})});
  detail::append_values(text, text.empty() ? "is given " : "; is given ", g, r.feeds);
  return str_cat({"step: ", text.empty() ? "fetches nothing" : text.c_str()});
}

WEFT_COLD_END

#endif

}  // namespace weft
