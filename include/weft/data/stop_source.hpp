#pragma once

#include <weft/data/mutex.hpp>
#include <weft/error.hpp>

namespace weft::data::detail {

/// Asks the streams of an iteration to stop, and outlives them. std::stop_source holds a counted state and includes
/// <thread>'s half of the library.
class stop_source {
 public:
  /// Is told of the request by the thread that makes it.
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

  /// Tells the listener at once where the request has been made before.
  void add(listener& l) {
    const unique_lock lock(mutex_);
    l.next_ = first_;
    if (first_) first_->previous_ = &l;
    first_ = &l;
    if (requested()) l.stop_requested();
  }
  /// Nobody tells the listener any more once this has returned.
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

/// Ends a stream that nobody wants more of. Sources call it for each element: a later stage may ask for any number
/// before it delivers one. Null: nobody stops the iteration.
inline void check_stop(const stop_source* stop) {
  if (stop && stop->requested()) throw error(error_code::cancelled, "dataset", "the iteration has been stopped");
}

}  // namespace weft::data::detail
