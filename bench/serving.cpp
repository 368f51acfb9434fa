// SPDX-License-Identifier: BSL-1.0
// Times inference on several threads, each with a clone of one session, one image a call: images a second, microseconds
// of a core for each image, and the memory that a further clone takes. Prints one JSON object for each number of
// threads. With --frozen, times frozen models instead, one call on one thread: 784-100-10, LeNet-5 and a GRU of 32
// units for one frame. They are compiled with g++ -O2.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>
#include <weft/nn.hpp>
#include <weft/session/freeze.hpp>
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

constexpr const char* timing_program = R"(
#include <algorithm>
#include <chrono>
#include <cstdio>
#include "gru.hpp"
#include "lenet.hpp"
#include "mlp.hpp"

template <class F>
void measure(const char* name, double seconds, F call) {
  using clock = std::chrono::steady_clock;
  static double us[100000];
  int n = 0;
  for (const auto end = clock::now() + std::chrono::duration<double>(seconds); clock::now() < end && n < 100000;) {
    const auto begin = clock::now();
    for (int i = 0; i < 100; ++i) {
      call();
      asm volatile("" ::: "memory");
    }
    us[n++] = std::chrono::duration<double, std::micro>(clock::now() - begin).count() / 100;
  }
  std::sort(us, us + n);
  std::printf("{\"peer\": \"weft\", \"model\": \"%s\", \"mode\": \"frozen\", \"us_median\": %.3f, \"us_min\": %.3f}\n", name,
              us[n / 2], us[0]);
}
int main() {
  static float image[784], scores[10], frame[1] = {0.5f}, state[32], sample[1], next[32];
  for (int i = 0; i < 784; ++i) image[i] = static_cast<float>(i % 17) * 0.05f;
  static mlp::workspace a;
  static lenet::workspace b;
  static gru::workspace c;
  measure("784-100-10", SECONDS, [] { mlp::predict(image, scores, a); });
  measure("LeNet-5", SECONDS, [] { lenet::predict(image, scores, b); });
  measure("GRU 32", SECONDS, [] { gru::predict(frame, state, sample, next, c); });
}
)";

void measure_frozen(double seconds) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("bench_frozen_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  graph g;
  auto image = placeholder<float, dims<1, 784>>(g, "image");
  const nn::dense<100> hidden{.activation = nn::relu};
  const nn::dense<10> last{}, classes{};
  const nn::conv2d<5, 6> conv1{.activation = nn::relu};
  const nn::conv2d<5, 16, conv2d_options{.pad = padding::valid}> conv2{.activation = nn::relu};
  const nn::dense<120> first{.activation = nn::relu};
  const nn::dense<84> second{.activation = nn::relu};
  auto features = max_pool2d<2>(conv2(max_pool2d<2>(conv1(reshape<dims<1, 28, 28, 1>>(image)))));
  auto frame = placeholder<float, dims<1, 1>>(g, "frame");
  auto state = placeholder<float, dims<1, 32>>(g, "state");
  const auto weights = [&](const char* name, auto extents) {
    return variable<float, decltype(extents)>(g, name, init::glorot_uniform{});
  };
  auto w = weights("w", dims<1, 96>{}), w_bias = weights("w_bias", dims<1, 96>{}),
       u_bias = weights("u_bias", dims<1, 96>{});
  auto u = weights("u", dims<32, 96>{});
  auto v = weights("v", dims<32, 1>{});
  auto [x_reset, x_update, x_new] = split<1, 3>(let(matmul(frame, w) + w_bias));
  auto [h_reset, h_update, h_new] = split<1, 3>(let(matmul(state, u) + u_bias));
  auto update = let(sigmoid(x_update + h_update));
  auto next = let(update * state + (1.0f - update) * tanh(x_new + sigmoid(x_reset + h_reset) * h_new), "next");
  auto mlp = let(softmax(last(hidden(image)))), lenet = let(softmax(classes(second(first(nn::flatten()(features))))));
  session s{g, {.threads = 1}};
  freeze((folder / "mlp.hpp").string(), s, fetch(mlp), feed(image));
  freeze((folder / "lenet.hpp").string(), s, fetch(lenet), feed(image));
  freeze((folder / "gru.hpp").string(), s, fetch(let(matmul(next, v), "sample"), next), feed(frame, state));
  std::ofstream(folder / "time.cpp") << timing_program;
  const std::string include = (fs::path(__FILE__).parent_path().parent_path() / "include").string();
  const std::string command = "g++ -std=c++20 -O2 -fno-exceptions -DSECONDS=" + std::to_string(seconds) + " -I\"" +
                              include + "\" \"" + (folder / "time.cpp").string() + "\" -o \"" +
                              (folder / "time").string() + "\" && \"" + (folder / "time").string() + "\"";
  const int status = std::system(command.c_str());
  fs::remove_all(folder);
  if (status != 0) std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 2.0);
  const bool frozen = a.take("--frozen");
  a.finish("bench_serving [--frozen] [--seconds S]");
  if (frozen) return measure_frozen(seconds), 0;
  measure<bench::mlp_images>("784-100-10", shape(1, 784), [](auto&... x) { return bench::mlp(x...); }, seconds);
  measure<bench::lenet_images>("LeNet", shape(1, 28, 28, 1), [](auto&... x) { return bench::lenet(x...); }, seconds);
}
