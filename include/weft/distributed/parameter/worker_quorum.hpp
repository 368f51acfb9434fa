#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/worker_roster.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Decides which workers are gone, and whether training can go on without them: synchronous training needs all,
/// asynchronous training server_options::min_workers.
///
/// Invariant: once synchronous training has lost a worker whose place another process took, why_broken() never becomes
/// empty again. Not locked: the serving thread owns it.
template <typename Server>
class worker_quorum {
  using clock = typename Server::clock_type;
  using time_point = typename clock::time_point;

 public:
  using worker = served_worker<Server>;

  /// Throws weft::error (invalid_argument) for a server_options::min_workers that is out of range.
  worker_quorum(Server& here, worker_roster<Server>& workers)
      : here_(here), members_(here.members()), workers_(workers) {
    const int all = static_cast<int>(workers.size());
    min_workers_ = here.options().min_workers.value_or(all);
    if (min_workers_ != all && (min_workers_ < 1 || min_workers_ > all))
      throw error(
          error_code::invalid_argument, here.name(),
          {"server_options::min_workers must be from 1 to ", all, ", the number of workers, and is ", min_workers_});
  }

  /// The first worker has said how all of them train.
  void set_mode(consistency mode) { mode_ = mode; }
  bool is_synchronous() const { return mode_ == consistency::synchronous; }

  /// Why training cannot go on, if it cannot.
  std::optional<error> why_broken() {
    if (interrupted_) return interrupted_;
    return is_synchronous() ? someone_gone() : too_few();
  }

  /// Another process takes the worker's place. Synchronous training does not survive the end of the first, however
  /// fast the second has come.
  void replace(worker& each, std::uint64_t incarnation) {
    if (each.took_part && !each.done && is_synchronous() && !interrupted_) {
      interrupted_ = someone_gone();
      if (!interrupted_) interrupted_ = why_gone(each);
    }
    each.incarnation = incarnation;
    each.done = each.took_part = each.stays = false;
    each.refused.clear();
  }

  /// Ends the worker's connection. `may_return`: it may open another while its process lives.
  void drop(worker& from, const std::string& why, bool may_return = false) {
    from.connection.reset();
    from.enrolled = false;
    from.gone = why;
    from.gone_at = clock::now();
    from.may_return = may_return;
    someone_gone();  // remembers which was the first
  }

  /// Drops the worker if its process is lost, its connection has stalled, or it has asked for nothing for too long.
  /// Returns false where its process is lost.
  bool supervise(worker& each, time_point now) {
    if (each.connection && members_.state(each.rank, each.incarnation) == task_state::lost) {
      drop(each, members_.reason(each.rank, each.incarnation));
      return false;
    }
    if (each.connection)
      if (const auto stall = each.connection->find_stall(now, here_.options().stalled, each.enrolled))
        drop(each, stall->why, stall->may_return);
    drop_if_idle(each, now);
    return true;
  }

 private:
  void drop_if_idle(worker& each, time_point now) {
    if (each.has_asked || each.is_parked() || members_.state(each.rank) != task_state::alive) {
      each.has_asked = false;
      each.last_asked = now;
    }
    if (each.done || each.given_up || now - each.last_asked <= here_.options().idle_worker) return;
    const auto limit = std::chrono::duration_cast<std::chrono::seconds>(here_.options().idle_worker);
    drop(each, str_cat({"is there, but has asked for nothing for ", limit.count(), " s"}));
    each.given_up = true;
  }

  /// Whether training that needs this worker cannot go on.
  bool is_gone(const worker& each, time_point now) const {
    if (each.done) return false;
    const task_state state = members_.state(each.rank, each.incarnation);
    if (state == task_state::lost || (state == task_state::left && !each.connection)) return true;
    if (!each.refused.empty()) return true;
    // A connection may end before its worker: it has the time to open another in which a silent one would be lost.
    return !each.gone.empty() && (!each.may_return || now - each.gone_at > here_.heartbeat_timeout(each.rank));
  }

  error why_gone(const worker& each) const {
    const bool refused = !each.refused.empty() && members_.state(each.rank, each.incarnation) != task_state::lost;
    if (refused) return error(error_code::unavailable, "push_pull", {workers_.name(each), " ", each.refused});
    return members_.diagnose(each.rank, each.incarnation, "push_pull", each.gone.empty() ? left_early : each.gone,
                             true);
  }

  /// The first worker that went without being done, with the reason: the others' going usually follows from it.
  std::optional<error> someone_gone() {
    const time_point now = clock::now();
    if (!first_gone_ || !is_gone(*first_gone_, now)) {
      // A service that was late sees several go at once; their order is known to the membership.
      first_gone_ = nullptr;
      const std::optional<std::size_t> first_lost = members_.first_lost();
      for (const worker& each : workers_)
        if (is_gone(each, now) && (!first_gone_ || each.rank == first_lost)) first_gone_ = &each;
    }
    if (!first_gone_) return {};
    return why_gone(*first_gone_);
  }

  /// Why asynchronous training cannot go on: more workers are gone than it can do without.
  std::optional<error> too_few() {
    if (!mode_) return {};
    const time_point now = clock::now();
    const auto gone = std::count_if(workers_.begin(), workers_.end(), [&](const worker& each) {
      return !each.given_up && is_gone(each, now);  // one that was given up may ask again
    });
    const int left = static_cast<int>(workers_.size()) - static_cast<int>(gone);
    if (left >= min_workers_) return {};
    std::optional<error> first = someone_gone();
    if (!first || min_workers_ == static_cast<int>(workers_.size())) return first;
    return error(first->code(), "push_pull",
                 {first->sentence(), "; ", left, " of ", workers_.size(), " workers are left, and training needs ",
                  min_workers_, " (server_options::min_workers)"});
  }

  Server& here_;
  membership& members_;
  worker_roster<Server>& workers_;
  std::optional<consistency> mode_;
  int min_workers_ = 0;  // that asynchronous training needs
  const worker* first_gone_ = nullptr;
  std::optional<error> interrupted_;  // why synchronous training cannot go on, for good
};

}  // namespace weft::detail
