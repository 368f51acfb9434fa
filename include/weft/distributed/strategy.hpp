#pragma once

#include <chrono>

#include <weft/distributed/all_reduce.hpp>
#include <weft/distributed/variables.hpp>

namespace weft {

// A strategy is an empty structure that says by its members how workers train together, and is named where a
// replicated_session is made. One with `mode` has parameter servers. One with `group` averages gradients by such
// groups, which have the members of basic_all_reduce that all_reduce_exchange.hpp calls: nccl_collective and
// mpi_collective are others than the one here.

inline constexpr consistency asynchronous = consistency::asynchronous;
inline constexpr consistency synchronous = consistency::synchronous;

/// Variables live on parameter servers, which apply the workers' gradients: each as it comes, or the mean of one from
/// each.
template <consistency Mode>
struct parameter_server {
  static constexpr consistency mode = Mode;
};

/// Every worker keeps all variables and applies the mean of all workers' gradients.
struct collective {
  template <transport T, typename Clock = std::chrono::steady_clock>
  using group = basic_all_reduce<T, Clock>;
};

namespace detail {

/// How a strategy's gradients and values travel, as `type`: server_exchange.hpp and all_reduce_exchange.hpp say it.
template <class Strategy, transport T, typename Clock>
struct exchange_of;

template <class Strategy, class T, class Clock>
concept strategy_over = requires {
  typename exchange_of<Strategy, T, Clock>::type;
};

}  // namespace detail

}  // namespace weft
