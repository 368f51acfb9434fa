#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/transport/endpoint.hpp>

namespace weft {

/// One process of a cluster: "/job:worker/task:1".
struct task_id {
  std::string job;
  int index = 0;

  friend bool operator==(const task_id&, const task_id&) = default;
};

inline std::string to_string(const task_id& task) { return str_cat({"/job:", task.job, "/task:", task.index}); }

/// Which jobs a cluster has, and where each of their tasks listens. As in TensorFlow, equal on every task: its hash is
/// compared when tasks meet.
class cluster_spec {
 public:
  cluster_spec() = default;

  /// The addresses of a job's tasks: one text, separated by commas, or a list.
  class addresses {
   public:
    template <class Text>
    requires std::is_convertible_v<const Text&, std::string_view> addresses(const Text& text)
        : text_(std::string_view(text)) {}
    // A list of two texts would else be the two ends of one.
    addresses(std::initializer_list<std::string_view> list) {
      for (const std::string_view one : list) text_.append(text_.empty() ? "" : ",").append(one);
    }
    const std::string& text() const { return text_; }

   private:
    std::string text_;
  };

  /// cluster_spec{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223,127.0.0.1:2224"}}, or with lists as TensorFlow
  /// has them, {"worker", {"127.0.0.1:2223", "127.0.0.1:2224"}}: for each job its tasks' addresses. A job with an empty
  /// list has no tasks. Throws weft::error (invalid_argument) for a bad job name or address, a job given twice, and an
  /// address given twice.
  cluster_spec(std::initializer_list<std::pair<std::string_view, addresses>> jobs) {
    for (const auto& [job, of_tasks] : jobs) add_job(job, of_tasks.text());
  }

  /// Adds one job from "host:port,host:port,...".
  void add_job(std::string_view job, std::string_view addresses) {
    std::vector<endpoint> tasks;
    if (!addresses.empty())
      for (std::size_t at = 0; at <= addresses.size();) {
        const std::size_t comma = std::min(addresses.find(',', at), addresses.size());
        tasks.push_back(parse_endpoint(addresses.substr(at, comma - at)));
        at = comma + 1;
      }
    add_job(job, std::move(tasks));
  }

  void add_job(std::string_view job, std::vector<endpoint> tasks) {
    const auto fail = [](std::initializer_list<piece> why) {
      throw error(error_code::invalid_argument, "cluster_spec", why);
    };
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    const auto other = [](char c) { return (c >= '0' && c <= '9') || c == '_'; };
    if (job.empty() || !letter(job[0]) ||
        !std::all_of(job.begin(), job.end(), [&](char c) { return letter(c) || other(c); }))
      fail({"a job name is a letter, then letters, digits and underscores; '", std::string(job), "' is not"});
    const std::string name(job);
    if (jobs_.contains(name)) fail({"job '", name, "' is given twice; give every job once"});
    std::map<std::string, task_id> taken;
    for (const auto& [other_job, places] : jobs_)
      for (std::size_t i = 0; i < places.size(); ++i) taken[to_string(places[i])] = {other_job, static_cast<int>(i)};
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].port == 0) continue;  // any free port: cannot clash
      const task_id here{name, static_cast<int>(i)};
      const auto [earlier, fresh] = taken.try_emplace(to_string(tasks[i]), here);
      if (!fresh)
        fail({to_string(tasks[i]), " is the address of both ", to_string(earlier->second), " and ", to_string(here),
              "; give every task its own"});
    }
    jobs_.emplace(name, std::move(tasks));
  }

  bool empty() const { return jobs_.empty(); }

  /// The jobs' names, sorted.
  std::vector<std::string> jobs() const {
    std::vector<std::string> names;
    for (const auto& [job, tasks] : jobs_) names.push_back(job);
    return names;
  }

  bool has_job(std::string_view job) const { return jobs_.contains(std::string(job)); }

  /// How many tasks the job has; 0 for a job that does not exist.
  int num_tasks(std::string_view job) const {
    const auto found = jobs_.find(std::string(job));
    return found == jobs_.end() ? 0 : static_cast<int>(found->second.size());
  }

  /// Throws weft::error (not_found) for a job or task that the cluster does not have.
  const endpoint& task_address(std::string_view job, int index) const {
    const auto found = jobs_.find(std::string(job));
    if (found == jobs_.end())
      throw error(error_code::not_found, "cluster_spec",
                  {"there is no job '", std::string(job), "' in the cluster ", to_string(*this)});
    if (index < 0 || static_cast<std::size_t>(index) >= found->second.size())
      throw error(
          error_code::not_found, "cluster_spec",
          {"there is no task ", index, " in job '", std::string(job), "', which has ", found->second.size(), " tasks"});
    return found->second[static_cast<std::size_t>(index)];
  }

  /// All tasks: jobs sorted by name, tasks by index. A task's place in this list is its rank in the cluster.
  std::vector<task_id> tasks() const {
    std::vector<task_id> all;
    for (const auto& [job, places] : jobs_)
      for (std::size_t i = 0; i < places.size(); ++i) all.push_back({job, static_cast<int>(i)});
    return all;
  }

  /// The place of a task in tasks(). Throws weft::error (not_found).
  std::size_t rank(const task_id& task) const {
    task_address(task.job, task.index);
    std::size_t before = 0;
    for (const auto& [job, places] : jobs_) {
      if (job == task.job) break;
      before += places.size();
    }
    return before + static_cast<std::size_t>(task.index);
  }

  /// How many tasks listen at the same host as this one does, itself included.
  std::size_t tasks_on_host_of(const task_id& task) const {
    const std::string& host = task_address(task.job, task.index).host;
    std::size_t count = 0;
    for (const auto& [job, places] : jobs_)
      for (const endpoint& place : places)
        count += place.host == host || (is_loopback(place.host) && is_loopback(host));
    return count;
  }

  /// 64 bits of the canonical text, to compare clusters by (FNV-1a).
  std::uint64_t hash() const {
    std::uint64_t value = 0xcbf29ce484222325u;
    for (const char c : to_string(*this)) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return value;
  }

  /// Canonical text, "ps=127.0.0.1:2222;worker=127.0.0.1:2223,127.0.0.1:2224": equal for equal clusters.
  friend std::string to_string(const cluster_spec& cluster) {
    std::string text;
    for (const auto& [job, places] : cluster.jobs_) {
      if (!text.empty()) text += ';';
      text += job + '=';
      for (std::size_t i = 0; i < places.size(); ++i) append(text, {(i ? "," : ""), to_string(places[i])});
    }
    return text;
  }

  friend bool operator==(const cluster_spec&, const cluster_spec&) = default;

 private:
  std::map<std::string, std::vector<endpoint>> jobs_;
};

}  // namespace weft
