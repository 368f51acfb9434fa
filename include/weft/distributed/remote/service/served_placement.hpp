// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <weft/distributed/remote/service/run_scheduler.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/error.hpp>
#include <weft/graph/graph.hpp>
#include <weft/plan/step_request.hpp>

namespace weft::detail {

/// A graph with a placement, which one or several sessions use. For the thread that has the turn.
struct served_placement {
  struct known_step {
    plan::step_request request;
    std::uint64_t last_used = 0;
  };
  static constexpr std::size_t max_steps = 4096;

  std::uint64_t key;
  graph nodes;
  step_registration config;                                 // without a request
  bool is_restarted = false;                                // the client has used an earlier process of this task
  std::map<std::uint64_t, known_step> steps = {};           // by signature
  std::unique_ptr<run_scheduler::session_state> in_turn{};  // for the runs of all sessions that take turns
  std::uint64_t last_used = 0;

  /// Keeps the request of a step; if there are too many, it replaces the least recently used one. Returns true if the
  /// step is new.
  bool add_step(std::uint64_t signature, const plan::step_request& request) {
    if (steps.find(signature) != steps.end()) return false;
    if (steps.size() >= max_steps)
      steps.erase(std::min_element(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
        return a.second.last_used < b.second.last_used;
      }));
    return steps.emplace(signature, known_step{request}).second;
  }
};

/// The error for a requested step that this task does not keep.
inline error step_is_forgotten() {
  return error(error_code::aborted, "step",
               "this task does not have the step: it was started again, or has served many other steps since; run the "
               "step again");
}

}  // namespace weft::detail
