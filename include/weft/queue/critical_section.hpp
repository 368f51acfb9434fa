// SPDX-License-Identifier: BSL-1.0
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

/// The result of a section: copies of the values computed inside, available after the step has left.
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

/// A section that only one thread or step at a time can enter (tf.CriticalSection, and the mutex of tf.contrib): a
/// mutex with deadlines. Threads and steps enter in the order of their calls. A critical_section is a handle: copies,
/// and sections with the same `shared_name`, are one section.
///
///     critical_section table({.shared_name = "table"});
///     {
///       const auto held = table.acquire(5s);                       // until the end of the block, or held.release()
///       ...
///     }
///     const int rows = table.execute(5s, [&] { return add_row(); });
///
/// In a graph, `execute` records a visit that each run of a step makes. If the graph spans tasks, the section is in one
/// of them, and all tasks and clients that record the same section share it:
///
///     critical_section table(g, {.shared_name = "table", .device = "/job:ps/task:0"_device});
///     const auto rows = table.execute(g, 5s, [&] { return assign_add(count, 1); });
class critical_section {
 public:
  /// The lock that a thread holds while it is inside. Its destructor leaves the section.
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

    /// Leaves the section early.
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
  /// For a graph whose tasks share the section: queue_options::device, or the current scopes, select the task that owns
  /// it.
  explicit critical_section(const graph& g, const queue_options& options = {})
      : critical_section(detail::placed_in(g, options)) {}

  /// Enters the section. Throws deadline_exceeded if others stay inside too long, or if the calling thread is inside
  /// itself; cancelled after a reset of the section's container.
  [[nodiscard]] lock acquire(deadline until) const {
    const std::int64_t visit = section_->enter(until);
    return lock(section_, visit);
  }

  /// Calls f inside the section, and returns its result.
  template <class F>
  decltype(auto) execute(deadline until, F&& f) const {
    const lock held = acquire(until);
    return std::forward<F>(f)();
  }

  /// Records a visit (tf.CriticalSection.execute): each run of a step enters within the time limit, runs everything
  /// that f records, in whichever tasks, and leaves. Returns the result of f, which is a node, an effect or a tuple of
  /// both, with the values that it has inside the section; returns an effect if f returns nothing. The step fails with
  /// deadline_exceeded if others stay inside during the whole time, and with `cancelled` after a reset of the
  /// container. A run that fails, or whose client or task ends, leaves the section.
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

  /// The number of threads and steps that wait to enter this process's section.
  std::size_t waiting() const { return section_->waiting(); }

 private:
  std::shared_ptr<detail::section_state> section_;
  device_spec device_;  // of the section's operations
};

}  // namespace weft
