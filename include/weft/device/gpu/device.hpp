#pragma once

#include <cstddef>
#include <string>

#include <weft/device/kernel.hpp>
#include <weft/error.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>

/// The interface by which Weft uses GPUs. CUDA stands behind it (cuda.hpp), or a device that runs kernels on the CPU
/// one thread after another (emulated.hpp): what is planned, captured and launched is then tested on machines without a
/// GPU.
namespace weft::gpu {

/// Bytes that `Source` gave, and that `Return` gives back to it.
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

/// Gives out memory of a device: the device itself, or a session's share of it, which counts what it gave.
class allocator {
 public:
  virtual ~allocator() = default;
  /// Throws resource_exhausted. `owner` tells a user what the memory is for: "workspace of sum".
  virtual std::byte* allocate(std::size_t bytes, const std::string& owner) = 0;
  virtual void deallocate(std::byte*) noexcept = 0;
  /// The bytes that can be taken now without leaving libraries too little.
  virtual std::size_t free_bytes() = 0;
};

/// A block of it.
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

/// The code of a kernel: what a GPU runs, and the same written out for the CPU. One of the two may be missing. It has
/// one argument, a structure.
struct function {
  const char* name = "";
  const void* device = nullptr;  ///< the `__global__` function, where a CUDA compiler saw it
  void (*emulated)(const launch_size&, void** arguments) = nullptr;
  std::size_t argument_bytes = 0;
};

/// Recorded work of a queue, to be launched as a whole any number of times.
class recording {
 public:
  virtual ~recording() = default;
  /// From its next launch on, the recorded copy of so many bytes that writes `to` reads from here, which is page-locked
  /// memory of the host as what it read before is. False where that cannot be: it is to be recorded again.
  virtual bool copy_from(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) { return false; }
};

/// Work for one device, done in order: a CUDA stream. Everything but `synchronize` returns at once.
class queue {
 public:
  explicit queue(allocator* workspaces = nullptr) : workspaces_(workspaces) {}
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;
  virtual ~queue() = default;
  /// Errors: unimplemented if the function is not compiled for this device; internal if it cannot be launched.
  virtual void launch(const function&, const launch_size&, void** arguments) = 0;
  /// Between any two memories: of this device, of another one, of the host (page-locked, or it does not overlap).
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* to, std::size_t bytes) = 0;
  /// This queue's later work starts when the other queue has done all that it was given until now. If the other one
  /// records, this one's work is recorded, too, from now on; the queue that began to record must wait for it before the
  /// recording ends.
  virtual void wait_for(queue& other) = 0;
  /// Waits until all is done. Throws what went wrong in it; `internal` means that the device is lost to this process.
  virtual void synchronize() = 0;
  /// Between the two, work is recorded instead of done.
  virtual void begin_recording() = 0;
  virtual owned<recording> end_recording() = 0;
  virtual void launch(recording&) = 0;
  /// The cudaStream_t; null where there is none.
  virtual void* native() const { return nullptr; }

  /// Memory for the library call that comes next in this queue, and for no other. It stays where it is as long as the
  /// queue lives, for recorded calls keep its address; a larger wish gets another block beside it. That is twice as
  /// large as the one before, where there is room: all blocks together have less than four times the largest wish.
  /// Throws resource_exhausted.
  std::byte* workspace(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    for (const device_memory& b : workspace_)
      if (b.bytes() >= bytes) return b.data();
    if (!workspaces_) throw error(error_code::internal, "workspace", "the queue has no memory for libraries' calls");
    const std::size_t twice = workspace_.empty() ? 0 : 2 * workspace_.back().bytes();
    const bool room = twice > bytes && twice <= workspaces_->free_bytes() / 2;
    try {
      add_workspace(room ? twice : bytes);
    } catch (const error&) {  // it is there in pieces
      if (!room) throw;
      add_workspace(bytes);
    }
    return workspace_.back().data();
  }
  /// The bytes of all blocks.
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
  // The most that it can do, to weigh one way to compute a step against another.
  double bytes_per_second = 1e12;          ///< of its memory
  double multiply_adds_per_second = 1e13;  ///< of floats, by its plain units
};

/// The libraries of one device (cuBLASLt, cuDNN): handles and workspace. Kernels that need them know the type.
class libraries {
 public:
  virtual ~libraries() = default;
};

class device : public allocator {
 public:
  virtual int ordinal() const = 0;
  virtual device_info info() const = 0;
  /// Any queue may use it from then on. Null if there is no room.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Work that queues were given before may go on using it until it is done; it is handed out again after that.
  void deallocate(std::byte*) noexcept override = 0;
  std::byte* allocate(std::size_t bytes, const std::string& owner) override {
    if (std::byte* const at = allocate(bytes)) return at;
    throw error(error_code::resource_exhausted, owner, {"no room for ", bytes, " bytes on GPU ", ordinal()});
  }
  /// For as long as a session lives whose memory grows: it may hold so much, and the device keeps what is given back at
  /// hand within that. When it closes, what nobody holds goes to the other users of the card.
  virtual void open_share(std::size_t /*bytes*/) {}
  virtual void close_share(std::size_t /*bytes*/) noexcept {}
  /// Clears memory of this device, in no queue; waits until it is done.
  virtual void clear(std::byte* to, std::size_t bytes) = 0;
  /// Page-locked memory of the host. Null if there is no room.
  virtual std::byte* allocate_host(std::size_t bytes) = 0;
  virtual void deallocate_host(std::byte*) noexcept = 0;
  /// Whether all of this memory of the host is page-locked, no matter what took it: queues' copies read it where it
  /// lies.
  virtual bool is_page_locked(const void* at, std::size_t bytes) noexcept = 0;
  /// `workspaces`: where the queue takes memory for libraries' calls; null: from the device.
  virtual owned<queue> make_queue(allocator* workspaces = nullptr) = 0;
  /// Null where there are none: plain kernels do the work then.
  virtual libraries* library() { return nullptr; }
};

/// The GPUs that this process can see.
class platform {
 public:
  virtual ~platform() = default;
  virtual int count() = 0;
  /// Why there is none, in a sentence.
  virtual std::string reason() { return {}; }
  /// Opens the device when it is first asked for.
  virtual device& at(int ordinal) = 0;
};

/// The platform of this program: set when it starts by a file that includes <weft/cuda.hpp>.
inline WEFT_API platform* installed_platform = nullptr;

}  // namespace weft::gpu
