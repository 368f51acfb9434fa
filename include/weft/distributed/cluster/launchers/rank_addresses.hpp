// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/environment_variable.hpp>
#include <weft/distributed/cluster/launchers/launcher_ranks.hpp>
#include <weft/distributed/cluster/own_host.hpp>
#include <weft/distributed/cluster/rendezvous.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/cluster/task_environment.hpp>
#include <weft/error.hpp>
#include <weft/transport/endpoint.hpp>

namespace weft::detail {

inline constexpr const char* by_parent = "parent-";

/// Returns a name that distinguishes this run from other runs in the same rendezvous folder.
inline std::optional<std::string> job_of_environment(bool one_host) {
  if (const auto job = variable_of("WEFT_JOB_ID")) return job->value;
  if (const auto job = first_variable_of({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})) return "mpi-" + job->value;
  if (const auto job = variable_of("TORCHELASTIC_RUN_ID"); job && job->value != "none") {
    const auto again = variable_of("TORCHELASTIC_RESTART_COUNT");
    return "torch-" + job->value + "-" + (again ? again->value : "0");
  }
  if (one_host) return str_cat({by_parent, ::getppid()});
  if (const auto job = variable_of("SLURM_JOB_ID")) {
    const auto step = variable_of("SLURM_STEP_ID");
    return "slurm-" + job->value + "-" + (step ? step->value : "");
  }
  if (const auto job = variable_of("PBS_JOBID")) return "pbs-" + job->value;
  return {};
}

/// Returns the first port of a job. Two jobs on one host rarely get the same ports.
inline std::uint16_t port_of_job(const environment_options& options) {
  if (options.port) return options.port;
  std::uint64_t number = 0;
  if (const auto job = first_variable_of({"SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID"}))
    for (const char c : job->value.substr(0, job->value.find('.')))
      if (c >= '0' && c <= '9') number = (number * 10 + static_cast<std::uint64_t>(c - '0')) % 1'000'000'007;
  // Below the ephemeral ports, with 32 ports for each job.
  return static_cast<std::uint16_t>(10'000 + number % 600 * 32);
}

inline std::vector<endpoint> places_of_hosts(const place_among_ranks& place, const environment_options& options) {
  const std::uint16_t first = port_of_job(options);
  std::map<std::string, int> on_host;
  std::vector<endpoint> places;
  // Loopback suffices if all tasks are on one host.
  for (const std::string& host : place.hosts) {
    const int port = first + on_host[host]++;
    if (port > 65'535)
      throw error(error_code::invalid_argument, "environment",
                  {host, " has too many tasks for the ports from ", first,
                   " to 65535; choose a smaller environment_options::port"});
    places.push_back({place.one_host ? "127.0.0.1" : host, static_cast<std::uint16_t>(port)});
  }
  return places;
}

/// Returns a folder of this machine and user; creates it if it does not exist.
inline std::string own_folder() {
  const std::string path = str_cat({"/tmp/weft-", ::geteuid()});
  ::mkdir(path.c_str(), S_IRWXU);
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw error(error_code::permission_denied, "rendezvous",
                {path,
                 " must be a folder that this user owns and nobody else can write to; remove it, or set "
                 "WEFT_RENDEZVOUS to another folder"});
  return path;
}

inline rendezvous::result meet(const place_among_ranks& place, const environment_options& options) {
  rendezvous meeting{place.rank,
                     place.size,
                     given_host(options.host),
                     options.secret ? *options.secret : cluster_secret::of_user(),
                     options.patience,
                     options.on_wait};
  std::string folder = options.folder;
  if (folder.empty())
    if (const auto given = variable_of("WEFT_RENDEZVOUS")) folder = given->value;
  if (folder.empty())
    if (const auto first = variable_of("MASTER_ADDR")) {
      const environment_variable port = needed_variable("MASTER_PORT", "MASTER_ADDR is set");
      // torchrun's own store listens at MASTER_PORT.
      const auto taken = variable_of("TORCHELASTIC_USE_AGENT_STORE");
      const std::uint64_t at = port.number(65'534) + (taken && taken->value == "True" ? 1 : 0);
      if (at == 0) port.fail({"is not a port that the other tasks can know; choose one from 1 to 65534"});
      endpoint where{host_in(*first, ", and the port in MASTER_PORT"), static_cast<std::uint16_t>(at)};
      if (place.one_host) where.host = meeting.host = "127.0.0.1";
      // Certificates contain task names, but here tasks have only ranks.
      if (!is_loopback(where.host) && !meeting.secret.is_given())
        throw error(error_code::permission_denied, "environment",
                    {"tasks of several hosts that meet at MASTER_ADDR, ", to_string(where),
                     ", require a secret, even with certificates: set WEFT_SECRET or WEFT_SECRET_FILE for all tasks, "
                     "or set WEFT_RENDEZVOUS to a folder that all hosts share"});
      return meeting.through_first(where);
    }
  if (folder.empty() && !place.one_host)
    throw error(error_code::failed_precondition, "environment",
                {place.source,
                 " gives tasks their ranks but not their addresses; for all tasks, set WEFT_RENDEZVOUS to a folder "
                 "that all hosts share, or MASTER_ADDR and MASTER_PORT to an address at which rank 0 can listen"});
  if (place.one_host && meeting.host.empty()) meeting.host = "127.0.0.1";
  if (folder.empty()) folder = own_folder();
  const auto job = job_of_environment(place.one_host);
  if (!job)
    throw error(error_code::failed_precondition, "environment",
                {"no environment variable distinguishes this run from others that meet in ", folder,
                 "; set WEFT_JOB_ID to the same text for all tasks of the run"});
  if (meeting.host.empty()) meeting.host = name_of_host();
  if (meeting.host.empty())
    throw error(error_code::unavailable, "environment", "this host has no name; set WEFT_HOST to its address");
  try {
    return meeting.through_folder(folder, *job);
  } catch (const error& problem) {
    if (problem.code() != error_code::deadline_exceeded || !job->starts_with(by_parent)) throw;
    throw error(problem.code(), problem.operation(),
                {problem.sentence(),
                 "; if different processes started the tasks, set WEFT_JOB_ID to the same text for all of them"});
  }
}

/// Converts ranks to tasks in order: first the parameter servers, then the workers.
inline task_environment tasks_of_ranks(const place_among_ranks& place, const std::vector<endpoint>& places,
                                       const environment_options& options) {
  task_environment here;
  here.source = place.source;
  const auto first_worker = places.begin() + options.ps;
  if (options.ps > 0) here.cluster.add_job(options.ps_job, std::vector<endpoint>(places.begin(), first_worker));
  here.cluster.add_job(options.worker_job, std::vector<endpoint>(first_worker, places.end()));
  const bool serves = place.rank < options.ps;
  here.job = serves ? options.ps_job : options.worker_job;
  here.index = serves ? place.rank : place.rank - options.ps;
  return here;
}

inline void check_servers(const place_among_ranks& place, const environment_options& options) {
  if (options.ps < 0 || options.ps >= place.size)
    throw error(error_code::invalid_argument, "environment",
                {place.source, " has ", place.size, place.size == 1 ? " task" : " tasks", ", and ", options.ps,
                 " of them would be parameter servers; start at least one more task as a worker"});
}

inline bool are_one_host(const std::vector<std::string>& hosts) {
  return !hosts.empty() &&
         std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) { return host == hosts[0]; });
}

inline task_environment from_ranks(place_among_ranks place, const environment_options& options) {
  check_servers(place, options);
  place.one_host |= are_one_host(place.hosts);
  const bool meets = !options.folder.empty() || variable_of("WEFT_RENDEZVOUS");
  if (place.size == 1) return tasks_of_ranks(place, {{"127.0.0.1", 0}}, options);
  if (!place.hosts.empty() && !meets) return tasks_of_ranks(place, places_of_hosts(place, options), options);
  rendezvous::result met = meet(place, options);
  task_environment here = tasks_of_ranks(place, met.tasks, options);
  here.listening = std::move(met.listening);
  return here;
}

/// Returns the rank of this process in the list: the launcher's, if the launcher started one task for each entry, or
/// the index of the only entry on this host.
inline int rank_of_this_host(const environment_variable& list, const std::vector<std::string>& hosts) {
  if (const auto place = ranks_of_environment(); place && static_cast<std::size_t>(place->size) == hosts.size())
    return place->rank;
  const std::string own = name_of_host();
  std::optional<int> found;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (!is_this_host(hosts[i], own)) continue;
    if (found)
      list.fail({"lists several tasks on this host, ", own, ": ", *found, " and ", i,
                 "; pass the index of this one (--task_index, or an argument of from_hosts)"});
    found = static_cast<int>(i);
  }
  if (!found)
    list.fail({"does not contain this host, whose name is ", own,
               "; add that name, pass the index of this task (--task_index, or an argument of from_hosts), or set "
               "WEFT_HOST to one of the names"});
  return *found;
}

}  // namespace weft::detail
