// SPDX-License-Identifier: BSL-1.0
// Times MPI_Allreduce (float, sum, in place) over a range of sizes: the peer row for all-reduce.
// Build: mpicxx -O3 mpi_allreduce.cpp -o mpi_allreduce
// Run:   mpirun --allow-run-as-root --oversubscribe -np 2 --mca btl tcp,self ./mpi_allreduce   (TCP, the fair peer)
//        mpirun --allow-run-as-root --oversubscribe -np 2 ./mpi_allreduce                      (shared memory)
// Prints one JSON object per size: peer, ranks, bytes, median microseconds, bus bandwidth in GB/s.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (long count : {1L, 256L, 2'560L, 25'600L, 256'000L, 1'000'000L, 5'000'000L, 25'000'000L}) {
    std::vector<float> data(count, 1.0f);
    const int repeats = count < 100'000 ? 400 : count < 2'000'000 ? 40 : 8;
    std::vector<double> times;
    for (int i = 0; i < repeats + 3; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      double elapsed = MPI_Wtime() - start, slowest = 0;
      MPI_Allreduce(&elapsed, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (i >= 3) times.push_back(slowest);
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2], bytes = 4.0 * count;
    if (rank == 0)
      std::printf("{\"peer\": \"openmpi\", \"ranks\": %d, \"bytes\": %.0f, \"us\": %.1f, \"busbw_GBs\": %.3f}\n", ranks,
                  bytes, median * 1e6, bytes * 2 * (ranks - 1) / ranks / median / 1e9);
  }
  MPI_Finalize();
}
