// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/environment_variable.hpp>
#include <weft/distributed/cluster/launchers/host_list.hpp>
#include <weft/encoding/file.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>

namespace weft::detail {

/// The rank of this process and the number of ranks, as reported by a launcher.
struct place_among_ranks {
  std::string source;
  int rank = 0, size = 1;
  std::vector<std::string> hosts = {};  // by rank; empty if unknown
  bool one_host = false;
};

inline place_among_ranks ranks_of(std::string source, const environment_variable& rank,
                                  const environment_variable& size) {
  place_among_ranks place{std::move(source)};
  place.size = static_cast<int>(size.number(max_environment_tasks));
  if (place.size == 0) size.fail({"must be at least 1"});
  place.rank = static_cast<int>(rank.number(max_environment_tasks));
  if (place.rank >= place.size) rank.fail({"must be less than ", place.size, " (", size.name, ")"});
  return place;
}

/// Returns the ranks that torchrun or a user's own launcher has set.
inline std::optional<place_among_ranks> ranks_of_torchrun() {
  const auto rank = variable_of("RANK");
  const auto size = variable_of("WORLD_SIZE");
  if (!rank && !size) return {};
  if (!size && variable_of("PBS_NODEFILE")) return {};  // RANK is set by a PBS job script for one of its tasks
  place_among_ranks place =
      ranks_of("RANK", needed_variable("RANK", "WORLD_SIZE is set"), needed_variable("WORLD_SIZE", "RANK is set"));
  const auto local = variable_of("LOCAL_WORLD_SIZE");
  place.one_host = local && local->number(max_environment_tasks) == static_cast<std::uint64_t>(place.size);
  return place;
}

inline std::optional<place_among_ranks> ranks_of_open_mpi() {
  const auto rank = variable_of("OMPI_COMM_WORLD_RANK");
  if (!rank) return {};
  place_among_ranks place =
      ranks_of("Open MPI", *rank, needed_variable("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK is set"));
  const auto local = variable_of("OMPI_COMM_WORLD_LOCAL_SIZE");
  place.one_host = local && local->number(max_environment_tasks) == static_cast<std::uint64_t>(place.size);
  return place;
}

/// Returns the ranks that MPICH, Intel MPI or another launcher with PMI or PMIx has set.
inline std::optional<place_among_ranks> ranks_of_pmi() {
  const auto rank = first_variable_of({"PMI_RANK", "PMIX_RANK"});
  if (!rank) return {};
  place_among_ranks place = ranks_of(
      "PMI", *rank, needed_variable({"PMI_SIZE", "PMIX_SIZE", "MPI_WORLD_SIZE", "WORLD_SIZE"}, rank->name + " is set"));
  const auto local = variable_of("MPI_LOCALNRANKS");
  place.one_host = local && local->number(max_environment_tasks) == static_cast<std::uint64_t>(place.size);
  return place;
}

/// Returns true if this process is a task that srun has started, not the batch script or an interactive shell.
inline bool is_task_of_slurm() {
  const auto step = first_variable_of({"SLURM_STEP_ID", "SLURM_STEPID"});
  constexpr std::uint64_t first_of_special = 0xffff'fff0;  // the batch script, interactive shells, external processes
  return step && variable_of("SLURM_PROCID") && step->number(0xffff'ffff) < first_of_special;
}

inline std::optional<place_among_ranks> ranks_of_slurm() {
  if (!is_task_of_slurm()) return {};
  const std::string because = "this process is a task of a Slurm step";
  const environment_variable rank = needed_variable("SLURM_PROCID", because),
                             size = needed_variable({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, because);
  place_among_ranks place = ranks_of("Slurm", rank, size);
  // A launcher started by srun, such as MPICH's, assigns its own ranks; Slurm's variables then describe the launcher.
  const auto other_rank = variable_of("PMI_RANK"), other_size = variable_of("PMI_SIZE");
  if (other_rank && other_size && (other_rank->value != rank.value || other_size->value != size.value)) return {};
  const environment_variable list = needed_variable({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"},
                                                    because),
                             counts = needed_variable({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}, because);
  const std::vector<std::string> nodes = host_list_reader::read(list);
  std::vector<int> on_node = read_counts(counts);
  if (nodes.size() != on_node.size())
    counts.fail({"counts the tasks of ", on_node.size(), " nodes, but ", list.name, "='", printable(list.value, 200),
                 "' names ", nodes.size()});
  int sum = 0;
  for (const int each : on_node) sum += each;
  if (sum != place.size) counts.fail({"counts ", sum, " tasks, but ", size.name, " is ", place.size});
  // Slurm assigns ranks node by node (block) or round robin (cyclic). The part after a colon is about processors.
  const auto distribution = first_variable_of({"SLURM_DISTRIBUTION"});
  std::string way = distribution ? distribution->value : "block";
  way = way.substr(0, way.find_first_of(":,"));
  const bool in_turn = way == "cyclic";
  if (!in_turn && way != "block" && !way.empty() && nodes.size() > 1)
    distribution->fail(
        {"is a distribution of ranks that Weft does not support; use srun --distribution=block "
         "or cyclic, or let the tasks meet in a folder (WEFT_RENDEZVOUS)"});
  for (std::size_t node = 0; place.hosts.size() < static_cast<std::size_t>(place.size);) {
    if (on_node[node] > 0) --on_node[node], place.hosts.push_back(nodes[node]);
    if (in_turn || on_node[node] == 0) node = (node + 1) % nodes.size();
  }
  if (const auto id = variable_of("SLURM_NODEID")) {
    const std::uint64_t number = id->number(max_environment_tasks);
    const std::string& expected = place.hosts[static_cast<std::size_t>(place.rank)];
    if (number >= nodes.size() || nodes[static_cast<std::size_t>(number)] != expected)
      id->fail({"is not the node of rank ", place.rank, ", which is ", expected, " (", list.name, ", ", counts.name,
                ", distribution ", way,
                "); use srun --distribution=block, or let the tasks meet in a folder "
                "(WEFT_RENDEZVOUS)"});
  }
  return place;
}

/// Returns the ranks of a task that pbsdsh has started under Torque, or that a job script of PBS Professional has set.
inline std::optional<place_among_ranks> ranks_of_pbs() {
  const auto file = variable_of("PBS_NODEFILE");
  if (!file) return {};
  auto rank = variable_of("RANK");
  if (!rank) {
    // Task 1 is the job script itself, which also runs on node 0.
    const auto task = variable_of("PBS_TASKNUM");
    if (!task || task->value == "1") return {};
    rank = variable_of("PBS_VNODENUM");
    if (!rank) return {};
  }
  place_among_ranks place{"PBS"};
  const input_file nodes(file->value);
  constexpr std::uint64_t max_bytes = 16 << 20;
  if (nodes.bytes() > max_bytes) file->fail({"has more than ", max_bytes, " bytes"});
  environment_variable text{str_cat({"PBS_NODEFILE ", file->value}), std::string(nodes.bytes(), 0)};
  nodes.read(0, text.value.data(), text.value.size());
  for (std::size_t begin = 0; begin < text.value.size();) {
    const std::size_t end = std::min(text.value.find('\n', begin), text.value.size());
    const environment_variable line{str_cat({text.name, ", line ", place.hosts.size() + 1}),
                                    text.value.substr(begin, end - begin)};
    if (line.value.find_first_of("[,") != std::string::npos) line.fail({"must be the name of one host"});
    for (const std::string& host : host_list_reader::read(line)) place.hosts.push_back(host);
    if (place.hosts.size() > max_environment_tasks) file->fail({"has too many lines"});
    begin = end + 1;
  }
  if (place.hosts.empty()) file->fail({"names no host"});
  place.size = static_cast<int>(place.hosts.size());
  place.rank = static_cast<int>(rank->number(max_environment_tasks));
  if (place.rank >= place.size)
    rank->fail({"must be less than ", place.size, ", the number of lines in ", file->value});
  return place;
}

/// If several launchers have set variables, returns the ranks of the innermost launcher: torchrun or MPI can run under
/// Slurm or PBS, but not the reverse.
inline std::optional<place_among_ranks> ranks_of_environment() {
  for (const auto find : {ranks_of_torchrun, ranks_of_open_mpi, ranks_of_slurm, ranks_of_pmi, ranks_of_pbs})
    if (auto place = find()) return place;
  return {};
}

/// Explains why the environment defines no cluster. `config` is TF_CONFIG, if it is set.
inline std::string why_no_cluster(const std::optional<environment_variable>& config) {
  if (variable_of("SLURM_JOB_ID"))
    return "this process is in a Slurm job but was not started by srun; write srun before the program";
  if (variable_of("PBS_NODEFILE"))
    return "this process is in a PBS job, but its rank is not known; start one process for each line of PBS_NODEFILE, "
           "for example with pbsdsh, and set RANK to the line's number, counted from 0";
  const std::string names_none =
      config ? str_cat({"TF_CONFIG='", printable(config->value, 200), "' has none, and there are no"})
             : "neither TF_CONFIG nor";
  return str_cat({"the environment has no cluster: ", names_none,
                  " ranks of torchrun, MPI, Slurm or PBS; start the program with weft_launch, or with one of them"});
}

}  // namespace weft::detail
