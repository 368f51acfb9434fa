// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <weft/error.hpp>
#if WEFT_DEFINITIONS
  #include <weft/tensor/block_pool.hpp>
#endif

#if defined(__SANITIZE_ADDRESS__)
  #define WEFT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
  #define WEFT_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
  #define WEFT_ADDRESS_SANITIZER 0
#endif

namespace weft {

/// The alignment of every buffer in bytes, independent of types and compiler flags.
inline constexpr std::size_t alignment = 64;

/// The default allocator: host memory aligned to cache lines. Large blocks use huge pages.
class host_allocator {
 public:
  /// Throws resource_exhausted instead of std::bad_alloc.
  // Not inlined, because every container's destructor would contain a copy.
  static void* allocate(std::size_t bytes);
  static void deallocate(void* p) noexcept;
};

/// The source of memory of tensors and sessions. `allocate(bytes)` returns memory aligned to `alignment` or throws.
/// `deallocate` frees it, on the thread that releases the last reference.
template <class A>
concept Allocator = requires(std::size_t bytes, void* p) {
  static_cast<void*>(A::allocate(bytes));
  A::deallocate(p);
};

/// An allocator's functions, for non-template code.
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
    throw error(error_code::resource_exhausted, "", {"the allocator cannot allocate ", bytes, " bytes of memory"});
  }
  if (reinterpret_cast<std::uintptr_t>(p) % alignment == 0) return p;
  A::deallocate(p);
  throw error(error_code::invalid_argument, "", {"the allocator's memory must be aligned to ", alignment, " bytes"});
}
template <class A>
void deallocate_to(void* p) {
  A::deallocate(p);
}

}  // namespace detail

/// The memory_resource of an allocator.
template <Allocator A = host_allocator>
inline constexpr memory_resource memory_resource_of = {detail::allocate_from<A>, detail::deallocate_to<A>};
template <>
inline constexpr memory_resource memory_resource_of<host_allocator> = {host_allocator::allocate,
                                                                       host_allocator::deallocate};

#if WEFT_DEFINITIONS

namespace detail {

// The byte before a block records its origin: its offset in the memory that operator new returned, or one of these
// constants.
inline constexpr unsigned char from_huge_pages = 0xff, from_pool = 0x80;

  // The address sanitizer must see every allocation.
  #if WEFT_ADDRESS_SANITIZER
inline constexpr bool uses_pool = false;
  #else
inline constexpr bool uses_pool = true;
  #endif

inline void* mark_origin(void* memory, std::size_t offset, unsigned char origin) {
  std::byte* const p = static_cast<std::byte*>(memory) + offset;
  p[-1] = std::byte{origin};
  return p;
}

inline void* find_memory(std::size_t bytes) {
  const std::size_t all = bytes + alignment;
  if (all > block_pool::smallest && uses_pool) {
    if (all > block_pool::largest) return mark_origin(detail::huge_pages(all), alignment, from_huge_pages);
    const unsigned index = block_pool::size_index(all);
    return mark_origin(block_pool::take(index), alignment, static_cast<unsigned char>(from_pool + index));
  }
  void* const memory = ::operator new(all);
  const std::size_t offset = alignment - reinterpret_cast<std::uintptr_t>(memory) % alignment;
  return mark_origin(memory, offset, static_cast<unsigned char>(offset));
}

}  // namespace detail

__attribute__((noinline)) WEFT_DECL void* host_allocator::allocate(std::size_t bytes) {
  try {
    return detail::find_memory(bytes);
  } catch (const std::bad_alloc&) {
    throw error(error_code::resource_exhausted, "", {"cannot allocate ", bytes, " bytes of memory"});
  }
}
__attribute__((noinline)) WEFT_DECL void host_allocator::deallocate(void* p) noexcept {
  auto* const to = static_cast<std::byte*>(p);
  const auto origin = static_cast<unsigned>(to[-1]);
  if (origin <= alignment)
    ::operator delete(to - origin);
  else if (origin == detail::from_huge_pages)
    ::operator delete(to - alignment, std::align_val_t{detail::huge_page});
  else
    detail::block_pool::give(to - alignment, origin - detail::from_pool);
}

#endif

}  // namespace weft
