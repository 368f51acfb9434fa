// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <weft/device/gpu/device.hpp>
#include <weft/error.hpp>
#include <weft/tensor/owned.hpp>

/// Emulated GPUs: kernels run on the CPU, one thread of a block after another. For tests on any machine.
///
/// Detects common mistakes: work is executed only when a thread waits for it; the host cannot access a device's memory
/// (a fault); new memory contains NaN; writes beyond the end of a block are reported when it is freed; freed memory
/// becomes invalid for work that is added to a queue later. A copy from or to anything other than one allocation is an
/// error, and so are, during a capture, all calls that CUDA does not capture.
///
///     gpu::emulated_platform gpus({.devices = 2, .memory_bytes = 64 << 20});   // installed as long as it lives
///     ...
///     gpus.fail_launch(3);                     // the third launch from now throws
///     gpus.device(0).count().launches;
///
/// Kernels must be compiled with WEFT_GPU_EMULATION defined, in every file of the program.
namespace weft::gpu {

struct emulated_settings {
  int devices = 1;
  std::size_t memory_bytes = std::size_t{256} << 20;  ///< of each device
  int multiprocessors = 4;
  bool install = true;   ///< as the platform of this program, until it is destroyed
  bool deferred = true;  ///< work is executed by `synchronize`; otherwise at once
  /// If false, only the queue for which a thread waits executes its work, and other queues as late as it waits for
  /// them; if true, all queues execute as soon as they need not wait. A program that is correct on a GPU is correct in
  /// both orders.
  bool early = false;
  bool guarded = true;             ///< the host faults when it touches a device's memory
  bool changes_recordings = true;  ///< otherwise a captured copy keeps its source
};

/// What a device has done since it was opened.
struct emulated_counts {
  std::size_t allocations = 0, deallocations = 0, host_allocations = 0;
  std::size_t live_bytes = 0, peak_bytes = 0, live_host_bytes = 0;
  std::size_t kept_bytes = 0, peak_reserved_bytes = 0;  ///< freed and kept for reuse; the maximum of kept and live
                                                        ///< bytes
  std::size_t reuses = 0;                               ///< allocations that reused kept memory
  std::size_t queues = 0;
  std::size_t launches = 0;         ///< added to a queue: executed or captured
  std::size_t kernels = 0;          ///< executed, including captured kernels
  std::size_t copies = 0;           ///< added to a queue
  std::size_t pageable_copies = 0;  ///< copies from or to host memory that is not page-locked
  std::size_t clears = 0;
  std::size_t waits = 0;  ///< wait_for
  std::size_t synchronizations = 0;
  std::size_t recordings = 0;  ///< captures created
  std::size_t recording_launches = 0;
  std::size_t recorded_copies_changed = 0;
};

class emulated_platform;
class emulated_device;
class emulated_queue;

namespace detail {

/// One piece of work of a queue, or a wait until another queue has finished a number of pieces. During a capture, the
/// other queue is identified by its index in the recording.
struct emulated_work {
  std::function<void()> run;
  emulated_queue* awaited = nullptr;
  std::size_t lane = 0, until = 0;
  void* copied_to = nullptr;  // the destination of a copy
};

}  // namespace detail

class emulated_queue final : public queue {
 public:
  explicit emulated_queue(emulated_device& d, allocator* workspaces = nullptr);
  ~emulated_queue() override;

  void launch(const function&, const launch_size&, void** arguments) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void clear(void* to, std::size_t bytes) override;
  void wait_for(queue& other) override;
  void synchronize() override;
  void begin_recording() override;
  owned<recording> end_recording() override;
  void launch(recording&) override;

 private:
  friend class emulated_device;
  friend class emulated_platform;

  /// The work that one queue added to a capture, and how much of it the queue that started the capture has waited for.
  struct lane {
    emulated_queue* queue;
    std::vector<detail::emulated_work> work;
    std::size_t joined = 0;
  };
  /// An open capture. A queue joins it when it waits for a captured queue.
  struct capture {
    std::vector<lane> lanes;
    bool broken = false;
  };
  class recorded;

  void add(detail::emulated_work w);
  detail::emulated_work copying(void* to, const void* from, std::size_t bytes) const;
  std::size_t given() const { return done_ + waiting_.size(); }
  void drain_to(std::size_t end);
  void step();
  bool can_step() const;
  static bool exists(const emulated_platform&, const emulated_queue*);
  std::size_t lane_of(const emulated_queue* q) const;
  [[noreturn]] static void refuse(const char* what, const std::string& why) {
    throw error(error_code::internal, what, why);
  }

  emulated_device& device_;
  std::deque<detail::emulated_work> waiting_;
  std::size_t done_ = 0;  ///< pieces of work finished since the creation
  bool running_ = false;
  std::shared_ptr<capture> capture_;
};

class emulated_device final : public device {
 public:
  emulated_device(emulated_platform& p, int ordinal, std::byte* memory)
      : platform_(p), ordinal_(ordinal), base_(memory) {}

  int ordinal() const override { return ordinal_; }
  device_info info() const override;
  std::size_t free_bytes() override;
  using device::allocate;
  std::byte* allocate(std::size_t bytes) override;
  void deallocate(std::byte*) noexcept override;
  void open_share(std::size_t bytes) override;
  void close_share(std::size_t bytes) noexcept override;
  void clear(std::byte* to, std::size_t bytes) override;
  std::byte* allocate_host(std::size_t bytes) override;
  void deallocate_host(std::byte*) noexcept override;
  bool is_page_locked(const void* at, std::size_t bytes) noexcept override;
  owned<queue> make_queue(allocator* workspaces = nullptr) override;

  const emulated_counts& count() const { return counts_; }
  /// Returns the errors from functions that cannot throw: writes beyond the end of a block, and releases of memory that
  /// was never allocated.
  const std::vector<std::string>& mistakes();
  /// Returns true if a queue has work for which no thread has waited.
  bool is_busy() const;
  /// Returns the host addresses from which its copies have read, in order.
  const std::vector<const void*>& reads_of_host() const { return reads_of_host_; }
  /// Returns true if [p, p + bytes) is within one live allocation of this device.
  bool owns(const void* p, std::size_t bytes) const { return within(allocations_, p, bytes); }

 private:
  friend class emulated_queue;
  friend class emulated_platform;

  using blocks = std::map<const std::byte*, std::size_t>;

  /// A block that was freed while queues had work that may use it.
  struct leaving_block {
    std::byte* at;
    std::size_t bytes;
    std::vector<std::pair<emulated_queue*, std::size_t>> until;
  };

  static constexpr unsigned char poison = 0xff;  // a float or double of these bytes is NaN

  static bool within(const blocks& all, const void* p, std::size_t bytes) {
    const auto* at = static_cast<const std::byte*>(p);
    auto i = all.upper_bound(at);
    if (i == all.begin()) return false;
    --i;
    return at + bytes <= i->first + i->second;
  }
  static std::size_t pages(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return (bytes / page + 1) * page;  // at least one byte beyond the end, to detect writes there
  }

  /// Like owns(), for work that was added before the block was freed.
  bool still_has(const void* p, std::size_t bytes) const {
    for (const leaving_block& l : leaving_)
      if (within({{l.at, l.bytes}}, p, bytes)) return true;
    return owns(p, bytes);
  }
  std::byte* find_hole(std::size_t bytes) const;
  void wait_for_leaving() noexcept;
  void take_back(const leaving_block&) noexcept;
  void give_away_kept(std::size_t until) noexcept;

  emulated_platform& platform_;
  int ordinal_;
  std::byte* base_;
  blocks allocations_, kept_, host_allocations_;
  std::vector<leaving_block> leaving_;
  std::size_t shares_ = 0;  // in bytes
  std::vector<emulated_queue*> queues_;
  emulated_counts counts_;
  std::vector<const void*> reads_of_host_;
  std::vector<std::string> mistakes_;
};

class emulated_platform final : public platform {
 public:
  explicit emulated_platform(emulated_settings s = {}) : settings_(s), devices_(static_cast<std::size_t>(s.devices)) {
    stride_ = 2 * s.memory_bytes + (std::size_t{1} << 20);  // rounding to pages and fragmentation take some of it
    stride_ = (stride_ + 0xfffff) & ~std::size_t{0xfffff};
    void* const all = ::mmap(nullptr, stride_ * devices_.size() + 1, s.guarded ? PROT_NONE : PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
      throw error(error_code::resource_exhausted, "emulated GPU", "cannot reserve address space for its memory");
    memory_ = static_cast<std::byte*>(all);
    before_ = installed_platform;
    if (s.install) installed_platform = this;
  }
  emulated_platform(const emulated_platform&) = delete;
  emulated_platform& operator=(const emulated_platform&) = delete;
  ~emulated_platform() override {
    if (settings_.install) installed_platform = before_;
    for (auto& d : devices_) d.reset();
    ::munmap(memory_, stride_ * devices_.size() + 1);
  }

  int count() override { return settings_.devices; }
  std::string reason() override {
    return settings_.devices ? "" : "the emulated platform was created without a device";
  }
  emulated_device& at(int ordinal) override { return device(ordinal); }

  emulated_device& device(int ordinal) {
    const std::lock_guard lock(mutex_);
    if (ordinal < 0 || ordinal >= settings_.devices)
      throw error(error_code::invalid_argument, "GPU", "there is no device " + std::to_string(ordinal));
    auto& d = devices_[static_cast<std::size_t>(ordinal)];
    if (!d)
      d = std::make_unique<emulated_device>(*this, ordinal, memory_ + stride_ * static_cast<std::size_t>(ordinal));
    return *d;
  }
  /// Returns the number of opened devices: a process that uses no GPU opens none.
  int opened() const {
    int n = 0;
    for (auto& d : devices_) n += d != nullptr;
    return n;
  }
  const emulated_settings& settings() const { return settings_; }

  // ---- requested failures; n counts from 1, from now on and over all devices; 0 cancels the request ----

  void fail_allocation(std::size_t n) { allocation_ = n; }
  /// Refuses the n-th launch of a kernel when it is added to a queue.
  void fail_launch(std::size_t n) { launch_ = n; }
  /// Makes the n-th executed kernel fail: every call that waits for its device throws `internal` from then on.
  void fail_execution(std::size_t n) { execution_ = n; }
  /// Refuses the n-th launch during a capture and breaks the capture, as a library call may do.
  void break_recording(std::size_t n) { recording_ = n; }

  /// Calls f with the devices' memory accessible to the host, for inspection by tests.
  template <class F>
  void look(F&& f) {
    const std::lock_guard lock(mutex_);
    const opened_memory open(*this);
    f();
  }

 private:
  friend class emulated_queue;
  friend class emulated_device;

  class opened_memory {
   public:
    explicit opened_memory(emulated_platform& p) : p_(p) {
      if (p_.open_++ == 0) p_.protect(PROT_READ | PROT_WRITE);
    }
    opened_memory(const opened_memory&) = delete;
    opened_memory& operator=(const opened_memory&) = delete;
    ~opened_memory() {
      if (--p_.open_ == 0) p_.protect(PROT_NONE);
    }

   private:
    emulated_platform& p_;
  };

  void protect(int how) {
    if (settings_.guarded) ::mprotect(memory_, stride_ * devices_.size(), how);
  }
  bool is_device_memory(const void* p) const {
    const auto* at = static_cast<const std::byte*>(p);
    return at >= memory_ && at < memory_ + stride_ * devices_.size();
  }
  bool is_page_locked(const void* p, std::size_t bytes) const {
    for (auto& d : devices_)
      if (d && emulated_device::within(d->host_allocations_, p, bytes)) return true;
    return false;
  }
  void check_range(const char* what, const void* p, std::size_t bytes, bool was_given_before = false) const {
    if (!is_device_memory(p)) return;
    for (auto& d : devices_)
      if (d && (was_given_before ? d->still_has(p, bytes) : d->owns(p, bytes))) return;
    throw error(error_code::internal, what,
                std::to_string(bytes) + " bytes of device memory are not in one allocation");
  }
  static bool due(std::size_t& n) { return n != 0 && --n == 0; }

  emulated_settings settings_;
  std::byte* memory_ = nullptr;
  std::size_t stride_ = 0;
  platform* before_ = nullptr;
  std::vector<std::unique_ptr<emulated_device>> devices_;
  std::recursive_mutex mutex_;
  int open_ = 0;
  bool lost_ = false;
  std::size_t allocation_ = 0, launch_ = 0, execution_ = 0, recording_ = 0;
};

// ---- the device ----

inline device_info emulated_device::info() const {
  const auto& s = platform_.settings();
  return {"emulated GPU " + std::to_string(ordinal_), s.memory_bytes, s.multiprocessors, 9, 0};
}

inline bool emulated_device::is_busy() const {
  const std::lock_guard lock(platform_.mutex_);
  for (const auto* q : queues_)
    if (!q->waiting_.empty()) return true;
  return false;
}

inline const std::vector<std::string>& emulated_device::mistakes() {
  const std::lock_guard lock(platform_.mutex_);
  wait_for_leaving();
  return mistakes_;
}

inline std::size_t emulated_device::free_bytes() {
  const std::lock_guard lock(platform_.mutex_);
  return platform_.settings().memory_bytes - counts_.live_bytes;
}

/// Returns the first gap that is large enough, or null if there is none.
inline std::byte* emulated_device::find_hole(std::size_t bytes) const {
  std::byte* at = base_;
  for (auto a = allocations_.begin(), k = kept_.begin(); a != allocations_.end() || k != kept_.end();) {
    auto& next = k == kept_.end() || (a != allocations_.end() && a->first < k->first) ? a : k;
    if (static_cast<std::size_t>(next->first - at) >= pages(bytes)) return at;
    at = const_cast<std::byte*>(next->first) + pages(next->second);
    ++next;
  }
  return static_cast<std::size_t>(base_ + platform_.stride_ - at) < pages(bytes) ? nullptr : at;
}

/// Like CUDA's stream-ordered pools in one stream: waits for freed blocks, and reuses kept memory or trims it.
inline std::byte* emulated_device::allocate(std::size_t bytes) {
  const std::lock_guard lock(platform_.mutex_);
  if (emulated_platform::due(platform_.allocation_)) return nullptr;
  wait_for_leaving();
  const std::size_t all = platform_.settings().memory_bytes;
  if (bytes > all - counts_.live_bytes) return nullptr;
  std::byte* at = nullptr;
  for (const auto& [block, size] : kept_)
    if (size == bytes) at = const_cast<std::byte*>(block);
  if (at) {
    kept_.erase(at);
    counts_.kept_bytes -= bytes;
    ++counts_.reuses;
  } else {
    const std::size_t most = shares_ < all ? shares_ : all;
    give_away_kept(most > counts_.live_bytes + bytes ? most - counts_.live_bytes - bytes : 0);
    at = find_hole(bytes);
    if (!at) return nullptr;
  }
  allocations_[at] = bytes;
  ++counts_.allocations;
  counts_.live_bytes += bytes;
  if (counts_.live_bytes > counts_.peak_bytes) counts_.peak_bytes = counts_.live_bytes;
  const std::size_t reserved = counts_.live_bytes + counts_.kept_bytes;
  if (reserved > counts_.peak_reserved_bytes) counts_.peak_reserved_bytes = reserved;
  const emulated_platform::opened_memory open(platform_);
  std::memset(at, poison, pages(bytes));
  return at;
}

inline void emulated_device::deallocate(std::byte* p) noexcept {
  if (!p) return;
  const std::lock_guard lock(platform_.mutex_);
  const auto i = allocations_.find(p);
  if (i == allocations_.end()) {
    mistakes_.push_back("memory that was not allocated is freed");
    return;
  }
  leaving_block block{p, i->second, {}};
  allocations_.erase(i);
  ++counts_.deallocations;
  for (const auto& d : platform_.devices_)
    if (d)
      for (auto* q : d->queues_)
        if (!q->waiting_.empty()) block.until.push_back({q, q->given()});
  leaving_.push_back(block);
  if (block.until.empty()) wait_for_leaving();
}

inline void emulated_device::wait_for_leaving() noexcept {
  while (!leaving_.empty()) {
    const leaving_block block = leaving_.front();
    for (const auto& [q, until] : block.until) try {
        if (emulated_queue::exists(platform_, q) && !q->running_) q->drain_to(until);
      } catch (...) {
      }
    leaving_.erase(leaving_.begin());
    take_back(block);
  }
}

inline void emulated_device::take_back(const leaving_block& block) noexcept {
  const emulated_platform::opened_memory open(platform_);
  for (std::size_t k = block.bytes; k < pages(block.bytes); ++k)
    if (block.at[k] != std::byte{poison}) {
      mistakes_.push_back("an allocation of " + std::to_string(block.bytes) + " bytes was written past its end, at " +
                          std::to_string(k));
      break;
    }
  std::memset(block.at, poison, block.bytes);
  counts_.live_bytes -= block.bytes;
  if (counts_.live_bytes + counts_.kept_bytes + block.bytes > shares_) return;
  kept_[block.at] = block.bytes;
  counts_.kept_bytes += block.bytes;
}

inline void emulated_device::give_away_kept(std::size_t until) noexcept {
  while (counts_.kept_bytes > until) {
    counts_.kept_bytes -= kept_.begin()->second;
    kept_.erase(kept_.begin());
  }
}

inline void emulated_device::open_share(std::size_t bytes) {
  const std::lock_guard lock(platform_.mutex_);
  shares_ += bytes;
}

inline void emulated_device::close_share(std::size_t bytes) noexcept {
  const std::lock_guard lock(platform_.mutex_);
  shares_ -= bytes;
  wait_for_leaving();
  give_away_kept(0);
}

inline void emulated_device::clear(std::byte* to, std::size_t bytes) {
  const std::lock_guard lock(platform_.mutex_);
  if (!owns(to, bytes))
    throw error(error_code::internal, "clear", "the memory is not in one allocation of this device");
  ++counts_.clears;
  const emulated_platform::opened_memory open(platform_);
  std::memset(to, 0, bytes);
}

inline std::byte* emulated_device::allocate_host(std::size_t bytes) {
  const std::lock_guard lock(platform_.mutex_);
  if (emulated_platform::due(platform_.allocation_)) return nullptr;
  auto* p = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{256}, std::nothrow));
  if (!p) return nullptr;
  std::memset(p, poison, bytes);
  host_allocations_[p] = bytes;
  ++counts_.host_allocations;
  counts_.live_host_bytes += bytes;
  return p;
}

inline void emulated_device::deallocate_host(std::byte* p) noexcept {
  if (!p) return;
  const std::lock_guard lock(platform_.mutex_);
  const auto i = host_allocations_.find(p);
  if (i == host_allocations_.end()) {
    mistakes_.push_back("page-locked memory that was not allocated is freed");
    return;
  }
  for (auto* q : queues_) try {
      if (!q->running_) q->drain_to(q->given());
    } catch (...) {
    }
  counts_.live_host_bytes -= i->second;
  host_allocations_.erase(i);
  ::operator delete(p, std::align_val_t{256});
}

inline bool emulated_device::is_page_locked(const void* at, std::size_t bytes) noexcept {
  const std::lock_guard lock(platform_.mutex_);
  return platform_.is_page_locked(at, bytes);
}

inline owned<queue> emulated_device::make_queue(allocator* workspaces) {
  ++counts_.queues;
  return owned<queue>(new emulated_queue(*this, workspaces ? workspaces : this));
}

// ---- the queue ----

/// A recording: work in lanes. The first lane runs in the queue in which the recording is launched; all others have
/// their own queues.
class emulated_queue::recorded final : public recording {
 public:
  std::vector<std::vector<detail::emulated_work>> work;
  std::vector<std::unique_ptr<emulated_queue>> others;
  emulated_queue* first = nullptr;

  bool copy_from(void* to, const void* from, std::size_t bytes) override {
    auto& p = first->device_.platform_;
    const std::lock_guard lock(p.mutex_);
    if (!p.settings().changes_recordings) return false;
    for (auto& lane : work)
      for (detail::emulated_work& w : lane) {
        if (w.copied_to != to) continue;
        if (!p.is_page_locked(from, bytes)) refuse("copy_from", "host memory must be page-locked in a recording");
        w = first->copying(to, from, bytes);
        ++first->device_.counts_.recorded_copies_changed;
        return true;
      }
    return false;
  }
};

inline emulated_queue::emulated_queue(emulated_device& d, allocator* workspaces) : queue(workspaces), device_(d) {
  const std::lock_guard lock(d.platform_.mutex_);
  d.queues_.push_back(this);
}

inline emulated_queue::~emulated_queue() {
  const std::lock_guard lock(device_.platform_.mutex_);
  try {
    drain_to(given());
  } catch (...) {
  }
  for (auto& d : device_.platform_.devices_)
    if (d)
      for (auto& l : d->leaving_) std::erase_if(l.until, [&](const auto& u) { return u.first == this; });
  std::erase(device_.queues_, this);
  if (capture_) capture_->lanes[lane_of(this)].queue = nullptr;
}

inline std::size_t emulated_queue::lane_of(const emulated_queue* q) const {
  std::size_t k = 0;
  while (capture_->lanes[k].queue != q) ++k;
  return k;
}

inline void emulated_queue::add(detail::emulated_work w) {
  if (capture_) {
    capture_->lanes[lane_of(this)].work.push_back(std::move(w));
    return;
  }
  waiting_.push_back(std::move(w));
  if (!device_.platform_.settings().deferred) drain_to(given());
}

inline bool emulated_queue::exists(const emulated_platform& p, const emulated_queue* wanted) {
  for (auto& d : p.devices_)
    if (d)
      for (const auto* q : d->queues_)
        if (q == wanted) return true;
  return false;
}

/// Returns true if the next piece need not wait.
inline bool emulated_queue::can_step() const {
  if (running_ || waiting_.empty()) return false;
  const auto& w = waiting_.front();
  return !w.awaited || !exists(device_.platform_, w.awaited) || w.awaited->done_ >= w.until;
}

inline void emulated_queue::step() {
  const auto w = std::move(waiting_.front());
  waiting_.pop_front();
  ++done_;
  if (w.awaited) {
    if (exists(device_.platform_, w.awaited) && w.awaited->done_ < w.until) w.awaited->drain_to(w.until);
  } else if (!device_.platform_.lost_) {
    w.run();
  }
}

/// Executes the oldest work until `end` pieces are done.
inline void emulated_queue::drain_to(std::size_t end) {
  if (running_) refuse("synchronize", "two queues wait for each other");
  running_ = true;
  const struct stop {
    bool& running;
    ~stop() { running = false; }
  } at_end{running_};
  const emulated_platform::opened_memory open(device_.platform_);
  while (done_ < end && !waiting_.empty()) {
    for (bool stepped = device_.platform_.settings().early; stepped;) {
      stepped = false;
      for (auto& d : device_.platform_.devices_)
        if (d)
          for (auto* other : d->queues_)
            while (other != this && other->can_step()) other->step(), stepped = true;
    }
    step();
  }
}

inline void emulated_queue::launch(const function& f, const launch_size& size, void** arguments) {
  auto& p = device_.platform_;
  const std::lock_guard lock(p.mutex_);
  if (emulated_platform::due(p.launch_)) refuse(f.name, "the launch failed, as requested by a test");
  if (capture_ && emulated_platform::due(p.recording_)) {
    capture_->broken = true;
    refuse(f.name, "it cannot be recorded, as requested by a test");
  }
  if (!f.emulated) throw error(error_code::unimplemented, f.name, "the kernel is not compiled for emulation");
  if (size.blocks == 0 || size.blocks_y == 0 || size.threads == 0 || size.threads > 1024 || size.blocks > 0x7fffffff ||
      size.blocks_y > 65535 || size.shared_bytes > 227 * 1024)
    refuse(f.name, "invalid launch: " + std::to_string(size.blocks) + "x" + std::to_string(size.blocks_y) +
                       " blocks of " + std::to_string(size.threads) + " threads with " +
                       std::to_string(size.shared_bytes) + " bytes");
  ++device_.counts_.launches;
  // A copy, as in CUDA: the caller's object may change before the kernel runs.
  std::vector<std::max_align_t> argument(f.argument_bytes / sizeof(std::max_align_t) + 1);
  std::memcpy(argument.data(), arguments[0], f.argument_bytes);
  add({[this, &p, f, size, argument = std::move(argument)]() mutable {
    ++device_.counts_.kernels;
    if (emulated_platform::due(p.execution_)) {
      p.lost_ = true;
      return;
    }
    void* one[] = {argument.data()};
    f.emulated(size, one);
  }});
}

inline void emulated_queue::copy(void* to, const void* from, std::size_t bytes) {
  auto& p = device_.platform_;
  const std::lock_guard lock(p.mutex_);
  if (bytes == 0) return;
  p.check_range("copy", to, bytes);
  p.check_range("copy", from, bytes);
  ++device_.counts_.copies;
  const bool pageable = (!p.is_device_memory(to) && !p.is_page_locked(to, bytes)) ||
                        (!p.is_device_memory(from) && !p.is_page_locked(from, bytes));
  if (pageable) {
    ++device_.counts_.pageable_copies;
    if (capture_) refuse("copy", "host memory must be page-locked while work is recorded");
  }
  add(copying(to, from, bytes));
  if (pageable) drain_to(given());
}

inline detail::emulated_work emulated_queue::copying(void* to, const void* from, std::size_t bytes) const {
  auto& d = device_;
  detail::emulated_work w{[to, from, bytes, &d] {
    d.platform_.check_range("copy", to, bytes, true);
    d.platform_.check_range("copy", from, bytes, true);
    if (!d.platform_.is_device_memory(from)) d.reads_of_host_.push_back(from);
    std::memmove(to, from, bytes);
  }};
  w.copied_to = to;
  return w;
}

inline void emulated_queue::clear(void* to, std::size_t bytes) {
  auto& p = device_.platform_;
  const std::lock_guard lock(p.mutex_);
  if (bytes == 0) return;
  if (!p.is_device_memory(to)) refuse("clear", "the memory is not device memory");
  p.check_range("clear", to, bytes);
  ++device_.counts_.clears;
  add({[to, bytes] { std::memset(to, 0, bytes); }});
}

inline void emulated_queue::wait_for(queue& q) {
  auto& other = static_cast<emulated_queue&>(q);
  const std::lock_guard lock(device_.platform_.mutex_);
  ++device_.counts_.waits;
  if (&other == this) return;
  if (capture_ && other.capture_ != capture_)
    refuse("wait_for", "a recording queue cannot wait for work outside of its recording");
  if (other.capture_) {
    if (!capture_) {  // joins the capture
      drain_to(given());
      capture_ = other.capture_;
      capture_->lanes.push_back({this, {}});
    }
    const std::size_t theirs = lane_of(&other);
    const std::size_t until = capture_->lanes[theirs].work.size();
    add({nullptr, nullptr, theirs, until});
    if (lane_of(this) == 0) capture_->lanes[theirs].joined = until;
    return;
  }
  if (other.done_ < other.given()) add({nullptr, &other, 0, other.given()});
}

inline void emulated_queue::synchronize() {
  auto& p = device_.platform_;
  const std::lock_guard lock(p.mutex_);
  if (capture_) refuse("synchronize", "a recording queue cannot be synchronized");
  ++device_.counts_.synchronizations;
  drain_to(given());
  if (p.lost_)
    refuse("synchronize", "a kernel failed, as requested by a test; this process can no longer use the device");
}

inline void emulated_queue::begin_recording() {
  const std::lock_guard lock(device_.platform_.mutex_);
  if (capture_) refuse("begin_recording", "the queue is already recording");
  capture_ = std::make_shared<capture>();
  capture_->lanes.push_back({this, {}});
}

inline owned<recording> emulated_queue::end_recording() {
  const std::lock_guard lock(device_.platform_.mutex_);
  if (!capture_ || lane_of(this) != 0) refuse("end_recording", "the queue did not begin the recording");
  const auto c = capture_;
  for (const lane& l : c->lanes)
    if (l.queue) l.queue->capture_.reset();
  if (c->broken) refuse("end_recording", "the recording is broken");
  for (std::size_t k = 1; k < c->lanes.size(); ++k)
    if (c->lanes[k].joined != c->lanes[k].work.size())
      refuse("end_recording", "a queue in the recording was not waited for");
  ++device_.counts_.recordings;
  auto r = std::make_unique<recorded>();
  r->first = this;
  for (lane& l : c->lanes) {
    r->work.push_back(std::move(l.work));
    r->others.push_back(r->others.empty() ? nullptr : std::make_unique<emulated_queue>(device_));
  }
  return owned<recording>(r.release());
}

inline void emulated_queue::launch(recording& what) {
  const std::lock_guard lock(device_.platform_.mutex_);
  if (capture_) refuse("launch", "a recording cannot be launched while another is made");
  ++device_.counts_.recording_launches;
  // Copies the pieces, since the recording may be destroyed before they run, as cudaGraphExecDestroy allows.
  const auto& r = static_cast<recorded&>(what);
  std::vector<emulated_queue*> queues;
  std::vector<std::size_t> before;
  for (const auto& other : r.others) {
    queues.push_back(other ? other.get() : this);
    before.push_back(queues.back()->given());
  }
  for (std::size_t k = queues.size(); k-- > 0;)
    for (auto w : r.work[k]) {
      if (!w.run) w.awaited = queues[w.lane], w.until += before[w.lane];
      if (k == 0)
        add(std::move(w));
      else
        queues[k]->waiting_.push_back(std::move(w));
    }
}

}  // namespace weft::gpu
