// SPDX-License-Identifier: BSL-1.0
// Dilated causal convolutions (van den Oord et al. 2016) forecast a noisy series.
#include <algorithm>
#include <cstdio>
#include <tuple>
#include <weft/checkpoint/weights.hpp>
#include <weft/data/dataset.hpp>
#include <weft/train/adamw.hpp>
#include <weft/weft.hpp>
#include "data.hpp"
using namespace weft;

constexpr int width = 32, training = 1200;

/// Maps [batch, 1, time, n] to [batch, 1, time, 16]: a step sees itself and the one `Dilation` steps before it.
template <int Dilation, Expression X>
auto causal(const char* name, const X& x) {
  graph& g = graph_of(x);
  const variable_scope layer(g, name);
  auto w = variable<float, dims<1, 2, static_extent<X, -1>(), 16>>(g, "w", init::he_normal{});
  auto b = variable<float, dims<16>>(g, "b", init::zeros{});
  constexpr conv2d_options options{.pad = padding::of(0, 0, Dilation, 0), .dilation = Dilation};
  return tanh(conv2d<options>(x, w) + b);
}

int main(int argc, char** argv) {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, width>>(g, "x");
  auto y = placeholder<float, dims<dyn<"batch">>>(g, "y");
  auto recent = causal<2>("conv2", causal<1>("conv1", reshape<dims<dyn<"batch">, 1, width, 1>>(x)));
  auto far = causal<8>("conv4", causal<4>("conv3", recent));
  auto present = reshape<dims<dyn<"batch">, 16>>(slice<2, width - 1, 1>(far));
  auto change = matmul(present, variable<float, dims<16, 1>>(g, "out", init::glorot_uniform{}));
  auto predicted = let(squeeze<1>(slice<1, width - 1, 1>(x) + change));
  auto loss = mean(square(predicted - y));
  auto train = adamw{.learning_rate = 0.003}.minimize(loss);

  const auto series = gallery::series(1500);
  const int tests = int(series.size()) - training;
  tensor<float, dims<dyn<"n">, width>> windows{shape(training - width, width)};
  for (int i = 0; i < training - width; ++i) windows[i] = tensor_view<const float, dims<width>>(series.data() + i);
  const tensor_view<const float, dims<dyn<"n">>> next(series.data() + width, shape(training - width));
  const auto batches = data::from_tensors(windows, tensor(next)).batches(32);

  session s{g};
  if (argc > 1) load_weights(argv[1], s);  // else the variables begin with random values
  auto step = s.prepare(fetch(loss, train), feed(x, y));
  for (int epoch = 1; epoch <= 10; ++epoch) {
    float last = 0;
    for (auto [inputs, targets] : batches) last = std::get<0>(step(inputs, targets));
    if (epoch % 2 == 0) std::printf("epoch %d: loss %.6f\n", epoch, last);
  }

  auto forecast = s.prepare(fetch(predicted), feed(x));
  tensor<float, dims<dyn<"n">>> errors{shape(tests)};  // of forecasts one step ahead
  for (int i = 0; i < tests; ++i) {
    const tensor_view<const float, dims<1, width>> past(series.data() + training - width + i);
    errors[i] = forecast(past)(0) - series[training + i];
  }
  std::printf("mean squared error %.6f\n", float(mean(square(errors))));

  tensor<float, dims<1, width>> past{tensor_view<const float, dims<1, width>>(series.data() + training - width)};
  for (int i = 0; i < 6; ++i) {  // each forecast is the input of the next
    const float value = forecast(past)(0);
    std::rotate(past.begin(), past.begin() + 1, past.end());
    past(0, width - 1) = value;
  }
  std::printf("six steps ahead %.6f\n", past(0, width - 1));
}
