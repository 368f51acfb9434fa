// What parameter servers do when workers are lost, at moments that are made by hand: random_faults.cpp has all others.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed/parameter/parameter_server.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

using server_type = basic_server<in_process>;
using client_type = parameter_client;

constexpr consistency_model in_step{consistency::synchronous};

/// One variable on each of two servers.
std::vector<parameter_spec> variables() {
  const update_rule rule{"gradient_descent", {1.0}};
  return {{"a", element_type::float32, 4, 0, rule}, {"b", element_type::float32, 4, 1, rule}};
}

struct values {
  std::vector<float> a = std::vector<float>(4), b = std::vector<float>(4);

  explicit values(float with = 0) : a(4, with), b(4, with) {}
  std::vector<const_bytes> in() const { return {std::as_bytes(std::span(a)), std::as_bytes(std::span(b))}; }
  std::vector<mutable_bytes> out() {
    return {std::as_writable_bytes(std::span(a)), std::as_writable_bytes(std::span(b))};
  }
  bool are(float x) const { return a == std::vector<float>(4, x) && b == std::vector<float>(4, x); }
};

/// Two parameter servers on threads.
struct two_servers {
  in_process network;
  cluster_spec cluster;
  std::mutex mutex;
  std::vector<std::string> left_out;
  std::vector<std::pair<std::int64_t, std::vector<std::size_t>>> steps[2];
  std::optional<join_report> reports[2];
  std::vector<std::thread> threads;

  explicit two_servers(int workers) : cluster(test::local_cluster(2, workers, network)) {
    for (int task = 0; task < 2; ++task)
      threads.emplace_back([this, task] {
        server_options options;
        options.on_left_out = [this](const error& why) {
          std::lock_guard lock(mutex);
          left_out.push_back(why.what());
        };
        options.on_step = [this, task](std::int64_t step, const std::vector<std::size_t>& workers_of_step) {
          steps[task].emplace_back(step, workers_of_step);
        };
        server_type here(cluster, "ps", task, options, network);
        reports[task] = here.join(20s, 60s);
      });
  }
  ~two_servers() { join(); }
  void join() {
    for (std::thread& each : threads)
      if (each.joinable()) each.join();
  }
};

/// Sends a request by hand and waits for the answer until the deadline; returns its kind, or heartbeat where none came.
template <class Stream>
frame_kind ask(Stream& stream, frame_kind kind, const std::vector<std::byte>& payload, std::int64_t step,
               deadline until) {
  frame_header header;
  header.kind = kind;
  header.step = step;
  header.weight = 1;
  frame_writer out;
  out.start(header, const_bytes(payload));
  frame_reader in;
  in.expect(std::uint64_t{1 << 20});
  std::vector<std::byte> came;
  while (!in.complete() && !until.expired()) {
    out.advance(stream);
    in.advance(stream);
    if (!in.needs_destination()) continue;
    came.resize(static_cast<std::size_t>(in.header().payload_length));
    in.payload_to(mutable_bytes(came));
  }
  return in.complete() ? in.header().kind : frame_kind::heartbeat;
}

/// A worker whose gradients come to parameter server 0 alone before its process ends.
void die_between_servers(two_servers& all, const training_terms& terms, float gradient) {
  server_type here(all.cluster, "worker", 1, {}, all.network);
  here.members().wait_for(deadline(10s), [](const task_id& task) { return task.job == "ps"; });
  auto channel = here.open_channel(here.cluster().rank({"ps", 0}), detail::parameter_channel, 10s);
  const auto enrolled =
      ask(channel.stream, frame_kind::enroll, detail::enroll_message{terms, 7, variables()}.bytes(), 0, 5s);
  test::require_in_task(enrolled == frame_kind::acknowledge, "enrolled");
  const auto valued = ask(channel.stream, frame_kind::await_values, {}, 0, 5s);
  test::require_in_task(valued == frame_kind::acknowledge, "there are values");
  std::vector<float> g(4, gradient);
  const auto bytes = std::as_bytes(std::span(g));
  const auto made = ask(channel.stream, frame_kind::push_pull, {bytes.begin(), bytes.end()}, 0, 300ms);
  test::require_in_task(made == frame_kind::heartbeat, "server 0 does not make the step alone");
}

/// The chief makes `steps` steps with gradient 1; returns what went wrong, and its values.
std::string train_as_chief(two_servers& all, const training_terms& terms, int steps, values& now,
                           std::uint32_t* left_out = nullptr) {
  try {
    server_type here(all.cluster, "worker", 0, {}, all.network);
    client_type client(here, variables(), terms, 7, 20s);
    client.initialise(values(0).in(), 20s);
    client.pull(now.out(), 20s);
    for (int i = 0; i < steps; ++i) client.push_pull(client.next_step(), values(1).in(), now.out(), 20s);
    if (left_out) *left_out = client.left_out();
    client.done(10s);
    return {};
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

}  // namespace

// Its gradients of step 0 are 3 at server 0. The process that takes its place sends them again, to both.
BOOST_AUTO_TEST_CASE(gradients_that_came_to_one_server_alone_wait_for_a_replacement) {
  const training_terms terms(in_step, wait_for{20s});
  two_servers all(2);
  values now;
  std::string problem = "did not end";
  std::thread chief([&] { problem = train_as_chief(all, terms, 2, now); });
  die_between_servers(all, terms, 3);
  std::string problem_of_replacement;
  try {
    server_type here(all.cluster, "worker", 1, {}, all.network);
    client_type client(here, variables(), terms, 7, 20s);
    client.initialise(20s);
    values its;
    client.pull(its.out(), 20s);
    BOOST_TEST(its.are(0));
    BOOST_TEST(client.next_step() == 0);
    for (int i = 0; i < 2; ++i) client.push_pull(client.next_step(), values(3).in(), its.out(), 20s);
    BOOST_TEST(its.are(-4));
    client.done(10s);
  } catch (const std::exception& thrown) {
    problem_of_replacement = thrown.what();
  }
  chief.join();
  all.join();
  BOOST_TEST(problem == "");
  BOOST_TEST(problem_of_replacement == "");
  BOOST_TEST(now.are(-4));
  BOOST_TEST((all.steps[0] == all.steps[1]));
  BOOST_TEST(all.steps[0].size() == 2u);
  BOOST_TEST(all.left_out.empty());
}

// Nobody takes its place: no server uses the gradients that only one of them has.
BOOST_AUTO_TEST_CASE(gradients_that_came_to_one_server_alone_are_used_by_none) {
  const training_terms terms(in_step, wait_for{500ms}.then(loss_action::shrink));
  two_servers all(2);
  values now;
  std::string problem = "did not end";
  std::uint32_t left_out = 0;
  std::thread chief([&] { problem = train_as_chief(all, terms, 2, now, &left_out); });
  die_between_servers(all, terms, 3);
  chief.join();
  all.join();
  BOOST_TEST(problem == "");
  BOOST_TEST(now.are(-2));
  BOOST_TEST(left_out == 1u);
  const std::vector<std::pair<std::int64_t, std::vector<std::size_t>>> alone{{0, {0}}, {1, {0}}};
  BOOST_TEST((all.steps[0] == alone));
  BOOST_TEST((all.steps[1] == alone));
  BOOST_REQUIRE(all.left_out.size() == 1u);
  BOOST_TEST(contains(all.left_out[0], "training goes on with 1 of 2 workers: /job:worker/task:1 has"));
  BOOST_TEST(!all.reports[0]->interrupted);
}

// Another worker computes them again, for both servers. Its gradients of the lost worker's part are 3, too.
BOOST_AUTO_TEST_CASE(gradients_that_came_to_one_server_alone_are_computed_again) {
  const training_terms terms(in_step, wait_for{300ms}.then(loss_action::take_over));
  two_servers all(2);
  values now;
  std::string problem = "did not end";
  std::vector<std::int64_t> asked;
  std::thread chief([&] {
    try {
      server_type here(all.cluster, "worker", 0, {}, all.network);
      client_type client(here, variables(), terms, 7, 20s);
      client.initialise(values(0).in(), 20s);
      client.pull(now.out(), 20s);
      for (std::int64_t step = 0; step < 2; ++step) {
        client.push(step, 0, values(1).in(), 20s);
        for (auto next = client.await_step(step, 20s); next.what == client_type::awaited_step::outcome::owed;
             next = client.await_step(step, 20s)) {
          test::require_in_task(next.replica == 1, "worker 1 is lost");
          asked.push_back(step);
          client.push(step, next.replica, values(3).in(), 20s);
        }
        test::require_in_task(client.pull_made(now.out(), 20s) == step + 1, "the step is made");
      }
      client.done(10s);
      problem.clear();
    } catch (const std::exception& thrown) {
      problem = thrown.what();
    }
  });
  die_between_servers(all, terms, 3);
  chief.join();
  all.join();
  BOOST_TEST(problem == "");
  BOOST_TEST(now.are(-4));
  BOOST_TEST((asked == std::vector<std::int64_t>{0, 1}));
  const std::vector<std::pair<std::int64_t, std::vector<std::size_t>>> both{{0, {0, 1}}, {1, {0, 1}}};
  BOOST_TEST((all.steps[0] == both));
  BOOST_TEST((all.steps[1] == both));
  BOOST_REQUIRE(all.left_out.size() == 1u);
  BOOST_TEST(contains(all.left_out[0], "workers, which compute the gradients of the lost one: /job:worker/task:1 has"));
}

BOOST_AUTO_TEST_CASE(training_stops_when_nobody_has_come_in_time) {
  const training_terms terms(in_step, wait_for{500ms});
  two_servers all(2);
  values now;
  std::string problem;
  std::thread chief([&] { problem = train_as_chief(all, terms, 2, now); });
  die_between_servers(all, terms, 3);
  chief.join();
  all.join();
  BOOST_TEST(contains(problem, "/job:worker/task:1 has"));
  BOOST_TEST(contains(problem, "no process has taken its place within 500 ms"));
  BOOST_TEST(all.steps[0].empty());
  for (const auto& each : all.reports) {
    BOOST_REQUIRE(each->interrupted);
    BOOST_TEST(contains(each->interrupted->what(), "no process has taken its place"));
  }
}

// A process that trains something else is started in the place of a lost worker. It is refused, and the others go on
// waiting for the right one.
BOOST_AUTO_TEST_CASE(a_wrong_replacement_ends_nothing_but_itself) {
  const training_terms terms(in_step, wait_for{20s});
  two_servers all(2);
  values now, second;
  std::string problem;
  std::thread chief([&] { problem = train_as_chief(all, terms, 2, now); });
  die_between_servers(all, terms, 3);
  const auto replace_by = [&](const training_terms& how, graph_identity graph, int steps) -> std::string {
    try {
      server_type here(all.cluster, "worker", 1, {}, all.network);
      client_type client(here, variables(), how, graph, 20s);
      client.initialise(20s);
      client.pull(second.out(), 20s);
      for (int i = 0; i < steps; ++i) client.push_pull(client.next_step(), values(3).in(), second.out(), 20s);
      client.done(10s);
      return {};
    } catch (const std::exception& why) {
      return why.what();
    }
  };
  const training_terms shrinks(in_step, wait_for{20s}.then(loss_action::shrink));
  BOOST_TEST(contains(replace_by(shrinks, 7, 2), "waits 20000 ms for a lost worker, then shrinks, the first worker"));
  BOOST_TEST(contains(replace_by(terms, 8, 2), "/job:worker/task:1 does not train the same model"));
  BOOST_TEST(replace_by(terms, 7, 2) == "");
  chief.join();
  all.join();
  BOOST_TEST(problem == "");
  BOOST_TEST(now.are(-4));
  BOOST_TEST(second.are(-4));
  for (const auto& each : all.reports) BOOST_TEST((!each->interrupted && each->lost.empty()));
}

// Wrong ones do not prolong the wait, however many come.
BOOST_AUTO_TEST_CASE(wrong_replacements_do_not_prolong_the_wait) {
  const training_terms terms(in_step, wait_for{1500ms}), other(in_step, wait_for{1s});
  two_servers all(2);
  values now;
  std::string problem;
  std::atomic<bool> ended{false};
  std::thread chief([&] {
    problem = train_as_chief(all, terms, 2, now);
    ended = true;
  });
  die_between_servers(all, terms, 3);
  const auto begin = std::chrono::steady_clock::now();
  while (!ended && test::seconds_since(begin) < 20) {
    try {
      server_type here(all.cluster, "worker", 1, {}, all.network);
      client_type client(here, variables(), other, 7, 1s);
    } catch (const error&) {
      std::this_thread::sleep_for(50ms);
    }
  }
  BOOST_TEST(test::seconds_since(begin) < 4 + test::slack);
  chief.join();
  all.join();
  BOOST_TEST(contains(problem, "no process has taken its place within 1500 ms"));
}

BOOST_AUTO_TEST_CASE(workers_with_other_policies_and_impossible_terms_are_refused) {
  const auto refusal = [&](two_servers& all, int index, const training_terms& terms) -> std::string {
    try {
      server_type here(all.cluster, "worker", index, {}, all.network);
      client_type client(here, variables(), terms, 7, 20s);
      client.done(10s);
      return {};
    } catch (const std::exception& problem) {
      return problem.what();
    }
  };
  two_servers all(2);
  BOOST_TEST(contains(refusal(all, 0, training_terms(consistency_model{consistency::synchronous, 2})),
                      "a step can do without 0 to 1 of 2 workers, not without 2"));
  BOOST_TEST(
      contains(refusal(all, 0, training_terms(consistency::asynchronous, wait_for{1s}.then(loss_action::take_over))),
               "needs parameter_server<synchronous>, without backups; use stop or shrink"));
  for (const std::int64_t wait : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
                                  (std::int64_t{1} << 40) + 1, std::int64_t{9'000'000'000'000'000'000}})
    BOOST_TEST(contains(refusal(all, 0, training_terms(in_step, wait_for{std::chrono::milliseconds(wait)})),
                        "(on_loss) must be from 0 to 1099511627776 ms; it is " + std::to_string(wait)));
  std::string chief, ended;
  std::thread first([&] {
    server_type here(all.cluster, "worker", 0, {}, all.network);
    client_type client(here, variables(), training_terms(in_step, wait_for{30s}), 7, 20s);
    client.initialise(values(0).in(), 20s);
    chief = refusal(all, 1, training_terms(in_step, wait_for{40s}));
    try {
      values now;
      client.push_pull(0, values(1).in(), now.out(), 20s);
    } catch (const std::exception& problem) {
      ended = problem.what();
    }
  });
  first.join();
  BOOST_TEST(contains(ended, "/job:worker/task:1 was refused"), ended);
  BOOST_TEST(!contains(ended, "no process has taken its place"), ended);  // nobody was waited for
  BOOST_TEST(contains(chief, "synchronous; waits 40000 ms for a lost worker, then stops"));
  BOOST_TEST(contains(chief, "synchronous; waits 30000 ms for a lost worker, then stops"));
}

// With a lead of two steps, the fast worker's third answer comes when the slow one has made a step.
BOOST_AUTO_TEST_CASE(a_fast_worker_waits_for_a_slow_one_and_staleness_is_counted) {
  const training_terms terms(consistency_model{consistency::asynchronous, 0, 2});
  two_servers all(2);
  std::string problem, problem_of_slow;
  std::vector<std::uint32_t> seen;
  std::atomic<int> made{0};
  std::atomic<bool> pulled{false};
  bool waited = false;
  std::thread slow([&] {
    try {
      server_type here(all.cluster, "worker", 1, {}, all.network);
      client_type client(here, variables(), terms, 7, 20s);
      client.initialise(20s);
      values its;
      client.pull(its.out(), 20s);
      pulled = true;
      for (int ms = 0; made < 2 && ms < 5000; ++ms) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(300ms);
      waited = made == 2;
      client.push_pull(0, values(1).in(), its.out(), 20s);
      seen.push_back(client.staleness());
      client.done(10s);
    } catch (const std::exception& thrown) {
      problem_of_slow = thrown.what();
    }
  });
  try {
    server_type here(all.cluster, "worker", 0, {}, all.network);
    client_type client(here, variables(), terms, 7, 20s);
    client.initialise(values(0).in(), 20s);
    values now;
    client.pull(now.out(), 20s);
    for (int ms = 0; !pulled && ms < 5000; ++ms) std::this_thread::sleep_for(1ms);
    for (int i = 0; i < 6; ++i, ++made) client.push_pull(client.next_step(), values(1).in(), now.out(), 20s);
    client.done(10s);
    BOOST_TEST(now.are(-7));
  } catch (const std::exception& thrown) {
    problem = thrown.what();
  }
  slow.join();
  all.join();
  BOOST_TEST(problem == "");
  BOOST_TEST(problem_of_slow == "");
  BOOST_TEST(waited);
  BOOST_REQUIRE(seen.size() == 1u);
  BOOST_TEST(seen[0] == 3u);  // three updates of the other, the third of which waited for its answer
}

// A task in the place of parameter server 1 that lies to parameter server 0.
BOOST_AUTO_TEST_CASE(a_parameter_server_that_lies_ends_training_in_words) {
  detail::held_message few{0, {0}};
  detail::held_message negative{-1, {0, 0}};
  for (const auto& [kind, bytes] : {std::pair{frame_kind::held, few.bytes()},
                                    {frame_kind::held, negative.bytes()},
                                    {frame_kind::decision, detail::decision_message{0, {0, 1}}.bytes()},
                                    {frame_kind::held, std::vector<std::byte>(5)},
                                    {frame_kind::shard_status, std::vector<std::byte>(5)},
                                    {frame_kind::shard_order, std::vector<std::byte>(64)}}) {
    in_process network;
    const cluster_spec cluster = test::local_cluster(2, 2, network);
    std::optional<join_report> report;
    std::thread first([&] {
      server_type here(cluster, "ps", 0, {}, network);
      report = here.join(20s, 30s);
    });
    {
      server_type worker(cluster, "worker", 0, {}, network);
      server_type other(cluster, "worker", 1, {}, network);
      server_type liar(cluster, "ps", 1, {}, network);
      auto channel = worker.open_channel(worker.cluster().rank({"ps", 0}), detail::parameter_channel, 10s);
      ask(channel.stream, frame_kind::enroll,
          detail::enroll_message{training_terms(in_step, wait_for{30s}), 7, variables()}.bytes(), 0, 5s);
      auto lies = liar.open_channel(liar.cluster().rank({"ps", 0}), detail::decision_channel, 10s);
      try {
        ask(lies.stream, kind, bytes, 0, 300ms);
      } catch (const error&) {  // it closes the connection
      }
      std::this_thread::sleep_for(200ms);
    }
    first.join();
    BOOST_REQUIRE(report->interrupted);
    BOOST_TEST(contains(report->interrupted->what(), "/job:ps/task:1 broke the protocol"));
  }
}

// One parameter server writes shards, and the first does not.
BOOST_AUTO_TEST_CASE(parameter_servers_of_which_some_write_no_shards_end_in_words) {
  const std::string folder = "/tmp/weft-shards-of-one-" + std::to_string(::getpid());
  in_process network;
  const cluster_spec cluster = test::local_cluster(2, 1, network);
  std::string problem;
  std::vector<std::thread> threads;
  for (const int task : {0, 1})
    threads.emplace_back([&, task] {
      server_options options;
      if (task == 1) options.shards.folder = folder;
      server_type here(cluster, "ps", task, options, network);
      here.join(20s, 30s);
    });
  try {
    server_type here(cluster, "worker", 0, {}, network);
    client_type client(here, variables(), training_terms(in_step, wait_for{20s}), 7, 20s);
    client.initialise(values(0).in(), 10s);
    values now;
    client.push_pull(0, values(1).in(), now.out(), 10s);
  } catch (const error& thrown) {
    problem = thrown.what();
  }
  for (std::thread& each : threads) each.join();
  BOOST_TEST(contains(problem, "set server_options::shards on all parameter servers, or on none"), problem);
  std::filesystem::remove_all(folder);
}
