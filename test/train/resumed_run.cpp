// SPDX-License-Identifier: BSL-1.0
// A run that is killed at any moment and started again ends with the bits of one that nobody disturbed: variables, the
// optimizer's slots, the random numbers of dropout, and the position in the data.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <weft/checkpoint/weights.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/train/metrics.hpp>
#include <weft/train/saved_run.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t last_step = 400;

/// A program that trains until `last_step`, from wherever it was, and writes its weights then; it kills itself after
/// `steps`, if that is said.
void train(const std::string& folder, int steps = -1) {
  graph g(7);
  auto x = placeholder<float, dims<dyn<"batch">, 8>>(g, "x");
  auto w = variable<float, dims<8, 4>>(g, "w", init::normal{.stddev = 0.3f});
  auto b = variable<float, dims<4>>(g, "b", init::zeros{});
  auto rate = placeholder<float>(g, "rate");
  auto loss = mean(square(dropout(tanh(matmul(x, w) + b), rate) - 0.5f));
  auto train = adam{.learning_rate = 0.01}.minimize(loss);
  session s(g, {.threads = 1});

  std::uint64_t position = 1;  // in a sequence of numbers that stands for data
  saver keeper({.shards = 2, .max_to_keep = 2});
  keeper.add("position", position);
  tensor<float, dims<dyn<"batch">, 8>> batch(shape(16, 8));
  // An evaluation draws random numbers too, so it must come at the steps at which it would have come.
  auto evaluate = s.prepare(fetch(loss), feed(x, rate));
  supervised_session run(s, {.checkpoints = saved_in(folder + "/checkpoints", keeper, s), .save = {.steps = 7}},
                         {stop_at_step(last_step),
                          call_every({.steps = 25}, [&](run_control&, const step_report&) { evaluate(batch, 0.0f); })});
  auto step = run.prepare(fetch(loss, train), feed(x, rate));
  while (!run.should_stop()) {
    for (std::int64_t i = 0; i < 16 * 8; ++i) {
      position = position * 6364136223846793005u + 1442695040888963407u;
      batch.data()[i] = static_cast<float>(position >> 40) / 16777216.0f - 0.5f;
    }
    step(batch, 0.25f);
    if (--steps == 0) ::raise(SIGKILL);
  }
  run.close(60s);
  save_weights(folder + "/weights.safetensors", s);
}

/// Runs train() in a process of its own; kills it after `life` or `steps`, if that is said. Returns whether it came to
/// its end.
bool run_process(const std::string& folder, std::chrono::microseconds life = {}, int signal = SIGKILL, int steps = -1) {
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    try {
      train(folder, steps);
      ::_exit(0);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(3);
  }
  if (life.count() > 0) {
    std::this_thread::sleep_for(life);
    ::kill(child, signal);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) {
    BOOST_TEST(WTERMSIG(status) == signal);
    return false;
  }
  BOOST_REQUIRE(WEXITSTATUS(status) == 0);
  return std::filesystem::exists(folder + "/weights.safetensors");
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

struct folder {
  std::string path = (std::filesystem::temp_directory_path() / "weft_resumed_XXXXXX").string();
  folder() { BOOST_REQUIRE(::mkdtemp(path.data())); }
  ~folder() { std::filesystem::remove_all(path); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_is_killed_again_and_again_has_the_bits_of_an_undisturbed_one) {
  const folder straight, disturbed;
  const auto begin = std::chrono::steady_clock::now();
  BOOST_REQUIRE(run_process(straight.path));
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  const std::string expected = bytes_of(straight.path + "/weights.safetensors");
  BOOST_REQUIRE(!expected.empty());

  std::mt19937 random(5);
  // The first ones die between two steps, however fast the machine is; the others at any time, in the middle of a save
  // too.
  BOOST_TEST(!run_process(disturbed.path, {}, SIGKILL, 60));
  BOOST_TEST(!run_process(disturbed.path, {}, SIGKILL, 120));
  int kills = 0;
  bool ended = false;
  while (!ended && kills < 60) {
    // A run that goes on does what is left; the last ones may come to their end.
    const std::chrono::microseconds life(1000 + random() % static_cast<unsigned>(whole.count() / 3 + 1));
    ended = run_process(disturbed.path, life);
    kills += !ended;
  }
  if (!ended) BOOST_REQUIRE(run_process(disturbed.path));
  BOOST_TEST((bytes_of(disturbed.path + "/weights.safetensors") == expected));
}

BOOST_AUTO_TEST_CASE(a_run_that_is_asked_to_end_saves_and_goes_on) {
  const folder straight, asked;
  BOOST_REQUIRE(run_process(straight.path));
  // SIGTERM ends the run in order after a last checkpoint, so the weights are there each time, and the last ones are
  // those of the end.
  for (int i = 0; i < 3; ++i) run_process(asked.path, 20ms * (i + 1), SIGTERM);
  BOOST_REQUIRE(run_process(asked.path));
  BOOST_TEST((bytes_of(asked.path + "/weights.safetensors") == bytes_of(straight.path + "/weights.safetensors")));
}

// An evaluation that is stopped in its middle goes on with what a saver has kept, in bits.
BOOST_AUTO_TEST_CASE(metrics_are_kept_by_a_saver) {
  const tensor<float, dims<4>> labels{0, 1, 1, 0}, predictions{0.1f, 0.3f, 0.9f, 0.8f};
  const auto survives = [&](auto metric, auto restored, auto value) {
    metric.update(labels, predictions, 0.7);
    detail::from_archive(detail::to_archive(metric), restored, "metric");
    metric.update(predictions > 0.5f, predictions);
    restored.update(predictions > 0.5f, predictions);
    BOOST_TEST(value(restored) == value(metric));
  };
  const auto value = [](const auto& metric) { return metric.value(); };
  const auto with = [&](auto metric) { survives(metric, metric, value); };
  with(metrics::mean_squared_error());
  with(metrics::root_mean_squared_error());
  with(metrics::mean_absolute_error());
  with(metrics::r2_score());
  with(metrics::f1_score(0.2));
  with(metrics::auc(metrics::curve::pr, 50));
  with(metrics::exact_auc());
  metrics::exact_auc more;
  more.update(labels, predictions);
  survives(metrics::exact_auc(), more, value);  // its earlier content is gone

  const tensor<std::int32_t, dims<2>> classes{0, 2};
  const tensor<float, dims<2, 3>> scores{1, 2, 3, 4, 5, 6};
  const auto with_classes = [&](auto metric, auto read) {
    metric.update(classes, scores);
    auto restored = metric;
    restored.reset();
    detail::from_archive(detail::to_archive(metric), restored, "metric");
    BOOST_TEST(read(restored) == read(metric));
    BOOST_TEST(read(metric) == 0.5);
  };
  with_classes(metrics::accuracy(), value);
  with_classes(metrics::top_k_accuracy(2), value);
  with_classes(metrics::confusion_matrix(3), [](const auto& matrix) { return matrix.accuracy(); });

  metrics::perplexity words, same;
  words.update(tensor<float, dims<2>>{1, 2}, tensor<float, dims<2>>{1, 3});
  detail::from_archive(detail::to_archive(words), same, "words");
  BOOST_TEST(same.value() == std::exp(1.75));

  // Counts of other thresholds mean something else.
  metrics::auc fewer(metrics::curve::roc, 20);
  BOOST_CHECK_EXCEPTION(
      detail::from_archive(detail::to_archive(metrics::auc()), fewer, "auc"), error,
      test::says(error_code::failed_precondition, "number of thresholds is 200, but this one's is 20"));
}
