// SPDX-License-Identifier: BSL-1.0
// Times fused elementwise expressions and reductions of Eigen and xtensor against memcpy: the peer rows for expression
// templates.
//
// build: g++ -O3 -march=native -std=c++20 -DNDEBUG elementwise.cpp -o elementwise      run: ./elementwise [elements]
// One thread. Prints one JSON object per (library, expression, elements): median nanoseconds and GB/s of the bytes that
// must move.
#include <Eigen/Dense>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xtensor.hpp>

template <class F>
double median_ns(F f) {
  std::vector<double> t;
  for (auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
       std::chrono::steady_clock::now() < end;) {
    auto a = std::chrono::steady_clock::now();
    f();
    asm volatile("" ::: "memory");
    t.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - a).count());
  }
  std::nth_element(t.begin(), t.begin() + t.size() / 2, t.end());
  return t[t.size() / 2];
}

void row(const char* library, const char* expression, long n, int arrays, double ns) {
  std::printf("{\"peer\": \"%s\", \"expression\": \"%s\", \"elements\": %ld, \"ns\": %.0f, \"GBs\": %.2f}\n", library,
              expression, n, ns, 4.0 * n * arrays / ns);
}

int main(int argc, char** argv) {
  std::vector<long> sizes =
      argc > 1 ? std::vector<long>{std::atol(argv[1])} : std::vector<long>{1000, 100000, 10000000};
  for (long n : sizes) {
    Eigen::ArrayXf a = Eigen::ArrayXf::Random(n), b = Eigen::ArrayXf::Random(n), c = Eigen::ArrayXf::Random(n), d(n);
    row("memcpy", "d = a", n, 2, median_ns([&] { std::memcpy(d.data(), a.data(), 4 * n); }));
    row("eigen", "d = a*b + c", n, 4, median_ns([&] { d = a * b + c; }));
    row("eigen", "d = a / (1 + exp(-b)) + tanh(c)", n, 4, median_ns([&] { d = a / (1.0f + (-b).exp()) + c.tanh(); }));
    row("eigen", "sum((a - b)^2)", n, 2, median_ns([&] { d[0] = (a - b).square().sum(); }));
    xt::xtensor<float, 1> x = xt::zeros<float>({n}), y = x, z = x, w = x;
    std::copy_n(a.data(), n, x.data());
    std::copy_n(b.data(), n, y.data());
    std::copy_n(c.data(), n, z.data());
    row("xtensor", "d = a*b + c", n, 4, median_ns([&] { xt::noalias(w) = x * y + z; }));
    row("xtensor", "d = a / (1 + exp(-b)) + tanh(c)", n, 4,
        median_ns([&] { xt::noalias(w) = x / (1.0f + xt::exp(-y)) + xt::tanh(z); }));
    row("xtensor", "sum((a - b)^2)", n, 2,
        median_ns([&] { w(0) = xt::sum((x - y) * (x - y), xt::evaluation_strategy::immediate)(); }));
  }
}
