#pragma once

#include <weft/config.hpp>

namespace weft {

/// Owns an object, like std::unique_ptr. In each file, the first std::unique_ptr costs a fifth of a second of compile
/// time, and each one 130 instantiations of class templates.
template <class T>
class owned {
 public:
  owned() = default;
  explicit owned(T* object) : object_(object) {}
  owned(owned&& o) noexcept : object_(o.object_) { o.object_ = nullptr; }
  owned& operator=(owned&& o) noexcept {
    T* const taken = o.release();
    T* const before = object_;
    object_ = taken;
    delete before;
    return *this;
  }
  ~owned() { delete object_; }
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
  T* object_ = nullptr;
};

}  // namespace weft
