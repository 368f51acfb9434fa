// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/data/mutex.hpp>
#include <weft/error.hpp>

namespace weft::data::detail {

/// Asks the streams of an iteration to stop; must outlive them. std::stop_source has a reference-counted state and
/// includes much of <thread>.
class stop_source {
 public:
  /// Is notified of a stop request, on the requesting thread.
  class listener {
   public:
    virtual void stop_requested() = 0;

   protected:
    ~listener() = default;

   private:
    friend class stop_source;
    listener *next_ = nullptr, *previous_ = nullptr;
  };

  bool requested() const { return __atomic_load_n(&requested_, __ATOMIC_ACQUIRE); }

  void request() {
    const unique_lock lock(mutex_);
    if (requested()) return;
    __atomic_store_n(&requested_, true, __ATOMIC_RELEASE);
    for (listener* each = first_; each; each = each->next_) each->stop_requested();
  }

  /// Adds a listener. Notifies it immediately if a stop has already been requested.
  void add(listener& l) {
    const unique_lock lock(mutex_);
    l.next_ = first_;
    if (first_) first_->previous_ = &l;
    first_ = &l;
    if (requested()) l.stop_requested();
  }
  /// Removes a listener. It is not notified after this returns.
  void remove(listener& l) {
    const unique_lock lock(mutex_);
    (l.previous_ ? l.previous_->next_ : first_) = l.next_;
    if (l.next_) l.next_->previous_ = l.previous_;
  }

 private:
  bool requested_ = false;
  mutex mutex_;
  listener* first_ = nullptr;
};

/// Throws cancelled if a stop has been requested. Sources call it for each element, because a later stage can read any
/// number of elements before it delivers one. Null: the iteration cannot be stopped.
inline void check_stop(const stop_source* stop) {
  if (stop && stop->requested()) throw error(error_code::cancelled, "dataset", "the iteration was stopped");
}

}  // namespace weft::data::detail
