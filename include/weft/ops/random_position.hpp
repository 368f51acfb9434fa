#pragma once

#include <weft/ops/symbol.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Where a step is in the random numbers, an operand of whatever draws some: a std::int64_t that sessions write before
/// each step, and that kernels and recorded launches read. It has the step's number in its lower 48 bits, and above
/// them that of the session's stream.
struct random_position_op {
  static constexpr const char* name = "random_position";
  static constexpr operation_id id{"weft.random_position"};
};

/// The seed of one operation, which then draws the same whatever else is in the graph, and the same as others of that
/// seed and of equal extents. Without it each draws its own numbers, by its place among those of the graph that draw.
/// The graph's seed counts in both cases.
struct random_options {
  /// A seed, or none.
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
