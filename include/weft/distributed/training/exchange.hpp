#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/membership/training_view.hpp>
#include <weft/distributed/parameter/cluster_state.hpp>
#include <weft/distributed/training/gradient_buffers.hpp>
#include <weft/distributed/training/strategy.hpp>

namespace weft::detail {

/// How the gradients and values of a replicated session travel: server_exchange and all_reduce_exchange. The session
/// knows this interface alone, so that a program which links weft::compiled_distributed compiles neither.
template <typename Clock>
class exchange {
 public:
  using deadline_type = basic_deadline<Clock>;
  /// Makes an update of gradients that are the mean of so many examples, or goes on with it.
  using make_update = std::function<void(deadline_type, std::uint32_t)>;

  exchange() = default;
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;
  virtual ~exchange() = default;

  virtual gradient_buffers& gradients() = 0;
  /// Whether this worker may have to compute the gradients of others.
  virtual bool takes_over() const = 0;
  /// Which of the variables' effects() the update of the next step makes.
  virtual void set_effects(const sequence<std::uint32_t>&) {}

  virtual bool is_chief() const = 0;
  virtual std::int64_t next_step() const = 0;

  virtual void request_stop() = 0;
  virtual bool all_stop() const = 0;
  /// This worker stops where others may go on. Returns whether their training ends with it.
  virtual bool announce_stop(deadline_type until) = 0;
  /// This worker stops, and others go on.
  virtual bool leaves_alone() const { return false; }

  /// Before a step that brings gradients, which are the mean of so many examples. Returns the watcher that is to be
  /// told of them while it runs, or null; `first_part` is the number of the first among what it fetches.
  virtual fetch_watcher* begin_step(std::uint32_t examples, std::size_t first_part) = 0;
  /// The step has thrown.
  virtual void abandon_step() = 0;
  /// The step has brought its gradients.
  virtual void take_gradients() = 0;

  /// Brings the gradients to the others and the variables up to date. `examples`: of how many they are the mean; 0:
  /// they are not used. `repeated`: the last update has run out of time, and this call goes on with it. `work` computes
  /// the gradients of others.
  virtual void update(deadline_type until, std::uint32_t examples, bool repeated, const replica_work* work) = 0;
  /// Nobody knows whether the last update was made.
  virtual void abandon_update() = 0;
  virtual void refresh(deadline_type until) = 0;
  /// `unfinished`: the examples of an update that has run out of time. `last`, unless it is empty, is called once the
  /// others have no more updates either.
  virtual void finish(deadline_type until, std::optional<std::uint32_t> unfinished, const make_update& update,
                      const std::function<void()>& last) = 0;

  virtual std::int64_t restore(const std::function<std::optional<cluster_state>()>& load, deadline_type until) = 0;
  virtual cluster_state collect(deadline_type until) = 0;

  // ---- of parameter servers ----

  virtual std::int64_t stale_gradients() const { return 0; }
  virtual const std::vector<std::int64_t>& staleness() const { return none_; }
  virtual int lost_replicas() const { return 0; }
  virtual std::int64_t lost_updates() const { return 0; }

  // ---- of all-reduce ----

  virtual training_view view() const { return {}; }

 private:
  std::vector<std::int64_t> none_;
};

// In server_exchange.hpp and all_reduce_exchange.hpp.
template <consistency Mode, transport T, typename Clock>
class server_exchange;
template <class Group, transport T, typename Clock>
class all_reduce_exchange;

/// parameter_server::on_rollback.
using rollback_handler = std::function<void(std::int64_t from, std::int64_t to)>;

/// Whether weft::compiled_distributed has the exchanges over this transport.
template <transport T, typename Clock>
constexpr bool is_compiled_once = std::is_same_v<T, tcp> && std::is_same_v<Clock, std::chrono::steady_clock>;

/// Defined in server_exchange.hpp. Meets the tasks that are needed, and takes over the first values.
template <consistency Mode, transport T, typename Clock>
std::unique_ptr<exchange<Clock>> make_server_exchange(basic_server<T, Clock>& here, shared_variables& variables,
                                                      const training_terms& terms, const rollback_handler& on_rollback,
                                                      const graph_identity& identity, basic_deadline<Clock> until);

/// Defined in all_reduce_exchange.hpp. Meets the other workers.
template <class Strategy, transport T, typename Clock>
std::unique_ptr<exchange<Clock>> make_all_reduce_exchange(basic_server<T, Clock>& here, shared_variables& variables,
                                                          const Strategy& how, const graph_identity& identity,
                                                          basic_deadline<Clock> until);

template <class Strategy, transport T, typename Clock>
std::unique_ptr<exchange<Clock>> make_exchange(basic_server<T, Clock>& here, shared_variables& variables,
                                               const Strategy& how, const graph_identity& identity,
                                               basic_deadline<Clock> until) {
  if constexpr (has_servers<Strategy>) {
    static_assert(
        requires { sizeof(server_exchange<Strategy::mode, T, Clock>); } || is_compiled_once<T, Clock>,
        "replicated_session: weft::compiled_distributed is for tcp; for another transport include "
        "<weft/distributed/training/exchanges.hpp>");
    return make_server_exchange<Strategy::mode>(here, variables, training_terms(how.model, how.on_loss),
                                                how.on_rollback, identity, until);
  } else {
    using group = typename Strategy::template group<T, Clock>;
    static_assert(
        requires { sizeof(all_reduce_exchange<group, T, Clock>); } ||
            (is_compiled_once<T, Clock> && std::is_same_v<Strategy, collective>),
        "replicated_session: weft::compiled_distributed is for tcp and collective; for another transport or "
        "strategy include <weft/distributed/training/exchanges.hpp>");
    return make_all_reduce_exchange(here, variables, how, identity, until);
  }
}

}  // namespace weft::detail
