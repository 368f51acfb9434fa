#define BOOST_TEST_DYN_LINK
#define BOOST_TEST_MODULE failures
// Tasks as processes of their own, which are killed and stopped.
#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>
#include <weft/distributed/all_reduce.hpp>
#include <weft/distributed/parameter_server.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;
using test::process;
using steady = std::chrono::steady_clock;

namespace {

std::vector<variable_info> one_variable() {
  return {{"w", element_type::float32, 1000, 0, {"gradient_descent", {1.0}}}};
}

std::string serve(const cluster_spec& cluster) {
  std::string noticed;
  server_options options;
  options.on_lost = [&](const error& problem) { noticed += problem.what(); };
  server here(cluster, "ps", 0, options);
  const join_report report = here.join(20s, 40s);
  here.stop();  // from here on its thread does not call on_lost
  std::string text = "finished:";
  for (const auto& each : report.finished) text += " " + each;
  text += " lost:";
  for (const auto& each : report.lost) text += " " + each;
  return text + " noticed: " + noticed;
}

/// Trains for `seconds`; returns "done after N steps".
std::string train(const cluster_spec& cluster, int index, consistency mode, double seconds,
                  std::chrono::milliseconds step_deadline = 20s) {
  server here(cluster, "worker", index);
  parameter_client client(here, one_variable(), mode, 7, 20s);
  std::vector<float> w(1000), g(1000, 1e-3f);
  const const_bytes gradient = std::as_bytes(std::span(g)), first = std::as_bytes(std::span(w));
  const mutable_bytes out = std::as_writable_bytes(std::span(w));
  client.initialise({&first, 1}, 20s);
  const auto start = steady::now();
  int step = 0;
  for (; test::seconds_since(start) < seconds; ++step) client.push_pull(step, {&gradient, 1}, {&out, 1}, step_deadline);
  client.done(10s);
  return "done after " + std::to_string(step) + " steps";
}

}  // namespace

BOOST_AUTO_TEST_CASE(asynchronous_training_goes_on_without_a_killed_worker) {
  const auto cluster = test::local_cluster(1, 3);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::asynchronous, 1.2); });
  process second([&] { return train(cluster, 1, consistency::asynchronous, 20); });
  process third([&] { return train(cluster, 2, consistency::asynchronous, 1.2); });
  std::this_thread::sleep_for(500ms);
  const auto start = steady::now();
  second.signal(SIGKILL);
  BOOST_TEST(contains(first.text(), "done after"));
  BOOST_TEST(contains(third.text(), "done after"));
  const std::string report = ps.text();
  BOOST_TEST(contains(
      report, "finished: /job:worker/task:0 /job:worker/task:2 lost: /job:worker/task:1 has closed its connection"));
  BOOST_TEST(contains(report, "noticed: /job:ps/task:0: /job:worker/task:1"));
  BOOST_TEST(test::seconds_since(start) < 4);
}

BOOST_AUTO_TEST_CASE(synchronous_training_ends_with_the_name_of_a_killed_worker) {
  const auto cluster = test::local_cluster(1, 3);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::synchronous, 20); });
  process second([&] { return train(cluster, 1, consistency::synchronous, 20); });
  process third([&] { return train(cluster, 2, consistency::synchronous, 20); });
  std::this_thread::sleep_for(700ms);
  const auto start = steady::now();
  second.signal(SIGKILL);
  for (process* each : {&first, &third}) {
    const std::string text = each->text();
    BOOST_TEST_INFO(text);
    BOOST_TEST(contains(text, "/job:worker/task:1 has closed its connection"));
  }
  BOOST_TEST(test::seconds_since(start) < 2);
  BOOST_TEST(contains(ps.text(), "lost: /job:worker/task:1 has closed its connection"));
  BOOST_TEST(test::seconds_since(start) < 3);
}

BOOST_AUTO_TEST_CASE(a_stopped_worker_is_lost_within_two_seconds) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::synchronous, 20); });
  process second([&] { return train(cluster, 1, consistency::synchronous, 20); });
  std::this_thread::sleep_for(700ms);
  const auto start = steady::now();
  second.signal(SIGSTOP);
  const std::string text = first.text();
  BOOST_TEST_INFO(text);
  BOOST_TEST(contains(text, "/job:worker/task:1 has given no sign of life for"));
  BOOST_TEST(test::seconds_since(start) < 2.2);
  BOOST_TEST(contains(ps.text(), "lost: /job:worker/task:1 has given no sign of life"));
}

BOOST_AUTO_TEST_CASE(a_deadline_before_that_names_who_is_waited_for) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::synchronous, 20, 500ms); });
  process second([&] { return train(cluster, 1, consistency::synchronous, 20); });
  std::this_thread::sleep_for(700ms);
  const auto start = steady::now();
  second.signal(SIGSTOP);
  const std::string text = first.text();
  BOOST_TEST_INFO(text);
  BOOST_TEST(contains(text, "still waits for /job:worker/task:1"));
  BOOST_TEST(test::seconds_since(start) < 0.8);
}

BOOST_AUTO_TEST_CASE(a_lost_parameter_server_is_named) {
  for (const int number : {SIGKILL, SIGSTOP}) {
    const auto cluster = test::local_cluster(1, 1);
    process ps([&] { return serve(cluster); });
    process worker([&] { return train(cluster, 0, consistency::asynchronous, 20); });
    std::this_thread::sleep_for(500ms);
    const auto start = steady::now();
    ps.signal(number);
    const std::string text = worker.text();
    BOOST_TEST_INFO(text);
    BOOST_TEST(contains(text, number == SIGKILL ? "push_pull: /job:ps/task:0 has closed its connection"
                                                : "push_pull: /job:ps/task:0 has given no sign of life"));
    BOOST_TEST(test::seconds_since(start) < 2.2);
  }
}

BOOST_AUTO_TEST_CASE(a_lost_rank_of_an_all_reduce_is_named_by_all) {
  for (const int number : {SIGKILL, SIGSTOP}) {
    const auto cluster = test::local_cluster(0, 4);
    std::vector<process> ranks;
    for (int index = 0; index < 4; ++index)
      ranks.emplace_back([&, index]() -> std::string {
        server here(cluster, "worker", index);
        all_reduce group(here, 7, {}, 20s);
        std::vector<float> data(100'000);
        for (;;) group.sum(std::span(data), 20s);
      });
    std::this_thread::sleep_for(700ms);
    const auto start = steady::now();
    ranks[1].signal(number);
    for (const std::size_t survivor : {0u, 2u, 3u}) {
      const std::string text = ranks[survivor].text();
      BOOST_TEST_INFO(text);
      BOOST_TEST(contains(text, number == SIGKILL ? "/job:worker/task:1 has closed its connection"
                                                  : "/job:worker/task:1 has given no sign of life"));
    }
    BOOST_TEST(test::seconds_since(start) < 2.5);
  }
}

BOOST_AUTO_TEST_CASE(a_killed_worker_may_come_back) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::asynchronous, 3); });
  auto second = std::make_unique<process>([&] { return train(cluster, 1, consistency::asynchronous, 20); });
  std::this_thread::sleep_for(500ms);
  second->signal(SIGKILL);
  second->text();
  process again([&] { return train(cluster, 1, consistency::asynchronous, 0.2); });
  BOOST_TEST(contains(again.text(), "done after"));
  BOOST_TEST(contains(first.text(), "done after"));
  BOOST_TEST(contains(ps.text(), "finished: /job:worker/task:0 /job:worker/task:1 lost: noticed"));
}

BOOST_AUTO_TEST_CASE(a_parameter_server_gives_up_on_workers_that_never_come) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&]() -> std::string {
    server here(cluster, "ps", 0);
    here.join(800ms);
    return "ended";
  });
  process first([&] { return train(cluster, 0, consistency::synchronous, 20); });
  BOOST_TEST(contains(ps.text(), "/job:ps/task:0 still waits for /job:worker/task:1"));
  BOOST_TEST(contains(first.text(), "still waits for /job:worker/task:1"));
}
