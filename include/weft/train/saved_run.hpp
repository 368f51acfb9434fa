// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/serialization/vector.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include <weft/checkpoint/saver.hpp>
#include <weft/train/supervised_session.hpp>

namespace weft {

/// Checkpoints of a supervised run that a saver writes into a folder. The run continues from the newest undamaged
/// checkpoint there (saver::restore_latest). The saver and the session must outlive the run. Exceptions of the saver
/// are thrown by the step or close(). A run that writes checkpoints locks the folder, so another process that uses the
/// folder is rejected before it restores.
///
///     saver keeper;
///     supervised_session run(s, {.checkpoints = saved_in("training", keeper, s), .save = {.steps = 1000}}, {...});
inline run_checkpoints saved_in(const std::string& folder, saver& keeper, session& s) {
  return {[folder, &keeper, &s]() -> std::int64_t {
            const auto latest = keeper.restore_latest(s, folder);
            return latest ? latest->step : -1;
          },
          [folder, &keeper, &s](std::int64_t step) { keeper.save(s, folder, step); },
          [&keeper](deadline until) { keeper.wait(until.remaining(keeper.options().timeout)); },
          [folder, &keeper] { keeper.lock(folder); }, [&keeper] { keeper.unlock(); }};
}

/// Checkpoints of a cluster; call it in every worker. The chief (worker 0) restores the latest checkpoint and writes
/// checkpoints; the other workers receive the values and the global step from it. The format is that of a single
/// process, slots included, in one folder on the chief's machine, so a run with any number of parameter servers or
/// workers, an all-reduce or a single process can continue from it. Objects added to the saver are the chief's; other
/// workers find their position in the data by run.global_step(). If workers survive the loss of the chief
/// (collective::on_loss), the lowest remaining worker continues to write, so the folder must then be shared by all
/// hosts.
///
///     replicated_session s(g, here, parameter_server<synchronous>{});
///     saver keeper;
///     supervised_session run(s, {.checkpoints = saved_in("training", keeper, s)}, {stop_at_step(1000)});
template <class Replicated>
  requires requires(Replicated& s) { s.collect(); }
run_checkpoints saved_in(const std::string& folder, saver& keeper, Replicated& s) {
  using state = decltype(s.collect());
  static constexpr const char* name = "weft/cluster";
  const auto load = [folder, &keeper, &s]() -> std::optional<state> {
    const auto latest = keeper.restore_latest(s.local(), folder);
    if (!latest) return std::nullopt;
    state at;
    at.global_step = latest->step;
    at.last_step = at.global_step - 1;
    const checkpoint_reader checkpoint(latest->path);
    if (const checkpoint_reader::record* r = checkpoint.find_state(name)) {
      std::string bytes(static_cast<std::size_t>(r->entry->bytes), '\0');
      checkpoint.read(*r, bytes.data());
      detail::from_archive(bytes, at, str_cat({r->file->path(), ": record '", name, "'"}));
    }
    return at;
  };
  // A chief whose disk is full ends; this sends the reason to the other workers.
  const auto with_reason = [&s](auto action) {
    try {
      action();
    } catch (const error& problem) {
      s.set_failure(problem);
      throw;
    }
  };
  return {[load, &keeper, &s] { return s.restore(load, keeper.options().timeout); },
          [folder, &keeper, &s, with_reason](std::int64_t) {
            const state at = s.collect(keeper.options().timeout);
            with_reason([&] { keeper.save(s.local(), folder, at.global_step, {{name, detail::to_archive(at)}}); });
          },
          [&keeper, with_reason](deadline until) {
            with_reason([&] { keeper.wait(until.remaining(keeper.options().timeout)); });
          },
          [folder, &keeper] { keeper.lock(folder); }, [&keeper] { keeper.unlock(); }};
}

}  // namespace weft
