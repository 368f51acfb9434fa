// SPDX-License-Identifier: BSL-1.0
// Times what a prepared step costs beside its arithmetic: steps that have none, or next to none.
// Prints one JSON object for each: median and minimum of a step, and how often it asked for memory (operator new).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <weft/weft.hpp>

#include "timing.hpp"

namespace {

std::size_t allocations = 0;

// Not inlined: g++ would see memory from one function go back through another, and warn.
[[gnu::noinline]] void* counted(std::size_t bytes, std::size_t align) {
  ++allocations;
  if (void* p = std::aligned_alloc(align, (bytes + align - 1) / align * align)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void release(void* p) { std::free(p); }

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<std::size_t>(align));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }

using namespace weft;

namespace {

template <class F>
void row(const char* what, double seconds, F&& f) {
  // A hundred steps at a time: one takes little longer than the clock.
  const bench::timing t = bench::time({.seconds = seconds, .warm_up = 1000, .calls = 100}, f);
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) f();
  const double each = static_cast<double>(allocations - before) / 1000;
  std::printf("{\"peer\": \"weft\", \"step\": \"%s\", \"us_median\": %.4f, \"us_min\": %.4f, \"allocations\": %g}\n",
              what, t.median * 1e6, t.least * 1e6, each);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 1.0);
  a.finish("bench_overhead [--seconds S]");

  graph g;
  auto x = placeholder<float>(g, "x");
  auto y = placeholder<float>(g, "y");
  auto row_of = placeholder<float, dims<dyn<"batch">, 10>>(g, "rows");
  auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  auto state = variable<float, dims<10>>(g, "state", init::ones{});
  auto w = variable<float, dims<784, 10>>(g, "weights", init::normal{.stddev = 0.05});
  auto train = gradient_descent{.learning_rate = 0.01}.minimize(mean(softmax_cross_entropy(matmul(images, w), labels)));
  session s{g, {.threads = 1}};

  row("fetch a fed scalar", seconds, [step = s.prepare(fetch(x), feed(x))]() mutable { return step(1.0f); });
  row("fetch a variable of 10", seconds, [step = s.prepare(fetch(state))]() mutable { return step(); });
  row("add two scalars", seconds, [step = s.prepare(fetch(x + y), feed(x, y))]() mutable { return step(1.0f, 2.0f); });
  const tensor<float, dims<dyn<"batch">, 10>> rows{shape(1, 10)};
  row("add 10 and a variable of 10", seconds,
      [&, step = s.prepare(fetch(row_of + state), feed(row_of))]() mutable { return step(rows); });
  // Not without arithmetic: it is here to show that training asks for no memory either.
  const tensor<float, dims<dyn<"batch">, 784>> image{shape(10, 784)};
  const tensor<std::int32_t, dims<dyn<"batch">>> label{shape(10)};
  row("train 784-10, batch 10", seconds,
      [&, step = s.prepare(fetch(train), feed(images, labels))]() mutable { return step(image, label); });
}
