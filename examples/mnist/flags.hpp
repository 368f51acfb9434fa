#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <weft/distributed/environment.hpp>

#include "../command_line.hpp"

/// The command line of TensorFlow's distributed MNIST programs, and what else a run can be told.
struct flags : training_flags {
  std::string job_name, ps_hosts, worker_hosts, strategy = "local", input = "feed";
  std::int64_t task_index = 0, hidden_units = 100, input_threads = 1;

  std::optional<weft::task_environment> environment;  // where that tells what these flags did not

  bool is_chief() const { return job_name.empty() || (job_name == "worker" && task_index == 0); }
};

/// How many addresses there are. Refuses one that the other tasks could not know.
inline std::int64_t count_hosts(const char* flag, const std::string& hosts) {
  std::int64_t count = 0;
  for (std::size_t at = 0, end; at < hosts.size(); at = end + 1) {
    end = std::min(hosts.find(',', at), hosts.size());
    if (weft::parse_endpoint(hosts.substr(at, end - at)).port == 0)
      refuse(std::string("--") + flag + " has port 0, which means any; the other tasks must know which");
    ++count;
  }
  return count;
}

/// The flags of the usual run, which reaches what is stated.
inline flags usual_flags() {
  flags f;
  f.epochs = 20, f.adam_rate = 0.004, f.schedule = "cosine";
  return f;
}

/// Whether parameter servers keep the variables.
inline bool has_servers(const flags& f) { return f.strategy == "async" || f.strategy == "sync"; }

/// The cluster that a launcher or a scheduler has told, where the flags name none; one parameter server where it leaves
/// that open.
inline void take_environment(flags& f) {
  if (f.strategy == "local" || !f.job_name.empty() || !f.ps_hosts.empty() || !f.worker_hosts.empty() ||
      !weft::has_cluster_environment())
    return;
  weft::environment_options options;
  options.ps = has_servers(f) ? 1 : 0;
  f.environment = weft::cluster_spec::from_environment(options);
  f.job_name = f.environment->job;
  f.task_index = f.environment->index;
  const auto list = [&](const char* job) {
    std::string hosts;
    for (const int task : f.environment->cluster.task_indices(job))
      hosts += (hosts.empty() ? "" : ",") + to_string(f.environment->cluster.task_address(job, task));
    return hosts;
  };
  f.ps_hosts = list("ps");
  f.worker_hosts = list("worker");
  // All tasks write to one place.
  if (!f.is_chief() && f.progress == weft::progress_mode::automatic) f.progress = weft::progress_mode::none;
}

inline void check_cluster(const flags& f) {
  if (f.strategy == "local") {
    if (!f.job_name.empty() || f.task_index != 0 || !f.ps_hosts.empty() || !f.worker_hosts.empty())
      refuse(
          "--strategy local takes no cluster: leave out --job_name, --task_index, --ps_hosts and --worker_hosts, or "
          "choose async, sync, allreduce or mpi");
    return;
  }
  if (f.job_name != "worker" && f.job_name != "ps")
    refuse("--strategy " + f.strategy + " needs --job_name worker" + (has_servers(f) ? " or ps" : ""));
  if (!has_servers(f) && (f.job_name == "ps" || !f.ps_hosts.empty()))
    refuse("--strategy " + f.strategy + " has no parameter servers: leave out --ps_hosts and --job_name ps");
  if (has_servers(f) && f.ps_hosts.empty()) refuse("--strategy " + f.strategy + " needs --ps_hosts host:port,...");
  if (f.worker_hosts.empty()) refuse("--strategy " + f.strategy + " needs --worker_hosts host:port,...");
#if !defined(WEFT_HAS_MPI)
  if (f.strategy == "mpi")
    refuse(
        "this program was built without MPI: install libopenmpi-dev or libmpich-dev and build it again, or choose "
        "allreduce");
#endif
  const std::int64_t servers = count_hosts("ps_hosts", f.ps_hosts),
                     workers = count_hosts("worker_hosts", f.worker_hosts);
  check_range("task_index", f.task_index, 0, (f.job_name == "ps" ? servers : workers) - 1);
}

/// Reads the command line; nothing where --help was asked for and given. Throws weft::error for a wrong flag.
inline std::optional<flags> parse_flags(int argc, char** argv) {
  flags f = usual_flags();
  command_line line("Trains a 784-H-10 classifier on Fashion-MNIST, in one process or on a cluster");
  line.add(
      "strategy", f.strategy, {"local", "async", "sync", "allreduce", "mpi"},
      "local: one process; async, sync: parameter servers; allreduce: workers alone; mpi: these, started by mpirun, "
      "whose library forms the sums");
  line.add("job_name", f.job_name, "what this process is in the cluster: ps or worker");
  line.add("task_index", f.task_index, 0, INT32_MAX, "which of its job's tasks it is, from 0; worker 0 reports");
  line.add("ps_hosts", f.ps_hosts, "the parameter servers' addresses: host:port,host:port,...");
  line.add("worker_hosts", f.worker_hosts, "the workers' addresses");
  line.add("input", f.input, {"feed", "queue"},
           "how images reach a step: feed: with the call; queue: from a queue in the graph, which threads fill");
  line.add("input_threads", f.input_threads, 1, max_threads(),
           "threads that fill the queue; of more than one, batches come in no certain order");
  line.add("hidden_units", f.hidden_units, 1, 1'000'000, "width of the hidden layer");
  f.add_to(line);
  if (!line.parse(argc, argv)) return {};
  if (f.input != "queue" && f.input_threads > 1) refuse("--input_threads is of --input queue");
  take_environment(f);
  check_cluster(f);
  return f;
}
