// SPDX-License-Identifier: BSL-1.0
// Checks what launchers and schedulers say in a task's environment, and how tasks that know only their ranks meet.
#include <sys/stat.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed/cluster/environment.hpp>
#include <weft/distributed/cluster/launchers/host_list.hpp>
#include <weft/distributed/cluster/launchers/launcher_ranks.hpp>
#include <weft/distributed/cluster/rendezvous.hpp>
#include <weft/distributed/parameter/parameter_service.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using test::failure;

namespace {

using env_map = std::map<std::string, std::string>;

/// The environment for a while: these variables, and none of those that launchers set.
class environment {
 public:
  explicit environment(const env_map& set) {
    std::vector<std::string> others;
    for (char** each = environ; *each; ++each) {
      const std::string name = std::string(*each).substr(0, std::string(*each).find('='));
      for (const char* prefix : {"TF_CONFIG", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "OMPI_",
                                 "PMI", "MPI_", "SLURM_", "PBS_", "WEFT_"})
        if (name.starts_with(prefix)) others.push_back(name);
    }
    for (const std::string& name : others) put(name, nullptr);
    for (const auto& [name, value] : set) put(name, value.c_str());
  }
  environment(const environment&) = delete;
  ~environment() {
    for (const auto& [name, value] : before_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }

 private:
  void put(const std::string& name, const char* value) {
    const char* const old = std::getenv(name.c_str());
    before_.try_emplace(name, old ? std::optional<std::string>(old) : std::nullopt);
    value ? ::setenv(name.c_str(), value, 1) : ::unsetenv(name.c_str());
  }
  std::map<std::string, std::optional<std::string>> before_;
};

/// "ps/0 ps=...;worker=...", or what is wrong.
std::string read(const env_map& set, environment_options options = {}) {
  const environment only(set);
  try {
    const task_environment here = cluster_spec::from_environment(options);
    BOOST_TEST(has_cluster_environment());
    return str_cat({here.job, "/", here.index, " ", to_string(here.cluster)});
  } catch (const error& e) {
    BOOST_CHECK(e.code() == error_code::invalid_argument || e.code() == error_code::not_found ||
                e.code() == error_code::failed_precondition || e.code() == error_code::permission_denied);
    return e.what();
  }
}

/// The same of a list of hosts.
std::string among(const std::string& hosts, const env_map& set, int ps = 0, std::optional<int> rank = {}) {
  const environment only(set);
  environment_options options;
  options.ps = ps;
  options.port = 2222;
  try {
    const task_environment here = cluster_spec::from_hosts(hosts, options, rank);
    return str_cat({here.job, "/", here.index, " ", to_string(here.cluster)});
  } catch (const error& e) {
    BOOST_CHECK(e.code() == error_code::invalid_argument);
    return e.what();
  }
}

environment_options with_ps(int ps) {
  environment_options options;
  options.ps = ps;
  return options;
}

env_map plus(env_map some, const env_map& more) {
  for (const auto& [name, value] : more) some[name] = value;
  return some;
}
env_map minus(env_map some, const std::string& name) {
  some.erase(name);
  return some;
}

/// A folder that is gone with it.
struct temporary_folder {
  std::string path;
  temporary_folder() : path((fs::temp_directory_path() / "weft-test-XXXXXX").string()) {
    BOOST_REQUIRE(::mkdtemp(path.data()));
  }
  ~temporary_folder() { fs::remove_all(path); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name) << text;
    return path + "/" + name;
  }
};

}  // namespace

// ---- TF_CONFIG ----

// The example of TensorFlow's guide to distributed training, and those of tf.estimator.RunConfig.
BOOST_AUTO_TEST_CASE(tf_config) {
  BOOST_TEST(read({{"TF_CONFIG", R"({
        "cluster": {"worker": ["host1:2222", "host2:2222", "host3:2222"], "ps": ["host4:2222", "host5:2222"]},
        "task": {"type": "worker", "index": 1}, "environment": "cloud", "rpc_layer": "grpc"})"}}) ==
             "worker/1 ps=host4:2222,host5:2222;worker=host1:2222,host2:2222,host3:2222");
  // The chief is worker 0, and the others move up.
  const std::string estimator = R"({"cluster": {"chief": ["host0:2222"], "ps": ["host1:2222", "host2:2222"],
        "worker": ["host3:2222", "host4:2222", "host5:2222"]}, "task": )";
  const std::string same = " ps=host1:2222,host2:2222;worker=host0:2222,host3:2222,host4:2222,host5:2222";
  BOOST_TEST(read({{"TF_CONFIG", estimator + R"({"type": "worker", "index": 1}})"}}) == "worker/2" + same);
  BOOST_TEST(read({{"TF_CONFIG", estimator + R"({"type": "chief", "index": 0}})"}}) == "worker/0" + same);
  BOOST_TEST(read({{"TF_CONFIG", estimator + R"({"type": "ps", "index": "1"}})"}}) == "ps/1" + same);
  CHECK_SAYS(read({{"TF_CONFIG", estimator + R"({"type": "evaluator", "index": 0}})"}}),
             "makes this process the evaluator");
  // Sparse: a map from numbers to addresses.
  BOOST_TEST(read({{"TF_CONFIG", R"({"cluster": {"worker": {"1": "host1:1", "3": "[::1]:2"}, "ps": ["host0:1"]},
        "task": {"type": "worker", "index": 3}})"}}) == "worker/3 ps=host0:1;worker=1@host1:1,3@[::1]:2");
  // Before all others.
  BOOST_TEST(read({{"TF_CONFIG", R"({"cluster": {"worker": "a:1"}, "task": {"type": "worker"}})"}, {"RANK", "x"}}) ==
             "worker/0 worker=a:1");
}

BOOST_AUTO_TEST_CASE(a_wrong_tf_config_is_told_in_words) {
  const auto says = [](const std::string& config, const std::string& part) {
    const std::string text = read({{"TF_CONFIG", config}});
    CHECK_SAYS(text, "environment: TF_CONFIG='");
    CHECK_SAYS(text, part);
  };
  says("{", "TF_CONFIG is damaged at byte 1");
  says("[]", "'{' is expected");
  says(R"({"cluster": {"ps": ["a:1"]}})", "has no \"task\"");
  says(R"({"cluster": {"ps": ["a:1"]}, "task": {"index": 0}})", "has no \"type\"");
  says(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "worker", "index": 0}})",
       "has no job 'worker' in its \"cluster\"");
  says(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 1}})", "has no task 1 in job 'ps'");
  says(R"({"cluster": {"ps": ["a:1", "b:1"]}, "task": {"type": "ps"}})",
       "has no \"index\" in its \"task\", but job 'ps' has 2");
  says(R"({"cluster": {"ps": ["a"]}, "task": {"type": "ps"}})", "'a' is not host:port");
  says(R"({"cluster": {"ps": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps"}})", "job 'ps' is given twice");
  says(R"({"cluster": {"ps": ["a:1", "a:1"]}, "task": {"type": "ps", "index": 0}})", "a:1 is the address of both");
  says(R"({"cluster": {"p-s": ["a:1"]}, "task": {"type": "p-s", "index": 0}})", "a job name must be a letter");
  says(R"({"cluster": {"ps": {"-1": "a:1"}}, "task": {"type": "ps"}})", "'-1' is not a task number");
  says(R"({"cluster": {"ps": {"1000000000": "a:1"}}, "task": {"type": "ps"}})", "is not a task number");
  says(R"({"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}})",
       "must have one task in job 'chief'");
  says(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps"}} x)", "text after the end");
  says(std::string("{\"a\": ") + std::string(100'000, '['), "nested too deeply");
  says("\x1b[31m", "TF_CONFIG='\\x1b[31m'");
  std::string many = R"({"task": {"type": "ps", "index": 0}, "cluster": {"ps": [)";
  for (int i = 0; i < 70'000; ++i) many += "\"a:1\",";
  says(many, "there are too many tasks");
}

// As TensorFlow takes them: such a process trains alone, unless another variable names a cluster.
BOOST_AUTO_TEST_CASE(a_tf_config_without_a_cluster_is_none) {
  for (const char* const none : {"{}", R"({"cluster": {}})", R"({"environment": "cloud"})",
                                 R"({"cluster": {}, "task": {"type": "worker", "index": 0}})", R"({"task": {}})"}) {
    {
      const environment only(env_map{{"TF_CONFIG", none}});
      BOOST_TEST(!has_cluster_environment());
      CHECK_SAYS(failure(error_code::not_found, [] { cluster_spec::from_environment(); }),
                 str_cat({"the environment has no cluster: TF_CONFIG='", none, "' has none, and there are no ranks"}));
    }
    BOOST_TEST(read({{"TF_CONFIG", none}, {"RANK", "0"}, {"WORLD_SIZE", "1"}}) == "worker/0 worker=127.0.0.1:0");
  }
  for (const char* const wrong :
       {R"({"task": {"type": "worker", "index": 1}})", R"({"task": {"type": "ps", "index": 0}})"})
    CHECK_SAYS(read({{"TF_CONFIG", wrong}}), "has a \"task\" but no \"cluster\"");
}

// Kubeflow's TFJob writes it with enableDynamicWorker. A worker sees itself and the parameter servers; a parameter
// server sees itself alone. No task of it trains alone without notice.
BOOST_AUTO_TEST_CASE(a_sparse_cluster_is_refused_by_every_task) {
  const auto says = [](const char* text) {
    const environment only(env_map{{"TF_CONFIG", text}});
    const char* const why = "has a \"sparseCluster\", which lists only a part of the cluster";
    CHECK_SAYS(failure(error_code::invalid_argument, [] { has_cluster_environment(); }), why);
    CHECK_SAYS(failure(error_code::invalid_argument, [] { tasks_in_environment(); }), why);
    CHECK_SAYS(failure(error_code::invalid_argument, [] { cluster_spec::from_environment(); }), why);
  };
  says(R"({"sparseCluster":{"worker":{"0":"w:2222"},"ps":["p:2222"]},"task":{"type":"worker","index":0}})");
  says(R"({"sparseCluster":{"worker":{"1":"w:2222"},"ps":["p:2222"]},"task":{"type":"worker","index":1}})");
  says(R"({"sparseCluster":{"worker":{},"ps":["p:2222"]},"task":{"type":"ps","index":1}})");
  says(R"({"task":{"type":"chief","index":0},"sparseCluster":{"chief":["c:2222"],"worker":{},"ps":["p:2222"]}})");
  says(R"({"sparseCluster":{}})");
}

// What a user may have set, and the words that name it.
BOOST_AUTO_TEST_CASE(each_wrong_environment_is_named) {
  const env_map two{{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  const auto at = [&](const char* address, const char* port) {
    return plus(two, {{"MASTER_ADDR", address}, {"MASTER_PORT", port}});
  };
  const auto host = [&](const char* name) {
    return plus(two, {{"WEFT_HOST", name}, {"WEFT_RENDEZVOUS", "/"}, {"WEFT_JOB_ID", "1"}});
  };
  const env_map job_of_slurm{{"SLURM_JOB_ID", "1"},  {"SLURM_PROCID", "0"},        {"SLURM_NODEID", "0"},
                             {"SLURM_NTASKS", "2"},  {"SLURM_NODELIST", "a"},      {"SLURM_JOB_NODELIST", "a"},
                             {"SLURM_LOCALID", "0"}, {"SLURM_TASKS_PER_NODE", "2"}};
  const char* const with_port = "' has a port; write only the host, and the port in MASTER_PORT";
  const char* const no_host = "' is not a host name or address";
  const struct {
    env_map set;
    std::string says;
  } table[] = {
      {at("127.0.0.1:29615", "29615"), str_cat({"MASTER_ADDR='127.0.0.1:29615", with_port})},
      {at("a:29615", "29615"), str_cat({"MASTER_ADDR='a:29615", with_port})},
      {at("[::1]:29615", "29615"), str_cat({"MASTER_ADDR='[::1]:29615", with_port})},
      {at("tcp://a", "29615"), str_cat({"MASTER_ADDR='tcp://a", no_host})},
      {at("tcp://a:29615", "29615"), str_cat({"MASTER_ADDR='tcp://a:29615", no_host})},
      {at("a,b", "29615"), str_cat({"MASTER_ADDR='a,b", no_host})},
      {at("a ", "29615"), str_cat({"MASTER_ADDR='a ", no_host})},
      {at("::g", "29615"), str_cat({"MASTER_ADDR='::g", no_host})},
      {at("[a]", "29615"), str_cat({"MASTER_ADDR='[a]", no_host})},
      {at("[fd00::7]", "29615"), "meet at MASTER_ADDR, [fd00::7]:29615, require a secret, even with certificates"},
      {at("fd00::7", "29615"), "meet at MASTER_ADDR, [fd00::7]:29615, require a secret, even with certificates"},
      {at("a", "0"), "MASTER_PORT='0' is not a port that the other tasks can know"},
      {at("a", "29615 "), "MASTER_PORT='29615 ' is wrong at character 6"},
      {at("a", "-1"), "MASTER_PORT='-1' is wrong at character 1"},
      {host("b:29615"), "WEFT_HOST='b:29615' has a port; write only the host; tasks find free ports themselves"},
      {host("[fd00::7]:1"), "WEFT_HOST='[fd00::7]:1' has a port"},
      {host("http://b"), str_cat({"WEFT_HOST='http://b", no_host})},
      {{{"RANK", "0"}}, "WORLD_SIZE is not set, but RANK is set"},
      {{{"WORLD_SIZE", "2"}}, "RANK is not set, but WORLD_SIZE is set"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK='2' must be less than 2"},
      {job_of_slurm, "this process is in a Slurm job but was not started by srun; write srun before the program"},
      {plus(job_of_slurm, {{"TF_CONFIG", "{}"}}), "not started by srun"},
      {{{"PBS_NODEFILE", "/dev/null"}}, "this process is in a PBS job"},
      {{{"RANK", ""}, {"WORLD_SIZE", ""}}, "the environment has no cluster: neither TF_CONFIG nor ranks"},
  };
  for (const auto& [set, says] : table) CHECK_SAYS(read(set), says);
  // The same of what a program says.
  environment_options options;
  options.host = "b:29615";
  CHECK_SAYS(read(at("a", "1"), options), "environment_options::host='b:29615' has a port");
}

// ---- Slurm ----

BOOST_AUTO_TEST_CASE(lists_of_hosts) {
  const auto list = [](const std::string& text) {
    std::string all;
    for (const std::string& host : detail::host_list_reader::read({"LIST", text}))
      all += (all.empty() ? "" : " ") + host;
    return all;
  };
  BOOST_TEST(list("gnode[10,20,25,37]") == "gnode10 gnode20 gnode25 gnode37");
  BOOST_TEST(list("sh04-10n05") == "sh04-10n05");
  BOOST_TEST(list("node[01-04,7],gpu-[1-2],login.cluster") ==
             "node01 node02 node03 node04 node7 gpu-1 gpu-2 login.cluster");
  BOOST_TEST(list("node[098-101]") == "node098 node099 node100 node101");
  BOOST_TEST(list("rack[1-2]n[09-10]-ib") == "rack1n09-ib rack1n10-ib rack2n09-ib rack2n10-ib");
  const auto wrong = [&](const std::string& text, const std::string& part) {
    const std::string said = failure(error_code::invalid_argument, [&] { list(text); });
    CHECK_SAYS(said, "environment: LIST='");
    CHECK_SAYS(said, part);
  };
  wrong("", "at character 1: a host name is expected");
  wrong("a,,b", "at character 3: a host name is expected");
  wrong("a,", "at character 3: a host name is expected");
  wrong("n[1-3", "at character 2: '[' without ']'");
  wrong("n1]", "at character 3: ']' without '['");
  wrong("n[]", "a whole number is expected");
  wrong("n[3-1]", "a range must ascend");
  wrong("n[a-b]", "a whole number is expected");
  wrong("n[1--2]", "a whole number is expected");
  wrong("n[[1]]", "a whole number is expected");
  wrong("n 1", "host names cannot contain this character");
  wrong("n[0-1000000000]", "more than 65536 hosts");
  wrong("n[0-99999999999999999999]", "a number of at most");
  wrong("n[0-9999][0-9999]", "more than 65536 hosts");
  wrong("n[0-999]n[0-999]n[0-999]n[0-999]n[0-999]n[0-999]n[0-999]", "more than 65536 hosts");
  wrong(std::string(300, 'n'), "a host name is too long");
  wrong("n[" + std::string(300, '0') + "1-2]", "a host name is too long");
  std::string long_list;
  for (int i = 0; i < 70'000; ++i) long_list += "n,";
  wrong(long_list + "n", "more than 65536 hosts");
  wrong(std::string(2 << 20, ','), "is longer than");

  const auto counts = [](const std::string& text) { return detail::read_counts({"COUNTS", text}); };
  BOOST_TEST(counts("2(x3),1") == (std::vector<int>{2, 2, 2, 1}), boost::test_tools::per_element());
  BOOST_TEST(counts("1(x4)") == (std::vector<int>{1, 1, 1, 1}), boost::test_tools::per_element());
  for (const char* bad : {"", "2(x", "2(x)", "2(x3", "x", "2,,1", "-1", "2(x3)1", "99999999999999999999"})
    CHECK_SAYS(failure(error_code::invalid_argument, [&] { counts(bad); }), "environment: COUNTS='");
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { counts("1(x65536),1(x65536)"); }), "counts more than");
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { counts("0(x65536),0(x65536)"); }), "counts more than");
}

BOOST_AUTO_TEST_CASE(slurm) {
  // As srun sets them (a job of four nodes of which a step has three).
  const env_map step{{"SLURM_JOB_ID", "200505"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_JOB_NODELIST", "gnode[10,20,25,37]"},
                     {"SLURM_NODELIST", "gnode[10,20,25,37]"},
                     {"SLURM_STEP_NODELIST", "gnode[10,20,25]"},
                     {"SLURM_TASKS_PER_NODE", "4(x4)"},
                     {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                     {"SLURM_STEP_NUM_TASKS", "5"},
                     {"SLURM_NTASKS", "5"},
                     {"SLURM_NPROCS", "5"},
                     {"SLURM_PROCID", "3"},
                     {"SLURM_NODEID", "1"},
                     {"SLURM_LOCALID", "1"},
                     {"SLURM_DISTRIBUTION", "block"}};
  environment_options options;
  options.ps = 2;
  options.port = 2222;
  BOOST_TEST(read(step, options) ==
             "worker/1 ps=gnode10:2222,gnode10:2223;worker=gnode20:2222,gnode20:2223,gnode25:2222");
  BOOST_TEST(read(plus(step, {{"SLURM_PROCID", "1"}, {"SLURM_NODEID", "0"}}), options).substr(0, 5) == "ps/1 ");
  // Ranks in turn over the nodes.
  BOOST_TEST(read(plus(step, {{"SLURM_DISTRIBUTION", "cyclic:block"}, {"SLURM_NODEID", "0"}}), options) ==
             "worker/1 ps=gnode10:2222,gnode20:2222;worker=gnode25:2222,gnode10:2223,gnode20:2223");
  // The port comes from the job's number, and is the same for all; srun before 2.6 has fewer variables.
  const std::string from_job =
      read(plus(minus(minus(step, "SLURM_STEP_NUM_TASKS"), "SLURM_DISTRIBUTION"), {}), with_ps(2));
  CHECK_SAYS(from_job, "worker/1 ps=gnode10:13360,gnode10:13361;");
  // On one node nothing need leave the machine.
  environment_options one_node = with_ps(1);
  one_node.port = 7;
  BOOST_TEST(read({{"SLURM_STEP_ID", "3"},
                   {"SLURM_PROCID", "1"},
                   {"SLURM_NTASKS", "2"},
                   {"SLURM_STEP_NODELIST", "sh04-10n05"},
                   {"SLURM_STEP_TASKS_PER_NODE", "2"}},
                  one_node) == "worker/0 ps=127.0.0.1:7;worker=127.0.0.1:8");

  const auto wrong = [&](const env_map& set, const std::string& part) { CHECK_SAYS(read(set, with_ps(1)), part); };
  wrong(plus(step, {{"SLURM_PROCID", "5"}}), "SLURM_PROCID='5' must be less than 5 (SLURM_STEP_NUM_TASKS)");
  wrong(plus(step, {{"SLURM_PROCID", "one"}}),
        "SLURM_PROCID='one' is wrong at character 1: a whole number is expected");
  wrong(plus(step, {{"SLURM_STEP_NUM_TASKS", "0"}}), "SLURM_STEP_NUM_TASKS='0' must be at least 1");
  wrong(plus(step, {{"SLURM_STEP_NODELIST", "gnode[10,20"}}),
        "SLURM_STEP_NODELIST='gnode[10,20' is wrong at character 6");
  wrong(plus(step, {{"SLURM_STEP_NODELIST", "gnode[10,20]"}}),
        "SLURM_STEP_TASKS_PER_NODE='2(x2),1' counts the tasks of 3 nodes, but SLURM_STEP_NODELIST='gnode[10,20]' names "
        "2");
  wrong(plus(step, {{"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}}), "counts 6 tasks, but SLURM_STEP_NUM_TASKS is 5");
  wrong(plus(step, {{"SLURM_DISTRIBUTION", "plane=2"}}),
        "SLURM_DISTRIBUTION='plane=2' is a distribution of ranks that Weft does not support");
  wrong(plus(step, {{"SLURM_NODEID", "2"}}), "SLURM_NODEID='2' is not the node of rank 3, which is gnode20");
  wrong(minus(minus(step, "SLURM_STEP_TASKS_PER_NODE"), "SLURM_TASKS_PER_NODE"),
        "SLURM_STEP_TASKS_PER_NODE is not set, but this process is a task of a Slurm step");
  CHECK_SAYS(read(step, with_ps(5)), "Slurm has 5 tasks, and 5 of them would be parameter servers");
  // The script of a job, where there is no step, and an interactive shell, are no tasks.
  wrong(minus(step, "SLURM_STEP_ID"), "this process is in a Slurm job but was not started by srun");
  wrong(plus(step, {{"SLURM_STEP_ID", "4294967290"}}), "not started by srun");
}

// ---- lists of hosts ----

BOOST_AUTO_TEST_CASE(a_list_of_hosts) {
  const env_map on_b{{"WEFT_HOST", "b"}};
  // By name, with a domain or without, or by an address of this machine.
  BOOST_TEST(among("a,b", on_b) == "worker/1 worker=a:2222,b:2222");
  BOOST_TEST(among("a.lan,b.lan", on_b, 1) == "worker/0 ps=a.lan:2222;worker=b.lan:2222");
  BOOST_TEST(among("b,a", {{"WEFT_HOST", "b.lan"}}, 1) == "ps/0 ps=b:2222;worker=a:2222");
  BOOST_TEST(among("a:1,127.0.0.2:3,[2001:db8::1]:2", on_b, 1) == "worker/0 ps=a:1;worker=127.0.0.2:3,[2001:db8::1]:2");
  // By its index, or the rank of a launcher that has started as many tasks.
  BOOST_TEST(among("node[08-10]", on_b, 1, 2) == "worker/1 ps=node08:2222;worker=node09:2222,node10:2222");
  BOOST_TEST(among("a,a,b", on_b, 2, 1) == "ps/1 ps=a:2222,a:2223;worker=b:2222");
  const env_map ranks{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  BOOST_TEST(among("c,c", ranks) == "worker/1 worker=c:2222,c:2223");
  BOOST_TEST(among("a,b,c", plus(ranks, on_b)).substr(0, 8) == "worker/1");
  BOOST_TEST(among("a,b,c", plus(ranks, {{"WEFT_HOST", "c"}})).substr(0, 8) == "worker/2");
  // On one host nothing need leave the machine, unless it is another one.
  BOOST_TEST(among("b,b", on_b, 1, 0) == "ps/0 ps=127.0.0.1:2222;worker=127.0.0.1:2223");
  BOOST_TEST(among("a,a", on_b, 1, 0) == "ps/0 ps=a:2222;worker=a:2223");

  const auto wrong = [&](const char* hosts, const char* said, int ps = 0, std::optional<int> rank = {}) {
    CHECK_SAYS(among(hosts, on_b, ps, rank), said);
  };
  wrong("a,c", "hosts='a,c' does not contain this host, whose name is b");
  wrong("a,b,b", "hosts='a,b,b' lists several tasks on this host, b: 1 and 2; pass the index of this one");
  wrong("a,b", "hosts='a,b' has 2 tasks, numbered from 0, but no task 2", 0, 2);
  wrong("a,b", "but no task -1", 0, -1);
  wrong("a,b", "the list of hosts has 2 tasks, and 2 of them would be parameter servers", 2);
  wrong("", "hosts='' is wrong at character 1: a host name is expected");
  wrong("a,,b", "is wrong at character 3: a host name is expected");
  wrong("a;b", "host names cannot contain this character");
  wrong("a:1,b", "'b' is not host:port: the port is missing");
  wrong("a:1,a:1", "a:1 is the address of both");
  wrong("a:0,b:1", "has port 0 (a:0)");
}

// ---- MPI, torchrun, PBS ----

BOOST_AUTO_TEST_CASE(ranks_without_addresses_need_a_place_to_meet) {
  const env_map open_mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_RANK", "2"},
                         {"PMIX_NAMESPACE", "prterun-vm-30514@1"}};
  CHECK_SAYS(
      read(open_mpi, with_ps(1)),
      "Open MPI gives tasks their ranks but not their addresses; for all tasks, set WEFT_RENDEZVOUS to a folder");
  CHECK_SAYS(read(plus(open_mpi, {{"OMPI_COMM_WORLD_RANK", "4"}})), "OMPI_COMM_WORLD_RANK='4' must be less than 4");
  CHECK_SAYS(read(minus(open_mpi, "OMPI_COMM_WORLD_SIZE")),
             "OMPI_COMM_WORLD_SIZE is not set, but OMPI_COMM_WORLD_RANK is");
  CHECK_SAYS(read(plus(open_mpi, {{"MASTER_ADDR", "a b"}, {"MASTER_PORT", "1"}})),
             "MASTER_ADDR='a b' is not a host name or");
  CHECK_SAYS(read(plus(open_mpi, {{"MASTER_ADDR", "a"}})), "MASTER_PORT is not set, but MASTER_ADDR is");
  CHECK_SAYS(read(plus(open_mpi, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}})), "MASTER_PORT='70000' is wrong");
  const env_map mpich{
      {"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"PMI_FD", "9"}, {"MPI_LOCALNRANKS", "1"}, {"MPI_LOCALRANKID", "0"}};
  CHECK_SAYS(read(mpich), "PMI gives tasks their ranks");
  CHECK_SAYS(read(plus(mpich, {{"PMI_RANK", "-1"}})), "PMI_RANK='-1' is wrong at character 1");
  CHECK_SAYS(read(plus(mpich, {{"WEFT_RENDEZVOUS", "/"}})),
             "no environment variable distinguishes this run from others that meet in /");
  CHECK_SAYS(read({{"PMIX_RANK", "0"}}), "PMI_SIZE is not set, but PMIX_RANK is set");
  CHECK_SAYS(read({{"RANK", "0"}}), "WORLD_SIZE is not set, but RANK is set");
  CHECK_SAYS(read({{"RANK", "3"}, {"WORLD_SIZE", "3"}}), "RANK='3' must be less than 3 (WORLD_SIZE)");
  CHECK_SAYS(read({{"RANK", "1e9"}, {"WORLD_SIZE", "1000000000"}}),
             "WORLD_SIZE='1000000000' is wrong at character 1: a number of");
  BOOST_TEST(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == "worker/0 worker=127.0.0.1:0");
  // A launcher's own processes that Slurm has started: its words, not Slurm's of the launcher.
  CHECK_SAYS(read(plus(mpich, {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}})),
             "PMI gives tasks");
  CHECK_SAYS(read({}), "the environment has no cluster: neither TF_CONFIG nor ranks");
  const environment none({});
  BOOST_TEST(!has_cluster_environment());
}

BOOST_AUTO_TEST_CASE(pbs) {
  const temporary_folder folder;
  const std::string file = folder.file("nodes", "node163\nnode163\nnode164\n");
  // As Torque's pbsdsh sets them.
  const env_map task{{"PBS_NODEFILE", file},
                     {"PBS_JOBID", "1672.mgt1.wsuhpc.edu"},
                     {"PBS_TASKNUM", "146"},
                     {"PBS_VNODENUM", "2"},
                     {"PBS_NODENUM", "1"}};
  BOOST_TEST(read(task, with_ps(1)) == "worker/1 ps=node163:25104;worker=node163:25105,node164:25104");
  // The job's script, and a task that it gives a rank.
  CHECK_SAYS(read(plus(task, {{"PBS_TASKNUM", "1"}})), "in a PBS job, but its rank is not known");
  BOOST_TEST(read(plus(task, {{"PBS_TASKNUM", "1"}, {"RANK", "0"}}), with_ps(1)).substr(0, 5) == "ps/0 ");
  CHECK_SAYS(read(plus(task, {{"PBS_VNODENUM", "3"}})), "PBS_VNODENUM='3' must be less than 3");
  const auto wrong = [&](const std::string& text, const std::string& part) {
    CHECK_SAYS(read(plus(task, {{"PBS_NODEFILE", folder.file("wrong", text)}})), part);
  };
  wrong("", "names no host");
  wrong("node1\n\nnode2\n", ", line 2='' is wrong at character 1: a host name is expected");
  wrong("node1\nnode[1-2]\n", ", line 2='node[1-2]' must be the name of one host");
  const environment missing(plus(task, {{"PBS_NODEFILE", folder.path + "/none"}}));
  failure(error_code::not_found, [] { cluster_spec::from_environment(); });
}

// ---- tasks that meet ----

namespace {

/// The addresses that each of `size` tasks has found, or what went wrong, one a line.
template <class Meet>
std::vector<std::string> meet(int size, Meet how) {
  std::vector<std::string> found(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      std::string& text = found[static_cast<std::size_t>(rank)];
      try {
        const rendezvous meeting{rank, size, "127.0.0.1", cluster_secret("known to all tasks alike"), deadline(20s)};
        const rendezvous::result met = how(meeting);
        for (const endpoint& each : met.tasks) text += to_string(each) + "\n";
        // The socket is the one that the others know.
        tcp network;
        const int own = met.listening->release();
        auto listener = network.adopt(own, {"127.0.0.1", 0});
        if (listener.address().port != met.tasks[static_cast<std::size_t>(rank)].port) text += "another port";
      } catch (const std::exception& problem) {
        text = problem.what();
      }
    });
  for (std::thread& each : threads) each.join();
  return found;
}

void all_the_same(const std::vector<std::string>& found) {
  for (const std::string& each : found) BOOST_TEST(each == found[0]);
  BOOST_TEST(std::count(found[0].begin(), found[0].end(), '\n') == static_cast<std::ptrdiff_t>(found.size()));
}

}  // namespace

BOOST_AUTO_TEST_CASE(tasks_meet_in_a_folder) {
  const temporary_folder folder;
  all_the_same(meet(7, [&](const rendezvous& task) { return task.through_folder(folder.path, "job 1"); }));
  BOOST_TEST(fs::is_empty(folder.path));
  // The files that an earlier run has left, complete and half done, mislead no task.
  fs::create_directory(folder.path + "/weft-job_2");
  fs::permissions(folder.path + "/weft-job_2", fs::perms::owner_all);
  folder.file("weft-job_2/0", "weft 3\naaaa complete\naaaa 127.0.0.1:1\nbbbb 127.0.0.1:2\ncccc 127.0.0.1:3\n");
  folder.file("weft-job_2/1", "weft 3\nbbbb 127.0.0.1:2 aaaa\n");
  folder.file("weft-job_2/2", "weft 3\ncccc 127.0.0.1:3 -\n");
  const auto found = meet(3, [&](const rendezvous& task) {
    if (task.rank == 1) std::this_thread::sleep_for(300ms);
    return task.through_folder(folder.path, "job 2");
  });
  all_the_same(found);
  for (const char* stale : {"127.0.0.1:1\n", "127.0.0.1:2\n", "127.0.0.1:3\n"})
    BOOST_TEST(!test::contains(found[0], stale));
}

BOOST_AUTO_TEST_CASE(who_does_not_come_to_the_folder_is_named) {
  const temporary_folder folder;
  const auto come = [&](int rank, std::string& text) {
    const error_code code = test::code_of(
        [&] {
          rendezvous{rank, 5, "127.0.0.1", cluster_secret("known to all tasks alike"), deadline(700ms)}.through_folder(
              folder.path, "j");
        },
        &text);
    if (code != error_code::deadline_exceeded) text = "another code";
  };
  std::string first, third;
  std::thread other([&] { come(2, third); });
  come(0, first);
  other.join();
  CHECK_SAYS(first, "rendezvous: ranks 1, 3 and 4 of 5 did not write to " + folder.path + "/weft-j in time");
  CHECK_SAYS(third, "ranks 1, 3 and 4 of 5 did not write");
  // A folder of somebody else.
  fs::create_directory(folder.path + "/weft-open");
  fs::permissions(folder.path + "/weft-open", fs::perms::all);
  CHECK_SAYS(failure(error_code::permission_denied,
                     [&] {
                       rendezvous{0, 2, "127.0.0.1", cluster_secret("known to all tasks alike")}.through_folder(
                           folder.path, "open");
                     }),
             "nobody else can write to");
}

BOOST_AUTO_TEST_CASE(tasks_meet_at_the_first_of_them) {
  const endpoint first = parse_endpoint(test::free_addresses(tcp(), 1));
  all_the_same(meet(6, [&](const rendezvous& task) {
    if (task.rank == 0) std::this_thread::sleep_for(200ms);
    return task.through_first(first);
  }));
  // Strangers take no part, and are told of no address.
  const auto found = meet(3, [&](rendezvous task) {
    if (task.rank == 2) {
      rendezvous stranger = task;
      stranger.secret = cluster_secret("guessed by somebody");
      const std::string said = failure(error_code::unauthenticated, [&] { stranger.through_first(first); });
      test::require_says_in_task(said, "does not have this task's secret");
    }
    return task.through_first(first);
  });
  all_the_same(found);
  // Tasks that disagree, and one that does not come.
  const auto disagree = meet(3, [&](rendezvous task) {
    task.until = deadline(task.rank == 0 ? 1500ms : 3000ms);
    if (task.rank == 1) task.size = 4;
    return task.through_first(first);
  });
  CHECK_SAYS(disagree[1], "rank 1 expects 4 tasks, but rank 0 expects 3");
  CHECK_SAYS(disagree[0], "rank 1 of 3 did not connect to " + to_string(first) + " in time; rank 1 expects 4 tasks");
  failure(error_code::deadline_exceeded, [&] {
    rendezvous{1, 2, "", cluster_secret("known to all tasks alike"), deadline(300ms)}.through_first(first);
  });
}

// Nobody waits in silence: of three tasks the last does not come.
BOOST_AUTO_TEST_CASE(a_meeting_that_lasts_is_reported_once) {
  const temporary_folder folder;
  const endpoint first = parse_endpoint(test::free_addresses(tcp(), 1));
  const auto report_of = [&](int rank, bool in_folder, std::vector<std::string>& reports) {
    const rendezvous task{rank,         3,
                          "127.0.0.1",  cluster_secret("known to all tasks alike"),
                          deadline(4s), [&](const wait_change& change) { reports.push_back(to_string(change)); }};
    try {
      in_folder ? task.through_folder(folder.path, "j") : task.through_first(first);
    } catch (const error&) {
    }
  };
  std::vector<std::string> reports[4];
  std::vector<std::thread> tasks;
  for (const int rank : {0, 1})
    for (const bool in_folder : {false, true})
      tasks.emplace_back([&, rank, in_folder] { report_of(rank, in_folder, reports[2 * rank + in_folder]); });
  for (std::thread& each : tasks) each.join();
  for (const auto& each : reports) BOOST_REQUIRE(each.size() == 1u);
  CHECK_SAYS(reports[0][0], "waits up to 4 s for rank 2 of 3 at " + to_string(first));
  CHECK_SAYS(reports[1][0], "waits up to 4 s for rank 2 of 3 in " + folder.path);
  CHECK_SAYS(reports[2][0], "waits up to 4 s for rank 0 at " + to_string(first) + ", which waits for others");
  CHECK_SAYS(reports[3][0], "waits up to 4 s for rank 2 of 3 in " + folder.path);
}

// Their places are taken again, as those of a server are.
BOOST_AUTO_TEST_CASE(strangers_that_say_nothing_keep_no_task_from_the_first) {
  const endpoint first = parse_endpoint(test::free_addresses(tcp(), 1));
  tcp network;
  std::vector<tcp::stream> silent;
  const auto start = std::chrono::steady_clock::now();
  all_the_same(meet(3, [&](const rendezvous& task) {
    if (task.rank == 1)
      for (const deadline until = 10s; silent.size() < 300 && !until.expired();) try {
          silent.push_back(network.connect(first, 1000ms));
        } catch (const error&) {
          std::this_thread::sleep_for(1ms);  // rank 0 does not listen yet
        }
    return task.through_first(first);
  }));
  BOOST_TEST(silent.size() == 300u);
  BOOST_TEST(test::seconds_since(start) < 4 + test::slack);
}

BOOST_AUTO_TEST_CASE(a_task_that_goes_before_all_have_come_may_come_again) {
  const endpoint first = parse_endpoint(test::free_addresses(tcp(), 1));
  std::atomic<bool> gave_up{false};
  all_the_same(meet(3, [&](rendezvous task) {
    if (task.rank == 2)
      while (!gave_up) std::this_thread::sleep_for(1ms);
    if (task.rank == 1) {
      task.until = deadline(500ms);
      failure(error_code::deadline_exceeded, [&] { task.through_first(first); });
      task.until = deadline(20s);
      std::this_thread::sleep_for(100ms);  // rank 0 notices
      gave_up = true;
    }
    return task.through_first(first);
  }));
  // It is missing, where it does not.
  const auto found = meet(2, [&](rendezvous task) {
    task.size = 3;
    task.until = deadline(task.rank == 0 ? 1500ms : 500ms);
    return task.through_first(first);
  });
  CHECK_SAYS(found[0],
             "ranks 1 and 2 of 3 did not connect to " + to_string(first) + " in time; rank 1 connected and closed");
  CHECK_SAYS(found[1], "still waits for other tasks");
  // The others learn of rank 0 who is missing, and why.
  const auto vain = meet(3, [&](rendezvous task) {
    if (task.rank == 0) task.until = deadline(1000ms);
    if (task.rank == 2) task.secret = cluster_secret("guessed by somebody");
    return task.through_first(first);
  });
  CHECK_SAYS(vain[0], "rank 2 of 3 did not connect to ");
  CHECK_SAYS(vain[0], "a task with a secret other than this task's (");
  CHECK_SAYS(vain[1], vain[0]);
  CHECK_SAYS(vain[2], "does not have this task's secret");
}

BOOST_AUTO_TEST_CASE(of_two_processes_with_one_rank_the_first_is_told) {
  const endpoint first = parse_endpoint(test::free_addresses(tcp(), 1));
  const auto found = meet(3, [&](rendezvous task) {
    if (task.rank == 0) task.until = deadline(1500ms);
    if (task.rank == 2) {
      task.rank = 1;
      std::this_thread::sleep_for(500ms);
    }
    return task.through_first(first);
  });
  CHECK_SAYS(found[0], "rank 2 of 3 did not connect to " + to_string(first) + " in time; rank 1 connected twice");
  CHECK_SAYS(found[1], "another process connected to " + to_string(first) + " as rank 1 of 3");
  CHECK_SAYS(found[2], "rank 1 connected twice");
}

// As torchrun and mpirun on one machine do it: whole processes, from their environment to a cluster.
BOOST_AUTO_TEST_CASE(ranks_of_one_machine_become_a_cluster_by_themselves) {
  const endpoint first = parse_endpoint(test::free_addresses(tcp(), 1));
  for (const bool torch : {true, false}) {
    std::vector<test::process> tasks;
    for (int rank = 0; rank < 3; ++rank)
      tasks.emplace_back([&, rank]() -> std::string {
        const std::string number = std::to_string(rank);
        const environment only(torch ? env_map{{"RANK", number},
                                               {"WORLD_SIZE", "3"},
                                               {"LOCAL_WORLD_SIZE", "3"},
                                               {"MASTER_ADDR", "localhost"},
                                               {"MASTER_PORT", std::to_string(first.port)}}
                                     : env_map{{"PMI_RANK", number}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "3"}});
        const task_environment told = cluster_spec::from_environment(with_ps(1));
        server here(told);
        here.wait_ready(20s);
        return here.name() + (here.address() == told.cluster.task_address(told.job, told.index) ? "" : " elsewhere");
      });
    BOOST_TEST(tasks[0].text() == "/job:ps/task:0");
    BOOST_TEST(tasks[1].text() == "/job:worker/task:0");
    BOOST_TEST(tasks[2].text() == "/job:worker/task:1");
  }
  // Started one by one, as by hand, they do not find each other.
  const environment alone({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}});
  environment_options briefly = with_ps(1);
  briefly.patience = 100ms;
  CHECK_SAYS(failure(error_code::deadline_exceeded, [&] { cluster_spec::from_environment(briefly); }), "WEFT_JOB_ID");
}
