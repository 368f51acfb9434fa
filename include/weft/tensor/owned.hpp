#pragma once

#include <weft/config.hpp>

namespace weft {

/// Owns an object. std::unique_ptr in a header that every program includes would cost it a fifth of a second to
/// compile.
template <class T>
class owned {
 public:
  owned() = default;
  explicit owned(T* object) : object_(object) {}
  owned(owned&& o) noexcept : object_(o.object_) { o.object_ = nullptr; }
  owned& operator=(owned&& o) noexcept {
    T* mine = object_;
    object_ = o.object_;
    o.object_ = mine;
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
