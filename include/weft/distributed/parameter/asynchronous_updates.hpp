#pragma once

#include <vector>

#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/parameter/gradient_refusals.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/update_history.hpp>
#include <weft/distributed/parameter/worker_answers.hpp>
#include <weft/distributed/parameter/worker_quorum.hpp>
#include <weft/distributed/parameter/worker_roster.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Asynchronous training: each worker's gradients are applied as they come, and answered with the values right after.
/// Invariant: an update is in the history exactly when it is in the values. Not locked: the serving thread owns it.
template <typename Server>
class asynchronous_updates {
 public:
  using worker = served_worker<Server>;

  asynchronous_updates(const Server& here, worker_roster<Server>& workers, worker_quorum<Server>& quorum,
                       parameter_store& store, update_history& history, worker_answers<Server>& answers)
      : only_finite_(here.options().not_finite == nonfinite_gradients::refuse),
        workers_(workers),
        quorum_(quorum),
        store_(store),
        history_(history),
        answers_(answers) {}

  /// Applies the gradients of the worker's request, which is new. Throws weft::error: unavailable where training cannot
  /// go on, invalid_argument for gradients that are not finite and must be.
  void apply(worker& from) {
    if (const auto broken = quorum_.why_broken()) throw *broken;
    const auto& with = *from.connection;
    const frame_header& asked = with.request();
    if (asked.weight == 0) {  // an empty batch
      history_.insert(from.index, from.incarnation, asked.step);
      return answers_.send_values(from);
    }
    const placed_gradients gradients = with.gradients(store_);
    if (only_finite_)
      if (const auto found = store_.find_nonfinite(gradients))
        throw nonfinite_refusal(workers_.name(from), store_, *found, asked.step);
    answers_.keep_answers_in_flight();
    copies_.clear();
    if (with.uses_segment()) copies_.push_back(with.values_in_segment(store_));
    store_.apply(gradients, copies_);
    history_.insert(from.index, from.incarnation, asked.step);
    answers_.send_values(from, 0, true);
  }

 private:
  bool only_finite_;
  worker_roster<Server>& workers_;
  worker_quorum<Server>& quorum_;
  parameter_store& store_;
  update_history& history_;
  worker_answers<Server>& answers_;
  std::vector<placed_bytes<std::byte>> copies_;
};

}  // namespace weft::detail
