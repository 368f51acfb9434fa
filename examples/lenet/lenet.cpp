// SPDX-License-Identifier: BSL-1.0
// LeNet on Fashion-MNIST: two convolutions with max pooling and two dense layers, TensorFlow's MNIST tutorial network
// in typed C++. The usual run reaches a test accuracy of 0.92, or ends with an error. `--help` lists the flags.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include <weft/data/fashion_mnist.hpp>
#include <weft/train/supervised_session.hpp>
#include <weft/weft.hpp>

#include "../checkpoints.hpp"
#include "../event_log.hpp"
#include "../result_file.hpp"
#include "../supervised.hpp"
#include "../test_accuracy.hpp"
#include "../training_flags.hpp"
#include "model.hpp"

using namespace weft;

namespace {

training_flags usual() {
  training_flags f;
  f.batch_size = 64, f.epochs = 5, f.schedule = "one_cycle", f.adam_rate = 0.002;
  return f;
}
constexpr double stated_accuracy = 0.92;

/// Reads the command line; nothing where --help was asked for and given.
std::optional<training_flags> parse_flags(int argc, char** argv) {
  training_flags f = usual();
  command_line line("Trains LeNet on Fashion-MNIST");
  f.add_to(line);
  if (!line.parse(argc, argv)) return {};
  return f;
}

struct result {
  double test_accuracy = 0, final_cost = 0, seconds = 0, images_per_s = 0;
};

result run(const training_flags& f) {
  run_position at;
  kept_run kept(f.checkpoint_dir, f.resume, f.settings("lenet"), at);
  event_log log(f.log_dir);
  const auto images = data::fashion_mnist("train", f.data_dir);
  const auto test_images = data::fashion_mnist("test", f.data_dir);
  const auto batches =
      images.shuffled(static_cast<std::uint64_t>(f.seed)).batches(static_cast<std::size_t>(f.batch_size));
  const auto per_epoch = static_cast<std::int64_t>(batches.size());
  const std::int64_t steps = f.train_steps > 0 ? f.train_steps : f.epochs * per_epoch;
  lenet model(f, steps, per_epoch);
  session s{model.g, {.threads = static_cast<int>(f.threads), .device = f.place()}};

  std::vector<hook> hooks{
      stop_at_step(steps),
      std::make_shared<follow_hook>(
          model.loss.id(), at, per_epoch, f.rate(),
          progress_options{
              .steps = steps, .steps_per_epoch = per_epoch, .items_per_step = f.batch_size, .mode = f.progress})};
  if (log)
    hooks.push_back(log_hook(log, s, model.train, f.rate(), model.loss.id(), per_epoch,
                             [&](std::int64_t) { return test_accuracy(s, model, test_images, 200); }));
  hooks.push_back(before_each_save([&](auto&) { log.flush(); }));
  supervised_session run(s, {.checkpoints = kept.of(s), .save = f.checkpoints_every()}, hooks);
  check_position(at, per_epoch);
  tell_resumed(run, f);
  log.begin(run.global_step(), model.g);
  if (log) log_images(log, images, run.global_step());
  auto step = run.prepare(fetch(model.loss, model.train.step), feed(model.images, model.labels));

  result r;
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t first = run.global_step();
  make_steps(run, at, batches, step);
  run.close();
  end_by_signal(run, f, log);
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  r.images_per_s = static_cast<double>((run.global_step() - first) * f.batch_size) / r.seconds;
  r.final_cost = at.cost;
  r.test_accuracy = test_accuracy(s, model, test_images, 200);
  log.scalar("test/accuracy", r.test_accuracy, run.global_step());
  log.close();
  return r;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto f = parse_flags(argc, argv);
  if (!f) {
    check_output();
    return 0;
  }
  if (!f->json.empty()) check_writable(f->json);
  const result r = run(*f);
  std::printf("test accuracy %.4f, final cost %.4f\n%.0f images/s, %.1f s of training\n", r.test_accuracy, r.final_cost,
              r.images_per_s, r.seconds);
  if (!f->json.empty())
    write_file(f->json,
               "{\"model\": \"lenet\", \"test_accuracy\": %s, \"final_cost\": %s, \"seconds\": %s, "
               "\"images_per_s\": %s}\n",
               json_number("%.4f", r.test_accuracy).c_str(), json_number("%.6g", r.final_cost).c_str(),
               json_number("%.3f", r.seconds).c_str(), json_number("%.1f", r.images_per_s).c_str());
  check_output();
  check_accuracy(r.test_accuracy, f->accuracy_to_reach(usual(), stated_accuracy));
} catch (...) {
  return tell_failure();
}
