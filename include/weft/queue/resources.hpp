// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/graph/device_spec.hpp>

namespace weft {

/// The name of a queue or a critical section, and how it is shared.
struct queue_options {
  /// The name in messages. Default: the shared name, or the kind of object.
  std::string name = {};
  /// Objects with one shared name in one container of this process are the same object (shared_name in TensorFlow): the
  /// first use creates it, and others must request the same type. It exists until its container is reset.
  std::string shared_name = {};
  /// The container that owns the object (tf.container). Default: the container with the empty name.
  std::string container = {};
  /// The seed of a random_shuffle_queue: equal seeds draw equal elements (TensorFlow's op seed under its default graph
  /// seed).
  std::uint64_t seed = 0;
  /// The device of a queue in a graph that spans tasks: "/job:ps/task:0"_device. Its operations run there. Default: the
  /// scopes in which the operations are recorded or, for a queue created for a graph, the scopes in which it is
  /// created.
  device_spec device = {};
};

namespace detail {

/// An object in a container, which outlives its handles.
class WEFT_API resource {
 public:
  resource() = default;
  resource(const resource&) = delete;
  resource& operator=(const resource&) = delete;
  virtual ~resource() = default;
  /// Wakes waiting callers with an error, and rejects later calls.
  virtual void abandon() noexcept = 0;
  /// The properties that every use of the name must request: kind, components, capacity.
  virtual const std::string& declaration() const noexcept = 0;
  /// Creates an empty resource with the same declaration.
  virtual std::shared_ptr<resource> make_again() const = 0;

 private:
  friend class resource_table;
  std::pair<std::string, std::string> key_;  // container and shared name
  std::atomic<bool> is_reset_{false};
};

/// The named resources of this process.
class WEFT_API resource_table {
 public:
  static resource_table& of_process() {
    static resource_table all;
    return all;
  }

  /// Returns the resource with this name, or creates it with `make`. Throws invalid_argument if the existing resource
  /// has another declaration.
  template <class Resource, class Make>
  std::shared_ptr<Resource> find_or_make(const queue_options& as, const std::string& declaration, Make make) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<resource>& here = named_[{as.container, as.shared_name}];
    if (!here) {
      try {
        here = make();
        here->key_ = {as.container, as.shared_name};
      } catch (...) {
        named_.erase({as.container, as.shared_name});
        throw;
      }
    }
    auto found = std::dynamic_pointer_cast<Resource>(here);
    if (!found || here->declaration() != declaration)
      throw error(error_code::invalid_argument, as.shared_name,
                  {"the resource shared under this name is a ", here->declaration(), ", but this use declares a ",
                   declaration, ": use the same declaration, or another name or container"});
    return found;
  }

  /// Replaces `held` if its container has been reset: the next step of a graph uses a new resource with the same name.
  template <class Resource>
  void renew(std::shared_ptr<Resource>& held) {
    const std::shared_ptr<Resource> old = held;
    if (!old->is_reset_) return;
    held = find_or_make<Resource>({.shared_name = old->key_.second, .container = old->key_.first}, old->declaration(),
                                  [&] { return old->make_again(); });
  }

  void reset(const std::string& container) {
    std::vector<std::shared_ptr<resource>> gone;
    {
      const std::lock_guard lock(mutex_);
      for (auto i = named_.begin(); i != named_.end();)
        if (i->first.first == container) {
          i->second->is_reset_ = true;
          gone.push_back(std::move(i->second));
          i = named_.erase(i);
        } else {
          ++i;
        }
    }
    for (const auto& r : gone) r->abandon();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<resource>> named_;
};

}  // namespace detail

/// Closes the queues and critical sections in these containers, and removes them and the variables (tf.Session.reset).
/// Waiting calls and steps throw `cancelled`. Existing handles stay closed; the next step that uses such a queue, and
/// the next handle created with its name, create a new one. Without arguments, resets the default container.
inline void reset_containers(std::initializer_list<std::string> containers = {}) {
  detail::resource_table& all = detail::resource_table::of_process();
  if (containers.size() == 0) all.reset({});
  for (const std::string& c : containers) all.reset(c);
}

}  // namespace weft
