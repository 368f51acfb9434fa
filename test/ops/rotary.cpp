// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/products/rotary.hpp>

#include "gradient_check.hpp"
#include "ops/values_of.hpp"
#include "session_on_cpu.hpp"

using namespace weft;

// Rotary positions, against expressions of PyTorch (make_rotary_values.py).

namespace {

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/rotary_values.txt");
  return all;
}
template <class T, class D, class... P>
void check(const std::string& name, const rotary_options& o, const P&... p) {
  using named = dims<dyn<"batch">, dyn<"heads">, dyn<"steps">, D::spec[3]>;
  const double tolerance = sizeof(T) == 8 ? 1e-10 : 2e-4;
  const auto x = made<T, named>(1, D::spec), up = made<T, named>(5, D::spec);
  const auto first = [](const auto& t) {
    tensor<double, dims<dyn<"n">>> some{shape(std::min<std::int64_t>(24, static_cast<std::int64_t>(t.elements())))};
    std::copy_n(t.data(), some.elements(), some.data());
    return some;
  };
  right().check(name, first(rotary(x, o, p...)), tolerance);
  graph g;
  const auto e = placeholder<T, named>(g, "x"), r = placeholder<T, named>(g, "r");
  const auto y = rotary(e, o, p...);
  const auto [dx] = gradients(sum(y * r), e);
  session s{g};
  const auto [value, d] = s.run(fetch(y, dx), with(e, x), with(r, up));
  right().check(name, first(value), tolerance);
  right().check(name + ".dx", first(d), tolerance);
}
template <class D, class... P>
void check_both(const std::string& name, const rotary_options& o, const P&... p) {
  check<double, D>(name, o, p...);
  check<float, D>(name, o, p...);
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_and_gradients) {
  check_both<dims<2, 2, 3, 8>>("halves", {});
  check_both<dims<2, 2, 3, 8>>("pairs", {.interleaved = true});
  const tensor<std::int32_t, dims<dyn<"batch">>> each{shape(2), {7, 1000}};
  check_both<dims<2, 1, 2, 6>>("placed", {.base = 500}, query_position(each));
  check_both<dims<2, 1, 2, 6>>("pairs_placed", {.base = 500, .interleaved = true},
                               query_position(tensor<std::int32_t, dims<>>{-3}));
  check_both<dims<1, 1, 4, 2>>("narrow", {});
}

BOOST_AUTO_TEST_CASE(gradients_of_gradients) {
  gradient_check check;
  const auto x = check.input<dims<1, 2, 3, 4>>();
  check("halves", square(rotary(x)));
  check("pairs", square(rotary(x, {.base = 10, .interleaved = true},
                               query_position(check.fixed(tensor<std::int32_t, dims<1>>{5})))));
}

BOOST_AUTO_TEST_CASE(ends) {
  BOOST_TEST(rotary(tensor<float, dims<2, 1, 0, 4>>()).elements() == 0u);
  const auto x = made<float, dims<1, 1, 2, 4>>(1, shape(1, 1, 2, 4));
  const auto small = eval(cast<float>(rotary(cast<half>(x), query_position(tensor<std::int32_t, dims<>>{2}))));
  const auto whole = rotary(x, query_position(tensor<std::int32_t, dims<>>{2}));
  for (std::size_t i = 0; i < 8; ++i) BOOST_TEST(std::abs(small.data()[i] - whole.data()[i]) < 4e-3f);
}
