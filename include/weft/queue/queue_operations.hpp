// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/graph/subgraphs.hpp>
#include <weft/ops/operation.hpp>
#include <weft/queue/resources.hpp>
#include <weft/tensor/sequence.hpp>

/// Queue operations and their kernels. The thread that runs a step enqueues and dequeues the elements.
WEFT_COLD_BEGIN
namespace weft {

namespace detail {

/// A queue with erased types.
class erased_queue : public resource {
 public:
  struct operand {
    const std::byte* data;
    shape extents;
  };
  struct result {
    std::byte* data;
    shape extents;
  };

  /// Enqueues one value for each component or, with `many`, one batch.
  virtual void put(deadline, const operand*, bool many) = 0;
  /// Dequeues as many elements as the extents of the results have room for, and returns their number. If an element
  /// does not fit into its extents, puts all elements back and throws invalid_argument.
  virtual std::size_t take(deadline, const result*, bool many, bool up_to) = 0;
  virtual std::int64_t size() const = 0;
  virtual bool is_closed() const = 0;
  virtual void close(bool cancel_pending_enqueues) = 0;
  virtual const std::string& name() const noexcept = 0;
};

/// A graph's handle to a resource.
template <class Resource>
class recorded_resource final : public graph_owned {
 public:
  explicit recorded_resource(std::shared_ptr<Resource> r) : resource_(std::move(r)) {}
  /// Returns the current resource. A reset of its container replaces the resource.
  std::shared_ptr<Resource> get() {
    const std::lock_guard lock(mutex_);
    resource_table::of_process().renew(resource_);
    return resource_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Resource> resource_;
};
using recorded_queue = recorded_resource<erased_queue>;
/// Returns the handle in a node's detail, without const.
template <class Resource>
recorded_resource<Resource>& recorded_in(const node_def& c) {
  return *const_cast<recorded_resource<Resource>*>(static_cast<const recorded_resource<Resource>*>(c.detail));
}

inline deadline deadline_of_run(std::int64_t nanoseconds) {
  return nanoseconds == INT64_MAX ? deadline::never() : deadline(std::chrono::nanoseconds(nanoseconds));
}

}  // namespace detail

/// inputs: one value or, with `many`, one batch for each component. The output has no elements.
struct enqueue_op {
  static constexpr const char* name = "enqueue";
  static constexpr operation_id id{"weft.enqueue"};
  static constexpr bool ordered = true;
  struct attributes {
    attribute<std::int64_t> time_limit;  ///< nanoseconds
    attribute<bool> many;
  };
  static kernel* prepare(const prepare_context& p, const attributes& a);
};

/// outputs: one value or, with `many`, one batch for each component. With `up_to`, their number follows, and the
/// remaining rows are 0.
struct dequeue_op {
  static constexpr const char* name = "dequeue";
  static constexpr operation_id id{"weft.dequeue"};
  static constexpr bool ordered = true;
  struct attributes {
    attribute<std::int64_t> time_limit;
    attribute<bool> many, up_to;
  };
  static kernel* prepare(const prepare_context& p, const attributes& a);
};

/// Returns a queue's size, or whether it is closed, or closes it.
struct queue_state_op {
  static constexpr const char* name = "queue_state";
  static constexpr bool ordered = true;
  enum class kind : unsigned char { size, is_closed, close, close_and_cancel };
  struct attributes {
    attribute<kind> what;
  };
  static kernel* prepare(const prepare_context& p, const attributes& a);
};

namespace detail {

class enqueue_kernel final : public kernel {
 public:
  enqueue_kernel(const prepare_context& p, const enqueue_op::attributes& a)
      : queue_(recorded_in<erased_queue>(p.node)), attributes_(a) {
    for (std::size_t k = 0; k < p.node.inputs.size(); ++k) {
      slots_.push_back(p.input_slots[k]);
      operands_.push_back({nullptr, p.inputs[k].extents});
    }
  }
  void run(const kernel_context& f) override {
    for (std::size_t k = 0; k < slots_.size(); ++k) operands_[k].data = f.buffers[slots_[k]];
    queue_.get()->put(deadline_of_run(attributes_.time_limit), operands_.data(), attributes_.many);
  }
  std::string describe() const override { return str_cat({"enqueue into ", queue_.get()->name()}); }

 private:
  recorded_queue& queue_;
  const enqueue_op::attributes attributes_;
  sequence<std::uint32_t> slots_;
  sequence<erased_queue::operand> operands_;
};

class dequeue_kernel final : public kernel {
 public:
  dequeue_kernel(const prepare_context& p, const dequeue_op::attributes& a)
      : queue_(recorded_in<erased_queue>(p.node)), attributes_(a) {
    const std::size_t components = p.node.outputs.size() - (a.up_to ? 1 : 0);
    for (std::size_t k = 0; k < p.node.outputs.size(); ++k) {
      slots_.push_back(p.output_slots[k]);
      if (k < components) results_.push_back({nullptr, p.outputs[k].extents});
    }
  }
  void run(const kernel_context& f) override {
    for (std::size_t k = 0; k < results_.size(); ++k) results_[k].data = f.buffers[slots_[k]];
    const std::size_t count = queue_.get()->take(deadline_of_run(attributes_.time_limit), results_.data(),
                                                 attributes_.many, attributes_.up_to);
    if (attributes_.up_to)
      *reinterpret_cast<std::int64_t*>(f.buffers[slots_.back()]) = static_cast<std::int64_t>(count);
  }
  std::string describe() const override { return str_cat({"dequeue from ", queue_.get()->name()}); }

 private:
  recorded_queue& queue_;
  const dequeue_op::attributes attributes_;
  sequence<std::uint32_t> slots_;
  sequence<erased_queue::result> results_;
};

class queue_state_kernel final : public kernel {
 public:
  queue_state_kernel(const prepare_context& p, const queue_state_op::attributes& a)
      : queue_(recorded_in<erased_queue>(p.node)), what_(a.what), to_(p.output_slots[0]) {}
  void run(const kernel_context& f) override {
    switch (what_) {
      case queue_state_op::kind::size:
        *reinterpret_cast<std::int64_t*>(f.buffers[to_]) = queue_.get()->size();
        break;
      case queue_state_op::kind::is_closed:
        *reinterpret_cast<bool*>(f.buffers[to_]) = queue_.get()->is_closed();
        break;
      case queue_state_op::kind::close:
        queue_.get()->close(false);
        break;
      case queue_state_op::kind::close_and_cancel:
        queue_.get()->close(true);
        break;
    }
  }
  std::string describe() const override { return str_cat({"state of ", queue_.get()->name()}); }

 private:
  recorded_queue& queue_;
  const queue_state_op::kind what_;
  std::uint32_t to_;
};

}  // namespace detail

inline kernel* enqueue_op::prepare(const prepare_context& p, const attributes& a) {
  return new detail::enqueue_kernel(p, a);
}
inline kernel* dequeue_op::prepare(const prepare_context& p, const attributes& a) {
  return new detail::dequeue_kernel(p, a);
}
inline kernel* queue_state_op::prepare(const prepare_context& p, const attributes& a) {
  return new detail::queue_state_kernel(p, a);
}

}  // namespace weft

WEFT_COLD_END
