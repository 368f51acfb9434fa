// SPDX-License-Identifier: BSL-1.0
// One model on a cluster of threads over the in-process transport, and over TCP: the same code as between machines.
#include <poll.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/training/exchanges.hpp>
#include <weft/ops/index/boolean_mask.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/train/accumulation.hpp>
#include <weft/train/clipping.hpp>
#include <weft/train/moving_average.hpp>
#include <weft/train/schedules.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

using batch = dims<dyn<"batch">>;
using examples = tensor<float, dims<dyn<"batch">, 12>>;
using classes = tensor<std::int32_t, batch>;

struct model {
  graph g;
  node<float, dims<dyn<"batch">, 12>> x;
  node<std::int32_t, batch> y;
  node<float> loss;
  effect train;

  template <class Optimizer, class Place>
  model(const Optimizer& optimizer, const Place& place, std::uint64_t seed = 3)
      : g(seed),
        x(placeholder<float, dims<dyn<"batch">, 12>>(g, "x")),
        y(placeholder<std::int32_t, batch>(g, "y")),
        loss(build(place)),
        train(optimizer.minimize(loss)) {}

  template <class Place>
  node<float> build(const Place& place) {
    const device_scope on(g, place);
    auto w1 = variable<float, dims<12, 9>>(g, "w1", init::glorot_uniform{});
    auto b1 = variable<float, dims<9>>(g, "b1", init::zeros{});
    auto w2 = variable<float, dims<9, 4>>(g, "w2", init::glorot_uniform{});
    auto b2 = variable<float, dims<4>>(g, "b2", init::zeros{});
    return let(mean(softmax_cross_entropy(matmul(tanh(matmul(x, w1) + b1), w2) + b2, y)));
  }
};

constexpr std::int64_t share = 8;
constexpr int steps = 6;
constexpr collective in_buckets{.bucket_bytes = 64};  // each has one variable; where workers send messages

/// Worker `index`'s examples of a step; with `workers` > 1 in one call, those of all of them.
std::pair<examples, classes> data_of(int step, int index, int workers = 1) {
  examples x(shape(share * workers, 12));
  classes y(shape{share * workers});
  const random_stream random(11, static_cast<std::uint64_t>(step));
  for (std::int64_t i = 0; i < share * workers; ++i) {
    const auto row = static_cast<std::uint64_t>(index * share + i);
    for (std::uint64_t j = 0; j < 12; ++j) x(i, j) = static_cast<float>(random.normal(row * 16 + j));
    y(i) = static_cast<std::int32_t>(random.uniform(row * 16 + 15) * 4);
  }
  return {x, y};
}

std::vector<float> values_of(const graph& g, session& s) {
  std::vector<float> all;
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (!g[n].def.op->update) continue;
    const std::uint32_t variable = g[n].def.inputs[0].node;  // not the slots, which are the server's
    const auto* data = reinterpret_cast<const float*>(s.state_of(variable).data());
    all.insert(all.end(), data, data + s.variable_info(variable).extents.elements());
  }
  return all;
}

/// Trains on `ps` parameter servers and two workers; each worker's variables afterwards, or what it threw.
template <class Strategy, class Optimizer, transport T>
std::vector<std::vector<float>> train(Strategy strategy, const Optimizer& optimizer, int ps, T network,
                                      std::vector<std::string>* problems = nullptr, std::uint64_t seed_of_last = 3) {
  std::vector<std::vector<float>> results(2);
  const auto said = test::run_tasks(ps, 2, network, [&](basic_server<T>& here) {
    model m(optimizer, replica_device_setter(here.cluster()), here.index() == 1 ? seed_of_last : 3);
    replicated_session s(m.g, here, strategy, {.threads = 1});
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
    for (int i = 0; i < steps; ++i) {
      const auto [x, y] = data_of(i, here.index());
      const auto [cost, _] = step(x, y);
      test::require_in_task(std::isfinite(cost), "the cost is finite");
    }
    s.finish();
    results[static_cast<std::size_t>(here.index())] = values_of(m.g, s.local());
  });
  if (problems)
    *problems = said;
  else
    for (const std::string& text : said) BOOST_TEST(text == "");
  return results;
}

template <class Optimizer>
std::vector<float> train_alone(const Optimizer& optimizer) {
  model m(optimizer, cpu{0});
  session s(m.g, {.threads = 1});
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  for (int i = 0; i < steps; ++i) {
    const auto [x, y] = data_of(i, 0, 2);
    step(x, y);
  }
  return values_of(m.g, s);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  test::require_in_task(a.size() == b.size(), "equally many values");
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

template <class Optimizer>
void compare(const Optimizer& optimizer) {
  const auto sync = train(parameter_server<synchronous>{}, optimizer, 1, in_process{});
  const auto reduced = train(collective{}, optimizer, 0, in_process{});
  const auto alone = train_alone(optimizer);
  BOOST_TEST(same_bits(sync[0], sync[1]));
  BOOST_TEST(same_bits(reduced[0], reduced[1]));
  BOOST_TEST(same_bits(sync[0], reduced[0]));
  BOOST_TEST(same_bits(sync[0], train(in_buckets, optimizer, 0, in_process{})[1]));
  // Half batches are summed in another order than whole ones.
  BOOST_TEST(distance(sync[0], alone) < 2e-6);
  model untrained(optimizer, cpu{0});
  session s(untrained.g);
  BOOST_TEST(distance(sync[0], values_of(untrained.g, s)) > 1e-2);
}

}  // namespace

BOOST_AUTO_TEST_CASE(synchronous_modes_agree_bit_for_bit_and_with_one_process) {
  compare(gradient_descent{.learning_rate = 0.5});
  compare(momentum{.learning_rate = 0.1, .momentum = 0.9});
  compare(adam{.learning_rate = 0.02});
}

BOOST_AUTO_TEST_CASE(several_servers_over_tcp_give_the_same_bits) {
  const gradient_descent optimizer{.learning_rate = 0.5};
  const auto one = train(parameter_server<synchronous>{}, optimizer, 1, tcp{});
  const auto three = train(parameter_server<synchronous>{}, optimizer, 3, tcp{});
  BOOST_TEST(same_bits(one[0], three[0]));
  BOOST_TEST(same_bits(one[0], train(collective{}, optimizer, 0, tcp{})[1]));
  // In shared memory above, by messages here.
  BOOST_TEST(same_bits(one[0], train(parameter_server<synchronous>{}, optimizer, 1, in_process{})[0]));
}

BOOST_AUTO_TEST_CASE(asynchronous_workers_leave_with_the_same_values_after_both_have_finished) {
  const auto results = train(parameter_server<asynchronous>{}, gradient_descent{.learning_rate = 0.1}, 2, in_process{});
  // The one that finishes last has seen every update; both moved.
  BOOST_TEST(distance(results[0], train_alone(gradient_descent{.learning_rate = 0})) > 1e-3);
}

BOOST_AUTO_TEST_CASE(asynchronous_training_begins_without_a_killed_worker) {
  const auto cluster = test::local_cluster(1, 2);
  test::process ps([&] {
    server here(cluster, "ps", 0, {.min_workers = 1});
    const join_report report = here.join(20s, 40s);
    return report.finished.size() == 1 && report.lost.size() == 1 ? report.finished[0] + ", not " + report.lost[0]
                                                                  : std::string("another end");
  });
  test::process first([&]() -> std::string {
    server here(cluster, "worker", 0);
    here.wait_ready(20s);
    while (here.members().state(here.cluster().rank({"worker", 1})) == task_state::alive)
      std::this_thread::sleep_for(5ms);
    const model m(gradient_descent{.learning_rate = 0.5}, replica_device_setter(cluster));
    replicated_session s(m.g, here, parameter_server<asynchronous>{}, {.threads = 1});
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
    const auto [x, y] = data_of(0, 0);
    step(x, y);
    s.finish();
    return "trained";
  });
  test::process second([&]() -> std::string {
    server here(cluster, "worker", 1);
    std::this_thread::sleep_for(20s);
    return "not killed";
  });
  std::this_thread::sleep_for(700ms);
  second.signal(SIGKILL);
  BOOST_TEST(first.text() == "trained");
  CHECK_SAYS(ps.text(), "/job:worker/task:0, not /job:worker/task:1 has closed its connection");
}

BOOST_AUTO_TEST_CASE(workers_with_different_seeds_are_refused) {
  std::vector<std::string> problems;
  train(collective{}, gradient_descent{}, 0, in_process{}, &problems, 4);
  const std::string all = problems[0] + problems[1];
  BOOST_TEST_INFO(all);
  BOOST_TEST((contains(all, "its seed is 4, but 3 in /job:worker/task:0") ||
              contains(all, "its seed is 3, but 4 in /job:worker/task:1")));
  train(parameter_server<asynchronous>{}, gradient_descent{}, 1, in_process{}, &problems, 4);
  const std::string any = problems[0] + problems[1];
  BOOST_TEST_INFO(any);
  BOOST_TEST((contains(any, "its seed is 4, but the first worker's is 3") ||
              contains(any, "its seed is 3, but the first worker's is 4")));
}

// Both tasks run the worker's part of the program.
BOOST_AUTO_TEST_CASE(a_parameter_server_that_makes_a_session_is_told_to_join) {
  const auto cluster = test::local_cluster(1, 1);
  std::string problems[2];
  const auto run = [&](const char* job, std::string& problem) {
    try {
      graph g;
      const auto train = gradient_descent{}.minimize(let(variable<float>(g, "w", 1.f) * 2.f));
      server here(cluster, job, 0);
      here.wait_ready(20s);
      replicated_session s(g, here, parameter_server<synchronous>{}, {.threads = 1}, 20s);
      s.prepare(fetch(train))();
    } catch (const std::exception& e) {
      problem = e.what();
    }
  };
  std::thread ps([&] { run("ps", problems[0]); });
  run("worker", problems[1]);
  ps.join();
  const std::string why = "a parameter server must call join(), but /job:ps/task:0 creates a session";
  CHECK_SAYS(problems[0], "replicated_session: " + why);
  CHECK_SAYS(problems[1], "/job:ps/task:0 has left the cluster after an error: replicated_session: " + why);
}

BOOST_AUTO_TEST_CASE(a_graph_that_trains_nothing_is_refused) {
  const auto cluster = test::local_cluster(0, 1, in_process{});
  graph g;
  variable<float, dims<2>>(g, "w");
  basic_server<in_process> here(cluster, "worker", 0);
  BOOST_CHECK_EXCEPTION(replicated_session(g, here, collective{}), error,
                        test::says(error_code::failed_precondition, "minimize"));
}

// python/training/device_setter_test.py, and GreedyLoadBalancingStrategy with byte_size_load_fn.
BOOST_AUTO_TEST_CASE(variables_are_dealt_to_servers_by_a_strategy_and_users_win) {
  const cluster_spec cluster{{"ps", "127.0.0.1:1,127.0.0.1:2"}, {"worker", "127.0.0.1:3"}};
  const auto tasks = [&](replica_device_options options) {
    graph g;
    const device_scope on(g, replica_device_setter(cluster, options));
    const auto task_of = [&](const auto& v) { return g[v.id().node].device.task; };
    const auto a = variable<float, dims<100>>(g, "a"), b = variable<float, dims<100>>(g, "b");
    const auto c = variable<float, dims<10>>(g, "c");
    const auto d = variable<float>(g, "d"), e = variable<float>(g, "e");
    const auto sum_of = let(sum(c));
    BOOST_TEST(g[sum_of.id().node].device.task == options.worker_device.task);
    return std::array{task_of(a), task_of(b), task_of(c), task_of(d), task_of(e)};
  };
  BOOST_TEST((tasks({}) == std::array{0, 1, 0, 1, 0}));
  BOOST_TEST((tasks({.worker_device = "/job:worker/task:0"_device}) == std::array{0, 1, 0, 1, 0}));
  BOOST_TEST((tasks({.strategy = ps_strategy::greedy_by_byte_size}) == std::array{0, 1, 0, 1, 1}));
  graph g;
  const device_scope on(g, replica_device_setter(cluster));
  const auto task_of = [&](const auto& v) { return g[v.id().node].device.task; };
  const device_scope inner(g, "/job:ps/task:1"_device);
  BOOST_TEST(task_of(variable<float, dims<1>>(g, "d")) == 1);
  auto x = placeholder<float, dims<2>>(g, "x");
  BOOST_TEST(std::string(g[x.id().node].device.job) == "ps");  // the user's own scope places everything
}

// A graph runs in one task; where it names another one nothing would run there.
BOOST_AUTO_TEST_CASE(nodes_of_other_tasks_are_refused) {
  const auto problems_of = [](auto strategy, int ps, const device_spec& of_variable, const device_spec& of_sum) {
    std::string explained;
    const auto said = test::run_tasks(ps, 1, in_process{}, [&](basic_server<in_process>& here) {
      here.wait_ready(20s);
      graph g;
      const auto w = [&] {
        const device_scope on(g, of_variable);
        return variable<float, dims<4>>(g, "w", 1.0f);
      }();
      const auto total = [&] {
        const device_scope on(g, of_sum);
        return let(sum(square(w)));
      }();
      const auto train = gradient_descent{.learning_rate = 0.1}.minimize(total);
      replicated_session s(g, here, strategy, {.threads = 1}, 20s);
      s.prepare(fetch(total, train))(20s);
      explained = s.local().explain(w) + "; " + s.local().explain(total);
      s.finish(20s);
    });
    return said[0] + explained;
  };
  const parameter_server<synchronous> servers;
  // Outside of the macro, where clang 14 fails to print them.
  const device_spec none, worker0 = "/job:worker/task:0"_device, ps0 = "/job:ps/task:0"_device,
                          ps7 = "/job:ps/task:7"_device, ps1_cpu3 = "/job:ps/task:1/device:CPU:3"_device,
                          cpu0 = "/task:0/device:CPU:0"_device, worker0_cpu0 = "/job:worker/task:0/device:CPU:0"_device;
  CHECK_SAYS(problems_of(servers, 2, ps1_cpu3, worker0_cpu0),
             "w on /device:CPU:0: the session's own choice, since the node names another task; this is a copy of the "
             "variable on /job:ps/task:1/device:CPU:3; ");
  CHECK_SAYS(problems_of(servers, 1, none, cpu0), "the node names it");
  for (const device_spec& other : {"/job:worker/task:1/device:CPU:0"_device, "/job:ps/task:0"_device, "/task:1"_device})
    CHECK_SAYS(
        problems_of(servers, 1, none, other),
        "is placed on " + to_string(other) +
            ", but a graph runs in one task; this is /job:worker/task:0, which has 1 CPU device(s) and 0 GPU(s)");
  CHECK_SAYS(problems_of(servers, 1, worker0, none),
             "w: is placed on /job:worker/task:0, but parameter servers keep the variables; name one of the 1 tasks of "
             "/job:ps, or none");
  CHECK_SAYS(problems_of(servers, 1, ps7, none), "the job has 1 tasks");
  CHECK_SAYS(problems_of(collective{}, 0, ps0, none),
             "w: is placed on /job:ps/task:0, but with this strategy every worker keeps all variables");
}

// ---- exactly once, whatever the strategy ----

namespace {

/// Two workers, each with a session that `body(session, model, server)` uses; what went wrong with each.
template <class Strategy, transport T, class Body>
std::vector<std::string> with_sessions(Strategy strategy, T network, Body body,
                                       const std::string& settings_of_last = "") {
  const int ps = std::is_same_v<Strategy, collective> ? 0 : 2;
  return test::run_tasks(ps, 2, network, [&](basic_server<T>& here) {
    model m(gradient_descent{.learning_rate = 0.5}, replica_device_setter(here.cluster()));
    replicated_session s(m.g, here, strategy, {.threads = 1}, 20s, here.index() == 1 ? settings_of_last : "");
    body(s, m, here);
  });
}

void all_well(const std::vector<std::string>& problems) {
  for (const std::string& each : problems) BOOST_TEST(each == "");
}

/// Rows of the examples of a step, from one to another.
std::pair<examples, classes> rows_of(int step, std::int64_t from, std::int64_t to) {
  const auto [all_x, all_y] = data_of(step, 0, 4);
  examples x(shape(to - from, 12));
  classes y(shape{to - from});
  for (std::int64_t i = from; i < to; ++i) {
    for (std::int64_t j = 0; j < 12; ++j) x(i - from, j) = all_x(i, j);
    y(i - from) = all_y(i);
  }
  return {x, y};
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_session_after_the_other_on_one_server_trains_on) {
  const auto train_twice = [](auto strategy) {
    std::vector<std::vector<float>> results(2);
    all_well(with_sessions(strategy, in_process{}, [&](auto& first, const model& m, auto& here) {
      const auto make_steps = [&](auto& s, int from) {
        auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
        for (int i = from; i < from + steps / 2; ++i) {
          const auto [x, y] = data_of(i, here.index());
          step(x, y, 20s);
        }
      };
      make_steps(first, 0);
      {
        replicated_session second(m.g, here, decltype(strategy){}, {.threads = 1});
        make_steps(second, steps / 2);
        second.finish(20s);
        results[static_cast<std::size_t>(here.index())] = values_of(m.g, second.local());
      }
    }));
    return results;
  };
  const gradient_descent optimizer{.learning_rate = 0.5};
  const auto whole = train(parameter_server<synchronous>{}, optimizer, 2, in_process{});
  const auto halves = train_twice(parameter_server<synchronous>{});
  BOOST_TEST(same_bits(whole[0], halves[0]));
  BOOST_TEST(same_bits(whole[0], halves[1]));
  // The one that finishes last has seen every update: with equal data and rate 0 both would stay where they began.
  const auto raced = train_twice(parameter_server<asynchronous>{});
  model untrained(optimizer, cpu{0});
  session s(untrained.g);
  BOOST_TEST(distance(raced[0], values_of(untrained.g, s)) > 1e-2);
}

BOOST_AUTO_TEST_CASE(workers_draw_numbers_of_their_own_and_go_on_with_them) {
  using vector = dims<40>;
  std::vector<std::vector<float>> drawn[2];
  graph g(3);
  const auto w = variable<float, vector>(g, "w", init::ones{});
  const auto x = placeholder<float, vector>(g, "x");
  const auto mask = dropout(x, 0.5);
  const auto loss = let(mean(square(w * mask)));
  const auto train = gradient_descent{.learning_rate = 0.1f}.minimize(loss);
  const tensor<float, vector> ones(eval(tensor<float, vector>{} + 1.0f));
  const auto run = [&](auto& s, int count, auto& to) {
    auto step = s.prepare(fetch(mask, train), feed(x));
    for (int i = 0; i < count; ++i) {
      const auto y = std::get<0>(step(ones));
      to.emplace_back(y.begin(), y.end());
    }
  };
  all_well(test::run_tasks(1, 2, in_process{}, [&](basic_server<in_process>& here) {
    auto& mine = drawn[here.index()];
    replicated_session first(g, here, parameter_server<synchronous>{}, {.threads = 1});
    run(first, 2, mine);
    replicated_session second(g, here, parameter_server<synchronous>{}, {.threads = 1});
    run(second, 2, mine);
    second.finish(20s);
  }));
  for (int worker = 0; worker < 2; ++worker) {
    session alone(g, {.threads = 1});
    alone.set_random_stream(worker);
    std::vector<std::vector<float>> same;
    run(alone, 4, same);
    BOOST_TEST((drawn[worker] == same));
  }
  BOOST_TEST((drawn[0] != drawn[1]));
}

// A worker is late, the other runs out of time again and again; the result is that of an undisturbed run.
template <class Strategy, transport T>
void run_out_of_time(Strategy strategy, T network) {
  std::vector<std::vector<float>> results(2);
  std::atomic<int> late{0};
  all_well(with_sessions(strategy, network, [&](auto& s, const model& m, auto& here) {
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
    for (int i = 0; i < steps; ++i) {
      const auto [x, y] = data_of(i, here.index());
      if (here.index() == 1) {
        if (i % 3 == 1) std::this_thread::sleep_for(150ms);
        step(x, y);
        continue;
      }
      try {
        step(x, y, 40ms);
        continue;
      } catch (const error& problem) {
        if (problem.code() != error_code::deadline_exceeded) throw;
        ++late;
      }
      // Other gradients may not take the place of those that are still under way.
      test::require_says_in_task(test::failure(error_code::failed_precondition, [&, x = x, y = y] { step(x, y); }),
                                 "call exchange()");
      for (bool made = false; !made;) try {
          const auto [cost, _] = step.exchange(40ms);
          test::require_in_task(std::isfinite(cost), "a finite loss");
          made = true;
        } catch (const error& problem) {
          if (problem.code() != error_code::deadline_exceeded) throw;
        }
    }
    s.finish(20s);
    results[static_cast<std::size_t>(here.index())] = values_of(m.g, s.local());
  }));
  BOOST_TEST(late >= 2);
  const auto undisturbed =
      train(strategy, gradient_descent{.learning_rate = 0.5}, std::is_same_v<Strategy, collective> ? 0 : 2, network);
  BOOST_TEST(same_bits(results[0], undisturbed[0]));
  BOOST_TEST(same_bits(results[1], undisturbed[0]));
}

BOOST_AUTO_TEST_CASE(an_update_that_ran_out_of_time_is_repeated_and_counts_once) {
  run_out_of_time(parameter_server<synchronous>{}, in_process{});
  run_out_of_time(parameter_server<synchronous>{}, tcp{});
  run_out_of_time(collective{}, in_process{});
  run_out_of_time(in_buckets, in_process{});
  run_out_of_time(collective{}, tcp{});
}

BOOST_AUTO_TEST_CASE(workers_with_unequal_batches_count_as_they_have_examples) {
  const auto from = [](int step, int index) { return index == 0 ? 0 : step % 2 == 0 ? 11 : 24; };
  const auto to = [](int step, int index) { return index == 1 ? 32 : step % 2 == 0 ? 11 : 24; };
  const auto train_unequally = [&](auto strategy, auto network) {
    std::vector<std::vector<float>> results(2);
    all_well(with_sessions(strategy, network, [&](auto& s, const model& m, auto& here) {
      auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
      for (int i = 0; i < steps; ++i) {
        const auto [x, y] = rows_of(i, from(i, here.index()), to(i, here.index()));
        step(x, y);
      }
      s.finish(20s);
      results[static_cast<std::size_t>(here.index())] = values_of(m.g, s.local());
    }));
    BOOST_TEST(same_bits(results[0], results[1]));
    return results[0];
  };
  model m(gradient_descent{.learning_rate = 0.5}, cpu{0});
  session s(m.g, {.threads = 1});
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  for (int i = 0; i < steps; ++i) {
    const auto [x, y] = rows_of(i, 0, 32);
    step(x, y);
  }
  const auto alone = values_of(m.g, s);
  const auto sync = train_unequally(parameter_server<synchronous>{}, in_process{});
  BOOST_TEST(distance(sync, alone) < 2e-6);
  BOOST_TEST(same_bits(sync, train_unequally(parameter_server<synchronous>{}, tcp{})));
  BOOST_TEST(same_bits(sync, train_unequally(collective{}, in_process{})));
  BOOST_TEST(same_bits(sync, train_unequally(collective{}, tcp{})));
}

namespace {

/// The values that batch normalisation keeps, a count of updates, and a value that is nobody else's, beside one weight.
struct model_with_state {
  using rows = dims<dyn<"batch">, 12>;
  graph g;
  node<float, rows> x;
  variable_node<float, dims<12, 1>> w;
  variable_node<float, dims<12>> means;
  variable_node<double> spread;
  variable_node<std::int64_t> updates;
  variable_node<float> own;
  node<float> loss;
  effect train;

  template <class Place>
  model_with_state(const Place& place)
      : g(3),
        x(placeholder<float, rows>(g, "x")),
        w(at(place, [&] { return variable<float, dims<12, 1>>(g, "w", init::glorot_uniform{}); })),
        means(at(place, [&] { return variable<float, dims<12>>(g, "means", 0.5f, variable_kind::averaged); })),
        spread(at(place, [&] { return variable<double>(g, "spread", 0.0, variable_kind::averaged); })),
        updates(variable<std::int64_t>(g, "updates", 100, variable_kind::counter)),
        own(variable<float>(g, "own", 0.0f, variable_kind::local)),
        loss(let(mean(square(matmul(x - means, w) - 1.0f)))),
        train(gradient_descent{.learning_rate = 0.05}.minimize(loss)) {}

  template <class Place, class Make>
  auto at(const Place& place, Make make) {
    const device_scope on(g, place);
    return make();
  }
  auto fetches() const {
    return fetch(loss, train, assign(means, 0.75f * means + 0.25f * mean<0>(x)),
                 assign(spread, 0.5 * spread + cast<double>(mean(x * x))), assign_add(updates, 1),
                 assign_add(own, 1.0f));
  }
};

struct state_at_the_end {
  tensor<float, dims<12, 1>> w;
  tensor<float, dims<12>> means;
  double spread;
  std::int64_t updates;
  float own;

  state_at_the_end(const model_with_state& m, session& s)
      : w(s.eval(m.w)),
        means(s.eval(m.means)),
        spread(s.eval(m.spread)),
        updates(s.eval(m.updates)),
        own(s.eval(m.own)) {}
};

template <class Strategy, transport T>
std::vector<std::optional<state_at_the_end>> train_with_state(Strategy strategy, T network) {
  std::vector<std::optional<state_at_the_end>> results(2);
  const int ps = std::is_same_v<Strategy, collective> ? 0 : 2;
  all_well(test::run_tasks(ps, 2, network, [&](basic_server<T>& here) {
    model_with_state m(replica_device_setter(here.cluster()));
    replicated_session s(m.g, here, strategy, {.threads = 1}, 20s);
    auto step = s.prepare(m.fetches(), feed(m.x));
    auto cost = s.local().prepare(fetch(m.loss), feed(m.x));
    for (int i = 0; i < steps; ++i) {
      const auto [x, y] = data_of(i, here.index());
      step(x, 20s);
      test::require_in_task(s.local().eval(m.updates) == 100 + s.global_step(), "the counter has all updates");
    }
    test::require_in_task(std::isfinite(cost(data_of(0, 0).first)), "the cost is finite");
    s.finish(20s);
    results[static_cast<std::size_t>(here.index())].emplace(m, s.local());
  }));
  return results;
}

std::vector<float> all_of(const state_at_the_end& s) {
  std::vector<float> all(s.w.begin(), s.w.end());
  all.insert(all.end(), s.means.begin(), s.means.end());
  all.push_back(static_cast<float>(s.spread));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(averages_and_counters_are_those_of_all_workers) {
  model_with_state m(cpu{0});
  session s(m.g, {.threads = 1});
  auto step = s.prepare(m.fetches(), feed(m.x));
  for (int i = 0; i < steps; ++i) step(data_of(i, 0, 2).first);
  const state_at_the_end alone(m, s);
  BOOST_TEST(alone.updates == 100 + steps);
  const auto check = [&](const auto& workers) {
    for (const auto& each : workers) {
      BOOST_TEST(distance(all_of(*each), all_of(alone)) < 2e-6);
      BOOST_TEST(each->updates == alone.updates);
      BOOST_TEST(each->own == steps);
    }
    BOOST_TEST(same_bits(all_of(*workers[0]), all_of(*workers[1])));
  };
  check(train_with_state(parameter_server<synchronous>{}, in_process{}));
  check(train_with_state(parameter_server<synchronous>{}, tcp{}));
  check(train_with_state(collective{}, in_process{}));
  check(train_with_state(in_buckets, in_process{}));
  check(train_with_state(collective{}, tcp{}));

  // In turn or at once: whatever each has added has arrived, and nothing twice. For v = v / 2 + x the value is between
  // what one worker and what two in turn make of it.
  const auto raced = train_with_state(parameter_server<asynchronous>{}, tcp{});
  const auto& last = raced[0]->updates > raced[1]->updates ? *raced[0] : *raced[1];
  BOOST_TEST(last.updates == 100 + 2 * steps);
  BOOST_TEST(last.spread > 0.5 * alone.spread);
  BOOST_TEST(last.spread < 4 * alone.spread);
  BOOST_TEST(last.own == steps);
}

BOOST_AUTO_TEST_CASE(a_rate_that_goes_by_a_counter_is_the_same_for_all) {
  struct scheduled {
    graph g;
    node<float, dims<dyn<"batch">, 12>> x = placeholder<float, dims<dyn<"batch">, 12>>(g, "x");
    variable_node<float, dims<12, 1>> w = variable<float, dims<12, 1>>(g, "w", 0.25f);
    variable_node<std::int32_t> updates = variable<std::int32_t>(g, "updates", 0, variable_kind::counter);
    node<float> loss = let(mean(square(matmul(x, w) - 1.0f)));
    effect train = minimize(gradient_descent{.learning_rate = let(0.2 / (1.0 + cast<double>(updates)))}, loss);
  };
  const auto make_steps = [](scheduled& m, auto& s, int index, int workers) {
    auto step = s.prepare(fetch(m.train, assign_add(m.updates, 1)), feed(m.x));
    for (int i = 0; i < steps; ++i) step(data_of(i, index, workers).first);
  };
  scheduled m;
  session alone(m.g, {.threads = 1});
  make_steps(m, alone, 0, 2);
  const auto right = alone.eval(m.w);
  all_well(test::run_tasks(0, 2, in_process{}, [&](basic_server<in_process>& here) {
    scheduled mine;
    replicated_session s(mine.g, here, collective{}, {.threads = 1}, 20s);
    make_steps(mine, s, here.index(), 1);
    s.finish(20s);
    test::require_in_task(s.local().eval(mine.updates) == steps, "each step counts once");
    const auto w = s.local().eval(mine.w);
    test::require_in_task(distance({w.begin(), w.end()}, {right.begin(), right.end()}) < 1e-6,
                          "the rates of one process");
  }));
}

// What the program makes of a gradient by hand is made of the mean.
BOOST_AUTO_TEST_CASE(means_are_changed) {
  const auto check = [](auto strategy, int ps) {
    std::vector<float> values[2];
    all_well(test::run_tasks(ps, 2, in_process{}, [&](basic_server<in_process>& here) {
      graph g;
      const device_scope on(g, replica_device_setter(here.cluster()));
      const auto w = variable<float, dims<4>>(g, "w", 1.0f);
      const auto x = placeholder<float, dims<4>>(g, "x");
      auto [of_w] = compute_gradients(let(sum(w * x)), w);
      of_w.gradient = min(max(of_w.gradient, -1.0f), 1.0f);
      const auto train = apply_gradients(momentum{.learning_rate = 0.25, .momentum = 0.5}, of_w);
      replicated_session s(g, here, strategy, {.threads = 1}, 20s);
      auto step = s.prepare(fetch(train), feed(x));
      const float sign = here.index() == 0 ? 1 : -1;
      for (int i = 0; i < 3; ++i) step(tensor<float, dims<4>>{8, 0.5, sign * 8, sign * 0.5f}, 20s);
      s.finish(20s);
      const auto w_now = s.local().eval(w);
      values[here.index()] = {w_now.begin(), w_now.end()};
    }));
    float expected[4] = {1, 1, 1, 1}, velocity[4] = {};
    const float means[4] = {1, 0.5, 0, 0};
    for (int i = 0; i < 12; ++i) {
      velocity[i % 4] = 0.5f * velocity[i % 4] + means[i % 4];
      expected[i % 4] -= 0.25f * velocity[i % 4];
    }
    for (const auto& of : values) BOOST_TEST((of == std::vector<float>(expected, expected + 4)));
  };
  check(collective{}, 0);
}

namespace {

struct accumulating {
  graph g;
  node<float, dims<dyn<"batch">, 12>> x;
  variable_node<float, dims<12, 1>> w;
  variable_node<float, dims<12>> fixed;
  variable_node<float, dims<5, 2>> table;
  variable_node<std::int64_t> count;
  node<float> loss;

  template <class Place>
  accumulating(const Place& place, float of_worker)
      : x(placeholder<float, dims<dyn<"batch">, 12>>(g, "x")),
        w(at(place, [&] { return variable<float, dims<12, 1>>(g, "w", 0.25f); })),
        fixed(at(place, [&] { return variable<float, dims<12>>(g, "fixed", init::none{}, variable_kind::frozen); })),
        table(at(place, [&] { return variable<float, dims<5, 2>>(g, "table", 0.5f); })),
        count(global_step(g)),
        loss(let(mean(square(matmul(x - fixed, w) - 1.0f)) +
                 mean(square(gather(table, cast<std::int32_t>(x > 1.0f)))))) {
    g.initialize(fixed.id().node, {initializer::kind_type::constant, of_worker, 0, {}});
  }
  template <class Place, class Make>
  auto at(const Place& place, Make make) {
    const device_scope on(g, place);
    return make();
  }
  std::vector<float> values(session& s) {
    std::vector<float> all;
    for (const auto& t : {s.eval(reshape<dims<12>>(w)), s.eval(fixed)}) all.insert(all.end(), t.begin(), t.end());
    const auto rows_now = s.eval(table);
    all.insert(all.end(), rows_now.begin(), rows_now.end());
    return all;
  }
};
const momentum slow{.learning_rate = 0.05};

}  // namespace

// Each worker adds up its own micro-batches, which brings nobody anything; an update has the mean of the workers'
// means. Frozen variables have the values of the first worker.
BOOST_AUTO_TEST_CASE(workers_accumulate_gradients_of_their_own) {
  accumulating m(cpu{0}, 0.25f);
  session s(m.g, {.threads = 1});
  auto step = s.prepare(fetch(apply_gradients(slow, compute_gradients(m.loss))), feed(m.x));
  for (int i = 0; i < steps; ++i) step(data_of(i, 0, 2).first);
  const std::vector<float> alone = m.values(s);

  const auto check = [&](auto strategy, auto network, int ps) {
    std::vector<float> values[2];
    all_well(test::run_tasks(ps, 2, network, [&](basic_server<decltype(network)>& here) {
      accumulating mine(replica_device_setter(here.cluster()), ps > 0 && here.index() == 1 ? 9.0f : 0.25f);
      const auto sums = accumulate_gradients(compute_gradients(mine.loss));
      const auto train = apply_gradients(slow, sums.mean, mine.count);
      replicated_session each(mine.g, here, strategy, {.threads = 1}, 20s);
      auto add = each.prepare(fetch(sums.add), feed(mine.x));
      auto update = each.prepare(fetch(train), feed());
      for (int i = 0; i < steps; ++i) {
        const auto [x, y] = data_of(i, here.index());
        for (int half = 0; half < 2; ++half) {
          examples part(shape(share / 2, 12));
          std::copy_n(x.begin() + half * share * 6, share * 6, part.data());
          add(part, 20s);
          test::require_in_task(each.global_step() == i, "a micro-batch is no update");
        }
        update(20s);
        test::require_in_task(each.local().eval(mine.count) == i + 1, "an update counts once");
      }
      each.finish(20s);
      values[here.index()] = mine.values(each.local());
    }));
    BOOST_TEST(same_bits(values[0], values[1]));
    BOOST_TEST(distance(values[0], alone) < 2e-6);
  };
  check(parameter_server<synchronous>{}, in_process{}, 2);
  check(parameter_server<synchronous>{}, tcp{}, 1);
  check(collective{}, in_process{}, 0);
}

namespace {

/// A step of length 1/2 along the gradient.
struct normalised_descent {
  hyperparameter length = 0.5;
  static constexpr const char* name = "normalised_descent";
  template <class V>
  auto norms(V, V gradient) const {
    return norm_list{gradient};
  }
  template <class V>
  void update(V& variable, V gradient, V norm) const {
    variable -= length / norm * gradient;
  }
};

}  // namespace

// The norm is of the mean of what the workers bring, (3, 4), and not of one's own.
BOOST_AUTO_TEST_CASE(norms_are_of_the_summed_gradient) {
  const auto train_by = [](auto strategy, int ps) {
    return test::run_tasks(ps, 2, in_process{}, [&](basic_server<in_process>& here) {
      graph g;
      const device_scope on(g, replica_device_setter(here.cluster()));
      const auto w = variable<float, dims<2>>(g, "w", 1.0f);
      const auto x = placeholder<float, dims<2>>(g, "x");
      const auto train = minimize(normalised_descent{}, let(sum(w * x)));
      replicated_session s(g, here, strategy, {.threads = 1}, 20s);
      auto step = s.prepare(fetch(train), feed(x));
      for (int i = 0; i < 2; ++i)
        step(here.index() == 0 ? tensor<float, dims<2>>{6, 0} : tensor<float, dims<2>>{0, 8}, 20s);
      s.finish(20s);
      const auto w_now = s.local().eval(w);
      test::require_in_task(std::abs(w_now(0) - (1 - 0.6f)) < 1e-6 && std::abs(w_now(1) - (1 - 0.8f)) < 1e-6,
                            "the mean is normalised");
    });
  };
  all_well(train_by(collective{}, 0));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_shared_is_refused) {
  const auto refused = [](auto make, const session_options& options = {.threads = 1}) {
    const auto problems = test::run_tasks(0, 1, in_process{}, [&](basic_server<in_process>& here) {
      graph g;
      const auto w = variable<float>(g, "w", 1.0f);
      make(g);
      [[maybe_unused]] const auto train = gradient_descent{}.minimize(let(w * w));
      replicated_session s(g, here, collective{}, options);
    });
    return problems.empty() ? std::string() : problems.front();
  };
  BOOST_TEST(contains(refused([](graph& g) { variable<std::int32_t>(g, "n", 0, variable_kind::averaged); }),
                      "averaged over workers must be float or double, not int32"));
  BOOST_TEST(contains(refused([](graph& g) { variable<float>(g, "n", 0.0f, variable_kind::counter); }),
                      "a counter must be one std::int64_t or std::int32_t"));
  BOOST_TEST(contains(refused([](graph& g) { variable<std::int64_t, dims<2>>(g, "n", 0, variable_kind::counter); }),
                      "a counter must be one std::int64_t or std::int32_t"));
  const session_options shared{.variables = {"", [](const auto&...) { return storage(); }}};
  BOOST_TEST(contains(refused([](graph&) {}, shared), "do not set session_options::variables"));
}

// Each worker's average is of the values that it has after a step.
BOOST_AUTO_TEST_CASE(averages_of_present_values_follow_what_workers_make_together) {
  const auto check = [](auto strategy, int ps) {
    all_well(test::run_tasks(ps, 2, in_process{}, [&](basic_server<in_process>& here) {
      graph g;
      const device_scope on(g, replica_device_setter(here.cluster()));
      const auto w = variable<float, dims<2>>(g, "w", 1.0f);
      const auto x = placeholder<float, dims<2>>(g, "x");
      const auto train = gradient_descent{.learning_rate = 0.5}.minimize(let(sum(w * x)));
      const auto averages = exponential_moving_average{.decay = 0.5}.apply_to_present_values(w);
      replicated_session s(g, here, strategy, {.threads = 1}, 20s);
      auto step = s.prepare(fetch(train), feed(x));
      auto average = s.local().prepare(fetch(averages));
      float value = 1, expected = 1;
      for (int i = 0; i < 4; ++i) {
        step(here.index() == 0 ? tensor<float, dims<2>>{6, 0} : tensor<float, dims<2>>{2, 4}, 20s);
        average();
        value -= 2;
        expected = 0.5f * expected + 0.5f * value;
        test::require_in_task(s.local().get(averages.average(w))(0) == expected, "the average");
      }
      s.finish(20s);
    }));
  };
  check(parameter_server<synchronous>{}, 1);
  check(collective{}, 0);
}

namespace {

/// A group that counts the means that it forms in another thread than the one that made it.
struct counting_group : all_reduce {
  using all_reduce::all_reduce;
  static inline std::atomic<int> elsewhere{0};
  const std::thread::id maker = std::this_thread::get_id();

  template <class Element>
  mean_report mean(std::span<Element> data, deadline until, reduce_algorithm how, double weight) {
    if (std::this_thread::get_id() != maker) ++elsewhere;
    return all_reduce::mean(data, until, how, weight);
  }
};
struct counted {
  std::size_t bucket_bytes = 0;
  using group = counting_group;
};

}  // namespace

BOOST_AUTO_TEST_CASE(buckets_leave_while_a_step_runs) {
  const gradient_descent optimizer{.learning_rate = 0.5};
  std::atomic<int>& elsewhere = counting_group::elsewhere;
  const auto whole = train(counted{}, optimizer, 0, in_process{});
  BOOST_TEST(elsewhere == 0);
  const auto buckets = train(counted{.bucket_bytes = 64}, optimizer, 0, in_process{});
  BOOST_TEST(elsewhere >= 2 * (steps - 1) * 3);  // the first step agrees on what counts 1
  BOOST_TEST(same_bits(whole[0], buckets[0]));
  BOOST_TEST(same_bits(whole[0], buckets[1]));

  // Nothing of the next step may take the place of what is under way.
  all_well(with_sessions(in_buckets, in_process{}, [&](auto& s, const model& m, auto& here) {
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
    for (int i = 0; i < 3; ++i) {
      const auto [x, y] = data_of(i, here.index());
      step.compute(x, y);
      if (i > 0)
        test::require_in_task(
            contains(test::failure(error_code::failed_precondition, [&, x = x, y = y] { step.compute(x, y); }),
                     "call exchange() before"),
            "a step waits until the gradients of the last one have arrived");
      if (i < 2) step.exchange(20s);
    }
    s.finish(20s);  // with the last ones
    test::require_in_task(s.global_step() == 3, "all updates were made");
  }));

  // A step that fails before a gradient has left is repeated; a worker that goes in the middle is named.
  const auto said = with_sessions(in_buckets, in_process{}, [&](auto& s, const model& m, auto& here) {
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
    const auto [x, y] = data_of(0, here.index());
    step(x, y, 20s);
    const classes fewer(shape{share - 1});
    test::require_in_task(
        contains(test::failure(error_code::invalid_argument, [&, x = x] { step.compute(x, fewer); }), "batch"),
        "the batch is checked");
    step(x, y, 20s);
    if (here.index() == 1) return;
    step(x, y, 20s);
  });
  CHECK_SAYS(said[0], "/job:worker/task:1");
  BOOST_TEST(said[1] == "");
}

// The same gradient read by a kernel that fails, when others have left already.
BOOST_AUTO_TEST_CASE(a_step_that_fails_when_gradients_have_left_ends_the_session) {
  const auto said = test::run_tasks(0, 2, in_process{}, [&](basic_server<in_process>& here) {
    graph g(1);
    const auto x = placeholder<float, dims<4, 8>>(g, "x");
    const auto index = placeholder<std::int64_t, dims<2>>(g, "index");
    const auto a = variable<float, dims<8, 16>>(g, "a", init::glorot_uniform{});
    const auto b = variable<float, dims<16, 16>>(g, "b", init::glorot_uniform{});
    const auto loss = let(mean(tanh(matmul(tanh(matmul(x, a)), b))));
    const auto list = compute_gradients(loss, a, b);
    const auto rows = let(gather(std::get<0>(list).gradient, index));
    const auto train = apply_gradients(gradient_descent{}, list);
    replicated_session s(g, here, in_buckets, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(loss, rows, train), feed(x, index));
    const tensor<float, dims<4, 8>> in(shape{4, 8});
    step(in, tensor<std::int64_t, dims<2>>{0, 1}, 20s);
    const tensor<std::int64_t, dims<2>> beyond{0, 8};
    (void)test::failure(error_code::out_of_range, [&] { step(in, beyond, 20s); });
    step(in, tensor<std::int64_t, dims<2>>{0, 1}, 20s);
  });
  for (const std::string& each : said) CHECK_SAYS(each, "make a new session");
}

BOOST_AUTO_TEST_CASE(workers_may_make_unequally_many_steps) {
  const auto train_unequally = [](auto strategy, auto network, int slow) {
    std::vector<std::vector<float>> results(2);
    all_well(with_sessions(strategy, network, [&](auto& s, const model& m, auto& here) {
      auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
      for (int i = 0; i < (here.index() == slow ? 2 : steps); ++i) {
        const auto [x, y] = data_of(i, here.index());
        step(x, y);
      }
      s.finish(20s);
      results[static_cast<std::size_t>(here.index())] = values_of(m.g, s.local());
    }));
    return results[static_cast<std::size_t>(1 - slow)];
  };
  for (const int slow : {0, 1}) {
    const auto sync = train_unequally(parameter_server<synchronous>{}, in_process{}, slow);
    BOOST_TEST(same_bits(sync, train_unequally(collective{}, in_process{}, slow)));
    BOOST_TEST(same_bits(sync, train_unequally(in_buckets, in_process{}, slow)));
    BOOST_TEST(same_bits(sync, train_unequally(collective{}, tcp{}, slow)));
    const auto equal = train(parameter_server<synchronous>{}, gradient_descent{.learning_rate = 0.5}, 2, in_process{});
    BOOST_TEST(distance(sync, equal[0]) > 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(other_settings_are_refused_in_every_strategy) {
  const auto check = [](auto strategy) {
    const auto problems =
        with_sessions(strategy, in_process{}, [](auto& s, const model&, auto&) { s.finish(1s); }, "30 steps");
    const std::string all = problems[0] + problems[1];
    BOOST_TEST_INFO(all);
    BOOST_TEST((contains(all, "its settings are '30 steps'") || contains(all, "its settings are ''")));
  };
  check(parameter_server<synchronous>{});
  check(parameter_server<asynchronous>{});
  check(collective{});
}

BOOST_AUTO_TEST_CASE(workers_with_other_buckets_are_refused) {
  const auto said = test::run_tasks(0, 2, in_process{}, [](basic_server<in_process>& here) {
    const model m(gradient_descent{.learning_rate = 0.5}, replica_device_setter(here.cluster()));
    const std::size_t bytes = here.index() == 0 ? 64 : 0;
    replicated_session s(m.g, here, collective{.bucket_bytes = bytes}, {.threads = 1}, 20s);
  });
  CHECK_SAYS(said[0],
             "/job:worker/task:1 sends gradients in buckets of 0 bytes, but /job:worker/task:0 in buckets of 64;");
  CHECK_SAYS(said[1],
             "/job:worker/task:0 sends gradients in buckets of 64 bytes, but /job:worker/task:1 in buckets of 0;");
}

BOOST_AUTO_TEST_CASE(gradients_that_are_not_finite_are_named_in_every_strategy) {
  const auto check = [](auto strategy, auto network, bool both_learn) {
    std::vector<std::string> said(2);
    all_well(with_sessions(strategy, network, [&](auto& s, const model& m, auto& here) {
      auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
      const auto before = values_of(m.g, s.local());
      auto [x, y] = data_of(0, here.index());
      if (here.index() == 1) x(3, 4) = std::numeric_limits<float>::quiet_NaN();
      if (here.index() == 1 || both_learn) {
        said[static_cast<std::size_t>(here.index())] =
            test::failure(error_code::invalid_argument, [&, x = x, y = y] { step(x, y, 20s); });
        test::require_in_task(same_bits(before, values_of(m.g, s.local())), "no value changes");
        if (here.index() == 1) x(3, 4) = 0;
      }
      step(x, y, 20s);  // and on with better ones
      s.finish(20s);
      for (const float each : values_of(m.g, s.local())) test::require_in_task(std::isfinite(each), "finite values");
    }));
    BOOST_TEST_INFO(said[0] + said[1]);
    CHECK_SAYS(said[1], "from /job:worker/task:1 is not finite in step 0");
    BOOST_TEST((!both_learn || said[0] == said[1]));
  };
  check(parameter_server<asynchronous>{}, in_process{}, false);
  check(parameter_server<synchronous>{}, tcp{}, false);
  check(collective{}, in_process{}, true);
  check(in_buckets, in_process{}, true);
  check(collective{}, tcp{}, true);
}

namespace {

/// A weight, a table of which rows are gathered, and an average of what is fed. The loss is the mean over the rows that
/// `keeps` marks, or over all.
struct model_of_rows {
  using rows = dims<dyn<"batch">, 12>;
  graph g{3};
  node<float, rows> x = placeholder<float, rows>(g, "x");
  node<bool, batch> keeps = placeholder<bool, batch>(g, "keeps");
  variable_node<float, dims<12, 1>> w;
  variable_node<float, dims<5, 1>> table;
  variable_node<float, dims<12>> means;
  node<float, dims<12>> mean_of_all;
  node<float> loss, kept_loss;
  node<std::int64_t> kept;
  effect train, train_kept;

  template <class Place>
  explicit model_of_rows(const Place& place, bool masked)
      : w(at(place, [&] { return variable<float, dims<12, 1>>(g, "w", init::glorot_uniform{}); })),
        table(at(place, [&] { return variable<float, dims<5, 1>>(g, "table", 0.5f); })),
        means(at(place, [&] { return variable<float, dims<12>>(g, "means", 0.5f, variable_kind::averaged); })) {
    const auto index = cast<std::int64_t>(clip_by_value(x, 0.0f, 4.0f));
    const auto of_each =
        square(reshape<batch>(matmul(x - means, w)) - 1.0f) + square(mean<1>(reshape<rows>(gather(table, index))));
    const auto rows_kept = boolean_mask(let(of_each), keeps);
    kept = rows_kept.count;
    loss = masked ? let(mean(rows_kept)) : let(mean(of_each));
    mean_of_all = assign(means, 0.75f * means + 0.25f * mean<0>(x));
    train = gradient_descent{.learning_rate = 0.05}.minimize(loss);
  }
  template <class Place, class Make>
  auto at(const Place& place, Make make) {
    const device_scope on(g, place);
    return make();
  }
  std::vector<float> values(session& s, bool with_means) {
    std::vector<float> all;
    const auto take = [&](const auto& t) { all.insert(all.end(), t.begin(), t.end()); };
    take(s.eval(w));
    take(s.eval(table));
    if (with_means) take(s.eval(means));
    return all;
  }
};

struct row_split {
  std::int64_t begin, middle, end;  // worker 0 has the rows up to `middle`, worker 1 those from there on

  bool is_empty() const { return begin == end; }
};

tensor<bool, batch> all_kept(const examples& x) {
  tensor<bool, batch> keeps(shape{x.extents()[0]});
  for (std::int64_t i = 0; i < x.extents()[0]; ++i) keeps(i) = true;
  return keeps;
}

}  // namespace

// Of no rows the mean is NaN, and so are its gradients and the averages that a step assigns.
BOOST_AUTO_TEST_CASE(workers_with_empty_batches_add_nothing) {
  constexpr row_split both[] = {{0, 0, 0}, {0, 0, 32}, {0, 11, 32}, {0, 32, 32}, {5, 5, 5}, {0, 24, 32}, {3, 3, 9}};
  constexpr row_split last[] = {{0, 0, 0}, {0, 0, 32}};  // worker 0 has finished
  model_of_rows m(cpu{0}, false);
  session s(m.g, {.threads = 1});
  auto alone = s.prepare(fetch(m.train, m.mean_of_all), feed(m.x, m.keeps));
  std::int64_t updates = 0;
  const auto make = [&](const row_split& rows, int i) {
    if (rows.is_empty()) return;
    const auto x = rows_of(i, rows.begin, rows.end).first;
    alone(x, all_kept(x));
    ++updates;
  };
  int number = 0;
  for (const row_split& each : both) make(each, number++);
  for (const row_split& each : last) make(each, number++);
  const auto expected = m.values(s, true);

  const auto train_by = [&](auto strategy, auto network) {
    std::vector<std::vector<float>> results(2);
    const int ps = std::is_same_v<decltype(strategy), collective> ? 0 : 2;
    all_well(test::run_tasks(ps, 2, network, [&](auto& here) {
      model_of_rows mine(replica_device_setter(here.cluster()), false);
      replicated_session each(mine.g, here, strategy, {.threads = 1}, 20s);
      auto step = each.prepare(fetch(mine.train, mine.mean_of_all), feed(mine.x, mine.keeps));
      int i = 0;
      std::int64_t made = 0;
      const auto take_part = [&](const row_split& rows) {
        const bool first = here.index() == 0;
        const auto x = rows_of(i++, first ? rows.begin : rows.middle, first ? rows.middle : rows.end).first;
        step(x, all_kept(x), 20s);
        made += !rows.is_empty();
        test::require_in_task(each.global_step() == made, "only steps with examples are counted");
        for (const float value : mine.values(each.local(), true))
          test::require_in_task(std::isfinite(value), "values are finite after a step");
      };
      for (const row_split& rows : both) take_part(rows);
      for (const row_split& rows : last)
        if (here.index() == 1) take_part(rows);
      each.finish(20s);
      results[static_cast<std::size_t>(here.index())] = mine.values(each.local(), true);
    }));
    if (ps == 0) BOOST_TEST(same_bits(results[0], results[1]));
    BOOST_TEST(distance(results[1], expected) < 4e-6);
    return results[1];
  };
  BOOST_TEST(updates == 6);
  const auto sync = train_by(parameter_server<synchronous>{}, in_process{});
  BOOST_TEST(same_bits(sync, train_by(parameter_server<synchronous>{}, tcp{})));
  BOOST_TEST(same_bits(sync, train_by(collective{}, in_process{})));
  BOOST_TEST(same_bits(sync, train_by(in_buckets, in_process{})));
  BOOST_TEST(same_bits(sync, train_by(collective{}, tcp{})));
}

// Also where the one that says it has no examples, and has no weight to say it with; no bit changes for it.
BOOST_AUTO_TEST_CASE(a_worker_stops_all_after_the_step_in_which_it_says_so) {
  const auto train_by = [](auto strategy, auto network, bool asks, bool has_examples) {
    std::vector<std::vector<float>> results(2);
    all_well(with_sessions(strategy, network, [&](auto& s, const model& m, auto& here) {
      auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
      for (int i = 0; i < 3; ++i) {
        if (asks && here.index() == 1 && i == 2) s.request_stop();
        const auto [x, y] = rows_of(i, here.index() * 8, here.index() == 0 || has_examples || i < 2 ? 14 : 8);
        test::require_in_task(!s.all_stop(), "nobody has asked yet");
        step(x, y, 20s);
      }
      test::require_in_task(s.all_stop() == asks, "all know of it after the same step");
      results[static_cast<std::size_t>(here.index())] = values_of(m.g, s.local());
      s.finish(20s);
    }));
    BOOST_TEST(same_bits(results[0], results[1]));
    return results[0];
  };
  const auto check = [&](auto strategy, auto network) {
    for (const bool has_examples : {true, false})
      BOOST_TEST(
          same_bits(train_by(strategy, network, true, has_examples), train_by(strategy, network, false, has_examples)));
  };
  check(parameter_server<synchronous>{}, in_process{});
  check(collective{}, in_process{});
  check(in_buckets, in_process{});
  check(collective{}, tcp{});
}

BOOST_AUTO_TEST_CASE(an_asynchronous_step_with_an_empty_batch_updates_nothing) {
  model_of_rows m(cpu{0}, false);
  session s(m.g, {.threads = 1});
  auto alone = s.prepare(fetch(m.train, m.mean_of_all), feed(m.x, m.keeps));
  for (int i = 0; i < steps; ++i) {
    const auto x = data_of(i, 0).first;
    alone(x, all_kept(x));
  }
  const auto expected = m.values(s, false);
  const auto check = [&](auto network, int ps) {
    all_well(test::run_tasks(ps, 2, network, [&](auto& here) {
      model_of_rows mine(replica_device_setter(here.cluster()), false);
      replicated_session each(mine.g, here, parameter_server<asynchronous>{}, {.threads = 1}, 20s);
      auto step = each.prepare(fetch(mine.loss, mine.train, mine.mean_of_all), feed(mine.x, mine.keeps));
      for (int i = 0; i < steps; ++i) {
        const auto x = here.index() == 0 ? data_of(i, 0).first : examples(shape(0, 12));
        const float cost = std::get<0>(step(x, all_kept(x), 20s));
        test::require_in_task(std::isnan(cost) == (here.index() == 1), "a mean of no rows is NaN");
      }
      each.finish(20s);
      test::require_in_task(each.global_step() <= steps, "steps without examples are not counted");
      if (here.index() == 1) return;
      test::require_in_task(each.global_step() == steps, "steps with examples are counted");
      test::require_in_task(distance(mine.values(each.local(), false), expected) < 4e-6, "only one worker trains");
    }));
  };
  check(in_process{}, 1);
  check(tcp{}, 2);
}

// Equally many rows are fed, and masks decide how many of them count.
BOOST_AUTO_TEST_CASE(an_example_count_of_the_graph_weighs_gradients) {
  const auto keeps_row = [](int step, std::int64_t row) {
    if (step == 0) return false;                   // nobody's
    if (step == 1) return row >= share;            // worker 1's alone
    if (step == 2) return row < share && row > 3;  // worker 0's alone
    return (row * 7 + step) % 5 < (row < share ? 1 : 4);
  };
  const auto marks = [&](int step, std::int64_t from, std::int64_t count) {
    tensor<bool, batch> keeps(shape{count});
    for (std::int64_t i = 0; i < count; ++i) keeps(i) = keeps_row(step, from + i);
    return keeps;
  };
  model_of_rows m(cpu{0}, true);
  session s(m.g, {.threads = 1});
  auto alone = s.prepare(fetch(m.train), feed(m.x, m.keeps));
  for (int i = 1; i < steps; ++i) alone(data_of(i, 0, 2).first, marks(i, 0, 2 * share));
  const auto expected = m.values(s, false);
  const auto train_by = [&](auto strategy, auto network) {
    std::vector<std::vector<float>> results(2);
    const int ps = std::is_same_v<decltype(strategy), collective> ? 0 : 1;
    all_well(test::run_tasks(ps, 2, network, [&](auto& here) {
      model_of_rows mine(replica_device_setter(here.cluster()), true);
      replicated_session each(mine.g, here, strategy, {.threads = 1}, 20s);
      each.set_example_count(mine.kept);
      auto step = each.prepare(fetch(mine.train), feed(mine.x, mine.keeps));
      for (int i = 0; i < steps; ++i) {
        step(data_of(i, here.index()).first, marks(i, here.index() * share, share), 20s);
        test::require_in_task(each.global_step() == i, "the first step has no examples");
      }
      each.finish(20s);
      results[static_cast<std::size_t>(here.index())] = mine.values(each.local(), false);
    }));
    BOOST_TEST(same_bits(results[0], results[1]));
    BOOST_TEST(distance(results[0], expected) < 4e-6);
    return results[0];
  };
  const auto sync = train_by(parameter_server<synchronous>{}, in_process{});
  BOOST_TEST(same_bits(sync, train_by(collective{}, in_process{})));
  BOOST_TEST(same_bits(sync, train_by(in_buckets, in_process{})));
  BOOST_TEST(same_bits(sync, train_by(collective{}, tcp{})));
}

BOOST_AUTO_TEST_CASE(a_negative_example_count_is_refused) {
  const auto said = test::run_tasks(0, 1, in_process{}, [](auto& here) {
    graph g;
    const auto count = placeholder<std::int32_t>(g, "count");
    const auto w = variable<float>(g, "w", 1.0f);
    const auto train = gradient_descent{}.minimize(let(w * w));
    replicated_session s(g, here, collective{}, {.threads = 1}, 20s);
    s.set_example_count(count);
    s.prepare(fetch(train), feed(count))(-1, 20s);
  });
  CHECK_SAYS(said[0], "the example count must be at least 0; count is -1");
}

// A worker that comes (again) while another one is dead that it never met.
BOOST_AUTO_TEST_CASE(asynchronous_training_needs_the_parameter_servers_alone) {
  const auto cluster = test::local_cluster(1, 3);
  test::process ps([&] {
    server here(cluster, "ps", 0, {.min_workers = 1});
    const join_report report = here.join(20s, 40s);
    return std::to_string(report.finished.size()) + " finished";
  });
  const auto train_one = [&](int index, std::chrono::milliseconds limit) {
    server here(cluster, "worker", index);
    const model m(gradient_descent{.learning_rate = 0.5}, replica_device_setter(cluster));
    replicated_session s(m.g, here, parameter_server<asynchronous>{}, {.threads = 1}, limit);
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
    const auto [x, y] = data_of(0, index);
    step(x, y);
    s.finish();
  };
  test::process first([&]() -> std::string {
    train_one(0, 20s);
    return "trained";
  });
  // The parameter server has heard of it before it dies, or would wait for it.
  int met[2];
  BOOST_REQUIRE(::pipe(met) == 0);
  test::process third([&]() -> std::string {
    server here(cluster, "worker", 2);
    here.members().wait_for(deadline(20s), [](const task_id& task) { return task.job == "ps"; });
    static_cast<void>(!::write(met[1], "", 1));
    std::this_thread::sleep_for(20s);
    return "not killed";
  });
  BOOST_TEST(first.text() == "trained");
  ::pollfd ready{met[0], POLLIN, 0};
  BOOST_REQUIRE_EQUAL(::poll(&ready, 1, 20'000), 1);
  for (const int end : met) ::close(end);
  third.signal(SIGKILL);
  third.text();
  std::this_thread::sleep_for(300ms);
  const auto start = std::chrono::steady_clock::now();
  BOOST_CHECK_NO_THROW(train_one(1, 5s));
  BOOST_TEST(test::seconds_since(start) < 3 + test::slack);
  BOOST_TEST(ps.text() == "2 finished");
}

namespace {

/// A table of which rows are taken twice, in steps that see a part of them each.
struct model_of_words {
  using words = dims<dyn<"batch">, 2>;
  graph g;
  node<std::int64_t, words> x;
  node<std::int32_t, batch> y;
  variable_node<float, dims<60, 6>> table;
  node<float> loss;
  effect train;

  template <class Optimizer, class Place>
  model_of_words(const Optimizer& optimizer, const Place& place)
      : g(3),
        x(placeholder<std::int64_t, words>(g, "x")),
        y(placeholder<std::int32_t, batch>(g, "y")),
        table(of(place)),
        loss(build(place)),
        train(optimizer.minimize(loss)) {}

  template <class Place>
  variable_node<float, dims<60, 6>> of(const Place& place) {
    const device_scope on(g, place);
    return variable<float, dims<60, 6>>(g, "table", init::uniform{-1, 1});
  }
  template <class Place>
  node<float> build(const Place& place) {
    const device_scope on(g, place);
    auto w = variable<float, dims<6, 5>>(g, "w", init::glorot_uniform{});
    auto b = variable<float, dims<5>>(g, "b", init::zeros{});
    auto mixed = let(sum<1>(gather(table, x)) * gather(table, y));
    return let(mean(softmax_cross_entropy(matmul(mixed, w) + b, y)));
  }
};

/// Rows 50 to 59 never come, others in some steps alone.
std::pair<tensor<std::int64_t, model_of_words::words>, classes> words_of(int step, std::int64_t from, std::int64_t to) {
  tensor<std::int64_t, model_of_words::words> x(shape(to - from, 2));
  classes y(shape{to - from});
  for (std::int64_t i = from; i < to; ++i) {
    x(i - from, 0) = (i * 5 + step * 7) % 50;
    x(i - from, 1) = i % 3 == 0 ? 11 : (i * i + step) % 50;
    y(i - from) = static_cast<std::int32_t>((i + step) % 5);
  }
  return {x, y};
}

std::vector<float> values_of(const model_of_words& m, session& s) {
  std::vector<float> all;
  for (const char* name : {"table", "w", "b"})
    for (std::uint32_t n = 0; n < m.g.size(); ++n)
      if (m.g[n].name == name) {
        const std::size_t before = all.size();
        all.resize(before + s.variable_info(n).extents.elements());
        s.read_variable(n, all.data() + before);
      }
  return all;
}

template <class Optimizer>
std::vector<float> train_words(const Optimizer& optimizer) {
  model_of_words m(optimizer, cpu{0});
  session s(m.g, {.threads = 1});
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  for (int i = 0; i < steps; ++i) {
    const auto [x, y] = words_of(i, 0, 16);
    step(x, y);
  }
  return values_of(m, s);
}

/// Two workers, of which the first has `share` of each 16 examples; or one.
template <class Strategy, class Optimizer, transport T>
std::vector<float> train_words(Strategy strategy, const Optimizer& optimizer, int ps, T network, std::int64_t share,
                               const server_options& options = {}) {
  const int workers = share == 16 ? 1 : 2;
  std::vector<std::vector<float>> results(2);
  all_well(test::run_tasks(
      ps, workers, network,
      [&](basic_server<T>& here) {
        model_of_words m(optimizer, replica_device_setter(here.cluster()));
        replicated_session s(m.g, here, strategy, {.threads = 1}, 20s);
        auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
        for (int i = 0; i < steps; ++i) {
          const auto [x, y] = here.index() == 0 ? words_of(i, 0, share) : words_of(i, share, 16);
          step(x, y, 20s);
        }
        const auto known = values_of(m, s.local());
        s.refresh(20s);  // all values, where the steps have brought those that had changed
        if (std::is_same_v<Strategy, parameter_server<synchronous>>)
          test::require_in_task(same_bits(known, values_of(m, s.local())), "a refresh brings nothing new");
        s.finish(20s);
        results[static_cast<std::size_t>(here.index())] = values_of(m, s.local());
      },
      options));
  if (workers == 2) BOOST_TEST(same_bits(results[0], results[1]));
  return results[0];
}

template <class Optimizer>
void compare_words(const Optimizer& optimizer) {
  const auto alone = train_words(optimizer);
  server_options messages;
  messages.shared_memory = false;
  // One worker is a single process; but there the product that is the gradient of w makes its descent.
  const double apart = std::is_same_v<Optimizer, gradient_descent> ? 5e-7 : 0;
  BOOST_TEST(distance(alone, train_words(parameter_server<asynchronous>{}, optimizer, 1, in_process{}, 16)) <= apart);
  BOOST_TEST(distance(alone, train_words(parameter_server<synchronous>{}, optimizer, 2, tcp{}, 16)) <= apart);
  for (const std::int64_t share : {8, 5}) {
    const auto sync = train_words(parameter_server<synchronous>{}, optimizer, 1, in_process{}, share);
    BOOST_TEST(distance(sync, alone) < 2e-6);
    BOOST_TEST(same_bits(sync, train_words(parameter_server<synchronous>{}, optimizer, 1, tcp{}, share)));
    BOOST_TEST(same_bits(sync, train_words(parameter_server<synchronous>{}, optimizer, 1, tcp{}, share, messages)));
    // A gradient as a whole has the sum of each gather's rows, rows have the sum of all.
    BOOST_TEST(distance(sync, train_words(collective{}, optimizer, 0, in_process{}, share)) < 5e-7);
    BOOST_TEST(distance(sync, train_words(in_buckets, optimizer, 0, in_process{}, share)) < 5e-7);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_that_are_rows_train_as_in_one_process) {
  compare_words(gradient_descent{.learning_rate = 0.5});
  compare_words(momentum{.learning_rate = 0.2, .momentum = 0.9});
  compare_words(adam{.learning_rate = 0.02});
}
