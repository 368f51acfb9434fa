// SPDX-License-Identifier: BSL-1.0
// What a graph makes of gradients before its updates is made of the mean over all workers: two workers with half of a
// batch each train as one process with all of it.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/training/exchanges.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/train/accumulation.hpp>
#include <weft/train/clipping.hpp>
#include <weft/train/decay.hpp>
#include <weft/train/loss_scale.hpp>
#include <weft/train/moving_average.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

using examples = tensor<float, dims<dyn<"batch">, 6>>;
constexpr std::int64_t share = 4;
constexpr int steps = 5;

/// Worker `index`'s examples; with `workers` > 1 those of all. The first worker's are much larger, so that its gradient
/// alone is clipped otherwise than the mean.
examples data_of(int step, int index, int workers = 1) {
  examples x(shape(share * workers, 6));
  const random_stream random(5, static_cast<std::uint64_t>(step));
  for (std::int64_t i = 0; i < share * workers; ++i) {
    const auto row = static_cast<std::uint64_t>(index * share + i);
    for (std::uint64_t j = 0; j < 6; ++j)
      x(i, j) =
          static_cast<float>(random.normal(row * 8 + j)) * (row < static_cast<std::uint64_t>(share) ? 4.0f : 0.5f);
  }
  return x;
}

struct model {
  graph g;
  node<float, dims<dyn<"batch">, 6>> x;
  variable_node<float, dims<6, 3>> w;
  variable_node<float, dims<3>> b;
  variable_node<float, dims<5, 2>> table;
  variable_node<std::int64_t> count;
  std::optional<moving_averages> averages;
  std::optional<variable_node<float>> seen;  // assigned by each step
  node<float> loss, other_loss;

  template <class Place>
  explicit model(const Place& place)
      : x(placeholder<float, dims<dyn<"batch">, 6>>(g, "x")),
        w(at(place, [&] { return variable<float, dims<6, 3>>(g, "w", init::glorot_uniform{}); })),
        b(at(place, [&] { return variable<float, dims<3>>(g, "b", 0.25f); })),
        table(at(place, [&] { return variable<float, dims<5, 2>>(g, "table", 0.5f); })),
        count(global_step(g)),
        loss(let(mean(square(matmul(x, w) + b - 1.0f)))),
        other_loss(let(mean(square(matmul(x, w) * 0.5f + b)))) {}
  template <class Place, class Make>
  auto at(const Place& place, Make make) {
    const device_scope on(g, place);
    return make();
  }
  /// A loss that reads some rows of a table.
  node<float> loss_of_rows() { return let(loss + mean(square(gather(table, cast<std::int32_t>(x > 1.0f)) * 3.0f))); }
  std::vector<float> values(session& s) {
    std::vector<float> all;
    const auto add = [&](const auto& t) { all.insert(all.end(), t.begin(), t.end()); };
    add(s.eval(w));
    add(s.eval(b));
    add(s.eval(table));
    all.push_back(static_cast<float>(s.eval(count)));
    if (averages) add(s.eval(averages->average(w)));
    if (seen) all.push_back(s.eval(*seen));
    return all;
  }
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(double(a[i]) - double(b[i])) / std::max(1.0, std::abs(double(b[i]))));
  return most;
}

const momentum slow{.learning_rate = 0.05};

/// Trains what `record` makes of a model, with `spoilt` for the data of one step.
template <class Record>
std::vector<float> train_alone(const Record& record, int spoilt = -1, int workers = 2) {
  model m(cpu{0});
  const effect train = record(m);
  session s(m.g, {.threads = 1});
  auto step = s.prepare(fetch(train), feed(m.x));
  for (int i = 0; i < steps; ++i) {
    examples x = data_of(i, 0, workers);
    if (i == spoilt) x(0, 0) = std::numeric_limits<float>::infinity();
    step(x);
  }
  return m.values(s);
}

template <class Network = in_process, class Record, class Strategy = collective>
std::vector<std::vector<float>> train_together(const Record& record, int spoilt = -1, const Strategy& strategy = {},
                                               std::vector<std::string>* problems = nullptr, int ps = 0,
                                               int workers = 2) {
  std::vector<std::vector<float>> values(static_cast<std::size_t>(workers));
  const auto said = test::run_tasks(ps, workers, Network{}, [&](basic_server<Network>& here) {
    model m(cpu{0});  // parameter servers: spread by bytes over all of them
    const effect train = record(m);
    replicated_session s(m.g, here, strategy, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(train), feed(m.x));
    for (int i = 0; i < steps; ++i) {
      examples x = data_of(i, here.index());
      if (i == spoilt && here.index() == 0) x(0, 0) = std::numeric_limits<float>::infinity();
      step(x, 20s);
    }
    s.finish(20s);
    values[static_cast<std::size_t>(here.index())] = m.values(s.local());
  });
  if (problems)
    *problems = said;
  else
    for (const std::string& each : said) BOOST_TEST(each == "");
  return values;
}

template <class Record>
void check_as_one_process(const Record& record, int spoilt = -1) {
  const auto expected = train_alone(record, spoilt);
  for (const collective& how : {collective{}, collective{.bucket_bytes = 16}, collective{.on_loss = wait_for{5s}}})
    for (const auto& of : train_together(record, spoilt, how)) BOOST_TEST(distance(of, expected) < 3e-6);
}

}  // namespace

namespace {

constexpr int replicas = 3;

/// Three workers with 1, 2 and 3 parameter servers train as one process does on all examples, and the number of servers
/// changes no bit.
template <class Record>
void check_servers_as_one_process(const Record& record, int spoilt = -1) {
  const auto expected = train_alone(record, spoilt, replicas);
  for (const loss_policy& on_loss : {loss_policy{}, loss_policy(wait_for{5s})}) {
    std::vector<float> by_one;
    for (const int ps : {1, 2, 3}) {
      const parameter_server<synchronous> how{.on_loss = on_loss};
      for (const auto& of : train_together(record, spoilt, how, nullptr, ps, replicas)) {
        BOOST_TEST(distance(of, expected) < 3e-6);
        if (by_one.empty()) by_one = of;
        BOOST_TEST((of == by_one));
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_mean_is_clipped) {
  check_as_one_process([](model& m) {
    return apply_gradients(slow, clip_by_global_norm(compute_gradients(m.loss, m.w, m.b), 0.5), m.count);
  });
  check_as_one_process(
      [](model& m) { return apply_gradients(slow, clip_by_norm(compute_gradients(m.loss, m.w, m.b), 0.25), m.count); });
  check_as_one_process([](model& m) {
    return apply_gradients(adam{}, clip_by_value(compute_gradients(m.loss, m.w, m.b), -0.1, 0.2), m.count);
  });
  // By hand, and decay behind the clipping.
  check_as_one_process([](model& m) {
    auto [of_w, of_b] = compute_gradients(m.loss, m.w, m.b);
    of_w.gradient = let(min(max(of_w.gradient, -0.1f), 0.1f));
    return apply_gradients(slow, add_l2(std::tuple{of_w, of_b}, 0.1), m.count);
  });
}

// Both have their own norm; each has its own gradients of `w` and `b`.
BOOST_AUTO_TEST_CASE(gradients_of_several_losses_are_processed) {
  check_as_one_process([](model& m) {
    auto [of_w, of_b] = clip_by_global_norm(compute_gradients(m.loss, m.w, m.b), 0.5);
    const auto [also_w, also_b] = clip_by_global_norm(compute_gradients(m.other_loss, m.w, m.b), 0.25);
    of_w.gradient = let(of_w.gradient * 0.5f + also_w.gradient * 0.25f);
    of_b.gradient = let(of_b.gradient + also_b.gradient);
    return apply_gradients(slow, of_w, of_b, m.count);
  });
  // The norm counts a variable that is not trained.
  check_as_one_process([](model& m) {
    const auto [of_w, of_b] = clip_by_global_norm(compute_gradients(m.loss, m.w, m.b), 0.5);
    return apply_gradients(slow, of_w, m.count);
  });
}

BOOST_AUTO_TEST_CASE(rows_are_clipped_by_their_mean) {
  for (const double norm : {0.5, 0.05})
    check_as_one_process([&](model& m) {
      return apply_gradients(slow, clip_by_global_norm(compute_gradients(m.loss_of_rows()), norm), m.count);
    });
  check_as_one_process([](model& m) {
    const auto gradients = clip_by_value(compute_gradients(m.loss_of_rows()), -0.2, 0.2);
    return apply_gradients(gradient_descent{.learning_rate = 0.1}, clip_by_norm(gradients, 0.3), m.count);
  });
  // The norm is an expression of the program's own.
  check_as_one_process([](model& m) {
    const auto gradients = compute_gradients(m.loss_of_rows(), m.w, m.table);
    return apply_gradients(slow, clip_by_global_norm(gradients, 0.5, let(global_norm(gradients) + 1e-6f)), m.count);
  });
}

// A step whose gradients are not finite changes nothing, is not counted, and reduces the scale, for all.
BOOST_AUTO_TEST_CASE(a_loss_scale_judges_the_mean) {
  for (const int spoilt : {-1, 2})
    for (const bool clips : {false, true})
      check_as_one_process(
          [&](model& m) {
            loss_scale scale(m.g, dynamic_loss_scale{.initial_scale = 1024, .growth_interval = 2});
            if (!clips) return scale.minimize(adam{}, m.loss, m.w, m.b, m.count);
            return scale.apply_gradients(slow, clip_by_global_norm(scale.compute_gradients(m.loss, m.w, m.b), 0.5),
                                         m.count);
          },
          spoilt);
  check_as_one_process(
      [&](model& m) {
        loss_scale scale(m.g, dynamic_loss_scale{.initial_scale = 1024, .growth_interval = 2});
        return scale.minimize(adam{}, m.loss_of_rows(), m.count);
      },
      2);
  // All workers have the scale of one process.
  std::vector<float> scales(2);
  const auto said = test::run_tasks(0, 2, in_process{}, [&](basic_server<in_process>& here) {
    model m(replica_device_setter(here.cluster()));
    loss_scale scale(m.g, dynamic_loss_scale{.initial_scale = 1024, .growth_interval = 100});
    const effect train = scale.minimize(slow, m.loss, m.w, m.b, m.count);
    replicated_session s(m.g, here, collective{}, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(train), feed(m.x));
    for (int i = 0; i < 3; ++i) {
      examples x = data_of(i, here.index());
      if (i == 1 && here.index() == 1) x(0, 0) = std::numeric_limits<float>::quiet_NaN();
      step(x, 20s);
    }
    test::require_in_task(s.global_step() == 2, "the step without finite gradients does not count");
    s.finish(20s);
    scales[static_cast<std::size_t>(here.index())] = s.local().eval(scale.value());
  });
  for (const std::string& each : said) BOOST_TEST(each == "");
  BOOST_TEST((scales == std::vector<float>{512, 512}));
}

// They average what the mean makes of variables.
BOOST_AUTO_TEST_CASE(moving_averages_follow_updates) {
  for (const bool counts : {false, true})
    check_as_one_process([&](model& m) -> effect {
      const effect train =
          apply_gradients(slow, clip_by_global_norm(compute_gradients(m.loss_of_rows()), 0.5), m.count);
      exponential_moving_average how{.decay = 0.6};
      if (counts) how.num_updates = m.count;
      m.averages = how.apply(train);
      return *m.averages;
    });
}

namespace {

/// A model whose averages of all trained variables the training step moves.
effect record_averages(model& m, bool counts, bool zero_debias) {
  const effect train = apply_gradients(slow, clip_by_global_norm(compute_gradients(m.loss_of_rows()), 0.5), m.count);
  exponential_moving_average how{.decay = 0.6, .zero_debias = zero_debias};
  if (counts) how.num_updates = m.count;
  m.averages = how.apply(train);
  return *m.averages;
}

}  // namespace

// They follow the mean of the workers' gradients, as in one process.
BOOST_AUTO_TEST_CASE(parameter_servers_keep_moving_averages) {
  for (const bool counts : {false, true})
    for (const bool zero_debias : {false, true})
      check_servers_as_one_process([=](model& m) { return record_averages(m, counts, zero_debias); });
}

// A worker evaluates with the averages between two steps.
BOOST_AUTO_TEST_CASE(averages_of_parameter_servers_are_swapped_in) {
  const auto record = [](model& m) { return record_averages(m, false, false); };
  const auto expected = train_alone(record);
  std::vector<std::vector<float>> values(2);
  const auto said = test::run_tasks(2, 2, tcp{}, [&](basic_server<tcp>& here) {
    model m(cpu{0});
    const effect train = record(m);
    replicated_session s(m.g, here, parameter_server<synchronous>{}, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(train), feed(m.x));
    for (int i = 0; i < steps; ++i) {
      step(data_of(i, here.index()), 20s);
      s.refresh(20s);
      const auto average = s.local().eval(m.averages->average(m.w)), trained = s.local().eval(m.w);
      const auto evaluated = m.averages->evaluate(s.local(), [&] { return s.local().eval(m.w); });
      test::require_in_task(std::equal(average.begin(), average.end(), evaluated.begin()), "the average is in place");
      test::require_in_task(!std::equal(average.begin(), average.end(), trained.begin()), "it is another value");
    }
    s.finish(20s);
    values[static_cast<std::size_t>(here.index())] = m.values(s.local());
  });
  for (const std::string& each : said) BOOST_TEST(each == "");
  for (const auto& of : values) BOOST_TEST(distance(of, expected) < 3e-6);
}

// The averages of asynchronous training follow each update, whichever worker it is of. One worker's are those of one
// process.
BOOST_AUTO_TEST_CASE(asynchronous_parameter_servers_keep_moving_averages) {
  const auto record = [](model& m) { return record_averages(m, true, true); };
  const auto expected = train_alone(record, -1, 1);
  for (const int ps : {1, 3})
    for (const auto& of : train_together(record, -1, parameter_server<asynchronous>{}, nullptr, ps, 1))
      BOOST_TEST(distance(of, expected) < 3e-6);
  // A decay of 0 makes the average the variable.
  const auto follows = [](model& m) -> effect {
    m.averages = exponential_moving_average{.decay = 0}.apply(slow.minimize(m.loss, m.w, m.b));
    return *m.averages;
  };
  for (const auto& of : train_together(follows, -1, parameter_server<asynchronous>{}, nullptr, 2, replicas))
    BOOST_TEST((std::vector<float>(of.end() - 18, of.end()) == std::vector<float>(of.begin(), of.begin() + 18)));
}

// A checkpoint has them under the names of one process, and training goes on with them.
BOOST_AUTO_TEST_CASE(checkpoints_have_the_moving_averages_of_parameter_servers) {
  const auto record = [](model& m) { return record_averages(m, true, true); };
  const auto expected = train_alone(record);
  constexpr int first_steps = 2;
  std::map<std::string, std::vector<std::byte>> saved;
  cluster_state at;
  const auto train = [&](int from, int to, std::vector<std::vector<float>>* values) {
    const auto said = test::run_tasks(2, 2, in_process{}, [&](basic_server<in_process>& here) {
      model m(cpu{0});
      const effect train = record(m);
      replicated_session s(m.g, here, parameter_server<synchronous>{}, {.threads = 1}, 20s);
      const auto for_each = [&](const auto& use) {
        for (std::uint32_t n = 0; n < m.g.size(); ++n)
          if (is_operation<variable_op>(m.g[n].def.op)) use(n, m.g[n].name);
      };
      s.restore(
          [&]() -> std::optional<cluster_state> {
            if (from == 0) return {};
            for_each(
                [&](std::uint32_t n, const std::string& name) { s.local().write_variable(n, saved.at(name).data()); });
            return at;
          },
          20s);
      auto step = s.prepare(fetch(train), feed(m.x));
      for (int i = from; i < to; ++i) step(data_of(i, here.index()), 20s);
      if (s.is_chief() && to < steps) {
        at = s.collect(20s);
        for_each([&](std::uint32_t n, const std::string& name) {
          saved[name].resize(s.local().variable_info(n).bytes());
          s.local().read_variable(n, saved[name].data());
        });
      }
      s.finish(20s);
      if (values) (*values)[static_cast<std::size_t>(here.index())] = m.values(s.local());
    });
    for (const std::string& each : said) BOOST_TEST(each == "");
  };
  train(0, first_steps, nullptr);
  BOOST_TEST(saved.count("w/ExponentialMovingAverage") == 1u);
  std::vector<std::vector<float>> values(2);
  train(first_steps, steps, &values);
  for (const auto& of : values) BOOST_TEST(distance(of, expected) < 3e-6);
}

// The sums of micro-batches are each worker's own; what is made of their mean is not.
BOOST_AUTO_TEST_CASE(accumulated_gradients_are_clipped_by_their_mean) {
  const auto record = [](model& m) {
    return apply_gradients(slow, clip_by_global_norm(compute_gradients(m.loss_of_rows()), 0.5), m.count);
  };
  const auto expected = train_alone(record);
  std::vector<std::vector<float>> values(2);
  const auto said = test::run_tasks(0, 2, in_process{}, [&](basic_server<in_process>& here) {
    model m(replica_device_setter(here.cluster()));
    const auto sums = accumulate_gradients(compute_gradients(m.loss_of_rows()));
    const effect train = apply_gradients(slow, clip_by_global_norm(sums.mean, 0.5), m.count);
    replicated_session s(m.g, here, collective{}, {.threads = 1}, 20s);
    auto add = s.prepare(fetch(sums.add), feed(m.x));
    auto update = s.prepare(fetch(train), feed());
    for (int i = 0; i < steps; ++i) {
      const examples x = data_of(i, here.index());
      for (std::int64_t half = 0; half < 2; ++half) {
        examples part(shape(share / 2, 6));
        std::copy_n(x.begin() + half * share * 3, share * 3, part.data());
        add(part, 20s);
      }
      update(20s);
    }
    s.finish(20s);
    values[static_cast<std::size_t>(here.index())] = m.values(s.local());
  });
  for (const std::string& each : said) BOOST_TEST(each == "");
  for (const auto& of : values) BOOST_TEST(distance(of, expected) < 3e-6);
}

// The servers clip the mean, as workers do with an all-reduce.
BOOST_AUTO_TEST_CASE(parameter_servers_clip_the_mean) {
  for (const double norm : {0.5, 50.0})  // below and above the norm of the gradients
    check_servers_as_one_process([&](model& m) {
      return apply_gradients(slow, clip_by_global_norm(compute_gradients(m.loss, m.w, m.b), norm), m.count);
    });
  check_servers_as_one_process(
      [](model& m) { return apply_gradients(slow, clip_by_norm(compute_gradients(m.loss, m.w, m.b), 0.25), m.count); });
  check_servers_as_one_process([](model& m) {
    return apply_gradients(adam{}, clip_by_value(compute_gradients(m.loss, m.w, m.b), -0.1, 0.2), m.count);
  });
  // Two norms, and decay before the clipping.
  check_servers_as_one_process([](model& m) {
    const auto [of_w, of_table] = compute_gradients(m.loss_of_rows(), m.w, m.table);
    return apply_gradients(slow, clip_by_global_norm(add_l2(std::tuple{of_w, of_table}, 0.1), 0.5),
                           clip_by_global_norm(compute_gradients(m.loss, m.b), 0.25), m.count);
  });
}

BOOST_AUTO_TEST_CASE(parameter_servers_clip_the_mean_of_rows) {
  for (const double norm : {0.5, 0.05})
    check_servers_as_one_process([&](model& m) {
      return apply_gradients(slow, clip_by_global_norm(compute_gradients(m.loss_of_rows()), norm), m.count);
    });
  check_servers_as_one_process(
      [](model& m) { return apply_gradients(slow, clip_by_norm(compute_gradients(m.loss_of_rows()), 0.3), m.count); });
  check_servers_as_one_process([](model& m) {
    return apply_gradients(adam{}, clip_by_global_norm(compute_gradients(m.loss_of_rows()), 0.5), m.count);
  });
}

// The others go on without a worker that is lost between two steps, and clip their mean.
BOOST_AUTO_TEST_CASE(parameter_servers_clip_the_mean_without_a_lost_worker) {
  constexpr int last = 2;  // the step after which the third worker is lost
  const auto record = [](model& m) {
    return apply_gradients(slow, clip_by_global_norm(compute_gradients(m.loss, m.w, m.b), 0.5), m.count);
  };
  model alone(cpu{0});
  const effect train_alone = record(alone);
  session one(alone.g, {.threads = 1});
  auto step_alone = one.prepare(fetch(train_alone), feed(alone.x));
  for (int i = 0; i < steps; ++i) step_alone(data_of(i, 0, i <= last ? 3 : 2));
  const auto expected = alone.values(one);

  std::vector<std::vector<float>> values(2);
  const auto said = test::run_tasks(2, replicas, in_process{}, [&](basic_server<in_process>& here) {
    model m(cpu{0});
    const effect train = record(m);
    replicated_session s(m.g, here, parameter_server<synchronous>{.on_loss = wait_for{50ms}.then(loss_action::shrink)},
                         {.threads = 1}, 20s);
    auto step = s.prepare(fetch(train), feed(m.x));
    for (int i = 0; i < steps; ++i) {
      if (i > last && here.index() == 2) throw error(error_code::cancelled, "test", "is lost");
      step(data_of(i, here.index()), 20s);
    }
    s.finish(20s);
    values[static_cast<std::size_t>(here.index())] = m.values(s.local());
  });
  BOOST_TEST(said[0] == "");
  BOOST_TEST(said[1] == "");
  BOOST_TEST(contains(said[2], "is lost"));
  for (const auto& of : values) BOOST_TEST(distance(of, expected) < 3e-6);
}

// The mean of finite gradients is not finite: all servers refuse the step, and the workers make it with other
// gradients.
BOOST_AUTO_TEST_CASE(parameter_servers_refuse_a_clipped_mean_that_is_not_finite) {
  const auto record = [](model& m) {
    const auto loss = let(sum(matmul(m.x, m.w) + m.b));  // the gradient of w has the sums of x
    return apply_gradients(slow, clip_by_global_norm(compute_gradients(loss, m.w, m.b), 0.5), m.count);
  };
  const auto expected = train_alone(record);
  for (const loss_policy& on_loss : {loss_policy{}, loss_policy(wait_for{5s})}) {
    std::vector<std::vector<float>> values(2);
    const auto said = test::run_tasks(2, 2, in_process{}, [&](basic_server<in_process>& here) {
      model m(cpu{0});
      const effect train = record(m);
      replicated_session s(m.g, here, parameter_server<synchronous>{.on_loss = on_loss}, {.threads = 1}, 20s);
      auto step = s.prepare(fetch(train), feed(m.x));
      for (int i = 0; i < steps; ++i) {
        if (i == 2) {
          examples x(shape(share, 6));
          std::fill(x.begin(), x.end(), 0.0f);
          x(0, 0) = 3e38f;
          try {
            step(x, 20s);
            test::require_in_task(false, "the step is refused");
          } catch (const error& problem) {
            test::require_says_in_task(problem.what(), "the mean of the workers' gradients is not finite in step 2");
          }
        }
        step(data_of(i, here.index()), 20s);
      }
      s.finish(20s);
      values[static_cast<std::size_t>(here.index())] = m.values(s.local());
    });
    for (const std::string& each : said) BOOST_TEST(each == "");
    for (const auto& of : values) BOOST_TEST(distance(of, expected) < 3e-6);
  }
}

// A mean that is not finite on one server changes nothing on any, and reduces the scale of all workers.
BOOST_AUTO_TEST_CASE(parameter_servers_scale_losses) {
  const dynamic_loss_scale how{.initial_scale = 1024, .growth_interval = 2};
  for (const int spoilt : {-1, 2}) {
    check_servers_as_one_process(
        [&](model& m) {
          loss_scale scale(m.g, how);
          return scale.minimize(adam{}, m.loss, m.w, m.b, m.count);
        },
        spoilt);
    check_servers_as_one_process(
        [&](model& m) {
          loss_scale scale(m.g, how);
          return scale.apply_gradients(slow, clip_by_global_norm(scale.compute_gradients(m.loss, m.w, m.b), 0.5),
                                       m.count);
        },
        spoilt);
  }
  check_servers_as_one_process(
      [&](model& m) {
        loss_scale scale(m.g, how);
        const effect train = scale.minimize(slow, m.loss_of_rows(), m.count);
        m.averages = exponential_moving_average{.decay = 0.6}.apply(train);
        return effect(*m.averages);
      },
      2);
  check_servers_as_one_process(
      [&](model& m) { return loss_scale(m.g, fixed_loss_scale{512}).minimize(adam{}, m.loss, m.w, m.b, m.count); }, 2);
}

namespace {

/// Servers train as an all-reduce does.
template <class Record>
void check_servers_as_all_reduce(const Record& record, int spoilt = -1) {
  const auto expected = train_together(record, spoilt, collective{}, nullptr, 0, replicas).front();
  for (const int ps : {1, 2, 3})
    for (const auto& of : train_together(record, spoilt, parameter_server<synchronous>{}, nullptr, ps, replicas))
      BOOST_TEST(distance(of, expected) < 3e-6);
}

}  // namespace

// What a step assigns is no gradient: it does not decide whether the step is skipped, and is kept if it is.
BOOST_AUTO_TEST_CASE(parameter_servers_average_assigned_variables_in_skipped_steps) {
  for (const bool overflows : {false, true}) {
    const auto record = [&](model& m) {
      m.seen = variable<float>(m.g, "seen", 0.0f, variable_kind::averaged);
      add_update(assign_add(*m.seen, overflows ? m.loss : let(min(m.loss, 1.0f))));
      loss_scale scale(m.g, dynamic_loss_scale{.initial_scale = 1024, .growth_interval = 2});
      return scale.minimize(slow, m.loss, m.w, m.b, m.count);
    };
    check_servers_as_all_reduce(record, 2);
  }
}

// Averages follow the update, so they count it also if the training step itself does not.
BOOST_AUTO_TEST_CASE(moving_averages_of_parameter_servers_count_updates) {
  check_servers_as_all_reduce([](model& m) -> effect {
    const effect train = slow.minimize(m.loss, m.w, m.b);
    m.averages = exponential_moving_average{.decay = 0.6, .num_updates = m.count}.apply(train);
    return *m.averages;
  });
}

// The same in memory that servers and workers share.
BOOST_AUTO_TEST_CASE(parameter_servers_process_gradients_in_shared_memory) {
  const auto record = [](model& m) -> effect {
    loss_scale scale(m.g, dynamic_loss_scale{.initial_scale = 1024, .growth_interval = 2});
    const auto gradients = scale.compute_gradients(m.loss, m.w, m.b);
    m.averages = exponential_moving_average{.decay = 0.6, .num_updates = m.count}.apply(
        scale.apply_gradients(slow, clip_by_global_norm(gradients, 0.5), m.count));
    return *m.averages;
  };
  const auto expected = train_alone(record, 2);
  for (const auto& of : train_together<tcp>(record, 2, parameter_server<synchronous>{}, nullptr, 2))
    BOOST_TEST(distance(of, expected) < 3e-6);
}

// All workers have one scale, also one that comes late, and a checkpoint has the good steps.
BOOST_AUTO_TEST_CASE(parameter_servers_keep_the_loss_scale) {
  std::vector<float> scales(replicas);
  std::int64_t good_steps = 0;
  const auto said = test::run_tasks(2, replicas, in_process{}, [&](basic_server<in_process>& here) {
    model m(cpu{0});
    loss_scale scale(m.g, dynamic_loss_scale{.initial_scale = 1024, .growth_interval = 100});
    const effect train = scale.minimize(slow, m.loss, m.w, m.b, m.count);
    replicated_session s(m.g, here, parameter_server<synchronous>{}, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(train), feed(m.x));
    for (int i = 0; i < 4; ++i) {
      examples x = data_of(i, here.index());
      if (i == 1 && here.index() == 1) x(0, 0) = std::numeric_limits<float>::quiet_NaN();
      step(x, 20s);
    }
    test::require_in_task(s.global_step() == 3, "the step without finite gradients does not count");
    test::require_in_task(s.next_step() == 4, "the step is made");
    if (s.is_chief()) {
      s.collect(20s);
      good_steps = s.local().eval(scale.good_steps());
    }
    s.finish(20s);
    scales[static_cast<std::size_t>(here.index())] = s.local().eval(scale.value());
  });
  for (const std::string& each : said) BOOST_TEST(each == "");
  BOOST_TEST((scales == std::vector<float>{512, 512, 512}));
  BOOST_TEST(good_steps == 2);
}

// Each worker has its own scale, and sends nothing in a step without finite gradients.
BOOST_AUTO_TEST_CASE(asynchronous_workers_scale_their_losses) {
  const auto record = [](model& m) {
    loss_scale scale(m.g, dynamic_loss_scale{.initial_scale = 1024, .growth_interval = 2});
    return scale.minimize(adam{}, m.loss_of_rows(), m.count);
  };
  const auto expected = train_alone(record, 2, 1);
  for (const auto& of : train_together(record, 2, parameter_server<asynchronous>{}, nullptr, 2, 1))
    BOOST_TEST(distance(of, expected) < 3e-6);
  std::vector<float> scales(replicas);
  const auto said = test::run_tasks(2, replicas, in_process{}, [&](basic_server<in_process>& here) {
    model m(cpu{0});
    loss_scale scale(m.g, dynamic_loss_scale{.initial_scale = 1024, .growth_interval = 100});
    const effect train =
        scale.apply_gradients(slow, clip_by_global_norm(scale.compute_gradients(m.loss, m.w, m.b), 0.5), m.count);
    replicated_session s(m.g, here, parameter_server<asynchronous>{}, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(train), feed(m.x));
    for (int i = 0; i < 3; ++i) {
      examples x = data_of(i, here.index());
      if (i == 1 && here.index() == 1) x(0, 0) = std::numeric_limits<float>::infinity();
      step(x, 20s);
    }
    s.finish(20s);
    test::require_in_task(here.index() != 0 || s.global_step() >= 3, "the others' updates are made");
    scales[static_cast<std::size_t>(here.index())] = s.local().eval(scale.value());
  });
  for (const std::string& each : said) BOOST_TEST(each == "");
  BOOST_TEST((scales == std::vector<float>{1024, 512, 1024}));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_made_of_the_mean_is_refused) {
  const auto refusal = [](const auto& record, auto strategy, int ps, int workers = 2) {
    const auto cluster = test::local_cluster(ps, workers, in_process{});
    basic_server<in_process> here(cluster, "worker", 0, {}, in_process{});
    model m{replica_device_setter(cluster)};
    [[maybe_unused]] const effect train = record(m);
    try {
      replicated_session s(m.g, here, strategy, {.threads = 1}, 100ms);
    } catch (const error& problem) {
      return std::string(problem.what());
    }
    return std::string();
  };
  const auto clipped = [](model& m) {
    return apply_gradients(slow, clip_by_global_norm(compute_gradients(m.loss, m.w, m.b), 0.5), m.count);
  };
  BOOST_TEST(!contains(refusal(clipped, parameter_server<synchronous>{}, 1), "gradient"));
  const auto decayed = [](model& m) {
    return apply_gradients(slow, add_l2(clip_by_global_norm(compute_gradients(m.loss, m.w, m.b), 0.5), 0.1), m.count);
  };
  BOOST_TEST(contains(refusal(decayed, parameter_server<synchronous>{}, 1),
                      "w: parameter servers cannot apply the change of its gradient to the mean"));
  BOOST_TEST(contains(refusal(decayed, parameter_server<synchronous>{}, 1), "use collective"));
  const auto by_other_norm = [](model& m) {
    const auto gradients = compute_gradients(m.loss, m.w, m.b);
    return apply_gradients(slow, clip_by_global_norm(gradients, 0.5, let(global_norm(gradients) * 2.0f)), m.count);
  };
  BOOST_TEST(contains(refusal(by_other_norm, parameter_server<synchronous>{}, 1),
                      "w: parameter servers cannot apply the change of its gradient"));
  const auto counts_another = [](model& m) {
    const auto [of_w, of_b] = clip_by_global_norm(compute_gradients(m.loss, m.w, m.b), 0.5);
    return apply_gradients(slow, of_w, m.count);
  };
  BOOST_TEST(contains(refusal(counts_another, parameter_server<synchronous>{}, 1),
                      "w: the global norm that clips its gradient includes the gradient of another variable"));
  // An asynchronous update has one worker's gradient, and so has that of a single worker.
  BOOST_TEST(!contains(refusal(clipped, parameter_server<asynchronous>{}, 1), "clipped"));
  BOOST_TEST(!contains(refusal(clipped, parameter_server<synchronous>{}, 1, 1), "clipped"));
  const auto by_the_loss = [](model& m) {
    auto [of_w, of_b] = compute_gradients(m.loss, m.w, m.b);
    of_w.gradient = let(of_w.gradient * m.loss);
    return apply_gradients(slow, of_w, of_b, m.count);
  };
  BOOST_TEST(contains(refusal(by_the_loss, collective{}, 0), "w: the change of its gradient depends on x"));
}

// Sums and products with variables and constants commute with the mean.
BOOST_AUTO_TEST_CASE(parameter_servers_take_decay_in_gradients) {
  const auto record = [](model& m) {
    return apply_gradients(slow, add_l1(add_l2(compute_gradients(m.loss, m.w, m.b), 0.1), 0.01), m.count);
  };
  const auto expected = train_alone(record);
  for (const auto& of : train_together(record, -1, parameter_server<synchronous>{}, nullptr, 2))
    BOOST_TEST(distance(of, expected) < 3e-6);
}
