// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <new>
#include <type_traits>

#include <weft/config.hpp>
#include <weft/tensor/storage.hpp>

namespace weft {

namespace detail {

/// Moves `size` trivially copyable elements to new memory for at least `wanted`. Shared by all element types.
[[gnu::noinline]] inline void* grow(void* data, std::size_t size, std::size_t& capacity, std::size_t wanted,
                                    std::size_t element) {
  capacity = 2 * capacity > wanted ? 2 * capacity : wanted > 4 ? wanted : 4;
  void* larger = host_allocator::allocate(capacity * element);
  if (size) __builtin_memcpy(larger, data, size * element);
  if (data) host_allocator::deallocate(data);
  return larger;
}

}  // namespace detail

/// A growing array with the part of std::vector's interface that Weft uses. It exists to reduce compile time: for the
/// planner's two dozen element types, std::vector instantiated 3,000 functions, a third of a small program's compile
/// time. Elements must be nothrow movable.
template <class T>
class sequence {
  static constexpr bool trivial = __is_trivially_copyable(T);  // avoids fifteen classes of <type_traits>

 public:
  using value_type = T;

  sequence() = default;
  explicit sequence(std::size_t n) { resize(n); }
  sequence(std::size_t n, const T& value) { assign(n, value); }
  sequence(std::initializer_list<T> values) { append(values.begin(), values.size()); }
  sequence(const T* first, const T* last) { append(first, static_cast<std::size_t>(last - first)); }
  sequence(const sequence& other);
  sequence(sequence&& other) noexcept { swap(other); }
  sequence& operator=(sequence other) noexcept {
    swap(other);
    return *this;
  }
  ~sequence();

  void swap(sequence& other) noexcept {
    T* const data = data_;
    const std::size_t size = size_, capacity = capacity_;
    data_ = other.data_, size_ = other.size_, capacity_ = other.capacity_;
    other.data_ = data, other.size_ = size, other.capacity_ = capacity;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t memory_bytes() const { return capacity_ * sizeof(T); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void reserve(std::size_t n);
  void push_back(T value);
  void pop_back() { data_[--size_].~T(); }
  void resize(std::size_t n);
  void clear();
  void assign(std::size_t n, const T& value);
  void append(const T* values, std::size_t n);
  void insert(std::size_t at, T value);
  void erase(std::size_t at);

  friend bool operator==(const sequence& a, const sequence& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

WEFT_COLD_BEGIN

template <class T>
sequence<T>::sequence(const sequence& other) {
  append(other.data_, other.size_);
}

template <class T>
sequence<T>::~sequence() {
  clear();
  if (data_) host_allocator::deallocate(data_);
}

template <class T>
void sequence<T>::reserve(std::size_t n) {
  if (n <= capacity_) return;
  if constexpr (trivial) {
    data_ = static_cast<T*>(detail::grow(data_, size_, capacity_, n, sizeof(T)));
  } else {
    const std::size_t capacity = 2 * capacity_ > n ? 2 * capacity_ : n;
    T* const larger = static_cast<T*>(host_allocator::allocate(capacity * sizeof(T)));
    for (std::size_t i = 0; i < size_; ++i) {
      ::new (larger + i) T(static_cast<T&&>(data_[i]));
      data_[i].~T();
    }
    if (data_) host_allocator::deallocate(data_);
    data_ = larger;
    capacity_ = capacity;
  }
}

template <class T>
void sequence<T>::push_back(T value) {
  if (size_ == capacity_) reserve(size_ + 1);
  ::new (data_ + size_) T(static_cast<T&&>(value));
  ++size_;
}

template <class T>
void sequence<T>::resize(std::size_t n) {
  reserve(n);
  while (size_ > n) pop_back();
  for (; size_ < n; ++size_) ::new (data_ + size_) T{};
}

template <class T>
void sequence<T>::clear() {
  if constexpr (trivial)
    size_ = 0;
  else
    while (size_ > 0) pop_back();
}

template <class T>
void sequence<T>::assign(std::size_t n, const T& value) {
  const T copy = value;
  clear();
  reserve(n);
  for (; size_ < n; ++size_) ::new (data_ + size_) T(copy);
}

template <class T>
void sequence<T>::append(const T* values, std::size_t n) {
  reserve(size_ + n);
  if constexpr (trivial && sizeof(T) == 1) {
    if (n) __builtin_memcpy(data_ + size_, values, n);
    size_ += n;
  } else {
    for (std::size_t i = 0; i < n; ++i, ++size_) ::new (data_ + size_) T(values[i]);
  }
}

template <class T>
void sequence<T>::insert(std::size_t at, T value) {
  push_back(static_cast<T&&>(value));
  for (std::size_t i = size_ - 1; i > at; --i) {
    T moved = static_cast<T&&>(data_[i]);
    data_[i] = static_cast<T&&>(data_[i - 1]);
    data_[i - 1] = static_cast<T&&>(moved);
  }
}

template <class T>
void sequence<T>::erase(std::size_t at) {
  for (std::size_t i = at; i + 1 < size_; ++i) data_[i] = static_cast<T&&>(data_[i + 1]);
  pop_back();
}

WEFT_COLD_END

}  // namespace weft
