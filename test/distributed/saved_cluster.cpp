// The checkpoints of a cluster: a run that is cut and goes on, with other servers, has the bits of one that nobody
// disturbed; what is damaged, or dies, is said, and leaves the checkpoint before it; servers follow schedules.
#include <signal.h>
#include <stdlib.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/ops/dropout.hpp>
#include <weft/ops/gather.hpp>
#include <weft/train/saved_run.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

struct folder {
  std::string path = (std::filesystem::temp_directory_path() / "weft_cluster_XXXXXX").string();
  folder() { BOOST_REQUIRE(::mkdtemp(path.data())); }
  ~folder() { std::filesystem::remove_all(path); }
};

using rows = dims<dyn<"batch">, 6>;
using numbers = dims<dyn<"batch">>;

/// Dropout, rows of a table, a variable that is averaged and a counter: all that a checkpoint must have.
struct model {
  graph g{5};
  node<float, rows> x = placeholder<float, rows>(g, "x");
  node<std::int64_t, numbers> words = placeholder<std::int64_t, numbers>(g, "words");
  variable_node<float, dims<6, 5>> w = variable<float, dims<6, 5>>(g, "w", init::normal{.stddev = 0.3f});
  variable_node<float, dims<5>> b = variable<float, dims<5>>(g, "b", init::zeros{});
  variable_node<float, dims<9, 5>> table = variable<float, dims<9, 5>>(g, "table", init::normal{.stddev = 0.3f});
  variable_node<float> average = variable<float>(g, "average", 0.5f, variable_kind::averaged);
  node<float> loss = let(mean(square(dropout(tanh(matmul(x, w) + b), 0.25f) - gather<0>(table, words))));
  node<float> note = assign(average, average * 0.75f + loss * 0.25f);
  effect train;

  template <class Make>
  explicit model(const Make& make) : train(make(loss, global_step(g))) {}
};

const auto by_momentum = [](const auto& loss, const auto& step) {
  return momentum{.learning_rate = piecewise_constant(step, {4, 11}, {0.3, 0.2, 0.1}), .momentum = 0.9}.minimize(loss,
                                                                                                               step);
};
const auto by_adam = [](const auto& loss, const auto& step) {
  return adam{.learning_rate = linear_warmup(exponential_decay(0.05, step, 10, 0.5), 5)}.minimize(loss, step);
};

/// Worker `index`'s examples of a step.
std::pair<tensor<float, rows>, tensor<std::int64_t, numbers>> data_of(std::int64_t step, int index) {
  tensor<float, rows> x(shape(4, 6));
  tensor<std::int64_t, numbers> words(shape{4});
  const random_stream random(17, static_cast<std::uint64_t>(step * 2 + index));
  for (std::uint64_t i = 0; i < 24; ++i) x.data()[i] = static_cast<float>(random.normal(i));
  for (std::uint64_t i = 0; i < 4; ++i) words.data()[i] = static_cast<std::int64_t>(random.uniform(100 + i) * 9);
  return {x, words};
}

constexpr std::int64_t last_step = 20;

/// A cluster that goes on from the folder's checkpoint to its end, or to a step at which all of its tasks vanish;
/// what went wrong with each worker.
template <class Strategy, class Make>
std::vector<std::string> live(const std::string& path, Strategy strategy, const Make& make, int ps, int workers,
                              std::int64_t cut = last_step) {
  return test::run_tasks(ps, workers, in_process{}, [&](basic_server<in_process>& here) {
    model m(make);
    replicated_session s(m.g, here, strategy, {.threads = 1}, 20s);
    std::int64_t position = 0;
    saver keeper({.max_to_keep = 0, .timeout = 20s});
    keeper.add("position", position);
    supervised_session run(s,
                           {.checkpoints = saved_in(path, keeper, s), .save = {.steps = 3}, .handle_signals = false},
                           {stop_at_step(last_step)});
    if (here.index() > 0) position = run.global_step();
    auto step = run.prepare(fetch(m.loss, m.train, m.note), feed(m.x, m.words));
    while (!run.should_stop()) {
      test::require_in_task(position == run.global_step(), "the position is that of the step");
      if (run.global_step() == cut) return;
      const auto [x, words] = data_of(position++, here.index());
      step(x, words);
    }
    run.close(20s);
  });
}

/// The variables of the latest checkpoint, slots among them: their names, kinds and bytes.
std::vector<std::string> content(const std::string& path) {
  const checkpoint_reader last(latest_checkpoint(path).value());
  BOOST_TEST(last.step() == last_step);
  std::vector<std::string> all;
  for (const checkpoint_reader::record& r : last.variables()) {
    std::string bytes(r.entry->bytes, '\0');
    last.read(r, bytes.data());
    all.push_back(r.entry->name + " " + r.kind + " " + bytes);
  }
  BOOST_TEST(all.size() >= 8u);
  return all;
}

void all_well(const std::vector<std::string>& problems) {
  for (const std::string& each : problems) BOOST_TEST(each == "");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_is_cut_again_and_again_has_the_bits_of_an_undisturbed_one) {
  std::mt19937 random(3);
  const auto compare = [&](const auto& make) {
    const folder straight;
    all_well(live(straight.path, parameter_server<synchronous>{}, make, 2, 2));
    const std::vector<std::string> expected = content(straight.path);
    for (int with = 0; with < 3; ++with) {  // parameter servers, all-reduce, and each in turn
      const folder disturbed;
      std::int64_t cut = 0;
      for (int lives = 0; cut < last_step; ++lives) {
        cut += 1 + static_cast<std::int64_t>(random() % 9);
        const std::int64_t to = std::min(cut, last_step);
        if (with == 1 || (with == 2 && lives % 2 == 1))
          all_well(live(disturbed.path, collective{}, make, 0, 2, to == last_step ? -1 : to));
        else
          all_well(live(disturbed.path, parameter_server<synchronous>{}, make, 1 + lives % 3, 2,
                        to == last_step ? -1 : to));
      }
      BOOST_TEST((content(disturbed.path) == expected));
    }
  };
  compare(by_momentum);
  compare(by_adam);
}
