// SPDX-License-Identifier: BSL-1.0
#include <cmath>
#include <memory>
#include <tuple>

#include "errors.hpp"
#include "ops/gradient_check.hpp"

// Operations of arrays as they are written outside of the library, whose gradients are functions of symbols: each is
// differentiated twice and compared with differences, so that what the gradients are written in is differentiated too.

namespace others {

using namespace weft;

template <class T>
const T* read(const kernel_context& f, std::uint32_t slot) {
  return reinterpret_cast<const T*>(f.buffers[slot]);
}

/// The squared distances of all rows of a from all rows of b: `[n, d]` and `[m, d]` make `[n, m]`.
template <class T>
struct squared_distances_op {
  static constexpr const char* name = "squared_distances";

  static kernel* prepare(const prepare_context& p) { return new on_cpu(p); }
  static void gradient(gradient_context& g) {
    const symbol a = g.input(0), b = g.input(1), up = g.upstream();
    if (g.needs_gradient(0)) g.set_gradient(0, 2 * (sum(up, {1}, true) * a - matmul<T>(up, b)));
    if (g.needs_gradient(1)) g.set_gradient(1, 2 * (expand_dims(sum(up, {0}), {1}) * b - matmul<T>(up, a, true)));
  }

 private:
  struct on_cpu final : kernel {
    std::uint32_t a, b, to;
    std::int64_t n, m, d;
    explicit on_cpu(const prepare_context& p)
        : a(p.input_slots[0]),
          b(p.input_slots[1]),
          to(p.output_slots[0]),
          n(p.inputs[0].extents[0]),
          m(p.inputs[1].extents[0]),
          d(p.inputs[0].extents[1]) {}
    void run(const kernel_context& f) override {
      const T *x = read<T>(f, a), *y = read<T>(f, b);
      T* result = reinterpret_cast<T*>(f.buffers[to]);
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < m; ++j) {
          T s = 0;
          for (std::int64_t k = 0; k < d; ++k) s += (x[i * d + k] - y[j * d + k]) * (x[i * d + k] - y[j * d + k]);
          result[i * m + j] = s;
        }
    }
    std::string describe() const override { return "squared distances"; }
  };
};

auto squared_distances(const Expression auto& a, const Expression auto& b) {
  const auto x = materialize(a);
  const auto y = materialize(b);
  using T = value_t<decltype(x)>;
  using D = dims<extent_of<dims_t<decltype(x)>, 0>(), extent_of<dims_t<decltype(y)>, 0>()>;
  gpu::compile_kernels<matmul_op, T>();
  shape extents = extents_of(x);
  extents[1] = extents_of(y)[0];
  return call_operation<squared_distances_op<T>, T, D>(extents, {}, x, y);
}

/// Mean and variance of the rows of a matrix, at once: `[n, d]` makes two of `[n]`.
template <class T>
struct row_moments_op {
  static constexpr const char* name = "row_moments";

  static kernel* prepare(const prepare_context& p) { return new on_cpu(p); }
  static void gradient(gradient_context& g) {
    const symbol x = g.input(0), count = sum(fill(*x.builder(), x.info(), 1), {1});
    symbol dx;
    if (g.has_upstream(0)) dx = broadcast_to(expand_dims(g.upstream(0) / count, {1}), x.extents());
    if (g.has_upstream(1)) {
      // Recorded anew, and found to be the call that is there: the mean is its first output, the variance its second.
      const symbol variance = record<row_moments_op>({x}, {g.output(0).info(), g.output(1).info()}).output(1);
      const symbol mean = variance.output(0);
      const symbol column = reshape(mean, expand_dims(mean, {1}).extents());
      dx = dx + expand_dims(2 * g.upstream(1) / count, {1}) * (x - column);
    }
    g.set_gradient(0, dx);
  }

 private:
  struct on_cpu final : kernel {
    std::uint32_t from, mean, variance;
    std::int64_t n, d;
    explicit on_cpu(const prepare_context& p)
        : from(p.input_slots[0]),
          mean(p.output_slots[0]),
          variance(p.output_slots[1]),
          n(p.inputs[0].extents[0]),
          d(p.inputs[0].extents[1]) {}
    void run(const kernel_context& f) override {
      const T* x = read<T>(f, from);
      for (std::int64_t i = 0; i < n; ++i, x += d) {
        T s = 0, squares = 0;
        for (std::int64_t k = 0; k < d; ++k) s += x[k];
        s /= static_cast<T>(d);
        for (std::int64_t k = 0; k < d; ++k) squares += (x[k] - s) * (x[k] - s);
        reinterpret_cast<T*>(f.buffers[mean])[i] = s;
        reinterpret_cast<T*>(f.buffers[variance])[i] = squares / static_cast<T>(d);
      }
    }
    std::string describe() const override { return "moments of rows"; }
  };
};

auto row_moments(const Expression auto& e) {
  const auto x = materialize(e);
  using T = value_t<decltype(x)>;
  using D = dims<extent_of<dims_t<decltype(x)>, 0>()>;
  const shape one(extents_of(x)[0]);
  return call_operation<row_moments_op<T>>(std::tuple{typed_result<T, D>{one}, typed_result<T, D>{one}}, {}, x);
}

/// The rows of x turned by a vector that all share, transposed: `x[i, j] * v[j]` at `[j, i]`. It moves and multiplies
/// in the operations that there are.
struct scaled_transpose_op {
  static constexpr const char* name = "scaled_transpose";

  static kernel* prepare(const prepare_context& p) { return new on_cpu(p); }
  static void gradient(gradient_context& g) {
    const symbol x = g.input(0), v = g.input(1), up = transpose(g.upstream(), {1, 0});
    g.set_gradient(0, up * v);
    g.set_gradient(1, sum_to(up * x, v.extents()));
  }

 private:
  struct on_cpu final : kernel {
    std::uint32_t from, by, to;
    std::int64_t n, m;
    explicit on_cpu(const prepare_context& p)
        : from(p.input_slots[0]),
          by(p.input_slots[1]),
          to(p.output_slots[0]),
          n(p.inputs[0].extents[0]),
          m(p.inputs[0].extents[1]) {}
    void run(const kernel_context& f) override {
      const auto *x = read<double>(f, from), *v = read<double>(f, by);
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < m; ++j) reinterpret_cast<double*>(f.buffers[to])[j * n + i] = x[i * m + j] * v[j];
    }
    std::string describe() const override { return "scaled transpose"; }
  };
};

auto scaled_transpose(const Expression auto& e, const Expression auto& v) {
  const auto x = materialize(e);
  const auto y = materialize(v);
  using From = dims_t<decltype(x)>;
  using D = dims<extent_of<From, 1>(), extent_of<From, 0>()>;
  gpu::compile_kernels<gpu::moves, double>();
  return call_operation<scaled_transpose_op, double, D>(shape(extents_of(x)[1], extents_of(x)[0]), {}, x, y);
}

}  // namespace others

using namespace weft;

BOOST_AUTO_TEST_CASE(gradients_of_operations_from_outside) {
  {
    gradient_check check;
    const auto a = check.input<dims<3, 4>>();
    const auto b = check.input<dims<2, 4>>();
    check("squared distances", others::squared_distances(a, b));
  }
  {
    gradient_check check;
    const auto a = check.input<dims<dyn<"n">, 2>>(-2, 2, shape(3, 2));
    check("squared distances of rows from each other", others::squared_distances(a, a));
  }
  {
    gradient_check check;
    const auto [mean, variance] = others::row_moments(check.input<dims<3, 5>>());
    check("moments", mean * variance);
    check("mean", mean * mean);
    check("variance", variance);
  }
  {
    gradient_check check;
    check("scaled transpose", others::scaled_transpose(check.input<dims<3, 2>>(), check.input<dims<2>>()));
  }
}

BOOST_AUTO_TEST_CASE(values_of_operations_from_outside) {
  const tensor<double, dims<2, 2>> a{0, 0, 3, 4};
  const tensor<double, dims<1, 2>> b{0, 1};
  const auto d = others::squared_distances(a, b);
  BOOST_TEST(d(0, 0) == 1.0);
  BOOST_TEST(d(1, 0) == 18.0);
  const auto [mean, variance] = others::row_moments(a);
  BOOST_TEST(mean(1) == 3.5);
  BOOST_TEST(variance(1) == 0.25);
}

BOOST_AUTO_TEST_CASE(functions_of_symbols_say_what_they_need) {
  graph g;
  const symbol x = placeholder<float, dims<2, 3>>(g, "x").erased();
  BOOST_CHECK_EXCEPTION(reshape(x, shape(4)), error,
                        test::says(error_code::invalid_argument, "needs extents of 6 elements"));
  BOOST_CHECK_EXCEPTION(transpose(x, {0, 0}), error,
                        test::says(error_code::invalid_argument, "needs each axis of [2, 3] once"));
  BOOST_CHECK_EXCEPTION(transpose(x, {1}), error,
                        test::says(error_code::invalid_argument, "needs each axis of [2, 3] once"));
  BOOST_CHECK_EXCEPTION(transpose(x, {0, 2}), error,
                        test::says(error_code::invalid_argument, "needs each axis of [2, 3] once"));
  BOOST_CHECK_EXCEPTION(
      sum(x, {2}), error,
      test::says(error_code::invalid_argument, "needs axes of [2, 3], counted from 0; its rank is 2"));
  BOOST_CHECK_EXCEPTION(expand_dims(x, {3}), error,
                        test::says(error_code::invalid_argument, "including those of [2, 3]"));
  BOOST_CHECK_EXCEPTION(expand_dims(x, {0, 1, 2, 3, 4, 5, 6}), error, test::says(error_code::invalid_argument));
  BOOST_CHECK_EXCEPTION(matmul<float>(x, x), error,
                        test::says(error_code::invalid_argument, "needs matrices [m, k] and [k, n]"));
  BOOST_CHECK_EXCEPTION(sum(placeholder<std::int32_t, dims<2>>(g, "i").erased(), {0}), error,
                        test::says(error_code::unimplemented, "cannot sum int32"));
  BOOST_TEST((matmul<float>(x, x, false, true).extents() == shape(2, 2)));
  BOOST_TEST((matmul<float>(x, x, true).extents() == shape(3, 3)));
  BOOST_TEST((expand_dims(x, {0, 2, 4}).extents() == shape(1, 2, 1, 3, 1)));
  BOOST_TEST((transpose(x, {1, 0}).extents() == shape(3, 2)));
  BOOST_TEST((reshape(x, x.extents()).id() == x.id()));
}

BOOST_AUTO_TEST_CASE(half_is_summed_in_float) {
  graph g;
  const auto x = placeholder<half, dims<4096>>(g, "x");
  g.use(storage_primitives<half>);
  g.use(primitives<float>);
  const symbol s = sum(x.erased(), {0}), kept = sum(x.erased(), {0}, true);
  BOOST_TEST((kept.extents() == shape(1)));
  tensor<half, dims<4096>> ones;
  for (std::size_t i = 0; i < 4096; ++i) ones.data()[i] = half(1.0f);
  session run(g);
  BOOST_TEST(static_cast<float>(run.eval(node<half>(s), with(x, ones))) == 4096.0f);  // 2048 + 1 is 2048 in half
}
