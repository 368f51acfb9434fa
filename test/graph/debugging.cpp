// SPDX-License-Identifier: BSL-1.0
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <limits>
#include <string>
#include <weft/graph/debugging.hpp>
#include <weft/ops/assign_slice.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::failure;

namespace {

using rows = dims<dyn<"n">, 2>;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// What a function writes to standard error.
template <class F>
std::string written(const F& f) {
  std::FILE* const file = std::tmpfile();
  std::fflush(stderr);
  const int before = dup(2);
  dup2(fileno(file), 2);
  f();
  std::fflush(stderr);
  dup2(before, 2);
  close(before);
  std::rewind(file);
  std::string text(1 << 12, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_are_checked_in_values_and_gradients) {
  graph g;
  const auto x = placeholder<float, rows>(g, "x");
  const auto y = check_numerics(sqrt(x), "the root");
  const auto [dx] = gradients(y, x);
  session s{g};
  const auto at = [&](float a, float b) { return tensor<float, rows>(shape(1, 2), {a, b}); };
  BOOST_CHECK_EQUAL(s.eval(y, with(x, at(4, 9)))(0, 1), 3.0f);
  BOOST_CHECK_EQUAL(s.eval(dx, with(x, at(4, 1)))(0, 0), 0.25f);
  BOOST_CHECK_EQUAL(s.eval(y, with(x, tensor<float, rows>(shape(0, 2)))).elements(), 0u);
  std::string why = failure(error_code::invalid_argument, [&] { s.eval(y, with(x, at(4, -1))); });
  BOOST_CHECK_MESSAGE(test::contains(why, "the root: NaN at [0, 1]; NaN: 1 of 2 elements, infinite: 0"), why);
  why = failure(error_code::invalid_argument, [&] { s.eval(y, with(x, at(infinity, 0))); });
  BOOST_CHECK_MESSAGE(test::contains(why, "the root: infinity at [0, 0]"), why);
  const auto through = std::get<0>(gradients(sum(check_numerics(x, "x") * (1.0f / x)), x));
  why = failure(error_code::invalid_argument, [&] { s.eval(through, with(x, at(0, 1))); });
  BOOST_CHECK_MESSAGE(test::contains(why, "x: infinity at [0, 0]"), why);
}

BOOST_AUTO_TEST_CASE(narrow_and_wide_numbers_are_checked) {
  graph g;
  session s{g};
  const auto d = placeholder<double, dims<2>>(g, "d");
  const auto h = placeholder<half, dims<2>>(g, "h");
  const auto b = placeholder<bfloat16, dims<2>>(g, "b");
  const auto checked_d = check_numerics(d, "d");
  const auto checked_h = check_numerics(h, "h");
  const auto checked_b = check_numerics(b, "b");
  const double most = std::numeric_limits<double>::max(), nan = std::numeric_limits<double>::quiet_NaN();
  BOOST_CHECK_EQUAL(s.eval(checked_d, with(d, tensor<double, dims<2>>{most, -most}))(0), most);
  BOOST_CHECK_EQUAL(float(s.eval(checked_h, with(h, tensor<half, dims<2>>{half(65504.0f), half(1.0f)}))(0)), 65504.0f);
  BOOST_CHECK_EQUAL(float(s.eval(checked_b, with(b, tensor<bfloat16, dims<2>>{bfloat16(3e38f), bfloat16(1.0f)}))(1)),
                    1);
  std::string why =
      failure(error_code::invalid_argument, [&] { s.eval(checked_d, with(d, tensor<double, dims<2>>{1, nan})); });
  BOOST_CHECK_MESSAGE(test::contains(why, "d: NaN at [1]"), why);
  why = failure(error_code::invalid_argument,
                [&] { s.eval(checked_h, with(h, tensor<half, dims<2>>{half(-infinity), half(1.0f)})); });
  BOOST_CHECK_MESSAGE(test::contains(why, "h: -infinity at [0]"), why);
  why = failure(error_code::invalid_argument,
                [&] { s.eval(checked_b, with(b, tensor<bfloat16, dims<2>>{bfloat16(1.0f), bfloat16(infinity)})); });
  BOOST_CHECK_MESSAGE(test::contains(why, "b: infinity at [1]"), why);
}

BOOST_AUTO_TEST_CASE(conditions_hold_before_what_follows) {
  graph g;
  const auto x = placeholder<float, rows>(g, "x");
  const auto positive = assert_that(x > 0.0f, "x must be positive", x, sum(x));
  const auto root = [&] {
    const control_dependencies after(g, positive);
    return let(sqrt(x));
  }();
  const auto scalar = assert_that(sum(x) < 100.0f, "the sum is too large");
  session s{g};
  const tensor<float, rows> good(shape(1, 2), {4, 9}), bad(shape(2, 2), {4, 9, 100, -1});
  s.run(fetch(positive, scalar), with(x, good));
  BOOST_CHECK_EQUAL(s.eval(root, with(x, good))(0, 0), 2.0f);
  for (const bool alone : {false, true}) {
    const std::string why = failure(error_code::invalid_argument, [&] {
      if (alone)
        s.run(fetch(positive), with(x, bad));
      else
        s.eval(root, with(x, bad));
    });
    BOOST_CHECK_MESSAGE(test::contains(why, "x must be positive: false at [1, 1]; values [[  4.   9.]"), why);
    BOOST_CHECK_MESSAGE(test::contains(why, "112."), why);
  }
  const std::string why = failure(error_code::invalid_argument, [&] { s.run(fetch(scalar), with(x, bad)); });
  BOOST_CHECK_MESSAGE(test::contains(why, "the sum is too large: false"), why);
}

BOOST_AUTO_TEST_CASE(values_are_printed_in_the_order_of_the_calls) {
  graph g;
  const auto x = placeholder<float, rows>(g, "x");
  const auto y = print_through(x * 2.0f, "y");
  const auto first = print_values("first", sum(x), tensor<int, dims<2>>{1, 2});
  const auto second = print_values("second", x);
  const auto dx = std::get<0>(gradients(y * y, x));
  session s{g};
  const tensor<float, rows> in(shape(1, 2), {1, 2});
  BOOST_CHECK_EQUAL(written([&] { s.run(fetch(second, first), with(x, in)); }), "first 3. [1 2]\nsecond [[1. 2.]]\n");
  BOOST_CHECK_EQUAL(written([&] { BOOST_CHECK_EQUAL(s.eval(y, with(x, in))(0, 1), 4.0f); }), "y [[2. 4.]]\n");
  BOOST_CHECK_EQUAL(written([&] { BOOST_CHECK_EQUAL(s.eval(dx, with(x, in))(0, 1), 16.0f); }), "y [[2. 4.]]\n");
}

BOOST_AUTO_TEST_CASE(slices_of_variables_are_assigned) {
  graph g;
  const auto cache = variable<float, dims<2, 4, 2>>(g, "cache", init::zeros{});
  const auto at = placeholder<std::int32_t>(g, "at");
  const auto keys = placeholder<float, dims<2, 1, 2>>(g, "keys");
  const auto put = assign_slice<1>(cache, at, keys);
  const auto last = assign_slice<-1>(cache, 1, expand_dims<-1>(sum<2>(cache)));
  session s{g};
  const tensor<float, dims<2, 1, 2>> in{1, 2, 3, 4};
  const auto [before, after] = s.run(fetch(cache, put), with(at, 2), with(keys, in));
  BOOST_CHECK_EQUAL(float(sum(before)), 0.0f);  // a step reads the values from before
  BOOST_CHECK_EQUAL(after(0, 2, 1), 2.0f);
  BOOST_CHECK_EQUAL(after(1, 2, 0), 3.0f);
  BOOST_CHECK_EQUAL(float(sum(s.get(cache))), 10.0f);
  const auto summed = s.eval(last);
  BOOST_CHECK_EQUAL(summed(1, 2, 1), 7.0f);
  BOOST_CHECK_EQUAL(summed(1, 2, 0), 3.0f);
  for (const int wrong : {-1, 4}) {
    const std::string why = failure(error_code::out_of_range, [&] { s.eval(put, with(at, wrong), with(keys, in)); });
    BOOST_CHECK_MESSAGE(test::contains(why, "begin must be in [0, 3] for 1 of the 4 elements of axis 1"), why);
  }
  // One index for each row of axis 0.
  const auto places = placeholder<std::int32_t, dims<2>>(g, "places");
  const auto put_each = assign_slice<1>(cache, places, keys);
  s.set(cache, tensor<float, dims<2, 4, 2>>{});
  const auto each = s.eval(put_each, with(places, tensor<std::int32_t, dims<2>>{3, 0}), with(keys, in));
  BOOST_CHECK_EQUAL(each(0, 3, 1), 2.0f);
  BOOST_CHECK_EQUAL(each(1, 0, 0), 3.0f);
  BOOST_CHECK_EQUAL(float(sum(each)), 10.0f);
  failure(error_code::out_of_range,
          [&] { s.eval(put_each, with(places, tensor<std::int32_t, dims<2>>{1, 4}), with(keys, in)); });
  BOOST_CHECK_EQUAL(s.get(cache)(0, 1, 1), 0.0f);  // the first row has not been written
  const auto steps = variable<int>(g, "steps", 7);
  BOOST_CHECK_EQUAL(int(s.eval(assign_sub(steps, 3))), 4);
  const auto w = variable<float, dims<2>>(g, "w", init::ones{});
  BOOST_CHECK_EQUAL(s.eval(assign_sub(w, w * 0.25f))(1), 0.75f);
}
