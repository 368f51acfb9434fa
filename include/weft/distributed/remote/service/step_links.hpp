// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/device/step_watch.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/distributed/remote/receiving_role.hpp>
#include <weft/distributed/remote/service/client_waits.hpp>
#include <weft/distributed/remote/service/parked_runs.hpp>
#include <weft/distributed/remote/service/run_scheduler.hpp>
#include <weft/distributed/remote/service/service_peers.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/distributed/remote/task_links.hpp>
#include <weft/error.hpp>
#include <weft/transport/frame.hpp>

namespace weft::detail {

/// A run, in a task that computes its part of it.
struct served_run {
  run_key key{};
  std::shared_ptr<const run_message> message = {};
  std::shared_ptr<mailbox> box = {};
  peer_process client{};
  deadline until{std::chrono::seconds(0)};
  deadline::time_point began{};
  run_progress* progress = nullptr;
};

/// Carries the values of a task's part of a run.
class step_links final : public task_links {
 public:
  step_links(service_peers& peers, run_scheduler& scheduler, client_waits& waits)
      : peers_(peers), scheduler_(scheduler), waits_(waits) {}

  void begin(served_run run) { run_ = std::move(run); }
  void end() {
    run_ = {};
    fetched_.clear();
  }
  /// Returns the values that travel with the end of the run.
  small_values take_fetched() { return std::move(fetched_); }

  void send(const transfer_key& key, const std::byte* value, std::size_t bytes) override {
    frame_header header;
    header.kind = frame_kind::transfer;
    header.tag = run_.key.session;
    header.step = run_.key.number;
    header.request = key.to;
    header.weight = key.number;
    if (key.to == peers_.size()) return send_to_client(key, header, {value, bytes});
    const std::uint64_t incarnation = process_of(key.to);
    peers_.await_process(key.to, incarnation, run_.until, [&] {
      run_.box->check();
      peers_.check_client(run_.client);
    });
    peers_.send({key.to, incarnation}, header, {value, bytes}, run_.until);
  }

  void receive(const transfer_key& key, std::byte* to, std::size_t bytes) override {
    const bool from_client = key.from == peers_.size();
    const std::uint64_t incarnation = from_client ? 0 : process_of(key.from);
    const pause here(*this);
    run_.box->take(
        key.number, to, bytes, run_.until, from_client ? "the client" : peers_.name_of(key.from),
        [&] {
          if (!from_client) {
            peers_.check_met(key.from, incarnation);
            peers_.check_connection(key.from, incarnation, run_.began);
          }
          peers_.check_client(run_.client);
          if (!run_.message->waits) waits_.check_stall(run_.client);
        },
        [&](auto done) { return peers_.receive_until(urgency::step, std::chrono::milliseconds(20), done); });
  }

  void watch(void* of, void (*operation)(void*), bool waits) override {
    struct run_watch final : step_watch {
      explicit run_watch(step_links& l) : links(l) { watch_of_thread = this; }
      ~run_watch() { watch_of_thread = nullptr; }
      bool is_over() override {
        return links.peers_.is_ending() || links.run_.until.expired() || links.run_.box->failure().has_value() ||
               links.peers_.is_gone(links.run_.client);
      }
      step_links& links;
    } watched(*this);
    if (!waits) return operation(of);  // the operation computes and keeps its turn
    const pause here(*this);
    operation(of);
  }

 private:
  /// Lets other runs compute while this one waits.
  class pause {
   public:
    explicit pause(step_links& of) : of_(of) {
      if (of_.run_.message->waits) of_.scheduler_.turns().pause(*of_.run_.progress);
    }
    ~pause() {
      if (of_.run_.message->waits) of_.scheduler_.turns().resume(*of_.run_.progress);
    }
    pause(const pause&) = delete;
    pause& operator=(const pause&) = delete;

   private:
    step_links& of_;
  };

  void send_to_client(const transfer_key& key, const frame_header& header, const_bytes value) {
    {  // small values travel with the end of this part, for which the client waits anyway
      const std::lock_guard lock(fetching_);
      if (fetched_.add(key.to, key.number, value)) return;
    }
    if (!peers_.channels().has_room(run_.client, value.size())) {
      const pause here(*this);
      waits_.await_room(run_.client, value.size(), run_.until, run_.message->participants.size(), !run_.message->waits,
                        [&] { run_.box->check(); });
    }
    peers_.send(run_.client, header, value, run_.until);
  }

  std::uint64_t process_of(std::uint32_t task) const {
    const auto& all = run_.message->participants;
    const auto found = std::find(all.begin(), all.end(), task);
    if (found == all.end()) message_reader::malformed();
    return run_.message->processes[static_cast<std::size_t>(found - all.begin())];
  }

  service_peers& peers_;
  run_scheduler& scheduler_;
  client_waits& waits_;
  served_run run_;
  std::mutex fetching_;
  small_values fetched_;
};

}  // namespace weft::detail
