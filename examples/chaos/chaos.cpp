// SPDX-License-Identifier: BSL-1.0
// Trains a classifier of images on clusters of processes of this machine, and hits one worker or parameter server after
// the other: kills it, stops it, tells it to end, cuts its network. Each time a new process takes the task's place.
// Prints the curve, the events and the time of each recovery. Fails unless a run ends with the bits of an undisturbed
// run or, if the strategy does not promise that, with its accuracy.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "../command_line.hpp"
#include "tasks.hpp"

using namespace std::chrono_literals;

namespace {

struct flags {
  std::string data_dir = "/usr/share/datasets/fashion-mnist", only;
  std::int64_t steps = 400;
  bool brief = false;
};

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

// ---- what happens to a task ----

/// Hits a process, and returns when it has ended; a new one may then take its place.
using blow = void (*)(tasks& all, int victim, const second_network* network);

void await_end(tasks& all, int victim, std::chrono::milliseconds time) {
  if (!all.await(time, [&] { return all.processes()[static_cast<std::size_t>(victim)].is_over; }))
    throw std::runtime_error("a process that was signalled did not end in time");
}

/// Until those have found the victim gone that it talks to: the servers or, without any, the other workers.
void await_notice(tasks& all, int victim, std::size_t from) {
  all.await(8s, [&] {
    std::set<int> who;
    for (std::size_t i = from; i < all.events().size(); ++i)
      if (all.events()[i].kind == event::lost) who.insert(all.events()[i].process);
    for (int i = 0; i < static_cast<int>(all.processes().size()); ++i) {
      const task_process& p = all.processes()[static_cast<std::size_t>(i)];
      if (i != victim && !p.is_over && p.is_server == (all.plan().servers > 0) && !who.contains(i)) return false;
    }
    return true;
  });
}

void kill_9(tasks& all, int victim, const second_network*) {
  all.signal(victim, SIGKILL);
  await_end(all, victim, 2s);
}

void kill_all_servers(tasks& all, int, const second_network*) {
  for (int index = 0; index < all.plan().servers; ++index) {
    const int each = all.process_of(true, index);
    all.set_hit(each);
    all.signal(each, SIGKILL);
  }
  for (int index = 0; index < all.plan().servers; ++index) await_end(all, all.process_of(true, index), 2s);
}

/// Silences the victim until the others have noticed, then does `after`, and waits for its end.
template <class Silence, class After>
void silence_until_noticed(tasks& all, int victim, Silence silence, After after, std::chrono::milliseconds time) {
  const std::size_t from = all.events().size();
  silence();
  await_notice(all, victim, from);
  after();
  await_end(all, victim, time);
}

void stop_and_kill(tasks& all, int victim, const second_network*) {
  silence_until_noticed(all, victim, [&] { all.signal(victim, SIGSTOP); }, [&] { all.signal(victim, SIGKILL); }, 2s);
}

/// It wakes up when the others have given it up, and has to notice.
void stop_and_continue(tasks& all, int victim, const second_network*) {
  silence_until_noticed(all, victim, [&] { all.signal(victim, SIGSTOP); }, [&] { all.signal(victim, SIGCONT); }, 10s);
}

void terminate(tasks& all, int victim, const second_network*) {
  all.signal(victim, SIGTERM);
  await_end(all, victim, 20s);
}

void cut_network(tasks& all, int victim, const second_network* network) {
  silence_until_noticed(all, victim, [&] { network->connect(false); }, [&] { network->connect(true); }, 20s);
}

struct hit {
  const char* what;  ///< continues "worker 1 "
  int index;         ///< of the worker or server
  blow by;
  bool is_server = false;

  std::string name() const { return (is_server ? "server " : "worker ") + std::to_string(index); }
};

// ---- the table of runs: a row for each, which another strategy, and another role, adds ----

struct scenario {
  cluster_plan plan;
  bool same_bits;  ///< as the undisturbed run; else its accuracy, less what chance does
  bool two_networks;
  int times_steps;  ///< of --steps: more where the others go on while a task is missing
  std::vector<hit> hits;
  std::vector<hit> brief;  ///< of them, in a short test
};

const std::vector<scenario>& scenarios() {
  static const hit kill_worker{"is killed (SIGKILL)", 1, kill_9};
  static const hit kill_chief{"(the chief) is killed (SIGKILL)", 0, kill_9};
  static const hit freeze{"is stopped (SIGSTOP) and then killed", 2, stop_and_kill};
  static const hit sleep{"is stopped (SIGSTOP) and then continued (SIGCONT)", 1, stop_and_continue};
  static const hit end_it{"is terminated (SIGTERM)", 2, terminate};
  static const hit end_chief{"(the chief) is terminated (SIGTERM)", 0, terminate};
  static const hit cut{"is cut off from the network", 2, cut_network};
  static const hit kill_server{"is killed (SIGKILL)", 1, kill_9, true};
  static const hit kill_first_server{"is killed (SIGKILL)", 0, kill_9, true};
  static const hit kill_both{"and server 1 are killed (SIGKILL)", 0, kill_all_servers, true};
  static const std::vector<hit> all = {kill_worker, kill_chief, freeze, sleep, end_it, end_chief};
  static const std::vector<hit> few = {kill_worker, kill_chief};
  static const std::vector<hit> taken_over = {kill_worker, kill_chief, freeze};
  using enum training_by;
  static const std::vector<scenario> table = {
      {{"synchronous, 2 servers", synchronous_servers, 2, 30s, after_wait::stop}, true, false, 1, all, few},
      {{"synchronous, 2 servers with shards", synchronous_servers, 2, 30s, after_wait::stop, true},
       true,
       false,
       1,
       {kill_server, kill_worker, kill_first_server, kill_both},
       {kill_server, kill_first_server}},
      {{"all-reduce", all_reduce, 0, 30s, after_wait::stop}, true, false, 1, all, few},
      {{"asynchronous", asynchronous_servers, 1, 30s, after_wait::stop}, false, false, 6, all, few},
      {{"asynchronous, 2 servers with shards", asynchronous_servers, 2, 30s, after_wait::stop, true},
       false,
       false,
       6,
       {kill_server, kill_worker, kill_both},
       {}},
      {{"synchronous, 1 server, shrinks", synchronous_servers, 1, 0s, after_wait::shrink},
       false,
       false,
       4,
       {kill_worker, kill_chief, sleep},
       {}},
      {{"all-reduce, shrinks", all_reduce, 0, 0s, after_wait::shrink},
       false,
       false,
       4,
       {kill_worker, kill_chief, sleep},
       {kill_worker}},
      {{"synchronous, 2 servers, takes over", synchronous_servers, 2, 0s, after_wait::take_over},
       true,
       false,
       4,
       taken_over,
       {kill_worker}},
      {{"all-reduce, takes over", all_reduce, 0, 0s, after_wait::take_over}, true, false, 4, taken_over, {kill_chief}},
      {{"synchronous, 2 servers, 2 networks", synchronous_servers, 2, 30s, after_wait::stop}, true, true, 1, {cut}, {}},
      {{"all-reduce, 2 networks", all_reduce, 0, 30s, after_wait::stop}, true, true, 1, {cut}, {}},
  };
  return table;
}

// ---- a run ----

struct ending {
  std::vector<std::string> digests;  // of the workers
  double accuracy = 0;               // the least
};

/// Prints the mean cost of each tenth of a run, from the events that have come.
class curve {
 public:
  explicit curve(std::int64_t steps) : each_(std::max<std::int64_t>(1, steps / 10)) {}
  void print(const std::vector<event>& events, std::int64_t began) {
    for (; next_ < events.size(); ++next_) {
      const event& e = events[next_];
      if (e.kind != event::step) continue;
      sum_ += e.number, ++count_;
      if (e.at < shown_) continue;
      shown_ = (e.at / each_ + 1) * each_;
      std::printf("%7.2f s  step %4lld  cost %.3f\n", seconds(e.time - began), static_cast<long long>(e.at),
                  sum_ / count_);
      sum_ = 0, count_ = 0;
    }
  }

 private:
  std::int64_t each_, shown_ = 0;
  std::size_t next_ = 0;
  double sum_ = 0;
  int count_ = 0;
};

std::string in_seconds(std::optional<std::int64_t> nanoseconds) {
  if (!nanoseconds) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", seconds(*nanoseconds));
  return text;
}

class disturbed_run {
 public:
  disturbed_run(const scenario& row, const std::vector<hit>& hits, std::int64_t steps, const second_network* network)
      : hits_(hits),
        network_(row.two_networks ? network : nullptr),
        began_(nanoseconds_now()),
        all_(row.plan, steps, 3ms, network_),
        curve_(steps) {}

  ending run() {
    try {
      return run_to_end();
    } catch (const std::runtime_error&) {
      if (!is_interrupted()) print_what_was_told();
      throw;
    }
  }

 private:
  ending run_to_end() {
    for (std::size_t i = 0; i < hits_.size(); ++i) {
      const auto at = all_.steps() * static_cast<std::int64_t>(i + 1) / static_cast<std::int64_t>(hits_.size() + 1);
      await("step " + std::to_string(at), [&] { return all_.at() >= at && is_training(hits_[i]); });
      strike(hits_[i]);
    }
    await("the end", [&] {
      return std::all_of(all_.processes().begin(), all_.processes().end(),
                         [](const task_process& p) { return p.is_over; });
    });
    ending end;
    end.accuracy = 1;
    for (int i = 0; i < all_.plan().workers; ++i) {
      const task_process& p = all_.processes()[static_cast<std::size_t>(all_.process_of(false, i))];
      if (!p.has_finished) throw std::runtime_error("worker " + std::to_string(i) + " did not finish: " + p.failure);
      end.digests.push_back(p.digest);
      end.accuracy = std::min(end.accuracy, p.accuracy);
    }
    return end;
  }

  /// Prints the losses and failures that tasks have reported, and the last step of each.
  void print_what_was_told() const {
    std::map<int, std::int64_t> steps;
    for (const event& e : all_.events()) {
      const task_process& p = all_.processes()[static_cast<std::size_t>(e.process)];
      if (e.kind == event::step) steps[e.process] = e.at;
      if (e.kind == event::lost || e.kind == event::failed)
        std::printf("%7.2f s  %s %d (process %d): %s\n", seconds(e.time - began_), p.is_server ? "server" : "worker",
                    p.index, e.process, e.text);
    }
    for (const auto& [process, step] : steps)
      std::printf("           process %d: last step %lld%s\n", process, static_cast<long long>(step),
                  all_.processes()[static_cast<std::size_t>(process)].is_over ? ", has ended" : "");
  }

  bool is_training(const hit& h) const {
    const task_process& p = all_.processes()[static_cast<std::size_t>(all_.process_of(h.is_server, h.index))];
    return (p.is_server || p.first_step != 0) && !p.is_over;
  }

  bool others_have_finished(int process) const {
    for (int i = 0; i < all_.plan().workers; ++i)
      if (const int each = all_.process_of(false, i);
          each != process && !all_.processes()[static_cast<std::size_t>(each)].is_over)
        return false;
    return true;
  }

  /// Takes events until `done` holds.
  void await(const std::string& what, const std::function<bool()>& done) {
    std::string failure;
    const bool came = all_.await(60s, [&] {
      curve_.print(all_.events(), began_);
      failure = all_.failure();
      return !failure.empty() || done();
    });
    if (!failure.empty()) throw std::runtime_error(failure);
    if (!came) throw std::runtime_error(what + " did not happen within a minute");
  }

  /// When training went on with the new process: its own first step or, for a server, the first step of a worker after
  /// its start. 0: not yet.
  std::int64_t back_at(int process, std::size_t from) const {
    const task_process& p = all_.processes()[static_cast<std::size_t>(process)];
    if (!p.is_server) return p.first_step;
    for (std::size_t i = from; i < all_.events().size(); ++i)
      if (const event& e = all_.events()[i]; e.kind == event::step && e.time > p.started) return e.time;
    return 0;
  }

  /// Starts the tasks again that have been hit. Returns the process in place of the victim.
  int start_again(int victim) {
    int again = -1;
    const int processes = static_cast<int>(all_.processes().size());
    for (int i = 0; i < processes; ++i) {
      const task_process p = all_.processes()[static_cast<std::size_t>(i)];
      if (!p.is_hit || i != all_.process_of(p.is_server, p.index)) continue;
      const int started = all_.start(p.is_server, p.index);
      if (i == victim) again = started;
    }
    return again;
  }

  void strike(const hit& h) {
    const int victim = all_.process_of(h.is_server, h.index);
    const std::size_t from = all_.events().size();
    all_.set_hit(victim);
    const std::int64_t since = nanoseconds_now();
    std::printf("%7.2f s  %s %s\n", seconds(since - began_), h.name().c_str(), h.what);
    h.by(all_, victim, network_);
    const std::int64_t started = nanoseconds_now();
    const int again = start_again(victim);
    await("a step with the new process", [&] { return back_at(again, from) != 0 || others_have_finished(again); });
    const std::int64_t back = back_at(again, from);
    if (back == 0) throw std::runtime_error("the others finished before the new process trained: increase --steps");
    std::optional<std::int64_t> noticed;
    std::int64_t last = since, longest = 0;  // between two steps of the others
    for (std::size_t i = from; i < all_.events().size(); ++i) {
      const event& e = all_.events()[i];
      if (e.process == victim || e.time > back || e.time < since) continue;
      if (e.kind == event::lost && !noticed) noticed = e.time - since;
      if (e.kind == event::step) longest = std::max(longest, e.time - last), last = e.time;
    }
    std::printf(
        "%7.2f s  %s is back: noticed after %s, training after %s (%s after the start of the new process), the others "
        "paused for %s\n",
        seconds(back - began_), h.name().c_str(), in_seconds(noticed).c_str(), in_seconds(back - since).c_str(),
        in_seconds(back - started).c_str(), in_seconds(longest).c_str());
  }

  const std::vector<hit>& hits_;
  const second_network* network_;
  std::int64_t began_;
  tasks all_;
  curve curve_;
};

/// Runs each scenario once without hits, and remembers how it ends. Scenarios that differ only in what they do at a
/// loss share one such run.
class undisturbed_runs {
 public:
  explicit undisturbed_runs(std::int64_t steps) : steps_(steps) {}
  const ending& of(const scenario& row) {
    // With take_over gradients are summed in another order.
    const auto key =
        std::make_tuple(row.plan.how, row.plan.servers, row.times_steps, row.plan.then == after_wait::take_over);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    scenario alone = row;
    alone.two_networks = false;
    std::printf("    undisturbed:\n");
    const ending end = disturbed_run(alone, none_, steps_ * row.times_steps, nullptr).run();
    return known_.emplace(key, end).first->second;
  }

 private:
  std::int64_t steps_;
  std::vector<hit> none_;
  std::map<std::tuple<training_by, int, int, bool>, ending> known_;
};

/// Returns what is wrong with the end of a run; nothing: it is right.
std::string judge(const scenario& row, const ending& end, const ending& expected) {
  if (row.same_bits) {
    for (const std::string& each : end.digests)
      if (each != expected.digests[0]) return "the values differ from those of the undisturbed run";
    std::printf("    the values are those of the undisturbed run, to the bit (%s)\n", expected.digests[0].c_str());
    return {};
  }
  constexpr double chance = 0.04;
  std::printf("    test accuracy %.3f, undisturbed %.3f\n", end.accuracy, expected.accuracy);
  return end.accuracy >= expected.accuracy - chance ? "" : "the accuracy is below the undisturbed run's";
}

int run_all(const flags& f) {
  heed_signals();
  read_images(f.data_dir);
  std::optional<second_network> network;
  undisturbed_runs undisturbed(f.steps);
  std::vector<std::string> faults;
  for (const scenario& row : scenarios()) {
    const std::vector<hit>& hits = f.brief ? row.brief : row.hits;
    if (hits.empty() || (!f.only.empty() && std::string(row.plan.name).find(f.only) == std::string::npos)) continue;
    std::printf("==== %s\n", row.plan.name);
    if (row.two_networks) {
      if (!network) network.emplace();
      if (!network->lack().empty()) {
        std::printf("    skipped: a second network %s\n", network->lack().c_str());
        continue;
      }
    }
    try {
      const ending& expected = undisturbed.of(row);
      std::printf("    disturbed:\n");
      const ending end = disturbed_run(row, hits, f.steps * row.times_steps, network ? &*network : nullptr).run();
      if (const std::string wrong = judge(row, end, expected); !wrong.empty()) throw std::runtime_error(wrong);
    } catch (const std::runtime_error& why) {
      if (is_interrupted()) throw;
      std::printf("    FAILED: %s\n", why.what());
      faults.push_back(std::string(row.plan.name) + ": " + why.what());
    }
  }
  for (const std::string& each : faults) std::fprintf(stderr, "error: %s\n", each.c_str());
  return faults.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  flags f;
  command_line line("Trains on clusters of this machine whose tasks are killed, stopped and cut off");
  line.add("only", f.only, "run only those whose names contain this text");
  line.add("steps", f.steps, 20, 1'000'000, "steps of each worker in each run");
  line.add("brief", f.brief, "fewer runs, with two faults in each");
  line.add("data_dir", f.data_dir, "folder with the four IDX files, plain or .gz");
  if (!line.parse(argc, argv)) return 0;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return run_all(f);
} catch (const std::exception& why) {
  std::fprintf(stderr, "error: %s\n", why.what());
  return 2;
}
