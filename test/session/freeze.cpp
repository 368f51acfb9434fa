// SPDX-License-Identifier: BSL-1.0
// Frozen models have the bits of the session. Each case freezes a step into a header and writes the fed and fetched
// values to files; one program includes all headers, runs them and compares bytes. It is compiled without exceptions
// and run-time type information, by the compiler and the optimization of this test, and counts allocations.

// Sessions with oneDNN or a BLAS have other bits.
#undef WEFT_HAS_DNNL
#undef WEFT_HAS_CBLAS
#undef WEFT_SEPARATE_COMPILATION

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <weft/control_flow.hpp>
#include <weft/nn.hpp>
#include <weft/nn/attention.hpp>
#include <weft/nn/conv1d.hpp>
#include <weft/nn/conv1d_transpose.hpp>
#include <weft/nn/conv2d_transpose.hpp>
#include <weft/nn/depthwise_conv2d.hpp>
#include <weft/nn/embedding.hpp>
#include <weft/nn/normalization.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/ops/arrays/pad_modes.hpp>
#include <weft/ops/arrays/reverse.hpp>
#include <weft/ops/arrays/roll.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/arrays/strided_slice.hpp>
#include <weft/ops/elementwise/activations.hpp>
#include <weft/ops/elementwise/bits.hpp>
#include <weft/ops/elementwise/predicates.hpp>
#include <weft/ops/elementwise/rounding.hpp>
#include <weft/ops/elementwise/special.hpp>
#include <weft/ops/elementwise/trigonometry.hpp>
#include <weft/ops/images/adaptive_pooling.hpp>
#include <weft/ops/images/depth_to_space.hpp>
#include <weft/ops/images/resize.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/products/attention.hpp>
#include <weft/ops/reduce/argmax.hpp>
#include <weft/session/freeze.hpp>
#include <weft/weft.hpp>
#include "errors.hpp"

using namespace weft;

#if !defined(WEFT_TEST_COMPILER)
  #if defined(__clang__)
    #define WEFT_TEST_COMPILER "clang++"
  #else
    #define WEFT_TEST_COMPILER "g++"
  #endif
#endif
#if !defined(WEFT_TEST_INCLUDE)
  #define WEFT_TEST_INCLUDE "include"
#endif
// Without optimization, and under sanitizers, compilers fuse fewer multiplications and additions.
#if defined(WEFT_TEST_TOLERANCE)
#elif defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
  #define WEFT_TEST_TOLERANCE 0
#else
  #define WEFT_TEST_TOLERANCE 1e-5
#endif
#if defined(__FMA__)
  #define WEFT_TEST_MACHINE " -march=native"
#else
  #define WEFT_TEST_MACHINE ""
#endif

namespace {

/// The folder of the generated files, and the program that checks them.
struct frozen_programs {
  std::string folder, includes, calls;

  frozen_programs() {
    const char* const parent = std::getenv("TMPDIR");
    std::string pattern = std::string(parent ? parent : "/tmp") + "/weft_freeze_XXXXXX";
    BOOST_REQUIRE(::mkdtemp(pattern.data()));
    folder = pattern;
  }
  ~frozen_programs() {
    if (!std::getenv("WEFT_KEEP")) std::filesystem::remove_all(folder);
  }
};

template <class X>
tensor<value_t<X>, dims_t<X>> example(const shape& extents, int salt, int modulus) {
  tensor<value_t<X>, dims_t<X>> x(extents, uninitialized{});
  for (std::size_t i = 0; i < x.elements(); ++i) {
    const auto hash = static_cast<std::uint32_t>((i + 1) * 2654435761u + static_cast<unsigned>(salt) * 40503u) >> 7;
    if constexpr (std::is_integral_v<value_t<X>>)
      x.data()[i] = static_cast<value_t<X>>(hash % static_cast<unsigned>(modulus));
    else
      x.data()[i] = static_cast<value_t<X>>(static_cast<double>(hash % 4001) / 1000 - 2);
  }
  return x;
}

template <class T>
void save(const std::string& path, const T* data, std::size_t n) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(n * sizeof(T)));
}
template <class X>
void save(const std::string& path, const X& x) {
  if constexpr (std::is_arithmetic_v<X>)
    save(path, &x, 1);
  else
    save(path, x.data(), x.elements());
}

template <class X>
struct element_type {
  using type = typename X::value_type;
};
template <class X>
  requires std::is_arithmetic_v<X>
struct element_type<X> {
  using type = X;
};
template <class X>
using element_of = typename element_type<X>::type;

template <class X>
std::string type_of(const X&) {
  using T = element_of<X>;
  return std::is_same_v<T, float>    ? "float"
         : std::is_same_v<T, double> ? "double"
         : std::is_same_v<T, bool>   ? "bool"
         : std::is_same_v<T, half>   ? "weft::half"
         : sizeof(T) == 4            ? "std::int32_t"
                                     : "std::int64_t";
}

/// Freezes a step and runs it in the session, for each size of the named extent, if there is one.
template <class... F, class... P>
void check(frozen_programs& all, const std::string& name, session& s, const fetch_list<F...>& fetches,
           const feed_list<P...>& feeds, std::vector<int> sizes = {0}, freeze_options o = {},
           double tolerance = WEFT_TEST_TOLERANCE) {
  constexpr int modulus = 5;
  BOOST_TEST_CONTEXT(name) {
    for (const int n : sizes) o.most = std::max<std::int64_t>(o.most, n);
    const std::string base = all.folder + "/" + name;
    freeze(base + ".hpp", s, fetches, feeds, o);
    all.includes += "#include \"" + base + ".hpp\"\n";
    if (o.weights == frozen_weights::in_file)
      all.calls += "  expect(" + name + "::load(\"" + base + ".weights\"), \"" + name + " weights\");\n";
    auto step = s.prepare(fetches, feeds);
    for (const int n : sizes) {
      const auto run = [&](const auto&... p) {
        int salt = 0;
        const auto extents = [&](const auto& placeholder) {
          shape e = std::remove_cvref_t<decltype(placeholder)>::dims_type::spec;
          for (std::size_t i = 0; i < e.rank; ++i)
            if (e[i] < 0) e[i] = n;
          return e;
        };
        const auto made = [&](const auto& placeholder) {
          return example<std::remove_cvref_t<decltype(placeholder)>>(extents(placeholder), ++salt, modulus);
        };
        const auto inputs = std::tuple{made(p)...};
        const auto outputs = std::apply(
            [&](const auto&... x) {
              if constexpr (sizeof...(F) == 1)
                return std::tuple{step(x...)};
              else
                return step(x...);
            },
            inputs);
        const std::string files = base + "." + std::to_string(n);
        std::string declared, arguments, compared;
        int k = 0;
        const auto input = [&](const auto& x) {
          const std::string i = std::to_string(k++);
          save(files + ".in" + i, x);
          declared += "    const auto in" + i + " = read<" + type_of(x) + ">(\"" + files + ".in" + i + "\");\n";
          arguments += (arguments.empty() ? "in" : ", in") + i + ".get()";
        };
        std::apply([&](const auto&... x) { (input(x), ...); }, inputs);
        k = 0;
        const auto output = [&](const auto& y) {
          const std::string i = std::to_string(k++);
          save(files + ".out" + i, y);
          declared += "    const auto out" + i + " = read<" + type_of(y) + ">(\"" + files + ".out" + i +
                      "\"); const auto got" + i + " = like(out" + i + ");\n";
          arguments += ", got" + i + ".get()";
          compared += "    same(out" + i + ", got" + i + ", \"" + name + " " + std::to_string(n) + " output " + i +
                      "\", " + std::to_string(tolerance) + ");\n";
        };
        std::apply([&](const auto&... y) { (output(y), ...); }, outputs);
        const std::string call = name + "::predict(" + (n ? std::to_string(n) + ", " : "") + arguments + ")";
        all.calls += "  {\n" + declared + "    const long before = allocations;\n    ";
        all.calls += n ? "expect(" + call + ", \"" + name + "\");\n" : call + ";\n";
        all.calls += "    expect(allocations == before, \"" + name + " allocates\");\n" + compared + "  }\n";
      };
      std::apply(run, feeds.fed);
    }
  }
}

void run(const frozen_programs& all, const std::string& flags = "") {
  std::ofstream program(all.folder + "/main.cpp");
  program << all.includes << R"(
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
static long allocations = 0;
static int failures = 0;
#if defined(WEFT_HAS_DNNL)  // which rounds differently, and allocates
static const double least_tolerance = 1e-4;
static const long one = 0;
#else
static const double least_tolerance = 0;
static const long one = 1;
#endif
void* operator new(std::size_t n) { allocations += one; return std::malloc(n); }
void* operator new(std::size_t n, std::align_val_t a) {
  allocations += one;
  return std::aligned_alloc(static_cast<std::size_t>(a), (n + static_cast<std::size_t>(a) - 1) / static_cast<std::size_t>(a) * static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
static void expect(bool is, const char* what) { if (!is) { ++failures; std::printf("wrong: %s\n", what); } }
template <class T> struct array {
  T* data; long count;
  T* get() const { return data; }
};
template <class T> array<T> read(const char* path) {
  std::FILE* f = std::fopen(path, "rb");
  std::fseek(f, 0, SEEK_END);
  const long n = std::ftell(f) / static_cast<long>(sizeof(T));
  std::rewind(f);
  array<T> a{static_cast<T*>(std::aligned_alloc(64, (static_cast<std::size_t>(n) * sizeof(T) / 64 + 1) * 64)), n};
  expect(static_cast<long>(std::fread(a.data, sizeof(T), static_cast<std::size_t>(n), f)) == n, path);
  std::fclose(f);
  return a;
}
template <class T> array<T> like(const array<T>& a) {
  return {static_cast<T*>(std::aligned_alloc(64, (static_cast<std::size_t>(a.count) * sizeof(T) / 64 + 1) * 64)), a.count};
}
template <class T> bool differ(T a, T b, double tolerance) {
  const double x = static_cast<double>(a), y = static_cast<double>(b), most = tolerance * ((x < 0 ? -x : x) + 1);
  const bool nans = x != x && y != y;
  return std::memcmp(&a, &b, sizeof(T)) != 0 && !(tolerance > 0 && (nans || (x - y <= most && y - x <= most)));
}
template <class T> void same(const array<T>& want, const array<T>& got, const char* what, double tolerance) {
  if (tolerance < least_tolerance) tolerance = least_tolerance;
  for (long i = 0; i < want.count; ++i)
    if (differ(want.data[i], got.data[i], tolerance)) {
      ++failures;
      std::printf("wrong: %s, element %ld of %ld: %.9g, not %.9g\n", what, i, want.count, static_cast<double>(got.data[i]), static_cast<double>(want.data[i]));
      return;
    }
}
int main() {
)" << all.calls
          << "  return failures != 0;\n}\n";
  program.close();
  const std::string command = std::string(WEFT_TEST_COMPILER
                                          " -std=c++20 -fno-exceptions -fno-rtti -Wall -Wextra -Wconversion "
                                          "-Wshadow -Werror -I" WEFT_TEST_INCLUDE " -O2" WEFT_TEST_MACHINE " ") +
                              all.folder + "/main.cpp -o " + all.folder + "/main" + flags;
  BOOST_REQUIRE_EQUAL(std::system(command.c_str()), 0);
  BOOST_TEST(std::system((all.folder + "/main").c_str()) == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(elementwise_expressions_and_reductions) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<7, 30>>(g, "x");
  auto y = placeholder<float, dims<30>>(g, "y");
  auto z = placeholder<float, dims<7, 1>>(g, "z");
  session s{g, {.threads = 1}};
  check(all, "chain", s, fetch(tanh(x * y + 0.25f) - sigmoid(z), sqrt(abs(x)) / (1.0f + exp(-y))), feed(x, y, z));
  check(all, "choice", s, fetch(select(x > y, gelu(x), z), cast<std::int32_t>(x * 3.0f), x < z), feed(x, y, z));
  check(all, "sums", s, fetch(sum<0>(x * y), mean<1>(square(x - y)), max<1>(x), min<0>(x), sum(x)), feed(x, y));
  auto w = placeholder<float, dims<40, 50, 60>>(g, "w");
  check(all, "large", s, fetch(sum<0>(w), sum<1>(w * 2.0f), mean(w), sum<0, 2>(w), max<0, 1>(w)), feed(w));
  auto d = placeholder<double, dims<3, 5>>(g, "d");
  check(all, "doubles", s, fetch(log1p(square(d)) + erf(d), sum<1>(exp(d))), feed(d));
  auto i = placeholder<std::int32_t, dims<9>>(g, "i");
  check(all, "integers", s, fetch(i * 3 - 1, sum(i)), feed(i));
  auto n = placeholder<float, dims<dyn<"batch">, 20>>(g, "n");
  auto m = placeholder<float, dims<dyn<"batch">, 1>>(g, "m");
  check(all, "named", s, fetch(relu(n * m + 1.0f), sum<1>(n), mean<0>(n), softmax(n)), feed(n, m), {1, 2, 13, 64});
  run(all);
}

BOOST_AUTO_TEST_CASE(all_formulas) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<40>>(g, "x"), y = placeholder<float, dims<40>>(g, "y");
  auto d = placeholder<double, dims<40>>(g, "d"), e = placeholder<double, dims<40>>(g, "e");
  auto i = placeholder<std::int32_t, dims<40>>(g, "i"), j = placeholder<std::int32_t, dims<40>>(g, "j");
  auto p = x > 0, q = y > 0;
  session s{g, {.threads = 1}};
  const auto every = [&](const char* name, const auto& a, const auto& b) {
    const std::string of = name;
    check(all, of + "_list", s,
          fetch(a - b, a * b, a / b, -a, a <= b, a >= b, a == b, a != b, abs(a), sign(a), floor(a), rsqrt(a), expm1(a),
                cos(a), pow(a, b), maximum(a, b), minimum(a, b), softplus(a), relu6(a), elu(a), selu(a), gelu_tanh(a),
                silu(a), softsign(a), hard_sigmoid(a), hard_swish(a), leaky_relu(a, 0.1f)),
          feed(a, b));
    check(all, of + "_more", s,
          fetch(mish(a), log_sigmoid(a), ceil(a), round(a), trunc(a), floor_div(a, b), floor_mod(a, b), fmod(a, b),
                trigamma(a), erfc(a), erfinv(a), digamma(a), lgamma(a), exp2(a), log2(a), log10(a), sinc(a),
                hypot(a, b), logaddexp(a, b), xlogy(a, b)),
          feed(a, b));
    check(all, of + "_angles", s,
          fetch(tan(a), asin(a), acos(a), atan(a), sinh(a), cosh(a), asinh(a), acosh(a), atanh(a), atan2(a, b),
                is_nan(log(a)), is_inf(log(a)), is_finite(log(a)), heaviside(a, b)),
          feed(a, b));
  };
  every("floats", x, y);
  every("doubles", d, e);
  check(all, "conditions", s, fetch(p && q, p || q, !p, p & q, p | q, p ^ q, ~p), feed(x, y));
  check(all, "bits", s, fetch(i & j, i | j, i ^ j, i << j, i >> j, ~i, popcount(i), abs(i), maximum(i, j)), feed(i, j));
  BOOST_CHECK_EXCEPTION(freeze(all.folder + "/mod.hpp", s, fetch(floor_mod(i, j)), feed(i, j)), error,
                        [](const error& e) { return std::string(e.what()).find("divided by 0") != std::string::npos; });
  run(all);
}

BOOST_AUTO_TEST_CASE(copies_and_rows) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<4, 6, 10>>(g, "x");
  session s{g, {.threads = 1}};
  check(all, "moves", s,
        fetch(transpose<2, 0, 1>(x), reverse<1>(x), concat<2>(x, x), slice<2, 3, 5>(x), pad<1, 2, 1>(x)), feed(x));
  auto [a, b] = split<2, 2>(x);
  check(all, "parts", s, fetch(sigmoid(a) * tanh(b), concat<2>(relu(a), relu(b))), feed(x));
  check(all, "rows", s, fetch(softmax(x), log_softmax(x), argmax<1>(x), argmax<2>(x)), feed(x));
  auto i = placeholder<std::int32_t, dims<dyn<"time">>>(g, "i");
  auto table = variable<float, dims<5, 8>>(g, "table", init::normal{});
  session t{g, {.threads = 1}};
  auto h = placeholder<half, dims<4, 6>>(g, "h");
  auto halves = variable<half, dims<5, 6>>(g, "halves", init::normal{});
  session u{g, {.threads = 1}};
  check(all, "of_halves", u,
        fetch(cast<float>(h) * 2.0f, cast<float>(transpose<1, 0>(h)), cast<float>(gather(halves, i))), feed(h, i),
        {1, 7});
  check(all, "gathers", t, fetch(gather(table, i), transpose<1, 0>(gather(table, i) * 2.0f)), feed(i), {1, 7});
  run(all);
}

BOOST_AUTO_TEST_CASE(networks) {
  frozen_programs all;
  graph g;
  auto image = placeholder<float, dims<1, 28, 28, 1>>(g, "image");
  auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "images");
  nn::dense<100> hidden{.activation = nn::relu};
  nn::dense<10> last;
  nn::conv2d<5, 6> conv1{.activation = nn::relu};
  nn::conv2d<5, 16> conv2{.activation = nn::tanh};
  nn::dense<84> dense{.activation = nn::relu};
  nn::dense<10> out;
  const auto mlp = [&](const auto& x) { return let(last(hidden(nn::flatten()(x))), "scores"); };
  const auto lenet = [&](const auto& x) {
    return softmax(out(dense(nn::flatten()(avg_pool2d<2>(conv2(max_pool2d<2>(conv1(x))))))));
  };
  auto a = mlp(image);
  auto b = mlp(images);
  auto c = lenet(image);
  auto d = lenet(images);
  nn::conv2d<3, 40> wide{};
  nn::batch_norm normal{};
  auto e = max_pool2d<3, 2>(relu(normal(wide(image), nn::mode::inference)));
  auto row = placeholder<float, dims<1, 16>>(g, "row");
  auto code = variable<float, dims<16, 24>>(g, "code", init::normal{.stddev = 0.5});
  auto decoded = matmul<transpose_of::b>(tanh(matmul(row, code)), code);
  session s{g, {.threads = 1}};
  check(all, "mlp", s, fetch(a, argmax<1>(a)), feed(image));
  check(all, "mlps", s, fetch(b), feed(images), {1, 3, 64});
  check(all, "lenet", s, fetch(c), feed(image));
  check(all, "lenets", s, fetch(d), feed(images), {1, 2, 8});
  check(all, "lenet_file", s, fetch(c), feed(image), {0}, {.weights = frozen_weights::in_file});
  check(all, "normal", s, fetch(e), feed(image));
  check(all, "lenet_int8", s, fetch(c), feed(image), {0}, {.weights = frozen_weights::int8}, 0.02);
  check(all, "mlps_int8", s, fetch(b), feed(images), {1, 3, 64}, {.weights = frozen_weights::int8}, 0.2);
  check(all, "tied_int8", s, fetch(decoded), feed(row), {0}, {.weights = frozen_weights::int8}, 0.05);
  run(all);
#if __has_include(<dnnl.h>)
  run(all, " -DWEFT_HAS_DNNL=1 -ldnnl");
#endif
}

BOOST_AUTO_TEST_CASE(groups_of_channels) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<1, 12, 10, 8>>(g, "x");
  auto xs = placeholder<float, dims<dyn<"batch">, 12, 10, 8>>(g, "xs");
  nn::depthwise_conv2d<3> each{.activation = nn::relu};
  nn::depthwise_conv2d<3, 2, conv2d_options{.stride = 2, .pad = padding::of(1)}> halved{};
  nn::grouped_conv2d<3, 12, 4> groups{.activation = nn::tanh};
  nn::grouped_conv2d<size2d{2, 1}, 80, 2, conv2d_options{.pad = padding::valid, .dilation = {2, 1}}> wide{};
  const auto block = [&](const auto& images) { return groups(halved(each(images))); };
  auto a = block(x);
  auto b = block(xs);
  auto d = placeholder<double, dims<1, 5, 5, 4>>(g, "d");
  nn::depthwise_conv2d<3, 1, conv2d_options{}, nn::deduced, double> doubles{};
  session s{g, {.threads = 1}};
  check(all, "block", s, fetch(a), feed(x));
  check(all, "blocks", s, fetch(b), feed(xs), {1, 3, 8});
  check(all, "wide", s, fetch(wide(x)), feed(x));
  check(all, "doubles", s, fetch(doubles(d)), feed(d));
  check(all, "block_int8", s, fetch(a), feed(x), {0}, {.weights = frozen_weights::int8}, 0.02);
  run(all);
}

// Operations that read the same weights with other extents have arrays of their own.
BOOST_AUTO_TEST_CASE(weights_that_are_shared) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<2, 8>>(g, "x");
  auto y = placeholder<float, dims<2, 4>>(g, "y");
  auto image4 = placeholder<float, dims<1, 5, 5, 4>>(g, "image4");
  auto image8 = placeholder<float, dims<1, 5, 5, 8>>(g, "image8");
  auto f = variable<float, dims<3, 3, 2, 8>>(g, "f", init::normal{});
  auto w = variable<float, dims<8, 8>>(g, "w", init::normal{});
  auto scales = variable<float, dims<8>>(g, "w_scales", init::normal{});
  auto convolved =
      conv2d(image8, reshape<dims<1, 1, 8, 8>>(w)) + sum<3, keep_dims>(conv2d(image4, reshape<dims<1, 1, 4, 16>>(w)));
  session s{g, {.threads = 1}};
  check(all, "groups", s, fetch(grouped_conv2d<2>(image4, f), grouped_conv2d<4>(image8, f)), feed(image4, image8));
  check(all, "padded", s, fetch(convolved), feed(image8, image4));
  const freeze_options int8{.weights = frozen_weights::int8};
  check(all, "padded_int8", s, fetch(convolved), feed(image8, image4), {0}, int8, 0.1);
  check(all, "products", s, fetch(matmul(x, w), matmul(y, reshape<dims<4, 16>>(w))), feed(x, y), {0}, int8, 0.1);
  check(all, "names", s, fetch(matmul(x + scales, w)), feed(x), {0}, int8, 0.1);
  run(all);
}

BOOST_AUTO_TEST_CASE(sequences) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<1, 16>>(g, "x");
  auto h = placeholder<float, dims<1, 32>>(g, "h"), c = placeholder<float, dims<1, 32>>(g, "c");
  auto w = variable<float, dims<16, 96>>(g, "w", init::normal{});
  auto u = variable<float, dims<32, 96>>(g, "u", init::normal{});
  auto b = variable<float, dims<96>>(g, "b", init::normal{});
  auto [xr, xz, xn] = split<1, 3>(let(matmul(x, w) + b));
  auto [hr, hz, hn] = split<1, 3>(let(matmul(h, u)));
  auto z = sigmoid(xz + hz);
  auto gru = let(z * h + (1.0f - z) * tanh(xn + sigmoid(xr + hr) * hn), "state");
  auto w4 = variable<float, dims<48, 128>>(g, "w4", init::normal{});
  auto [i, f, n, o] = split<1, 4>(let(matmul(concat<1>(x, h), w4)));
  auto cell = let(sigmoid(f) * c + sigmoid(i) * tanh(n), "cell");
  auto lstm = let(sigmoid(o) * tanh(cell), "hidden");
  session s{g, {.threads = 1}};
  check(all, "gru", s, fetch(gru), feed(x, h));
  check(all, "lstm", s, fetch(lstm, cell), feed(x, h, c));
  auto ids = placeholder<std::int32_t, dims<1, dyn<"time">>>(g, "ids");
  nn::embedding<5, 24> embed{};
  nn::layer_norm norm{};
  nn::dense<24> queries{}, keys{}, values{}, outputs{};
  auto embedded = embed(ids);
  auto normal = norm(embedded);
  auto weights = softmax(let(matmul<transpose_of::b>(queries(normal), keys(normal))) * 0.2f);
  auto block = embedded + outputs(matmul(weights, values(normal)));
  nn::multi_head_attention<4> attention{.causal = true};
  auto attended = embedded + attention(norm(embedded));
  session t{g, {.threads = 1}};
  check(all, "block", t, fetch(block), feed(ids), {1, 2, 9});
  check(all, "attended", t, fetch(attended), feed(ids), {1, 2, 9, 80});
  run(all);
}

BOOST_AUTO_TEST_CASE(recurrent_layers) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<1, 7, 6>>(g, "x");
  auto xs = placeholder<float, dims<2, dyn<"time">, 6>>(g, "xs");
  auto many = placeholder<float, dims<dyn<"batch">, 5, 6>>(g, "many");
  auto h = placeholder<float, dims<1, 8>>(g, "h"), c = placeholder<float, dims<1, 8>>(g, "c");
  auto lengths = placeholder<std::int32_t, dims<2>>(g, "lengths");
  nn::gru<8> gru{}, before{.reset_after = false};
  nn::lstm<8> lstm{}, peeping{.peepholes = true};
  nn::lstm<8, nn::recurrent_options{.time_major = true, .projection = 4}> projected{};
  nn::simple_rnn<8> simple{.reverse = true};
  nn::bidirectional<nn::gru<8>> both{};
  nn::bidirectional<nn::lstm<8>> lstms{};
  nn::dense<3> out{};
  auto a = gru(x);
  auto b = lstm(x, nn::initial_state(h, c));
  auto d = before(xs);
  auto e = both(xs, nn::lengths(lengths));
  auto f = lstms(many);
  auto i = projected(xs);
  auto scores = let(softmax(out(peeping(many).h)), "scores");
  session s{g, {.threads = 1}};
  check(all, "gru", s, fetch(a.states, a.h), feed(x));
  check(all, "gru_last", s, fetch(a.h), feed(x));
  check(all, "lstm", s, fetch(b.states, b.h, b.c), feed(x, h, c));
  check(all, "lstm_last", s, fetch(b.c), feed(x, h, c));
  check(all, "grus", s, fetch(d.states * 2.0f, simple(xs).states), feed(xs), {1, 2, 40});
  check(all, "bidirectional", s, fetch(e.states, e.forward.h, e.backward.h), feed(xs, lengths), {4, 9});
  check(all, "lstms", s, fetch(f.states, f.backward.c), feed(many), {1, 3, 16});
  check(all, "projected", s, fetch(i.states, i.c), feed(xs), {1, 6});
  check(all, "scores", s, fetch(scores), feed(many), {1, 5});
  check(all, "scores_file", s, fetch(scores), feed(many), {1, 5}, {.weights = frozen_weights::in_file});
  check(all, "scores_int8", s, fetch(scores), feed(many), {1, 5}, {.weights = frozen_weights::int8}, 0.05);
  run(all);
}

BOOST_AUTO_TEST_CASE(loops_and_branches) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<6, 4>>(g, "x"), z = placeholder<float, dims<6, 4>>(g, "step");
  auto xs = placeholder<float, dims<dyn<"time">, 3, 4>>(g, "xs");
  auto h = placeholder<float, dims<4>>(g, "h");
  auto n = placeholder<std::int32_t, dims<>>(g, "n");
  auto p = placeholder<bool, dims<>>(g, "p");
  auto w = variable<float, dims<4, 4>>(g, "w", init::normal{});
  const auto body = [&](auto a, auto b, auto r) {
    auto next = let(tanh(matmul(reshape<dims<1, 4>>(a), w)) + r);
    return std::tuple{reshape<dims<4>>(next), a + b, next * 2.0f, r};
  };
  auto [a1, b1, all1, same] = scan(body, h, h, rows(x));
  auto [a2, b2, all2, same2] = scan(body, {.reverse = true}, h, a1 * 0.5f, rows(z));
  auto nested = scan([&](auto a, auto r) { return scan([&](auto c, auto row) { return c * 0.5f + row; }, a, rows(r)); },
                     h, rows(xs));
  auto mapped = weft::map([&](auto r) { return matmul(r, w); }, rows(xs));
  auto [count, sum1] = while_loop([](auto i, auto) { return i < 5; },
                                  [&](auto i, auto y) { return std::tuple{i + 1, y * 0.5f + h}; }, n, x);
  auto bounded =
      while_loop([&](auto y) { return sum(abs(y)) > 1.0f; }, [](auto y) { return y * 0.5f; }, {.max_iterations = 9}, h);
  auto chosen = cond(p, [&] { return scan([](auto c, auto r) { return c + r; }, h, rows(x)); }, [&] { return h; });
  auto several = case_of(n, [&] { return h * 2.0f; }, [&] { return h; }, [&] { return tanh(h); });
  auto ws = placeholder<float, dims<5, 4, 4>>(g, "ws");
  auto power = scan([](auto a, auto r) { return matmul(a, r); }, reshape<dims<1, 4>>(h), rows(ws));
  auto [slopes] = gradients(power, ws);
  session s{g, {.threads = 1}};
  check(all, "scans", s, fetch(a1, b1, all1, same), feed(x, h));
  check(all, "reversed", s, fetch(all2, b2), feed(z, x, h));
  check(all, "nested", s, fetch(nested, mapped), feed(xs, h), {1, 2, 11});
  check(all, "whiles", s, fetch(count, sum1, bounded), feed(n, x, h));
  check(all, "branches", s, fetch(chosen, several), feed(p, n, x, h));
  auto [swapped1, swapped2] = scan([](auto a, auto b, auto) { return std::tuple{b, a}; }, h, h * 2.0f, rows(x));
  check(all, "unread_rows", s, fetch(swapped1, swapped2), feed(h, x));
  BOOST_CHECK_EXCEPTION(freeze(all.folder + "/slopes.hpp", s, fetch(slopes), feed(ws, h)), error, [](const error& e) {
    return std::string(e.what()).find("while_loop has no frozen form: it is part of a gradient") != std::string::npos;
  });
  run(all);
}

BOOST_AUTO_TEST_CASE(operands_of_attention) {
  frozen_programs all;
  graph g;
  auto q = placeholder<float, dims<2, 4, dyn<"time">, 8>>(g, "q");
  auto k = placeholder<float, dims<2, 2, dyn<"time">, 8>>(g, "k"),
       v = placeholder<float, dims<2, 2, dyn<"time">, 8>>(g, "v");
  auto bias = placeholder<float, dims<4, dyn<"time">, dyn<"time">>>(g, "bias");
  auto lengths = placeholder<std::int32_t, dims<2>>(g, "lengths");
  auto one = placeholder<float, dims<2, 4, 1, 8>>(g, "one");
  auto d = placeholder<double, dims<1, 2, 9, 4>>(g, "d");
  auto m = placeholder<bool, dims<9, 9>>(g, "m");
  session s{g, {.threads = 1}};
  check(all, "window", s, fetch(attention(q, k, v, {.causal = true, .window = 3})), feed(q, k, v), {1, 5, 80});
  check(all, "alibi", s, fetch(attention(q, k, v, {.scale = 0.5, .alibi = true})), feed(q, k, v), {1, 6});
  check(all, "added", s, fetch(attention(q, k, v, attention_mask(bias))), feed(q, k, v, bias), {1, 7, 70});
  check(all, "lengths", s, fetch(attention(q, k, v, key_lengths(lengths))), feed(q, k, v, lengths), {5, 9});
  check(all, "place", s, fetch(attention(one, k, v, {.causal = true}, query_position(lengths))),
        feed(one, k, v, lengths), {5, 9});
  check(all, "masked", s, fetch(attention(d, d, d, attention_mask(m))), feed(d, m));
  run(all);
}

BOOST_AUTO_TEST_CASE(normalizations_and_arrays) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<2, 6, 6, 8>>(g, "x");
  auto xs = placeholder<float, dims<dyn<"batch">, 6, 6, 8>>(g, "xs");
  nn::batch_norm batch{};
  nn::group_norm<4> group{};
  nn::instance_norm instance{};
  nn::layer_norm layer{};
  nn::rms_norm rms{};
  const auto all_of = [&](const auto& of) {
    return fetch(relu(batch(of, nn::mode::inference)), group(of), instance(of), layer(of), rms(of));
  };
  const auto fixed = all_of(x);
  const auto batches = all_of(xs);
  session s{g, {.threads = 1}};
  check(all, "norms", s, fixed, feed(x));
  check(all, "norms_of", s, batches, feed(xs), {1, 3});
  check(all, "pads", s,
        fetch(pad<1, 2, 1, pad_mode::reflect>(x), pad<1, 2, 1, pad_mode::edge>(x), resize_nearest<9, 12>(x),
              depth_to_space<2>(x), stack<0>(x, x), roll<1>(x, 2), strided_slice<bounds{}, bounds{0, 6, 2}>(x),
              mean<1, 2>(x), adaptive_avg_pool2d<3>(x)),
        feed(x));
  check(all, "sizes", s, fetch(resize_bilinear<13, 4>(x), resize_bicubic<9, 12>(x), resize_area<4, 3>(x)), feed(x));
  check(all, "sizes_of", s, fetch(resize_bilinear<12, 12>(xs)), feed(xs), {1, 3});
  run(all);
}

BOOST_AUTO_TEST_CASE(integers_names_and_unused_feeds) {
  frozen_programs all;
  graph g;
  auto i = placeholder<std::int64_t, dims<9>>(g, "static_cast"), j = placeholder<std::int64_t, dims<9>>(g, "NULL");
  auto k = placeholder<std::int32_t, dims<dyn<"time">>>(g, "linux");
  auto unused = placeholder<float, dims<2>>(g, "signals");
  auto table = variable<float, dims<16, 8>>(g, "table", init::normal{});
  auto positions = range<std::int64_t, 9>(g);
  auto masked = cast<float>(expand_dims<1>(positions) < expand_dims<0>(positions)) * -1e9f;
  auto x = placeholder<float, dims<9, 9>>(g, "x");
  auto twice = let(i * 2, "twice");
  session s{g, {.threads = 1}};
  check(all, "quotients", s, fetch(i / (j + 1), i / 3, k / 2), feed(i, j, k), {1, 6});
  check(all, "unread", s, fetch(j * 2), feed(j, unused));
  check(all, "positions", s, fetch(gather(table, positions) * 2.0f, softmax(x + masked), i + positions), feed(x, i));
  auto i0 = placeholder<float, dims<3, 4, 5>>(g, "i0");
  auto numbers = placeholder<float, dims<3, 1, 5>>(g, "numbers_1");
  auto constant = variable<float, dims<4, 1>>(g, "constant", init::normal{});
  auto apply = variable<float, dims<5>>(g, "apply", init::normal{});
  session t{g, {.threads = 1}};
  check(all, "made", t, fetch(i0 * numbers * 0.5f + constant * apply), feed(i0, numbers));
  freeze(all.folder + "/zero.hpp", s, fetch(i / j), feed(i, j));
  for (const char* name : {"time", "main", "constexpr", "M_PI"}) {
    freeze(all.folder + "/" + name + ".hpp", s, fetch(twice), feed(i));
    all.includes += std::string("#include \"") + name + ".hpp\"\n";
    all.calls += std::string("  { const std::int64_t two[9] = {2}; expect(") + name +
                 "_::predict(two).twice[0] == 4, \"" + name + "\"); }\n";
  }
  freeze(all.folder + "/.hpp", s, fetch(twice), feed(i));
  all.includes += "#include \"zero.hpp\"\n#include \".hpp\"\n#include <cmath>\n#include <ctime>\n";
  all.calls +=
      "  { const std::int64_t a[9] = {7}, b[9] = {}; std::int64_t c[9]; zero::predict(a, b, c);\n"
      "    expect(c[0] == 0, \"zero\"); expect(model::predict(a).twice[0] == 14, \"model\"); }\n";
  run(all);
}

BOOST_AUTO_TEST_CASE(extents_of_the_maximum_alone_are_not_enough) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<1, dyn<"time">, 12, 4>>(g, "x");
  auto pooled = max_pool2d<10, 10>(x);
  auto shorter = max_pool2d<3, 1>(x);
  session s{g, {.threads = 1}};
  for (const int most : {20, 23, 100})
    check(all, "pool_" + std::to_string(most), s, fetch(pooled * 2.0f), feed(x), {10, 11, 19, most - 1, most});
  check(all, "pool", s, fetch(pooled * 2.0f), feed(x), {10, 15});  // one row for each time
  check(all, "shorter", s, fetch(shorter * 2.0f, sum<1>(shorter), concat<1>(pad<2, 1, 1>(shorter), x)), feed(x),
        {3, 4, 23});
  all.calls +=
      "  { float x[48] = {}; expect(!shorter::predict(2, x, x, x, x), \"too short\");\n"
      "    expect(!pool::predict(9, x, x) && !pool::predict(16, x, x), \"pool\"); }\n";
  run(all);
}

BOOST_AUTO_TEST_CASE(transposed_convolutions) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<1, 5, 4, 6>>(g, "x");
  auto xs = placeholder<float, dims<dyn<"batch">, 5, 4, 6>>(g, "xs");
  auto sound = placeholder<float, dims<1, dyn<"time">, 6>>(g, "sound");
  nn::conv2d_transpose<3, 4, conv2d_transpose_options{.stride = 2}> doubled{.activation = nn::relu};
  nn::conv2d_transpose<size2d{3, 2}, 40, conv2d_transpose_options{.stride = {2, 3}, .pad = padding::valid}> wide{};
  nn::conv2d_transpose<3, 5, conv2d_transpose_options{.dilation = 2}> dilated{};
  nn::conv1d_transpose<4, 3, conv1d_transpose_options{.stride = 2}> longer{};
  auto b = wide(doubled(xs));
  auto a = wide(doubled(x));
  session s{g, {.threads = 1}};
  check(all, "twice", s, fetch(a), feed(x));
  check(all, "batches", s, fetch(b), feed(xs), {1, 3});
  check(all, "dilated", s, fetch(dilated(x)), feed(x));
  check(all, "sound", s, fetch(longer(sound)), feed(sound), {1, 2, 9});
  run(all);
}

BOOST_AUTO_TEST_CASE(strided_windows_over_time) {
  frozen_programs all;
  graph g;
  auto x = placeholder<float, dims<1, dyn<"time">, 8>>(g, "x");
  nn::conv1d<3, 6, conv1d_options{.stride = 2}> same{.activation = nn::relu};
  nn::conv1d<5, 6, conv1d_options{.stride = 3}> thirds{.activation = nn::tanh};
  nn::conv1d<3, 6, conv1d_options{.stride = 2, .pad = padding::valid}> valid{};
  nn::conv1d<4, 6, conv1d_options{.stride = 2, .pad = padding::valid}> again{};
  nn::dense<5> scores{};
  nn::layer_norm norm{};
  nn::multi_head_attention<2> attention{};
  auto a = thirds(same(x));
  auto b = again(valid(x));
  auto c = norm(valid(x)) + attention(valid(x));
  auto d = concat<1>(pad<1, 1, 2>(valid(x)), slice<2, 1, 6>(x));
  session s{g, {.threads = 1}};
  check(all, "padded", s, fetch(a, scores(a), mean<1>(a), softmax(a)), feed(x), {7, 8, 9, 10, 11, 12, 40});
  check(all, "valid", s, fetch(b * 2.0f, transpose<2, 0, 1>(b), sum<1>(b)), feed(x), {11, 12, 13, 14, 15, 16, 37});
  check(all, "attends", s, fetch(c, argmax<1>(c)), feed(x), {7, 8, 40, 41});
  check(all, "joined", s, fetch(d, relu(d)), feed(x), {7, 8, 21, 22});
  run(all);
}

BOOST_AUTO_TEST_CASE(positions) {
  frozen_programs all;
  graph g;
  auto ids = placeholder<std::int32_t, dims<dyn<"batch">, 7>>(g, "ids");
  auto words = variable<float, dims<5, 8>>(g, "words", init::normal{});
  auto places = variable<float, dims<32, 8>>(g, "places", init::normal{});
  auto at = range<std::int64_t, 7>(g, 2, 1);
  auto sum1 = gather(words, ids) + gather(places, at);
  auto rows = placeholder<float, dims<1, dyn<"time">>>(g, "rows");
  auto time = range<std::int32_t, dyn<"time">>(g);
  auto angles = expand_dims<1>(cast<float>(time)) * exp(range<float, 4>(g) * -0.5f);
  auto causal = cast<float>(expand_dims<1>(time) < expand_dims<0>(time)) * -1e9f;
  session s{g, {.threads = 1}};
  check(all, "fixed", s, fetch(sum1, reshape<dims<dyn<"batch">, 7, 8>>(sum1) * 2.0f), feed(ids), {1, 4});
  check(all, "timed", s, fetch(gather(places, time), sin(angles), softmax(rows + causal), time * 2, time), feed(rows),
        {1, 9, 20});
  check(all, "fetched", s, fetch(at, at * 3 + 1, sum(at), rows), feed(rows), {1, 9});
  run(all);
}

// The kernels of a model are at most 3,000 lines.
BOOST_AUTO_TEST_CASE(headers_are_small) {
  frozen_programs all;
  graph g;
  auto image = placeholder<float, dims<1, 12, 12, 1>>(g, "image");
  nn::conv2d<3, 4> conv{.activation = nn::relu};
  nn::dense<10> out;
  auto scores = softmax(out(nn::flatten()(max_pool2d<2>(conv(image)))));
  session s{g, {.threads = 1}};
  freeze(all.folder + "/small.hpp", s, fetch(scores), feed(image));
  std::FILE* const lines = ::popen(
      (WEFT_TEST_COMPILER " -std=c++20 -w -E -I" WEFT_TEST_INCLUDE " " + all.folder + "/small.hpp").c_str(), "r");
  BOOST_REQUIRE(lines);
  char line[4096];
  bool ours = false;
  long count = 0;
  while (std::fgets(line, sizeof line, lines)) {
    if (line[0] == '#' && line[1] == ' ')
      ours = std::strstr(line, "/weft/");
    else if (line[0] != '#')
      count += ours && std::strspn(line, " \t\n") != std::strlen(line);
  }
  ::pclose(lines);
  BOOST_TEST(count > 1000);
  BOOST_TEST(count <= 3000);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_frozen_is_refused) {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  auto y = placeholder<float, dims<dyn<"time">, 4>>(g, "y");
  auto w = variable<float, dims<4>>(g, "w", init::zeros{});
  auto sorted = sort<1>(x);
  session s{g, {.threads = 1}};
  const auto refused = [&](const char* words, auto f) {
    BOOST_CHECK_EXCEPTION(f(), error, [&](const error& e) {
      BOOST_TEST_INFO(e.what());
      return std::string(e.what()).find(words) != std::string::npos;
    });
  };
  const std::string path = "/tmp/weft_refused.hpp";
  refused("pass its maximum", [&] { freeze(path, s, fetch(x * 2.0f), feed(x)); });
  refused("two named extents", [&] { freeze(path, s, fetch(sum(x) + sum(y)), feed(x, y), {.most = 4}); });
  refused("sort has no frozen form", [&] { freeze(path, s, fetch(sorted), feed(x), {.most = 4}); });
  refused("writes no variables", [&] { freeze(path, s, fetch(assign(w, mean<0>(x))), feed(x), {.most = 4}); });
  refused("cannot write", [&] { freeze("/no/such/folder/x.hpp", s, fetch(x * 2.0f), feed(x), {.most = 4}); });
}
