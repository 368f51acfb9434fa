#pragma once

#include <weft/config.hpp>

namespace weft::detail {

// Classes that contain objects of Boost.Asio and OpenSSL. Files that leave the definitions to
// weft::compiled_distributed include neither library.
struct asio_acceptor;
struct asio_context;
struct asio_loop;
struct asio_signal;
struct asio_socket;
struct asio_timer;
class tls_session;

/// Deletes such an object.
struct opaque_delete {
  void operator()(asio_acceptor* what) const;
  void operator()(asio_loop* what) const;
  void operator()(asio_signal* what) const;
  void operator()(asio_socket* what) const;
  void operator()(asio_timer* what) const;
  void operator()(tls_session* what) const;
};

/// Owns such an object.
template <typename T>
class opaque_ptr {
 public:
  opaque_ptr() = default;
  explicit opaque_ptr(T* object) : object_(object) {}
  opaque_ptr(opaque_ptr&& other) noexcept : object_(other.release()) {}
  opaque_ptr& operator=(opaque_ptr&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~opaque_ptr() { reset(); }

  void reset(T* object = nullptr) {
    T* const before = object_;
    object_ = object;
    if (before) opaque_delete()(before);
  }
  T* release() {
    T* const mine = object_;
    object_ = nullptr;
    return mine;
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace weft::detail
