// SPDX-License-Identifier: BSL-1.0
// The output of nvcc for a program of many expressions: every one has its kernels, in the slots of its skeleton, and so
// has every other operation. This needs no GPU: nothing runs.
#include <weft/control_flow.hpp>
#include <weft/cuda.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/reduce/scan.hpp>

#include <cstdio>

using namespace weft;

/// A user's own operation.
struct soft_sign {
  static constexpr const char* name = "soft_sign";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static V apply(V x) {
    return x / (V(1) + math::abs(x));
  }
  template <class V>
  WEFT_HOST_DEVICE static V gradient(V g, V x, V) {
    const V d = V(1) + math::abs(x);
    return g / (d * d);
  }
};

namespace {

template <class... Nodes>
void recorded(const Nodes&...) {}

/// Convolutions and pools of T, their gradients and second gradients.
template <class T>
void record_windows(graph& g) {
  auto images = placeholder<T, dims<dyn<"batch">, 8, 8, 3>>(g);
  auto filters = variable<T, dims<3, 3, 3, 4>>(g, std::string("filters/") + name(dtype_of<T>), init::zeros{});
  auto seen = avg_pool2d<2>(max_pool2d<2>(conv2d(images, filters)));
  auto d = gradients(sum(cast<float>(seen)), images, filters);
  auto squares = sum(square(cast<float>(std::get<0>(d)))) + sum(square(cast<float>(std::get<1>(d))));
  recorded(gradients(squares, images, filters));
}

/// Branches and loops, whose nodes have no kernels of their own: that they compile is all.
void record_control_flow(graph& g) {
  const auto x = placeholder<float, dims<3>>(g, "x");
  const auto steps = placeholder<float, dims<dyn<"steps">, 3>>(g, "steps");
  const auto either = cond(sum(x) < 1.0f, [](auto y) { return y * 2.0f; }, [](auto y) { return exp(y); }, x);
  const auto grown = while_loop([](auto y) { return sum(y) < 100.0f; }, [](auto y) { return y * 2.0f; },
                                {.max_iterations = 8}, either);
  const auto body = [](auto h, auto row) {
    const auto next = tanh(h + row);
    return std::tuple{next, sum(next)};
  };
  const auto [last, all] = scan(body, grown, rows(steps));
  recorded(gradients(sum(last) + sum(all), x, steps),
           scan(body, tensor<float, dims<3>>(), rows(tensor<float, dims<2, 3>>())));
}

}  // namespace

int main() {
  graph control_flow;
  record_control_flow(control_flow);
  graph g;
  using batch = dims<dyn<"batch">, 10>;
  auto x = placeholder<float, batch>(g, "x");
  auto y = placeholder<float, batch>(g, "y");
  auto b = variable<float, dims<10>>(g, "b", init::zeros{});
  auto i = placeholder<std::int32_t, batch>(g, "i");
  auto d = placeholder<double, batch>(g, "d");
  auto labels = placeholder<std::int64_t, dims<dyn<"batch">>>(g, "labels");

  auto a1 = let(sigmoid(x + b)), a2 = let(tanh(x * y - b)), a3 = let(exp(x) / (1.0f + exp(y)));
  auto a4 = let(maximum(x, 0.0f) + minimum(y, 1.0f) * b), a5 = let(select(i < 3, x, y * y)), a6 = let(relu(x) - abs(y));
  auto a7 = let(elementwise<soft_sign>(x * b)), a8 = let(sqrt(square(x) + square(y))), a9 = let(pow(abs(x), y));
  auto a10 = let(log(abs(x) + 1.0f) * sign(y));
  recorded(let(cast<weft::half>(x)), let(cast<bfloat16>(x)), let(cast<float>(i) * x), let(i * i + 7), let(exp(d) * 2.0),
           let(i < 3 && x > y), let(cast<double>(x) + d));
  auto loss = mean(softmax_cross_entropy(a1 + a2 * a3 + a4 - a5, labels)) + sum(a6 * a7) + mean(max<1>(a8 + a9)) +
              sum(prod<0>(a10));
  recorded(gradients(loss, b), softmax(x), log_softmax(d), argmax<1>(x), one_hot<10>(labels), transpose(x), shape_of(x),
           sum<0>(i), min(i), max<1>(d));
  recorded(argsort<0>(i), gradients(sum(cumsum<1>(x) * sort<0>(x) * y), x), gradients(sum(top_k<3>(d).values), d));
  // Dims that are written down only after an operation has made them.
  recorded(one_hot<4>(labels), placeholder<float, dims<dyn<"batch">, 4>>(g, "hot"), top_k<2>(x).indices,
           placeholder<float, dims<dyn<"batch">, 2>>(g, "top"));
  auto db = std::get<0>(gradients(loss, b));
  recorded(gradients(sum(square(db)), b), gradient_descent{.learning_rate = 0.1}.minimize(loss),
           momentum{.learning_rate = 0.1}.minimize(loss));

  record_windows<float>(g), record_windows<weft::half>(g), record_windows<bfloat16>(g);

  int missing = 0;
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    const node_def& c = g[n].def;
    if (!c.op->prepare_cpu) continue;
    if (c.op->gpu && c.op->gpu->prepare && (!c.op->gpu->exists || c.op->gpu->exists(c))) continue;
    std::string text;
    if (c.op->expression) skeleton::print(c.op->expression(c.detail)->text, text);
    std::printf("no kernel: %s %s %s\n", g[n].name.c_str(), c.op->name, text.c_str());
    ++missing;
  }
  std::printf("%u operations, %d without a kernel\n", static_cast<unsigned>(g.size()), missing);
  return missing != 0;
}
