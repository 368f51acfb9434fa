// SPDX-License-Identifier: BSL-1.0
// Times mpi_all_reduce beside MPI_Allreduce alone (float, sum, in place), in turn, in one program that mpirun starts.
// Prints JSON objects for each size, the peer's and Weft's: ranks, bytes, median microseconds of the slowest rank; and
// `ratio`, Weft's time over the peer's: the median over pairs of calls, one right after the other.
// usage: mpiexec -n RANKS bench_mpi_LIBRARY [--seconds S] [--bytes N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <vector>
#include <weft/distributed/cluster/environment.hpp>
#include <weft/distributed/collective/mpi_all_reduce.hpp>

#include "timing.hpp"

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 0.5);
  const int only = a.take("--bytes", 0);
  a.finish("mpiexec -n RANKS bench_mpi_" MPI_LIBRARY " [--seconds S] [--bytes N]");
  try {
    weft::server here(weft::cluster_spec::from_environment());
    weft::mpi_all_reduce group(here);
    // How long `call`, made so many times, takes the slowest rank.
    const auto time = [](int calls, const auto& call) {
      MPI_Barrier(MPI_COMM_WORLD);
      const auto start = bench::steady::now();
      for (int i = 0; i < calls; ++i) call();
      double own = bench::seconds_since(start) / calls, slowest = 0;
      MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      return slowest;
    };
    std::vector<std::size_t> counts{1, 256, 2'560, 8'000, 25'600, 256'000, 1'000'000, 5'000'000, 25'000'000};
    if (only > 0) counts = {static_cast<std::size_t>(only) / sizeof(float)};
    for (const std::size_t count : counts) {
      std::vector<float> data(count);  // zeros: sums of sums stay finite
      const std::span<float> all(data);
      const auto alone = [&] {
        MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      };
      const auto by_weft = [&] { group.sum(all, 60s); };
      const int calls = count < 100'000 ? 20 : 1;
      std::vector<double> peer, weft, ratios;
      double spent = 0;
      for (int round = 0; spent < seconds || round < 10; ++round) {
        double its = 0, mine = 0;  // the one that comes first changes
        if (round % 2 == 0) its = time(calls, alone);
        mine = time(calls, by_weft);
        if (round % 2 != 0) its = time(calls, alone);
        spent += (its + mine) * calls;  // the same on all ranks
        if (round < 4) continue;
        peer.push_back(its);
        weft.push_back(mine);
        ratios.push_back(mine / its);
      }
      if (group.rank() != 0) continue;
      const double its = bench::summarise(peer).median, mine = bench::summarise(weft).median;
      for (const bool is_weft : {false, true})
        std::printf(
            "{\"peer\": \"%s\", \"library\": \"%s\", \"ranks\": %zu, \"bytes\": %zu, \"us\": %.2f, \"ratio\": %.3f}\n",
            is_weft ? "weft" : "MPI_Allreduce", MPI_LIBRARY, group.size(), count * sizeof(float),
            (is_weft ? mine : its) * 1e6, is_weft ? bench::summarise(ratios).median : 1.0);
      std::fflush(stdout);
    }
  } catch (const weft::error& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}
