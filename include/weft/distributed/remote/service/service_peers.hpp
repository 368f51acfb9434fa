// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/remote/receiving_role.hpp>
#include <weft/distributed/remote/remote_channels.hpp>
#include <weft/error.hpp>
#include <weft/transport/frame.hpp>
#include <weft/transport/random_bytes.hpp>

namespace weft::detail {

/// The processes with which a task exchanges the values of steps, the other tasks and the clients outside the cluster:
/// their state and the connections to them. The rank of a client is the number of tasks. All members are thread-safe.
class service_peers {
 public:
  /// See remote_channels for the parameters.
  service_peers(task_server& here, std::uint64_t max_value_bytes, remote_channels::opener open,
                remote_channels::handler handle, remote_channels::loser lose)
      : here_(here), channels_(here, max_value_bytes, std::move(open), std::move(handle), std::move(lose)) {}

  /// Makes check_there() throw cancelled. Answers can still be sent for a moment.
  void end() {
    farewell_ = deadline(std::chrono::seconds(1));
    stopping_ = true;
  }
  /// Receives nothing from now on.
  void stop() { channels_.stop(); }
  bool is_ending() const { return stopping_ || here_.stopping(); }
  /// The time within which an answer must be sent.
  deadline time_to_answer() const { return stopping_ ? farewell_ : deadline(std::chrono::seconds(10)); }

  remote_channels& channels() { return channels_; }
  std::size_t size() const { return here_.members().size(); }  // number of tasks
  std::size_t self() const { return here_.members().self(); }
  std::string name_of(std::size_t task) const { return to_string(here_.members().task(task)); }
  peer_process self_as_client() const { return {self(), here_.incarnation()}; }
  void fill_random(std::span<std::byte> bytes) { weft::fill_random(here_.network(), bytes); }

  // ---- which processes are alive ----

  void await_tasks(deadline until) {
    here_.members().wait_for(until, [](const task_id&) { return true; });
  }
  /// Returns the incarnation of the task's current process.
  std::uint64_t process_of(std::size_t task) const {
    return task == self() ? here_.incarnation() : here_.members().incarnation(task);
  }
  bool is_there(std::size_t task, std::uint64_t incarnation) const {
    return task == self() || here_.members().alive(task, incarnation);
  }
  /// Throws unavailable with the name of the task if this process of the task is gone.
  void check_there(std::size_t task, std::uint64_t incarnation) const {
    check_not_stopped();
    if (!is_there(task, incarnation)) throw here_.members().diagnose(task, incarnation, "step", "is gone");
  }
  /// Throws unavailable with the name of the task if this process of the task has ended. A process that has not
  /// connected to this task yet is not an error.
  void check_met(std::size_t task, std::uint64_t incarnation) const {
    if (process_of(task) == incarnation) check_there(task, incarnation);
  }
  /// Returns true if a process that requests steps, or takes part in them, has ended.
  bool is_gone(const peer_process& peer) const {
    if (peer.rank == size()) return !channels_.has_client(peer.incarnation);
    if (peer.rank == self()) return peer.incarnation != here_.incarnation();
    return !here_.members().alive(peer.rank, peer.incarnation);
  }
  void check_client(const peer_process& client) const {
    if (client.rank != size()) return check_there(client.rank, client.incarnation);
    check_not_stopped();
    if (is_gone(client)) throw error(error_code::unavailable, "step", "the client is gone");
  }
  /// Waits until this task is connected to a process to which the client is connected. Calls `check` periodically.
  template <typename Check>
  void await_process(std::size_t task, std::uint64_t incarnation, deadline until, Check check) const {
    while (process_of(task) != incarnation) {
      check();
      if (until.expired())
        throw error(error_code::deadline_exceeded, "send", {name_of(task), " has not connected again in time"});
      detail::sleep(std::chrono::milliseconds(5));
    }
  }

  // ---- connections that have ended ----

  /// A connection from a task has ended. Runs may wait for values that were lost with it, although the task is alive.
  void note_loss(const peer_process& from) {
    const std::lock_guard lock(mutex_);
    if (losses_.size() < max_losses) losses_.insert_or_assign(from, detail::now());
  }
  void forget_losses() {
    const std::lock_guard lock(mutex_);
    std::erase_if(losses_, [&](const auto& each) { return is_gone(each.first); });
  }
  /// Returns true if the connection from a task that is alive has ended since a run began, or shortly before.
  bool has_lost_values(std::size_t task, std::uint64_t incarnation, deadline::time_point began) const {
    constexpr std::chrono::seconds to_notice{1};  // to detect a lost task, or by which a request overtakes values
    const std::lock_guard lock(mutex_);
    const auto loss = losses_.find({task, incarnation});
    return loss != losses_.end() && loss->second + to_notice >= began && detail::now() >= loss->second + to_notice;
  }
  /// Returns true if a connection with a task that is alive has ended, so that a run that began then may wait in vain.
  bool has_lost_connection(std::size_t task, std::uint64_t incarnation, deadline::time_point began) const {
    return has_lost_values(task, incarnation, began) || channels_.has_lost_sent({task, incarnation}, began);
  }
  /// Throws unavailable if has_lost_connection().
  void check_connection(std::size_t task, std::uint64_t incarnation, deadline::time_point began) const {
    if (has_lost_values(task, incarnation, began))
      throw error(error_code::unavailable, "receive",
                  {"the connection from ", name_of(task), " ended, so values of this step may be lost"});
    if (channels_.has_lost_sent({task, incarnation}, began))
      throw here_.diagnose(task, incarnation, "step",
                           error(error_code::unavailable, "step", "the connection is closed"));
  }

  // ---- frames ----

  /// See receiving_loop.
  template <typename Done>
  bool receive_until(urgency mine, std::chrono::nanoseconds time, Done done) {
    return channels_.receive_until(mine, time, done);
  }
  void send(const peer_process& to, const frame_header& header, const_bytes payload, deadline until) {
    channels_.send(to, header, payload, until);
  }

 private:
  static constexpr std::size_t max_losses = 1024;

  void check_not_stopped() const {
    if (is_ending()) throw error(error_code::cancelled, "step", "this server was stopped");
  }

  task_server& here_;
  std::atomic<bool> stopping_{false};
  deadline farewell_{std::chrono::seconds(0)};  // set before stopping_
  mutable std::mutex mutex_;
  std::map<peer_process, deadline::time_point> losses_;  // the last loss of each process
  remote_channels channels_;
};

}  // namespace weft::detail
