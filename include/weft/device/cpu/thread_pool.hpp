// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>

#include <weft/error.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft {

namespace detail {

inline void futex_wait(std::uint32_t* word, std::uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

inline void futex_wake(std::uint32_t* word, std::uint32_t threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True if this thread runs a chunk of a pool: a nested parallel_for runs inline.
inline constinit WEFT_API thread_local bool inside_parallel_for = false;

}  // namespace detail

/// Returns the cores on which this process may run.
inline sequence<int> available_cores() {
  sequence<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

namespace detail {

inline cpu_set_t set_of(const sequence<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  return set;
}

/// Binds this thread to some cores during its lifetime; does nothing if no cores are given.
class stay_on_cores {
 public:
  explicit stay_on_cores(const sequence<int>& cores) {
    if (cores.empty() || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    const cpu_set_t set = set_of(cores);
    moved_ = sched_setaffinity(0, sizeof set, &set) == 0;
  }
  stay_on_cores(const stay_on_cores&) = delete;
  stay_on_cores& operator=(const stay_on_cores&) = delete;
  ~stay_on_cores() {
    if (moved_) sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  cpu_set_t before_;
  bool moved_ = false;
};

}  // namespace detail

/// The threads that share the work of a kernel. The caller is one of them, so a pool of one owns no thread.
///
/// Chunks are handed out one at a time, in any order, to any thread. A chunk's result must depend only on its index, so
/// that it does not depend on the number of threads. The pool runs one call at a time: if it is busy, or a chunk calls
/// it again, the caller runs its chunks itself. The caller waits for the chunks, not for the workers; if these are
/// late, asleep or, after a fork, gone, it does all the work itself.
///
/// An idle worker polls for some tens of microseconds, because waking it costs more, and then sleeps. No thread polls
/// if threads outnumber the cores.
///
/// Workers block signals sent to the process; the program's own threads receive them.
class thread_pool {
 public:
  /// `threads` includes the caller. Worker i = 1, 2, ... is bound to cores[i % size], or not bound if no cores are
  /// given.
  explicit thread_pool(int threads, const sequence<int>& cores = {});

  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  ~thread_pool() { stop(); }

  /// Returns the number of threads that share the work, including the caller.
  int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  /// Calls f(0), ..., f(chunks - 1) on all threads, and returns when all calls have returned. Rethrows the first
  /// exception that leaves f; chunks that have not started by then are skipped. Allocates nothing.
  template <class F>
  void parallel_for(std::size_t chunks, F&& f) {
    if (chunks < 2 || chunks >= stopping || workers_.empty() || detail::inside_parallel_for || !acquire()) {
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) f(chunk);
      return;
    }
    call_ = [](void* context, std::size_t chunk) { (*static_cast<std::remove_reference_t<F>*>(context))(chunk); };
    context_ = const_cast<void*>(static_cast<const void*>(__builtin_addressof(f)));
    run(static_cast<std::uint32_t>(chunks));
  }

 private:
  static constexpr std::uint32_t poll_limit = 1500;      // of 40 to 140 cycles each
  static constexpr std::uint32_t stopping = 0xffffffff;  // value of remaining_ that ends the workers

  static void* enter(void* self) {
    static_cast<thread_pool*>(self)->work();
    return nullptr;
  }

  static void bind(pthread_t thread, int core) {
    const cpu_set_t set = detail::set_of({core});
    pthread_setaffinity_np(thread, sizeof set, &set);  // best effort: a core outside the process's own set is not an
                                                       // error
  }

  bool acquire() noexcept { return !__atomic_test_and_set(&busy_, __ATOMIC_ACQUIRE); }

  void run(std::uint32_t chunks) {
    chunks_ = chunks;
    __atomic_store_n(&unfinished_, chunks, __ATOMIC_RELAXED);
    publish(chunks, chunks - 1);
    detail::inside_parallel_for = true;
    take_chunks();
    detail::inside_parallel_for = false;
    wait_while(unfinished_, callers_asleep_, [](std::uint32_t unfinished) { return unfinished != 0; });
    const std::exception_ptr failure = static_cast<std::exception_ptr&&>(failure_);
    failure_ = nullptr;
    failed_ = false;
    __atomic_clear(&busy_, __ATOMIC_RELEASE);
    if (failure) std::rethrow_exception(failure);
  }

  void work() noexcept {
    detail::inside_parallel_for = true;
    while (wait_while(remaining_, workers_asleep_, [](std::uint32_t remaining) { return remaining == 0; }) != stopping)
      take_chunks();
  }

  // The thread that decrements remaining_ owns the chunk that it counted, and keeps the call alive until the chunk has
  // run. Only then may it read the fields that describe the call.
  void take_chunks() noexcept {
    std::uint32_t remaining = __atomic_load_n(&remaining_, __ATOMIC_RELAXED);
    while (remaining != 0 && remaining != stopping) {
      if (!__atomic_compare_exchange_n(&remaining_, &remaining, remaining - 1, true, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED))
        continue;
      std::uint32_t finished = 1;
      try {
        call_(context_, chunks_ - remaining);
      } catch (...) {
        if (!__atomic_test_and_set(&failed_, __ATOMIC_RELAXED)) failure_ = std::current_exception();
        finished += __atomic_exchange_n(&remaining_, 0, __ATOMIC_RELAXED);
      }
      if (__atomic_sub_fetch(&unfinished_, finished, __ATOMIC_SEQ_CST) == 0 &&
          __atomic_load_n(&callers_asleep_, __ATOMIC_SEQ_CST) != 0)
        detail::futex_wake(&unfinished_, 1);
      remaining = __atomic_load_n(&remaining_, __ATOMIC_RELAXED);
    }
  }

  void publish(std::uint32_t remaining, std::uint32_t helpers) noexcept {
    __atomic_store_n(&remaining_, remaining, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&workers_asleep_, __ATOMIC_SEQ_CST) != 0) detail::futex_wake(&remaining_, helpers);
  }

  // Polls, then sleeps, while `waiting(word)`, and returns the word. The sleeping thread first increments the count and
  // then checks the word again; the thread that changes the word then reads the count. In the total order of these
  // accesses, one of the two sees the other's change.
  template <class Condition>
  std::uint32_t wait_while(std::uint32_t& word, std::uint32_t& asleep, Condition waiting) noexcept {
    std::uint32_t value = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
    for (std::uint32_t poll = 0; waiting(value) && poll < polls_; ++poll) {
      detail::cpu_relax();
      value = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
    }
    if (!waiting(value)) return value;
    __atomic_add_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
    while (waiting(value = __atomic_load_n(&word, __ATOMIC_SEQ_CST))) detail::futex_wait(&word, value);
    __atomic_sub_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
    return value;
  }

  void stop() noexcept {
    if (getpid() != owner_) return;  // a forked child has no workers
    publish(stopping, static_cast<std::uint32_t>(workers_.size()));
    for (pthread_t worker : workers_) pthread_join(worker, nullptr);
  }

  // Words that several threads write are on separate cache lines.
  alignas(64) std::uint32_t remaining_ = 0;   // chunks that have not started
  alignas(64) std::uint32_t unfinished_ = 0;  // chunks that have not returned
  alignas(64) std::uint32_t workers_asleep_ = 0;
  std::uint32_t callers_asleep_ = 0;
  alignas(64) void (*call_)(void*, std::size_t) = nullptr;
  void* context_ = nullptr;
  std::uint32_t chunks_ = 0;
  std::uint32_t polls_ = 0;
  std::exception_ptr failure_;
  bool failed_ = false;
  bool busy_ = false;
  pid_t owner_;
  sequence<pthread_t> workers_;
};

WEFT_COLD_BEGIN

namespace detail {

/// During its lifetime, this thread, and the permanent threads that it starts, receive only signals from their own
/// faults and from profilers. oneDNN's products set the stack pointer to heap memory, where a signal's frame would
/// overwrite other data.
class without_signals {
 public:
  without_signals() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) ::sigdelset(&all, own);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  without_signals(const without_signals&) = delete;
  without_signals& operator=(const without_signals&) = delete;
  ~without_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace detail

inline thread_pool::thread_pool(int threads, const sequence<int>& cores) : owner_(getpid()) {
  if (threads < 1)
    throw error(error_code::invalid_argument, "thread_pool",
                {"a pool needs at least 1 thread, the caller's; got ", threads});
  const auto count = static_cast<std::size_t>(threads);
  polls_ = count <= (cores.empty() ? available_cores() : cores).size() ? poll_limit : 0;
  workers_.reserve(count - 1);
  const detail::without_signals while_they_start;
  for (std::size_t i = 1; i < count; ++i) {
    pthread_t worker;
    if (pthread_create(&worker, nullptr, &thread_pool::enter, this) != 0) {
      stop();
      throw error(error_code::resource_exhausted, "thread_pool",
                  {"the system cannot start thread ", i, " of ", threads, "; use fewer threads"});
    }
    workers_.push_back(worker);
    if (!cores.empty()) bind(worker, cores[i % cores.size()]);
  }
}

WEFT_COLD_END

}  // namespace weft
