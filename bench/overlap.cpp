// SPDX-License-Identifier: BSL-1.0
// Training of 50 layers by all-reduce between processes of this host, over TCP: how much of the time for which
// gradients travel is hidden behind the step that computes them. Prints one JSON object for each worker 0: the median
// step in milliseconds where gradients leave behind the step, and in buckets while it runs; what the step itself and
// the exchange take; and which share of the exchange is hidden. For a network slower than loopback:
//   unshare -n sh -c 'ip link set lo up mtu 9000; tc qdisc add dev lo root handle 1: htb default 1;
//     tc class add dev lo parent 1: classid 1:1 htb rate 2gbit burst 64k; bench_overlap 2 512'
// usage: overlap [WORKERS] [EXAMPLES] [BUCKET_BYTES]     without any: 2 256 1048576
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <weft/distributed.hpp>

#include "free_addresses.hpp"
#include "timing.hpp"

namespace {

using namespace weft;
using namespace std::chrono_literals;

constexpr int layers = 50, width = 256;
using batch = dims<dyn<"batch">, width>;

struct times {
  double step, compute, exchange;
};

times measure(server& here, std::int64_t examples, std::size_t bucket_bytes) {
  graph g(1);
  const auto x = placeholder<float, batch>(g, "x");
  auto y = let(x * 1.0f);
  for (int k = 0; k < layers; ++k) {
    const auto w = variable<float, dims<width, width>>(g, "w" + std::to_string(k), init::glorot_uniform{});
    y = let(tanh(matmul(y, w)));
  }
  const auto loss = mean(y * y);
  const auto train = gradient_descent{.learning_rate = 0.01f}.minimize(loss);
  replicated_session s(g, here, collective{.bucket_bytes = bucket_bytes}, {.threads = 1});
  auto step = s.prepare(fetch(loss, train), feed(x));
  tensor<float, batch> in{shape(examples, width)};
  for (std::int64_t i = 0; i < examples; ++i)
    for (int j = 0; j < width; ++j) in(i, j) = static_cast<float>((i * 7 + j * 3) % 11) / 11.0f;
  std::vector<double> whole, first;
  for (int i = 0; i < 25; ++i) {
    const auto start = bench::steady::now();
    step.compute(in);
    const double computed = bench::seconds_since(start);
    step.exchange(60s);
    if (i < 5) continue;
    whole.push_back(bench::seconds_since(start));
    first.push_back(computed);
  }
  s.finish();
  const double all = bench::summarise(std::move(whole)).median, own = bench::summarise(std::move(first)).median;
  return {all * 1e3, own * 1e3, (all - own) * 1e3};
}

}  // namespace

int main(int argc, char** argv) {
  const int workers = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::int64_t examples = argc > 2 ? std::atoi(argv[2]) : 256;
  const std::size_t bucket_bytes = argc > 3 ? static_cast<std::size_t>(std::atoll(argv[3])) : std::size_t{1} << 20;
  const cluster_spec cluster{{"worker", bench::free_addresses(workers)}};
  int index = 0;
  for (int w = 1; w < workers; ++w)
    if (::fork() == 0) {
      index = w;
      break;
    }
  times behind{}, within{};
  {
    server_options options;
    options.shared_memory = false;
    server here(cluster, "worker", index, options);
    for (int round = 0; round < 3; ++round) {
      const times one = measure(here, examples, 0), other = measure(here, examples, bucket_bytes);
      if (round == 0 || one.step < behind.step) behind = one;
      if (round == 0 || other.step < within.step) within = other;
    }
  }
  if (index != 0) return 0;
  while (::wait(nullptr) > 0) {
  }
  std::printf(
      "{\"workers\": %d, \"examples\": %d, \"bucket_bytes\": %zu, \"behind_ms\": %.2f, \"compute_ms\": %.2f, "
      "\"exchange_ms\": %.2f, \"within_ms\": %.2f, \"left_ms\": %.2f, \"hidden\": %.2f}\n",
      workers, static_cast<int>(examples), bucket_bytes, behind.step, behind.compute, behind.exchange, within.step,
      within.exchange, (behind.step - within.step) / behind.exchange);
}
