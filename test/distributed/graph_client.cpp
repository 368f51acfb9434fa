// SPDX-License-Identifier: BSL-1.0
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/client/client_connections.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>
#include <weft/distributed/remote/remote_tasks.hpp>
#include <weft/queue.hpp>

#include "errors.hpp"
#include "hostile_client.hpp"
#include "local_cluster.hpp"
#include "spanned_model.hpp"

using namespace weft;
using namespace std::chrono_literals;
using namespace test;

namespace {

template <typename T>
std::string address_of(const cluster_of<T>& tasks, std::size_t task) {
  return "weft://" + to_string(tasks.servers[task]->address());
}

/// Two clients of one cluster, one after the other in steps: a session of one process has the same results.
template <typename T>
void train_from_outside(T network) {
  model one(false), many(true);
  session alone(one.g, {.threads = 1});
  cluster_of<T> tasks(many.g, 3, network);
  graph_client first(address_of(tasks, 0), {}, network), second(address_of(tasks, 0), {}, network);
  session s(many.g, {.threads = 1, .target = first.target()}), t(many.g, {.threads = 1, .target = second.target()});
  BOOST_REQUIRE_EQUAL(list_devices(s).size(), 3u);
  auto expected = alone.prepare(fetch(one.loss, one.train), feed(one.x, one.y));
  auto step = s.prepare(fetch(many.loss, many.train), feed(many.x, many.y));
  auto other = t.prepare(fetch(many.loss, many.train), feed(many.x, many.y));
  for (int n = 0; n < 10; ++n) {
    BOOST_TEST(std::get<0>(step(xs, ys)) == std::get<0>(expected(xs, ys)));
    BOOST_TEST(std::get<0>(other(xs, ys)) == std::get<0>(expected(xs, ys)));
  }
  BOOST_TEST(s.get(many.w).data()[0] == alone.get(one.w).data()[0]);
  t.set(many.w, {1, 2});
  BOOST_TEST(s.get(many.w).data()[1] == 2);
}

}  // namespace

BOOST_AUTO_TEST_CASE(clients_share_variables_in_this_process) { train_from_outside(in_process()); }
BOOST_AUTO_TEST_CASE(clients_share_variables_over_tcp) { train_from_outside(tcp()); }

BOOST_AUTO_TEST_CASE(a_session_connects_to_an_address) {
  model m(true);
  cluster_of<tcp> tasks(m.g, 3);
  {
    session s(m.g, {.threads = 1, .target = address_of(tasks, 1)});
    s.set(m.w, {3, 4});
    // Nodes that name no task run in the task of the address.
    BOOST_TEST(s.explain(m.w).find("/job:worker/replica:0/task:1") != std::string::npos);
  }
  session again(m.g, {.threads = 1, .target = address_of(tasks, 1)});
  BOOST_TEST(again.get(m.w).data()[1] == 4);
  BOOST_TEST(again.eval(m.doubled).data()[1] == 8);
  BOOST_TEST(problem_of([&] { session s(m.g, {.target = "grpc://localhost:1"}); }).find("not weft://host:port") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(sessions_of_clients_and_tasks_take_turns) {
  graph g;
  const auto there =
      on(g, true, "/job:worker/task:1"_device, [&] { return variable<std::int64_t>(g, "there", init::zeros{}); });
  const auto one = on(g, true, "/job:worker/task:0"_device, [&] { return let(there * 0 + 1); });
  const auto add = assign_add(there, one);
  cluster_of<tcp> tasks(g, 2);
  std::atomic<int> failures{0};
  std::vector<std::thread> all;
  for (int c = 0; c < 3; ++c)
    all.emplace_back([&, c] {
      try {
        session s(g, {.threads = 1, .target = c == 2 ? tasks.services[1]->target(0) : address_of(tasks, 0)});
        auto step = s.prepare(fetch(add));
        for (int n = 0; n < 50; ++n) step();
      } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
        ++failures;
      }
    });
  for (std::thread& each : all) each.join();
  BOOST_TEST(failures == 0);
  session s(g, {.target = address_of(tasks, 0)});
  BOOST_TEST(s.get(there) == 150);
}

BOOST_AUTO_TEST_CASE(clients_with_another_secret_or_graph_are_refused) {
  model m(true);
  graph other;
  const auto v = variable<float, dims<2>>(other, "v", init::zeros{});
  cluster_of<tcp> tasks(m.g, 3);
  const std::string stranger = problem_of([&] {
    graph_client client(address_of(tasks, 0),
                        {.connect_timeout = 2s, .secret = cluster_secret("some other secret 123")});
  });
  BOOST_TEST(stranger.find("have this client's secret") != std::string::npos, stranger);
  const std::string differs = problem_of([&] {
    session s(other, {.target = address_of(tasks, 0)});
    s.get(v);
  });
  BOOST_TEST(differs.find("differs from this task's") != std::string::npos, differs);
  const std::string nobody =
      problem_of([&] { graph_client client("weft://" + free_addresses(tcp(), 1), {.connect_timeout = 300ms}); });
  BOOST_TEST(nobody.find("connect to 127.0.0.1") != std::string::npos, nobody);
  session s(m.g, {.target = address_of(tasks, 0)});
  BOOST_TEST(s.get(m.w).data()[0] == 0.5f);
}

BOOST_AUTO_TEST_CASE(a_killed_client_ends_its_own_run_alone) {
  model m(true);
  const cluster_spec cluster = local_cluster(0, 3);
  const std::string where = "weft://" + to_string(cluster.task_address("worker", 0));
  process client([&] {
    model own(true);
    session s(own.g, {.threads = 1, .target = where});
    auto step = s.prepare(fetch(own.loss, own.train), feed(own.x, own.y));
    for (;;) step(xs, ys);
    return std::string();
  });
  std::unique_ptr<server> servers[3];
  std::unique_ptr<graph_service<>> services[3];
  for (int t = 0; t < 3; ++t) {
    servers[t] = std::make_unique<server>(cluster, "worker", t);
    services[t] = std::make_unique<graph_service<>>(*servers[t], m.g, graph_service_options{.session = {.threads = 1}});
  }
  session s(m.g, {.threads = 1, .target = where});
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  const auto began = std::chrono::steady_clock::now();
  while (s.get(m.w).data()[0] == 0.5f && seconds_since(began) < 20) std::this_thread::sleep_for(5ms);
  BOOST_TEST(s.get(m.w).data()[0] != 0.5f);
  client.signal(SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  for (int n = 0; n < 20; ++n) step(xs, ys);
  BOOST_TEST(seconds_since(killed) < 5 + slack);
}

namespace {

/// A loop without end in task 1, and a variable beside it.
struct endless {
  graph g;
  variable_node<std::int64_t> count;
  node<std::int64_t> add, loop;
  node<std::int64_t> sum;  // in task 0, which waits for the loop

  endless()
      : count(on(g, true, "/job:worker/task:1"_device,
                 [&] { return variable<std::int64_t>(g, "count", init::zeros{}); })),
        add(assign_add(count, 1)),
        loop(on(g, true, "/job:worker/task:1"_device,
                [&] {
                  return let(
                      while_loop([](const auto& i) { return i >= 0; }, [](const auto& i) { return i * 1; }, count * 2));
                })),
        sum(on(g, true, "/job:worker/task:0"_device, [&] { return let(loop + 1); })) {}
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_loop_ends_with_its_client) {
  const cluster_spec cluster = local_cluster(0, 2);
  const std::string where = "weft://" + to_string(cluster.task_address("worker", 0));
  process client([&] {
    endless own;
    session s(own.g, {.threads = 1, .target = where});
    s.eval(own.add);
    s.eval(own.sum);
    return std::string("ended");
  });
  endless e;
  std::unique_ptr<server> servers[2];
  std::unique_ptr<graph_service<>> services[2];
  for (int t = 0; t < 2; ++t) {
    servers[t] = std::make_unique<server>(cluster, "worker", t);
    services[t] = std::make_unique<graph_service<>>(
        *servers[t], e.g, graph_service_options{.session = {.threads = 1}, .step_timeout = 5s});
  }
  session s(e.g, {.threads = 1, .target = where});
  const auto count = [&] {
    std::int64_t now = 0;
    problem_of([&] { now = s.get(e.count); });  // it has no value before the client's first step
    return now;
  };
  const auto began = std::chrono::steady_clock::now();
  while (count() == 0 && seconds_since(began) < 20) std::this_thread::sleep_for(5ms);
  std::this_thread::sleep_for(500ms);
  client.signal(SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  BOOST_TEST(s.eval(e.add) == 2);
  BOOST_TEST(seconds_since(killed) < 3 + slack);
  const std::string late = problem_of([&] { s.eval(e.sum); });
  // Either the loop or the task that waits for its result says so first.
  BOOST_TEST((late.find("its deadline has passed") != std::string::npos || late.find("in time") != std::string::npos),
             late);
  BOOST_TEST(s.eval(e.add) == 3);
}

BOOST_AUTO_TEST_CASE(a_new_client_hears_that_a_task_has_lost_its_variables) {
  model m(true);
  cluster_of<tcp> tasks(m.g, 3);
  {
    session s(m.g, {.threads = 1, .target = address_of(tasks, 0)});
    s.set(m.w, {1, 2});
  }
  tasks.services[1].reset();
  tasks.servers[1].reset();
  tasks.start(m.g, 1);
  session s(m.g, {.threads = 1, .target = address_of(tasks, 0)});
  const std::string problem = problem_of([&] { s.get(m.w); });
  BOOST_TEST(problem.find("started again") != std::string::npos, problem);
  s.set(m.w, {5, 6});
  session later(m.g, {.threads = 1, .target = address_of(tasks, 0)});
  BOOST_TEST(later.get(m.w).data()[0] == 5);
}

// Processes that only serve. One is killed, then all but one: the others serve on, and the session continues when the
// killed ones are back.
BOOST_AUTO_TEST_CASE(tasks_that_serve_outlive_a_lost_one) {
  const cluster_spec cluster = local_cluster(0, 3);
  struct place {
    int task;
    std::unique_ptr<process> its;
  };
  std::vector<place> places;
  for (const int task : {0, 1, 2, 2, 0, 2}) {
    const auto serve = [&cluster, task] {
      model own(true);
      server here(cluster, "worker", task);
      graph_service tasks(here, own.g, {.session = {.threads = 1}});
      return "signal " + std::to_string(tasks.serve(120s));
    };
    places.push_back({task, std::make_unique<process>(serve, true)});
  }
  place* tasks[3];
  const auto start = [&](std::size_t n) {
    tasks[places[n].task] = &places[n];
    places[n].its->begin();
  };
  for (const std::size_t n : {0, 1, 2}) start(n);
  model m(true);
  session s(m.g, {.threads = 1, .target = "weft://" + to_string(cluster.task_address("worker", 0))});
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  step(xs, ys);
  for (const std::vector<std::size_t>& successors : {std::vector<std::size_t>{3}, std::vector<std::size_t>{4, 5}}) {
    for (const std::size_t n : successors) {
      tasks[places[n].task]->its->signal(SIGKILL);
      tasks[places[n].task]->its->text();
    }
    BOOST_TEST(problem_of([&] { step(xs, ys); }).find("/job:worker/task:") != std::string::npos);
    const float last = s.get(m.w).data()[0];
    if (successors.size() == 1) BOOST_TEST(s.eval(m.doubled).data()[0] == 2 * last);  // on the other tasks
    for (const std::size_t n : successors) start(n);
    const auto began = std::chrono::steady_clock::now();
    while (problem_of([&] { step(xs, ys); }) != "nothing" && seconds_since(began) < 20)
      std::this_thread::sleep_for(20ms);
    BOOST_TEST(s.get(m.w).data()[0] != last);
  }
  for (const place* each : tasks) {
    each->its->signal(SIGTERM);
    BOOST_TEST(each->its->text() == "signal 15");
  }
}

BOOST_AUTO_TEST_CASE(addresses_that_serve_no_client_are_reported_soon) {
  BOOST_TEST((graph_client_options{}.answer_timeout <= 2s));
  const graph_client_options options{.answer_timeout = 200ms};
  const cluster_spec cluster = local_cluster(0, 2);
  const std::string where = "weft://" + to_string(cluster.task_address("worker", 0));
  std::string problem = problem_of([&] { graph_client(where, options); });
  BOOST_TEST(contains(problem, to_string(cluster.task_address("worker", 0))), problem);
  BOOST_TEST(contains(problem, "name the address of a task that is running"), problem);
  const server without(cluster, "worker", 0);
  problem = problem_of([&] { graph_client(where, options); });
  BOOST_TEST(contains(problem, "/job:worker/task:0 has not created a graph_service"), problem);
  // The same for another task than the one at the address.
  graph g;
  const auto x = placeholder<float>(g, "x");
  const auto y = let(x * 2.0f);
  server other(cluster, "worker", 1);
  const graph_service service(other, g);
  graph_client client("weft://" + to_string(other.address()), options);
  session s(g, {.target = client.target()});
  problem = problem_of([&] { s.eval(y, with(x, 1.0f)); });
  BOOST_TEST(contains(problem, "/job:worker/task:0 has not created a graph_service"), problem);
}

BOOST_AUTO_TEST_CASE(variables_of_a_new_process_are_listed_and_initialized) {
  graph g;
  const auto x = placeholder<float, dims<4>>(g, "x");
  const device_scope there(g, "/job:worker/task:1"_device);
  const auto w = variable<float, dims<4>>(g, "w", init::normal{0.0f, 1.0f});
  const auto b = variable<float>(g, "b", 0.5f);
  const auto loss = let(mean(square(w * x - b)));
  const auto train = adam{}.minimize(loss);
  cluster_of<tcp> tasks(g, 3);
  session s(g, {.threads = 1, .target = address_of(tasks, 2)});
  auto step = s.prepare(fetch(loss, train), feed(x));
  const tensor<float, dims<4>> ones{1, 1, 1, 1};
  const float first = std::get<0>(step(ones));
  const auto w0 = session(g).get(w);
  step(ones);
  tasks.services[1].reset();
  tasks.servers[1].reset();
  tasks.start(g, 1);
  std::string problem;
  const auto began = std::chrono::steady_clock::now();
  do problem = problem_of([&] { step(ones); });
  while (!contains(problem, "has no value") && seconds_since(began) < 20);
  for (const char* name : {"w", "b", "w/m", "b/v", "was started again", "initialize()"})
    BOOST_TEST(contains(problem, name), problem);
  s.set(b, 0.5f);
  initialize(s, variables_in(g, "w"));
  BOOST_TEST(s.get(w).data()[3] == w0.data()[3]);
  BOOST_TEST(contains(problem_of([&] { step(ones); }), "has no value"));
  initialize(s);
  BOOST_TEST(std::get<0>(step(ones)) == first);
  const float b1 = s.get(b);
  initialize(s);  // all have values
  BOOST_TEST(s.get(b) == b1);
}

BOOST_AUTO_TEST_CASE(a_client_that_is_stopped_while_it_feeds_holds_up_no_other) {
  graph g;
  const auto rows = placeholder<float, dims<dyn<"rows">, 1024>>(g);
  const auto x = placeholder<float>(g);
  const auto total = on(g, true, "/job:worker/task:0"_device, [&] { return let(sum(rows)); });
  const auto y = on(g, true, "/job:worker/task:0"_device, [&] { return let(x * 2.0f); });
  const cluster_spec cluster = local_cluster(0, 2);
  const std::string where = "weft://" + to_string(cluster.task_address("worker", 0));
  process client([&] {
    graph_client there(where, {.answer_timeout = 20s});
    session s(g, {.threads = 1, .target = there.target()});
    auto step = s.prepare(fetch(total), feed(rows));
    const tensor<float, dims<dyn<"rows">, 1024>> big(shape(16384, 1024));
    for (;;) step(big);
    return std::string();
  });
  std::unique_ptr<server> servers[2];
  std::unique_ptr<graph_service<>> services[2];
  for (int t = 0; t < 2; ++t) {
    servers[t] = std::make_unique<server>(cluster, "worker", t);
    services[t] = std::make_unique<graph_service<>>(*servers[t], g, graph_service_options{.session = {.threads = 1}});
  }
  session s(g, {.threads = 1, .target = where});
  auto step = s.prepare(fetch(y), feed(x));
  for (int n = 0; n < 5; ++n) step(1.0f);
  std::this_thread::sleep_for(300ms);  // almost all of the client's time is in feeds
  client.signal(SIGSTOP);
  const auto began = std::chrono::steady_clock::now();
  BOOST_TEST(step(2.0f) == 4.0f);
  BOOST_TEST(seconds_since(began) < 10);  // the client counts as gone after 15 s
}

BOOST_AUTO_TEST_CASE(a_task_that_is_stopped_ends_steps_and_then_its_process) {
  graph g;
  const auto x = placeholder<float>(g);
  const auto there = on(g, true, "/job:worker/task:1"_device, [&] { return let(x * 2.0f); });
  const auto here = on(g, true, "/job:worker/task:2"_device, [&] { return let(there + 1.0f); });
  const cluster_spec cluster = local_cluster(0, 3);
  process task([&] {
    server own(cluster, "worker", 1);
    graph_service service(own, g, {.session = {.threads = 1}});
    return std::to_string(service.serve(1min));
  });
  std::unique_ptr<server> servers[3];
  std::unique_ptr<graph_service<>> services[3];
  for (const int t : {0, 2}) {
    servers[t] = std::make_unique<server>(cluster, "worker", t);
    services[t] = std::make_unique<graph_service<>>(*servers[t], g, graph_service_options{.session = {.threads = 1}});
  }
  graph_client client("weft://" + to_string(cluster.task_address("worker", 0)), {.answer_timeout = 20s});
  session s(g, {.threads = 1, .target = client.target()});
  auto step = s.prepare(fetch(here), feed(x));
  BOOST_TEST(step(1.0f) == 3.0f);
  task.signal(SIGSTOP);
  const auto began = std::chrono::steady_clock::now();
  std::string problem = "nothing";
  while (problem == "nothing" && seconds_since(began) < 20) problem = problem_of([&] { step(1.0f); });
  BOOST_TEST(seconds_since(began) < 5 + slack);  // 1.75 s of silence, and some time to end the run
  BOOST_TEST(contains(problem, "/job:worker/task:1"), problem);
  // A new client does not wait for it as for a task that has not started.
  const auto tried = std::chrono::steady_clock::now();
  problem = problem_of([&] {
    session late(g, {.threads = 1, .target = "weft://" + to_string(servers[2]->address())});
    late.prepare(fetch(here), feed(x))(1.0f);
  });
  BOOST_TEST(contains(problem, "/job:worker/task:1"), problem);
  BOOST_TEST(contains(problem, "has not answered the handshake within 2000 ms: it is paused or overloaded"), problem);
  BOOST_TEST(seconds_since(tried) < 8 + slack);
  servers[0]->members().await_verdict(1, deadline(20s));
  servers[2]->members().await_verdict(1, deadline(20s));
  task.signal(SIGCONT);
  const std::string end = task.text();
  BOOST_TEST(contains(end, "declared /job:worker/task:1 lost"), end);
  BOOST_TEST(contains(end, "start this task again"), end);
}

BOOST_AUTO_TEST_CASE(a_server_that_is_stopped_serves_no_more) {
  model m(true);
  cluster_of<tcp> tasks(m.g, 3);
  BOOST_TEST(tasks.services[1]->serve(50ms) == 0);
  std::thread stops([&] {
    std::this_thread::sleep_for(50ms);
    tasks.servers[1]->stop();
  });
  BOOST_TEST(tasks.services[1]->serve(60s) == 0);
  stops.join();
}

BOOST_AUTO_TEST_CASE(hostile_clients_harm_nobody) {
  model m(true);
  cluster_of<tcp> tasks(m.g, 3);
  session s(m.g, {.threads = 1, .target = address_of(tasks, 0)});
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  step(xs, ys);
  std::mt19937 random(5);
  const auto byte = [&] { return std::byte(random() % 256); };
  // Values for runs that nobody asks for: more than a task keeps.
  {
    hostile_client values(tasks.servers[1]->address());
    frame_header header;
    header.kind = frame_kind::transfer;
    header.request = 1;
    bool open = true;
    for (int n = 0; n < 3000 && open; ++n) {
      header.tag = 1000 + static_cast<std::uint64_t>(n);
      header.step = 1;
      const std::byte one[100] = {};
      open = values.say(header, one);
    }
    BOOST_TEST(!open);
  }
  for (int n = 0; n < 20; ++n) step(xs, ys);
  // Requests of all kinds, with payloads that are none or are a run's, damaged.
  detail::run_message run;
  run.client_rank = 3;
  run.client_incarnation = 77;
  run.signature = 1;
  run.participants = {0, 1, 2};
  run.processes = {1, 2, 3};
  run.registers = true;
  run.registration.cpus = run.registration.gpus = {1, 1, 1};
  run.registration.placed = {{static_cast<std::uint32_t>(m.g.size()), {}}};
  run.registration.graph = m.g.hash();
  run.registration.seed = m.g.seed();
  run.registration.request.fetches = {{1u << 30, 0}};
  for (int n = 0; n < 150; ++n) {
    hostile_client each(tasks.servers[static_cast<std::size_t>(n) % 3]->address());
    if (n % 2 == 1) {  // a step that the graph has, of whatever nodes
      run.registration.request = {};
      run.extents.clear();
      const auto any = [&] { return static_cast<std::uint32_t>(random() % m.g.size()); };
      for (unsigned k = random() % 3; k > 0; --k) run.registration.request.fetches.push_back({any(), 0});
      for (unsigned k = random() % 3; k > 0; --k) run.registration.request.targets.push_back(any());
      for (unsigned k = random() % 3; k > 0; --k) {
        run.registration.request.feeds.push_back({any(), 0});
        run.extents.push_back(random() % 2 ? shape(static_cast<std::int64_t>(random() % 4)) : shape(3, 2));
      }
    }
    run.waits = random() % 4 == 0;
    run.signature = random() % 8;
    run.registration.cpus = {1, 1 + static_cast<std::uint32_t>(random() % 3), 1};
    for (std::size_t k = 0; k < 3; ++k)
      if (random() % 2) run.processes[k] = tasks.servers[k]->incarnation();
    run.placement = run.registration.key();
    std::vector<std::byte> payload = run.bytes();
    for (unsigned k = random() % 4; k > 0; --k) payload[random() % payload.size()] = byte();
    if (random() % 4 == 0) payload.resize(random() % payload.size());
    frame_header header;
    header.kind = n % 4 == 1 ? frame_kind::run_step
                             : static_cast<frame_kind>(static_cast<unsigned>(frame_kind::run_step) + random() % 9);
    header.tag = random() % 3;
    header.step = static_cast<std::int64_t>(random() % 3);
    header.request = random() % 5;
    header.weight = random() % 5;
    header.deadline_us = random() % 2 ? 100'000 : 0;
    each.say(header, payload);
  }
  for (int n = 0; n < 20; ++n) step(xs, ys);
  session second(m.g, {.threads = 1, .target = address_of(tasks, 0)});
  BOOST_TEST(second.get(m.w).data()[0] == s.get(m.w).data()[0]);
}

namespace {

frame_header header_of(frame_kind kind, std::uint64_t session, std::int64_t number) {
  frame_header header;
  header.kind = kind;
  header.tag = session;
  header.step = number;
  return header;
}
/// What a client of one task registers that places all nodes on this CPU.
detail::step_registration registration(const graph& g, std::uint32_t cpus = 1) {
  detail::step_registration made;
  made.graph = g.hash();
  made.seed = g.seed();
  made.placed = {{static_cast<std::uint32_t>(g.size()), {false, cpus - 1, 0}}};
  made.cpus = {cpus};
  made.gpus = {0};
  return made;
}
/// Asks for a variable of the only task.
bool ask_for(hostile_client& by, const graph& g, value variable, std::uint64_t session, std::int64_t number) {
  frame_header asked = header_of(frame_kind::read_variable, session, number);
  asked.request = variable.node;
  return by.say(asked, detail::write_message(detail::variable_message{registration(g), {}}));
}
template <typename T>
detail::run_message request(const cluster_of<T>& tasks, const hostile_client& by, std::vector<std::uint32_t> of) {
  detail::run_message made;
  made.client_rank = static_cast<std::uint32_t>(tasks.servers.size());
  made.client_incarnation = by.incarnation;
  made.signature = 1;
  for (const std::uint32_t t : of) made.processes.push_back(tasks.servers[t]->incarnation());
  made.participants = std::move(of);
  return made;
}

/// A step of one task with a value that needs a frame of its own, and if it `spans`, one that continues in task 1.
struct fed_graph {
  graph g;
  node<float, dims<4096>> x = placeholder<float, dims<4096>>(g);
  node<float> y = let(mean(x) + 1.0f), z;
  const tensor<float, dims<4096>> value = tensor<float, dims<4096>>(shape(4096));

  explicit fed_graph(bool spans = false)
      : z(on(g, spans, "/job:worker/task:1"_device, [&] { return let(y * 2.0f); })) {}
};

}  // namespace

// A session outlives its task, and the task is started again with fewer devices: it has no kernels and no lanes for the
// device on which the session placed a node.
BOOST_AUTO_TEST_CASE(a_task_with_fewer_devices_refuses_sessions_of_its_predecessor) {
  graph g;
  const auto v = variable<float>(g, "v", 1.0f);
  const auto y = on(g, true, "/device:CPU:40"_device, [&] { return let(v * 2.0f + 1.0f); });
  cluster_of<tcp> tasks(g, 1, {}, {.session = {.threads = 1, .devices = 64}});
  session s(g, {.threads = 1, .target = address_of(tasks, 0)});
  auto step = s.prepare(fetch(y), feed());
  BOOST_TEST(step() == 3.0f);
  tasks.services[0].reset();
  tasks.servers[0].reset();
  tasks.options.session.devices = 1;
  tasks.start(g, 0);
  std::string said;
  for (const deadline until(20s); said.find("make a new session") == said.npos && !until.expired();) {
    const error_code code = code_of([&] { step(); }, &said);
    BOOST_TEST((code == error_code::unavailable || code == error_code::failed_precondition), said);
    std::this_thread::sleep_for(10ms);
  }
  CHECK_SAYS(said, "the session expects 64 CPU and 0 GPU devices in this task, but it has 1 and 0");
  BOOST_TEST((code_of([&] { s.set(v, 1.0f); }) == error_code::failed_precondition));
}

// A client makes up the task's own devices, from which the task would compute places in memory.
BOOST_AUTO_TEST_CASE(a_client_is_not_believed_about_a_task_itself) {
  fed_graph m;
  cluster_of<tcp> tasks(m.g, 1);
  for (const std::uint32_t cpus : {2u, 4096u, 4097u, 0xffff'ffffu}) {
    hostile_client bad(tasks.servers[0]->address(), cpus);
    detail::run_message run = request(tasks, bad, {0});
    run.registers = true;
    run.registration = registration(m.g, cpus);
    run.placement = run.registration.key();
    run.registration.request.fetches = {m.y.id()};
    run.registration.request.feeds = {m.x.id()};
    run.extents = {shape(4096)};
    BOOST_TEST(bad.say(header_of(frame_kind::run_step, cpus, 1), run.bytes()));
    if (cpus > 4096) BOOST_TEST(bad.is_closed());
  }
  {  // a signature of 0 would skip the comparison of placements
    hostile_client bad(tasks.servers[0]->address());
    detail::run_message run = request(tasks, bad, {0});
    run.signature = 0;
    bad.say(header_of(frame_kind::run_step, 1, 1), run.bytes());
    BOOST_TEST(bad.is_closed());
  }
  session s(m.g, {.threads = 1, .target = address_of(tasks, 0)});
  BOOST_TEST(s.prepare(fetch(m.y), feed(m.x))(m.value) == 1.0f);
}

// Clients that do not read what they have asked for: a large variable, and then lists of the devices, which the thread
// that receives answers. Steps of another session go on.
BOOST_AUTO_TEST_CASE(a_client_that_does_not_read_delays_no_other) {
  graph g;
  const auto big = variable<float, dims<8 << 20>>(g, "big", init::zeros{});
  const auto x = placeholder<float>(g);
  const auto y = let(x + 1.0f);
  cluster_of<tcp> tasks(g, 1);
  graph_client client(address_of(tasks, 0), {.step_timeout = 5s});
  session s(g, {.threads = 1, .target = client.target()});
  s.set(big, tensor<float, dims<8 << 20>>(shape(8 << 20)));
  auto step = s.prepare(fetch(y), feed(x));
  step(1.0f);
  std::vector<std::unique_ptr<hostile_client>> all;
  for (std::uint64_t n = 0; n < 3; ++n) {
    hostile_client& bad = *all.emplace_back(std::make_unique<hostile_client>(tasks.servers[0]->address(), 100 + n));
    BOOST_TEST(ask_for(bad, g, big.id(), n, 1));
    BOOST_TEST(bad.say(header_of(frame_kind::list_devices, n, 2), {}));
    BOOST_TEST(bad.say(header_of(frame_kind::reset, n, 3), {}));
  }
  for (float n = 0; n < 10; ++n) BOOST_TEST(step(n) == n + 1);
}

// More values wait for a client than a task keeps. It reads them late, and receives all.
BOOST_AUTO_TEST_CASE(a_client_that_reads_slowly_receives_all_its_values) {
  graph g;
  const auto big = variable<float, dims<8 << 20>>(g, "big", init::zeros{});
  cluster_of<tcp> tasks(g, 1, {}, {.session = {.threads = 1}, .max_value_bytes = std::uint64_t{40} << 20});
  session s(g, {.threads = 1, .target = address_of(tasks, 0)});
  s.set(big, tensor<float, dims<8 << 20>>(shape(8 << 20)));
  hostile_client slow(tasks.servers[0]->address(), 101);
  for (int n = 1; n <= 4; ++n) BOOST_TEST(ask_for(slow, g, big.id(), 1, n));
  std::this_thread::sleep_for(500ms);
  for (int n = 1; n <= 4; ++n) {
    BOOST_TEST((slow.hear() == frame_kind::transfer));
    BOOST_TEST(slow.heard.size() == std::size_t{32} << 20);
  }
}

// While others wait, requests of a client that does not read fail. It stays connected.
BOOST_AUTO_TEST_CASE(requests_of_a_slow_reader_fail_before_others_wait_long) {
  graph g;
  const auto big = variable<float, dims<8 << 20>>(g, "big", init::zeros{});
  const auto x = placeholder<float>(g);
  const auto y = let(x + 1.0f);
  cluster_of<tcp> tasks(g, 1, {}, {.session = {.threads = 1}, .max_value_bytes = std::uint64_t{40} << 20});
  session s(g, {.threads = 1, .target = address_of(tasks, 0)});
  s.set(big, tensor<float, dims<8 << 20>>(shape(8 << 20)));
  auto step = s.prepare(fetch(y), feed(x));
  step(1.0f);
  hostile_client slow(tasks.servers[0]->address(), 101);
  for (int n = 1; n <= 4; ++n) BOOST_TEST(ask_for(slow, g, big.id(), 1, n));
  std::this_thread::sleep_for(500ms);
  const auto began = std::chrono::steady_clock::now();
  BOOST_TEST(step(2.0f) == 3.0f);
  BOOST_TEST(seconds_since(began) < 2 + slack);  // 2 s for all requests of the client
  BOOST_TEST((slow.hear() == frame_kind::transfer));
  for (int n = 2; n <= 4; ++n) {
    BOOST_TEST((slow.hear() == frame_kind::step_ended));
    const auto how = detail::end_message::read(slow.heard);
    BOOST_TEST((static_cast<error_code>(how.code) == error_code::resource_exhausted));
    BOOST_TEST(contains(how.sentence, "graph_service_options::max_value_bytes"), how.sentence);
  }
  BOOST_TEST(ask_for(slow, g, big.id(), 1, 5));
  BOOST_TEST((slow.hear() == frame_kind::transfer));
}

// Clients ask for as many runs as they can and leave: each has its own limit, and nothing of theirs is kept.
BOOST_AUTO_TEST_CASE(requests_of_clients_have_limits_of_their_own) {
  fed_graph m(true);
  cluster_of<tcp> tasks(m.g, 3);
  graph_client client(address_of(tasks, 0), {.step_timeout = 8s});
  session s(m.g, {.threads = 1, .target = client.target()});
  auto step = s.prepare(fetch(m.y), feed(m.x));
  step(m.value);
  std::vector<std::unique_ptr<hostile_client>> all;
  for (std::uint64_t n = 0; n < 4; ++n) {
    hostile_client& bad = *all.emplace_back(std::make_unique<hostile_client>(tasks.servers[0]->address(), 100 + n));
    // Runs that wait in a thread of their own, and whose session ends.
    detail::run_message waits = request(tasks, bad, {0});
    waits.waits = true;
    const std::vector<std::byte> words = waits.bytes();
    for (std::int64_t k = 0; k < 600; ++k) bad.say(header_of(frame_kind::run_step, 1000 + n, k), words);
    bad.say(header_of(frame_kind::end_session, 1000 + n, 0), {});
    // And runs of processes that nobody knows, which the first task would pass on.
    detail::run_message unknown = request(tasks, bad, {0, 1, 2});
    unknown.processes[2] = 12345;
    for (std::int64_t k = 0; k < 300; ++k) bad.say(header_of(frame_kind::run_step, 2000 + n, k), unknown.bytes());
    step(m.value);
  }
  // A step of several tasks overtakes the runs that wait for unknown processes.
  session spans(m.g, {.threads = 1, .target = client.target()});
  auto both = spans.prepare(fetch(m.z), feed(m.x));
  for (int n = 0; n < 5; ++n) BOOST_TEST(both(m.value) == 2.0f);
  all.clear();
  for (int n = 0; n < 5; ++n) BOOST_TEST(step(m.value) == 1.0f);
}

// A client connects again before the task has noticed the end of its earlier connections.
BOOST_AUTO_TEST_CASE(a_client_that_connects_again_is_served) {
  fed_graph m;
  cluster_of<tcp> tasks(m.g, 1);
  hostile_client before(tasks.servers[0]->address(), 101);
  BOOST_TEST(before.say(header_of(frame_kind::list_devices, 1, 1), {}));
  BOOST_TEST(before.is_answered());
  hostile_client after(tasks.servers[0]->address(), 101);
  BOOST_TEST(before.is_closed());
  BOOST_TEST(after.say(header_of(frame_kind::list_devices, 1, 2), {}));
  BOOST_TEST(after.is_answered());
}

// A header alone takes no memory for what it announces.
BOOST_AUTO_TEST_CASE(memory_grows_with_the_bytes_that_arrive) {
  fed_graph m;
  cluster_of<tcp> tasks(m.g, 1);
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0, pages = 0;
    file >> all >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  };
  const std::size_t before = resident();
  hostile_client message(tasks.servers[0]->address(), 101), variable(tasks.servers[0]->address(), 102);
  frame_header header = header_of(frame_kind::cancel_step, 1, 1);
  header.payload_length = std::uint64_t{3} << 30;
  BOOST_TEST(message.write(encode(header)));
  BOOST_TEST(message.is_closed());  // no message is so long
  header.kind = frame_kind::write_variable;
  BOOST_TEST(variable.write(encode(header)));
  BOOST_TEST(variable.write(std::vector<std::byte>(1 << 20)));
  // Requests of another client, which the task reads after that header.
  session s(m.g, {.threads = 1, .target = address_of(tasks, 0)});
  BOOST_TEST(s.prepare(fetch(m.y), feed(m.x))(m.value) == 1.0f);
  BOOST_TEST(resident() < before + (std::size_t{1} << 30));
}

namespace {

/// The connections of a client, which also send the end of the latest session while its run waits.
class ending_client : public detail::client_connections {
 public:
  explicit ending_client(const std::string& where) : client_connections(where, {}, tcp()) {}
  void send_to_task(std::size_t task, std::uint64_t incarnation, const frame_header& header, const_bytes payload,
                    deadline until) {
    if (header.kind == frame_kind::run_step) session_ = header.tag;
    client_connections::send_to_task(task, incarnation, header, payload, until);
  }
  session_target target() {
    return {[](void* to, const graph& g) -> plan::task_support* {
              auto& of = *static_cast<ending_client*>(to);
              return new detail::remote_tasks<ending_client>(of, g, of.home());
            },
            this};
  }
  void end_session() {
    for (std::size_t t = 0; t < tasks(); ++t)
      send_to_task(t, process_of(t), header_of(frame_kind::end_session, session_, 0), {}, deadline(1s));
  }

 private:
  std::atomic<std::uint64_t> session_{0};
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_end_of_a_session_cancels_its_run_in_all_tasks) {
  graph g;
  fifo_queue<std::int64_t> queue(g, 2, {.shared_name = "left", .container = "left"});
  const auto x = placeholder<std::int64_t>(g);
  const auto there = "/job:worker/task:1"_device;
  const auto put = on(g, true, there, [&] { return queue.enqueue(1s, x); });
  const auto next = on(g, true, there, [&] { return queue.dequeue(g, std::chrono::nanoseconds::max()); });
  const auto loop = on(g, true, there, [&] {
    return let(while_loop([](const auto& i) { return i >= 0; }, [](const auto& i) { return i * 1; }, x * 2));
  });
  const auto here = "/job:worker/task:0"_device;
  const auto after_next = on(g, true, here, [&] { return let(next + 1); });
  const auto after_loop = on(g, true, here, [&] { return let(loop + 1); });
  cluster_of<tcp> tasks(g, 2);
  session other(g, {.threads = 1, .target = address_of(tasks, 0)});
  for (const auto& [what, waits] : {std::pair(next, true), std::pair(after_next, true), std::pair(after_loop, false)}) {
    ending_client client(address_of(tasks, 0));
    std::string said;
    error_code code = error_code::internal;
    std::thread asks([&, &what = what] {
      session s(g, {.threads = 1, .target = client.target()});
      code = code_of([&] { s.eval(what, with(x, std::int64_t{1})); }, &said);
    });
    if (waits)
      await("the dequeue", [&] { return queue.waiting() == 1; });
    else
      std::this_thread::sleep_for(500ms);
    const auto began = std::chrono::steady_clock::now();
    client.end_session();
    asks.join();
    BOOST_TEST((code == error_code::cancelled || code == error_code::aborted), said);
    BOOST_TEST(seconds_since(began) < 0.5 + slack);
    BOOST_TEST(queue.waiting() == 0u);
    other.run(fetch(put), with(x, std::int64_t{5}));
    BOOST_TEST(other.eval(next) == 5);
  }
  reset_containers({"left"});
}

namespace {

/// Two steps on task 1, of which one waits in a queue.
struct paused_steps {
  graph g;
  fifo_queue<std::int64_t> queue;
  node<std::int64_t> x = placeholder<std::int64_t>(g, "x");
  node<std::int64_t> sum, next;

  paused_steps()
      : queue(g, 2, {.shared_name = "paused", .container = "paused", .device = "/job:worker/task:1"_device}),
        sum(on(g, true, "/job:worker/task:1"_device, [&] { return let(x + 1); })),
        next(queue.dequeue(g, 10min)) {}
};

struct task_state_now {
  std::atomic<int> waiting{0}, threads{0};
};

int count_threads() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "Threads:") {
  }
  int count = 0;
  status >> count;
  return count;
}

}  // namespace

BOOST_AUTO_TEST_CASE(sessions_end_while_a_task_is_paused_and_leave_nothing_there) {
  const cluster_spec cluster = local_cluster(0, 2);
  const server_options patient{.heartbeat_timeout = 60s};  // the tasks do not declare each other lost
  const shared<task_state_now> now;
  process task([&] {
    paused_steps own;
    server here(cluster, "worker", 1, patient);
    graph_service service(here, own.g, {.session = {.threads = 1}});
    int signal = 0;
    for (const deadline until(2min); signal == 0 && !until.expired(); signal = service.serve(deadline(5ms))) {
      now->waiting = static_cast<int>(own.queue.waiting());
      now->threads = count_threads();
    }
    return "signal " + std::to_string(signal);
  });
  paused_steps p;
  server here(cluster, "worker", 0, patient);
  graph_service service(here, p.g, {.session = {.threads = 1}});
  graph_client client("weft://" + to_string(here.address()), {.answer_timeout = 20s});
  const auto begin_session = [&] {
    auto made = std::make_unique<session>(p.g, session_options{.threads = 1, .target = client.target()});
    BOOST_TEST(made->eval(p.sum, with(p.x, std::int64_t{1})) == 2);
    return made;
  };
  const auto end_session = [&](std::unique_ptr<session>& which) {
    const auto began = std::chrono::steady_clock::now();
    which.reset();
    BOOST_TEST(seconds_since(began) < 1 + slack);
  };
  auto first = begin_session();
  std::this_thread::sleep_for(500ms);  // until the task has counted its threads with those for its first client
  const int threads = now->threads;
  // A session without runs.
  task.signal(SIGSTOP);
  end_session(first);
  task.signal(SIGCONT);
  // One whose run waits in the task. The client lives on.
  auto second = begin_session();
  std::string problem;
  std::thread asks([&] { problem = problem_of([&] { second->eval(p.next); }); });
  await("the dequeue", [&] { return now->waiting == 1; });
  task.signal(SIGSTOP);
  const auto paused = std::chrono::steady_clock::now();
  asks.join();
  BOOST_TEST(contains(problem, "/job:worker/task:1"), problem);
  BOOST_TEST(seconds_since(paused) < 3 + slack);
  end_session(second);
  std::this_thread::sleep_for(1s);
  task.signal(SIGCONT);
  const auto continued = std::chrono::steady_clock::now();
  await("the end of the dequeue", [&] { return now->waiting == 0; });
  BOOST_TEST(seconds_since(continued) < 1 + slack);
  await("the end of its thread", [&] { return now->threads <= threads; });
  auto third = begin_session();
  end_session(third);
  task.signal(SIGTERM);
  BOOST_TEST(task.text() == "signal 15");
}
