// SPDX-License-Identifier: BSL-1.0
// The checkpoints of a cluster: a run that is cut and goes on, with other servers, has the bits of one that nobody
// disturbed; what is damaged, or dies, is said, and leaves the checkpoint before it; servers follow schedules.
#include <signal.h>
#include <stdlib.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <weft/checkpoint/weights.hpp>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>
#include <weft/distributed/training/exchanges.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/train/saved_run.hpp>

#include "local_cluster.hpp"
#include "spanned_model.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

struct folder {
  std::string path = (std::filesystem::temp_directory_path() / "weft_cluster_XXXXXX").string();
  folder() { BOOST_REQUIRE(::mkdtemp(path.data())); }
  ~folder() { std::filesystem::remove_all(path); }
};

using rows = dims<dyn<"batch">, 6>;
using numbers = dims<dyn<"batch">>;

/// Dropout, rows of a table, a variable that is averaged and a counter: all that a checkpoint must have.
struct model {
  graph g{5};
  node<float, rows> x = placeholder<float, rows>(g, "x");
  node<std::int64_t, numbers> words = placeholder<std::int64_t, numbers>(g, "words");
  variable_node<float, dims<6, 5>> w = variable<float, dims<6, 5>>(g, "w", init::normal{.stddev = 0.3f});
  variable_node<float, dims<5>> b = variable<float, dims<5>>(g, "b", init::zeros{});
  variable_node<float, dims<9, 5>> table = variable<float, dims<9, 5>>(g, "table", init::normal{.stddev = 0.3f});
  variable_node<float> average = variable<float>(g, "average", 0.5f, variable_kind::averaged);
  node<float> loss = let(mean(square(dropout(tanh(matmul(x, w) + b), 0.25f) - gather<0>(table, words))));
  node<float> note = assign(average, average * 0.75f + loss * 0.25f);
  effect train;

  template <class Make>
  explicit model(const Make& make) : train(make(loss, global_step(g))) {}
};

const auto by_momentum = [](const auto& loss, const auto& step) {
  return momentum{.learning_rate = piecewise_constant(step, {4, 11}, {0.3, 0.2, 0.1}), .momentum = 0.9}.minimize(loss,
                                                                                                                 step);
};
const auto by_adam = [](const auto& loss, const auto& step) {
  return adam{.learning_rate = linear_warmup(exponential_decay(0.05, step, 10, 0.5), 5)}.minimize(loss, step);
};

/// Worker `index`'s examples of a step, `count` of them.
std::pair<tensor<float, rows>, tensor<std::int64_t, numbers>> data_of(std::int64_t step, int index,
                                                                      std::int64_t count = 4) {
  tensor<float, rows> x(shape(count, 6));
  tensor<std::int64_t, numbers> words(shape{count});
  const random_stream random(17, static_cast<std::uint64_t>(step * 2 + index));
  const auto n = static_cast<std::uint64_t>(count);
  for (std::uint64_t i = 0; i < n * 6; ++i) x.data()[i] = static_cast<float>(random.normal(i));
  for (std::uint64_t i = 0; i < n; ++i) words.data()[i] = static_cast<std::int64_t>(random.uniform(100 + i) * 9);
  return {x, words};
}

constexpr std::int64_t last_step = 20;

/// A cluster that goes on from the folder's checkpoint to its end, or to a step at which all of its tasks vanish;
/// what went wrong with each worker.
template <class Strategy, class Make>
std::vector<std::string> live(const std::string& path, Strategy strategy, const Make& make, int ps, int workers,
                              std::int64_t cut = last_step) {
  return test::run_tasks(ps, workers, in_process{}, [&](basic_server<in_process>& here) {
    model m(make);
    replicated_session s(m.g, here, strategy, {.threads = 1}, 20s);
    std::int64_t position = 0;
    saver keeper({.max_to_keep = 0, .timeout = 20s});
    keeper.add("position", position);
    supervised_session run(s, {.checkpoints = saved_in(path, keeper, s), .save = {.steps = 3}, .handle_signals = false},
                           {stop_at_step(last_step)});
    if (here.index() > 0) position = run.global_step();
    auto step = run.prepare(fetch(m.loss, m.train, m.note), feed(m.x, m.words));
    while (!run.should_stop()) {
      test::require_in_task(position == run.global_step(), "the position is that of the step");
      if (run.global_step() == cut) return;
      // The first batch of a run is what counts 1, also when another one begins a life.
      const std::int64_t count = workers > 1 ? 4 + position % 4 + here.index() : 4;
      const auto [x, words] = data_of(position++, here.index(), count);
      step(x, words);
    }
    run.close(20s);
  });
}

/// The variables of the latest checkpoint, slots among them: their names, kinds and bytes.
std::vector<std::string> content(const std::string& path) {
  const checkpoint_reader last(latest_checkpoint(path).value());
  BOOST_TEST(last.step() == last_step);
  std::vector<std::string> all;
  for (const checkpoint_reader::record& r : last.variables()) {
    std::string bytes(r.entry->bytes, '\0');
    last.read(r, bytes.data());
    all.push_back(r.entry->name + " " + r.kind + " " + bytes);
  }
  BOOST_TEST(all.size() >= 8u);
  return all;
}

/// In a task: the error that `f` throws.
template <class F>
void require_says(error_code code, F f, const std::string& words) {
  std::string said;
  test::require_in_task(test::code_of(f, &said) == code && test::contains(said, words), said.c_str());
}

void all_well(const std::vector<std::string>& problems) {
  for (const std::string& each : problems) BOOST_TEST(each == "");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_is_cut_again_and_again_has_the_bits_of_an_undisturbed_one) {
  std::mt19937 random(3);
  const auto compare = [&](const auto& make) {
    const folder straight;
    all_well(live(straight.path, parameter_server<synchronous>{}, make, 2, 2));
    const std::vector<std::string> expected = content(straight.path);
    for (int with = 0; with < 3; ++with) {  // parameter servers, all-reduce, and each in turn
      const folder disturbed;
      std::int64_t cut = 0;
      for (int lives = 0; cut < last_step; ++lives) {
        cut += 1 + static_cast<std::int64_t>(random() % 9);
        const std::int64_t to = std::min(cut, last_step);
        if (with == 1 || (with == 2 && lives % 2 == 1))
          all_well(live(disturbed.path, collective{}, make, 0, 2, to == last_step ? -1 : to));
        else
          all_well(
              live(disturbed.path, parameter_server<synchronous>{}, make, 1 + lives % 3, 2, to == last_step ? -1 : to));
      }
      BOOST_TEST((content(disturbed.path) == expected));
    }
  };
  compare(by_momentum);
  compare(by_adam);
}

namespace {

/// One process, which goes on from the folder's checkpoint until `until`.
template <class Make>
void live_alone(const std::string& path, const Make& make, std::int64_t until) {
  model m(make);
  session s(m.g, {.threads = 1});
  std::int64_t position = 0;
  saver keeper({.max_to_keep = 0});
  keeper.add("position", position);
  supervised_session run(s, {.checkpoints = saved_in(path, keeper, s)}, {stop_at_step(until)});
  auto step = run.prepare(fetch(m.loss, m.train, m.note), feed(m.x, m.words));
  while (!run.should_stop()) {
    const auto [x, words] = data_of(position++, 0);
    step(x, words);
  }
  run.close(20s);
}

std::vector<std::string> without(const std::string& name, std::vector<std::string> all) {
  std::erase_if(all, [&](const std::string& each) { return each.rfind(name + " ", 0) == 0; });
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_worker_with_scheduled_rates_has_the_bits_of_one_process_and_either_goes_on_from_the_other) {
  const auto compare = [](const auto& make) {
    const folder alone, served, reduced, mixed;
    live_alone(alone.path, make, last_step);
    all_well(live(served.path, parameter_server<synchronous>{}, make, 2, 1));
    all_well(live(reduced.path, collective{}, make, 0, 1));
    live_alone(mixed.path, make, 4);
    all_well(live(mixed.path, parameter_server<synchronous>{}, make, 3, 1, 8));
    live_alone(mixed.path, make, 13);
    all_well(live(mixed.path, parameter_server<asynchronous>{}, make, 1, 1, 17));
    live_alone(mixed.path, make, last_step);
    // The value that a worker has added to an average is not what it has become.
    const std::vector<std::string> expected = without("average", content(alone.path));
    BOOST_TEST((without("average", content(served.path)) == expected));
    BOOST_TEST((without("average", content(reduced.path)) == expected));
    BOOST_TEST((without("average", content(mixed.path)) == expected));
  };
  compare(by_momentum);
  compare(by_adam);
}

BOOST_AUTO_TEST_CASE(a_hyperparameter_that_is_no_schedule_does_not_travel) {
  const in_process network;
  basic_server<in_process> here(test::local_cluster(1, 1, network), "worker", 0, {}, network);
  const auto refuse = [&](const auto& make) {
    const model m(make);
    BOOST_CHECK_EXCEPTION(replicated_session(m.g, here, parameter_server<synchronous>{}), error,
                          test::says(error_code::unimplemented, "a schedule of global_step(g)"));
  };
  refuse([](const auto& loss, const auto& step) {
    return adam{.learning_rate = exponential_decay(0.05, step, 10, 0.5) * 2.0}.minimize(loss);
  });
  refuse([](const auto& loss, const auto& step) {
    return adam{.learning_rate = exponential_decay(0.05, step + 1, 10, 0.5)}.minimize(loss);
  });
}

namespace {

/// Each update takes 1 from each of its elements: their values tell how many there have been.
struct counted {
  graph g{2};
  variable_node<float, dims<64>> first = variable<float, dims<64>>(g, "first", init::zeros{});
  variable_node<float, dims<32>> second = variable<float, dims<32>>(g, "second", init::zeros{});
  effect train = gradient_descent{.learning_rate = 1}.minimize(sum(first) + sum(second));
};

/// The counts that the checkpoint has of the first server's variable and of the other's.
std::pair<float, float> counts_of(const std::string& path, std::int64_t& step) {
  counted m;
  session s(m.g);
  saver keeper;
  step = keeper.restore(s, latest_checkpoint(path).value()).step;
  return {-s.get(m.first)(7), -s.get(m.second)(7)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_asynchronous_run_counts_each_update_once_and_ends_with_those_of_all) {
  const folder kept;
  for (const std::int64_t until : {40, 80, 120}) {
    std::atomic<bool> chief_counts{false};  // from the steps that it begins with to when it saves
    all_well(test::run_tasks(
        2, 3, in_process{},
        [&](basic_server<in_process>& here) {
          const counted m;
          replicated_session s(m.g, here, parameter_server<asynchronous>{}, {.threads = 1}, 20s);
          saver keeper({.timeout = 20s});
          // Others go on for some steps when the chief is at its end; in the first two lives all vanish some steps
          // later.
          supervised_session run(
              s, {.checkpoints = saved_in(kept.path, keeper, s), .save = {.steps = 7}, .handle_signals = false},
              {stop_at_step(here.is_chief() && until == 120 ? until - 20 : until)});
          if (here.is_chief())
            test::require_in_task((until == 40) == (run.restored_step() < 0), "the chief knows whether it goes on");
          auto step = run.prepare(fetch(m.train));
          if (here.is_chief()) chief_counts = true;
          for (int ms = 0; !chief_counts && ms < 20'000; ++ms) std::this_thread::sleep_for(1ms);
          while (!run.should_stop()) step();
          if (until == 120) run.close(20s);
        },
        {.min_workers = 1}));
    std::int64_t step = 0;
    const auto [first, second] = counts_of(kept.path, step);
    BOOST_TEST(first == static_cast<float>(step));
    if (until == 120) {
      BOOST_TEST(step >= 120);
      // Two servers are not cut at the same update; from there on each has had all.
      BOOST_TEST(std::abs(second - first) <= 2 * 3);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_or_truncated_file_is_said_and_the_checkpoint_before_it_serves) {
  const folder straight;
  all_well(live(straight.path, parameter_server<synchronous>{}, by_momentum, 1, 2));
  const std::vector<std::string> expected = content(straight.path);
  for (const bool truncated : {false, true}) {
    const int ps = truncated ? 2 : 0;
    const folder kept;
    const auto go_on = [&](const folder& in, std::int64_t cut) {
      return ps > 0 ? live(in.path, parameter_server<synchronous>{}, by_momentum, ps, 2, cut)
                    : live(in.path, collective{}, by_momentum, ps, 2, cut);
    };
    const auto damage = [&](const std::string& checkpoint) {
      for (const auto& file : std::filesystem::directory_iterator(checkpoint)) {
        if (!test::contains(file.path(), "-of-")) continue;
        if (truncated) {
          std::filesystem::resize_file(file.path(), file.file_size() - 1);
          continue;
        }
        std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
        bytes.seekp(static_cast<std::streamoff>(file.file_size()) - 9);
        bytes.put('?');
      }
    };
    all_well(go_on(kept, 7));
    const std::string latest = latest_checkpoint(kept.path).value();
    BOOST_TEST(test::contains(latest, "-6"));
    damage(latest);
    // Where no checkpoint is whole, all tasks are told.
    const folder none;
    std::filesystem::copy(kept.path, none.path, std::filesystem::copy_options::recursive);
    damage(none.path + "/checkpoint-3");
    const std::vector<std::string> problems = go_on(none, -1);
    CHECK_SAYS(problems[0], truncated ? "its size is different, so it was truncated" : "have a wrong checksum");
    CHECK_SAYS(problems[1], "/job:worker/task:0");
    CHECK_SAYS(problems[1], truncated ? "it was truncated" : "have a wrong checksum");
    // Otherwise the cluster goes on from the one before.
    all_well(go_on(kept, -1));
    BOOST_TEST((content(kept.path) == expected));
  }
}

BOOST_AUTO_TEST_CASE(a_server_that_dies_while_it_saves_leaves_the_checkpoint_before) {
  const folder kept;
  const in_process network;
  const auto cluster = test::local_cluster(2, 1, network);
  basic_server<in_process> first(cluster, "ps", 0, {}, network), second(cluster, "ps", 1, {}, network);
  std::thread serves([&] { first.join(20s, 60s); }), dies([&] { second.join(20s, 60s); });
  std::string said;
  try {
    basic_server<in_process> here(cluster, "worker", 0, {}, network);
    const counted m;
    replicated_session s(m.g, here, parameter_server<synchronous>{}, {.threads = 1}, 20s);
    saver keeper({.timeout = 20s});
    supervised_session run(s, {.checkpoints = saved_in(kept.path, keeper, s), .save = {.steps = 2}},
                           {stop_at_step(20), call_every({.steps = 5}, [&](run_control& now, const step_report&) {
                              second.stop();
                              said = test::failure(error_code::unavailable, [&] { now.save_checkpoint(); });
                              now.request_stop("a server has died");
                            })});
    auto step = run.prepare(fetch(m.train));
    while (!run.should_stop()) step();
    here.stop();
  } catch (const error& e) {
    BOOST_ERROR(e.what());
  }
  serves.join();
  dies.join();
  CHECK_SAYS(said, "save: /job:ps/task:1 has left the cluster");
  std::int64_t step = 0;
  BOOST_TEST((counts_of(kept.path, step) == std::pair(4.0f, 4.0f)));
  BOOST_TEST(step == 4);
  BOOST_TEST(list_checkpoints(kept.path).size() == 2u);
}

namespace {

/// A task as a process that heeds signals: a worker of the counted model, which makes `steps`, or a parameter server.
/// Returns what it ends with.
template <class Strategy>
std::string live_with_signals(const cluster_spec& cluster, const std::string& job, int index, const std::string& path,
                              Strategy strategy, std::chrono::milliseconds pause, bool heeds = true,
                              std::int64_t steps = last_step, std::optional<int> min_workers = {}) {
  server here(cluster, job, index, {.min_workers = min_workers});
  if (job == "ps") {
    const join_report ended = here.join(20s, 60s);
    here.stop();
    std::string lost;
    for (const std::string& each : ended.lost) lost += "; " + each;
    return "signal " + std::to_string(ended.signal) + lost +
           (ended.interrupted ? std::string(", ") + ended.interrupted->what() : "");
  }
  const model m(by_momentum);
  replicated_session s(m.g, here, strategy, {.threads = 1}, 20s);
  std::int64_t position = 0;
  saver keeper({.max_to_keep = 0, .timeout = 20s});
  keeper.add("position", position);
  supervised_session run(s,
                         {.checkpoints = saved_in(path, keeper, s), .save = {.steps = 1000}, .handle_signals = heeds},
                         {stop_at_step(steps)});
  if (index > 0) position = run.global_step();
  const std::int64_t began = position;
  auto step = run.prepare(fetch(m.loss, m.train, m.note), feed(m.x, m.words));
  try {
    while (!run.should_stop()) {
      if (position != run.global_step() && Strategy{}.keeps) return "a step is missing";
      std::this_thread::sleep_for(pause);
      const auto [x, words] = data_of(position++, index, 4);
      step(x, words);
    }
    run.close(20s);
  } catch (const error& e) {
    return e.what() + std::string("; saved ") + std::to_string(run.saved_step());
  }
  return run.stop_reason() + ", from " + std::to_string(began) + " to " + std::to_string(run.global_step()) +
         ", saved " + std::to_string(run.saved_step());
}

struct in_step_by_servers : parameter_server<synchronous> {
  static constexpr bool keeps = true;
};
struct in_step_by_sums : collective {
  static constexpr bool keeps = true;
};
struct out_of_step : parameter_server<asynchronous> {
  static constexpr bool keeps = false;
};

/// Lets a cluster live; `signal_it(ps, workers)` is called in the middle. Returns what the workers have said, then the
/// servers.
template <class Strategy, class Signal>
std::vector<std::string> cluster_with_signals(const std::string& path, Strategy strategy,
                                              std::chrono::milliseconds pause, Signal signal_it, bool heeds = true) {
  const int ps = std::is_same_v<Strategy, in_step_by_sums> ? 0 : 2;
  const cluster_spec cluster = test::local_cluster(ps, 2);
  std::vector<test::process> servers, workers;
  for (int i = 0; i < ps; ++i)
    servers.emplace_back([&, i] { return live_with_signals(cluster, "ps", i, path, strategy, pause); });
  for (int i = 0; i < 2; ++i)
    workers.emplace_back([&, i] { return live_with_signals(cluster, "worker", i, path, strategy, pause, heeds); });
  signal_it(servers, workers);
  std::vector<std::string> said;
  for (auto* each : {&workers, &servers})
    for (test::process& one : *each) said.push_back(one.text());
  return said;
}

const auto nobody = [](auto&, auto&) {};

}  // namespace

// What a scheduler does at the end of a job's time: all tasks get the signal, in any order. The last checkpoint has all
// whole steps, and who goes on from it has the bits of an undisturbed run.
BOOST_AUTO_TEST_CASE(a_signal_to_all_tasks_costs_no_step) {
  const auto check = [](auto strategy) {
    const folder straight, kept;
    for (const std::string& each : cluster_with_signals(straight.path, strategy, 0ms, nobody))
      BOOST_TEST((test::contains(each, "from 0 to 20") || each == "signal 0"));
    for (int turn = 0; turn < 3; ++turn) {
      const auto all = [&](auto& servers, auto& workers) {
        std::this_thread::sleep_for(500ms);
        for (auto* each : turn % 2 ? std::array{&workers, &servers} : std::array{&servers, &workers})
          for (test::process& one : *each) {
            one.signal(SIGTERM);
            std::this_thread::sleep_for(turn == 2 ? 100ms : 0ms);
          }
      };
      const auto said = cluster_with_signals(kept.path, strategy, 100ms, all);
      const std::int64_t step = checkpoint_reader(latest_checkpoint(kept.path).value()).step();
      BOOST_TEST_INFO(said[0] + "\n" + said[1]);
      CHECK_SAYS(said[0], "to " + std::to_string(step) + ", saved " + std::to_string(step));
      CHECK_SAYS(said[1], "saved -1");
      for (std::size_t i = 2; i < said.size(); ++i) CHECK_SAYS(said[i], "signal 15");
    }
    for (const std::string& each : cluster_with_signals(kept.path, strategy, 0ms, nobody))
      BOOST_TEST((test::contains(each, "to 20") || each == "signal 0"));
    BOOST_TEST((content(kept.path) == content(straight.path)));
  };
  check(in_step_by_servers{});
  check(in_step_by_sums{});
}

// One of the workers is taken away: the others end with an error, after the same step.
BOOST_AUTO_TEST_CASE(a_signal_to_one_worker_ends_all_with_a_checkpoint) {
  const auto check = [](auto strategy, std::size_t whom) {
    const folder kept;
    const auto one = [&](auto&, auto& workers) {
      std::this_thread::sleep_for(700ms);
      workers[whom].signal(SIGTERM);
    };
    const auto said = cluster_with_signals(kept.path, strategy, 60ms, one);
    const std::string step = std::to_string(checkpoint_reader(latest_checkpoint(kept.path).value()).step());
    CHECK_SAYS(said[whom], "SIGTERM, from 0 to " + step + ", saved " + (whom == 0 ? step : "-1"));
    CHECK_SAYS(said[1 - whom], "another worker has received a signal and has ended the run after step " + step +
                                   "; saved " + (whom == 0 ? "-1" : step));
    for (std::size_t i = 2; i < said.size(); ++i)
      CHECK_SAYS(said[i], "synchronous training ended early: /job:worker/task:");
  };
  for (const std::size_t whom : {0u, 1u}) {
    check(in_step_by_servers{}, whom);
    check(in_step_by_sums{}, whom);
  }
}

BOOST_AUTO_TEST_CASE(an_asynchronous_run_ends_with_the_loss_of_a_worker_and_a_checkpoint) {
  for (const int number : {SIGTERM, SIGKILL})
    for (const std::size_t whom : {0u, 1u}) {
      const folder kept;
      const auto one = [&](auto&, auto& workers) {
        std::this_thread::sleep_for(700ms);
        workers[whom].signal(number);
      };
      const auto said = cluster_with_signals(kept.path, out_of_step{}, 150ms, one);
      const std::string lost = "/job:worker/task:" + std::to_string(whom) +
                               (number == SIGKILL ? " has closed its connection"
                                : whom == 0       ? " has left the cluster after an error: stopped by SIGTERM"
                                                  : " was stopped by a signal");
      CHECK_SAYS(said[1 - whom], lost);
      for (std::size_t i = 2; i < said.size(); ++i) CHECK_SAYS(said[i], "asynchronous training ended early: " + lost);
      if (whom == 1)  // the chief has saved, and says nevertheless why it leaves
        for (std::size_t i = 2; i < said.size(); ++i)
          CHECK_SAYS(said[i],
                     "; /job:worker/task:0 has left the cluster after an error: push_pull: /job:worker/task:1");
      const auto last = latest_checkpoint(kept.path);
      BOOST_REQUIRE(last.has_value() == (number == SIGTERM || whom == 1));
      if (last) CHECK_SAYS(said[0], "saved " + std::to_string(checkpoint_reader(*last).step()));
    }
}

// A worker that a signal ends does not wait for a chief that waits for it, or goes on without it.
BOOST_AUTO_TEST_CASE(a_worker_that_a_signal_ends_leaves_at_once_where_the_chief_stays) {
  const auto check = [](auto strategy, std::int64_t chief_steps, std::optional<int> min_workers) {
    const folder kept;
    const int ps = std::is_same_v<decltype(strategy), in_step_by_sums> ? 0 : 1;
    const cluster_spec cluster = test::local_cluster(ps, 2);
    std::vector<test::process> servers, workers;
    const auto start = [&](auto& to, const char* job, int i, std::chrono::milliseconds pause, std::int64_t steps) {
      to.emplace_back([=, &cluster, &kept] {
        return live_with_signals(cluster, job, i, kept.path, strategy, pause, true, steps, min_workers);
      });
    };
    if (ps) start(servers, "ps", 0, 0ms, 0);
    start(workers, "worker", 0, 100ms, chief_steps);
    start(workers, "worker", 1, 100ms, 1000);
    std::this_thread::sleep_for(1000ms);
    const auto begin = std::chrono::steady_clock::now();
    workers[1].signal(SIGTERM);
    CHECK_SAYS(workers[1].text(), "SIGTERM, from ");
    BOOST_TEST(test::seconds_since(begin) <
               1.5 + test::slack);  // the time of a step, and no server_options::stop_patience
    if (min_workers) {
      CHECK_SAYS(workers[0].text(), "step " + std::to_string(chief_steps) + " is reached, from 0 to ");
    } else {
      CHECK_SAYS(workers[0].text(), " was stopped by a signal; saved ");
    }
    BOOST_TEST(latest_checkpoint(kept.path).has_value());
    for (test::process& each : servers) CHECK_SAYS(each.text(), "; /job:worker/task:1 was stopped by a signal");
    BOOST_TEST(test::seconds_since(begin) < 6 + test::slack);
  };
  check(in_step_by_servers{}, 2, {});
  check(in_step_by_sums{}, 2, {});
  check(out_of_step{}, 2, {});
  check(out_of_step{}, 2, 1);
  check(out_of_step{}, 40, 1);
}

// A parameter server stays until the chief has saved, and not for long where nobody leaves.
BOOST_AUTO_TEST_CASE(a_parameter_server_that_gets_a_signal_alone_ends_in_time) {
  const folder f;
  const auto cluster = test::local_cluster(1, 1);
  test::process ps([&]() -> std::string {
    server here(cluster, "ps", 0, {.stop_patience = 500ms});
    const join_report ended = here.join(20s, 60s);
    here.stop();
    return ended.interrupted ? ended.interrupted->what() : "ended in order";
  });
  test::process worker(
      [&] { return live_with_signals(cluster, "worker", 0, f.path, in_step_by_servers{}, 100ms, false); });
  std::this_thread::sleep_for(600ms);
  const auto start = std::chrono::steady_clock::now();
  ps.signal(SIGTERM);
  CHECK_SAYS(ps.text(), "synchronous training ended early: SIGTERM has stopped /job:ps/task:0");
  BOOST_TEST(test::seconds_since(start) > 0.4);
  BOOST_TEST(test::seconds_since(start) < 2 + test::slack);
  CHECK_SAYS(worker.text(), "SIGTERM has stopped /job:ps/task:0");
}

BOOST_AUTO_TEST_CASE(mistakes_of_restoring_are_said) {
  // A worker that trains before the chief has restored.
  std::atomic<bool> trained{false};
  const folder kept;
  std::vector<std::string> problems = test::run_tasks(1, 2, in_process{}, [&](basic_server<in_process>& here) {
    const counted m;
    replicated_session s(m.g, here, parameter_server<asynchronous>{}, {.threads = 1}, 20s);
    saver keeper;
    if (here.is_chief()) {
      while (!trained) std::this_thread::sleep_for(1ms);
      supervised_session run(s, {.checkpoints = saved_in(kept.path, keeper, s), .handle_signals = false});
      return;
    }
    s.prepare(fetch(m.train))();
    trained = true;
    s.finish(20s);
  });
  CHECK_SAYS(problems[0], "a worker already trains");
  if (!problems[1].empty()) CHECK_SAYS(problems[1], "a worker already trains");  // the chief ends first

  // The others wait for the chief, with a deadline, and hear of its end.
  problems = test::run_tasks(1, 2, in_process{}, [&](basic_server<in_process>& here) {
    const counted m;
    replicated_session s(m.g, here, parameter_server<asynchronous>{}, {.threads = 1}, 20s);
    if (here.is_chief()) return std::this_thread::sleep_for(200ms);
    const auto nothing = [] { return std::optional<cluster_state>(); };
    require_says(error_code::deadline_exceeded, [&] { s.restore(nothing, 30ms); }, "in time");
    s.restore(nothing, 20s);
  });
  BOOST_TEST(problems[0] == "");
  CHECK_SAYS(problems[1], "the chief, /job:worker/task:0, has left the cluster, before it restored its checkpoint");
}

// A full disk, say: the folder has become a file.
BOOST_AUTO_TEST_CASE(the_others_learn_why_the_chief_cannot_save) {
  const auto check = [](auto strategy, int ps) {
    const folder kept;
    const std::string path = kept.path + "/training";
    const std::vector<std::string> problems = test::run_tasks(ps, 3, in_process{}, [&](basic_server<in_process>& here) {
      const counted m;
      replicated_session s(m.g, here, strategy, {.threads = 1}, 20s);
      saver keeper({.timeout = 20s});
      supervised_session run(s,
                             {.checkpoints = saved_in(path, keeper, s), .save = {.steps = 3}, .handle_signals = false},
                             {stop_at_step(1000)});
      auto step = run.prepare(fetch(m.train));
      while (!run.should_stop()) {
        if (here.is_chief() && run.global_step() == 4) {
          keeper.wait();  // the checkpoint of step 3 would make the folder again
          std::filesystem::remove_all(path);
          std::ofstream(path) << "a file";
        }
        step();
      }
      run.close(20s);
    });
    BOOST_TEST(test::contains(problems[0], path), problems[0]);
    for (const int other : {1, 2}) {
      const std::string& problem = problems[static_cast<std::size_t>(other)];
      CHECK_SAYS(problem, "/job:worker/task:0 has left the cluster after an error: ");
      CHECK_SAYS(problem, path);
    }
  };
  check(collective{}, 0);
  check(parameter_server<synchronous>{}, 1);
}

BOOST_AUTO_TEST_CASE(updates_that_a_checkpoint_has_are_not_applied_again) {
  std::atomic<bool> over{false};
  const std::vector<std::string> problems = test::run_tasks(1, 2, in_process{}, [&](basic_server<in_process>& here) {
    const std::vector<parameter_spec> variables{{"w", element_type::float32, 3, 0, {"momentum", {1.0, 0.0}}}};
    std::vector<float> w(3, 5), gradient(3, 1);
    const mutable_bytes out = std::as_writable_bytes(std::span(w));
    const const_bytes in = std::as_bytes(std::span(w)), of_w = std::as_bytes(std::span(gradient));
    parameter_client client(here, variables, consistency::asynchronous, 7, 20s);
    detail::server_state state = client.room_for_state();
    std::memset(state.slots[0].arrays.data(), 0, state.slots[0].arrays.size());
    const auto restore = [&] { return client.restore({&in, 1}, &state, 20s); };
    if (!here.is_chief()) {
      require_says(error_code::invalid_argument, restore, "is not the chief");
      while (!over) std::this_thread::sleep_for(1ms);
      return client.done(20s);
    }
    state.cluster = {40, -1, 0, {here.incarnation()}, {-2}};
    require_says(error_code::invalid_argument, restore, "malformed");
    state.cluster.newest[0] = 17;
    test::require_in_task(restore(), "the checkpoint is taken");
    test::require_in_task(!restore(), "and no other one");
    test::require_in_task(client.first_step() == 18, "the next update is a new one");
    bool is_known = true;
    for (const std::int64_t step : {3, 17, 18, 18}) {
      if (step == 18) is_known = w[0] == 4;
      client.push_pull(step, {&of_w, 1}, {&out, 1}, 20s);
      test::require_in_task(client.was_duplicate() == is_known, "each is applied once");
    }
    test::require_in_task(w[0] == 4 && client.global_step() == 41, "one update was made");
    over = true;
    client.done(20s);
  });
  all_well(problems);
}

// ---- workers that survive the loss of the chief ----

namespace {

/// A task that is a process of its own. A worker's text says why its run ended, from which step on it trained, and what
/// it has saved.
template <class Strategy>
std::string survive(const cluster_spec& cluster, const std::string& job, int index, const std::string& path,
                    const Strategy& how, std::int64_t steps, std::chrono::milliseconds pause) {
  server here(cluster, job, index);
  if (job == "ps") {
    const join_report ended = here.join(20s, 60s);
    return "signal " + std::to_string(ended.signal) + (ended.interrupted ? ended.interrupted->what() : "");
  }
  model m(by_momentum);
  replicated_session s(m.g, here, how, {.threads = 1}, 20s);
  saver keeper({.max_to_keep = 0, .timeout = 20s});
  supervised_session run(s, {.checkpoints = saved_in(path, keeper, s), .save = {.steps = 5}}, {stop_at_step(steps)});
  auto step = run.prepare(fetch(m.loss, m.train, m.note), feed(m.x, m.words));
  const std::int64_t first = run.global_step();
  try {
    while (!run.should_stop()) {
      std::this_thread::sleep_for(pause);
      step.run([](const replica& of) { return data_of(of.step, of.index); }, 20s);
    }
    run.close(20s);
  } catch (const error& problem) {
    return problem.what();
  }
  std::string text =
      run.stop_reason() + ", first " + std::to_string(first) + " saved " + std::to_string(run.saved_step());
  if constexpr (std::is_same_v<Strategy, collective>) text += " " + to_string(s.view());
  return text;
}

template <class Strategy>
test::process survivor(const cluster_spec& cluster, int index, const std::string& path, const Strategy& how,
                       std::int64_t steps, std::chrono::milliseconds pause, const std::string& job = "worker") {
  return test::process([=] { return survive(cluster, job, index, path, how, steps, pause); });
}

/// Waits until a run has saved its first checkpoint.
void await_checkpoint(const std::string& path) {
  for (int ms = 0; !latest_checkpoint(path); ms += 5) {
    BOOST_REQUIRE(ms < 30'000);
    std::this_thread::sleep_for(5ms);
  }
}

/// Starts a cluster, and waits until it has trained for some steps: the servers are at the end.
template <class Strategy>
std::vector<test::process> start_survivors(const cluster_spec& cluster, const std::string& path, const Strategy& how,
                                           std::chrono::milliseconds pause) {
  std::vector<test::process> all;
  for (const char* job : {"worker", "ps"})
    for (int i = 0; i < cluster.num_tasks(job); ++i)
      all.push_back(survivor(cluster, i, path, how, last_step, pause, job));
  if (pause.count() > 0) await_checkpoint(path);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_lowest_worker_that_is_left_saves_until_the_chief_comes_again) {
  const collective shrinks{.on_loss = wait_for{0ms}.then(loss_action::shrink)};
  for (const bool comes_again : {false, true}) {
    const folder f;
    const cluster_spec cluster = test::local_cluster(0, 3);
    // The others must not end before the chief is back.
    const std::int64_t steps = comes_again ? 100 : last_step;
    const std::string saved = "saved " + std::to_string(steps);
    std::vector<test::process> all;
    for (int i = 0; i < 3; ++i) all.push_back(survivor(cluster, i, f.path, shrinks, steps, 25ms));
    await_checkpoint(f.path);
    all[0].signal(SIGKILL);
    all[0].text();
    std::string chief;
    if (comes_again) {
      chief = survivor(cluster, 0, f.path, shrinks, steps, 25ms).text();
      BOOST_TEST(chief.find(saved) != std::string::npos, chief);
      BOOST_TEST(chief.find("first 0 ") == std::string::npos, chief);
    }
    const std::string next = all[1].text(), other = all[2].text();
    BOOST_TEST((next.find(saved) != std::string::npos) == !comes_again, next);
    BOOST_TEST(other.find("saved -1") != std::string::npos, other);
    BOOST_TEST(latest_checkpoint(f.path).value().find("-" + std::to_string(steps)) != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_replaced_leaves_no_trace_in_the_checkpoint) {
  const collective waits{.on_loss = wait_for{20s}};
  std::vector<std::string> reference;
  for (const int victim : {-1, 0, 1}) {
    const folder f;
    const cluster_spec cluster = test::local_cluster(0, 2);
    std::vector<test::process> all;
    for (int i = 0; i < 2; ++i) all.push_back(survivor(cluster, i, f.path, waits, last_step, victim < 0 ? 0ms : 60ms));
    std::string again;
    if (victim >= 0) {
      await_checkpoint(f.path);
      all[static_cast<std::size_t>(victim)].signal(SIGKILL);
      all[static_cast<std::size_t>(victim)].text();
      again = survivor(cluster, victim, f.path, waits, last_step, 60ms).text();
      BOOST_TEST(again.find("view 2 of 2 workers") != std::string::npos, again);
    }
    for (auto& each : all) each.text();
    if (victim < 0)
      reference = content(f.path);
    else
      BOOST_TEST(content(f.path) == reference, again);
  }
}

namespace {

/// A cluster of which one worker has received SIGTERM after some steps. Several of them live at a time: each mostly
/// waits.
struct terminated_cluster {
  std::function<test::process()> replacement;
  std::function<std::vector<test::process>(const std::string& path)> undisturbed;
  int workers;
  std::size_t whom;
  std::string words;
  std::unique_ptr<folder> files = std::make_unique<folder>();
  std::vector<test::process> tasks;

  template <class Strategy>
  terminated_cluster(const Strategy& how, int ps, int n, std::size_t index)
      : workers(n), whom(index), words(str_cat({"servers ", ps, " workers ", n, " whom ", index})) {
    const cluster_spec cluster = test::local_cluster(ps, workers);
    const std::string path = files->path;
    replacement = [=] { return survivor(cluster, static_cast<int>(index), path, how, last_step, 60ms); };
    undisturbed = [=](const std::string& there) {
      return start_survivors(test::local_cluster(ps, n), there, how, 0ms);
    };
    tasks = start_survivors(cluster, path, how, 60ms);
    tasks[whom].signal(SIGTERM);
  }

  /// Each task that was not terminated ends as it would have.
  void check_others(const char* worker_says) {
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (i != whom) CHECK_SAYS(tasks[i].text(), i < static_cast<std::size_t>(workers) ? worker_says : "signal 0");
  }
};

}  // namespace

// SIGTERM to one worker is a loss under the policy, like SIGKILL: the others wait for the process that takes its place.
BOOST_AUTO_TEST_CASE(a_worker_that_is_terminated_is_replaced) {
  const loss_policy waits = wait_for{20s}, takes_over = wait_for{20s}.then(loss_action::take_over);
  std::vector<terminated_cluster> all;
  all.emplace_back(parameter_server<synchronous>{.on_loss = waits}, 1, 2, 0u);
  all.emplace_back(parameter_server<synchronous>{.on_loss = waits}, 2, 3, 1u);
  all.emplace_back(parameter_server<synchronous>{.on_loss = takes_over}, 2, 3, 2u);
  all.emplace_back(parameter_server<synchronous>{.on_loss = wait_for{20s}.then(loss_action::shrink)}, 2, 2, 1u);
  all.emplace_back(collective{.on_loss = waits}, 0, 3, 0u);
  std::vector<test::process> replacements;
  for (terminated_cluster& each : all) {
    CHECK_SAYS(each.tasks[each.whom].text(), "SIGTERM, first 0 saved ");
    replacements.push_back(each.replacement());
  }
  for (std::size_t k = 0; k < all.size(); ++k) BOOST_TEST_CONTEXT(all[k].words) {
      CHECK_SAYS(replacements[k].text(), "step 20 is reached, first ");
      all[k].check_others("step 20 is reached, first 0");
      const folder straight;
      for (test::process& each : all[k].undisturbed(straight.path)) each.text();
      BOOST_TEST((content(all[k].files->path) == content(straight.path)));
    }
}

// Asynchronous workers do not wait for it, and make some more steps.
BOOST_AUTO_TEST_CASE(an_asynchronous_worker_that_is_terminated_is_replaced) {
  for (const int servers : {1, 2}) {
    terminated_cluster one(parameter_server<asynchronous>{.on_loss = wait_for{20s}}, servers, 4 - servers,
                           static_cast<std::size_t>(servers - 1));
    CHECK_SAYS(one.tasks[one.whom].text(), "SIGTERM, first 0 saved ");
    CHECK_SAYS(one.replacement().text(), "step 20 is reached, first ");
    one.check_others("step 20 is reached, first 0");
    BOOST_TEST(checkpoint_reader(latest_checkpoint(one.files->path).value()).step() >= last_step);
  }
}

// Nobody takes its place, and the others continue.
BOOST_AUTO_TEST_CASE(a_worker_that_is_terminated_is_left_out_or_taken_over) {
  std::vector<terminated_cluster> all;
  for (const loss_action then : {loss_action::shrink, loss_action::take_over}) {
    all.emplace_back(parameter_server<synchronous>{.on_loss = wait_for{0s}.then(then)}, 2, 3, 1u);
    all.emplace_back(collective{.on_loss = wait_for{0s}.then(then)}, 0, 3, 2u);
  }
  all.emplace_back(parameter_server<synchronous_with_backups<1>>{}, 2, 3, 2u);
  for (terminated_cluster& each : all) BOOST_TEST_CONTEXT(each.words) {
      CHECK_SAYS(each.tasks[each.whom].text(), "SIGTERM, first 0 saved ");
      each.check_others("step 20 is reached, first 0");
    }
}

// All tasks receive it, in any order: all end, and the chief saves.
BOOST_AUTO_TEST_CASE(survivors_that_are_all_terminated_save_and_end) {
  const auto check = [](const auto& how, int ps) {
    for (const bool servers_first : {false, true}) {
      const folder f;
      const cluster_spec cluster = test::local_cluster(ps, 3);
      std::vector<test::process> all = start_survivors(cluster, f.path, how, 60ms);
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[servers_first ? all.size() - 1 - i : i].signal(SIGTERM);
        std::this_thread::sleep_for(30ms);
      }
      std::string saved;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::string text = all[i].text();
        if (i >= 3) continue;  // a server that the signal reaches late has ended with its workers
        CHECK_SAYS(text, "SIGTERM, first 0 saved ");
        if (i == 0) saved = text.substr(text.find("saved ") + 6, 2);
      }
      BOOST_TEST(std::stoi(saved) == checkpoint_reader(latest_checkpoint(f.path).value()).step());
    }
  };
  const loss_policy waits = wait_for{20s};
  check(parameter_server<synchronous>{.on_loss = waits}, 2);
  check(parameter_server<synchronous>{.on_loss = wait_for{20s}.then(loss_action::take_over)}, 2);
  check(parameter_server<asynchronous>{.on_loss = waits}, 2);
  check(collective{.on_loss = waits}, 0);
}

// A session whose variables lie in other tasks saves and restores them.
BOOST_AUTO_TEST_CASE(a_client_restores_variables_of_other_tasks) {
  const folder f;
  const std::string weights = f.path + "/weights.safetensors";
  test::model m(true);
  test::cluster_of<tcp> tasks(m.g, 3);
  session s(m.g, {.threads = 1, .target = "weft://" + to_string(tasks.servers[0]->address())});
  saver keeper({.max_to_keep = 1});
  s.set(m.w, {3, 4});
  keeper.save(s, f.path + "/checkpoints", 7);
  keeper.wait();
  save_weights(weights, s);
  s.set(m.w, {5, 6});
  BOOST_TEST(keeper.restore(s, *latest_checkpoint(f.path + "/checkpoints")).step == 7);
  BOOST_TEST(s.get(m.w).data()[0] == 3);
  BOOST_TEST(s.get(m.w).data()[1] == 4);
  s.set(m.w, {5, 6});
  load_weights(weights, s);
  BOOST_TEST(s.get(m.w).data()[1] == 4);
  BOOST_TEST(s.eval(m.doubled).data()[1] == 8);
}
