// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/cpu/thread_pool.hpp>

namespace weft {

namespace gpu {
class queue;
}

/// The context in which a kernel runs: the buffers of the step, and the threads that the kernel may use or, for a GPU
/// kernel, its queue.
struct kernel_context {
  std::byte* const* buffers;
  thread_pool* threads;
  gpu::queue* queue = nullptr;
  /// On a CPU, kernel::workspace_bytes() of memory for this run, aligned to `alignment`. Its contents are
  /// indeterminate; null if the kernel requests none.
  std::byte* workspace = nullptr;
};

class epilogue_kernel;

/// The code of one operation on one device, prepared for known extents. Can run any number of times and allocates
/// nothing.
class kernel {
 public:
  kernel() = default;
  kernel(const kernel&) = delete;
  kernel& operator=(const kernel&) = delete;
  virtual ~kernel() = default;
  virtual void run(const kernel_context&) = 0;
  /// Called when the run of the step has ended or failed, for an `ordered` operation whose effect may outlast its run.
  virtual void end_run() noexcept {}
  /// Returns the bytes of memory that the kernel needs while it runs: kernel_context::workspace on a CPU,
  /// queue::workspace on a GPU.
  virtual std::size_t workspace_bytes() const { return 0; }
  /// Returns true if the kernel's GPU work can be captured, which requires that it does not wait for the GPU.
  virtual bool recordable() const { return true; }
  /// Returns the bytes of memory that the kernel holds between runs, in addition to its own object.
  virtual std::size_t memory_bytes() const { return 0; }
  /// Returns one line for `explain`: the routine, and what it fuses.
  virtual std::string describe() const = 0;
  /// Appends lines for the kernel's subgraphs, indented by `spaces`.
  virtual void describe_subgraphs(std::string& /*text*/, std::size_t /*spaces*/) const {}
  /// Returns this kernel if it can follow another one on a CPU, and null otherwise.
  virtual epilogue_kernel* as_epilogue() { return nullptr; }

 private:
  friend class kernel_handle;
  std::uint32_t owners_ = 0;
};

/// A CPU kernel that can follow another one and overwrites its result: all of it at once, or some rows along the
/// outermost axis at a time while they are in the caches.
class epilogue_kernel : public kernel {
 public:
  /// Allocates memory for the separate sums of `pieces` pieces, each in `calls` calls of run_part. Returns false if the
  /// kernel cannot run in pieces.
  virtual bool prepare_pieces(std::size_t pieces, std::size_t calls = 1) = 0;
  /// Runs rows [begin, end) of `rows`. If results are summed, requires `prepare_pieces` of `max_parts`, and consecutive
  /// calls that start at row 0.
  virtual void run_part(const kernel_context&, std::size_t begin, std::size_t end, std::size_t rows) = 0;
  /// Returns true if the whole consists of this many equal rows, along the outermost axis or the outermost axes.
  virtual bool has_rows(std::size_t rows) const = 0;
  static constexpr std::size_t max_parts = 16;

  /// Runs rows as one of the prepared pieces, on any thread. Call clear_pieces before and merge_pieces after all
  /// pieces.
  virtual void clear_pieces(const kernel_context&) = 0;
  virtual void run_piece(const kernel_context&, std::size_t piece, std::size_t begin, std::size_t end,
                         std::size_t rows) = 0;
  virtual void merge_pieces(const kernel_context&, std::size_t pieces) = 0;

  epilogue_kernel* as_epilogue() final { return this; }
};

/// Shared ownership of a kernel.
class kernel_handle {
 public:
  kernel_handle() = default;
  explicit kernel_handle(kernel* k) : kernel_(k) {
    if (kernel_) ++kernel_->owners_;
  }
  kernel_handle(const kernel_handle& o) : kernel_handle(o.kernel_) {}
  kernel_handle(kernel_handle&& o) noexcept : kernel_(o.kernel_) { o.kernel_ = nullptr; }
  kernel_handle& operator=(kernel_handle o) noexcept {
    kernel* const mine = kernel_;
    kernel_ = o.kernel_;
    o.kernel_ = mine;
    return *this;
  }
  ~kernel_handle() {
    if (kernel_ && --kernel_->owners_ == 0) delete kernel_;
  }
  kernel* operator->() const { return kernel_; }
  kernel* get() const { return kernel_; }

 private:
  kernel* kernel_ = nullptr;
};

}  // namespace weft
