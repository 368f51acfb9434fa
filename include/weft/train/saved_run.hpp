#pragma once

#include <boost/serialization/vector.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include <weft/checkpoint/saver.hpp>
#include <weft/train/supervised_session.hpp>

namespace weft {

/// The checkpoints of a supervised run, which a saver keeps in a folder: the run goes on from the latest one there that
/// is whole (saver::restore_latest). The saver and the session must outlive the run. An exception from the saver goes
/// to the caller of the step, or of close(). A run that writes checkpoints locks the folder: another process that runs
/// there is refused before it restores.
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

/// The same of a cluster, in every worker: the chief (worker 0) restores the latest checkpoint and writes them, and the
/// others get its values, and the global step. It is that of one process, slots included, in one folder of the chief's
/// machine: any number of parameter servers or workers, an all-reduce and a single process go on from it. An object
/// that is added to the saver is the chief's own; others find their place in the data by run.global_step(). Where
/// workers survive the loss of the chief (collective::on_loss), the lowest of those that are left writes on: the folder
/// is then one that all their hosts share.
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
  // A chief whose disk is full ends: the others learn why.
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
