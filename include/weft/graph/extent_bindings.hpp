// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/graph/graph.hpp>
#include <weft/ops/extent_values.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/tensor.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// The values of dynamic extents: of named extents, and of extents computed from them.
class extent_bindings : public detail::extent_values {
 public:
  /// Returns the value of a named or computed extent, and stores computed values. Returns null if a name in the formula
  /// has no value. Throws invalid_argument if the result is negative or a division leaves a remainder.
  const std::int64_t* compute(const graph& g, std::int64_t code) {
    if (const std::int64_t* const value = find(code)) return value;
    const extent_definition* const d = g.extent_formula(code);
    std::int64_t value = 0;
    if (!d || !evaluate(*d, value)) return nullptr;
    bind(code, value);
    return &known_.back().second;
  }

  /// Throws invalid_argument if the value given for a computed extent differs from the computed one.
  void check_computed(const graph& g) {
    const std::size_t given = known_.size();
    for (std::size_t k = 0; k < given; ++k) {
      const extent_definition* const d = g.extent_formula(known_[k].first);
      std::int64_t value = 0;
      if (d && evaluate(*d, value) && value != known_[k].second)
        throw error(error_code::invalid_argument, d->text,
                    {"the extent is ", known_[k].second, " but is computed as ", value});
    }
  }

  /// Returns the extents with names replaced by sizes. Throws failed_precondition if a name has no value, and
  /// resource_exhausted if the number of elements exceeds any memory.
  shape resolve(const graph& g, const std::string& who, shape s) {
    for (std::size_t i = 0; i < s.rank; ++i) {
      if (s[i] >= 0) continue;
      const std::int64_t* size = compute(g, s[i]);
      if (!size)
        throw error(error_code::failed_precondition, who,
                    {"the extent ", g.extent_name(s[i]), " is not known: feed a value that has it, or g.set(dyn<\"",
                     g.extent_name(s[i]), "\">, n)"});
      s[i] = *size;
    }
    detail::checked_bytes(who.c_str(), s, sizeof(double));
    return s;
  }
};

}  // namespace weft

WEFT_COLD_END
