// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/graph.hpp>
#include <weft/ops/random/random_position.hpp>
#include <weft/plan/device_number.hpp>
#include <weft/plan/gpu_support.hpp>
#include <weft/plan/task_support.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Assigns each node to a device of the session. The first matching rule applies: a node that writes a variable runs on
/// the variable's device; a colocated node runs on the device of its partner; then the device that the node names; then
/// the session's preference. Without `tasks`, a graph runs in one task, `self`. Nodes that name another task are an
/// error, except variables, whose values a parameter server may hold: the session places its copy of such a variable.
/// Under soft placement, and always for the session's preference, an operation without a GPU kernel runs on the CPU,
/// together with the nodes colocated with it.
class placement {
 public:
  placement(const graph& g, std::size_t cpus, const gpu_support* gpus, const device_spec& preferred, bool soft,
            const device_spec& self = {}, const task_support* tasks = nullptr);

  device_number of(std::uint32_t n) const {
    const char* rule;
    return decide(n, rule);
  }

  /// Returns true if soft placement has moved a node from the requested device.
  bool moved(std::uint32_t n) const;

  /// Returns text such as "on /device:GPU:0: the node names it".
  std::string explain(std::uint32_t n) const;

  /// Returns the name in TensorFlow's log format: "/job:worker/replica:0/task:1/device:CPU:0".
  std::string full_name(device_number) const;

  // ---- for task_support ----

  const graph& nodes() const { return graph_; }
  const device_spec& preferred() const { return preferred_; }
  bool soft() const { return soft_; }
  /// Returns a node without a GPU kernel among `n` and its colocated nodes; no_node if all have one.
  std::uint32_t without_kernel(std::uint32_t n) const;

 private:
  static bool is_of_kind(const device_spec& d, std::string_view kind) { return d.kind == kind; }
  /// The first device if the number is unspecified.
  static std::uint32_t number_of(const device_spec& d) {
    return d.ordinal < 0 ? 0 : static_cast<std::uint32_t>(d.ordinal);
  }
  bool is_variable(std::uint32_t n) const { return is_operation<variable_op>(graph_[n].def.op); }

  /// Returns true if the device is in another task. Without a cluster, the session's task is /job:localhost/task:0.
  bool is_elsewhere(const device_spec& d) const {
    const std::string_view own = self_.has_job() ? self_.job : "localhost";
    return (d.has_job() && d.job != own) || (d.task >= 0 && d.task != (self_.task > 0 ? self_.task : 0));
  }

  [[noreturn]] void refuse_task(std::uint32_t n) const;

  std::size_t count() const { return gpus_ ? gpus_->count() : 0; }

  device_number decide(std::uint32_t n, const char*& rule) const;

  std::uint32_t first_of_group(std::uint32_t n) const;

  bool subgraphs_have_kernels(const node_def& what) const;
  static bool has_kernel(const node_def& what);

  const graph& graph_;
  std::size_t cpus_;
  const gpu_support* gpus_;  // called only for nodes that request a GPU, because calls open the GPUs
  device_spec preferred_, self_;
  bool soft_;
  const task_support* tasks_;  // null if all nodes run in one task
};

#if WEFT_DEFINITIONS

WEFT_DECL placement::placement(const graph& g, std::size_t cpus, const gpu_support* gpus, const device_spec& preferred,
                               bool soft, const device_spec& self, const task_support* tasks)
    : graph_(g), cpus_(cpus), gpus_(gpus), preferred_(preferred), self_(self), soft_(soft), tasks_(tasks) {
  if (is_of_kind(preferred, cuda::name) && !soft && !tasks && count() == 0)
    throw error(error_code::failed_precondition, "session",
                {"there is no GPU for session_options::device: ", no_gpu_reason()});
}

WEFT_DECL bool placement::moved(std::uint32_t n) const {
  const device_spec& asked = graph_[n].device;
  const device_number d = of(n);
  if (graph_[n].def.op->writes) return false;
  if (tasks_) return tasks_->moved(asked, d);
  if (is_elsewhere(asked)) return !is_variable(n);
  return asked.has_kind() && !(d == device_number{is_of_kind(asked, cuda::name), number_of(asked)});
}

WEFT_DECL std::string placement::explain(std::uint32_t n) const {
  const char* rule;
  const device_number d = decide(n, rule);
  std::string text = str_cat({"on ", tasks_ ? full_name(d) : to_string(d), ": ", rule});
  if (!tasks_ && is_variable(n) && is_elsewhere(graph_[n].device))
    append(text, {"; this is a copy of the variable on ", to_string(graph_[n].device)});
  return text;
}

WEFT_DECL std::string placement::full_name(device_number d) const {
  if (!tasks_) return str_cat({"/job:localhost/replica:0/task:0", to_string(d)});
  const device_spec& task = tasks_->name_of(d.task);
  return str_cat({"/job:", task.job, "/replica:0/task:", task.task, to_string(d)});
}

WEFT_DECL void placement::refuse_task(std::uint32_t n) const {
  const std::size_t gpus = count();
  throw error(error_code::invalid_argument, graph_[n].name,
              {"is placed on ", to_string(graph_[n].device), ", but a graph runs in one task; this is ",
               self_.has_job() ? to_string(self_) : std::string("a session without a cluster"), ", which has ", cpus_,
               " CPU device(s) and ", gpus,
               " GPU(s): use a device such as \"/device:CPU:0\", or place only variables on parameter servers"});
}

WEFT_DECL device_number placement::decide(std::uint32_t n, const char*& rule) const {
  if (device_number chosen; tasks_ && tasks_->has_placed(n, chosen)) {
    rule = "the client placed it there";
    return chosen;
  }
  const node_def& what = graph_[n].def;
  if (what.op->writes) {
    std::uint32_t variable = what.inputs[0].node;
    while (graph_[variable].def.op->alias) variable = graph_[variable].def.inputs[0].node;
    const device_number d = decide(variable, rule);
    rule = "the variable that it writes is there";
    return d;
  }
  if (graph_[n].beside != graph_node::no_node) {
    const device_number d = decide(first_of_group(n), rule);
    rule = "the node that it is colocated with is there";
    return d;
  }
  if (tasks_) return tasks_->place(*this, n, rule);
  const device_spec& asked = graph_[n].device;
  const bool elsewhere = is_elsewhere(asked);
  if (elsewhere && !soft_ && !is_variable(n)) refuse_task(n);
  const bool own = elsewhere || !asked.has_kind();
  const device_spec& want = own ? preferred_ : asked;
  rule = elsewhere ? "the session's own choice, since the node names another task"
         : own     ? "the session's own choice, since the node names no device"
                   : "the node names it";
  if (is_of_kind(want, cuda::name)) {
    const std::uint32_t ordinal = number_of(want);
    const std::size_t gpus = count();
    if (ordinal >= gpus) {
      rule = "the GPU that the node names does not exist";
      if (soft_) return {};
      throw error(error_code::invalid_argument, graph_[n].name,
                  {"is placed on ", to_string(want), ", but the session has ", gpus, " GPU(s): ",
                   gpus == 0 ? no_gpu_reason() : std::string("use one of them, or set allow_soft_placement")});
    }
    const std::uint32_t without = without_kernel(n);
    if (without == graph_node::no_node) return {true, ordinal};
    rule = without == n ? "it has no kernel for a GPU" : "a node colocated with it has no kernel for a GPU";
    if (own || soft_) return {};
    throw error(error_code::unimplemented, graph_[without].name,
                {graph_[without].def.op->name, " is placed on ", to_string(want),
                 " and has no kernel for a GPU here: a CUDA compiler compiles expressions for GPUs; "
                 "session_options::allow_soft_placement runs the rest on the CPU"});
  }
  if (want.has_kind() && !is_of_kind(want, cpu::name))
    throw error(
        error_code::unimplemented, graph_[n].name,
        {"is placed on ", to_string(want), ", but a session has only CPU devices and GPUs: use cpu{n} or cuda{n}"});
  const std::uint32_t ordinal = number_of(want);
  if (ordinal >= cpus_) {
    rule = "the CPU device that the node names does not exist";
    if (soft_) return {};
    throw error(error_code::invalid_argument, graph_[n].name,
                {"is placed on ", to_string(want), ", but the session has ", cpus_,
                 " CPU device(s): set session_options::devices"});
  }
  return {false, ordinal};
}

WEFT_DECL std::uint32_t placement::first_of_group(std::uint32_t n) const {
  while (graph_[n].beside != graph_node::no_node) n = graph_[n].beside;
  return n;
}

WEFT_DECL std::uint32_t placement::without_kernel(std::uint32_t n) const {
  if (!has_kernel(graph_[n].def) || !subgraphs_have_kernels(graph_[n].def)) return n;
  for (const std::uint32_t c : graph_.colocated())
    if (first_of_group(c) == n && !has_kernel(graph_[c].def)) return c;
  return graph_node::no_node;
}

WEFT_DECL bool placement::has_kernel(const node_def& what) {
  if (!what.op->prepare_cpu || what.op->alias) return true;  // no kernel runs
  const gpu::preparation* p = what.op->gpu;
  return p && p->prepare && (!p->exists || p->exists(what));
}

__attribute__((noinline)) WEFT_DECL bool placement::subgraphs_have_kernels(const node_def& what) const {
  for (const std::uint32_t b : what.subgraphs) {
    const graph& subgraph = graph_.subgraph_at(b).nodes;
    for (std::uint32_t n = 0; n < subgraph.size(); ++n)
      if (!has_kernel(subgraph[n].def) || !subgraphs_have_kernels(subgraph[n].def)) return false;
  }
  return true;
}

#endif

}  // namespace weft::plan

WEFT_COLD_END
