// SPDX-License-Identifier: BSL-1.0
#include "checkpoints.hpp"

#include "cluster_run.hpp"

#include <unistd.h>

#include <boost/serialization/string.hpp>
#include <boost/serialization/utility.hpp>
#include <boost/serialization/vector.hpp>
#include <filesystem>
#include <optional>
#include <system_error>

#include <weft/checkpoint/saver.hpp>
#include <weft/distributed.hpp>
#if defined(WEFT_HAS_MPI)
  #include <weft/distributed/collective/mpi_all_reduce.hpp>
  #include <weft/distributed/training/exchanges.hpp>
#endif
#include <weft/train/saved_run.hpp>

using namespace weft;

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, run_position& p, unsigned) {
  archive & p.epoch & p.batch & p.cost;
}

}  // namespace boost::serialization

namespace {

constexpr const char *settings_name = "settings", *position_name = "position";

void check_folder(const std::string& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (!problem && ::access(folder.c_str(), W_OK | X_OK) != 0) problem = {errno, std::generic_category()};
  if (problem)
    throw error(error_code::unavailable, "", "--checkpoint_dir " + folder + " cannot be written: " + problem.message());
}

/// Looks at the settings alone: what a run of other settings would get of the variables is never asked for.
void check_settings(const std::string& folder, const run_settings& now) {
  run_settings then;
  graph nothing;
  session s(nothing);
  saver reader({.on_damaged = [](const damaged_checkpoint&) {}});  // the run tells of them
  reader.add(settings_name, then);
  const auto latest = reader.restore_latest(s, folder, {.partial = true});
  if (!latest) return;
  const std::string& path = latest->path;
  if (then.empty() || then.front() != now.front())
    refuse(path + " is a checkpoint of another program: use another --checkpoint_dir");
  for (const auto& [flag, value] : now)
    for (const auto& [saved_flag, saved] : then)
      if (flag == saved_flag && value != saved)
        refuse(path + " was saved with --" + flag + " " + saved + ", but this run has " + value + ": use --" + flag +
               " " + saved + ", or another --checkpoint_dir");
}

}  // namespace

struct kept_run::state {
  std::string folder;
  run_settings settings;
  saver keeper;
};

kept_run::kept_run(std::string folder, bool resume, run_settings settings, run_position& position, bool is_chief) {
  if (folder.empty()) {
    if (resume) refuse("--resume requires --checkpoint_dir");
    return;
  }
  if (is_chief) {
    check_folder(folder);
    std::vector<damaged_checkpoint> damaged;
    const std::vector<checkpoint_info> all = list_checkpoints(folder, "checkpoint", &damaged);
    if (!resume && !(all.empty() && damaged.empty()))
      refuse((all.empty() ? damaged.back().path : all.back().path) +
             " already exists: continue from it with --resume, or use another --checkpoint_dir");
    check_settings(folder, settings);
  }
  state_ = std::make_unique<state>();
  if (is_chief) state_->keeper.lock(folder);
  state_->folder = std::move(folder);
  state_->settings = std::move(settings);
  state_->keeper.add(settings_name, state_->settings);
  state_->keeper.add(position_name, position);
}

kept_run::~kept_run() = default;

template <class Session>
run_checkpoints kept_run::of(Session& s) {
  return state_ ? saved_in(state_->folder, state_->keeper, s) : run_checkpoints();
}
template run_checkpoints kept_run::of(session&);
template run_checkpoints kept_run::of(replicated_session<servers_of_flags<asynchronous>>&);
template run_checkpoints kept_run::of(replicated_session<servers_of_flags<synchronous>>&);
template run_checkpoints kept_run::of(replicated_session<collective>&);
#if defined(WEFT_HAS_MPI)
template run_checkpoints kept_run::of(replicated_session<mpi_collective>&);
#endif
