#include <cstdlib>
#include <cstring>

#include "errors.hpp"
#include "ops/gradient_check.hpp"

using namespace weft;

namespace {

template <class E, class Dims>
constexpr bool has_dims = std::is_same_v<dims_t<E>, Dims>;

using photos = dims<dyn<"batch">, 7, 6, 2>;

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
  // Of any height and width, where the result has the same.
  const auto any = placeholder<float, dims<4, dyn<"height">, dyn<"width">, 3>>(g);
  const auto of_any = conv2d(any, w);
  static_assert(has_dims<decltype(of_any), dims<4, dyn<"height">, dyn<"width">, 16>>);
  static_assert(Convolvable<dims<1, 5, 5, 3>, dims<5, 5, 3, 8>>);
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
