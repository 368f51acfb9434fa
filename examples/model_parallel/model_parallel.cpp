// SPDX-License-Identifier: BSL-1.0
// One network on several tasks: each layer's weights, gradients and optimizer slots stay in one task, and only the
// activations and their gradients travel. The program trains the network in one process, too, and compares all weights
// bit by bit. The tasks are threads that talk over TCP or, where TF_CONFIG names a cluster, the processes of
// weft_launch. `--help` lists the flags.
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "../command_line.hpp"
#include "../spanned.hpp"

using namespace weft;

namespace {

constexpr int width = 64, inputs = 16;

/// A perceptron of six layers; layer k lies in task k * tasks / 6, or nowhere in particular.
struct network {
  static constexpr int layers = 6;

  graph g;
  node<float, dims<dyn<"batch">, inputs>> x = placeholder<float, dims<dyn<"batch">, inputs>>(g, "x");
  node<float, dims<dyn<"batch">, 1>> y = placeholder<float, dims<dyn<"batch">, 1>>(g, "y");
  std::optional<node<float>> loss;
  std::optional<effect> train;

  explicit network(int tasks) {
    const auto in_layer = [&](int k, auto make) {
      const name_scope named(g, "layer" + std::to_string(k));
      const device_scope there(g, tasks == 0 ? device_spec() : task_device(k * tasks / layers));
      return make();
    };
    auto h = in_layer(
        0, [&] { return let(tanh(matmul(x, variable<float, dims<inputs, width>>(g, "w", init::glorot_uniform{})))); });
    for (int k = 1; k + 1 < layers; ++k)
      h = in_layer(
          k, [&] { return let(tanh(matmul(h, variable<float, dims<width, width>>(g, "w", init::glorot_uniform{})))); });
    loss = in_layer(layers - 1, [&] {
      return let(mean(square(matmul(h, variable<float, dims<width, 1>>(g, "w", init::glorot_uniform{})) - y)));
    });
    train = adam{.learning_rate = 0.01f}.minimize(*loss);
  }
};

struct batch {
  tensor<float, dims<dyn<"batch">, inputs>> x{shape(32, inputs)};
  tensor<float, dims<dyn<"batch">, 1>> y{shape(32, 1)};

  explicit batch(int number) {
    std::uint32_t state = 1u + static_cast<std::uint32_t>(number);
    make_examples(32, inputs, x.data(), y.data(), state);
  }
};

/// Trains, and returns the losses.
std::vector<float> train(const network& net, session& s, int steps) {
  auto step = s.prepare(fetch(*net.loss, *net.train), feed(net.x, net.y));
  std::vector<float> losses;
  for (int n = 0; n < steps; ++n) {
    const batch b(n);
    losses.push_back(std::get<0>(step(b.x, b.y)));
  }
  return losses;
}

/// Trains in one process, and returns whether all losses and variables are those of the session, to the bit.
bool equals_one_process(const std::vector<float>& losses, const network& net, session& spread, int steps) {
  const network other(0);
  session alone(other.g, {.threads = 1});
  const std::vector<float> expected = train(other, alone, steps);
  const bool equal = std::memcmp(expected.data(), losses.data(), losses.size() * sizeof(float)) == 0;
  return equal && equal_variables(net.g, spread, other.g, alone);
}

int ask_for_steps(const network& net, const session_target& target, int steps, bool log) {
  session s(net.g, {.threads = 1, .log_device_placement = log, .target = target});
  const std::vector<float> losses = train(net, s, steps);
  std::printf("loss %.6f after the first step, %.6f after step %d\n", losses.front(), losses.back(), steps);
  const bool equal = equals_one_process(losses, net, s, steps);
  std::printf("losses and variables %s those of one process\n", equal ? "equal, to the bit," : "differ from");
  return equal ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  std::int64_t tasks_here = 3, step_count = 100;
  bool log = false;
  command_line flags("Trains one network split over several tasks");
  flags.add("tasks", tasks_here, 1, network::layers, "tasks in this process, unless TF_CONFIG names a cluster");
  flags.add("steps", step_count, 1, 1'000'000, "training steps");
  flags.add("log_device_placement", log, "print the device of each node");
  if (!flags.parse(argc, argv)) return 0;
  const int tasks = task_count(tasks_here), steps = static_cast<int>(step_count);
  const network net(tasks);
  return on_tasks(net.g, tasks, [&](const session_target& target) { return ask_for_steps(net, target, steps, log); });
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
