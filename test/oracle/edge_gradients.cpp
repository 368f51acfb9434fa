// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>
#include <weft/ops/arrays/reverse.hpp>
#include <weft/train/clipping.hpp>
#include <weft/weft.hpp>

#include "functions.hpp"

using namespace weft;

// Gradients where a derivative is infinite or undefined, against TensorFlow; see make_edge_gradient_values.py. A zero
// upstream gradient is among those of every row.

namespace {

using row = std::vector<double>;
using vector = dims<dyn<"n">>;

/// The numbers of the lines of one kind, element type and function.
std::vector<row> read(const std::string& kind, const char* type, const std::string& name) {
  std::ifstream in(TEST_DATA "/oracle/edge_gradient_values.txt");
  std::vector<row> rows;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word != kind || !(words >> word) || word != type || !(words >> word) || word != name)
      continue;
    rows.emplace_back();
    while (words >> word)
      if (word != ":") rows.back().push_back(std::stod(word));
  }
  BOOST_REQUIRE_MESSAGE(!rows.empty(), "no line of " << kind << " " << type << " " << name);
  return rows;
}

template <class T>
tensor<T, vector> column(const std::vector<row>& rows, std::size_t index) {
  tensor<T, vector> t{shape(rows.size())};
  for (std::size_t i = 0; i < rows.size(); ++i) t.data()[i] = static_cast<T>(rows[i][index]);
  return t;
}

template <class T>
constexpr const char* name_of_type = std::is_same_v<T, float> ? "float32" : "float64";

template <class T>
bool agree(double found, double expected) {
  if (!std::isfinite(expected)) return found == expected || (std::isnan(found) && std::isnan(expected));
  return std::abs(found - expected) <=
         16 * double(std::numeric_limits<T>::epsilon()) * std::max(1.0, std::abs(expected));
}

template <class T>
void check(const char* what, const std::string& name, const row& line, double found, double expected) {
  std::string of;
  for (const double x : line) of += " " + std::to_string(x);
  BOOST_CHECK_MESSAGE(agree<T>(found, expected), what << name << " in " << name_of_type<T> << " is " << found
                                                      << ", not " << expected << ":" << of);
}

/// f(x) * g, its gradient, and the gradients of that.
template <class T, class F>
void unary(F) {
  const std::string name = F::name;
  const auto rows = read("one", name_of_type<T>, name);
  graph g;
  const auto x = placeholder<T, vector>(g, "x"), upstream = placeholder<T, vector>(g, "g"),
             above = placeholder<T, vector>(g, "v");
  const auto [first] = gradients(sum(elementwise<F>(x) * upstream), x);
  const auto [second_g, second_x] = gradients(sum(first * above), upstream, x);
  session s{g, {.threads = 1}};
  const auto [d, dg, dx] = s.run(fetch(first, second_g, second_x), with(x, column<T>(rows, 0)),
                                 with(upstream, column<T>(rows, 1)), with(above, column<T>(rows, 2)));
  // TensorFlow's own kernels of these gradients are differentiated without a look at zeros: NaN, where Weft has 0.
  const bool root = name == "sqrt" || name == "rsqrt";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const row& r = rows[i];
    check<T>("the gradient of ", name, r, d.data()[i], r[3]);
    if (root && r[1] == 0) BOOST_CHECK_MESSAGE(!std::signbit(d.data()[i]), "the gradient of " << name << " is -0");
    check<T>("the gradient by g of that of ", name, r, dg.data()[i], root && r[2] == 0 ? 0 : r[4]);
    check<T>("the gradient by x of that of ", name, r, dx.data()[i], root && (r[1] == 0 || r[2] == 0) ? 0 : r[5]);
  }
}

template <class T, class F>
void binary(F) {
  const std::string name = F::name;
  const auto rows = read("two", name_of_type<T>, name);
  graph g;
  const auto a = placeholder<T, vector>(g, "a"), b = placeholder<T, vector>(g, "b"),
             upstream = placeholder<T, vector>(g, "g");
  const auto [of_a, of_b] = gradients(sum(elementwise<F>(a, b) * upstream), a, b);
  session s{g, {.threads = 1}};
  const auto [da, db] = s.run(fetch(of_a, of_b), with(a, column<T>(rows, 0)), with(b, column<T>(rows, 1)),
                              with(upstream, column<T>(rows, 2)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // x^0 is constant, for PyTorch and for Weft: NaN in TensorFlow where x^-1 is no finite number.
    const bool constant = name == "pow" && rows[i][1] == 0;
    check<T>("the gradient by a of ", name, rows[i], da.data()[i], constant ? 0 : rows[i][3]);
    // Not of a positive number, it does not depend on b; TensorFlow multiplies the power by 0, infinite and NaN ones
    // too.
    const bool real = name == "pow" && !(rows[i][0] > 0);
    check<T>("the gradient by b of ", name, rows[i], db.data()[i], real ? 0 : rows[i][4]);
  }
}

template <class T, class F>
void composed(const char* name, F f) {
  const auto line = read("composed", name_of_type<T>, name)[0];
  graph g;
  const auto x = placeholder<T, dims<3>>(g, "x");
  const auto [d] = gradients(f(x), x);
  session s{g, {.threads = 1}};
  tensor<T, dims<3>> at;
  for (std::size_t i = 0; i < 3; ++i) at.data()[i] = static_cast<T>(line[i]);
  const auto found = s.eval(d, with(x, at));
  for (std::size_t i = 0; i < 3; ++i) check<T>("the gradient of ", name, line, found.data()[i], line[3 + i]);
}

template <class T>
void all_composed() {
  composed<T>("max", [](auto x) { return sum(max(sqrt(x), T(1))); });
  composed<T>("select_sqrt", [](auto x) { return sum(select(x > T(0), sqrt(x), T(0))); });
  composed<T>("select_rsqrt", [](auto x) { return sum(select(x > T(0), rsqrt(x), T(0))); });
  composed<T>("select_log", [](auto x) { return sum(select(x > T(0), log(x), T(0))); });
  composed<T>("select_log1p", [](auto x) { return sum(select(x > T(-1), log1p(x), T(0))); });
  composed<T>("select_quotient", [](auto x) { return sum(select(x != T(0), 1 / x, T(0))); });
  composed<T>("select_root", [](auto x) { return sum(select(x > T(0), pow(x, T(0.5)), T(0))); });
  composed<T>("slice", [](auto x) { return sum(slice<0, 1, 2>(let(sqrt(x)))); });
  composed<T>("slice_rsqrt", [](auto x) { return sum(slice<0, 1, 2>(let(rsqrt(x)))); });
  composed<T>("factor", [](auto x) { return sum(sqrt(x) * tensor<T, dims<3>>{0, 1, 1}); });
  composed<T>("factor_of_sum", [](auto x) { return T(0) * sum(sqrt(x)); });
  composed<T>("mean", [](auto x) { return mean(max(sqrt(x), T(1)) + x); });
  composed<T>("clip_by_norm", [](auto x) { return sum(clip_by_norm(x, T(1))); });
  composed<T>("clipped_norm", [](auto x) { return sum(x / max(sqrt(sum(x * x)), T(1))); });
  composed<T>("norm", [](auto x) { return sqrt(sum(x * x)); });
  composed<T>("distance", [](auto x) { return sum(max(sqrt(square(x - reverse<0>(x))) - T(1), T(0))); });
  composed<T>("prod", [](auto x) { return prod(sqrt(x)); });
  composed<T>("residual", [](auto x) { return sum(square(sqrt(x) - T(1))); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(functions_of_one_operand) {
  functions::each_of_the_list([]<class F>(F f, const functions::row&) {
    unary<float>(f);
    unary<double>(f);
  });
}

BOOST_AUTO_TEST_CASE(functions_of_two_operands) {
  const auto both = [](auto f) {
    binary<float>(f);
    binary<double>(f);
  };
  both(formula::multiply());
  both(formula::divide());
  both(formula::pow());
  both(formula::maximum());
  both(formula::minimum());
}

BOOST_AUTO_TEST_CASE(edges_that_the_loss_does_not_see) {
  all_composed<float>();
  all_composed<double>();
}

// A step through the norm of a row of zeros leaves finite weights.
BOOST_AUTO_TEST_CASE(training_survives_a_row_of_zeros) {
  graph g;
  const auto w = variable<float, dims<2, 2>>(g, "w", tensor<float, dims<2, 2>>{0, 0, 0, 0});
  const auto train = gradient_descent{.learning_rate = 0.5f}.minimize(sum(square(clip_by_norm(w, 1.f) - 1.f)));
  session s{g, {.threads = 1}};
  for (int i = 0; i < 3; ++i) s.run(fetch(train));
  for (const float x : s.eval(w)) BOOST_CHECK(std::isfinite(x));
}
