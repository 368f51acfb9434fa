// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/remote_channels.hpp>
#include <weft/distributed/remote/service/run_scheduler.hpp>
#include <weft/distributed/remote/service/service_peers.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Waits for clients, and fails requests whose clients delay requests of other clients.
class client_waits {
 public:
  client_waits(service_peers& peers, run_scheduler& scheduler, std::uint64_t max_value_bytes)
      : peers_(peers), scheduler_(scheduler), max_value_bytes_(max_value_bytes) {}

  /// Throws unavailable if a client is silent while other requests wait for the end of its run.
  void check_stall(const peer_process& client) {
    if (client.rank != peers_.size() || !scheduler_.has_waiting()) return;
    if (peers_.channels().is_silent(client.incarnation, client_stall))
      throw error(
          error_code::unavailable, "step",
          {"the client has sent nothing for ", client_stall.count(), " ms during its run, while other requests wait"});
  }
  /// Waits until a client has read enough of earlier values to receive this many bytes. Calls `check` periodically. A
  /// request that `has_turn` throws resource_exhausted once requests of other clients have waited for slow readers for
  /// client_stall in this task, or once it has waited that long itself if the run is `on` several tasks. The client
  /// stays connected.
  template <typename Check>
  void await_room(const peer_process& client, std::size_t bytes, deadline until, std::size_t on, bool has_turn,
                  Check check) {
    deadline::duration waited{};
    while (!peers_.channels().has_room(client, bytes)) {
      peers_.check_client(client);
      check();
      if (until.expired())
        throw error(error_code::deadline_exceeded, "send", "the client has not read its values in time");
      if (has_turn && (scheduler_.others_have_waited(client, client_stall) || (on > 1 && waited >= client_stall)))
        throw error(error_code::resource_exhausted, "send",
                    {"the client reads slowly, and its run delays other requests or tasks while ", max_value_bytes_,
                     " bytes of values wait for it; fetch less in one step, or raise "
                     "graph_service_options::max_value_bytes"});
      const auto began = detail::now();
      detail::sleep(std::chrono::milliseconds(5));
      const auto passed = detail::now() - began;
      waited += passed;
      if (has_turn) scheduler_.note_stalled(passed);
    }
  }

 private:
  service_peers& peers_;
  run_scheduler& scheduler_;
  std::uint64_t max_value_bytes_;
};

}  // namespace weft::detail
