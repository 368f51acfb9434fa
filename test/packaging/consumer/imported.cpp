// SPDX-License-Identifier: BSL-1.0
// A model that the build imports, and a recurrent layer, whose kernels weft::compiled compiles in a file of their own.
#include <weft/nn.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/nn/weights.hpp>
#include <weft/weft.hpp>

#include <network.hpp>

int main() {
  using namespace weft;
  graph g;
  auto images = placeholder<float, network::images_dims>(g, "images");
  auto steps = placeholder<float, dims<dyn<"batch">, 6, 4>>(g, "steps");
  auto net = nn::named(network::model(), "net");
  auto logits = net(images, nn::mode::inference);
  nn::gru<8> layer{};
  auto states = layer(steps).states;
  session s{g};
  nn::load_weights(MODEL_WEIGHTS, net, s);
  auto step = s.prepare(fetch(logits, states), feed(images, steps));
  auto [y, h] = step(tensor<float, dims<2, 8, 8, 3>>{}, tensor<float, dims<2, 6, 4>>{});
  return y.size() == 2 * 5 && h.size() == 2 * 6 * 8 ? 0 : 1;
}
