"""Compile time and memory: the core's include, the MNIST program, the same with its reader of images, LeNet, and programs of many nodes, every layer of another size.
nvcc compiles the models for two architectures and PTX, as the preset `cuda` does. Then the models once more, as files of a
program that links weft::compiled, and what that target compiles once.

usage: compile.py [--compilers g++,clang++,nvcc] [--nodes 125,250,500,1000]
Prints one JSON object a program: compiler, flags, seconds, peak memory in MB; for programs of many nodes, how many.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

p = argparse.ArgumentParser()
p.add_argument("--compilers", default="g++,clang++,nvcc")
p.add_argument("--nodes", default="125,250,500,1000")
a = p.parse_args()
include = pathlib.Path(__file__).resolve().parent.parent / "include"

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


NVCC = ["-O2", "--generate-code=arch=compute_80,code=[sm_80,sm_90,compute_80]"]


def measure(compiler, source, **what):
    flags, suffix = ["-O2"], ".cpp"
    if compiler == "nvcc":
        flags, suffix, source = list(NVCC), ".cu", source.replace("<weft/weft.hpp>", "<weft/cuda.hpp>")
    if what.get("separate"):
        flags.append("-DWEFT_SEPARATE_COMPILATION")
    with tempfile.TemporaryDirectory() as folder:
        path = (pathlib.Path(folder) / "program").with_suffix(suffix)
        path.write_text(source)
        command = [compiler, "-std=c++20", *flags, f"-I{include}", "-c", path, "-o", path.with_suffix(".o")]
        start = time.monotonic()
        child = subprocess.Popen(command)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{compiler} does not compile the program {what}")
        print(json.dumps({"peer": "weft", **what, "compiler": compiler, "flags": " ".join(flags),
                          "seconds": round(time.monotonic() - start, 2), "peak_mb": round(usage.ru_maxrss / 1024)}), flush=True)


for compiler in a.compilers.split(","):
    if not shutil.which(compiler):
        continue
    measure(compiler, INCLUDE, program="include")
    measure(compiler, MNIST, program="mnist")
    measure(compiler, LENET, program="lenet")
    measure(compiler, MNIST, program="mnist", separate=True)
    if compiler != "nvcc":
        measure(compiler, READER, program="reader")
        measure(compiler, READER, program="reader", separate=True)
    measure(compiler, LENET, program="lenet", separate=True)
    if compiler == "nvcc":
        continue
    measure(compiler, "#include <weft/source.hpp>\n", program="source")
    for nodes in map(int, a.nodes.split(",")):
        measure(compiler, many_nodes(nodes), program="chain", nodes=nodes)
