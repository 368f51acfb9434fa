#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include <weft/error.hpp>

#if defined(__has_feature)
  #define WEFT_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#endif

namespace weft {

/// Every buffer of every type is aligned to this many bytes, whatever the compiler's flags.
inline constexpr std::size_t alignment = 64;

namespace detail {

inline constexpr std::size_t huge_page = std::size_t{1} << 21;

/// Memory that begins with a huge page, and consists of them where the system has any to give.
inline void* huge_pages(std::size_t bytes) {
  void* const memory = ::operator new (bytes, std::align_val_t{huge_page});
  madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);  // a wish
  return memory;
}

/// Blocks of 64 kB to 4 MB, cut side by side from huge pages: on pages of 4 kB, which lie anywhere in memory, those
/// that are used together get into each other's way in the caches. A block that is returned waits for the next of its
/// size, of which there are eight to each doubling.
class block_pool {
 public:
  static constexpr std::size_t smallest = std::size_t{1} << 16, largest = std::size_t{1} << 22;
  static constexpr unsigned sizes = 48;

  /// Which size holds so many bytes; `smallest` < bytes <= `largest`.
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

  // A child process must not inherit the lock from a thread that it did not inherit.
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

/// The default allocator: cache-line aligned memory of the host. Large blocks lie in huge pages.
class host_allocator {
 public:
  /// Throws resource_exhausted, as Weft does, and not std::bad_alloc.
  // Not inlined: every container's destructor would have it.
  __attribute__((noinline)) static void* allocate(std::size_t bytes) {
    try {
      return find(bytes);
    } catch (const std::bad_alloc&) {
      throw error(error_code::resource_exhausted, "", {"no memory for ", bytes, " bytes"});
    }
  }
  __attribute__((noinline)) static void deallocate(void* p) noexcept {
    auto* const to = static_cast<std::byte*>(p);
    const auto origin = static_cast<unsigned>(to[-1]);
    if (origin <= alignment)
      ::operator delete(to - origin);
    else if (origin == huge)
      ::operator delete (to - alignment, std::align_val_t{detail::huge_page});
    else
      block_pool::give(to - alignment, origin - pooled);
  }

 private:
  using block_pool = detail::block_pool;

  // Where a block came from is said by the byte before it: the offset in what operator new returned, or one of these.
  static constexpr unsigned char huge = 0xff, pooled = 0x80;

  // A sanitizer is told of every block.
#if defined(__SANITIZE_ADDRESS__) || WEFT_ADDRESS_SANITIZER
  static constexpr bool pools = false;
#else
  static constexpr bool pools = true;
#endif

  static void* find(std::size_t bytes) {
    const std::size_t all = bytes + alignment;
    if (all > block_pool::smallest && pools) {
      if (all > block_pool::largest) return place(detail::huge_pages(all), alignment, huge);
      const unsigned index = block_pool::size_index(all);
      return place(block_pool::take(index), alignment, static_cast<unsigned char>(pooled + index));
    }
    void* const memory = ::operator new(all);
    const std::size_t offset = alignment - reinterpret_cast<std::uintptr_t>(memory) % alignment;
    return place(memory, offset, static_cast<unsigned char>(offset));
  }

  static void* place(void* memory, std::size_t offset, unsigned char origin) {
    std::byte* const p = static_cast<std::byte*>(memory) + offset;
    p[-1] = std::byte{origin};
    return p;
  }
};

/// Where tensors and sessions take memory from. `allocate(bytes)` returns memory that is aligned to `alignment`, or
/// throws; `deallocate` takes it back, on whichever thread lets go of it last.
template <class A>
concept Allocator = requires(std::size_t bytes, void* p) {
  static_cast<void*>(A::allocate(bytes));
  A::deallocate(p);
};

/// An allocator's functions, for code that is no template.
struct memory_resource {
  void* (*allocate)(std::size_t bytes);
  void (*deallocate)(void*);
};

namespace detail {

template <class A>
void* allocate_from(std::size_t bytes) {
  void* p;
  try {
    p = A::allocate(bytes);
  } catch (const std::bad_alloc&) {
    throw error(error_code::resource_exhausted, "", {"the allocator has no memory for ", bytes, " bytes"});
  }
  if (reinterpret_cast<std::uintptr_t>(p) % alignment == 0) return p;
  A::deallocate(p);
  throw error(error_code::invalid_argument, "", {"an allocator's memory is not aligned to ", alignment, " bytes"});
}
template <class A>
void deallocate_to(void* p) {
  A::deallocate(p);
}

}  // namespace detail

template <Allocator A = host_allocator>
inline constexpr memory_resource memory_resource_of = {detail::allocate_from<A>, detail::deallocate_to<A>};
template <>
inline constexpr memory_resource memory_resource_of<host_allocator> = {host_allocator::allocate,
                                                                   host_allocator::deallocate};

}  // namespace weft
