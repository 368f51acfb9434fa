// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <weft/weft.hpp>

#include "counted_allocations.hpp"

using namespace weft;

namespace {

// Those of three steps, after one that was not counted.
std::size_t counted(std::int64_t batch, int threads) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g);
  const auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g);
  const auto w1 = variable<float, dims<5, 5, 1, 32>>(g, "w1", init::he_normal{});
  const auto b1 = variable<float, dims<32>>(g, "b1");
  const auto w2 = variable<float, dims<5, 5, 32, 64>>(g, "w2", init::he_normal{});
  const auto w3 = variable<float, dims<64, 10>>(g, "w3", init::he_normal{});
  const auto halved = max_pool2d<2>(relu(conv2d(x, w1) + b1));
  const auto logits = matmul(mean<1, 2>(avg_pool2d<3, 2>(relu(conv2d(halved, w2)))), w3);
  const auto loss = mean(softmax_cross_entropy(logits, labels));
  const auto train = momentum{.learning_rate = 0.01}.minimize(loss);
  session s{g, {.threads = threads}};
  auto step = s.prepare(fetch(loss, train), feed(x, labels));
  const tensor<float, dims<dyn<"batch">, 28, 28, 1>> images(shape(batch, 28, 28, 1));
  const tensor<std::int32_t, dims<dyn<"batch">>> classes{shape(batch)};
  for (int i = 0; i < 3; ++i) (void)step(images, classes);
  return test::allocations_of([&] {
    for (int i = 0; i < 3; ++i) (void)step(images, classes);
  });
}

// The same of convolutions and pools of T.
template <class T>
std::size_t counted_of(std::int64_t batch, int threads) {
  graph g;
  const auto x = placeholder<T, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
  const auto w = variable<T, dims<5, 5, 1, 32>>(g, "w", init::he_normal{});
  const auto y = avg_pool2d<3, 2>(max_pool2d<2>(conv2d(x, w)));
  const auto [dw] = gradients(sum(square(cast<float>(y))), w);
  session s{g, {.threads = threads}};
  auto step = s.prepare(fetch(mean(cast<float>(dw))), feed(x));
  const tensor<T, dims<dyn<"batch">, 28, 28, 1>> images(shape(batch, 28, 28, 1));
  for (int i = 0; i < 3; ++i) (void)step(images);
  return test::allocations_of([&] {
    for (int i = 0; i < 3; ++i) (void)step(images);
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_steady_state_allocates_nothing) {
  if (!COUNTS_MALLOC) return;
  for (const int threads : {1, 2}) {
    BOOST_CHECK_EQUAL(counted_of<double>(3, threads), 0u);
    BOOST_CHECK_EQUAL(counted_of<weft::half>(3, threads), 0u);
    BOOST_CHECK_EQUAL(counted_of<bfloat16>(3, threads), 0u);
#if !defined(WEFT_HAS_DNNL)
    BOOST_CHECK_EQUAL(counted(3, threads), 0u);
    BOOST_CHECK_EQUAL(counted(40, threads), 0u);
#else
    for (const std::int64_t batch : {3, 40})
      BOOST_TEST_MESSAGE("oneDNN's own: " << counted(batch, threads) / 3 << " a step");
#endif
  }
}
