// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <weft/ops/images/depthwise_conv2d.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;

// Depthwise convolutions against PyTorch (make_image_operation_values.py).

namespace {

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/image_operation_values.txt");
  return all;
}

/// Over tensors at once; in a graph, with extents that are numbers and with those of `Named`, where the gradients are
/// compared too.
template <class X, class W, class Named, class F>
void check(const std::string& name, const char* operand, const char* filters, F f) {
  const auto x = right().tensor<double, X>(operand);
  const auto w = right().tensor<double, W>(filters);
  right().check(name, f(x, w));
  right().check(name, f(cast<float>(x), cast<float>(w)), 1e-5);
  const auto in_graph = [&]<class D>(D) {
    graph g;
    const auto p = placeholder<double, D>(g, "p");
    const auto q = placeholder<double, W>(g, "q");
    const auto y = let(f(p, q));
    const auto [dx, dw] = gradients(sum(square(y + 1)), p, q);
    session s{g, {.threads = 2}};
    right().check(name, s.eval(y, with(p, x), with(q, w)));
    right().check(name + ".x", s.eval(dx, with(p, x), with(q, w)));
    right().check(name + ".w", s.eval(dw, with(p, x), with(q, w)));
  };
  in_graph(X{});
  in_graph(Named{});
}

template <class Filters, class F>
void of_wide(const std::string& filters, const std::string& name, F f) {
  check<dims<2, 4, 5, 6>, Filters, dims<dyn<"batch">, dyn<"height">, dyn<"width">, 6>>(filters + name, "wide",
                                                                                       filters.c_str(), f);
}
template <int Multiplier>
void check_multiplier() {
  using W = dims<3, 2, 6, Multiplier>;
  const std::string filters = "depthwise_" + std::to_string(Multiplier);
  of_wide<W>(filters, "_of_1", [](const auto& x, const auto& w) {
    return depthwise_conv2d<conv2d_options{.pad = padding::of(1)}>(x, w);
  });
  of_wide<W>(filters, "_valid_21", [](const auto& x, const auto& w) {
    return depthwise_conv2d<conv2d_options{.stride = {2, 1}, .pad = padding::valid}>(x, w);
  });
  of_wide<W>(filters, "_dilated", [](const auto& x, const auto& w) {
    return depthwise_conv2d<conv2d_options{.stride = 2, .pad = padding::of(2), .dilation = 2}>(x, w);
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_filter_for_each_channel) { check_multiplier<1>(); }
BOOST_AUTO_TEST_CASE(three_filters_for_each_channel) { check_multiplier<3>(); }

BOOST_AUTO_TEST_CASE(gradients_of_any_order) {
  gradient_check check;
  const auto x = check.input<dims<2, 3, 3, 2>>();
  const auto w = check.input<dims<2, 3, 2, 2>>();
  check("depthwise_conv2d", depthwise_conv2d<conv2d_options{.stride = 2}>(x, w));
}

BOOST_AUTO_TEST_CASE(the_same_bits_with_threads) {
  // Large enough for several chunks, and the pads of an extent that a step knows.
  tensor<float, dims<4, 33, 32, 24>> x;
  tensor<float, dims<3, 3, 24, 1>> w;
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
  for (std::size_t i = 0; i < w.elements(); ++i)
    w.data()[i] = static_cast<float>(static_cast<int>(i * 29 % 31) - 15) / 7;
  graph g;
  const auto p = placeholder<float, dims<dyn<"batch">, dyn<"height">, 32, 24>>(g, "p");
  const auto q = placeholder<float, dims<3, 3, 24, 1>>(g, "q");
  const auto y = let(depthwise_conv2d<conv2d_options{.stride = 2}>(p, q));
  const auto [dx, dw] = gradients(sum(square(y)), p, q);
  session one{g, {.threads = 1}}, four{g, {.threads = 4}};
  BOOST_CHECK(one.eval(y, with(p, x), with(q, w)) == four.eval(y, with(p, x), with(q, w)));
  BOOST_CHECK(one.eval(dx, with(p, x), with(q, w)) == four.eval(dx, with(p, x), with(q, w)));
  BOOST_CHECK(one.eval(dw, with(p, x), with(q, w)) == four.eval(dw, with(p, x), with(q, w)));
  const auto in_step = one.eval(y, with(p, x), with(q, w));
  const auto at_once = depthwise_conv2d<conv2d_options{.stride = 2}>(x, w);
  BOOST_CHECK(in_step.extents() == at_once.extents());
  BOOST_CHECK(std::equal(in_step.begin(), in_step.end(), at_once.begin()));
}

BOOST_AUTO_TEST_CASE(an_empty_batch) {
  const tensor<float, dims<dyn<"n">, 5, 5, 3>> none{shape(0, 5, 5, 3)};
  BOOST_CHECK(depthwise_conv2d(none, tensor<float, dims<3, 3, 3, 2>>()).extents() == shape(0, 5, 5, 6));
}
