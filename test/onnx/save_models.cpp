// SPDX-License-Identifier: BSL-1.0
// Models, exported to ONNX: ONNX Runtime computes the same values.
#include "onnx/exported.hpp"

#include <weft/nn.hpp>
#include <weft/nn/bert.hpp>
#include <weft/nn/gpt2.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/ops/images/pooling.hpp>

#include "../examples/imagenet/resnet.hpp"

using namespace weft;
using test::some;

BOOST_AUTO_TEST_CASE(recurrent_networks) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, dyn<"time">, 3>>(g, "x");
  const auto lstm = nn::named(nn::lstm<4>(), "lstm");
  const auto [states, h, c] = lstm(x);
  const auto r = nn::named(nn::gru<5>(), "gru")(states);
  session s(g);
  models.add("recurrent", s, fetch(states, h, c, r.states, r.h), feed(x),
             "Add 3 Concat 3 Expand 3 MatMul 2 Scan 2 Shape Split Transpose 3",
             some<tensor<float, dims<dyn<"batch">, dyn<"time">, 3>>>(1, shape(2, 5, 3)));
}

BOOST_AUTO_TEST_CASE(image_networks) {
  test::exported_models models;
  {
    graph g;
    auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "images");
    const auto net =
        nn::named(nn::sequential<nn::conv2d<5, 6>, nn::max_pool2d<2>, nn::conv2d<5, 16>, nn::max_pool2d<2>, nn::flatten,
                                 nn::dense<120>, nn::dense<10>>({.activation = nn::relu}, {}, {.activation = nn::relu},
                                                                {}, {}, {.activation = nn::relu}, {}),
                  "lenet");
    auto logits = net(x);
    session s(g);
    models.add("lenet", s, fetch(logits, softmax(logits)), feed(x),
               "Add 2 Conv 2 MatMul 2 MaxPool 2 Relu 3 Reshape Softmax Transpose 2",
               some<tensor<float, dims<dyn<"batch">, 28, 28, 1>>>(1, shape(3, 28, 28, 1)));
  }
  {
    graph g;
    auto x = placeholder<float, dims<dyn<"batch">, dyn<"height">, dyn<"width">, 3>>(g, "images");
    auto logits = nn::named(imagenet::resnet50<10, 4>(), "resnet50")(x, nn::mode::inference);
    session s(g);
    // One transpose of the images; the mean needs none.
    models.add("resnet50", s, fetch(logits), feed(x),
               "Add 17 BatchNormalization 53 Conv 53 MatMul MaxPool ReduceMean Relu 49 Transpose",
               some<tensor<float, dims<dyn<"batch">, dyn<"height">, dyn<"width">, 3>>>(1, shape(2, 64, 48, 3)));
  }
}

BOOST_AUTO_TEST_CASE(transformers) {
  test::exported_models models;
  {
    graph g;
    auto ids = placeholder<std::int32_t, dims<dyn<"batch">, dyn<"time">>>(g, "ids");
    nn::gpt2<nn::gpt2_options{.layers = 2, .heads = 2, .width = 16, .vocabulary = 31, .context = 12}> net;
    auto logits = nn::named(net, "gpt")(ids);
    session s(g);
    models.add("gpt2", s, fetch(logits), feed(ids),
               "Add 17 Cast Concat 8 Gather 2 Gelu 2 LayerNormalization 5 LessOrEqual 2 MatMul 17 Mul 2 Range 5 "
               "Reshape 8 Shape 2 Softmax 2 Squeeze 5 Transpose 9 Unsqueeze 2 Where 4",
               tensor<std::int32_t, dims<dyn<"batch">, dyn<"time">>>(shape(2, 5), {1, 5, 30, 2, 7, 9, 0, 3, 3, 8}));
  }
}
