// One model on a cluster of threads over the in-process transport, and over TCP: the same code as between machines.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>

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
    if (g[n].what.op != &variable_operation || contains(g[n].name, "momentum")) continue;
    const auto* data = reinterpret_cast<const float*>(s.state_of(n).data.data());
    all.insert(all.end(), data, data + s.variable_info(n).extents.elements());
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
      BOOST_REQUIRE(std::isfinite(cost));
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
  BOOST_REQUIRE(a.size() == b.size());
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
    server here(cluster, "ps", 0);
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
  BOOST_TEST((contains(all, "its seed is 4, that of /job:worker/task:0 3") ||
              contains(all, "its seed is 3, that of /job:worker/task:1 4")));
  train(parameter_server<asynchronous>{}, gradient_descent{}, 1, in_process{}, &problems, 4);
  const std::string any = problems[0] + problems[1];
  BOOST_TEST_INFO(any);
  BOOST_TEST(
      (contains(any, "its seed is 4, the first worker's 3") || contains(any, "its seed is 3, the first worker's 4")));
}

BOOST_AUTO_TEST_CASE(a_graph_that_trains_nothing_is_refused) {
  const auto cluster = test::local_cluster(0, 1, in_process{});
  graph g;
  variable<float, dims<2>>(g, "w");
  basic_server<in_process> here(cluster, "worker", 0);
  BOOST_CHECK_EXCEPTION(replicated_session(g, here, collective{}), error,
                        test::says(error_code::failed_precondition, "minimize"));
}

BOOST_AUTO_TEST_CASE(variables_are_spread_over_servers_by_bytes_and_users_win) {
  const cluster_spec cluster{{"ps", "127.0.0.1:1,127.0.0.1:2"}, {"worker", "127.0.0.1:3"}};
  graph g;
  const device_scope on(g, replica_device_setter(cluster));
  const auto task_of = [&](const auto& v) { return g[v.id().node].device.task; };
  BOOST_TEST(task_of(variable<float, dims<100>>(g, "a")) == 0);
  BOOST_TEST(task_of(variable<float, dims<10>>(g, "b")) == 1);
  BOOST_TEST(task_of(variable<float, dims<20>>(g, "c")) == 1);
  const device_scope inner(g, "/job:ps/task:0"_device);
  BOOST_TEST(task_of(variable<float, dims<1>>(g, "d")) == 0);
  auto x = placeholder<float, dims<2>>(g, "x");
  BOOST_TEST(std::string(g[x.id().node].device.job) == "ps");  // the user's own scope places everything
}
