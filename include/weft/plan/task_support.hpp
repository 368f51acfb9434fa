#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/graph/device_spec.hpp>
#include <weft/plan/device_number.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft {

class graph;
class kernel;
struct value_info;

namespace plan {

class placement;
struct binding;
struct instruction;
struct program;
class variable_state;

/// The part that other tasks play in a step.
class task_step {
 public:
  virtual ~task_step() = default;
  /// A pass: leaves the instructions of this task, and adds sends and receives.
  virtual void cut(program&) = 0;
  /// The kernel of a send or a receive. `infos`: of each buffer.
  virtual kernel* prepare(const program&, const instruction&, const value_info* infos) = 0;
  /// Takes over the kernel of an operation that is `ordered`, which may wait for what other steps do: `waits`; or that
  /// has subgraphs, and may run for ever.
  virtual kernel* around(kernel* k, bool /*waits*/) { return k; }
  /// Runs the step; `execute(part)` runs the instructions of this task. `position`: in the random numbers.
  virtual void run(const program&, const binding&, std::int64_t position, void* part, void (*execute)(void*)) = 0;
};

/// A session's hold on the tasks that its steps span. Sessions without a target do not pay for it:
/// <weft/distributed/remote/graph_service.hpp> is behind this.
class task_support {
 public:
  virtual ~task_support() = default;
  /// The number of this task. Who asks for steps, feeds and fetches comes after all tasks.
  virtual std::uint32_t self() const = 0;
  virtual const device_spec& name_of(std::uint32_t task) const = 0;
  /// Where a node runs that writes no variable and is colocated with none, and by which rule. Throws invalid_argument
  /// that lists the devices if none fits.
  virtual device_number place(const placement&, std::uint32_t node, const char*& rule) const = 0;
  /// In a task that runs its part of other sessions' steps: the device that the client has chosen for a node. Returns
  /// false in a client.
  virtual bool has_placed(std::uint32_t /*node*/, device_number&) const { return false; }
  /// In such a task: the variable of this node, if a session has used it before. Returns false otherwise.
  virtual bool find_variable(std::uint32_t /*node*/, const value_info&, variable_state&) const { return false; }
  /// The container of the session's variables.
  virtual void use_container(const std::string&) {}
  /// Whether a device differs from what was asked for.
  virtual bool moved(const device_spec& asked, device_number) const = 0;
  virtual task_step* new_step() = 0;
  /// The names of all devices: "/job:worker/task:1/device:CPU:0".
  virtual sequence<std::string> devices() const = 0;
  /// A variable of another task, on its way to this one and back.
  virtual void read_variable(std::uint32_t node, device_number where, void* to) = 0;
  virtual void write_variable(std::uint32_t node, device_number where, const void* from) = 0;
  /// Gives a variable of another task its first value if it has none.
  virtual void initialize_variable(std::uint32_t /*node*/, device_number /*where*/) {}
  /// Closes the queues and sections of these containers in all tasks, and forgets their variables.
  virtual void reset_containers(const std::string* /*names*/, std::size_t /*count*/) {}
};

/// Connects a session to the cluster of the task at an address, "weft://host:port"; null in programs that do not
/// include <weft/distributed/remote/graph_client.hpp>.
inline WEFT_API task_support* (*connect_to_address)(const std::string& address, const graph&) = nullptr;

}  // namespace plan
}  // namespace weft
