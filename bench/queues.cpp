// SPDX-License-Identifier: BSL-1.0
// Times elements on their way through a queue, in and out: nanoseconds for each. Prints one JSON object for each case.
#include <cstdint>
#include <cstdio>
#include <thread>
#include <weft/queue.hpp>

#include "timing.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

using image = tensor<float, dims<784>>;

double seconds = 1;

void row(const char* what, double each) {
  std::printf("{\"peer\": \"weft\", \"queue\": \"%s\", \"ns\": %.1f}\n", what, each * 1e9);
  std::fflush(stdout);
}

/// `f` takes so many elements in and out.
template <class F>
void time_row(const char* what, int elements, F&& f) {
  row(what, bench::time({.seconds = seconds, .warm_up = 100, .calls = 100}, f).median / elements);
}

/// A thread enqueues and this one dequeues.
template <class Queue, class Enqueue, class Dequeue>
void time_threads(const char* what, const Queue& q, int elements, Enqueue enqueue, Dequeue dequeue) {
  std::vector<double> samples;
  for (const auto start = bench::steady::now(); bench::seconds_since(start) < seconds;) {
    const auto begin = bench::steady::now();
    std::thread producer([&] {
      for (int i = 0; i < elements; ++i) enqueue(q);
    });
    dequeue(q, elements);
    samples.push_back(bench::seconds_since(begin) / elements);
    producer.join();
  }
  row(what, bench::summarise(std::move(samples)).median);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  seconds = a.take("--seconds", 1.0);
  a.finish("bench_queues [--seconds S]");
  const image x;
  tensor<float, dims<32, 784>> batch;

  const fifo_queue<float> scalars(1000);
  time_row("scalar, one thread", 1, [&] {
    scalars.enqueue(deadline::never(), 1.0f);
    (void)scalars.dequeue(deadline::never());
  });
  const fifo_queue<image, std::int32_t> images(1000);
  time_row("784 floats and a label, one thread", 1, [&] {
    images.enqueue(deadline::never(), x, 1);
    (void)images.dequeue(deadline::never());
  });
  const fifo_queue<image> rows(1000);
  time_row("784 floats, 32 by 32, one thread", 32, [&] {
    rows.enqueue_many(deadline::never(), batch);
    (void)rows.dequeue_many(deadline::never(), 32);
  });
  const random_shuffle_queue<image, std::int32_t> shuffled(1000, 500);
  for (int i = 0; i < 600; ++i) shuffled.enqueue(deadline::never(), x, 1);
  time_row("784 floats and a label, shuffled, one thread", 1, [&] {
    shuffled.enqueue(deadline::never(), x, 1);
    (void)shuffled.dequeue(deadline::never());
  });

  const auto enqueue_scalar = [](const auto& q) { q.enqueue(60s, 1.0f); };
  time_threads("scalar, two threads", scalars, 100'000, enqueue_scalar, [](const auto& q, int n) {
    for (int i = 0; i < n; ++i) (void)q.dequeue(60s);
  });
  time_threads(
      "784 floats and a label, in batches of 100, two threads", images, 100'000,
      [&](const auto& q) { q.enqueue(60s, x, 1); },
      [](const auto& q, int n) {
        for (int i = 0; i < n; i += 100) (void)q.dequeue_many(60s, 100);
      });

  graph g;
  auto in = placeholder<float, dims<784>>(g, "in");
  auto put = rows.enqueue(60s, in);
  auto out = rows.dequeue(g, 60s);
  session s(g);
  auto enqueue = s.prepare(fetch(put), feed(in));
  auto dequeue = s.prepare(fetch(out));
  time_row("784 floats, two steps", 1, [&] {
    enqueue(x);
    (void)dequeue();
  });
}
