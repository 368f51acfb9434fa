// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>

namespace weft {

/// Owns an object, like std::unique_ptr. In each file, the first std::unique_ptr costs a fifth of a second of compile
/// time, and each one 130 instantiations of class templates. `Delete()(object)` deletes the object; void means
/// `delete`.
template <class T, class Delete = void>
class owned {
 public:
  owned() = default;
  explicit owned(T* object) : object_(object) {}
  owned(owned&& o) noexcept : object_(o.object_) { o.object_ = nullptr; }
  owned& operator=(owned&& o) noexcept {
    reset(o.release());
    return *this;
  }
  ~owned() { destroy(object_); }

  void reset(T* object = nullptr) {
    T* const before = object_;
    object_ = object;
    destroy(before);
  }
  T* get() const { return object_; }
  T* release() {
    T* const mine = object_;
    object_ = nullptr;
    return mine;
  }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  static void destroy(T* object) {
    if constexpr (__is_same(Delete, void))
      delete object;
    else if (object)
      Delete()(object);
  }

  T* object_ = nullptr;
};

}  // namespace weft
