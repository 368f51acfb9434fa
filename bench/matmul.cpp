// SPDX-License-Identifier: BSL-1.0
// Times square matrix products of float: a prepared step of one matmul ("weft"), the kernel that it calls
// ("weft kernel"), and dnnl_sgemm called directly where oneDNN is there. Prints one JSON object per (peer, n, threads).
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>
#include <weft/weft.hpp>

#include "timing.hpp"

using namespace weft;

namespace {

using matrix = tensor<float, dims<dyn<"n">, dyn<"n">>>;

matrix random_matrix(std::size_t n, std::uint64_t stream) {
  matrix m(shape(n, n));
  bench::fill(m.data(), n * n, -1, 1, stream);
  return m;
}

void measure(std::size_t n, int threads, double seconds) {
  const matrix a = random_matrix(n, 0), b = random_matrix(n, 1);
  matrix c(shape(n, n));
  float* const to = c.data();

  graph g;
  auto x = placeholder<float, dims<dyn<"n">, dyn<"n">>>(g, "a");
  auto y = placeholder<float, dims<dyn<"n">, dyn<"n">>>(g, "b");
  session s{g, {.threads = threads}};
  auto step = s.prepare(fetch(matmul(x, y)), feed(x, y));
  thread_pool pool(threads);

  std::vector<std::pair<const char*, std::function<void()>>> peers;
  peers.emplace_back("weft", [&] { step(a, b); });
  peers.emplace_back("weft kernel", [&] { matmul<>({n, n, n}, 1, a.data(), b.data(), 0, to, &pool); });
#if defined(WEFT_HAS_DNNL)
  const auto size = static_cast<dnnl_dim_t>(n);
  peers.emplace_back("onednn",
                     [&] { dnnl_sgemm('N', 'N', size, size, size, 1, a.data(), size, b.data(), size, 0, to, size); });
  if (omp_set_num_threads) omp_set_num_threads(threads);
#endif

  // In turn, so that all meet the same machine; each for some calls on end, so that one's threads, which poll for a
  // while before they sleep, do not take the cores from the next.
  std::vector<std::vector<double>> samples(peers.size());
  const auto start = bench::steady::now();
  for (int turn = 0; turn < 5 || bench::seconds_since(start) < seconds * static_cast<double>(peers.size()); ++turn)
    for (std::size_t p = 0; p < peers.size(); ++p) {
      peers[p].second();
      const auto begin = bench::steady::now();
      do {
        const auto call = bench::steady::now();
        peers[p].second();
        samples[p].push_back(bench::seconds_since(call));
      } while (bench::seconds_since(begin) < 0.02);
    }
  for (std::size_t p = 0; p < peers.size(); ++p) {
    const bench::timing t = bench::summarise(samples[p]);
    const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    std::printf(
        "{\"peer\": \"%s\", \"n\": %zu, \"threads\": %d, \"us_median\": %.2f, \"us_min\": %.2f, \"gflops\": %.1f}\n",
        peers[p].first, n, threads, t.median * 1e6, t.least * 1e6, operations / t.median / 1e9);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 1.0);
  const int only = a.take("--threads", 0);
  a.finish("bench_matmul [--threads N] [--seconds S]");
  for (const int threads : {1, 2})
    if (only == 0 || only == threads)
      for (const std::size_t n : {64u, 128u, 256u, 512u, 1024u, 2048u}) measure(n, threads, seconds);
}
