// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <weft/error.hpp>
#include <weft/text.hpp>

namespace weft::detail {

/// Returns "no process has taken the place of `names` within 500 ms"; with empty names, "its place".
inline std::string not_replaced(std::chrono::milliseconds wait, const std::string& names = {}) {
  return str_cat({"no process has taken ", names.empty() ? "its place" : "the place of ", names, " within ",
                  std::int64_t{wait.count()}, " ms"});
}
/// Returns the sentence for a call whose deadline passes before the wait ends.
inline std::string not_replaced_yet(const std::string& names) {
  return str_cat({"no replacement for ", names, " has connected in time"});
}

/// Records which members of a group are missing and since when, and decides when the wait of the loss policy ends.
/// Members are numbered from 0. The caller provides the time, so the class depends on no clock. Not thread-safe.
class loss_watch {
 public:
  /// A time point of any clock. A watch uses a single clock.
  struct moment {
    std::chrono::nanoseconds since_epoch{0};

    moment() = default;
    template <class Clock, class Duration>
    moment(std::chrono::time_point<Clock, Duration> time) : since_epoch(time.time_since_epoch()) {}
  };

  explicit loss_watch(std::chrono::milliseconds wait = {}) : wait_(wait) {}

  void set_wait(std::chrono::milliseconds wait) { wait_ = wait; }
  std::chrono::milliseconds wait() const { return wait_; }
  /// Returns true if the policy waits for a replacement of a missing member.
  bool keeps_places() const { return wait_.count() > 0; }

  // ---- each member ----

  /// Records whether a member is missing at `now`. Its wait starts with the first call that reports it missing.
  void note(std::size_t member, bool is_missing, moment now) {
    record& its = at(member);
    if (!is_missing)
      its.since.reset();
    else if (!its.since)
      its.since = now;
  }
  /// Records that a process replaces the member.
  void replace(std::size_t member) {
    record& its = at(member);
    its.before = its.since;
    its.since.reset();
  }
  /// Records that the replacement is rejected: the wait continues as if the process had not connected.
  void reject(std::size_t member) { at(member).since = at(member).before; }

  bool is_missing(std::size_t member) const { return member < members_.size() && members_[member].since; }
  bool is_missing_for(std::size_t member, std::chrono::milliseconds time, moment now) const {
    return is_missing(member) && now.since_epoch - members_[member].since->since_epoch >= time;
  }
  /// Returns true if the member has been missing for as long as the policy waits.
  bool is_over(std::size_t member, moment now) const { return is_missing_for(member, wait_, now); }

  // ---- a wait of the whole group ----

  /// Starts a wait in which all missing members have the same time. No member counts as missing yet.
  void begin(moment now) {
    members_.clear();
    began_ = now;
  }
  std::chrono::nanoseconds elapsed(moment now) const { return now.since_epoch - began_.since_epoch; }
  bool is_over(moment now) const { return elapsed(now) >= wait_; }

  // ---- reports ----

  /// Returns the error after a wait without success. `why`: the reason that the member is missing.
  error not_replaced(const error& why, const char* operation) const {
    return error(why.code(), operation, {why.sentence(), "; ", detail::not_replaced(wait_)});
  }

 private:
  struct record {
    std::optional<moment> since;   // the start of the absence; empty: not missing
    std::optional<moment> before;  // `since` before the last replacement
  };
  record& at(std::size_t member) {
    if (member >= members_.size()) members_.resize(member + 1);
    return members_[member];
  }

  std::chrono::milliseconds wait_;
  moment began_;
  std::vector<record> members_;
};

}  // namespace weft::detail
