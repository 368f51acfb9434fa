// SPDX-License-Identifier: BSL-1.0
#pragma once

// Clusters on this machine for tests: free ports, tasks on threads, and tasks that are processes of their own.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/parameter/parameter_service.hpp>
#include <weft/transport/in_process.hpp>
#include <weft/transport/tcp.hpp>

#include "errors.hpp"

namespace test {

/// Addresses that are free now, separated by commas.
template <typename T>
std::string free_addresses(T network, int count) {
  std::vector<typename T::listener> held;
  std::string text;
  for (int i = 0; i < count; ++i) {
    held.push_back(network.listen({"127.0.0.1", 0}));
    text += (i ? "," : "") + to_string(held.back().address());
  }
  return text;
}

template <typename T = weft::tcp>
weft::cluster_spec local_cluster(int ps, int workers, T network = {}) {
  const std::string all = free_addresses(network, ps + workers);
  std::size_t cut = 0;
  for (int i = 0; i < ps; ++i) cut = all.find(',', cut) + 1;
  if (ps == 0) return {{"worker", all}};
  return {{"ps", all.substr(0, cut - 1)}, {"worker", all.substr(cut)}};
}

/// A check in the work of run_tasks, whose tasks are threads: those of Boost.Test write down where they are, and two
/// threads at once would write over each other. Where it does not hold, that is what went wrong with the worker.
inline void require_in_task(bool holds, const char* what) {
  if (!holds) throw weft::error(weft::error_code::internal, "test", {"does not hold: ", what});
}
inline void require_says_in_task(const std::string& text, const std::string& part) {
  if (!contains(text, part))
    throw weft::error(weft::error_code::internal, "test", {"\"", text, "\" does not say \"", part, "\""});
}

/// A cluster in this process, each task on a thread: the parameter servers join, and each worker does `work`. Returns
/// what went wrong with each worker.
template <typename T, typename Work>
std::vector<std::string> run_tasks(int ps, int workers, T network, Work work, const weft::server_options& options = {},
                                   std::vector<weft::join_report>* reports = nullptr) {
  using namespace std::chrono_literals;
  const auto cluster = local_cluster(ps, workers, network);
  const auto servers = static_cast<std::size_t>(ps);
  std::vector<weft::join_report> reports_of_servers(servers);
  std::vector<std::string> problems_of_servers(servers), problems(static_cast<std::size_t>(workers));
  const auto run = [&](const char* job, std::size_t task, std::string& problem, const auto& what) {
    try {
      weft::basic_server<T> here(cluster, job, static_cast<int>(task), options, network);
      what(here);
    } catch (const std::exception& thrown) {
      problem = thrown.what();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t task = 0; task < servers; ++task)
    threads.emplace_back([&, task] {
      run("ps", task, problems_of_servers[task], [&](auto& here) { reports_of_servers[task] = here.join(20s, 60s); });
    });
  for (std::size_t task = 0; task < problems.size(); ++task)
    threads.emplace_back([&, task] { run("worker", task, problems[task], work); });
  for (std::thread& each : threads) each.join();
  for (const std::string& each : problems_of_servers) BOOST_TEST(each == "");
  if (reports) *reports = std::move(reports_of_servers);
  return problems;
}

/// A process that runs `body`; what it returns, or what it threw, is its text(). Make all of them before any thread: a
/// lock that a thread holds stays locked in the copy, those of AddressSanitizer's allocator too.
class process {
 public:
  /// `held`: runs nothing before begin(), which may be called while threads run.
  explicit process(const std::function<std::string()>& body, bool held = false) {
    int ends[2], starts[2] = {-1, -1};
    if (::pipe(ends) != 0 || (held && ::pipe(starts) != 0)) throw std::runtime_error("pipe");
    id_ = ::fork();
    if (id_ < 0) throw std::runtime_error("fork");
    if (id_ == 0) {
      ::close(ends[0]);
      if (held) {
        ::close(starts[1]);
        ::pollfd start{starts[0], POLLIN, 0};
        char byte;
        if (::poll(&start, 1, 300'000) != 1 || ::read(starts[0], &byte, 1) != 1) ::_exit(1);
      }
      std::string text;
      try {
        text = body();
      } catch (const std::exception& problem) {
        text = problem.what();
      }
      const auto written = ::write(ends[1], text.data(), text.size());
      ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    if (held) ::close(starts[0]);
    pipe_ = ends[0];
    start_ = starts[1];
  }
  process(process&& other) noexcept
      : id_(std::exchange(other.id_, -1)),
        pipe_(std::exchange(other.pipe_, -1)),
        start_(std::exchange(other.start_, -1)) {}
  process& operator=(process&&) = delete;
  ~process() {
    if (id_ < 0) return;
    ::kill(id_, SIGKILL);
    wait();
    ::close(pipe_);
    if (start_ >= 0) ::close(start_);
  }

  /// Runs a held process.
  void begin() {
    if (::write(start_, "x", 1) != 1) throw std::runtime_error("a held process has ended");
  }
  void signal(int number) { ::kill(id_, number); }

  /// Waits for its end.
  std::string text() {
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = ::read(pipe_, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<std::size_t>(n));
    wait();
    return all;
  }

 private:
  void wait() {
    int status = 0;
    if (!waited_) ::waitpid(id_, &status, 0);
    waited_ = true;
  }

  pid_t id_ = -1;
  int pipe_ = -1, start_ = -1;
  bool waited_ = false;
};

/// A T in memory that this process shares with those that it forks later.
template <typename T>
class shared {
 public:
  shared() {
    void* const at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("mmap");
    value_ = ::new (at) T();
  }
  shared(const shared&) = delete;
  shared& operator=(const shared&) = delete;
  ~shared() { ::munmap(value_, sizeof(T)); }

  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  static_assert(std::is_trivially_destructible_v<T>);
  T* value_;
};

/// Returns when the condition holds. Throws if that takes half a minute.
template <typename Condition>
void await(const char* what, const Condition& holds) {
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30); !holds();) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error(std::string("no end of the wait for ") + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The seconds that a loaded machine may take longer than an idle one.
inline constexpr double slack = 3;

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace test
