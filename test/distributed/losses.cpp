// SPDX-License-Identifier: BSL-1.0
// Workers that are lost: strategy x loss policy x fault, and what the others do. Workers and parameter servers are
// processes, and faults follow their progress, not the time. random_faults.cpp has all other moments, lost_servers.cpp
// the loss of parameter servers.
#include <signal.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/parameter/parameter_server.hpp>

#include "faulty_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;
using test::train;
using test::training;

namespace {

enum class fault {
  none,
  leaves,   // ends before step `at`, without finish()
  fails,    // the same, by an exception
  killed,   // by SIGKILL, once it has made `at` steps
  stopped,  // by SIGSTOP, once it has made `at` steps, until another worker has noticed
  stops,    // requests a stop before step `at`
};

enum class begins { at_once, when_noticed, when_steps_are_late };

/// What one process of a worker does. It begins when the worker's previous one has ended.
struct life {
  fault ends = fault::none;
  int at = 0;
  int after = 0;                  // begins when the chief is at this step, which waits for it
  begins when = begins::at_once;  // begins when all others have noticed the loss, or have missed a deadline
  std::optional<loss_policy> other_policy{};
};
using lives = std::map<int, std::vector<life>>;  // by worker; the other workers live once, without a fault

enum class values_are { undisturbed, alike, unchecked };

/// Parts that a text has, or, after a '!', does not have.
using parts = std::vector<std::string>;

struct row {
  std::string name;
  int ps, workers;
  training how;
  lives faults;
  std::map<int, parts> last;                    // the reports of the workers' last processes
  std::map<int, parts> first{};                 // and of their first
  parts servers{"lost updates: 0"}, leader{};   // the texts of all parameter servers, and of the first of them
  values_are values = values_are::undisturbed;  // of all workers that finish: those of a run without faults, or one
  std::function<void(const struct outcome&)> also{};
  int shards_every = 0;  // 0: parameter servers write none
  double seconds = 60;
};

struct outcome {
  std::vector<std::vector<std::string>> texts;  // of each process of each worker
  std::vector<std::string> servers;
  double end_of_stopped = 0;  // seconds after it continues

  const std::string& last(int worker) const { return texts[static_cast<std::size_t>(worker)].back(); }
};

outcome run(const row& r) {
  outcome out;
  const test::shared<test::progress> shared;
  test::progress& seen = *shared;
  std::vector<std::vector<life>> all(static_cast<std::size_t>(r.workers), {life{}});
  training how = r.how;
  for (const auto& [worker, its] : r.faults) {
    all[static_cast<std::size_t>(worker)] = its;
    for (std::size_t n = 0; n < its.size(); ++n)
      if (its[n].after) how.newcomers.push_back({its[n].after, worker, static_cast<int>(n) + 1});
  }
  const test::folder at;
  test::servers servers(r.ps, r.workers, r.shards_every ? shard_options{at.path, r.shards_every} : shard_options{}, 0);
  std::vector<std::vector<std::unique_ptr<test::process>>> processes(all.size());
  for (std::size_t k = 0; k < all.size(); ++k)
    for (const life& each : all[k]) {
      training its = how;
      its.fails = each.ends == fault::fails;
      if (its.fails || each.ends == fault::leaves) its.leaves_at = each.at;
      if (each.ends == fault::stops) its.stops_at = each.at;
      if (each.other_policy) its.on_loss = *each.other_policy;
      const auto body = [=, &servers, &seen] {
        return its.by(servers.cluster, static_cast<int>(k), its, seen).report();
      };
      processes[k].push_back(std::make_unique<test::process>(body, true));
    }
  const auto live = [&](std::size_t k) {
    const auto others = [&](const auto& holds) {
      std::ptrdiff_t count = 0;
      for (std::size_t other = 0; other < all.size(); ++other) count += other != k && holds(other);
      return count;
    };
    const auto all_others = [&](const auto& holds) { return others(holds) + 1 == r.workers; };
    for (std::size_t n = 0; n < all[k].size(); ++n) {
      const life& its = all[k][n];
      test::process& here = *processes[k][n];
      test::await("the beginning of a process", [&] {
        return (its.after == 0 || others([&](std::size_t o) { return seen.next[o] >= its.after; }) > 0) &&
               (its.when != begins::when_noticed || all_others([&](std::size_t o) { return seen.waits[o] > 0; })) &&
               (its.when != begins::when_steps_are_late || all_others([&](std::size_t o) { return seen.late[o] > 0; }));
      });
      here.begin();
      std::optional<std::chrono::steady_clock::time_point> continued;
      if (its.ends == fault::killed || its.ends == fault::stopped) {
        test::await("the steps before a fault",
                    [&] { return seen.starts[k] > static_cast<int>(n) && seen.made[k] >= its.at; });
        here.signal(its.ends == fault::killed ? SIGKILL : SIGSTOP);
      }
      if (its.ends == fault::stopped) {
        test::await("the others to notice", [&] {
          return others([&](std::size_t o) { return seen.waits[o] > 0 || seen.next[o] >= seen.next[k] + 10; }) > 0;
        });
        continued = std::chrono::steady_clock::now();
        here.signal(SIGCONT);
      }
      out.texts[k].push_back(here.text());
      if (continued) out.end_of_stopped = test::seconds_since(*continued);
    }
  };
  out.texts.resize(all.size());
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < all.size(); ++k)
    threads.emplace_back([&, k] {
      try {
        live(k);
      } catch (const std::exception& problem) {
        out.texts[k].push_back(std::string("test: ") + problem.what());
      }
    });
  for (std::thread& each : threads) each.join();
  for (int task = 0; task < r.ps; ++task) out.servers.push_back(servers.text(task));
  return out;
}

std::string bits_of(const std::string& text) {
  const std::size_t at = text.find(" bits ");
  return at == std::string::npos ? "no bits: " + text : text.substr(at);
}

std::int64_t number_in(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name + " ");
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + name.size() + 1);
}

/// The values of a run without faults whose workers would stop at a loss.
std::string undisturbed(const row& like) {
  static std::map<std::tuple<int, int, std::int64_t, bool, bool, std::size_t>, std::string> known;
  training how{.by = like.how.by, .steps = like.how.steps, .shares_memory = like.how.shares_memory};
  how.bucket_bytes = like.how.bucket_bytes;
  // take_over sums in an order of its own, with the same bits in shared memory and by messages.
  if (like.how.takes_over()) how.on_loss = like.how.on_loss, how.shares_memory = true;
  std::string& bits = known[{like.ps, like.workers, how.steps, how.takes_over(), how.shares_memory, how.bucket_bytes}];
  if (!bits.empty()) return bits;
  const outcome out = run({"reference", like.ps, like.workers, how, {}, {}});
  bits = bits_of(out.last(0));
  for (int k = 0; k < like.workers; ++k) {
    BOOST_TEST(bits_of(out.last(k)) == bits);
    BOOST_TEST(contains(out.last(k), " computed 0 "), out.last(k));
  }
  return bits;
}

void check_parts(const std::string& text, const parts& expected, const std::string& of) {
  for (const std::string& each : expected)
    BOOST_TEST(contains(text, each[0] == '!' ? each.substr(1) : each) == (each[0] != '!'),
               of << " says \"" << text << "\", expected \"" << each << '"');
}

void check(const row& r) {
  std::string bits = r.values == values_are::undisturbed ? undisturbed(r) : "";
  const auto begin = std::chrono::steady_clock::now();
  const outcome out = run(r);
  BOOST_TEST(test::seconds_since(begin) < r.seconds);
  for (int k = 0; k < r.workers && r.values != values_are::unchecked; ++k) {
    const auto its = r.faults.find(k);
    const fault end = its == r.faults.end() ? fault::none : its->second.back().ends;
    if (end != fault::none && end != fault::stops) continue;
    if (bits.empty()) bits = bits_of(out.last(k));
    BOOST_TEST(bits_of(out.last(k)) == bits, "worker " << k << " says " << out.last(k) << ", expected" << bits);
  }
  for (const auto& [k, expected] : r.last) check_parts(out.last(k), expected, "worker " + std::to_string(k));
  for (const auto& [k, expected] : r.first)
    check_parts(out.texts[static_cast<std::size_t>(k)][0], expected, "the first worker " + std::to_string(k));
  for (const std::string& each : out.servers) check_parts(each, r.servers, "a parameter server");
  if (r.ps) check_parts(out.servers[0], r.leader, "parameter server 0");
  if (r.also) r.also(out);
}

constexpr auto by_reduction = train<collective>;
constexpr auto by_servers = train<parameter_server<synchronous>>;

const loss_policy shrinks = wait_for{0ms}.then(loss_action::shrink),
                  takes_over = wait_for{0ms}.then(loss_action::take_over);

/// The table.
std::vector<row> rows() {
  std::vector<row> all;
  const auto add = [&](std::string name, int ps, int workers, training how, loss_policy policy, std::int64_t steps,
                       lives faults, std::map<int, parts> last = {}) -> row& {
    how.on_loss = policy;
    how.steps = steps;
    return all.emplace_back(row{std::move(name), ps, workers, how, std::move(faults), std::move(last)});
  };
  const auto unchecked = values_are::unchecked, alike = values_are::alike;
  const auto worker = [](int k) { return "/job:worker/task:" + std::to_string(k); };
  const auto killed = [](int at) { return life{fault::killed, at}; };
  const auto stops = [](int at) { return std::vector<life>{{fault::stops, at}}; };
  const auto leaves = [](int at, int after = 0) { return life{fault::leaves, at, after}; };
  const auto newcomer = [](int after) { return life{fault::none, 0, after}; };
  const training reduce{.by = by_reduction, .pace = 2ms}, serve{.by = by_servers, .pace = 2ms};
  training by_messages = reduce, slow = reduce;
  by_messages.shares_memory = false;
  slow.pace = 5ms;

  struct column {
    std::string name;
    int ps;
    training how;
  };
  for (const auto& [name, ps, how] : {column{"1_server_", 1, serve},
                                      {"2_servers_", 2, serve},
                                      {"shared_memory_", 0, reduce},
                                      {"messages_", 0, by_messages}}) {
    // ---- training ends, or continues without the lost worker ----
    row* r = &add(name + "ends", ps, 2, how, {}, 1000, {{1, {killed(10)}}},
                  {{0, {worker(1) + " has closed its connection"}}});
    r->values = unchecked;
    r->servers = {worker(1) + " has"};
    r = &add(name + "ends_when_nobody_has_come", ps, 2, how, wait_for{300ms}, 1000, {{1, {killed(10)}}},
             {{0,
               {ps ? "no process has taken its place within 300 ms"
                   : "no process has taken the place of /job:worker/task:1"}}});
    r->values = unchecked;
    r->servers = {"no process has taken its place within 300 ms"};
    for (const int victim : {0, 1}) {
      const std::string other = std::to_string(1 - victim);
      r = &add(name + "shrinks_without_worker_" + std::to_string(victim), ps, 2, how, shrinks, 60,
               {{victim, {killed(10)}}},
               {{1 - victim, {"first 0 made 60 global 60 ", ps ? "" : "view 2 of 1 worker: " + other + " chief 1 "}}});
      r->values = unchecked;
      r->leader = {"training continues with 1 of 2 workers: " + worker(victim) + " has"};
      r->seconds = 15;
    }
    // ---- the others compute what the lost worker would have ----
    const auto from = [&, &name = name, &ps = ps, &how = how](const char* what, lives faults,
                                                              std::map<int, parts> last = {}) -> row& {
      return add(name + what, ps, 3, how, takes_over, 12, std::move(faults), std::move(last));
    };
    from("takes_over_from_nobody", {}, {{0, {" computed 0 "}}, {1, {" computed 0 "}}, {2, {" computed 0 "}}});
    // The worker with the lowest index and the fewest replicas takes over. Local variables are as if it had computed
    // its own part alone.
    from("takes_over_from_1", {{1, {leaves(4)}}}, {{0, {" own 12 computed 8 "}}, {2, {" computed 0 "}}});
    from("takes_over_from_the_chief", {{0, {leaves(5)}}}, {{1, {" computed 7 "}}, {2, {" computed 0 "}}});
    // Worker 0 has taken over from 1 or 2, and takes over both parts of the other.
    from("takes_over_from_1_and_2", {{1, {leaves(7)}}, {2, {leaves(3)}}}, {{0, {" computed 10 "}}}).first = {
        {1, {" computed 4 "}}};
    from("takes_over_from_2_and_the_chief", {{0, {leaves(5)}}, {2, {leaves(2)}}}, {{1, {"!computed 0 "}}});
    from("takes_over_from_both_at_once", {{0, {leaves(6)}}, {1, {leaves(6)}}}, {{2, {" computed 12 "}}});
    if (name == "messages_") continue;
    from("gives_a_part_back", {{1, {leaves(3), newcomer(6)}}}).also = [](const outcome& out) {
      BOOST_TEST(number_in(out.last(1), "first") >= 6);
      BOOST_TEST(number_in(out.last(0), "computed") >= 3);
      BOOST_TEST(number_in(out.last(0), "computed") + 3 + number_in(out.last(1), "made") >= 12);
    };
    from("gives_parts_back_twice", {{1, {leaves(2), leaves(7, 4), newcomer(9)}}, {2, {leaves(5), newcomer(6)}}});
    // ---- all request a stop: they end with the same step, and the chief can save it ----
    r = &add(name + "stops_when_all_request_it", ps, 3, how, takes_over, 12,
             {{0, stops(4)}, {1, stops(4)}, {2, stops(4)}},
             {{0, {"made 5 global 5 "}}, {1, {"made 5 global 5 "}}, {2, {"made 5 global 5 "}}});
    r->values = alike;
    r->servers = {"!training goes on"};
  }

  // A silent worker may still train: of two that do not hear each other only the lower one continues.
  add("all_reduce_shrinks_without_a_stopped_worker", 0, 2, slow, shrinks, 200, {{1, {{fault::stopped, 10}}}},
      {{0, {"made 200 global 200"}}, {1, {"!made 200"}}})
      .values = unchecked;
  add("all_reduce_shrinks_and_a_worker_joins_between_two_steps", 0, 3, reduce, shrinks, 60,
      {{0, {killed(10), newcomer(40)}}},
      {{0, {"!first 0 ", "view 3 of 3 workers: 0, 1, 2 chief 1"}},
       {1, {"made 60 global 60 view 3 of 3 workers"}},
       {2, {"made 60 global 60 view 3 of 3 workers"}}})
      .values = alike;
  row* r = &add("all_reduce_shrinks_when_one_requests_a_stop", 0, 2, reduce, shrinks, 500, {{0, stops(20)}},
                {{1, {"made 500 global 500 view 2 of 1 worker: 1 chief 1"}}});
  r->values = unchecked;
  r->also = [](const outcome& out) {  // the requests take time to arrive
    const auto made = number_in(out.last(0), "made");
    BOOST_TEST((made >= 22 && made < 500), out.last(0));
  };
  add("all_reduce_stops_when_the_last_requests_it", 0, 2, reduce, shrinks, 60, {{0, stops(20)}, {1, stops(21)}},
      {{0, {"made 22 "}}, {1, {"made 22 "}}})
      .values = alike;

  // ---- another process takes the place of the lost one ----
  const std::string waits = "training waits up to 20 s for a replacement for ";
  for (const bool shared : {true, false})
    for (const int workers : {2, 3}) {
      const int victim = shared == (workers == 2) ? 0 : 1;
      const std::string count = std::to_string(workers);
      r = &add((shared ? "shared_memory_waits_for_worker_" : "messages_wait_for_worker_") + std::to_string(victim) +
                   "_of_" + count,
               0, workers, shared ? reduce : by_messages, wait_for{20s}, 50, {{victim, {killed(10), {}}}},
               {{victim, {"!first 0 "}}});
      if (!shared) r->how.bucket_bytes = 64;  // buckets that travel while the step is computed
      if (workers == 3) r->faults[victim][1].when = begins::when_noticed;
      for (int k = 0; k < workers; ++k) {
        if (k == victim) continue;
        r->last[k] = {"made 50 global 50 view 2 of " + count, "[training continues with step ",
                      "; view 2 of " + count + " workers: 0, 1"};
        if (workers == 3) r->last[k].push_back("[" + waits + worker(victim) + " (it has closed its connection");
      }
    }
  // Workers are not connected to each other: a server reports the loss to them.
  add("1_server_waits_for_a_killed_worker", 1, 2, serve, wait_for{20s}, 12,
      {{1, {killed(4), {.when = begins::when_noticed}}}},
      {{0,
        {" waits 2 [" + waits + worker(1) + " (it has closed its ", "as reported by /job:ps/task:0",
         "[training continues with step "}}})
      .servers = {waits + worker(1) + " (it has closed its ", "training continues with step ", "lost updates: 0"};
  // The stopped worker ends when it continues, and does not wait for a replacement of a live server.
  r = &add("1_server_waits_for_a_stopped_worker", 1, 2, serve, wait_for{20s}, 12, {{1, {{fault::stopped, 6}, {}}}},
           {{0, {" rollbacks 0 "}}});
  r->first = {{1,
               {"/job:ps/task:0 declared /job:worker/task:1 lost, which has sent no heartbeat for ",
                "start this worker again"}}};
  r->also = [](const outcome& out) { BOOST_TEST(out.end_of_stopped < 2); };
  r->shards_every = 5;
  r = &add("2_servers_wait_for_the_chief_that_fails", 2, 2, serve, wait_for{20s}, 12, {{0, {{fault::fails, 7}, {}}}},
           {{0, {"first 7 "}}});
  r->first = {{0, {"fails"}}};
  r->shards_every = 5;
  // A step that waits ends at its deadline, and continues when it is called again.
  for (const auto& [then, name] :
       {std::pair{loss_action::stop, "stop"}, {loss_action::shrink, "shrink"}, {loss_action::take_over, "take_over"}}) {
    const parts is_late{"made 50 global 50 view 2 of 3 workers",
                        " late: exchange: no replacement for /job:worker/task:1 has"};
    r = &add(std::string("all_reduce_keeps_deadlines_while_it_waits_to_") + name, 0, 3, reduce,
             wait_for{20s}.then(then), 50, {{1, {killed(10), {.when = begins::when_steps_are_late}}}},
             {{0, is_late}, {2, is_late}});
    r->how.step_within = 700ms;
    r->how.insists = true;
  }

  // ---- take-over from workers that are killed in any phase of a step ----
  for (const int victim : {0, 1, 2}) {
    r = &add("all_reduce_takes_over_from_killed_worker_" + std::to_string(victim), 0, 3,
             victim == 1 ? by_messages : reduce, takes_over, 50, {{victim, {killed(10)}}});
    for (int k = 0; k < 3; ++k)
      if (k != victim) r->last[k] = {"made 50 global 50 view 2 of 2 workers"};
  }
  const parts whole{"global 60 view 3 of 3 workers: 0, 1, 2"};
  add("all_reduce_gives_a_killed_worker_its_part_back", 0, 3, reduce, takes_over, 60, {{0, {killed(10), newcomer(40)}}},
      {{0, whole}, {1, whole}, {2, whole}});

  // ---- different policies are refused at once, and each worker reports whose differ and how ----
  int odd = 0;
  for (const loss_policy& policy :
       {loss_policy(wait_for{2s}), wait_for{1s}.then(loss_action::take_over), loss_policy{}}) {
    const char* const words[] = {"waits 2000 ms for a lost worker, then stops",
                                 "waits 1000 ms for a lost worker, then takes over its part",
                                 "stops when a worker is lost"};
    const parts refused{"have different collective::on_loss", worker(odd) + " " + words[odd],
                        " waits 1000 ms for a lost worker, then stops"};
    r = &add("all_reduce_refuses_the_policy_of_worker_" + std::to_string(odd), 0, 3, reduce, wait_for{1s}, 60,
             {{odd, {{.other_policy = policy}}}}, {{0, refused}, {1, refused}, {2, refused}});
    r->values = unchecked;
    r->seconds = 15;
    ++odd;
  }
  return all;
}

/// Each row is a test case of its name.
[[maybe_unused]] const bool rows_are_added = [] {
  for (const row& each : rows())
    boost::unit_test::framework::current_auto_test_suite().add(
        boost::unit_test::make_test_case([each] { check(each); }, each.name, __FILE__, __LINE__));
  return true;
}();

}  // namespace

BOOST_AUTO_TEST_CASE(a_replacement_that_comes_too_late_does_not_wait) {
  const cluster_spec cluster = test::local_cluster(0, 2);
  test::process first([=] {
    server here(cluster, "worker", 0);
    here.wait_ready(20s);
    here.set_participation(participation::finished);
    std::this_thread::sleep_for(500ms);
    return std::string();
  });
  const auto since = std::chrono::steady_clock::now();
  test::progress seen;
  const training how{.by = by_reduction, .on_loss = shrinks, .steps = 1};
  const std::string problem = how.by(cluster, 1, how, seen).problem;
  BOOST_TEST(contains(problem, "training ended without /job:worker/task:1: /job:worker/task:0 finished it"), problem);
  BOOST_TEST(test::seconds_since(since) < 10);
}

BOOST_AUTO_TEST_CASE(a_step_without_the_batches_of_others_is_refused) {
  const auto problems = test::run_tasks(1, 1, in_process{}, [&](basic_server<in_process>& here) {
    const test::trained_model m;
    replicated_session s(m.g, here, parameter_server<synchronous>{.on_loss = takes_over}, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x));
    const std::string refusal =
        test::failure(error_code::failed_precondition, [&] { step(test::batch_of({0, 1}, true), 20s); });
    test::require_says_in_task(refusal, "write step.run([&](replica r) { return std::tuple(");
    step.run([](replica r) { return test::batch_of(r, false); }, 20s);  // one feed needs no tuple
    step.run([](replica r) { return std::tuple(test::batch_of(r, false)); }, 20s);
    test::require_in_task(s.next_step() == 2, "the steps are made");
    s.finish(20s);
  });
  for (const std::string& each : problems) BOOST_TEST(each == "");
}

// ---- clients of two parameter servers, without a session ----

namespace {

using server_type = basic_server<in_process>;
using client_type = parameter_client;
using workers_of_step = std::vector<std::size_t>;

constexpr consistency_model in_steps{consistency::synchronous};

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

/// Two parameter servers on threads. The second one writes shards if it has a folder.
struct two_servers {
  in_process network;
  cluster_spec cluster;
  std::mutex mutex;
  std::vector<std::string> left_out;
  std::vector<std::pair<std::int64_t, workers_of_step>> steps[2];
  std::optional<join_report> reports[2];
  std::vector<std::thread> threads;

  explicit two_servers(int workers, const std::string& folder = {})
      : cluster(test::local_cluster(2, workers, network)) {
    for (int task = 0; task < 2; ++task)
      threads.emplace_back([=, this] {
        server_options options;
        if (task == 1) options.shards.folder = folder;
        options.on_left_out = [this](const error& why) {
          const std::lock_guard lock(mutex);
          left_out.push_back(why.what());
        };
        options.on_step = [=, this](std::int64_t step, const workers_of_step& its) {
          steps[task].emplace_back(step, its);
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

/// A worker's client does `work(client, now)`, where `now` has the variables. Returns what goes wrong.
template <class Work>
std::string as_worker(two_servers& all, int index, const training_terms& terms, values& now, Work work,
                      graph_identity graph = 7, std::chrono::milliseconds enrols_within = 20s) {
  try {
    server_type here(all.cluster, "worker", index, {}, all.network);
    client_type client(here, variables(), terms, graph, enrols_within);
    index == 0 ? client.initialise(values(0).in(), 20s) : client.initialise(20s);
    client.pull(now.out(), 20s);
    work(client);
    client.done(10s);
    return {};
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

/// Makes steps with this gradient.
auto pushes(values& now, float gradient, int steps = 2) {
  return [&now, gradient, steps](client_type& client) {
    for (int i = 0; i < steps; ++i) client.push_pull(client.next_step(), values(gradient).in(), now.out(), 20s);
  };
}

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

}  // namespace

// The gradient of worker 1 for step 0, which is 3, arrives at server 0 alone: no server uses half of it. That of the
// chief is 1.
BOOST_AUTO_TEST_CASE(gradients_that_came_to_one_server_alone) {
  struct half_step {
    loss_policy policy;
    bool is_replaced;  // by a process that sends the gradient again, to both
    float ends_with;
    workers_of_step of;
    const char *left_out, *problem;
  };
  const half_step table[] = {{wait_for{20s}, true, -4, {0, 1}, "", ""},
                             {wait_for{500ms}.then(loss_action::shrink),
                              false,
                              -2,
                              {0},
                              "training continues with 1 of 2 workers: /job:worker/task:1 has",
                              ""},
                             {wait_for{300ms}.then(loss_action::take_over),
                              false,
                              -4,
                              {0, 1},  // the chief computes it again
                              "workers, which compute the gradients of the lost one: /job:worker/task:1 has",
                              ""},
                             {wait_for{500ms}, false, 0, {}, "", "no process has taken its place within 500 ms"}};
  for (const half_step& each : table) {
    const training_terms terms(in_steps, each.policy);
    two_servers all(2);
    values now, its;
    std::uint32_t left_out = 0;
    std::vector<std::int64_t> computed;
    const auto take_over = [&](client_type& client) {
      for (std::int64_t step = 0; step < 2; ++step) {
        client.push(step, 0, values(1).in(), 20s);
        for (auto next = client.await_step(step, 20s); next.what == client_type::awaited_step::outcome::owed;
             next = client.await_step(step, 20s)) {
          test::require_in_task(next.replica == 1, "worker 1 is lost");
          computed.push_back(step);
          client.push(step, next.replica, values(3).in(), 20s);
        }
        test::require_in_task(client.pull_made(now.out(), 20s) == step + 1, "the step is made");
      }
    };
    std::string problem = "did not end";
    std::thread chief([&] {
      problem = as_worker(all, 0, terms, now, [&](client_type& client) {
        each.policy.then == loss_action::take_over ? take_over(client) : pushes(now, 1)(client);
        left_out = client.left_out();
      });
    });
    die_between_servers(all, terms, 3);
    if (each.is_replaced) {
      const auto sends_again = [&](client_type& client) {
        test::require_in_task(its.are(0) && client.next_step() == 0, "no step has been made");
        pushes(its, 3)(client);
      };
      BOOST_TEST(as_worker(all, 1, terms, its, sends_again) == "");
      BOOST_TEST(its.are(-4));
    }
    chief.join();
    all.join();
    std::vector<std::pair<std::int64_t, workers_of_step>> steps{{0, each.of}, {1, each.of}};
    if (*each.problem) {
      BOOST_TEST(contains(problem, "/job:worker/task:1 has"), problem);
      BOOST_TEST(contains(problem, each.problem), problem);
      steps.clear();
    } else {
      BOOST_TEST(problem == "");
      BOOST_TEST(now.are(each.ends_with));
    }
    for (const auto& made : all.steps) BOOST_TEST((made == steps));
    if (each.policy.then == loss_action::shrink) BOOST_TEST(left_out == 1u);
    if (each.policy.then == loss_action::take_over) BOOST_TEST((computed == std::vector<std::int64_t>{0, 1}));
    BOOST_TEST(all.left_out.size() == (*each.left_out ? 1u : 0u));
    for (const std::string& text : all.left_out) BOOST_TEST(contains(text, each.left_out), text);
    for (const auto& report : all.reports) {
      BOOST_TEST(report->interrupted.has_value() == (*each.problem != 0));
      if (report->interrupted) BOOST_TEST(contains(report->interrupted->what(), "no process has taken its place"));
    }
  }
}

// A process that trains something else takes the place of a lost worker. It is refused, and the others still wait for
// the right one.
BOOST_AUTO_TEST_CASE(a_wrong_replacement_ends_nothing_but_itself) {
  const training_terms terms(in_steps, wait_for{20s}), other(in_steps, wait_for{20s}.then(loss_action::shrink));
  two_servers all(2);
  values now, second;
  std::string problem;
  std::thread chief([&] { problem = as_worker(all, 0, terms, now, pushes(now, 1)); });
  die_between_servers(all, terms, 3);
  BOOST_TEST(contains(as_worker(all, 1, other, second, pushes(second, 3)),
                      "waits 20000 ms for a lost worker, then shrinks, but the first worker's is"));
  BOOST_TEST(contains(as_worker(all, 1, terms, second, pushes(second, 3), 8),
                      "/job:worker/task:1 does not train the same model"));
  BOOST_TEST(as_worker(all, 1, terms, second, pushes(second, 3)) == "");
  chief.join();
  all.join();
  BOOST_TEST(problem == "");
  BOOST_TEST(now.are(-4));
  BOOST_TEST(second.are(-4));
  for (const auto& each : all.reports) BOOST_TEST((!each->interrupted && each->lost.empty()));
}

// However many wrong ones come.
BOOST_AUTO_TEST_CASE(wrong_replacements_do_not_prolong_the_wait) {
  const training_terms terms(in_steps, wait_for{1500ms}), other(in_steps, wait_for{1s});
  two_servers all(2);
  values now, second;
  std::string problem;
  std::atomic<bool> ended{false};
  std::thread chief([&] {
    problem = as_worker(all, 0, terms, now, pushes(now, 1));
    ended = true;
  });
  die_between_servers(all, terms, 3);
  const auto begin = std::chrono::steady_clock::now();
  while (!ended && test::seconds_since(begin) < 20)
    if (as_worker(all, 1, other, second, pushes(second, 3), 7, 1s) != "") std::this_thread::sleep_for(50ms);
  BOOST_TEST(test::seconds_since(begin) < 4 + test::slack);
  chief.join();
  all.join();
  BOOST_TEST(contains(problem, "no process has taken its place within 1500 ms"));
}

BOOST_AUTO_TEST_CASE(workers_with_other_policies_and_impossible_terms_are_refused) {
  two_servers all(2);
  values now;
  const auto refusal = [&](int index, const training_terms& terms) {
    return as_worker(all, index, terms, now, [](client_type&) {});
  };
  BOOST_TEST(contains(refusal(0, training_terms(consistency_model{consistency::synchronous, 2})),
                      "the number of backup workers must be from 0 to 1 with 2 workers; it is 2"));
  BOOST_TEST(contains(refusal(0, training_terms(consistency::asynchronous, wait_for{1s}.then(loss_action::take_over))),
                      "requires parameter_server<synchronous> without backups; use stop or shrink"));
  for (const std::int64_t wait : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
                                  (std::int64_t{1} << 40) + 1, std::int64_t{9'000'000'000'000'000'000}})
    BOOST_TEST(contains(refusal(0, training_terms(in_steps, wait_for{std::chrono::milliseconds(wait)})),
                        "(on_loss) must be from 0 to 1099511627776 ms; it is " + std::to_string(wait)));
  std::string second;
  const std::string ended = as_worker(all, 0, training_terms(in_steps, wait_for{30s}), now, [&](client_type& client) {
    second = refusal(1, training_terms(in_steps, wait_for{40s}));
    pushes(now, 1, 1)(client);
  });
  BOOST_TEST(contains(ended, "/job:worker/task:1 was rejected"), ended);
  BOOST_TEST(!contains(ended, "no process has taken its place"), ended);  // nobody was waited for
  BOOST_TEST(contains(second, "synchronous; waits 40000 ms for a lost worker, then stops"));
  BOOST_TEST(contains(second, "synchronous; waits 30000 ms for a lost worker, then stops"));
}

// With a lead of two steps, the fast worker's third answer arrives when the slow one has made a step.
BOOST_AUTO_TEST_CASE(a_fast_worker_waits_for_a_slow_one_and_staleness_is_counted) {
  const training_terms terms(consistency_model{consistency::asynchronous, 0, 2});
  two_servers all(2);
  values now, its;
  std::string problem_of_slow;
  std::atomic<int> made{0};
  std::atomic<bool> pulled{false};
  bool waited = false;
  std::uint32_t staleness = 0;
  std::thread slow([&] {
    problem_of_slow = as_worker(all, 1, terms, its, [&](client_type& client) {
      pulled = true;
      test::await("two steps", [&] { return made == 2; });
      std::this_thread::sleep_for(300ms);
      waited = made == 2;
      pushes(its, 1, 1)(client);
      staleness = client.staleness();
    });
  });
  const std::string problem = as_worker(all, 0, terms, now, [&](client_type& client) {
    test::await("the slow worker", [&] { return pulled.load(); });
    for (int i = 0; i < 6; ++i, ++made) pushes(now, 1, 1)(client);
  });
  slow.join();
  all.join();
  BOOST_TEST(problem == "");
  BOOST_TEST(problem_of_slow == "");
  BOOST_TEST(now.are(-7));
  BOOST_TEST(waited);
  BOOST_TEST(staleness == 3u);  // three updates of the other, the third of which waited for its answer
}

// A task in the place of parameter server 1 that lies to parameter server 0.
BOOST_AUTO_TEST_CASE(a_parameter_server_that_lies_ends_training_in_words) {
  detail::held_message few{0, 0, {0}};
  detail::held_message negative{-1, 0, {0, 0}};
  for (const auto& [kind, bytes] : {std::pair{frame_kind::held, few.bytes()},
                                    {frame_kind::held, negative.bytes()},
                                    {frame_kind::decision, detail::decision_message{0, 0, {0, 1}}.bytes()},
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
          detail::enroll_message{training_terms(in_steps, wait_for{30s}), 7, variables()}.bytes(), 0, 5s);
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

BOOST_AUTO_TEST_CASE(parameter_servers_of_which_some_write_no_shards_end_in_words) {
  const test::folder at;
  two_servers all(1, at.path);
  values now;
  const std::string problem = as_worker(all, 0, training_terms(in_steps, wait_for{20s}), now, pushes(now, 1, 1));
  all.join();
  BOOST_TEST(contains(problem, "set server_options::shards on all parameter servers, or on none"), problem);
}
