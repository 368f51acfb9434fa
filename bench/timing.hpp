// SPDX-License-Identifier: BSL-1.0
#pragma once

// The common parts of the programs here: the clock, medians, the command line.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <weft/tensor/random.hpp>

namespace bench {

using steady = std::chrono::steady_clock;

inline double seconds_since(steady::time_point start) {
  return std::chrono::duration<double>(steady::now() - start).count();
}

/// Seconds of one call.
struct timing {
  double median = 0, least = 0, p99 = 0;
};

inline timing summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples[0], samples[samples.size() * 99 / 100]};
}

/// How long to measure. `calls` are timed as one, where a single one is too short for the clock.
struct window {
  double seconds = 4;
  int warm_up = 50;
  std::size_t at_most = 20'000;
  int calls = 1;
};

template <class F>
timing time(const window& w, F&& f) {
  for (int i = 0; i < w.warm_up; ++i) f();
  std::vector<double> samples;
  samples.reserve(w.at_most);
  for (const auto start = steady::now(); seconds_since(start) < w.seconds && samples.size() < w.at_most;) {
    const auto begin = steady::now();
    for (int i = 0; i < w.calls; ++i) f();
    samples.push_back(seconds_since(begin) / w.calls);
  }
  return summarise(std::move(samples));
}

/// Tells the compiler that somebody reads and writes memory here.
inline void clobber() { asm volatile("" ::: "memory"); }

/// Numbers uniform in (low, high).
inline void fill(float* to, std::size_t n, float low, float high, std::uint64_t stream = 0) {
  const weft::random_stream random(1, stream);
  for (std::size_t i = 0; i < n; ++i) to[i] = low + (high - low) * static_cast<float>(random.uniform(i));
}

/// Words and `--name value` pairs, in any order.
class arguments {
 public:
  arguments(int argc, char** argv) : left_(argv + 1, argv + argc) {}

  bool empty() const { return left_.empty(); }
  bool take(const std::string& word) {
    const auto at = std::find(left_.begin(), left_.end(), word);
    if (at == left_.end()) return false;
    left_.erase(at);
    return true;
  }
  double take(const std::string& name, double otherwise) {
    const auto at = std::find(left_.begin(), left_.end(), name);
    if (at == left_.end() || at + 1 == left_.end()) return otherwise;
    const double value = std::atof(at[1].c_str());
    left_.erase(at, at + 2);
    return value;
  }
  int take(const std::string& name, int otherwise) {
    return static_cast<int>(take(name, static_cast<double>(otherwise)));
  }
  /// Ends the program where something was not taken.
  void finish(const char* usage) const {
    if (left_.empty()) return;
    std::fprintf(stderr, "unknown argument %s\nusage: %s\n", left_[0].c_str(), usage);
    std::exit(2);
  }

 private:
  std::vector<std::string> left_;
};

}  // namespace bench
