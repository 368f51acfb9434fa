// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>
#include <weft/distributed/cluster/cluster_spec.hpp>

#include "errors.hpp"

using namespace weft;

namespace {

template <typename Action>
void says(error_code code, const std::string& words, Action action) {
  BOOST_CHECK_EXCEPTION(action(), error, test::says(code, words));
}

}  // namespace

BOOST_AUTO_TEST_CASE(jobs_and_tasks) {
  const cluster_spec cluster{{"worker", "127.0.0.1:2223,localhost:2224"}, {"ps", "[::1]:2222"}};
  BOOST_TEST(to_string(cluster) == "ps=[::1]:2222;worker=127.0.0.1:2223,localhost:2224");
  BOOST_TEST(cluster.num_tasks("worker") == 2);
  BOOST_TEST(cluster.num_tasks("chief") == 0);
  BOOST_TEST(cluster.task_address("ps", 0).host == "::1");
  BOOST_TEST(cluster.task_address("worker", 1).port == 2224);
  BOOST_TEST(cluster.tasks().size() == 3u);
  BOOST_TEST(to_string(cluster.tasks()[2]) == "/job:worker/task:1");
  BOOST_TEST(cluster.rank({"worker", 1}) == 2u);
  BOOST_TEST(cluster.tasks_on_host_of({"ps", 0}) == 3u);
}

BOOST_AUTO_TEST_CASE(addresses_in_a_list_are_those_of_one_text) {
  const cluster_spec of_text{{"ps", "127.0.0.1:1"}, {"worker", "127.0.0.1:2,127.0.0.1:3"}};
  BOOST_CHECK(of_text == (cluster_spec{{"ps", {"127.0.0.1:1"}}, {"worker", {"127.0.0.1:2", "127.0.0.1:3"}}}));
  BOOST_CHECK(of_text == (cluster_spec{{"ps", "127.0.0.1:1"}, {"worker", {"127.0.0.1:2", "127.0.0.1:3"}}}));
  const cluster_spec one_job{{"worker", {"127.0.0.1:2", "127.0.0.1:3"}}};
  BOOST_TEST(to_string(one_job) == "worker=127.0.0.1:2,127.0.0.1:3");
  const std::string text = "127.0.0.1:1";
  BOOST_TEST(to_string(cluster_spec{{"ps", text}, {"worker", {}}}) ==
             to_string(cluster_spec{{"ps", text}, {"worker", ""}}));
}

BOOST_AUTO_TEST_CASE(equal_clusters_have_equal_hashes_and_others_do_not) {
  const cluster_spec one{{"ps", "127.0.0.1:1"}, {"worker", "127.0.0.1:2"}};
  const cluster_spec same{{"worker", "127.0.0.1:2"}, {"ps", "127.0.0.1:1"}};
  const cluster_spec other{{"worker", "127.0.0.1:1"}, {"ps", "127.0.0.1:2"}};
  BOOST_TEST(one.hash() == same.hash());
  BOOST_CHECK(one == same);
  BOOST_TEST(one.hash() != other.hash());
}

BOOST_AUTO_TEST_CASE(mistakes_are_told_in_words) {
  const auto invalid = error_code::invalid_argument;
  for (const char* bad : {"127.0.0.1", "127.0.0.1:", ":2222", "127.0.0.1:port", "127.0.0.1:65536", "127.0.0.1:-1",
                          "::1:2222", "127.0.0.1:2222,", ",127.0.0.1:2222", "127.0.0.1: 2222", "a b:1"})
    says(invalid, "is not host:port", [&] { cluster_spec{{"ps", bad}}; });
  says(invalid, "both /job:ps/task:0 and /job:worker/task:1",
       [] { cluster_spec{{"ps", "127.0.0.1:1"}, {"worker", "127.0.0.1:2,127.0.0.1:1"}}; });
  says(invalid, "both /job:ps/task:0 and /job:ps/task:1", [] { cluster_spec{{"ps", "127.0.0.1:1,127.0.0.1:1"}}; });
  says(invalid, "given twice", [] { cluster_spec{{"ps", "127.0.0.1:1"}, {"ps", "127.0.0.1:2"}}; });
  for (const char* bad : {"", "1ps", "p-s", "p/s", "_ps"})
    says(invalid, "a job name must be a letter", [&] { cluster_spec{{bad, "127.0.0.1:1"}}; });
  const cluster_spec cluster{{"ps", "127.0.0.1:1"}};
  says(error_code::not_found, "no job 'worker'", [&] { cluster.task_address("worker", 0); });
  says(error_code::not_found, "no task 1 in job 'ps'", [&] { cluster.task_address("ps", 1); });
  says(error_code::not_found, "no task -1", [&] { cluster.task_address("ps", -1); });
}

BOOST_AUTO_TEST_CASE(a_job_may_have_holes) {
  const cluster_spec cluster{{"ps", "127.0.0.1:1"}, {"worker", {{3, "127.0.0.1:2"}, {1, "[::1]:3"}}}};
  BOOST_TEST(to_string(cluster) == "ps=127.0.0.1:1;worker=1@[::1]:3,3@127.0.0.1:2");
  BOOST_TEST(cluster.num_tasks("worker") == 2);
  BOOST_TEST(cluster.task_indices("worker") == (std::vector<int>{1, 3}), boost::test_tools::per_element());
  BOOST_TEST(!cluster.is_dense("worker"));
  BOOST_TEST(cluster.is_dense("ps"));
  BOOST_TEST(cluster.has_task({"worker", 3}));
  BOOST_TEST(!cluster.has_task({"worker", 0}));
  BOOST_TEST(cluster.rank({"worker", 1}) == 1u);
  BOOST_TEST(cluster.rank({"worker", 3}) == 2u);
  BOOST_TEST(to_string(cluster.tasks()[2]) == "/job:worker/task:3");
  // A map without holes is a list; what is written is read again.
  BOOST_CHECK((cluster_spec{{"ps", {{1, "127.0.0.1:2"}, {0, "127.0.0.1:1"}}}}) ==
              (cluster_spec{{"ps", "127.0.0.1:1,127.0.0.1:2"}}));
  BOOST_CHECK((cluster_spec{{"ps", "127.0.0.1:1"}, {"worker", "1@[::1]:3,3@127.0.0.1:2"}}) == cluster);
  says(error_code::not_found, "no task 2 in job 'worker', which has 2 tasks with explicit numbers",
       [&] { cluster.task_address("worker", 2); });
  says(error_code::not_found, "no task 0", [&] { cluster.rank({"worker", 0}); });
  const auto invalid = error_code::invalid_argument;
  says(invalid, "task 1 of job 'ps' is given twice", [] { cluster_spec{{"ps", "1@127.0.0.1:2,1@127.0.0.1:3"}}; });
  says(invalid, "numbered from 0, but job 'ps' has a task -1", [] { cluster_spec{{"ps", {{-1, "127.0.0.1:2"}}}}; });
  for (const char* bad : {"@127.0.0.1:1", "x@127.0.0.1:1", "1@127.0.0.1:1,127.0.0.1:2", "99999999999@127.0.0.1:1"})
    says(invalid, "is not TASK@host:port", [&] { cluster_spec{{"ps", bad}}; });
  says(error_code::failed_precondition, "numbered from 0 without gaps", [&] { check_dense(cluster, "worker"); });
}

BOOST_AUTO_TEST_CASE(a_port_that_others_must_know_is_not_zero) {
  BOOST_CHECK_NO_THROW((cluster_spec{{"ps", "127.0.0.1:1"}, {"worker", "127.0.0.1:2"}}.check_ports()));
  says(error_code::invalid_argument, "/job:worker/task:1 has port 0 (127.0.0.1:0), which means any",
       [] { cluster_spec{{"ps", "127.0.0.1:1"}, {"worker", "127.0.0.1:2,127.0.0.1:0"}}.check_ports(); });
}

BOOST_AUTO_TEST_CASE(port_zero_may_repeat) { BOOST_CHECK_NO_THROW((cluster_spec{{"ps", "127.0.0.1:0,127.0.0.1:0"}})); }
