// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

#include <weft/compiler.hpp>

namespace weft {

/// An array that stores up to `Few` elements inline, which suffices for most loops.
template <class T, std::size_t Few>
class short_array {
 public:
  explicit short_array(std::size_t n = 0) : size_(n) {
    if (n > Few) data_ = static_cast<T*>(::operator new(n * sizeof(T)));
  }
  short_array(short_array&& o) noexcept : size_(o.size_) {
    if (size_ > Few)
      data_ = o.data_, o.data_ = o.own_, o.size_ = 0;
    else
      __builtin_memcpy(static_cast<void*>(own_), o.own_, size_ * sizeof(T));
  }
  short_array& operator=(const short_array&) = delete;
  ~short_array() {
    if (size_ > Few) ::operator delete(data_);
  }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t k) { return data_[k]; }
  const T& operator[](std::size_t k) const { return data_[k]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));
  std::size_t size_;
  T own_[Few];
  T* data_ = own_;
};

}  // namespace weft
