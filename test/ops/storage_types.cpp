#define BOOST_TEST_DYN_LINK
#define BOOST_TEST_MODULE storage_types
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <weft/weft.hpp>

using namespace weft;

// half and bfloat16 in a graph: casts, products, gradients. test/oracle/mixed_precision.cpp has values from outside.

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

// What follows a product runs with it, on the rounded result: the values are those of the parts.
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
void check_all() {
  check_scalars<T>();
  check_gradients<T>();
  check_second_order<T>();
  check_epilogue<T>(3);
  check_epilogue<T>(600);
  check_tensors<T>();
}

}  // namespace

BOOST_AUTO_TEST_CASE(halves) { check_all<weft::half>(); }
BOOST_AUTO_TEST_CASE(bfloat16s) { check_all<bfloat16>(); }
