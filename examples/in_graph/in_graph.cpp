// SPDX-License-Identifier: BSL-1.0
// In-graph replication: one graph has a replica of the network for each task. The variables lie in task 0; each replica
// computes the loss and the gradients of its share of the batch in its own task, and the gradients' sum updates the
// variables. The program trains the same graph in one process, too, and compares all variables bit by bit. `--help`
// lists the flags.
#include <cstdio>
#include <exception>
#include <optional>

#include "../command_line.hpp"
#include "../spanned.hpp"

using namespace weft;

namespace {

constexpr int inputs = 16, width = 32, share = 8;

struct network {
  graph g;
  node<float, dims<dyn<"batch">, inputs>> x = placeholder<float, dims<dyn<"batch">, inputs>>(g, "x");
  node<float, dims<dyn<"batch">, 1>> y = placeholder<float, dims<dyn<"batch">, 1>>(g, "y");
  std::optional<node<float>> loss;
  std::optional<effect> train;

  network(int replicas, bool pinned) {
    const auto in_task = [&](int t, auto make) { return ::in_task(g, pinned, t, make); };
    const auto w0 = in_task(0, [&] { return variable<float, dims<inputs, width>>(g, "w0", init::glorot_uniform{}); });
    const auto w1 = in_task(0, [&] { return variable<float, dims<width, 1>>(g, "w1", init::glorot_uniform{}); });
    for (int r = 0; r < replicas; ++r) {
      const auto own = in_task(r, [&] {
        const name_scope named(g, "replica" + std::to_string(r));
        const auto rows = slice<0, share>(x, r * share);
        return let(mean(square(matmul(let(tanh(matmul(rows, w0))), w1) - slice<0, share>(y, r * share))));
      });
      loss = loss ? in_task(0, [&] { return let(*loss + own); }) : own;
    }
    loss = in_task(0, [&] { return let(*loss * (1.0f / static_cast<float>(replicas))); });
    train = adam{.learning_rate = 0.01f}.minimize(*loss);
  }
};

float train(const network& net, session& s, int replicas, int steps) {
  auto step = s.prepare(fetch(*net.loss, *net.train), feed(net.x, net.y));
  tensor<float, dims<dyn<"batch">, inputs>> x(shape(replicas * share, inputs));
  tensor<float, dims<dyn<"batch">, 1>> y(shape(replicas * share, 1));
  float loss = 0;
  std::uint32_t state = 1;
  for (int n = 0; n < steps; ++n) {
    make_examples(replicas * share, inputs, x.data(), y.data(), state);
    loss = std::get<0>(step(x, y));
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv) try {
  std::int64_t tasks_here = 3, step_count = 100;
  bool log = false;
  command_line flags("In-graph replication over tasks");
  flags.add("tasks", tasks_here, 1, 16, "tasks in this process, unless TF_CONFIG names a cluster");
  flags.add("steps", step_count, 1, 1'000'000, "training steps");
  flags.add("log_device_placement", log, "print the device of each node");
  if (!flags.parse(argc, argv)) return 0;
  const int tasks = task_count(tasks_here), steps = static_cast<int>(step_count);
  const network net(tasks, true);
  return on_tasks(net.g, tasks, [&](const session_target& target) {
    session s(net.g, {.threads = 1, .log_device_placement = log, .target = target});
    const float loss = train(net, s, tasks, steps);
    const network other(tasks, false);
    session alone(other.g, {.threads = 1});
    const bool equal = train(other, alone, tasks, steps) == loss && equal_variables(net.g, s, other.g, alone);
    std::printf("loss %.6f after step %d with %d replicas\n", loss, steps, tasks);
    std::printf("the loss and the variables %s those of one process\n", equal ? "equal, to the bit," : "differ from");
    return equal ? 0 : 1;
  });
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
