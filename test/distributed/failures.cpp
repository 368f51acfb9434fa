// SPDX-License-Identifier: BSL-1.0
// Tasks as processes of their own, which are killed and stopped.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <thread>
#include <vector>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/parameter/parameter_server.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;
using test::process;
using steady = std::chrono::steady_clock;

namespace {

std::vector<parameter_spec> one_variable() {
  return {{"w", element_type::float32, 1000, 0, {"gradient_descent", {1.0}}}};
}

std::string serve(const cluster_spec& cluster, int index = 0, const server_options& given = {}) {
  std::string noticed;
  server_options options = given;
  options.on_lost = [&](const error& problem) { noticed += problem.what(); };
  server here(cluster, "ps", index, options);
  const join_report report = here.join(20s, 40s);
  here.stop();  // from here on its thread does not call on_lost
  std::string text = "finished:";
  for (const auto& each : report.finished) text += " " + each;
  text += " lost:";
  for (const auto& each : report.lost) text += " " + each;
  if (report.interrupted) text += std::string(" interrupted: ") + report.interrupted->what();
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

/// A killed task is noticed by its connection, a stopped one by its silence.
void check_names(const std::string& text, const std::string& lost, int signal) {
  CHECK_SAYS(text, lost + (signal == SIGKILL ? " has closed its connection" : " has sent no heartbeat"));
}

/// The chief, who meets the others and, after a while, ends with an error.
std::string end_before_initialising(const cluster_spec& cluster, std::chrono::milliseconds stay) {
  server here(cluster, "worker", 0);
  parameter_client client(here, one_variable(), consistency::asynchronous, 7, 20s);
  std::this_thread::sleep_for(stay);
  throw std::runtime_error("no images");
}

}  // namespace

// Its share of the data would be missing in silence.
BOOST_AUTO_TEST_CASE(asynchronous_training_ends_with_the_name_of_a_killed_worker) {
  const auto cluster = test::local_cluster(1, 3);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::asynchronous, 20); });
  process second([&] { return train(cluster, 1, consistency::asynchronous, 20); });
  process third([&] { return train(cluster, 2, consistency::asynchronous, 20); });
  std::this_thread::sleep_for(700ms);
  const auto start = steady::now();
  second.signal(SIGKILL);
  for (process* each : {&first, &third}) CHECK_SAYS(each->text(), "/job:worker/task:1 has closed its connection");
  BOOST_TEST(test::seconds_since(start) < 2 + test::slack);
  CHECK_SAYS(ps.text(),
             "interrupted: /job:ps/task:0: asynchronous training ended early: /job:worker/task:1 has closed its");
}

// A worker that has said done() before is not missing; who says it afterwards learns of the loss.
BOOST_AUTO_TEST_CASE(a_worker_that_has_finished_is_not_missing) {
  const auto cluster = test::local_cluster(1, 3);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::asynchronous, 0.3); });
  process second([&] { return train(cluster, 1, consistency::asynchronous, 20); });
  process third([&]() -> std::string {
    server here(cluster, "worker", 2);
    parameter_client client(here, one_variable(), consistency::asynchronous, 7, 20s);
    client.initialise(20s);
    std::this_thread::sleep_for(2s);
    client.done(10s);
    return "done";
  });
  CHECK_SAYS(first.text(), "done after");
  second.signal(SIGKILL);
  CHECK_SAYS(third.text(), "done: /job:worker/task:1 has closed its connection");
  const std::string report = ps.text();
  CHECK_SAYS(report, "finished: /job:worker/task:0 lost: /job:worker/task:1");
  CHECK_SAYS(report, "asynchronous training ended early: /job:worker/task:1");
}

BOOST_AUTO_TEST_CASE(a_number_of_workers_that_nobody_can_have_is_refused) {
  const auto cluster = test::local_cluster(1, 2, in_process{});
  for (const int wrong : {0, 3}) {
    server_options options;
    options.min_workers = wrong;
    basic_server<in_process> here(cluster, "ps", 0, options);
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { here.join(1s); }),
               "min_workers must be from 1 to 2, the number of workers; it is " + std::to_string(wrong));
  }
}

BOOST_AUTO_TEST_CASE(every_task_is_told_of_changes_in_the_number_of_workers) {
  const auto cluster = test::local_cluster(1, 3);
  const auto told = [](server_options options, auto task) {
    std::string all;
    options.on_worker_change = [&](const worker_change& change) { all += to_string(change) + "\n"; };
    options.min_workers = 1;
    task(options);
    return all;
  };
  const auto works = [&](int index, double seconds) {
    return told({}, [&](const server_options& options) {
      server here(cluster, "worker", index, options);
      parameter_client client(here, one_variable(), consistency::asynchronous, 7, 20s);
      std::vector<float> w(1000);
      const const_bytes first = std::as_bytes(std::span(w));
      client.initialise({&first, 1}, 20s);
      for (const auto start = steady::now(); test::seconds_since(start) < seconds;) std::this_thread::sleep_for(10ms);
      if (index == 2)
        here.set_failure(error(error_code::unavailable, "", "no images"));
      else
        client.done(10s);
      here.stop();
    });
  };
  process ps([&] {
    return told({}, [&](const server_options& options) {
      server here(cluster, "ps", 0, options);
      here.join(20s, 40s);
      here.stop();
    });
  });
  process first([&] { return works(0, 3); });
  process second([&] { return works(1, 20); });
  process third([&] { return works(2, 1); });
  std::this_thread::sleep_for(500ms);
  second.signal(SIGKILL);
  for (process* each : {&first, &ps}) {
    const std::string text = each->text();
    CHECK_SAYS(text, "2 of 3 workers: /job:worker/task:1 has closed its connection");
    CHECK_SAYS(text, "1 of 3 workers: /job:worker/task:2 has left the cluster after an error: no images");
  }
}

BOOST_AUTO_TEST_CASE(asynchronous_training_goes_on_with_as_many_workers_as_it_needs) {
  const auto cluster = test::local_cluster(1, 3);
  process ps([&] { return serve(cluster, 0, {.min_workers = 2}); });
  process first([&] { return train(cluster, 0, consistency::asynchronous, 1.2); });
  process second([&] { return train(cluster, 1, consistency::asynchronous, 20); });
  process third([&] { return train(cluster, 2, consistency::asynchronous, 1.2); });
  std::this_thread::sleep_for(500ms);
  const auto start = steady::now();
  second.signal(SIGKILL);
  CHECK_SAYS(first.text(), "done after");
  CHECK_SAYS(third.text(), "done after");
  const std::string report = ps.text();
  CHECK_SAYS(report,
             "finished: /job:worker/task:0 /job:worker/task:2 lost: /job:worker/task:1 has closed its connection");
  CHECK_SAYS(report, "noticed: /job:ps/task:0: /job:worker/task:1");
  BOOST_TEST(test::seconds_since(start) < 4 + test::slack);
}

BOOST_AUTO_TEST_CASE(a_worker_that_ends_with_an_error_has_not_finished) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster, 0, {.min_workers = 1}); });
  process first([&] { return train(cluster, 0, consistency::asynchronous, 0.5); });
  process second([&]() -> std::string {
    server here(cluster, "worker", 1);
    parameter_client client(here, one_variable(), consistency::asynchronous, 7, 20s);
    client.initialise(20s);
    throw std::runtime_error("no images");
  });
  CHECK_SAYS(second.text(), "no images");
  CHECK_SAYS(first.text(), "done after");
  CHECK_SAYS(ps.text(),
             "finished: /job:worker/task:0 lost: /job:worker/task:1 has left the cluster without finish() noticed");
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_a_chief_that_has_ended_with_an_error) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&] { return end_before_initialising(cluster, 300ms); });
  process second([&] { return train(cluster, 1, consistency::asynchronous, 20); });
  const auto start = steady::now();
  CHECK_SAYS(second.text(), "the chief, /job:worker/task:0, has left the cluster, before it initialized the variables");
  BOOST_TEST(test::seconds_since(start) < 5 + test::slack);
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_a_chief_that_was_killed_before_it_initialised) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&] { return end_before_initialising(cluster, 20s); });
  process second([&] { return train(cluster, 1, consistency::asynchronous, 20); });
  std::this_thread::sleep_for(700ms);
  const auto start = steady::now();
  first.signal(SIGKILL);
  CHECK_SAYS(second.text(), "initialise: the chief, /job:worker/task:0, has closed its connection");
  BOOST_TEST(test::seconds_since(start) < 2 + test::slack);
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
  for (process* each : {&first, &third}) CHECK_SAYS(each->text(), "/job:worker/task:1 has closed its connection");
  BOOST_TEST(test::seconds_since(start) < 2 + test::slack);
  CHECK_SAYS(ps.text(), "lost: /job:worker/task:1 has closed its connection");
  BOOST_TEST(test::seconds_since(start) < 3 + test::slack);
}

BOOST_AUTO_TEST_CASE(synchronous_training_ends_with_the_name_of_a_worker_that_left_before_it_began) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&]() -> std::string {
    server here(cluster, "worker", 0);
    here.wait_ready(20s);
    while (here.members().state(here.cluster().rank({"worker", 1})) != task_state::left)
      std::this_thread::sleep_for(5ms);
    parameter_client client(here, one_variable(), consistency::synchronous, 7, 20s);
    std::vector<float> w(1000);
    const const_bytes first = std::as_bytes(std::span(w));
    const mutable_bytes out = std::as_writable_bytes(std::span(w));
    client.initialise({&first, 1}, 20s);
    client.push_pull(0, {&first, 1}, {&out, 1}, 20s);
    return "trained alone";
  });
  process second([&]() -> std::string {
    server here(cluster, "worker", 1);
    here.wait_ready(20s);
    throw std::runtime_error("no images");
  });
  CHECK_SAYS(first.text(), "/job:worker/task:1 has left the cluster without finish()");
  CHECK_SAYS(second.text(), "no images");
  CHECK_SAYS(ps.text(), "synchronous training ended early: /job:worker/task:1 has left the cluster without finish()");
}

BOOST_AUTO_TEST_CASE(a_stopped_worker_is_lost_within_two_seconds) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::synchronous, 20); });
  process second([&] { return train(cluster, 1, consistency::synchronous, 20); });
  std::this_thread::sleep_for(700ms);
  const auto start = steady::now();
  second.signal(SIGSTOP);
  CHECK_SAYS(first.text(), "/job:worker/task:1 has sent no heartbeat for");
  BOOST_TEST(test::seconds_since(start) < 2.2 + test::slack);
  CHECK_SAYS(ps.text(), "lost: /job:worker/task:1 has sent no heartbeat");
}

BOOST_AUTO_TEST_CASE(a_task_that_goes_on_after_it_was_given_up_learns_so) {
  for (const consistency mode : {consistency::synchronous, consistency::asynchronous}) {
    const auto cluster = test::local_cluster(1, 2);
    process ps([&] { return serve(cluster); });
    process first([&] { return train(cluster, 0, mode, 3); });
    process second([&] { return train(cluster, 1, mode, 20); });
    std::this_thread::sleep_for(700ms);
    second.signal(SIGSTOP);
    std::this_thread::sleep_for(2500ms);
    second.signal(SIGCONT);
    const std::string text = second.text();
    CHECK_SAYS(text, "/job:ps/task:0 declared /job:worker/task:1 lost, which has sent no heartbeat for ");
    CHECK_SAYS(text, "(/job:worker/task:1 itself was delayed by 2");
    BOOST_TEST(!contains(text, "was killed"));
  }
}

BOOST_AUTO_TEST_CASE(a_deadline_before_that_names_who_is_waited_for) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::synchronous, 20, 500ms); });
  process second([&] { return train(cluster, 1, consistency::synchronous, 20); });
  std::this_thread::sleep_for(700ms);
  const auto start = steady::now();
  second.signal(SIGSTOP);
  CHECK_SAYS(first.text(), "still waits for /job:worker/task:1");
  BOOST_TEST(test::seconds_since(start) < 0.8 + test::slack);
}

BOOST_AUTO_TEST_CASE(a_lost_parameter_server_is_named) {
  for (const int number : {SIGKILL, SIGSTOP}) {
    const auto cluster = test::local_cluster(1, 1);
    process ps([&] { return serve(cluster); });
    process worker([&] { return train(cluster, 0, consistency::asynchronous, 20); });
    std::this_thread::sleep_for(500ms);
    const auto start = steady::now();
    ps.signal(number);
    check_names(worker.text(), "push_pull: /job:ps/task:0", number);
    BOOST_TEST(test::seconds_since(start) < 2.2 + test::slack);
  }
}

BOOST_AUTO_TEST_CASE(a_parameter_server_does_not_blame_workers_for_another_ones_end) {
  const auto cluster = test::local_cluster(2, 2);
  process killed([&] { return serve(cluster, 0); });
  process ps([&] { return serve(cluster, 1); });
  process first([&] { return train(cluster, 0, consistency::synchronous, 20); });
  process second([&] { return train(cluster, 1, consistency::synchronous, 20); });
  std::this_thread::sleep_for(700ms);
  killed.signal(SIGKILL);
  // A worker that has seen it may leave, and say so, before this server sees it.
  const std::string text = ps.text();
  CHECK_SAYS(text, "synchronous training ended early: ");
  CHECK_SAYS(text.substr(text.find("ended early: ")), "/job:ps/task:0 has closed its connection unexpectedly");
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
    for (const std::size_t survivor : {0u, 2u, 3u}) check_names(ranks[survivor].text(), "/job:worker/task:1", number);
    BOOST_TEST(test::seconds_since(start) < 2.5 + test::slack);
  }
}

namespace {

std::size_t names_of_shared_memory() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/dev/shm")) ++count;
  return count;
}

/// Whether no more names are left than there were. Other tests that run beside this one have names for a moment.
bool no_name_is_left(std::size_t names_before) {
  for (const auto end = deadline(20s); names_of_shared_memory() > names_before;) {
    if (end.expired()) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

/// Trains large variables in shared memory, as a session does; what it threw, and whether what it has is whole.
std::string train_in_memory(const cluster_spec& cluster, int index, consistency mode,
                            std::chrono::milliseconds step_deadline = 20s) {
  constexpr std::size_t elements = 2'000'000;
  const std::vector<parameter_spec> variables{{"w", element_type::float32, elements, 0, {"gradient_descent", {1.0}}}};
  server here(cluster, "worker", index);
  parameter_client client(here, variables, mode, 7, 20s);
  std::vector<float> zero(elements);
  const const_bytes first = std::as_bytes(std::span(zero));
  client.initialise({&first, 1}, 20s);
  const auto place = client.place_of(0);
  if (!place.memory) return "no shared memory";
  auto* const gradient = reinterpret_cast<float*>(place.gradient.data());
  const auto* const w = reinterpret_cast<const float*>(place.value.data());
  const const_bytes from = place.gradient;
  try {
    for (int step = 0;; ++step) {
      std::fill_n(gradient, elements, 1.0f);
      client.push_pull(step, {&from, 1}, {&place.value, 1}, step_deadline);
      for (std::size_t i = 0; i < elements; i += 7)
        if (w[i] != w[0]) return "a torn read";
    }
  } catch (const error& problem) {
    // Nobody writes here any more, whatever the server is doing.
    const std::vector<float> kept(w, w + elements);
    std::this_thread::sleep_for(300ms);
    return problem.what() + std::string(std::equal(kept.begin(), kept.end(), w) ? "" : ", and a late write");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(killed_and_stopped_workers_in_shared_memory) {
  const std::size_t names = names_of_shared_memory();
  for (const int number : {SIGKILL, SIGSTOP}) {
    const auto cluster = test::local_cluster(1, 2);
    process ps([&] { return serve(cluster); });
    process first([&] { return train_in_memory(cluster, 0, consistency::synchronous); });
    process second([&] { return train_in_memory(cluster, 1, consistency::synchronous); });
    std::this_thread::sleep_for(1200ms);
    const auto start = steady::now();
    second.signal(number);
    const std::string text = first.text();
    check_names(text, "/job:worker/task:1", number);
    BOOST_TEST(!contains(text, "late write"));
    BOOST_TEST(test::seconds_since(start) < 2.6 + test::slack);
    const std::string report = ps.text();
    CHECK_SAYS(report, "lost: /job:worker/task:1");
    CHECK_SAYS(report, "interrupted: /job:ps/task:0: synchronous training ended early: /job:worker/task:1");
  }
  BOOST_TEST(no_name_is_left(names));
}

BOOST_AUTO_TEST_CASE(a_killed_or_stopped_parameter_server_in_shared_memory) {
  const std::size_t names = names_of_shared_memory();
  for (const int number : {SIGKILL, SIGSTOP}) {
    const auto cluster = test::local_cluster(1, 2);
    process ps([&] { return serve(cluster); });
    process first([&] { return train_in_memory(cluster, 0, consistency::asynchronous); });
    process second([&] { return train_in_memory(cluster, 1, consistency::asynchronous); });
    std::this_thread::sleep_for(1200ms);
    const auto start = steady::now();
    ps.signal(number);
    for (process* each : {&first, &second}) {
      const std::string text = each->text();
      check_names(text, "/job:ps/task:0", number);
      BOOST_TEST(!contains(text, "late write"));
    }
    BOOST_TEST(test::seconds_since(start) < 2.6 + test::slack);
  }
  BOOST_TEST(no_name_is_left(names));
}

BOOST_AUTO_TEST_CASE(a_server_that_goes_on_late_writes_to_nobody) {
  const auto cluster = test::local_cluster(1, 1);
  process ps([&] { return serve(cluster); });
  process worker([&] { return train_in_memory(cluster, 0, consistency::asynchronous, 400ms); });
  std::this_thread::sleep_for(1000ms);
  ps.signal(SIGSTOP);
  std::this_thread::sleep_for(500ms);  // past the step's deadline
  ps.signal(SIGCONT);
  const std::string text = worker.text();
  CHECK_SAYS(text, "no answer in time from /job:ps/task:0");
  BOOST_TEST(!contains(text, "late write"));
}

BOOST_AUTO_TEST_CASE(a_lost_rank_in_the_middle_of_large_sums_is_named_by_all) {
  const std::size_t names = names_of_shared_memory();
  for (const int number : {SIGKILL, SIGSTOP}) {
    const auto cluster = test::local_cluster(0, 3);
    std::vector<process> ranks;
    for (int index = 0; index < 3; ++index)
      ranks.emplace_back([&, index]() -> std::string {
        server here(cluster, "worker", index);
        all_reduce group(here, 7, {}, 20s);
        const mutable_bytes block = group.shared_block(16'000'000, 20s);
        if (block.empty()) return "no shared memory";
        for (;;) group.mean(std::span(reinterpret_cast<float*>(block.data()), block.size() / 4), 20s);
      });
    std::this_thread::sleep_for(1000ms);
    const auto start = steady::now();
    ranks[1].signal(number);
    for (const std::size_t survivor : {0u, 2u}) check_names(ranks[survivor].text(), "/job:worker/task:1", number);
    BOOST_TEST(test::seconds_since(start) < 2.5 + test::slack);
  }
  BOOST_TEST(no_name_is_left(names));
}

BOOST_AUTO_TEST_CASE(stopping_a_server_ends_a_wait_in_shared_memory) {
  const auto cluster = test::local_cluster(0, 2);
  std::vector<process> ranks;
  for (int index = 0; index < 2; ++index)
    ranks.emplace_back([&, index]() -> std::string {
      server here(cluster, "worker", index);
      all_reduce group(here, 7, {}, 20s);
      std::vector<float> data(1000);
      group.sum(std::span(data), 20s);
      if (index == 1) {
        std::this_thread::sleep_for(300ms);
        return "left";
      }
      std::thread stopper([&] {
        std::this_thread::sleep_for(100ms);
        here.stop();
      });
      std::string text;
      try {
        group.sum(std::span(data), 20s);
      } catch (const error& problem) {
        text = problem.what();
      }
      stopper.join();
      return text;
    });
  const auto start = steady::now();
  CHECK_SAYS(ranks[0].text(), "this server was stopped");
  BOOST_TEST(test::seconds_since(start) < 3 + test::slack);
}

BOOST_AUTO_TEST_CASE(a_server_may_be_stopped_in_on_lost) {
  const auto cluster = test::local_cluster(1, 1);
  process ps([&]() -> std::string {
    server here(cluster, "ps", 0);
    here.join(20s, 20s);
    return "not killed";
  });
  process worker([&]() -> std::string {
    std::atomic<server*> self{nullptr};
    std::atomic<bool> told{false};
    server_options options;
    options.on_lost = [&](const error&) {
      told = true;
      std::this_thread::sleep_for(200ms);  // another thread is stopping it, too, by then
      self.load()->stop();
    };
    server here(cluster, "worker", 0, options);
    self = &here;
    while (!told) std::this_thread::sleep_for(1ms);
    here.stop();
    server again(cluster, "worker", 0);  // the port is free
    return "stopped";
  });
  std::this_thread::sleep_for(500ms);
  const auto start = steady::now();
  ps.signal(SIGKILL);
  BOOST_TEST(worker.text() == "stopped");
  BOOST_TEST(test::seconds_since(start) < 3 + test::slack);
}

BOOST_AUTO_TEST_CASE(a_killed_worker_may_come_back) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster, 0, {.min_workers = 1}); });
  process first([&] { return train(cluster, 0, consistency::asynchronous, 3); });
  auto second = std::make_unique<process>([&] { return train(cluster, 1, consistency::asynchronous, 20); });
  std::this_thread::sleep_for(500ms);
  second->signal(SIGKILL);
  second->text();
  process again([&] { return train(cluster, 1, consistency::asynchronous, 0.2); });
  CHECK_SAYS(again.text(), "done after");
  CHECK_SAYS(first.text(), "done after");
  CHECK_SAYS(ps.text(), "finished: /job:worker/task:0 /job:worker/task:1 lost: noticed");
}

BOOST_AUTO_TEST_CASE(a_parameter_server_gives_up_on_workers_that_never_come) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&]() -> std::string {
    server here(cluster, "ps", 0);
    here.join(800ms);
    return "ended";
  });
  process first([&] { return train(cluster, 0, consistency::synchronous, 20); });
  CHECK_SAYS(ps.text(), "/job:ps/task:0 still waits for /job:worker/task:1");
  CHECK_SAYS(first.text(), "still waits for /job:worker/task:1");
}

// A parameter server that is stopped while the others begin: they give it up, and end. It was it that was silent.
BOOST_AUTO_TEST_CASE(a_server_that_was_held_up_blames_nobody_else) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::asynchronous, 20); });
  process second([&] { return train(cluster, 1, consistency::asynchronous, 20); });
  std::this_thread::sleep_for(400ms);
  ps.signal(SIGSTOP);
  for (process* each : {&first, &second}) CHECK_SAYS(each->text(), "/job:ps/task:0 has sent no heartbeat for");
  ps.signal(SIGCONT);
  const std::string report = ps.text();
  for (const char* worker : {"/job:worker/task:0", "/job:worker/task:1"})
    CHECK_SAYS(report, worker + std::string(" declared /job:ps/task:0 lost, which has sent no heartbeat for"));
  BOOST_TEST(!contains(report, "was killed"));
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_refused_is_not_said_to_be_killed) {
  const auto cluster = test::local_cluster(1, 3);
  process ps([&] { return serve(cluster); });
  const auto synchronous = [&](int index, std::uint64_t seed) -> std::string {
    server here(cluster, "worker", index);
    here.wait_ready(20s);
    if (index == 2) std::this_thread::sleep_for(300ms);
    parameter_client client(here, one_variable(), consistency::synchronous, graph_identity(7, seed), 20s);
    std::vector<float> w(1000);
    const const_bytes first = std::as_bytes(std::span(w));
    const mutable_bytes out = std::as_writable_bytes(std::span(w));
    client.initialise({&first, 1}, 20s);
    client.push_pull(client.first_step(), {&first, 1}, {&out, 1}, 20s);
    return "trained";
  };
  process first([&] { return synchronous(0, 3); });
  process second([&] { return synchronous(1, 3); });
  process third([&] { return synchronous(2, 4); });
  const std::string why = "/job:worker/task:2 was rejected, because it does not train the same model: its seed is 4";
  CHECK_SAYS(third.text(),
             "/job:worker/task:2 does not train the same model: its seed is 4, but the first worker's is 3");
  for (process* each : {&first, &second}) CHECK_SAYS(each->text(), why);
  const std::string report = ps.text();
  CHECK_SAYS(report, "synchronous training ended early: " + why);
  BOOST_TEST(!contains(report, "killed"));
}

BOOST_AUTO_TEST_CASE(ranks_that_had_no_part_in_a_quarrel_learn_of_it) {
  const auto cluster = test::local_cluster(0, 4);
  std::vector<process> ranks;
  for (int index = 0; index < 4; ++index)
    ranks.emplace_back([&, index]() -> std::string {
      server here(cluster, "worker", index);
      all_reduce group(here, graph_identity(7, index == 0 ? 4 : 3), {}, 20s);
      std::vector<float> data(1000);
      group.sum(std::span(data), 20s);
      return "summed";
    });
  for (process& each : ranks) CHECK_SAYS(each.text(), "does not train the same model: its seed is ");
}

BOOST_AUTO_TEST_CASE(synchronous_training_does_not_go_on_with_another_process_in_a_workers_place) {
  const auto cluster = test::local_cluster(1, 2);
  process ps([&] { return serve(cluster); });
  process first([&] { return train(cluster, 0, consistency::synchronous, 20); });
  auto second = std::make_unique<process>([&] { return train(cluster, 1, consistency::synchronous, 20); });
  std::this_thread::sleep_for(700ms);
  second->signal(SIGSTOP);  // it contributes nothing more
  std::this_thread::sleep_for(100ms);
  ps.signal(SIGSTOP);  // it finds the end of the one and the start of the other at the same time
  second->signal(SIGKILL);
  second->text();  // its port is free then
  process again([&] { return train(cluster, 1, consistency::synchronous, 20); });
  std::this_thread::sleep_for(300ms);
  ps.signal(SIGCONT);
  CHECK_SAYS(first.text(), "/job:worker/task:1 has closed its connection");
  CHECK_SAYS(again.text(), "/job:worker/task:");
  CHECK_SAYS(ps.text(), "interrupted: /job:ps/task:0: synchronous training ended early: /job:worker/task:1");
}

BOOST_AUTO_TEST_CASE(an_update_that_ran_out_of_time_may_be_repeated_after_the_server_was_stopped) {
  for (const bool shared : {true, false}) {
    const auto cluster = test::local_cluster(1, 1);
    process ps([&] { return serve(cluster); });
    process worker([&]() -> std::string {
      server_options options;
      options.shared_memory = shared;
      server here(cluster, "worker", 0, options);
      parameter_client client(here, one_variable(), consistency::asynchronous, 7, 20s);
      std::vector<float> w(1000), g(1000, 1.0f);
      const const_bytes gradient = std::as_bytes(std::span(g)), first = std::as_bytes(std::span(w));
      const mutable_bytes out = std::as_writable_bytes(std::span(w));
      client.initialise({&first, 1}, 20s);
      int late = 0;
      std::int64_t step = client.first_step();
      for (const auto start = steady::now(); test::seconds_since(start) < 2; ++step)
        for (bool made = false; !made;) try {
            client.push_pull(step, {&gradient, 1}, {&out, 1}, 200ms);
            made = true;
          } catch (const error& problem) {
            if (problem.code() != error_code::deadline_exceeded) throw;
            ++late;
          }
      if (shared != static_cast<bool>(client.place_of(0).memory)) return "shared memory: not as before";
      client.done(10s);
      if (w[0] != static_cast<float>(-step) || w[999] != w[0]) return "not each once";
      return late > 0 ? "each once" : "never late";
    });
    std::this_thread::sleep_for(700ms);
    ps.signal(SIGSTOP);
    std::this_thread::sleep_for(700ms);
    ps.signal(SIGCONT);
    BOOST_TEST(worker.text() == "each once");
    CHECK_SAYS(ps.text(), "finished: /job:worker/task:0 lost: noticed: ");
  }
}
