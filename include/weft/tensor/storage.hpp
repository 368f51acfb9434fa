// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <weft/tensor/host_memory.hpp>

namespace weft {

/// Identifies the current contents of a block of memory, for code that caches data derived from them. A process never
/// uses a number twice, so any number of writers can report changes concurrently.
class content_version {
 public:
  /// The number of the current values, or 0 if they can change without a report. Read it before the bytes.
  std::uint64_t number() const noexcept { return __atomic_load_n(&number_, __ATOMIC_ACQUIRE); }
  /// Reports a change, after the last byte is written.
  void change() noexcept { change(next()); }
  /// The same with a number that the caller obtained from next() after writing the last byte.
  void change(std::uint64_t to) noexcept {
    if (__atomic_load_n(&number_, __ATOMIC_RELAXED) != 0) __atomic_store_n(&number_, to, __ATOMIC_RELEASE);
  }
  /// Marks the values as untracked: from now on, changes are not reported.
  void lose_track() noexcept { __atomic_store_n(&number_, 0, __ATOMIC_RELEASE); }
  static std::uint64_t next() noexcept { return first() + __atomic_fetch_add(&count_, 1, __ATOMIC_RELAXED); }

 private:
  // Modules with hidden visibility have separate counters. The counter's address spreads the modules' numbers over
  // 2^63.
  static std::uint64_t first() noexcept {
    return (reinterpret_cast<std::uintptr_t>(&count_) * 0x9e3779b97f4a7c15) | (std::uint64_t{1} << 63);
  }

  std::uint64_t number_ = 1;
  inline static std::uint64_t count_ = 0;
};

/// Reference-counted bytes. Copies share them; `unique` returns true if no other handle does.
class storage {
 public:
  storage() = default;
  explicit storage(std::size_t bytes, const memory_resource& source = memory_resource_of<>)
      : block_(new(source.allocate(sizeof(header) + bytes)) header{1, bytes, &source, {}}) {}
  storage(const storage& other) noexcept : block_(other.block_) {
    if (block_) __atomic_fetch_add(&block_->owners, 1, __ATOMIC_RELAXED);
  }
  storage(storage&& other) noexcept : block_(other.block_) { other.block_ = nullptr; }
  storage& operator=(storage other) noexcept {
    header* mine = block_;
    block_ = other.block_;
    other.block_ = mine;
    return *this;
  }
  ~storage() {
    if (!block_ || __atomic_fetch_sub(&block_->owners, 1, __ATOMIC_ACQ_REL) != 1) return;
    void (*const deallocate)(void*) = block_->source->deallocate;
    deallocate(block_);
  }

  /// Number of bytes that `borrow` requires in front of the data.
  static constexpr std::size_t overhead = 64;

  /// Wraps memory whose owner outlives every handle: `overhead` bytes for the header, followed by the data. The memory
  /// must be aligned like all storage.
  static storage borrow(void* memory, std::size_t bytes) {
    static_assert(sizeof(header) == overhead);
    storage made;
    made.block_ =
        new (memory) header{2, bytes, nullptr, {}};  // one owner more than handles, so the memory is never released
    return made;
  }

  std::byte* data() const noexcept { return block_ ? reinterpret_cast<std::byte*>(block_ + 1) : nullptr; }
  std::size_t bytes() const noexcept { return block_ ? block_->bytes : 0; }
  /// The resource that allocated the bytes; the default one if there are none or they are borrowed.
  const memory_resource& source() const noexcept {
    return block_ && block_->source ? *block_->source : memory_resource_of<>;
  }
  /// The version of the bytes, shared by all handles. Null if there are no bytes.
  content_version* version() const noexcept { return block_ ? &block_->version : nullptr; }
  bool unique() const noexcept { return !block_ || __atomic_load_n(&block_->owners, __ATOMIC_ACQUIRE) == 1; }

 private:
  struct alignas(alignment) header {
    std::size_t owners;
    std::size_t bytes;
    const memory_resource* source;
    content_version version;
  };
  header* block_ = nullptr;
};

}  // namespace weft
