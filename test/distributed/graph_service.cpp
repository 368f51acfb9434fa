// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_service.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/queue.hpp>

#include "errors.hpp"
#include "local_cluster.hpp"
#include "spanned_model.hpp"

using namespace weft;
using namespace std::chrono_literals;
using namespace test;

namespace {

template <typename T>
void train_on_three_tasks(T network) {
  model one(false), many(true);
  session alone(one.g, {.threads = 1});
  cluster_of<T> tasks(many.g, 3, network);
  session s(many.g, {.threads = 1, .target = tasks.services[0]->target()});
  auto expected = alone.prepare(fetch(one.loss, one.train), feed(one.x, one.y));
  auto found = s.prepare(fetch(many.loss, many.train), feed(many.x, many.y));
  for (int n = 0; n < 20; ++n) BOOST_TEST(std::get<0>(found(xs, ys)) == std::get<0>(expected(xs, ys)));
  BOOST_TEST(s.get(many.w).data()[0] == alone.get(one.w).data()[0]);
  BOOST_TEST(s.get(many.w).data()[1] == alone.get(one.w).data()[1]);
  // A second session finds the variables, and writes them.
  session second(many.g, {.threads = 1, .target = tasks.services[2]->target(0)});
  BOOST_TEST(second.get(many.w).data()[0] == alone.get(one.w).data()[0]);
  second.set(many.w, {1, 2});
  alone.set(one.w, {1, 2});
  BOOST_TEST(std::get<0>(found(xs, ys)) == std::get<0>(expected(xs, ys)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_span_tasks_in_this_process) { train_on_three_tasks(in_process()); }
BOOST_AUTO_TEST_CASE(steps_span_tasks_over_tcp) { train_on_three_tasks(tcp()); }

BOOST_AUTO_TEST_CASE(a_failure_is_reported_with_its_task) {
  graph g;
  const auto i = placeholder<std::int32_t, dims<2>>(g);
  const auto x = placeholder<float, dims<3>>(g);
  const auto rows = on(g, true, "/job:worker/task:2"_device, [&] { return gather(x, i); });
  const auto y = on(g, true, "/job:worker/task:1"_device, [&] { return let(rows * 2.0f); });
  cluster_of<in_process> tasks(g, 3, in_process());
  session s(g, {.target = tasks.services[0]->target()});
  auto step = s.prepare(fetch(y), feed(x, i));
  const tensor<float, dims<3>> values{1, 2, 3};
  BOOST_TEST(step(values, tensor<std::int32_t, dims<2>>{2, 0}).data()[0] == 6);
  const std::string problem = problem_of([&] { step(values, tensor<std::int32_t, dims<2>>{2, 7}); });
  BOOST_TEST(problem.find("gather") == 0u, problem);
  BOOST_TEST(problem.find("(in /job:worker/task:2)") != std::string::npos, problem);
  BOOST_TEST(step(values, tensor<std::int32_t, dims<2>>{1, 0}).data()[0] == 4);
}

// A task refuses a value that is longer than its limit, and so closes the connection from a task that is alive.
BOOST_AUTO_TEST_CASE(values_lost_with_a_connection_end_the_step) {
  graph g;
  const auto x = placeholder<float>(g);
  const auto many = on(g, true, "/job:worker/task:1"_device,
                       [&] { return let(variable<float, dims<4096>>(g, "v", init::zeros{}) + x); });
  const auto y = on(g, true, "/job:worker/task:2"_device, [&] { return let(mean(many)); });
  cluster_of<tcp> tasks(g, 3, {}, {.session = {.threads = 1}, .step_timeout = 30s, .max_value_bytes = 8192});
  session s(g, {.threads = 1, .target = tasks.services[0]->target()});
  auto step = s.prepare(fetch(y), feed(x));
  std::string said;
  BOOST_TEST((code_of([&] { step(1.0f); }, &said) == error_code::unavailable));
  CHECK_SAYS(said, "the connection from /job:worker/task:1 ended");
}

// Targets of different tasks that are made before their sessions.
BOOST_AUTO_TEST_CASE(each_target_has_its_own_task) {
  graph g;
  const auto x = placeholder<float>(g);
  const auto y = let(x + 1.0f);
  cluster_of<in_process> tasks(g, 3, in_process());
  const session_target first = tasks.services[0]->target(1), second = tasks.services[0]->target(2);
  for (const auto& [target, name] : {std::pair(first, "/job:worker/task:1"), std::pair(second, "/job:worker/task:2")}) {
    session s(g, {.threads = 1, .target = target});
    auto step = s.prepare(fetch(y), feed(x));
    BOOST_TEST(step(1.0f) == 2.0f);
    CHECK_SAYS(step.explain(), name);
  }
}

BOOST_AUTO_TEST_CASE(tasks_with_other_graphs_refuse) {
  model here(true);
  graph other;
  const auto unused = variable<float, dims<2>>(other, "v", init::zeros{});
  static_cast<void>(unused);
  cluster_of<in_process> tasks(here.g, 3, in_process(), {.session = {.threads = 1}}, &other);
  session s(here.g, {.target = tasks.services[0]->target()});
  auto step = s.prepare(fetch(here.loss, here.train), feed(here.x, here.y));
  const std::string problem = problem_of([&] { step(xs, ys); });
  BOOST_TEST(problem.find("differs from this task's") != std::string::npos, problem);
  BOOST_TEST(problem.find("/job:worker/task:2") != std::string::npos, problem);
  CHECK_SAYS(problem, "pass graphs of other programs to graph_service::add_graph");
  tasks.services[2]->add_graph(here.g);  // as the sentence asks for
  BOOST_TEST(std::isfinite(std::get<0>(step(xs, ys))));
}

BOOST_AUTO_TEST_CASE(sessions_of_several_tasks_take_turns) {
  graph g;
  const auto there =
      on(g, true, "/job:worker/task:1"_device, [&] { return variable<std::int64_t>(g, "there", init::zeros{}); });
  const auto here =
      on(g, true, "/job:worker/task:0"_device, [&] { return variable<std::int64_t>(g, "here", init::zeros{}); });
  const auto one = on(g, true, "/job:worker/task:0"_device, [&] { return let(here * 0 + 1); });
  const auto add = assign_add(there, one);
  const auto add_here = assign_add(here, add * 0 + 1);
  cluster_of<in_process> tasks(g, 3, in_process());
  std::atomic<int> failures{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 3; ++c)
    clients.emplace_back([&, c] {
      try {
        session s(g, {.threads = 1, .target = tasks.services[static_cast<std::size_t>(c)]->target(0)});
        auto step = s.prepare(fetch(add, add_here));
        for (int n = 0; n < 50; ++n) step();
      } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
        ++failures;
      }
    });
  for (std::thread& c : clients) c.join();
  BOOST_TEST(failures == 0);
  session s(g, {.target = tasks.services[0]->target()});
  BOOST_TEST(s.get(there) == 150);
  BOOST_TEST(s.get(here) == 150);
}

namespace {

/// A sum in task 1, which task 2 doubles.
struct program {
  graph g;
  variable_node<float> w;
  node<float> add, doubled;

  program()
      : w(on(g, true, "/job:worker/task:1"_device, [&] { return variable<float>(g, "w", init::zeros{}); })),
        add(on(g, true, "/job:worker/task:1"_device, [&] { return assign_add(w, 1.0f); })),
        doubled(on(g, true, "/job:worker/task:2"_device, [&] { return let(w * 2.0f); })) {}
};

}  // namespace

// Steps on several tasks get their turn in task 0; those in one other task go straight there.
BOOST_AUTO_TEST_CASE(only_steps_on_several_tasks_need_the_first_one) {
  const cluster_spec cluster = test::local_cluster(0, 3);
  process first([&] {
    program own;
    server here(cluster, "worker", 0);
    graph_service service(here, own.g, {.session = {.threads = 1}});
    here.join();
    return std::string("joined");
  });
  program own;
  server servers[] = {server(cluster, "worker", 1), server(cluster, "worker", 2)};
  graph_service here(servers[0], own.g, {.session = {.threads = 1}});
  graph_service other(servers[1], own.g, {.session = {.threads = 1}});
  session s(own.g, {.threads = 1, .target = here.target()});
  auto add = s.prepare(fetch(own.add));
  auto both = s.prepare(fetch(own.add, own.doubled));
  BOOST_TEST(add() == 1);
  BOOST_TEST(std::get<1>(both()) == 2);
  first.signal(SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  std::string problem;
  while (problem.empty() && seconds_since(killed) < 20)
    if (const std::string each = problem_of([&] { both(); }); each != "nothing") problem = each;
  BOOST_TEST(problem.find("/job:worker/task:0") != std::string::npos, problem);
  BOOST_TEST(seconds_since(killed) < 10);
  const float before = s.get(own.w);
  for (int n = 0; n < 20; ++n) BOOST_TEST(add() == before + static_cast<float>(n) + 1);
}

BOOST_AUTO_TEST_CASE(pins_that_fit_no_task_list_the_devices) {
  graph g;
  const auto x = placeholder<float, dims<3>>(g);
  const auto y = on(g, true, "/job:worker/task:7"_device, [&] { return let(x * 2.0f); });
  const auto z = on(g, true, "/job:worker/task:1/gpu:3"_device, [&] { return let(x * 3.0f); });
  cluster_of<in_process> tasks(g, 2, in_process());
  session s(g, {.target = tasks.services[0]->target()});
  const tensor<float, dims<3>> values{1, 2, 3};
  const std::string problem = problem_of([&] { s.eval(y, with(x, values)); });
  BOOST_TEST(problem.find("/job:worker/task:7") != std::string::npos, problem);
  BOOST_TEST(problem.find("[ /job:worker/task:0/device:CPU:0, /job:worker/task:1/device:CPU:0 ]") != std::string::npos,
             problem);
  const sequence<listed_device> devices = list_devices(s);
  BOOST_REQUIRE_EQUAL(devices.size(), 2u);
  BOOST_TEST(devices[1].name == "/job:worker/task:1/device:CPU:0");
  session soft(g, {.allow_soft_placement = true, .target = tasks.services[0]->target()});
  BOOST_TEST(soft.explain(y).find("/job:worker/replica:0/task:0/device:CPU:0") != std::string::npos, soft.explain(y));
  BOOST_TEST(soft.explain(z).find("/job:worker/replica:0/task:1/device:CPU:0") != std::string::npos, soft.explain(z));
  BOOST_TEST(soft.eval(z, with(x, values)).data()[2] == 9);
}

// Processes of their own, which are killed: a worker in the middle of a step, and a client.
BOOST_AUTO_TEST_CASE(a_killed_task_ends_the_step_and_the_session_goes_on) {
  const cluster_spec cluster = test::local_cluster(0, 3);
  const auto serve = [&](int t) {
    model m(true);
    server here(cluster, "worker", t);
    graph_service tasks(here, m.g, {.session = {.threads = 1}});
    here.join(60s, 120s);
    return std::string("left");
  };
  test::process two([&] { return serve(2); });
  auto one = std::make_unique<test::process>([&] { return serve(1); });
  test::process one_again([&] { return serve(1); }, true);
  model m(true);
  server here(cluster, "worker", 0);
  graph_service tasks(here, m.g, {.session = {.threads = 1}});
  session s(m.g, {.threads = 1, .target = tasks.target()});
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  step(xs, ys);
  std::atomic<bool> killed{false};
  std::thread killer([&] {
    std::this_thread::sleep_for(200ms);
    killed = true;
    one->signal(SIGKILL);
  });
  const auto began = std::chrono::steady_clock::now();
  const std::string problem = problem_of([&] {
    while (test::seconds_since(began) < 20) step(xs, ys);
  });
  killer.join();
  BOOST_TEST(problem.find("/job:worker/task:1") != std::string::npos, problem);
  BOOST_TEST(test::seconds_since(began) < 5 + test::slack);
  one_again.begin();
  std::string lost = problem;
  while (lost.find("restore a checkpoint") == std::string::npos && test::seconds_since(began) < 30) {
    std::this_thread::sleep_for(50ms);
    lost = problem_of([&] { step(xs, ys); });
  }
  BOOST_TEST(lost.find("lost its variables: restore a checkpoint") != std::string::npos, lost);
  BOOST_TEST(lost.find("/job:worker/task:1") != std::string::npos, lost);
  const float zeros[2] = {};
  for (std::uint32_t n = 0; n < m.g.size(); ++n)
    if (is_operation<variable_op>(m.g[n].def.op)) s.write_variable(n, zeros);
  BOOST_TEST(std::get<0>(step(xs, ys)) == 2.0f / 3);  // the mean of squares of -1, 0, 1
  one->signal(SIGKILL);
}

BOOST_AUTO_TEST_CASE(a_killed_client_leaves_nothing_locked) {
  const cluster_spec cluster = test::local_cluster(0, 3);
  test::process client([&] {
    model m(true);
    server here(cluster, "worker", 2);
    graph_service tasks(here, m.g, {.session = {.threads = 1}});
    session s(m.g, {.threads = 1, .target = tasks.target(0)});
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
    for (;;) step(xs, ys);
    return std::string();
  });
  std::unique_ptr<server> servers[2];
  model m(true);
  std::unique_ptr<graph_service<>> services[2];
  for (int t = 0; t < 2; ++t) {
    servers[t] = std::make_unique<server>(cluster, "worker", t);
    services[t] = std::make_unique<graph_service<>>(*servers[t], m.g, graph_service_options{.session = {.threads = 1}});
  }
  // The client's steps need all three tasks, and this session's only two.
  session s(m.g, {.threads = 1, .target = services[0]->target()});
  const float first = s.get(m.w).data()[0];
  const auto began = std::chrono::steady_clock::now();
  while (s.get(m.w).data()[0] == first && test::seconds_since(began) < 20) std::this_thread::sleep_for(10ms);
  BOOST_TEST(s.get(m.w).data()[0] != first);
  client.signal(SIGKILL);
  std::this_thread::sleep_for(50ms);
  // A step of this session, on two tasks.
  auto product = s.prepare(fetch(m.doubled));
  const float last = s.get(m.w).data()[0];
  BOOST_TEST(product().data()[0] == 2 * last);
  BOOST_TEST(test::seconds_since(began) < 25);
}

// ---- sessions whose graphs have other pins ----

namespace {

/// The model of tf.train.replica_device_setter(worker_device=...): loss (2w - 6)^2, whose descent at a rate of 0.01 is
/// w <- 0.92 w + 0.24.
struct replica {
  graph g;
  node<float> x = placeholder<float>(g, "x");
  std::optional<variable_node<float>> w;
  std::optional<node<float>> loss;
  std::optional<effect> train;

  replica(const cluster_spec& cluster, int worker) {
    const std::string name = "/job:worker/task:" + std::to_string(worker);
    const device_scope own(g, parse_device(name.data(), name.size()));
    const device_scope dealt(g, replica_device_setter(cluster));
    w = variable<float>(g, "w", 0.0f);
    loss = let(square(*w * x - 6.0f));
    train = gradient_descent{.learning_rate = 0.01f}.minimize(*loss);
  }
};

template <typename T>
struct task_of_replica : replica {
  basic_server<T> here;
  graph_service<basic_server<T>> service;

  task_of_replica(const cluster_spec& cluster, const char* job, int index, T network)
      : replica(cluster, index),
        here(cluster, job, index, {}, network),
        service(here, g, {.session = {.threads = 1}}) {}
};

}  // namespace

BOOST_AUTO_TEST_CASE(workers_with_graphs_of_their_own_share_variables) {
  using task = task_of_replica<in_process>;
  const in_process network;
  const cluster_spec cluster = test::local_cluster(1, 3, network);
  task ps(cluster, "ps", 0, network);
  std::vector<std::unique_ptr<task>> workers;
  for (int index = 0; index < 3; ++index) workers.push_back(std::make_unique<task>(cluster, "worker", index, network));
  std::vector<session> sessions;
  for (auto& each : workers) sessions.emplace_back(each->g, session_options{.target = each->service.target()});
  for (int n = 0; n < 4; ++n)
    for (std::size_t k = 0; k < 3; ++k)
      sessions[k].run(fetch(*workers[k]->train, *workers[k]->loss), with(workers[k]->x, 2.0f));
  const float expected = 3 * (1 - std::pow(0.92f, 12.0f));
  for (std::size_t k = 0; k < 3; ++k) {
    BOOST_TEST(sessions[k].get(*workers[k]->w) == expected, boost::test_tools::tolerance(1e-5f));
    BOOST_TEST(contains(sessions[k].explain(*workers[k]->w), "/job:ps/replica:0/task:0"));
    BOOST_TEST(contains(sessions[k].explain(*workers[k]->loss), "/job:worker/replica:0/task:" + std::to_string(k)));
  }
}

BOOST_AUTO_TEST_CASE(sessions_have_options_and_targets_of_their_own) {
  graph g;
  const auto x = placeholder<float>(g, "x");
  const auto y = let(x * 2.0f);
  const auto w = on(g, true, "/job:worker/task:2"_device, [&] { return variable<float>(g, "w", 1.0f); });
  const auto add = assign_add(w, x);
  const auto misplaced = on(g, true, "/job:worker/task:7"_device, [&] { return let(x * 3.0f); });
  cluster_of<in_process> tasks(g, 3, in_process());
  for (std::size_t target = 0; target < 3; ++target)
    for (const bool soft : {true, false}) {
      session s(g, {.allow_soft_placement = soft, .target = tasks.services[target]->target()});
      BOOST_TEST(s.eval(y, with(x, 4.0f)) == 8.0f);
      BOOST_TEST(contains(s.explain(y), "task:" + std::to_string(target)));
      s.eval(add, with(x, 1.0f));
      if (soft) BOOST_TEST(s.eval(misplaced, with(x, 2.0f)) == 6.0f);
      const std::string problem = problem_of([&] { s.eval(misplaced, with(x, 2.0f)); });
      BOOST_TEST(contains(problem, soft ? "nothing" : "/job:worker/task:7"), problem);
    }
  session s(g, {.target = tasks.services[1]->target()});
  BOOST_TEST(s.get(w) == 7.0f);
}

BOOST_AUTO_TEST_CASE(a_variable_of_another_type_is_refused) {
  graph g, h;
  const auto at = "/job:worker/task:1"_device;
  const auto w = on(g, true, at, [&] { return variable<float, dims<3>>(g, "w", init::ones{}); });
  const auto other = on(h, true, at, [&] { return variable<float, dims<4>>(h, "w", init::ones{}); });
  cluster_of<in_process> tasks(g, 2, in_process());
  for (auto& each : tasks.services) each->add_graph(h);
  session s(g, {.target = tasks.services[0]->target()});
  BOOST_TEST(s.get(w).data()[2] == 1.0f);
  session t(h, {.target = tasks.services[0]->target()});
  const std::string problem = problem_of([&] { t.get(other); });
  BOOST_TEST(contains(problem, "float[3]"), problem);
  BOOST_TEST(contains(problem, "float[4]"), problem);
  BOOST_TEST(s.get(w).data()[2] == 1.0f);
}

BOOST_AUTO_TEST_CASE(containers_of_variables_are_in_the_tasks) {
  graph g;
  const auto w = on(g, true, "/job:worker/task:1"_device, [&] { return variable<float>(g, "w", 5.0f); });
  const auto u = on(g, true, "/job:worker/task:2"_device, [&] { return variable<float>(g, "u", 6.0f); });
  const auto add = assign_add(w, let(u * 0.0f + 1.0f));
  cluster_of<in_process> tasks(g, 3, in_process());
  const auto of = [&](std::size_t target, const char* container) {
    return session(g, {.variables = variables_in(container), .target = tasks.services[target]->target(0)});
  };
  session first = of(0, "jobs"), second = of(1, "jobs"), usual = of(2, "");
  auto step = first.prepare(fetch(add));
  step();
  step();
  second.set(u, 8.0f);
  BOOST_TEST(second.get(w) == 7.0f);
  BOOST_TEST(first.get(u) == 8.0f);
  BOOST_TEST(usual.get(w) == 5.0f);
  usual.set(w, 1.0f);
  reset(second, {"jobs"});
  BOOST_TEST(first.get(w) == 5.0f);
  BOOST_TEST(second.get(u) == 6.0f);
  step();
  BOOST_TEST(second.get(w) == 6.0f);
  BOOST_TEST(usual.get(w) == 1.0f);
  reset(usual);
  BOOST_TEST(usual.get(w) == 5.0f);
  BOOST_TEST(of(1, "jobs").get(w) == 6.0f);
}

// The refusal is a reply to the process whose request exceeds the limit.
BOOST_AUTO_TEST_CASE(a_refusal_reaches_a_session_of_another_task) {
  graph g;
  const auto x = placeholder<float>(g);
  const auto y = let(x + 1.0f);
  cluster_of<tcp> tasks(g, 2, {}, {.session = {.threads = 1}, .step_timeout = 20s, .connect_timeout = 20s});
  tasks.services[0].reset();
  tasks.options.max_parked_bytes = 64;
  tasks.services[0] = std::make_unique<graph_service<>>(*tasks.servers[0], g, tasks.options);
  session s(g, {.threads = 1, .target = tasks.services[1]->target(0)});
  auto step = s.prepare(fetch(y), feed(x));
  std::string said;
  BOOST_TEST((code_of([&] { step(1.0f); }, &said) == error_code::resource_exhausted), said);
  CHECK_SAYS(said, "requests and values that wait in the task exceed 64 bytes");
}

// Each container makes another placement.
BOOST_AUTO_TEST_CASE(many_sessions_with_placements_of_their_own_take_turns) {
  graph g;
  const auto count =
      on(g, true, "/job:worker/task:1"_device, [&] { return variable<std::int64_t>(g, "count", init::zeros{}); });
  const auto add = assign_add(count, 1);
  cluster_of<in_process> tasks(g, 2, in_process());
  std::vector<std::unique_ptr<session>> all;
  using counting = decltype(all.back()->prepare(fetch(add), feed()));
  std::vector<counting> steps;
  for (int n = 0; n < 70; ++n) {
    all.push_back(std::make_unique<session>(
        g, session_options{
               .threads = 1, .variables = variables_in(str_cat({"c", n})), .target = tasks.services[0]->target()}));
    steps.push_back(all.back()->prepare(fetch(add), feed()));
  }
  for (int round = 0; round < 3; ++round)
    for (counting& step : steps) BOOST_REQUIRE_NO_THROW(step());
  for (const auto& each : all) BOOST_TEST(each->get(count) == 3);
}

// ---- services that end, although their servers live on ----

namespace {

/// Steps in task 1 that wait: in a queue, in a loop, and for a turn.
struct waiting_steps {
  graph g;
  fifo_queue<std::int64_t> queue;
  node<std::int64_t> x = placeholder<std::int64_t>(g, "x");
  node<std::int64_t> next, after_next, loop, sum;

  explicit waiting_steps(const std::string& name)
      : queue(g, 2, {.shared_name = name, .container = "waiting", .device = "/job:worker/task:1"_device}),
        next(queue.dequeue(g, 10min)),
        after_next(on(g, true, "/job:worker/task:0"_device, [&] { return let(next + 1); })),
        loop(on(g, true, "/job:worker/task:1"_device,
                [&] {
                  return let(
                      while_loop([](const auto& i) { return i >= 0; }, [](const auto& i) { return i * 1; }, x * 2));
                })),
        sum(on(g, true, "/job:worker/task:1"_device, [&] { return let(x + 1); })) {}
};

/// How a step failed, and how long that took after the end of the service.
struct failed_step {
  error_code code = error_code::internal;
  std::string said;
  double after = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_service_that_ends_answers_all_its_requests) {
  // The session of task 0 asks task 1: before the service of task 1 has been started again, and after.
  for (const bool is_second_service : {false, true}) {
    waiting_steps w(is_second_service ? "second" : "first");
    cluster_of<tcp> tasks(w.g, 3, {}, {.session = {.threads = 1}, .step_timeout = 60s});
    std::vector<session> sessions;
    for (const std::size_t from : {0u, 0u, 0u, 2u})
      sessions.emplace_back(w.g, session_options{.threads = 1, .target = tasks.services[from]->target()});
    for (session& each : sessions) BOOST_TEST(each.eval(w.sum, with(w.x, std::int64_t{1})) == 2);
    if (is_second_service) {
      tasks.services[1].reset();
      tasks.services[1] = std::make_unique<graph_service<>>(*tasks.servers[1], w.g, tasks.options);
    }
    std::chrono::steady_clock::time_point ended{};
    failed_step how[4];
    std::vector<std::thread> threads;
    const auto start = [&](std::size_t k, const node<std::int64_t>& what) {
      threads.emplace_back([&, k] {
        how[k].code = code_of([&] { sessions[k].eval(what, with(w.x, std::int64_t{1})); }, &how[k].said);
        how[k].after = seconds_since(ended);
      });
    };
    start(0, w.next);
    await("the dequeue", [&] { return w.queue.waiting() == 1; });
    start(1, w.after_next);
    await("the dequeue", [&] { return w.queue.waiting() == 2; });
    start(2, w.loop);
    std::this_thread::sleep_for(300ms);
    start(3, w.sum);  // waits for the turn of the loop
    std::this_thread::sleep_for(200ms);
    ended = std::chrono::steady_clock::now();
    tasks.services[1].reset();
    for (std::thread& each : threads) each.join();
    for (const failed_step& each : how) {
      BOOST_TEST((each.code == error_code::unavailable), each.said);
      CHECK_SAYS(each.said, "/job:worker/task:1");
      BOOST_TEST(each.after < 0.5 + slack);
    }
    reset_containers({"waiting"});
  }
}

// The first request after a restart would be lost on the connection to the service before.
BOOST_AUTO_TEST_CASE(a_service_that_is_made_again_is_reached_at_once) {
  graph g;
  const auto x = placeholder<float>(g);
  const auto y = on(g, true, "/job:worker/task:1"_device, [&] { return let(x + 1.0f); });
  cluster_of<tcp> tasks(g, 2);
  session s(g, {.threads = 1, .target = tasks.services[0]->target()});
  BOOST_TEST(s.eval(y, with(x, 1.0f)) == 2.0f);
  tasks.services[1].reset();
  tasks.services[1] = std::make_unique<graph_service<>>(*tasks.servers[1], g, tasks.options);
  const auto began = std::chrono::steady_clock::now();
  std::string problem = problem_of([&] { s.eval(y, with(x, 1.0f)); });
  BOOST_TEST((problem == "nothing" || contains(problem, "/job:worker/task:1")), problem);
  BOOST_TEST(s.eval(y, with(x, 2.0f)) == 3.0f);
  BOOST_TEST(seconds_since(began) < 0.9 + slack);
}
