// SPDX-License-Identifier: BSL-1.0
// The end of training, in virtual time. With all-reduce, a worker that has made its last step serves the steps of the
// other workers until they end, and leaves in time if there are none. With parameter servers, all tasks end in time if
// training is complete, and if a loss ends it.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/training/exchanges.hpp>

#include "errors.hpp"
#include "simulation.hpp"

using namespace weft;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using test::simulation;

namespace {

using server_type = basic_server<simulation::network>;
using batch = dims<dyn<"batch">>;

/// The mean of x * w: each update takes the mean of all batches from w.
struct model {
  graph g{1};
  node<float, batch> x = placeholder<float, batch>(g, "x");
  variable_node<float> w = variable<float>(g, "w", init::constant{0});
  effect train = gradient_descent{.learning_rate = 1}.minimize(let(mean(x * w)));
};

struct worker {
  int steps = 0;
  milliseconds each{1000};             // the time of a step
  std::optional<int> sleeps_before{};  // this step, or the end, for 100 seconds
  int finishes = 1;                    // how often finish() is called, where it runs out of time
  std::optional<milliseconds> killed_at{};
  milliseconds stays{0};  // after finish(), to write a report
  bool saves = false;     // the chief waits in finish() for the others, and saves

  // its outcome
  float w = 0;
  std::int64_t global_step = 0;
  std::vector<std::string> said{};
  milliseconds ended{};
};

/// A parameter server's outcome, of the last of its processes.
struct parameter_task {
  std::optional<join_report> report{};
  std::string problem{};
  milliseconds ended{};
};

/// A parameter server that is killed, and started again.
struct server_loss {
  std::size_t task = 0;
  milliseconds killed{}, again{};
};

/// A folder for shards.
struct folder {
  std::string path = "/dev/shm/weft-finish-" + std::to_string(::getpid());
  folder() { std::filesystem::remove_all(path); }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() { std::filesystem::remove_all(path); }
};

/// Trains in virtual time. With all-reduce there are no parameter servers. Those that are lost have shards.
template <class Strategy = collective>
std::vector<parameter_task> run(std::vector<worker>& workers, Strategy how = {}, std::size_t servers = 0,
                                std::optional<server_loss> loss = {}) {
  simulation world({7, 1500us, std::size_t{64} << 10});
  const auto addresses = [](std::size_t first, std::size_t count) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) all += (i ? ",127.0.0.1:" : "127.0.0.1:") + std::to_string(first + i);
    return all;
  };
  cluster_spec cluster{{"worker", addresses(3000, workers.size())}};
  if (servers > 0) cluster.add_job("ps", addresses(2000, servers));
  const auto began = world.now();
  const auto now = [&] { return std::chrono::duration_cast<milliseconds>(detail::now() - began); };
  std::vector<parameter_task> outcomes(servers);
  std::vector<simulation::process> processes(servers + workers.size());
  simulation::process replacement;
  const folder shards;
  struct stopping {
    simulation& in;
    simulation::process& whose;
    server_type* server;
    ~stopping() { in.stop(whose, server); }
  };
  server_options options;
  options.waiting = wait_policy{};
  if (loss) options.shards = {.folder = shards.path, .every_steps = 2};
  const auto serve = [&](std::size_t i, simulation::process& its) {
    server_type here(cluster, "ps", static_cast<int>(i), options, simulation::network(world));
    world.adopt(its);
    const stopping at_end{world, its, &here};
    outcomes[i].report = here.join();
  };
  const auto start_server = [&](std::size_t i, simulation::process& its) {
    world.start(its, [&, i] {
      try {
        serve(i, its);
      } catch (const std::exception& problem) {
        outcomes[i].problem = problem.what();
      }
      outcomes[i].ended = now();
    });
  };
  const auto train = [&](std::size_t i) {
    worker& mine = workers[i];
    server_type here(cluster, "worker", static_cast<int>(i), options, simulation::network(world));
    world.adopt(processes[servers + i]);
    const stopping at_end{world, processes[servers + i], &here};
    const model m;
    replicated_session s(m.g, here, how, {.threads = 1}, 30s);
    auto step = s.prepare(fetch(m.train), feed(m.x));
    for (int k = 0; k <= mine.steps; ++k) {
      if (mine.sleeps_before == k) detail::sleep(100s);
      if (k == mine.steps) break;
      detail::sleep(mine.each);
      tensor<float, batch> x(shape{2});
      x(0) = x(1) = 1;
      step(x, 300s);
    }
    for (int more = mine.finishes; more > 0; --more) try {
        mine.saves ? s.finish(300s, [] {}) : s.finish();
        break;
      } catch (const error& problem) {
        mine.said.push_back(name(problem.code()) + (": " + std::string(problem.what())));
        if (more == 1) throw;
      }
    mine.w = *reinterpret_cast<const float*>(s.local().state_of(m.w.id().node).data());
    mine.global_step = s.global_step();
    detail::sleep(mine.stays);
  };
  for (std::size_t i = 0; i < servers; ++i) start_server(i, processes[i]);
  for (std::size_t i = 0; i < workers.size(); ++i)
    world.start(processes[servers + i], [&, i] {
      try {
        train(i);
      } catch (const std::exception& problem) {
        if (workers[i].said.empty()) workers[i].said.push_back(problem.what());
      }
      workers[i].ended = now();
    });
  const auto all_ended = [&] {
    bool all = true;
    for (const auto& each : processes) all &= each.has_ended();
    return all && (!loss || (replacement.first && replacement.has_ended()));
  };
  while (!all_ended()) {
    if (loss && now() >= loss->killed && !processes[loss->task].dead) world.kill(processes[loss->task], false);
    if (loss && now() >= loss->again && !replacement.first) start_server(loss->task, replacement);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      simulation::process& its = processes[servers + i];
      if (workers[i].killed_at && now() >= *workers[i].killed_at && !its.dead) world.kill(its, false);
    }
    world.sleep(20ms);
  }
  for (auto& each : processes) each.thread.join();
  if (loss) replacement.thread.join();
  return outcomes;
}

}  // namespace

// 78 seconds, of which each step is one: more than the minute that finish() gives an update.
BOOST_AUTO_TEST_CASE(a_worker_that_is_finished_stays_for_all_steps_of_the_others) {
  std::vector<worker> all{{.steps = 2}, {.steps = 80}, {.steps = 0}};
  run(all);
  for (const worker& each : all) {
    BOOST_TEST(each.said.empty());
    BOOST_TEST(each.global_step == 80);
    BOOST_TEST(each.w == -80);  // those who bring nothing count nothing
    BOOST_TEST((each.ended > 80s && each.ended < 90s));
  }
}

BOOST_AUTO_TEST_CASE(a_death_after_more_than_a_minute_of_others_steps_is_named_at_once) {
  std::vector<worker> all{{.steps = 2}, {.steps = 80, .killed_at = 75s}, {.steps = 3}};
  run(all);
  for (const std::size_t survivor : {0u, 2u}) {
    BOOST_REQUIRE(all[survivor].said.size() == 1);
    CHECK_SAYS(all[survivor].said[0], "/job:worker/task:1");
    CHECK_SAYS(all[survivor].said[0], "unavailable");
    BOOST_TEST((all[survivor].ended >= 75s && all[survivor].ended < 78s));
  }
}

// It lives, and says so, and makes no step: the minute runs from its last one.
BOOST_AUTO_TEST_CASE(a_worker_that_makes_no_step_in_a_minute_is_named) {
  std::vector<worker> all{{.steps = 2}, {.steps = 80, .sleeps_before = 70}};
  run(all);
  BOOST_REQUIRE(all[0].said.size() == 1);
  CHECK_SAYS(all[0].said[0], "deadline_exceeded");
  CHECK_SAYS(all[0].said[0], "/job:worker/task:1");
  BOOST_TEST((all[0].ended > 129s && all[0].ended < 132s));
  CHECK_SAYS(all[1].said.at(0), "/job:worker/task:0");  // which has left then
}

BOOST_AUTO_TEST_CASE(finish_goes_on_where_it_has_run_out_of_time) {
  std::vector<worker> all{{.steps = 2, .finishes = 3}, {.steps = 80, .sleeps_before = 70}};
  run(all);
  BOOST_TEST(all[0].said.size() == 1);
  BOOST_TEST(all[1].said.empty());
  for (const worker& each : all) {
    BOOST_TEST(each.global_step == 80);
    BOOST_TEST(each.w == -80);
  }
}

// The last call of all, which finds that nobody brings anything, may run out of time too.
BOOST_AUTO_TEST_CASE(finish_goes_on_where_the_others_have_ended_meanwhile) {
  std::vector<worker> all{{.steps = 2, .finishes = 2}, {.steps = 3, .sleeps_before = 3}};
  run(all);
  for (const worker& each : all) {
    BOOST_TEST(each.global_step == 3);
    BOOST_TEST(each.w == -3);
  }
  BOOST_TEST(all[0].said.size() == 1);
}

// ---- parameter servers ----

// The worker that remains ends with an error after the wait. The servers must not wait for a process in its place, too.
BOOST_AUTO_TEST_CASE(training_without_a_replacement_ends_after_one_wait_in_all_tasks) {
  const auto check = [](auto how) {
    how.on_loss = wait_for{20s};
    std::vector<worker> all{{.steps = 80}, {.steps = 80, .killed_at = 10s}};
    const auto servers = run(all, how, 2);
    const std::string why = "no process has taken its place within 20000 ms";
    BOOST_REQUIRE(all[0].said.size() == 1);
    CHECK_SAYS(all[0].said[0], "/job:worker/task:1");
    CHECK_SAYS(all[0].said[0], why);
    BOOST_TEST((all[0].ended > 29s && all[0].ended < 34s));
    for (const parameter_task& each : servers) {
      BOOST_TEST(each.problem == "");
      BOOST_REQUIRE((each.report && each.report->interrupted));
      CHECK_SAYS(each.report->interrupted->what(), why);
      BOOST_TEST((each.ended > 29s && each.ended < 36s), each.ended.count());
    }
  };
  check(parameter_server<asynchronous>{});
  check(parameter_server<bounded_staleness<4>>{});
  check(parameter_server<synchronous>{});
}

// Nobody needs a worker after its finish(). Servers wait for a process in its place, which may have a report to write,
// only if the policy waits and others still train when it is killed.
BOOST_AUTO_TEST_CASE(a_worker_that_is_killed_after_finish_costs_at_most_the_wait) {
  const auto check = [](auto how, bool waits, bool chief_saves, bool others_train) {
    if (waits) how.on_loss = wait_for{20s};
    BOOST_TEST_CONTEXT("waits " << waits << ", the chief saves " << chief_saves << ", others train " << others_train) {
      std::vector<worker> all{{.steps = others_train ? 10 : 5, .saves = chief_saves},
                              {.steps = 5, .killed_at = 8s, .stays = 1000s}};
      const auto servers = run(all, how, 2);
      const milliseconds trained = others_train ? 10s : 5s;
      BOOST_TEST(all[0].said.empty());
      BOOST_TEST((all[0].ended >= trained && all[0].ended < trained + 1s), all[0].ended.count());
      for (const parameter_task& each : servers) {
        const milliseconds end = waits && others_train ? 28s : trained;
        BOOST_TEST((each.ended >= end && each.ended < end + 1s), each.ended.count());
        BOOST_REQUIRE(each.report);
        BOOST_TEST(!each.report->interrupted);
        BOOST_TEST(each.report->finished.size() == 2u);
        BOOST_TEST(each.report->lost.empty());
      }
    }
  };
  for (const bool waits : {false, true})
    for (const bool chief_saves : {false, true})
      for (const bool others_train : {false, true}) {
        check(parameter_server<synchronous>{}, waits, chief_saves, others_train);
        check(parameter_server<asynchronous>{}, waits, chief_saves, others_train);
      }
}

// A server is restored while one worker trains and the other has finished: it writes a report, has left, or was killed.
// The shards record its end, so nobody waits for its gradients, or for longer than the policy says.
BOOST_AUTO_TEST_CASE(a_server_that_is_restored_does_not_wait_for_a_worker_that_has_finished) {
  const auto check = [](auto how, std::size_t victim) {
    how.on_loss = wait_for{20s};
    how.on_rollback = [](std::int64_t, std::int64_t) {};
    enum class fate { writes_a_report, has_left, was_killed_before, is_killed_later };
    for (const fate of : {fate::writes_a_report, fate::has_left, fate::was_killed_before, fate::is_killed_later}) {
      const bool is_killed = of == fate::was_killed_before || of == fate::is_killed_later;
      worker finished{.steps = 5, .stays = of == fate::has_left ? 0s : 60s};
      if (is_killed) finished.killed_at = of == fate::was_killed_before ? 7s : 12s;
      std::vector<worker> all{{.steps = 15}, finished};
      const auto servers = run(all, how, 2, server_loss{victim, 9s, 10s});
      BOOST_TEST_CONTEXT("server " << victim << ", fate " << static_cast<int>(of)) {
        BOOST_TEST(all[0].said.empty());
        BOOST_TEST(all[1].said.empty());
        BOOST_TEST((all[0].ended > 15s && all[0].ended < 20s), all[0].ended.count());  // it repeats a step or two
        for (const parameter_task& each : servers) {
          BOOST_TEST(each.ended < (is_killed ? 33s : 20s), each.ended.count());
          BOOST_TEST(each.problem == "");
          BOOST_REQUIRE(each.report);
          BOOST_TEST(!each.report->interrupted);
          BOOST_TEST(each.report->finished.size() == 2u);
          BOOST_TEST(each.report->lost.empty());
        }
      }
    }
  };
  for (const std::size_t victim : {0u, 1u}) {
    check(parameter_server<synchronous>{}, victim);
    check(parameter_server<asynchronous>{}, victim);
  }
}
