// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/distributed/remote/receiving_loop.hpp>
#include <weft/distributed/remote/service/client_answers.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/waiter.hpp>

namespace weft::detail {

/// Sends a frame on a non-blocking connection. Throws deadline_exceeded, also if no byte moves for `stalled`, and the
/// errors of `check`, which is called periodically.
template <typename Check>
void send_frame(waiter idle, any_transport::stream& stream, const frame_header& header, const_bytes payload,
                bool checksum, deadline until, std::chrono::milliseconds stalled, Check check) {
  frame_writer out;
  out.start(header, payload, checksum);
  deadline moves(stalled);
  for (;;) {
    const std::size_t moved = out.advance(stream);
    if (out.idle()) return;
    if (until.expired() || moves.expired())
      throw error(error_code::deadline_exceeded, "send", "the other process has not read in time");
    if (moved > 0) {
      idle.moved();
      moves = deadline(stalled);
      continue;
    }
    any_transport::wait_item item{&stream, false, true};
    if (idle.pause({&item, 1}, until)) check();
  }
}

/// Receives frames on a non-blocking connection: values in the memory that their mailboxes provide, payloads of other
/// frames in memory of their own.
class frame_receiver {
 public:
  using arrival = mailbox::arrival;
  using payload_type = std::vector<std::byte>;

  explicit frame_receiver(std::uint64_t max_bytes) : max_bytes_(max_bytes) { in_.expect(max_bytes); }

  /// Receives the bytes that have arrived. `open(header)` returns the arrival of a value, and `handle(header, payload)`
  /// takes each other complete frame. Returns the number of bytes and frames received.
  template <byte_stream Stream, typename Open, typename Handle>
  std::size_t advance(Stream& stream, Open open, Handle handle) {
    std::size_t total = 0;
    for (std::size_t moved = 1; moved > 0 && total < max_at_once; total += moved) {
      // The place of a value may change between two reads.
      const bool is_value = has_begun_ && in_.header().kind == frame_kind::transfer && in_.left() > 0;
      moved = is_value ? 0 : in_.advance(stream);
      if (is_value || in_.needs_destination()) moved += place(stream, open);
      if (!in_.complete()) continue;
      if (in_.header().kind == frame_kind::transfer)
        std::exchange(value_, {}).finish();
      else
        handle(in_.header(), std::exchange(payload_, {}));
      has_begun_ = false;
      in_.expect(max_bytes_);
      ++moved;
    }
    return total;
  }

 private:
  /// A step that stops waiting for a value still waits for the end of one read, so reads are short.
  static constexpr std::size_t max_piece = std::size_t{1} << 20, max_at_once = std::size_t{8} << 20;

  template <typename Stream, typename Open>
  std::size_t place(Stream& stream, Open open) {
    const bool begins = !std::exchange(has_begun_, true);
    if (in_.header().kind != frame_kind::transfer) {
      if (begins) payload_.clear();
      const std::uint64_t length = in_.header().payload_length;
      if (in_.header().kind != frame_kind::write_variable && length > max_step_message_bytes)
        throw error(error_code::data_loss, "receive",
                    {"the message has ", length, " bytes, but at most ", max_step_message_bytes, " are allowed"});
      // The header is verified together with the payload, so memory grows with the bytes that have arrived.
      const std::size_t filled = payload_.size();
      const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(in_.left(), std::max(max_piece, filled)));
      payload_.resize(filled + piece);
      in_.payload_to(mutable_bytes(payload_).subspan(filled));
      return in_.advance(stream);
    }
    if (begins) value_ = open(in_.header());
    std::size_t moved = 0;
    value_.read([&](std::byte* to) {
      const std::uint64_t left = in_.left();
      auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(left, max_piece));
      if (!to) {
        nowhere_.resize(std::size_t{64} << 10);
        to = nowhere_.data();
        piece = std::min(piece, nowhere_.size());
      }
      in_.payload_to({to, piece});
      moved = in_.advance(stream);
      return static_cast<std::size_t>(left - in_.left());
    });
    return moved;
  }

  std::uint64_t max_bytes_;
  frame_reader in_;
  bool has_begun_ = false;  // the payload has begun
  arrival value_;
  payload_type payload_, nowhere_;
};

/// Interval between heartbeats of a client and a task, and the longest silence of either.
inline constexpr std::chrono::milliseconds client_heartbeat{500}, client_silence{15'000};
/// The longest silence of a task on the client's own host. Between hosts, a link may recover.
inline constexpr std::chrono::milliseconds task_silence_on_host{2000};
/// The longest time that other requests wait for a run whose client is silent or reads slowly.
inline constexpr std::chrono::milliseconds client_stall{2000};

/// The connections over which one task exchanges the values of steps with all others. Each task opens one connection to
/// each task that it sends to. A client outside the cluster opens two: one for its requests and one for the answers.
/// One thread at a time receives on all connections, a thread that waits for a frame or else a thread of this class. A
/// send therefore returns as soon as the bytes have left.
class remote_channels {
 public:
  using payload_type = std::vector<std::byte>;
  /// Called with each frame except values, on the thread that receives. For a frame that this task sends to itself, the
  /// sending thread calls it. An exception closes the connection.
  using handler = std::function<void(const peer_process& from, const frame_header&, payload_type)>;
  /// Called on the same thread when a value starts arriving. Returns its destination.
  using opener = std::function<mailbox::arrival(const peer_process& from, const frame_header&)>;
  /// Called on the same thread when a connection from another task or a client has ended: frames may have been lost.
  /// Also called before a client connects, so that runs of an earlier connection end before new requests arrive.
  using loser = std::function<void(const peer_process& from)>;

  static constexpr const char* channel_name = "graph";

  remote_channels(task_server& here, std::uint64_t max_bytes, opener open, handler handle, loser lose)
      : here_(here),
        max_bytes_(max_bytes),
        open_(std::move(open)),
        handle_(std::move(handle)),
        lose_(std::move(lose)),
        clients_(here.network(), here.waiting(), here.options().checksum, here.options().stalled, max_bytes),
        loop_(*this, here.service_bell(), {here.network(), here.waiting()}) {
    for (std::size_t rank = 0; rank < here.members().size(); ++rank) {
      outgoing_.push_back(std::make_unique<outgoing>());
      if (rank != self()) here.connect_to(rank);
    }
    thread_ = detail::start_thread([this] {
      while (!stopping()) try {
          loop_.receive_when_idle(deadline::never());
        } catch (const std::exception&) {  // no memory
          detail::sleep(std::chrono::milliseconds(10));
        }
    });
  }
  ~remote_channels() { stop(); }
  remote_channels(const remote_channels&) = delete;
  remote_channels& operator=(const remote_channels&) = delete;

  void stop() {
    stopping_ = true;
    here_.service_bell().notify();
    if (thread_.joinable()) detail::join(thread_);
  }

  /// See receiving_loop.
  template <typename Done>
  bool receive_until(urgency mine, std::chrono::nanoseconds time, Done done) {
    return loop_.receive_until(mine, time, done);
  }
  void wake() { loop_.wake(); }

  std::size_t self() const { return here_.members().self(); }

  bool has_client(std::uint64_t incarnation) const { return clients_.has(incarnation); }

  /// Sends a frame to a client without waiting for it: for the thread that receives.
  void post_to_client(std::uint64_t incarnation, const frame_header& header, payload_type payload) {
    clients_.post(incarnation, header, std::move(payload));
  }

  /// Returns false if the receiver is a client that has not read enough of earlier frames to receive this many bytes.
  bool has_room(const peer_process& peer, std::size_t bytes) const {
    return peer.rank != here_.members().size() || clients_.has_room(peer.incarnation, bytes);
  }

  /// Returns true if nothing has arrived from a client for this time.
  bool is_silent(std::uint64_t incarnation, std::chrono::milliseconds time) const {
    return clients_.is_silent(incarnation, time);
  }

  /// Returns when the bytes have left. Throws deadline_exceeded, and unavailable with the name of the task if this
  /// process of the task is gone. Another process of the task never receives the frame. The rank of a client is the
  /// number of tasks; if a client does not read, a copy of the frame waits for the client.
  void send(const peer_process& peer, const frame_header& header, const_bytes payload, deadline until) {
    if (peer.rank == here_.members().size())
      return clients_.send(peer.incarnation, header, payload, [&] {
        if (stopping_ || here_.stopping()) throw error(error_code::cancelled, "send", "this server was stopped");
        if (until.expired()) throw error(error_code::deadline_exceeded, "send", "the client has not read in time");
      });
    const std::size_t rank = peer.rank;
    if (rank == self()) {
      frame_header own = header;
      own.payload_length = payload.size();
      const peer_process from{rank, here_.incarnation()};
      if (own.kind == frame_kind::transfer)
        mailbox::put(open_(from, own), payload);
      else
        handle_(from, own, payload_type(payload.begin(), payload.end()));
      return wake();
    }
    const auto check = [&](bool is_there) {
      if (!is_there) throw here_.members().diagnose(rank, peer.incarnation, "send", "is gone");
    };
    outgoing& to = *outgoing_[rank];
    const std::lock_guard lock(to.mutex);
    check(here_.members().alive(rank, peer.incarnation));
    to.drop_ended();
    try {
      if (!to.channel || to.channel->incarnation != peer.incarnation)
        to.channel = here_.open_channel(rank, channel_name, until);
      check(to.channel->incarnation == peer.incarnation);  // the task may have been restarted meanwhile
      sending one{to, rank, {}};
      one.out.start(header, payload, here_.options().checksum);
      try {
        exchange_loop(here_, here_.waiting()).run("send", until, one);
      } catch (const error& problem) {
        if (problem.code() != error_code::unavailable) throw;
        to.note_end();
        throw here_.diagnose(rank, to.channel->incarnation, "send", problem);
      }
      to.last_used = detail::now();
    } catch (...) {
      to.channel.reset();  // the frame may be incomplete
      throw;
    }
  }
  /// Returns true if frames sent to this process of a task since `began` may be lost: the other end has closed the
  /// connection, although the process is alive.
  bool has_lost_sent(const peer_process& peer, deadline::time_point began) const {
    if (peer.rank >= outgoing_.size()) return false;
    outgoing& to = *outgoing_[peer.rank];
    const std::unique_lock lock(to.mutex, std::try_to_lock);
    if (!lock) return false;  // a thread that sends finds out
    to.drop_ended();
    return to.ended == peer.incarnation && to.ended_after >= began;
  }

 private:
  struct outgoing {
    detail::task_mutex mutex;
    std::optional<peer_channel> channel;
    deadline::time_point last_used{};
    // The last connection that the other task has closed: its process, and when the connection was last used.
    std::uint64_t ended = 0;
    deadline::time_point ended_after{};

    /// Drops the connection if the other task, which never sends on it, has closed it.
    void drop_ended() {
      if (!channel) return;
      std::byte none{};
      const mutable_bytes into(&none, 1);
      try {
        if (channel->stream.read_some({&into, 1}) == 0) return;
      } catch (const error&) {
      }
      note_end();
      channel.reset();
    }
    void note_end() {
      ended = channel->incarnation;
      ended_after = last_used;
    }
  };

  struct sending {
    outgoing& to;
    std::size_t rank;
    frame_writer out;

    static constexpr bool survives_leaving = false;
    std::size_t advance() { return out.advance(to.channel->stream); }
    bool is_complete() const { return out.idle(); }
    error late() const { return error(error_code::deadline_exceeded, "send", "the other task has not read in time"); }
    template <typename Visit>
    void for_each_stream(Visit visit) const {
      visit(to.channel->stream, false, true);
    }
    template <typename Visit>
    void for_each_peer(Visit visit) const {
      visit(peer_process{rank, to.channel->incarnation}, true);
    }
  };

  struct incoming {
    peer_process from;
    any_transport::stream stream;
    frame_receiver in;
    deadline silence = deadline::never();  // when a silent client counts as lost
    std::uint64_t number = 0;              // number of a client's connections
  };

  /// Takes the connections that clients have opened.
  void meet_clients() {
    client_channel next;
    while (here_.take_client(next)) {
      if (!next.asks) {
        lose_({here_.members().size(), next.incarnation});
        clients_.add(next.incarnation, std::move(next.stream));
        continue;
      }
      const std::uint64_t number = clients_.admit(next.incarnation);
      if (number == 0) continue;
      loop_.add(std::unique_ptr<incoming>(new incoming{{here_.members().size(), next.incarnation},
                                                       std::move(next.stream),
                                                       frame_receiver(max_bytes_),
                                                       deadline(client_silence),
                                                       number}));
    }
    clients_.drop_late();
  }

  // ---- for receiving_loop ----

  friend receiving_loop<remote_channels, incoming>;

  bool stopping() const { return stopping_ || here_.stopping(); }
  void take_new() {
    peer_channel next;
    while (here_.take_channel(channel_name, next))
      loop_.add(std::unique_ptr<incoming>(
          new incoming{{next.rank, next.incarnation}, std::move(next.stream), frame_receiver(max_bytes_)}));
    meet_clients();
  }
  void lose(const incoming& from) {
    if (from.from.rank == here_.members().size()) {
      if (clients_.is_replaced(from.from.incarnation, from.number)) return;  // its runs have ended
      clients_.remove(from.from.incarnation, from.number);
    }
    lose_(from.from);
  }

  bool advance(incoming& from) {
    const bool is_client = from.from.rank == here_.members().size();
    if (is_client && !clients_.has(from.from.incarnation, from.number))
      throw error(error_code::unavailable, "receive", "the client has no channel for answers");
    const std::size_t total = from.in.advance(
        from.stream, [&](const frame_header& header) { return open_(from.from, header); },
        [&](const frame_header& header, payload_type payload) {
          if (is_client && header.kind == frame_kind::heartbeat)
            clients_.post_heartbeat(from.from.incarnation);
          else
            handle_(from.from, header, std::move(payload));
        });
    if (is_client && total > 0) {
      from.silence = deadline(client_silence);
      clients_.note_received(from.from.incarnation);
    }
    if (is_client && from.silence.expired())
      throw error(error_code::unavailable, "receive", "the client has sent nothing for too long");
    return total > 0;
  }

  task_server& here_;
  std::uint64_t max_bytes_;
  opener open_;
  handler handle_;
  loser lose_;
  std::vector<std::unique_ptr<outgoing>> outgoing_;  // by rank
  client_answers clients_;
  std::atomic<bool> stopping_{false};

  receiving_loop<remote_channels, incoming> loop_;
  std::thread thread_;
};

}  // namespace weft::detail
