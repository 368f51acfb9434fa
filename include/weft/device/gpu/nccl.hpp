// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <nccl.h>

#include <weft/device/gpu/cuda.hpp>
#include <weft/tensor/dtype.hpp>

/// Sums over GPUs by NCCL: between the GPUs of one process, or one GPU in each of several processes.
///
/// Every rank makes the same calls in the same order. All ranks receive the same bits, which are the same in every run
/// on the same machines. NCCL determines the order of summation, so they may differ from the bits of Weft's own
/// all-reduce.
namespace weft::gpu {

namespace detail {

inline void check_nccl(ncclResult_t r, const char* doing, ncclComm_t c = nullptr) {
  if (r == ncclSuccess || r == ncclInProgress) return;
  const char* more = ncclGetLastError(c);
  const auto code = r == ncclRemoteError || r == ncclSystemError ? error_code::unavailable : error_code::internal;
  throw error(code, "nccl",
              std::string("cannot ") + doing + ": " + ncclGetErrorString(r) + (more && *more ? ": " : "") +
                  (more ? more : "") + "; for details set NCCL_DEBUG=WARN in the environment");
}

template <class T>
constexpr ncclDataType_t nccl_type() {
  static_assert(is_floating(dtype_of<T>), "sums over GPUs need floating-point elements");
  return std::is_same_v<T, double>     ? ncclFloat64
         : std::is_same_v<T, half>     ? ncclFloat16
         : std::is_same_v<T, bfloat16> ? ncclBfloat16
                                       : ncclFloat32;
}

}  // namespace detail

/// How the values of all ranks are combined.
enum class nccl_reduction : unsigned char { sum, mean };

/// One rank in a group, with one GPU. A process must be only one rank. With two, one rank's GPU would wait for the
/// other rank's call, while that call may wait on the host for all GPUs, for example to allocate memory. Use
/// `nccl_devices` to sum over the GPUs of one process.
///
/// A call that waits for other ranks calls `meanwhile` repeatedly. An exception from `meanwhile`, for example at a
/// deadline or because a rank is dead, ends the wait and breaks the group.
class nccl_communicator {
 public:
  /// Creates the group's id on rank 0, which must send it to all other ranks.
  static ncclUniqueId make_id() {
    ncclUniqueId id;
    detail::check_nccl(ncclGetUniqueId(&id), "start");
    return id;
  }

  template <class Meanwhile>
  nccl_communicator(int ordinal, const ncclUniqueId& id, std::size_t ranks, std::size_t rank, Meanwhile&& meanwhile)
      : ordinal_(ordinal), here_(ranks) {
    check(cudaSetDevice(ordinal), "nccl", "use the device");
    ncclConfig_t how = NCCL_CONFIG_INITIALIZER;
    how.blocking = 0;  // a deadline could not end a blocking call of NCCL
    detail::check_nccl(ncclCommInitRankConfig(&group_, static_cast<int>(ranks), id, static_cast<int>(rank), &how),
                       "join the group");
    wait_until_enqueued(meanwhile);
  }
  nccl_communicator(const nccl_communicator&) = delete;
  nccl_communicator& operator=(const nccl_communicator&) = delete;
  /// Waits up to 10 seconds for the other ranks to finish, because an abort would release memory that they still read.
  ~nccl_communicator() {
    if (!group_) return;
    cudaSetDevice(ordinal_);
    ncclResult_t state = ncclCommFinalize(group_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (state == ncclInProgress && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
      if (ncclCommGetAsyncError(group_, &state) != ncclSuccess) state = ncclSystemError;
    }
    if (state == ncclSuccess)
      ncclCommDestroy(group_);
    else
      ncclCommAbort(group_);
  }

  /// Adds a reduction to the queue: `data` becomes the sum or mean over all ranks. Can be captured.
  template <class T, class Meanwhile>
  void reduce(queue& q, T* data, std::size_t n, nccl_reduction how, Meanwhile&& meanwhile) {
    if (!group_)
      throw error(error_code::failed_precondition, "nccl", "the group failed with an earlier error; create a new one");
    check(cudaSetDevice(ordinal_), "nccl", "use the device");
    const auto r = ncclAllReduce(data, data, n, detail::nccl_type<T>(), how == nccl_reduction::sum ? ncclSum : ncclAvg,
                                 group_, static_cast<cuda_queue&>(q).stream());
    detail::check_nccl(r, "reduce", group_);
    wait_until_enqueued(meanwhile);
  }

  /// Waits until the queue has finished all its work. A missing rank does not block this one for ever.
  template <class Meanwhile>
  void finish(queue& q, Meanwhile&& meanwhile) {
    const cudaStream_t stream = static_cast<cuda_queue&>(q).stream();
    for (;;) {
      const cudaError_t e = cudaStreamQuery(stream);
      if (e == cudaSuccess) return;
      if (e != cudaErrorNotReady) check(e, "nccl", "synchronize with a stream");
      look(meanwhile);
    }
  }

 private:
  /// Waits until NCCL has enqueued a call.
  template <class Meanwhile>
  void wait_until_enqueued(Meanwhile&& meanwhile) {
    while (look(meanwhile) == ncclInProgress) std::this_thread::yield();
  }

  template <class Meanwhile>
  ncclResult_t look(Meanwhile&& meanwhile) {
    ncclResult_t state = ncclSuccess;
    try {
      detail::check_nccl(ncclCommGetAsyncError(group_, &state), "query the state of the group", group_);
      detail::check_nccl(state, "reduce", group_);
      meanwhile();
    } catch (...) {
      // Also ends work on the GPU that would wait for the missing rank for ever.
      ncclCommAbort(group_);
      group_ = nullptr;
      throw;
    }
    return state;
  }

  /// Counts this process's ranks in groups of several ranks.
  class part {
   public:
    explicit part(std::size_t ranks) : counts_(ranks > 1) {
      if (!counts_ || ++parts() == 1) return;
      --parts();
      throw error(error_code::failed_precondition, "nccl",
                  "this process is already a rank, and two ranks in one process can deadlock: start one process for "
                  "each rank, or use nccl_devices for the GPUs of one process");
    }
    part(const part&) = delete;
    part& operator=(const part&) = delete;
    ~part() {
      if (counts_) --parts();
    }

   private:
    static std::atomic<int>& parts() {
      static std::atomic<int> count{0};
      return count;
    }
    bool counts_;
  };

  int ordinal_;
  part here_;
  ncclComm_t group_ = nullptr;
};

/// Several GPUs of this process that sum arrays together.
class nccl_devices {
 public:
  explicit nccl_devices(std::vector<int> ordinals) : ordinals_(std::move(ordinals)), groups_(ordinals_.size()) {
    detail::check_nccl(ncclCommInitAll(groups_.data(), static_cast<int>(ordinals_.size()), ordinals_.data()),
                       "join the GPUs of this process");
  }
  nccl_devices(const nccl_devices&) = delete;
  nccl_devices& operator=(const nccl_devices&) = delete;
  ~nccl_devices() {
    ncclGroupStart();  // each call waits for the others
    for (ncclComm_t g : groups_) ncclCommDestroy(g);
    ncclGroupEnd();
  }

  std::size_t size() const { return groups_.size(); }

  /// Adds a reduction to each device's queue: its `data` becomes the sum or mean over all devices. Must not be
  /// captured: if one thread launches several recordings, they may wait for each other.
  template <class T>
  void reduce(queue* const* queues, T* const* data, std::size_t n, nccl_reduction how) {
    detail::check_nccl(ncclGroupStart(), "reduce");
    ncclResult_t worst = ncclSuccess;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const ncclResult_t r =
          ncclAllReduce(data[i], data[i], n, detail::nccl_type<T>(), how == nccl_reduction::sum ? ncclSum : ncclAvg,
                        groups_[i], static_cast<cuda_queue&>(*queues[i]).stream());
      if (r != ncclSuccess) worst = r;
    }
    const ncclResult_t end = ncclGroupEnd();
    detail::check_nccl(worst == ncclSuccess ? end : worst, "reduce");
  }

 private:
  std::vector<int> ordinals_;
  std::vector<ncclComm_t> groups_;
};

}  // namespace weft::gpu
