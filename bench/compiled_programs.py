# SPDX-License-Identifier: BSL-1.0
"""The programs by which compile time is measured (compile.py) and held (test/packaging/ledger.py), and the measurement."""
import json
import os
import random
import re
import subprocess
import sys
import time

INCLUDE = "#include <weft/weft.hpp>\nint main() {}\n"

MNIST = """
#include <weft/weft.hpp>
using namespace weft;
float train(const float* pixels, const std::int32_t* classes) {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  auto w1 = variable<float, dims<784, 100>>(g, "hidden/weights", init::normal{.stddev = 0.05f});
  auto b1 = variable<float, dims<100>>(g, "hidden/bias", init::zeros{});
  auto w2 = variable<float, dims<100, 10>>(g, "softmax/weights", init::normal{.stddev = 0.1f});
  auto b2 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});
  auto hidden = sigmoid(matmul(images, w1) + b1);
  auto logits = matmul(hidden, w2) + b2;
  auto loss = mean(softmax_cross_entropy(logits, labels));
  auto train = gradient_descent{.learning_rate = 0.5f}.minimize(loss);
  session s{g};
  auto step = s.prepare(fetch(loss, train), feed(images, labels));
  tensor<float, dims<dyn<"batch">, 784>> x{shape(100, 784)};
  tensor<std::int32_t, dims<dyn<"batch">>> y{shape(100)};
  for (int i = 0; i < 100 * 784; ++i) x.data()[i] = pixels[i];
  for (int i = 0; i < 100; ++i) y.data()[i] = classes[i];
  auto [cost, _] = step(x, y);
  return cost;
}
int main() { return train(nullptr, nullptr) > 0; }
"""

# The same with the reader of images.
READER = "#include <weft/data/fashion_mnist.hpp>" + MNIST.replace("""  tensor<float, dims<dyn<"batch">, 784>> x{shape(100, 784)};
  tensor<std::int32_t, dims<dyn<"batch">>> y{shape(100)};
  for (int i = 0; i < 100 * 784; ++i) x.data()[i] = pixels[i];
  for (int i = 0; i < 100; ++i) y.data()[i] = classes[i];
  auto [cost, _] = step(x, y);
  return cost;
""", """  for (const auto& [x, y] : data::fashion_mnist("train").shuffled().batches(100)) step(x, y);
  return 0;
""")

LENET = """
#include <weft/weft.hpp>
using namespace weft;
float train(const float* pixels, const std::int32_t* classes) {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "images");
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  auto w1 = variable<float, dims<5, 5, 1, 32>>(g, "conv1/weights", init::he_normal{});
  auto b1 = variable<float, dims<32>>(g, "conv1/bias", init::zeros{});
  auto w2 = variable<float, dims<5, 5, 32, 64>>(g, "conv2/weights", init::he_normal{});
  auto b2 = variable<float, dims<64>>(g, "conv2/bias", init::zeros{});
  auto w3 = variable<float, dims<3136, 1024>>(g, "dense/weights", init::he_normal{});
  auto b3 = variable<float, dims<1024>>(g, "dense/bias", init::zeros{});
  auto w4 = variable<float, dims<1024, 10>>(g, "softmax/weights", init::glorot_normal{});
  auto b4 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});
  auto halved = max_pool2d<2>(relu(conv2d(images, w1) + b1));
  auto quartered = max_pool2d<2>(relu(conv2d(halved, w2) + b2));
  auto hidden = relu(matmul(reshape<dims<dyn<"batch">, 3136>>(quartered), w3) + b3);
  auto logits = matmul(hidden, w4) + b4;
  auto loss = mean(softmax_cross_entropy(logits, labels));
  auto train = momentum{.learning_rate = 0.02f}.minimize(loss);
  session s{g};
  auto step = s.prepare(fetch(loss, train), feed(images, labels));
  tensor<float, dims<dyn<"batch">, 28, 28, 1>> x{shape(64, 28, 28, 1)};
  tensor<std::int32_t, dims<dyn<"batch">>> y{shape(64)};
  for (int i = 0; i < 64 * 784; ++i) x.data()[i] = pixels[i];
  for (int i = 0; i < 64; ++i) y.data()[i] = classes[i];
  auto [cost, _] = step(x, y);
  return cost;
}
int main() { return train(nullptr, nullptr) > 0; }
"""

# A worker that trains either way.
CLUSTER = """
#include <weft/distributed.hpp>
#include <weft/distributed/cluster/environment.hpp>
using namespace weft;
template <class Strategy>
void train(server& here, const graph& g, const effect& update, const Strategy& strategy) {
  replicated_session s(g, here, strategy);
  auto step = s.prepare(fetch(update), feed());
  for (int i = 0; i < 1000; ++i) step();
  s.finish();
}
int main() {
  graph g;
  auto x = variable<float>(g, "x", 0);
  auto update = gradient_descent{0.1f}.minimize(square(x));
  server here(cluster_spec::from_environment());
  if (here.job() == "ps") here.join();
  else if (here.cluster().has_job("ps")) train(here, g, update, parameter_server<synchronous>{});
  else train(here, g, update, collective{});
}
"""


def many_nodes(count):
    """A chain of dense layers, each of another width: variable, variable, matmul, sum and tanh make five nodes."""
    layers = count // 5
    lines = ["#include <weft/weft.hpp>", "using namespace weft;", "int main() {", "  graph g;",
             '  auto x0 = placeholder<float, dims<dyn<"batch">, 16>>(g, "x");']
    width = 16
    for i in range(layers):
        following = 16 + (i * 7 + 1) % 997
        lines += [f'  auto w{i} = variable<float, dims<{width}, {following}>>(g, "w{i}", init::normal{{.stddev = 0.1f}});',
                  f'  auto b{i} = variable<float, dims<{following}>>(g, "b{i}", init::zeros{{}});',
                  f"  auto x{i + 1} = tanh(matmul(x{i}, w{i}) + b{i});"]
        width = following
    lines += [f"  auto loss = mean(square(x{layers}));", "  auto train = gradient_descent{.learning_rate = 0.1f}.minimize(loss);",
              "  session s{g};", "  auto step = s.prepare(fetch(loss, train), feed(x0));",
              '  auto [cost, _] = step(tensor<float, dims<dyn<"batch">, 16>>(shape(4, 16)));', "  return cost > 1e9f;", "}"]
    return "\n".join(lines) + "\n"


def distinct_units(count):
    """A chain of units of convolution, scale, shift and ReLU, each of other extents."""
    lines = ["#include <weft/weft.hpp>", "using namespace weft;", "int main() {", "  graph g;",
             '  auto x0 = placeholder<float, dims<dyn<"batch">, 16, 16, 3>>(g, "x");']
    channels = 3
    for i in range(count):
        following = 8 + i
        lines += [f'  auto w{i} = variable<float, dims<3, 3, {channels}, {following}>>(g, "w{i}", init::he_normal{{}});',
                  f'  auto s{i} = variable<float, dims<{following}>>(g, "s{i}", init::ones{{}});',
                  f'  auto b{i} = variable<float, dims<{following}>>(g, "b{i}", init::zeros{{}});',
                  f"  auto x{i + 1} = relu(conv2d(x{i}, w{i}) * s{i} + b{i});"]
        channels = following
    lines += [f"  auto loss = mean(square(x{count}));", "  auto train = gradient_descent{.learning_rate = 0.1f}.minimize(loss);",
              "  session s{g};", "  auto step = s.prepare(fetch(loss, train), feed(x0));",
              '  auto [cost, _] = step(tensor<float, dims<dyn<"batch">, 16, 16, 3>>{shape(4, 16, 16, 3)});',
              "  return cost > 1e9f;", "}"]
    return "\n".join(lines) + "\n"


def distinct_expressions(count):
    """A chain of expressions, no two of one structure, and a loss with the gradient of their gradient."""
    choose = random.Random(7)

    def expression(depth):
        if depth == 0:
            return choose.choice(["x", "w", "x", "w", "0.5f"])
        if choose.random() < 0.45:
            name = choose.choice(["tanh", "sigmoid", "exp", "sin", "cos", "square", "softplus", "relu"])
            return f"{name}({expression(depth - 1)})"
        return f"({expression(depth - 1)} {choose.choice('+-*')} {expression(max(depth - 2, 0))})"

    lines = ["#include <weft/weft.hpp>", "using namespace weft;", "int main() {", "  graph g;",
             '  auto x0 = placeholder<float, dims<dyn<"batch">, 16>>(g, "x");']
    seen = set()
    while len(seen) < count:
        e = expression(4)
        operands = set(re.findall(r"\b[xw]\b", e))
        if e in seen or len(operands) < 2 or re.search(r"\w\(0\.5f\)|\(0\.5f . 0\.5f\)", e):
            continue
        i = len(seen)
        seen.add(e)
        named = re.sub(r"\b([xw])\b", rf"\g<1>{i}", e)
        lines += [f'  auto w{i} = variable<float, dims<16>>(g, "w{i}", init::normal{{.stddev = 0.1}});',
                  f"  auto x{i + 1} = let({named});"]
    lines += [f"  auto loss = mean(square(x{count}));", "  auto [of_w0] = gradients(loss, w0);",
              "  auto train = gradient_descent{.learning_rate = 0.1}.minimize(loss + sum(square(of_w0)));", "  session s{g};",
              "  auto step = s.prepare(fetch(loss, train), feed(x0));",
              '  auto [cost, _] = step(tensor<float, dims<dyn<"batch">, 16>>{shape(4, 16)});', "  return cost > 1e9f;", "}"]
    return "\n".join(lines) + "\n"


def measure_compilation(command, compiler, flags, cwd=None, **what):
    """Runs a compiler and prints a JSON object with its seconds and its peak memory in MB."""
    start = time.monotonic()
    child = subprocess.Popen(command, cwd=cwd)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{compiler} does not compile the program {what}")
    print(json.dumps({"peer": "weft", **what, "compiler": compiler, "flags": flags,
                      "seconds": round(time.monotonic() - start, 2), "peak_mb": round(usage.ru_maxrss / 1024)}), flush=True)
