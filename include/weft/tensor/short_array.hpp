// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <type_traits>

#include <weft/tensor/sequence.hpp>

namespace weft {

/// An array that stores up to `Few` elements inline, which suffices for most loops.
template <class T, std::size_t Few>
class short_array {
 public:
  explicit short_array(std::size_t n = 0) : size_(n) {
    if (n > Few) more_.resize(n), data_ = more_.data();
  }
  short_array(short_array&& o) noexcept : size_(o.size_) {
    if (size_ > Few)
      more_.swap(o.more_), data_ = more_.data();
    else
      __builtin_memcpy(own_, o.own_, size_ * sizeof(T));
  }
  short_array& operator=(const short_array&) = delete;
  std::size_t size() const { return size_; }
  T& operator[](std::size_t k) { return data_[k]; }
  const T& operator[](std::size_t k) const { return data_[k]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  static_assert(std::is_trivially_copyable_v<T>);
  std::size_t size_;
  T own_[Few];
  sequence<T> more_;
  T* data_ = own_;
};

}  // namespace weft
