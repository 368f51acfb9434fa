// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/graph_identity.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/membership/training_view.hpp>
#include <weft/distributed/parameter/cluster_state.hpp>
#include <weft/distributed/training/strategy.hpp>
#include <weft/graph/graph.hpp>
#include <weft/plan/step_request.hpp>
#include <weft/session/session.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <weft/distributed/training/gradient_buffers.hpp>
#endif

namespace weft::detail {

class gradient_buffers;
class shared_variables;

/// The interface by which a replicated session exchanges gradients and values; implemented by server_exchange,
/// all_reduce_exchange and elastic_exchange. The session depends only on this interface, so a program that links
/// weft::compiled_distributed compiles none of them.
class exchange {
 public:
  /// Makes or continues an update with gradients that average this number of examples.
  using make_update = std::function<void(deadline, std::uint32_t)>;

  exchange() = default;
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;
  virtual ~exchange() = default;

  virtual gradient_buffers& gradients() = 0;
  /// The number of gradients, or of parts of gradients, that a step fetches.
  std::size_t fetched_gradients();
  void add_fetches(plan::step_request& step);
  /// Returns the memory for a part.
  void* place_gradient(std::size_t part, const shape& extents);
  /// Returns true if this worker may have to compute the gradients of other workers.
  virtual bool takes_over() const = 0;
  /// Selects which of the variables' effects() run with the update of the next step.
  virtual void set_effects(const sequence<std::uint32_t>&) {}
  /// Called before each step that trains.
  virtual void prepare_step() {}
  /// A bool of the graph: if it is false after a step, the step's gradients are discarded. Without it, they are always
  /// used.
  virtual std::optional<value> use_of_gradients() const { return {}; }

  virtual bool is_chief() const = 0;
  virtual std::int64_t next_step() const = 0;

  virtual void request_stop() = 0;
  virtual bool all_stop() const = 0;
  /// Announces that this worker stops, although other workers may continue. Returns true if their training ends too.
  virtual bool announce_stop(deadline until) = 0;
  /// Returns true if this worker stops and the others continue.
  virtual bool leaves_alone() const { return false; }

  /// Called before a step whose gradients average this number of examples. Returns the watcher that receives gradients
  /// while the step runs, or null. `first_part` is the index of the first gradient among the step's fetches.
  virtual fetch_watcher* begin_step(std::uint32_t examples, std::size_t first_part) = 0;
  /// Called after the step has thrown.
  virtual void abandon_step() = 0;
  /// Called after the step has computed its gradients.
  virtual void take_gradients() = 0;

  /// Sends the gradients and updates the variables. `examples`: the number of examples that the gradients average; 0:
  /// the gradients are not used. `repeated`: continues the last update, which has timed out. `work` computes the
  /// gradients of other workers.
  virtual void update(deadline until, std::uint32_t examples, bool repeated, const replica_work* work) = 0;
  /// Called if it is unknown whether the last update was made.
  virtual void abandon_update() = 0;
  virtual void refresh(deadline until) = 0;
  /// `unfinished`: the examples of an update that has timed out. `last`, unless empty, is called after the other
  /// workers have made their last updates.
  virtual void finish(deadline until, std::optional<std::uint32_t> unfinished, const make_update& update,
                      const std::function<void()>& last) = 0;

  virtual std::int64_t restore(const std::function<std::optional<cluster_state>()>& load, deadline until) = 0;
  virtual cluster_state collect(deadline until) = 0;

  // ---- parameter servers ----

  virtual std::int64_t stale_gradients() const { return 0; }
  virtual const std::vector<std::int64_t>& staleness() const { return none_; }
  virtual int lost_replicas() const { return 0; }
  virtual std::int64_t lost_updates() const { return 0; }

  // ---- all-reduce ----

  virtual training_view view() const { return {}; }

 private:
  std::vector<std::int64_t> none_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL std::size_t exchange::fetched_gradients() { return gradients().parts().size(); }
WEFT_DISTRIBUTED_DECL void exchange::add_fetches(plan::step_request& step) {
  for (const gradient_buffers::part& each : gradients().parts()) step.fetches.push_back(each.what);
}
WEFT_DISTRIBUTED_DECL void* exchange::place_gradient(std::size_t part, const shape& extents) {
  return gradients().place(part, extents);
}
#endif

// Defined in server_exchange.hpp and all_reduce_exchange.hpp.
template <consistency Mode>
class server_exchange;
template <class Group>
class all_reduce_exchange;

/// parameter_server::on_rollback.
using rollback_handler = std::function<void(std::int64_t from, std::int64_t to)>;

/// True if weft::compiled_distributed contains the exchanges of parameter_server and collective.
#if defined(WEFT_SEPARATE_DISTRIBUTED)
inline constexpr bool are_exchanges_compiled = true;
#else
inline constexpr bool are_exchanges_compiled = false;
#endif

/// Defined in server_exchange.hpp. Waits for the required tasks and adopts the initial values.
template <consistency Mode>
owned<exchange> make_server_exchange(task_server& here, shared_variables& variables, const training_terms& terms,
                                     const rollback_handler& on_rollback, const graph_identity& identity,
                                     deadline until);

/// Defined in elastic_exchange.hpp. Waits for the other workers.
template <class Strategy>
owned<exchange> make_all_reduce_exchange(task_server& here, shared_variables& variables, const Strategy& how,
                                         const graph_identity& identity, deadline until);

template <class Strategy>
owned<exchange> make_exchange(task_server& here, shared_variables& variables, const Strategy& how,
                              const graph_identity& identity, deadline until) {
  if constexpr (has_servers<Strategy>) {
    static_assert(
        requires { sizeof(server_exchange<Strategy::mode>); } || are_exchanges_compiled,
        "replicated_session: include <weft/distributed/training/exchanges.hpp>");
    return make_server_exchange<Strategy::mode>(here, variables, training_terms(how.model, how.on_loss),
                                                how.on_rollback, identity, until);
  } else {
    static_assert(
        requires { sizeof(all_reduce_exchange<typename Strategy::group>); } ||
            (are_exchanges_compiled && std::is_same_v<Strategy, collective>),
        "replicated_session: include <weft/distributed/training/exchanges.hpp>");
    return make_all_reduce_exchange(here, variables, how, identity, until);
  }
}

}  // namespace weft::detail
