#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "../command_line.hpp"

/// The command line of TensorFlow's distributed MNIST programs, and what else a run can be told.
struct flags : training_flags {
  std::string job_name, ps_hosts, worker_hosts, strategy = "local";
  std::int64_t task_index = 0, hidden_units = 100, train_steps = 0;

  bool is_chief() const { return job_name.empty() || (job_name == "worker" && task_index == 0); }
};

inline void check_cluster(const flags& f) {
  if (f.strategy == "local") {
    if (!f.job_name.empty() || !f.ps_hosts.empty() || !f.worker_hosts.empty())
      refuse(
          "--strategy local takes no cluster: leave out --job_name, --ps_hosts and --worker_hosts, or choose async, "
          "sync or allreduce");
    return;
  }
  const bool has_servers = f.strategy != "allreduce";
  if (f.job_name != "worker" && f.job_name != "ps")
    refuse("--strategy " + f.strategy + " needs --job_name worker" + (has_servers ? " or ps" : ""));
  if (!has_servers && (f.job_name == "ps" || !f.ps_hosts.empty()))
    refuse("--strategy allreduce has no parameter servers: leave out --ps_hosts and --job_name ps");
  if (has_servers && f.ps_hosts.empty()) refuse("--strategy " + f.strategy + " needs --ps_hosts host:port,...");
  if (f.worker_hosts.empty()) refuse("--strategy " + f.strategy + " needs --worker_hosts host:port,...");
  const std::string& hosts = f.job_name == "ps" ? f.ps_hosts : f.worker_hosts;
  std::int64_t tasks = 1;
  for (char c : hosts) tasks += c == ',';
  check_range("task_index", f.task_index, 0, tasks - 1);
}

/// Reads the command line; nothing where --help was asked for and given. Throws weft::error for a wrong flag.
inline std::optional<flags> parse_flags(int argc, char** argv) {
  flags f;
  f.batch_size = 100, f.epochs = 10, f.learning_rate = 0.5;
  command_line line("Trains a 784-H-10 classifier on Fashion-MNIST, in one process or on a cluster");
  line.add("strategy", f.strategy, {"local", "async", "sync", "allreduce"},
           "local: one process; async, sync: parameter servers; allreduce: workers alone");
  line.add("job_name", f.job_name, "what this process is in the cluster: ps or worker");
  line.add("task_index", f.task_index, 0, INT32_MAX, "which of its job's tasks it is, from 0; worker 0 reports");
  line.add("ps_hosts", f.ps_hosts, "the parameter servers' addresses: host:port,host:port,...");
  line.add("worker_hosts", f.worker_hosts, "the workers' addresses");
  line.add("hidden_units", f.hidden_units, 1, 1'000'000, "width of the hidden layer");
  line.add("train_steps", f.train_steps, 0, 1'000'000'000'000, "steps of all workers together, in place of --epochs");
  f.add_to(line, "of gradient descent");
  if (!line.parse(argc, argv)) return std::nullopt;
  check_cluster(f);
  return f;
}
