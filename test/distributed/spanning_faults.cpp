// SPDX-License-Identifier: BSL-1.0
// Faults at random under steps that span tasks: programs at random with random pins on 1 to 4 tasks, which are killed,
// cut off, stopped and started again at moments that follow from a seed, in virtual time (see simulation.hpp). A step
// yields the bits of one session, or fails in time with an error that names a task which really failed; once all tasks
// are back, the session that asks for steps gets all of them.
//
//   WEFT_RANDOM_SECONDS=3600 WEFT_RANDOM_FROM=1000000 test_distributed_spanning_faults      goes on with other seeds
//   WEFT_RANDOM_FROM=1234 WEFT_RANDOM_COUNT=1 test_distributed_spanning_faults              tells of one
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>

#include "local_cluster.hpp"
#include "pinned_programs.hpp"
#include "simulation.hpp"
#include "spanned_model.hpp"

using namespace weft;
using namespace std::chrono_literals;
using namespace test;
using std::chrono::milliseconds;

namespace {

constexpr int steps = 4;
constexpr milliseconds connect_timeout = 6s;
constexpr milliseconds reaction = 8s;  // a failed call takes at most so long

enum class kind { kill, cut_off, stop };

struct fault {
  kind what{};
  int rank = 0;
  milliseconds at{}, lasts{};             // how long a stop lasts
  std::optional<milliseconds> restart{};  // so long after it
};

struct schedule {
  unsigned seed = 0;
  int tasks = 1, asks = 0;    // the task whose session asks for the steps
  std::optional<int> others;  // a task whose session asks for steps of its own
  std::chrono::microseconds latency{};
  std::size_t capacity = 0;
  std::vector<fault> faults;

  explicit schedule(unsigned s) : seed(s), tasks(1 + static_cast<int>(s % 4)) {
    std::mt19937_64 random(s);
    const auto below = [&](auto n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
    asks = below(tasks);
    if (below(3) == 0) others = below(tasks);
    latency = std::chrono::microseconds(below(4) == 0 ? 20'000 : 1'500);
    capacity = below(4) == 0 ? 4096 : std::size_t{64} << 10;
    for (int n = below(4) == 0 ? 0 : 1 + below(3); n > 0; --n) {
      fault f{.what = static_cast<kind>(below(3)),
              .rank = below(tasks),
              .at = milliseconds(below(below(3) == 0 ? 2000 : 500))};
      if (f.rank == asks && below(4) != 0) continue;  // there is more to see if it lives
      if (f.what == kind::stop) f.lasts = milliseconds(below(2) == 0 ? below(1000) : below(6000));
      if (f.what != kind::stop && below(3) != 0) f.restart = milliseconds(below(3) == 0 ? 0 : below(2500));
      faults.push_back(f);
    }
    std::sort(faults.begin(), faults.end(), [](const fault& a, const fault& b) { return a.at < b.at; });
  }

  std::string text() const {
    static constexpr const char* words[] = {"kill", "cut off", "stop"};
    std::string all = "seed " + std::to_string(seed) + ": " + std::to_string(tasks) + " tasks, task " +
                      std::to_string(asks) + " asks for steps" +
                      (others ? ", and task " + std::to_string(*others) + " too" : "") + ", up to " +
                      std::to_string(latency.count()) + " us to travel\n";
    for (const fault& f : faults) {
      all += "  " + std::to_string(f.at.count()) + " ms: " + words[static_cast<int>(f.what)] + " task " +
             std::to_string(f.rank);
      if (f.what == kind::stop) all += " for " + std::to_string(f.lasts.count()) + " ms";
      if (f.restart) all += ", start it again " + std::to_string(f.restart->count()) + " ms later";
      all += "\n";
    }
    return all;
  }
};

/// The bits that one session yields.
struct expected_steps {
  std::vector<std::vector<value_of>> fetched;
  // Before each step, and after the last one; in the graph's order, for nodes of graphs with other pins have other
  // numbers.
  std::vector<std::vector<value_of>> variables;

  expected_steps(const random_program& p, unsigned tasks) {
    const pinned one(p, tasks, [](int t) { return device_spec(cpu{t}); });
    planned right(one.w.g, one.fetches, one.targets, one.fed, {"one session", static_cast<int>(tasks), 1});
    right.begin(one.variables);
    const auto note = [&] {
      std::vector<value_of> all;
      right.variables([&](std::uint32_t, const value_of& x) { all.push_back(x); });
      variables.push_back(std::move(all));
    };
    note();
    for (int n = 0; n < steps; ++n) {
      right.in().set_step_number(n);
      fetched.push_back(right.run());
      note();
    }
  }
};

using server_type = basic_server<simulation::network>;

struct life {
  simulation::process process;
  server_type* server = nullptr;
  int rank = 0;
  bool was_killed = false, was_cut_off = false;
};

/// A call of the session that asks for steps which has failed, and how long it took.
struct failed_call {
  milliseconds at{}, took{};
  std::string said;
};

struct outcome {
  bool over = true, has_all = false;
  std::optional<std::string> wrong;  // bits
  std::string end;                   // what ended the task that asks for steps, but for its death
  std::vector<failed_call> failed;
  milliseconds took{};
};

class run {
 public:
  run(const schedule& plan, const pinned& program, const expected_steps& right)
      : plan_(plan),
        program_(program),
        right_(right),
        world_({plan.seed, plan.latency, plan.capacity}),
        began_(world_.now()),
        newest_(static_cast<std::size_t>(plan.tasks)) {
    std::string addresses;
    for (int t = 0; t < plan.tasks; ++t) addresses += (t ? ",127.0.0.1:" : "127.0.0.1:") + std::to_string(3000 + t);
    cluster_ = cluster_spec{{"worker", addresses}};
    for (std::uint32_t n = 0; n < program.w.g.size(); ++n)
      if (is_operation<variable_op>(program.w.g[n].def.op)) variables_.push_back(n);
    BOOST_REQUIRE_EQUAL(variables_.size(), right.variables[0].size());
  }

  outcome result() {
    for (int t = 0; t < plan_.tasks; ++t) start(t);
    for (const fault& each : plan_.faults) at(each.at, [this, each] { inflict(each); });
    while (since_beginning() < longest) {
      while (!agenda_.empty() && agenda_.begin()->first <= since_beginning()) {
        const auto what = agenda_.begin()->second;
        agenda_.erase(agenda_.begin());
        what();
      }
      if (of(plan_.asks).process.has_ended()) is_over_ = true;
      if (is_over_ && all_ended()) break;
      world_.sleep(agenda_.empty() ? milliseconds(20)
                                   : std::min(milliseconds(20), agenda_.begin()->first - since_beginning() + 1ms));
    }
    out_.over = all_ended();
    for (auto& each : lives_)
      if (!each->process.has_ended()) world_.kill(each->process, false);
    while (!all_ended()) world_.sleep(20ms);
    for (auto& each : lives_) each->process.thread.join();
    out_.took = since_beginning();
    return std::move(out_);
  }

 private:
  static constexpr milliseconds longest = 200s;

  milliseconds since_beginning() const { return std::chrono::duration_cast<milliseconds>(world_.now() - began_); }
  void at(milliseconds when, std::function<void()> what) { agenda_.emplace(when, std::move(what)); }
  life& of(int rank) { return *newest_[static_cast<std::size_t>(rank)]; }
  bool all_ended() const {
    return std::all_of(lives_.begin(), lives_.end(), [](const auto& each) { return each->process.has_ended(); });
  }

  void start(int rank) {
    life*& place = newest_[static_cast<std::size_t>(rank)];
    const bool is_first = place == nullptr;
    if (place && place->was_cut_off) world_.restarted(place->process);
    life& one = *lives_.emplace_back(std::make_unique<life>());
    place = &one;
    one.rank = rank;
    world_.start(one.process, [this, &one, is_first] {
      try {
        live(one, is_first);
      } catch (const std::exception& problem) {
        if (one.rank == plan_.asks) out_.end = problem.what();
      }
    });
  }

  void live(life& one, bool is_first) {
    server_options options;
    options.waiting = wait_policy{};
    server_type here(cluster_, "worker", one.rank, options, simulation::network(world_));
    const simulation::serving known(world_, one.process, here, one.server);
    graph_service<server_type> service(
        here, program_.w.g, {.session = {.threads = 1}, .step_timeout = 60s, .connect_timeout = connect_timeout});
    if (is_first && one.rank == plan_.asks) {
      ask_for_steps(service);
      is_over_ = true;
    } else if (is_first && plan_.others == one.rank) {
      try {
        ask_for_others(service);
      } catch (const error&) {  // no session without all tasks
      }
    }
    while (!is_over_) detail::sleep(20ms);
  }

  plan::step_request request(bool writes) const {
    plan::step_request r;
    r.fetches = program_.fetches;
    if (writes)
      for (const std::uint32_t t : program_.targets) r.targets.push_back(t);
    for (const auto& [v, x] : program_.fed) r.feeds.push_back({v.first, v.second});
    return r;
  }

  /// All steps in turn, each again until it succeeds, from the variables that it is to begin with; then the variables.
  void ask_for_steps(graph_service<server_type>& service) {
    const milliseconds give_up = since_beginning() + 30s;
    std::optional<session> s;
    std::optional<prepared_step> step;
    std::vector<value_of> found;
    for (const value& f : program_.fetches) found.push_back({{}, program_.w.g.info(f).type, {}});
    std::vector<plan::fed_value> fed;
    for (const auto& [v, x] : program_.fed) fed.push_back({x.elements.data(), x.extents});
    fed.push_back({});
    bool sets_variables = true;
    for (std::size_t n = 0; !out_.wrong && !out_.has_all;) {
      const milliseconds began = since_beginning();
      if (began > give_up) return;
      try {
        if (!step) {
          s.reset();
          s.emplace(program_.w.g, session_options{.threads = 1, .target = service.target(0)});
          step.emplace(*s, request(true));
        }
        if (std::exchange(sets_variables, false))
          for (std::size_t k = 0; k < variables_.size(); ++k)
            s->write_variable(variables_[k], right_.variables[n][k].elements.data());
        if (n == steps) {
          compare_variables(*s);
          out_.has_all = true;
          continue;
        }
        s->set_step_number(static_cast<std::int64_t>(n));
        step->run(fed.data(), [&](std::size_t i, const shape& extents) -> void* {
          found[i].extents = extents;
          found[i].elements.assign(extents.elements(), 0);
          return found[i].elements.data();
        });
        compare(n, found);
        ++n;
        detail::sleep(milliseconds(world_.draw(100)));
      } catch (const error& problem) {
        if (out_.failed.size() < 2000)
          out_.failed.push_back({since_beginning(), since_beginning() - began, problem.what()});
        sets_variables = true;
        n = std::min<std::size_t>(n, steps - 1);
        detail::sleep(50ms);
      }
    }
  }
  void compare_variables(session& s) {
    for (std::size_t k = 0; k < variables_.size() && !out_.wrong; ++k) {
      const value_of& x = right_.variables.back()[k];
      value_of here{x.extents, x.type, std::vector<double>(x.elements.size())};
      s.read_variable(variables_[k], here.elements.data());
      out_.wrong = same("the variable " + program_.w.g[variables_[k]].name, here, x);
    }
  }
  void compare(std::size_t n, const std::vector<value_of>& found) {
    for (std::size_t i = 0; i < found.size() && !out_.wrong; ++i)
      out_.wrong = same("step " + std::to_string(n) + ": " + program_.w.g[program_.fetches[i].node].name, found[i],
                        right_.fetched[n][i]);
  }

  /// Steps that read the same variables at whatever moment, until the end.
  void ask_for_others(graph_service<server_type>& service) {
    session s(program_.w.g, {.threads = 1, .target = service.target(0)});
    plan::step_request r;
    for (const std::uint32_t v : variables_) r.fetches.push_back({v, 0});
    prepared_step step(s, r);
    std::vector<double> nowhere(4096);
    const plan::fed_value none{};
    while (!is_over_) try {
        step.run(&none, [&](std::size_t, const shape&) -> void* { return nowhere.data(); });
        detail::sleep(milliseconds(world_.draw(20)));
      } catch (const error&) {  // variables without values among them
        detail::sleep(50ms);
      }
  }

  void inflict(const fault& what) {
    life& whom = of(what.rank);
    if (is_over_ || whom.process.has_ended() || whom.was_killed || whom.was_cut_off) return;
    // The others have some time to notice.
    if (what.rank == plan_.asks && what.what != kind::stop) at(since_beginning() + 5s, [this] { is_over_ = true; });
    switch (what.what) {
      case kind::kill:
        whom.was_killed = true;
        world_.kill(whom.process, false);
        break;
      case kind::cut_off:
        whom.was_cut_off = true;
        world_.kill(whom.process, true);
        break;
      case kind::stop:
        if (whom.process.stopped) return;
        world_.stop(whom.process);
        at(since_beginning() + what.lasts, [this, &whom] {
          if (!whom.was_killed && !whom.was_cut_off) world_.go_on(whom.process);
        });
        return;
    }
    if (what.restart)
      at(since_beginning() + *what.restart, [this, what] {
        if (!is_over_) start(what.rank);
      });
  }

  const schedule& plan_;
  const pinned& program_;
  const expected_steps& right_;
  std::vector<std::uint32_t> variables_;
  simulation world_;
  cluster_spec cluster_;
  simulation::time_point began_;
  std::vector<life*> newest_;
  std::vector<std::unique_ptr<life>> lives_;
  std::multimap<milliseconds, std::function<void()>> agenda_;
  bool is_over_ = false;
  outcome out_;
};

verdict judge(const schedule& plan, const outcome& out) {
  if (!out.over) return "somebody never came to an end";
  if (out.wrong) return "wrong: " + *out.wrong;
  bool asking_is_hit = false, all_come_back = true;
  for (const fault& f : plan.faults) {
    asking_is_hit |= f.rank == plan.asks;
    all_come_back &= f.what == kind::stop ? f.lasts < 1s : f.restart.has_value();
  }
  for (const failed_call& each : out.failed) {
    bool names_a_victim = false;
    for (const fault& f : plan.faults)
      names_a_victim |=
          f.at <= each.at &&
          (each.said.find("/job:worker/task:" + std::to_string(f.rank)) != std::string::npos || f.rank == plan.asks);
    if (!names_a_victim) return "after " + std::to_string(each.at.count()) + " ms: " + each.said;
    if (each.took > reaction && !asking_is_hit)
      return "failed after " + std::to_string(each.took.count()) + " ms: " + each.said;
  }
  if (asking_is_hit) return {};
  if (all_come_back && !out.has_all) return "did not get all steps: " + out.end;
  return {};
}

verdict verdict_of(unsigned seed, std::string* told = nullptr) {
  const schedule plan(seed);
  try {
    const random_program p = pinned_program(seed, 3, 8);
    const auto tasks = static_cast<unsigned>(plan.tasks);
    const expected_steps right(p, tasks);
    const pinned many(p, tasks, worker);
    const outcome out = run(plan, many, right).result();
    if (told) {
      *told = std::to_string(out.took.count()) + " ms" + (out.has_all ? ", all steps" : "") + "\n";
      for (const failed_call& each : out.failed)
        *told += "  " + std::to_string(each.at.count()) + " ms, for " + std::to_string(each.took.count()) +
                 " ms: " + each.said + "\n";
    }
    return judge(plan, out);
  } catch (const error& e) {
    // The one order that a step cannot have; where it is made of two writes and a read between them.
    if (std::strstr(e.what(), "after a write and runs after another write")) return {};
    return std::string("throws ") + e.what();
  }
}

/// Runs steps on three tasks, from a session of task `asks`, or of a client outside if that is 3. Returns the virtual
/// time of the slowest step in units of the network's longest latency.
double slowest_step(int asks, unsigned seed) {
  constexpr std::chrono::microseconds latency{1000};
  const model m(true);
  simulation world({seed, latency, std::size_t{64} << 10});
  const cluster_spec cluster{{"worker", "127.0.0.1:3000,127.0.0.1:3001,127.0.0.1:3002"}};
  bool is_over = false;
  deadline::duration slowest{};
  std::string failed;
  const auto ask = [&](session_target target) {
    session s(m.g, {.threads = 1, .target = target});
    auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
    step(xs, ys);  // connects, and registers the step
    for (int n = 0; n < 40; ++n) {
      const auto began = world.now();
      step(xs, ys);
      slowest = std::max(slowest, world.now() - began);
    }
  };
  const auto guarded = [&](auto what) {
    try {
      what();
    } catch (const std::exception& problem) {
      failed = problem.what();
      is_over = true;
    }
  };
  std::vector<std::unique_ptr<life>> lives;
  for (int rank = 0; rank < 3; ++rank) {
    life& one = *lives.emplace_back(std::make_unique<life>());
    world.start(one.process, [&, rank] {
      guarded([&] {
        server_options options;
        options.waiting = wait_policy{};
        server_type here(cluster, "worker", rank, options, simulation::network(world));
        const simulation::serving known(world, one.process, here, one.server);
        graph_service<server_type> service(here, m.g, {.session = {.threads = 1}, .connect_timeout = connect_timeout});
        if (rank == asks) {
          ask(service.target(0));
          is_over = true;
        }
        while (!is_over) detail::sleep(20ms);
      });
    });
  }
  simulation::process outside;
  if (asks == 3)
    world.start(outside, [&] {
      guarded([&] {
        graph_client client("weft://127.0.0.1:3000", {}, simulation::network(world));
        ask(client.target());
        is_over = true;
      });
    });
  const auto has_ended = [&] {
    return std::all_of(lives.begin(), lives.end(), [](const auto& each) { return each->process.has_ended(); }) &&
           (asks != 3 || outside.has_ended());
  };
  while (!has_ended()) world.sleep(20ms);
  for (auto& each : lives) each->process.thread.join();
  if (asks == 3) outside.thread.join();
  BOOST_TEST(failed == "");
  return std::chrono::duration<double>(slowest) / std::chrono::duration<double>(latency);
}

}  // namespace

// A request that one thread of a task hands to another wakes it: otherwise it waits for the end of a slice of 50 ms. In
// virtual time a step takes as long as its messages travel: at most ten of them, one after the other, and now and then
// a thread is a few milliseconds late to receive.
BOOST_AUTO_TEST_CASE(steps_wait_for_messages_alone) {
  for (const int asks : {0, 1, 2, 3})
    for (unsigned seed = 1; seed <= 10; ++seed) {
      const double slowest = slowest_step(asks, seed);
      BOOST_TEST(slowest < 20, "asked for by " << asks << ", seed " << seed << ": " << slowest << " ms");
    }
}

// The first task passed a run on to a process that had ended already (938), and ended before it passed one on (422):
// the client waited for tasks that had never heard of the run.
BOOST_AUTO_TEST_CASE(a_run_that_never_reached_a_task_fails_at_once) {
  for (const unsigned seed : {422u, 938u}) {
    std::string told;
    if (const verdict bad = verdict_of(seed, &told)) BOOST_ERROR(schedule(seed).text() << *bad << "\n" << told);
  }
}

BOOST_AUTO_TEST_CASE(steps_survive_faults_of_their_tasks) {
  const char* const seconds = std::getenv("WEFT_RANDOM_SECONDS");
  const char* const from = std::getenv("WEFT_RANDOM_FROM");
  const char* const count = std::getenv("WEFT_RANDOM_COUNT");
  const auto began = std::chrono::steady_clock::now();
  const auto first = static_cast<unsigned>(from ? std::atoll(from) : 0);
  const auto most = static_cast<unsigned>(count ? std::atoll(count) : slow ? 40 : 250);
  unsigned seed = first;
  int failures = 0;
  for (; seed - first < most || (seconds && seconds_since(began) < std::atof(seconds)); ++seed) {
    std::string told;
    if (const verdict bad = verdict_of(seed, &told)) {
      BOOST_ERROR(schedule(seed).text() << *bad << "\n" << told);
      if (++failures == 8) return;
    } else if (most == 1) {
      std::printf("%s%s", schedule(seed).text().c_str(), told.c_str());
    }
  }
  if (seconds || count) std::printf("%u seeds in %.1f s\n", seed - first, seconds_since(began));
}
