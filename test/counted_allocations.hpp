// SPDX-License-Identifier: BSL-1.0
#pragma once

// Counts every allocation of the process, whoever makes it: operator new as well as malloc end here. In one file of a
// program.

#include <dlfcn.h>
#include <execinfo.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace test {
inline std::size_t allocations = 0;
inline const char* library_apart = nullptr;  // part of a library's file name; its calls' allocations do not count

/// Counts one, unless it is made within a library that is set apart.
inline void count_allocation() {
  static thread_local bool looking = false;
  if (looking) return;
  if (library_apart) {
    looking = true;
    void* frames[24];
    const int n = backtrace(frames, 24);
    bool apart = false;
    for (int i = 0; i < n && !apart; ++i) {
      Dl_info at;
      apart = dladdr(frames[i], &at) && at.dli_fname && std::strstr(at.dli_fname, library_apart);
    }
    looking = false;
    if (apart) return;
  }
  __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}
}  // namespace test

extern "C" void* __libc_malloc(std::size_t);
extern "C" void* __libc_memalign(std::size_t, std::size_t);
#if defined(__has_feature)
  #define WEFT_TEST_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  #define WEFT_TEST_SANITIZED 1
#else
  #define WEFT_TEST_SANITIZED 0
#endif
#if !WEFT_TEST_SANITIZED && defined(__GLIBC__) && !defined(__CUDACC__)
  #define COUNTS_MALLOC 1
extern "C" void* malloc(std::size_t size) {
  test::count_allocation();
  return __libc_malloc(size);
}
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) {
  test::count_allocation();
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

/// Those that are not made within a library whose file's name contains this.
template <class F>
std::size_t allocations_outside(const char* library, F f) {
  void* frame;
  backtrace(&frame, 1);  // allocates the first time
  library_apart = library;
  const std::size_t n = allocations_of(f);
  library_apart = nullptr;
  return n;
}

}  // namespace test
