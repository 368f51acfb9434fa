// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <cstddef>
#include <new>

#include <weft/config.hpp>

namespace weft {
namespace detail {

inline constexpr std::size_t huge_page = std::size_t{1} << 21;

/// Memory aligned to a huge page, and backed by huge pages if the system provides them.
inline void* huge_pages(std::size_t bytes) {
  void* const memory = ::operator new(bytes, std::align_val_t{huge_page});
  madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);  // a hint
  return memory;
}

/// Blocks of 64 kB to 4 MB, allocated contiguously from huge pages. With pages of 4 kB, whose physical addresses are
/// arbitrary, blocks that are used together conflict in the caches. There are eight block sizes for each power of two.
/// A free list for each size keeps returned blocks.
class block_pool {
 public:
  static constexpr std::size_t smallest = std::size_t{1} << 16, largest = std::size_t{1} << 22;
  static constexpr unsigned sizes = 48;

  /// Returns the index of the smallest block size for `bytes`; `smallest` < bytes <= `largest`.
  static constexpr unsigned size_index(std::size_t bytes) {
    const unsigned shift = shift_of(bytes);
    return 8 * (shift - shift_of(smallest + 1)) + static_cast<unsigned>((bytes - 1) >> shift) - 8;
  }
  static constexpr std::size_t size_at(unsigned index) {
    return std::size_t{index % 8 + 9} << (index / 8 + shift_of(smallest + 1));
  }

  static void* take(unsigned index) {
    const hold guard;
    block*& free = free_[index];
    if (free) {
      block* const first = free;
      free = first->next;
      return first;
    }
    const std::size_t size = size_at(index);
    if (left_ < size) {
      next_ = static_cast<std::byte*>(huge_pages(region));
      left_ = region;
    }
    std::byte* const fresh = next_;
    next_ += size;
    left_ -= size;
    return fresh;
  }
  static void give(void* p, unsigned index) noexcept {
    const hold guard;
    free_[index] = new (p) block{free_[index]};
  }

 private:
  static constexpr std::size_t region = 4 * largest;

  struct block {
    block* next;
  };

  static constexpr unsigned shift_of(std::size_t bytes) {
    return static_cast<unsigned>(60 - __builtin_clzll(bytes - 1));
  }

  // Held across fork(): otherwise a child process could inherit a lock held by a thread that it does not have.
  static void lock() noexcept {
    while (__atomic_test_and_set(&locked_, __ATOMIC_ACQUIRE)) sched_yield();
  }
  static void unlock() noexcept { __atomic_clear(&locked_, __ATOMIC_RELEASE); }
  struct hold {
    hold() {
      [[maybe_unused]] static const int once = pthread_atfork(lock, unlock, unlock);
      lock();
    }
    ~hold() { unlock(); }
  };

  inline static bool locked_ = false;
  inline static block* free_[sizes] = {};
  inline static std::byte* next_ = nullptr;
  inline static std::size_t left_ = 0;
};

}  // namespace detail
}  // namespace weft
