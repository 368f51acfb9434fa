// SPDX-License-Identifier: BSL-1.0
#pragma once

// A small model that workers train, and parameter servers as processes that a test can kill and replace: shared by the
// tests of lost workers and of lost servers.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/ops/random/dropout.hpp>

#include "local_cluster.hpp"

namespace test {

using namespace std::chrono_literals;

/// A folder for shards, which is removed with this object.
struct folder {
  std::string path = (std::filesystem::temp_directory_path() / "weft-shards-XXXXXX").string();
  folder() { BOOST_REQUIRE(::mkdtemp(path.data())); }
  folder(const folder&) = delete;
  ~folder() { std::filesystem::remove_all(path); }
  /// The names that begin with `prefix` in order, without lock files.
  std::vector<std::string> names(const std::string& prefix) const {
    std::vector<std::string> all;
    for (const auto& each : std::filesystem::directory_iterator(path))
      if (const std::string name = each.path().filename(); name.starts_with(prefix) && !name.ends_with(".lock"))
        all.push_back(name);
    std::sort(all.begin(), all.end());
    return all;
  }
  /// The bytes of each file, without lock files.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const std::string& name : names("")) {
      std::ifstream file(path + "/" + name, std::ios::binary);
      all[name].assign(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }
  /// Waits for `count` files of a step, such as its manifest.
  void await_file(const std::string& prefix, std::int64_t step, std::ptrdiff_t count = 1) const {
    std::string number = std::to_string(step);
    number.insert(0, 19 - number.size(), '0');
    await("a file of the shards", [&] {
      const auto all = names(prefix);
      return std::count_if(all.begin(), all.end(), [&](auto& each) { return each.ends_with(number); }) >= count;
    });
  }
};

/// Models that servers must tell apart.
enum class variant { usual, other_optimizer, other_variables, other_seed, other_settings };

struct trained_model {
  weft::graph g;
  weft::node<float, weft::dims<weft::dyn<"n">, 6>> x = weft::placeholder<float, weft::dims<weft::dyn<"n">, 6>>(g, "x");
  weft::variable_node<float, weft::dims<6, 5>> a;
  weft::variable_node<float, weft::dims<5, 3>> b;
  weft::variable_node<float> seen;        // of all workers: a mean of the inputs
  weft::variable_node<std::int64_t> own;  // of this worker: the steps that it has made for itself
  weft::node<float> loss;
  weft::effect train;

  explicit trained_model(variant of = variant::usual)
      : g(of == variant::other_seed ? 4 : 3),
        a(weft::variable<float, weft::dims<6, 5>>(g, of == variant::other_variables ? "c" : "a",
                                                  weft::init::glorot_uniform{})),
        b(weft::variable<float, weft::dims<5, 3>>(g, "b", weft::init::glorot_uniform{})),
        seen(weft::variable<float>(g, "seen", 0.0f, weft::variable_kind::averaged)),
        own(weft::variable<std::int64_t>(g, "own", 0, weft::variable_kind::local)),
        loss(let(mean(square(matmul(tanh(matmul(dropout(x, 0.2), a)), b) - 0.5f)))),
        train(group(of == variant::other_optimizer ? weft::momentum{.learning_rate = 0.05}.minimize(loss)
                                                   : weft::adam{.learning_rate = 0.05}.minimize(loss),
                    assign(seen, seen * 0.5f + sum(x)), assign_add(own, 1))) {}

  /// The values of the variables that the workers share.
  std::vector<float> values(weft::session& s) const {
    std::vector<float> all;
    for (const std::uint32_t n : {a.id().node, b.id().node, seen.id().node}) {
      const auto* data = reinterpret_cast<const float*>(s.state_of(n).data());
      all.insert(all.end(), data, data + s.variable_info(n).extents.elements());
    }
    return all;
  }
};

/// Workers have batches of different sizes and, if `some_are_empty`, none in every fifth step.
inline weft::tensor<float, weft::dims<weft::dyn<"n">, 6>> batch_of(const weft::replica& of, bool some_are_empty) {
  const std::int64_t rows = some_are_empty && (of.step + of.index) % 5 == 0 ? 0 : 2 + of.index;
  weft::tensor<float, weft::dims<weft::dyn<"n">, 6>> x(weft::shape(rows, 6));
  const weft::random_stream data(11, static_cast<std::uint64_t>(of.step * 16 + of.index));
  for (std::int64_t i = 0; i < rows * 6; ++i)
    x.data()[i] = static_cast<float>(data.normal(static_cast<std::uint64_t>(i)));
  return x;
}

/// What a test sees of the workers while they train, by index: the processes that have started and those that have a
/// session, and the steps, missed deadlines and waits of the worker's last process.
struct progress {
  std::array<std::atomic<int>, 4> starts{}, sessions{}, made{}, next{}, late{}, waits{};
};

/// What a worker has done.
struct trained {
  std::vector<float> values;
  std::vector<std::pair<std::int64_t, std::int64_t>> rollbacks;
  std::vector<std::int64_t> steps;
  std::vector<std::string> waits;
  std::int64_t first_step = -1, lost_updates = 0, global_step = 0, own = 0;
  int made = 0, computed = 0;  // computed: gradients of other workers
  bool is_chief = false;
  std::string view, late, problem;

  /// As text, of a worker that is a process; the bits of the values come last. That of a worker that failed is its
  /// problem alone.
  std::string report() const {
    if (!problem.empty()) return problem;
    std::string text = "first " + std::to_string(first_step) + " made " + std::to_string(made) + " global " +
                       std::to_string(global_step) + " " + view + " chief " + std::to_string(is_chief) + " own " +
                       std::to_string(own) + " computed " + std::to_string(computed) + " rollbacks " +
                       std::to_string(rollbacks.size()) + late + " waits " + std::to_string(waits.size());
    for (const std::string& each : waits) text += " [" + each + "]";
    text += " bits";
    for (const float each : values) {
      std::uint32_t bits;
      char digits[16];
      std::memcpy(&bits, &each, sizeof bits);
      std::snprintf(digits, sizeof digits, " %x", bits);
      text += digits;
    }
    return text;
  }
};

/// A process that joins the workers between two steps.
struct newcomer {
  std::int64_t step;
  int worker, start;  // start: the number of its process among the worker's, from 1
};

/// How a worker trains.
struct training {
  trained (*by)(const weft::cluster_spec&, int index, const training&, progress&) = nullptr;  ///< train<Strategy>
  weft::loss_policy on_loss{};
  std::int64_t steps = 12;
  variant of = variant::usual;
  bool shares_memory = true;
  std::size_t bucket_bytes = std::size_t{1} << 20;
  std::chrono::milliseconds pace{0}, step_within{40s};
  bool insists = false;         ///< calls a step again that has missed its deadline
  std::int64_t stops_at = -1;   ///< requests a stop before this step
  std::int64_t leaves_at = -1;  ///< ends before this step, without finish()
  bool fails = false;           ///< ends so by an exception
  std::vector<newcomer> newcomers{};
  std::function<void(std::int64_t step)> before_step{};
  std::function<void(bool finished)> at_end{};

  bool takes_over() const { return on_loss.then == weft::loss_action::take_over; }
};

/// The chief does not make a step before the newcomer that it expects is there.
inline void await_newcomers(const weft::task_server& here, const training& how, std::int64_t step, bool has_servers,
                            const progress& seen) {
  for (const newcomer& each : how.newcomers) {
    if (each.step != step) continue;
    const std::size_t rank = here.cluster().rank({"worker", each.worker});
    await("a newcomer", [&] {
      bool waits = has_servers && seen.sessions[static_cast<std::size_t>(each.worker)] >= each.start;
      here.for_each_channel([&](std::size_t from, std::uint64_t, const std::string& name) {
        waits |= from == rank && name.starts_with("view/");
      });
      return waits;
    });
  }
}

/// One worker's training, in this process.
template <class Strategy>
trained train(const weft::cluster_spec& cluster, int index, const training& how, progress& seen) {
  constexpr bool has_servers = requires { Strategy::mode; };
  const auto mine = static_cast<std::size_t>(index);
  trained out;
  try {
    for (auto* each : {&seen.made, &seen.next, &seen.late, &seen.waits}) (*each)[mine] = 0;
    const trained_model m(how.of);
    weft::server here(cluster, "worker", index,
                      {.shared_memory = how.shares_memory, .on_wait = [&](const weft::wait_change& change) {
                         out.waits.push_back(to_string(change));
                         ++seen.waits[mine];
                       }});
    ++seen.starts[mine];
    Strategy strategy;
    strategy.on_loss = how.on_loss;
    if constexpr (has_servers)
      strategy.on_rollback = [&](std::int64_t from, std::int64_t to) { out.rollbacks.emplace_back(from, to); };
    else
      strategy.bucket_bytes = how.bucket_bytes;
    weft::replicated_session s(m.g, here, strategy, {.threads = 1}, 30s,
                               how.of == variant::other_settings ? "two epochs" : "");
    ++seen.sessions[mine];
    auto step = s.prepare(weft::fetch(m.loss, m.train), weft::feed(m.x));
    out.first_step = s.next_step();
    const auto make_step = [&](std::int64_t now) {
      const auto batch = [&](const weft::replica& of) {
        require_in_task(of.step == now, "the step is this one");
        out.computed += of.index != index;
        return batch_of(of, how.takes_over());
      };
      try {
        if (has_servers && !how.takes_over())
          step(batch({index, now}), how.step_within);
        else
          step.run(batch, how.step_within);
        return true;
      } catch (const weft::error& problem) {
        if (!how.insists || problem.code() != weft::error_code::deadline_exceeded) throw;
        out.late += std::string(" late: ") + problem.what();
        ++seen.late[mine];
        return false;
      }
    };
    for (bool finished = false; !finished;) {
      while (s.next_step() < how.steps && !s.all_stop()) {
        const std::int64_t now = s.next_step();
        if (now == how.leaves_at) {
          if (how.fails) throw std::runtime_error("fails");
          return out;
        }
        out.steps.push_back(now);
        if (how.before_step) how.before_step(now);
        if (s.is_chief()) await_newcomers(here, how, now, has_servers, seen);
        if (now == how.stops_at) s.request_stop();
        std::this_thread::sleep_for(how.pace);
        while (!make_step(now)) {
        }
        seen.made[mine] = ++out.made;
        seen.next[mine] = static_cast<int>(s.next_step());
      }
      if (how.at_end) how.at_end(false);
      try {
        s.all_stop() ? s.leave("stopped by SIGTERM") : s.finish(30s);
        finished = true;
      } catch (const weft::error& problem) {
        if (!has_servers || problem.code() != weft::error_code::aborted) throw;
      }
    }
    if (how.at_end) how.at_end(true);
    if constexpr (has_servers)
      out.lost_updates = s.lost_updates();
    else
      out.view = to_string(s.view());
    out.is_chief = s.is_chief();
    out.global_step = s.global_step();
    out.own = s.local().eval(m.own);
    out.values = m.values(s.local());
  } catch (const std::exception& problem) {
    out.problem = problem.what();
  }
  return out;
}

/// Parameter servers as processes. The text of one has a line for each wait and each worker that is left out, and ends
/// with "lost updates: N" or with the error that interrupted it.
class servers {
 public:
  weft::cluster_spec cluster;
  std::vector<std::unique_ptr<process>> processes;

  /// `spares`: processes that can take the place of each.
  servers(int ps, int workers, const weft::shard_options& shards = {}, int spares = 3, bool disk_is_full = false)
      : cluster(local_cluster(ps, workers)), shards_(shards), disk_is_full_(disk_is_full) {
    for (int task = 0; task < ps; ++task) {
      auto& its = spares_.emplace_back();
      for (int n = 0; n <= spares; ++n) its.push_back(make(task));
      processes.push_back(start(task));
    }
  }
  servers(const servers&) = delete;

  void kill(int task) { at(task)->signal(SIGKILL); }
  std::string text(int task) { return at(task)->text(); }
  void start_again(int task) { at(task) = start(task); }
  /// Kills one and starts another in its place.
  void replace(int task) {
    kill(task);
    text(task);
    start_again(task);
  }
  std::unique_ptr<process>& at(int task) { return processes[static_cast<std::size_t>(task)]; }

 private:
  std::unique_ptr<process> start(int task) {
    auto& its = spares_[static_cast<std::size_t>(task)];
    require_in_task(!its.empty(), "a process is left");
    std::unique_ptr<process> next = std::move(its.back());
    its.pop_back();
    next->begin();
    return next;
  }
  std::unique_ptr<process> make(int task) const {
    const auto serve = [this, task]() -> std::string {
      std::freopen("/dev/null", "w", stderr);
      if (disk_is_full_) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit none{0, 0};
        ::setrlimit(RLIMIT_FSIZE, &none);
      }
      std::string lines;
      weft::server here(cluster, "ps", task,
                        {.shards = shards_,
                         .on_wait = [&](const weft::wait_change& change) { lines += to_string(change) + "\n"; },
                         .on_left_out = [&](const weft::error& why) { lines += std::string(why.what()) + "\n"; }});
      const weft::join_report report = here.join(30s, 120s);
      return lines + (report.interrupted ? std::string(report.interrupted->what())
                                         : "lost updates: " + std::to_string(report.lost_updates));
    };
    return std::make_unique<process>(serve, true);
  }

  weft::shard_options shards_;
  bool disk_is_full_;
  std::vector<std::vector<std::unique_ptr<process>>> spares_;
};

}  // namespace test
