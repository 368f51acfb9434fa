#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <thread>

#include <weft/config.hpp>
#include <weft/error.hpp>

WEFT_COLD_BEGIN
namespace weft::data {

/// A number of elements, from an integer of any type. It keeps the sign, so that -1 does not become 2^64 - 1.
class element_count {
 public:
  template <std::integral Integer>
  constexpr element_count(Integer count) noexcept
      : count_(count > 0 && static_cast<std::uint64_t>(count) > most ? most : static_cast<std::int64_t>(count)) {}

  constexpr std::int64_t value() const noexcept { return count_; }

 private:
  static constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t count_;
};

namespace detail {

/// At least `least`; throws invalid_argument otherwise.
inline std::uint64_t checked_count(const char* operation, element_count count, std::int64_t least) {
  if (count.value() < least)
    throw error(error_code::invalid_argument, operation,
                {"needs a count of at least ", least, ", but the count is ", count.value()});
  return static_cast<std::uint64_t>(count.value());
}
/// Nothing for -1, which TensorFlow takes for "all"; throws invalid_argument for other negative counts.
inline std::optional<std::uint64_t> checked_count_or_all(const char* operation, element_count count) {
  if (count.value() < -1)
    throw error(error_code::invalid_argument, operation,
                {"needs a count of at least 0, or -1 for all, but the count is ", count.value()});
  if (count.value() == -1) return std::nullopt;
  return static_cast<std::uint64_t>(count.value());
}

/// -1 is one thread for each core (tf.data.AUTOTUNE). Throws invalid_argument for 0, other negative numbers and more
/// than 1024.
inline int checked_threads(const char* operation, int threads) {
  constexpr int most = 1024;
  if (threads == -1) return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, unsigned{most}));
  if (threads < 1 || threads > most)
    throw error(error_code::invalid_argument, operation,
                {"needs 1 to ", most, " threads, or -1 for one on each core, but is to have ", threads});
  return threads;
}

}  // namespace detail

}  // namespace weft::data
WEFT_COLD_END
