// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <weft/error.hpp>
#include <weft/graph/device_spec.hpp>
#include <weft/plan/placement.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// A task and its devices.
struct task_devices {
  device_spec task;  ///< job and index
  std::uint32_t cpus = 1, gpus = 0;
};

/// The tasks that a step can span, in the cluster's order, and the home task, in which nodes without a task run.
class task_table {
 public:
  task_table() = default;
  task_table(sequence<task_devices> all, std::uint32_t home)
      : all_(static_cast<sequence<task_devices>&&>(all)), home_(home) {}

  const sequence<task_devices>& all() const { return all_; }
  std::uint32_t home() const { return home_; }
  /// The number of the client, which is not one of the tasks.
  std::uint32_t client() const { return static_cast<std::uint32_t>(all_.size()); }
  std::string text(std::uint32_t task) const { return task == client() ? "the client" : to_string(all_[task].task); }
  const device_spec& name_of(std::uint32_t task) const {
    static const device_spec client = "/job:client/task:0"_device;
    return task < all_.size() ? all_[task].task : client;
  }

  /// Returns the device of a node: the first that fits the node's pin, completed by the session's preferences. Tries
  /// the home task first, then the others in the cluster's order.
  plan::device_number place(const plan::placement& by, std::uint32_t n, const char*& rule) const;

  bool moved(const device_spec& asked, plan::device_number d) const {
    return !fits(asked, d.task) || (asked.has_kind() && d.gpu != is_gpu(asked)) ||
           (asked.ordinal >= 0 && static_cast<std::uint32_t>(asked.ordinal) != d.ordinal);
  }

  /// All devices, for messages and list_devices.
  sequence<std::string> devices() const {
    sequence<std::string> names;
    for (const task_devices& t : all_) {
      for (std::uint32_t i = 0; i < t.cpus; ++i) names.push_back(str_cat({to_string(t.task), "/device:CPU:", i}));
      for (std::uint32_t i = 0; i < t.gpus; ++i) names.push_back(str_cat({to_string(t.task), "/device:GPU:", i}));
    }
    return names;
  }

 private:
  static bool is_gpu(const device_spec& d) { return std::string_view(d.kind) == cuda::name; }
  bool fits(const device_spec& asked, std::uint32_t task) const {
    const device_spec& t = all_[task].task;
    return (!asked.has_job() || std::string_view(asked.job) == t.job) && (asked.task < 0 || asked.task == t.task);
  }
  /// Calls f(task) for the tasks that fit, until it returns true.
  template <class F>
  bool first_fit(const device_spec& asked, F f) const {
    if (fits(asked, home_) && f(home_)) return true;
    for (std::uint32_t t = 0; t < all_.size(); ++t)
      if (t != home_ && fits(asked, t) && f(t)) return true;
    return false;
  }
  std::string list() const {
    std::string text;
    for (const std::string& name : devices()) append(text, {text.empty() ? "" : ", ", name});
    return text;
  }

  sequence<task_devices> all_;
  std::uint32_t home_ = 0;
};

inline plan::device_number task_table::place(const plan::placement& by, std::uint32_t n, const char*& rule) const {
  const graph_node& node = by.nodes()[n];
  const device_spec& asked = node.device;
  device_spec want = merge(by.preferred(), asked);
  if (asked.has_kind() && asked.ordinal < 0) want.ordinal = -1;
  const bool own = !asked.has_kind();
  rule = asked == device_spec() ? "the session's own choice, since the node names no device" : "the node names it";
  plan::device_number found;
  const auto number = static_cast<std::uint32_t>(want.ordinal < 0 ? 0 : want.ordinal);
  const bool gpu = is_gpu(want);
  const auto has_it = [&](std::uint32_t t) {
    found = {gpu, number, t};
    return number < (gpu ? all_[t].gpus : all_[t].cpus);
  };
  if (first_fit(want, has_it)) {
    const std::uint32_t without = gpu ? by.without_kernel(n) : graph_node::no_node;
    if (without == graph_node::no_node) return found;
    rule = without == n ? "it has no kernel for a GPU" : "a node colocated with it has no kernel for a GPU";
    if (own || by.soft()) return {false, 0, found.task};
    throw error(error_code::unimplemented, by.nodes()[without].name,
                {by.nodes()[without].def.op->name, " is placed on ", to_string(want),
                 " but has no kernel for a GPU in this program; compile it with a CUDA compiler, or set "
                 "session_options::allow_soft_placement to run it on the CPU"});
  }
  const bool any_task = first_fit(want, [&](std::uint32_t t) {
    found = {false, 0, t};
    return true;
  });
  // The session's own choice of a device applies only in tasks that have this device.
  if (any_task && own) return found;
  if (by.soft()) {
    rule = any_task ? "the device that the node names does not exist" : "the task that the node names does not exist";
    return any_task ? found : plan::device_number{false, 0, home_};
  }
  throw error(error_code::invalid_argument, node.name,
              {"is placed on ", to_string(asked), ", but the available devices are [ ", list(),
               " ]: name one of them, or set session_options::allow_soft_placement"});
}

}  // namespace weft::detail

WEFT_COLD_END
