// SPDX-License-Identifier: BSL-1.0
#include <cstdlib>
#include <cstring>
#include <memory>

#include <weft/device/cpu/definitions.hpp>
#include <weft/ops/reduce/batch_normalization.hpp>

#include "errors.hpp"
#include "ops/gradient_check.hpp"

using namespace weft;

namespace {

template <class E, class Dims>
constexpr bool has_dims = std::is_same_v<dims_t<E>, Dims>;

using photos = dims<dyn<"batch">, 7, 6, 2>;
using any_photos = dims<dyn<"batch">, dyn<"height">, dyn<"width">, 2>;

template <class T, class D>
tensor<T, D> drawn(const shape& extents, std::uint64_t stream) {
  tensor<T, D> t(extents);
  const random_stream random(3, stream);
  for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = static_cast<T>(2 * random.uniform(i) - 1);
  return t;
}

template <conv2d_options Options, class Images, class Filters>
void check_gradients(const std::string& name, const shape& images = Images::spec, int order = 3) {
  gradient_check check;
  const auto x = check.input<Images>(-2, 2, images);
  check(name, conv2d<Options>(x, check.input<Filters>()), order);
}

}  // namespace

BOOST_AUTO_TEST_CASE(extents_of_results) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 3>>(g);
  const auto w = placeholder<float, dims<5, 3, 3, 16>>(g);
  const auto same = conv2d(x, w);
  static_assert(has_dims<decltype(same), dims<dyn<"batch">, 28, 28, 16>>);
  const auto valid = conv2d<conv2d_options{.pad = padding::valid}>(x, w);
  static_assert(has_dims<decltype(valid), dims<dyn<"batch">, 24, 26, 16>>);
  const auto strided = conv2d<conv2d_options{.stride = {3, 2}}>(x, w);
  static_assert(has_dims<decltype(strided), dims<dyn<"batch">, 10, 14, 16>>);
  const auto dilated = conv2d<conv2d_options{.pad = padding::valid, .dilation = 2}>(x, w);
  static_assert(has_dims<decltype(dilated), dims<dyn<"batch">, 20, 24, 16>>);
  const auto padded = conv2d<conv2d_options{.stride = 2, .pad = padding::of(3)}>(x, w);
  static_assert(has_dims<decltype(padded), dims<dyn<"batch">, 15, 16, 16>>);
  // Images have any height and width, and the result has the same.
  const auto any = placeholder<float, dims<4, dyn<"height">, dyn<"width">, 3>>(g);
  const auto of_any = conv2d(any, w);
  static_assert(has_dims<decltype(of_any), dims<4, dyn<"height">, dyn<"width">, 16>>);
  const auto text = [](const auto& y, std::size_t axis) {
    return std::string(dims_t<std::remove_cvref_t<decltype(y)>>::names[axis]);
  };
  const auto valid_any = conv2d<conv2d_options{.pad = padding::valid}>(any, w);
  BOOST_CHECK_EQUAL(text(valid_any, 1) + ", " + text(valid_any, 2), "height - 4, width - 2");
  const auto strided_any = conv2d<conv2d_options{.stride = {3, 2}}>(any, w);
  BOOST_CHECK_EQUAL(text(strided_any, 1) + ", " + text(strided_any, 2), "ceil(height / 3), ceil(width / 2)");
  const auto valid_strided = conv2d<conv2d_options{.stride = {3, 2}, .pad = padding::valid}>(any, w);
  BOOST_CHECK_EQUAL(text(valid_strided, 1) + ", " + text(valid_strided, 2),
                    "floor((height + 1) / 3) - 1, ceil(width / 2) - 1");
  // Both results have extents of one value, whichever options lead there.
  const auto padded_any = conv2d<conv2d_options{.stride = {3, 2}, .pad = padding::of(2, 2, 1, 1)}>(any, w);
  static_assert(has_dims<decltype(strided_any + padded_any), dims_t<decltype(strided_any)>>);
  const auto twice = conv2d<conv2d_options{.stride = 2}>(conv2d<conv2d_options{.stride = 2}>(any, w),
                                                         placeholder<float, dims<3, 3, 16, 1>>(g));
  BOOST_CHECK_EQUAL(text(twice, 1), "ceil(height / 4)");
  static_assert(Convolvable<dims<1, 5, 5, 3>, dims<5, 5, 3, 8>>);
  static_assert(Convolvable<dims<1, dyn<"height">, 5, 3>, dims<5, 5, 3, 8>, conv2d_options{.pad = padding::valid}>);
  static_assert(!Convolvable<dims<1, dyn<"height">, 4, 3>, dims<5, 5, 3, 8>, conv2d_options{.pad = padding::valid}>);
  static_assert(!Convolvable<dims<1, 5, 5, 3>, dims<dyn<"height">, 5, 3, 8>>);
  static_assert(!Convolvable<dims<1, 5, 5, 3>, dims<5, 5, 4, 8>>);
  static_assert(!Convolvable<dims<1, 4, 5, 3>, dims<5, 5, 3, 8>, conv2d_options{.pad = padding::valid}>);
}

BOOST_AUTO_TEST_CASE(gradients_of_every_stride_and_padding) {
  check_gradients<conv2d_options{}, photos, dims<3, 3, 2, 3>>("same", shape(2, 7, 6, 2));
  check_gradients<conv2d_options{.pad = padding::valid}, photos, dims<3, 2, 2, 3>>("valid", shape(2, 7, 6, 2));
  check_gradients<conv2d_options{.stride = 2}, photos, dims<3, 3, 2, 2>>("stride 2", shape(1, 7, 6, 2));
  check_gradients<conv2d_options{.stride = {3, 2}, .pad = padding::valid}, photos, dims<2, 3, 2, 2>>(
      "stride 3, 2 valid", shape(2, 7, 6, 2), 2);
  check_gradients<conv2d_options{.stride = {1, 2}, .pad = padding::of(2, 0, 1, 3)}, photos, dims<2, 3, 2, 2>>(
      "explicit padding", shape(1, 7, 6, 2), 2);
  check_gradients<conv2d_options{.pad = padding::of(4)}, dims<1, 3, 3, 1>, dims<2, 2, 1, 2>>("padding over the filter");
  check_gradients<conv2d_options{.dilation = 2}, dims<1, 5, 6, 2>, dims<3, 2, 2, 2>>("dilation");
  check_gradients<conv2d_options{.stride = 2, .dilation = {1, 3}}, dims<1, 5, 7, 1>, dims<2, 2, 1, 3>>(
      "stride and dilation");
  check_gradients<conv2d_options{}, dims<2, 4, 4, 3>, dims<1, 1, 3, 2>>("one element");
  check_gradients<conv2d_options{.stride = 3, .pad = padding::valid}, dims<2, 4, 5, 1>, dims<1, 1, 1, 2>>("holes");
  check_gradients<conv2d_options{.pad = padding::valid}, dims<2, 3, 4, 2>, dims<3, 4, 2, 2>>("as large as the image");
}

BOOST_AUTO_TEST_CASE(gradients_of_images_of_any_height_and_width) {
  check_gradients<conv2d_options{.stride = 2}, any_photos, dims<3, 3, 2, 2>>("stride 2", shape(1, 7, 6, 2), 2);
  check_gradients<conv2d_options{.stride = {3, 2}, .pad = padding::valid}, any_photos, dims<2, 3, 2, 2>>(
      "stride 3, 2 valid", shape(2, 7, 6, 2), 2);
  check_gradients<conv2d_options{.stride = {1, 2}, .pad = padding::of(2, 0, 1, 3)}, any_photos, dims<2, 3, 2, 2>>(
      "explicit padding", shape(1, 7, 6, 2), 2);
  check_gradients<conv2d_options{.stride = 2, .dilation = {1, 3}}, any_photos, dims<2, 2, 2, 3>>("stride and dilation",
                                                                                                 shape(1, 5, 7, 2), 2);
}

namespace {

template <class A, class B>
void check_bits(const A& a, const B& b) {
  BOOST_REQUIRE(a.extents() == b.extents());
  BOOST_CHECK_EQUAL(std::memcmp(a.data(), b.data(), a.elements() * sizeof(*a.data())), 0);
}

/// A step of images of any height and width, and what it computes of some: the bits of a graph of these extents.
template <class T, conv2d_options Options>
class any_size {
 public:
  using any = dims<2, dyn<"height">, dyn<"width">, 3>;
  using weights = dims<3, 2, 3, 40>;

  any_size() {
    const auto x = placeholder<T, any>(g_);
    const auto w = placeholder<T, weights>(g_);
    const auto y = let(tanh(conv2d<Options>(x, w)));
    const auto [dx, dw] = gradients(sum(y * y), x, w);
    step_ = std::make_unique<prepared>(s_.prepare(fetch(y, dx, dw), feed(x, w)));
  }

  template <int Height, int Width>
  void check() {
    using D = dims<2, Height, Width, 3>;
    graph g;
    const auto x = placeholder<T, D>(g);
    const auto w = placeholder<T, weights>(g);
    const auto y = let(tanh(conv2d<Options>(x, w)));
    const auto [dx, dw] = gradients(sum(y * y), x, w);
    session s{g, {.threads = 1}};
    const auto images = drawn<T, D>(D::spec, 1);
    const auto filters = drawn<T, weights>(weights::spec, 2);
    const auto of_any = drawn<T, any>(D::spec, 1);
    const auto [expected, expected_x, expected_w] = s.prepare(fetch(y, dx, dw), feed(x, w))(images, filters);
    const auto [found, found_x, found_w] = (*step_)(of_any, filters);
    BOOST_TEST_CONTEXT(Height << " x " << Width) {
      check_bits(found, expected);
      check_bits(found_x, expected_x);
      check_bits(found_w, expected_w);
      check_bits(conv2d<Options>(of_any, filters), conv2d<Options>(images, filters));
    }
  }

 private:
  using y_type = decltype(let(tanh(conv2d<Options>(std::declval<node<T, any>>(), std::declval<node<T, weights>>()))));
  using prepared = decltype(std::declval<session&>().prepare(
      fetch(std::declval<y_type>(), std::declval<node<T, any>>(), std::declval<node<T, weights>>()),
      feed(std::declval<node<T, any>>(), std::declval<node<T, weights>>())));

  graph g_;
  session s_{g_, {.threads = 1}};
  std::unique_ptr<prepared> step_;
};

template <class T, conv2d_options Options>
void check_any_size() {
  any_size<T, Options> check;
  check.template check<7, 6>();
  check.template check<8, 9>();
  check.template check<3, 2>();
  check.template check<7, 6>();
  check.template check<20, 13>();
}

}  // namespace

BOOST_AUTO_TEST_CASE(images_of_any_height_and_width_as_of_fixed_ones) {
  check_any_size<float, conv2d_options{.stride = 2}>();
  check_any_size<float, conv2d_options{.stride = {2, 3}, .pad = padding::valid}>();
  check_any_size<double, conv2d_options{.stride = {3, 1}, .dilation = 2}>();
  check_any_size<float, conv2d_options{.stride = 2, .pad = padding::of(1, 0, 2, 1)}>();
}

BOOST_AUTO_TEST_CASE(images_that_turn_out_smaller_than_the_filter) {
  graph g;
  const auto x = placeholder<float, dims<1, dyn<"height">, dyn<"width">, 1>>(g);
  const auto w = variable<float, dims<3, 3, 1, 1>>(g, "w", init::ones{});
  session s{g};
  auto step = s.prepare(fetch(let(conv2d<conv2d_options{.stride = 2, .pad = padding::valid}>(x, w))), feed(x));
  BOOST_CHECK(step(drawn<float, dims_t<decltype(x)>>(shape(1, 3, 4, 1), 1)).extents() == shape(1, 1, 1, 1));
  for (const shape& small : {shape(1, 2, 4, 1), shape(1, 4, 1, 1)}) {
    const std::string text =
        test::failure(error_code::invalid_argument, [&] { (void)step(drawn<float, dims_t<decltype(x)>>(small, 1)); });
    for (const std::string& part : {std::string("conv2d"), to_string(small)}) CHECK_SAYS(text, part.c_str());
  }
}

BOOST_AUTO_TEST_CASE(gradients_through_what_is_fused) {
  gradient_check check;
  const auto x = check.input<photos>(-2, 2, shape(2, 7, 6, 2));
  const auto w = check.input<dims<3, 3, 2, 3>>();
  const auto b = check.input<dims<3>>();
  check("tanh(conv2d + b)", tanh(conv2d(x, w) + b), 2);
  check("conv2d of expressions", conv2d<conv2d_options{.stride = 2}>(exp(x), w * w), 2);
  check("two after another", conv2d(tanh(conv2d(x, w)), check.input<dims<2, 2, 3, 1>>()), 2);
}

BOOST_AUTO_TEST_CASE(fused_or_not_the_same) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 9, 9, 5>>(g);
  const auto w = variable<float, dims<3, 3, 5, 40>>(g, "w", init::he_normal{});
  const auto b = variable<float, dims<40>>(g, "b", init::normal{});
  const auto y = let(conv2d(x, w));
  const auto fused = let(relu(conv2d<conv2d_options{.pad = padding::of(1)}>(x, w) + b));  // another node than y
  const auto apart = let(relu(y + b));
  for (const int threads : {1, 2}) {
    session s{g, {.threads = threads}};
    auto step = s.prepare(fetch(fused, apart, y), feed(x));
    for (const std::int64_t batch : {1, 2, 7, 33}) {
      const auto images = drawn<float, dims<dyn<"batch">, 9, 9, 5>>(shape(batch, 9, 9, 5), 1);
      const auto result = step(images);
      const auto &one = std::get<0>(result), &other = std::get<1>(result);
      BOOST_CHECK_EQUAL(std::memcmp(one.data(), other.data(), one.elements() * sizeof(float)), 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(relu_and_bias_run_with_the_convolution) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 9, 9, 5>>(g);
  const auto w = variable<float, dims<3, 3, 5, 40>>(g, "w", init::he_normal{});
  const auto b = variable<float, dims<40>>(g, "b", init::normal{});
  const auto y = let(relu(conv2d(x, w) + b));
  const auto train = gradient_descent{}.minimize(mean(square(y)));
  session s{g, {.threads = 1}};
  auto infer = s.prepare(fetch(y), feed(x));
  auto step = s.prepare(fetch(train), feed(x));
  const auto images = drawn<float, dims<dyn<"batch">, 9, 9, 5>>(shape(3, 9, 9, 5), 1);
  (void)infer(images);
  (void)step(images);
  CHECK_SAYS(infer.explain(), ", then map relu(add(a0, a1))");
  CHECK_SAYS(step.explain(), ", then map relu(add(a0, a1))");
}

// The gradients of a convolution look for zeros only where a max pool or a ReLU yields them.
BOOST_AUTO_TEST_CASE(zeros_are_looked_for_where_some_may_arrive) {
  using maps = dims<dyn<"batch">, 14, 14, 32>;
  const auto looks = [](const auto& follow) {
    graph g;
    const auto x = placeholder<float, maps>(g);
    const auto w = variable<float, dims<5, 5, 32, 64>>(g, "w", init::he_normal{});
    const auto b = variable<float, dims<64>>(g, "b");
    const auto y = follow(conv2d(let(x * 1.0f), w), b);
    const auto [dx, dw] = gradients(mean(square(y)), x, w);
    session s{g, {.threads = 1}};
    auto step = s.prepare(fetch(dx, dw), feed(x));
    (void)step(drawn<float, maps>(shape(8, 14, 14, 32), 1));
    const std::string text = step.explain();
    int found = 0;
    for (std::size_t at = 0; (at = text.find("skipping zeros of the incoming gradient", at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  const auto pool = [](const auto& y) { return max_pool2d<2>(y); };
  BOOST_CHECK_EQUAL(looks([&](const auto& y, const auto& b) { return pool(relu(y + b)); }), 2);
  BOOST_CHECK_EQUAL(looks([&](const auto& y, const auto& b) { return relu(pool(y) + b); }), 2);
  BOOST_CHECK_EQUAL(looks([&](const auto& y, const auto& b) { return pool(tanh(y + b)); }), 2);
  BOOST_CHECK_EQUAL(looks([&](const auto& y, const auto& b) { return relu6(y + b); }), 2);
  BOOST_CHECK_EQUAL(
      looks([&](const auto& y, const auto& b) { return relu(reshape<dims<dyn<"batch">, 196, 64>>(y) + b); }), 2);
  BOOST_CHECK_EQUAL(looks([&](const auto& y, const auto& b) { return tanh(y + b); }), 0);
  BOOST_CHECK_EQUAL(looks([&](const auto& y, const auto& b) {
                      const auto normalized = batch_normalization_training(y, let(b + 1.0f), b, {.relu = true});
                      return pool(normalized.result);
                    }),
                    0);
}

BOOST_AUTO_TEST_CASE(tensors_without_a_graph) {
  const auto x = drawn<double, dims<dyn<"batch">, 6, 5, 2>>(shape(3, 6, 5, 2), 1);
  const auto w = drawn<double, dims<3, 2, 2, 4>>(shape(3, 2, 2, 4), 2);
  const tensor<double, dims<dyn<"batch">, 3, 3, 4>> y = conv2d<conv2d_options{.stride = 2}>(x, w);
  std::vector<double> expected(y.elements());
  convolution_naive({3, 6, 5, 2, 3, 2, 4, 3, 3, 2, 2, 1, 1, 0, 1, 0, 1}, x.data(), w.data(), expected.data());
  for (std::size_t i = 0; i < y.elements(); ++i) BOOST_CHECK_SMALL(y.data()[i] - expected[i], 1e-12);
}

BOOST_AUTO_TEST_CASE(extents_that_disagree_at_run_time) {
  const auto x = drawn<float, dims<2, 5, 5, dyn<"channels">>>(shape(2, 5, 5, 3), 1);
  const auto w = drawn<float, dims<3, 3, dyn<"channels">, 4>>(shape(3, 3, 2, 4), 2);
  const std::string text = test::failure(error_code::invalid_argument, [&] { (void)conv2d(x, w); });
  BOOST_CHECK_EQUAL(text.find("conv2d"), 0u);
  for (const char* part : {"[2, 5, 5, 3]", "[3, 3, 2, 4]"}) CHECK_SAYS(text, part);
}

BOOST_AUTO_TEST_CASE(no_images_and_one) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 3>>(g);
  const auto w = variable<float, dims<3, 3, 3, 4>>(g, "w", init::ones{});
  const auto y = let(relu(conv2d(x, w)));
  const auto gradient = gradients(sum(y), w);
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(y, std::get<0>(gradient)), feed(x));
  for (const std::int64_t batch : {0, 1, 0}) {
    const auto result = step(drawn<float, dims<dyn<"batch">, 8, 8, 3>>(shape(batch, 8, 8, 3), 1));
    BOOST_CHECK_EQUAL(std::get<0>(result).extents()[0], batch);
    float most = 0;
    for (std::size_t i = 0; i < std::get<1>(result).elements(); ++i)
      most = std::fmax(most, std::fabs(std::get<1>(result).data()[i]));
    BOOST_CHECK_EQUAL(most > 0, batch > 0);
  }
}

BOOST_AUTO_TEST_CASE(one_thread_or_two_the_same_bits) {
  std::vector<std::vector<float>> trained;
  for (const int threads : {1, 2}) {
    graph g(1);
    const auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g);
    const auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g);
    const auto w1 = variable<float, dims<5, 5, 1, 32>>(g, "w1", init::he_normal{});
    const auto w2 = variable<float, dims<5, 5, 32, 64>>(g, "w2", init::he_normal{});
    const auto w3 = variable<float, dims<64, 10>>(g, "w3", init::he_normal{});
    const auto pooled = max_pool2d<2>(relu(conv2d(max_pool2d<2>(relu(conv2d(x, w1))), w2)));
    const auto logits = matmul(mean<1, 2>(pooled), w3);
    const auto train = momentum{.learning_rate = 0.01}.minimize(mean(softmax_cross_entropy(logits, labels)));
    session s{g, {.threads = threads}};
    auto step = s.prepare(fetch(train), feed(x, labels));
    tensor<std::int32_t, dims<dyn<"batch">>> y(shape(24));
    for (int i = 0; i < 24; ++i) y(i) = i % 10;
    for (std::uint64_t i = 0; i < 3; ++i)
      (void)step(drawn<float, dims<dyn<"batch">, 28, 28, 1>>(shape(24, 28, 28, 1), i), y);
    auto read = s.prepare(fetch(w1, w2), feed());
    const auto weights = read();
    auto& all = trained.emplace_back();
    all.insert(all.end(), std::get<0>(weights).data(), std::get<0>(weights).data() + std::get<0>(weights).elements());
    all.insert(all.end(), std::get<1>(weights).data(), std::get<1>(weights).data() + std::get<1>(weights).elements());
  }
  BOOST_CHECK(std::memcmp(trained[0].data(), trained[1].data(), trained[0].size() * sizeof(float)) == 0);
}
