// SPDX-License-Identifier: BSL-1.0
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>

#include <weft/summary.hpp>
#include <weft/train/optimizers.hpp>

#include <cstdlib>
#include <string>

#include "data/files.hpp"

using namespace weft;

namespace {

void write_runs(const std::string& folder) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  const auto w = [&] {
    const name_scope layer(g, "layer");
    const device_scope there(g, "/job:ps/task:0"_device);
    return variable<float, dims<4, 3>>(g, "w", init::normal{});
  }();
  static_cast<void>(gradient_descent{.learning_rate = 0.1}.minimize(mean(square(matmul(x, w)))));

  event_writer log(folder);
  log.add_graph(g);
  log.add_hyperparameters({{"rate", 0.5}, {"optimizer", "adam"}, {"shuffled", true}}, {"train/loss"});
  for (int i = 3; i < 9; ++i) log.add_scalar("again", i, i);
  log.add_session_log(session_status::start, 5);
  for (int i = 5; i < 7; ++i) log.add_scalar("again", 10 * i, i);
  for (int i = 0; i < 10; ++i) log.add_scalar("train/loss", 1.0 / (1 << i), i);
  tensor<float, dims<41>> even;
  for (int i = 0; i < 41; ++i) even(i) = static_cast<float>(-2 + 0.125 * i);
  log.add_histogram("w", even, 2);
  log.add_image("grey", tensor<std::uint8_t, dims<2, 3, 1>>{0, 50, 100, 150, 200, 250}, 1);
  tensor<std::uint8_t, dims<3, 1, 2, 3>> batch;
  for (std::uint8_t i = 0; i < 18; ++i) batch.data()[i] = static_cast<std::uint8_t>(10 * i);
  log.add_image("batch", batch, 1, 2);
  log.add_image("large", tensor<float, dims<200, 300, 4>>(tensor<float>(1.f) + tensor<float, dims<200, 300, 4>>()), 1);
  log.add_text("notes", "**bold**, and \u03c0", 4);
  log.end_hyperparameters(run_status::success);
  log.close();
}

}  // namespace

// With WEFT_WRITE_EVENTS=FOLDER that is all that is done: test/tools/weft.py reads them.
BOOST_AUTO_TEST_CASE(tensorboard_reads_all_kinds) {
  if (const char* there = std::getenv("WEFT_WRITE_EVENTS")) return write_runs(there);
  folder f;
  write_runs((f.path / "run").string());
  const char* python = std::getenv("WEFT_PYTHON");
  const std::string command = "\"" + std::string(python ? python : "python3") +
                              "\" " TEST_DATA "/summary/check_tensorboard.py " + (f.path / "run").string();
  const int status = std::system(command.c_str());
  BOOST_TEST_REQUIRE(WIFEXITED(status));
  constexpr int skipped = 77;
  if (WEXITSTATUS(status) != skipped) BOOST_TEST(WEXITSTATUS(status) == 0);
}
