// SPDX-License-Identifier: BSL-1.0
// A pipeline of stages: each task holds one stage of a network, and a batch passes through the stages in micro-batches.
// While a task computes one micro-batch, the task before it computes the next one. The graph's recording order is the
// schedule, because each task runs its nodes in that order:
//
//   fill_drain  all micro-batches go forward, then all go backward (GPipe: Huang et al., 2019)
//   1f1b        once a stage has run ahead of the last one, it alternates one forward and one backward, so that it
//   holds
//               the activations of at most `stages` micro-batches (PipeDream-Flush: Narayanan et al., 2021)
//
// The program also trains the network in one process, and compares the loss and all variables bit by bit. `--help`
// lists the flags.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../command_line.hpp"
#include "../spanned.hpp"

using namespace weft;

namespace {

constexpr int width = 128;
using rows = dims<dyn<"rows">, width>;

/// Passes a value on after some milliseconds, in which an accelerator would compute the stage: the processor is free
/// meanwhile, so that stages overlap on machines with fewer cores than stages. The gradient takes twice as long, as
/// that of a product does.
struct accelerated_op {
  static constexpr const char* name = "accelerated";
  struct attributes {
    attribute<std::int64_t> milliseconds;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) { return new work(p, a.milliseconds); }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, record<accelerated_op>({g.upstream()}, g.input(0).info(), {2 * a.milliseconds}));
  }

 private:
  class work final : public kernel {
   public:
    work(const prepare_context& p, std::int64_t milliseconds)
        : from_(p.input_slots[0]), to_(p.output_slots[0]), bytes_(p.outputs[0].bytes()), takes_(milliseconds) {}
    void run(const kernel_context& f) override {
      std::this_thread::sleep_for(takes_);
      std::memcpy(f.buffers[to_], f.buffers[from_], bytes_);
    }
    std::string describe() const override { return "accelerated, " + std::to_string(takes_.count()) + " ms"; }

   private:
    std::uint32_t from_, to_;
    std::size_t bytes_;
    std::chrono::milliseconds takes_;
  };
};

template <Expression Expr>
auto accelerated(const Expr& e, std::int64_t milliseconds) {
  const auto x = materialize(e);
  return call_operation<accelerated_op, float, rows>(extents_of(x), {milliseconds}, x);
}

struct plan_of_run {
  int stages = 4, micro_batches = 16;
  bool one_forward_one_backward = false;
  bool pinned = true;
  std::int64_t stage_ms = 0;
};

/// Records the network's steps in the order of a schedule.
class network {
  template <class Make>
  auto in_stage(int k, Make make) {
    return ::in_task(g, plan_.pinned, k, make);
  }

 public:
  graph g;
  node<float, dims<dyn<"micro_batches">, dyn<"rows">, width>> x =
      placeholder<float, dims<dyn<"micro_batches">, dyn<"rows">, width>>(g, "x");
  std::optional<node<float>> loss;
  std::optional<effect> train;

  explicit network(const plan_of_run& plan) : plan_(plan) {
    for (int k = 0; k < plan.stages; ++k)
      weights_.push_back(in_stage(k, [&] {
        return variable<float, dims<width, width>>(g, ("w" + std::to_string(k)).c_str(), init::glorot_uniform{});
      }));
    for (int m = 0; m < plan.micro_batches; ++m)
      activations_.push_back(
          in_stage(0, [&] { return let(reshape<rows>(slice<0, 1>(x, static_cast<std::int64_t>(m)))); }));
    // Stage k sends micro-batch m forward in round m + k: the micro-batches of a round are in different stages.
    const int rounds = plan.micro_batches + plan.stages - 1;
    for (int round = 0; round < rounds; ++round) {
      for (int k = plan.stages - 1; k >= 0; --k)
        if (const int m = round - k; m >= 0 && m < plan.micro_batches) forward(m, k);
      if (const int m = round - plan.stages + 1; plan.one_forward_one_backward && m >= 0) backward(m);
    }
    for (int m = 0; m < plan.micro_batches && !plan.one_forward_one_backward; ++m) backward(m);
    train = apply_gradients(momentum{.learning_rate = 0.01f}, gradients_);
  }

 private:
  void forward(int m, int k) {
    const name_scope named(g, "micro_batch" + std::to_string(m));
    auto& h = activations_[static_cast<std::size_t>(m)];
    h = in_stage(k, [&] { return let(tanh(matmul(h, weights_[static_cast<std::size_t>(k)]))); });
    if (plan_.stage_ms > 0) h = in_stage(k, [&] { return accelerated(h, plan_.stage_ms); });
    if (k + 1 < plan_.stages) return;
    losses_.push_back(
        in_stage(k, [&] { return let(mean(square(h - 0.5f)) * (1.0f / static_cast<float>(plan_.micro_batches))); }));
  }

  /// Adds a micro-batch's gradients to the sums. Each sum lies on the task of its variable.
  void backward(int m) {
    const name_scope named(g, "micro_batch" + std::to_string(m));
    const auto& own = losses_[static_cast<std::size_t>(m)];
    const auto found = compute_gradients(own);
    if (m == 0) {
      gradients_ = found;
      loss = own;
      return;
    }
    for (std::size_t v = 0; v < found.size(); ++v) {
      const auto& of = found.pairs[v];
      for (int k = 0; k < plan_.stages; ++k)
        if (weights_[static_cast<std::size_t>(k)].id() == of.variable.id())
          in_stage(k, [&] { gradients_.pairs[v].gradient = gradients_.pairs[v].gradient + of.gradient; });
    }
    loss = in_stage(plan_.stages - 1, [&] { return let(*loss + own); });
  }

  plan_of_run plan_;
  std::vector<variable_node<float, dims<width, width>>> weights_;
  std::vector<node<float, rows>> activations_;  // the last output of each micro-batch
  std::vector<node<float>> losses_;
  variable_gradients<float> gradients_;
};

struct outcome {
  float loss = 0;
  double seconds = 0;  // of a step
};

outcome train(const network& net, session& s, int micro_batches, int row_count, int steps) {
  auto step = s.prepare(fetch(*net.loss, *net.train), feed(net.x));
  tensor<float, dims<dyn<"micro_batches">, dyn<"rows">, width>> x(shape(micro_batches, row_count, width));
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<float>(i * 2654435761u % 1000) / 500 - 1;
  outcome found{std::get<0>(step(x)), 0};  // this one also plans
  const auto began = std::chrono::steady_clock::now();
  for (int n = 1; n < steps; ++n) found.loss = std::get<0>(step(x));
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / (steps - 1);
  return found;
}

double peak_megabytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

}  // namespace

int main(int argc, char** argv) try {
  std::int64_t tasks_here = 4, step_count = 20, micro_count = 16, row_count = 16, stage_ms = 0;
  std::string schedule = "1f1b";
  double worst_bubble = 0;
  bool log = false;
  command_line flags("Trains a network as a pipeline of stages over tasks");
  flags.add("tasks", tasks_here, 1, 16, "tasks in this process, unless TF_CONFIG names a cluster; each has a stage");
  flags.add("steps", step_count, 2, 1'000'000, "training steps");
  flags.add("micro_batches", micro_count, 1, 64, "micro-batches per step");
  flags.add("rows", row_count, 1, 1'000'000, "rows per micro-batch");
  flags.add("schedule", schedule, {"fill_drain", "1f1b"}, "fill_drain or 1f1b");
  flags.add("stage_ms", stage_ms, 0, 1000,
            "milliseconds of a simulated accelerator for a stage's forward pass; backward takes twice as long");
  flags.add_from_0("worst_bubble", worst_bubble, 1,
                   "with stage_ms: fail if the stages idle for more than this share of a step; 0: never");
  flags.add("log_device_placement", log, "print the device of each node");
  if (!flags.parse(argc, argv)) return 0;
  const int tasks = task_count(tasks_here), steps = static_cast<int>(step_count);
  const plan_of_run plan{tasks, static_cast<int>(micro_count), schedule == "1f1b", true, stage_ms};
  const network net(plan);
  const int status = on_tasks(net.g, tasks, [&](const session_target& target) {
    session s(net.g, {.threads = 1, .log_device_placement = log, .target = target});
    const outcome piped = train(net, s, plan.micro_batches, static_cast<int>(row_count), steps);
    std::printf("%s: loss %.6f after step %d; %.2f ms a step on %d tasks\n", schedule.c_str(), piped.loss, steps,
                piped.seconds * 1e3, tasks);
    std::printf("peak memory of this process: %.0f MB\n", peak_megabytes());
    bool fails = false;
    if (stage_ms > 0) {
      const double busy = 3e-3 * static_cast<double>(stage_ms * plan.micro_batches);
      const double bubble = 1 - busy / piped.seconds;
      std::printf("bubble: the stages idle for %.3f of a step; (p - 1) / (m + p - 1) is %.3f\n", bubble,
                  (tasks - 1.0) / (plan.micro_batches + tasks - 1));
      fails = worst_bubble > 0 && bubble > worst_bubble;
    }
    const network other({tasks, plan.micro_batches, false, false, 0});
    session alone(other.g, {.threads = 1});
    const outcome one = train(other, alone, plan.micro_batches, static_cast<int>(row_count), steps);
    const bool equal = piped.loss == one.loss && equal_variables(net.g, s, other.g, alone);
    std::printf("%.2f ms a step in one process; the loss and the variables %s those of one process\n",
                one.seconds * 1e3, equal ? "equal, to the bit," : "differ from");
    return equal && !fails ? 0 : 1;
  });
  if (std::getenv("TF_CONFIG")) std::fprintf(stderr, "peak memory of this task: %.0f MB\n", peak_megabytes());
  return status;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
