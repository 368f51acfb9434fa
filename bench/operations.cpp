// SPDX-License-Identifier: BSL-1.0
// Times operations of each family as steps whose operands are variables: einsum, rows by index, reductions, Fourier
// transforms, factorizations, operations of images, and attention. If LAPACK is linked, factorizations alternate with
// direct calls of it ("lapack"). Prints one JSON object for each.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
#include <weft/ops/images/adaptive_pooling.hpp>
#include <weft/ops/images/conv3d.hpp>
#include <weft/ops/images/grid_sample.hpp>
#include <weft/ops/index/bincount.hpp>
#include <weft/ops/index/scatter.hpp>
#include <weft/ops/index/segments.hpp>
#include <weft/ops/linear_algebra/cholesky.hpp>
#include <weft/ops/linear_algebra/eigen.hpp>
#include <weft/ops/linear_algebra/qr.hpp>
#include <weft/ops/linear_algebra/svd.hpp>
#include <weft/ops/products/attention.hpp>
#include <weft/ops/products/einsum.hpp>
#include <weft/ops/reduce/quantile.hpp>
#include <weft/ops/signals/fft.hpp>
#include <weft/weft.hpp>

#include "timing.hpp"

using namespace weft;

namespace {

struct asked {
  const char* kind;
  int threads;
  double seconds;
  bool explain;
};

void print(const char* peer, const asked& a, const std::string& operation, const bench::timing& t) {
  std::printf(
      "{\"peer\": \"%s\", \"kind\": \"%s\", \"operation\": \"%s\", \"threads\": %d, \"us_median\": %.2f, \"us_min\": "
      "%.2f}\n",
      peer, a.kind, operation.c_str(), a.threads, t.median * 1e6, t.least * 1e6);
  std::fflush(stdout);
}

bench::window window_of(const asked& a, int calls = 1) { return {a.seconds, 3, 100'000, calls}; }

/// A variable with numbers in (-1, 1).
template <class T, class D>
auto numbers(graph& g, const std::string& name) {
  return variable<T, D>(g, name, init::uniform{-1, 1});
}

/// `make` returns the fetches of a step of the graph.
template <class F>
void row(const asked& a, const std::string& operation, F make) {
  graph g(1);
  const auto fetches = make(g);
  session s{g, {.threads = a.threads}};
  auto step = s.prepare(fetches);
  print("weft", a, operation, bench::time(window_of(a), [&] { static_cast<void>(step()); }));
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
}

template <fixed_string Subscripts, class... D>
void einsum_row(const asked& a) {
  row(a, Subscripts.text, [](graph& g) {
    int n = 0;
    const auto next = [&] { return "x" + std::to_string(n++); };
    return fetch(einsum<Subscripts>(numbers<float, D>(g, next())...));
  });
}

void products(const asked& a) {
  einsum_row<"bhqd,bhkd->bhqk", dims<8, 8, 256, 64>, dims<8, 8, 256, 64>>(a);
  einsum_row<"ij,jk,kl->il", dims<512, 256>, dims<256, 1024>, dims<1024, 64>>(a);
  einsum_row<"bij,bkj->bik", dims<64, 128, 64>, dims<64, 128, 64>>(a);
  einsum_row<"i,j->ij", dims<2000>, dims<1000>>(a);
}

void rows_by_index(const asked& a) {
  constexpr int rows = 1'000'000, to = 100'000, width = 16;
  tensor<std::int64_t, dims<rows>> any;
  const random_stream random(1, 1);
  for (std::size_t i = 0; i < rows; ++i) any.data()[i] = static_cast<std::int64_t>(random.uniform(i) * to);
  tensor<std::int64_t, dims<rows>> ascending = any;
  std::sort(ascending.data(), ascending.data() + rows);

  const auto segments = [&](const char* name, const auto& given, auto f) {
    row(a, name, [&](graph& g) {
      const auto x = numbers<float, dims<rows, width>>(g, "x");
      return fetch(f(x, variable<std::int64_t, dims<rows>>(g, "ids", given)));
    });
  };
  segments("segment_sum", ascending, [](auto x, auto ids) { return segment_sum<to>(x, ids); });
  segments("unsorted_segment_sum", any, [](auto x, auto ids) { return unsorted_segment_sum<to>(x, ids); });
  // The gradient of a gather of rows is the same call.
  segments("scatter_add", any,
           [](auto x, auto ids) { return scatter_nd<dims<to, width>>(reshape<dims<rows, 1>>(ids), x); });
  segments("bincount", any, [](auto, auto ids) { return bincount<to>(ids); });
}

void reductions(const asked& a) {
  row(a, "quantile of 1000000", [](graph& g) { return fetch(quantile(numbers<float, dims<1'000'000>>(g, "x"), 0.9)); });
  row(a, "quantile of rows of 1000",
      [](graph& g) { return fetch(quantile<1>(numbers<float, dims<1000, 1000>>(g, "x"), 0.9)); });
}

void transforms(const asked& a) {
  const auto of = [&](auto n) {
    using D = dims<n()>;
    row(a, "fft of " + std::to_string(n()), [](graph& g) {
      const auto y = fft(numbers<double, D>(g, "x"), numbers<double, D>(g, "y"));
      return fetch(y.real, y.imag);
    });
    row(a, "rfft of " + std::to_string(n()), [](graph& g) {
      const auto y = rfft(numbers<double, D>(g, "x"));
      return fetch(y.real, y.imag);
    });
  };
  of(std::integral_constant<int, 1024>());
  of(std::integral_constant<int, 1 << 20>());
}

using matrix = tensor<double, dims<dyn<"n">, dyn<"n">>>;

/// Direct calls of LAPACK with a matrix that they overwrite.
struct lapack {
#ifdef WEFT_HAS_LAPACK
  static constexpr bool linked = true;
#else
  static constexpr bool linked = false;
#endif
  int n, count = 8 * n * n + 100'000, integer_count = 10 * n + 100, info = 0;
  std::vector<double> values = doubles(n), u = doubles(n * n), vt = u, memory = doubles(count);
  std::vector<int> integers = std::vector<int>(static_cast<std::size_t>(integer_count));

  static std::vector<double> doubles(int elements) { return std::vector<double>(static_cast<std::size_t>(elements)); }

#ifdef WEFT_HAS_LAPACK
  void cholesky(double* x) { library::fortran::potrf("U", &n, x, &n, &info, 1); }
  void qr(double* x) {
    library::fortran::geqrf(&n, &n, x, &n, values.data(), memory.data(), &count, &info);
    std::memcpy(u.data(), x, u.size() * sizeof(double));  // R
    library::fortran::orgqr(&n, &n, &n, x, &n, values.data(), memory.data(), &count, &info);
  }
  void svd(double* x) {
    library::fortran::gesdd("S", &n, &n, x, &n, values.data(), u.data(), &n, vt.data(), &n, memory.data(), &count,
                            integers.data(), &info, 1);
  }
  void eigh(double* x) {
    library::fortran::syevd("V", "U", &n, x, &n, values.data(), memory.data(), &count, integers.data(), &integer_count,
                            &info, 1, 1);
  }
#else
  void cholesky(double*) {}
  void qr(double*) {}
  void svd(double*) {}
  void eigh(double*) {}
#endif
};

template <class F>
void factorization(const asked& a, const char* name, const matrix& x, lapack& library, void (lapack::*direct)(double*),
                   F make) {
  graph g(1);
  const auto fed = placeholder<double, dims<dyn<"n">, dyn<"n">>>(g, "x");
  session s{g, {.threads = a.threads}};
  auto step = s.prepare(make(fed), feed(fed));
  std::vector<double> copy(x.elements()), times[2];
  // In turn, since the machine may be faster at one time than at another.
  for (const auto start = bench::steady::now(); bench::seconds_since(start) < 2 * a.seconds || times[0].size() < 3;) {
    const bench::window once{1e9, times[0].empty() ? 1 : 0, 1, library.n < 256 ? 50 : 1};
    times[0].push_back(bench::time(once, [&] { static_cast<void>(step(x)); }).median);
    if (!lapack::linked) continue;
    times[1].push_back(bench::time(once, [&] {
                         std::memcpy(copy.data(), x.data(), copy.size() * sizeof(double));
                         (library.*direct)(copy.data());
                       }).median);
  }
  const std::string operation = name + (" of " + std::to_string(library.n));
  print("weft", a, operation, bench::summarise(times[0]));
  if (lapack::linked) print("lapack", a, operation, bench::summarise(times[1]));
}

void factorizations(const asked& a) {
  for (const int n : {64, 1024}) {
    matrix any(shape(n, n)), symmetric(shape(n, n));
    const random_stream random(3, 1);
    for (std::size_t i = 0; i < any.elements(); ++i) any.data()[i] = 2 * random.uniform(i) - 1;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) symmetric(i, j) = any(i, j) + any(j, i);
    matrix positive = matmul<transpose_of::b>(any, any);
    for (int i = 0; i < n; ++i) positive(i, i) += n;

    lapack library{n};
    const auto all = [](const auto& results) { return std::apply([](auto... y) { return fetch(y...); }, results); };
    factorization(a, "cholesky", positive, library, &lapack::cholesky, [](auto x) { return fetch(cholesky(x)); });
    factorization(a, "qr", any, library, &lapack::qr, [&](auto x) { return all(qr(x)); });
    factorization(a, "svd", any, library, &lapack::svd, [&](auto x) { return all(svd(x)); });
    factorization(a, "eigh", symmetric, library, &lapack::eigh, [&](auto x) { return all(eigh(x)); });
  }
}

template <class X, class W>
void conv3d_row(const asked& a) {
  row(a, "conv3d of " + to_string(X::spec) + " by " + to_string(W::spec),
      [](graph& g) { return fetch(conv3d(numbers<float, X>(g, "x"), numbers<float, W>(g, "w"))); });
}

template <int N, int Height, int Channels>
void grid_row(const asked& a) {
  using X = dims<N, Height, Height, Channels>;
  row(a, "grid_sample of " + to_string(X::spec), [](graph& g) {
    return fetch(grid_sample(numbers<float, X>(g, "x"), numbers<float, dims<N, Height, Height, 2>>(g, "grid")));
  });
}

template <int Size, class X>
void adaptive_row(const asked& a) {
  row(a, "adaptive_avg_pool2d to " + std::to_string(Size) + " of " + to_string(X::spec),
      [](graph& g) { return fetch(adaptive_avg_pool2d<Size>(numbers<float, X>(g, "x"))); });
}

void images(const asked& a) {
  conv3d_row<dims<2, 16, 56, 56, 16>, dims<3, 3, 3, 16, 32>>(a);
  conv3d_row<dims<4, 8, 14, 14, 64>, dims<3, 3, 3, 64, 64>>(a);
  adaptive_row<7, dims<32, 14, 14, 256>>(a);
  adaptive_row<5, dims<8, 56, 56, 64>>(a);
  grid_row<8, 64, 3>(a);
  grid_row<8, 56, 64>(a);
}

template <int Context>
void attention_row(const asked& a) {
  row(a, "attention and gradients of 8 x " + std::to_string(Context) + " x 64", [](graph& g) {
    using heads = dims<1, 8, Context, 64>;
    const auto q = numbers<float, heads>(g, "q"), k = numbers<float, heads>(g, "k"), v = numbers<float, heads>(g, "v");
    const auto y = attention(q, k, v, {.causal = true});
    const auto [dq, dk, dv] = gradients(sum(y * numbers<float, heads>(g, "r")), q, k, v);
    return fetch(y, dq, dk, dv);
  });
}

void attentions(const asked& a) {
  attention_row<256>(a);
  attention_row<1024>(a);
  attention_row<4096>(a);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments args(argc, argv);
  const double seconds = args.take("--seconds", 1.0);
  const int threads = args.take("--threads", 2);
  const bool explain = args.take("--explain");
  const struct {
    const char* kind;
    int threads;
    void (*run)(const asked&);
  } kinds[] = {{"einsum", threads, products},         {"index", threads, rows_by_index},
               {"reduce", threads, reductions},       {"fft", 1, transforms},
               {"linear_algebra", 1, factorizations}, {"images", threads, images},
               {"attention", threads, attentions}};
  const bool all = args.empty();
  for (const auto& k : kinds)
    if (all || args.take(k.kind)) k.run({k.kind, k.threads, seconds, explain});
  args.finish(
      "bench_operations [einsum | index | reduce | fft | linear_algebra | images | attention] [--threads N] "
      "[--seconds S] [--explain]");
}
