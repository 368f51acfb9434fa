#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/transport/any_transport.hpp>

namespace weft {

/// A connection for one purpose, and to which incarnation of the peer it leads.
struct peer_channel {
  std::size_t rank = 0;
  std::uint64_t incarnation = 0;
  any_transport::stream stream;
  std::uint64_t number = 0;  ///< of one that has come here: a later one has a larger number
};

namespace detail {

/// A connection of a client. A client is not a task of the cluster.
struct client_channel {
  bool asks = false;  // it brings requests, or takes answers
  std::uint64_t incarnation = 0;
  any_transport::stream stream;
};

}  // namespace detail
}  // namespace weft
