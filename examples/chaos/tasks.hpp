// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "task.hpp"

/// A second network of this machine, where the system permits it (ip, and root): a namespace that one cable connects
/// with the machine.
class second_network {
 public:
  second_network();
  second_network(const second_network&) = delete;
  ~second_network();

  /// Why it is not there; empty: it is.
  const std::string& lack() const { return lack_; }
  const char* this_side() const { return "10.213.77.1"; }
  const char* other_side() const { return "10.213.77.2"; }
  /// Pulls the cable, or plugs it in.
  void connect(bool connected) const;
  /// Moves this process there.
  void enter() const;

 private:
  bool run(const std::string& command) const;

  std::string name_, cable_, lack_;
};

/// A process of a run.
struct task_process {
  bool is_server = false;
  int index = 0;
  pid_t id = -1;
  std::int64_t started = 0, first_step = 0;  ///< times; 0: not yet
  bool is_over = false, is_hit = false, has_finished = false;
  int status = 0;
  std::string failure, digest;
  double accuracy = 0;
};

/// The processes of a cluster on this machine: starts them, takes what they tell, and ends them.
class tasks {
 public:
  /// `other`: where the last worker runs; nullptr: on this network like the others.
  tasks(const cluster_plan& plan, std::int64_t steps, std::chrono::microseconds pause, const second_network* other);
  tasks(const tasks&) = delete;
  ~tasks();

  /// Returns the number of the process that is started.
  int start(bool server, int index);
  /// Takes events until `done()` holds or the time is over, and returns what `done()` says then.
  bool await(std::chrono::milliseconds time, const std::function<bool()>& done);
  void signal(int process, int number);

  const cluster_plan& plan() const { return plan_; }
  const std::vector<task_process>& processes() const { return processes_; }
  /// The process that does, or last did, the work of a server or worker.
  int process_of(bool is_server, int index) const;
  void set_hit(int process) { processes_[static_cast<std::size_t>(process)].is_hit = true; }
  std::int64_t steps() const { return steps_; }
  /// The last step that any worker has completed; -1: none.
  std::int64_t at() const { return at_; }
  const std::vector<event>& events() const { return events_; }
  /// Why the run has failed: a process that nobody hit has ended with an error. Empty: it has not.
  std::string failure() const;

 private:
  void take(const event& e);
  void reap();

  const cluster_plan& plan_;
  std::int64_t steps_;
  std::chrono::microseconds pause_;
  const second_network* other_;
  int listen_ = -1, tell_ = -1;
  std::vector<int> held_;  // ports that are bound, so that nobody else is given them
  std::string servers_, workers_, shards_;
  std::vector<task_process> processes_;
  std::vector<event> events_;
  std::int64_t at_ = -1;
};

/// Whether the driver itself was told to end.
bool is_interrupted();
void heed_signals();
