// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

#include <weft/device/kernel.hpp>
#include <weft/error.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>

/// The interface through which Weft uses GPUs. It is implemented by CUDA (cuda.hpp), and by a device that runs kernels
/// on the CPU one thread after another (test/gpu/emulated.hpp), so that planning, capture and launches can be tested on
/// machines without a GPU.
namespace weft::gpu {

/// Memory that `Source` allocated and `Return` releases.
template <class Source, void (Source::*Return)(std::byte*) noexcept>
class held_bytes {
 public:
  held_bytes() = default;
  held_bytes(Source& from, std::byte* at) : from_(&from), at_(at) {}
  held_bytes(held_bytes&& o) noexcept : from_(o.from_), at_(o.at_) { o.at_ = nullptr; }
  held_bytes& operator=(held_bytes&& o) noexcept {
    Source* const from = from_;
    std::byte* const at = at_;
    from_ = o.from_, at_ = o.at_;
    o.from_ = from, o.at_ = at;
    return *this;
  }
  ~held_bytes() {
    if (at_) (from_->*Return)(at_);
  }
  std::byte* data() const { return at_; }

 private:
  Source* from_ = nullptr;
  std::byte* at_ = nullptr;
};

/// Allocates memory of a device: the device itself, or a session's share of it, which counts its allocations.
class allocator {
 public:
  virtual ~allocator() = default;
  /// Throws resource_exhausted. `owner` describes the memory for error messages: "workspace of sum".
  virtual std::byte* allocate(std::size_t bytes, const std::string& owner) = 0;
  virtual void deallocate(std::byte*) noexcept = 0;
  /// Returns the bytes that can be allocated without depriving libraries of memory.
  virtual std::size_t free_bytes() = 0;
};

/// An allocated block.
class device_memory : public held_bytes<allocator, &allocator::deallocate> {
 public:
  device_memory() = default;
  device_memory(allocator& from, std::size_t bytes, const std::string& owner)
      : held_bytes(from, from.allocate(bytes, owner)), bytes_(bytes) {}
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

struct launch_size {
  unsigned blocks = 1;   ///< in x
  unsigned threads = 1;  ///< of a block, in x
  unsigned blocks_y = 1;
  unsigned shared_bytes = 0;  ///< dynamic shared memory of a block
};

/// The code of a kernel, for a GPU and for emulation on the CPU. One of the two may be missing. Takes one argument, a
/// structure.
struct function {
  const char* name = "";
  const void* device = nullptr;  ///< the `__global__` function, if a CUDA compiler compiled it
  void (*emulated)(const launch_size&, void** arguments) = nullptr;
  std::size_t argument_bytes = 0;
};

/// Captured work of a queue, which can be launched as a whole any number of times.
class recording {
 public:
  virtual ~recording() = default;
  /// Redirects the captured copy of `bytes` bytes that writes `to`: from the next launch on, it reads `from`, which
  /// must be page-locked host memory, like its previous source. Returns false if this is impossible and the work must
  /// be captured again.
  virtual bool copy_from(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) { return false; }
};

/// Work for one device, executed in order: a CUDA stream. Every function except `synchronize` returns at once.
class queue {
 public:
  explicit queue(allocator* workspaces = nullptr) : workspaces_(workspaces) {}
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;
  virtual ~queue() = default;
  /// Throws unimplemented if the function is not compiled for this device, and internal if it cannot be launched.
  virtual void launch(const function&, const launch_size&, void** arguments) = 0;
  /// Copies between any memories: of this device, of another device, or of the host. A copy from or to pageable host
  /// memory does not overlap with other work.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* to, std::size_t bytes) = 0;
  /// Delays this queue's later work until the other queue has finished all work that it contains now. If the other
  /// queue is capturing, this queue joins the capture; the queue that started the capture must wait for it before the
  /// capture ends.
  virtual void wait_for(queue& other) = 0;
  /// Waits until all work is done. Throws the errors of that work; `internal` means that this process has lost the
  /// device.
  virtual void synchronize() = 0;
  /// Start and end a capture, during which work is recorded instead of executed.
  virtual void begin_recording() = 0;
  virtual owned<recording> end_recording() = 0;
  virtual void launch(recording&) = 0;
  /// Returns the cudaStream_t, or null if there is none.
  virtual void* native() const { return nullptr; }

  /// Returns memory for the next library call in this queue only. Its address stays valid as long as the queue lives,
  /// because captured calls store it; a larger request adds another block. If memory permits, a new block is twice as
  /// large as the previous one, so all blocks together have less than four times the size of the largest request.
  /// Throws resource_exhausted.
  std::byte* workspace(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    for (const device_memory& b : workspace_)
      if (b.bytes() >= bytes) return b.data();
    if (!workspaces_) throw error(error_code::internal, "workspace", "the queue has no workspace for library calls");
    const std::size_t twice = workspace_.empty() ? 0 : 2 * workspace_.back().bytes();
    const bool room = twice > bytes && twice <= workspaces_->free_bytes() / 2;
    try {
      add_workspace(room ? twice : bytes);
    } catch (const error&) {  // the memory may be fragmented
      if (!room) throw;
      add_workspace(bytes);
    }
    return workspace_.back().data();
  }
  /// Returns the bytes of all blocks.
  std::size_t workspace_bytes() const {
    std::size_t bytes = 0;
    for (const device_memory& b : workspace_) bytes += b.bytes();
    return bytes;
  }

 private:
  void add_workspace(std::size_t bytes) {
    workspace_.push_back(device_memory(*workspaces_, bytes, "workspace of matrix products and convolutions"));
  }

  allocator* workspaces_;
  sequence<device_memory> workspace_;
};

struct device_info {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  std::size_t memory_bytes = 0;
  int multiprocessors = 1;
  int compute_major = 0, compute_minor = 0;
  // Peak rates, by which the planner compares ways to compute a step.
  double bytes_per_second = 1e12;          ///< of its memory
  double multiply_adds_per_second = 1e13;  ///< of float, without tensor cores
};

/// The libraries of one device (cuBLASLt, cuDNN): handles and workspace. Only kernels that need them know the derived
/// type.
class libraries {
 public:
  virtual ~libraries() = default;
};

class device : public allocator {
 public:
  virtual int ordinal() const = 0;
  virtual device_info info() const = 0;
  /// Allocates memory that any queue may use at once. Returns null if memory is exhausted.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Releases memory. Work that queues already contain may use it until it is done; the memory is reused only
  /// afterwards.
  void deallocate(std::byte*) noexcept override = 0;
  std::byte* allocate(std::size_t bytes, const std::string& owner) override {
    if (std::byte* const at = allocate(bytes)) return at;
    throw error(error_code::resource_exhausted, owner, {"cannot allocate ", bytes, " bytes on GPU ", ordinal()});
  }
  /// Open and close the share of a session whose memory grows: the session may hold `bytes` bytes, and the device keeps
  /// freed memory within that limit. When the share closes, unused memory returns to the other users of the card.
  virtual void open_share(std::size_t /*bytes*/) {}
  virtual void close_share(std::size_t /*bytes*/) noexcept {}
  /// Clears memory of this device, in no queue, and waits.
  virtual void clear(std::byte* to, std::size_t bytes) = 0;
  /// Allocates page-locked host memory. Returns null if memory is exhausted.
  virtual std::byte* allocate_host(std::size_t bytes) = 0;
  virtual void deallocate_host(std::byte*) noexcept = 0;
  /// Returns true if all of this host memory is page-locked, whoever allocated it, so that queues can copy from it
  /// directly.
  virtual bool is_page_locked(const void* at, std::size_t bytes) noexcept = 0;
  /// `workspaces`: the allocator of workspaces for library calls; null: the device.
  virtual owned<queue> make_queue(allocator* workspaces = nullptr) = 0;
  /// Returns null if there are none, in which case built-in kernels are used.
  virtual libraries* library() { return nullptr; }
};

/// The GPUs visible to this process.
class platform {
 public:
  virtual ~platform() = default;
  virtual int count() = 0;
  /// Returns a sentence that explains why there is no GPU.
  virtual std::string reason() { return {}; }
  /// Returns a device, which the first call opens.
  virtual device& at(int ordinal) = 0;
};

/// The platform of this program, set at startup by a file that includes <weft/cuda.hpp>.
inline WEFT_API platform* installed_platform = nullptr;

}  // namespace weft::gpu
