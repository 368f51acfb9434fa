// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include <cuda_runtime_api.h>

#include <weft/device/gpu/cuda_error.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>

/// Queues and captured work by the CUDA runtime: streams and graphs.
namespace weft::gpu {

/// A stream of a device. Non-blocking: a blocking stream waits for all other work of the process on the legacy default
/// stream.
class cuda_stream {
 public:
  explicit cuda_stream(int ordinal) : ordinal_(ordinal) {
    use();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cuda", "create a stream");
  }
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;
  ~cuda_stream() {
    cudaSetDevice(ordinal_);
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaGetLastError();
  }
  void use() const { check(cudaSetDevice(ordinal_), "cuda", "use the device"); }
  operator cudaStream_t() const { return stream_; }
  int ordinal() const { return ordinal_; }

 private:
  int ordinal_;
  cudaStream_t stream_ = nullptr;
};

/// An event on the device that is current at its creation.
class cuda_event {
 public:
  cuda_event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cuda", "create an event"); }
  cuda_event(const cuda_event&) = delete;
  cuda_event& operator=(const cuda_event&) = delete;
  ~cuda_event() {
    cudaEventDestroy(event_);
    cudaGetLastError();
  }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class cuda_recording final : public recording {
 public:
  /// Takes ownership of both. The graph contains the nodes that identify parts of the work to update.
  cuda_recording(cudaGraph_t graph, cudaGraphExec_t work) : graph_(graph), work_(work) {}
  cuda_recording(const cuda_recording&) = delete;
  cuda_recording& operator=(const cuda_recording&) = delete;
  ~cuda_recording() override {
    cudaGraphExecDestroy(work_);
    cudaGraphDestroy(graph_);
  }
  cudaGraphExec_t work() const { return work_; }

  bool copy_from(void* to, const void* from, std::size_t bytes) override {
    const cudaGraphNode_t node = copy_to(to);
    const bool done =
        node && cudaGraphExecMemcpyNodeSetParams1D(work_, node, to, from, bytes, cudaMemcpyDefault) == cudaSuccess;
    if (!done) cudaGetLastError();
    return done;
  }

 private:
  struct copy {
    const void* to;
    cudaGraphNode_t node;
  };

  /// Returns null if there is none.
  cudaGraphNode_t copy_to(const void* to) {
    if (copies_.empty()) list_copies();
    for (const copy& c : copies_)
      if (c.to == to) return c.node;
    return nullptr;
  }

  void list_copies() {
    std::size_t count = 0;
    if (cudaGraphGetNodes(graph_, nullptr, &count) != cudaSuccess) return;
    sequence<cudaGraphNode_t> nodes(count, nullptr);
    if (cudaGraphGetNodes(graph_, nodes.data(), &count) != cudaSuccess) return;
    for (const cudaGraphNode_t n : nodes) {
      cudaGraphNodeType type{};
      cudaMemcpy3DParms what{};
      if (cudaGraphNodeGetType(n, &type) == cudaSuccess && type == cudaGraphNodeTypeMemcpy &&
          cudaGraphMemcpyNodeGetParams(n, &what) == cudaSuccess)
        copies_.push_back({what.dstPtr.ptr, n});
    }
  }

  cudaGraph_t graph_;
  cudaGraphExec_t work_;
  sequence<copy> copies_;  // listed when a copy is updated for the first time
};

class cuda_queue;

/// The queues of this process. A caller that frees memory does not know which queues use it, so it waits for all of
/// them.
class cuda_queues {
 public:
  /// Makes later work of a stream outside the queues wait for all work that the queues contain now.
  void precede(cudaStream_t later) noexcept;

 private:
  friend class cuda_queue;
  std::mutex mutex_;  // also held while a queue starts, ends or joins a capture
  sequence<cuda_queue*> queues_;
};

/// Never destroyed, because a static object may own a queue.
inline cuda_queues& all_cuda_queues() {
  static auto& all = *new cuda_queues;
  return all;
}

class cuda_queue : public queue {
 public:
  explicit cuda_queue(int ordinal, allocator* workspaces = nullptr) : queue(workspaces), stream_(ordinal) {
    const std::lock_guard lock(all_cuda_queues().mutex_);
    all_cuda_queues().queues_.push_back(this);
  }
  ~cuda_queue() override {
    cudaSetDevice(ordinal());
    if (recorder_)  // captured work is not being executed
      cudaEventSynchronize(given_);
    else
      cudaStreamSynchronize(stream_);
    cudaGetLastError();
    const std::lock_guard lock(all_cuda_queues().mutex_);
    auto& queues = all_cuda_queues().queues_;
    for (std::size_t i = queues.size(); i-- > 0;) {
      if (queues[i]->recorder_ == this) queues[i]->recorder_ = nullptr;
      if (queues[i] == this) queues.erase(i);
    }
  }

  void launch(const function& f, const launch_size& size, void** arguments) override {
    if (!f.device)
      throw error(error_code::unimplemented, f.name,
                  "is not compiled for GPUs: compile the file that uses it with a CUDA compiler");
    if (size.blocks == 0 || size.blocks_y == 0 || size.threads == 0) return;
    stream_.use();
    constexpr unsigned default_shared = 48u << 10;
    if (size.shared_bytes > default_shared)
      check(cudaFuncSetAttribute(f.device, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(size.shared_bytes)),
            f.name, "use that much shared memory");
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
    stream_.use();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copy", "copy to or from the GPU");
  }
  void clear(void* to, std::size_t bytes) override {
    if (bytes == 0) return;
    stream_.use();
    check(cudaMemsetAsync(to, 0, bytes, stream_), "clear", "clear GPU memory");
  }

  // One event for each queue suffices: if an event is recorded again before another thread waits for it, that thread's
  // queue merely waits for more work.
  void wait_for(queue& other) override {
    auto& from = static_cast<cuda_queue&>(other);
    if (from.recorder_ && !recorder_) {
      const std::lock_guard lock(all_cuda_queues().mutex_);
      take_part(from.recorder_);
    }
    from.stream_.use();
    check(cudaEventRecord(from.reached_, from.stream_), "cuda", "record an event");
    stream_.use();
    check(cudaStreamWaitEvent(stream_, from.reached_, 0), "cuda", "wait for an event");
  }

  void synchronize() override {
    stream_.use();
    check(cudaStreamSynchronize(stream_), "cuda", "synchronize with a stream");
  }

  // Relaxed mode: libraries load kernels and allocate memory in their first call, which may occur during a capture.
  void begin_recording() override {
    const std::lock_guard lock(all_cuda_queues().mutex_);
    take_part(this);
    const cudaError_t e = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed);
    if (e != cudaSuccess) recorder_ = nullptr;
    check(e, "cuda", "start recording a step");
  }
  owned<recording> end_recording() override {
    stream_.use();
    cudaGraph_t graph = nullptr;
    check(end_capture(graph), "cuda", "record the step");
    cudaGraphExec_t work = nullptr;
    const cudaError_t e = cudaGraphInstantiate(&work, graph, 0);
    if (e != cudaSuccess) cudaGraphDestroy(graph);
    check(e, "cuda", "instantiate the recorded step");
    owned<recording> result(new cuda_recording(graph, work));
    check(cudaGraphUpload(work, stream_), "cuda", "upload the recorded step");
    return result;
  }
  void launch(recording& r) override {
    stream_.use();
    check(cudaGraphLaunch(static_cast<cuda_recording&>(r).work(), stream_), "cuda", "launch the recorded step");
  }

  void* native() const override { return stream(); }
  cudaStream_t stream() const { return stream_; }
  int ordinal() const { return stream_.ordinal(); }

 private:
  friend class cuda_queues;

  /// Captures the work added to this queue from now on. Earlier work is being executed.
  void take_part(cuda_queue* recorder) {
    stream_.use();
    check(cudaEventRecord(given_, stream_), "cuda", "record an event");
    recorder_ = recorder;
  }

  cudaError_t end_capture(cudaGraph_t& graph) {
    const std::lock_guard lock(all_cuda_queues().mutex_);
    const cudaError_t e = cudaStreamEndCapture(stream_, &graph);
    for (cuda_queue* q : all_cuda_queues().queues_)
      if (q->recorder_ == this) q->recorder_ = nullptr;
    return e;
  }

  cuda_stream stream_;
  cuda_event reached_;              // recorded by wait_for
  cuda_event given_;                // recorded before memory is freed, or before this queue joined a capture
  cuda_queue* recorder_ = nullptr;  // the queue whose capture this queue has joined; changed under the lock of all
                                    // queues
};

inline void cuda_queues::precede(cudaStream_t later) noexcept {
  const std::lock_guard lock(mutex_);
  for (cuda_queue* q : queues_) {
    cudaSetDevice(q->ordinal());
    // An event cannot be recorded during a capture, and captured work is not being executed.
    cudaError_t e = q->recorder_ ? cudaSuccess : cudaEventRecord(q->given_, q->stream_);
    if (e == cudaSuccess) e = cudaStreamWaitEvent(later, q->given_, 0);
    if (e != cudaSuccess && !q->recorder_) cudaStreamSynchronize(q->stream_);
  }
  cudaGetLastError();
}

}  // namespace weft::gpu
