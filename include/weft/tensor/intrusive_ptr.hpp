// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <weft/config.hpp>

namespace weft::detail {

/// The base class of objects that intrusive_ptr owns.
class ref_counted {
 public:
  ref_counted() = default;
  ref_counted(const ref_counted&) = delete;
  ref_counted& operator=(const ref_counted&) = delete;
  virtual ~ref_counted() = default;

  void add_ref() const noexcept { __atomic_fetch_add(&owners_, 1, __ATOMIC_RELAXED); }
  void release() const noexcept {
    if (__atomic_fetch_sub(&owners_, 1, __ATOMIC_ACQ_REL) == 1) delete this;
  }

 private:
  mutable std::size_t owners_ = 0;
};

/// Like Boost's intrusive_ptr, for ref_counted objects. Including <memory> would add a fifth of a second to the compile
/// time of every program.
template <class T>
class intrusive_ptr {
 public:
  intrusive_ptr() = default;
  intrusive_ptr(std::nullptr_t) {}
  explicit intrusive_ptr(T* object) : object_(object) {
    if (object_) object_->add_ref();
  }
  intrusive_ptr(const intrusive_ptr& other) : intrusive_ptr(other.object_) {}
  intrusive_ptr(intrusive_ptr&& other) noexcept : object_(other.detach()) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  intrusive_ptr(intrusive_ptr<U> other) noexcept : object_(other.detach()) {}
  intrusive_ptr& operator=(intrusive_ptr other) noexcept {
    T* const mine = object_;
    object_ = other.object_;
    other.object_ = mine;
    return *this;
  }
  ~intrusive_ptr() {
    if (object_) object_->release();
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

  /// Returns the object and gives up ownership without releasing it.
  T* detach() noexcept {
    T* const mine = object_;
    object_ = nullptr;
    return mine;
  }

 private:
  T* object_ = nullptr;
};

/// Type-erased ownership of a value, for code that only knows the address of its bytes.
template <class T>
class owner_of final : public ref_counted {
 public:
  explicit owner_of(T&& owned) : value(std::move(owned)) {}
  const T value;
};

}  // namespace weft::detail
