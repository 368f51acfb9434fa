// SPDX-License-Identifier: BSL-1.0
// An ensemble: many networks of one kind, each with a learning rate and a fold of its own, trained at the same time by
// the tasks of a cluster. For each rate, k networks train on all folds but one each, and the rate whose networks err
// least on the rows that they have not seen wins (k-fold cross-validation); its networks together answer as their mean.
// Each task holds the rows in variables of its own, so that a step sends numbers of a few bytes alone. The program also
// trains the same networks in one process, and compares all losses and variables bit by bit. `--help` lists the flags.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "../command_line.hpp"
#include "../spanned.hpp"

using namespace weft;

namespace {

constexpr int inputs = 8, width = 16, rows = 240;
constexpr float rates[] = {0.03f, 0.01f, 0.003f, 0.001f, 0.0003f, 0.0001f};

using images = dims<rows, inputs>;
using labels = dims<rows, 1>;

struct plan_of_run {
  int tasks = 3, folds = 4, rate_count = 3;
  bool pinned = true;

  int members() const { return folds * rate_count; }
};

/// One network.
struct member {
  node<float> error;  // on the rows of its fold, which it does not learn from
  node<float, labels> answer;
  effect train;
};

class ensemble {
  template <class Make>
  auto in_task(int t, Make make) {
    return ::in_task(g, plan_.pinned, t, make);
  }

 public:
  graph g;
  std::vector<member> members;               // those of the first rate first, by fold
  std::vector<node<float>> combined_errors;  // of each rate's networks together, on all rows
  std::optional<effect> train;               // all of them

  explicit ensemble(const plan_of_run& plan) : plan_(plan) {
    for (int t = 0; t < plan.tasks; ++t)
      in_task(t, [&] {
        const std::string task = std::to_string(t);
        x_.push_back(variable<float, images>(g, ("x" + task).c_str(), init::zeros{}, variable_kind::frozen));
        y_.push_back(variable<float, labels>(g, ("y" + task).c_str(), init::zeros{}, variable_kind::frozen));
      });
    std::vector<effect> trained;
    for (int r = 0; r < plan.rate_count; ++r)
      for (int fold = 0; fold < plan.folds; ++fold) {
        const int m = r * plan.folds + fold, task = m % plan.tasks;
        members.push_back(in_task(task, [&] { return make(m, task, rates[r], fold); }));
        trained.push_back(members.back().train);
      }
    train = trained[0];
    for (std::size_t m = 1; m < trained.size(); ++m) train = group(*train, trained[m]);
    for (int r = 0; r < plan.rate_count; ++r)
      combined_errors.push_back(in_task(0, [&] {
        auto sum_of = members[first_of(r)].answer;
        for (int fold = 1; fold < plan.folds; ++fold)
          sum_of = let(sum_of + members[first_of(r) + static_cast<std::size_t>(fold)].answer);
        return let(mean(square(sum_of * (1.0f / static_cast<float>(plan.folds)) - y_[0])));
      }));
  }

  /// Gives each task the rows.
  void set_rows(session& s) const {
    tensor<float, images> x;
    tensor<float, labels> y;
    std::uint32_t state = 1;
    make_examples(rows, inputs, x.data(), y.data(), state);
    for (const auto& each : x_) s.set(each, x);
    for (const auto& each : y_) s.set(each, y);
  }

 private:
  std::size_t first_of(int rate) const { return static_cast<std::size_t>(rate * plan_.folds); }

  member make(int m, int task, float rate, int fold) {
    const variable_scope named(g, "member" + std::to_string(m));
    const auto& x = x_[static_cast<std::size_t>(task)];
    const auto& y = y_[static_cast<std::size_t>(task)];
    const auto w0 = variable<float, dims<inputs, width>>(g, "w0", init::glorot_uniform{});
    const auto w1 = variable<float, dims<width, 1>>(g, "w1", init::glorot_uniform{});
    // 1 in the rows of the fold, 0 in the others.
    tensor<float, labels> in_fold;
    int count = 0;
    for (int row = 0; row < rows; ++row) {
      const bool is_in = row % plan_.folds == fold;
      in_fold.data()[row] = is_in ? 1.0f : 0.0f;
      count += is_in;
    }
    const auto answer = let(matmul(let(tanh(matmul(x, w0))), w1));
    const auto loss = let(sum(square(answer - y) * (1.0f - in_fold)) * (1.0f / static_cast<float>(rows - count)));
    const auto error = let(sum(square(answer - y) * in_fold) * (1.0f / static_cast<float>(count)));
    return {error, answer, adam{.learning_rate = rate}.minimize(loss, w0, w1)};
  }

  plan_of_run plan_;
  std::vector<variable_node<float, images>> x_;  // of each task
  std::vector<variable_node<float, labels>> y_;
};

struct outcome {
  std::vector<float> errors, combined;  // of each member; of each rate
  double seconds = 0;

  friend bool operator==(const outcome& a, const outcome& b) {
    return a.errors == b.errors && a.combined == b.combined;
  }
};

outcome train(const ensemble& all, session& s, int steps) {
  all.set_rows(s);
  auto step = s.prepare(fetch(*all.train));
  step();  // this one also plans
  outcome found;
  const auto began = std::chrono::steady_clock::now();
  for (int n = 1; n < steps; ++n) step();
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  for (const member& each : all.members) found.errors.push_back(s.eval(each.error));
  for (const auto& each : all.combined_errors) found.combined.push_back(s.eval(each));
  return found;
}

void report(const outcome& found, const plan_of_run& plan) {
  int best = 0;
  std::vector<double> means;
  for (int r = 0; r < plan.rate_count; ++r) {
    double mean_error = 0;
    for (int fold = 0; fold < plan.folds; ++fold)
      mean_error += static_cast<double>(found.errors[static_cast<std::size_t>(r * plan.folds + fold)]) / plan.folds;
    means.push_back(mean_error);
    if (mean_error < means[static_cast<std::size_t>(best)]) best = r;
    std::printf("learning rate %-7g error on unseen rows, mean of %d folds: %.6f\n", static_cast<double>(rates[r]),
                plan.folds, mean_error);
  }
  std::printf("best: %g; its %d networks together err by %.6f\n", static_cast<double>(rates[best]), plan.folds,
              static_cast<double>(found.combined[static_cast<std::size_t>(best)]));
}

}  // namespace

int main(int argc, char** argv) try {
  std::int64_t tasks_here = 3, step_count = 200, fold_count = 4, rate_count = 3;
  bool log = false;
  command_line flags("Networks with several learning rates and folds, over tasks");
  flags.add("tasks", tasks_here, 1, 16, "tasks in this process, unless TF_CONFIG names a cluster");
  flags.add("steps", step_count, 2, 1'000'000, "training steps");
  flags.add("folds", fold_count, 2, 16,
            "parts of the rows; for each rate and part, one network is trained on the other parts");
  flags.add("rates", rate_count, 1, static_cast<std::int64_t>(std::size(rates)),
            "number of learning rates, from 0.03 downwards");
  flags.add("log_device_placement", log, "print the device of each node");
  if (!flags.parse(argc, argv)) return 0;
  const int steps = static_cast<int>(step_count);
  plan_of_run plan{task_count(tasks_here), static_cast<int>(fold_count), static_cast<int>(rate_count), true};
  const ensemble spread(plan);
  return on_tasks(spread.g, plan.tasks, [&](const session_target& target) {
    session s(spread.g, {.threads = 1, .log_device_placement = log, .target = target});
    const outcome found = train(spread, s, steps);
    report(found, plan);
    plan.pinned = false;
    const ensemble other(plan);
    session alone(other.g, {.threads = 1});
    const outcome one = train(other, alone, steps);
    const bool equal = found == one && equal_variables(spread.g, s, other.g, alone);
    std::printf("%d networks: %.2f ms a step on %d tasks, %.2f ms in one process\n", plan.members(),
                found.seconds * 1e3 / (steps - 1), plan.tasks, one.seconds * 1e3 / (steps - 1));
    std::printf("errors and variables %s those of one process\n", equal ? "equal, to the bit," : "differ from");
    return equal ? 0 : 1;
  });
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
