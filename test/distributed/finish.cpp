// The end of collective training, in virtual time: a worker that has no more steps to make stays for those of the
// others, however long all of them take together, and leaves in time where there are no more.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
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
using test::virtual_clock;

namespace {

using server_type = basic_server<simulation::network, virtual_clock>;
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

  // its outcome
  float w = 0;
  std::int64_t global_step = 0;
  std::vector<std::string> said{};
  milliseconds ended{};
};

void run(std::vector<worker>& workers) {
  simulation world({7, 1500us, std::size_t{64} << 10});
  std::string addresses;
  for (std::size_t i = 0; i < workers.size(); ++i)
    addresses += (i ? ",127.0.0.1:" : "127.0.0.1:") + std::to_string(3000 + i);
  const cluster_spec cluster{{"worker", addresses}};
  const auto began = world.now();
  const auto now = [&] { return std::chrono::duration_cast<milliseconds>(virtual_clock::now() - began); };
  std::vector<simulation::process> processes(workers.size());
  const auto live = [&](std::size_t i) {
    worker& mine = workers[i];
    server_options options;
    options.waiting = wait_policy{};
    server_type here(cluster, "worker", static_cast<int>(i), options, simulation::network(world));
    world.adopt(processes[i]);
    struct stopping {
      simulation& in;
      simulation::process& whose;
      server_type& server;
      ~stopping() { in.stop(whose, server); }
    } at_end{world, processes[i], here};
    const model m;
    replicated_session s(m.g, here, collective{}, {.threads = 1}, 30s);
    auto step = s.prepare(fetch(m.train), feed(m.x));
    for (int k = 0; k <= mine.steps; ++k) {
      if (mine.sleeps_before == k) detail::sleep<virtual_clock>(100s);
      if (k == mine.steps) break;
      detail::sleep<virtual_clock>(mine.each);
      tensor<float, batch> x(shape{2});
      x(0) = x(1) = 1;
      step(x, 300s);
    }
    for (int more = mine.finishes; more > 0; --more) try {
        s.finish();
        break;
      } catch (const error& problem) {
        mine.said.push_back(name(problem.code()) + (": " + std::string(problem.what())));
        if (more == 1) throw;
      }
    mine.w = *reinterpret_cast<const float*>(s.local().state_of(m.w.id().node).data());
    mine.global_step = s.global_step();
  };
  for (std::size_t i = 0; i < workers.size(); ++i)
    world.start(processes[i], [&, i] {
      try {
        live(i);
      } catch (const std::exception& problem) {
        if (workers[i].said.empty()) workers[i].said.push_back(problem.what());
      }
      workers[i].ended = now();
    });
  const auto all_ended = [&] {
    bool all = true;
    for (const auto& each : processes) all &= each.has_ended();
    return all;
  };
  while (!all_ended()) {
    for (std::size_t i = 0; i < workers.size(); ++i)
      if (workers[i].killed_at && now() >= *workers[i].killed_at && !processes[i].dead) world.kill(processes[i], false);
    world.sleep(20ms);
  }
  for (auto& each : processes) each.thread.join();
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
