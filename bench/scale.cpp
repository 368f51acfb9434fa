// SPDX-License-Identifier: BSL-1.0
// How large a cluster on one host may be: tasks that know only their ranks, on ports that are free, until each has met
// all others; many workers on one parameter server; and servers that start and stop, over and over, in one process.
// Prints one JSON object each. usage: scale [start TASKS] [workers WORKERS] [restarts TIMES]     without any: 200, 64,
// 1000
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/cluster/environment.hpp>

#include "free_addresses.hpp"
#include "timing.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

/// A folder of this run's own.
struct folder {
  std::string path = (std::filesystem::temp_directory_path() / "weft_scale_XXXXXX").string();
  folder() {
    if (!::mkdtemp(path.data())) std::abort();
  }
  ~folder() { std::filesystem::remove_all(path); }
};

/// Resident memory of this process, in megabytes.
double resident_mb() {
  std::ifstream status("/proc/self/statm");
  double size = 0, resident = 0;
  status >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

std::size_t open_descriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all))) - 1;  // the folder itself is one
}

/// Runs `work(rank)` in `ranks` processes and adds up what they return; ends all of them where one fails.
template <class Work>
std::vector<double> in_processes(int ranks, Work work) {
  std::vector<pid_t> children;
  std::vector<int> results;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      try {
        const double result = work(rank);
        if (::write(ends[1], &result, sizeof result) == sizeof result) ::_exit(0);
      } catch (const std::exception& problem) {
        std::fprintf(stderr, "rank %d: %s\n", rank, problem.what());
      }
      ::_exit(1);
    }
    ::close(ends[1]);
    children.push_back(child);
    results.push_back(ends[0]);
  }
  std::vector<double> values;
  for (const int result : results) {
    double value = 0;
    if (::read(result, &value, sizeof value) == sizeof value) values.push_back(value);
    ::close(result);
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  if (values.size() != children.size()) {
    std::fprintf(stderr, "error: %zu of %d processes failed\n", children.size() - values.size(), ranks);
    std::exit(1);
  }
  return values;
}

task_environment environment_of(int rank, int ranks, int ps, const std::string& meeting) {
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WEFT_JOB_ID", "scale", 1);
  ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  environment_options options;
  options.ps = ps;
  options.folder = meeting;
  options.host = "127.0.0.1";
  options.patience = 120s;
  return cluster_spec::from_environment(options);
}

/// Seconds until the last task has met all others.
void start(int tasks) {
  const folder meeting;
  const auto begin = bench::steady::now();
  const std::vector<double> seconds = in_processes(tasks, [&](int rank) {
    server here(environment_of(rank, tasks, 0, meeting.path));
    here.wait_ready(120s);
    const double took = bench::seconds_since(begin);
    return took;
  });
  std::printf("{\"peer\": \"weft\", \"what\": \"start\", \"tasks\": %d, \"seconds\": %.2f}\n", tasks,
              *std::max_element(seconds.begin(), seconds.end()));
}

/// Measures the memory that a parameter server holds for its workers.
void workers(int count) {
  const folder meeting;
  const std::vector<double> megabytes = in_processes(count + 1, [&](int rank) {
    server here(environment_of(rank, count + 1, 1, meeting.path));
    if (here.job() == "ps") {
      const double before = resident_mb();
      here.join(120s);
      rusage used{};
      ::getrusage(RUSAGE_SELF, &used);
      return static_cast<double>(used.ru_maxrss) / 1e3 - before;
    }
    graph g;
    auto x = placeholder<float, dims<dyn<"batch">, 784>>(g, "x");
    auto w = variable<float, dims<784, 1000>>(g, "w", init::normal{.stddev = 0.1f});  // 3 MB
    auto loss = mean(square(matmul(x, w)));
    auto train = gradient_descent{.learning_rate = 0.01f}.minimize(loss);
    replicated_session s(g, here, parameter_server<synchronous>{}, {.threads = 1}, 120s);
    auto step = s.prepare(fetch(loss, train), feed(x));
    tensor<float, dims<dyn<"batch">, 784>> batch{shape(1, 784)};
    for (int i = 0; i < 5; ++i) step(batch);
    s.finish(120s);
    return 0.0;
  });
  std::printf(
      "{\"peer\": \"weft\", \"what\": \"workers\", \"workers\": %d, \"parameters_mb\": 3.1, \"resident_mb\": %.1f}\n",
      count, megabytes[0]);
}

/// A server and its peer start, meet and stop; what is left of them.
void restarts(int times) {
  const auto once = [] {
    const cluster_spec cluster{{"worker", bench::free_addresses(2)}};
    server one(cluster, "worker", 0), other(cluster, "worker", 1);
    one.wait_ready(20s);
    other.wait_ready(20s);
  };
  for (int i = 0; i < 50; ++i) once();
  const double before = resident_mb();
  const std::size_t descriptors = open_descriptors();
  const auto begin = bench::steady::now();
  for (int i = 0; i < times; ++i) once();
  const double us = bench::seconds_since(begin) / times * 1e6;
  std::printf(
      "{\"peer\": \"weft\", \"what\": \"restarts\", \"times\": %d, \"us\": %.0f, \"resident_mb\": %.2f, "
      "\"more_descriptors\": %d}\n",
      times, us, resident_mb() - before, static_cast<int>(open_descriptors()) - static_cast<int>(descriptors));
}

}  // namespace

int main(int argc, char** argv) try {
  const auto wanted = [&](const char* name) {
    if (argc < 2) return 0;
    return argc == 3 && std::string(argv[1]) == name ? std::atoi(argv[2]) : -1;
  };
  const auto run = [&](const char* name, int usual, auto measure) {
    const int count = wanted(name);
    if (count >= 0) measure(count > 0 ? count : usual);
    std::fflush(stdout);
  };
  run("start", 200, start);
  run("workers", 64, workers);
  run("restarts", 1000, restarts);
} catch (const std::exception& problem) {
  std::fprintf(stderr, "error: %s\n", problem.what());
  return 1;
}
