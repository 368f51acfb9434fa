// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <weft/weft.hpp>

using namespace weft;

// half and bfloat16 in a graph: casts, products, convolutions, gradients. test/oracle/mixed_precision.cpp has values
// from outside.

namespace {

template <class T, class D>
tensor<T, D> numbers(int which, float scale = 16) {
  tensor<T, D> t;
  const random_stream r(7, static_cast<std::uint64_t>(which));
  for (std::size_t i = 0; i < t.elements(); ++i)
    t.data()[i] = T(std::floor(static_cast<float>(r.uniform(i)) * 65 - 32) / scale);
  return t;
}

template <class T, class D>
void check_equal(const tensor<T, D>& a, const tensor<T, D>& b) {
  BOOST_REQUIRE_EQUAL(a.elements(), b.elements());
  for (std::size_t i = 0; i < a.elements(); ++i)
    BOOST_REQUIRE_EQUAL(static_cast<float>(a.data()[i]), static_cast<float>(b.data()[i]));
}

// The network's products are exact, so that where they are rounded does not matter.
template <class T>
void check_gradients() {
  graph g;
  const auto x = variable<T>(g, "x", numbers<T, dims<5, 7>>(1));
  const auto w = variable<T>(g, "w", numbers<T, dims<7, 3>>(2));
  const auto v = variable<T>(g, "v", numbers<T, dims<3, 7>>(3));
  const auto unused = variable<T>(g, "unused", numbers<T, dims<4>>(4));
  // x is read by two products and an expression: its gradients meet in its own type.
  const auto y = sum(cast<float>(matmul(x, w))) + sum(cast<float>(matmul<transpose_of::b>(x, v))) + sum(cast<float>(x));
  const auto [dx, dw, dv, nothing] = gradients(y, x, w, v, unused);
  static_assert(std::is_same_v<value_t<decltype(dx)>, T>);

  const auto fx = variable<float>(g, "fx", eval(cast<float>(numbers<T, dims<5, 7>>(1))));
  const auto fw = variable<float>(g, "fw", eval(cast<float>(numbers<T, dims<7, 3>>(2))));
  const auto fv = variable<float>(g, "fv", eval(cast<float>(numbers<T, dims<3, 7>>(3))));
  const auto fy = sum(matmul(fx, fw)) + sum(matmul<transpose_of::b>(fx, fv)) + sum(fx);
  const auto [fdx, fdw, fdv] = gradients(fy, fx, fw, fv);

  session s{g};
  const auto [a, b, c, zero, fa, fb, fc] = s.run(fetch(dx, dw, dv, nothing, fdx, fdw, fdv));
  check_equal<T>(a, eval(cast<T>(fa)));
  check_equal<T>(b, eval(cast<T>(fb)));
  check_equal<T>(c, eval(cast<T>(fc)));
  for (int i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(static_cast<float>(zero(i)), 0);
}

// d2(sum(x^3 w))/dx2 = 6 x w, by way of two conversions in either direction.
template <class T>
void check_second_order() {
  graph g;
  const auto x = variable<float>(g, "x", tensor<float, dims<3>>{1, 2, -3});
  const auto h = let(cast<T>(x));
  const auto y = sum(cast<float>(h) * cast<float>(h) * cast<float>(h));
  const auto [dy] = gradients(y, x);
  const auto [d2y] = gradients(sum(dy), x);
  session s{g};
  const auto [first, second] = s.run(fetch(dy, d2y));
  const float at[] = {1, 2, -3};
  for (int i = 0; i < 3; ++i) {
    BOOST_CHECK_EQUAL(first(i), 3 * at[i] * at[i]);
    BOOST_CHECK_EQUAL(second(i), 6 * at[i]);
  }
}

// The operations that follow a product run with it, on the rounded result: the values are those of the parts.
template <class T>
void check_epilogue(int rows) {
  graph g;
  const auto x = placeholder<T, dims<dyn<"rows">, 40>>(g, "x");
  const auto w = variable<T>(g, "w", numbers<T, dims<40, 24>>(2, 19));
  const auto b = variable<float>(g, "b", numbers<float, dims<24>>(3, 13));
  const auto product = matmul(x, w);
  const auto y = let(cast<T>(relu(cast<float>(product) + b)));
  session s{g};
  auto fused = s.prepare(fetch(y), feed(x));
  tensor<T, dims<dyn<"rows">, 40>> rows_of_x(shape(rows, 40));
  const random_stream r(7, 1);
  for (std::size_t i = 0; i < rows_of_x.elements(); ++i) rows_of_x.data()[i] = T(r.normal(i));
  const auto found = fused(rows_of_x);
  BOOST_CHECK(fused.explain().find(", then map cast(relu(add(cast(a0), a1)))") != std::string::npos);
  const auto [p, bias] = s.run(fetch(product, b), with(x, rows_of_x));
  check_equal<T>(found, eval(cast<T>(relu(cast<float>(p) + bias))));
}

template <class T>
void check_tensors() {
  const auto a = numbers<T, dims<6, 4>>(1);
  const auto b = numbers<T, dims<4, 5>>(2);
  const tensor<T, dims<6, 5>> c = matmul(a, b);
  check_equal<T>(c, eval(cast<T>(matmul(cast<float>(a), cast<float>(b)))));
  check_equal<T>(matmul<transpose_of::a>(transpose(a), b), c);
  check_equal<T>(reshape<dims<30>>(c), reshape<dims<30>>(c));
  BOOST_CHECK_EQUAL(static_cast<float>(tensor<T, dims<2>>{T(0.5), T(-2)}(1)), -2);
}

// Numbers of a storage type are fed and fetched as numbers are.
template <class T>
void check_scalars() {
  graph g;
  const auto x = placeholder<T>(g, "x");
  session s{g};
  auto step = s.prepare(fetch(x, cast<T>(cast<float>(x) * 3), cast<float>(x)), feed(x));
  const auto [same, thrice, wide] = step(T(1.5f));
  static_assert(std::is_same_v<std::remove_const_t<decltype(thrice)>, T>);
  BOOST_CHECK_EQUAL(static_cast<float>(same), 1.5f);
  BOOST_CHECK_EQUAL(static_cast<float>(thrice), 4.5f);
  BOOST_CHECK_EQUAL(wide, 1.5f);
  const auto v = variable<T>(g, "v", init::constant{2});
  BOOST_CHECK_EQUAL(static_cast<float>(s.eval(v)), 2);
  BOOST_CHECK_EQUAL(s.eval(cast<float>(x), with(x, tensor<T>(T(-1)))), -1);
}

template <class T>
void check_convolution_epilogue(int batch) {
  graph g;
  const auto x = placeholder<T, dims<dyn<"batch">, 9, 8, 5>>(g, "x");
  const auto w = variable<T>(g, "w", numbers<T, dims<3, 3, 5, 20>>(2, 19));
  const auto b = variable<float>(g, "b", numbers<float, dims<20>>(3, 13));
  const auto convolved = conv2d(x, w);
  const auto y = let(cast<T>(relu(cast<float>(convolved) + b)));
  session s{g};
  auto fused = s.prepare(fetch(y), feed(x));
  tensor<T, dims<dyn<"batch">, 9, 8, 5>> images(shape(batch, 9, 8, 5));
  const random_stream r(7, 1);
  for (std::size_t i = 0; i < images.elements(); ++i) images.data()[i] = T(r.normal(i));
  const auto found = fused(images);
  BOOST_CHECK(fused.explain().find(", then map cast(relu(add(cast(a0), a1)))") != std::string::npos);
  const auto [c, bias] = s.run(fetch(convolved, b), with(x, images));
  check_equal<T>(found, eval(cast<T>(relu(cast<float>(c) + bias))));
}

// The gradient of sum(square(dx)), where dx is a gradient itself: exact but for one rounding at the end.
template <class T>
void check_second_gradients() {
  graph g;
  const auto make = [&]<class E>(E) {
    const auto x = variable<E>(g, name(dtype_of<E>), eval(cast<E>(numbers<float, dims<4, 5, 4, 3>>(1))));
    const auto w = variable<E>(g, std::string("filters of ") + name(dtype_of<E>),
                               eval(cast<E>(numbers<float, dims<3, 3, 3, 2>>(2, 32))));
    const auto v = let(cast<E>(constant(g, numbers<float, dims<4, 5, 4, 2>>(3, 32))));
    const auto y = conv2d(x, w);
    const auto [dx, dw] = gradients(sum(cast<float>(y) * cast<float>(v)), x, w);
    const auto [of_images] = gradients(sum(cast<float>(dx)), w);
    const auto [of_filters] = gradients(sum(cast<float>(dw)), x);
    return std::tuple(let(cast<float>(of_images)), let(cast<float>(of_filters)));
  };
  const auto narrow = make(T(0.0f));
  const auto wide = make(0.0f);
  session s{g};
  const auto [a, b, fa, fb] =
      s.run(fetch(std::get<0>(narrow), std::get<1>(narrow), std::get<0>(wide), std::get<1>(wide)));
  check_equal<float>(a, eval(cast<float>(cast<T>(fa))));
  check_equal<float>(b, eval(cast<float>(cast<T>(fb))));
}

/// The losses of a small LeNet whose images, filters and what is between them are T; variables are float.
template <class T>
std::vector<float> losses_of_lenet(int threads) {
  using images = dims<dyn<"batch">, 12, 12, 1>;
  graph g(3);
  const auto x = placeholder<float, images>(g, "x");
  const auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  const auto w1 = variable<float, dims<5, 5, 1, 8>>(g, "w1", init::he_normal{});
  const auto b1 = variable<float, dims<8>>(g, "b1");
  const auto w2 = variable<float, dims<3, 3, 8, 20>>(g, "w2", init::he_normal{});
  const auto b2 = variable<float, dims<20>>(g, "b2");
  const auto w3 = variable<float, dims<180, 10>>(g, "w3", init::he_normal{});
  const auto h1 = max_pool2d<2>(cast<T>(relu(cast<float>(conv2d(cast<T>(x), cast<T>(w1))) + b1)));
  const auto h2 = avg_pool2d<2>(cast<T>(relu(cast<float>(conv2d(h1, cast<T>(w2))) + b2)));
  const auto logits = cast<float>(matmul(reshape<dims<dyn<"batch">, 180>>(h2), cast<T>(w3)));
  const auto loss = mean(softmax_cross_entropy(logits, labels));
  const auto train = momentum{.learning_rate = 0.02}.minimize(loss);
  session s{g, {.threads = threads}};
  auto step = s.prepare(fetch(loss, train), feed(x, labels));
  const random_stream r(11, 0);
  std::vector<float> losses;
  for (std::uint64_t n = 0; n < 20; ++n) {
    tensor<float, images> in(shape(20, 12, 12, 1));
    tensor<std::int32_t, dims<dyn<"batch">>> classes(shape(20));
    for (int i = 0; i < 20; ++i) {
      classes(i) = i % 10;
      for (int p = 0; p < 144; ++p)  // a stripe for each class, and noise
        in.data()[i * 144 + p] = static_cast<float>(r.uniform(n * 2880 + static_cast<std::uint64_t>(i * 144 + p))) +
                                 (p / 12 == i % 10 ? 1.5f : 0.0f);
    }
    losses.push_back(std::get<0>(step(in, classes)));
  }
  return losses;
}

template <class T>
void check_lenet(float tolerance) {
  static const auto wide = losses_of_lenet<float>(1);
  const auto narrow = losses_of_lenet<T>(1);
  BOOST_CHECK_LT(narrow.back(), 0.5f * narrow.front());
  for (std::size_t i = 0; i < wide.size(); ++i) BOOST_CHECK_SMALL(narrow[i] - wide[i], tolerance);
  BOOST_CHECK(narrow != wide);
  BOOST_CHECK(narrow == losses_of_lenet<T>(2));
}

/// C++ says nothing of these, and processors differ, as do the ends of a loop from its middle.
template <class From, class To>
void check_casts() {
  constexpr double least = static_cast<double>(std::numeric_limits<To>::min());
  constexpr double most = static_cast<double>(std::numeric_limits<To>::max());
  constexpr std::size_t n = 37;
  graph g;
  const auto x = placeholder<From, dims<n>>(g, "x");
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(cast<To>(x)), feed(x));
  for (const double value : {0.9, -0.9, 127.5, 128.0, -128.5, -129.0, 255.5, 256.0, 65504.0, -2147483648.0,
                             2147483648.0, 4294967296.0, 9.3e18, -9.3e18, 1.9e19, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    tensor<From, dims<n>> given;
    for (std::size_t i = 0; i < n; ++i)
      if constexpr (std::is_same_v<From, double>)
        given.data()[i] = value;
      else
        given.data()[i] = From(static_cast<float>(value));
    const double is = static_cast<double>(given.data()[0]);
    const To want = is != is      ? To(0)
                    : is >= most  ? std::numeric_limits<To>::max()
                    : is <= least ? std::numeric_limits<To>::min()
                                  : static_cast<To>(is);
    const auto found = step(given);
    const auto at_once = eval(cast<To>(given));
    for (std::size_t i = 0; i < n; ++i)
      BOOST_REQUIRE_MESSAGE(found.data()[i] == want && at_once.data()[i] == want,
                            "cast of " << is << ", element " << i << ": " << +found.data()[i] << " and "
                                       << +at_once.data()[i] << ", not " << +want);
  }
}

template <class T>
void check_all() {
  check_scalars<T>();
  check_gradients<T>();
  check_second_order<T>();
  check_epilogue<T>(3);
  check_epilogue<T>(600);
  check_tensors<T>();
  check_convolution_epilogue<T>(3);
  check_convolution_epilogue<T>(33);
  check_second_gradients<T>();
}

}  // namespace

BOOST_AUTO_TEST_CASE(casts_of_what_an_integer_type_does_not_have) {
  check_casts<float, std::int8_t>();
  check_casts<float, std::uint32_t>();
  check_casts<double, std::int32_t>();
  check_casts<double, std::uint64_t>();
  check_casts<weft::half, std::uint8_t>();
}
BOOST_AUTO_TEST_CASE(halves) { check_all<weft::half>(); }
BOOST_AUTO_TEST_CASE(bfloat16s) { check_all<bfloat16>(); }
BOOST_AUTO_TEST_CASE(a_lenet_of_halves) { check_lenet<weft::half>(0.005f); }
BOOST_AUTO_TEST_CASE(a_lenet_of_bfloat16s) { check_lenet<bfloat16>(0.02f); }
