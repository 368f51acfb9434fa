// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

/// The tasks of a cluster that trains a classifier, and what they tell the process that has started them.

enum class training_by { synchronous_servers, asynchronous_servers, all_reduce };

/// How training continues after the wait for a process in place of a lost worker.
enum class after_wait { stop, shrink, take_over };

/// How a cluster trains, and how it goes on when a task is lost.
struct cluster_plan {
  const char* name;
  training_by how;
  int servers;
  std::chrono::milliseconds wait;  ///< for a process that takes a lost worker's place
  after_wait then;
  bool has_shards = false;  ///< servers write shards, so that they can be replaced
  int workers = 3;
};

struct event {
  enum what : std::int32_t {
    joined,    ///< trains from `step` on
    step,      ///< has completed `step`, whose cost was `number`
    lost,      ///< another task was lost: `text`
    left,      ///< was told to end, and has left
    finished,  ///< `text`: the digest of all values; `number`: the test accuracy
    failed,    ///< `text`: why
  };
  std::int64_t time = 0;  ///< nanoseconds of the system's monotonic clock
  what kind = joined;
  std::int32_t process = 0;  ///< which process of the run: each that is started has another number
  std::int64_t at = 0;       ///< the step
  double number = 0;
  char text[400] = {};
};

struct task_place {
  std::string servers, workers;  ///< their addresses, separated by commas
  std::string shards;            ///< the folder of the servers' shards; empty: they write none
  bool is_server = false;
  int index = 0;
  int process = 0;
  int tell = -1;  ///< a pipe that takes events; they are smaller than PIPE_BUF, so that they stay whole
};

std::int64_t nanoseconds_now();

/// Reads the images that all tasks train on. Tasks are copies of this process, so they do not read them again.
void read_images(const std::string& folder);

/// Does the work of a task. Returns the exit status.
int be_task(const cluster_plan& plan, const task_place& here, std::int64_t steps, std::chrono::microseconds pause);
