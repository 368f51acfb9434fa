#pragma once

#include <cstddef>
#include <new>

#include <weft/tensor/host_memory.hpp>

namespace weft {

/// Counted shared bytes. Copies share; `unique` says whether writing would be seen through another handle.
class storage {
 public:
  storage() = default;
  explicit storage(std::size_t bytes, const memory_resource& source = memory_resource_of<>)
      : block_(new(source.allocate(sizeof(header) + bytes)) header{1, bytes, &source}) {}
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

  /// Room that `borrow` needs in front of the bytes.
  static constexpr std::size_t overhead = 64;

  /// Bytes in memory that belongs to an owner that outlives every handle: `overhead` for the counter, then the bytes as
  /// they are. Aligned as all storage is.
  static storage borrow(void* memory, std::size_t bytes) {
    static_assert(sizeof(header) == overhead);
    storage made;
    made.block_ = new (memory) header{2, bytes, nullptr};  // an owner more than there are handles: it is never released
    return made;
  }

  std::byte* data() const noexcept { return block_ ? reinterpret_cast<std::byte*>(block_ + 1) : nullptr; }
  std::size_t bytes() const noexcept { return block_ ? block_->bytes : 0; }
  /// Where such bytes came from; the default where there are none, or they are borrowed.
  const memory_resource& source() const noexcept {
    return block_ && block_->source ? *block_->source : memory_resource_of<>;
  }
  bool unique() const noexcept { return !block_ || __atomic_load_n(&block_->owners, __ATOMIC_ACQUIRE) == 1; }

 private:
  struct alignas(alignment) header {
    std::size_t owners;
    std::size_t bytes;
    const memory_resource* source;
  };
  header* block_ = nullptr;
};

}  // namespace weft
