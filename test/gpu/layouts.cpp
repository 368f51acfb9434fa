// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#if defined(WEFT_GPU_EMULATION)
  #include "emulated.hpp"
#endif
#include <weft/device/gpu/math_policy.hpp>
#include <weft/ops/gpu/all.hpp>
#include <weft/ops/gpu/convolution.hpp>
#include <weft/ops/gpu/matmul.hpp>
#include <weft/ops/gpu/pooling.hpp>
#include <weft/session/gpu_session.hpp>
#include <weft/weft.hpp>

#include "session_on_cpu.hpp"

// Steps whose images lie channels first on the GPU, against the same steps with channels last.

using namespace weft;

namespace {

#if defined(WEFT_GPU_EMULATION)
/// An emulated GPU, which notices who writes where nobody should.
struct some_gpu {
  gpu::emulated_platform gpus;
  ~some_gpu() { BOOST_CHECK(gpus.device(0).mistakes().empty()); }
};
#else
struct some_gpu {};
#endif

/// While it lives.
struct with_layouts {
  explicit with_layouts(gpu::layout_policy l) { gpu::math.layouts = l; }
  ~with_layouts() { gpu::math.layouts = gpu::layout_policy::automatic; }
};

const session_options on_gpu{.threads = 1, .device = weft::cuda{0}};

template <class D>
tensor<float, D> waves(float frequency, float phase = 0) {
  tensor<float, D> t;
  for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = std::sin(frequency * static_cast<float>(i) + phase);
  return t;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

template <class A, class B>
void check_close(const A& a, const B& b, double tolerance = 2e-5) {
  BOOST_REQUIRE_EQUAL(a.elements(), b.elements());
  double most = 0;
  for (std::size_t i = 0; i < a.elements(); ++i)
    most = std::max(most, std::abs(double(a.data()[i]) - double(b.data()[i])));
  BOOST_CHECK_SMALL(most, tolerance);
}

/// Convolutions with all that comes between them: biases, activations, a scale of each channel, both pools, a sum of
/// two branches; then a dense layer.
struct network {
  using images = dims<3, 8, 6, 2>;
  graph g;
  node<float, images> x = placeholder<float, images>(g, "x");
  variable_node<float, dims<3, 3, 2, 4>> w1 = variable<float, dims<3, 3, 2, 4>>(g, "w1", init::normal{.stddev = 0.4});
  variable_node<float, dims<4>> b1 = variable<float, dims<4>>(g, "b1", init::zeros{});
  variable_node<float, dims<4>> scale = variable<float, dims<4>>(g, "scale", init::ones{});
  variable_node<float, dims<3, 3, 4, 4>> w2 = variable<float, dims<3, 3, 4, 4>>(g, "w2", init::normal{.stddev = 0.3});
  variable_node<float, dims<4>> b2 = variable<float, dims<4>>(g, "b2", init::zeros{});
  variable_node<float, dims<2, 1, 4, 5>> w3 = variable<float, dims<2, 1, 4, 5>>(g, "w3", init::normal{.stddev = 0.5});
  variable_node<float, dims<45, 3>> dense = variable<float, dims<45, 3>>(g, "dense", init::normal{.stddev = 0.2});
  node<float, dims<3, 8, 6, 4>> first = let(tanh(conv2d(x, w1) + b1) * scale);
  node<float, dims<3, 8, 6, 4>> second = let(relu(conv2d(first, w2) + b2) + first);
  node<float, dims<3, 4, 3, 4>> pooled = let(max_pool2d<2>(second));
  node<float, dims<3, 3, 3, 5>> third = let(avg_pool2d<size2d{2, 1}, size2d{1, 1}>(conv2d(pooled, w3)));
  node<float, dims<3, 3>> out = let(matmul(reshape<dims<3, 45>>(third), dense));
  node<float, dims<>> loss = mean(square(out - 0.3f));
  effect train = momentum{.learning_rate = 0.05, .momentum = 0.9}.minimize(loss);
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_is_worth_its_copies) {
  // x -> k0 -> a -> k1 -> b, which others read; c is k2's alone.
  const auto choose = [](double gain0, double gain1, double copy) {
    plan::layout_choice choice(4);
    const std::uint32_t k0 = choice.add_kernel(gain0), k1 = choice.add_kernel(gain1), k2 = choice.add_kernel(1);
    choice.uses(k0, 0), choice.uses(k0, 1), choice.uses(k1, 1), choice.uses(k1, 2), choice.uses(k2, 3);
    choice.used_elsewhere(0, copy), choice.used_elsewhere(2, copy), choice.used_elsewhere(2, copy);
    const sequence<bool> first = choice.channels_first();
    BOOST_TEST(first[k0] == first[k1]);
    BOOST_TEST(first[k2]);
    return first[k0];
  };
  BOOST_TEST(choose(3, 0, 1));
  BOOST_TEST(choose(3, -0.5, 1));
  BOOST_TEST(!choose(3, -1.5, 1));
  BOOST_TEST(!choose(1, 0.5, 1));
  BOOST_TEST(!choose(0, 0, 0));
  plan::layout_choice without_images(1);
  const std::uint32_t k = without_images.add_kernel(5);
  BOOST_TEST(!without_images.channels_first()[k]);
}

BOOST_AUTO_TEST_CASE(training_is_the_same_in_either_layout) {
  [[maybe_unused]] const some_gpu here;
  network m;
  const auto x = waves<network::images>(0.7f);
  const auto train = [&](gpu::layout_policy l, session& s) {
    const with_layouts policy(l);
    auto step = s.prepare(fetch(m.second, m.pooled, m.train), feed(m.x));
    step(x), step(x), step(x);
    auto [second, pooled, trained] = step(x);
    return std::tuple(second, pooled, step.explain());
  };
  session s{m.g, on_gpu}, t{m.g, on_gpu};
  const auto [first_second, first_pooled, first_text] = train(gpu::layout_policy::channels_first, s);
  const auto [last_second, last_pooled, last_text] = train(gpu::layout_policy::channels_last, t);
  check_close(first_second, last_second);
  check_close(first_pooled, last_pooled);
  const auto compare = [&](const auto& v) { check_close(s.run(fetch(v)), t.run(fetch(v))); };
  compare(m.w1), compare(m.b1), compare(m.scale), compare(m.w2), compare(m.b2), compare(m.w3), compare(m.dense);
  BOOST_TEST(count(last_text, "channels first") == 0u);
  // Each of what comes from outside and goes there is copied once: x, two fetched values, what the dense layer reads,
  // and its gradient.
  BOOST_TEST(count(first_text, "to channels first") == 2u);
  BOOST_TEST(count(first_text, "to channels last") == 3u);
}

BOOST_AUTO_TEST_CASE(images_of_any_height_and_width_train_as_on_the_cpu) {
  [[maybe_unused]] const some_gpu here;
  using images = dims<2, dyn<"height">, dyn<"width">, 3>;
  for (const gpu::layout_policy layout : {gpu::layout_policy::channels_first, gpu::layout_policy::channels_last}) {
    const with_layouts policy(layout);
    graph g;
    auto x = placeholder<float, images>(g, "x");
    auto w1 = variable<float, dims<3, 3, 3, 4>>(g, "w1", init::normal{.stddev = 0.3});
    auto w2 = variable<float, dims<2, 3, 4, 5>>(g, "w2", init::normal{.stddev = 0.3});
    auto first = let(tanh(conv2d<conv2d_options{.stride = 2}>(x, w1)));
    auto second = let(conv2d<conv2d_options{.stride = {1, 2}, .pad = padding::valid}>(first, w2));
    auto pooled = let(avg_pool2d<2, 2, padding::same>(max_pool2d<2, 1>(second)));
    auto loss = let(mean(square(pooled)));
    auto dx = std::get<0>(gradients(loss, x));
    auto train = gradient_descent{.learning_rate = 0.1}.minimize(loss);
    session s{g, on_gpu};
    session_on_cpu host{g, {.threads = 1}};
    auto step = s.prepare(fetch(pooled, dx, train), feed(x));
    auto same = host.prepare(fetch(pooled, dx, train), feed(x));
    for (const shape& size : {shape(2, 8, 9, 3), shape(2, 13, 10, 3), shape(2, 8, 9, 3), shape(2, 5, 10, 3)}) {
      tensor<float, images> batch(size);
      for (std::size_t i = 0; i < batch.elements(); ++i) batch.data()[i] = std::sin(0.7f * static_cast<float>(i));
      const auto [found, found_dx, trained] = step(batch);
      const auto [expected, expected_dx, trained_too] = same(batch);
      BOOST_TEST((found.extents() == expected.extents()));
      BOOST_TEST_CONTEXT("images of " << to_string(size)
                                      << (layout == gpu::layout_policy::channels_first ? ", channels first" : "")) {
        check_close(found, expected);
        check_close(found_dx, expected_dx);
      }
    }
    check_close(s.run(fetch(w1)), host.run(fetch(w1)));
    check_close(s.run(fetch(w2)), host.run(fetch(w2)));
  }
}

#if defined(WEFT_GPU_EMULATION)
BOOST_AUTO_TEST_CASE(the_planner_takes_channels_last_where_nothing_is_gained) {
  [[maybe_unused]] const some_gpu here;
  network m;
  session s{m.g, on_gpu};
  auto step = s.prepare(fetch(m.loss), feed(m.x));
  step(waves<network::images>(0.7f));
  BOOST_TEST(count(step.explain(), "channels first") == 0u);
}
#endif

BOOST_AUTO_TEST_CASE(images_in_variables_on_other_devices_and_under_other_extents_lie_channels_last) {
  [[maybe_unused]] const some_gpu here;
  const with_layouts policy(gpu::layout_policy::channels_first);
  graph g;
  auto x = placeholder<float, dims<2, 4, 4, 3>>(g, "x");
  auto w = variable<float, dims<3, 3, 3, 3>>(g, "w", init::normal{.stddev = 0.3});
  auto kept = variable<float, dims<2, 4, 4, 3>>(g, "kept", init::zeros{});
  auto y = let(conv2d(x, w));
  auto per_pixel = variable<float, dims<4, 3>>(g, "per_pixel", init::normal{.stddev = 1.0});
  auto stored = assign(kept, relu(y));                   // in another layout it would be computed in the variable
  auto turned = let(exp(reshape<dims<2, 8, 2, 3>>(y)));  // the same memory, other images
  auto scaled = let(y * per_pixel);                      // neither one value nor one for each channel
  auto summed = let(sum<0>(square(y)));                  // [height, width, channels]
  auto transposed = let(transpose<0, 2, 1, 3>(y));
  auto on_host = [&] {
    const auto here = with_device(g, cpu{0});
    return let(sqrt(abs(y)));
  }();
  session s{g, on_gpu};
  session_on_cpu host{g, {.threads = 1}};
  const auto input = waves<dims<2, 4, 4, 3>>(0.9f);
  const auto compare = [&](const auto& what) {
    check_close(s.run(fetch(what), with(x, input)), host.run(fetch(what), with(x, input)));
  };
  compare(turned), compare(scaled), compare(summed), compare(transposed), compare(on_host), compare(y), compare(stored);
  check_close(s.run(fetch(kept)), host.run(fetch(kept)));
}

#if defined(WEFT_GPU_EMULATION)
BOOST_AUTO_TEST_CASE(images_go_from_one_gpu_to_another_as_they_lie) {
  gpu::emulated_platform gpus({.devices = 2});
  const with_layouts policy(gpu::layout_policy::channels_first);
  graph g;
  auto x = placeholder<float, dims<2, 5, 4, 3>>(g, "x");
  auto w = variable<float, dims<3, 3, 3, 3>>(g, "w", init::normal{.stddev = 0.3});
  auto y = let(conv2d(x, w));
  auto z = [&] {
    const auto there = with_device(g, cuda{1});
    return let(relu(conv2d(y, w)));
  }();
  auto sums = let(y + z);
  session s{g, on_gpu};
  const auto input = waves<dims<2, 5, 4, 3>>(0.9f);
  auto step = s.prepare(fetch(sums), feed(x));
  step(input);
  gpu::math.layouts = gpu::layout_policy::channels_last;
  session t{g, on_gpu};
  check_close(step(input), t.run(fetch(sums), with(x, input)));
  // One copy of what comes in, one of the result; none between the GPUs.
  BOOST_TEST(count(step.explain(), "to channels") == 2u);
  BOOST_TEST(count(step.explain(), "copy from another GPU") == 3u);
}
#endif
