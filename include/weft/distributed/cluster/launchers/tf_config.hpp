// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/environment_variable.hpp>
#include <weft/distributed/cluster/task_environment.hpp>
#include <weft/encoding/json.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>

namespace weft::detail {

/// The contents of TF_CONFIG, with TensorFlow's job names.
struct tf_config {
  std::map<std::string, std::map<int, endpoint>> cluster;
  std::string type;
  std::optional<int> index;

  /// Returns nothing if TF_CONFIG defines no cluster: TensorFlow treats {} as training in a single process.
  static std::optional<tf_config> read(const environment_variable& text) {
    static constexpr std::size_t max_bytes = std::size_t{8} << 20;
    if (text.value.size() > max_bytes) text.fail({"is longer than ", max_bytes, " bytes"});
    tf_config config;
    bool has_task = false, is_sparse = false;
    try {
      json_reader in(text.value, text.name, 0);
      in.object([&](const std::string& key) {
        if (key == "cluster")
          config.read_cluster(in);
        else if (key == "task")
          has_task = true, config.read_task(in);
        else
          is_sparse |= key == "sparseCluster", in.skip();
      });
      in.end();
    } catch (const error& problem) {
      text.fail({"is not in the format of TensorFlow: ", problem.sentence()});
    }
    if (config.cluster.empty()) {
      if (is_sparse)
        text.fail(
            {"has a \"sparseCluster\", which lists only a part of the cluster; Weft requires a \"cluster\" "
             "that lists all tasks: set enableDynamicWorker to false in the TFJob"});
      const bool is_alone =
          config.type.empty() || config.type == "worker" || config.type == "chief" || config.type == "master";
      if (is_alone && config.index.value_or(0) == 0) return {};
      text.fail({"has a \"task\" but no \"cluster\"; the format is {\"cluster\": {...}, \"task\": {...}}"});
    }
    if (!has_task) text.fail({"has no \"task\"; the format is {\"type\": \"worker\", \"index\": 0}"});
    if (config.type.empty()) text.fail({"has no \"type\" in its \"task\""});
    return config;
  }

 private:
  static int task_number(json_reader& in, std::string_view digits) {
    int number = 0;
    const auto [stop, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (digits.empty() || problem != std::errc{} || stop != digits.data() + digits.size() || number < 0 ||
        static_cast<std::size_t>(number) >= max_environment_tasks)
      in.fail(str_cat({"'", printable(digits, 64), "' is not a task number"}));
    return number;
  }

  void read_cluster(json_reader& in) {
    if (!cluster.empty()) in.fail("\"cluster\" is given twice");
    std::size_t count = 0;
    in.object([&](const std::string& job) {
      if (cluster.contains(job)) in.fail(str_cat({"job '", printable(job, 64), "' is given twice"}));
      std::map<int, endpoint>& tasks = cluster[job];
      const auto add = [&](int number) {
        if (++count > max_environment_tasks) in.fail("there are too many tasks");
        if (!tasks.try_emplace(number, parse_endpoint(in.string())).second)
          in.fail(str_cat({"task ", number, " is given twice"}));
      };
      int next = 0;
      if (in.peek() == '{')
        in.object([&](const std::string& number) { add(task_number(in, number)); });
      else if (in.peek() == '"')
        add(0);
      else
        in.array([&] { add(next++); });
    });
  }

  void read_task(json_reader& in) {
    if (!type.empty()) in.fail("\"task\" is given twice");
    in.object([&](const std::string& key) {
      if (key == "type")
        type = in.string();
      else if (key == "index")
        index = in.peek() == '"' ? task_number(in, in.string()) : task_number(in, std::to_string(in.number()));
      else
        in.skip();
    });
  }
};

/// Converts TensorFlow's jobs to Weft's: the task of an estimator's job "chief" (or "master") becomes worker 0, and the
/// indices of the workers grow by one.
inline task_environment from_tf_config(const environment_variable& text, tf_config config,
                                       const environment_options& options) {
  task_environment here;
  here.source = text.name;
  here.job = config.type;
  if (config.type == "evaluator")
    text.fail(
        {"makes this process the evaluator, which is not a task of the cluster; run it as a separate program that "
         "evaluates the cluster's checkpoints"});
  int index = config.index.value_or(0);
  const auto of_type = config.cluster.find(config.type);
  if (of_type == config.cluster.end())
    text.fail({"has no job '", printable(config.type, 64), "' in its \"cluster\", but its \"task\" is of that job"});
  if (!config.index && of_type->second.size() != 1)
    text.fail({"has no \"index\" in its \"task\", but job '", printable(config.type, 64), "' has ",
               of_type->second.size(), " tasks"});
  if (!of_type->second.contains(index))
    text.fail({"has no task ", index, " in job '", printable(config.type, 64), "', but its \"task\" is that task"});
  for (const char* chief : {"chief", "master"}) {
    const auto found = config.cluster.find(chief);
    if (found == config.cluster.end()) continue;
    if (found->second.size() != 1 || !found->second.contains(0))
      text.fail({"must have one task in job '", chief, "'; it has ", found->second.size()});
    std::map<int, endpoint> workers{{0, found->second[0]}};
    for (const auto& [number, where] : config.cluster[options.worker_job]) workers.emplace(number + 1, where);
    config.cluster[options.worker_job] = std::move(workers);
    config.cluster.erase(chief);
    if (here.job == options.worker_job) ++index;
    if (here.job == chief) here.job = options.worker_job;
  }
  here.index = index;
  try {
    for (auto& [job, tasks] : config.cluster)
      if (job != "evaluator") here.cluster.add_job(job, std::move(tasks));
  } catch (const error& problem) {
    text.fail({"has an invalid cluster: ", problem.sentence()});
  }
  return here;
}

}  // namespace weft::detail
