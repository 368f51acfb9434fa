// SPDX-License-Identifier: BSL-1.0
// How long a cluster needs after the loss of a worker: until another task knows of it, until the others train on
// without it, and until a process that takes its place trains. Then the same of a parameter server of 50 MB; how long
// steps last while two of them write their shards; and what a loss policy costs a run that loses nothing. Real
// processes on one machine, one loss after the other. Prints one JSON object for each figure.
// usage: failures [TRIALS [TRIALS_OF_SILENCE [TRIALS_OF_SERVERS [SECONDS_OF_RUNS]]]]     without any: 100, 100, 30, 60
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>

#include "free_addresses.hpp"
#include "timing.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

constexpr int workers = 3, victim = 2;

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(bench::steady::now().time_since_epoch()).count();
}

/// The times that processes record, in memory that all of them map.
struct board {
  std::atomic<std::int64_t> noticed{0};  // when the first of the others knew of the loss; 0: not yet
  std::atomic<std::int64_t> alone{0};    // the first step that was made without the victim; 0: not yet
  std::atomic<std::int64_t> back{0};     // the first step of the process that took its place; 0: not yet
  std::atomic<std::int64_t> struck{0};   // the loss; 0: none yet
  std::atomic<bool> ends{false};
};

struct kind {
  const char* name;
  int servers;
  bool shrinks;
};

template <class Strategy>
void train(server& here, Strategy how, board& all, bool takes_place) {
  graph g(1);
  auto w = variable<float, dims<100, 100>>(g, "w", init::zeros{});
  auto x = placeholder<float, dims<1, 100>>(g, "x");
  auto loss = let(mean(square(matmul(x, w) - 1.0f)));
  auto train = gradient_descent{.learning_rate = 0.01}.minimize(loss);
  replicated_session s(g, here, how, {.threads = 1}, 60s);
  auto step = s.prepare(fetch(train), feed(x));
  tensor<float, dims<1, 100>> ones;
  for (std::int64_t i = 0; i < 100; ++i) ones(0, i) = 0.1f;
  const auto stamp = [](std::atomic<std::int64_t>& at) {
    std::int64_t none = 0;
    at.compare_exchange_strong(none, now());
  };
  bool first = takes_place;
  while (!all.ends) {
    std::this_thread::sleep_for(2ms);
    // A step that was begun before the loss may have had the victim's gradient.
    const bool after = all.noticed != 0;
    step(ones, 60s);
    if (first) stamp(all.back), first = false;
    if (after && here.index() != victim && all.back == 0) stamp(all.alone);
  }
}

void work(const kind& of, const cluster_spec& cluster, bool is_server, int index, board& all, bool takes_place) {
  server_options options;
  options.on_left_out = [](const error&) {};
  options.on_lost = [&](const error&) {
    std::int64_t none = 0;
    if ((is_server || index != victim) && all.struck != 0) all.noticed.compare_exchange_strong(none, now());
  };
  server here(cluster, is_server ? "ps" : "worker", index, options);
  if (is_server) {
    here.join();
    return;
  }
  const loss_policy policy = of.shrinks ? wait_for{0ms}.then(loss_action::shrink) : loss_policy(wait_for{30s});
  if (of.servers > 0)
    train(here, parameter_server<synchronous>{.on_loss = policy}, all, takes_place);
  else
    train(here, collective{.on_loss = policy}, all, takes_place);
}

class cluster_of_processes {
 public:
  explicit cluster_of_processes(const kind& of)
      : kind_(of),
        board_(new(::mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) board) {
    const std::string all = bench::free_addresses(of.servers + workers);
    std::size_t cut = 0;
    for (int i = 0; i < of.servers; ++i) cut = all.find(',', cut) + 1;
    if (of.servers > 0) cluster_.add_job("ps", all.substr(0, cut - 1));
    cluster_.add_job("worker", all.substr(cut));
    for (int i = 0; i < of.servers; ++i) start(true, i, false);
    for (int i = 0; i < workers; ++i) victim_ = start(false, i, i == victim);  // it is the last
    await(board_->back, "the first step");
  }
  ~cluster_of_processes() {
    // Workers first: they would report the loss of the servers.
    for (std::size_t i = children_.size(); i-- > 0;) ::kill(children_[i], SIGKILL), ::waitpid(children_[i], nullptr, 0);
  }

  struct trial {
    double noticed, alone, back, back_from_start;
  };
  /// One loss: by SIGKILL, or silent: by SIGSTOP.
  trial lose(bool silent) {
    board& b = *board_;
    b.noticed = 0;
    std::this_thread::sleep_for(100ms);  // steps that have seen the last notice end
    b.alone = b.back = 0;
    const std::int64_t struck = now();
    b.struck = struck;
    ::kill(victim_, silent ? SIGSTOP : SIGKILL);
    await(b.noticed, "the notice");
    if (kind_.shrinks) await(b.alone, "a step without the lost worker");
    ::kill(victim_, SIGKILL);
    ::waitpid(victim_, nullptr, 0);
    children_.erase(std::find(children_.begin(), children_.end(), victim_));
    const std::int64_t started = now();
    victim_ = start(false, victim, true);
    await(b.back, "a step of the new process");
    b.struck = 0;
    const auto since = [](std::int64_t from, std::int64_t to) { return static_cast<double>(to - from) * 1e-9; };
    return {since(struck, b.noticed), since(struck, b.alone), since(struck, b.back), since(started, b.back)};
  }

 private:
  static void await(const std::atomic<std::int64_t>& what, const char* name) {
    for (const std::int64_t until = now() + 60'000'000'000; what == 0; std::this_thread::sleep_for(1ms))
      if (now() > until) {
        std::fprintf(stderr, "%s did not happen within a minute\n", name);
        std::exit(1);
      }
  }
  pid_t start(bool server, int index, bool takes_place) {
    const pid_t child = ::fork();
    if (child < 0) std::abort();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        work(kind_, cluster_, server, index, *board_, takes_place);
      } catch (const std::exception& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    children_.push_back(child);
    return child;
  }

  const kind& kind_;
  board* board_;
  cluster_spec cluster_;
  std::vector<pid_t> children_;
  pid_t victim_ = -1;
};

double quantile(std::vector<double> of, double part) {
  std::sort(of.begin(), of.end());
  return of[std::min(of.size() - 1, static_cast<std::size_t>(std::ceil(part * static_cast<double>(of.size()))) - 1)];
}

void print(const char* strategy, const char* loss, const char* figure, const std::vector<double>& seconds) {
  std::printf(
      "{\"peer\": \"weft\", \"strategy\": \"%s\", \"loss\": \"%s\", \"figure\": \"%s\", \"trials\": %zu, \"median_s\": "
      "%.4f, \"p90_s\": %.4f, \"max_s\": %.4f}\n",
      strategy, loss, figure, seconds.size(), quantile(seconds, 0.5), quantile(seconds, 0.9), quantile(seconds, 1));
  std::fflush(stdout);
}

void measure(const kind& of, bool silent, int trials) {
  if (trials == 0) return;
  std::vector<double> noticed, alone, back, from_start;
  cluster_of_processes all(of);
  for (int i = 0; i < trials; ++i) {
    const auto t = all.lose(silent);
    noticed.push_back(t.noticed), alone.push_back(t.alone), back.push_back(t.back),
        from_start.push_back(t.back_from_start);
  }
  const char* const loss = silent ? "silent" : "killed";
  print(of.name, loss, "detected", noticed);
  if (of.shrinks) print(of.name, loss, "others continue", alone);
  print(of.name, loss, "worker back, from the start of its process", from_start);
}

// ---- parameter servers of 100 MB ----

constexpr int large_workers = 2;
constexpr std::int64_t shard_every = 40;  // steps

/// The times of a run whose servers write shards, in memory that its processes map.
struct large_board {
  std::atomic<std::int64_t> struck{INT64_MAX}, again{0};  // a server was lost; the first step that was begun since
  std::atomic<std::int64_t> next{0};                      // the number of the next step
  std::atomic<bool> ends{false};
  static constexpr std::int64_t most = 4000;
  std::atomic<std::int64_t> steps{0};
  double seconds[most];  // that each step has taken, at worker 0
};

template <class Board>
Board* shared_board() {
  return new (::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board;
}

/// A process that ends with this one.
template <class Main>
pid_t start_process(Main main) {
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    main();
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    ::_exit(1);
  }
  ::_exit(0);
}

/// Two variables of 50 MB, one on each of two servers.
void train_large(server& here, large_board& all) {
  graph g(1);
  using matrix = dims<2500, 5000>;
  auto a = variable<float, matrix>(g, "a", init::zeros{}), b = variable<float, matrix>(g, "b", init::zeros{});
  auto x = placeholder<float, dims<1, 2500>>(g, "x");
  auto loss = let(mean(square(matmul(x, a) - 1.0f)) + mean(square(matmul(x, b) - 1.0f)));
  auto train = gradient_descent{.learning_rate = 0.01}.minimize(loss);
  parameter_server<synchronous> how{.on_loss = wait_for{60s}, .on_rollback = [](std::int64_t, std::int64_t) {}};
  replicated_session s(g, here, how, {.threads = 1}, 60s);
  auto step = s.prepare(fetch(train), feed(x));
  tensor<float, dims<1, 2500>> ones;
  for (std::int64_t i = 0; i < 2500; ++i) ones(0, i) = 0.1f;
  while (!all.ends) {
    const std::int64_t begin = now();
    step(ones, 120s);
    if (here.index() != 0) continue;
    if (begin > all.struck) {  // without the lost server no step ends that has begun since
      std::int64_t none = 0;
      all.again.compare_exchange_strong(none, now());
    }
    if (all.steps < large_board::most) all.seconds[all.steps] = static_cast<double>(now() - begin) * 1e-9, ++all.steps;
    all.next = s.next_step();
  }
}

class large_cluster {
 public:
  explicit large_cluster(std::int64_t every) : every_(every), board_(shared_board<large_board>()) {
    if (!::mkdtemp(folder_.data())) std::abort();
    const std::string all = bench::free_addresses(2 + large_workers);
    const std::size_t cut = all.find(',', all.find(',') + 1);
    cluster_.add_job("ps", all.substr(0, cut));
    cluster_.add_job("worker", all.substr(cut + 1));
    for (int i = 0; i < 2; ++i) servers_[i] = serve(i);
    for (int i = 0; i < large_workers; ++i)
      workers_.push_back(start_process([&] {
        server here(cluster_, "worker", i);
        train_large(here, *board_);
      }));
  }
  ~large_cluster() {
    for (const pid_t each : workers_) ::kill(each, SIGKILL), ::waitpid(each, nullptr, 0);
    for (const pid_t each : servers_) ::kill(each, SIGKILL), ::waitpid(each, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }

  large_board& board() { return *board_; }
  void await_step(std::int64_t step) {
    await([&] { return board_->next >= step; });
  }
  /// Waits until this step or a later one is committed: a server that still writes the last shard skips one. Returns
  /// the number of steps that worker 0 had made by then.
  std::int64_t await_commit(std::int64_t step) {
    await([&] {
      for (const auto& each : std::filesystem::directory_iterator(folder_)) {
        const std::string name = each.path().filename();
        if (name.starts_with("manifest-") && name.size() == 9 + 19 && std::stoll(name.substr(9)) >= step) return true;
      }
      return false;
    });
    return board_->steps;
  }

  /// Kills server 1 just after a commit, and starts it again. Returns the seconds until a step is made.
  double lose() {
    await_commit(board_->next + 1);
    const std::int64_t struck = now();
    ::kill(servers_[1], SIGKILL);
    ::waitpid(servers_[1], nullptr, 0);
    board_->struck = now();
    board_->again = 0;
    servers_[1] = serve(1);
    await([&] { return board_->again != 0; });
    board_->struck = INT64_MAX;
    return static_cast<double>(board_->again - struck) * 1e-9;
  }

 private:
  pid_t serve(int index) {
    return start_process([&] {
      server_options options;
      options.shards = {.folder = folder_, .every_steps = every_};
      options.on_rollback = [](std::int64_t, std::int64_t) {};
      server here(cluster_, "ps", index, options);
      here.join();
    });
  }
  template <class Holds>
  static void await(Holds holds) {
    for (const std::int64_t until = now() + 300'000'000'000; !holds(); std::this_thread::sleep_for(1ms))
      if (now() > until) {
        std::fprintf(stderr, "a cluster with servers of 100 MB made no step for five minutes\n");
        std::exit(1);
      }
  }

  std::int64_t every_;
  large_board* board_;
  std::string folder_ = (std::filesystem::temp_directory_path() / "weft-failures-XXXXXX").string();
  cluster_spec cluster_;
  pid_t servers_[2]{};
  std::vector<pid_t> workers_;
};

void measure_lost_servers(int trials) {
  if (trials == 0) return;
  std::vector<double> back;
  large_cluster all(10);
  all.await_commit(0);
  for (int i = 0; i < trials; ++i) back.push_back(all.lose());
  print("synchronous, 100 MB", "killed", "server back, without repeated steps", back);
}

/// The longest step while both servers write their shards, and the longest of as many others.
void measure_stall(int trials) {
  if (trials == 0) return;
  std::vector<double> median, saving, others;
  large_cluster all(shard_every);
  all.await_step(shard_every / 2);
  const double* const seconds = all.board().seconds;
  for (int i = 1; i <= trials; ++i) {
    const std::int64_t first = i * shard_every - 1;  // the step after which servers copy their shards
    const std::int64_t last = std::min(all.await_commit(first + 1), first + shard_every / 2);
    all.await_step(first + shard_every * 3 / 4);
    const std::int64_t length = last - first + 1;
    saving.push_back(*std::max_element(seconds + first, seconds + last + 1));
    others.push_back(*std::max_element(seconds + first - length, seconds + first));
    median.push_back(quantile({seconds + first - shard_every / 4, seconds + first}, 0.5));
  }
  print("synchronous, 100 MB", "none", "step", median);
  print("synchronous, 100 MB", "none", "longest step while two servers write shards", saving);
  print("synchronous, 100 MB", "none", "longest of as many steps while they do not", others);
}

// ---- runs that lose nothing ----

struct steady_board {
  std::atomic<std::int64_t> steps{0};
};

template <class Strategy>
void train_steadily(server& here, Strategy how, steady_board& all) {
  graph g(1);
  auto w1 = variable<float, dims<784, 100>>(g, "w1", init::glorot_uniform{});
  auto w2 = variable<float, dims<100, 10>>(g, "w2", init::glorot_uniform{});
  auto x = placeholder<float, dims<100, 784>>(g, "x");
  auto loss = let(mean(square(matmul(sigmoid(matmul(x, w1)), w2) - 1.0f)));
  auto train = gradient_descent{.learning_rate = 0.001}.minimize(loss);
  replicated_session s(g, here, how, {.threads = 1}, 60s);
  auto step = s.prepare(fetch(train), feed(x));
  tensor<float, dims<100, 784>> images;
  bench::fill(images.data(), images.elements(), 0, 1);
  for (;;) {
    step(images, 60s);
    if (here.index() == 0) ++all.steps;
  }
}

struct undisturbed_run {
  const char* name;
  int servers;
  loss_policy policy;
  bool writes_shards;
};

/// Steps a second of two workers that train for so long.
double steps_per_second(const undisturbed_run& of, double seconds) {
  steady_board& board = *shared_board<steady_board>();
  std::string folder = (std::filesystem::temp_directory_path() / "weft-failures-XXXXXX").string();
  if (!::mkdtemp(folder.data())) std::abort();
  const std::string all = bench::free_addresses(of.servers + 2);
  std::size_t cut = 0;
  for (int i = 0; i < of.servers; ++i) cut = all.find(',', cut) + 1;
  cluster_spec cluster;
  if (of.servers > 0) cluster.add_job("ps", all.substr(0, cut - 1));
  cluster.add_job("worker", all.substr(cut));
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i)
    children.push_back(start_process([&] {
      server here(cluster, "worker", i);
      if (of.servers > 0)
        train_steadily(here, parameter_server<synchronous>{.on_loss = of.policy}, board);
      else
        train_steadily(here, collective{.on_loss = of.policy}, board);
    }));
  for (int i = 0; i < of.servers; ++i)
    children.push_back(start_process([&] {
      server_options options;
      if (of.writes_shards) options.shards = {.folder = folder, .every_steps = 1000};
      server here(cluster, "ps", i, options);
      here.join();
    }));
  while (board.steps < 200) std::this_thread::sleep_for(1ms);
  const std::int64_t begin = now(), first = board.steps;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double rate = static_cast<double>(board.steps - first) / (static_cast<double>(now() - begin) * 1e-9);
  for (const pid_t each : children) ::kill(each, SIGKILL);
  for (const pid_t each : children) ::waitpid(each, nullptr, 0);
  std::filesystem::remove_all(folder);
  ::munmap(&board, sizeof board);
  return rate;
}

/// All in turn, over and over: what else the machine does meets each alike.
void measure_undisturbed(double seconds) {
  if (seconds <= 0) return;
  const undisturbed_run runs[] = {{"synchronous, 2 servers", 2, {}, false},
                                  {"synchronous, 2 servers, wait_for", 2, wait_for{30s}, false},
                                  {"synchronous, 2 servers, wait_for, shards", 2, wait_for{30s}, true},
                                  {"all-reduce", 0, {}, false},
                                  {"all-reduce, wait_for", 0, wait_for{30s}, false}};
  constexpr int rounds = 15;
  std::vector<double> rates[std::size(runs)];
  for (int round = 0; round < rounds; ++round)
    for (std::size_t k = 0; k < std::size(runs); ++k) rates[k].push_back(steps_per_second(runs[k], seconds / rounds));
  for (std::size_t k = 0; k < std::size(runs); ++k)
    std::printf(
        "{\"peer\": \"weft\", \"strategy\": \"%s\", \"loss\": \"none\", \"figure\": \"undisturbed\", \"trials\": %d, "
        "\"median_steps_per_s\": %.1f, \"most_steps_per_s\": %.1f}\n",
        runs[k].name, rounds, quantile(rates[k], 0.5), quantile(rates[k], 1));
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int k, double otherwise) { return argc > k ? std::atof(argv[k]) : otherwise; };
  const int trials = static_cast<int>(argument(1, 100)), silent = static_cast<int>(argument(2, 100));
  const int servers = static_cast<int>(argument(3, 30));
  const kind kinds[] = {{"synchronous, shrink", 2, true},
                        {"all-reduce, shrink", 0, true},
                        {"synchronous, wait_for", 2, false},
                        {"all-reduce, wait_for", 0, false}};
  for (const kind& each : kinds) {
    measure(each, false, trials);
    measure(each, true, silent);
  }
  measure_lost_servers(servers);
  measure_stall(servers);
  measure_undisturbed(argument(4, 60));
}
