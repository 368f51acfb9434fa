// SPDX-License-Identifier: BSL-1.0
// Times parameters of 100 MB between a worker and a parameter server, two processes on loopback TCP, in turn with a
// single stream of iperf3. Prints JSON objects for each case, the peer's and Weft's: how the values are protected, what
// is moved (pull; push, which applies nothing; push and pull, twice as many bytes, with an update), the bytes in all
// and the median microseconds that they take; and `ratio`, Weft's rate over the peer's in the same round, its median.
// usage: bench_transfer [--rounds N] [--megabytes N]
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed/parameter/parameter_server.hpp>

#include "free_addresses.hpp"
#include "timing.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

/// Processes that end with this object.
struct processes {
  std::vector<pid_t> ids;
  ~processes() {
    for (const pid_t id : ids) {
      ::kill(id, SIGTERM);
      ::waitpid(id, nullptr, 0);
    }
  }
};

/// Bytes a second of one stream, within a second; 0 where iperf3 says nothing.
double iperf3(const std::string& port) {
  const std::string command = "iperf3 -c 127.0.0.1 -t 1 -J -p " + port + " 2>/dev/null";
  FILE* const out = ::popen(command.c_str(), "r");
  if (!out) return 0;
  std::string text;
  std::array<char, 4096> piece;
  for (std::size_t n; (n = std::fread(piece.data(), 1, piece.size(), out)) > 0;) text.append(piece.data(), n);
  ::pclose(out);
  const std::string name = "\"bits_per_second\":";
  const std::size_t sum = text.find("\"sum_received\"");
  const std::size_t at = sum == std::string::npos ? sum : text.find(name, sum);
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + name.size()) / 8;
}

struct served {
  const char* how;
  server_options options;
};

int run(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const int rounds = a.take("--rounds", 9);
  const std::size_t elements = static_cast<std::size_t>(a.take("--megabytes", 100)) * 1'000'000 / sizeof(float);
  a.finish("bench_transfer [--rounds N] [--megabytes N]");
  const std::array<const char*, 3> moves{"pull", "push", "push and pull"};
  std::array<served, 2> cases{served{"checksum", {}}, served{"none", {}}};
  std::vector<cluster_spec> clusters;
  processes children;
  for (served& each : cases) {
    each.options.shared_memory = false;
    each.options.checksum = each.how != std::string("none");
    clusters.push_back({{"ps", bench::free_addresses(1)}, {"worker", bench::free_addresses(1)}});
    const pid_t id = ::fork();
    if (id == 0) {
      try {
        server(clusters.back(), "ps", 0, each.options).join(60s, 1h);
      } catch (const error& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
      }
      std::_Exit(0);
    }
    children.ids.push_back(id);
  }
  const std::string address = bench::free_addresses(1), port = address.substr(address.rfind(':') + 1);
  const pid_t id = ::fork();
  if (id == 0) {
    if (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr)) std::_Exit(1);
    ::execlp("iperf3", "iperf3", "-s", "-p", port.c_str(), nullptr);
    std::_Exit(1);
  }
  children.ids.push_back(id);

  std::vector<float> values(elements, 1.0f), gradients(elements, 0.0f);
  const const_bytes first = std::as_bytes(std::span(values)), gradient = std::as_bytes(std::span(gradients));
  const mutable_bytes out = std::as_writable_bytes(std::span(values));
  std::array<std::array<std::vector<double>, 3>, 2> times, ratios;
  std::vector<double> peer;
  std::vector<std::unique_ptr<server>> tasks;
  std::vector<std::unique_ptr<parameter_client>> clients;
  std::array<std::int64_t, 2> steps{};
  for (std::size_t c = 0; c < cases.size(); ++c) {
    tasks.push_back(std::make_unique<server>(clusters[c], "worker", 0, cases[c].options));
    clients.push_back(std::make_unique<parameter_client>(
        *tasks[c], std::vector<parameter_spec>{{"w", element_type::float32, elements, 0, {"gradient_descent", {0.1}}}},
        consistency::asynchronous, 0, 60s));
    clients[c]->initialise({&first, 1}, 60s);
    clients[c]->pull({&out, 1}, 60s);
    steps[c] = clients[c]->first_step();
  }
  const auto median = [](std::vector<double> all) { return bench::summarise(std::move(all)).median; };
  for (int tries = 0; iperf3(port) == 0; ++tries) {
    if (tries == 20) {
      std::fprintf(stderr, "iperf3 printed no result; install it\n");
      return 1;
    }
    std::this_thread::sleep_for(100ms);
  }
  for (int round = 0; round < rounds; ++round) {
    const double rate = iperf3(port);
    if (rate == 0) continue;
    peer.push_back(rate);
    for (std::size_t c = 0; c < cases.size(); ++c) {
      parameter_client& client = *clients[c];
      for (std::size_t m = 0; m < moves.size(); ++m) {
        std::vector<double> some;
        for (int i = 0; i < 5; ++i) {
          const auto start = bench::steady::now();
          if (m == 0) client.pull({&out, 1}, 60s);
          if (m == 1) client.initialise({&first, 1}, 60s);  // once more, which changes nothing
          if (m == 2) client.push_pull(steps[c]++, {&gradient, 1}, {&out, 1}, 60s);
          some.push_back(bench::seconds_since(start));
        }
        const double bytes = static_cast<double>(first.size()) * (m == 2 ? 2 : 1);
        times[c][m].push_back(median(some));
        ratios[c][m].push_back(bytes / times[c][m].back() / rate);
      }
    }
  }
  for (std::size_t c = 0; c < cases.size(); ++c)
    for (std::size_t m = 0; m < moves.size(); ++m) {
      const double bytes = static_cast<double>(first.size()) * (m == 2 ? 2 : 1);
      for (const bool is_weft : {false, true})
        std::printf(
            "{\"peer\": \"%s\", \"protection\": \"%s\", \"what\": \"%s\", \"bytes\": %.0f, \"us\": %.0f, \"ratio\": "
            "%.3f}\n",
            is_weft ? "weft" : "iperf3", cases[c].how, moves[m], bytes,
            (is_weft ? median(times[c][m]) : bytes / median(peer)) * 1e6, is_weft ? median(ratios[c][m]) : 1.0);
    }
  for (auto& each : clients) each->done(10s);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const error& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
