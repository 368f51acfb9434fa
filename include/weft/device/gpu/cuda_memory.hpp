// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include <cuda_runtime_api.h>

#include <weft/device/gpu/cuda_error.hpp>
#include <weft/device/gpu/cuda_queue.hpp>

/// GPU memory by the CUDA runtime.
namespace weft::gpu {

/// The memory of one device, from Weft's own stream-ordered pool: other libraries share the default pool, so Weft must
/// not trim it or open it to other devices.
///
/// Synchronization: one stream allocates and frees, and does little else. The host waits for that stream after an
/// allocation, so that any queue of any device may then use the block. A block is freed when all work that the
/// process's queues contain at that moment is done, except work that is only being captured; the host does not wait. A
/// block is therefore not reused while a queue may still access it, and the next allocation waits for these queues, as
/// cudaFree would at once. None of this becomes part of a capture, because the stream joins none.
///
/// Freed memory stays in the pool up to the shares of open sessions. The pool is trimmed before it takes more from the
/// driver, so it never holds more than these shares, apart from the driver's granularity of some MiB. Memory returns to
/// the driver, and thus to others, when a session closes and when memory is exhausted.
///
/// Falls back to cudaMalloc and cudaFree if the device has no pools, or if a GPU cannot access this one: copies from a
/// pool are only reliable if the pool is open to the other GPU.
class cuda_memory {
 public:
  /// The pool keeps at most `most` bytes, since libraries need some of the device's memory too.
  cuda_memory(int ordinal, std::size_t most) : most_(most), stream_(ordinal) {
    if (!has_pools(ordinal) || !is_reached_by_all(ordinal)) return;
    cudaMemPoolProps wish{};
    wish.allocType = cudaMemAllocationTypePinned;
    wish.location.type = cudaMemLocationTypeDevice;
    wish.location.id = ordinal;
    const cudaError_t e = cudaMemPoolCreate(&pool_, &wish);
    if (e == cudaErrorNotSupported) {
      cudaGetLastError();
      pool_ = nullptr;
      return;
    }
    check(e, "cuda", "create a memory pool");
  }
  cuda_memory(const cuda_memory&) = delete;
  cuda_memory& operator=(const cuda_memory&) = delete;
  ~cuda_memory() {
    if (!pool_) return;
    cudaSetDevice(stream_.ordinal());
    cudaStreamSynchronize(stream_);
    cudaMemPoolDestroy(pool_);
    cudaGetLastError();
  }

  /// Returns null if memory is exhausted.
  std::byte* allocate(std::size_t bytes) {
    stream_.use();
    if (bytes == 0) bytes = 1;
    const std::lock_guard lock(mutex_);
    void* data = nullptr;
    if (pool_ && attribute(cudaMemPoolAttrReservedMemCurrent) + bytes > kept_at_most())
      trim(bytes < kept_at_most() ? kept_at_most() - bytes : 0);
    cudaError_t e = take(data, bytes);
    if (e == cudaErrorMemoryAllocation && pool_) {  // the pool may hold enough memory, in pieces
      cudaGetLastError();
      trim(0);
      e = take(data, bytes);
    }
    if (e == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(e, "cuda", "allocate GPU memory");
    return static_cast<std::byte*>(data);
  }

  void deallocate(std::byte* data) noexcept {
    if (!data) return;
    if (pool_) all_cuda_queues().precede(stream_);
    cudaSetDevice(stream_.ordinal());
    if (pool_)
      cudaFreeAsync(data, stream_);
    else
      cudaFree(data);
    cudaGetLastError();
  }

  /// Clears memory and waits. Uses the stream that frees memory, so a step that fails midway cannot block it.
  void clear(std::byte* to, std::size_t bytes) {
    stream_.use();
    check(cudaMemsetAsync(to, 0, bytes, stream_), "clear", "clear GPU memory");
    check(cudaStreamSynchronize(stream_), "clear", "clear GPU memory");
  }

  /// Lets another device that supports peer access read and write the pool's memory, present and future.
  void let_reach(int peer) {
    if (!pool_) return;
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    check(cudaMemPoolSetAccess(pool_, &access, 1), "cuda", "share its memory pool with another GPU");
  }

  void open_share(std::size_t bytes) {
    if (!pool_) return;
    stream_.use();
    const std::lock_guard lock(mutex_);
    set_shares(shares_ + bytes);
  }
  void close_share(std::size_t bytes) noexcept {
    if (!pool_) return;
    cudaSetDevice(stream_.ordinal());
    const std::lock_guard lock(mutex_);
    set_shares(shares_ - bytes);
    trim(0);
  }

  /// Returns the bytes in the pool that have been freed.
  std::size_t kept_bytes() {
    if (!pool_) return 0;
    const std::size_t reserved = attribute(cudaMemPoolAttrReservedMemCurrent);
    const std::size_t used = attribute(cudaMemPoolAttrUsedMemCurrent);
    return reserved > used ? reserved - used : 0;
  }

 private:
  static bool has_pools(int ordinal) {
    int has = 0;
    check(cudaDeviceGetAttribute(&has, cudaDevAttrMemoryPoolsSupported, ordinal), "cuda",
          "query its support of memory pools");
    return has != 0;
  }
  static bool is_reached_by_all(int ordinal) {
    int count = 0, can = 1;
    check(cudaGetDeviceCount(&count), "cuda", "count the GPUs");
    for (int other = 0; can && other < count; ++other)
      if (other != ordinal) check(cudaDeviceCanAccessPeer(&can, other, ordinal), "cuda", "query its peers");
    return can != 0;
  }

  cudaError_t take(void*& data, std::size_t bytes) {
    if (!pool_) return cudaMalloc(&data, bytes);
    cudaError_t e = cudaMallocFromPoolAsync(&data, bytes, pool_, stream_);
    if (e != cudaSuccess) return e;
    e = cudaStreamSynchronize(stream_);
    if (e != cudaSuccess) cudaFreeAsync(data, stream_);
    return e;
  }

  std::size_t attribute(cudaMemPoolAttr which) const {
    std::uint64_t value = 0;
    check(cudaMemPoolGetAttribute(pool_, which, &value), "cuda", "query its memory pool");
    return static_cast<std::size_t>(value);
  }

  std::size_t kept_at_most() const { return shares_ < most_ ? shares_ : most_; }

  void set_shares(std::size_t bytes) noexcept {
    shares_ = bytes;
    std::uint64_t threshold = kept_at_most();
    cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold);  // an optimization only
    cudaGetLastError();
  }

  /// Returns unused memory to the driver until the pool holds at most `to` bytes. Waits for blocks whose release waits
  /// for queues.
  void trim(std::size_t to) noexcept {
    cudaStreamSynchronize(stream_);
    cudaMemPoolTrimTo(pool_, to);
    cudaGetLastError();
  }

  std::size_t most_;
  cuda_stream stream_;
  cudaMemPool_t pool_ = nullptr;
  std::mutex mutex_;
  std::size_t shares_ = 0;  // in bytes
};

}  // namespace weft::gpu
