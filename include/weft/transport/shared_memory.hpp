// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(__linux__)
  #include <linux/futex.h>
  #include <sys/syscall.h>
  #include <time.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/transport/random_bytes.hpp>
#include <weft/transport/transport.hpp>

namespace weft {

/// Identifies a segment to another process: its process and descriptor, and random numbers stored in it. A process that
/// finds these numbers in the segment is on the same host; permission to open it proves that the user is the same.
struct shared_offer {
  std::uint64_t process = 0, descriptor = 0, bytes = 0;
  std::array<std::uint64_t, 2> nonce{};

  friend bool operator==(const shared_offer&, const shared_offer&) = default;
};

/// Memory that processes of one user on one host have mapped, each at its own address. It has no name in a file system
/// and a fixed size, so a killed process leaves nothing behind, and no action of a peer makes an access fail. Its
/// contents are untrusted.
///
/// A cheap handle: copies share the mapping, and the last copy unmaps it.
class shared_segment {
 public:
  shared_segment() = default;

  /// Creates a segment of zeros. Throws weft::error: unimplemented if the system does not support such memory,
  /// resource_exhausted if it has too little.
  static shared_segment create(std::size_t bytes) {
#if defined(__linux__) && defined(MFD_ALLOW_SEALING)
    const file made = fresh_file(bytes);
    shared_segment segment(made, bytes);
    segment.put_on_offer(made);
    return segment;
#else
    static_cast<void>(bytes);
    fail(error_code::unimplemented, "the system provides no shared memory");
#endif
  }

  /// Replaces the memory of a segment created in this process by new memory with the same address and contents, and
  /// offers it. Processes that have mapped the old memory keep it, but no longer share it with this process. Throws the
  /// errors of create().
  void renew() const {
#if defined(__linux__) && defined(MFD_ALLOW_SEALING)
    const std::size_t size = static_cast<std::size_t>(whole(mapping_->bytes));
    const file made = fresh_file(mapping_->bytes);
    {
      const shared_segment same(made, mapping_->bytes);
      std::memcpy(same.mapping_->base, mapping_->base, size);
    }
    if (::mmap(mapping_->base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, made.number, 0) != mapping_->base)
      fail(error_code::resource_exhausted, "cannot map shared memory");
    mapping_->close();
    mapping_->identify(made.number);
    put_on_offer(made);
#endif
  }

  /// Maps the memory that another process offers. Throws weft::error (permission_denied) unless it is a segment of
  /// exactly `bytes` bytes that a process of this user on this host has created.
  static shared_segment open(const shared_offer& offer, std::size_t bytes) {
#if defined(__linux__) && defined(MFD_ALLOW_SEALING)
    const auto refuse = [](const char* why) { fail(error_code::permission_denied, why); };
    if (offer.bytes != bytes || bytes == 0 || bytes > max_bytes) refuse("the offered segment has the wrong size");
    if (offer.process > INT_MAX || offer.descriptor > INT_MAX) refuse("the offer is malformed");
    const std::string path = str_cat({"/proc/", offer.process, "/fd/", offer.descriptor});
    // Checks the name before it opens the file: opening other kinds of files might have side effects.
    char target[64];
    const std::string wanted = str_cat({"/memfd:", segment_name});
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < static_cast<ssize_t>(wanted.size()) || wanted.compare(0, wanted.size(), target, wanted.size()) != 0)
      refuse("the offered segment is not on this host or does not belong to this user");
    const file found(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status{};
    if (found.number < 0 || ::fstat(found.number, &status) != 0) refuse("the offered segment cannot be opened");
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) refuse("the offered segment belongs to another user");
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) refuse("other users can open the offered segment");
    const int seals = ::fcntl(found.number, F_GET_SEALS);
    if (seals < 0 || (seals & needed_seals) != needed_seals) refuse("the offered segment can change its size");
    if (status.st_size != whole(bytes)) refuse("the offered segment has the wrong size");
    shared_segment segment(found, bytes);
    const label due = label_of(offer);
    if (std::memcmp(segment.mapping_->base, &due, sizeof due) != 0) refuse("the segment is not the offered one");
    return segment;
#else
    static_cast<void>(offer);
    static_cast<void>(bytes);
    fail(error_code::unimplemented, "the system provides no shared memory");
#endif
  }

  explicit operator bool() const { return mapping_ != nullptr; }

  /// Returns true if both segments refer to the same memory.
  bool same_memory(const shared_segment& other) const {
    return mapping_ && other.mapping_ && mapping_->device == other.mapping_->device &&
           mapping_->inode == other.mapping_->inode;
  }

  /// The memory, aligned to a cache line.
  mutable_bytes bytes() const {
    if (!mapping_) return {};
    return {mapping_->base + front, mapping_->bytes};
  }

  /// The offer to send to peers, for a segment created in this process.
  const shared_offer& offer() const { return mapping_->offer; }

  /// Prevents other processes from opening the segment. Existing mappings stay valid.
  void withdraw() const { mapping_->close(); }

  /// Makes the memory private, at the same address and with the same contents: later writes of peers have no effect
  /// here.
  void detach() const {
    if (!mapping_) return;
    const mutable_bytes shared = bytes();
    const std::vector<std::byte> kept(shared.begin(), shared.end());
    void* const same = ::mmap(mapping_->base, static_cast<std::size_t>(whole(mapping_->bytes)), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (same == mapping_->base) std::memcpy(shared.data(), kept.data(), kept.size());
  }

 private:
  static constexpr const char* segment_name = "weft";
  static constexpr std::size_t front = 64;  // size of the label
  static constexpr std::size_t max_bytes = std::size_t{1} << 46;
#if defined(__linux__) && defined(MFD_ALLOW_SEALING)
  static constexpr int needed_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
#endif

  using label = std::array<std::uint64_t, 3>;
  static label label_of(const shared_offer& offer) { return {offer.nonce[0], offer.nonce[1], offer.bytes}; }

  struct file {
    int number;
    explicit file(int n) : number(n) {}
    file(file&& other) noexcept : number(std::exchange(other.number, -1)) {}
    file& operator=(file&&) = delete;
    ~file() {
      if (number >= 0) ::close(number);
    }
  };

  struct mapping {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    int descriptor = -1;  // of the creating process, while the segment is on offer
    dev_t device = 0;     // device and inode identify the memory
    ino_t inode = 0;
    shared_offer offer;

    void identify(int file) {
      struct stat status{};
      if (::fstat(file, &status) != 0) return;
      device = status.st_dev;
      inode = status.st_ino;
    }
    void close() {
      if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
    }
    ~mapping() {
      close();
      if (base) ::munmap(base, static_cast<std::size_t>(whole(bytes)));
    }
  };

#if defined(__linux__) && defined(MFD_ALLOW_SEALING)
  /// Creates anonymous memory with a fixed size that no other user can open.
  static file fresh_file(std::size_t bytes) {
    file made(::memfd_create(segment_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (made.number < 0) fail(error_code::unimplemented, "the system provides no shared memory");
    // Allocated now: a shortage at a later access would raise a signal instead of an error.
    if (bytes == 0 || bytes > reasonable() || !may_write(whole(bytes)) ||
        ::posix_fallocate(made.number, 0, whole(bytes)) != 0)
      fail(error_code::resource_exhausted, str_cat({"cannot allocate ", bytes, " bytes of shared memory"}));
    if (::fchmod(made.number, S_IRUSR | S_IWUSR) != 0 || ::fcntl(made.number, F_ADD_SEALS, needed_seals) != 0)
      fail(error_code::unimplemented, "the system cannot seal shared memory");
    return made;
  }

  void put_on_offer(const file& made) const {
    shared_offer offer;
    fill_random(std::as_writable_bytes(std::span(offer.nonce)));
    offer.process = static_cast<std::uint64_t>(::getpid());
    offer.bytes = mapping_->bytes;
    const label written = label_of(offer);
    std::memcpy(mapping_->base, &written, sizeof written);
    mapping_->descriptor = ::fcntl(made.number, F_DUPFD_CLOEXEC, 3);
    if (mapping_->descriptor < 0) fail(error_code::resource_exhausted, "too many files are open");
    offer.descriptor = static_cast<std::uint64_t>(mapping_->descriptor);
    mapping_->offer = offer;
  }
#endif

  shared_segment(const file& from, std::size_t bytes) : mapping_(std::make_shared<mapping>()) {
    int flags = MAP_SHARED;
#if defined(MAP_POPULATE)
    flags |= MAP_POPULATE;
#endif
    void* const at =
        ::mmap(nullptr, static_cast<std::size_t>(whole(bytes)), PROT_READ | PROT_WRITE, flags, from.number, 0);
    if (at == MAP_FAILED) fail(error_code::resource_exhausted, "cannot map shared memory");
    mapping_->base = static_cast<std::byte*>(at);
    mapping_->bytes = bytes;
    mapping_->identify(from.number);
  }

  /// Half of the machine's memory: some systems kill processes instead of refusing larger requests.
  static std::size_t reasonable() {
    const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? static_cast<std::size_t>(pages) / 2 * static_cast<std::size_t>(size) : 0;
  }

  /// Returns true if files of this size are permitted: a larger file would raise a signal, too.
  static bool may_write(off_t bytes) {
    rlimit limit;
    return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           static_cast<rlim_t>(bytes) <= limit.rlim_cur;
  }

  static off_t whole(std::size_t bytes) {
    constexpr std::size_t page = 4096;
    return static_cast<off_t>((bytes + front + page - 1) / page * page);
  }

  [[noreturn]] static void fail(error_code code, const std::string& why) { throw error(code, "shared_memory", why); }

  std::shared_ptr<mapping> mapping_;
};

/// A number in shared memory that one process raises and others wait for. Waiting threads poll for a limited time, then
/// sleep.
class shared_counter {
 public:
  /// Raises the number to `value` and wakes sleeping threads. A thread that reads the value sees all earlier writes.
  void publish(std::uint32_t value) {
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
#if defined(__linux__)
    ::syscall(SYS_futex, address(), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
#endif
  }

  /// Returns true if the number has reached `value`. It may wrap from the largest number to 0.
  bool reached(std::uint32_t value) const {
    return static_cast<std::int32_t>(value_.load(std::memory_order_acquire) - value) >= 0;
  }

  /// Polls for as long as `policy` allows. Returns true if the number has reached `value`.
  bool poll(std::uint32_t value, const wait_policy& policy) const {
    if (reached(value)) return true;
    if (policy.spin.count() <= 0) return false;
    const auto end = std::chrono::steady_clock::now() + policy.spin;
    for (int turns = 0;; ++turns) {
      if (reached(value)) return true;
      if (policy.yield && turns >= 32)
        std::this_thread::yield();
      else
        relax();
      if (turns % 8 == 7 && std::chrono::steady_clock::now() >= end) return false;
    }
  }

  /// Sleeps until the number reaches `value`, for at most `time`; may return earlier.
  void sleep(std::uint32_t value, std::chrono::nanoseconds time) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = value_.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(seen - value) < 0) {
#if defined(__linux__)
      const timespec limit{time.count() / 1'000'000'000, time.count() % 1'000'000'000};
      ::syscall(SYS_futex, address(), FUTEX_WAIT, seen, &limit, nullptr, 0);
#else
      std::this_thread::sleep_for(std::min(time, std::chrono::nanoseconds(50'000)));
#endif
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  static void relax() {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }
  std::uint32_t* address() { return reinterpret_cast<std::uint32_t*>(&value_); }

  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4,
              "processes share these");

}  // namespace weft
