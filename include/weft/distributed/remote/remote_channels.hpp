#pragma once

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
#include <weft/distributed/membership/server.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/transport.hpp>

namespace weft::detail {

/// The connections of one task to all others over which steps run: each task opens one to each task that it sends to.
/// One thread receives on all of them whatever the steps wait for, so a send ends as soon as the bytes have left.
template <typename Server>
class remote_channels {
  using network = typename Server::transport_type;
  using clock = typename Server::clock_type;

 public:
  using deadline_type = basic_deadline<clock>;
  using payload_type = std::vector<std::byte>;
  /// Called with each frame, on the receiving thread or, of a frame to this task itself, the sending one. What it
  /// throws ends the connection.
  using handler = std::function<void(const peer_process& from, const frame_header&, payload_type)>;

  static constexpr const char* channel_name = "graph";

  remote_channels(Server& here, std::uint64_t max_bytes, handler handle)
      : here_(here), max_bytes_(max_bytes), handle_(std::move(handle)) {
    for (std::size_t rank = 0; rank < here.members().size(); ++rank) {
      outgoing_.push_back(std::make_unique<outgoing>());
      if (rank != self()) here.connect_to(rank);
    }
    thread_ = std::thread([this] { receive(); });
  }
  ~remote_channels() { stop(); }
  remote_channels(const remote_channels&) = delete;
  remote_channels& operator=(const remote_channels&) = delete;

  void stop() {
    stopping_ = true;
    here_.service_bell().notify();
    if (thread_.joinable()) thread_.join();
  }

  std::size_t self() const { return here_.members().self(); }

  /// Returns when the bytes have left. Throws deadline_exceeded, and unavailable that names the task if it is gone.
  void send(std::size_t rank, const frame_header& header, const_bytes payload, deadline_type until) {
    if (rank == self()) {
      frame_header own = header;
      own.payload_length = payload.size();
      return handle_({rank, here_.incarnation()}, own, payload_type(payload.begin(), payload.end()));
    }
    outgoing& to = *outgoing_[rank];
    const std::lock_guard lock(to.mutex);
    try {
      if (!to.channel || !here_.members().alive(rank, to.channel->incarnation))
        to.channel = here_.open_channel(rank, channel_name, until);
      sending one{to, rank, {}};
      one.out.start(header, payload, here_.options().checksum);
      try {
        exchange_loop<Server>(here_, here_.waiting()).run("send", until, one);
      } catch (const error& problem) {
        if (problem.code() != error_code::unavailable) throw;
        throw here_.diagnose(rank, to.channel->incarnation, "send", problem);
      }
    } catch (...) {
      to.channel.reset();  // in the middle of a frame
      throw;
    }
  }

 private:
  struct outgoing {
    std::mutex mutex;
    std::optional<typename Server::channel> channel;
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
    typename Server::channel channel;
    frame_reader in;
    payload_type payload;
  };

  void receive() {
    std::vector<std::unique_ptr<incoming>> all;
    waiter<network, clock> idle(here_.network(), here_.waiting());
    std::vector<typename network::wait_item> items;
    while (!stopping_ && !here_.stopping()) {
      typename Server::channel next;
      while (here_.take_channel(channel_name, next)) {
        all.push_back(std::make_unique<incoming>());
        all.back()->channel = std::move(next);
        all.back()->in.expect(max_bytes_);
      }
      bool moved = false;
      for (std::size_t k = all.size(); k-- > 0;) try {
          moved = advance(*all[k]) || moved;
        } catch (const std::exception&) {  // closed, malformed, or no memory: whoever waits hears of the peer's end
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(k));
        }
      if (moved) {
        idle.moved();
        continue;
      }
      items.clear();
      items.push_back({&here_.service_bell(), true, false});
      for (const auto& each : all) items.push_back({&each->channel.stream, true, false});
      if (idle.pause(items, deadline_type(std::chrono::milliseconds(50)))) here_.service_bell().clear();
    }
  }

  bool advance(incoming& from) {
    std::size_t total = 0;
    for (std::size_t moved = 1; moved > 0;) {
      moved = from.in.advance(from.channel.stream);
      if (from.in.needs_destination()) {
        from.payload.resize(static_cast<std::size_t>(from.in.header().payload_length));
        from.in.payload_to(mutable_bytes(from.payload));
        moved += from.in.complete() ? 0 : from.in.advance(from.channel.stream);
      }
      total += moved;
      if (!from.in.complete()) continue;
      handle_({from.channel.rank, from.channel.incarnation}, from.in.header(), std::move(from.payload));
      from.payload = {};
      from.in.expect(max_bytes_);
      ++total, moved = 1;
    }
    return total > 0;
  }

  Server& here_;
  std::uint64_t max_bytes_;
  handler handle_;
  std::vector<std::unique_ptr<outgoing>> outgoing_;  // by rank
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace weft::detail
