// SPDX-License-Identifier: BSL-1.0
// Times what keeps and watches a run: a file of weights of 1 GB written and read, beside a plain write of as many
// bytes; how long a step waits for a checkpoint that is written in the background; and a scalar summary. Prints one
// JSON object for each.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>
#include <weft/checkpoint/saver.hpp>
#include <weft/checkpoint/weights.hpp>
#include <weft/summary.hpp>
#include <weft/weft.hpp>

#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage = "bench_checkpoint [files | stall | scalar] [--folder PATH] [--times N]";

void print(const char* peer, const char* what, double seconds) {
  std::printf("{\"peer\": \"%s\", \"what\": \"%s\", \"GB\": 1.0, \"seconds\": %.3f, \"GBs\": %.2f}\n", peer, what,
              seconds, 1 / seconds);
  std::fflush(stdout);
}

template <class F>
double least(int times, F&& f) {
  double best = 0;
  for (int i = 0; i < times; ++i) {
    const auto start = bench::steady::now();
    f();
    const double took = bench::seconds_since(start);
    if (i == 0 || took < best) best = took;
  }
  return best;
}

/// As many bytes as the weights have, written from one buffer and synchronised: what the disk does.
void write_plainly(const std::string& path) {
  static const std::vector<char> piece(8 << 20, 1);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  for (std::size_t left = 1'000'000'000; file >= 0 && left != 0;) {
    const ssize_t n = ::write(file, piece.data(), std::min(left, piece.size()));
    if (n <= 0) break;
    left -= static_cast<std::size_t>(n);
  }
  if (file < 0 || ::fsync(file) != 0) std::perror(path.c_str());
  ::close(file);
}

void files(const std::string& folder, int times) {
  graph g(1);
  for (int i = 0; i < 200; ++i)
    variable<float, dims<1250, 1000>>(g, "layer" + std::to_string(i) + "/weights", init::uniform{0, 1});
  session s(g);
  const std::string plain = folder + "/plain", weights = folder + "/weights.safetensors";
  print("disk", "save", least(times, [&] { write_plainly(plain); }));
  std::filesystem::remove(plain);
  print("weft", "save", least(times, [&] { save_weights(weights, s); }));
  print("weft", "load", least(times, [&] { load_weights(weights, s); }));
}

/// A step of a layer of 25 million weights, batch 64, by Adam; the same while checkpoints are written.
void stall(const std::string& folder, int times) {
  graph g(1);
  auto x = placeholder<float, dims<dyn<"batch">, 5000>>(g, "x");
  auto w = variable<float, dims<5000, 5000>>(g, "weights", init::normal{.stddev = 0.01});
  auto train = minimize(adam{}, mean(square(tanh(matmul(x, w)))));
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(train), feed(x));
  tensor<float, dims<dyn<"batch">, 5000>> batch{shape(64, 5000)};
  bench::fill(batch.data(), batch.elements(), -1, 1);
  const bench::timing plain = bench::time({.seconds = 5, .warm_up = 3}, [&] { step(batch); });
  saver keeper({.max_to_keep = 1});
  keeper.save(s, folder, 0);  // takes its memory
  keeper.wait();
  std::vector<double> waits, steps;
  for (int i = 1; i <= times; ++i) {
    const auto start = bench::steady::now();
    keeper.save(s, folder, i);
    waits.push_back(bench::seconds_since(start));
    for (int n = 0; n < 3; ++n) {
      const auto begin = bench::steady::now();
      step(batch);
      steps.push_back(bench::seconds_since(begin));
    }
    keeper.wait();
  }
  const double wait = bench::summarise(waits).median, beside = bench::summarise(steps).median;
  std::printf(
      "{\"peer\": \"weft\", \"what\": \"save in the background\", \"parameters\": 25000000, \"ms_median\": %.1f, "
      "\"step_ms\": %.1f, \"beside_ms\": %.1f, \"steps_stalled\": %.2f}\n",
      wait * 1e3, plain.median * 1e3, beside * 1e3, wait / plain.median);
  std::fflush(stdout);
}

/// By bursts, each no longer than the queue: a dropped event costs less than one that is kept.
void scalar(const std::string& folder) {
  event_writer log(folder + "/events");
  std::int64_t step = 0;
  constexpr int burst = 5000;
  std::vector<double> samples;
  for (int i = 0; i < 100; ++i) {
    const auto start = bench::steady::now();
    for (int n = 0; n < burst; ++n) log.add_scalar("loss", 0.5, ++step);
    samples.push_back(bench::seconds_since(start) / burst);
    log.flush(std::chrono::seconds(60));
  }
  const bench::timing t = bench::summarise(std::move(samples));
  std::printf("{\"peer\": \"weft\", \"what\": \"scalar summary\", \"us_median\": %.3f, \"us_min\": %.3f}\n",
              t.median * 1e6, t.least * 1e6);
  std::fflush(stdout);
}

/// Takes `--folder PATH` out of the arguments.
std::string take_folder(int& argc, char** argv) {
  std::string folder = std::filesystem::temp_directory_path().string();
  const auto at = std::find(argv + 1, argv + argc, std::string("--folder"));
  if (argv + argc - at < 2) return folder;
  folder = at[1];
  std::copy(at + 2, argv + argc, at);
  argc -= 2;
  return folder;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = take_folder(argc, argv) + "/weft_bench_" + std::to_string(::getpid());
  bench::arguments a(argc, argv);
  const int times = a.take("--times", 3);
  const bool all = a.empty();
  const bool with_files = a.take("files") || all, with_stall = a.take("stall") || all,
             with_scalar = a.take("scalar") || all;
  a.finish(usage);
  std::filesystem::create_directories(folder);
  if (with_files) files(folder, times);
  if (with_stall) stall(folder, times);
  if (with_scalar) scalar(folder);
  std::filesystem::remove_all(folder);
}
