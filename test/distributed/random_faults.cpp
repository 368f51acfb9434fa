// SPDX-License-Identifier: BSL-1.0
// Faults at random: tasks of every strategy are killed, cut off, stopped and continued, terminated and started again at
// moments that follow from a seed, in virtual time (see simulation.hpp). A task that survives ends with the right
// result, or in time with an error that names a task which really failed, and nothing stays. A seed that fails is
// printed with those of its faults that are needed for it.
//
//   WEFT_RANDOM_SECONDS=3600 WEFT_RANDOM_FROM=1000000 test_distributed_random_faults      goes on with other seeds
//   WEFT_RANDOM_FROM=1234 WEFT_RANDOM_COUNT=1 test_distributed_random_faults              tells of one
#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/training/exchanges.hpp>
#include <weft/train/clipping.hpp>
#include <weft/train/moving_average.hpp>

#include "local_cluster.hpp"
#include "sanitized.hpp"
#include "simulation.hpp"

using namespace weft;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using test::contains;
using test::simulation;

namespace {

// ---- what is trained ----

using batch = dims<dyn<"batch">>;

struct model {
  graph g{3};
  node<float, dims<dyn<"batch">, 6>> x = placeholder<float, dims<dyn<"batch">, 6>>(g, "x");
  node<std::int32_t, batch> y = placeholder<std::int32_t, batch>(g, "y");
  variable_node<float, dims<6, 5>> w1;
  variable_node<float, dims<5, 3>> w2;
  node<float> loss;
  effect train;
  std::optional<moving_averages> averages;

  /// `clips`: all gradients by their global norm, which several parameter servers find together. Moving averages follow
  /// the variables then.
  explicit model(bool clips)
      : w1(variable<float, dims<6, 5>>(g, "w1", init::glorot_uniform{})),
        w2(variable<float, dims<5, 3>>(g, "w2", init::glorot_uniform{})),
        loss(let(mean(softmax_cross_entropy(matmul(tanh(matmul(x, w1)), w2), y)))),
        train(clips ? apply_gradients(gradient_descent{.learning_rate = 0.5},
                                      clip_by_global_norm(compute_gradients(loss, w1, w2), most_norm))
                    : gradient_descent{.learning_rate = 0.5}.minimize(loss)) {
    if (!clips) return;
    averages = exponential_moving_average{.decay = decay}.apply(train);
    train = *averages;
  }

  static constexpr double most_norm = 0.25, decay = 0.75;

  std::vector<float> values(session& s) const {
    std::vector<float> all;
    std::vector<std::uint32_t> nodes{w1.id().node, w2.id().node};
    if (averages)
      for (const std::uint32_t n : {averages->average(w1).id().node, averages->average(w2).id().node})
        nodes.push_back(n);
    for (const std::uint32_t n : nodes) {
      const auto* data = reinterpret_cast<const float*>(s.state_of(n).data());
      all.insert(all.end(), data, data + s.variable_info(n).extents.elements());
    }
    return all;
  }
};

// The last three survive the loss of workers in all-reduce: they wait for a process that takes the place, go on
// without, or compute what it would.
enum class strategy {
  synchronous,
  asynchronous,
  collective,
  with_backup,
  bounded_staleness,
  waiting,
  shrinking,
  taking_over
};

bool survives_losses(strategy how) {
  return how == strategy::waiting || how == strategy::shrinking || how == strategy::taking_over;
}
bool is_collective(strategy how) { return how == strategy::collective || survives_losses(how); }
constexpr milliseconds wait_for_place{5000};

/// The settings that all tasks of a run have in common.
struct settings {
  strategy how{};
  int ps = 0, workers = 2, steps = 8;
  std::optional<int> min_workers{};
  loss_policy on_loss{};  // of parameter servers
  shard_options shards{};
  bool clips = false;
  milliseconds wait = wait_for_place;  // of the workers that survive losses in all-reduce
  milliseconds set_up{8s}, step{20s}, finish{20s};

  int tasks() const { return ps + workers; }
};

/// The outcome of one life of a worker.
struct record {
  bool began = false;  // its session was made
  bool shares_memory = false;
  int begun = 0, made = 0;  // steps
  int updates = 0;          // those made of a batch that is not empty
  bool finished = false;
  std::int64_t global_step = 0, stale = 0;
  std::int64_t first = 0;  // the step that it has begun with
  std::int64_t next = 0;   // the one after its last
  int lost_replicas = 0, most_stale = 0;
  int computed = 0;           // parts of others
  int rollbacks = 0;          // that were announced
  std::int64_t repeated = 0;  // steps that they took back
  std::int64_t lost_updates = 0;
  bool went_back_silently = false;
  std::vector<float> values;
  std::vector<training_view> views;
  std::atomic<bool> fail{false};       // it is to end with an error of its own
  std::atomic<bool> signalled{false};  // it has received SIGTERM, and leaves as a supervised run does
};

/// Whether this process has mapped memory that tasks share.
bool maps_segments() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (contains(line, "/memfd:weft")) return true;
  return false;
}

/// The names in /dev/shm, without the folders in which tests that run at the same time write their shards.
std::set<std::string> names_in_memory() {
  std::set<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm"))
    if (const std::string name = each.path().filename(); !name.starts_with("weft-shards-")) names.insert(name);
  return names;
}

/// How many rows a worker's batch has: none in some steps, and nobody's has any in the fourth.
std::int64_t rows_of(int step, int worker) { return step == 3 || (step + 2 * worker) % 5 == 0 ? 0 : 4; }

struct examples {
  tensor<float, dims<dyn<"batch">, 6>> x;
  tensor<std::int32_t, batch> y;
};

/// The batch of one step of a worker.
examples batch_of(int step, int worker) {
  const std::int64_t rows = rows_of(step, worker);
  examples all{tensor<float, dims<dyn<"batch">, 6>>(shape(rows, 6)), tensor<std::int32_t, batch>(shape{rows})};
  const random_stream data(11, static_cast<std::uint64_t>(step * 16 + worker));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < 6; ++c)
      all.x(r, c) = static_cast<float>(data.normal(static_cast<std::uint64_t>(r * 8 + c)));
    all.y(r) = static_cast<std::int32_t>(data.uniform(static_cast<std::uint64_t>(r * 8 + 7)) * 3);
  }
  return all;
}

template <class Strategy, transport T>
void train(basic_server<T>& here, const settings& how, record& of, std::uint64_t seed, Strategy trains = {}) {
  std::mt19937_64 random(seed);
  const model m(how.clips);
  if constexpr (!std::is_same_v<Strategy, collective>)
    if constexpr (requires { trains.on_loss; }) trains.on_loss = how.on_loss;
  if constexpr (requires { trains.on_rollback; })
    trains.on_rollback = [&](std::int64_t before, std::int64_t to) {
      ++of.rollbacks;
      of.repeated += before - to;
    };
  replicated_session s(m.g, here, trains, {.threads = 1}, how.set_up);
  of.began = true;
  of.first = s.next_step();
  const auto note_view = [&] {
    if constexpr (requires { s.view(); })
      if (of.views.empty() || of.views.back().epoch != s.view().epoch) of.views.push_back(s.view());
  };
  note_view();
  of.shares_memory = maps_segments();
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  const auto insist = [&](auto call) {  // past a deadline an update goes on
    for (int more = 0;;) try {
        return call(more > 0);
      } catch (const error& problem) {
        if (problem.code() != error_code::deadline_exceeded || ++more * how.step > 20s) throw;
      }
  };
  // Where training survives a loss, the number of the step says which batch it is; otherwise each life has its own.
  const bool tolerates = how.on_loss != loss_policy{} || how.how == strategy::with_backup || survives_losses(how.how);
  const auto finish = [&] {  // false: a server was restored meanwhile
    try {
      s.finish(how.finish);
      return true;
    } catch (const error& problem) {
      if (problem.code() != error_code::aborted || s.next_step() >= how.steps) throw;
      return false;
    }
  };
  const auto stops = [&] {
    if (!of.signalled) return false;
    if (s.keeps_in_step) s.request_stop();
    return !s.keeps_in_step || s.all_stop();
  };
  for (int i = 0, next;; ++i) {
    if (stops()) return here.set_failure(error(error_code::cancelled, "", "stopped by SIGTERM"));
    next = tolerates ? static_cast<int>(s.next_step()) : i;
    if (next >= how.steps) {
      if (finish()) break;
      continue;
    }
    const int rollbacks = of.rollbacks;
    detail::sleep(milliseconds(random() % 60));
    if (of.fail) throw std::runtime_error("no images");
    const auto [x, y] = batch_of(next, here.index());
    ++of.begun;
    insist([&, &x = x, &y = y](bool again) {
      if (how.on_loss.then == loss_action::take_over || how.how == strategy::taking_over)
        step.run(
            [&](replica r) {
              of.computed += r.index != here.index();
              auto [images, labels] = batch_of(static_cast<int>(r.step), r.index);
              return std::tuple(std::move(images), std::move(labels));
            },
            how.step);
      else
        again ? step.exchange(how.step) : step(x, y, how.step);
    });
    ++of.made;
    of.went_back_silently |= tolerates && s.next_step() <= next && of.rollbacks == rollbacks;
    of.updates += rows_of(next, here.index()) > 0;
    of.global_step = s.global_step();
    if constexpr (requires { s.stale_gradients(); }) {
      of.stale = s.stale_gradients();
      of.lost_replicas = s.lost_replicas();
      of.most_stale = static_cast<int>(s.staleness().size());
      of.lost_updates = s.lost_updates();
    }
    note_view();
  }
  of.values = m.values(s.local());
  of.next = s.next_step();
  of.finished = true;
}

template <transport T>
void train(basic_server<T>& here, const settings& how, record& of, std::uint64_t seed) {
  switch (how.how) {
    case strategy::synchronous:
      return train<parameter_server<synchronous>>(here, how, of, seed);
    case strategy::asynchronous:
      return train<parameter_server<asynchronous>>(here, how, of, seed);
    case strategy::collective:
      return train<collective>(here, how, of, seed);
    case strategy::with_backup:
      return train<parameter_server<synchronous_with_backups<1>>>(here, how, of, seed);
    case strategy::bounded_staleness:
      return train<parameter_server<bounded_staleness<2>>>(here, how, of, seed);
    case strategy::waiting:
      return train(here, how, of, seed, collective{.on_loss = wait_for{how.wait}});
    case strategy::shrinking:
      return train(here, how, of, seed, collective{.on_loss = wait_for{0ms}.then(loss_action::shrink)});
    case strategy::taking_over:
      return train(here, how, of, seed, collective{.on_loss = wait_for{0ms}.then(loss_action::take_over)});
  }
}

// ---- what goes wrong ----

enum class kind { kill, cut_off, stop, terminate, fail, signal };

struct fault {
  kind what{};
  int rank = 0;
  milliseconds at{}, lasts{};             // how long a stop lasts
  std::optional<milliseconds> restart{};  // so long after it

  friend std::string to_string(const fault& f) {
    static constexpr const char* words[] = {"kill", "cut off", "stop", "terminate", "let fail", "signal"};
    std::string text =
        std::to_string(f.at.count()) + " ms: " + words[static_cast<int>(f.what)] + " rank " + std::to_string(f.rank);
    if (f.what == kind::stop) text += " for " + std::to_string(f.lasts.count()) + " ms";
    if (f.restart) text += ", start it again " + std::to_string(f.restart->count()) + " ms later";
    return text;
  }
};

struct schedule {
  std::uint64_t seed = 0;
  settings how;
  std::vector<milliseconds> starts;
  std::chrono::microseconds latency{};
  std::size_t capacity = 0;
  std::vector<fault> faults;
  milliseconds reaction = 3000ms;  // how late a task that trains reacts to another's end, at most

  schedule() = default;
  explicit schedule(std::uint64_t s) : seed(s) {
    std::mt19937_64 random(s);
    const auto below = [&](auto n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
    static constexpr strategy any[] = {strategy::synchronous, strategy::asynchronous, strategy::collective,
                                       strategy::waiting, strategy::shrinking};
    how.how = any[s % std::size(any)];
    if (how.how == strategy::shrinking && s / std::size(any) % 2 == 1) how.how = strategy::taking_over;
    how.clips = s / 2 % 2 == 1;
    how.ps = is_collective(how.how) ? 0 : 1 + below(2);
    how.workers = how.ps == 0 ? 2 + below(3) : 1 + below(3);
    latency = std::chrono::microseconds(below(4) == 0 ? 20'000 : 1'500);
    if (below(3) == 0)
      how.step = milliseconds((latency > 10ms ? 500 : 60) + below(300));  // a new connection takes its time
    capacity = below(4) == 0 ? 4096 : std::size_t{64} << 10;
    for (int i = 0; i < how.tasks(); ++i) starts.emplace_back(below(8) == 0 ? below(1500) : below(100));
    const int n = below(8) == 0 ? 0 : 1 + below(4);
    for (int i = 0; i < n; ++i) {
      fault f{.what = static_cast<kind>(below(5)),
              .rank = below(how.tasks()),
              .at = milliseconds(below(8) == 0 ? below(4000) : below(below(3) == 0 ? 200 : 900))};
      if (f.what == kind::stop) f.lasts = milliseconds(below(2) == 0 ? below(1200) : below(6000));
      if (f.what != kind::stop && below(2) == 0) f.restart = milliseconds(below(3) == 0 ? 0 : below(3000));
      faults.push_back(f);
    }
    std::sort(faults.begin(), faults.end(), [](const fault& a, const fault& b) { return a.at < b.at; });
    if (how.how == strategy::asynchronous && below(2) == 0) how.min_workers = 1 + below(how.workers);
  }

  std::string text() const {
    static constexpr const char* names[] = {"synchronous",       "asynchronous", "collective", "with a backup",
                                            "bounded staleness", "waiting",      "shrinking",  "taking over"};
    std::string all =
        "seed " + std::to_string(seed) + ": " + names[static_cast<int>(how.how)] + ", " + std::to_string(how.ps) +
        " ps, " + std::to_string(how.workers) + " workers, up to " + std::to_string(latency.count()) +
        " us to travel, a step within " + std::to_string(how.step.count()) + " ms, " +
        (how.min_workers ? std::to_string(*how.min_workers) : "all") + " workers needed" +
        (how.on_loss != loss_policy{} ? ", waits " + std::to_string(how.on_loss.wait.count()) + " ms" : "") +
        (how.on_loss.then == loss_action::shrink      ? ", then shrinks"
         : how.on_loss.then == loss_action::take_over ? ", then takes over"
                                                      : "") +
        "\n  started after";
    for (const milliseconds each : starts) all += " " + std::to_string(each.count());
    all += " ms\n";
    for (const fault& f : faults) all += "  " + to_string(f) + "\n";
    return all;
  }
};

// ---- a run ----

using server_type = basic_server<simulation::network>;

struct life {
  simulation::process process;
  server_type* server = nullptr;
  int rank = 0;
  milliseconds started{}, ended{}, hit{};  // since the beginning; by a fault that ends it
  bool was_killed = false, was_cut_off = false, was_terminated = false, is_first = true;
  std::vector<std::pair<milliseconds, milliseconds>> stops;
  record of;
  std::string said;  // the text of the error that it threw
  std::optional<join_report> report;
  std::map<std::int64_t, std::vector<std::size_t>> steps;       // of a server: whose gradients made each
  std::vector<std::pair<std::int64_t, std::int64_t>> restored;  // of a server: the steps between which it went back
  int left_out = 0;                                             // of a server: how often it went on without a worker
  std::vector<std::pair<milliseconds, std::string>> went_on;    // what it said of that, and when
  std::string shard_problem;
  bool made_twice = false;  // of a server: some step

  bool ended_by_force() const { return was_killed || was_cut_off; }
  bool is_victim() const {
    return ended_by_force() || was_terminated || said == "no images" || longest_stop() > 1000ms;
  }
  std::string words() const {
    std::string all = said;
    if (!report) return all;
    for (const auto& name : report->finished) all += " finished: " + name;
    for (const auto& name : report->lost) all += " lost: " + name;
    if (report->interrupted) all += std::string(" interrupted: ") + report->interrupted->what();
    return all;
  }
  milliseconds longest_stop() const {
    milliseconds most{};
    for (const auto& [from, to] : stops) most = std::max(most, to - from);
    return most;
  }
};

struct outcome {
  std::vector<std::unique_ptr<life>> lives;
  bool over = true;  // all came to their end
  std::size_t remains = 0;
  milliseconds took{};
  std::uint64_t turns = 0;
};

std::string name_of(const settings& how, int rank) {
  return rank < how.ps ? "/job:ps/task:" + std::to_string(rank) : "/job:worker/task:" + std::to_string(rank - how.ps);
}

cluster_spec cluster_of(const settings& how) {
  const auto addresses = [](int first, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i ? ",127.0.0.1:" : "127.0.0.1:") + std::to_string(first + i);
    return text;
  };
  if (how.ps == 0) return {{"worker", addresses(3000, how.workers)}};
  return {{"ps", addresses(2000, how.ps)}, {"worker", addresses(3000, how.workers)}};
}

class run {
 public:
  explicit run(const schedule& plan)
      : plan_(plan),
        world_({plan.seed, plan.latency, plan.capacity}),
        cluster_(cluster_of(plan.how)),
        began_(world_.now()),
        newest_(static_cast<std::size_t>(plan.how.tasks())) {}

  outcome result() {
    for (int rank = 0; rank < plan_.how.tasks(); ++rank)
      at(plan_.starts[static_cast<std::size_t>(rank)], [this, rank] { start(rank); });
    for (const fault& each : plan_.faults) at(each.at, [this, each] { inflict(each); });
    for (milliseconds next{}; next < longest; next += 5ms) {
      while (!agenda_.empty() && agenda_.begin()->first <= since_beginning()) {
        const auto what = agenda_.begin()->second;
        agenda_.erase(agenda_.begin());
        what();
      }
      if (agenda_.empty() && all_ended()) break;
      world_.sleep(agenda_.empty() ? milliseconds(20)
                                   : std::min(milliseconds(20), agenda_.begin()->first - since_beginning() + 1ms));
      next = since_beginning();
    }
    out_.over = all_ended();
    for (auto& each : out_.lives)
      if (!each->process.has_ended()) {
        each->said = "is still there";
        world_.kill(each->process, false);
      }
    while (!all_ended()) world_.sleep(20ms);
    for (auto& each : out_.lives) each->process.thread.join();
    out_.remains = world_.remains();
    out_.took = since_beginning();
    out_.turns = world_.turns();
    return std::move(out_);
  }

 private:
  static constexpr milliseconds longest = 200s;

  milliseconds since_beginning() const { return std::chrono::duration_cast<milliseconds>(world_.now() - began_); }
  void at(milliseconds when, std::function<void()> what) { agenda_.emplace(when, std::move(what)); }
  bool all_ended() const {
    return std::all_of(out_.lives.begin(), out_.lives.end(),
                       [](const auto& each) { return each->process.has_ended(); });
  }

  void start(int rank) {
    life*& place = newest_[static_cast<std::size_t>(rank)];
    life& one = *out_.lives.emplace_back(std::make_unique<life>());
    one.is_first = place == nullptr;
    if (place && place->was_cut_off) world_.restarted(place->process);
    place = &one;
    one.rank = rank;
    one.started = since_beginning();
    const std::uint64_t seed = world_.draw();
    world_.start(one.process, [this, &one, seed] {
      try {
        live(one, seed);
      } catch (const std::exception& problem) {
        one.said = problem.what();
      }
      one.ended = since_beginning();
    });
  }

  void live(life& one, std::uint64_t seed) {
    const bool serves = one.rank < plan_.how.ps;
    server_options options;
    options.waiting = wait_policy{};
    options.min_workers = plan_.how.min_workers;
    options.on_step = [&one](std::int64_t step, const std::vector<std::size_t>& workers) {
      one.made_twice |= !one.steps.emplace(step, workers).second;
    };
    options.on_left_out = [this, &one](const error& what) {
      ++one.left_out;
      one.went_on.emplace_back(since_beginning(), what.what());
    };
    options.shards = plan_.how.shards;
    options.on_rollback = [&one](std::int64_t from, std::int64_t to) {
      one.restored.emplace_back(from, to);
      one.steps.erase(one.steps.lower_bound(to), one.steps.end());
    };
    options.on_shard_problem = [&one](const error& why) { one.shard_problem = why.what(); };
    server_type here(cluster_, serves ? "ps" : "worker", serves ? one.rank : one.rank - plan_.how.ps, options,
                     simulation::network(world_));
    const simulation::serving known(world_, one.process, here, one.server);
    if (serves)
      one.report = here.join(plan_.how.set_up, 120s);
    else
      train(here, plan_.how, one.of, seed);
  }

  void inflict(const fault& what) {
    life* const whom = newest_[static_cast<std::size_t>(what.rank)];
    if (!whom || whom->process.has_ended() || whom->ended_by_force()) return;
    const milliseconds now = since_beginning();
    switch (what.what) {
      case kind::kill:
        whom->was_killed = true;
        whom->hit = now;
        world_.kill(whom->process, false);
        break;
      case kind::cut_off:
        whom->was_cut_off = true;
        whom->hit = now;
        world_.kill(whom->process, true);
        break;
      case kind::stop:
        if (whom->process.stopped) return;
        whom->stops.emplace_back(now, now + what.lasts);
        world_.stop(whom->process);
        at(now + what.lasts, [this, whom] {
          if (!whom->ended_by_force()) world_.go_on(whom->process);
        });
        return;
      case kind::terminate:
        if (whom->process.stopped || !whom->server) return;
        whom->was_terminated = true;
        whom->hit = now;
        world_.stop(whom->process, whom->server);
        break;
      case kind::fail:
        whom->of.fail = true;
        break;
      case kind::signal:
        whom->was_terminated = true;
        whom->hit = now;
        whom->of.signalled = true;
        break;
    }
    if (what.restart) at(now + *what.restart, [this, whom] { restart(whom); });
  }

  /// As soon as the one before has ended, for its port is free only then.
  void restart(life* before) {
    if (newest_[static_cast<std::size_t>(before->rank)] != before) return;
    if (before->ended_by_force() || before->process.has_ended()) return start(before->rank);
    if (before->was_terminated || before->process.stopped)
      at(since_beginning() + 20ms, [this, before] { restart(before); });
  }

  const schedule& plan_;
  simulation world_;
  cluster_spec cluster_;
  simulation::time_point began_;
  std::vector<life*> newest_;
  std::multimap<milliseconds, std::function<void()>> agenda_;
  outcome out_;
};

// ---- what is right ----

std::string told(const schedule& plan, const outcome& out) {
  std::string all;
  for (const auto& each : out.lives) {
    all += "  " + name_of(plan.how, each->rank) + ", " + std::to_string(each->started.count()) + " to " +
           std::to_string(each->ended.count()) + " ms: ";
    all += each->ended_by_force() ? "(killed) " : each->was_terminated ? "(terminated) " : "";
    if (each->of.finished) all += "finished ";
    if (each->report) all += "joined;";
    all += each->words() + "\n";
  }
  return all;
}

/// The words of what is wrong; nothing if all is well.
using verdict = std::optional<std::string>;

class judge {
 public:
  judge(const schedule& plan, const outcome& out) : plan_(plan), out_(out) {
    for (const auto& each : out.lives) of_rank_[each->rank].push_back(each.get());
    for (const auto& each : out.lives) {
      if (each->is_victim()) victims_.insert(each->rank);
      if (each->was_killed || each->was_cut_off || each->was_terminated) fatal_.push_back(each->hit);
      if (each->said == "no images") fatal_.push_back(each->ended);
      for (const auto& [from, to] : each->stops)
        if (to - from > noticed_surely_not) fatal_.push_back(from), fatal_.push_back(to);
    }
  }

  verdict operator()(const std::vector<float>& reference) {
    if (!out_.over) return "not all have come to their end";
    if (out_.remains != 0) return std::to_string(out_.remains) + " ports, streams or names of shared memory remain";
    if (out_.turns > 3000 + 2000 * static_cast<std::uint64_t>(out_.took.count()) / 1000)
      return std::to_string(out_.turns) + " turns: somebody does not sleep";
    for (const auto& each : out_.lives) {
      if (verdict bad = lies(*each)) return *bad;
      if (each->ended_by_force()) continue;
      if (verdict bad = wrong_result(*each, reference)) return *bad;
      if (verdict bad = unfounded(*each)) return *bad;
      if (verdict bad = late(*each)) return *bad;
      if (each->report)
        if (verdict bad = wrong_report(*each)) return *bad;
    }
    return {};
  }

 private:
  static constexpr milliseconds noticed_surely_not = 1000ms;  // in a stop that is shorter

  bool any(int rank, auto holds) const {
    const auto found = of_rank_.find(rank);
    return found != of_rank_.end() &&
           std::any_of(found->second.begin(), found->second.end(), [&](const life* each) { return holds(*each); });
  }
  std::string name(int rank) const { return name_of(plan_.how, rank); }
  bool is_ps(const life& l) const { return l.rank < plan_.how.ps; }
  bool ps_was_hit() const { return !victims_.empty() && *victims_.begin() < plan_.how.ps; }
  bool too_few_may_be_left() const {
    const auto workers_hit = static_cast<int>(
        std::count_if(victims_.begin(), victims_.end(), [&](int rank) { return rank >= plan_.how.ps; }));
    return plan_.how.workers - workers_hit < plan_.how.min_workers.value_or(plan_.how.workers);
  }
  /// Whether workers that trained had been gone for long when this one ended.
  bool too_few_were_left(const life& of) const {
    int gone = 0;
    for (const auto& each : out_.lives)
      gone += each->rank >= plan_.how.ps && of_rank_.at(each->rank).size() == 1 && each->of.began &&
              !each->of.finished && (each->ended_by_force() || each->was_terminated) &&
              each->hit + plan_.reaction < of.ended;
    return plan_.how.workers - gone < plan_.how.min_workers.value_or(plan_.how.workers);
  }
  bool chief_was_hit() const { return victims_.count(plan_.how.ps) != 0; }
  bool names_a_victim(const std::string& text) const {
    return std::any_of(victims_.begin(), victims_.end(), [&](int rank) { return contains(text, name(rank)); });
  }

  /// A statement about a task must be true of it.
  verdict lies(const life& by) const {
    const std::string text = by.words();
    for (int rank = 0; rank < plan_.how.tasks(); ++rank) {
      const auto says = [&](const char* what) { return contains(text, name(rank) + " " + what); };
      const bool cut = any(rank, [](const life& l) { return l.ended_by_force(); });
      const bool silent =
          any(rank, [](const life& l) { return l.was_cut_off || l.longest_stop() > noticed_surely_not; });
      const bool left = any(rank, [](const life& l) {  // a fault may hit one whose goodbye is on its way
        return !l.ended_by_force() || l.was_terminated || !l.words().empty() || l.of.finished;
      });
      if (says("has closed its connection unexpectedly") && !cut)
        return name(rank) + " is said to be killed and was not";
      if (says("has sent no heartbeat") && !silent) return name(rank) + " is said to be silent and was not";
      if (contains(text, "declared " + name(rank) + " lost, which has sent no heartbeat") && !silent)
        return name(rank) + " is said to have been silent and was not";
      if (says("was started again") && of_rank_.at(rank).size() < 2)
        return name(rank) + " is said to be started again and was not";
      if (says("has left the cluster") && !left) return name(rank) + " is said to have left and has not";
    }
    // A task that is waited for is not there, or does not move.
    const std::string waits = "still waits for ";
    for (std::size_t at = text.find(waits); at != std::string::npos; at = text.find(waits, at + 1)) {
      const std::string whom = text.substr(at, text.find(';', at) - at);
      for (int rank = 0; rank < plan_.how.tasks(); ++rank)
        if (contains(whom, name(rank)) &&
            any(rank,
                [&](const life& l) {
                  return l.started + 1000ms < by.ended && (l.ended == 0ms ? l.hit == 0ms : l.ended > by.ended) &&
                         (l.hit == 0ms || l.hit > by.ended) && l.stops.empty();
                }) &&
            !is_ps(by) && by.stops.empty())
          return name(by.rank) + " waits for " + name(rank) + ", which is there";
    }
    for (const char* never : {"broke the protocol", "malformed", "checksum", "had already applied update", "internal",
                              "wrong kind", "is at step", "different clusters", "another process is"})
      if (contains(text, never)) return name(by.rank) + " says '" + never + "'";
    return {};
  }
  verdict wrong_result(const life& of, const std::vector<float>& reference) const {
    if (of.of.finished)
      for (const float each : of.of.values)
        if (!std::isfinite(each)) return name(of.rank) + " has a parameter that is not finite";
    if (survives_losses(plan_.how.how)) return wrong_survivor(of, reference);
    const bool repeatable = plan_.how.how != strategy::asynchronous;
    const bool trained_before = any(of.rank, [&](const life& l) { return &l != &of && l.of.finished; });
    if (of.of.finished && repeatable && !trained_before && of.of.values != reference)
      return name(of.rank) + " has finished with other values than without faults";
    if (of.of.finished && of.of.made != plan_.how.steps) return name(of.rank) + " has finished too early";
    if (of.of.finished && !repeatable && of.stops.empty() && !ps_was_hit() && too_few_were_left(of))
      return name(of.rank) + " has finished, though others are missing that it needs";
    int begun = 0;
    for (const auto& each : out_.lives) begun += each->of.begun;
    if (!repeatable && !ps_was_hit() && of.of.global_step > begun) return "more updates were made than were begun";
    if (!repeatable && of.of.global_step < of.of.updates && !ps_was_hit()) return "an update was lost";
    return {};
  }

  /// With a policy for losses: all agree on the view of each epoch; who finishes has made all steps from its first on,
  /// each once; where places are filled again, with the values of an undisturbed run.
  verdict wrong_survivor(const life& of, const std::vector<float>& reference) const {
    for (const training_view& v : of.of.views)
      for (const auto& other : out_.lives)
        for (const training_view& its : other->of.views)
          if (v.epoch == its.epoch && v.epoch > 1 && !(v == its)) {
            // Where all workers have been started again there may be two histories.
            const bool same_beginning = of.of.views.front() == other->of.views.front();
            if (same_beginning) return "two views of one epoch: " + to_string(v) + ", and " + to_string(its);
          }
    // Those that are left go on whoever has certainly ended, once all have begun.
    const bool is_clear = std::none_of(plan_.faults.begin(), plan_.faults.end(), [](const fault& each) {
      return each.what == kind::stop || each.what == kind::cut_off;
    });
    const bool all_began = std::all_of(out_.lives.begin(), out_.lives.end(),
                                       [](const auto& each) { return !each->is_first || each->of.began; });
    if (plan_.how.how != strategy::waiting && is_clear && all_began && of.is_first && !of.is_victim() &&
        !of.of.finished)
      return name(of.rank) + " ends, though it could go on without the others";
    if (!of.of.finished) return {};
    if (of.of.next != std::max<std::int64_t>(of.of.first, plan_.how.steps))
      return name(of.rank) + " has finished, and its next step is " + std::to_string(of.of.next);
    if (of.of.first + of.of.made != std::max<std::int64_t>(of.of.first, plan_.how.steps))
      return name(of.rank) + " has made " + std::to_string(of.of.made) + " steps from step " +
             std::to_string(of.of.first);
    if (plan_.how.how != strategy::shrinking && of.of.values != reference)
      return name(of.rank) + " has finished with other values than without faults";
    return {};
  }

  /// A parameter server that is started again waits for workers that its predecessor's end has ended: nobody can tell
  /// it of them. Its words travel to those that train by it.
  bool waits_for_one_that_has_ended(const life& of) const {
    const std::size_t at = of.said.find("still waits for ");
    return at != std::string::npos && std::any_of(out_.lives.begin(), out_.lives.end(), [&](const auto& each) {
             return each.get() != &of && each->ended != 0ms && each->ended <= of.ended &&
                    contains(of.said.substr(at), name(each->rank));
           });
  }

  /// A task that ends with an error has a reason, and names it.
  verdict unfounded(const life& of) const {
    if (of.said.empty()) return {};
    const bool own = of.was_terminated || of.said == "no images" || of.longest_stop() > noticed_surely_not;
    if (own) return {};
    if (!of.is_first && (is_ps(of) || contains(of.said, "still waits for"))) return {};
    if (victims_.empty()) return name(of.rank) + " ends with an error, and nothing has happened";
    if (waits_for_one_that_has_ended(of)) return {};
    if (contains(of.said, "initialise") && ps_was_hit()) return {};  // the chief knows the one before
    if (!of.is_first) {
      const bool someone = std::any_of(out_.lives.begin(), out_.lives.end(), [&](const auto& each) {
        return each.get() != &of && contains(of.said, name(each->rank));
      });
      return someone ? verdict{} : name(of.rank) + " names nobody";
    }
    if (survives_losses(plan_.how.how)) {
      if (contains(of.said, "continue without this one") || contains(of.said, "had the current variables")) return {};
    }
    if (!names_a_victim(of.said)) return name(of.rank) + " names nobody who failed";
    if (plan_.how.how == strategy::asynchronous && !is_ps(of) && !ps_was_hit() && !too_few_may_be_left() &&
        !(chief_was_hit() && contains(of.said, "initialise")))
      return name(of.rank) + " ends, though all that it needs is there";
    return {};
  }

  /// After what has happened last before it, who trains ends within seconds; who still comes together, by its deadline.
  verdict late(const life& of) const {
    if (of.said.empty() || of.longest_stop() > noticed_surely_not) return {};
    milliseconds last = of.started;
    for (const milliseconds each : fatal_)
      if (each <= of.ended) last = std::max(last, each);
    for (const auto& each : out_.lives)  // who is started again has its own time to wait for others
      if (!each->is_first && each->started <= of.ended) last = std::max(last, each->started);
    // Synchronous steps may begin before another worker has come: the servers wait for it.
    const bool trains = of.of.began && !contains(of.said, "still waits for");
    milliseconds limit = of.longest_stop() + (trains ? plan_.reaction : plan_.how.set_up + 2000ms);
    if (survives_losses(plan_.how.how)) limit += 2 * (plan_.how.wait + std::max(plan_.how.step, 6000ms)) + 10000ms;
    if (of.ended - last > limit)
      return name(of.rank) + " ends " + std::to_string((of.ended - last).count()) + " ms after what has happened last";
    return {};
  }

  verdict wrong_report(const life& by) const {
    if (by.is_victim() || !by.is_first) return {};
    const join_report& report = *by.report;
    for (int rank = plan_.how.ps; rank < plan_.how.tasks(); ++rank) {
      const std::vector<life*>& lives = of_rank_.at(rank);
      const bool finished =
          std::find(report.finished.begin(), report.finished.end(), name(rank)) != report.finished.end();
      const bool lost = std::any_of(report.lost.begin(), report.lost.end(),
                                    [&](const std::string& each) { return each.starts_with(name(rank) + " "); });
      if (finished && lost) return name(by.rank) + " reports " + name(rank) + " twice";
      if (lives.size() == 1 && lives[0]->of.finished && lost)
        return name(by.rank) + " reports as lost " + name(rank) + ", which has finished";
      if (finished && !any(rank, [&](const life& l) { return l.of.made == plan_.how.steps; }))
        return name(by.rank) + " reports as finished " + name(rank) + ", which has not";
      if (!finished && !lost) return name(by.rank) + " does not report " + name(rank);
    }
    return {};
  }

  const schedule& plan_;
  const outcome& out_;
  std::map<int, std::vector<life*>> of_rank_;
  std::set<int> victims_;
  std::vector<milliseconds> fatal_;  // when something happened that one may not survive
};

/// The values that training comes to where nothing goes wrong.
std::vector<float> undisturbed(const settings& how) {
  static std::map<std::tuple<int, int, int, int, bool>, std::vector<float>> known;
  std::vector<float>& values = known[{static_cast<int>(how.how), how.ps, how.workers, how.steps, how.clips}];
  if (values.empty() && how.how != strategy::asynchronous) {
    schedule plan(0);
    plan.how = how;
    if (how.how == strategy::waiting || how.how == strategy::shrinking) plan.how.how = strategy::collective;
    plan.how.shards = {};
    plan.how.step = 20s;
    plan.starts.assign(static_cast<std::size_t>(how.tasks()), 0ms);
    plan.faults.clear();
    run r(plan);
    const outcome out = r.result();
    values = out.lives.back()->of.values;
  }
  return values;
}

verdict check(const schedule& plan, std::string* all = nullptr) {
  const std::vector<float> reference = undisturbed(plan.how);
  run r(plan);
  const outcome out = r.result();
  if (all)
    *all = told(plan, out) + "  " + std::to_string(out.took.count()) + " ms, " + std::to_string(out.turns) + " turns\n";
  return judge(plan, out)(reference);
}

/// Leaves out the faults that are not needed for the failure, and says what is left.
std::string shrunk(schedule plan, std::string words) {
  for (std::size_t i = plan.faults.size(); i-- > 0;) {
    schedule less = plan;
    less.faults.erase(less.faults.begin() + static_cast<std::ptrdiff_t>(i));
    if (const verdict still = check(less)) plan = less, words = *still;
  }
  std::string all;
  check(plan, &all);
  return words + "\n" + plan.text() + all;
}

using test::sanitized;

std::size_t bytes_in_use() { return sanitized ? 0 : ::mallinfo2().uordblks; }

std::size_t threads_in_use() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(survivors_of_random_faults_end_rightly) {
  const char* const seconds = std::getenv("WEFT_RANDOM_SECONDS");
  const char* const from = std::getenv("WEFT_RANDOM_FROM");
  const char* const count = std::getenv("WEFT_RANDOM_COUNT");
  const auto begin = std::chrono::steady_clock::now();
  const auto first = static_cast<std::uint64_t>(from ? std::atoll(from) : 0);
  const auto most = static_cast<std::uint64_t>(count ? std::atoll(count) : sanitized ? 60 : 800);
  std::uint64_t seed = first;
  int failures = 0;
  std::size_t settled = 0, threads = 0;  // those in use after the first hundred
  for (; seed - first < most || (seconds && test::seconds_since(begin) < std::atof(seconds)); ++seed) {
    const schedule plan(seed);
    std::string all;
    if (const verdict bad = check(plan, &all)) {
      BOOST_ERROR(shrunk(plan, *bad));
      if (++failures == 8) return;
    }
    if (count) std::printf("%s%s", plan.text().c_str(), all.c_str());
    if (seed - first == 100) settled = bytes_in_use(), threads = threads_in_use();
  }
  if (settled > 0) {
    BOOST_TEST(bytes_in_use() < settled + 256 * 1024);
    BOOST_TEST(threads_in_use() == threads);
  }
  if (seconds || count)
    std::printf("%llu seeds in %.1f s\n", static_cast<unsigned long long>(seed - first), test::seconds_since(begin));
}

// Schedules that the machine has found, by hand: each of these failed once.
namespace {

schedule planned(strategy how, int ps, int workers, std::vector<milliseconds> starts, std::vector<fault> faults) {
  schedule plan;
  plan.how.how = how;
  plan.how.ps = ps;
  plan.how.workers = workers;
  plan.starts = std::move(starts);
  plan.latency = 1500us;
  plan.capacity = std::size_t{64} << 10;
  plan.faults = std::move(faults);
  return plan;
}

void hold(schedule plan) {
  for (plan.seed = 0; plan.seed < 3; ++plan.seed)
    if (const verdict bad = check(plan)) BOOST_ERROR(shrunk(plan, *bad));
}

}  // namespace

// A task that leaves since it could not begin says why: those that come later learn of a task that they have never met.
BOOST_AUTO_TEST_CASE(a_goodbye_of_who_waited_in_vain_says_why) {
  hold(planned(strategy::synchronous, 1, 3, {80ms, 18ms, 78ms, 1400ms}, {{kind::kill, 2, 253ms, 0ms, 254ms}}));
}

// An answer that was true when the other was there still.
BOOST_AUTO_TEST_CASE(a_list_of_missing_tasks_repeats_no_answer_of_who_has_ended) {
  hold(planned(strategy::synchronous, 1, 3, {16ms, 50ms, 50ms, 80ms}, {{kind::cut_off, 1, 500ms, 0ms, 21ms}}));
}

// A worker that runs out of time while it opens the second of its connections.
BOOST_AUTO_TEST_CASE(connections_that_were_opened_in_vain_are_opened_anew) {
  schedule plan = planned(strategy::synchronous, 2, 1, {0ms, 0ms, 0ms},
                          {{kind::stop, 0, 150ms, 500ms, {}}, {kind::stop, 1, 150ms, 900ms, {}}});
  plan.how.step = 200ms;
  hold(plan);
}

// A parameter server that was given up passes on what it was told: to whom "this task" would be another.
BOOST_AUTO_TEST_CASE(a_task_that_was_given_up_is_named) {
  hold(planned(strategy::synchronous, 2, 2, {27ms, 8ms, 44ms, 728ms}, {{kind::stop, 0, 166ms, 1743ms, {}}}));
}

// Its goodbye comes, and then nothing more, not even the end of the connection that is waited at.
BOOST_AUTO_TEST_CASE(a_task_that_is_cut_off_as_it_leaves_is_not_waited_for) {
  for (const int after : {10, 15, 20, 25}) {
    const milliseconds cut = milliseconds(165 + after);
    hold(planned(strategy::collective, 0, 2, {56ms, 92ms},
                 {{kind::terminate, 1, 165ms, 0ms, {}}, {kind::cut_off, 1, cut, 0ms, {}}}));
    for (const strategy how : {strategy::synchronous, strategy::asynchronous})
      hold(planned(how, 2, 2, {0ms, 0ms, 20ms, 30ms},
                   {{kind::terminate, 1, 165ms, 0ms, {}}, {kind::cut_off, 1, cut, 0ms, {}}}));
  }
}

// Two workers give up each other before all have agreed: the third, which hears both, says so.
BOOST_AUTO_TEST_CASE(who_has_not_agreed_in_time_names_who_was_given_up) {
  const schedule plan(22103);
  if (const verdict bad = check(plan)) BOOST_ERROR(shrunk(plan, *bad));
}

// A worker is terminated in the last step. Those that have completed the step wait in finish() for the process that
// takes its place, and do not leave one alone that has not.
BOOST_AUTO_TEST_CASE(who_was_terminated_in_the_last_step_has_not_finished) {
  for (const std::uint64_t seed : {42353, 43533}) {
    const schedule plan(seed);
    if (const verdict bad = check(plan)) BOOST_ERROR(shrunk(plan, *bad));
  }
}

// ---- training that survives the death of workers ----

namespace {

/// A cluster with a loss policy, whose servers live.
schedule with_policy(std::uint64_t seed, strategy how, loss_policy policy, bool restarts) {
  schedule plan(seed);
  std::mt19937_64 random(seed * 7919 + 3);
  const auto below = [&](auto n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  plan.how.how = how;
  plan.how.on_loss = policy;
  plan.how.min_workers.reset();
  plan.how.ps = 1 + below(3);
  plan.how.workers = (how == strategy::with_backup ? 2 : 1) + below(3);
  plan.how.steps = 12;
  plan.how.step = below(2) ? 20s : milliseconds(300 + below(300));
  plan.starts.assign(static_cast<std::size_t>(plan.how.tasks()), 0ms);
  for (milliseconds& each : plan.starts) each = milliseconds(below(100));
  plan.faults.clear();
  const int n = 1 + below(restarts ? 4 : 2);
  for (int i = 0; i < n; ++i) {
    fault f{.what = below(3) == 0 ? kind::terminate
                    : below(2)    ? kind::kill
                                  : kind::cut_off,
            .rank = plan.how.ps + below(plan.how.workers),
            .at = milliseconds((plan.latency > 10ms ? 700 : 300) + below(700))};
    if (restarts) f.restart = milliseconds(below(3) == 0 ? 0 : below(1500));
    plan.faults.push_back(f);
  }
  std::sort(plan.faults.begin(), plan.faults.end(), [](const fault& a, const fault& b) { return a.at < b.at; });
  return plan;
}

/// What servers say of waits and of workers that are left out.
verdict wrong_words(const schedule& plan, const outcome& out) {
  const std::string in_vain = "no process has taken";
  for (const auto& each : out.lives) {
    const std::string text = each->words();
    if (contains(text, in_vain) && each->ended < each->started + plan.how.on_loss.wait)
      return name_of(plan.how, each->rank) + " says that nobody has come, and has not waited";
    for (const auto& [when, what] : each->went_on) {
      if (!contains(what, "training continues with")) continue;
      const bool goes_on = std::any_of(out.lives.begin(), out.lives.end(), [&, at = when](const auto& other) {
        return other->rank >= plan.how.ps && (other->ended == 0ms || other->ended > at || other->started > at);
      });
      if (!goes_on) return name_of(plan.how, each->rank) + " says after the end of all workers: " + what;
    }
  }
  return {};
}

/// What holds of every such run: all end, each step is made once, and of the same gradients at all servers.
verdict wrong_steps(const schedule& plan, const outcome& out) {
  if (const verdict bad = wrong_words(plan, out)) return bad;
  if (!out.over) return "not all have come to their end";
  if (out.remains != 0) return std::to_string(out.remains) + " ports, streams or names of shared memory remain";
  const life* first = nullptr;
  for (const auto& each : out.lives) {
    if (each->rank >= plan.how.ps) continue;
    if (each->made_twice) return name_of(plan.how, each->rank) + " has made a step twice";
    if (!each->report) return name_of(plan.how, each->rank) + " has not joined: " + each->said;
    auto made = each->steps, known = first ? first->steps : made;
    if (!std::any_of(out.lives.begin(), out.lives.end(), [](const auto& l) { return l->of.finished; })) {
      // Nobody was there any more to make the last one for.
      if (made.size() + 1 == known.size()) made.insert(*known.rbegin());
      if (known.size() + 1 == made.size()) known.insert(*made.rbegin());
    }
    if (made != known)
      return name_of(plan.how, each->rank) + " has made other steps than " + name_of(plan.how, first->rank);
    if (!first) first = each.get();
  }
  return {};
}

/// The values after these steps, by one process: the mean of the gradients of those that made each.
std::vector<float> values_after(const std::map<std::int64_t, std::vector<std::size_t>>& steps, bool clips) {
  const model m(false);
  session s(m.g, {.threads = 1});
  std::vector<float> averages = m.values(s);
  const auto gradients = compute_gradients(m.loss, m.w1, m.w2);
  auto step = s.prepare(fetch(std::get<0>(gradients).gradient, std::get<1>(gradients).gradient), feed(m.x, m.y));
  for (const auto& [number, workers] : steps) {
    std::vector<float> sum(6 * 5 + 5 * 3);
    double weights = 0;
    for (const std::size_t worker : workers) {
      if (rows_of(static_cast<int>(number), static_cast<int>(worker)) == 0) continue;
      const auto [x, y] = batch_of(static_cast<int>(number), static_cast<int>(worker));
      const auto [g1, g2] = step(x, y);
      std::size_t k = 0;
      for (const float g : g1) sum[k++] += g;
      for (const float g : g2) sum[k++] += g;
      weights += 1;
    }
    if (weights == 0) continue;
    double squares = 0;
    for (const float each : sum) squares += each / weights * each / weights;
    const double factor = clips ? std::min(1.0, model::most_norm / std::sqrt(squares)) : 1.0;
    std::size_t k = 0;
    for (const std::uint32_t n : {m.w1.id().node, m.w2.id().node}) {
      std::vector<float> values(s.variable_info(n).extents.elements());
      s.read_variable(n, values.data());
      for (float& x : values) x -= static_cast<float>(0.5 * factor / weights) * sum[k++];
      s.write_variable(n, values.data());
    }
    const std::vector<float> now = m.values(s);
    for (std::size_t i = 0; i < now.size(); ++i) averages[i] += (now[i] - averages[i]) * float(1 - model::decay);
  }
  std::vector<float> values = m.values(s);
  if (clips) values.insert(values.end(), averages.begin(), averages.end());
  return values;
}

float distance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float most = 0;
  for (std::size_t k = 0; k < a.size(); ++k) most = std::max(most, std::abs(a[k] - b[k]));
  return most;
}

/// Whether a worker was started again when training had ended already.
bool came_too_late(const schedule& plan, const outcome& out, const life& of) {
  return !of.is_first && !of.of.finished && std::any_of(out.lives.begin(), out.lives.end(), [&](const auto& each) {
    return each->rank < plan.how.ps && each->ended <= of.started + 1000ms;
  });
}

/// Runs schedules and prints those whose outcome `judge(plan, out)` finds wrong.
template <class Judge>
void survive(std::uint64_t seeds, const std::function<schedule(std::uint64_t)>& planned_for, Judge judge) {
  const char* const count = std::getenv("WEFT_RANDOM_COUNT");
  const char* const from = std::getenv("WEFT_RANDOM_FROM");
  const std::uint64_t begin = from ? static_cast<std::uint64_t>(std::atoll(from)) : 0;
  if (count) seeds = static_cast<std::uint64_t>(std::atoll(count));
  int failures = 0;
  for (std::uint64_t seed = begin; seed < begin + seeds && failures < 4; ++seed) {
    const schedule plan = planned_for(seed);
    run r(plan);
    const outcome out = r.result();
    verdict bad = wrong_steps(plan, out);
    if (!bad) bad = judge(plan, out);
    if (!bad) continue;
    BOOST_ERROR(*bad + "\n" + plan.text() + told(plan, out));
    ++failures;
  }
}

}  // namespace

// A process takes the place of each that dies, in time: nobody sees a difference.
BOOST_AUTO_TEST_CASE(replaced_workers_end_with_the_bits_of_an_undisturbed_run) {
  survive(
      sanitized ? 20 : 150,
      [](std::uint64_t seed) { return with_policy(seed, strategy::synchronous, wait_for{20s}, true); },
      [](const schedule& plan, const outcome& out) -> verdict {
        const std::vector<float> reference = undisturbed(plan.how);
        std::map<int, const life*> last;
        for (const auto& each : out.lives) last[each->rank] = each.get();
        for (const auto& [rank, each] : last) {
          if (each->report && each->report->interrupted) return name_of(plan.how, rank) + " was interrupted";
          if (each->report || each->was_terminated || each->ended_by_force()) continue;
          if (came_too_late(plan, out, *each)) {
            const auto& ended = last[0]->report->finished;
            if (std::find(ended.begin(), ended.end(), name_of(plan.how, rank)) == ended.end())
              return name_of(plan.how, rank) + " was not waited for";
            continue;
          }
          if (!each->of.finished) return name_of(plan.how, rank) + " has not finished: " + each->said;
          if (each->of.values != reference) return name_of(plan.how, rank) + " has other values";
        }
        return {};
      });
}

// SIGTERM to workers, but never to all of them, is a loss: each is replaced.
BOOST_AUTO_TEST_CASE(workers_that_are_signalled_are_replaced) {
  const auto check = [](strategy how, loss_policy policy) {
    survive(
        sanitized ? 5 : 40,
        [&](std::uint64_t seed) {
          schedule plan = with_policy(seed, how, policy, true);
          plan.how.workers = std::max(2, plan.how.workers);
          plan.how.steps = 40;
          plan.starts.assign(static_cast<std::size_t>(plan.how.tasks()), milliseconds(seed % 50));
          for (fault& each : plan.faults) {
            each.what = kind::signal;
            each.rank = plan.how.ps + each.rank % (plan.how.workers - 1);
          }
          return plan;
        },
        [&](const schedule& plan, const outcome& out) -> verdict {
          const std::vector<float> reference = undisturbed(plan.how);
          std::map<int, const life*> last;
          for (const auto& each : out.lives) last[each->rank] = each.get();
          for (const auto& [rank, each] : last) {
            if (each->report && each->report->interrupted) return name_of(plan.how, rank) + " was interrupted";
            if (each->report || each->was_terminated || came_too_late(plan, out, *each)) continue;
            if (!each->of.finished) return name_of(plan.how, rank) + " has not finished: " + each->said;
            if (how == strategy::synchronous && each->of.values != reference)
              return name_of(plan.how, rank) + " has other values";
          }
          return {};
        });
  };
  check(strategy::synchronous, wait_for{20s});
  check(strategy::synchronous, wait_for{20s}.then(loss_action::take_over));
  check(strategy::asynchronous, wait_for{20s});
}

// At any moment of a step: its gradients may have come to one server and not to the other, or a decision may be on its
// way.
BOOST_AUTO_TEST_CASE(a_worker_may_die_between_two_servers) {
  for (const kind what : {kind::kill, kind::cut_off}) {
    survive(
        100,
        [&](std::uint64_t seed) {
          schedule plan = planned(strategy::synchronous, 2, 2, {0ms, 0ms, 0ms, 0ms},
                                  {{what, 3, milliseconds(600 + 2 * seed), 0ms, 400ms}});
          plan.seed = seed;
          plan.latency = 20'000us;
          plan.how.steps = 12;
          plan.how.on_loss = wait_for{20s};
          return plan;
        },
        [](const schedule& plan, const outcome& out) -> verdict {
          for (const auto& each : out.lives)
            if (!each->report && !each->ended_by_force() && each->of.values != undisturbed(plan.how))
              return name_of(plan.how, each->rank) + " has other values: " + each->said;
          return {};
        });
  }
}

// A policy for workers does not keep training alive without a parameter server: all end in time, and name it.
BOOST_AUTO_TEST_CASE(a_lost_parameter_server_ends_training_whatever_the_policy) {
  for (std::uint64_t seed = 0; seed < (sanitized ? 10 : 60); ++seed) {
    schedule plan = with_policy(seed, strategy::synchronous, wait_for{60s}, false);
    plan.how.ps = 2;
    plan.how.steps = 40;
    plan.how.step = 20s;
    plan.starts.assign(static_cast<std::size_t>(plan.how.tasks()), 0ms);
    const int victim = static_cast<int>(seed % 2);
    plan.faults = {{seed % 3 ? kind::kill : kind::cut_off, victim, milliseconds(700 + 10 * (seed % 50)), 0ms, {}}};
    run r(plan);
    const outcome out = r.result();
    if (std::none_of(out.lives.begin(), out.lives.end(), [](const auto& each) { return each->ended_by_force(); }))
      continue;  // training had ended
    std::string bad = out.over ? "" : "not all have come to their end";
    for (const auto& each : out.lives) {
      if (each->rank == victim) continue;
      if (contains(each->words(), "with a loss policy that waits"))
        bad += name_of(plan.how, each->rank) + " asks for a policy that was set";
      if (!contains(each->words(), name_of(plan.how, victim)))
        bad += name_of(plan.how, each->rank) + " does not name it";
      if (each->ended > 8000ms) bad += name_of(plan.how, each->rank) + " ends late";
    }
    if (!bad.empty()) BOOST_ERROR(bad + "\n" + plan.text() + told(plan, out));
  }
}

// Nobody comes: the others go on without, say so, and their values are those of the gradients that were used.
BOOST_AUTO_TEST_CASE(training_shrinks_when_nobody_takes_the_place_of_a_worker) {
  int shrunk_runs = 0;
  survive(
      sanitized ? 20 : 150,
      [](std::uint64_t seed) {
        return with_policy(seed, strategy::synchronous,
                           wait_for{milliseconds(seed % 2 ? 600 : 0)}.then(loss_action::shrink), seed % 3 == 0);
      },
      [&](const schedule& plan, const outcome& out) -> verdict {
        std::map<int, const life*> last;
        for (const auto& each : out.lives) last[each->rank] = each.get();
        const life* finished = nullptr;
        int hit = 0;
        for (const auto& [rank, each] : last) {
          if (rank < plan.how.ps) continue;
          const bool is_hit = each->was_terminated || each->ended_by_force();
          hit += is_hit;
          if ((is_hit && !each->of.finished) || came_too_late(plan, out, *each)) continue;
          if (!each->of.finished) return name_of(plan.how, rank) + " has not finished: " + each->said;
          finished = each;
          if (const float d = distance(each->of.values, values_after(last[0]->steps, plan.how.clips)); !(d < 1e-4f))
            return name_of(plan.how, rank) + " has not the values of the steps that were made: " + std::to_string(d);
        }
        if (!finished) return {};
        if (last[0]->report->interrupted) return "was interrupted";
        bool less = false;  // some step was made without a worker that had not finished
        for (const auto& [step, workers] : last[0]->steps)
          less |= static_cast<int>(workers.size()) < plan.how.workers && step < plan.how.steps;
        if (less && last[0]->left_out == 0) return "steps were made without a worker in silence";
        shrunk_runs += less;
        return {};
      });
  if (!std::getenv("WEFT_RANDOM_COUNT")) BOOST_TEST(shrunk_runs > (sanitized ? 2 : 30));
}

// Nobody comes, or somebody comes late: those that are left end with the bits of a run that nothing disturbs.
BOOST_AUTO_TEST_CASE(lost_workers_are_taken_over_to_the_bit) {
  int runs = 0;
  survive(
      sanitized ? 20 : 200,
      [](std::uint64_t seed) {
        return with_policy(seed, strategy::synchronous,
                           wait_for{milliseconds(seed % 2 ? 600 : 0)}.then(loss_action::take_over), seed % 3 == 0);
      },
      [&](const schedule& plan, const outcome& out) -> verdict {
        std::map<int, const life*> last;
        for (const auto& each : out.lives) last[each->rank] = each.get();
        const std::vector<float> reference = undisturbed(plan.how);
        bool any = false, any_finished = false;
        for (const auto& [rank, each] : last) {
          if (rank < plan.how.ps) continue;
          any |= each->of.computed > 0;
          any_finished |= each->of.finished;
          const bool is_hit = each->was_terminated || each->ended_by_force();
          if ((is_hit && !each->of.finished) || came_too_late(plan, out, *each)) continue;
          if (!each->of.finished) return name_of(plan.how, rank) + " has not finished: " + each->said;
          if (each->of.values != reference) return name_of(plan.how, rank) + " has other values";
        }
        if (any_finished && last[0]->report->interrupted) return "was interrupted";
        for (const auto& [step, workers] : last[0]->steps)
          if (static_cast<int>(workers.size()) < plan.how.workers && step < plan.how.steps - 1 && any_finished)
            return "step " + std::to_string(step) + " was made without a worker";
        runs += any;
        return {};
      });
  if (!std::getenv("WEFT_RANDOM_COUNT")) BOOST_TEST(runs > (sanitized ? 2 : 30));
}

// One worker may be late, or lost, in any step.
BOOST_AUTO_TEST_CASE(steps_with_a_backup_have_the_gradients_that_are_reported) {
  std::int64_t stale = 0;
  survive(
      sanitized ? 20 : 150,
      [](std::uint64_t seed) {
        schedule plan = with_policy(seed, strategy::with_backup, {}, seed % 2 == 0);
        plan.faults.resize(std::min<std::size_t>(plan.faults.size(), seed % 3 == 0 ? 0 : 1));
        return plan;
      },
      [&](const schedule& plan, const outcome& out) -> verdict {
        const auto& steps = out.lives.front()->steps;
        for (const auto& each : out.lives) {
          if (each->rank < plan.how.ps) continue;
          stale += each->of.stale;
          if (each->was_terminated || each->ended_by_force() || came_too_late(plan, out, *each)) continue;
          if (!each->of.finished) return name_of(plan.how, each->rank) + " has not finished: " + each->said;
        }
        const auto server =
            std::find_if(out.lives.begin(), out.lives.end(), [](const auto& l) { return l->rank == 0; });
        for (const auto& each : out.lives)
          if (each->of.finished)
            if (const float d = distance(each->of.values, values_after((*server)->steps, plan.how.clips)); !(d < 1e-4f))
              return name_of(plan.how, each->rank) + " has other values: " + std::to_string(d);
        for (const auto& [step, workers] : steps)
          if (static_cast<int>(workers.size()) > plan.how.workers - 1) return "a step has too many gradients";
        return {};
      });
  if (!std::getenv("WEFT_RANDOM_COUNT")) BOOST_TEST(stale > 10);
}

// Asynchronous workers that are replaced go on at their step: each update is applied once.
BOOST_AUTO_TEST_CASE(replaced_asynchronous_workers_make_each_update_once) {
  for (const strategy how : {strategy::asynchronous, strategy::bounded_staleness})
    survive(
        sanitized ? 10 : 80, [&](std::uint64_t seed) { return with_policy(seed, how, wait_for{20s}, true); },
        [&](const schedule& plan, const outcome& out) -> verdict {
          std::map<int, const life*> last;
          for (const auto& each : out.lives) last[each->rank] = each.get();
          int updates = 0;
          bool all_finished = true;
          for (int worker = 0; worker < plan.how.workers; ++worker)
            for (int step = 0; step < plan.how.steps; ++step) updates += rows_of(step, worker) > 0;
          std::int64_t most = 0;
          for (const auto& [rank, each] : last) {
            if (each->report && each->report->interrupted) return name_of(plan.how, rank) + " was interrupted";
            if (each->report) continue;
            if ((each->was_terminated || each->ended_by_force() || came_too_late(plan, out, *each)) &&
                !each->of.finished) {
              all_finished = false;
              continue;
            }
            if (!each->of.finished) return name_of(plan.how, rank) + " has not finished: " + each->said;
            most = std::max(most, each->of.global_step);
            // Each of the others makes no more than 2 * 2 + 1 updates meanwhile.
            if (how == strategy::bounded_staleness && each->of.most_stale - 1 > 5 * (plan.how.workers - 1))
              return name_of(plan.how, rank) + " has seen a staleness of " + std::to_string(each->of.most_stale - 1);
          }
          if (most > updates) return "more updates were made than there are";
          if (all_finished && most < updates - 3 * 12) return "updates are missing";
          return {};
        });
}

// ---- training that survives the death of parameter servers ----

namespace {

/// A cluster whose servers write shards, and are killed and started again; sometimes workers too.
schedule with_shards(std::uint64_t seed, strategy how, loss_policy policy, const std::string& folder) {
  schedule plan = with_policy(seed, how, policy, true);
  std::mt19937_64 random(seed * 104'729 + 7);
  const auto below = [&](auto n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  plan.how.shards = {folder, 1 + below(5)};
  plan.how.steps = 16;
  plan.faults.clear();
  const int n = 1 + below(4);
  milliseconds when(below(4) == 0 ? 100 + below(300) : 500);
  for (int i = 0; i < n; ++i) {
    const bool worker = below(5) == 0;
    fault f{.what = below(4) == 0 ? kind::cut_off : kind::kill,
            .rank = worker ? plan.how.ps + below(plan.how.workers) : below(plan.how.ps),
            .at = when};
    f.restart = milliseconds(below(3) == 0 ? 0 : below(1200));
    plan.faults.push_back(f);
    when += milliseconds(below(3) == 0 ? below(40) : below(900));
  }
  return plan;
}

/// The manifests that are there name shards of one step, which are whole.
verdict wrong_shards(const schedule& plan) {
  const std::filesystem::path folder(plan.how.shards.folder);
  if (!std::filesystem::exists(folder)) return {};
  for (const auto& each : std::filesystem::directory_iterator(folder)) {
    const std::string name = each.path().filename();
    if (!name.starts_with("manifest-") || contains(name, ".tmp-")) continue;
    const auto file = detail::shard_folder::read(each.path(), 1 << 20);
    const auto said = detail::shard_manifest::read({file.data(), file.size()}, each.path());
    if (said.step != std::stoll(name.substr(9))) return name + " is of another step";
    for (int task = 0; task < plan.how.ps; ++task) {
      const std::string path = folder.string() + "/shard-" + std::to_string(task) + "-of-" +
                               std::to_string(plan.how.ps) + "-" + name.substr(9);
      const auto shard = detail::shard_folder::read(path, 1 << 20);
      const_bytes state;
      const auto head = detail::read_shard({shard.data(), shard.size()}, path, state);
      if (head.step != said.step || head.last_step != said.step - 1 || head.at.run() != said.at.run())
        return name + " names a shard of another step";
    }
  }
  return {};
}

struct shard_runs {
  int repeated = 0, uncommitted = 0, clean = 0;
};

/// All that must hold where servers are killed: the last life of each task ends rightly.
verdict wrong_after_servers(const schedule& plan, const outcome& out, shard_runs& runs) {
  if (!out.over) return "not all have come to their end";
  if (out.remains != 0) return std::to_string(out.remains) + " ports, streams or names of shared memory remain";
  std::map<int, const life*> last;
  bool has_repeated = false, none_was_committed = false, some_finished = false;
  for (const auto& each : out.lives) {
    // Nobody has said yet that servers write shards.
    none_was_committed |= each->rank >= plan.how.ps && !each->of.began && !each->ended_by_force() && each->is_first;
    last[each->rank] = each.get();
    if (each->made_twice) return name_of(plan.how, each->rank) + " has made a step twice, unannounced";
    if (each->of.went_back_silently) return name_of(plan.how, each->rank) + " has gone back in silence";
    if (!each->shard_problem.empty()) return name_of(plan.how, each->rank) + ": " + each->shard_problem;
    has_repeated |= each->of.repeated > 0;
    some_finished |= each->of.finished;
    const std::string words = each->words();
    none_was_committed |=
        contains(words, "no step has been committed") || contains(words, "has no manifest of the run") ||
        contains(words, "no step is known to be complete") || contains(words, "no step of that run is committed") ||
        contains(words, "without a shard of this run");
  }
  if (const verdict bad = wrong_shards(plan)) return bad;
  if (none_was_committed && !some_finished) {
    ++runs.uncommitted;
    return {};
  }
  const std::vector<float> reference = undisturbed(plan.how);
  for (const auto& [rank, each] : last) {
    if (each->ended_by_force()) continue;
    if (rank < plan.how.ps) {
      // One that is replaced when the others have ended waits in vain.
      if (each->report && each->report->interrupted && !some_finished)
        return name_of(plan.how, rank) + " was interrupted: " + each->report->interrupted->what();
      continue;
    }
    if (came_too_late(plan, out, *each)) continue;
    if (contains(each->said, "without a shard of this run")) continue;  // it was killed before it had written one
    // Its run was lost before anything was committed; who has finished has taken it over, from the beginning.
    if (plan.how.on_loss.then == loss_action::take_over && contains(each->said, "no step of that run is committed"))
      continue;
    if (!each->of.finished) return name_of(plan.how, rank) + " has not finished: " + each->said;
    if (plan.how.how == strategy::synchronous && each->of.values != reference)
      return name_of(plan.how, rank) + " has other values";
  }
  ++(has_repeated ? runs.repeated : runs.clean);
  return {};
}

struct shard_files {
  std::string path = "/dev/shm/weft-shards-" + std::to_string(::getpid());
  ~shard_files() { std::filesystem::remove_all(path); }
};

/// A run that has finished is started again: each task comes at another time, finds that the last step is reached, and
/// ends.
verdict wrong_after_restart(schedule plan) {
  plan.faults.clear();
  for (std::size_t i = 0; i < plan.starts.size(); ++i)
    plan.starts[i] = milliseconds((plan.seed * 7 + i * 13) % 5 * 300);
  run r(plan);
  const outcome out = r.result();
  if (!out.over) return "started again, not all have come to their end";
  const std::vector<float> reference = undisturbed(plan.how);
  for (const auto& each : out.lives) {
    const std::string who = "started again, " + name_of(plan.how, each->rank);
    if (each->rank < plan.how.ps) {
      if (!each->report || each->report->interrupted) return who + " has not ended in order: " + each->words();
      continue;
    }
    if (!each->of.finished) return who + " has not finished: " + each->said;
    if (plan.how.how != strategy::synchronous) continue;
    if (each->of.first != plan.how.steps) return who + " begins at step " + std::to_string(each->of.first);
    if (each->of.values != reference) return who + " has other values";
  }
  return {};
}

void survive_servers(strategy how, std::uint64_t seeds, shard_runs& runs, loss_policy policy = wait_for{20s},
                     std::uint64_t first = 0) {
  const char* const count = std::getenv("WEFT_RANDOM_COUNT");
  const char* const from = std::getenv("WEFT_RANDOM_FROM");
  const std::uint64_t begin = from ? static_cast<std::uint64_t>(std::atoll(from)) : first;
  if (count) seeds = static_cast<std::uint64_t>(std::atoll(count));
  const shard_files files;
  int failures = 0;
  for (std::uint64_t seed = begin; seed < begin + seeds && failures < 4; ++seed) {
    std::filesystem::remove_all(files.path);
    const schedule plan = with_shards(seed, how, policy, files.path);
    run r(plan);
    const outcome out = r.result();
    verdict bad = wrong_after_servers(plan, out, runs);
    const bool all_finished = std::all_of(out.lives.begin(), out.lives.end(), [&](const auto& each) {
      return each->rank < plan.how.ps || each->of.finished || each->ended_by_force();
    });
    const bool some_finished =
        std::any_of(out.lives.begin(), out.lives.end(), [](const auto& each) { return each->of.finished; });
    if (!bad && seed % 3 == 0 && all_finished && some_finished) bad = wrong_after_restart(plan);
    if (!bad) continue;
    std::string more;
    for (const auto& each : out.lives) {
      more += "  " + name_of(plan.how, each->rank) + " made " + std::to_string(each->of.made) + ", went back " +
              std::to_string(each->of.rollbacks) + " times over " + std::to_string(each->of.repeated) + " steps";
      for (const auto& [before, to] : each->restored)
        more += ", restored " + std::to_string(to) + " at " + std::to_string(before);
      more += ", last step " + std::to_string(each->steps.empty() ? -1 : each->steps.rbegin()->first) + "\n";
    }
    BOOST_ERROR(*bad + "\n" + more + plan.text() + "  shards every " + std::to_string(plan.how.shards.every_steps) +
                "\n" + told(plan, out));
    ++failures;
  }
}

}  // namespace

// The run goes back to the last committed step, says so, and its values are those of a run that nobody has disturbed.
BOOST_AUTO_TEST_CASE(replaced_servers_end_with_the_bits_of_an_undisturbed_run) {
  shard_runs runs;
  survive_servers(strategy::synchronous, sanitized ? 30 : 250, runs);
  if (std::getenv("WEFT_RANDOM_COUNT"))
    std::printf("%d repeated steps, %d had nothing committed, %d neither\n", runs.repeated, runs.uncommitted,
                runs.clean);
  else
    BOOST_TEST(runs.repeated > (sanitized ? 5 : 100));
}

// Gradients that were pushed are pushed again in another epoch.
BOOST_AUTO_TEST_CASE(replaced_servers_end_with_the_same_bits_where_workers_are_taken_over) {
  shard_runs runs;
  survive_servers(strategy::synchronous, sanitized ? 10 : 40, runs, wait_for{20s}.then(loss_action::take_over));
  if (!std::getenv("WEFT_RANDOM_COUNT")) BOOST_TEST(runs.repeated > (sanitized ? 1 : 10));
}

// Each server restores its own newest shard: the others' updates stay.
BOOST_AUTO_TEST_CASE(replaced_asynchronous_servers_go_on_from_their_shards) {
  shard_runs runs;
  survive_servers(strategy::asynchronous, sanitized ? 10 : 100, runs);
}

// Seeds that have failed. A server leaves when the others have gone too far to ask it again; another one is lost while
// all workers wait at the first alone; and one before anything is committed.
BOOST_AUTO_TEST_CASE(servers_are_lost_as_a_run_begins_or_ends) {
  shard_runs runs;
  const loss_policy takes_over = wait_for{20s}.then(loss_action::take_over);
  for (const std::uint64_t seed : {279}) survive_servers(strategy::synchronous, 1, runs, wait_for{20s}, seed);
  for (const std::uint64_t seed : {145, 635, 988, 100'542})
    survive_servers(strategy::synchronous, 1, runs, takes_over, seed);
  for (const std::uint64_t seed : {244}) survive_servers(strategy::asynchronous, 1, runs, wait_for{20s}, seed);
}

// ---- the same with processes ----

namespace {

/// One life of a task as a process: what became of it comes through a pipe.
class child {
 public:
  child(life& of, const cluster_spec& cluster, const settings& how, std::uint64_t seed) : of_(of) {
    int ends[2];
    BOOST_REQUIRE(::pipe(ends) == 0);
    id_ = ::fork();
    BOOST_REQUIRE(id_ >= 0);
    if (id_ == 0) {
      ::close(ends[0]);
      sigset_t mine;
      ::sigemptyset(&mine);
      ::sigaddset(&mine, SIGTERM);
      ::sigaddset(&mine, SIGUSR1);
      ::pthread_sigmask(SIG_BLOCK, &mine, nullptr);
      live(of, cluster, how, seed, mine);
      const std::string text = written(of);
      const bool whole = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
      ::_exit(!whole ? 2 : of.said.empty() ? 0 : 1);
    }
    ::close(ends[1]);
    pipe_ = ends[0];
  }
  child(const child&) = delete;
  ~child() {
    if (!ended_) ::kill(id_, SIGKILL), ::waitpid(id_, nullptr, 0);
    ::close(pipe_);
  }

  void signal(int number) { ::kill(id_, number); }
  life& of() { return of_; }

  bool has_ended(milliseconds now) {
    if (ended_) return true;
    int status = 0;
    if (::waitpid(id_, &status, WNOHANG) != id_) return false;
    ended_ = true;
    of_.ended = now;
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = ::read(pipe_, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<std::size_t>(n));
    read(all);
    if (!of_.ended_by_force() && !WIFEXITED(status)) of_.said = "ended by signal " + std::to_string(WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) of_.said = "could not say what became of it";
    return true;
  }

 private:
  /// SIGTERM stops the server, as a program's own thread for signals would; SIGUSR1 is an error of the program's own.
  static void live(life& of, const cluster_spec& cluster, const settings& how, std::uint64_t seed,
                   const sigset_t& mine) {
    try {
      const bool serves = of.rank < how.ps;
      server here(cluster, serves ? "ps" : "worker", serves ? of.rank : of.rank - how.ps,
                  {.min_workers = how.min_workers});
      std::atomic<bool> over{false};
      std::thread listener([&] {
        const timespec moment{0, 20'000'000};
        while (!over) {
          const int number = ::sigtimedwait(&mine, nullptr, &moment);
          if (number == SIGTERM) here.stop();
          if (number == SIGUSR1) of.of.fail = true;
        }
      });
      struct ending {
        std::atomic<bool>& over;
        std::thread& listener;
        ~ending() {
          over = true;
          listener.join();
        }
      } at_end{over, listener};
      if (serves)
        of.report = here.join(how.set_up, 120s);
      else
        train(here, how, of.of, seed);
    } catch (const std::exception& problem) {
      of.said = problem.what();
    }
  }

  static std::string written(const life& of) {
    std::ostringstream out;
    out << std::hexfloat << of.of.began << ' ' << of.of.begun << ' ' << of.of.made << ' ' << of.of.updates << ' '
        << of.of.finished << ' ' << of.of.next << ' ' << of.of.global_step << ' ' << of.of.first << ' '
        << of.of.shares_memory << ' ' << of.report.has_value() << ' ' << of.of.values.size();
    for (const float each : of.of.values) out << ' ' << std::bit_cast<std::uint32_t>(each);
    out << "\n";
    if (of.report) {
      for (const std::string& each : of.report->finished) out << "F" << each << "\n";
      for (const std::string& each : of.report->lost) out << "L" << each << "\n";
      if (of.report->interrupted) out << "I" << of.report->interrupted->what() << "\n";
    }
    out << "S" << of.said << "\n";
    return out.str();
  }

  void read(const std::string& text) {
    std::istringstream in(text);
    bool has_report = false;
    std::size_t n = 0;
    if (!(in >> of_.of.began >> of_.of.begun >> of_.of.made >> of_.of.updates >> of_.of.finished >> of_.of.next >>
          of_.of.global_step >> of_.of.first >> of_.of.shares_memory >> has_report >> n)) {
      if (!of_.ended_by_force()) of_.said = "said nothing";
      return;
    }
    for (std::uint32_t bits; n > 0 && in >> bits; --n) of_.of.values.push_back(std::bit_cast<float>(bits));
    if (has_report) of_.report.emplace();
    for (std::string line; std::getline(in, line);) {
      if (line.empty()) continue;
      const std::string rest = line.substr(1);
      if (line[0] == 'F') of_.report->finished.push_back(rest);
      if (line[0] == 'L') of_.report->lost.push_back(rest);
      if (line[0] == 'I') of_.report->interrupted = error(error_code::unavailable, "join", rest);
      if (line[0] == 'S') of_.said = rest;
    }
  }

  life& of_;
  pid_t id_ = -1;
  int pipe_ = -1;
  bool ended_ = false;
};

outcome with_processes(const schedule& plan) {
  const std::set<std::string> names_before = names_in_memory();
  const auto begin = std::chrono::steady_clock::now();
  const auto now = [&] { return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin); };
  const cluster_spec cluster = test::local_cluster(plan.how.ps, plan.how.workers);
  outcome out;
  std::vector<std::unique_ptr<child>> children;
  std::vector<child*> newest(static_cast<std::size_t>(plan.how.tasks()));
  std::multimap<milliseconds, std::function<void()>> agenda;
  const auto start = [&](int rank) {
    child*& place = newest[static_cast<std::size_t>(rank)];
    life& one = *out.lives.emplace_back(std::make_unique<life>());
    one.is_first = place == nullptr;
    one.rank = rank;
    one.started = now();
    place =
        children.emplace_back(std::make_unique<child>(one, cluster, plan.how, plan.seed * 100 + children.size())).get();
  };
  std::function<void(int, child*)> restart = [&](int rank, child* before) {
    if (newest[static_cast<std::size_t>(rank)] != before) return;
    if (before->has_ended(now())) return start(rank);
    agenda.emplace(now() + 20ms, [&restart, rank, before] { restart(rank, before); });
  };
  for (int rank = 0; rank < plan.how.tasks(); ++rank)
    agenda.emplace(plan.starts[static_cast<std::size_t>(rank)], [&, rank] { start(rank); });
  for (const fault& each : plan.faults)
    agenda.emplace(each.at, [&, each] {
      child* const whom = newest[static_cast<std::size_t>(each.rank)];
      if (!whom || whom->has_ended(now())) return;
      life& of = whom->of();
      if (of.ended_by_force() || of.was_terminated) return;
      if (each.what == kind::stop) {
        of.stops.emplace_back(now(), now() + each.lasts);
        whom->signal(SIGSTOP);
        agenda.emplace(now() + each.lasts, [whom] { whom->signal(SIGCONT); });
        return;
      }
      if (each.what != kind::fail) of.hit = now();
      if (each.what == kind::terminate) of.was_terminated = true;
      if (each.what == kind::kill || each.what == kind::cut_off) of.was_killed = true;
      whom->signal(each.what == kind::terminate ? SIGTERM : each.what == kind::fail ? SIGUSR1 : SIGKILL);
      if (each.restart && each.what != kind::fail)
        agenda.emplace(now() + *each.restart, [&, whom, each] { restart(each.rank, whom); });
    });
  const auto all_ended = [&] {
    bool all = true;
    for (const auto& each : children) all &= each->has_ended(now());
    return all;
  };
  for (;;) {
    while (!agenda.empty() && agenda.begin()->first <= now()) {
      const auto what = agenda.begin()->second;
      agenda.erase(agenda.begin());
      what();
    }
    if (all_ended() && agenda.empty()) break;
    if (now() > 60s) {
      out.over = false;
      break;
    }
    std::this_thread::sleep_for(3ms);
  }
  children.clear();
  for (const task_id& task : cluster.tasks()) try {
      tcp().listen(cluster.task_address(task.job, task.index));
    } catch (const error&) {
      ++out.remains;
    }
  for (const std::string& each : names_in_memory()) out.remains += !names_before.contains(each);
  out.took = now();
  return out;
}

/// For the world's time: less happens, and each of it beyond doubt.
schedule for_processes(std::uint64_t seed) {
  schedule plan(seed);
  if (plan.how.ps == 0) {
    plan.how.workers = 2;  // the bits of two are known
    plan.starts.resize(2);
  }
  std::erase_if(plan.faults, [&](const fault& each) { return each.rank >= plan.how.tasks(); });
  plan.how.set_up = 5s;
  if (plan.how.step < 1s) plan.how.step = 400ms;
  for (fault& each : plan.faults) {
    each.at = std::min(each.at, milliseconds(1200));
    if (each.what == kind::stop) each.lasts = each.lasts < 1500ms ? std::min(each.lasts, milliseconds(600)) : 2600ms;
    if (each.restart) each.restart = std::min(*each.restart, milliseconds(800));
  }
  plan.reaction = 6s;
  return plan;
}

}  // namespace

BOOST_AUTO_TEST_CASE(processes_that_survive_random_faults_end_rightly) {
  const char* const seconds = std::getenv("WEFT_RANDOM_SECONDS");
  const char* const from = std::getenv("WEFT_RANDOM_FROM");
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t first = from ? static_cast<std::uint64_t>(std::atoll(from)) : 0;
  std::uint64_t seed = first;
  int shared = 0;
  for (; seed - first < 5 || (seconds && test::seconds_since(begin) < std::atof(seconds)); ++seed) {
    const schedule plan = for_processes(seed);
    const std::vector<float> reference = undisturbed(plan.how);
    const outcome out = with_processes(plan);
    for (const auto& each : out.lives)
      if (each->of.began && each->of.shares_memory)
        ++shared;
      else if (each->of.began)
        BOOST_ERROR(name_of(plan.how, each->rank) + " shares no memory\n" + plan.text());
    if (const verdict bad = judge(plan, out)(reference))
      BOOST_ERROR(*bad + " (processes)\n" + plan.text() + told(plan, out));
  }
  BOOST_TEST(shared > 0);
  if (seconds)
    std::printf("%llu clusters of processes in %.1f s\n", static_cast<unsigned long long>(seed - first),
                test::seconds_since(begin));
}
