// SPDX-License-Identifier: BSL-1.0
// Times what a step costs before it runs as it will: the schedule and plan of deep networks, new extents, and extents
// in rotation. Prints one JSON object for each. Recording the graph is not counted.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>
#include <weft/session/step_plan.hpp>
#include <weft/weft.hpp>

#include "networks.hpp"
#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage =
    "bench_planner [plan [--layers N] [--lanes N] [--infer] | mlp [--sizes N] [--infer] | sum [--sizes N]] [--seconds "
    "S]";

using inputs = dims<dyn<"batch">, 8>;

/// Seconds for a network of layers that are all of one type: until a first step can run, for other extents after that,
/// and of a step that is bound.
struct planning {
  double schedule, plan, bind, step;
};

template <class Step, class... Fed>
double call(Step& step, const Fed&... fed) {
  const auto begin = bench::steady::now();
  step(fed...);
  return bench::seconds_since(begin);
}

/// `prepare()` makes the step, `call_with(step, batch)` calls it and returns how long that took.
template <class Prepare, class Call>
planning measure(double seconds, const Prepare& prepare, const Call& call_with) {
  std::vector<double> schedule, plan, bind, steps;
  for (const auto start = bench::steady::now(); schedule.size() < 3 || bench::seconds_since(start) < seconds;) {
    const auto begin = bench::steady::now();
    auto step = prepare();
    schedule.push_back(bench::seconds_since(begin));
    // A step's own time is taken right after the call that planned or bound it, for the same extents.
    const auto beyond_a_step = [&](int batch) {
      const double first = call_with(step, batch);
      std::vector<double> later;
      for (int i = 0; i < 5; ++i) later.push_back(call_with(step, batch));
      steps.push_back(bench::summarise(later).median);
      return first - steps.back();
    };
    plan.push_back(beyond_a_step(1));
    bind.push_back(beyond_a_step(2));
  }
  const auto median = [](const std::vector<double>& samples) { return bench::summarise(samples).median; };
  return {median(schedule), median(plan), median(bind), median(steps)};
}

void deep_network(int layers, int lanes, bool infer, double seconds) {
  graph g(1);
  auto x = placeholder<float, inputs>(g, "inputs");
  std::vector<node<float, inputs>> values{x};
  for (int i = 0; i < layers; ++i) {
    name_scope within(g, "layer" + std::to_string(i));
    auto w = variable<float, dims<8, 8>>(g, "weights", init::uniform{-0.5, 0.5});
    auto b = variable<float, dims<8>>(g, "bias", init::zeros{});
    values.push_back(let(tanh(matmul(values.back(), w) + b)));
  }
  auto loss = mean(square(values.back()));
  session s{g, {.threads = 1, .inter_op_threads = lanes}};
  planning p;
  const tensor<float, inputs> two{shape(2, 8)};
  const auto call_with = [&](auto& step, int batch) {
    return call(step, tensor_view<const float, inputs>(two.data(), shape(batch, 8)));
  };
  if (infer) {
    p = measure(seconds, [&] { return s.prepare(fetch(values.back()), feed(x)); }, call_with);
  } else {
    auto train = gradient_descent{.learning_rate = 1e-3}.minimize(loss);
    p = measure(seconds, [&] { return s.prepare(fetch(loss, train), feed(x)); }, call_with);
  }
  std::printf(
      "{\"peer\": \"weft\", \"layers\": %d, \"mode\": \"%s\", \"lanes\": %d, \"ms_median\": %.2f, \"schedule_ms\": "
      "%.2f, \"step_ms\": %.3f, \"bind_share\": %.3f}\n",
      layers, infer ? "infer" : "train", lanes, (p.schedule + p.plan) * 1e3, p.schedule * 1e3, p.step * 1e3,
      p.bind / (p.schedule + p.plan));
  std::fflush(stdout);
}

double resident_mb() {
  long pages = 0, resident = 0;
  if (std::FILE* const f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

/// Extents of 1 to `sizes` in rotation: what a step takes beyond steps that are each called with one of them alone, in
/// the same order; and, as a further figure, beyond its own second call with the same, which finds everything in the
/// caches. The median of all rounds counts for each size.
template <class Prepare, class Call>
void rotate(const char* what, int sizes, double seconds, const Prepare& prepare, const Call& call_with) {
  const auto n = static_cast<std::size_t>(sizes);
  auto step = prepare();
  std::vector<decltype(prepare())> of_one_size;
  std::vector<double> first(n);
  std::vector<std::vector<double>> changing(n), repeated(n), alone(n);
  const double before = resident_mb();
  for (std::size_t i = 0; i < n; ++i) first[i] = call_with(step, static_cast<int>(i) + 1);
  const double after = resident_mb();
  for (std::size_t i = 0; i < n; ++i) of_one_size.push_back(prepare());
  const auto round = [&](std::vector<std::vector<double>>& samples, const auto& seconds_of) {
    for (std::size_t i = 0; i < n; ++i) samples[i].push_back(seconds_of(i, static_cast<int>(i) + 1));
  };
  for (const auto start = bench::steady::now();
       changing[0].size() < 7 || (changing[0].size() < 200 && bench::seconds_since(start) < seconds);) {
    round(changing, [&](std::size_t, int size) { return call_with(step, size); });
    round(alone, [&](std::size_t i, int size) { return call_with(of_one_size[i], size); });
    round(repeated, [&](std::size_t, int size) {
      call_with(step, size);
      return call_with(step, size);
    });
  }
  const auto mean = [&](const auto& samples) {
    double sum = 0;
    for (const auto& of_size : samples) sum += bench::summarise(of_size).median;
    return sum / sizes * 1e6;
  };
  double all_first = 0;
  for (const double seconds_of : first) all_first += seconds_of / sizes * 1e6;
  std::printf(
      "{\"peer\": \"weft\", \"rotation\": \"%s\", \"sizes\": %d, \"us\": %.3f, \"beyond_repeated_us\": %.3f, "
      "\"step_us\": %.3f, \"first_us\": %.2f, \"bindings\": %zu, \"resident_mb\": %.1f}\n",
      what, sizes, mean(changing) - mean(alone), mean(changing) - mean(repeated), mean(repeated), all_first,
      step.prepared().plan().bindings(), after - before);
  std::fflush(stdout);
}

/// The classifier of bench_step. All sizes are read from the same memory, so that the caches hold what is fed.
void mlp(int sizes, bool infer, double seconds) {
  graph g(1);
  auto images = placeholder<float, bench::mlp_images>(g, "images");
  auto labels = placeholder<std::int32_t, bench::label_dims>(g, "labels");
  const bench::network n = bench::mlp(g, images, labels);
  session s{g, {.threads = 1}};
  const auto x = bench::random_images<bench::mlp_images>(shape(sizes, 784));
  const auto y = bench::some_labels(sizes);
  const auto first = [&](int batch) {
    return tensor_view<const float, bench::mlp_images>(x.data(), shape(batch, 784));
  };
  const auto first_labels = [&](int batch) {
    return tensor_view<const std::int32_t, bench::label_dims>(y.data(), shape(batch));
  };
  if (infer)
    rotate(
        "mlp infer, fetched output", sizes, seconds, [&] { return s.prepare(fetch(n.logits), feed(images)); },
        [&](auto& step, int batch) { return call(step, first(batch)); });
  else
    rotate(
        "mlp train", sizes, seconds, [&] { return s.prepare(fetch(n.loss, n.train), feed(images, labels)); },
        [&](auto& step, int batch) { return call(step, first(batch), first_labels(batch)); });
}

/// A step that is next to nothing, so that a change of extents shows.
void sum_of_few(int sizes, double seconds) {
  graph g;
  using few = dims<dyn<"n">>;
  auto x = placeholder<float, few>(g, "x");
  session s{g, {.threads = 1}};
  const tensor<float, few> zeros{shape(sizes)};
  rotate(
      "sum", sizes, seconds, [&] { return s.prepare(fetch(sum(x)), feed(x)); },
      [&](auto& step, int n) { return call(step, tensor_view<const float, few>(zeros.data(), shape(n))); });
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 2.0);
  if (a.empty()) {
    for (const bool infer : {false, true})
      for (const int lanes : {1, 2})
        for (const int layers : {1000, 2000, 4000}) deep_network(layers, lanes, infer, seconds);
    for (const bool infer : {false, true}) mlp(100, infer, seconds);
    for (const int sizes : {100, 1000, 3000}) sum_of_few(sizes, seconds);
    return 0;
  }
  const bool of_mlp = a.take("mlp"), of_sum = !of_mlp && a.take("sum"), infer = !of_sum && a.take("--infer");
  if (!of_mlp && !of_sum) a.take("plan");
  const int sizes = of_mlp || of_sum ? a.take("--sizes", 100) : 0;
  const int layers = sizes ? 0 : a.take("--layers", 4000), lanes = sizes ? 1 : a.take("--lanes", 1);
  a.finish(usage);
  if (of_mlp)
    mlp(sizes, infer, seconds);
  else if (of_sum)
    sum_of_few(sizes, seconds);
  else
    deep_network(layers, lanes, infer, seconds);
}
