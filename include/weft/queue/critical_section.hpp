#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/queue/recorded.hpp>
#include <weft/queue/resources.hpp>
#include <weft/queue/section_operations.hpp>

namespace weft {

namespace detail {

/// What a section returns: copies of the values made inside, once the step has left.
template <class X>
auto result_of_section(visit_recorder& visit, const X& x) {
  if constexpr (std::is_same_v<X, effect>) {
    return [&visit] { return visit.left(); };
  } else if constexpr (Expression<X>) {
    gpu::compile_kernels<gpu::moves, value_t<X>>();
    const symbol copied = visit.copy(let(x).erased());
    return [&visit, copied] { return node<value_t<X>, dims_t<X>>(visit.after(copied)); };
  } else {
    return std::apply(
        [&](const auto&... each) {
          return [all = std::tuple{result_of_section(visit, each)...}] {
            return std::apply([](const auto&... one) { return std::tuple{one()...}; }, all);
          };
        },
        x);
  }
}

}  // namespace detail

/// A section that one thread or step at a time is in, of all that share it (tf.CriticalSection, and the mutex of
/// tf.contrib): a mutex with deadlines. Threads and steps enter in the order in which they have come. It is a handle:
/// copies, and those of one `shared_name`, are the same section.
///
///     critical_section table({.shared_name = "table"});
///     {
///       const auto held = table.acquire(5s);                       // until the end of the block, or held.release()
///       ...
///     }
///     const int rows = table.execute(5s, [&] { return add_row(); });
///
/// In a graph, `execute` records a visit that each run of a step makes. The section of a graph that spans tasks lies in
/// one of them, and all tasks and clients that record the same section share it:
///
///     critical_section table(g, {.shared_name = "table", .device = "/job:ps/task:0"_device});
///     const auto rows = table.execute(g, 5s, [&] { return assign_add(count, 1); });
class critical_section {
 public:
  /// That a thread is inside. The holder of this leaves it.
  class lock {
   public:
    lock(lock&& other) noexcept : of_(std::move(other.of_)), visit_(other.visit_) {}
    lock& operator=(lock&& other) noexcept {
      release();
      of_ = std::move(other.of_);
      visit_ = other.visit_;
      return *this;
    }
    ~lock() { release(); }

    /// Leaves the section before the lock's end.
    void release() noexcept {
      if (of_) of_->leave(visit_);
      of_.reset();
    }

   private:
    friend class critical_section;
    lock(std::shared_ptr<detail::section_state> of, std::int64_t visit) noexcept : of_(std::move(of)), visit_(visit) {}
    std::shared_ptr<detail::section_state> of_;
    std::int64_t visit_;
  };

  template <class = void>
  explicit critical_section(...) = delete;  // queue_options: name, shared_name, container, seed, device
  explicit critical_section(const queue_options& options = {}) : device_(options.device) {
    const auto make = [&] {
      return std::make_shared<detail::section_state>(!options.name.empty()         ? options.name
                                                     : options.shared_name.empty() ? "critical_section"
                                                                                   : options.shared_name);
    };
    section_ = options.shared_name.empty() ? make()
                                           : detail::resource_table::of_process().find_or_make<detail::section_state>(
                                                 options, "critical_section", make);
  }
  /// For a graph whose tasks share it: queue_options::device, or the scopes around this, say which task has it.
  explicit critical_section(const graph& g, const queue_options& options = {})
      : critical_section(detail::placed_in(g, options)) {}

  /// Enters it. Throws deadline_exceeded if others are inside for so long, and so does a thread that is inside itself;
  /// cancelled once its container has been reset.
  [[nodiscard]] lock acquire(deadline until) const {
    const std::int64_t visit = section_->enter(until);
    return lock(section_, visit);
  }

  /// Calls f inside, and returns what it returns.
  template <class F>
  decltype(auto) execute(deadline until, F&& f) const {
    const lock held = acquire(until);
    return std::forward<F>(f)();
  }

  /// Records a visit (tf.CriticalSection.execute): each run of a step enters within the time limit, runs all that f
  /// records, in whatever tasks it lies, and leaves. Returns f's nodes and effects, a tuple or one alone, as they are
  /// inside: an effect where f returns none. The step fails with deadline_exceeded if others are inside for all of the
  /// time, and with `cancelled` once the container has been reset. A run that fails, or whose client or task ends, has
  /// left the section.
  template <class F>
  [[nodiscard]] auto execute(graph& g, time_limit within, F&& f) const {
    detail::visit_recorder visit(g, section_, device_, within.nanoseconds());
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      std::forward<F>(f)();
      visit.leave();
      return visit.left();
    } else {
      const auto result = detail::result_of_section(visit, std::forward<F>(f)());
      visit.leave();
      return result();
    }
  }

  /// How many threads and steps of this process's section wait to enter.
  std::size_t waiting() const { return section_->waiting(); }

 private:
  std::shared_ptr<detail::section_state> section_;
  device_spec device_;  // of its operations
};

}  // namespace weft
