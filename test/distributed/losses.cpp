// Training by all-reduce whose workers survive the loss of others (collective::on_loss), with real processes: killed,
// started again, terminated. These follow the workers' progress, not the time.
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/ops/dropout.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

struct model {
  graph g{3};
  node<float, dims<dyn<"batch">, 6>> x = placeholder<float, dims<dyn<"batch">, 6>>(g, "x");
  node<float, dims<dyn<"batch">>> y = placeholder<float, dims<dyn<"batch">>>(g, "y");
  variable_node<float, dims<6, 5>> w1 = variable<float, dims<6, 5>>(g, "w1", init::glorot_uniform{});
  variable_node<float, dims<5>> w2 = variable<float, dims<5>>(g, "w2", init::constant{0.3f});
  node<float> loss;
  effect train;

  model()
      : loss(let(mean(square(sum<1>(dropout(tanh(matmul(x, w1)), 0.8f) * w2) - y)))),
        train(momentum{.learning_rate = 0.01, .momentum = 0.9}.minimize(loss)) {}
};

/// What the test sees of the workers while they train; by index.
struct progress_of_workers {
  std::array<std::atomic<int>, 4> starts{}, steps{}, late{};  // steps: of the last process of the worker
};
using progress = test::shared<progress_of_workers>;

struct settings {
  int steps = 60;
  std::chrono::milliseconds pause{2};
  collective how{};
  std::chrono::milliseconds step{20s};
  bool insists = false;  // past its deadline a step goes on
  bool shares_memory = true;
  int stops_at = -1;  // this worker asks to stop before this step
  int returns =
      -1;  // after 40 steps the others wait for a second process of this worker, and go slowly until it trains
};

auto batch_of(const replica& of) {
  tensor<float, dims<dyn<"batch">, 6>> x(shape(4, 6));
  tensor<float, dims<dyn<"batch">>> y(shape{4});
  const random_stream data(11, static_cast<std::uint64_t>(of.step * 16 + of.index));
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t c = 0; c < 6; ++c)
      x(r, c) = static_cast<float>(data.normal(static_cast<std::uint64_t>(r * 8 + c)));
    y(r) = static_cast<float>(data.normal(static_cast<std::uint64_t>(r * 8 + 7)));
  }
  return std::tuple(std::move(x), std::move(y));
}

/// What a worker does; its text has its view, its steps, and the bits of the values that it ends with.
std::string train(const cluster_spec& cluster, int index, const settings& p, progress_of_workers& seen) {
  const auto mine = static_cast<std::size_t>(index), returns = static_cast<std::size_t>(std::max(p.returns, 0));
  seen.steps[mine] = 0;
  std::string waits;
  server here(cluster, "worker", index, {.shared_memory = p.shares_memory, .on_wait = [&](const wait_change& change) {
                                           waits += " [" + to_string(change) + "]";
                                         }});
  ++seen.starts[mine];
  const model m;
  replicated_session s(m.g, here, p.how, {.threads = 1}, 20s);
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  const std::int64_t first = s.next_step();
  std::int64_t made = 0;
  std::string late;
  for (std::int64_t i = first; i < p.steps && !s.all_stop(); ++i) {
    if (i == p.stops_at) s.request_stop();
    if (p.returns >= 0 && i == 40) test::await("a second process", [&] { return seen.starts[returns] == 2; });
    std::this_thread::sleep_for(p.returns >= 0 && i >= 40 && seen.steps[returns] == 0 ? 20ms : p.pause);
    for (;;) try {
        step.run(batch_of, p.step);
        break;
      } catch (const error& problem) {
        if (!p.insists || problem.code() != error_code::deadline_exceeded) throw;
        late += std::string(" late: ") + problem.what();
        ++seen.late[mine];
      }
    seen.steps[mine] = static_cast<int>(++made);
  }
  if (s.all_stop())
    s.leave("stopped");
  else
    s.finish(20s);
  std::ostringstream text;
  text << "first " << first << " made " << made << " global " << s.global_step() << " " << to_string(s.view())
       << " chief " << s.is_chief() << " next " << s.next_step() << late << waits << " bits";
  for (const std::uint32_t n : {m.w1.id().node, m.w2.id().node}) {
    std::vector<float> values(s.local().variable_info(n).extents.elements());
    s.local().read_variable(n, values.data());
    for (const float each : values) {
      std::uint32_t bits;
      std::memcpy(&bits, &each, sizeof bits);
      text << ' ' << std::hex << bits << std::dec;
    }
  }
  return text.str();
}

std::string bits_of(const std::string& text) {
  const std::size_t at = text.find("bits");
  return at == std::string::npos ? text : text.substr(at);
}

test::process worker(const cluster_spec& cluster, int index, const settings& p, const progress& seen = {}) {
  return test::process([=, &seen = *seen] { return train(cluster, index, p, seen); });
}

std::vector<test::process> start(const cluster_spec& cluster, int workers, const settings& p,
                                 const progress& seen = {}) {
  std::vector<test::process> all;
  for (int i = 0; i < workers; ++i) all.push_back(worker(cluster, i, p, seen));
  return all;
}

void await_steps(const progress& seen, int index, int count) {
  test::await("a worker's steps", [&] { return seen->steps[static_cast<std::size_t>(index)] >= count; });
}

/// The same; one of them is killed while they train.
std::vector<test::process> start_and_kill(const cluster_spec& cluster, int workers, int victim, const settings& p,
                                          const progress& seen) {
  std::vector<test::process> all = start(cluster, workers, p, seen);
  await_steps(seen, victim, 10);
  all[static_cast<std::size_t>(victim)].signal(SIGKILL);
  all[static_cast<std::size_t>(victim)].text();
  return all;
}

std::vector<std::string> undisturbed(int workers, const settings& p) {
  std::vector<test::process> all = start(test::local_cluster(0, workers), workers, p);
  std::vector<std::string> texts;
  for (auto& each : all) texts.push_back(each.text());
  return texts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_of_two_goes_on_after_kill_9) {
  for (const int victim : {1, 0})
    for (const bool shared : {true, false}) {
      const settings p{.how = {.on_loss = wait_for{0ms}.then(loss_action::shrink)}, .shares_memory = shared};
      const cluster_spec cluster = test::local_cluster(0, 2);
      const progress seen;
      test::process a = worker(cluster, 0, p, seen), b = worker(cluster, 1, p, seen);
      await_steps(seen, victim, 10);
      (victim == 0 ? a : b).signal(SIGKILL);
      const auto since = std::chrono::steady_clock::now();
      const std::string text = (victim == 0 ? b : a).text();
      BOOST_TEST(
          contains(text, "first 0 made 60 global 60 view 2 of 1 worker: " + std::to_string(1 - victim) + " chief 1"),
          text);
      BOOST_TEST(test::seconds_since(since) < 15);
    }
}

BOOST_AUTO_TEST_CASE(the_values_are_those_of_a_run_that_nobody_has_disturbed) {
  for (const bool shared : {true, false})
    for (const int workers : {2, 3}) {
      settings p{.steps = 50, .how = {.on_loss = wait_for{20s}}, .shares_memory = shared};
      if (!shared) p.how.bucket_bytes = 64;  // buckets that travel while the step is computed
      const std::vector<std::string> reference = undisturbed(workers, p);
      settings usual = p;
      usual.how.on_loss = {};
      usual.pause = 0ms;
      BOOST_TEST(bits_of(undisturbed(workers, usual)[0]) == bits_of(reference[0]));
      const int victim = shared == (workers == 2) ? 0 : 1;
      const cluster_spec cluster = test::local_cluster(0, workers);
      const progress seen;
      std::vector<test::process> all = start_and_kill(cluster, workers, victim, p, seen);
      test::process again = worker(cluster, victim, p);
      const std::string late = again.text();
      BOOST_TEST(!contains(late, "first 0 "), late);
      BOOST_TEST(bits_of(late) == bits_of(reference[0]), late);
      for (int i = 0; i < workers; ++i) {
        if (i == victim) continue;
        const std::string text = all[static_cast<std::size_t>(i)].text();
        BOOST_TEST(contains(text, "made 50 global 50 view 2 of " + std::to_string(workers)), text);
        BOOST_TEST(contains(text, "[training waits up to 20 s for a process in place of /job:worker/task:" +
                                      std::to_string(victim) + " (it has closed its connection"),
                   text);
        BOOST_TEST(contains(text, "[training continues with step "), text);
        BOOST_TEST(contains(text, "; view 2 of " + std::to_string(workers) + " workers: 0, 1"), text);
        BOOST_TEST(bits_of(text) == bits_of(reference[0]), text);
      }
    }
}

BOOST_AUTO_TEST_CASE(nobody_takes_the_lost_workers_place_in_time) {
  const settings p{.how = {.on_loss = wait_for{300ms}}};
  const cluster_spec cluster = test::local_cluster(0, 2);
  const progress seen;
  test::process a = worker(cluster, 0, p, seen), b = worker(cluster, 1, p, seen);
  await_steps(seen, 1, 10);
  b.signal(SIGKILL);
  BOOST_TEST(contains(a.text(), "no process has taken the place of /job:worker/task:1"));
}

// A worker that is only silent may train on: of two that do not hear each other only the lower one goes on.
BOOST_AUTO_TEST_CASE(a_stopped_worker_does_not_make_a_second_run) {
  const settings p{.steps = 200, .pause = 5ms, .how = {.on_loss = wait_for{0ms}.then(loss_action::shrink)}};
  const cluster_spec cluster = test::local_cluster(0, 2);
  const progress seen;
  test::process a = worker(cluster, 0, p, seen), b = worker(cluster, 1, p, seen);
  await_steps(seen, 1, 10);
  b.signal(SIGSTOP);
  await_steps(seen, 0, seen->steps[1] + 10);
  b.signal(SIGCONT);
  const std::string silent = b.text(), text = a.text();
  BOOST_TEST(contains(text, "made 200 global 200"), text);
  BOOST_TEST(!contains(silent, "made 200"), silent);
}

BOOST_AUTO_TEST_CASE(a_worker_that_comes_again_joins_between_two_steps) {
  const settings p{.steps = 150, .how = {.on_loss = wait_for{0ms}.then(loss_action::shrink)}, .returns = 0};
  const cluster_spec cluster = test::local_cluster(0, 3);
  const progress seen;
  std::vector<test::process> all = start_and_kill(cluster, 3, 0, p, seen);
  await_steps(seen, 1, 35);
  test::process again = worker(cluster, 0, p, seen);
  const std::string late = again.text();
  BOOST_TEST(contains(late, "view 3 of 3 workers: 0, 1, 2 chief 1"), late);
  for (const std::size_t i : {1u, 2u}) {
    const std::string text = all[i].text();
    BOOST_TEST(contains(text, "made 150 global 150 view 3 of 3 workers"), text);
    BOOST_TEST(bits_of(text) == bits_of(late));
  }
}

BOOST_AUTO_TEST_CASE(a_worker_that_stops_leaves_the_others_training) {
  const settings p{.steps = 1000, .how = {.on_loss = wait_for{0ms}.then(loss_action::shrink)}};
  settings stops = p;
  stops.stops_at = 20;
  const cluster_spec cluster = test::local_cluster(0, 2);
  test::process a = worker(cluster, 0, stops), b = worker(cluster, 1, p);
  const std::string left = a.text(), text = b.text();
  const int made = std::atoi(left.c_str() + left.find("made ") + 5);
  BOOST_TEST((made >= 22 && made < 1000), left);  // and in the time that signals to the others may take
  BOOST_TEST(contains(text, "made 1000 global 1000 view 2 of 1 worker: 1 chief 1"), text);
}

BOOST_AUTO_TEST_CASE(workers_that_all_stop_end_with_the_same_step) {
  settings p{.how = {.on_loss = wait_for{0ms}.then(loss_action::shrink)}};
  p.stops_at = 20;
  settings later = p;
  later.stops_at = 21;
  const cluster_spec cluster = test::local_cluster(0, 2);
  test::process a = worker(cluster, 0, p), b = worker(cluster, 1, later);
  const std::string one = a.text(), other = b.text();
  BOOST_TEST(contains(one, "made 22 "), one);
  BOOST_TEST(contains(other, "made 22 "), other);
  BOOST_TEST(bits_of(one) == bits_of(other));
}

// At once, and each says whose policies differ and how.
BOOST_AUTO_TEST_CASE(workers_with_other_policies_are_refused) {
  const settings p{.how = {.on_loss = wait_for{1s}}};
  const std::pair<loss_policy, const char*> others[] = {
      {wait_for{2s}, "waits 2000 ms for a lost worker, then stops"},
      {wait_for{1s}.then(loss_action::take_over), "waits 1000 ms for a lost worker, then takes over its part"},
      {{}, "stops when a worker is lost"}};
  const auto since = std::chrono::steady_clock::now();
  int odd = 0;
  for (const auto& [policy, words] : others) {
    const cluster_spec cluster = test::local_cluster(0, 3);
    std::vector<test::process> all;
    for (int i = 0; i < 3; ++i) all.push_back(worker(cluster, i, i == odd ? settings{.how = {.on_loss = policy}} : p));
    const std::string name = "/job:worker/task:" + std::to_string(odd++) + " ";
    for (test::process& each : all) {
      const std::string text = each.text();
      BOOST_TEST(contains(text, "have different collective::on_loss"), text);
      BOOST_TEST(contains(text, name + words), text);
      BOOST_TEST(contains(text, " waits 1000 ms for a lost worker, then stops"), text);
    }
  }
  BOOST_TEST(test::seconds_since(since) < 3 * 15);
}

// A step that waits for the place of a lost worker to be taken ends at its deadline, and goes on when it is called
// again.
BOOST_AUTO_TEST_CASE(a_step_that_waits_for_a_lost_worker_keeps_its_deadline) {
  for (const loss_action then : {loss_action::stop, loss_action::shrink, loss_action::take_over}) {
    const settings p{.steps = 50, .how = {.on_loss = wait_for{20s}.then(then)}, .step = 700ms, .insists = true};
    const std::vector<std::string> reference = undisturbed(3, p);
    const cluster_spec cluster = test::local_cluster(0, 3);
    const progress seen;
    std::vector<test::process> all = start_and_kill(cluster, 3, 1, p, seen);
    test::await("late steps", [&] { return seen->late[0] > 0 && seen->late[2] > 0; });
    test::process again = worker(cluster, 1, p, seen);
    BOOST_TEST(bits_of(again.text()) == bits_of(reference[0]));
    for (const std::size_t i : {0u, 2u}) {
      const std::string text = all[i].text();
      BOOST_TEST(contains(text, "made 50 global 50 view 2 of 3 workers"), text);
      BOOST_TEST(contains(text, " late: exchange: a process that takes the place of /job:worker/task:1 has not"), text);
      BOOST_TEST(bits_of(text) == bits_of(reference[0]), text);
    }
  }
}

// A process that comes when the others are about to end is told so.
BOOST_AUTO_TEST_CASE(a_replacement_that_comes_too_late_does_not_wait) {
  const settings p{.steps = 1, .how = {.on_loss = wait_for{0ms}.then(loss_action::shrink)}};
  const cluster_spec cluster = test::local_cluster(0, 2);
  test::process a([=] {
    server here(cluster, "worker", 0);
    here.wait_ready(20s);
    here.set_participation(participation::finished);
    std::this_thread::sleep_for(500ms);
    return std::string();
  });
  const auto since = std::chrono::steady_clock::now();
  const std::string text = worker(cluster, 1, p).text();
  BOOST_TEST(contains(text, "training has ended without /job:worker/task:1: /job:worker/task:0 has finished it"), text);
  BOOST_TEST(test::seconds_since(since) < 10);
}

BOOST_AUTO_TEST_CASE(survivors_compute_the_part_of_a_killed_worker) {
  const settings p{.steps = 50, .how = {.on_loss = wait_for{0ms}.then(loss_action::take_over)}};
  const std::vector<std::string> reference = undisturbed(3, p);
  for (const int victim : {0, 1, 2}) {
    settings its = p;
    its.shares_memory = victim != 1;
    const cluster_spec cluster = test::local_cluster(0, 3);
    const progress seen;
    std::vector<test::process> all = start_and_kill(cluster, 3, victim, its, seen);
    for (int i = 0; i < 3; ++i) {
      if (i == victim) continue;
      const std::string text = all[static_cast<std::size_t>(i)].text();
      BOOST_TEST(contains(text, "made 50 global 50 view 2 of 2 workers"), text);
      BOOST_TEST(bits_of(text) == bits_of(reference[0]), text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_killed_worker_that_comes_again_gets_its_part_back) {
  const settings p{.steps = 150, .how = {.on_loss = wait_for{0ms}.then(loss_action::take_over)}, .returns = 0};
  settings fast = p;
  fast.pause = 0ms;
  fast.returns = -1;
  const std::vector<std::string> reference = undisturbed(3, fast);
  const cluster_spec cluster = test::local_cluster(0, 3);
  const progress seen;
  std::vector<test::process> all = start_and_kill(cluster, 3, 0, p, seen);
  await_steps(seen, 1, 35);
  test::process again = worker(cluster, 0, p, seen);
  for (test::process* const each : {&again, &all[1], &all[2]}) {
    const std::string text = each->text();
    BOOST_TEST(contains(text, "global 150 view 3 of 3 workers: 0, 1, 2"), text);
    BOOST_TEST(bits_of(text) == bits_of(reference[0]), text);
  }
}

// A group of some of a job's tasks.
BOOST_AUTO_TEST_CASE(a_group_may_have_some_of_the_tasks) {
  for (const bool shared : {true, false}) {
    const auto problems = test::run_tasks(
        0, 4, tcp(),
        [](auto& here) {
          if (here.index() == 1) {
            here.wait_ready(10s);
            here.join(10s);
            return;
          }
          all_reduce_options options;
          options.tasks = {0, 2, 3};
          all_reduce group(here, {}, options);
          test::require_in_task(group.size() == 3, "size");
          test::require_in_task(group.rank() == static_cast<std::size_t>(here.index() == 0 ? 0 : here.index() - 1),
                                "rank");
          std::vector<double> some(1000, 1.0 + here.index());
          group.sum(std::span<double>(some));
          for (const double each : some) test::require_in_task(each == 8, "sum");  // 1 + 3 + 4
          float one[] = {static_cast<float>(here.index())};
          group.broadcast(std::span<float>(one), 1);
          test::require_in_task(one[0] == 2, "broadcast");
        },
        {.shared_memory = shared});
    for (const std::string& each : problems) BOOST_TEST(each == "");
  }
}
