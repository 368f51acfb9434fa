#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/host_list.hpp>
#include <weft/distributed/cluster/rendezvous.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/encoding/json.hpp>
#include <weft/error.hpp>

namespace weft {

/// Settings of a cluster that the environment does not give.
struct environment_options {
  int ps = 0;  ///< how many tasks are parameter servers, those of the first ranks; TF_CONFIG says so itself
  /// Belongs to a host's first task, the next port to the next task, under Slurm and PBS and with from_hosts(); 0:
  /// comes from the job's number.
  std::uint16_t port = 0;
  std::string folder = {};  ///< that all tasks see, to meet in; empty: that of WEFT_RENDEZVOUS
  std::string host = {};    ///< by which others reach this task; empty: that of WEFT_HOST, or else found out
  std::optional<cluster_secret> secret = {};   ///< nothing: cluster_secret::of_user()
  std::chrono::milliseconds patience{60'000};  ///< for the other tasks to come, where they have to meet first
  std::string ps_job = "ps", worker_job = "worker";
};

/// A process's place in a cluster, as its environment tells it: what a server is made of.
struct task_environment {
  cluster_spec cluster;
  std::string job;
  int index = 0;
  std::string source;                                      ///< what told it, "TF_CONFIG", "Slurm", ..., for messages
  std::shared_ptr<const owned_descriptor> listening = {};  ///< where the task has bound its port already
  std::optional<cluster_secret> secret = {};               ///< that of environment_options

  /// `options` with what the environment has decided.
  server_options complete(server_options options = {}) const {
    if (listening) options.listening = listening;
    if (secret && !options.secret) options.secret = secret;
    return options;
  }
};

namespace detail {

inline std::optional<environment_variable> variable_of(const char* name) {
  const char* const value = std::getenv(name);
  if (!value || !*value) return {};
  return environment_variable{name, value};
}

/// The first of them that is set.
inline std::optional<environment_variable> first_variable_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto found = variable_of(name)) return found;
  return {};
}

inline environment_variable needed_variable(const char* name, const std::string& because) {
  if (auto found = variable_of(name)) return *found;
  throw error(error_code::invalid_argument, "environment", {name, " is not set, but ", because, "; set it too"});
}

inline environment_variable needed_variable(std::initializer_list<const char*> names, const std::string& because) {
  if (auto found = first_variable_of(names)) return *found;
  return needed_variable(*names.begin(), because);
}

/// The host alone, a name or an address, brackets around an IPv6 address or not. `remedy`: where a port belongs.
inline std::string host_in(const environment_variable& from, const char* remedy) {
  const std::string_view host = from.value;
  const bool is_bare_ipv6 = is_ipv6_address(host);
  if (const std::size_t colon = host.rfind(':'); colon != std::string_view::npos && !is_bare_ipv6) {
    const std::string_view before = host.substr(0, colon), port = host.substr(colon + 1);
    const bool is_port = !port.empty() && port.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_port && (before.find(':') == std::string_view::npos || before.ends_with(']')))
      from.fail({"has a port; write the host alone", remedy});
  }
  try {
    return parse_endpoint(str_cat({is_bare_ipv6 ? "[" : "", from.value, is_bare_ipv6 ? "]" : "", ":0"})).host;
  } catch (const error&) {
    from.fail({"is not the name or the address of a host"});
  }
}

/// By which others reach this task, where somebody has said it; or else empty.
inline std::string given_host(const std::string& option = {}) {
  constexpr const char* remedy = "; tasks find free ports themselves";
  if (!option.empty()) return host_in({"environment_options::host", option}, remedy);
  if (const auto host = variable_of("WEFT_HOST")) return host_in(*host, remedy);
  return {};
}

// ---- TF_CONFIG ----

/// The contents of TF_CONFIG, before jobs are named as Weft names them.
struct tf_config {
  std::map<std::string, std::map<int, endpoint>> cluster;
  std::string type;
  std::optional<int> index;

  /// Nothing where it names no cluster, as TensorFlow takes a TF_CONFIG of {}: it trains in this process alone.
  static std::optional<tf_config> read(const environment_variable& text) {
    static constexpr std::size_t max_bytes = std::size_t{8} << 20;
    if (text.value.size() > max_bytes) text.fail({"is longer than ", max_bytes, " bytes"});
    tf_config config;
    bool has_task = false;
    try {
      json_reader in(text.value, text.name, 0);
      in.object([&](const std::string& key) {
        if (key == "cluster")
          config.read_cluster(in);
        else if (key == "task")
          has_task = true, config.read_task(in);
        else
          in.skip();
      });
      in.end();
    } catch (const error& problem) {
      text.fail({"is not what TensorFlow takes: ", problem.sentence()});
    }
    if (config.cluster.empty()) {
      const bool is_alone =
          config.type.empty() || config.type == "worker" || config.type == "chief" || config.type == "master";
      if (is_alone && config.index.value_or(0) == 0) return {};
      text.fail({"has a \"task\" and no \"cluster\"; TensorFlow needs {\"cluster\": {...}, \"task\": {...}}"});
    }
    if (!has_task) text.fail({"has no \"task\"; TensorFlow needs {\"type\": \"worker\", \"index\": 0}"});
    if (config.type.empty()) text.fail({"has no \"type\" in its \"task\""});
    return config;
  }

 private:
  static int task_number(json_reader& in, std::string_view digits) {
    int number = 0;
    const auto [stop, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (digits.empty() || problem != std::errc{} || stop != digits.data() + digits.size() || number < 0 ||
        static_cast<std::size_t>(number) >= max_environment_tasks)
      in.fail(str_cat({"'", printable(digits, 64), "' is not the number of a task"}));
    return number;
  }

  void read_cluster(json_reader& in) {
    if (!cluster.empty()) in.fail("\"cluster\" is there twice");
    std::size_t count = 0;
    in.object([&](const std::string& job) {
      if (cluster.contains(job)) in.fail(str_cat({"job '", printable(job, 64), "' is there twice"}));
      std::map<int, endpoint>& tasks = cluster[job];
      const auto add = [&](int number) {
        if (++count > max_environment_tasks) in.fail("there are too many tasks");
        if (!tasks.try_emplace(number, parse_endpoint(in.string())).second)
          in.fail(str_cat({"task ", number, " is there twice"}));
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
    if (!type.empty()) in.fail("\"task\" is there twice");
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

/// TensorFlow's estimators have a job "chief", or "master", which trains like worker 0: it becomes that, and the
/// workers behind it move up by one.
inline task_environment from_tf_config(const environment_variable& text, tf_config config,
                                       const environment_options& options) {
  task_environment here;
  here.source = text.name;
  here.job = config.type;
  if (config.type == "evaluator")
    text.fail(
        {"makes this process the evaluator, which is not a task of the cluster; let it evaluate the cluster's "
         "checkpoints by itself"});
  int index = config.index.value_or(0);
  const auto of_type = config.cluster.find(config.type);
  if (of_type == config.cluster.end())
    text.fail({"has no job '", printable(config.type, 64), "' in its \"cluster\", and its \"task\" is of it"});
  if (!config.index && of_type->second.size() != 1)
    text.fail({"has no \"index\" in its \"task\", and job '", printable(config.type, 64), "' has ",
               of_type->second.size(), " tasks"});
  if (!of_type->second.contains(index))
    text.fail({"has no task ", index, " in job '", printable(config.type, 64), "', and its \"task\" is that one"});
  for (const char* chief : {"chief", "master"}) {
    const auto found = config.cluster.find(chief);
    if (found == config.cluster.end()) continue;
    if (found->second.size() != 1 || !found->second.contains(0))
      text.fail({"needs one task in job '", chief, "', and has ", found->second.size()});
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
    text.fail({"has no good cluster: ", problem.sentence()});
  }
  return here;
}

// ---- ranks ----

/// The least that a launcher tells each of its processes.
struct place_among_ranks {
  std::string source;
  int rank = 0, size = 1;
  std::vector<std::string> hosts = {};  // by rank, where they are known
  bool one_host = false;
};

inline place_among_ranks ranks_of(std::string source, const environment_variable& rank,
                                  const environment_variable& size) {
  place_among_ranks place{std::move(source)};
  place.size = static_cast<int>(size.number(max_environment_tasks));
  if (place.size == 0) size.fail({"says that there are no tasks"});
  place.rank = static_cast<int>(rank.number(max_environment_tasks));
  if (place.rank >= place.size) rank.fail({"is not a rank of ", place.size, " (", size.name, ")"});
  return place;
}

/// torchrun's, or a user's own.
inline std::optional<place_among_ranks> ranks_of_torchrun() {
  const auto rank = variable_of("RANK");
  const auto size = variable_of("WORLD_SIZE");
  if (!rank && !size) return {};
  if (!size && variable_of("PBS_NODEFILE")) return {};  // the rank of a task that a job's script starts
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

/// MPICH, Intel MPI, and others whose processes are managed by PMI or PMIx.
inline std::optional<place_among_ranks> ranks_of_pmi() {
  const auto rank = first_variable_of({"PMI_RANK", "PMIX_RANK"});
  if (!rank) return {};
  place_among_ranks place = ranks_of(
      "PMI", *rank, needed_variable({"PMI_SIZE", "PMIX_SIZE", "MPI_WORLD_SIZE", "WORLD_SIZE"}, rank->name + " is set"));
  const auto local = variable_of("MPI_LOCALNRANKS");
  place.one_host = local && local->number(max_environment_tasks) == static_cast<std::uint64_t>(place.size);
  return place;
}

/// Whether this process is a task of a step that srun has started, not the script of the job or an interactive shell.
inline bool is_task_of_slurm() {
  const auto step = first_variable_of({"SLURM_STEP_ID", "SLURM_STEPID"});
  constexpr std::uint64_t first_of_special = 0xffff'fff0;  // the batch script, interactive shells, external processes
  return step && variable_of("SLURM_PROCID") && step->number(0xffff'ffff) < first_of_special;
}

inline std::optional<place_among_ranks> ranks_of_slurm() {
  if (!is_task_of_slurm()) return {};
  const std::string because = "this process is a task of a step of Slurm";
  const environment_variable rank = needed_variable("SLURM_PROCID", because),
                             size = needed_variable({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, because);
  place_among_ranks place = ranks_of("Slurm", rank, size);
  // A launcher that srun has started, as MPICH's does, tells its own processes their ranks; Slurm's are the launcher's.
  const auto other_rank = variable_of("PMI_RANK"), other_size = variable_of("PMI_SIZE");
  if (other_rank && other_size && (other_rank->value != rank.value || other_size->value != size.value)) return {};
  const environment_variable list = needed_variable({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"},
                                                    because),
                             counts = needed_variable({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}, because);
  const std::vector<std::string> nodes = host_list_reader::read(list);
  std::vector<int> on_node = read_counts(counts);
  if (nodes.size() != on_node.size())
    counts.fail({"counts the tasks of ", on_node.size(), " nodes, and ", list.name, "='", printable(list.value, 200),
                 "' names ", nodes.size()});
  int sum = 0;
  for (const int each : on_node) sum += each;
  if (sum != place.size) counts.fail({"counts ", sum, " tasks, and ", size.name, " says ", place.size});
  // Ranks go to nodes one node after the other, or in turn. "block:cyclic" is about processors after the colon.
  const auto distribution = first_variable_of({"SLURM_DISTRIBUTION"});
  std::string way = distribution ? distribution->value : "block";
  way = way.substr(0, way.find_first_of(":,"));
  const bool in_turn = way == "cyclic";
  if (!in_turn && way != "block" && !way.empty() && nodes.size() > 1)
    distribution->fail(
        {"distributes ranks over nodes in a way of which Weft knows nothing; use srun --distribution=block "
         "or cyclic, or let the tasks meet in a folder (WEFT_RENDEZVOUS)"});
  for (std::size_t node = 0; place.hosts.size() < static_cast<std::size_t>(place.size);) {
    if (on_node[node] > 0) --on_node[node], place.hosts.push_back(nodes[node]);
    if (in_turn || on_node[node] == 0) node = (node + 1) % nodes.size();
  }
  if (const auto id = variable_of("SLURM_NODEID")) {
    const std::uint64_t number = id->number(max_environment_tasks);
    const std::string& expected = place.hosts[static_cast<std::size_t>(place.rank)];
    if (number >= nodes.size() || nodes[static_cast<std::size_t>(number)] != expected)
      id->fail({"is not the node on which rank ", place.rank, " is expected, ", expected, " (", list.name, ", ",
                counts.name, ", distribution ", way,
                "); use srun --distribution=block, or let the tasks meet in a folder "
                "(WEFT_RENDEZVOUS)"});
  }
  return place;
}

/// A task that pbsdsh has started under Torque, or one of PBS Professional that its job's script has given a RANK.
inline std::optional<place_among_ranks> ranks_of_pbs() {
  const auto file = variable_of("PBS_NODEFILE");
  if (!file) return {};
  auto rank = variable_of("RANK");
  if (!rank) {
    // 1 is the script of the job itself, which is at node 0 too.
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
    if (line.value.find_first_of("[,") != std::string::npos) line.fail({"is not the name of one host"});
    for (const std::string& host : host_list_reader::read(line)) place.hosts.push_back(host);
    if (place.hosts.size() > max_environment_tasks) file->fail({"has too many lines"});
    begin = end + 1;
  }
  if (place.hosts.empty()) file->fail({"names no host"});
  place.size = static_cast<int>(place.hosts.size());
  place.rank = static_cast<int>(rank->number(max_environment_tasks));
  if (place.rank >= place.size) rank->fail({"is not a rank of ", place.size, ", the lines of ", file->value});
  return place;
}

/// Where several launchers have left their words, the one that was called last is believed: one that runs under Slurm
/// or PBS, not these.
inline std::optional<place_among_ranks> ranks_of_environment() {
  for (const auto find : {ranks_of_torchrun, ranks_of_open_mpi, ranks_of_slurm, ranks_of_pmi, ranks_of_pbs})
    if (auto place = find()) return place;
  return {};
}

// ---- from ranks to addresses ----

inline constexpr const char* by_parent = "parent-";

/// The name that tells this run from others, to meet in a folder.
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

/// The ports of a job are those of no other one on the same host, most likely.
inline std::uint16_t port_of_job(const environment_options& options) {
  if (options.port) return options.port;
  std::uint64_t number = 0;
  if (const auto job = first_variable_of({"SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID"}))
    for (const char c : job->value.substr(0, job->value.find('.')))
      if (c >= '0' && c <= '9') number = (number * 10 + static_cast<std::uint64_t>(c - '0')) % 1'000'000'007;
  // Below what the system gives to outgoing connections, room for 32 tasks of a host.
  return static_cast<std::uint16_t>(10'000 + number % 600 * 32);
}

inline std::vector<endpoint> places_of_hosts(const place_among_ranks& place, const environment_options& options) {
  const std::uint16_t first = port_of_job(options);
  std::map<std::string, int> on_host;
  std::vector<endpoint> places;
  // Tasks of one machine need nothing that others could reach.
  for (const std::string& host : place.hosts) {
    const int port = first + on_host[host]++;
    if (port > 65'535)
      throw error(error_code::invalid_argument, "environment",
                  {host, " has so many tasks that there are not enough ports from ", first,
                   " on; choose a smaller environment_options::port"});
    places.push_back({place.one_host ? "127.0.0.1" : host, static_cast<std::uint16_t>(port)});
  }
  return places;
}

/// A folder of this machine and user, made where it is not there.
inline std::string own_folder() {
  const std::string path = str_cat({"/tmp/weft-", ::geteuid()});
  ::mkdir(path.c_str(), S_IRWXU);
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw error(error_code::permission_denied, "rendezvous",
                {path,
                 " must be a folder of this user's, and nobody else may write to it; remove it, or set "
                 "WEFT_RENDEZVOUS to another one"});
  return path;
}

/// By which others know this host.
inline std::string name_of_host() {
  if (std::string given = given_host(); !given.empty()) return given;
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

inline rendezvous::result meet(const place_among_ranks& place, const environment_options& options) {
  rendezvous meeting{place.rank, place.size, given_host(options.host),
                     options.secret ? *options.secret : cluster_secret::of_user(), options.patience};
  std::string folder = options.folder;
  if (folder.empty())
    if (const auto given = variable_of("WEFT_RENDEZVOUS")) folder = given->value;
  if (folder.empty())
    if (const auto first = variable_of("MASTER_ADDR")) {
      const environment_variable port = needed_variable("MASTER_PORT", "MASTER_ADDR is set");
      // torchrun itself listens there.
      const auto taken = variable_of("TORCHELASTIC_USE_AGENT_STORE");
      const std::uint64_t at = port.number(65'534) + (taken && taken->value == "True" ? 1 : 0);
      if (at == 0) port.fail({"is no port that others could know; choose one from 1 to 65534"});
      endpoint where{host_in(*first, ", and the port in MASTER_PORT"), static_cast<std::uint16_t>(at)};
      if (place.one_host) where.host = meeting.host = "127.0.0.1";
      return meeting.through_first(where);
    }
  if (folder.empty() && !place.one_host)
    throw error(error_code::failed_precondition, "environment",
                {place.source,
                 " tells tasks their ranks and not where they are: let them meet. Set WEFT_RENDEZVOUS to a "
                 "folder that all hosts see, or MASTER_ADDR and MASTER_PORT to where rank 0 may listen, for "
                 "all tasks"});
  if (place.one_host && meeting.host.empty()) meeting.host = "127.0.0.1";
  if (folder.empty()) folder = own_folder();
  const auto job = job_of_environment(place.one_host);
  if (!job)
    throw error(error_code::failed_precondition, "environment",
                {"nothing in the environment tells this run from others that meet in ", folder,
                 "; set WEFT_JOB_ID to the same text for all its tasks"});
  if (meeting.host.empty()) meeting.host = name_of_host();
  if (meeting.host.empty())
    throw error(error_code::unavailable, "environment", "this host has no name; set WEFT_HOST to its address");
  try {
    return meeting.through_folder(folder, *job);
  } catch (const error& problem) {
    if (problem.code() != error_code::deadline_exceeded || !job->starts_with(by_parent)) throw;
    throw error(
        problem.code(), problem.operation(),
        {problem.sentence(), "; tasks that no single process has started need WEFT_JOB_ID, the same text for all"});
  }
}

/// Ranks become tasks in order: the first are parameter servers, the others workers.
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
                 " of them would be parameter servers; start at least one more for a worker"});
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

// ---- from a list of hosts ----

/// Whether this machine has the address, which is written in numbers.
inline bool has_address(const std::string& text) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET, v6.sin6_family = AF_INET6;
  const bool is_v4 = ::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1;
  if (!is_v4 && ::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) != 1) return false;
  const owned_descriptor socket(::socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return false;
  return (is_v4 ? ::bind(socket.get(), reinterpret_cast<sockaddr*>(&v4), sizeof v4)
                : ::bind(socket.get(), reinterpret_cast<sockaddr*>(&v6), sizeof v6)) == 0;
}

/// A name with a domain and the same without are one host's.
inline bool is_this_host(const std::string& listed, const std::string& own) {
  const auto first_label = [](const std::string& name) { return name.substr(0, name.find('.')); };
  return listed == own || is_loopback(listed) || has_address(listed) || listed == first_label(own) ||
         first_label(listed) == own;
}

/// Which of the list's tasks this is: as a launcher says that has started as many, or the only one on this host.
inline int rank_of_this_host(const environment_variable& list, const std::vector<std::string>& hosts) {
  if (const auto place = ranks_of_environment(); place && static_cast<std::size_t>(place->size) == hosts.size())
    return place->rank;
  const std::string own = name_of_host();
  std::optional<int> found;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (!is_this_host(hosts[i], own)) continue;
    if (found)
      list.fail(
          {"has several tasks on this host, ", own, ": ", *found, " and ", i, "; say by its index which this is"});
    found = static_cast<int>(i);
  }
  if (!found)
    list.fail({"does not name this host, which calls itself ", own,
               "; name it so, say by its index which task this is, or set WEFT_HOST to one of the names"});
  return *found;
}

inline std::string why_no_cluster(const std::optional<environment_variable>& config) {
  if (variable_of("SLURM_JOB_ID"))
    return "this process is in a job of Slurm and not started by srun; write srun before the program";
  if (variable_of("PBS_NODEFILE"))
    return "this process is in a job of PBS, and nothing says which of its tasks it is; start one for each line of "
           "PBS_NODEFILE, by pbsdsh say, and set RANK to the line's number from 0";
  const std::string names_none =
      config ? str_cat({"TF_CONFIG='", printable(config->value, 200), "' names none, and there are no"})
             : "neither TF_CONFIG nor";
  return str_cat({"the environment has no cluster: ", names_none,
                  " ranks of torchrun, MPI, Slurm or PBS; start the program with weft_launch, or with one of them"});
}

}  // namespace detail

/// Whether the environment tells this process that it is a task of a cluster.
/// Throws weft::error (invalid_argument) for a variable that cannot be read.
inline bool has_cluster_environment() {
  const auto config = detail::variable_of("TF_CONFIG");
  return (config && detail::tf_config::read(*config)) || detail::ranks_of_environment();
}

/// How many tasks a launcher or a scheduler has started together, this one among them; 1 where the environment tells of
/// none. Throws as has_cluster_environment().
inline std::size_t tasks_in_environment() {
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
inline task_environment cluster_spec::from_environment(const environment_options& options) {
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
inline task_environment cluster_spec::from_hosts(std::string_view hosts, const environment_options& options,
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

inline task_environment cluster_spec::from_environment() { return from_environment(environment_options{}); }

}  // namespace weft
