#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <weft/distributed/membership/loss_policy.hpp>
#include <weft/distributed/parameter/training_terms.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft {

// In distributed/collective/all_reduce.hpp.
class all_reduce;

/// One of the fixed number of logical workers that training consists of, in a step: what its batch is chosen by. With
/// loss_action::take_over a worker computes the gradients of others that are lost, too.
struct replica {
  int index;          ///< of the worker whose part it is
  std::int64_t step;  ///< replicated_session::next_step() of that worker
};

namespace detail {

/// Computes the gradients of another replica.
struct replica_work {
  void* self;
  std::uint32_t (*compute)(void* self, const replica& of);  // returns of how many examples they are the mean
};

}  // namespace detail

// A strategy is a structure that says by its members how workers train together, and is given to a
// replicated_session. One with `mode` has parameter servers: `mode` is known when the program is compiled, `model` and
// `on_loss` may be chosen when it runs. One with `group` averages gradients by such
// groups, which have the members of all_reduce that all_reduce_exchange.hpp calls: nccl_collective and
// mpi_collective are others than the one here.

/// Parameter servers apply each gradient as it comes: `parameter_server<asynchronous>`.
inline constexpr consistency asynchronous = consistency::asynchronous;
/// Parameter servers apply the mean of one gradient from each worker: `parameter_server<synchronous>`.
inline constexpr consistency synchronous = consistency::synchronous;
/// Parameter servers apply the mean of the first gradients that come, and drop those of the `Backups` workers that are
/// the slowest in a step (Chen et al., Revisiting Distributed Synchronous SGD, 2016):
/// `parameter_server<synchronous_with_backups<1>>`. Without backups this is `synchronous`.
template <int Backups>
inline constexpr consistency_model synchronous_with_backups{consistency::synchronous, Backups};
/// Parameter servers apply each gradient as it comes, and let no worker be more than `Steps` steps ahead of the slowest
/// (Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NIPS 2013):
/// `parameter_server<bounded_staleness<4>>`. Without any lead this is `synchronous`: one mean in each step.
template <int Steps>
inline constexpr consistency_model bounded_staleness{Steps == 0 ? consistency::synchronous : consistency::asynchronous,
                                                     0, Steps == 0 ? -1 : Steps};

namespace detail {
/// For `parameter_server{}`.
inline constexpr consistency_model no_consistency{consistency::synchronous, -2};
}  // namespace detail

/// A parameter_server does not name how gradients are applied.
template <consistency_model Model>
struct consistency_is_missing : mistake<(Model == detail::no_consistency)> {};

/// Variables live on parameter servers, which apply the workers' gradients: each as it comes, or the mean of one from
/// each.
template <consistency_model Model = detail::no_consistency>
struct parameter_server {
  static_assert(correct<consistency_is_missing<Model>>,
                "parameter_server: name how gradients are applied: parameter_server<synchronous>, or asynchronous, "
                "synchronous_with_backups<n>, bounded_staleness<n>");
  static_assert(!correct<consistency_is_missing<Model>> || (Model.backups >= 0 && Model.staleness >= -1),
                "synchronous_with_backups and bounded_staleness take 0 or more");
  static constexpr consistency mode = Model.mode;
  static constexpr consistency_model model = Model;

  /// What the others do when a worker is lost: `parameter_server<synchronous>{.on_loss = wait_for{30s}}`. All workers
  /// give the same.
  loss_policy on_loss = {};
  /// A parameter server was lost, and all have restored their shards: this worker's next step was `from`, and is `to`
  /// from here on; called in the call that exchanges gradients or values. Nothing: a line on stderr.
  std::function<void(std::int64_t from, std::int64_t to)> on_rollback = {};
};

/// Every worker keeps all variables and applies the mean of all workers' gradients.
///
/// Where the workers send them, and they are more than `bucket_bytes` for an element type, they travel in buckets of
/// about so many bytes, in the order in which a step computes them, and while it goes on (Li et al., PyTorch
/// Distributed, VLDB 2020). All workers give the same, or are refused; 0: all travel together, after the step.
///
/// `on_loss`: how training goes on when a worker is lost; the default ends it at once. All workers give the same.
/// With it each worker keeps a copy of the gradients that it sends, and repeats their exchange with the workers that
/// are there then: no step is computed again. With loss_action::take_over gradients are summed in the order of the
/// replicas, whoever computes them, and leave when the step has ended. See docs/how-to/all-reduce.md.
struct collective {
  std::size_t bucket_bytes = std::size_t{1} << 20;
  loss_policy on_loss = {};

  using group = all_reduce;
};

namespace detail {

template <class Strategy>
concept has_servers = requires { Strategy::mode; };

template <class Strategy>
concept strategy = has_servers<Strategy> || requires { typename Strategy::group; };

}  // namespace detail

}  // namespace weft
