// loss_action::take_over: the others compute what a lost worker would have, with the bits of a run that nothing
// disturbs.
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/training/exchanges.hpp>
#include <weft/ops/dropout.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

using server_type = basic_server<in_process>;
using examples = tensor<float, dims<dyn<"batch">, 6>>;
constexpr int workers = 3, steps = 12;
const parameter_server<synchronous> takes_over{.on_loss = wait_for{0ms}.then(loss_action::take_over)};

/// The batches are of different sizes, and a worker has none in some steps.
examples batch_of(const replica& r) {
  const std::int64_t rows = (r.step + r.index) % 5 == 0 ? 0 : 2 + r.index;
  examples x(shape(rows, 6));
  const random_stream random(7, static_cast<std::uint64_t>(r.step * 16 + r.index));
  for (std::int64_t i = 0; i < rows * 6; ++i)
    x.data()[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  return x;
}

struct model {
  graph g{5};
  node<float, dims<dyn<"batch">, 6>> x;
  variable_node<float, dims<6, 4>> w;
  variable_node<float> seen;  // a mean of what the workers have seen
  variable_node<std::int64_t> own;
  node<float> loss;
  effect train;

  template <class Make>
  auto at(const cluster_spec& cluster, Make make) {
    const device_scope on(g, replica_device_setter(cluster));
    return make();
  }
  explicit model(const cluster_spec& cluster)
      : x(placeholder<float, dims<dyn<"batch">, 6>>(g, "x")),
        w(at(cluster, [&] { return variable<float, dims<6, 4>>(g, "w", init::glorot_uniform{}); })),
        seen(at(cluster, [&] { return variable<float>(g, "seen", 0.0f, variable_kind::averaged); })),
        own(variable<std::int64_t>(g, "own", 0, variable_kind::local)),
        loss(let(mean(square(dropout(matmul(x, w), 0.25f) - 1.0f)))),
        train(group(momentum{.learning_rate = 0.05}.minimize(loss), assign(seen, seen * 0.5f + sum(x)),
                    assign_add(own, 1))) {}
  std::vector<float> values(session& s) {
    const auto w_now = s.eval(w);
    std::vector<float> all{w_now.begin(), w_now.end()};
    all.push_back(s.eval(seen));
    return all;
  }
};

/// What a worker's thread does: lives, which begin and end at steps.
struct life {
  int until = steps;  // its last step; it leaves without finish() before another one
  int after = 0;      // it begins when the chief has made so many steps
};

struct outcome {
  std::array<std::vector<float>, workers> values;
  std::vector<std::string> problems;
  std::array<int, workers> made{}, computed{};  // steps; and those computed for others
  std::array<std::int64_t, workers> own{}, first{};
};

using lives = std::vector<life>;

/// The chief of an all-reduce holds the step before which another process comes, until that waits to take part.
void await_newcomers(server_type& here, const std::array<lives, workers>& plan, std::int64_t step) {
  for (std::size_t k = 1; k < workers; ++k)
    for (const life& each : plan[k]) {
      if (each.after == 0 || each.after != step) continue;
      const std::size_t rank = here.cluster().rank({"worker", static_cast<int>(k)});
      const deadline by(10s);
      bool waits = false;
      while (!waits && !by.expired()) {
        std::this_thread::sleep_for(1ms);
        here.for_each_channel([&](std::size_t from, std::uint64_t, const std::string& name) {
          waits |= from == rank && name.starts_with("view/");
        });
      }
      test::require_in_task(waits, "a newcomer waits to take part");
    }
}

template <class Strategy>
outcome train_by(const Strategy& how, const lives& chief, const lives& second, const lives& third, int ps,
                 const server_options& options = {}) {
  const std::array<lives, workers> plan{chief, second, third};
  in_process network;
  const cluster_spec cluster = test::local_cluster(ps, workers, network);
  outcome out;
  std::atomic<int> progress{0};
  std::vector<std::string> said(static_cast<std::size_t>(ps + workers));
  std::vector<std::thread> threads;
  const auto begin = [&](int number, std::function<void()> work) {
    threads.emplace_back([&, number, work] {
      try {
        work();
      } catch (const std::exception& problem) {
        said[static_cast<std::size_t>(number)] = problem.what();
      }
    });
  };
  for (int task = 0; task < ps; ++task)
    begin(task, [&, task] {
      server_type here(cluster, "ps", task, {.on_left_out = [](const error&) {}}, network);
      here.join(20s, 60s);
    });
  for (int index = 0; index < workers; ++index)
    begin(ps + index, [&, index] {
      const auto k = static_cast<std::size_t>(index);
      for (const life& each : plan[k]) {
        while (progress < each.after) std::this_thread::sleep_for(1ms);
        server_type here(cluster, "worker", index, options, network);
        model m(cluster);
        replicated_session s(m.g, here, how, {.threads = 1}, 20s);
        auto step = s.prepare(fetch(m.loss, m.train), feed(m.x));
        out.first[k] = s.next_step();
        while (s.next_step() < each.until) {
          const auto now = s.next_step();
          if (ps == 0 && index == 0) await_newcomers(here, plan, now);
          step.run(
              [&](replica r) {
                test::require_in_task(r.step == now, "the step is this one");
                out.computed[k] += r.index != index;
                return std::tuple(batch_of(r));
              },
              20s);
          ++out.made[k];
          if (index == 0) progress = static_cast<int>(s.next_step());
          std::this_thread::sleep_for(2ms);
        }
        if (each.until < steps) continue;
        s.finish(20s);
        out.values[k] = m.values(s.local());
        out.own[k] = s.local().eval(m.own);
      }
    });
  for (std::thread& each : threads) each.join();
  for (const std::string& each : said) BOOST_TEST(each == "");
  return out;
}

const lives whole{life{}};

outcome train(const lives& chief, const lives& second, const lives& third, int ps = 2) {
  return train_by(takes_over, chief, second, third, ps);
}

/// The same by all-reduce, in memory that the workers share or by messages.
outcome reduce(const lives& chief, const lives& second, const lives& third, bool shares_memory = true) {
  const collective how{.on_loss = wait_for{0ms}.then(loss_action::take_over)};
  return train_by(how, chief, second, third, 0, {.shared_memory = shares_memory});
}

}  // namespace

BOOST_AUTO_TEST_CASE(survivors_end_with_the_bits_of_an_undisturbed_run) {
  for (const int ps : {1, 2}) {
    const auto expected = train(whole, whole, whole, ps);
    BOOST_TEST((expected.computed == std::array<int, workers>{}));
    BOOST_TEST((expected.values[0] == expected.values[1]));
    // The worker with the lowest index and the fewest replicas takes over.
    const auto one = train(whole, lives{{.until = 4}}, whole, ps);
    BOOST_TEST((one.values[0] == expected.values[0] && one.values[2] == expected.values[0]));
    BOOST_TEST(one.computed[0] == steps - 4);
    BOOST_TEST(one.computed[2] == 0);
    BOOST_TEST(one.own[0] == steps);  // local variables are as if it had computed its own part alone
    // Another one is lost, which computes for the first.
    const auto two = train(whole, lives{{.until = 7}}, lives{{.until = 3}}, ps);
    BOOST_TEST((two.values[0] == expected.values[0]));
    const auto chief = train(lives{{.until = 5}}, whole, lives{{.until = 2}}, ps);
    BOOST_TEST((chief.values[1] == expected.values[0]));
    BOOST_TEST(chief.computed[1] > 0);
  }
}

BOOST_AUTO_TEST_CASE(a_late_replacement_gets_its_part_back) {
  const auto expected = train(whole, whole, whole);
  const auto late = train(whole, lives{{.until = 3}, {.after = 6}}, whole);
  for (const auto& each : late.values) BOOST_TEST((each == expected.values[0]));
  BOOST_TEST(late.first[1] >= 6);
  BOOST_TEST(late.computed[0] >= 3);
  BOOST_TEST(late.computed[0] + late.made[1] >= steps);
  const auto twice =
      train(whole, lives{{.until = 2}, {.until = 7, .after = 4}, {.after = 9}}, lives{{.until = 5}, {.after = 6}});
  for (const auto& each : twice.values) BOOST_TEST((each == expected.values[0]));
}

BOOST_AUTO_TEST_CASE(survivors_of_an_all_reduce_end_with_the_bits_of_an_undisturbed_run) {
  const auto expected = reduce(whole, whole, whole);
  BOOST_TEST((expected.computed == std::array<int, workers>{}));
  for (const auto& each : expected.values) BOOST_TEST((each == expected.values[0]));
  for (const bool shares_memory : {true, false}) {
    BOOST_TEST((reduce(whole, whole, whole, shares_memory).values == expected.values));
    const auto one = reduce(whole, lives{{.until = 4}}, whole, shares_memory);
    BOOST_TEST((one.values[0] == expected.values[0] && one.values[2] == expected.values[0]));
    BOOST_TEST(one.computed[0] == steps - 4);
    BOOST_TEST(one.computed[2] == 0);
    BOOST_TEST(one.own[0] == steps);
    const auto chief = reduce(lives{{.until = 5}}, whole, whole, shares_memory);
    BOOST_TEST((chief.values[1] == expected.values[0] && chief.values[2] == expected.values[0]));
    BOOST_TEST(chief.computed[1] == steps - 5);
    const auto two = reduce(whole, lives{{.until = 7}}, lives{{.until = 3}}, shares_memory);
    BOOST_TEST((two.values[0] == expected.values[0]));
    BOOST_TEST(two.computed[0] == 2 * (steps - 7));
    BOOST_TEST(two.computed[1] == 4);
    const auto both = reduce(lives{{.until = 6}}, lives{{.until = 6}}, whole, shares_memory);
    BOOST_TEST((both.values[2] == expected.values[0]));
  }
}

BOOST_AUTO_TEST_CASE(a_late_replacement_in_an_all_reduce_gets_its_part_back) {
  const auto expected = reduce(whole, whole, whole);
  const auto late = reduce(whole, lives{{.until = 3}, {.after = 6}}, whole);
  for (const auto& each : late.values) BOOST_TEST((each == expected.values[0]));
  BOOST_TEST(late.first[1] >= 6);
  BOOST_TEST(late.computed[0] >= 3);
  const auto twice =
      reduce(whole, lives{{.until = 2}, {.until = 7, .after = 4}, {.after = 9}}, lives{{.until = 5}, {.after = 6}});
  for (const auto& each : twice.values) BOOST_TEST((each == expected.values[0]));
}

BOOST_AUTO_TEST_CASE(a_step_without_the_batches_of_others_is_refused) {
  const auto said = test::run_tasks(1, 1, in_process{}, [&](server_type& here) {
    model m(here.cluster());
    replicated_session s(m.g, here, takes_over, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x));
    try {
      step(batch_of({0, 1}), 20s);
    } catch (const error& problem) {
      test::require_says_in_task(problem.what(), "write step.run([&](replica r) { return std::tuple(");
      test::require_in_task(problem.code() == error_code::failed_precondition, "the code");
      step.run([](replica r) { return batch_of(r); }, 20s);  // one feed needs no tuple
      test::require_in_task(s.next_step() == 1, "a step was made");
      s.finish(20s);
      return;
    }
    test::require_in_task(false, "it was refused");
  });
  for (const std::string& each : said) BOOST_TEST(each == "");
}

// step.run() is there for all strategies.
BOOST_AUTO_TEST_CASE(other_strategies_run_by_the_same_function) {
  const auto said = test::run_tasks(0, 2, in_process{}, [&](server_type& here) {
    model m(here.cluster());
    replicated_session s(m.g, here, collective{}, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x));
    for (int i = 0; i < 3; ++i) step.run([](replica r) { return std::tuple(batch_of(r)); }, 20s);
    s.finish(20s);
  });
  for (const std::string& each : said) BOOST_TEST(each == "");
}

BOOST_AUTO_TEST_CASE(only_synchronous_training_is_taken_over) {
  const auto refusal = [](auto strategy, int ps) {
    const auto cluster = test::local_cluster(ps, 2, in_process{});
    server_type here(cluster, "worker", 0, {}, in_process{});
    model m(cluster);
    try {
      replicated_session s(m.g, here, strategy, {.threads = 1}, 100ms);
    } catch (const error& problem) {
      return std::string(problem.what());
    }
    return std::string();
  };
  const loss_policy policy = wait_for{1s}.then(loss_action::take_over);
  BOOST_TEST(contains(refusal(parameter_server<asynchronous>{.on_loss = policy}, 1), "needs parameter_server<synch"));
  BOOST_TEST(contains(refusal(parameter_server<synchronous_with_backups<1>>{.on_loss = policy}, 1), "without backups"));
}
