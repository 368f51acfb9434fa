// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/transport/any_transport.hpp>

namespace weft {

/// A connection for one purpose, and the incarnation of the peer at its other end.
struct peer_channel {
  std::size_t rank = 0;
  std::uint64_t incarnation = 0;
  any_transport::stream stream;
  std::uint64_t number = 0;  ///< the number of an accepted connection; later ones have larger numbers
};

namespace detail {

/// A connection of a client, which is not a task of the cluster.
struct client_channel {
  bool asks = false;  // true: for requests; false: for answers
  std::uint64_t incarnation = 0;
  any_transport::stream stream;
};

}  // namespace detail
}  // namespace weft
