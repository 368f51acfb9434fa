// SPDX-License-Identifier: BSL-1.0
// Times the fused expressions of peers/elementwise.cpp, on tensors at once ("weft") and as prepared steps ("weft
// step"), on one thread. Prints one JSON object per (peer, expression, elements): median nanoseconds, and GB/s of the
// bytes that must move.
#include <cstddef>
#include <cstdio>
#include <vector>
#include <weft/weft.hpp>

#include "timing.hpp"

using namespace weft;

namespace {

using vector = tensor<float, dims<dyn<"n">>>;

vector random_vector(std::size_t n, std::uint64_t stream) {
  vector v{shape(n)};
  bench::fill(v.data(), n, -1, 1, stream);
  return v;
}

template <class F>
void row(const char* peer, const char* expression, std::size_t n, int arrays, double seconds, F f) {
  const auto call = [&] {
    f();
    bench::clobber();
  };
  const double ns = 1e9 * bench::time({.seconds = seconds, .warm_up = 3, .at_most = 1'000'000}, call).median;
  std::printf("{\"peer\": \"%s\", \"expression\": \"%s\", \"elements\": %zu, \"ns\": %.0f, \"GBs\": %.2f}\n", peer,
              expression, n, ns, 4.0 * static_cast<double>(n) * arrays / ns);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments args(argc, argv);
  const double seconds = args.take("--seconds", 0.3);
  std::vector<std::size_t> sizes{1000, 100'000, 10'000'000};
  if (const int only = args.take("--elements", 0)) sizes = {static_cast<std::size_t>(only)};
  args.finish("bench_elementwise [--elements N] [--seconds S]");

  constexpr const char* multiply = "d = a*b + c";
  constexpr const char* transcendental = "d = a / (1 + exp(-b)) + tanh(c)";
  constexpr const char* distance = "sum((a - b)^2)";
  for (const std::size_t n : sizes) {
    const vector a = random_vector(n, 0), b = random_vector(n, 1), c = random_vector(n, 2);
    {
      vector d{shape(n)};
      tensor<float> total;
      row("weft", multiply, n, 4, seconds, [&] { d = a * b + c; });
      row("weft", transcendental, n, 4, seconds, [&] { d = a / (1 + exp(-b)) + tanh(c); });
      row("weft", distance, n, 2, seconds, [&] { total = sum(square(a - b)); });
    }
    graph g;
    auto x = placeholder<float, dims<dyn<"n">>>(g, "a");
    auto y = placeholder<float, dims<dyn<"n">>>(g, "b");
    auto z = placeholder<float, dims<dyn<"n">>>(g, "c");
    session s{g, {.threads = 1}};
    const auto measure = [&](const char* expression, int arrays, auto step) {
      row("weft step", expression, n, arrays, seconds, [&] { step(a, b, c); });
    };
    measure(multiply, 4, s.prepare(fetch(x * y + z), feed(x, y, z)));
    measure(transcendental, 4, s.prepare(fetch(x / (1 + exp(-y)) + tanh(z)), feed(x, y, z)));
    measure(distance, 2, s.prepare(fetch(sum(square(x - y))), feed(x, y, z)));
  }
}
