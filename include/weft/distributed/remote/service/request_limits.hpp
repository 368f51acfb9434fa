// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Limits the requests of each client to a task, so that one client cannot exhaust the task for the others. All members
/// are thread-safe.
class request_limits {
 public:
  static constexpr std::size_t max_requests = 256;  // requests of one client that wait or run

  /// `parked` counts the memory of requests together with that of values.
  explicit request_limits(parked_bytes& parked) : parked_(parked) {}

  /// Counts an admitted request until it has ended.
  class ticket {
   public:
    ticket() = default;
    ticket(ticket&& other) noexcept { swap(other); }
    ticket& operator=(ticket&& other) noexcept {
      ticket taken(std::move(other));
      swap(taken);
      return *this;
    }
    ~ticket() {
      if (of_) of_->end(client_, bytes_);
    }

   private:
    friend class request_limits;
    ticket(request_limits& of, const peer_process& client, std::size_t bytes)
        : of_(&of), client_(client), bytes_(bytes) {}
    void swap(ticket& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(client_, other.client_);
      std::swap(bytes_, other.bytes_);
    }

    request_limits* of_ = nullptr;
    peer_process client_;
    std::size_t bytes_ = 0;
  };

  /// Throws resource_exhausted if too many requests of the client wait or run, or too many bytes wait in this process.
  ticket admit(const peer_process& client, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::size_t& count = counts_[client];
    if (count >= max_requests)
      throw error(error_code::resource_exhausted, "step",
                  {max_requests, " requests of this client already wait or run in the task, the limit"});
    if (!parked_.add(bytes)) {
      if (count == 0) counts_.erase(client);
      throw error(error_code::resource_exhausted, "step",
                  {"requests and values that wait in the task exceed ", parked_.limit(),
                   " bytes (graph_service_options::max_parked_bytes)"});
    }
    ++count;
    return {*this, client, bytes};
  }

 private:
  void end(const peer_process& client, std::size_t bytes) {
    parked_.remove(bytes);
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(client);
    if (--found->second == 0) counts_.erase(found);
  }

  parked_bytes& parked_;
  std::mutex mutex_;
  std::map<peer_process, std::size_t> counts_;
};

}  // namespace weft::detail
