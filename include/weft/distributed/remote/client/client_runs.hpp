// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
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

/// The runs that sessions of this process request from the tasks of a cluster, one at a time for each session, and the
/// answers of the tasks. All members are thread-safe.
class client_runs {
 public:
  using box_type = mailbox;

  struct client {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t number = 0;                  // number of the run
    std::vector<bool> ended;                  // by task
    std::optional<error> cause, consequence;  // the first failure; a failure that another one caused
    std::shared_ptr<box_type> box;
  };

  explicit client_runs(std::uint64_t max_parked_bytes) : parked_(max_parked_bytes) {}

  void add(std::uint64_t session, client& state) {
    const std::lock_guard lock(mutex_);
    clients_.emplace(session, &state);
  }
  void remove(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    clients_.erase(session);
  }

  /// Accepts answers to a run or another request from now on.
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
    if (of.box) of.box->close();
    of.box.reset();
  }

  /// A value starts arriving for a run. It is dropped if the run has ended.
  typename box_type::arrival open(const frame_header& header) {
    std::shared_ptr<box_type> box;
    with_run(header, [&](client& of) { box = of.box; });
    return box_type::open(box, header.weight, static_cast<std::size_t>(header.payload_length), parked_);
  }
  /// A task has ended its part of a run.
  void end_part(std::size_t task, const std::string& name, const frame_header& header, const end_message& how) {
    with_run(header, [&](client& of) {
      if (task >= of.ended.size()) return;
      for (const small_values::value& each : how.fetched.all())
        box_type::put(box_type::open(of.box, each.number, each.bytes.size(), parked_), each.bytes);
      of.ended[task] = true;
      if (!how.failed) return;
      std::optional<error>& why = how.follows ? of.consequence : of.cause;
      if (!why) why = how.from(name);
      if (of.box) of.box->fail(*why);
    });
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

  std::mutex mutex_;
  std::map<std::uint64_t, client*> clients_;  // by session
  parked_bytes parked_;
};

}  // namespace weft::detail
