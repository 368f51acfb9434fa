// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/transport/endpoint.hpp>
#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <algorithm>
  #include <charconv>
  #include <iterator>
  #include <system_error>

  #include <weft/printable.hpp>
#endif

namespace weft {

/// One process of a cluster: "/job:worker/task:1".
struct task_id {
  std::string job;
  int index = 0;

  friend bool operator==(const task_id&, const task_id&) = default;
};

/// "/job:worker/task:1"
inline std::string to_string(const task_id& task) { return str_cat({"/job:", task.job, "/task:", task.index}); }

struct task_environment;
struct environment_options;

/// The jobs of a cluster and the addresses of their tasks. Must be equal on every task, as in TensorFlow: tasks compare
/// its hash when they connect. A job can be sparse: a map from task numbers to addresses, with gaps.
class cluster_spec {
 public:
  cluster_spec();
  cluster_spec(const cluster_spec& other);
  cluster_spec(cluster_spec&& other) noexcept;
  cluster_spec& operator=(const cluster_spec& other);
  cluster_spec& operator=(cluster_spec&& other) noexcept;
  ~cluster_spec();

  /// Returns the cluster and this process's place in it, from the environment: see
  /// <weft/distributed/cluster/environment.hpp>.
  static task_environment from_environment();
  static task_environment from_environment(const environment_options& options);
  template <class = void>
  static auto from_environment(...) WEFT_DELETED;  // of environment_options in distributed/cluster/environment.hpp

  /// Returns the same from a list of hosts, one for each task: see <weft/distributed/cluster/environment.hpp>.
  static task_environment from_hosts(std::string_view hosts, const environment_options& options,
                                     std::optional<int> rank = {});

  /// The addresses of a job's tasks: one text, separated by commas; a list of texts; or a map, {{0, "host:1"}, {3,
  /// "host:2"}}.
  class addresses {
   public:
    addresses() = default;
    template <class Text>
      requires std::is_convertible_v<const Text&, std::string_view>
    addresses(const Text& text) : text_(std::string_view(text)) {}
    // Without this overload, a list of two texts would construct one std::string_view from two pointers.
    addresses(std::initializer_list<std::string_view> list) {
      for (const std::string_view one : list) text_.append(text_.empty() ? "" : ",").append(one);
    }
    addresses(std::initializer_list<std::pair<int, std::string_view>> sparse) {
      for (const auto& [index, one] : sparse) append(text_, {text_.empty() ? "" : ",", index, "@", std::string(one)});
    }
    const std::string& text() const { return text_; }

   private:
    std::string text_;
  };

  /// Takes the addresses of each job's tasks: cluster_spec{{"ps", "127.0.0.1:2222"}, {"worker",
  /// "127.0.0.1:2223,127.0.0.1:2224"}}, or lists as in TensorFlow, {"worker", {"127.0.0.1:2223", "127.0.0.1:2224"}}. A
  /// job with an empty list has no tasks. Throws weft::error (invalid_argument) for an invalid job name or address, and
  /// for a job or address given twice.
  cluster_spec(std::initializer_list<std::pair<std::string_view, addresses>> jobs) {
    for (const auto& [job, of_tasks] : jobs) add_job(job, of_tasks.text());
  }

  cluster_spec(std::initializer_list<const char*>) = delete;  // {{"ps", "a:1"}, {"worker", {"b:1", "c:1"}}}

  /// Adds a job from "host:port,host:port,...", or a sparse job from "0@host:port,3@host:port,...".
  void add_job(std::string_view job, std::string_view list);

  void add_job(std::string_view job, const std::vector<endpoint>& tasks);

  /// Adds a sparse job: the addresses by task number. Numbers must not be negative.
  void add_job(std::string_view job, std::map<int, endpoint> tasks);

  /// Throws weft::error (invalid_argument) if a task has port 0 (any free port), where other tasks could not find it.
  void check_ports() const;

  bool empty() const { return jobs_.empty(); }

  /// Returns the names of the jobs, sorted.
  std::vector<std::string> jobs() const;

  bool has_job(std::string_view job) const;

  /// Returns the number of the job's tasks; 0 for a job that does not exist.
  int num_tasks(std::string_view job) const;

  /// Returns the numbers of the job's tasks in ascending order; empty for a job that does not exist.
  std::vector<int> task_indices(std::string_view job) const;

  bool has_task(const task_id& task) const;

  /// Returns true if the job's tasks are numbered from 0 without gaps.
  bool is_dense(std::string_view job) const;

  /// Throws weft::error (not_found) for a job or task that the cluster does not have.
  const endpoint& task_address(std::string_view job, int index) const;

  /// Returns all tasks: jobs sorted by name, tasks by index. A task's position in this list is its rank in the cluster.
  std::vector<task_id> tasks() const;

  /// Returns the position of a task in tasks(). Throws weft::error (not_found).
  std::size_t rank(const task_id& task) const;

  /// Returns the number of tasks on the same host as this task, including the task itself.
  std::size_t tasks_on_host_of(const task_id& task) const;

  /// Returns a 64-bit hash of the canonical text (FNV-1a), for comparisons.
  std::uint64_t hash() const;

  /// Returns the canonical text, "ps=127.0.0.1:2222;worker=127.0.0.1:2223,127.0.0.1:2224", which is equal for equal
  /// clusters. A sparse job is written "worker=1@127.0.0.1:2223".
  friend std::string to_string(const cluster_spec& cluster);

  friend bool operator==(const cluster_spec& one, const cluster_spec& other);

 private:
  [[noreturn]] static void fail(std::initializer_list<piece> why) {
    throw error(error_code::invalid_argument, "cluster_spec", why);
  }

  static bool is_dense(const std::map<int, endpoint>& places);

  std::map<std::string, std::map<int, endpoint>> jobs_;
};

/// Throws weft::error (failed_precondition) if the job is sparse. Required for jobs whose tasks divide work by index.
void check_dense(const cluster_spec& cluster, const std::string& job);

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL cluster_spec::cluster_spec() = default;
WEFT_DISTRIBUTED_DECL cluster_spec::cluster_spec(const cluster_spec&) = default;
WEFT_DISTRIBUTED_DECL cluster_spec::cluster_spec(cluster_spec&&) noexcept = default;
WEFT_DISTRIBUTED_DECL cluster_spec& cluster_spec::operator=(const cluster_spec&) = default;
WEFT_DISTRIBUTED_DECL cluster_spec& cluster_spec::operator=(cluster_spec&&) noexcept = default;
WEFT_DISTRIBUTED_DECL cluster_spec::~cluster_spec() = default;

WEFT_DISTRIBUTED_DECL void cluster_spec::add_job(std::string_view job, std::string_view list) {
  std::map<int, endpoint> tasks;
  const bool sparse = list.find('@') != std::string_view::npos;
  if (!list.empty())
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t comma = std::min(list.find(',', at), list.size());
      std::string_view one = list.substr(at, comma - at);
      int index = static_cast<int>(tasks.size());
      if (sparse) {
        const char* const end = one.data() + std::min(one.find('@'), one.size());
        const auto [stop, problem] = std::from_chars(one.data(), end, index);
        if (problem != std::errc{} || stop != end || end == one.data() + one.size())
          fail({"'", std::string(one), "' is not TASK@host:port (example: 3@127.0.0.1:2222)"});
        one.remove_prefix(static_cast<std::size_t>(end - one.data()) + 1);
      }
      if (!tasks.try_emplace(index, parse_endpoint(one)).second)
        fail({"task ", index, " of job '", std::string(job), "' is given twice; give every task once"});
      at = comma + 1;
    }
  add_job(job, std::move(tasks));
}

WEFT_DISTRIBUTED_DECL void cluster_spec::add_job(std::string_view job, const std::vector<endpoint>& tasks) {
  std::map<int, endpoint> numbered;
  for (const endpoint& each : tasks) numbered.emplace(static_cast<int>(numbered.size()), each);
  add_job(job, std::move(numbered));
}

WEFT_DISTRIBUTED_DECL void cluster_spec::add_job(std::string_view job, std::map<int, endpoint> tasks) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto other = [](char c) { return (c >= '0' && c <= '9') || c == '_'; };
  if (job.empty() || !letter(job[0]) ||
      !std::all_of(job.begin(), job.end(), [&](char c) { return letter(c) || other(c); }))
    fail({"a job name must be a letter followed by letters, digits and underscores; it is '", printable(job, 64), "'"});
  const std::string name(job);
  if (jobs_.contains(name)) fail({"job '", name, "' is given twice; give every job once"});
  if (!tasks.empty() && tasks.begin()->first < 0)
    fail({"tasks are numbered from 0, but job '", name, "' has a task ", tasks.begin()->first});
  std::map<std::string, task_id> taken;
  for (const auto& [other_job, places] : jobs_)
    for (const auto& [index, place] : places) taken[to_string(place)] = {other_job, index};
  for (const auto& [index, place] : tasks) {
    if (place.port == 0) continue;  // any free port; it cannot clash
    const task_id here{name, index};
    const auto [earlier, fresh] = taken.try_emplace(to_string(place), here);
    if (!fresh)
      fail({to_string(place), " is the address of both ", to_string(earlier->second), " and ", to_string(here),
            "; give every task its own address"});
  }
  jobs_.emplace(name, std::move(tasks));
}

WEFT_DISTRIBUTED_DECL void cluster_spec::check_ports() const {
  for (const auto& [job, places] : jobs_)
    for (const auto& [index, place] : places)
      if (place.port == 0)
        fail({to_string(task_id{job, index}), " has port 0 (", to_string(place),
              "), which means any port, but the other tasks must know the port; give the task a fixed port, or use "
              "cluster_spec::from_environment()"});
}

WEFT_DISTRIBUTED_DECL std::vector<std::string> cluster_spec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [job, tasks] : jobs_) names.push_back(job);
  return names;
}

WEFT_DISTRIBUTED_DECL bool cluster_spec::has_job(std::string_view job) const {
  return jobs_.contains(std::string(job));
}

WEFT_DISTRIBUTED_DECL int cluster_spec::num_tasks(std::string_view job) const {
  const auto found = jobs_.find(std::string(job));
  return found == jobs_.end() ? 0 : static_cast<int>(found->second.size());
}

WEFT_DISTRIBUTED_DECL std::vector<int> cluster_spec::task_indices(std::string_view job) const {
  std::vector<int> indices;
  if (const auto found = jobs_.find(std::string(job)); found != jobs_.end())
    for (const auto& [index, place] : found->second) indices.push_back(index);
  return indices;
}

WEFT_DISTRIBUTED_DECL bool cluster_spec::has_task(const task_id& task) const {
  const auto found = jobs_.find(task.job);
  return found != jobs_.end() && found->second.contains(task.index);
}

WEFT_DISTRIBUTED_DECL bool cluster_spec::is_dense(std::string_view job) const {
  const auto found = jobs_.find(std::string(job));
  return found == jobs_.end() || is_dense(found->second);
}

WEFT_DISTRIBUTED_DECL const endpoint& cluster_spec::task_address(std::string_view job, int index) const {
  const auto found = jobs_.find(std::string(job));
  if (found == jobs_.end())
    throw error(error_code::not_found, "cluster_spec",
                {"the cluster ", to_string(*this), " has no job '", std::string(job), "'"});
  const auto place = found->second.find(index);
  if (place == found->second.end())
    throw error(error_code::not_found, "cluster_spec",
                {"the cluster has no task ", index, " in job '", std::string(job), "', which has ",
                 found->second.size(), " tasks", is_dense(found->second) ? "" : " with explicit numbers"});
  return place->second;
}

WEFT_DISTRIBUTED_DECL std::vector<task_id> cluster_spec::tasks() const {
  std::vector<task_id> all;
  for (const auto& [job, places] : jobs_)
    for (const auto& [index, place] : places) all.push_back({job, index});
  return all;
}

WEFT_DISTRIBUTED_DECL std::size_t cluster_spec::rank(const task_id& task) const {
  task_address(task.job, task.index);
  std::size_t before = 0;
  for (const auto& [job, places] : jobs_) {
    if (job == task.job) {
      const auto its_place = places.find(task.index);
      return before + static_cast<std::size_t>(std::distance(places.begin(), its_place));
    }
    before += places.size();
  }
  return before;
}

WEFT_DISTRIBUTED_DECL std::size_t cluster_spec::tasks_on_host_of(const task_id& task) const {
  const std::string& host = task_address(task.job, task.index).host;
  std::size_t count = 0;
  for (const auto& [job, places] : jobs_)
    for (const auto& [index, place] : places)
      count += place.host == host || (is_loopback(place.host) && is_loopback(host));
  return count;
}

WEFT_DISTRIBUTED_DECL std::uint64_t cluster_spec::hash() const {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char c : to_string(*this)) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

WEFT_DISTRIBUTED_DECL bool cluster_spec::is_dense(const std::map<int, endpoint>& places) {
  return places.empty() || static_cast<std::size_t>(places.rbegin()->first) + 1 == places.size();
}

WEFT_DISTRIBUTED_DECL std::string to_string(const cluster_spec& cluster) {
  std::string text;
  for (const auto& [job, places] : cluster.jobs_) {
    if (!text.empty()) text += ';';
    text += job + '=';
    const bool dense = cluster_spec::is_dense(places);
    const char* comma = "";
    for (const auto& [index, place] : places) {
      append(text, {comma, dense ? "" : str_cat({index, "@"}), to_string(place)});
      comma = ",";
    }
  }
  return text;
}

WEFT_DISTRIBUTED_DECL bool operator==(const cluster_spec& one, const cluster_spec& other) {
  return one.jobs_ == other.jobs_;
}

WEFT_DISTRIBUTED_DECL void check_dense(const cluster_spec& cluster, const std::string& job) {
  if (!cluster.is_dense(job))
    throw error(
        error_code::failed_precondition, "cluster_spec",
        {"the tasks of job '", job,
         "' must be numbered from 0 without gaps, because they divide the work; the cluster is ", to_string(cluster)});
}

#endif

}  // namespace weft
