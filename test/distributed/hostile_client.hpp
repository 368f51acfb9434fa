// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/remote_channels.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/tcp.hpp>
#include <weft/transport/waiter.hpp>

namespace test {

using namespace weft;

/// A client that has proved the secret and sends arbitrary frames.
class hostile_client {
 public:
  explicit hostile_client(const endpoint& where, std::uint64_t of = 77) : incarnation(of) {
    hears_ = open(where, detail::client_hears);
    asks_ = open(where, detail::client_asks);
  }
  /// Returns false if the task has closed the connection.
  bool say(const frame_header& header, const_bytes payload) {
    try {
      detail::send_frame(waiter(network_, wait_policy::for_tasks(2)), asks_, header, payload, true,
                         deadline(std::chrono::seconds(1)), std::chrono::seconds(1), [] {});
      return true;
    } catch (const error&) {
      return false;
    }
  }
  /// Sends bytes that need not be a frame.
  bool write(const_bytes bytes) {
    for (const deadline until(std::chrono::seconds(5)); !bytes.empty();) try {
        bytes = bytes.subspan(asks_.write_some({&bytes, 1}));
        if (until.expired()) return false;
      } catch (const error&) {
        return false;
      }
    return true;
  }
  /// Waits until the task has closed the connection.
  bool is_closed() {
    std::byte any[64];
    const mutable_bytes into(any);
    for (const deadline until(std::chrono::seconds(20)); !until.expired();) try {
        if (asks_.read_some({&into, 1}) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } catch (const error&) {
        return true;
      }
    return false;
  }
  /// Waits until the task has sent something.
  bool is_answered() {
    std::byte any[64];
    const mutable_bytes into(any);
    for (const deadline until(std::chrono::seconds(20)); !until.expired();
         std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      try {
        if (hears_.read_some({&into, 1}) > 0) return true;
      } catch (const error&) {
        return false;
      }
    return false;
  }
  /// Waits for the next frame from the task; its payload is then in `heard`. Returns nothing if the connection ends.
  std::optional<frame_kind> hear() {
    frame_reader in;
    in.expect(std::uint64_t{64} << 20);
    for (const deadline until(std::chrono::seconds(20)); !until.expired();) try {
        if (in.advance(hears_, heard) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (in.complete()) return in.header().kind;
      } catch (const error&) {
        return {};
      }
    return {};
  }
  std::vector<std::byte> heard;
  const std::uint64_t incarnation;

 private:
  any_transport::stream open(const endpoint& where, const char* channel) {
    using handshake = weft::detail::handshake;
    detail::handshake_nonce nonce{};
    auto talk = handshake::dialling_anyone(network_.connect(where), detail::usual_secret(network_).proof(), nonce);
    for (const deadline until(std::chrono::seconds(5)); talk.at() != handshake::phase::over && !until.expired();) {
      talk.advance();
      if (talk.at() == handshake::phase::challenged)
        talk.introduce({distributed_version, 0, {}, {}, {}, incarnation, 0, 0, channel, false});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::move(talk.stream());
  }
  any_transport network_ = tcp();
  any_transport::stream hears_, asks_;
};

}  // namespace test
