#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/error.hpp>
#include <weft/transport/frame.hpp>

namespace weft::detail {

/// Runs that sessions of this process ask the tasks of a cluster for, one at a time each, and what the tasks answer.
/// Any thread may call.
template <typename Clock>
class client_runs {
 public:
  using box_type = mailbox<Clock>;

  struct client {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t number = 0;                  // of the run
    std::vector<bool> ended;                  // by task
    std::optional<error> cause, consequence;  // what a task failed with; and what that led to
    std::shared_ptr<box_type> box;
  };

  explicit client_runs(std::uint64_t max_parked_bytes) : max_parked_bytes_(max_parked_bytes) {}

  void add(std::uint64_t session, client& state) {
    const std::lock_guard lock(mutex_);
    clients_.emplace(session, &state);
  }
  void remove(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    clients_.erase(session);
  }

  /// Begins to keep what comes for a run or another request.
  void begin(client& of, std::int64_t number, std::size_t tasks) {
    const std::lock_guard own(of.mutex);
    of.number = number;
    of.ended.assign(tasks, false);
    of.cause.reset();
    of.consequence.reset();
    of.box = std::make_shared<box_type>();
  }
  void end(client& of) {
    const std::lock_guard own(of.mutex);
    if (of.box) parked_ -= of.box->close();
    of.box.reset();
  }

  /// A value has come for a run; it is dropped if the run has ended.
  void deliver(const frame_header& header, std::vector<std::byte>&& value) {
    with_run(header, [&](client& of) {
      if (of.box) put(*of.box, parked_, max_parked_bytes_, header.weight, std::move(value));
    });
  }
  /// A task has ended its part.
  void end_part(std::size_t task, const std::string& name, const frame_header& header, const end_message& how) {
    with_run(header, [&](client& of) {
      if (task >= of.ended.size()) return;
      of.ended[task] = true;
      if (!how.failed) return;
      std::optional<error>& why = how.follows ? of.consequence : of.cause;
      if (!why) why = how.from(name);
      if (of.box) of.box->fail(*why);
    });
  }

  std::atomic<std::uint64_t>& parked() { return parked_; }

  /// Keeps a value in a mailbox, or fails the mailbox's run where values of too many bytes wait already.
  static void put(box_type& box, std::atomic<std::uint64_t>& parked, std::uint64_t max_parked_bytes,
                  std::uint32_t transfer, std::vector<std::byte>&& value) {
    const std::uint64_t bytes = value.size();
    if (parked.fetch_add(bytes) + bytes > max_parked_bytes) {
      parked -= bytes;
      box.fail(error(error_code::resource_exhausted, "receive",
                     {"values of more than ", max_parked_bytes,
                      " bytes wait here for their steps (max_parked_bytes of the service's options)"}));
      return;
    }
    if (!box.put(transfer, std::move(value))) parked -= bytes;
  }

  /// Waits for a value and copies it to where it belongs.
  template <typename Check>
  static void take(box_type& box, std::atomic<std::uint64_t>& parked, std::uint32_t transfer, const std::string& from,
                   std::byte* to, std::size_t bytes, basic_deadline<Clock> until, Check check) {
    const std::vector<std::byte> value = box.take(transfer, until, from, check);
    parked -= value.size();
    if (value.size() != bytes)
      throw error(error_code::data_loss, "receive",
                  {"a value from ", from, " has ", value.size(), " bytes, not ", bytes});
    if (bytes) std::memcpy(to, value.data(), bytes);
  }

 private:
  template <typename Do>
  void with_run(const frame_header& header, Do what) {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(header.tag);
    if (found == clients_.end()) return;
    client& of = *found->second;
    {
      const std::lock_guard own(of.mutex);
      if (of.number != header.step) return;
      what(of);
    }
    of.changed.notify_all();
  }

  const std::uint64_t max_parked_bytes_;
  std::mutex mutex_;
  std::map<std::uint64_t, client*> clients_;  // by session
  std::atomic<std::uint64_t> parked_{0};
};

}  // namespace weft::detail
