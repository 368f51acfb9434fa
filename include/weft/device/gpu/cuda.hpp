// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <weft/device/gpu/cuda_error.hpp>
#include <weft/device/gpu/cuda_memory.hpp>
#include <weft/device/gpu/cuda_queue.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/tensor/owned.hpp>

/// GPUs by the CUDA runtime. Host code only, which compiles with or without a CUDA compiler.
namespace weft::gpu {

/// A device's handle of one library.
class library_part {
 public:
  virtual ~library_part() = default;
};

/// The libraries of a CUDA device. Each is loaded when the first kernel requests it, so programs without convolutions
/// do not load cuDNN.
class cuda_libraries final : public libraries {
 public:
  explicit cuda_libraries(int ordinal) : ordinal_(ordinal) {}

  int ordinal() const { return ordinal_; }

  /// Returns the part of type `Part`, created as `Part(ordinal)`. Makes the device current.
  template <class Part>
  Part& get() {
    static const char key = 0;
    const std::lock_guard lock(mutex_);
    check(cudaSetDevice(ordinal_), "cuda", "use the device");
    for (const auto& [k, part] : parts_)
      if (k == &key) return static_cast<Part&>(*part);
    parts_.emplace_back(&key, std::make_unique<Part>(ordinal_));
    return static_cast<Part&>(*parts_.back().second);
  }

 private:
  int ordinal_;
  std::mutex mutex_;
  std::vector<std::pair<const void*, std::unique_ptr<library_part>>> parts_;
};

class cuda_device : public device {
 public:
  explicit cuda_device(int ordinal)
      : ordinal_(ordinal),
        info_(read_info(ordinal)),
        libraries_(ordinal),
        memory_(ordinal, info_.memory_bytes > for_libraries ? info_.memory_bytes - for_libraries : 0) {}

  int ordinal() const override { return ordinal_; }
  device_info info() const override { return info_; }

  std::size_t free_bytes() override {
    use();
    std::size_t free = 0, all = 0;
    check(cudaMemGetInfo(&free, &all), "cuda", "query its free memory");
    free += memory_.kept_bytes();
    return free > for_libraries ? free - for_libraries : 0;
  }

  using device::allocate;
  std::byte* allocate(std::size_t bytes) override {
    return bytes <= info_.memory_bytes ? memory_.allocate(bytes) : nullptr;
  }
  void deallocate(std::byte* data) noexcept override { memory_.deallocate(data); }
  void open_share(std::size_t bytes) override { memory_.open_share(bytes); }
  void close_share(std::size_t bytes) noexcept override { memory_.close_share(bytes); }
  void let_reach(int peer) { memory_.let_reach(peer); }
  void clear(std::byte* to, std::size_t bytes) override { memory_.clear(to, bytes); }
  std::byte* allocate_host(std::size_t bytes) override {
    use();
    void* data = nullptr;
    const cudaError_t e = cudaHostAlloc(&data, bytes ? bytes : 1, cudaHostAllocPortable);
    if (e == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(e, "cuda", "allocate page-locked memory");
    return static_cast<std::byte*>(data);
  }
  void deallocate_host(std::byte* data) noexcept override {
    if (!data) return;
    cudaFreeHost(data);
    cudaGetLastError();
  }
  bool is_page_locked(const void* at, std::size_t bytes) noexcept override {
    if (bytes == 0 || cudaSetDevice(ordinal_) != cudaSuccess) return cudaGetLastError(), false;
    const auto is = [](const std::byte* p) {  // a registered region may begin or end elsewhere
      cudaPointerAttributes what{};
      const bool known = cudaPointerGetAttributes(&what, p) == cudaSuccess;
      if (!known) cudaGetLastError();
      return known && what.type == cudaMemoryTypeHost;
    };
    const auto* const first = static_cast<const std::byte*>(at);
    return is(first) && is(first + bytes - 1);
  }
  owned<queue> make_queue(allocator* workspaces = nullptr) override {
    return owned<queue>(new cuda_queue(ordinal_, workspaces ? workspaces : this));
  }
  libraries* library() override { return &libraries_; }

 private:
  void use() const { check(cudaSetDevice(ordinal_), "cuda", "use the device"); }

  static device_info read_info(int ordinal) {
    check(cudaSetDevice(ordinal), "cuda", "use the device");
    cudaDeviceProp p;
    check(cudaGetDeviceProperties(&p, ordinal), "cuda", "read the device's properties");
    device_info info{p.name, p.totalGlobalMem, p.multiProcessorCount, p.major, p.minor};
    const auto attribute = [&](cudaDeviceAttr what) {
      int value = 0;  // if the driver does not report it
      if (cudaDeviceGetAttribute(&value, what, ordinal) != cudaSuccess) cudaGetLastError();
      return static_cast<double>(value);
    };
    // Memory transfers bits at both edges of its clock. A multiprocessor has 128 lanes for float; 64 on Volta, Turing,
    // and data-centre GPUs before Hopper.
    const double clock = 1e3 * attribute(cudaDevAttrClockRate),
                 memory_clock = 1e3 * attribute(cudaDevAttrMemoryClockRate);
    const int lanes = p.major == 7 || (p.minor == 0 && p.major < 9) ? 64 : 128;
    if (memory_clock > 0) info.bytes_per_second = memory_clock * 2 / 8 * attribute(cudaDevAttrGlobalMemoryBusWidth);
    if (clock > 0) info.multiply_adds_per_second = clock * lanes * p.multiProcessorCount;
    return info;
  }

  /// for cuBLASLt, cuDNN, the code of kernels, captured steps
  static constexpr std::size_t for_libraries = std::size_t{512} << 20;

  int ordinal_;
  device_info info_;
  cuda_libraries libraries_;
  cuda_memory memory_;
};

class cuda_platform final : public platform {
 public:
  int count() override {
    const std::lock_guard lock(mutex_);
    return look();
  }

  std::string reason() override {
    const std::lock_guard lock(mutex_);
    if (look() > 0) return {};
    int driver = 0;
    const bool asked = cudaDriverGetVersion(&driver) == cudaSuccess;
    cudaGetLastError();
    if (asked && driver == 0) return "this machine has no NVIDIA driver";
    if (failure_ == cudaErrorInsufficientDriver)
      return "the NVIDIA driver supports CUDA " + version(driver) + ", but this program needs CUDA " +
             version(CUDART_VERSION) + ": install a newer driver";
    if (failure_ == cudaErrorNoDevice || failure_ == cudaSuccess)
      return "the NVIDIA driver sees no GPU (CUDA_VISIBLE_DEVICES may hide it)";
    return std::string("CUDA cannot be initialized: ") + cudaGetErrorString(failure_);
  }

  device& at(int ordinal) override {
    const std::lock_guard lock(mutex_);
    const int here = look();
    if (ordinal < 0 || ordinal >= here)
      throw error(error_code::invalid_argument, "cuda",
                  "there is no GPU " + std::to_string(ordinal) + ": this process sees " + std::to_string(here));
    if (devices_.size() < static_cast<std::size_t>(here)) devices_.resize(static_cast<std::size_t>(here));
    auto& wanted = devices_[static_cast<std::size_t>(ordinal)];
    if (!wanted) {
      auto opened = std::make_unique<cuda_device>(ordinal);
      for (const auto& other : devices_)
        if (other) {
          reach(*opened, *other);
          reach(*other, *opened);
        }
      wanted = std::move(opened);
    }
    return *wanted;
  }

 private:
  /// Counts the devices once; a device added later requires a new process anyway.
  int look() {
    if (count_ >= 0) return count_;
    failure_ = cudaGetDeviceCount(&count_);
    if (failure_ != cudaSuccess) {
      cudaGetLastError();
      count_ = 0;
    }
    return count_;
  }

  /// Lets one device read the other's memory; without peer access, copies go through host memory.
  static void reach(cuda_device& from, cuda_device& to) {
    int can = 0;
    const bool known = cudaSetDevice(from.ordinal()) == cudaSuccess &&
                       cudaDeviceCanAccessPeer(&can, from.ordinal(), to.ordinal()) == cudaSuccess;
    if (known && can) cudaDeviceEnablePeerAccess(to.ordinal(), 0);  // for memory outside the pools
    cudaGetLastError();
    if (known && can) to.let_reach(from.ordinal());
  }

  static std::string version(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

  std::mutex mutex_;
  int count_ = -1;
  cudaError_t failure_ = cudaSuccess;
  std::vector<std::unique_ptr<cuda_device>> devices_;
};

/// The GPUs of this process. Never destroyed: the driver releases everything, and may be gone before other static
/// objects are.
inline cuda_platform& cuda_devices() {
  static auto& all = *new cuda_platform;
  return all;
}

}  // namespace weft::gpu
