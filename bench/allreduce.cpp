// Times weft::all_reduce (float, sum, in place) over a range of sizes between processes on loopback TCP.
// Prints one JSON object per size: peer, ranks, bytes, median microseconds of the slowest rank, bus bandwidth in GB/s.
// usage: allreduce [RANKS]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <weft/distributed/all_reduce.hpp>

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

std::string free_addresses(std::size_t count) {
  weft::tcp network;
  std::vector<weft::tcp::listener> held;
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    held.push_back(network.listen({"127.0.0.1", 0}));
    text += (i ? "," : "") + to_string(held.back().address());
  }
  return text;
}

void rank(const weft::cluster_spec& cluster, int index) {
  weft::server here(cluster, "worker", index);
  weft::all_reduce group(here);
  for (const std::size_t count : {1u, 256u, 2'560u, 25'600u, 256'000u, 1'000'000u, 5'000'000u, 25'000'000u}) {
    std::vector<float> data(count, 1.0f);
    const int repeats = count < 100'000 ? 400 : count < 2'000'000 ? 40 : 8;
    std::vector<double> times;
    for (int i = 0; i < repeats + 3; ++i) {
      group.sum(std::span<float>{}, 60s);  // a barrier
      const auto start = steady::now();
      group.sum(std::span(data));
      const double elapsed = std::chrono::duration<double>(steady::now() - start).count();
      std::vector<double> of_ranks(group.size());
      of_ranks[group.rank()] = elapsed;
      group.sum(std::span(of_ranks));
      if (i >= 3) times.push_back(*std::max_element(of_ranks.begin(), of_ranks.end()));
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2], bytes = 4.0 * static_cast<double>(count);
    const double ranks = static_cast<double>(group.size());
    if (group.rank() == 0)
      std::printf("{\"peer\": \"weft\", \"ranks\": %.0f, \"bytes\": %.0f, \"us\": %.1f, \"busbw_GBs\": %.3f}\n", ranks,
                  bytes, median * 1e6, bytes * 2 * (ranks - 1) / ranks / median / 1e9);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const weft::cluster_spec cluster{{"worker", free_addresses(static_cast<std::size_t>(ranks))}};
  for (int index = 0; index < ranks; ++index)
    if (fork() == 0) {
      try {
        rank(cluster, index);
        std::_Exit(0);
      } catch (const std::exception& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        std::_Exit(1);
      }
    }
  int status = 0, failed = 0;
  while (wait(&status) > 0) failed |= status != 0;
  return failed;
}
