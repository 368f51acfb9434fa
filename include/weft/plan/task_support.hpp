// SPDX-License-Identifier: BSL-1.0
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

/// The part of a step that involves other tasks.
class task_step {
 public:
  virtual ~task_step() = default;
  /// A pass that keeps the instructions of this task and adds sends and receives.
  virtual void cut(program&) = 0;
  /// Creates the kernel of a send or a receive. `infos`: for each buffer.
  virtual kernel* prepare(const program&, const instruction&, const value_info* infos) = 0;
  /// Wraps the kernel of an `ordered` operation, which may wait for other steps (`waits`), or of an operation with
  /// subgraphs, which may run indefinitely.
  virtual kernel* around(kernel* k, bool /*waits*/) { return k; }
  /// Runs the step; `execute(part)` runs the instructions of this task. `position`: the random position.
  virtual void run(const program&, const binding&, std::int64_t position, void* part, void (*execute)(void*)) = 0;
};

/// The tasks that a session's steps span, implemented in <weft/distributed/remote/graph_service.hpp>. An interface, so
/// that sessions without a target do not compile the implementation.
class task_support {
 public:
  virtual ~task_support() = default;
  /// The number of this task. A client, which requests, feeds and fetches steps, has the number after all tasks.
  virtual std::uint32_t self() const = 0;
  virtual const device_spec& name_of(std::uint32_t task) const = 0;
  /// Returns the device of a node that neither writes a variable nor is colocated, and the rule that applied. Throws
  /// invalid_argument, with a list of devices, if none matches.
  virtual device_number place(const placement&, std::uint32_t node, const char*& rule) const = 0;
  /// Returns the device that the client has chosen for a node, in a task that runs its part of other sessions' steps.
  /// Returns false in a client.
  virtual bool has_placed(std::uint32_t /*node*/, device_number&) const { return false; }
  /// Finds the variable of a node in such a task, if a session has used it before. Otherwise returns false.
  virtual bool find_variable(std::uint32_t /*node*/, const value_info&, variable_state&) const { return false; }
  /// Sets the container of the session's variables.
  virtual void use_container(const std::string&) {}
  /// Returns true if a device differs from the requested one.
  virtual bool moved(const device_spec& asked, device_number) const = 0;
  virtual task_step* new_step() = 0;
  /// Returns the names of all devices, such as "/job:worker/task:1/device:CPU:0".
  virtual sequence<std::string> devices() const = 0;
  /// Transfers a variable of another task to this one, or back.
  virtual void read_variable(std::uint32_t node, device_number where, void* to) = 0;
  virtual void write_variable(std::uint32_t node, device_number where, const void* from) = 0;
  /// Initializes a variable of another task if it has no value.
  virtual void initialize_variable(std::uint32_t /*node*/, device_number /*where*/) {}
  /// Closes the queues and sections of these containers in all tasks and removes their variables.
  virtual void reset_containers(const std::string* /*names*/, std::size_t /*count*/) {}
};

/// Connects a session to the cluster of the task at an address, "weft://host:port". Null in programs that do not
/// include <weft/distributed/remote/graph_client.hpp>.
inline WEFT_API task_support* (*connect_to_address)(const std::string& address, const graph&) = nullptr;

}  // namespace plan
}  // namespace weft
