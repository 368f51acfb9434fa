#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <weft/device/gpu/cuda_error.hpp>
#include <weft/device/gpu/device.hpp>

/// GPUs by the CUDA runtime. Host code throughout: it compiles with or without a CUDA compiler.
namespace weft::gpu {

class cuda_queue;

/// What a device holds of one library: its handle.
class library_part {
 public:
  virtual ~library_part() = default;
};

/// The libraries of a CUDA device. Each is opened when the first kernel asks for it: a program without convolutions
/// pays nothing for them.
class cuda_libraries final : public libraries {
 public:
  explicit cuda_libraries(int ordinal) : ordinal_(ordinal) {}

  int ordinal() const { return ordinal_; }

  /// The part of type `Part`, made as `Part(ordinal)`. The device is current from then on.
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

class cuda_recording final : public recording {
 public:
  explicit cuda_recording(cudaGraphExec_t work) : work_(work) {}
  ~cuda_recording() override { cudaGraphExecDestroy(work_); }
  cudaGraphExec_t work() const { return work_; }

 private:
  cudaGraphExec_t work_;
};

class cuda_queue : public queue {
 public:
  explicit cuda_queue(int ordinal, allocator* workspaces = nullptr) : queue(workspaces), ordinal_(ordinal) {
    use();
    // Not the blocking kind: that one waits for whatever else the process does on the legacy default stream.
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cuda", "make a stream");
    const cudaError_t e = cudaEventCreateWithFlags(&reached_, cudaEventDisableTiming);
    if (e != cudaSuccess) {
      cudaStreamDestroy(stream_);
      check(e, "cuda", "make an event");
    }
  }
  ~cuda_queue() override {
    cudaSetDevice(ordinal_);
    cudaStreamSynchronize(stream_);
    cudaEventDestroy(reached_);
    cudaStreamDestroy(stream_);
    cudaGetLastError();
  }

  void launch(const function& f, const launch_size& size, void** arguments) override {
    if (!f.device)
      throw error(error_code::unimplemented, f.name,
                  "is not compiled for GPUs: the file that uses it is to be compiled by a CUDA compiler");
    if (size.blocks == 0 || size.blocks_y == 0 || size.threads == 0) return;
    use();
    constexpr unsigned default_shared = 48u << 10;
    if (size.shared_bytes > default_shared)
      check(cudaFuncSetAttribute(f.device, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(size.shared_bytes)),
            f.name, "have that much shared memory");
    const cudaError_t e = cudaLaunchKernel(f.device, dim3(size.blocks, size.blocks_y), dim3(size.threads), arguments,
                                           size.shared_bytes, stream_);
    if (e != cudaSuccess) {
      cudaGetLastError();
      throw cuda_error(e, f.name,
                       "be launched as " + std::to_string(size.blocks) + "x" + std::to_string(size.blocks_y) +
                           " blocks of " + std::to_string(size.threads) + " threads");
    }
  }

  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    use();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copy", "copy to or from the GPU");
  }
  void clear(void* to, std::size_t bytes) override {
    if (bytes == 0) return;
    use();
    check(cudaMemsetAsync(to, 0, bytes, stream_), "clear", "clear memory of the GPU");
  }

  // One event for each queue is enough: an event that is recorded again before another thread waits for it only makes
  // that thread's queue wait for more.
  void wait_for(queue& other) override {
    auto& from = static_cast<cuda_queue&>(other);
    from.use();
    check(cudaEventRecord(from.reached_, from.stream_), "cuda", "record an event");
    use();
    check(cudaStreamWaitEvent(stream_, from.reached_, 0), "cuda", "wait for an event");
  }

  void synchronize() override {
    use();
    check(cudaStreamSynchronize(stream_), "cuda", "finish the work of a stream");
  }

  // Relaxed: libraries load kernels and take memory the first time they are called, and may do so while recording.
  void begin_recording() override {
    use();
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "cuda", "begin to record a step");
  }
  owned<recording> end_recording() override {
    use();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "cuda", "record the step");
    cudaGraphExec_t work = nullptr;
    const cudaError_t e = cudaGraphInstantiate(&work, graph, 0);
    cudaGraphDestroy(graph);
    check(e, "cuda", "make a graph of the recorded step");
    owned<recording> result(new cuda_recording(work));
    check(cudaGraphUpload(work, stream_), "cuda", "bring the recorded step to the GPU");
    return result;
  }
  void launch(recording& r) override {
    use();
    check(cudaGraphLaunch(static_cast<cuda_recording&>(r).work(), stream_), "cuda", "launch the recorded step");
  }

  void* native() const override { return stream_; }
  cudaStream_t stream() const { return stream_; }
  int ordinal() const { return ordinal_; }

 private:
  void use() const { check(cudaSetDevice(ordinal_), "cuda", "use the device"); }

  int ordinal_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t reached_ = nullptr;
};

class cuda_device : public device {
 public:
  explicit cuda_device(int ordinal) : ordinal_(ordinal), libraries_(ordinal) {
    use();
    cudaDeviceProp p;
    check(cudaGetDeviceProperties(&p, ordinal), "cuda", "read the device's properties");
    info_.name = p.name;
    info_.memory_bytes = p.totalGlobalMem;
    info_.multiprocessors = p.multiProcessorCount;
    info_.compute_major = p.major;
    info_.compute_minor = p.minor;
    // Both directions of a clock carry bits; a multiprocessor of every card since Pascal has 64 lanes or 128.
    const double clock = 1e3 * attribute(cudaDevAttrClockRate),
                 memory_clock = 1e3 * attribute(cudaDevAttrMemoryClockRate);
    if (memory_clock > 0) info_.bytes_per_second = memory_clock * 2 / 8 * attribute(cudaDevAttrGlobalMemoryBusWidth);
    if (clock > 0) info_.multiply_adds_per_second = clock * (p.major >= 8 ? 128 : 64) * p.multiProcessorCount;
  }

  int ordinal() const override { return ordinal_; }
  device_info info() const override { return info_; }

  std::size_t free_bytes() override {
    use();
    std::size_t free = 0, all = 0;
    check(cudaMemGetInfo(&free, &all), "cuda", "ask for its free memory");
    constexpr std::size_t libraries = std::size_t{512} << 20;  // cuBLASLt, cuDNN, the code of kernels, recorded steps
    return free > libraries ? free - libraries : 0;
  }

  // Not by the stream-ordered pool: what is allocated here is large, rare and reached by other devices, which see
  // cudaMalloc's memory without being told of each pool.
  using device::allocate;
  std::byte* allocate(std::size_t bytes) override {
    use();
    void* data = nullptr;
    return taken(cudaMalloc(&data, bytes ? bytes : 1), data, "allocate memory of the GPU");
  }
  void deallocate(std::byte* data) noexcept override {
    if (!data) return;
    cudaSetDevice(ordinal_);
    cudaFree(data);
    cudaGetLastError();
  }
  void clear(std::byte* to, std::size_t bytes) override {
    use();
    check(cudaMemsetAsync(to, 0, bytes, cudaStreamPerThread), "clear", "clear memory of the GPU");
    check(cudaStreamSynchronize(cudaStreamPerThread), "clear", "clear memory of the GPU");
  }
  std::byte* allocate_host(std::size_t bytes) override {
    use();
    void* data = nullptr;
    return taken(cudaHostAlloc(&data, bytes ? bytes : 1, cudaHostAllocPortable), data, "allocate page-locked memory");
  }
  void deallocate_host(std::byte* data) noexcept override {
    if (!data) return;
    cudaFreeHost(data);
    cudaGetLastError();
  }
  owned<queue> make_queue(allocator* workspaces = nullptr) override {
    return owned<queue>(new cuda_queue(ordinal_, workspaces ? workspaces : this));
  }
  libraries* library() override { return &libraries_; }

 private:
  void use() const { check(cudaSetDevice(ordinal_), "cuda", "use the device"); }

  /// 0 where the driver does not say.
  double attribute(cudaDeviceAttr what) const {
    int value = 0;
    if (cudaDeviceGetAttribute(&value, what, ordinal_) != cudaSuccess) cudaGetLastError();
    return value;
  }

  static std::byte* taken(cudaError_t e, void* data, const char* doing) {
    if (e == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(e, "cuda", doing);
    return static_cast<std::byte*>(data);
  }

  int ordinal_;
  device_info info_;
  cuda_libraries libraries_;
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
    if (asked && driver == 0) return "there is no NVIDIA driver on this machine";
    if (failure_ == cudaErrorInsufficientDriver)
      return "the NVIDIA driver is for CUDA " + version(driver) + ", this program for CUDA " + version(CUDART_VERSION) +
             ": install a newer driver";
    if (failure_ == cudaErrorNoDevice || failure_ == cudaSuccess)
      return "the NVIDIA driver sees no GPU (CUDA_VISIBLE_DEVICES may hide it)";
    return std::string("CUDA does not start: ") + cudaGetErrorString(failure_);
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
      wanted = std::make_unique<cuda_device>(ordinal);
      for (int other = 0; other < here; ++other)
        if (other != ordinal && devices_[static_cast<std::size_t>(other)]) {
          reach(ordinal, other);
          reach(other, ordinal);
        }
    }
    return *wanted;
  }

 private:
  /// Asked once: a device that is plugged in later needs a new process anyway.
  int look() {
    if (count_ >= 0) return count_;
    failure_ = cudaGetDeviceCount(&count_);
    if (failure_ != cudaSuccess) {
      cudaGetLastError();
      count_ = 0;
    }
    return count_;
  }

  /// Lets one device read the other's memory; without it copies go through the host's.
  static void reach(int from, int to) {
    int can = 0;
    if (cudaSetDevice(from) == cudaSuccess && cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess && can)
      cudaDeviceEnablePeerAccess(to, 0);
    cudaGetLastError();
  }

  static std::string version(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

  std::mutex mutex_;
  int count_ = -1;
  cudaError_t failure_ = cudaSuccess;
  std::vector<std::unique_ptr<cuda_device>> devices_;
};

/// The GPUs of this process. Never destroyed: the driver takes everything back, and may be gone before other static
/// objects are.
inline cuda_platform& cuda_devices() {
  static auto& all = *new cuda_platform;
  return all;
}

}  // namespace weft::gpu
