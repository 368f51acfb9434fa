// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>
#include <weft/queue.hpp>

#include "errors.hpp"
#include "local_cluster.hpp"
#include "spanned_model.hpp"

using namespace weft;
using namespace std::chrono_literals;
using namespace test;

namespace {

/// A queue in task 1, whatever scope its operations are recorded in, and a variable beside it.
struct jobs {
  graph g;
  fifo_queue<std::int64_t> queue;
  node<std::int64_t> x = placeholder<std::int64_t>(g, "x");
  effect put;
  node<std::int64_t> next, at_once;
  variable_node<std::int64_t> count;
  node<std::int64_t> add;

  explicit jobs(const char* name)
      : queue(g, 2, {.shared_name = name, .container = "jobs", .device = "/job:worker/task:1"_device}),
        put(queue.enqueue(10min, x)),
        next(queue.dequeue(g, 10min)),
        at_once(queue.dequeue(g, 100ms)),
        count(on(g, true, "/job:worker/task:1"_device,
                 [&] { return variable<std::int64_t>(g, "count", init::zeros{}); })),
        add(assign_add(count, on(g, true, "/job:worker/task:0"_device, [&] { return let(x * 1); }))) {}
};

std::string address_of(const cluster_of<tcp>& tasks, std::size_t task) {
  return "weft://" + to_string(tasks.servers[task]->address());
}

}  // namespace

BOOST_AUTO_TEST_CASE(operations_on_a_queue_run_in_the_task_that_has_it) {
  jobs j("placed");
  cluster_of<tcp> tasks(j.g, 2);
  session s(j.g, {.threads = 1, .target = tasks.services[0]->target()});
  BOOST_TEST(s.explain(j.next).find("/task:1/") != std::string::npos, s.explain(j.next));
  session outside(j.g, {.threads = 1, .target = address_of(tasks, 0)});
  s.run(fetch(j.put), with(j.x, std::int64_t{7}));
  outside.run(fetch(j.put), with(j.x, std::int64_t{8}));
  BOOST_TEST(outside.eval(j.next) == 7);
  BOOST_TEST(s.eval(j.next) == 8);
  const std::string late = problem_of([&] { s.eval(j.at_once); });
  BOOST_TEST(late.find("arrived: enqueue") != std::string::npos, late);
  reset_containers({"jobs"});
}

BOOST_AUTO_TEST_CASE(a_wait_in_a_queue_holds_up_no_other_run) {
  jobs j("waits");
  cluster_of<tcp> tasks(j.g, 2);
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> consumers;
  for (int c = 0; c < 2; ++c)
    consumers.emplace_back([&, c] {
      session s(j.g, {.threads = 1, .target = c ? session_target(address_of(tasks, 0)) : tasks.services[0]->target()});
      auto step = s.prepare(fetch(j.next));
      for (int n = 0; n < 10; ++n) sum += step();
    });
  std::this_thread::sleep_for(200ms);  // both wait
  session s(j.g, {.threads = 1, .target = tasks.services[0]->target()});
  auto add = s.prepare(fetch(j.add), feed(j.x));
  const auto began = std::chrono::steady_clock::now();
  for (int n = 0; n < 50; ++n) add(std::int64_t{1});
  BOOST_TEST(seconds_since(began) < 10);
  auto put = s.prepare(fetch(j.put), feed(j.x));
  for (std::int64_t n = 0; n < 20; ++n) put(n);
  for (std::thread& c : consumers) c.join();
  BOOST_TEST(sum == 190);
  BOOST_TEST(s.get(j.count) == 50);
  reset_containers({"jobs"});
}

// Meanwhile the task serves many other placements, more than it keeps without need.
BOOST_AUTO_TEST_CASE(a_task_keeps_the_placement_of_a_run_that_waits) {
  jobs j("kept");
  cluster_of<tcp> tasks(j.g, 2);
  std::int64_t first = 0, second = 0;
  std::string problem;
  std::thread consumer([&] {
    problem = problem_of([&] {
      session s(j.g, {.threads = 1, .target = tasks.services[0]->target()});
      auto step = s.prepare(fetch(j.next));
      first = step();
      second = step();
    });
  });
  const auto began = std::chrono::steady_clock::now();
  while (j.queue.waiting() == 0 && seconds_since(began) < 20) std::this_thread::sleep_for(5ms);
  for (int n = 0; n < 70; ++n) {
    session other(
        j.g,
        {.threads = 1, .variables = variables_in("kept" + std::to_string(n)), .target = tasks.services[0]->target()});
    BOOST_TEST(other.get(j.count) == 0);
  }
  session s(j.g, {.threads = 1, .target = tasks.services[0]->target()});
  auto put = s.prepare(fetch(j.put), feed(j.x));
  put(std::int64_t{3});
  put(std::int64_t{4});
  consumer.join();
  BOOST_TEST(problem == "nothing");
  BOOST_TEST(first == 3);
  BOOST_TEST(second == 4);
  reset_containers({"jobs"});
}

BOOST_AUTO_TEST_CASE(a_wait_ends_with_its_client) {
  const cluster_spec cluster = local_cluster(0, 2);
  const std::string where = "weft://" + to_string(cluster.task_address("worker", 0));
  process client([&] {
    jobs own("orphaned");
    session s(own.g, {.threads = 1, .target = where});
    s.eval(own.next);
    return std::string("dequeued");
  });
  jobs j("orphaned");
  std::unique_ptr<server> servers[2];
  std::unique_ptr<graph_service<>> services[2];
  for (int t = 0; t < 2; ++t) {
    servers[t] = std::make_unique<server>(cluster, "worker", t);
    services[t] = std::make_unique<graph_service<>>(*servers[t], j.g, graph_service_options{.session = {.threads = 1}});
  }
  const auto began = std::chrono::steady_clock::now();
  while (j.queue.waiting() == 0 && seconds_since(began) < 20) std::this_thread::sleep_for(5ms);
  BOOST_REQUIRE_EQUAL(j.queue.waiting(), 1u);
  client.signal(SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  while (j.queue.waiting() > 0 && seconds_since(killed) < 20) std::this_thread::sleep_for(5ms);
  BOOST_TEST(seconds_since(killed) < 5 + slack);
  // What comes now is another client's.
  session s(j.g, {.threads = 1, .target = where});
  s.run(fetch(j.put), with(j.x, std::int64_t{5}));
  BOOST_TEST(s.eval(j.next) == 5);
  reset_containers({"jobs"});
}

BOOST_AUTO_TEST_CASE(reset_ends_waits_and_empties_containers) {
  jobs j("reset");
  cluster_of<tcp> tasks(j.g, 2);
  std::string problem;
  std::thread waits([&] {
    session s(j.g, {.threads = 1, .target = address_of(tasks, 0)});
    problem = problem_of([&] { s.eval(j.next); });
  });
  const auto began = std::chrono::steady_clock::now();
  while (j.queue.waiting() == 0 && seconds_since(began) < 20) std::this_thread::sleep_for(5ms);
  session s(j.g, {.threads = 1, .target = tasks.services[0]->target()});
  reset(s, {"jobs"});
  waits.join();
  BOOST_TEST(problem.find("has been reset") != std::string::npos, problem);
}

BOOST_AUTO_TEST_CASE(a_step_after_a_reset_uses_a_new_queue) {
  graph g;
  const queue_options shared{.shared_name = "again", .container = "jobs", .device = "/job:worker/task:1"_device};
  fifo_queue<std::int64_t> q(g, 4, shared);
  critical_section section(g, {.shared_name = "again too", .container = "jobs", .device = "/job:worker/task:1"_device});
  const auto x = placeholder<std::int64_t>(g, "x");
  const auto put = q.enqueue(1s, x);
  const auto take = q.dequeue(g, 1s);
  const auto size = q.size(g);
  const auto inside = section.execute(g, 1s, [&] { return let(x * 2); });
  cluster_of<tcp> tasks(g, 3);
  session s(g, {.threads = 1, .target = tasks.services[0]->target()});
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t value : {1, 2}) s.run(fetch(put), with(x, value + 10 * round));
    BOOST_TEST(s.eval(take) == 1 + 10 * round);
    BOOST_TEST(s.eval(size) == 1);
    BOOST_TEST(s.eval(inside, with(x, std::int64_t{4})) == 8);
    reset(s, {"jobs"});
    BOOST_TEST(s.eval(size) == 0);
  }
  reset_containers({"jobs"});
}

// Programs that share a queue by its name, each with a graph of its own, as in TensorFlow.
BOOST_AUTO_TEST_CASE(a_loader_and_a_trainer_have_graphs_of_their_own) {
  const queue_options shared{.shared_name = "rows", .container = "jobs", .device = "/job:worker/task:0"_device};
  graph loader, trainer;
  fifo_queue<std::int64_t> full(loader, 2, shared), empty(trainer, 2, shared);
  const auto row = on(loader, true, "/job:worker/task:1"_device, [&] { return placeholder<std::int64_t>(loader); });
  const auto put = full.enqueue(1min, let(row * 2));
  const auto sum = on(trainer, true, "/job:worker/task:2"_device,
                      [&] { return variable<std::int64_t>(trainer, "sum", init::zeros{}); });
  const auto train = assign_add(sum, empty.dequeue(trainer, 1min));
  cluster_of<tcp> tasks(loader, 3, {}, {.session = {.threads = 1}}, &trainer);
  tasks.services[0]->add_graph(trainer);  // the task that has the queue runs operations of both
  std::thread loads([&] {
    session s(loader, {.threads = 1, .target = tasks.services[1]->target()});
    auto step = s.prepare(fetch(put), feed(row));
    for (std::int64_t n = 1; n <= 10; ++n) step(n);
  });
  session s(trainer, {.threads = 1, .target = tasks.services[2]->target()});
  auto step = s.prepare(fetch(train));
  for (int n = 0; n < 10; ++n) step();
  loads.join();
  BOOST_TEST(s.get(sum) == 110);
  reset_containers({"jobs"});
}

// ---- critical sections ----

namespace {

/// A section in task 1, in which steps add to a counter in task 0: 1, or what they wait for in a queue in task 2.
struct table {
  graph g;
  critical_section section;
  fifo_queue<std::int64_t> gate;
  node<std::int64_t> x = placeholder<std::int64_t>(g, "x");
  variable_node<std::int64_t> count;
  node<std::int64_t> add;
  node<std::int64_t> add_late, add_soon;
  effect open;

  explicit table(const std::string& name)
      : section(g, {.shared_name = name, .container = "tables", .device = "/job:worker/task:1"_device}),
        gate(g, 10, {.shared_name = name + " gate", .container = "tables", .device = "/job:worker/task:2"_device}),
        count(on(g, true, "/job:worker/task:0"_device,
                 [&] { return variable<std::int64_t>(g, "count", init::zeros{}); })),
        add(section.execute(g, 1min, [&] { return assign_add(count, 1); })),
        add_late(section.execute(g, 1min, [&] { return assign_add(count, gate.dequeue(g, 10min)); })),
        add_soon(section.execute(g, 100ms, [&] { return assign_add(count, 1); })),
        open(gate.enqueue(1min, x)) {}
};

bool comes_true(const std::function<bool()>& what) {
  const auto began = std::chrono::steady_clock::now();
  while (!what() && seconds_since(began) < 20) std::this_thread::sleep_for(5ms);
  return what();
}

}  // namespace

BOOST_AUTO_TEST_CASE(tasks_and_clients_share_a_critical_section) {
  table t("shared");
  cluster_of<tcp> tasks(t.g, 3);
  session s(t.g, {.threads = 1, .target = tasks.services[0]->target()});
  BOOST_TEST(s.explain(t.add).find("/task:0/") != std::string::npos, s.explain(t.add));
  std::atomic<int> failures{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c)
    clients.emplace_back([&, c] {
      try {
        session own(t.g, {.threads = 1,
                          .target = c % 2 ? session_target(address_of(tasks, 0))
                                          : tasks.services[static_cast<std::size_t>(c)]->target(0)});
        auto step = own.prepare(fetch(t.add));
        std::int64_t before = 0;
        for (int n = 0; n < 10; ++n) {
          const std::int64_t now = step();
          if (now <= before) ++failures;
          before = now;
        }
      } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
        ++failures;
      }
    });
  for (std::thread& c : clients) c.join();
  BOOST_TEST(failures == 0);
  BOOST_TEST(s.get(t.count) == 40);
  // While one is inside, another waits for as long as it said, and variables are at other steps' disposal.
  std::int64_t in_the_end = 0;
  std::thread inside([&] {
    session own(t.g, {.threads = 1, .target = address_of(tasks, 0)});
    in_the_end = own.eval(t.add_late);
  });
  BOOST_TEST(comes_true([&] { return t.gate.waiting() == 1; }));
  const std::string late = problem_of([&] { s.eval(t.add_soon); });
  BOOST_TEST(late.find("was inside the whole time") != std::string::npos, late);
  BOOST_TEST(late.find("/job:worker/task:1") != std::string::npos, late);
  BOOST_TEST(s.get(t.count) == 40);
  s.run(fetch(t.open), with(t.x, std::int64_t{5}));
  inside.join();
  BOOST_TEST(in_the_end == 45);
  BOOST_TEST(s.eval(t.add) == 46);
  reset_containers({"tables"});
}

BOOST_AUTO_TEST_CASE(a_client_that_dies_inside_a_critical_section_leaves_it) {
  const cluster_spec cluster = local_cluster(0, 3);
  const std::string where = "weft://" + to_string(cluster.task_address("worker", 0));
  process client([&] {
    table own("of a client");
    session s(own.g, {.threads = 1, .target = where});
    s.eval(own.add_late);
    return std::string("left");
  });
  table t("of a client");
  std::unique_ptr<server> servers[3];
  std::unique_ptr<graph_service<>> services[3];
  for (int n = 0; n < 3; ++n) {
    servers[n] = std::make_unique<server>(cluster, "worker", n);
    services[n] = std::make_unique<graph_service<>>(*servers[n], t.g, graph_service_options{.session = {.threads = 1}});
  }
  BOOST_REQUIRE(comes_true([&] { return t.gate.waiting() == 1; }));
  client.signal(SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  session s(t.g, {.threads = 1, .target = where});
  BOOST_TEST(s.eval(t.add) == 1);
  BOOST_TEST(seconds_since(killed) < 5 + slack);
  reset_containers({"tables"});
}

BOOST_AUTO_TEST_CASE(a_task_that_dies_while_a_step_is_inside_a_critical_section_leaves_it) {
  const cluster_spec cluster = local_cluster(0, 3);
  const auto serve = [&](int n) {
    table own("of a task");
    server here(cluster, "worker", n);
    graph_service service(here, own.g, {.session = {.threads = 1}});
    here.join();
    return std::string("joined");
  };
  process second([&] { return serve(2); });
  table t("of a task");
  server servers[] = {server(cluster, "worker", 0), server(cluster, "worker", 1)};
  graph_service first(servers[0], t.g, {.session = {.threads = 1}});
  graph_service middle(servers[1], t.g, {.session = {.threads = 1}});
  session s(t.g, {.threads = 1, .target = first.target()});
  std::string problem;
  std::thread inside([&] {
    session own(t.g, {.threads = 1, .target = middle.target(0)});
    problem = problem_of([&] { own.eval(t.add_late); });
  });
  // It is inside: nobody else can enter.
  BOOST_TEST(
      comes_true([&] { return problem_of([&] { s.eval(t.add_soon); }).find("was inside") != std::string::npos; }));
  second.signal(SIGKILL);
  inside.join();
  BOOST_TEST(problem.find("/job:worker/task:2") != std::string::npos, problem);
  BOOST_TEST(s.eval(t.add_soon) > 0);
  reset_containers({"tables"});
}

BOOST_AUTO_TEST_CASE(reset_ends_waits_for_a_critical_section) {
  table t("reset");
  cluster_of<tcp> tasks(t.g, 3);
  std::string problem;
  const auto held = t.section.acquire(1s);
  std::thread waits([&] {
    session s(t.g, {.threads = 1, .target = address_of(tasks, 0)});
    problem = problem_of([&] { s.eval(t.add); });
  });
  BOOST_TEST(comes_true([&] { return t.section.waiting() == 1; }));
  session s(t.g, {.threads = 1, .target = tasks.services[0]->target()});
  reset(s, {"tables"});
  waits.join();
  BOOST_TEST(problem.find("has been reset") != std::string::npos, problem);
}

// Parameter servers that end when all workers have said done (TensorFlow's done queues): each server has a queue, and
// dequeues from it in a step of its own once for each worker.
BOOST_AUTO_TEST_CASE(parameter_servers_end_by_done_queues) {
  struct program {
    graph g;
    node<std::int32_t> x = placeholder<std::int32_t>(g);
    std::vector<fifo_queue<std::int32_t>> queues;
    std::vector<effect> say_done;
    std::vector<node<std::int32_t>> hear_done;

    program() {
      for (int p = 0; p < 2; ++p) {
        const std::string task = std::to_string(p), where = "/job:ps/task:" + task;
        queues.emplace_back(
            g, 2,
            queue_options{.shared_name = "done_queue" + task, .device = parse_device(where.data(), where.size())});
        say_done.push_back(queues.back().enqueue(1min, x));
        hear_done.push_back(queues.back().dequeue(g, time_limit::never()));
      }
    }
  };
  const cluster_spec cluster = local_cluster(2, 2);
  const auto serve = [&](int p) {
    program own;
    server here(cluster, "ps", p);
    graph_service service(here, own.g, {.session = {.threads = 1}});
    session s(own.g, {.threads = 1, .target = service.target(0)});
    auto step = s.prepare(fetch(own.hear_done[static_cast<std::size_t>(p)]));
    for (int w = 0; w < 2; ++w) step();
    return std::string("done");
  };
  const auto work = [&](int w) {
    program own;
    server here(cluster, "worker", w);
    graph_service service(here, own.g, {.session = {.threads = 1}});
    session s(own.g, {.threads = 1, .target = service.target(0)});
    for (const effect& each : own.say_done) s.run(fetch(each), with(own.x, 1));
    std::this_thread::sleep_for(1s);  // training goes on elsewhere
    return std::string("done");
  };
  process servers[2] = {process([&] { return serve(0); }), process([&] { return serve(1); })};
  process workers[2] = {process([&] { return work(0); }), process([&] { return work(1); })};
  for (process& each : servers) BOOST_TEST(each.text() == "done");
  for (process& each : workers) BOOST_TEST(each.text() == "done");
}
