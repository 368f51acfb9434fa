// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/symbol.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// The position of a step in the sequence of random numbers, an operand of all operations that draw. Sessions write
/// this std::int64_t before each step; kernels and captured launches read it. The lower 48 bits contain the step
/// number, and the upper bits the number of the session's stream.
struct random_position_op {
  static constexpr const char* name = "random_position";
  static constexpr operation_id id{"weft.random_position"};
};

/// The seed of one operation. An operation with a seed draws the same numbers whatever else the graph contains, and the
/// same as other operations with equal seed and extents. Without a seed, the numbers depend on its index among the
/// graph's operations that draw. In both cases, they also depend on the graph's seed.
struct random_options {
  /// An optional seed.
  class optional_seed {
   public:
    constexpr optional_seed() = default;
    constexpr optional_seed(std::uint64_t s) : value_(s), given_(true) {}
    constexpr const std::uint64_t* get() const { return given_ ? &value_ : nullptr; }

   private:
    std::uint64_t value_ = 0;
    bool given_ = false;
  };

  optional_seed seed = {};
};

namespace detail {

inline symbol record_random_position(op_builder& where) {
  node_def c;
  c.op = &operation_of<random_position_op>;
  c.outputs = {{dtype::int64, {}}};
  return where.record(static_cast<node_def&&>(c));
}

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
