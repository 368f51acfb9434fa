// A pipeline of stages: each task has one stage of a network, and a batch goes through them in micro-batches. While one
// task computes a micro-batch, the task before it computes the next one: tasks send without waiting, and compute what
// has come. All micro-batches go forward, and then backward (fill and drain). The program trains the same graph in one
// process, too, and compares all variables bit by bit. `--help` lists the flags.
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>

#include "../command_line.hpp"
#include "../spanned.hpp"

using namespace weft;

namespace {

constexpr int width = 128, micro = 16;

struct network {
  graph g;
  node<float, dims<dyn<"batch">, width>> x = placeholder<float, dims<dyn<"batch">, width>>(g, "x");
  std::optional<node<float>> loss;
  std::optional<effect> train;

  network(int stages, int micro_batches, bool pinned) {
    const auto in_stage = [&](int k, auto make) {
      const device_scope there(g, pinned ? task_device(k) : device_spec());
      return make();
    };
    std::vector<variable_node<float, dims<width, width>>> weights;
    for (int k = 0; k < stages; ++k)
      weights.push_back(in_stage(k, [&] {
        return variable<float, dims<width, width>>(g, ("w" + std::to_string(k)).c_str(), init::glorot_uniform{});
      }));
    for (int m = 0; m < micro_batches; ++m) {
      const name_scope named(g, "micro_batch" + std::to_string(m));
      auto h = in_stage(0, [&] { return let(slice<0, micro>(x, m * micro)); });
      for (int k = 0; k < stages; ++k)
        h = in_stage(k, [&] { return let(tanh(matmul(h, weights[static_cast<std::size_t>(k)]))); });
      loss = in_stage(stages - 1, [&] {
        const auto own = let(mean(square(h - 0.5f)));
        return loss ? let(*loss + own) : own;
      });
    }
    train = momentum{.learning_rate = 0.01f}.minimize(*loss);
  }
};

struct outcome {
  float loss = 0;
  double seconds = 0;
};

outcome train(const network& net, session& s, int micro_batches, int steps) {
  auto step = s.prepare(fetch(*net.loss, *net.train), feed(net.x));
  tensor<float, dims<dyn<"batch">, width>> x(shape(micro_batches * micro, width));
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<float>(i * 2654435761u % 1000) / 500 - 1;
  outcome found{std::get<0>(step(x)), 0};
  const auto began = std::chrono::steady_clock::now();
  for (int n = 1; n < steps; ++n) found.loss = std::get<0>(step(x));
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return found;
}

}  // namespace

int main(int argc, char** argv) try {
  std::int64_t tasks_here = 4, step_count = 50, micro_count = 16;
  bool log = false;
  command_line flags("A pipeline of stages over tasks");
  flags.add("tasks", tasks_here, 1, 16, "tasks in this process, unless TF_CONFIG names a cluster; each has a stage");
  flags.add("steps", step_count, 2, 1'000'000, "steps of training");
  flags.add("micro_batches", micro_count, 1, 64, "micro-batches of a step");
  flags.add("log_device_placement", log, "say where each node runs");
  if (!flags.parse(argc, argv)) return 0;
  const int tasks = task_count(tasks_here), steps = static_cast<int>(step_count), count = static_cast<int>(micro_count);
  const network net(tasks, count, true);
  return on_tasks(net.g, tasks, [&](const session_target& target) {
    session s(net.g, {.threads = 1, .log_device_placement = log, .target = target});
    const outcome piped = train(net, s, count, steps);
    const network other(tasks, count, false);
    session alone(other.g, {.threads = 1});
    const outcome one = train(other, alone, count, steps);
    const bool equal = piped.loss == one.loss && equal_variables(net.g, alone, s);
    std::printf("loss %.6f after step %d; %.2f ms a step on %d tasks, %.2f ms in one process\n", piped.loss, steps,
                piped.seconds * 1e3 / (steps - 1), tasks, one.seconds * 1e3 / (steps - 1));
    std::printf("the loss and the variables %s those of one process\n", equal ? "equal, to the bit," : "differ from");
    return equal ? 0 : 1;
  });
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
