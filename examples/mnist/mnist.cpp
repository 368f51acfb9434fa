// A 784-H-10 sigmoid classifier of clothes, trained in one process or by a cluster: TensorFlow's distributed MNIST
// program, in typed C++. The usual run in one process reaches a test accuracy of 0.885, or ends with an error. `--help`
// lists the flags.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <weft/data/fashion_mnist.hpp>
#include <weft/distributed.hpp>
#include <weft/train/progress.hpp>
#include <weft/train/supervised_session.hpp>
#include <weft/weft.hpp>

#include "../checkpoints.hpp"
#include "../event_log.hpp"
#include "../optimizers.hpp"
#include "../supervised.hpp"
#include "flags.hpp"
#include "report.hpp"

using namespace weft;

namespace {

constexpr double stated_accuracy = 0.885;

using image_batch = tensor<float, dims<dyn<"batch">, 784>>;
using label_batch = tensor<std::int32_t, dims<dyn<"batch">>>;

/// The model. The width of the hidden layer is an extent with a name: the compiler checks that all who share it agree,
/// and the flag gives it its value before the variables are made.
struct classifier {
  graph g;
  node<float, dims<dyn<"batch">, 784>> images;
  node<std::int32_t, dims<dyn<"batch">>> labels;
  node<float, dims<dyn<"batch">, 10>> logits;
  node<float> loss, accuracy;
  training train;

  /// `place` says where variables live: on this process, or on the parameter servers. `steps`: of the whole run.
  template <class Place>
  classifier(const flags& f, std::int64_t steps, const Place& place)
      : g(static_cast<std::uint64_t>(f.seed)),
        images(placeholder<float, dims<dyn<"batch">, 784>>(g, "images")),
        labels(placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels")),
        logits(two_layers(f.hidden_units, place)),
        loss(mean(softmax_cross_entropy(logits, labels))),
        accuracy(mean(cast<float>(argmax<1>(logits) == labels))),
        train(minimize(f.optimizer, f.rate(), f.schedule, steps, loss)) {}

 private:
  template <class Place>
  node<float, dims<dyn<"batch">, 10>> two_layers(std::int64_t hidden_units, const Place& place) {
    const device_scope on(g, place);
    g.set(dyn<"hidden">, hidden_units);
    auto w1 = variable<float, dims<784, dyn<"hidden">>>(g, "hidden/weights", init::normal{.stddev = 0.05});
    auto b1 = variable<float, dims<dyn<"hidden">>>(g, "hidden/bias", init::zeros{});
    auto w2 = variable<float, dims<dyn<"hidden">, 10>>(g, "softmax/weights", init::normal{.stddev = 0.1});
    auto b2 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});
    auto hidden = sigmoid(matmul(images, w1) + b1);
    return let(matmul(hidden, w2) + b2);
  }
};

/// How far a run goes and which part of the data is this process's.
struct plan_of_run {
  std::int64_t steps, steps_per_epoch, images_per_step;
  std::size_t worker = 0, workers = 1;
};

plan_of_run plan_run(const flags& f, std::size_t images, std::size_t workers) {
  if (images < workers)
    refuse("there are " + std::to_string(images) + " images for " + std::to_string(workers) +
           " workers; each needs one at least");
  // An asynchronous step is one worker's, a synchronous one takes a batch of every worker.
  const bool together = f.strategy == "sync" || f.strategy == "allreduce";
  const std::int64_t at_once = f.batch_size * (together ? static_cast<std::int64_t>(workers) : 1);
  const std::int64_t per_epoch = (static_cast<std::int64_t>(images) + at_once - 1) / at_once;
  return {f.train_steps ? f.train_steps : f.epochs * per_epoch, per_epoch, at_once,
          static_cast<std::size_t>(f.task_index), workers};
}

/// What all workers must be told alike, beside the model and the seed. Their batches may differ.
std::string settings_of(const plan_of_run& run, std::size_t images) {
  return std::to_string(run.steps) + " steps on " + std::to_string(images) + " images";
}

/// Goes over the data, a shuffled epoch after the other, until `steps` steps are made. `step(x, y)` makes one: it
/// returns its cost, and how many steps have been made in all.
template <class Step>
result train(const flags& f, const plan_of_run& run, const data::dataset<784>& images, time_table& time, Step step) {
  result r{.strategy = f.strategy, .workers = static_cast<std::int64_t>(run.workers)};
  progress shown({.steps = run.steps,
                  .steps_per_epoch = run.steps_per_epoch,
                  .items_per_step = run.images_per_step,
                  .mode = f.progress});
  const auto start = time_table::clock::now();
  std::int64_t first = -1, done = 0;
  for (std::uint64_t epoch = 0; done < run.steps; ++epoch) {
    const auto mine = images.shuffled(static_cast<std::uint64_t>(f.seed), epoch).shard(run.worker, run.workers);
    for (const auto& [x, y] : mine.batches(static_cast<std::size_t>(f.batch_size))) {
      time.mark("making batches");
      const auto [cost, made] = step(x, y);
      if (first < 0) first = made - 1;
      done = made;
      r.final_cost = cost;
      shown.update(std::min(done, run.steps), cost);
      check_cost(cost, made, f.rate());
      if (done >= run.steps) break;
    }
  }
  shown.finish();
  r.seconds = std::chrono::duration<double>(time_table::clock::now() - start).count();
  r.steps_per_s = static_cast<double>(done - first) / r.seconds;
  r.images_per_s = r.steps_per_s * static_cast<double>(run.images_per_step);
  return r;
}

double test_accuracy(session& s, const classifier& model, const data::dataset<784>& images) {
  auto step = s.prepare(fetch(model.accuracy), feed(model.images, model.labels));
  double right = 0;
  for (const auto& [x, y] : images.batches(1000)) right += step(x, y) * static_cast<double>(y.elements());
  return right / static_cast<double>(images.size());
}

void report(const flags& f, const result& r, const time_table& time) {
  print(r, stdout);
  time.print(stdout);
  if (!f.json.empty()) write_json(r, f.json);
  check_output();
  check_accuracy(
      r.test_accuracy,
      f.accuracy_to_reach(usual_flags(), f.strategy == "local" && f.hidden_units >= 100 ? stated_accuracy : 0));
}

run_settings settings_of(const flags& f) {
  run_settings all = f.settings("mnist");
  all.emplace_back("hidden_units", std::to_string(f.hidden_units));
  return all;
}

void run_alone(const flags& f) {
  time_table time;
  run_position at;
  kept_run kept(f.checkpoint_dir, f.resume, settings_of(f), at);
  event_log log(f.log_dir);
  const auto images = data::fashion_mnist("train", f.data_dir);
  const auto test_images = data::fashion_mnist("test", f.data_dir);
  time.mark("reading the images");

  const plan_of_run plan = plan_run(f, images.size(), 1);
  classifier model(f, plan.steps, f.place());
  session s{model.g, {.threads = static_cast<int>(f.threads), .device = f.place()}};
  std::vector<hook> hooks{call_every({.steps = 1}, [&](auto&, auto&) { time.mark("training steps"); }),
                          stop_at_step(plan.steps),
                          std::make_shared<follow_hook>(model.loss.id(), at, plan.steps_per_epoch, f.rate(),
                                                        progress_options{.steps = plan.steps,
                                                                         .steps_per_epoch = plan.steps_per_epoch,
                                                                         .items_per_step = plan.images_per_step,
                                                                         .mode = f.progress})};
  if (log)
    hooks.push_back(log_hook(log, s, model.train, f.rate(), model.loss.id(), plan.steps_per_epoch,
                             [&] { return test_accuracy(s, model, test_images); }));
  supervised_session run(s, {.checkpoints = kept.of(s), .save = f.checkpoints_every()}, hooks);
  tell_resumed(run, f);
  log.begin(run.global_step(), model.g);
  auto step = run.prepare(fetch(model.loss, model.train.step), feed(model.images, model.labels));
  time.mark("building the graph");

  result r{.strategy = f.strategy};
  const auto start = time_table::clock::now();
  const std::int64_t first = run.global_step();
  const auto seed = static_cast<std::uint64_t>(f.seed);
  make_steps(
      run, at, f.batch_size, [&](std::uint64_t epoch) { return images.shuffled(seed, epoch); },
      [&](const image_batch& x, const label_batch& y) {
        time.mark("making batches");
        step(x, y);
        if (!f.checkpoint_dir.empty() || log) time.mark("checkpoints and events");
      });
  r.seconds = std::chrono::duration<double>(time_table::clock::now() - start).count();
  r.steps_per_s = static_cast<double>(run.global_step() - first) / r.seconds;
  r.images_per_s = r.steps_per_s * static_cast<double>(plan.images_per_step);
  run.close();
  log.close();
  if (!f.checkpoint_dir.empty() || log) time.mark("checkpoints and events");
  end_by_signal(run.signal(), run.global_step(), f);
  r.final_cost = at.cost;
  r.test_accuracy = test_accuracy(s, model, test_images);
  time.mark("testing");
  report(f, r, time);
}

cluster_spec cluster_of(const flags& f) {
  cluster_spec cluster;
  if (!f.ps_hosts.empty()) cluster.add_job("ps", f.ps_hosts);
  cluster.add_job("worker", f.worker_hosts);
  return cluster;
}

/// Says at once that a task is lost: where the others go on, nothing else would tell before the end.
void tell_lost(const error& lost) {
  const char* const over_the_bar = ::isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  std::fprintf(stderr, "%slost: %s\n", over_the_bar, lost.sentence());
}

server_options options_of(const flags& f) {
  server_options options;
  if (f.job_name == "ps" || f.is_chief()) options.on_lost = tell_lost;
  return options;
}

void serve(const flags& f) {
  server here(cluster_of(f), f.job_name, static_cast<int>(f.task_index), options_of(f));
  const join_report ended = here.join();
  if (ended.interrupted) throw *ended.interrupted;
  std::string lost;
  for (const std::string& each : ended.lost) lost += (lost.empty() ? "" : "; ") + each;
  if (ended.finished.empty()) throw error(error_code::unavailable, here.name(), "no worker has finished: " + lost);
  if (!lost.empty()) std::fprintf(stderr, "not all workers have finished: %s\n", lost.c_str());
}

template <class Strategy>
void train_replica(const flags& f, const plan_of_run& run, const classifier& model, server& here, Strategy strategy,
                   const data::dataset<784>& images, const data::dataset<784>& test_images, time_table& time) {
  replicated_session s(model.g, here, strategy, {.threads = static_cast<int>(f.threads), .device = f.place()},
                       std::chrono::seconds(60), settings_of(run, images.size()));
  auto step = s.prepare(fetch(model.loss, model.train.step), feed(model.images, model.labels));
  time.mark("meeting the others");

  result r = train(f, run, images, time, [&](const image_batch& x, const label_batch& y) {
    const auto [cost, _] = step.compute(x, y);
    time.mark("computing gradients");
    step.exchange();
    time.mark("exchanging with others");
    return std::pair(cost, s.global_step());
  });
  s.finish();
  time.mark("exchanging with others");
  if (!f.is_chief()) return;
  r.test_accuracy = test_accuracy(s.local(), model, test_images);
  time.mark("testing");
  report(f, r, time);
}

void work(const flags& f) {
  time_table time;
  // First of all the address: where it is taken there is no need to read anything.
  server here(cluster_of(f), f.job_name, static_cast<int>(f.task_index), options_of(f));
  const auto images = data::fashion_mnist("train", f.data_dir);
  const auto test_images = data::fashion_mnist("test", f.data_dir);
  time.mark("reading the images");

  const plan_of_run run = plan_run(f, images.size(), static_cast<std::size_t>(here.cluster().num_tasks("worker")));
  classifier model(f, run.steps, replica_device_setter(here.cluster()));
  time.mark("building the graph");
  if (f.strategy == "async")
    return train_replica(f, run, model, here, parameter_server<asynchronous>{}, images, test_images, time);
  if (f.strategy == "sync")
    return train_replica(f, run, model, here, parameter_server<synchronous>{}, images, test_images, time);
  train_replica(f, run, model, here, collective{}, images, test_images, time);
}

}  // namespace

int main(int argc, char** argv) try {
  const auto f = parse_flags(argc, argv);
  if (!f) {
    check_output();
    return 0;
  }
  if (!f->json.empty() && f->is_chief()) check_writable(f->json);
  add_update_rules();
  if (f->strategy == "local")
    run_alone(*f);
  else if (f->job_name == "ps")
    serve(*f);
  else
    work(*f);
  check_output();
} catch (const std::bad_alloc&) {
  std::fputs("error: there is not enough memory\n", stderr);
  return 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
