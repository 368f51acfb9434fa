// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/device/gpu/nccl.hpp>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/collective/reduce_peers.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/tensor/owned.hpp>

namespace weft {

/// The tasks of a job, each with a GPU, that sum arrays together by NCCL instead of all_reduce. Arrays are on the GPU,
/// or on the host and are copied to the GPU and back.
///
/// The tasks connect, compare their graphs and receive the group's id over Weft's own transport. Weft's membership
/// detects a task that is gone; NCCL alone would wait for it.
class nccl_all_reduce {
 public:
  /// Throws the errors of all_reduce, and unavailable if a task has no GPU.
  nccl_all_reduce(task_server& here, gpu::device& on, graph_identity graph = {}, all_reduce_options options = {},
                  deadline until = std::chrono::seconds(60))
      : device_(on),
        hosts_(here, graph, in_channel(options), until),
        peers_(here, options.job.empty() ? here.job() : options.job, hosts_.size()),
        queue_(on.make_queue()) {
    group_.emplace(on.ordinal(), share_id(until), size(), rank(), watch(until));
  }
  /// Uses one GPU per task: the nth of the job's tasks on a host uses the nth GPU of the host.
  explicit nccl_all_reduce(task_server& here, graph_identity graph = {}, const all_reduce_options& options = {},
                           deadline until = std::chrono::seconds(60))
      : nccl_all_reduce(here, own_device(here), graph, options, until) {}
  nccl_all_reduce(const nccl_all_reduce&) = delete;
  nccl_all_reduce& operator=(const nccl_all_reduce&) = delete;
  ~nccl_all_reduce() {
    group_.reset();
    device_.deallocate(staging_);
    for (std::byte* block : blocks_) device_.deallocate_host(block);
  }

  std::size_t rank() const { return hosts_.rank(); }
  std::size_t size() const { return hosts_.size(); }

  /// Returns zeroed, page-locked host memory for an array that is summed often, or an empty span if none is available.
  mutable_bytes shared_block(std::size_t bytes, deadline = std::chrono::seconds(60)) {
    std::byte* const block = bytes ? device_.allocate_host(bytes) : nullptr;
    if (!block) return {};
    blocks_.push_back(block);
    std::memset(block, 0, bytes);
    return {block, bytes};
  }

  /// Enqueues the sum of `data`, on this task's GPU, over all ranks. Can be recorded.
  template <std::floating_point Element>
  void sum(gpu::queue& q, Element* data, std::size_t n, deadline until = std::chrono::seconds(60)) {
    group_->reduce(q, data, n, gpu::nccl_reduction::sum, watch(until));
  }
  template <std::floating_point Element>
  void mean(gpu::queue& q, Element* data, std::size_t n, deadline until = std::chrono::seconds(60)) {
    group_->reduce(q, data, n, gpu::nccl_reduction::mean, watch(until));
  }

  /// Replaces `data`, on the host, with the sum over all ranks. Throws weft::error (unavailable) with the name of a
  /// task that is gone, or if another task does not make the call in time; the group cannot be used afterwards.
  template <std::floating_point Element>
  void sum(std::span<Element> data, deadline until = std::chrono::seconds(60)) {
    over_the_gpu(data, gpu::nccl_reduction::sum, until);
  }
  /// See all_reduce::mean(). NCCL carries neither weights nor the positions of elements that are not finite, so they
  /// travel between the hosts.
  template <std::floating_point Element>
  mean_report mean(std::span<Element> data, deadline until = std::chrono::seconds(60),
                   reduce_algorithm = reduce_algorithm::automatic, double weight = 1) {
    if (!is_late_) {  // otherwise this call repeats one that ran out of time
      for (detail::reduce_statement& each : peers_.said()) each = {};
      peers_.said()[rank()] = detail::reduce_statement::of(std::span<const Element>(data), true, weight);
    }
    is_late_ = true;
    hosts_.sum(peers_.numbers(), until);
    is_late_ = false;
    peers_.check_agreement(rank());
    if (weight == 0) std::fill(data.begin(), data.end(), Element{0});  // 0 times NaN is NaN
    if (weight != 0 && weight != 1) detail::scale(data.data(), data.size(), static_cast<Element>(weight));
    const double weights = peers_.weights();
    const bool equal = peers_.weights_are_one();
    over_the_gpu(data, equal ? gpu::nccl_reduction::mean : gpu::nccl_reduction::sum, until);
    if (weights == 0) return {0, true, 0, {}};
    return peers_.report(std::span<const Element>(data),
                         equal ? detail::all_finite(data.data(), data.size())
                               : detail::divide(data.data(), data.size(), static_cast<Element>(weights)));
  }

 private:
  static gpu::device& own_device(task_server& here) {
    gpu::platform* const gpus = gpu::installed_platform;
    const int count = gpus ? gpus->count() : 0;
    if (count == 0)
      throw error(error_code::unavailable, "all_reduce",
                  {here.name(), " has no GPU to reduce on: ",
                   gpus ? gpus->reason() : "this program contains no GPU code; include <weft/cuda.hpp>"});
    const std::string& host = here.cluster().task_address(here.job(), here.index()).host;
    int before = 0;
    for (int i = 0; i < here.index(); ++i) before += here.cluster().task_address(here.job(), i).host == host;
    if (before >= count)
      throw error(
          error_code::failed_precondition, "all_reduce",
          {"NCCL requires a GPU for each task, but ", here.name(), " is number ", before + 1, " of the tasks on ", host,
           ", which has ", count, " GPU(s); start fewer tasks there, or use collective"});
    return gpus->at(before);
  }

  static all_reduce_options in_channel(all_reduce_options options) {
    options.channel += "/nccl";
    return options;
  }

  /// Returns the id that rank 0 makes. It travels as a sum to which the other ranks add zeros, one double for each
  /// byte.
  ncclUniqueId share_id(deadline until) {
    constexpr std::size_t bytes = sizeof(ncclUniqueId);
    std::array<unsigned char, bytes> raw{};
    if (rank() == 0) {
      const ncclUniqueId mine = gpu::nccl_communicator::make_id();
      std::memcpy(raw.data(), &mine, bytes);
    }
    std::array<double, bytes> all{};
    for (std::size_t i = 0; i < bytes; ++i) all[i] = raw[i];
    hosts_.sum(std::span<double>(all), until);
    for (std::size_t i = 0; i < bytes; ++i) raw[i] = static_cast<unsigned char>(all[i]);
    ncclUniqueId id;
    std::memcpy(&id, raw.data(), bytes);
    return id;
  }

  /// Returns the check that ends a wait for other ranks.
  std::function<void()> watch(deadline until) {
    return [this, until] {
      peers_.check();
      if (until.expired())
        throw error(error_code::unavailable, "all_reduce",
                    "another rank has not made the same call in time, so NCCL aborted its group; make a new group");
    };
  }

  template <typename Element>
  void over_the_gpu(std::span<Element> data, gpu::nccl_reduction how, deadline until) {
    if (data.size_bytes() > staging_bytes_) {
      device_.deallocate(staging_);
      staging_bytes_ = 0;
      staging_ = device_.allocate(data.size_bytes());
      if (!staging_)
        throw error(error_code::resource_exhausted, "all_reduce",
                    {"cannot allocate ", data.size_bytes(), " bytes on the GPU for gradients"});
      staging_bytes_ = data.size_bytes();
    }
    auto* there = reinterpret_cast<Element*>(staging_);
    queue_->copy(there, data.data(), data.size_bytes());
    group_->reduce(*queue_, there, data.size(), how, watch(until));
    group_->finish(*queue_, watch(until));  // before the copy, which would block on pageable memory without watching
    queue_->copy(data.data(), there, data.size_bytes());
    queue_->synchronize();
  }

  gpu::device& device_;
  all_reduce hosts_;
  detail::reduce_peers peers_;
  owned<gpu::queue> queue_;
  std::optional<gpu::nccl_communicator> group_;
  std::byte* staging_ = nullptr;
  std::size_t staging_bytes_ = 0;
  std::vector<std::byte*> blocks_;
  bool is_late_ = false;  // the sum between the hosts is not complete
};

/// A strategy like `collective`, with sums by NCCL: every worker keeps all variables and applies the mean of all
/// workers' gradients, which the GPUs compute.
///
///     replicated_session s(g, here, nccl_collective{}, {.device = cuda{0}});
struct nccl_collective {
  using group = nccl_all_reduce;
};

}  // namespace weft
