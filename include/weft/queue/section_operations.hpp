// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/graph/effects.hpp>
#include <weft/graph/scopes.hpp>
#include <weft/graph/subgraphs.hpp>
#include <weft/ops/aliases.hpp>
#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/operation.hpp>
#include <weft/queue/queue_operations.hpp>
#include <weft/queue/queue_state.hpp>
#include <weft/queue/resources.hpp>

/// The operations by which a step enters and leaves a critical section.
WEFT_COLD_BEGIN
namespace weft {

namespace detail {

/// A critical section, shared by all handles with its name. To enter means to take its only token; enter() returns the
/// number of the visit. leave(), or the end of the run that has entered, ends the visit once.
class section_state final : public resource {
 public:
  explicit section_state(std::string name) : declaration_("critical_section"), token_(std::move(name), 1, 0) {
    put_token();
  }
  void abandon() noexcept override { token_.abandon(); }
  const std::string& declaration() const noexcept override { return declaration_; }
  std::shared_ptr<resource> make_again() const override { return std::make_shared<section_state>(name()); }
  const std::string& name() const noexcept { return token_.name(); }
  /// The number of threads and steps that wait to enter.
  std::size_t waiting() const { return token_.waiting(); }

  /// Throws deadline_exceeded; cancelled after a reset of the container, or if the waiting step is cancelled.
  std::int64_t enter(deadline until) {
    element_array<char> token(1);
    try {
      token_.dequeue(until, token, 1);
    } catch (const error& e) {
      if (e.code() == error_code::deadline_exceeded)
        throw error(
            e.code(), name(),
            "timed out: another thread or step, or this one, was inside the whole time and must leave the section");
      if (e.code() == error_code::out_of_range)
        throw error(error_code::cancelled, name(), "no longer exists: its container has been reset");
      throw;
    }
    static std::atomic<std::int64_t> visits{0};  // counts visits of all sections, so the visit of an old section cannot
                                                 // end another
    const std::int64_t visit = ++visits;
    inside_ = visit;
    return visit;
  }
  void leave(std::int64_t visit) noexcept {
    if (visit == 0 || !inside_.compare_exchange_strong(visit, 0)) return;
    try {
      put_token();
    } catch (const error&) {  // its container has been reset
    }
  }

 private:
  void put_token() {
    char token = 0;
    token_.enqueue(deadline::never(), &token, 1);  // there is always room for the token
  }

  const std::string declaration_;
  queue_state<fifo_store<char>> token_;
  std::atomic<std::int64_t> inside_{0};
};

/// A graph's handle to a section.
using recorded_section = recorded_resource<section_state>;

}  // namespace detail

/// The output is the visit's number.
struct enter_section_op {
  static constexpr const char* name = "enter_section";
  static constexpr operation_id id{"weft.enter_section"};
  static constexpr bool ordered = true;
  struct attributes {
    attribute<std::int64_t> time_limit;  ///< nanoseconds
  };
  static kernel* prepare(const prepare_context& p, const attributes& a);
};

/// input 0: the visit's number. The output has no elements.
struct leave_section_op {
  static constexpr const char* name = "leave_section";
  static constexpr bool ordered = true;
  static kernel* prepare(const prepare_context& p);
};

/// Copies a value, so that later writes to a variable do not change it.
struct section_result_op {
  static constexpr const char* name = "section_result";
  static strided_copies copies(const prepare_context& p) {
    box_copies all(p);
    all.copy(p.outputs[0].extents, 0, {}, 0, {});
    return all;
  }
  static void gradient(gradient_context& g) { g.set_gradient(0, g.upstream()); }
};

namespace detail {

class enter_section_kernel final : public kernel {
 public:
  enter_section_kernel(const prepare_context& p, std::int64_t limit)
      : section_(recorded_in<section_state>(p.node)), limit_(limit), to_(p.output_slots[0]) {}
  void run(const kernel_context& f) override {
    entered_ = section_.get();
    visit_ = entered_->enter(deadline_of_run(limit_));
    *reinterpret_cast<std::int64_t*>(f.buffers[to_]) = visit_;
  }
  void end_run() noexcept override {
    if (entered_) entered_->leave(std::exchange(visit_, 0));
  }
  std::string describe() const override { return str_cat({"enter ", section_.get()->name()}); }

 private:
  recorded_section& section_;
  std::shared_ptr<section_state> entered_;
  const std::int64_t limit_;
  std::uint32_t to_;
  std::int64_t visit_ = 0;
};

class leave_section_kernel final : public kernel {
 public:
  explicit leave_section_kernel(const prepare_context& p)
      : section_(recorded_in<section_state>(p.node)), visit_(p.input_slots[0]) {}
  void run(const kernel_context& f) override {
    section_.get()->leave(*reinterpret_cast<const std::int64_t*>(f.buffers[visit_]));
  }
  std::string describe() const override { return str_cat({"leave ", section_.get()->name()}); }

 private:
  recorded_section& section_;
  std::uint32_t visit_;
};

/// Records a visit to a section: operations recorded during the recorder's lifetime run inside.
class visit_recorder {
 public:
  visit_recorder(graph& g, const std::shared_ptr<section_state>& s, const device_spec& where, std::int64_t limit)
      : g_(g), where_(where), kept_(new recorded_section(s)) {
    if (g.is_subgraph()) {
      delete kept_;
      throw error(error_code::unimplemented, s->name(),
                  "a critical section cannot be used in the body of a loop or branch: put the loop or branch into the "
                  "section");
    }
    g.keep(kept_);
    node_def c;
    c.op = &operation_of<enter_section_op>;
    c.attributes = words_of(enter_section_op::attributes{limit});
    c.outputs = {{dtype::int64, {}}};
    visit_ = record(static_cast<node_def&&>(c), "enter");
    first_ = static_cast<std::uint32_t>(g.size());
    depth_ = g.control_depth();
    g.enter_control(visit_.id().node);
  }
  ~visit_recorder() {
    if (is_inside_) g_.leave_control(depth_);
  }
  visit_recorder(const visit_recorder&) = delete;
  visit_recorder& operator=(const visit_recorder&) = delete;

  /// Copies a value to return from the section.
  symbol copy(symbol x) {
    const device_scope there(g_, x.id());
    return record_call(operation_of<section_result_op>, {x}, x.info());
  }
  /// Records that the step leaves the section after all operations recorded inside.
  void leave() {
    const auto last = static_cast<std::uint32_t>(g_.size());
    g_.leave_control(depth_);
    is_inside_ = false;
    node_def c;
    c.op = &operation_of<leave_section_op>;
    c.inputs = {visit_.id()};
    c.outputs = {{dtype::boolean, shape(0)}};
    left_ = record(static_cast<node_def&&>(c), "leave");
    for (std::uint32_t n = first_; n < last; ++n)
      for (const std::uint32_t before : g_[n].control)
        if (before == visit_.id().node) {
          g_.add_control(left_.id().node, n);
          break;
        }
  }
  effect left() const { return effect(left_); }
  /// Returns a value that is available after the step has left.
  symbol after(symbol x) {
    const control_dependencies then(g_, left());
    const device_scope there(g_, x.id());
    return record_identity(x);
  }

 private:
  symbol record(node_def c, const char* what) {
    const device_scope there(g_, where_);
    c.detail = kept_;
    return {&g_, {g_.add(static_cast<node_def&&>(c), str_cat({kept_->get()->name(), "_", what})), 0}};
  }

  graph& g_;
  const device_spec where_;
  recorded_section* kept_;
  symbol visit_, left_;
  std::uint32_t first_ = 0;
  std::size_t depth_ = 0;
  bool is_inside_ = true;
};

}  // namespace detail

inline kernel* enter_section_op::prepare(const prepare_context& p, const attributes& a) {
  return new detail::enter_section_kernel(p, a.time_limit);
}
inline kernel* leave_section_op::prepare(const prepare_context& p) { return new detail::leave_section_kernel(p); }

}  // namespace weft
WEFT_COLD_END
