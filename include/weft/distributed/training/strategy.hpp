// SPDX-License-Identifier: BSL-1.0
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

// Defined in distributed/collective/all_reduce.hpp.
class all_reduce;

/// One of a fixed number of logical workers, at a step: determines the batch. With loss_action::take_over, a worker
/// also computes the gradients of lost workers.
struct replica {
  int index;          ///< of the replica's worker
  std::int64_t step;  ///< replicated_session::next_step() of that worker
};

namespace detail {

/// Computes the gradients of another replica.
struct replica_work {
  void* self;
  std::uint32_t (*compute)(void* self, const replica& of);  // returns the number of examples
};

}  // namespace detail

// A strategy is a structure whose members define how workers train together; it is passed to a replicated_session. A
// strategy with `mode` has parameter servers: `mode` is known at compile time, `model` and `on_loss` may be chosen at
// run time. A strategy with `group` averages gradients by groups of that type, which have the members of all_reduce
// that all_reduce_exchange.hpp uses; nccl_collective and mpi_collective are such strategies.

/// Parameter servers apply each gradient as it arrives: `parameter_server<asynchronous>`.
inline constexpr consistency asynchronous = consistency::asynchronous;
/// Parameter servers apply the mean of one gradient from each worker: `parameter_server<synchronous>`.
inline constexpr consistency synchronous = consistency::synchronous;
/// Parameter servers apply the mean of the first gradients that arrive, and drop the gradients of the `Backups` slowest
/// workers of each step (Chen et al., Revisiting Distributed Synchronous SGD, 2016):
/// `parameter_server<synchronous_with_backups<1>>`. With 0 backups this is `synchronous`.
template <int Backups>
inline constexpr consistency_model synchronous_with_backups{consistency::synchronous, Backups};
/// Parameter servers apply each gradient as it arrives, and no worker can be more than `Steps` steps ahead of the
/// slowest (Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NIPS 2013):
/// `parameter_server<bounded_staleness<4>>`. With 0 steps this is `synchronous`: one mean in each step.
template <int Steps>
inline constexpr consistency_model bounded_staleness{Steps == 0 ? consistency::synchronous : consistency::asynchronous,
                                                     0, Steps == 0 ? -1 : Steps};

namespace detail {
/// For `parameter_server{}`.
inline constexpr consistency_model no_consistency{consistency::synchronous, -2};
}  // namespace detail

/// A parameter_server must name how gradients are applied.
template <consistency_model Model>
struct consistency_is_missing : mistake<(Model == detail::no_consistency)> {};

/// Parameter servers store the variables and apply the workers' gradients: each as it arrives, or the mean of one
/// gradient from each worker.
template <consistency_model Model = detail::no_consistency>
struct parameter_server {
  static_assert(correct<consistency_is_missing<Model>>,
                "parameter_server: name how gradients are applied: parameter_server<synchronous>, or asynchronous, "
                "synchronous_with_backups<n>, bounded_staleness<n>");
  static_assert(!correct<consistency_is_missing<Model>> || (Model.backups >= 0 && Model.staleness >= -1),
                "the number in synchronous_with_backups or bounded_staleness must be at least 0");
  static constexpr consistency mode = Model.mode;
  static constexpr consistency_model model = Model;

  /// How training continues after a worker is lost: `parameter_server<synchronous>{.on_loss = wait_for{30s}}`. Must be
  /// the same on all workers.
  loss_policy on_loss = {};
  /// Called after a parameter server was lost and all servers have restored their shards: this worker's next step
  /// changes from `from` to `to`. The call that exchanges gradients or values calls it. Default: prints a line to
  /// stderr.
  std::function<void(std::int64_t from, std::int64_t to)> on_rollback = {};
};

/// Every worker stores all variables and applies the mean of all workers' gradients.
///
/// If the workers send messages, and the gradients of an element type exceed `bucket_bytes`, the gradients are sent in
/// buckets of about this size, in the order in which a step computes them, while the step still runs (Li et al.,
/// PyTorch Distributed, VLDB 2020). Must be the same on all workers. 0: all gradients are sent together, after the
/// step.
///
/// `on_loss`: how training continues when a worker is lost; by default, it ends at once. Must be the same on all
/// workers. With a loss policy, each worker keeps a copy of the gradients that it sends, and repeats their exchange
/// with the workers that are alive then: no step is computed again. With loss_action::take_over, gradients are summed
/// in the order of the replicas, whichever worker computes them, and are sent after the step. See
/// docs/how-to/all-reduce.md.
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
