// SPDX-License-Identifier: BSL-1.0
// Parameter servers that are lost and started again: a table of faults with what the workers and the other servers do,
// and starts from the shards in a folder. Servers are processes. random_faults.cpp has all other moments, losses.cpp
// the loss of workers.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/train/supervised_session.hpp>

#include "faulty_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;
using test::folder;
using test::servers;
using test::train;
using test::trained;
using test::training;
using test::variant;

namespace {

namespace fs = std::filesystem;

constexpr auto in_step = train<parameter_server<synchronous>>;
constexpr auto by_arrival = train<parameter_server<asynchronous>>;
const training usual{.by = in_step, .on_loss = wait_for{20s}};

/// What the tests see of workers on threads.
test::progress seen;

training with_steps(std::int64_t steps, training how = usual) {
  how.steps = steps;
  return how;
}

trained train_one(const servers& all, int index, const training& how) { return how.by(all.cluster, index, how, seen); }

/// Trains with workers on threads, each of which starts some time after the one before.
std::vector<trained> train_all(const servers& all, int workers, const training& how,
                               std::chrono::milliseconds apart = 0ms) {
  std::vector<trained> results(static_cast<std::size_t>(workers));
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w)
    threads.emplace_back([&, w] {
      std::this_thread::sleep_for(w * apart);
      results[static_cast<std::size_t>(w)] = train_one(all, w, how);
    });
  for (std::thread& each : threads) each.join();
  return results;
}

/// Trains with two workers, of which the first does `harm` before its steps, once the second is at the same step.
std::vector<trained> train_two(const servers& all, training how, const std::function<void(std::int64_t)>& harm) {
  std::vector<trained> results(2);
  std::atomic<std::int64_t> second_at{-1};
  std::thread second([&] {
    training its = how;
    its.before_step = [&](std::int64_t step) { second_at = step; };
    results[1] = train_one(all, 1, its);
    second_at = how.steps;
  });
  how.before_step = [&](std::int64_t step) {
    test::await("the second worker", [&] { return second_at >= step; });
    harm(step);
  };
  results[0] = train_one(all, 0, how);
  second.join();
  return results;
}

/// The values of a run that nobody disturbs.
const std::vector<float>& undisturbed(int ps, int workers, std::int64_t steps) {
  static std::map<std::tuple<int, int, std::int64_t>, std::vector<float>> known;
  std::vector<float>& values = known[{ps, workers, steps}];
  if (!values.empty()) return values;
  const servers all(ps, workers);
  const auto results = train_all(all, workers, with_steps(steps));
  BOOST_TEST(results[0].problem == "");
  return values = results[0].values;
}

enum class fault { killed, killed_together, stopped, terminated };

struct row {
  const char* name;
  int ps, workers;
  training how;
  std::int64_t shards_every;  // 0: no shards
  fault what;
  std::vector<std::vector<int>> victims;  // for each run
  std::int64_t at, committed;             // before step `at`, and once the shards of `committed` are written
  std::vector<std::pair<std::int64_t, std::int64_t>> rollbacks;
  std::int64_t lost_updates;
  const char* problem = "";
};

const row table[] = {
    {"killed_servers_are_replaced_and_steps_are_repeated",
     2,
     2,
     usual,
     5,
     fault::killed,
     {{0}, {1}},
     8,
     5,
     {{8, 5}},
     0},
    // Both at once, the same one twice, and one of them while the other is restored.
    {"servers_are_lost_together_and_one_after_the_other",
     2,
     2,
     usual,
     5,
     fault::killed,
     {{0, 1}, {1, 1}, {0, 0}, {1, 0}},
     8,
     5,
     {{8, 5}},
     0},
    // A server that others have given up ends when it continues, and frees its port.
    {"stopped_servers_leave_their_places", 2, 2, usual, 5, fault::stopped, {{0}, {1}}, 8, 5, {{8, 5}}, 0},
    // SIGTERM is notice: nothing is repeated.
    {"terminated_servers_leave_a_shard_of_their_last_step",
     2,
     1,
     {.by = in_step, .on_loss = wait_for{20s}, .steps = 60, .pace = 20ms},
     1000,
     fault::terminated,
     {{0}, {1}},
     5,
     0,
     {},
     0},
    {"asynchronous_servers_lose_the_updates_since_their_shards",
     1,
     1,
     {.by = by_arrival, .on_loss = wait_for{20s}, .pace = 30ms},
     5,
     fault::killed,
     {{0}},
     8,
     5,
     {},
     3},
    // An update is lost once, however many servers have lost their part of it.
    {"updates_that_two_servers_have_lost_count_once",
     2,
     1,
     {.by = by_arrival, .on_loss = wait_for{20s}, .pace = 30ms},
     5,
     fault::killed_together,
     {{0, 1}},
     8,
     5,
     {},
     3},
    {"without_shards_the_error_says_what_would_have_helped",
     2,
     1,
     usual,
     0,
     fault::killed,
     {{1}},
     3,
     0,
     {},
     0,
     "server_options::shards"}};

void check(const row& r, const std::vector<int>& victims) {
  const bool in_steps = r.how.by == in_step;
  const std::string name = "/job:ps/task:" + std::to_string(victims[0]);
  folder at;
  servers all(r.ps, r.workers, r.shards_every ? shard_options{at.path, r.shards_every} : shard_options{});
  std::string said;
  std::vector<std::thread> replaces;
  bool done = false;
  const auto harm = [&](std::int64_t step) {
    // A shard that is being written does not wait for the next one.
    if (step == 2 && r.shards_every && in_steps) at.await_file("manifest-", 0);
    if (step != r.at || std::exchange(done, true)) return;
    if (r.shards_every) in_steps ? at.await_file("manifest-", r.committed) : at.await_file("shard-", r.committed, r.ps);
    const int victim = victims[0];
    switch (r.what) {
      case fault::killed:
        for (const int each : victims) all.replace(each);
        return;
      case fault::killed_together:
        for (const int each : victims) all.kill(each);
        for (const int each : victims) all.text(each);
        for (const int each : victims) all.start_again(each);
        return;
      case fault::stopped: {
        all.at(victim)->signal(SIGSTOP);
        test::await("the second worker to notice", [&] { return seen.waits[1] > 0; });
        const auto begin = std::chrono::steady_clock::now();
        all.at(victim)->signal(SIGCONT);
        said = all.text(victim);
        test::require_in_task(test::seconds_since(begin) < 2, "a server that continues ends within 2 s");
        return all.start_again(victim);
      }
      case fault::terminated:
        all.at(victim)->signal(SIGTERM);
        replaces.emplace_back([&all, victim] {
          all.text(victim);
          all.start_again(victim);
        });
    }
  };
  training alone = r.how;
  alone.before_step = harm;
  const auto results = r.workers == 2 ? train_two(all, r.how, harm) : std::vector<trained>{train_one(all, 0, alone)};
  for (std::thread& each : replaces) each.join();
  BOOST_TEST(done);
  for (const trained& each : results) {
    if (*r.problem) {
      BOOST_TEST(contains(each.problem, name), each.problem);
      BOOST_TEST(contains(each.problem, r.problem), each.problem);
      continue;
    }
    BOOST_TEST(each.problem == "");
    BOOST_TEST(each.lost_updates == r.lost_updates);
    BOOST_TEST(each.global_step == r.how.steps - r.lost_updates);
    if (in_steps) BOOST_TEST((each.values == undisturbed(r.ps, r.workers, r.how.steps)));
    // Several losses may be one rollback, or more; nothing is lost twice.
    if (victims.size() == 1 || !in_steps)
      BOOST_TEST((each.rollbacks == r.rollbacks));
    else
      for (const auto& [from, to] : each.rollbacks) BOOST_TEST(to == r.rollbacks[0].second);
    // Each task reports the beginning of the wait and the step with which training continues.
    if (r.what == fault::killed && in_steps && victims.size() == 1) {
      BOOST_REQUIRE(each.waits.size() == 2u);
      CHECK_SAYS(each.waits[0], "training waits up to 20 s for a replacement for " + name + " (it has closed its ");
      CHECK_SAYS(each.waits[1], "training continues with step ");
    }
  }
  if (*r.problem) return;
  std::vector<std::int64_t> steps;  // those of the first worker, with the repeated ones
  const auto& rollbacks = results[0].rollbacks;
  for (std::int64_t step = 0, n = 0; step < r.how.steps; ++step) {
    steps.push_back(step);
    if (n == 0 && rollbacks.size() == 1 && step == rollbacks[0].first) step = rollbacks[n++].second - 1;
  }
  if (rollbacks.size() <= 1) BOOST_TEST((results[0].steps == steps));
  if (r.what == fault::stopped) {
    CHECK_SAYS(said, "declared " + name + " lost, which has sent no heartbeat for ");
    CHECK_SAYS(said, "start this parameter server again");
  }
  for (int task = 0; task < r.ps; ++task) {
    const std::string text = all.text(task);
    if (r.ps == 1 || in_steps) BOOST_TEST(text.ends_with("lost updates: " + std::to_string(r.lost_updates)), text);
    if (r.what != fault::killed || !in_steps || victims != std::vector{1 - task}) continue;
    CHECK_SAYS(text, "training waits up to 20 s for a replacement for " + name + " (it has closed its ");
    CHECK_SAYS(text, "training continues with step ");
  }
}

/// Each row is a test case of its name.
[[maybe_unused]] const bool rows_are_added = [] {
  for (const row& each : table) {
    const auto test = [&each] {
      for (const std::vector<int>& victims : each.victims) check(each, victims);
    };
    boost::unit_test::framework::current_auto_test_suite().add(
        boost::unit_test::make_test_case(test, each.name, __FILE__, __LINE__));
  }
  return true;
}();

// ---- starts from the shards in a folder ----

/// Trains with two workers up to step 9, when all tasks end at once; shards of steps 0, 4 and 8 are committed.
void cut_power(const folder& at) {
  servers all(2, 2, {at.path, 4});
  training how = usual;
  how.on_loss = wait_for{100ms};
  train_two(all, how, [&](std::int64_t step) {
    if (step == 2) at.await_file("manifest-", 0);
    if (step == 6) at.await_file("manifest-", 4);
    if (step != 9) return;
    at.await_file("manifest-", 8);
    for (const int each : {0, 1}) all.kill(each);
    throw std::runtime_error("power cut");
  });
}

/// Changes or removes the last bytes.
void damage(const std::string& path, bool cut) {
  const auto at = static_cast<std::streamoff>(fs::file_size(path)) - 9;
  if (cut) return fs::resize_file(path, static_cast<std::size_t>(at));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char byte = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 16));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_cluster_that_is_started_again_goes_on_from_its_last_step_that_is_whole) {
  struct harm {
    const char* prefix;
    bool cut, all;
    std::int64_t goes_on_at;
    const char* problem;
  };
  for (const harm& each : {harm{"", false, false, 8, ""},
                           {"shard-0", false, false, 4, ""},
                           {"shard-1", true, false, 4, ""},
                           {"manifest", false, false, 4, ""},
                           {"shard-1", false, true, -1, "its checksum does not match"},
                           {"manifest", true, true, -1, "is damaged: its checksum does not match"}}) {
    const folder at;
    cut_power(at);
    BOOST_TEST(at.names("manifest").size() >= 2u);
    auto names = *each.prefix ? at.names(each.prefix) : std::vector<std::string>{};
    std::reverse(names.begin(), names.end());
    for (const std::string& name : names) {
      damage(at.path + "/" + name, each.cut);
      if (!each.all) break;
    }
    const servers all(2, 2, {at.path, 4});
    for (const trained& its : train_all(all, 2, usual))
      if (each.goes_on_at >= 0) {
        BOOST_TEST(its.problem == "");
        BOOST_TEST(its.first_step == each.goes_on_at);
        BOOST_TEST((its.values == undisturbed(2, 2, 12)));
      } else {
        BOOST_TEST(contains(its.problem, each.problem), its.problem);
      }
  }
}

// Restoring shards needs no room on the disk.
BOOST_AUTO_TEST_CASE(a_cluster_that_is_started_again_on_a_full_disk_trains) {
  const folder at;
  cut_power(at);
  const auto before = at.contents();
  const std::string newest = at.names("manifest").back();
  servers all(2, 2, {at.path, 4}, 0, true);
  for (const trained& each : train_all(all, 2, usual)) {
    BOOST_TEST(each.problem == "");
    BOOST_TEST(each.first_step == 8);
    BOOST_TEST((each.values == undisturbed(2, 2, 12)));
  }
  BOOST_TEST(all.text(0) == "lost updates: 0");
  BOOST_TEST((at.names("manifest").back() == newest));
  for (const auto& [name, bytes] : at.contents()) BOOST_TEST((before.contains(name) && before.at(name) == bytes), name);
}

// A refused start leaves the files of the other training as they are. Every worker is told.
BOOST_AUTO_TEST_CASE(a_start_that_is_refused_changes_nothing_in_the_folder) {
  const folder at;
  cut_power(at);
  const auto check = [&](int ps, variant of, const std::string& problem, decltype(training::by) by = in_step) {
    const auto before = at.contents();
    const servers all(ps, 2, {at.path, 4});
    for (const trained& each : train_all(all, 2, {.by = by, .on_loss = wait_for{2s}, .of = of}))
      BOOST_TEST(contains(each.problem, problem), each.problem);
    BOOST_TEST((at.contents() == before));
  };
  const std::string other = "is of a training run other than";
  const auto check_all = [&] {
    check(2, variant::usual, "its training is synchronous, but the first worker's is asynchronous", by_arrival);
    check(2, variant::usual, other + " the first worker's", train<parameter_server<synchronous_with_backups<1>>>);
    check(2, variant::other_variables, other);
    check(2, variant::other_optimizer, other);
    check(2, variant::other_seed, other + " the first worker's: its seed is 3, but the first worker's is 4");
    check(2, variant::other_settings, "its settings are '', but the first worker's are 'two epochs'");
    check(1, variant::usual, "is of a cluster with 2 parameter servers");
    check(3, variant::usual, "is of a cluster with 2 parameter servers");
  };
  check_all();
  damage(at.path + "/" + at.names("manifest").back(), false);
  check_all();
  // Shards that no manifest names.
  for (const std::string& name : at.names("manifest")) fs::remove(at.path + "/" + name);
  check(2, variant::other_variables, other);
  check(2, variant::usual, " to 8 but no manifest, so no step is known to be complete");
}

// A run that has made its last step is started again: each worker is admitted, however late, and finds nothing to do.
// With more steps, the first of them needs the gradients of all workers.
BOOST_AUTO_TEST_CASE(a_run_that_has_finished_can_be_started_again) {
  const folder at;
  const auto check = [&](std::int64_t steps, std::int64_t first_step) {
    const auto& reference = undisturbed(2, 3, steps);
    servers all(2, 3, {at.path, 5});
    for (const trained& each : train_all(all, 3, with_steps(steps), 300ms)) {
      BOOST_TEST(each.problem == "");
      BOOST_TEST(each.first_step == first_step);
      BOOST_TEST(each.global_step == steps);
      BOOST_TEST((each.values == reference));
    }
    for (const int task : {0, 1}) BOOST_TEST(all.text(task) == "lost updates: 0");
  };
  check(12, 0);
  check(12, 12);
  check(20, 12);
}

// A worker is killed after its last step, and a server with it. The other worker has finished, or still trains.
BOOST_AUTO_TEST_CASE(a_worker_that_is_killed_after_its_last_step_is_replaced) {
  for (const bool had_finished : {false, true})
    for (const int victim : {-1, 0, 1}) {
      const folder at;
      servers all(2, 2, {at.path, 5});
      const auto train_second = [&](bool dies) {
        training how = with_steps(had_finished ? 8 : 12);
        how.at_end = [&, dies](bool finished) {
          if (dies && finished == had_finished) ::raise(SIGKILL);
        };
        const trained its = train_one(all, 1, how);
        return its.problem + "made " + std::to_string(its.steps.size());
      };
      test::process dies([&] { return train_second(true); }), second([&] { return train_second(false); }, true);
      const auto replace_second = [&] {
        dies.text();
        if (victim >= 0) all.replace(victim);
        second.begin();
        BOOST_TEST(second.text() == "made 0");
      };
      bool replaced = false;
      training how = usual;
      how.before_step = [&](std::int64_t step) {
        if (had_finished && step == 10 && !std::exchange(replaced, true)) replace_second();
      };
      BOOST_TEST(train_one(all, 0, how).problem == "");
      if (!had_finished) replace_second();
      for (const int task : {0, 1}) {
        const std::string text = all.text(task);
        BOOST_TEST(text.ends_with("lost updates: 0"),
                   text << ", victim " << victim << ", had finished " << had_finished);
      }
    }
}

// Training continues, and finish() does not wait for shards that cannot be written.
BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_does_not_stop_training) {
  const auto& reference = undisturbed(2, 1, 8);
  const folder at;
  servers all(2, 1, {at.path + "/shards", 2});
  training how = with_steps(8);
  how.before_step = [&](std::int64_t step) {
    if (step != 3) return;
    fs::rename(at.path + "/shards", at.path + "/away");
    std::ofstream(at.path + "/shards") << "a file";
  };
  const trained result = train_one(all, 0, how);
  BOOST_TEST(result.problem == "");
  BOOST_TEST((result.values == reference));
  BOOST_TEST(all.text(0) == "lost updates: 0");
}

// Steps that other workers have made since are no loss to a worker that has finished.
BOOST_AUTO_TEST_CASE(a_worker_that_waits_for_the_others_finishes_though_a_server_is_replaced) {
  const folder at;
  servers all(2, 2, {at.path, 5});
  std::string problem = "has not finished";
  bool has_waited = false;
  std::thread first([&] {
    try {
      const test::trained_model m;
      server here(all.cluster, "worker", 0);
      replicated_session s(m.g, here, parameter_server<synchronous>{.on_loss = wait_for{20s}}, {.threads = 1}, 30s);
      auto step = s.prepare(fetch(m.train), feed(m.x));
      while (s.next_step() < 4) step(test::batch_of({0, s.next_step()}, false), 40s);
      s.finish(40s, [&] { has_waited = true; });
      problem.clear();
    } catch (const std::exception& why) {
      problem = why.what();
    }
  });
  bool killed = false;
  training how = with_steps(20);
  how.pace = 20ms;
  how.before_step = [&](std::int64_t step) {
    if (step == 2) at.await_file("manifest-", 0);
    if (step != 13 || std::exchange(killed, true)) return;
    at.await_file("manifest-", 10);
    all.replace(1);
  };
  const trained second = train_one(all, 1, how);
  first.join();
  BOOST_TEST(problem == "");
  BOOST_TEST(has_waited);
  BOOST_TEST(second.problem == "");
  BOOST_TEST(second.rollbacks.size() == 1u);
}

namespace {

/// A worker's training whose last step nothing has committed when a server is replaced: `run(s, m, make_step)` makes
/// twelve steps, finishes, and calls make_step(step) for each.
template <class Run>
std::pair<std::vector<std::int64_t>, std::vector<float>> replaced_at_the_end(const folder& at, servers& all, Run run) {
  const test::trained_model m;
  server here(all.cluster, "worker", 0);
  std::vector<std::int64_t> steps;
  replicated_session s(
      m.g, here,
      parameter_server<synchronous>{.on_loss = wait_for{20s}, .on_rollback = [](std::int64_t, std::int64_t) {}},
      {.threads = 1}, 30s);
  bool killed = false;
  run(s, m, [&](auto& step) {
    steps.push_back(s.next_step());
    step(test::batch_of({0, s.next_step()}, false), 40s);
    if (s.next_step() < 12 || std::exchange(killed, true)) return;
    at.await_file("manifest-", 0);
    all.replace(1);
  });
  return {steps, m.values(s.local())};
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_that_are_lost_at_the_end_are_made_again) {
  const std::vector<float>& reference = undisturbed(2, 1, 12);
  std::vector<std::int64_t> twice;
  for (std::int64_t k = 0; k < 24; ++k) twice.push_back(k % 12);
  const auto until = [](auto& s, const test::trained_model& m, auto make_step) {
    auto step = s.prepare(fetch(m.train), feed(m.x));
    s.train_until(12, [&] { make_step(step); });
  };
  const auto supervised = [](auto& s, const test::trained_model& m, auto make_step) {
    supervised_session run(s, {.handle_signals = false}, {stop_at_step(12)});
    auto step = run.prepare(fetch(m.train), feed(m.x));
    const auto make_steps = [&] {
      while (!run.should_stop()) make_step(step);
    };
    make_steps();
    run.close(60s, make_steps);
  };
  // Without the function the caller is told.
  const auto told = [&](auto& s, const test::trained_model& m, auto make_step) {
    auto step = s.prepare(fetch(m.train), feed(m.x));
    while (s.next_step() < 12) make_step(step);
    BOOST_CHECK_EXCEPTION(s.finish(30s), error, [](const error& why) { return why.code() == error_code::aborted; });
    s.train_until(12, [&] { make_step(step); });
  };
  const auto check = [&](const auto& way) {
    folder at;
    servers all(2, 1, {at.path, 1000});
    const auto [steps, values] = replaced_at_the_end(at, all, way);
    BOOST_TEST((steps == twice));
    BOOST_TEST((values == reference));
  };
  check(until);
  check(supervised);
  check(told);
}

BOOST_AUTO_TEST_CASE(only_synchronous_training_is_taken_over) {
  const cluster_spec cluster = test::local_cluster(1, 2);
  const auto refusal = [&](decltype(training::by) by) {
    return by(cluster, 0, {.on_loss = wait_for{1s}.then(loss_action::take_over)}, seen).problem;
  };
  BOOST_TEST(contains(refusal(by_arrival), "requires parameter_server<synch"));
  BOOST_TEST(contains(refusal(train<parameter_server<synchronous_with_backups<1>>>), "without backups"));
}
