// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/task_environment.hpp>
#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <string>
  #include <utility>
  #include <vector>

  #include <weft/distributed/cluster/environment_variable.hpp>
  #include <weft/distributed/cluster/launchers/host_list.hpp>
  #include <weft/distributed/cluster/launchers/launcher_ranks.hpp>
  #include <weft/distributed/cluster/launchers/rank_addresses.hpp>
  #include <weft/distributed/cluster/launchers/tf_config.hpp>
  #include <weft/distributed/cluster/own_host.hpp>
  #include <weft/error.hpp>
#endif

namespace weft {

/// Returns true if the environment defines a cluster that this process is a task of. Throws weft::error
/// (invalid_argument) if a variable is malformed.
bool has_cluster_environment();

/// Returns the number of tasks that a launcher or scheduler has started together, including this one; 1 if the
/// environment defines no cluster. Throws like has_cluster_environment().
std::size_t tasks_in_environment();

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL bool has_cluster_environment() {
  const auto config = detail::variable_of("TF_CONFIG");
  return (config && detail::tf_config::read(*config)) || detail::ranks_of_environment();
}

WEFT_DISTRIBUTED_DECL std::size_t tasks_in_environment() {
  if (const auto config = detail::variable_of("TF_CONFIG"))
    if (auto contents = detail::tf_config::read(*config))
      return detail::from_tf_config(*config, std::move(*contents), {}).cluster.tasks().size();
  const auto place = detail::ranks_of_environment();
  return place ? static_cast<std::size_t>(place->size) : 1;
}

/// Returns the cluster and this process's place in it, from the first of these that the environment defines:
///
///   TF_CONFIG                   TensorFlow's, dense or sparse, if it defines a cluster; weft_launch sets it
///   RANK, WORLD_SIZE            torchrun, or your own launcher
///   OMPI_COMM_WORLD_RANK, ...   Open MPI
///   SLURM_PROCID, ...           a task of srun; the addresses are the nodes' names and a port
///   PMI_RANK or PMIX_RANK, ...  MPICH and other launchers with PMI or PMIx
///   PBS_NODEFILE                with PBS_VNODENUM (Torque's pbsdsh) or RANK; addresses as under Slurm
///
/// The first `options.ps` ranks are parameter servers. Tasks that only know their ranks bind free ports and exchange
/// their addresses in a rendezvous: in the folder WEFT_RENDEZVOUS, or else at MASTER_ADDR and MASTER_PORT; tasks of one
/// machine need neither. They wait for each other for `options.patience`. Throws weft::error: not_found if the
/// environment defines no cluster, invalid_argument with the variable and its fault, failed_precondition if tasks have
/// no way to meet; and whatever a rendezvous throws.
WEFT_DISTRIBUTED_DECL task_environment cluster_spec::from_environment(const environment_options& options) {
  task_environment here;
  const auto config = detail::variable_of("TF_CONFIG");
  if (auto contents = config ? detail::tf_config::read(*config) : std::nullopt)
    here = detail::from_tf_config(*config, std::move(*contents), options);
  else if (const auto place = detail::ranks_of_environment())
    here = detail::from_ranks(*place, options);
  else
    throw error(error_code::not_found, "environment", detail::why_no_cluster(config));
  here.secret = options.secret;
  return here;
}

/// Returns the cluster of a list of hosts, one for each task, such as "a,a,b" or Slurm's "node[01-04]", or with ports,
/// "a:2222,a:2223,b:2222"; and this process's place in it. The first `options.ps` tasks are parameter servers. Without
/// ports, the first task of a host listens at `options.port` and further tasks at the ports after it; if all tasks are
/// on this host, they use loopback. `rank`: the index of this task in the list. Default: the rank from a launcher of
/// the same number of tasks, or the only task on this host, found by the host's name, WEFT_HOST or its addresses.
/// Throws weft::error (invalid_argument) with the list and its fault.
WEFT_DISTRIBUTED_DECL task_environment cluster_spec::from_hosts(std::string_view hosts,
                                                                const environment_options& options,
                                                                std::optional<int> rank) {
  const detail::environment_variable list{"hosts", std::string(hosts)};
  detail::place_among_ranks place{"the list of hosts"};
  std::vector<endpoint> places;
  if (hosts.find(':') == std::string_view::npos) {
    place.hosts = detail::host_list_reader::read(list);
  } else {
    cluster_spec all;
    all.add_job("listed", hosts);
    all.check_ports();
    for (const int each : all.task_indices("listed")) places.push_back(all.task_address("listed", each));
    for (const endpoint& each : places) place.hosts.push_back(each.host);
  }
  place.size = static_cast<int>(place.hosts.size());
  detail::check_servers(place, options);
  if (rank && (*rank < 0 || *rank >= place.size))
    list.fail({"has ", place.size, " tasks, numbered from 0, but no task ", *rank});
  place.rank = rank ? *rank : detail::rank_of_this_host(list, place.hosts);
  place.one_host = detail::are_one_host(place.hosts) && detail::is_this_host(place.hosts[0], detail::name_of_host());
  if (places.empty()) places = detail::places_of_hosts(place, options);
  task_environment here = detail::tasks_of_ranks(place, places, options);
  here.secret = options.secret;
  return here;
}

WEFT_DISTRIBUTED_DECL task_environment cluster_spec::from_environment() {
  return from_environment(environment_options{});
}

#endif

}  // namespace weft
