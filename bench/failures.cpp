// How long a cluster needs after the loss of a worker: until another task knows of it, until the others train on
// without it, and until a process that takes its place trains. Real processes on one machine, one loss after the other.
// Prints one JSON object for each figure. usage: failures [TRIALS [TRIALS_OF_SILENCE]]     without any: 100, 100
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
        std::fprintf(stderr, "%s has not come within a minute\n", name);
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

void print(const kind& of, const char* loss, const char* figure, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto share = [&](double part) {
    return seconds[std::min(seconds.size() - 1,
                            static_cast<std::size_t>(std::ceil(part * static_cast<double>(seconds.size()))) - 1)];
  };
  std::printf(
      "{\"peer\": \"weft\", \"strategy\": \"%s\", \"loss\": \"%s\", \"figure\": \"%s\", \"trials\": %zu, \"median_s\": "
      "%.4f, "
      "\"p90_s\": %.4f, \"max_s\": %.4f}\n",
      of.name, loss, figure, seconds.size(), share(0.5), share(0.9), seconds.back());
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
  print(of, loss, "detected", noticed);
  if (of.shrinks) print(of, loss, "others continue", alone);
  print(of, loss, "worker back, from the start of its process", from_start);
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::atoi(argv[1]) : 100, silent = argc > 2 ? std::atoi(argv[2]) : 100;
  const kind kinds[] = {{"synchronous, shrink", 2, true},
                        {"all-reduce, shrink", 0, true},
                        {"synchronous, wait_for", 2, false},
                        {"all-reduce, wait_for", 0, false}};
  for (const kind& each : kinds) {
    measure(each, false, trials);
    measure(each, true, silent);
  }
}
