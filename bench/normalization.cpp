// SPDX-License-Identifier: BSL-1.0
// Times batch normalization with ReLU, and its gradient, and layer normalization, beside a copy ("copy"): the time in
// which std::memcpy moves the bytes that the operation must move if it reads its operands twice and writes its result
// once, measured in the same run with the same number of threads. Prints one JSON object for each.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
#include <weft/ops/reduce/normalization.hpp>
#include <weft/weft.hpp>

#include "timing.hpp"

using namespace weft;

namespace {

struct asked {
  int threads;
  double seconds;
  bool explain;
};

/// Copies as many elements as it has, by all threads.
struct copy {
  std::vector<float> from, to;
  thread_pool pool;

  copy(std::size_t elements, int threads) : from(elements, 1), to(elements), pool(threads) {}
  void operator()() {
    constexpr std::size_t parts = 32;
    pool.parallel_for(parts, [&](std::size_t i) {
      const std::size_t begin = to.size() * i / parts, end = to.size() * (i + 1) / parts;
      std::memcpy(to.data() + begin, from.data() + begin, (end - begin) * sizeof(float));
    });
    bench::clobber();
  }
};

void print(const char* peer, const char* operation, const shape& extents, const asked& a, const bench::timing& t) {
  std::printf(
      "{\"peer\": \"%s\", \"operation\": \"%s\", \"extents\": \"%s\", \"threads\": %d, \"ms_median\": %.4f, "
      "\"ms_min\": "
      "%.4f}\n",
      peer, operation, to_string(extents).c_str(), a.threads, t.median * 1e3, t.least * 1e3);
  std::fflush(stdout);
}

/// The median of the rounds' medians, and the least of all.
bench::timing summarise(const std::vector<bench::timing>& rounds, double times) {
  std::vector<double> medians, least;
  for (const bench::timing& t : rounds) medians.push_back(t.median * times), least.push_back(t.least * times);
  return {bench::summarise(medians).median, bench::summarise(least).least};
}

/// `passes`: how often the operation reads or writes as many elements as its operand has; a copy does it twice.
template <class Fetches>
void measure(const char* operation, const shape& extents, int passes, const asked& a, session& s,
             const Fetches& fetches) {
  auto step = s.prepare(fetches);
  copy move(extents.elements(), a.threads);
  // In turn, for the machine's memory may be faster at one time than at another.
  constexpr int rounds = 8;
  const bench::window w{.seconds = a.seconds / rounds / 2, .warm_up = 2, .at_most = 1'000'000};
  std::vector<bench::timing> weft, copied;
  for (int i = 0; i < rounds; ++i) {
    weft.push_back(bench::time(w, [&] { step(); }));
    copied.push_back(bench::time(w, move));
  }
  print("weft", operation, extents, a, summarise(weft, 1));
  print("copy", operation, extents, a, summarise(copied, passes / 2.0));
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
}

template <int... Extents>
void images(const asked& a) {
  using D = dims<Extents...>;
  using C = dims<static_extent<tensor<float, D>, -1>()>;
  graph g(1);
  const auto x = variable<float, D>(g, "x", init::normal{1, 2});
  const auto up = variable<float, D>(g, "up", init::normal{0, 1});
  const auto scale = variable<float, C>(g, "scale", init::ones{}), offset = variable<float, C>(g, "offset");
  const auto forward = batch_normalization_training(x, scale, offset, {.relu = true});
  // The gradient's own operation, whose other operands are variables too.
  const auto mean = variable<float, C>(g, "mean", init::ones{}), reciprocal = variable<float, C>(g, "reciprocal");
  const typed_result<float, C> channels{C::spec};
  const auto backward = call_operation<batch_normalization_gradient_op<float>>(
      std::tuple{typed_result<float, D>{D::spec}, channels, channels}, {true}, x, scale, mean, reciprocal, offset, up);
  session s{g, {.threads = a.threads}};
  measure("batch normalization and ReLU", D::spec, 3, a, s, fetch(forward.mean));
  measure("gradient of batch normalization and ReLU", D::spec, 5, a, s, fetch(std::get<1>(backward)));
}

template <int... Extents>
void layers(const asked& a) {
  using D = dims<Extents...>;
  using C = dims<static_extent<tensor<float, D>, -1>()>;
  graph g(1);
  const auto x = variable<float, D>(g, "x", init::normal{1, 2});
  const auto scale = variable<float, C>(g, "scale", init::ones{}), offset = variable<float, C>(g, "offset");
  const auto y = layer_normalization(x, scale, offset);
  // One row of the result is fetched: the result itself stays where it is.
  const auto part = slice<0, 0, 1>(y);
  session s{g, {.threads = a.threads}};
  measure("layer normalization", D::spec, 3, a, s, fetch(part));
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments args(argc, argv);
  const asked a{args.take("--threads", 0), args.take("--seconds", 4.0), args.take("--explain")};
  args.finish("bench_normalization [--threads N] [--seconds S] [--explain]");
  for (const int threads : {1, 2}) {
    if (a.threads && a.threads != threads) continue;
    const asked now{threads, a.seconds, a.explain};
    images<32, 56, 56, 64>(now);
    images<8, 112, 112, 64>(now);
    layers<8192, 768>(now);
  }
}
