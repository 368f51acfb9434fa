// SPDX-License-Identifier: BSL-1.0
// Times inference on several threads, each with a clone of one session, one image a call: images a second, microseconds
// of a core for each image, and the memory that a further clone takes. Prints one JSON object for each number of
// threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>
#include <weft/weft.hpp>

#include <unistd.h>

#include "networks.hpp"

using namespace weft;

namespace {

/// Bytes of the process that lie in memory.
std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  if (std::FILE* const f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%zu %zu", &all, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class Images, class Make>
void measure(const char* name, const shape& one, const Make& make, double seconds) {
  graph g;
  auto images = placeholder<float, Images>(g, "images");
  auto labels = placeholder<std::int32_t, bench::label_dims>(g, "labels");
  const bench::network n = make(g, images, labels);
  session owner{g, {.threads = 1}};
  const auto x = bench::random_images<Images>(one);
  using serve_type = step<tensor<float, dims<dyn<"batch">, 10>>(tensor<float, Images>)>;

  // A clone, its step and the memory in which it runs.
  struct server {
    session clone;
    serve_type serve;
  };
  const auto serving = [&] {
    session clone = owner.clone_for_inference();
    serve_type serve = clone.prepare(fetch(n.logits), feed(images));
    serve(x);
    return server{std::move(clone), std::move(serve)};
  };
  std::vector<server> some;
  some.push_back(serving());  // the first one finds what the process makes once
  constexpr int more = 64;
  const std::size_t before = resident_bytes();
  for (int i = 0; i < more; ++i) some.push_back(serving());
  const double bytes = static_cast<double>(resident_bytes() - before) / more;

  for (int count = 1; count <= 2; ++count) {
    std::atomic<bool> stop = false;
    struct alignas(64) counter {
      std::atomic<std::int64_t> calls = 0;
    };
    counter counters[2];
    std::vector<std::thread> threads;
    const double cpu_before = cpu_seconds();
    const auto begin = bench::steady::now();
    for (int t = 0; t < count; ++t)
      threads.emplace_back([&, t, s = some[static_cast<std::size_t>(t)].serve] {
        for (; !stop; counters[t].calls.fetch_add(1, std::memory_order_relaxed)) s(x);
      });
    const auto calls = [&] { return static_cast<double>(counters[0].calls + counters[1].calls); };
    std::vector<double> rates;  // of windows: on a busy machine some have all cores
    while (bench::seconds_since(begin) < seconds) {
      const auto start = bench::steady::now();
      const double done = calls();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      rates.push_back((calls() - done) / bench::seconds_since(start));
    }
    stop = true;
    for (std::thread& t : threads) t.join();
    std::sort(rates.begin(), rates.end());
    std::printf(
        "{\"peer\": \"weft\", \"model\": \"%s\", \"threads\": %d, \"images_per_s\": %.0f, "
        "\"images_per_s_best\": %.0f, \"cpu_us\": %.2f, \"clone_kb\": %.1f}\n",
        name, count, rates[rates.size() / 2], rates.back(), (cpu_seconds() - cpu_before) * 1e6 / calls(), bytes / 1000);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 2.0);
  a.finish("bench_serving [--seconds S]");
  measure<bench::mlp_images>("784-100-10", shape(1, 784), [](auto&... x) { return bench::mlp(x...); }, seconds);
  measure<bench::lenet_images>("LeNet", shape(1, 28, 28, 1), [](auto&... x) { return bench::lenet(x...); }, seconds);
}
