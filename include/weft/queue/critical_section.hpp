#pragma once

#include <memory>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/queue/queue_state.hpp>
#include <weft/queue/resources.hpp>

namespace weft {

/// A section that one thread at a time is in, of all that share it (tf.CriticalSection, and the mutex of tf.contrib): a
/// mutex with deadlines, that threads enter in the order in which they have come. It is a handle: copies, and those of
/// one `shared_name`, are the same section.
///
///     critical_section table({.shared_name = "table"});
///     {
///       const auto held = table.acquire(5s);                       // until the end of the block, or held.release()
///       ...
///     }
///     const int rows = table.execute(5s, [&] { return add_row(); });
class critical_section {
  // One token: the thread that has taken it is inside.
  struct section final : detail::resource {
    explicit section(std::string name) : declaration_("critical_section"), token(std::move(name), 1, 0) {}
    void abandon() noexcept override { token.abandon(); }
    const std::string& declaration() const noexcept override { return declaration_; }

    const std::string declaration_;
    detail::queue_state<detail::fifo_store<char>> token;
  };

 public:
  /// That a thread is inside. The holder of this leaves it.
  class lock {
   public:
    lock(lock&& other) noexcept = default;
    lock& operator=(lock&& other) noexcept {
      release();
      of_ = std::move(other.of_);
      return *this;
    }
    ~lock() { release(); }

    /// Leaves the section before the lock's end.
    void release() noexcept {
      if (!of_) return;
      char token = 0;
      try {
        of_->token.enqueue(deadline::never(), &token, 1);  // there is room for it
      } catch (const error&) {                             // its container has been reset
      }
      of_.reset();
    }

   private:
    friend class critical_section;
    explicit lock(std::shared_ptr<section> of) noexcept : of_(std::move(of)) {}
    std::shared_ptr<section> of_;
  };

  template <class = void>
  explicit critical_section(...) = delete;  // queue_options: name, shared_name, container, seed, device
  explicit critical_section(const queue_options& options = {}) {
    const auto make = [&] {
      auto made = std::make_shared<section>(!options.name.empty()         ? options.name
                                            : options.shared_name.empty() ? "critical_section"
                                                                          : options.shared_name);
      char token = 0;
      made->token.enqueue(deadline::never(), &token, 1);
      return made;
    };
    section_ = options.shared_name.empty()
                   ? make()
                   : detail::resource_table::of_process().find_or_make<section>(options, "critical_section", make);
  }

  /// Enters it. Throws deadline_exceeded if others are inside for so long, and so does a thread that is inside itself;
  /// cancelled once its container has been reset.
  [[nodiscard]] lock acquire(deadline until) const {
    detail::element_array<char> token(1);
    try {
      section_->token.dequeue(until, token, 1);
    } catch (const error& e) {
      if (e.code() == error_code::deadline_exceeded)
        throw error(e.code(), section_->token.name(),
                    "another thread, or this one, was inside for all of the time: it has to release its lock");
      if (e.code() == error_code::out_of_range)
        throw error(error_code::cancelled, section_->token.name(),
                    "is gone: the container that it was in has been reset");
      throw;
    }
    return lock(section_);
  }

  /// Calls f inside, and returns what it returns.
  template <class F>
  decltype(auto) execute(deadline until, F&& f) const {
    const lock held = acquire(until);
    return std::forward<F>(f)();
  }

 private:
  std::shared_ptr<section> section_;
};

}  // namespace weft
