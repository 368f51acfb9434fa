#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/cpu/thread_pool.hpp>

namespace weft {

namespace gpu {
class queue;
}

/// The context in which a kernel runs: where each buffer of the step lies, and what does the work: the threads that it
/// may use or, for a GPU's kernel, the queue that it is put into.
struct kernel_context {
  std::byte* const* buffers;
  thread_pool* threads;
  gpu::queue* queue = nullptr;
  /// On a CPU, kernel::workspace_bytes() of memory for this run alone, aligned to `alignment`. Its contents are
  /// indeterminate; null where the kernel asks for none.
  std::byte* workspace = nullptr;
};

class epilogue_kernel;

/// The code of one operation on one device, prepared for known extents. Runs any number of times and allocates nothing.
class kernel {
 public:
  kernel() = default;
  kernel(const kernel&) = delete;
  kernel& operator=(const kernel&) = delete;
  virtual ~kernel() = default;
  virtual void run(const kernel_context&) = 0;
  /// The run of the step has ended, or failed: of an operation that is `ordered`, whose effect may outlast its run.
  virtual void end_run() noexcept {}
  /// The bytes of memory that it needs while it runs: kernel_context::workspace on a CPU, queue::workspace on a GPU.
  virtual std::size_t workspace_bytes() const { return 0; }
  /// Whether its GPU's work can be recorded: that of one which waits for the GPU cannot.
  virtual bool recordable() const { return true; }
  /// The memory that it holds between runs beside its own object, in bytes.
  virtual std::size_t memory_bytes() const { return 0; }
  /// One line for `explain`: the routine, and what it fuses.
  virtual std::string describe() const = 0;
  /// Lines for what it runs in its turn, each behind so many spaces.
  virtual void describe_subgraphs(std::string& /*text*/, std::size_t /*spaces*/) const {}
  /// The same kernel, where it can follow another one on a CPU; null elsewhere.
  virtual epilogue_kernel* as_epilogue() { return nullptr; }

 private:
  friend class kernel_handle;
  std::uint32_t owners_ = 0;
};

/// A CPU's kernel that can follow another one, in place of whose result it writes: on the whole of it, or on some rows
/// along the outermost axis at a time while the caches hold them.
class epilogue_kernel : public kernel {
 public:
  /// Takes memory for what so many pieces combine, each for itself, in so many calls of run_part. False if it cannot be
  /// run in pieces.
  virtual bool prepare_pieces(std::size_t pieces, std::size_t calls = 1) = 0;
  /// Runs rows [begin, end) of `rows`. Where results are combined, after `prepare_pieces` of `max_parts` and one call
  /// after the other, from row 0 on.
  virtual void run_part(const kernel_context&, std::size_t begin, std::size_t end, std::size_t rows) = 0;
  /// Whether the whole consists of so many equal rows: those along the outermost axis, or along it and the next ones.
  virtual bool has_rows(std::size_t rows) const = 0;
  static constexpr std::size_t max_parts = 16;

  /// Runs rows as one of the pieces that were prepared, on any thread: between the other two.
  virtual void clear_pieces(const kernel_context&) = 0;
  virtual void run_piece(const kernel_context&, std::size_t piece, std::size_t begin, std::size_t end,
                         std::size_t rows) = 0;
  virtual void merge_pieces(const kernel_context&, std::size_t pieces) = 0;

  epilogue_kernel* as_epilogue() final { return this; }
};

/// Shares a kernel with others.
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
