// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <vector>
#include <weft/weft.hpp>

#include "compare.hpp"
#include "image_values_pytorch.hpp"
#include "image_values_tensorflow.hpp"

using namespace weft;

// Convolutions and pools in float against PyTorch and TensorFlow in double; see make_image_values.py.

namespace {

using oracle::as_tensor;
using oracle::numbers;
using oracle::weight_of;
using photos = dims<2, 6, 5, 3>;

template <class Found>
void compare(const std::string& what, const Found& found, const numbers& expected) {
  oracle::compare(what, found, expected, 1e-5);
}

template <class A, class B>
void check_bits(const A& a, const B& b) {
  BOOST_REQUIRE(a.extents() == b.extents());
  BOOST_CHECK_EQUAL(std::memcmp(a.data(), b.data(), a.elements() * sizeof(*a.data())), 0);
}

/// The same elements, in a tensor of dims that leave extents open.
template <class D, class Tensor>
auto opened(const Tensor& x) {
  tensor<float, D> t(x.extents());
  std::memcpy(t.data(), x.data(), x.elements() * sizeof(float));
  return t;
}

using any_photos = dims<2, dyn<"height">, dyn<"width">, 3>;

/// The value of f(x, w), and the gradients of sum(value * weight).
template <class F>
void convolution(const std::string& name, F f, const numbers& value, const numbers& d_x, const numbers& d_w) {
  graph g;
  const auto x = variable<float, photos>(g, "x", as_tensor<photos>(oracle::pytorch::images));
  const auto w = variable<float, dims<3, 3, 3, 4>>(g, "w", as_tensor<dims<3, 3, 3, 4>>(oracle::pytorch::filters));
  const auto y = let(f(x, w));
  const auto [dx, dw] = gradients(sum(y * weight_of(y)), x, w);
  session s{g};
  const auto [found, found_x, found_w] = s.prepare(fetch(y, dx, dw), feed())();
  compare(name, found, value);
  compare(name + ", images", found_x, d_x);
  compare(name + ", filters", found_w, d_w);
  // Images whose height and width are known when the step runs.
  const auto any = placeholder<float, any_photos>(g);
  const auto z = let(f(any, w));
  const auto weight = placeholder<float, dims_t<decltype(z)>>(g);
  const auto [dz, dw_of_any] = gradients(sum(z * weight), any, w);
  const auto [any_value, any_x, any_w] = s.prepare(fetch(z, dz, dw_of_any), feed(any, weight))(
      opened<any_photos>(as_tensor<photos>(oracle::pytorch::images)), opened<dims_t<decltype(z)>>(weight_of(y)));
  check_bits(any_value, found);
  check_bits(any_x, found_x);
  check_bits(any_w, found_w);
}

template <class F>
void pool(const std::string& name, F f, const numbers& images, const numbers& value, const numbers& d_x) {
  graph g;
  const auto x = variable<float, photos>(g, "x", as_tensor<photos>(images));
  const auto y = let(f(x));
  const auto [dx] = gradients(sum(y * weight_of(y)), x);
  session s{g};
  const auto [found, found_x] = s.prepare(fetch(y, dx), feed())();
  compare(name, found, value);
  compare(name + ", images", found_x, d_x);
  const auto any = placeholder<float, any_photos>(g);
  const auto z = let(f(any));
  const auto weight = placeholder<float, dims_t<decltype(z)>>(g);
  const auto [dz] = gradients(sum(z * weight), any);
  const auto [any_value, any_x] = s.prepare(fetch(z, dz), feed(any, weight))(
      opened<any_photos>(as_tensor<photos>(images)), opened<dims_t<decltype(z)>>(weight_of(y)));
  check_bits(any_value, found);
  check_bits(any_x, found_x);
}

template <conv2d_options Options>
constexpr auto convolved = [](const auto& x, const auto& w) { return conv2d<Options>(x, w); };

}  // namespace

BOOST_AUTO_TEST_CASE(of_pytorch) {
  using namespace oracle::pytorch;
  convolution("same", convolved<conv2d_options{}>, same_value, same_d_x, same_d_w);
  convolution("valid, stride 2", convolved<conv2d_options{.stride = 2, .pad = padding::valid}>, valid_2_value,
              valid_2_d_x, valid_2_d_w);
  convolution("padding 1, stride 2, 1", convolved<conv2d_options{.stride = {2, 1}, .pad = padding::of(1)}>,
              of_1_stride_2_1_value, of_1_stride_2_1_d_x, of_1_stride_2_1_d_w);
  convolution("dilated", convolved<conv2d_options{.pad = padding::of(2), .dilation = 2}>, dilated_value, dilated_d_x,
              dilated_d_w);
  pool(
      "max 2", [](const auto& x) { return max_pool2d<2>(x); }, images, max_2_value, max_2_d_x);
  pool(
      "max 3", [](const auto& x) { return max_pool2d<3, 2, padding::of(1)>(x); }, images, max_3_2_of_1_value,
      max_3_2_of_1_d_x);
  pool(
      "max of few", [](const auto& x) { return max_pool2d<3, 2, padding::of(1)>(x); }, few, max_of_few_value,
      max_of_few_d_x);
  pool(
      "average 2", [](const auto& x) { return avg_pool2d<2>(x); }, images, average_2_value, average_2_d_x);
  pool(
      "average 3", [](const auto& x) { return avg_pool2d<3, 2, padding::of(1)>(x); }, images,
      average_3_2_of_1_value, average_3_2_of_1_d_x);
}

BOOST_AUTO_TEST_CASE(of_tensorflow) {
  using namespace oracle::tensorflow;
  BOOST_REQUIRE(images == oracle::pytorch::images && filters == oracle::pytorch::filters);
  convolution("same", convolved<conv2d_options{}>, same_value, same_d_x, same_d_w);
  convolution("same, stride 2", convolved<conv2d_options{.stride = 2}>, same_2_value, same_2_d_x, same_2_d_w);
  convolution("same, stride 3, 2", convolved<conv2d_options{.stride = {3, 2}}>, same_3_2_value, same_3_2_d_x,
              same_3_2_d_w);
  convolution("valid, stride 2", convolved<conv2d_options{.stride = 2, .pad = padding::valid}>, valid_2_value,
              valid_2_d_x, valid_2_d_w);
  convolution("explicit padding", convolved<conv2d_options{.stride = 2, .pad = padding::of(1, 2, 0, 1)}>,
              of_1_2_0_1_value, of_1_2_0_1_d_x, of_1_2_0_1_d_w);
  pool(
      "max 2", [](const auto& x) { return max_pool2d<2>(x); }, images, max_2_value, max_2_d_x);
  pool(
      "max 3 same", [](const auto& x) { return max_pool2d<3, 2, padding::same>(x); }, images, max_3_2_same_value,
      max_3_2_same_d_x);
  pool(
      "max of few", [](const auto& x) { return max_pool2d<3, 2, padding::same>(x); }, few, max_of_few_value,
      max_of_few_d_x);
  pool(
      "average 3 same", [](const auto& x) { return avg_pool2d<3, 2, padding::same>(x); }, images,
      average_3_2_same_value, average_3_2_same_d_x);
}
