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

/// Whether the environment tells this process that it is a task of a cluster.
/// Throws weft::error (invalid_argument) for a variable that cannot be read.
bool has_cluster_environment();

/// How many tasks a launcher or a scheduler has started together, this one among them; 1 where the environment tells of
/// none. Throws as has_cluster_environment().
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

/// The cluster and this process's place in it, from its environment. The first of these that is there counts:
///
///   TF_CONFIG                   TensorFlow's, dense or sparse, where it names a cluster; weft_launch sets it
///   RANK, WORLD_SIZE            torchrun's, or your own
///   OMPI_COMM_WORLD_RANK, ...   Open MPI
///   SLURM_PROCID, ...           a task of srun; its addresses are the nodes' names and a port
///   PMI_RANK or PMIX_RANK, ...  MPICH and its kin
///   PBS_NODEFILE                and PBS_VNODENUM (Torque's pbsdsh) or a RANK; addresses as under Slurm
///
/// The tasks of the first ranks are parameter servers, as many as `options.ps`. Tasks that only know their ranks meet
/// to tell each other their addresses, on ports that are free: in the folder WEFT_RENDEZVOUS, or else at MASTER_ADDR
/// and MASTER_PORT; those of one machine by themselves. They wait for each other for `options.patience`. Throws
/// weft::error: not_found where the environment has no cluster, invalid_argument that names a variable and says what is
/// wrong with it, failed_precondition where tasks cannot find each other, and as rendezvous does.
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

/// The cluster of a list of hosts, one for each task, "a,a,b" or "node[01-04]" as Slurm writes them, or with ports,
/// "a:2222,a:2223,b:2222", and this process's place in it. The tasks of the first `options.ps` are parameter servers.
/// Without ports the first task of a host listens at `options.port`, the next at the next one, and tasks of one host
/// alone use loopback. `rank`: which of the list's tasks this is, from 0; where nothing says so it is the rank that a
/// launcher of as many tasks tells, or the only task on this host, by the name that the host, or WEFT_HOST, gives
/// itself or by an address that it has. Throws weft::error (invalid_argument) that shows the list and says what is
/// wrong with it.
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
    list.fail({"has ", place.size, " tasks, numbered from 0; there is no task ", *rank});
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
