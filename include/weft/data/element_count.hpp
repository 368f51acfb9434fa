// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <weft/config.hpp>
#include <weft/device/cpu/thread_pool.hpp>
#include <weft/error.hpp>

WEFT_COLD_BEGIN
namespace weft::data {

/// A number of elements, from an integer of any type. It keeps the sign, so that -1 does not become 2^64 - 1.
class element_count {
 public:
  template <class Integer>
    requires std::is_integral_v<Integer>
  constexpr element_count(Integer count) noexcept
      : count_(count > 0 && static_cast<std::uint64_t>(count) > most ? most : static_cast<std::int64_t>(count)) {}

  constexpr std::int64_t value() const noexcept { return count_; }

 private:
  static constexpr std::int64_t most = INT64_MAX;
  std::int64_t count_;
};

namespace detail {

/// The count that represents "all" elements; larger than any other count.
inline constexpr std::uint64_t all_elements = ~std::uint64_t{0};

/// Returns the count. Throws invalid_argument if it is less than `least`.
std::uint64_t checked_count(const char* operation, element_count count, std::int64_t least);
/// Returns the count, or `all_elements` for -1, as in TensorFlow. Throws invalid_argument for other negative counts.
std::uint64_t checked_count_or_all(const char* operation, element_count count);
/// Returns the number of threads: for -1, one for each core (tf.data.AUTOTUNE). Throws invalid_argument for 0, other
/// negative numbers and more than 1024.
int checked_threads(const char* operation, int threads);

#if WEFT_DEFINITIONS

WEFT_DECL std::uint64_t checked_count(const char* operation, element_count count, std::int64_t least) {
  if (count.value() < least)
    throw error(error_code::invalid_argument, operation,
                {"the count must be at least ", least, ", but is ", count.value()});
  return static_cast<std::uint64_t>(count.value());
}

WEFT_DECL std::uint64_t checked_count_or_all(const char* operation, element_count count) {
  if (count.value() < -1)
    throw error(error_code::invalid_argument, operation,
                {"the count must be at least 0, or -1 for all, but is ", count.value()});
  return static_cast<std::uint64_t>(count.value());
}

WEFT_DECL int checked_threads(const char* operation, int threads) {
  constexpr int most = 1024;
  if (threads == -1) {
    const std::size_t cores = available_cores().size();
    return cores < 1 ? 1 : cores > most ? most : static_cast<int>(cores);
  }
  if (threads < 1 || threads > most)
    throw error(error_code::invalid_argument, operation,
                {"threads must be 1 to ", most, ", or -1 for one per core, but is ", threads});
  return threads;
}

#endif

}  // namespace detail

}  // namespace weft::data
WEFT_COLD_END
