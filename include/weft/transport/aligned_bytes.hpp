// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

#include <weft/transport/transport.hpp>

namespace weft::detail {

/// Uninitialized bytes of a message, aligned to a cache line.
class aligned_bytes {
 public:
  aligned_bytes() = default;
  explicit aligned_bytes(std::size_t size)
      : data_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), alignment))), size_(size) {}

  operator mutable_bytes() { return {data_.get(), size_}; }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct release {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, alignment); }
  };
  std::unique_ptr<std::byte[], release> data_;
  std::size_t size_ = 0;
};

}  // namespace weft::detail
