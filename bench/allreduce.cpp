// SPDX-License-Identifier: BSL-1.0
// Times weft::all_reduce (float, sum, in place) over a range of sizes between processes of this host: over loopback
// TCP, without checksums over the values, as the peers do it; and in shared memory, with the array anywhere (its bytes
// are copied to where all can see them, and back) and with the array in the group's own memory. Prints one JSON object
// per size: peer, ranks, bytes, median microseconds of the slowest rank, bus bandwidth in GB/s. usage: allreduce
// [RANKS] [tcp|memory|fitted|doubling|ring|halving|tree]     without the second: tcp and memory; the last four name an
// algorithm, and `fitted` measures the links first
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include <weft/distributed/collective/all_reduce.hpp>

#include "free_addresses.hpp"
#include "timing.hpp"

namespace {

using namespace std::chrono_literals;

using weft::reduce_algorithm;

constexpr std::pair<const char*, reduce_algorithm> algorithms[] = {{"doubling", reduce_algorithm::recursive_doubling},
                                                                   {"ring", reduce_algorithm::segmented_ring},
                                                                   {"halving", reduce_algorithm::halving_doubling},
                                                                   {"tree", reduce_algorithm::tree}};

void measure(weft::all_reduce& group, const char* peer, bool in_block,
             reduce_algorithm algorithm = reduce_algorithm::automatic) {
  for (const std::size_t count : {1u, 256u, 2'560u, 25'600u, 256'000u, 1'000'000u, 5'000'000u, 25'000'000u}) {
    std::vector<float> own(in_block ? 0 : count);
    std::span<float> data(own);
    if (in_block) {
      const weft::mutable_bytes block = group.shared_block(count * sizeof(float));
      data = {reinterpret_cast<float*>(block.data()), count};
    }
    std::fill(data.begin(), data.end(), 1.0f);
    const int repeats = count < 100'000 ? 400 : count < 2'000'000 ? 40 : 8;
    std::vector<double> times;
    for (int i = 0; i < repeats + 3; ++i) {
      group.sum(std::span<float>{}, 60s);  // a barrier
      const auto start = bench::steady::now();
      group.sum(data, 60s, algorithm);
      const double elapsed = bench::seconds_since(start);
      std::vector<double> of_ranks(group.size());
      of_ranks[group.rank()] = elapsed;
      group.sum(std::span(of_ranks));
      if (i >= 3) times.push_back(*std::max_element(of_ranks.begin(), of_ranks.end()));
    }
    const double median = bench::summarise(std::move(times)).median;
    const double bytes = 4.0 * static_cast<double>(count), ranks = static_cast<double>(group.size());
    if (group.rank() == 0)
      std::printf("{\"peer\": \"%s\", \"ranks\": %.0f, \"bytes\": %.0f, \"us\": %.1f, \"busbw_GBs\": %.3f}\n", peer,
                  ranks, bytes, median * 1e6, bytes * 2 * (ranks - 1) / ranks / median / 1e9);
    std::fflush(stdout);
  }
}

void rank(const weft::cluster_spec& cluster, int index, const std::string& how) {
  const bool memory = how == "memory";
  weft::server_options options;
  options.shared_memory = memory;
  options.checksum = false;
  weft::server here(cluster, "worker", index, options);
  weft::all_reduce group(here);
  for (const auto& [name, algorithm] : algorithms)
    if (how == name) return measure(group, ("weft, " + how).c_str(), false, algorithm);
  if (how == "fitted") {
    const weft::link_cost cost = group.fit();
    if (group.rank() == 0)
      std::fprintf(stderr, "a message %.1f us, %.0f MB/s, added %.0f MB/s\n", cost.message_us, cost.megabytes_per_s,
                   cost.sum_megabytes_per_s);
    return measure(group, "weft, fitted", false);
  }
  if (!memory) return measure(group, "weft", false);
  measure(group, "weft, shared memory", false);
  measure(group, "weft, array in shared memory", true);
}

int run(int ranks, const std::string& how) {
  const weft::cluster_spec cluster{{"worker", bench::free_addresses(ranks)}};
  for (int index = 0; index < ranks; ++index)
    if (fork() == 0) {
      try {
        rank(cluster, index, how);
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

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::string only = argc > 2 ? argv[2] : "";
  bool known = only == "" || only == "tcp" || only == "memory" || only == "fitted";
  for (const auto& each : algorithms) known |= only == each.first;
  if (ranks < 1 || !known) {
    std::fprintf(stderr, "usage: %s [RANKS] [tcp|memory|fitted|doubling|ring|halving|tree]\n", argv[0]);
    return 2;
  }
  if (only != "") return run(ranks, only);
  return run(ranks, "tcp") | run(ranks, "memory");
}
