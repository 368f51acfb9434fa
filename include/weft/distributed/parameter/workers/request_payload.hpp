// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/parameter/enroll_message.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/server_state.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// Returns the maximum payload of a worker's next request, in bytes.
inline std::uint64_t max_request_bytes(const parameter_store& store, std::size_t workers, bool enrolled) {
  const std::uint64_t longest =
      enrolled ? std::max<std::uint64_t>(checkpoint_bytes(store, workers), store.gradient_payload(false).max) : 0;
  return std::max(longest, max_enroll_bytes);
}

/// Selects the place for the payload of a request whose header has arrived. `fills_store`: values may be received
/// directly in the store, because they are the first, and nothing reads the store before all of them have arrived.
/// Throws weft::error (invalid_argument) for a length that the request cannot have.
template <typename Connection>
void place_payload(Connection& of, parameter_store& store, std::size_t workers, bool enrolled, bool fills_store) {
  const frame_header& asked = of.arriving();
  const auto exactly = [&](std::uint64_t bytes) {
    if (asked.payload_length != bytes)
      throw error(error_code::invalid_argument, "parameter_server",
                  {"a request must have ", bytes, " bytes; it has ", asked.payload_length});
  };
  if (asked.kind != frame_kind::enroll && !enrolled)
    throw error(error_code::invalid_argument, "parameter_server",
                "the worker must send its list of variables before other requests");
  switch (asked.kind) {
    case frame_kind::enroll:
      of.place_in_message();
      break;
    case frame_kind::share:
      if (asked.payload_length > max_control_bytes) message_reader::malformed();
      of.place_in_message();
      break;
    case frame_kind::initialise:
      exactly(of.arriving_uses_segment() ? 0 : store.bytes());
      if (fills_store)
        of.place_in(store.values().first(static_cast<std::size_t>(asked.payload_length)));
      else
        of.place_in_gradients();
      break;
    case frame_kind::restore:
      of.arriving_uses_segment();
      if (asked.payload_length != 0) exactly(checkpoint_bytes(store, workers));
      of.place_in_gradients();
      break;
    case frame_kind::push:
    case frame_kind::push_pull: {
      const auto bounds = store.gradient_payload(of.arriving_uses_segment());
      if (bounds.min == bounds.max) exactly(bounds.min);
      if (asked.payload_length < bounds.min || asked.payload_length > bounds.max)
        throw error(
            error_code::invalid_argument, "parameter_server",
            {"gradients must have ", bounds.min, " to ", bounds.max, " bytes; they have ", asked.payload_length});
      of.place_in_gradients();
      break;
    }
    default:
      of.arriving_uses_segment();
      exactly(0);
      of.place_in(mutable_bytes{});
  }
}

}  // namespace weft::detail
