// SPDX-License-Identifier: BSL-1.0
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>
#include <weft/nn/batch_norm.hpp>
#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/reduce/normalization.hpp>
#include <weft/train/optimizers.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "session_on_cpu.hpp"

using namespace weft;

namespace {

using batch = dyn_extent<"batch">;
using channels = dyn_extent<"channels">;
using matrix = dims<batch{}, channels{}>;
using row = dims<channels{}>;
constexpr double epsilon = 0x1p-7;

/// A line of numbers.
template <class T, class D>
tensor<T, D> read(std::istream& in, const shape& extents) {
  std::string line, word;
  std::getline(in, line);
  std::istringstream words(line);
  tensor<T, D> x(extents);
  for (std::size_t i = 0; i < x.elements(); ++i) {
    words >> word;
    x.data()[i] = static_cast<T>(std::stod(word));
  }
  BOOST_REQUIRE(words && !(words >> word));
  return x;
}

template <class Tensor, class Right>
void check_close(const std::string& what, const Tensor& found, const Right& right, double tolerance) {
  BOOST_REQUIRE(found.elements() == right.elements());
  double worst = 0;
  for (std::size_t i = 0; i < found.elements(); ++i) {
    const double expected = static_cast<double>(right.data()[i]);
    const double error = std::abs(static_cast<double>(found.data()[i]) - expected) / (1 + std::abs(expected));
    worst = error <= worst ? worst : error;
  }
  BOOST_CHECK_MESSAGE(worst <= tolerance, what << " is off by " << worst);
}

/// Opens the values and calls check(name, extents, stream) for each case whose name begins with `kind`.
template <class Check>
void each_case(const std::string& kind, int expected, const Check& check) {
  std::ifstream in(TEST_DATA "/ops/normalization_values.txt");
  BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/ops/normalization_values.txt cannot be read");
  int cases = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, kind.size(), kind) != 0) continue;
    std::istringstream words(line);
    std::string name;
    words >> name;
    shape extents;
    for (std::int64_t n; words >> n;) extents.push_back(n);
    BOOST_TEST_CONTEXT(line) { check(name, extents, in); }
    ++cases;
  }
  BOOST_CHECK_EQUAL(cases, expected);
}

/// Each case, over tensors and in steps.
template <class T>
void check_batches(double tolerance) {
  graph g;
  const auto x = placeholder<T, matrix>(g), up = placeholder<T, matrix>(g), residual = placeholder<T, matrix>(g);
  const auto scale = placeholder<T, row>(g), offset = placeholder<T, row>(g);
  session s{g, {.threads = 2}};
  const auto steps = [&](bool relu) {
    const batch_normalization_options o{.epsilon = epsilon, .relu = relu};
    const auto plain = batch_normalization_training(x, scale, offset, o);
    const auto with_residual = batch_normalization_training(x, scale, offset, residual, o);
    const auto [dx, ds, d_offset] = gradients(sum(plain.result * up), x, scale, offset);
    const auto [rx, rs, r_offset, dr] = gradients(sum(with_residual.result * up), x, scale, offset, residual);
    return std::tuple{
        s.prepare(fetch(plain.result, plain.mean, plain.variance, dx, ds, d_offset), feed(x, scale, offset, up)),
        s.prepare(fetch(with_residual.result, with_residual.mean, with_residual.variance, rx, rs, r_offset, dr),
                  feed(x, scale, offset, residual, up))};
  };
  auto linear = steps(false), rectified = steps(true);
  each_case("batch", 13, [&](const std::string& name, const shape& extents, std::istream& in) {
    const bool with_residual = name.find("residual") != std::string::npos,
               relu = name.find("relu") != std::string::npos;
    const shape n(extents[1]);
    const auto xs = read<T, matrix>(in, extents);
    const auto scales = read<T, row>(in, n), offsets = read<T, row>(in, n);
    const auto residuals = with_residual ? read<T, matrix>(in, extents) : tensor<T, matrix>(extents);
    const auto ups = read<T, matrix>(in, extents), y = read<T, matrix>(in, extents);
    const auto mean = read<T, row>(in, n), variance = read<T, row>(in, n);
    const auto inferred = read<T, matrix>(in, extents), dx = read<T, matrix>(in, extents);
    const auto ds = read<T, row>(in, n), d_offset = read<T, row>(in, n);
    const batch_normalization_options o{.epsilon = epsilon, .relu = relu};
    const auto check = [&](const char* what, const auto& found, const auto& right) {
      check_close(what, found, right, tolerance);
    };
    const auto now = with_residual ? batch_normalization_training(xs, scales, offsets, residuals, o)
                                   : batch_normalization_training(xs, scales, offsets, o);
    check("the result over tensors", now.result, y);
    check("the mean over tensors", now.mean, mean);
    check("the variance over tensors", now.variance, variance);
    check("with given moments",
          eval(batch_normalization(xs, mean + T(0.25), variance * T(2), scales, offsets, {epsilon})), inferred);
    const auto check_step = [&](const auto& fy, const auto& fm, const auto& fv, const auto& fx, const auto& fs,
                                const auto& fo) {
      check("the result", fy, y);
      check("the mean", fm, mean);
      check("the variance", fv, variance);
      check("the gradient of x", fx, dx);
      check("the gradient of the scale", fs, ds);
      check("the gradient of the offset", fo, d_offset);
    };
    if (with_residual) {
      const auto [fy, fm, fv, fx, fs, fo, fr] =
          std::get<1>(relu ? rectified : linear)(xs, scales, offsets, residuals, ups);
      check_step(fy, fm, fv, fx, fs, fo);
      check("the gradient of the residual", fr, read<T, matrix>(in, extents));
    } else {
      const auto [fy, fm, fv, fx, fs, fo] = std::get<0>(relu ? rectified : linear)(xs, scales, offsets, ups);
      check_step(fy, fm, fv, fx, fs, fo);
    }
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(batches_are_normalized_as_by_pytorch) {
  check_batches<double>(1e-12);
  check_batches<float>(2e-5);
}

// Up to the third order; the moments have gradients too.
BOOST_AUTO_TEST_CASE(derivatives_of_batch_normalization) {
  const auto check_form = [](const char* name, bool relu, bool with_residual, auto extents) {
    using D = decltype(extents);
    using C = dims<static_extent<tensor<double, D>, -1>()>;
    gradient_check check;
    check.tolerance = 1e-5;
    const auto x = check.input<D>();
    const auto scale = check.input<C>(), offset = check.input<C>();
    const batch_normalization_options o{.epsilon = 0.1, .relu = relu};
    if (with_residual) {
      const auto y = batch_normalization_training(x, scale, offset, check.input<D>(), o);
      check(name, y.result, 3);
    } else {
      const auto y = batch_normalization_training(x, scale, offset, o);
      check(name, y.result, 3);
      check("the result and its moments", y.result * y.variance + y.mean, 2);
      check("the mean", y.mean, 2);
      check("the variance", y.variance, 2);
    }
  };
  check_form("plain", false, false, dims<5, 2>{});
  check_form("relu", true, false, dims<2, 3, 2>{});
  check_form("residual", false, true, dims<3, 2>{});
  check_form("residual and relu", true, true, dims<3, 1, 2>{});
}

// An optimizer compiles no more than first gradients need.
BOOST_AUTO_TEST_CASE(training_through_the_moments) {
  graph g;
  const auto x = variable<float, dims<3, 1>>(g, "x", tensor<float, dims<3, 1>>{1, 2, 6});
  const auto one = constant(g, tensor<float, dims<1>>{1});
  const auto y = batch_normalization_training(x, one, one);
  const auto train = gradient_descent{.learning_rate = 0.5}.minimize(sum(y.mean) + sum(y.variance));
  session s{g};
  s.run(fetch(train));
  // d (mean + variance) / d x = 1/3 + 2/3 (x - 3)
  const tensor<float, dims<3, 1>> right{1 + 0.5f, 2 + 1.f / 6, 6 - 7.f / 6};
  check_close("the trained variable", s.get(x), right, 1e-6);
}

// Rows and columns that threads share; every rank is the same matrix.
BOOST_AUTO_TEST_CASE(large_batches) {
  const auto check_extents = [](std::int64_t rows, std::int64_t n) {
    tensor<double, matrix> x(shape(rows, n));
    tensor<float, matrix> narrow(shape(rows, n)), up(shape(rows, n));
    const random_stream random(3, static_cast<std::uint64_t>(rows));
    for (std::size_t i = 0; i < x.elements(); ++i) {
      narrow.data()[i] = static_cast<float>(random.uniform(i) * 2 - 1 + static_cast<double>(i % 7));
      x.data()[i] = static_cast<double>(narrow.data()[i]);
      up.data()[i] = static_cast<float>(random.uniform(x.elements() + i) - 0.5);
    }
    tensor<float, row> scale(shape{n}), offset(shape{n});
    for (std::int64_t c = 0; c < n; ++c) scale(c) = 1 + 0.25f * static_cast<float>(c % 5), offset(c) = 0.5f;
    graph g;
    const auto xs = placeholder<float, matrix>(g), ups = placeholder<float, matrix>(g);
    const auto scales = placeholder<float, row>(g), offsets = placeholder<float, row>(g);
    const auto y = batch_normalization_training(xs, scales, offsets, {.relu = true});
    const auto [dx, ds, d_offset] = gradients(sum(y.result * ups), xs, scales, offsets);
    std::vector<std::vector<float>> first;
    for (const int threads : {1, 3}) {
      session s{g, {.threads = threads}};
      const auto [fy, fm, fv, fx, fs, fo] =
          s.run(fetch(y.result, y.mean, y.variance, dx, ds, d_offset), with(xs, narrow), with(scales, scale),
                with(offsets, offset), with(ups, up));
      // By the definitions, in double.
      std::size_t wrong = 0;
      for (std::int64_t c = 0; c < n; ++c) {
        const auto each = [&](const auto& f) {
          double sum = 0;
          for (std::int64_t r = 0; r < rows; ++r) sum += f(r);
          return sum / static_cast<double>(rows);
        };
        const double mean = each([&](std::int64_t r) { return x(r, c); });
        const double variance = each([&](std::int64_t r) { return (x(r, c) - mean) * (x(r, c) - mean); });
        const double root = 1 / std::sqrt(variance + 1e-3), factor = static_cast<double>(scale(c)) * root;
        const auto close = [&](double found, double right) {
          wrong += !(std::abs(found - right) <= 2e-4 * (1 + std::abs(right)));
        };
        close(static_cast<double>(fm(c)), mean);
        close(static_cast<double>(fv(c)), variance);
        const auto& result = fy;
        const auto arriving = [&](std::int64_t r) { return result(r, c) > 0 ? static_cast<double>(up(r, c)) : 0.0; };
        const auto normal = [&](std::int64_t r) { return (x(r, c) - mean) * root; };
        const double a = each(arriving), b = each([&](std::int64_t r) { return arriving(r) * normal(r); });
        close(static_cast<double>(fo(c)) / static_cast<double>(rows), a);
        close(static_cast<double>(fs(c)) / static_cast<double>(rows), b);
        for (std::int64_t r = 0; r < rows; ++r) {
          close(static_cast<double>(fy(r, c)), std::max(0.0, normal(r) * static_cast<double>(scale(c)) + 0.5));
          close(static_cast<double>(fx(r, c)), factor * (arriving(r) - a - normal(r) * b));
        }
      }
      BOOST_CHECK_MESSAGE(wrong == 0, wrong << " numbers are wrong of " << rows << " x " << n);
      std::vector<std::vector<float>> bits;
      for (const auto& t : {fm, fv, fs, fo}) bits.emplace_back(t.data(), t.data() + t.elements());
      for (const auto& t : {fy, fx}) bits.emplace_back(t.data(), t.data() + t.elements());
#if !WEFT_COMPILES_FOR_GPU
      if (!first.empty()) BOOST_CHECK(bits == first);
#endif
      first = bits;
    }
  };
  check_extents(20000, 3);
  check_extents(3000, 64);
  check_extents(1, 5);
  check_extents(150, 1300);
  check_extents(2, 3000);
  check_extents(1001, 100);
}

BOOST_AUTO_TEST_CASE(values_far_from_zero) {
  constexpr int rows = 5000;
  tensor<float, matrix> x(shape(rows, 2));
  tensor<double, matrix> wide(shape(rows, 2));
  const random_stream random(9, 0);
  for (int i = 0; i < 2 * rows; ++i) {
    x.data()[i] = static_cast<float>(1e4 + 3.4 * (random.uniform(static_cast<std::uint64_t>(i)) - 0.5));
    wide.data()[i] = static_cast<double>(x.data()[i]);
  }
  x.data()[0] = 0, wide.data()[0] = 0;  // an outlier comes first
  const tensor<float, dims<2>> ones{1, 1}, zeros{0, 0};
  const tensor<double, dims<2>> wide_ones{1, 1}, wide_zeros{0, 0};
  tensor<float, dims<batch{}, 2>> of_floats(shape(rows, 2));
  tensor<double, dims<batch{}, 2>> of_doubles(shape(rows, 2));
  std::copy(x.data(), x.data() + 2 * rows, of_floats.data());
  std::copy(wide.data(), wide.data() + 2 * rows, of_doubles.data());
  const auto found = batch_normalization_training(of_floats, ones, zeros);
  const auto right = batch_normalization_training(of_doubles, wide_ones, wide_zeros);
  for (int c = 0; c < 2; ++c) {
    BOOST_CHECK_CLOSE(static_cast<double>(found.mean(c)), right.mean(c), 1e-5);
    BOOST_CHECK_CLOSE(static_cast<double>(found.variance(c)), right.variance(c), 1e-2);
  }
  BOOST_CHECK_CLOSE(right.variance(1), 3.4 * 3.4 / 12, 5);
  check_close("the result", found.result, right.result, 1e-5);
}

// One element of a channel is its mean; the gradient of x is 0 there. Of none there are no moments.
BOOST_AUTO_TEST_CASE(one_element_and_none) {
  const tensor<float, dims<3>> scale{2, 2, 2}, offset{1, -1, 0};
  const tensor<float, dims<batch{}, 3>> one(shape(1, 3), {5, 6, 7});
  const auto y = batch_normalization_training(one, scale, offset);
  for (int c = 0; c < 3; ++c) {
    BOOST_CHECK_EQUAL(y.result(0, c), offset(c));
    BOOST_CHECK_EQUAL(y.mean(c), one(0, c));
    BOOST_CHECK_EQUAL(y.variance(c), 0);
  }
  graph g;
  const auto x = placeholder<float, dims<batch{}, 3>>(g);
  const auto s = placeholder<float, dims<3>>(g), o = placeholder<float, dims<3>>(g);
  const auto in_graph = batch_normalization_training(x, s, o);
  const auto [dx, ds, d_offset] = gradients(sum(in_graph.result), x, s, o);
  session run{g};
  auto step = run.prepare(fetch(in_graph.mean, in_graph.variance, dx, ds, d_offset), feed(x, s, o));
  {
    const auto [mean, variance, fx, fs, fo] = step(one, scale, offset);
    for (int c = 0; c < 3; ++c) {
      BOOST_CHECK_EQUAL(fx(0, c), 0);
      BOOST_CHECK_EQUAL(fs(c), 0);
      BOOST_CHECK_EQUAL(fo(c), 1);
    }
  }
  const auto [mean, variance, fx, fs, fo] = step(tensor<float, dims<batch{}, 3>>(shape(0, 3)), scale, offset);
  BOOST_CHECK_EQUAL(fx.elements(), 0u);
  for (int c = 0; c < 3; ++c) {
    BOOST_CHECK(std::isnan(mean(c)));
    BOOST_CHECK(std::isnan(variance(c)));
    BOOST_CHECK_EQUAL(fo(c), 0);
  }
}

namespace {

/// Values of T are normalized in float, and rounded once.
template <class T>
void check_storage(double rounding) {
  using D = dims<batch{}, 2, 3>;
  graph g;
  const auto x = placeholder<float, D>(g), residual = placeholder<float, D>(g);
  const auto scale = placeholder<float, dims<3>>(g), offset = placeholder<float, dims<3>>(g);
  const auto normalized = [&](const auto& a, const auto& b) {
    return batch_normalization_training(a, scale, offset, b, {.relu = true});
  };
  const auto stored = normalized(cast<T>(x), cast<T>(residual));
  const auto wide = normalized(x, residual);
  const auto given = batch_normalization(cast<T>(x), wide.mean, wide.variance, scale, offset);
  static_assert(std::is_same_v<value_t<decltype(stored.result)>, T>);
  static_assert(std::is_same_v<value_t<decltype(stored.mean)>, float>);
  static_assert(std::is_same_v<value_t<decltype(given)>, T>);
  const auto y = let(cast<float>(stored.result));
  const auto [dx, ds, d_offset, dr] = gradients(sum(y * y) + sum(stored.variance), x, scale, offset, residual);
  const auto [rx, rs, r_offset, rr] =
      gradients(sum(wide.result * wide.result) + sum(wide.variance), x, scale, offset, residual);
  const auto by_moments = let(cast<float>(given)),
             right = let(batch_normalization(x, wide.mean, wide.variance, scale, offset));
  session s{g, {.threads = 2}};
  auto step = s.prepare(
      fetch(y, wide.result, stored.mean, wide.mean, by_moments, right, dx, rx, ds, rs, d_offset, r_offset, dr, rr),
      feed(x, residual, scale, offset));
  tensor<float, D> xs(shape(50, 2, 3)), residuals(shape(50, 2, 3));
  for (std::size_t i = 0; i < xs.elements(); ++i) {  // numbers that T has
    xs.data()[i] = static_cast<float>(i * 7 % 64) / 16 - 2;
    residuals.data()[i] = static_cast<float>(i * 5 % 32) / 8 - 2;
  }
  const auto [fy, wy, fm, wm, fb, wb, fx, wx, fs, ws, fo, wo, fr, wr] =
      step(xs, residuals, tensor<float, dims<3>>{1, 2, 0.5f}, tensor<float, dims<3>>{0, 0.5f, -1});
  check_close("the result", fy, wy, rounding);
  check_close("the mean", fm, wm, 1e-6);
  check_close("the result by moments", fb, wb, rounding);
  check_close("the gradient of x", fx, wx, 4 * rounding);
  check_close("the gradient of the scale", fs, ws, 4 * rounding);
  check_close("the gradient of the offset", fo, wo, 4 * rounding);
  check_close("the gradient of the residual", fr, wr, 4 * rounding);
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_in_sixteen_bits) {
  check_storage<bfloat16>(0x1p-8);
  check_storage<weft::half>(0x1p-11);
}

// A NaN shows behind the ReLU too.
BOOST_AUTO_TEST_CASE(a_nan_in_a_channel) {
  const tensor<float, dims<2, 2>> x{std::nanf(""), 1, 2, 3};
  const tensor<float, dims<2>> one{1, 1}, zero{0, 0};
  const auto y = batch_normalization_training(x, one, zero, {.relu = true}).result;
  BOOST_CHECK(std::isnan(y(0, 0)) && std::isnan(y(1, 0)));
  BOOST_CHECK(y(0, 1) == 0 && y(1, 1) > 0.9f);
}

namespace {

/// Of a static width, for groups need it.
template <class T, int Groups>
auto grouped(const tensor<T, dims<batch{}, 4, 6>>& x, const tensor<T, dims<6>>& scale, const tensor<T, dims<6>>& offset,
             const tensor<T, dims<batch{}, 4, 6>>& up) {
  using D = dims<batch{}, 4, 6>;
  graph g;
  const auto xs = placeholder<T, D>(g), ups = placeholder<T, D>(g);
  const auto scales = placeholder<T, dims<6>>(g), offsets = placeholder<T, dims<6>>(g);
  const auto y = group_normalization<Groups>(xs, scales, offsets, {epsilon});
  const auto [dx, ds, d_offset] = gradients(sum(y * ups), xs, scales, offsets);
  session s{g, {.threads = 2}};
  const tensor<T, D> now = group_normalization<Groups>(x, scale, offset, {epsilon});
  return std::tuple_cat(std::tuple{now}, s.run(fetch(y, dx, ds, d_offset), with(xs, x), with(scales, scale),
                                               with(offsets, offset), with(ups, up)));
}

template <class T>
void check_layers(double tolerance) {
  graph g;
  const auto x = placeholder<T, matrix>(g), up = placeholder<T, matrix>(g);
  const auto scale = placeholder<T, row>(g), offset = placeholder<T, row>(g);
  session s{g, {.threads = 2}};
  const auto y = layer_normalization(x, scale, offset, {epsilon});
  const auto [dx, ds, d_offset] = gradients(sum(y * up), x, scale, offset);
  auto layer = s.prepare(fetch(y, dx, ds, d_offset), feed(x, scale, offset, up));
  const auto z = rms_normalization(x, scale, {epsilon});
  const auto [rx, rs] = gradients(sum(z * up), x, scale);
  auto rms = s.prepare(fetch(z, rx, rs), feed(x, scale, up));
  each_case("layer", 3, [&](const std::string&, const shape& extents, std::istream& in) {
    const shape n(extents[1]);
    const auto xs = read<T, matrix>(in, extents);
    const auto scales = read<T, row>(in, n), offsets = read<T, row>(in, n);
    const auto ups = read<T, matrix>(in, extents), right = read<T, matrix>(in, extents);
    check_close("the result over tensors", eval(layer_normalization(xs, scales, offsets, {epsilon})), right, tolerance);
    const auto [fy, fx, fs, fo] = layer(xs, scales, offsets, ups);
    check_close("the result", fy, right, tolerance);
    check_close("the gradient of x", fx, read<T, matrix>(in, extents), tolerance);
    check_close("the gradient of the scale", fs, read<T, row>(in, n), tolerance);
    check_close("the gradient of the offset", fo, read<T, row>(in, n), tolerance);
  });
  each_case("rms", 3, [&](const std::string&, const shape& extents, std::istream& in) {
    const shape n(extents[1]);
    const auto xs = read<T, matrix>(in, extents);
    const auto scales = read<T, row>(in, n);
    const auto ups = read<T, matrix>(in, extents), right = read<T, matrix>(in, extents);
    check_close("the result over tensors", eval(rms_normalization(xs, scales, {epsilon})), right, tolerance);
    const auto [fy, fx, fs] = rms(xs, scales, ups);
    check_close("the result", fy, right, tolerance);
    check_close("the gradient of x", fx, read<T, matrix>(in, extents), tolerance);
    check_close("the gradient of the scale", fs, read<T, row>(in, n), tolerance);
  });
  each_case("group", 3, [&](const std::string&, const shape& extents, std::istream& in) {
    using D = dims<batch{}, 4, 6>;
    const shape all(2, 4, 6), n(6);
    const auto xs = read<T, D>(in, all);
    const auto scales = read<T, dims<6>>(in, n), offsets = read<T, dims<6>>(in, n);
    const auto ups = read<T, D>(in, all), right = read<T, D>(in, all);
    const auto [now, fy, fx, fs, fo] = extents[3] == 1   ? grouped<T, 1>(xs, scales, offsets, ups)
                                       : extents[3] == 2 ? grouped<T, 2>(xs, scales, offsets, ups)
                                                         : grouped<T, 6>(xs, scales, offsets, ups);
    check_close("the result over tensors", now, right, tolerance);
    check_close("the result", fy, right, tolerance);
    check_close("the gradient of x", fx, read<T, D>(in, all), tolerance);
    check_close("the gradient of the scale", fs, read<T, dims<6>>(in, n), tolerance);
    check_close("the gradient of the offset", fo, read<T, dims<6>>(in, n), tolerance);
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_and_groups_are_normalized_as_by_pytorch) {
  check_layers<double>(1e-12);
  check_layers<float>(2e-5);
}

BOOST_AUTO_TEST_CASE(derivatives_of_normalizations_of_layers_and_groups) {
  {
    gradient_check check;
    const auto x = check.input<dims<2, 3, 4>>();
    const auto scale = check.input<dims<4>>(), offset = check.input<dims<4>>();
    check("the last axis", layer_normalization(x, scale, offset, {0.1}));
    check("groups", group_normalization<2>(x, scale, offset, {0.1}));
    check("root of squares", rms_normalization(x, scale, {0.1}));
    const auto [mean, variance] = moments<0, 2>(x);
    check("the mean", mean);
    check("the variance", variance);
  }
  gradient_check check;
  const auto x = check.input<dims<2, 3, 4>>();
  const auto scale = check.input<dims<3, 4>>(), offset = check.input<dims<3, 4>>();
  check("the last two axes", layer_normalization<2>(x, scale, offset, {0.1}));
}

BOOST_AUTO_TEST_CASE(moments_over_axes) {
  const tensor<float, dims<2, 3>> x{1, 2, 6, 3, 5, 13};
  const auto check = [](const auto& found, const auto& mean, const auto& variance) {
    static_assert(std::is_same_v<decltype(found.mean), std::remove_cvref_t<decltype(mean)>>);
    static_assert(std::is_same_v<decltype(found.variance), std::remove_cvref_t<decltype(variance)>>);
    check_close("a mean", found.mean, mean, 1e-6);
    check_close("a variance", found.variance, variance, 1e-6);
  };
  check(moments(x), tensor<float>(5), tensor<float>(94.f / 6));
  check(moments<0>(x), tensor<float, dims<3>>{2, 3.5f, 9.5f}, tensor<float, dims<3>>{1, 2.25f, 12.25f});
  check(moments<-1>(x), tensor<float, dims<2>>{3, 7}, tensor<float, dims<2>>{14.f / 3, 56.f / 3});
  check(moments<1, keep_dims>(x), tensor<float, dims<2, 1>>{3, 7}, tensor<float, dims<2, 1>>{14.f / 3, 56.f / 3});
  check(moments<0, 1>(x * 2), tensor<float>(10), tensor<float>(4 * 94.f / 6));
  graph g;
  const auto in_graph = placeholder<float, dims<2, 3>>(g);
  const auto [mean, variance] = moments<0>(in_graph);
  session s{g};
  const auto [m, v] = s.run(fetch(mean, variance), with(in_graph, x));
  check_close("a mean in a step", m, tensor<float, dims<3>>{2, 3.5f, 9.5f}, 1e-6);
  check_close("a variance in a step", v, tensor<float, dims<3>>{1, 2.25f, 12.25f}, 1e-6);
}

// Also on a GPU. nn/pytorch_layers.cpp has the values of PyTorch.
BOOST_AUTO_TEST_CASE(replicas_are_normalized_as_one_batch) {
  graph g;
  const auto x = placeholder<float, dims<batch{}, 2>>(g, "x");
  const auto y = placeholder<float, dims<dyn<"more">, 2>>(g, "y");
  const nn::batch_norm<2> replicated{.momentum = 0.75, .activation = nn::sigmoid};
  const nn::batch_norm<2> whole{.momentum = 0.75, .activation = nn::sigmoid};
  const auto [a, b] = replicated(std::tuple(x, y), nn::mode::training);
  const auto c = whole(concat<0>(x, y), nn::mode::training);
  const auto loss = let(sum(square(a - 1.0f)) + sum(square(b - 1.0f)));
  const auto right_loss = let(sum(square(c - 1.0f)));
  const auto [dx, dy, dscale, doffset] = gradients(loss, x, y, replicated.scale, replicated.offset);
  const auto [rx, ry, rscale, roffset] = gradients(right_loss, x, y, whole.scale, whole.offset);
  const auto train = gradient_descent{.learning_rate = 0.0f}.minimize(let(loss + right_loss));
  session s{g};
  auto step = s.prepare(
      fetch(concat<0>(a, b), c, concat<0>(dx, dy), concat<0>(rx, ry), dscale, rscale, doffset, roffset, train),
      feed(x, y));
  for (const int rows : {3, 0, 5}) {
    tensor<float, dims<batch{}, 2>> some(shape(rows, 2));
    tensor<float, dims<dyn<"more">, 2>> more(shape(8 - rows, 2));
    for (std::size_t i = 0; i < some.elements(); ++i) some.data()[i] = static_cast<float>(i * i % 7) + 20;
    for (std::size_t i = 0; i < more.elements(); ++i) more.data()[i] = static_cast<float>(i * i % 11) + 16;
    const auto results = step(some, more);
    check_close("the result", std::get<0>(results), std::get<1>(results), 1e-5);
    check_close("the gradient of the operands", std::get<2>(results), std::get<3>(results), 1e-5);
    check_close("the gradient of scale", std::get<4>(results), std::get<5>(results), 1e-5);
    check_close("the gradient of offset", std::get<6>(results), std::get<7>(results), 1e-5);
    check_close("the moving mean", s.get(replicated.moving_mean), s.get(whole.moving_mean), 1e-5);
    check_close("the moving variance", s.get(replicated.moving_variance), s.get(whole.moving_variance), 1e-5);
  }
}

// Also on a GPU, which has a kernel of its own.
BOOST_AUTO_TEST_CASE(moving_averages_follow_each_batch_that_has_rows) {
  graph g;
  const auto x = placeholder<float, dims<batch{}, 2>>(g);
  const nn::batch_norm<2> norm{.momentum = 0.75};
  const auto train = gradient_descent{.learning_rate = 0.0f}.minimize(sum(square(norm(x, nn::mode::training) - 1.0f)));
  session s{g};
  auto step = s.prepare(fetch(train), feed(x));
  double mean[2] = {}, variance[2] = {1, 1};
  for (const int rows : {4, 0, 1, 3}) {
    tensor<float, dims<batch{}, 2>> some(shape(rows, 2));
    for (std::size_t i = 0; i < some.elements(); ++i) some.data()[i] = static_cast<float>(i * i % 7);
    step(some);
    for (std::size_t c = 0; c < 2; ++c) {
      double sum = 0, squares = 0;
      for (int r = 0; r < rows; ++r) sum += some(r, c);
      for (int r = 0; r < rows; ++r) squares += (some(r, c) - sum / rows) * (some(r, c) - sum / rows);
      if (rows > 0) {
        mean[c] = 0.75 * mean[c] + 0.25 * sum / rows;
        variance[c] = 0.75 * variance[c] + 0.25 * squares / std::max(rows - 1, 1);
      }
      BOOST_CHECK(std::abs(s.get(norm.moving_mean)(c) - mean[c]) < 1e-5 * (1 + std::abs(mean[c])));
      BOOST_CHECK(std::abs(s.get(norm.moving_variance)(c) - variance[c]) < 1e-5 * (1 + variance[c]));
    }
  }
}

BOOST_AUTO_TEST_CASE(channels_of_each_element) {
  const tensor<double, dims<2, 2, 1, 2>> x{1, 10, 3, 30, 5, 7, 5, 9};
  const tensor<double, dims<2>> scale{1, 2}, offset{0, 1};
  const auto y = instance_normalization(x, scale, offset, {.epsilon = 0});
  const double expected[] = {-1, -1, 1, 3, 0, -1, 0, 3};
  for (int i = 0; i < 8; ++i)
    if (i != 4 && i != 6) BOOST_CHECK_CLOSE(y.data()[i], expected[i], 1e-9);  // those have no deviation
}
