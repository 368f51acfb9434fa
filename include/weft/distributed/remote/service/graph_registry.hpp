// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/service/served_placement.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/error.hpp>
#include <weft/graph/graph.hpp>

namespace weft::detail {

/// The graphs whose steps a task serves, with the placements that sessions have chosen for them.
class graph_registry {
 public:
  explicit graph_registry(const graph& first) { graphs_.push_back(first.share()); }

  // ---- for all threads ----

  void add(const graph& g) {
    const std::lock_guard lock(mutex_);
    for (const graph& known : graphs_)
      if (&known.self() == &g.self()) return;
    graphs_.push_back(g.share());
  }
  /// Notes that a session uses a placement. A session keeps its most recent placements until it ends.
  void note_use(std::uint64_t session, const peer_process& client, std::uint64_t placement) {
    const std::lock_guard lock(mutex_);
    if (users_.size() >= max_users && users_.count(session) == 0) return;
    user& by = users_[session];
    by.client = client;
    if (const auto found = std::find(by.placements.begin(), by.placements.end(), placement);
        found != by.placements.end()) {
      std::rotate(found, found + 1, by.placements.end());
      return;
    }
    if (by.placements.size() >= max_placements_of_session) by.placements.erase(by.placements.begin());
    by.placements.push_back(placement);
  }
  void end_session(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    users_.erase(session);
  }
  template <typename Gone>
  void end_sessions_of(Gone is_gone) {
    const std::lock_guard lock(mutex_);
    std::erase_if(users_, [&](const auto& each) { return is_gone(each.second.client); });
  }

  // ---- for the thread that has the turn ----

  std::uint64_t next_use() { return ++uses_; }

  /// Returns null for an unknown key with a registration, from which make() can create the placement. Throws aborted
  /// for an unknown key without a registration.
  std::shared_ptr<served_placement> find(std::uint64_t key, const step_registration* from, std::size_t tasks) {
    if (from && from->key() != key) message_reader::malformed();
    if (const auto found = served_.find(key); found != served_.end()) {
      if (from) from->check(found->second->nodes.self(), tasks);
      found->second->last_used = next_use();
      return found->second;
    }
    if (!from) throw step_is_forgotten();
    return nullptr;
  }
  /// Returns a new placement, which insert() adds once the task can serve it. Throws failed_precondition if this task
  /// does not have the graph.
  std::shared_ptr<served_placement> make(std::uint64_t key, const step_registration& from, std::size_t tasks,
                                         std::uint32_t self) {
    const graph g = graph_of(from);
    from.check(g.self(), tasks);
    auto made = std::make_shared<served_placement>(served_placement{key, g.share(), from});
    made->config.request = {};
    made->config.restarted = {};
    made->is_restarted = std::find(from.restarted.begin(), from.restarted.end(), self) != from.restarted.end();
    return made;
  }
  /// Drops placements that no session uses any more, the least recently used ones first. Throws resource_exhausted if
  /// sessions use too many.
  void make_room() {
    if (served_.size() < max_kept) return;
    const std::set<std::uint64_t> used = used_placements();
    while (served_.size() >= max_kept) {
      auto oldest = served_.end();
      for (auto each = served_.begin(); each != served_.end(); ++each)
        if (used.count(each->first) == 0 &&
            (oldest == served_.end() || each->second->last_used < oldest->second->last_used))
          oldest = each;
      if (oldest == served_.end()) break;
      served_.erase(oldest);
    }
    if (served_.size() >= max_served)
      throw error(error_code::resource_exhausted, "step",
                  {"this task serves ", max_served,
                   " different graphs and placements of sessions, the limit; end some sessions"});
  }
  void insert(const std::shared_ptr<served_placement>& made) {
    made->last_used = next_use();
    served_.emplace(made->key, made);
  }

 private:
  static constexpr std::size_t max_served = 1024;
  static constexpr std::size_t max_kept = 64;  // placements, including unused ones
  static constexpr std::size_t max_users = 8192, max_placements_of_session = 16;

  /// A session, and the placements that its graph has had most recently.
  struct user {
    peer_process client;
    std::vector<std::uint64_t> placements;  // the latest last
  };

  graph graph_of(const step_registration& from) {
    const std::lock_guard lock(mutex_);
    for (const graph& each : graphs_)
      if (from.is_of(each.self())) return each.share();
    throw error(error_code::failed_precondition, "step",
                "the client's graph differs from this task's; run the same program with the same flags on "
                "all tasks, record all nodes before the first step, and pass graphs of other programs to "
                "graph_service::add_graph");
  }
  std::set<std::uint64_t> used_placements() const {
    const std::lock_guard lock(mutex_);
    std::set<std::uint64_t> used;
    for (const auto& [session, each] : users_) used.insert(each.placements.begin(), each.placements.end());
    return used;
  }

  mutable std::mutex mutex_;
  std::vector<graph> graphs_;
  std::map<std::uint64_t, user> users_;  // by session

  // Of the thread that has the turn.
  std::map<std::uint64_t, std::shared_ptr<served_placement>> served_;  // by step_registration::key()
  std::uint64_t uses_ = 0;
};

}  // namespace weft::detail
