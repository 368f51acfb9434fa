#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include <cuda_runtime_api.h>

#include <weft/device/gpu/cuda_error.hpp>
#include <weft/device/gpu/cuda_queue.hpp>

/// Memory of GPUs by the CUDA runtime.
namespace weft::gpu {

/// The memory of one device, from a stream-ordered pool of Weft's own: other libraries share the default one, and
/// trimming that or lending it to other devices is not for Weft to decide.
///
/// The waits are these. Memory is taken and given back in one stream, which does little else. A block is taken when the
/// host has waited for that stream: any queue of any device may use it then. A block is given back when all that the
/// process's queues had been given by then is done, as far as it is not only being recorded; the host does not wait for
/// that. So it is not handed out again while any of them may still read or write it, and the next wish waits for them,
/// as cudaFree would at once. Nothing of this becomes a part of a recording: the stream takes part in none.
///
/// Memory that is given back stays in the pool as far as the shares of open sessions reach: it makes room before more
/// is taken from the driver, so that the pool holds no more than they may, but for the driver's steps of some MiB. It
/// goes back to the driver, and so to others, when a session closes, and when there is no room.
///
/// Without a pool it is cudaMalloc and cudaFree: where the device has none, and beside a GPU that cannot reach this
/// one, for copies from a pool are only certain where that pool is open to the other GPU.
class cuda_memory {
 public:
  /// `most` bytes are kept at the most, for libraries need some of the device, too.
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
    check(e, "cuda", "make a pool of memory");
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

  /// Null if there is no room.
  std::byte* allocate(std::size_t bytes) {
    stream_.use();
    if (bytes == 0) bytes = 1;
    const std::lock_guard lock(mutex_);
    void* data = nullptr;
    if (pool_ && attribute(cudaMemPoolAttrReservedMemCurrent) + bytes > kept_at_most())
      trim(bytes < kept_at_most() ? kept_at_most() - bytes : 0);
    cudaError_t e = take(data, bytes);
    if (e == cudaErrorMemoryAllocation && pool_) {  // it may be there, in pieces
      cudaGetLastError();
      trim(0);
      e = take(data, bytes);
    }
    if (e == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(e, "cuda", "allocate memory of the GPU");
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

  /// Waits until it is done. In the stream in which memory is given back: not even what fails half-way is in its way.
  void clear(std::byte* to, std::size_t bytes) {
    stream_.use();
    check(cudaMemsetAsync(to, 0, bytes, stream_), "clear", "clear memory of the GPU");
    check(cudaStreamSynchronize(stream_), "clear", "clear memory of the GPU");
  }

  /// Lets another device, which can, read and write what is here and will be.
  void let_reach(int peer) {
    if (!pool_) return;
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    check(cudaMemPoolSetAccess(pool_, &access, 1), "cuda", "open its pool of memory to another GPU");
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

  /// The bytes that were given back and are still here.
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
          "ask whether it has pools of memory");
    return has != 0;
  }
  static bool is_reached_by_all(int ordinal) {
    int count = 0, can = 1;
    check(cudaGetDeviceCount(&count), "cuda", "count the GPUs");
    for (int other = 0; can && other < count; ++other)
      if (other != ordinal) check(cudaDeviceCanAccessPeer(&can, other, ordinal), "cuda", "ask which GPUs can reach it");
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
    check(cudaMemPoolGetAttribute(pool_, which, &value), "cuda", "ask its pool of memory");
    return static_cast<std::size_t>(value);
  }

  std::size_t kept_at_most() const { return shares_ < most_ ? shares_ : most_; }

  void set_shares(std::size_t bytes) noexcept {
    shares_ = bytes;
    std::uint64_t threshold = kept_at_most();
    cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold);  // only saves time
    cudaGetLastError();
  }

  /// Gives to the driver what is not held, until it holds no more than so much. Waits for the blocks that wait for
  /// queues.
  void trim(std::size_t to) noexcept {
    cudaStreamSynchronize(stream_);
    cudaMemPoolTrimTo(pool_, to);
    cudaGetLastError();
  }

  std::size_t most_;
  cuda_stream stream_;
  cudaMemPool_t pool_ = nullptr;
  std::mutex mutex_;
  std::size_t shares_ = 0;  // bytes
};

}  // namespace weft::gpu
