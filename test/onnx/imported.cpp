// SPDX-License-Identifier: BSL-1.0
// A model that the build has imported from files/imported.onnx: it computes PyTorch's values, and training it gives
// PyTorch's losses.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <weft/nn.hpp>
#include <weft/nn/weights.hpp>
#include <weft/weft.hpp>

// The build writes the header if it builds the command weft.
#if __has_include(<imported.hpp>)
  #include <imported.hpp>

  #include "imported_values.hpp"

using namespace weft;

namespace {

tensor<float, dims<4, 8, 8, 3>> some_images() {
  tensor<float, dims<4, 8, 8, 3>> images;
  for (std::size_t i = 0; i < images.size(); ++i) images.data()[i] = static_cast<float>(i % 7) / 4 - 0.5f;
  return images;
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_are_those_of_pytorch) {
  graph g;
  const auto images = placeholder<float, imported::images_dims>(g, "images");
  const auto net = nn::named(imported::model(), "net");
  const auto logits = net(images, nn::mode::inference);
  session s{g};
  nn::load_weights(WEFT_IMPORTED_WEIGHTS, net, s);
  const auto y = s.eval(logits, with(images, some_images()));
  BOOST_REQUIRE_EQUAL(y.size(), std::size(logits_of_pytorch));
  for (std::size_t i = 0; i < y.size(); ++i) BOOST_CHECK_SMALL(y.data()[i] - logits_of_pytorch[i], 1e-6f);
}

BOOST_AUTO_TEST_CASE(training_gives_the_losses_of_pytorch) {
  graph g;
  const auto images = placeholder<float, imported::images_dims>(g, "images");
  const auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  const auto net = nn::named(imported::model(), "net");
  const auto loss = mean(softmax_cross_entropy(net(images, nn::mode::training), labels));
  const auto train = gradient_descent{.learning_rate = 0.1}.minimize(loss, nn::parameters(net));
  session s{g};
  nn::load_weights(WEFT_IMPORTED_WEIGHTS, net, s);
  auto step = s.prepare(fetch(loss, train), feed(images, labels));
  const tensor<std::int32_t, dims<4>> classes{0, 3, 1, 4};
  for (int i = 1; i <= 100; ++i) {
    const auto [value, done] = step(some_images(), classes);
    if (i == 1) BOOST_CHECK_SMALL(value / losses_of_pytorch[0] - 1, 1e-5f);
    if (i % 10 == 0) BOOST_CHECK_SMALL(value / losses_of_pytorch[i / 10] - 1, 1e-4f);
  }
}
#else
BOOST_AUTO_TEST_CASE(not_imported) { BOOST_TEST_MESSAGE("skipped: the build does not have the command weft"); }
#endif
