// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <weft/distributed/cluster/environment.hpp>
#include <weft/distributed/membership/loss_policy.hpp>

#include "training_flags.hpp"

/// The flags of an example that trains in one process or on a cluster: those of TensorFlow's distributed programs, and
/// a list of hosts.
struct cluster_flags : training_flags {
  std::string job_name, ps_hosts, worker_hosts, hosts, strategy = "local";
  std::string secret_file, tls_cert, tls_key, tls_ca;
  std::optional<std::string> chosen_strategy;  // as given
  std::optional<std::int64_t> ps, index, min_workers;
  std::optional<double> heartbeat_timeout;  // seconds
  std::string on_loss = "stop", shard_dir;
  std::optional<std::int64_t> shard_steps;
  std::int64_t task_index = 0;

  std::optional<weft::task_environment> environment;  // where that, or --hosts, tells what the other flags did not
  std::optional<weft::cluster_secret> secret;
  std::optional<weft::tls_credentials> tls;

  /// The N in --strategy backups:N or stale:N.
  int bound() const { return std::stoi(strategy.substr(strategy.find(':') + 1)); }
  bool has_backups() const { return strategy.starts_with("backups:"); }
  bool is_asynchronous() const { return strategy == "async" || (strategy.starts_with("stale:") && bound() > 0); }

  /// Whether the run goes on after the loss of a task.
  bool survives_losses() const { return on_loss != "stop"; }
  weft::loss_policy loss_policy() const;

  bool is_chief() const { return job_name.empty() || (job_name == "worker" && task_index == 0); }

  void add_to(command_line& line);
  /// Reads what the flags name, when all of them are parsed, and checks that they agree.
  void resolve();
};

/// Whether parameter servers keep the variables.
inline bool has_servers(const cluster_flags& f) {
  return f.strategy == "async" || f.strategy == "sync" || f.has_backups() || f.strategy.starts_with("stale:");
}

/// Reads "stop", "wait:SECONDS", "wait:SECONDS,shrink" or "wait:SECONDS,take_over".
inline weft::loss_policy parse_loss_policy(const std::string& text) {
  if (text == "stop") return {};
  constexpr std::string_view wait = "wait:";
  constexpr double most = 1e6;  // seconds
  const std::size_t comma = std::min(text.find(','), text.size());
  const std::string then = text.substr(comma);
  const char* const number = text.c_str() + std::min(wait.size(), text.size());
  double seconds = -1;
  const auto read = std::from_chars(number, text.c_str() + comma, seconds);
  if (!text.starts_with(wait) || read.ec != std::errc() || read.ptr != text.c_str() + comma || !(seconds >= 0) ||
      seconds > most || (then != "" && then != ",shrink" && then != ",take_over"))
    refuse("--on_loss is \"" + text +
           "\"; it must be stop, wait:SECONDS, wait:SECONDS,shrink or wait:SECONDS,take_over, with at most 1e6 s");
  return {std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)),
          then == ",shrink"      ? weft::loss_action::shrink
          : then == ",take_over" ? weft::loss_action::take_over
                                 : weft::loss_action::stop};
}
inline weft::loss_policy cluster_flags::loss_policy() const { return parse_loss_policy(on_loss); }

/// Checks the flags that say how a run goes on when it loses a task.
inline void check_losses(const cluster_flags& f) {
  if (f.survives_losses() && (f.strategy == "local" || f.strategy == "mpi"))
    refuse("--strategy " + f.strategy + " does not survive the loss of a task: leave out --on_loss");
  if (f.shard_steps && f.shard_dir.empty()) refuse("--shard_steps requires --shard_dir");
  if (f.shard_dir.empty()) return;
  if (!has_servers(f))
    refuse("--shard_dir requires a strategy with parameter servers: sync, async, backups:N or stale:N");
  if (f.loss_policy().wait.count() == 0)
    refuse("--shard_dir lets other processes replace lost parameter servers: also give --on_loss wait:SECONDS");
}

/// How many addresses there are. Refuses one that the other tasks could not know.
inline std::int64_t count_hosts(const char* flag, const std::string& hosts) {
  std::int64_t count = 0;
  for (std::size_t at = 0, end; at < hosts.size(); at = end + 1) {
    end = std::min(hosts.find(',', at), hosts.size());
    if (weft::parse_endpoint(hosts.substr(at, end - at)).port == 0)
      refuse(std::string("--") + flag + " must not have port 0, because the other tasks must know the port");
    ++count;
  }
  return count;
}

inline constexpr std::uint16_t first_port = 2222;  // of each host of --hosts

/// Whom to trust, from the files that the flags name.
inline void take_trust(cluster_flags& f) {
  const std::pair<const char*, const std::string&> of_tls[] = {
      {"--tls_cert", f.tls_cert}, {"--tls_key", f.tls_key}, {"--tls_ca", f.tls_ca}};
  std::string missing;
  for (const auto& [flag, path] : of_tls)
    if (path.empty()) missing += (missing.empty() ? "" : " and ") + std::string(flag);
  const bool has_tls = !f.tls_cert.empty() || !f.tls_key.empty() || !f.tls_ca.empty();
  if (has_tls && !missing.empty())
    refuse("--tls_cert, --tls_key and --tls_ca require each other: also give " + missing);
  if (f.strategy == "local" && (has_tls || !f.secret_file.empty()))
    refuse("--strategy local uses no network: leave out --secret_file, --tls_cert, --tls_key and --tls_ca");
  if (!f.secret_file.empty()) f.secret = weft::cluster_secret::from_file(f.secret_file);
  if (has_tls) f.tls = weft::tls_credentials::from_files(f.tls_cert, f.tls_key, f.tls_ca);
}

/// Says what the environment lacks, too: under a launcher or a scheduler that is what went wrong.
[[noreturn]] inline void refuse_without_cluster(const cluster_flags& f) {
  std::string why;
  try {
    weft::cluster_spec::from_environment();
  } catch (const weft::error& lack) {
    why = std::string("; ") + lack.sentence();
  }
  refuse("--strategy " + f.strategy + " needs --hosts, or --job_name worker" + (has_servers(f) ? " or ps" : "") + why);
}

/// A cluster that the environment names must suit the strategy.
inline void check_environment(const cluster_flags& f) {
  const weft::task_environment& told = *f.environment;
  const int servers = told.cluster.num_tasks("ps");
  const bool by_tf_config = told.source == "TF_CONFIG";  // weft_launch sets it
  if (has_servers(f) && servers == 0)
    refuse("--strategy " + f.strategy + " needs parameter servers, but " + told.source +
           " names none: " + (by_tf_config ? "start it by weft_launch with --ps 1" : "give --ps 1") +
           ", or choose allreduce, which needs none");
  if (!has_servers(f) && servers > 0)
    refuse("--strategy " + f.strategy + " has no parameter servers, but " + told.source + " names " +
           std::to_string(servers) + ": start it by weft_launch without --ps, or choose async or sync");
  if (told.cluster.num_tasks("worker") == 0)
    refuse(told.source + " names no task of job 'worker': " + to_string(told.cluster));
  if (told.job != "ps" && told.job != "worker")
    refuse(told.source + " makes this process a task of job '" + told.job +
           "', but this program has the jobs ps and worker");
  for (const char* job : {"ps", "worker"})
    if (told.cluster.num_tasks(job) > 0 && !told.cluster.is_dense(job))
      refuse(told.source + " must number the tasks of job '" + job +
             "' from 0 without gaps, because the numbers divide the " + "work; the cluster is " +
             to_string(told.cluster));
}

/// The cluster of --hosts, or the one that a launcher or a scheduler has told, where no flag names any; one parameter
/// server where neither says how many.
inline void take_cluster(cluster_flags& f) {
  const bool named = !f.job_name.empty() || !f.ps_hosts.empty() || !f.worker_hosts.empty();
  if (!f.hosts.empty() && named)
    refuse("--hosts lists all tasks: leave out --job_name, --ps_hosts and --worker_hosts, or leave out --hosts");
  if (f.strategy == "local") {
    if (const std::size_t tasks = f.chosen_strategy ? 1 : weft::tasks_in_environment(); tasks > 1)
      refuse("this is one of " + std::to_string(tasks) +
             " tasks that were started together, but without --strategy each trains a separate model: give "
             "--strategy sync, async, allreduce or mpi, or --strategy local for separate models");
    return;
  }
  if (!has_servers(f) && f.ps) refuse("--strategy " + f.strategy + " has no parameter servers: leave out --ps");
  const bool told = f.hosts.empty() && !named && weft::has_cluster_environment();
  if (f.hosts.empty() && !told) {
    if (f.ps) refuse("--ps requires --hosts or a launcher; here --ps_hosts gives the parameter servers");
    if (!named) refuse_without_cluster(f);
    return;
  }
  weft::environment_options options;
  options.ps = has_servers(f) ? static_cast<int>(f.ps.value_or(1)) : 0;
  options.secret = f.secret;
  if (told) {
    f.environment = weft::cluster_spec::from_environment(options);
  } else {
    options.port = first_port;
    std::optional<int> rank;
    if (f.index) rank = static_cast<int>(*f.index);
    try {
      f.environment = weft::cluster_spec::from_hosts(f.hosts, options, rank);
    } catch (const weft::error& why) {
      refuse(std::string("--hosts: ") + why.sentence() + (f.index ? "" : " (--task_index is this task's index)"));
    }
  }
  const weft::cluster_spec& cluster = f.environment->cluster;
  check_environment(f);
  if (f.ps && cluster.num_tasks("ps") != *f.ps)
    refuse("--ps is " + std::to_string(*f.ps) + ", but " + f.environment->source + " names " +
           std::to_string(cluster.num_tasks("ps")) + " parameter servers");
  f.job_name = f.environment->job;
  f.task_index = f.environment->index;
  const auto list = [&](const char* job) {
    std::string hosts;
    for (const int task : cluster.task_indices(job))
      hosts += (hosts.empty() ? "" : ",") + to_string(cluster.task_address(job, task));
    return hosts;
  };
  f.ps_hosts = list("ps");
  f.worker_hosts = list("worker");
  // A launcher's tasks all write to one place.
  if (told && !f.is_chief() && f.progress == weft::progress_mode::automatic) f.progress = weft::progress_mode::none;
}

inline void check_backups(const cluster_flags& f, std::int64_t workers) {
  if (f.bound() >= workers)
    refuse("--strategy " + f.strategy + " leaves none of " + std::to_string(workers) + " workers: use fewer backups");
}

inline void check_cluster(const cluster_flags& f) {
  if (f.strategy == "local") {
    if (!f.job_name.empty() || f.index.value_or(0) != 0 || !f.ps_hosts.empty() || !f.worker_hosts.empty() ||
        !f.hosts.empty() || f.ps)
      refuse(
          "--strategy local uses no cluster: leave out --hosts, --ps, --job_name, --task_index, --ps_hosts and "
          "--worker_hosts, or choose async, sync, allreduce or mpi");
    if (f.heartbeat_timeout) refuse("--strategy local uses no network: leave out --heartbeat_timeout");
    return;
  }
#if !defined(WEFT_HAS_MPI)
  if (f.strategy == "mpi")
    refuse(
        "this program was built without MPI: install libopenmpi-dev or libmpich-dev and rebuild, or choose "
        "allreduce");
#endif
  if (f.environment) {  // check_environment() has looked at it
    const int workers = f.environment->cluster.num_tasks("worker");
    if (f.min_workers) check_range("min_workers", *f.min_workers, 1, workers);
    if (f.has_backups()) check_backups(f, workers);
    return;
  }
  const auto needs = [&](const std::string& flag) {
    refuse("--strategy " + f.strategy + " needs " + flag +
           (weft::has_cluster_environment()
                ? "; or leave out --job_name, --ps_hosts and --worker_hosts, because a launcher defined a cluster"
                : ""));
  };
  if (f.job_name != "worker" && f.job_name != "ps")
    needs(std::string("--hosts, or --job_name worker") + (has_servers(f) ? " or ps" : ""));
  if (!has_servers(f) && (f.job_name == "ps" || !f.ps_hosts.empty()))
    refuse("--strategy " + f.strategy + " has no parameter servers: leave out --ps_hosts and --job_name ps");
  if (has_servers(f) && f.ps_hosts.empty()) needs("--ps_hosts host:port,...");
  if (f.worker_hosts.empty()) needs("--worker_hosts host:port,...");
  const std::int64_t servers = count_hosts("ps_hosts", f.ps_hosts),
                     workers = count_hosts("worker_hosts", f.worker_hosts);
  if (f.min_workers) check_range("min_workers", *f.min_workers, 1, workers);
  if (f.has_backups()) check_backups(f, workers);
  check_range("task_index", f.task_index, 0, (f.job_name == "ps" ? servers : workers) - 1);
}

inline void cluster_flags::add_to(command_line& line) {
  training_flags::add_to(line);
  line.heading("Cluster");
  line.add("strategy", chosen_strategy, {"local", "async", "sync", "backups:N", "stale:N", "allreduce", "mpi"},
           "local (default): one process; async, sync: parameter servers; backups:1: sync, without the slowest "
           "worker of each step; stale:4: async, no worker more than 4 steps ahead of the slowest; allreduce: workers "
           "only; mpi: the same, started by mpirun, with sums by MPI");
  line.add("hosts", hosts,
           "the tasks' hosts, one entry per task: a,a,b or node[1-4], from port 2222 of each host upwards, or "
           "a:2222,a:2223,b:2222");
  line.add("ps", ps, 1, 4096, "number of parameter servers, the first of --hosts; default: 1");
  line.add(
      "min_workers", min_workers, 1, 4096,
      "minimum number of workers, with --strategy async or stale, or --on_loss shrink or take_over; below it the run "
      "fails; default: all, or 1 with --on_loss");
  line.add(
      "on_loss", on_loss, [](const std::string& text) { parse_loss_policy(text); },
      "the others' reaction to a lost task: stop; wait:30: wait 30 s for a replacement process, then "
      "stop; wait:30,shrink: then continue without the worker; wait:30,take_over: then also compute its part");
  line.add("shard_dir", shard_dir,
           "folder for the parameter servers' shards, from which a new process can replace a lost server");
  line.add("shard_steps", shard_steps, 1, INT64_MAX, "steps between two saves of a shard; default: 100");
  line.add("task_index", index, 0, INT32_MAX,
           "this process's entry in --hosts, from 0; default: the only one on this host. With --job_name: "
           "its index in the job, default 0. Worker 0 reports");
  line.add("job_name", job_name, "instead of --hosts, as in TensorFlow: ps or worker");
  line.add("ps_hosts", ps_hosts, "with --job_name: the parameter servers' addresses, host:port,host:port,...");
  line.add("worker_hosts", worker_hosts, "with --job_name: the workers' addresses");
  line.add("heartbeat_timeout", heartbeat_timeout, 1e5,
           "seconds without a heartbeat after which a task is lost; default: 1.75 on one host, 10 between hosts");
  line.heading("Trust between hosts");
  line.add("secret_file", secret_file, "file of mode 0600 whose first line is the secret that all tasks share");
  line.add("tls_cert", tls_cert, "PEM file of this task's certificate; encrypts all connections");
  line.add("tls_key", tls_key, "PEM file of the certificate's key, of mode 0600");
  line.add("tls_ca", tls_ca, "PEM file of the authority that signed all tasks' certificates");
}

inline void cluster_flags::resolve() {
  strategy = chosen_strategy.value_or("local");
  if (min_workers && !is_asynchronous() && loss_policy().then == weft::loss_action::stop)
    refuse(
        "--min_workers requires --strategy async or stale, or --on_loss shrink or take_over: others need all "
        "workers");
  check_losses(*this);
  task_index = index.value_or(0);
  take_trust(*this);
  take_cluster(*this);
  check_cluster(*this);
}
