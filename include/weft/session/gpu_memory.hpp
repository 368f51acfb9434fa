// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/error.hpp>
#include <weft/plan/gpu_layouts.hpp>
#include <weft/plan/gpu_support.hpp>
#include <weft/plan/memory_plan.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// A session's memory on one GPU. Every block records its owner's name, so that out-of-memory errors can list the
/// owners.
///
/// Counts everything that the session allocates: variables, steps' intermediate values and constants, and workspaces of
/// kernels and library calls. Does not count CUDA's own memory: its context, the code of kernels, recorded steps,
/// library handles, NCCL's buffers, and the trial runs of an autotuned product.
class gpu_memory final : public gpu::allocator {
 public:
  gpu_memory(gpu::device& where, std::size_t limit, bool allow_growth)
      : device_(where), limit_(limit / granularity * granularity), grows_(allow_growth) {
    if (grows_) {
      device_.open_share(limit_);
      return;
    }
    region_ = device_.allocate(limit_);
    if (!region_)
      throw error(
          error_code::resource_exhausted, name(),
          {"cannot allocate ", limit_,
           " bytes at once: other processes hold memory of this GPU; lower memory_fraction or set allow_growth"});
  }
  gpu_memory(const gpu_memory&) = delete;
  gpu_memory& operator=(const gpu_memory&) = delete;
  ~gpu_memory() override {
    if (grows_)
      device_.close_share(limit_);
    else
      device_.deallocate(region_);
  }

  /// Throws resource_exhausted, with a table of all blocks.
  std::byte* allocate(std::size_t bytes, const std::string& owner) override {
    const std::size_t size = (bytes + granularity - 1) / granularity * granularity;
    std::byte* at = nullptr;
    if (size <= limit_ - held_) {
      if (grows_) {
        at = device_.allocate(size ? size : granularity);
      } else {
        plan::memory_plan tried = plan_;
        const std::size_t offset = tried.allocate(size);
        if (tried.total() <= limit_) {
          plan_ = static_cast<plan::memory_plan&&>(tried);
          at = region_ + offset;
        }
      }
    }
    if (!at) throw_full(bytes, owner);
    holders_.push_back({at, size, owner});
    held_ += size;
    if (held_ > peak_) peak_ = held_;
    return at;
  }

  /// Must only be called between runs: a step waits for its GPUs before it returns, so a block of a preallocated
  /// region, which does not know about queues, can be reused.
  void deallocate(std::byte* at) noexcept override {
    for (std::size_t i = 0; i < holders_.size(); ++i) {
      if (holders_[i].at != at) continue;
      if (grows_)
        device_.deallocate(at);
      else
        plan_.release(static_cast<std::size_t>(at - region_), holders_[i].bytes);
      held_ -= holders_[i].bytes;
      holders_.erase(i);
      return;
    }
  }

  std::size_t free_bytes() override {
    const std::size_t left = limit_ - held_, there = grows_ ? device_.free_bytes() : left;
    return left < there ? left : there;
  }

  std::size_t limit() const { return limit_; }
  std::size_t held() const { return held_; }
  std::size_t peak() const { return peak_; }

  /// Returns lines such as "  1234567 bytes  hidden/weights", the largest first.
  std::string holders() const {
    sequence<std::size_t> order;
    for (std::size_t i = 0; i < holders_.size(); ++i) {
      std::size_t at = 0;
      while (at < order.size() && holders_[order[at]].bytes >= holders_[i].bytes) ++at;
      order.insert(at, i);
    }
    std::string table;
    constexpr std::size_t most = 20;
    for (std::size_t i = 0; i < order.size() && i < most; ++i)
      append(table, {"\n  ", holders_[order[i]].bytes, " bytes  ", holders_[order[i]].owner});
    if (order.size() > most) append(table, {"\n  and ", order.size() - most, " smaller ones"});
    return table;
  }

 private:
  static constexpr std::size_t granularity = 256;  ///< the alignment that CUDA's libraries require

  struct holder {
    std::byte* at;
    std::size_t bytes;
    std::string owner;
  };

  std::string name() const { return str_cat({"/device:GPU:", device_.ordinal()}); }

  [[noreturn]] void throw_full(std::size_t bytes, const std::string& owner) const {
    throw error(error_code::resource_exhausted, owner,
                {"needs ", bytes, " bytes on ", name(), ", where the session holds ", held_, " of at most ", limit_,
                 (held_ + bytes <= limit_ ? " and no block of that size is free" : ""), ":", holders()});
  }

  gpu::device& device_;
  std::size_t limit_, held_ = 0, peak_ = 0;
  bool grows_;
  std::byte* region_ = nullptr;
  plan::memory_plan plan_;
  sequence<holder> holders_;
};

/// Page-locked host memory, which a GPU accesses directly. Allocating and freeing it is slow, so a session keeps unused
/// blocks for later steps.
class pinned_memory {
 public:
  explicit pinned_memory(gpu::device& by) : device_(by) {}
  pinned_memory(const pinned_memory&) = delete;
  pinned_memory& operator=(const pinned_memory&) = delete;
  ~pinned_memory() {
    for (const block& b : blocks_) device_.deallocate_host(b.at);
  }

  /// Throws resource_exhausted if the system cannot provide the memory.
  std::byte* allocate(std::size_t bytes) {
    constexpr std::size_t page = 4096;
    bytes = (bytes / page + 1) * page;
    for (block& b : blocks_)
      if (!b.taken && b.bytes >= bytes && b.bytes / 2 <= bytes) {
        b.taken = true;
        return b.at;
      }
    std::byte* at = device_.allocate_host(bytes);
    if (!at) {
      give_back_unused();
      at = device_.allocate_host(bytes);
    }
    if (!at)
      throw error(error_code::resource_exhausted, "session",
                  {"cannot allocate ", bytes, " bytes of page-locked memory for copies to and from a GPU"});
    blocks_.push_back({at, bytes, true});
    return at;
  }
  void deallocate(std::byte* at) noexcept {
    for (block& b : blocks_)
      if (b.at == at) b.taken = false;
  }

 private:
  struct block {
    std::byte* at;
    std::size_t bytes;
    bool taken;
  };

  void give_back_unused() {
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      if (blocks_[i].taken) continue;
      device_.deallocate_host(blocks_[i].at);
      blocks_.erase(i);
    }
  }

  gpu::device& device_;
  sequence<block> blocks_;
};

/// A block of pinned_memory.
class pinned_block : public gpu::held_bytes<pinned_memory, &pinned_memory::deallocate> {
 public:
  pinned_block() = default;
  pinned_block(pinned_memory& from, std::size_t bytes) : held_bytes(from, from.allocate(bytes)) {}
};

/// The purpose of a queue: kernels, copies to a GPU, or copies to the host. A GPU can copy in both directions while it
/// computes.
enum class gpu_work : unsigned char { compute, upload, download };
inline constexpr gpu_work gpu_works[] = {gpu_work::compute, gpu_work::upload, gpu_work::download};

/// One value for each kind of work.
template <class T>
struct per_gpu_work {
  T of[3] = {};
  T& operator[](gpu_work w) { return of[static_cast<std::size_t>(w)]; }
  const T& operator[](gpu_work w) const { return of[static_cast<std::size_t>(w)]; }
};

/// A GPU of a session: its memory, its page-locked host memory, and its queues.
struct session_gpu {
  session_gpu(gpu::device& d, std::size_t limit, const gpu_options& how)
      : device(d),
        memory(d, limit, how.allow_growth),
        host_memory(d),
        queues{{d.make_queue(&memory), d.make_queue(), d.make_queue()}},
        options(how) {}
  gpu::queue& queue(gpu_work w = gpu_work::compute) { return *queues[w]; }
  gpu::device& device;
  gpu_memory memory;
  pinned_memory host_memory;
  per_gpu_work<owned<gpu::queue>> queues;
  const gpu_options& options;
};

/// The GPUs of a session. Each is opened on first use, so a process that places nothing on a GPU does not touch it.
class session_gpus final : public plan::gpu_devices {
 public:
  explicit session_gpus(const gpu_options& how) : options_(how) {
    if (!(how.memory_fraction > 0 && how.memory_fraction <= 1))
      throw error(error_code::invalid_argument, "session", "memory_fraction must be greater than 0 and at most 1");
  }
  session_gpus(const session_gpus&) = delete;
  session_gpus& operator=(const session_gpus&) = delete;
  ~session_gpus() {
    for (session_gpu* g : open_) delete g;
  }

  std::size_t count() const {
    const int cards = gpu::installed_platform ? gpu::installed_platform->count() : 0;
    return options_.virtual_devices.empty() || cards == 0 ? static_cast<std::size_t>(cards)
                                                          : options_.virtual_devices.size();
  }

  session_gpu& at(std::size_t ordinal) {
    if (open_.size() <= ordinal) open_.resize(ordinal + 1);
    if (!open_[ordinal]) {
      const bool parts = !options_.virtual_devices.empty();
      gpu::device& card = gpu::installed_platform->at(parts ? 0 : static_cast<int>(ordinal));
      const bool whole = !options_.allow_growth && options_.memory_fraction == 1;  // CUDA's own memory is not free
      const std::size_t limit =
          parts   ? options_.virtual_devices[ordinal]
          : whole ? card.free_bytes()
                  : static_cast<std::size_t>(static_cast<double>(card.info().memory_bytes) * options_.memory_fraction);
      open_[ordinal] = new session_gpu(card, limit, options_);
    }
    return *open_[ordinal];
  }
  gpu::device& device(std::size_t ordinal) override { return at(ordinal).device; }
  gpu::allocator& memory(std::size_t ordinal) override { return at(ordinal).memory; }

 private:
  const gpu_options& options_;
  sequence<session_gpu*> open_;
};

}  // namespace weft::detail

WEFT_COLD_END
