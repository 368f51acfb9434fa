// What happens when parameter servers are lost and started again, at moments that are made by hand: random_faults.cpp
// has all others. Servers are processes, which are killed.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/ops/dropout.hpp>
#include <weft/train/supervised_session.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

namespace fs = std::filesystem;

struct folder {
  std::string path = (fs::temp_directory_path() / ("weft-shards-XXXXXX")).string();
  folder() { BOOST_REQUIRE(::mkdtemp(path.data())); }
  ~folder() { fs::remove_all(path); }
  std::vector<std::string> names(const std::string& prefix) const {
    std::vector<std::string> all;
    for (const auto& each : fs::directory_iterator(path))
      if (const std::string name = each.path().filename(); name.starts_with(prefix) && !name.ends_with(".lock"))
        all.push_back(name);
    std::sort(all.begin(), all.end());
    return all;
  }
  /// The bytes of each file but the locks.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const std::string& name : names("")) {
      std::ifstream file(path + "/" + name, std::ios::binary);
      all[name].assign(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }
  /// Waits for the manifest of a step.
  void await_manifest(std::int64_t step) const {
    std::string number = std::to_string(step);
    number.insert(0, 19 - number.size(), '0');
    for (int ms = 0; !fs::exists(path + "/manifest-" + number); ++ms) {
      test::require_in_task(ms < 10'000, "a manifest is committed");
      std::this_thread::sleep_for(1ms);
    }
  }
};

enum class kind { usual, other_optimizer, other_variables, other_seed, other_settings };

struct model {
  graph g;
  variable_node<float, dims<6, 5>> a;
  variable_node<float, dims<5, 3>> b;
  node<float, dims<dyn<"n">, 6>> x = placeholder<float, dims<dyn<"n">, 6>>(g, "x");
  effect train;
  explicit model(kind of = kind::usual)
      : g(of == kind::other_seed ? 4 : 3),
        a(variable<float, dims<6, 5>>(g, of == kind::other_variables ? "c" : "a", init::glorot_uniform{})),
        b(variable<float, dims<5, 3>>(g, "b", init::glorot_uniform{})) {
    const auto loss = let(mean(square(matmul(tanh(matmul(dropout(x, 0.2), a)), b))));
    train = of == kind::other_optimizer ? momentum{.learning_rate = 0.05}.minimize(loss)
                                        : adam{.learning_rate = 0.05}.minimize(loss);
  }
};

tensor<float, dims<dyn<"n">, 6>> batch_of(std::int64_t step, int worker) {
  tensor<float, dims<dyn<"n">, 6>> x(shape(4, 6));
  const random_stream data(11, static_cast<std::uint64_t>(step * 16 + worker));
  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t c = 0; c < 6; ++c)
      x(r, c) = static_cast<float>(data.normal(static_cast<std::uint64_t>(r * 8 + c)));
  return x;
}

struct trained {
  std::vector<float> values;
  std::vector<std::pair<std::int64_t, std::int64_t>> rollbacks;
  std::vector<std::int64_t> steps;
  std::vector<std::string> waits;
  std::int64_t first_step = -1, lost_updates = 0, global_step = 0;
  std::string problem;
};

/// One worker's training in this process; `before_step` may do harm.
template <class Strategy>
trained train(const cluster_spec& cluster, int index, std::int64_t steps, loss_policy policy,
              const std::function<void(std::int64_t)>& before_step = {}, std::chrono::milliseconds pace = 0ms,
              kind of = kind::usual, const std::function<void(bool finished)>& at_end = {}) {
  trained result;
  try {
    const model m(of);
    server here(cluster, "worker", index,
                {.on_wait = [&](const wait_change& change) { result.waits.push_back(to_string(change)); }});
    Strategy how;
    how.on_loss = policy;
    how.on_rollback = [&](std::int64_t from, std::int64_t to) { result.rollbacks.emplace_back(from, to); };
    replicated_session s(m.g, here, how, {.threads = 1}, 30s, of == kind::other_settings ? "two epochs" : "");
    auto step = s.prepare(fetch(m.train), feed(m.x));
    result.first_step = s.next_step();
    for (;;) {
      while (s.next_step() < steps) {
        result.steps.push_back(s.next_step());
        if (before_step) before_step(s.next_step());
        std::this_thread::sleep_for(pace);
        step(batch_of(s.next_step(), index), 40s);
      }
      if (at_end) at_end(false);
      try {
        s.finish(30s);
        break;
      } catch (const error& problem) {
        if (problem.code() != error_code::aborted) throw;
      }
    }
    if (at_end) at_end(true);
    result.lost_updates = s.lost_updates();
    result.global_step = s.global_step();
    for (const std::uint32_t n : {m.a.id().node, m.b.id().node}) {
      const auto* data = reinterpret_cast<const float*>(s.local().state_of(n).data());
      result.values.insert(result.values.end(), data, data + s.local().variable_info(n).extents.elements());
    }
  } catch (const std::exception& problem) {
    result.problem = problem.what();
  }
  return result;
}

using in_step = parameter_server<synchronous>;

/// Parameter servers as processes, each with two that can take its place.
struct servers {
  cluster_spec cluster;
  shard_options shards;
  bool disk_is_full = false, reports_waits = false;  // in a server's text
  std::vector<std::unique_ptr<test::process>> processes;
  std::vector<std::vector<std::unique_ptr<test::process>>> spares;

  servers(int ps, int workers, shard_options how, bool full = false, bool with_waits = false)
      : cluster(test::local_cluster(ps, workers)), shards(how), disk_is_full(full), reports_waits(with_waits) {
    for (int task = 0; task < ps; ++task) {
      auto& its = spares.emplace_back();
      for (int n = 0; n < 3; ++n) its.push_back(make(task));
      processes.push_back(start(task));
    }
  }
  servers(const servers&) = delete;
  std::unique_ptr<test::process> start(int task) {
    auto& its = spares[static_cast<std::size_t>(task)];
    test::require_in_task(!its.empty(), "a process is left");
    std::unique_ptr<test::process> next = std::move(its.back());
    its.pop_back();
    next->begin();
    return next;
  }
  std::unique_ptr<test::process> make(int task) const {
    const auto serve = [this, task]() -> std::string {
      std::freopen("/dev/null", "w", stderr);
      if (disk_is_full) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit none{0, 0};
        ::setrlimit(RLIMIT_FSIZE, &none);
      }
      std::string waits;
      server here(cluster, "ps", task,
                  {.shards = shards, .on_wait = [&](const wait_change& change) { waits += to_string(change) + "\n"; }});
      const join_report report = here.join(30s, 120s);
      if (reports_waits) return waits;
      return report.interrupted ? report.interrupted->what() : "lost updates: " + std::to_string(report.lost_updates);
    };
    return std::make_unique<test::process>(serve, true);
  }
  void kill(int task) { processes[static_cast<std::size_t>(task)]->signal(SIGKILL); }
  /// A killed one's place is taken.
  void replace(int task) {
    kill(task);
    processes[static_cast<std::size_t>(task)]->text();
    processes[static_cast<std::size_t>(task)] = start(task);
  }
  std::string text(int task) { return processes[static_cast<std::size_t>(task)]->text(); }
};

/// The bits of a run that nobody disturbs.
std::vector<float> undisturbed(int ps, int workers, std::int64_t steps) {
  servers all(ps, workers, {});
  std::vector<trained> results(static_cast<std::size_t>(workers));
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w)
    threads.emplace_back(
        [&, w] { results[static_cast<std::size_t>(w)] = train<in_step>(all.cluster, w, steps, wait_for{30s}); });
  for (std::thread& each : threads) each.join();
  BOOST_TEST(results[0].problem == "");
  return results[0].values;
}

/// Trains with two workers, of which the first does `harm` before its steps, once the second is at the same step.
std::vector<trained> train_two(servers& all, std::int64_t steps, const std::function<void(std::int64_t)>& harm,
                               loss_policy policy = wait_for{20s}, kind of = kind::usual) {
  std::vector<trained> results(2);
  std::atomic<std::int64_t> second_at{-1};
  std::thread second([&] {
    results[1] = train<in_step>(all.cluster, 1, steps, policy, [&](std::int64_t step) { second_at = step; }, 0ms, of);
    second_at = steps;
  });
  const auto before_step = [&](std::int64_t step) {
    const auto began = std::chrono::steady_clock::now();
    while (second_at < step && test::seconds_since(began) < 20) std::this_thread::sleep_for(1ms);
    if (harm) harm(step);
  };
  results[0] = train<in_step>(all.cluster, 0, steps, policy, before_step, 0ms, of);
  second.join();
  return results;
}

}  // namespace

// Each task reports the beginning of the wait and the step with which training continues.
BOOST_AUTO_TEST_CASE(every_task_reports_a_wait_for_a_server) {
  folder at;
  servers all(2, 2, {at.path, 5}, false, true);
  bool killed = false;
  const auto results = train_two(all, 12, [&](std::int64_t step) {
    if (step != 8 || std::exchange(killed, true)) return;
    at.await_manifest(5);
    all.replace(1);
  });
  const std::string begins = "training waits up to 20 s for a process in place of /job:ps/task:1 (it has closed its ";
  for (const trained& each : results) {
    BOOST_TEST(each.problem == "");
    BOOST_REQUIRE(each.waits.size() == 2u);
    CHECK_SAYS(each.waits[0], begins);
    CHECK_SAYS(each.waits[1], "training continues with step ");
  }
  const std::string text = all.text(0);
  CHECK_SAYS(text, begins);
  CHECK_SAYS(text, "training continues with step ");
}

// Workers do not connect to each other: a server tells them.
BOOST_AUTO_TEST_CASE(every_task_reports_a_wait_for_a_worker) {
  folder at;
  servers all(1, 2, {}, false, true);
  const auto train_second = [&all] { return train<in_step>(all.cluster, 1, 12, wait_for{20s}).problem; };
  test::process victim(train_second), second(train_second, true);
  std::thread replaces;
  const trained chief = train<in_step>(all.cluster, 0, 12, wait_for{20s}, [&](std::int64_t step) {
    if (step != 4) return;
    victim.signal(SIGKILL);
    victim.text();
    replaces = std::thread([&] {
      std::this_thread::sleep_for(2s);
      second.begin();
    });
  });
  replaces.join();
  BOOST_TEST(chief.problem == "");
  BOOST_TEST(second.text() == "");
  const std::string begins =
      "training waits up to 20 s for a process in place of /job:worker/task:1 (it has closed its ";
  BOOST_REQUIRE(chief.waits.size() == 2u);
  CHECK_SAYS(chief.waits[0], begins);
  CHECK_SAYS(chief.waits[0], "as /job:ps/task:0 has seen");
  CHECK_SAYS(chief.waits[1], "training continues with step ");
  const std::string text = all.text(0);
  CHECK_SAYS(text, begins);
  CHECK_SAYS(text, "training continues with step ");
}

// A server that others have given up ends when it continues, and frees its port for the process that takes its place.
BOOST_AUTO_TEST_CASE(a_server_that_goes_on_after_it_was_given_up_leaves_its_place) {
  const std::vector<float> reference = undisturbed(2, 2, 12);
  for (const int victim : {0, 1}) {
    folder at;
    servers all(2, 2, {at.path, 5});
    std::string said;
    double took = 0;
    const auto results = train_two(all, 12, [&](std::int64_t step) {
      if (step == 2) at.await_manifest(0);
      if (step != 8 || !said.empty()) return;
      at.await_manifest(5);
      auto& stopped = all.processes[static_cast<std::size_t>(victim)];
      stopped->signal(SIGSTOP);
      std::this_thread::sleep_for(2500ms);
      const auto begin = std::chrono::steady_clock::now();
      stopped->signal(SIGCONT);
      said = stopped->text();
      took = test::seconds_since(begin);
      stopped = all.start(victim);
    });
    BOOST_TEST(contains(
        said, "has given up /job:ps/task:" + std::to_string(victim) + ", which has given no sign of life for "));
    BOOST_TEST(contains(said, "start this parameter server again"));
    BOOST_TEST(took < 2);
    for (const trained& each : results) {
      BOOST_TEST(each.problem == "");
      BOOST_TEST((each.values == reference));
      BOOST_TEST(each.rollbacks.size() == 1u);
    }
    for (const int task : {0, 1}) BOOST_TEST(all.text(task) == "lost updates: 0");
  }
}

// A worker that parameter servers have given up ends when it continues. It does not wait for a replacement of a live
// server.
BOOST_AUTO_TEST_CASE(a_worker_that_goes_on_after_it_was_given_up_leaves_its_place) {
  const std::vector<float> reference = undisturbed(1, 2, 12);
  folder at;
  servers all(1, 2, {at.path, 5});
  const auto train_second = [&] {
    const trained its = train<in_step>(all.cluster, 1, 12, wait_for{20s}, {}, 20ms);
    return its.problem.empty() && its.values != reference ? "has other values" : its.problem;
  };
  test::process stopped(train_second), second(train_second, true);
  std::string said;
  double took = 0;
  std::thread changes;
  const trained first = train<in_step>(all.cluster, 0, 12, wait_for{20s}, [&](std::int64_t step) {
    if (step != 6 || changes.joinable()) return;
    stopped.signal(SIGSTOP);
    changes = std::thread([&] {
      std::this_thread::sleep_for(2500ms);
      const auto begin = std::chrono::steady_clock::now();
      stopped.signal(SIGCONT);
      said = stopped.text();
      took = test::seconds_since(begin);
      second.begin();
    });
  });
  BOOST_REQUIRE(changes.joinable());
  changes.join();
  BOOST_TEST(contains(said, "/job:ps/task:0 has given up /job:worker/task:1, which has given no sign of life for "));
  BOOST_TEST(contains(said, "start this worker again"));
  BOOST_TEST(took < 2);
  BOOST_TEST(second.text() == "");
  BOOST_TEST(first.problem == "");
  BOOST_TEST((first.values == reference));
  BOOST_TEST(first.rollbacks.empty());
  BOOST_TEST(all.text(0) == "lost updates: 0");
}

BOOST_AUTO_TEST_CASE(a_server_that_is_killed_is_replaced_and_the_run_repeats_steps) {
  const std::vector<float> reference = undisturbed(2, 2, 12);
  for (const int victim : {0, 1}) {
    folder at;
    servers all(2, 2, {at.path, 5});
    bool killed = false;
    const auto results = train_two(all, 12, [&](std::int64_t step) {
      if (step == 2) at.await_manifest(0);  // a shard that is being written does not wait for the next
      if (step != 8 || killed) return;
      killed = true;
      at.await_manifest(5);
      all.replace(victim);
    });
    for (const trained& each : results) {
      BOOST_TEST(each.problem == "");
      BOOST_TEST((each.values == reference));
      BOOST_REQUIRE(each.rollbacks.size() == 1u);
      BOOST_TEST(each.rollbacks[0].first == 8);
      BOOST_TEST(each.rollbacks[0].second == 5);
    }
    BOOST_TEST((results[0].steps == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10, 11}));
    BOOST_TEST(all.text(0) == "lost updates: 0");
    BOOST_TEST(all.text(1) == "lost updates: 0");
  }
}

// Both at once; the same one twice; and one of them while the other is restored.
BOOST_AUTO_TEST_CASE(servers_are_lost_together_and_one_after_the_other) {
  const std::vector<float> reference = undisturbed(2, 2, 12);
  for (const std::vector<int>& victims : {std::vector<int>{0, 1}, {1, 1}, {0, 0}, {1, 0}}) {
    folder at;
    servers all(2, 2, {at.path, 5});
    bool killed = false;
    const auto results = train_two(all, 12, [&](std::int64_t step) {
      if (step == 2) at.await_manifest(0);
      if (step != 8 || killed) return;
      killed = true;
      at.await_manifest(5);
      for (const int each : victims) all.replace(each);
    });
    for (const trained& each : results) {
      BOOST_TEST(each.problem == "");
      BOOST_TEST((each.values == reference));
      for (const auto& [from, to] : each.rollbacks) BOOST_TEST(to == 5);
    }
  }
}

namespace {

/// Trains with two workers up to step 9, when all tasks end at once; shards of steps 0, 4 and 8 are committed.
void cut_power(const folder& at) {
  servers all(2, 2, {at.path, 4});
  train_two(
      all, 12,
      [&](std::int64_t step) {
        if (step == 2) at.await_manifest(0);
        if (step == 6) at.await_manifest(4);
        if (step != 9) return;
        at.await_manifest(8);
        for (const int each : {0, 1}) all.kill(each);
        throw std::runtime_error("power cut");
      },
      wait_for{100ms});
}

void damage(const std::string& path, std::size_t at, bool cut) {
  if (cut) return fs::resize_file(path, at);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 16));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_cluster_that_is_started_again_goes_on_from_its_last_step_that_is_whole) {
  const std::vector<float> reference = undisturbed(2, 2, 12);
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
    folder at;
    cut_power(at);
    BOOST_TEST(at.names("manifest").size() >= 2u);
    auto names = *each.prefix ? at.names(each.prefix) : std::vector<std::string>{};
    std::reverse(names.begin(), names.end());
    for (const std::string& name : names) {
      damage(at.path + "/" + name, static_cast<std::size_t>(fs::file_size(at.path + "/" + name)) - 9, each.cut);
      if (!each.all) break;
    }
    servers all(2, 2, {at.path, 4});
    const auto results = train_two(all, 12, {});
    for (const trained& its : results)
      if (each.goes_on_at >= 0) {
        BOOST_TEST(its.problem == "");
        BOOST_TEST(its.first_step == each.goes_on_at);
        BOOST_TEST((its.values == reference));
      } else {
        BOOST_TEST(contains(its.problem, each.problem), its.problem);
      }
  }
}

// Restoring shards needs no room on the disk.
BOOST_AUTO_TEST_CASE(a_cluster_that_is_started_again_on_a_full_disk_trains) {
  const std::vector<float> reference = undisturbed(2, 2, 12);
  folder at;
  cut_power(at);
  const auto before = at.contents();
  const std::string newest = at.names("manifest").back();
  servers all(2, 2, {at.path, 4}, true);
  const auto results = train_two(all, 12, {});
  for (const trained& each : results) {
    BOOST_TEST(each.problem == "");
    BOOST_TEST(each.first_step == 8);
    BOOST_TEST((each.values == reference));
  }
  BOOST_TEST(all.text(0) == "lost updates: 0");
  const auto after = at.contents();
  BOOST_TEST((at.names("manifest").back() == newest));
  for (const auto& [name, bytes] : after) BOOST_TEST((before.contains(name) && before.at(name) == bytes), name);
}

// A refused start leaves the files of the other training as they are.
BOOST_AUTO_TEST_CASE(a_start_that_is_refused_changes_nothing_in_the_folder) {
  folder at;
  cut_power(at);
  const auto check = [&](int ps, kind of, const char* problem) {
    const auto before = at.contents();
    servers all(ps, 2, {at.path, 4});
    for (const trained& each : train_two(all, 12, {}, wait_for{2s}, of))
      BOOST_TEST(contains(each.problem, problem), each.problem);
    BOOST_TEST((at.contents() == before));
  };
  // Every worker is told.
  const auto check_strategy = [&]<class Strategy>(Strategy, const char* problem) {
    const auto before = at.contents();
    servers all(2, 2, {at.path, 4});
    trained second;
    std::thread other([&] { second = train<Strategy>(all.cluster, 1, 12, wait_for{2s}); });
    const trained first = train<Strategy>(all.cluster, 0, 12, wait_for{2s});
    other.join();
    BOOST_TEST(contains(first.problem, problem), first.problem);
    BOOST_TEST(contains(second.problem, problem), second.problem);
    BOOST_TEST((at.contents() == before));
  };
  const auto check_all = [&] {
    check_strategy(parameter_server<asynchronous>{}, "it trains synchronous, the first worker asynchronous");
    check_strategy(parameter_server<synchronous_with_backups<1>>{}, "is of another training than the first worker's");
    check(2, kind::other_variables, "is of another training");
    check(2, kind::other_optimizer, "is of another training");
    check(2, kind::other_seed, "is of another training than the first worker's: its seed is 3, the first worker's 4");
    check(2, kind::other_settings, "its settings are '', the first worker's 'two epochs'");
    check(1, kind::usual, "is of a cluster with 2 parameter servers");
    check(3, kind::usual, "is of a cluster with 2 parameter servers");
  };
  check_all();
  const std::string newest = at.path + "/" + at.names("manifest").back();
  damage(newest, static_cast<std::size_t>(fs::file_size(newest)) - 9, false);
  check_all();
  // Shards that no manifest names.
  for (const std::string& name : at.names("manifest")) fs::remove(at.path + "/" + name);
  check(2, kind::other_variables, "is of another training");
  check(2, kind::usual, " to 8 but no manifest, so no step is known to be complete");
}

namespace {

/// Trains with three workers; each starts some time after the one before.
std::vector<trained> train_three(servers& all, std::int64_t steps, std::chrono::milliseconds apart) {
  std::vector<trained> results(3);
  std::vector<std::thread> threads;
  for (int w = 0; w < 3; ++w)
    threads.emplace_back([&, w] {
      std::this_thread::sleep_for(w * apart);
      results[static_cast<std::size_t>(w)] = train<in_step>(all.cluster, w, steps, wait_for{20s});
    });
  for (std::thread& each : threads) each.join();
  return results;
}

}  // namespace

// A run that has made its last step is started again: each worker is admitted, however late, and finds nothing to do.
// With more steps, the first of them needs the gradients of all workers.
BOOST_AUTO_TEST_CASE(a_run_that_has_finished_can_be_started_again) {
  folder at;
  const auto check = [&](std::int64_t steps, std::int64_t first_step) {
    servers all(2, 3, {at.path, 5});
    const std::vector<float> reference = undisturbed(2, 3, steps);
    for (const trained& each : train_three(all, steps, 300ms)) {
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
      folder at;
      servers all(2, 2, {at.path, 5});
      const auto train_second = [&](bool dies) {
        const trained its = train<in_step>(all.cluster, 1, had_finished ? 8 : 12, wait_for{20s}, {}, 0ms, kind::usual,
                                           [&, dies](bool finished) {
                                             if (dies && finished == had_finished) ::raise(SIGKILL);
                                           });
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
      const trained first = train<in_step>(all.cluster, 0, 12, wait_for{20s}, [&](std::int64_t step) {
        if (had_finished && step == 10 && !std::exchange(replaced, true)) replace_second();
      });
      BOOST_TEST(first.problem == "");
      if (!had_finished) replace_second();
      for (const int task : {0, 1}) {
        const std::string text = all.text(task);
        BOOST_TEST(text == "lost updates: 0", text << ", victim " << victim << ", had finished " << had_finished);
      }
    }
}

BOOST_AUTO_TEST_CASE(without_shards_the_error_says_what_would_have_helped) {
  servers all(2, 1, {});
  const trained result = train<in_step>(all.cluster, 0, 6, wait_for{10s}, [&](std::int64_t step) {
    if (step == 3) all.replace(1);
  });
  BOOST_TEST(contains(result.problem, "/job:ps/task:1"), result.problem);
  BOOST_TEST(contains(result.problem, "server_options::shards"), result.problem);
}

// Training goes on, and finish() does not wait for shards that cannot be written.
BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_does_not_stop_training) {
  const std::vector<float> reference = undisturbed(2, 1, 8);
  folder at;
  servers all(2, 1, {at.path + "/shards", 2});
  const trained result = train<in_step>(all.cluster, 0, 8, wait_for{10s}, [&](std::int64_t step) {
    if (step != 3) return;
    fs::rename(at.path + "/shards", at.path + "/away");
    std::ofstream(at.path + "/shards") << "a file";
  });
  BOOST_TEST(result.problem == "");
  BOOST_TEST((result.values == reference));
  BOOST_TEST(all.text(0) == "lost updates: 0");
}

BOOST_AUTO_TEST_CASE(an_asynchronous_server_loses_the_updates_since_its_shard) {
  folder at;
  servers all(1, 1, {at.path, 5});
  bool killed = false;
  const trained result = train<parameter_server<asynchronous>>(
      all.cluster, 0, 12, wait_for{20s},
      [&](std::int64_t step) {
        if (step != 8 || killed) return;
        killed = true;
        for (int ms = 0; at.names("shard-").back().back() != '5' && ms < 5000; ++ms) std::this_thread::sleep_for(1ms);
        all.replace(0);
      },
      30ms);
  BOOST_TEST(result.problem == "");
  BOOST_TEST(result.lost_updates == 3);
  BOOST_TEST(result.global_step == 9);
  BOOST_TEST(result.rollbacks.empty());
  BOOST_TEST(all.text(0) == "lost updates: 3");
}

// An update is lost once, however many servers have lost their part of it.
BOOST_AUTO_TEST_CASE(an_update_that_two_servers_have_lost_counts_once) {
  folder at;
  servers all(2, 1, {at.path, 5});
  bool killed = false;
  const trained result = train<parameter_server<asynchronous>>(
      all.cluster, 0, 12, wait_for{20s},
      [&](std::int64_t step) {
        if (step != 8 || killed) return;
        killed = true;
        const auto written = [&] {  // by each server, of its fifth update
          const auto names = at.names("shard-");
          return std::count_if(names.begin(), names.end(), [](const std::string& each) { return each.back() == '5'; });
        };
        for (int ms = 0; written() < 2 && ms < 5000; ++ms) std::this_thread::sleep_for(1ms);
        for (const int each : {0, 1}) all.kill(each);
        for (const int each : {0, 1}) all.text(each);
        for (const int each : {0, 1}) all.processes[static_cast<std::size_t>(each)] = all.start(each);
      },
      30ms);
  BOOST_TEST(result.problem == "");
  BOOST_TEST(result.lost_updates == 3);
}

// SIGTERM is notice: nothing is repeated.
BOOST_AUTO_TEST_CASE(a_server_that_is_terminated_leaves_a_shard_of_its_last_step) {
  const std::vector<float> reference = undisturbed(2, 1, 60);
  for (const int victim : {0, 1}) {
    folder at;
    servers all(2, 1, {at.path, 1000});
    std::thread replaces;
    const trained result = train<in_step>(
        all.cluster, 0, 60, wait_for{20s},
        [&](std::int64_t step) {
          if (step == 2) at.await_manifest(0);
          if (step != 5 || replaces.joinable()) return;
          all.processes[static_cast<std::size_t>(victim)]->signal(SIGTERM);
          replaces = std::thread([&] {
            all.text(victim);
            all.processes[static_cast<std::size_t>(victim)] = all.start(victim);
          });
        },
        20ms);
    if (replaces.joinable()) replaces.join();
    BOOST_TEST(result.problem == "");
    BOOST_TEST(result.steps.size() == 60u);
    BOOST_TEST(result.rollbacks.empty());
    BOOST_TEST((result.values == reference));
  }
}

// Another process takes the chief's place.
BOOST_AUTO_TEST_CASE(the_chief_is_replaced_while_servers_write_shards) {
  const std::vector<float> reference = undisturbed(2, 2, 12);
  folder at;
  servers all(2, 2, {at.path, 5});
  trained second;
  std::thread other([&] { second = train<in_step>(all.cluster, 1, 12, wait_for{20s}); });
  const trained died = train<in_step>(all.cluster, 0, 12, wait_for{20s}, [&](std::int64_t step) {
    if (step == 7) throw std::runtime_error("killed");
  });
  BOOST_TEST(died.problem == "killed");
  const trained chief = train<in_step>(all.cluster, 0, 12, wait_for{20s});
  other.join();
  BOOST_TEST(chief.problem == "");
  BOOST_TEST(second.problem == "");
  BOOST_TEST(chief.first_step == 7);
  BOOST_TEST((chief.values == reference));
  BOOST_TEST((second.values == reference));
}

// Steps that other workers have made since are no loss to one that has finished.
BOOST_AUTO_TEST_CASE(a_worker_that_waits_for_the_others_finishes_though_a_server_is_replaced) {
  folder at;
  servers all(2, 2, {at.path, 5});
  std::string problem = "has not finished";
  bool has_waited = false;
  std::thread first([&] {
    try {
      const model m;
      server here(all.cluster, "worker", 0);
      replicated_session s(m.g, here, in_step{.on_loss = wait_for{20s}}, {.threads = 1}, 30s);
      auto step = s.prepare(fetch(m.train), feed(m.x));
      while (s.next_step() < 4) step(batch_of(s.next_step(), 0), 40s);
      s.finish(40s, [&] { has_waited = true; });
      problem.clear();
    } catch (const std::exception& why) {
      problem = why.what();
    }
  });
  bool killed = false;
  const trained second = train<in_step>(
      all.cluster, 1, 20, wait_for{20s},
      [&](std::int64_t step) {
        if (step == 2) at.await_manifest(0);
        if (step != 13 || killed) return;
        killed = true;
        at.await_manifest(10);
        all.replace(1);
      },
      20ms);
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
  const model m;
  server here(all.cluster, "worker", 0);
  std::vector<std::int64_t> steps;
  std::vector<float> values;
  replicated_session s(m.g, here, in_step{.on_loss = wait_for{20s}, .on_rollback = [](std::int64_t, std::int64_t) {}},
                       {.threads = 1}, 30s);
  bool killed = false;
  run(s, m, [&](auto& step) {
    steps.push_back(s.next_step());
    step(batch_of(s.next_step(), 0), 40s);
    if (s.next_step() < 12 || std::exchange(killed, true)) return;
    at.await_manifest(0);
    all.replace(1);
  });
  for (const std::uint32_t n : {m.a.id().node, m.b.id().node}) {
    const auto* data = reinterpret_cast<const float*>(s.local().state_of(n).data());
    values.insert(values.end(), data, data + s.local().variable_info(n).extents.elements());
  }
  return {steps, values};
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_that_are_lost_at_the_end_are_made_again) {
  const std::vector<float> reference = undisturbed(2, 1, 12);
  std::vector<std::int64_t> twice;
  for (std::int64_t k = 0; k < 24; ++k) twice.push_back(k % 12);
  const auto until = [](auto& s, const model& m, auto make_step) {
    auto step = s.prepare(fetch(m.train), feed(m.x));
    s.train_until(12, [&] { make_step(step); });
  };
  const auto supervised = [](auto& s, const model& m, auto make_step) {
    supervised_session run(s, {.handle_signals = false}, {stop_at_step(12)});
    auto step = run.prepare(fetch(m.train), feed(m.x));
    const auto make_steps = [&] {
      while (!run.should_stop()) make_step(step);
    };
    make_steps();
    run.close(60s, make_steps);
  };
  // Without the function the caller is told.
  const auto told = [&](auto& s, const model& m, auto make_step) {
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
