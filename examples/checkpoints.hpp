// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weft/train/supervised_session.hpp>

/// Where a run is in its data: the batch that comes next; and the cost of the one before it.
struct run_position {
  std::int64_t epoch = 0, batch = 0;
  double cost = 0;
};

/// The settings that runs must have in common for one to go on from another's checkpoint: the program, and flags with
/// their values.
using run_settings = std::vector<std::pair<std::string, std::string>>;

/// A run's checkpoints in a folder: variables, settings and the position in the data. Without a folder there are none.
/// Savers are compiled in checkpoints.cpp alone.
class kept_run {
 public:
  /// `is_chief`: whether the folder is of this process; the chief of a cluster keeps what all have made. Throws
  /// weft::error, before anything changes: where the folder cannot be written; where it has checkpoints and the run is
  /// not to go on from them; where it is, and all are damaged or the latest whole one is of other settings; where
  /// another process writes its checkpoints there.
  kept_run(std::string folder, bool resume, run_settings settings, run_position& position, bool is_chief = true);
  ~kept_run();
  kept_run(const kept_run&) = delete;
  kept_run& operator=(const kept_run&) = delete;

  /// For a supervised run of this session, or replicated session.
  template <class Session>
  weft::run_checkpoints of(Session& s);

 private:
  struct state;
  std::unique_ptr<state> state_;
};
