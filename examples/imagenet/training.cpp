// SPDX-License-Identifier: BSL-1.0
#include "training.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/checkpoint/weights.hpp>
#include <weft/distributed.hpp>
#include <weft/weft.hpp>

#include "../checkpoints.hpp"
#include "../cluster_run.hpp"
#include "../event_log.hpp"
#include "../report.hpp"
#include "../supervised.hpp"
#include "evaluation.hpp"
#include "images.hpp"
#include "network.hpp"

using namespace weft;

namespace imagenet {

namespace {

constexpr double stated_accuracy = 0.85;  // of the usual run

/// Where the images are; a run of one process makes them if they are not there.
image_options images_of(const flags& f) {
  if (f.strategy == "local" && f.records.empty() && !std::filesystem::exists(f.image_dir)) {
    std::printf("writing %s from Fashion-MNIST\n", f.image_dir.c_str());
    make_image_folder(f.image_dir, f.data_dir, f.images_per_class, static_cast<std::uint64_t>(f.seed));
  }
  return f.images();
}

/// Data, and what is kept of a run beside its result.
struct surroundings {
  run_position at;
  kept_run kept;  // what is wrong with a folder is told before anything is read
  event_log log;
  image_source images, test_images;

  explicit surroundings(const flags& f)
      : kept(f.checkpoint_dir, f.resume, f.settings(), at, f.is_chief()),
        log(f.is_chief() ? f.log_dir : ""),
        images(images_of(f), find_network(f.model), "train"),
        test_images(f.images(), find_network(f.model), "val") {}
};

std::unique_ptr<network> make_network(const flags& f, const plan_of_run& plan, const variable_placement& place) {
  const training_recipe recipe = f.recipe(plan.steps, plan.steps_per_epoch);
  return find_network(f.model).make(
      {.seed = static_cast<std::uint64_t>(f.seed),
       .place = place,
       .loss = {.label_smoothing = f.label_smoothing, .auxiliary_weight = f.auxiliary_weight},
       .recipe = &recipe});
}

void report(const flags& f, const result& r, const time_table& time) {
  print(r, stdout);
  time.print(stdout);
  if (!f.json.empty()) write_json(r, f.json);
  check_output();
  const flags usual = usual_flags();
  const bool as_usual = f.model == usual.model && f.image_dir == usual.image_dir && f.records.empty() &&
                        f.weights.empty() && f.images_per_class == usual.images_per_class;
  check_accuracy(r.test_accuracy, f.accuracy_to_reach(usual, as_usual ? stated_accuracy : 0));
}

/// Trains by a session, or a replicated session, whose own session is `local`.
template <class Session>
result train_by(const flags& f, const plan_of_run& plan, Session& s, session& local, const network& net,
                const averaged_network& averages, surroundings& all, time_table& time) {
  const auto batch = static_cast<std::size_t>(f.batch_size);
  const auto batches_of = [&](std::size_t worker) { return all.images.training_batches(batch, worker, plan.workers); };
  const auto batches = batches_of(plan.worker);
  batches_of_replicas of_replicas(batches_of);
  if (!f.weights.empty() && (std::is_same_v<Session, session> || f.is_chief())) {
    net.load(f.weights, local);
    averages.restart(local);
  }
  session testing(net.g, {.threads = static_cast<int>(f.threads), .device = f.place()});
  accuracies reached;
  const auto test = [&](std::int64_t step) {
    averages.copy(local, testing);
    reached = measure(testing, net, all.test_images, batch);
    all.log.scalar("test/top_5", reached.top_5, step);
    return reached.top_1;
  };
  const run_parts parts{
      .g = net.g,
      .train = net.train,
      .cost = net.cost.id(),
      .batches = static_cast<std::int64_t>((all.images.size(plan.worker, plan.workers) + batch - 1) / batch),
      .at = all.at,
      .kept = all.kept,
      .log = all.log,
      .time = time,
      .test_accuracy = test,
      .log_images =
          [&](std::int64_t step) {
            auto some = std::get<0>(*all.images.training_batches(3, plan.worker, plan.workers).begin());
            for (std::size_t i = 0; i < some.elements(); ++i) some.data()[i] = some.data()[i] / 2 + 0.5f;
            all.log.images("images", some.data(), some.extents(), step);
          },
      .hooks = f.is_chief() ? averages.hooks(local) : std::vector<hook>()};
  result r = train_supervised(f, plan, s, local, parts, [&](auto& run, auto begin, auto make) {
    auto step = run.prepare(fetch(net.cost, net.train.step), feed(net.images, net.labels));
    begin();
    if constexpr (!std::is_same_v<Session, session>)
      if (f.survives_losses()) {
        while (!run.should_stop()) make(step, of_replicas);
        return;
      }
    make_steps(run, all.at, batches,
               [&](const network::image_batch& x, const network::label_batch& y) { make(step, x, y); });
  });
  if (!f.is_chief()) return r;
  r.top_5_accuracy = reached.top_5;
  if (!f.save_weights.empty()) weft::save_weights(f.save_weights, testing, {}, net.parameters());
  return r;
}

void train_alone(const flags& f) {
  time_table time;
  surroundings all(f);
  time.mark("listing the images");
  const plan_of_run plan = plan_run(f, all.images.size(), 1);
  const auto net = make_network(f, plan, [&](const placement_query&) { return f.place(); });
  const averaged_network averages(*net, f.average_decay);
  session s(net->g, {.threads = static_cast<int>(f.threads), .device = f.place()});
  report(f, train_by(f, plan, s, s, *net, averages, all, time), time);
}

void work(const flags& f) {
  time_table time;
  server here(cluster_of(f), f.job_name, static_cast<int>(f.task_index), options_of(f));
  surroundings all = read_or_tell(here, [&] { return surroundings(f); });
  time.mark("listing the images");
  const plan_of_run plan = plan_run(f, all.images.size(), static_cast<std::size_t>(here.cluster().num_tasks("worker")));
  const auto net =
      make_network(f, plan, replica_device_setter(here.cluster(), {.strategy = ps_strategy::greedy_by_byte_size}));
  // In every worker: their graphs must be the same.
  const averaged_network averages(*net, f.average_decay);
  time.mark("building the graph");
  with_strategy(f, [&](auto strategy) {
    replicated_session s(net->g, here, strategy, {.threads = static_cast<int>(f.threads), .device = f.place()},
                         std::chrono::seconds(60), settings_of(f, plan, all.images.size()));
    const result r = train_by(f, plan, s, s.local(), *net, averages, all, time);
    if (f.is_chief()) report(f, r, time);
  });
}

}  // namespace

void train(const flags& f) {
  if (!f.json.empty() && f.is_chief()) check_writable(f.json);
  if (!f.save_weights.empty() && f.is_chief()) check_writable(f.save_weights);
  add_update_rules();
  if (f.strategy == "local")
    train_alone(f);
  else if (f.job_name == "ps")
    serve(f);
  else
    work(f);
}

}  // namespace imagenet
