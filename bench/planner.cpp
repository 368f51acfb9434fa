// Times what a step costs before it runs as it will: the schedule and plan of deep networks, new extents, and extents
// in rotation. Prints one JSON object for each. Recording the graph is not counted.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>
#include <weft/weft.hpp>

#include "networks.hpp"
#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage =
    "bench_planner [plan [--layers N] [--lanes N] [--infer] | rotation [--sizes N] [--fetched]] [--seconds S]";

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

/// `prepare()` makes the step, `feed(step, batch)` calls it and returns how long that took.
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

void plan(int layers, int lanes, bool infer, double seconds) {
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
  const tensor<float, inputs> two(shape(2, 8));
  const auto call_with = [&](auto& step, int batch) {
    return call(step, tensor_view<const float, inputs>(two.data(), shape(batch, 8)));
  };
  if (infer) {
    p = measure(
        seconds, [&] { return s.prepare(fetch(values.back()), feed(x)); }, call_with);
  } else {
    auto train = gradient_descent{.learning_rate = 1e-3}.minimize(loss);
    p = measure(
        seconds, [&] { return s.prepare(fetch(loss, train), feed(x)); }, call_with);
  }
  std::printf(
      "{\"peer\": \"weft\", \"layers\": %d, \"mode\": \"%s\", \"lanes\": %d, \"ms_median\": %.2f, \"schedule_ms\": "
      "%.2f, \"bind_ms\": %.3f, \"step_ms\": %.3f}\n",
      layers, infer ? "infer" : "train", lanes, (p.schedule + p.plan) * 1e3, p.schedule * 1e3, p.bind * 1e3,
      p.step * 1e3);
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

/// Batches of 1 to `sizes` in rotation, and each of them again: what a change of extents costs beyond the step. Of each
/// size the least of both counts, so that what else runs on the machine does not.
template <class Step, class Call>
void rotate(const char* what, int sizes, double seconds, Step step, const Call& call_with) {
  const double before = resident_mb();
  const auto n = static_cast<std::size_t>(sizes);
  std::vector<double> first(n), changed(n, 1e9), same(n, 1e9);
  for (int batch = 1; batch <= sizes; ++batch) first[static_cast<std::size_t>(batch) - 1] = call_with(step, batch);
  int rounds = 0;
  for (const auto start = bench::steady::now(); rounds < 5 || bench::seconds_since(start) < seconds; ++rounds)
    for (std::size_t i = 0; i < n; ++i) {
      const int batch = static_cast<int>(i) + 1;
      changed[i] = std::min(changed[i], call_with(step, batch));
      if (rounds % 2 != 0) same[i] = std::min(same[i], call_with(step, batch));
    }
  const auto mean = [&](const std::vector<double>& seconds_of) {
    double sum = 0;
    for (const double s : seconds_of) sum += s;
    return sum / sizes * 1e6;
  };
  std::printf(
      "{\"peer\": \"weft\", \"rotation\": \"%s\", \"sizes\": %d, \"us\": %.3f, \"step_us\": %.2f, \"first_us\": %.2f, "
      "\"bindings\": %zu, \"resident_mb\": %.1f}\n",
      what, sizes, mean(changed) - mean(same), mean(same), mean(first), step.prepared().plan().bindings(),
      resident_mb() - before);
  std::fflush(stdout);
}

/// The classifier of bench_step. All sizes are read from the same memory, so that the caches hold what is fed.
void rotation(int sizes, bool fetched, double seconds) {
  graph g(1);
  auto images = placeholder<float, bench::mlp_images>(g, "images");
  auto labels = placeholder<std::int32_t, bench::label_dims>(g, "labels");
  const bench::network n = bench::mlp(g, images, labels);
  session s{g, {.threads = 1}};
  const auto x = bench::random_images<bench::mlp_images>(shape(sizes, 784));
  const auto y = bench::some_labels(sizes);
  const auto views = [&](auto&& f) {
    return [&, f](auto& step, int batch) {
      return f(step, tensor_view<const float, bench::mlp_images>(x.data(), shape(batch, 784)),
               tensor_view<const std::int32_t, bench::label_dims>(y.data(), shape(batch)));
    };
  };
  if (fetched)
    rotate("infer, fetched output", sizes, seconds, s.prepare(fetch(n.logits), feed(images)),
           views([](auto& step, const auto& in, const auto&) { return call(step, in); }));
  else
    rotate("train", sizes, seconds, s.prepare(fetch(n.loss, n.train), feed(images, labels)),
           views([](auto& step, const auto& in, const auto& of) { return call(step, in, of); }));
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 2.0);
  if (a.empty()) {
    for (const bool infer : {false, true})
      for (const int lanes : {1, 2})
        for (const int layers : {1000, 2000, 4000}) plan(layers, lanes, infer, seconds);
    for (const bool fetched : {false, true})
      for (const int sizes : {20, 100, 1000}) rotation(sizes, fetched, seconds);
    return 0;
  }
  const bool of_extents = a.take("rotation");
  if (!of_extents) a.take("plan");
  const bool flag = a.take(of_extents ? "--fetched" : "--infer");
  const int size = a.take(of_extents ? "--sizes" : "--layers", of_extents ? 100 : 4000);
  const int lanes = of_extents ? 1 : a.take("--lanes", 1);
  a.finish(usage);
  of_extents ? rotation(size, flag, seconds) : plan(size, lanes, flag, seconds);
}
