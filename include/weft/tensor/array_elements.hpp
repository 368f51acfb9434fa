// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/tensor/check_extents.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/storage.hpp>

/// The elements of tensors and views as a contiguous range in row-major order; independent of extents.
namespace weft {
namespace detail {

/// The extents of tensors and views, and the member types of a contiguous range.
template <class T>
class array_extents {
 public:
  using value_type = std::remove_const_t<T>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using pointer = T*;
  using const_pointer = const T*;
  using iterator = T*;
  using const_iterator = const T*;

  const shape& extents() const { return shape_; }
  std::int64_t extent(std::size_t axis) const { return shape_[axis]; }
  std::size_t elements() const { return shape_.elements(); }
  /// The number of elements along all axes.
  std::size_t size() const { return shape_.elements(); }
  bool empty() const { return shape_.elements() == 0; }

 protected:
  array_extents(const shape& extents) : shape_(extents) {}

  shape shape_;
};

/// The part of a tensor that depends only on its element type: a contiguous range of all elements in row-major order.
template <class T>
class tensor_elements : public array_extents<T> {
 public:
  using array_extents<T>::elements, array_extents<T>::size;

  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  /// For writing: first copies the elements if the storage is shared. The pointer writes to this tensor alone until the
  /// tensor is copied or used in an expression, which share its storage; call data() again afterwards. The same holds
  /// for iterators, rows and spans.
  T* data() {
    detach();
    return raw();
  }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T* cbegin() const { return data(); }
  const T* cend() const { return data() + size(); }
  T* begin() { return data(); }
  T* end() { return data() + size(); }

  /// Writes one value to all elements.
  void fill(T value) {
    T* const first = data();
    for (std::size_t i = 0, n = size(); i < n; ++i) first[i] = value;
  }

  /// Returns true if this tensor alone holds storage for elements of these extents.
  bool can_hold(const shape& extents) const { return bytes_.data() && bytes_.unique() && shape_ == extents; }

 protected:
  using array_extents<T>::shape_;

  tensor_elements(const shape& extents) : array_extents<T>(extents) {}
  tensor_elements(const shape& extents, storage bytes)
      : array_extents<T>(extents), bytes_(static_cast<storage&&>(bytes)) {}

  tensor_elements(const tensor_elements&) = default;
  tensor_elements& operator=(const tensor_elements&) = default;
  // A scalar always has an element, so moving a scalar copies it.
  tensor_elements(tensor_elements&& from) noexcept : array_extents<T>(from) { take_elements(from); }
  tensor_elements& operator=(tensor_elements&& from) noexcept {
    if (this == &from) return *this;
    shape_ = from.shape_;
    take_elements(from);
    return *this;
  }
  ~tensor_elements() = default;

  T* raw() { return reinterpret_cast<T*>(bytes_.data()); }

  /// Leaves extents of 0 in `from`.
  void take_elements(tensor_elements& from) noexcept {
    if (shape_.rank == 0) {
      bytes_ = from.bytes_;
      return;
    }
    bytes_ = static_cast<storage&&>(from.bytes_);
    for (std::size_t axis = 0; axis < shape_.rank; ++axis) from.shape_[axis] = 0;
  }

  void detach() {
    if (bytes_.unique()) return;
    storage mine = storage_of("tensor", shape_, sizeof(T), bytes_.source());
    __builtin_memcpy(mine.data(), bytes_.data(), elements() * sizeof(T));
    bytes_ = static_cast<storage&&>(mine);
  }

  /// Copies elements, which may be the tensor's own.
  void assign_elements(const T* from, const shape& extents) {
    storage mine = can_hold(extents) ? bytes_ : storage_of("tensor", extents, sizeof(T), bytes_.source());
    if (from) __builtin_memmove(mine.data(), from, extents.elements() * sizeof(T));
    shape_ = extents;
    bytes_ = static_cast<storage&&>(mine);
  }

  storage bytes_;
};

/// A view that only reads. Like std::span, assignment changes the viewed elements.
template <class T>
class view_elements : public array_extents<T> {
 public:
  using element_type = T;

  view_elements(T* data, const shape& extents) : array_extents<T>(extents), data_(data) {}

  T* data() const { return data_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + this->size(); }
  const T* cbegin() const { return data_; }
  const T* cend() const { return data_ + this->size(); }

 protected:
  T* data_;
};

/// A view that writes. Assignment writes the elements.
template <class T>
class writable_elements : public view_elements<T> {
 public:
  using view_elements<T>::view_elements;
  writable_elements(const writable_elements&) = default;
  writable_elements& operator=(const writable_elements& from) {
    assign_elements(from.data(), from.extents());
    return *this;
  }

  /// Writes one value to all elements.
  void fill(T value) const {
    for (T* p = this->begin(); p != this->end(); ++p) *p = value;
  }

 protected:
  void assign_elements(const T* from, const shape& extents) const {
    check_same_extents("tensor_view", extents, this->shape_);
    if (from) __builtin_memmove(this->data_, from, this->elements() * sizeof(T));
  }
};

template <class T>
using view_base = typename choose<std::is_const_v<T>>::template type<view_elements<T>, writable_elements<T>>;

/// Conversion to a number: a scalar tensor or view converts to its element.
template <class Elements, class T, class Dims>
struct tensor_number : Elements {
  using Elements::Elements;
  template <class Num>
    requires Arithmetic<Num>
  constexpr explicit(!std::is_same_v<Num, T>) operator Num() const {
    static_assert(correct<value_is_not_one_number<Dims>>,
                  "a tensor is not one number: use x(i, ...), sum(x) or mean(x); cast<T>(x), weft::exp(x) take "
                  "tensors, not std::exp");
    return Num();
  }
  template <class Container>
    requires requires { typename Container::allocator_type; }
  operator Container() const = delete;  // std::vector<T>(t.begin(), t.end())
};
template <class Elements, class T>
struct tensor_number<Elements, T, dims<>> : Elements {
  using Elements::Elements;
  operator T() const { return this->data()[0]; }
};

/// The mistake in an expression that is assigned to elements, if any.

template <class Expr, class T, class Dims>
using tensor_mistake = std::conditional_t<Expr::symbolic, value_needs_a_session<dims_t<Expr>>,
                                          assignment_mistake<value_t<Expr>, dims_t<Expr>, T, Dims>>;

}  // namespace detail

}  // namespace weft
