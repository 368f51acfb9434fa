// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <weft/train/progress.hpp>

#include <chrono>
#include <cstdio>
#include <limits>
#include <string>

#include "../../examples/result_file.hpp"
#include "errors.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

/// A clock that stands still until it is moved.
struct hand_clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<hand_clock>;
  [[maybe_unused]] static constexpr bool is_steady = true;
  static inline time_point time{};
  static time_point now() { return time; }
};

/// A file in memory's place.
struct paper {
  std::FILE* file = std::tmpfile();
  ~paper() { std::fclose(file); }
  std::string text() const {
    std::string all(static_cast<std::size_t>(std::ftell(file)), ' ');
    std::rewind(file);
    const std::size_t got = std::fread(all.data(), 1, all.size(), file);
    all.resize(got);
    return all;
  }
};

std::string run(progress_options options, std::int64_t steps, std::chrono::nanoseconds step) {
  paper out;
  options.out = out.file;
  {
    basic_progress<hand_clock> shown(options);
    for (std::int64_t i = 1; i <= steps; ++i) {
      hand_clock::time += step;
      shown.update(i, 0.5);
    }
  }
  return out.text();
}

std::size_t count(const std::string& text, char c) {
  std::size_t n = 0;
  for (char t : text) n += t == c;
  return n;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_line_says_everything) {
  const std::string text =
      run({.steps = 6000, .steps_per_epoch = 600, .items_per_step = 100, .mode = progress_mode::lines}, 1300, 10ms);
  BOOST_TEST_INFO(text);
  CHECK_SAYS(text, "step 1210/6000  epoch 3  batch 10/600  cost 0.5000  10.00 ms/step  10,000 images/s  left 0:48\n");
  CHECK_SAYS(text, "step 1300/6000  epoch 3  batch 100/600  cost 0.5000  10.00 ms/step  10,000 images/s  took 0:13\n");
}

BOOST_AUTO_TEST_CASE(a_bar_fits_into_its_line) {
  for (const std::size_t columns : {200u, 80u, 60u, 30u, 10u}) {
    const std::string text = run(
        {.steps = 6000, .steps_per_epoch = 600, .items_per_step = 100, .mode = progress_mode::bar, .columns = columns},
        1300, 10ms);
    BOOST_TEST_INFO(text);
    for (std::size_t at = 0; at != std::string::npos; at = text.find('\r', at + 1))
      BOOST_TEST(text.find("\x1b[K", at) - at - 1 < columns);
    CHECK_SAYS(text, "step 1300");
    if (columns == 80)
      CHECK_SAYS(text, "\rstep 1300/6000  epoch 3  cost 0.5000  10.00 ms/step  10,000 images/s  took 0:13\x1b[K\n");
  }
}

BOOST_AUTO_TEST_CASE(an_epoch_ends_with_its_last_batch) {
  const std::string text = run({.steps = 1200, .steps_per_epoch = 600, .mode = progress_mode::lines}, 600, 1ms);
  CHECK_SAYS(text, "step 600/1200  epoch 1  batch 600/600");
}

BOOST_AUTO_TEST_CASE(lines_come_every_few_seconds_however_many_steps_there_are) {
  const std::string text = run({.mode = progress_mode::lines}, 100'000, 100us);
  BOOST_TEST(count(text, '\n') == 5u);  // after 0.1, 3.1, 6.1 and 9.1 of 10 seconds, and at the end
  CHECK_SAYS(text, "100 us/step");
}

BOOST_AUTO_TEST_CASE(a_bar_is_one_line_drawn_over) {
  const std::string text = run({.steps = 100, .mode = progress_mode::bar}, 50, 100ms);
  BOOST_TEST(count(text, '\n') == 1u);
  BOOST_TEST(count(text, '\r') == 51u);
  CHECK_SAYS(text, "[========        ] step 50/100");
}

BOOST_AUTO_TEST_CASE(none_is_silent_and_so_is_a_run_without_steps) {
  BOOST_TEST(run({.mode = progress_mode::none}, 100, 1s).empty());
  BOOST_TEST(run({.mode = progress_mode::lines}, 0, 1s).empty());
}

BOOST_AUTO_TEST_CASE(a_file_gets_lines) { BOOST_TEST(count(run({.steps = 10}, 10, 10ms), '\r') == 0u); }

BOOST_AUTO_TEST_CASE(many_hours_and_no_end_in_sight) {
  CHECK_SAYS(run({.steps = 100'000, .mode = progress_mode::lines}, 5, 1s), "left 27:46:36");
  BOOST_TEST(run({.mode = progress_mode::lines}, 2, 1s).find("left") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_run_that_was_taken_up_again_is_not_counted_from_zero) {
  paper out;
  {
    basic_progress<hand_clock> shown({.steps = 2000, .mode = progress_mode::lines, .out = out.file});
    for (int i = 1001; i <= 1010; ++i) {
      hand_clock::time += 10ms;
      shown.update(i, 0);
    }
  }
  CHECK_SAYS(out.text(), "10.00 ms/step");
}

BOOST_AUTO_TEST_CASE(an_update_costs_next_to_nothing) {
  paper out;
  progress shown({.mode = progress_mode::lines, .out = out.file});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 1; i <= 100'000; ++i) shown.update(i, 0.5);
  // 25 ns each is usual; the bound leaves room for a busy machine and a sanitizer.
  BOOST_TEST((std::chrono::steady_clock::now() - start < 100ms));
}

BOOST_AUTO_TEST_CASE(modes_have_names) {
  BOOST_TEST((parse_progress_mode("auto") == progress_mode::automatic));
  BOOST_TEST((parse_progress_mode("none") == progress_mode::none));
  BOOST_CHECK_THROW(parse_progress_mode("loud"), error);
}

// The output of the examples at the end of a run.
BOOST_AUTO_TEST_CASE(json_stays_json_and_a_cost_that_is_no_number_ends_a_run) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  BOOST_TEST(json_number("%.4f", 0.5) == "0.5000");
  for (const double each : {nan, infinity, -infinity}) {
    BOOST_TEST(json_number("%.4f", each) == "null");
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { check_cost(each, 7, 0.5); }),
               "at step 7; lower --learning_rate, which is 0.5");
  }
  BOOST_CHECK_NO_THROW(check_cost(1e300, 7, 0.5));
}
