#pragma once

#include <cstddef>
#include <new>

namespace weft {

/// Every buffer of every type is aligned to this many bytes, whatever the compiler's flags.
inline constexpr std::size_t alignment = 64;

/// The default allocator: cache-line aligned memory of the host.
struct host_allocator {
  static void* allocate(std::size_t bytes) { return ::operator new (bytes, std::align_val_t{alignment}); }
  static void deallocate(void* p) noexcept { ::operator delete (p, std::align_val_t{alignment}); }
};

/// Counted shared bytes. Copies share; `unique` says whether writing would be seen through another handle.
class storage {
 public:
  storage() = default;
  explicit storage(std::size_t bytes)
      : block_(new (host_allocator::allocate(sizeof(header) + bytes)) header{1, bytes}) {}
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
    if (block_ && __atomic_fetch_sub(&block_->owners, 1, __ATOMIC_ACQ_REL) == 1) host_allocator::deallocate(block_);
  }

  std::byte* data() const noexcept { return block_ ? reinterpret_cast<std::byte*>(block_ + 1) : nullptr; }
  std::size_t bytes() const noexcept { return block_ ? block_->bytes : 0; }
  bool unique() const noexcept { return !block_ || __atomic_load_n(&block_->owners, __ATOMIC_ACQUIRE) == 1; }

 private:
  struct alignas(alignment) header {
    std::size_t owners;
    std::size_t bytes;
  };
  header* block_ = nullptr;
};

}  // namespace weft
