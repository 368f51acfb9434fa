#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <weft/checkpoint/saver.hpp>
#include <weft/train/supervised_session.hpp>

namespace weft {

/// The checkpoints of a supervised run, which a saver keeps in a folder: the run goes on from the latest one there. The
/// saver and the session must outlive the run. What the saver throws goes to the caller of the step, or of close().
///
///     saver keeper;
///     supervised_session run(s, {.checkpoints = saved_in("training", keeper, s), .save = {.steps = 1000}}, {...});
inline run_checkpoints saved_in(const std::string& folder, saver& keeper, session& s) {
  return {[folder, &keeper, &s]() -> std::int64_t {
            const std::optional<std::string> latest = latest_checkpoint(folder, keeper.options().name);
            return latest ? keeper.restore(s, *latest).step : -1;
          },
          [folder, &keeper, &s](std::int64_t step) { keeper.save(s, folder, step); },
          [&keeper](deadline until) { keeper.wait(until.remaining(keeper.options().timeout)); }};
}

}  // namespace weft
