// SPDX-License-Identifier: BSL-1.0
#include <numeric>
#include <weft/graph/fill.hpp>
#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/reduce/scan.hpp>

#include "elements.hpp"
#include "errors.hpp"
#include "gradient_check.hpp"

// Extents that are named, computed or inferred, and what is made of them.

using namespace weft;
using test::check_elements;

namespace {

template <class D>
tensor<float, D> counting(const shape& extents) {
  tensor<float, D> x(extents);
  std::iota(x.data(), x.data() + x.elements(), 0.0f);
  return x;
}

using steps = dims<dyn<"b">, dyn<"t">, 2>;
using rows = dims<dyn<"b"> * dyn<"t">, 2>;

template <class X>
void check_extents(const X& x, const shape& extents) {
  BOOST_CHECK_MESSAGE(x.extents() == extents, to_string(x.extents()) << " is not " << to_string(extents));
}

}  // namespace

BOOST_AUTO_TEST_CASE(types_of_reshaped_values) {
  graph g;
  const auto x = placeholder<float, steps>(g);
  const auto spec = [](const auto& y) { return dims_t<std::remove_cvref_t<decltype(y)>>::spec; };
  BOOST_CHECK(spec(reshape<dims<-1, 2>>(x)) == rows::spec);
  BOOST_CHECK(spec(reshape<steps>(reshape<rows>(x))) == steps::spec);
  BOOST_CHECK((spec(reshape<dims<dyn<"b">, -1>>(x)) == dims<dyn<"b">, dyn<"t"> * extent<2>>::spec));
  BOOST_CHECK((spec(reshape<dims<2, -1, dyn<"b">>>(x)) == dims<2, dyn<"t">, dyn<"b">>::spec));
  BOOST_CHECK((spec(reshape<dims<-1>>(tensor<float, dims<2, 3>>())) == shape(6)));
  // A quotient that is multiplied again is what was divided.
  const auto thirds = reshape<dims<-1, 3>>(x);
  BOOST_CHECK(spec(reshape<dims<-1, 2>>(thirds)) == rows::spec);
  BOOST_CHECK(spec(reshape<steps>(thirds)) == steps::spec);
  static_assert(reshape_changes_elements<dims<dyn<"b"> + extent<1>, 2>, dims<dyn<"b">, 2>>::value);
  static_assert(
      !reshape_changes_elements<dims<dyn<"b"> + extent<1>, 2>, dims<dyn<"b"> * extent<2> + extent<2>>>::value);
}

BOOST_AUTO_TEST_CASE(reshaped_tensors) {
  const auto x = counting<steps>(shape(3, 2, 2));
  check_extents(reshape<rows>(x), shape(6, 2));
  check_extents(reshape<dims<-1, 4>>(x), shape(3, 4));
  check_extents(reshape<dims<4, -1>>(x * 2.0f), shape(4, 3));
  check_elements(reshape<dims<4, -1>>(x * 2.0f), {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22});
  check_extents(reshape<steps>(reshape<rows>(x), shape(2, 3, 2)), shape(2, 3, 2));
  check_extents(reshape<dims<dyn<"b">, 4>>(counting<dims<dyn<"b"> * extent<2>, 2>>(shape(6, 2))), shape(3, 4));
  check_extents(reshape<dims<-1, 2>>(counting<steps>(shape(0, 2, 2))), shape(0, 2));
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(reshape<dims<-1, 5>>(x)); }),
             "the extent is 12 / 5, which is not a whole number");
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { static_cast<void>(reshape<steps>(reshape<rows>(x), shape(2, 2, 2))); }),
             "[6, 2] has 12 and [2, 2, 2] has 8");
}

BOOST_AUTO_TEST_CASE(reshaped_in_a_step) {
  graph g;
  const auto x = placeholder<float, steps>(g, "x");
  const auto w = placeholder<float, dims<2, 3>>(g, "w");
  const auto flat = matmul(reshape<dims<-1, 2>>(x), w);
  const auto y = reshape<dims<dyn<"b">, dyn<"t">, 3>>(flat);
  const auto [dx] = gradients(sum(y * y), x);
  session s{g, {.threads = 1}};
  const tensor<float, dims<2, 3>> weights{1, 0, 2, 0, 1, 1};
  for (const auto& [b, t] : {std::pair(2, 3), std::pair(5, 1), std::pair(0, 4)}) {
    const auto a = counting<steps>(shape(b, t, 2));
    const auto [yy, d] = s.run(fetch(y, dx), with(x, a), with(w, weights));
    check_extents(yy, shape(b, t, 3));
    check_extents(d, shape(b, t, 2));
    for (int i = 0; i < b; ++i)
      for (int k = 0; k < t; ++k) {
        const float p = a(i, k, 0), q = a(i, k, 1);
        BOOST_CHECK_EQUAL(yy(i, k, 2), 2 * p + q);
        BOOST_CHECK_EQUAL(d(i, k, 0), 2 * (p + 2 * (2 * p + q)));
        BOOST_CHECK_EQUAL(d(i, k, 1), 2 * (q + (2 * p + q)));
      }
  }
}

BOOST_AUTO_TEST_CASE(extents_that_nothing_tells) {
  graph g;
  const auto x = placeholder<float, rows>(g, "x");
  const auto y = reshape<steps>(x);
  session s{g, {.threads = 1}};
  CHECK_SAYS(test::failure(error_code::failed_precondition,
                           [&] { static_cast<void>(s.run(fetch(y), with(x, counting<rows>(shape(6, 2))))); }),
             "the extent b is not known: feed a value that has it, or g.set(dyn<\"b\">, n)");
  g.set(dyn<"b">, 2);
  g.set(dyn<"t">, 3);
  session again{g, {.threads = 1}};
  check_extents(again.run(fetch(y), with(x, counting<rows>(shape(6, 2)))), shape(2, 3, 2));
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { static_cast<void>(again.run(fetch(y), with(x, counting<rows>(shape(4, 2))))); }),
             "b * t");
}

BOOST_AUTO_TEST_CASE(derivatives_of_reshapes) {
  gradient_check check;
  const auto x = check.input<steps>(-1, 1, shape(2, 3, 2));
  check("joined axes", tanh(reshape<rows>(x)) * reshape<dims<-1, 2>>(x), 3);
  check("and back", reshape<steps>(tanh(reshape<dims<-1, 2>>(x))) * x, 2);
  check("a quotient", cumsum<0>(reshape<dims<-1, 3>>(x)) * reshape<dims<-1, 3>>(x), 2);
}

BOOST_AUTO_TEST_CASE(broadcast_tensors) {
  const tensor<float, dims<2, 1>> x{1, 2};
  check_elements(broadcast_to<dims<2, 3>>(x), {1, 1, 1, 2, 2, 2});
  check_elements(broadcast_to<dims<2, 2, 1>>(x * 10.0f), {10, 20, 10, 20});
  check_elements(broadcast_to<dims<dyn<"n">, 2>>(tensor<std::int8_t>(7), shape(2, 2)), {7, 7, 7, 7});
  check_elements(broadcast_to<dims<2, dyn<"n">>>(counting<dims<dyn<"n">>>(shape(3))), {0, 1, 2, 0, 1, 2});
  check_elements(zeros_like(x), {0, 0});
  check_elements(ones_like<std::int64_t>(counting<steps>(shape(2, 1, 2))), {1, 1, 1, 1});
  CHECK_SAYS(
      test::failure(
          error_code::invalid_argument,
          [&] { static_cast<void>(broadcast_to<dims<3, dyn<"n">>>(counting<dims<dyn<"n">>>(shape(3)), shape(3, 4))); }),
      "[3] does not broadcast to [3, 4]: each extent must be equal or 1");
}

BOOST_AUTO_TEST_CASE(filled_in_a_step) {
  graph g;
  const auto x = placeholder<float, steps>(g, "x");
  const auto z = zeros<float, rows>(g);
  const auto o = ones<std::int32_t, dims<2, dyn<"t">>>(g);
  const auto h = fill<half, dims<dyn<"t">>>(g, 0.5f);
  const auto b = fill<bool, dims<dyn<"b">>>(g, true);
  const auto wide = fill<std::int64_t, dims<dyn<"b">>>(g, (std::int64_t{1} << 60) + 1);
  const auto up = range<std::int32_t, dyn<"b"> * dyn<"t">>(g);
  const auto down = range<float, dyn<"t">>(g, 1.0f, -0.25f);
  const auto bytes = range<std::uint8_t, 3>(g, 250, 3);
  const auto row = broadcast_to<dims<dyn<"b">, dyn<"t">>>(down * 2.0f + sum(x)).erased().info();
  BOOST_CHECK_EQUAL(row.extents.rank, 2);
  session s{g, {.threads = 1}};
  for (const auto& [n, t] : {std::pair(2, 3), std::pair(1, 1), std::pair(0, 2)}) {
    const auto [zz, oo, hh, bb, ww, uu, dd, yy, ll] =
        s.run(fetch(z, o, h, b, wide, up, down, bytes, ones_like(x)), with(x, counting<steps>(shape(n, t, 2))));
    check_extents(zz, shape(n * t, 2));
    check_extents(oo, shape(2, t));
    check_extents(ll, shape(n, t, 2));
    for (const float e : zz) BOOST_CHECK_EQUAL(e, 0);
    for (const float e : ll) BOOST_CHECK_EQUAL(e, 1);
    for (const std::int32_t e : oo) BOOST_CHECK_EQUAL(e, 1);
    for (const half e : hh) BOOST_CHECK_EQUAL(static_cast<float>(e), 0.5f);
    BOOST_REQUIRE_EQUAL(bb.elements(), n);
    for (const bool e : bb) BOOST_CHECK(e);
    for (const std::int64_t e : ww) BOOST_CHECK_EQUAL(e, (std::int64_t{1} << 60) + 1);
    BOOST_REQUIRE_EQUAL(uu.elements(), n * t);
    for (int i = 0; i < n * t; ++i) BOOST_CHECK_EQUAL(uu(i), i);
    for (int i = 0; i < t; ++i) BOOST_CHECK_EQUAL(dd(i), 1 - 0.25f * static_cast<float>(i));
    check_elements(yy, {250, 253, 0});
  }
  session again{g, {.threads = 1}};
  CHECK_SAYS(test::failure(error_code::failed_precondition, [&] { static_cast<void>(again.run(fetch(h))); }),
             "the extent t is not known: feed a value that has it");
}

BOOST_AUTO_TEST_CASE(derivatives_of_broadcasts) {
  gradient_check check;
  const auto x = check.input<dims<dyn<"b">, 1>>(-1, 1, shape(3, 1));
  const auto w = check.input<dims<dyn<"b">, 4>>(-1, 1, shape(3, 4));
  const auto c = check.input<dims<>>();
  check("a column", broadcast_to<dims<2, dyn<"b">, 4>>(tanh(x)) * w, 3);
  check("a scalar", broadcast_to<dims<dyn<"b">, 4>>(c * c) * w, 3);
  check("not of its like", (ones_like(x) + zeros_like(w)) * x, 2);
}

BOOST_AUTO_TEST_CASE(kept_axes) {
  const auto x = counting<steps>(shape(3, 2, 2));
  static_assert(std::is_same_v<dims_t<decltype(sum<1, keep_dims>(x))>, dims<dyn<"b">, 1, 2>>);
  static_assert(std::is_same_v<dims_t<decltype(mean<keep_dims>(x))>, dims<1, 1, 1>>);
  check_extents(sum<1, keep_dims>(x), shape(3, 1, 2));
  check_elements(sum<1, keep_dims>(x), {2, 4, 10, 12, 18, 20});
  check_elements(max<0, -1, keep_dims>(x * 2.0f), {18, 22});
  check_extents(max<0, -1, keep_dims>(x), shape(1, 2, 1));
  check_elements(min<keep_dims>(x), {0});
  check_elements(prod<keep_dims, 2>(x), {0, 6, 20, 42, 72, 110});
  check_elements(eval(x - mean<-1, keep_dims>(x)), {-.5, .5, -.5, .5, -.5, .5, -.5, .5, -.5, .5, -.5, .5});
}

BOOST_AUTO_TEST_CASE(axes_of_one) {
  const auto x = counting<dims<dyn<"n">, 3>>(shape(2, 3));
  static_assert(std::is_same_v<dims_t<decltype(expand_dims<0>(x))>, dims<1, dyn<"n">, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(expand_dims<-1>(x))>, dims<dyn<"n">, 3, 1>>);
  static_assert(std::is_same_v<dims_t<decltype(squeeze<-1>(expand_dims<1>(sum<1, keep_dims>(x))))>, dims<dyn<"n">, 1>>);
  static_assert(std::is_same_v<dims_t<decltype(squeeze(sum<keep_dims>(x)))>, dims<>>);
  check_extents(expand_dims<1>(x), shape(2, 1, 3));
  check_extents(expand_dims<-2>(x), shape(2, 1, 3));
  check_extents(expand_dims<2>(x * 2.0f), shape(2, 3, 1));
  check_extents(squeeze(expand_dims<0>(expand_dims<2>(x))), shape(2, 3));
  check_extents(squeeze<0, -1>(expand_dims<0>(expand_dims<2>(x))), shape(2, 3));
  check_elements(squeeze(expand_dims<0>(x)), {0, 1, 2, 3, 4, 5});
  const tensor<float, dims<3>> row = expand_dims<0>(tensor<float>(4)) * tensor<float, dims<3>>{1, 2, 3};
  check_elements(row, {4, 8, 12});
}

BOOST_AUTO_TEST_CASE(derivatives_of_kept_axes) {
  gradient_check check;
  const auto x = check.input<steps>(0.5, 2, shape(2, 3, 2));
  const auto centred = x - mean<-1, keep_dims>(x);
  check("a normalised value", centred * rsqrt(mean<-1, keep_dims>(square(centred)) + 0.1), 2);
  check("all axes", x * sum<keep_dims>(x * x), 2);
  check("a product", x * prod<1, keep_dims>(x), 2);
  check("axes that come and go", squeeze<1>(expand_dims<1>(tanh(x))) * expand_dims<-1>(sum<2>(x)), 2);
}

BOOST_AUTO_TEST_CASE(slices_of_tensors) {
  const auto x = counting<dims<dyn<"n">, 3>>(shape(4, 3));
  static_assert(std::is_same_v<dims_t<decltype(slice<0, 0, -1>(x))>, dims<dyn<"n">, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(slice<1, 1, -1>(x))>, dims<dyn<"n">, 2>>);
  static_assert(std::is_same_v<dims_t<decltype(slice<0, 2>(x, 1))>, dims<2, 3>>);
  check_elements(slice<0, 3, -1>(x), {9, 10, 11});
  check_extents(slice<0, 1, -1>(x), shape(3, 3));
  check_elements(slice<0, dyn<"n"> - extent<1>, 1>(x), {9, 10, 11});
  check_elements(slice<0, 2, dyn<"n"> - extent<3>>(x), {6, 7, 8});
  check_extents(slice<0, dyn<"n">, 0>(x), shape(0, 3));
  check_elements(slice<0, 2>(x * 2.0f, 1), {6, 8, 10, 12, 14, 16});
  check_elements(slice<-1, 1>(x, tensor<std::int32_t>(2)), {2, 5, 8, 11});
  check_elements(slice<0, 1>(tensor<bool, dims<3>>{false, true, false}, 1), {1});
  for (const std::int64_t begin : {-1, 3})
    CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(slice<0, 2>(x, begin)); }),
               "begin must be in [0, 2] for 2 of the 4 elements of axis 0; it is " + std::to_string(begin));
  static_assert(slice_is_out_of_range<dims<dyn<"n">, 3>, 0, dyn<"n">, 1>::value);
  static_assert(slice_is_out_of_range<dims<dyn<"n">, 3>, 0, 2, dyn<"n"> - extent<1>>::value);
  static_assert(!slice_is_out_of_range<dims<dyn<"n">, 3>, 0, 2, dyn<"m">>::value);
}

BOOST_AUTO_TEST_CASE(slices_in_a_step) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">, 3>>(g, "x");
  const auto i = placeholder<std::int32_t>(g, "i");
  const auto y = placeholder<float, dims<dyn<"m">>>(g, "y");
  const auto window = slice<0, 2>(x, i);
  const auto column = slice<1, 1>(x, cast<std::int64_t>(i) * 2);
  const auto last = slice<0, dyn<"n"> - extent<1>, 1>(x);
  const auto as_many = slice<0, dyn<"m">>(x, i);
  const auto behind = slice<0, dyn<"m">, -1>(x);
  session s{g, {.threads = 2}};
  for (const auto& [n, at, m] : {std::tuple(4, 1, 3), std::tuple(2, 0, 0), std::tuple(40, 1, 17)}) {
    const auto a = counting<dims<dyn<"n">, 3>>(shape(n, 3));
    const auto [w, c, l, f, b] = s.run(fetch(window, column, last, as_many, behind), with(x, a),
                                       with(i, tensor<std::int32_t>(at)), with(y, counting<dims<dyn<"m">>>(shape(m))));
    check_extents(f, shape(m, 3));
    check_extents(b, shape(n - m, 3));
    for (int k = 0; k < 3; ++k) {
      BOOST_CHECK_EQUAL(w(0, k), a(at, k));
      BOOST_CHECK_EQUAL(w(1, k), a(at + 1, k));
      BOOST_CHECK_EQUAL(l(0, k), a(n - 1, k));
      for (int r = 0; r < m; ++r) BOOST_CHECK_EQUAL(f(r, k), a(at + r, k));
      for (int r = 0; r < n - m; ++r) BOOST_CHECK_EQUAL(b(r, k), a(m + r, k));
    }
    for (int r = 0; r < n; ++r) BOOST_CHECK_EQUAL(c(r, 0), a(r, 2 * at));
  }
}

BOOST_AUTO_TEST_CASE(slices_out_of_range) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">, 3>>(g, "x");
  const auto i = placeholder<std::int32_t>(g, "i");
  const auto y = placeholder<float, dims<dyn<"m">>>(g, "y");
  const auto window = slice<0, 2>(x, i);
  const auto as_many = slice<0, dyn<"m">>(x, i);
  session s{g, {.threads = 1}};
  const auto out_of_range = [&](const auto& value, int at, int n, int m) {
    return test::failure(error_code::out_of_range, [&] {
      static_cast<void>(s.run(fetch(value), with(x, counting<dims<dyn<"n">, 3>>(shape(n, 3))),
                              with(i, tensor<std::int32_t>(at)), with(y, counting<dims<dyn<"m">>>(shape(m)))));
    });
  };
  CHECK_SAYS(out_of_range(window, 3, 4, 1), "begin must be in [0, 2] for 2 of the 4 elements of axis 0; it is 3");
  CHECK_SAYS(out_of_range(as_many, 2, 4, 3), "begin must be in [0, 1] for 3 of the 4 elements of axis 0; it is 2");
}

BOOST_AUTO_TEST_CASE(derivatives_of_slices) {
  gradient_check check;
  const auto x = check.input<dims<dyn<"n">, 4>>(-1, 1, shape(5, 4));
  const auto i = check.fixed(tensor<std::int32_t>(2));
  check("from a computed row", tanh(slice<0, 2>(x, i)) * slice<0, 2>(x, i + 1), 3);
  check("of columns", slice<1, 2>(x * x, i), 2);
  check("named", slice<0, dyn<"n"> - extent<1>, 1>(x) * slice<0, 1, -1>(x), 2);
}
