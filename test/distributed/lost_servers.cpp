// What happens when parameter servers are lost and started again, at moments that are made by hand: random_faults.cpp
// has all others. Servers are processes, which are killed.
#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/ops/dropout.hpp>

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

struct model {
  graph g{3};
  variable_node<float, dims<6, 5>> a;
  variable_node<float, dims<5, 3>> b;
  node<float, dims<dyn<"n">, 6>> x = placeholder<float, dims<dyn<"n">, 6>>(g, "x");
  effect train;
  model()
      : a(variable<float, dims<6, 5>>(g, "a", init::glorot_uniform{})),
        b(variable<float, dims<5, 3>>(g, "b", init::glorot_uniform{})),
        train(adam{.learning_rate = 0.05}.minimize(mean(square(matmul(tanh(matmul(dropout(x, 0.2), a)), b))))) {}
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
  std::int64_t first_step = -1, lost_updates = 0, global_step = 0;
  std::string problem;
};

/// One worker's training in this process; `before_step` may do harm.
template <class Strategy>
trained train(const cluster_spec& cluster, int index, std::int64_t steps, loss_policy policy,
              const std::function<void(std::int64_t)>& before_step = {}, std::chrono::milliseconds pace = 0ms) {
  trained result;
  try {
    const model m;
    server here(cluster, "worker", index);
    Strategy how;
    how.on_loss = policy;
    how.on_rollback = [&](std::int64_t from, std::int64_t to) { result.rollbacks.emplace_back(from, to); };
    replicated_session s(m.g, here, how, {.threads = 1}, 30s);
    auto step = s.prepare(fetch(m.train), feed(m.x));
    result.first_step = s.next_step();
    for (;;) {
      while (s.next_step() < steps) {
        result.steps.push_back(s.next_step());
        if (before_step) before_step(s.next_step());
        std::this_thread::sleep_for(pace);
        step(batch_of(s.next_step(), index), 40s);
      }
      try {
        s.finish(30s);
        break;
      } catch (const error& problem) {
        if (problem.code() != error_code::aborted) throw;
      }
    }
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

using sync = parameter_server<synchronous>;

/// Parameter servers as processes.
struct servers {
  cluster_spec cluster;
  shard_options shards;
  std::vector<std::unique_ptr<test::process>> processes;
  std::vector<pid_t> ids;

  servers(int ps, int workers, shard_options how) : cluster(test::local_cluster(ps, workers)), shards(how) {
    for (int task = 0; task < ps; ++task) processes.push_back(start(task));
  }
  std::unique_ptr<test::process> start(int task) {
    return std::make_unique<test::process>([this, task]() -> std::string {
      std::freopen("/dev/null", "w", stderr);
      server here(cluster, "ps", task, {.shards = shards});
      const join_report report = here.join(30s, 120s);
      return report.interrupted ? report.interrupted->what() : "lost updates: " + std::to_string(report.lost_updates);
    });
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
        [&, w] { results[static_cast<std::size_t>(w)] = train<sync>(all.cluster, w, steps, wait_for{30s}); });
  for (std::thread& each : threads) each.join();
  BOOST_TEST(results[0].problem == "");
  return results[0].values;
}

/// Trains with two workers, of which the first does `harm` before its steps.
std::vector<trained> train_two(servers& all, std::int64_t steps, const std::function<void(std::int64_t)>& harm,
                               loss_policy policy = wait_for{20s}) {
  std::vector<trained> results(2);
  std::thread second([&] { results[1] = train<sync>(all.cluster, 1, steps, policy); });
  results[0] = train<sync>(all.cluster, 0, steps, policy, harm);
  second.join();
  return results;
}

}  // namespace

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
