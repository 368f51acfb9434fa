#pragma once

// Counts every allocation of the process, whoever makes it: operator new as well as malloc end here. In one file of a
// program.

#include <cstddef>
#include <cstdlib>

namespace test {
inline std::size_t allocations = 0;
}

extern "C" void* __libc_malloc(std::size_t);
extern "C" void* __libc_memalign(std::size_t, std::size_t);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
  #define COUNTS_MALLOC 1
extern "C" void* malloc(std::size_t size) {
  __atomic_fetch_add(&test::allocations, 1, __ATOMIC_RELAXED);
  return __libc_malloc(size);
}
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) {
  __atomic_fetch_add(&test::allocations, 1, __ATOMIC_RELAXED);
  return __libc_memalign(alignment, size);
}
#else
  #define COUNTS_MALLOC 0
#endif

namespace test {

/// The allocations of a call.
template <class F>
std::size_t allocations_of(F f) {
  const std::size_t before = allocations;
  f();
  return allocations - before;
}

}  // namespace test
