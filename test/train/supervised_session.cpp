// SPDX-License-Identifier: BSL-1.0
// A supervised run: hooks, the end by a hook, a signal, an exception or close(), and what is saved then.
#include <signal.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <weft/train/supervised_session.hpp>
#include <weft/weft.hpp>

using namespace weft;
using namespace std::chrono_literals;

namespace {

/// One weight that descends towards 2; the loss is fed a factor, so that it can be made infinite.
struct line {
  graph g;
  node<float> factor = placeholder<float>(g, "factor");
  variable_node<float> w = variable<float>(g, "w", 0.0f);
  node<float> loss = let(square(w - 2.0f) * factor);
  effect train = gradient_descent{.learning_rate = 0.25}.minimize(loss);
};

/// The record of what a run asks of its checkpoints, and a checkpoint of the weight.
struct memory {
  std::vector<std::int64_t> saved;
  std::int64_t kept = -1;
  float weight = 0;
  int flushed = 0;

  run_checkpoints of(session& s, line& model) {
    return {[this, &s, &model] {
              if (kept >= 0) s.set(model.w, weight);
              return kept;
            },
            [this, &s, &model](std::int64_t step) {
              saved.push_back(step);
              kept = step;
              weight = s.get(model.w);
            },
            [this](deadline) { ++flushed; }};
  }
};

bool says(const error& e, const char* words) { return std::string(e.what()).find(words) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(ends_at_a_step_and_goes_on_from_its_checkpoint) {
  memory kept;
  float straight = 0;
  {
    line model;
    session s(model.g);
    auto step = s.prepare(fetch(model.train), feed(model.factor));
    for (int i = 0; i < 7; ++i) step(1.0f);
    straight = s.get(model.w);
  }
  for (const std::int64_t last : {3, 7}) {
    line model;
    session s(model.g);
    supervised_session run(s, {.checkpoints = kept.of(s, model), .save = {.steps = 2}}, {stop_at_step(last)});
    BOOST_TEST(run.restored_step() == (last == 3 ? -1 : 3));
    BOOST_TEST(run.saved_step() == run.restored_step());  // on the disk
    auto step = run.prepare(fetch(model.loss, model.train), feed(model.factor));
    while (!run.should_stop()) step(1.0f);
    BOOST_TEST(run.global_step() == last);
    BOOST_TEST(run.stop_reason() == "step " + std::to_string(last) + " is reached");
    run.close(5s);
    run.close(5s);
    if (last == 7) BOOST_TEST(s.get(model.w) == straight);
  }
  BOOST_TEST(kept.saved == (std::vector<std::int64_t>{2, 3, 4, 6, 7}), boost::test_tools::per_element());
  BOOST_TEST(kept.flushed == 2);
  // One that has nothing left to do makes no step and writes nothing.
  line model;
  session s(model.g);
  supervised_session run(s, {.checkpoints = kept.of(s, model)}, {stop_at_step(7)});
  BOOST_TEST(run.should_stop());
  run.close(5s);
  BOOST_TEST(kept.saved.size() == 5u);
}

BOOST_AUTO_TEST_CASE(hooks_see_each_step_in_their_order) {
  struct witness final : run_hook {
    std::string& log;
    char name;
    witness(std::string& l, char n) : log(l), name(n) {}
    void begin(run_control&) override { log += {name, 'b'}; }
    void before_step(run_control&) override { log += {name, '('}; }
    void after_step(run_control& run, const step_report& r) override {
      log += {name, ')'};
      BOOST_TEST(run.global_step() == r.global_step());
    }
    void end(run_control&) override { log += {name, 'e'}; }
  };
  std::string log;
  line model;
  session s(model.g);
  supervised_session run(s, {}, {std::make_shared<witness>(log, '1'), std::make_shared<witness>(log, '2')});
  auto step = run.prepare(fetch(model.train), feed(model.factor));
  auto look = run.prepare(fetch(model.loss), feed(model.factor));
  step(1.0f);
  BOOST_TEST(look(1.0f) == 1.0f);
  BOOST_TEST(run.global_step() == 1);
  run.close(5s);
  BOOST_TEST(log == "1b2b1(2(1)2)1(2(1)2)1e2e");
  BOOST_CHECK_EXCEPTION(step(1.0f), error, [](const error& e) {
    return e.code() == error_code::failed_precondition && says(e, "close()") && says(e, "should_stop()");
  });
}

BOOST_AUTO_TEST_CASE(a_watched_value_must_be_fetched) {
  line model;
  session s(model.g);
  supervised_session run(s, {}, {nan_guard(model.loss, "the cost")});
  BOOST_CHECK_EXCEPTION((void)run.prepare(fetch(model.train), feed(model.factor)), error, [](const error& e) {
    return e.code() == error_code::failed_precondition && says(e, "the cost") && says(e, "fetch(...)");
  });
  BOOST_CHECK_NO_THROW((void)run.prepare(fetch(model.loss, model.train), feed(model.factor)));
  BOOST_CHECK_NO_THROW((void)run.prepare(fetch(model.w), feed(model.factor)));  // it trains nothing
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_ends_the_run) {
  memory kept;
  line model;
  session s(model.g);
  {
    supervised_session run(s, {.checkpoints = kept.of(s, model), .save = {.steps = 1}}, {nan_guard(model.loss)});
    auto step = run.prepare(fetch(model.train, model.loss), feed(model.factor));
    step(1.0f);
    BOOST_CHECK_EXCEPTION(step(INFINITY), error, [](const error& e) {
      return e.code() == error_code::out_of_range && says(e, "infinite at step 2") && says(e, "learning rate");
    });
  }
  BOOST_TEST(kept.saved == (std::vector<std::int64_t>{1}), boost::test_tools::per_element());
  // One that ends the run keeps the last checkpoint from before, whatever else ends the run at that step.
  for (const bool at_the_end : {false, true}) {
    s.set(model.w, 0.0f);
    memory all;
    supervised_session run(s, {.checkpoints = all.of(s, model), .save = {.steps = 1}},
                           {stop_at_step(at_the_end ? 2 : 9), nan_guard(model.loss, "the loss", on_nan::stops)});
    auto step = run.prepare(fetch(model.train, model.loss), feed(model.factor));
    step(1.0f);
    step(NAN);
    BOOST_TEST(run.should_stop());
    BOOST_TEST(run.stop_reason() == (at_the_end ? "step 2 is reached" : "the loss is NaN at step 2"));
    run.close(5s);
    BOOST_TEST(all.saved == (std::vector<std::int64_t>{1}), boost::test_tools::per_element());
    BOOST_TEST(all.weight == 1.0f);
  }
}

BOOST_AUTO_TEST_CASE(each_checkpoint_is_announced_before_it_is_written) {
  memory kept;
  line model;
  session s(model.g);
  std::vector<std::int64_t> announced;
  supervised_session run(s, {.checkpoints = kept.of(s, model), .save = {.steps = 2}},
                         {stop_at_step(5), before_each_save([&](run_control& r) {
                            BOOST_TEST(kept.saved.size() == announced.size());
                            announced.push_back(r.global_step());
                          })});
  auto step = run.prepare(fetch(model.train), feed(model.factor));
  while (!run.should_stop()) step(1.0f);
  run.close(5s);
  BOOST_TEST(announced == (std::vector<std::int64_t>{2, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST(kept.saved == announced, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(logs_calls_and_stops_early) {
  std::FILE* const out = std::tmpfile();
  line model;
  session s(model.g);
  std::vector<std::int64_t> called;
  supervised_session run(
      s, {},
      {log_every({.steps = 2}, {{model.loss.id(), "cost"}}, out),
       call_every(
           {.steps = 3}, [&](run_control& r, const step_report&) { called.push_back(r.global_step()); }, true),
       early_stop({.steps = 1}, [&] { return static_cast<double>(s.get(model.w)); },
                  {.patience = 2, .least_change = 0.2, .higher_is_better = true}),
       stop_at_step(100)});
  auto step = run.prepare(fetch(model.train, model.loss), feed(model.factor));
  while (!run.should_stop()) step(1.0f);
  // w is 1, 1.5, 1.75, 1.875, 1.9375: the fourth and fifth bring less than 0.2.
  BOOST_TEST(run.global_step() == 5);
  BOOST_TEST(run.stop_reason() == "no improvement over 1.75 in the last 2 measurements");
  run.close(5s);
  BOOST_TEST(called == (std::vector<std::int64_t>{3, 5}), boost::test_tools::per_element());
  std::rewind(out);
  char first[128] = "", second[128] = "";
  BOOST_REQUIRE(std::fgets(first, sizeof first, out) && std::fgets(second, sizeof second, out));
  BOOST_TEST(std::string(first).rfind("step 2, cost = 1 (", 0) == 0u);
  BOOST_TEST(std::string(second).rfind("step 4, cost = 0.0625 (", 0) == 0u);
  std::fclose(out);
}

BOOST_AUTO_TEST_CASE(a_signal_ends_the_run_with_a_checkpoint) {
  for (const int number : {SIGTERM, SIGINT}) {
    memory kept;
    line model;
    session s(model.g);
    {
      supervised_session run(s, {.checkpoints = kept.of(s, model)}, {stop_at_step(1'000'000)});
      auto step = run.prepare(fetch(model.train), feed(model.factor));
      while (!run.should_stop()) {
        step(1.0f);
        if (run.global_step() == 5) ::raise(number);
      }
      BOOST_TEST(run.signal() == number);
      BOOST_TEST(run.stop_reason() == (number == SIGINT ? "SIGINT" : "SIGTERM"));
      run.close(5s);
    }
    BOOST_TEST(kept.saved == (std::vector<std::int64_t>{5}), boost::test_tools::per_element());
    struct sigaction now{};
    ::sigaction(number, nullptr, &now);
    BOOST_TEST(now.sa_handler == SIG_DFL);
  }
}

BOOST_AUTO_TEST_CASE(signals_that_a_run_does_not_handle_stay_as_they_are) {
  line model;
  session s(model.g);
  const supervised_session run(s, {.handle_signals = false});
  struct sigaction now{};
  ::sigaction(SIGTERM, nullptr, &now);
  BOOST_TEST(now.sa_handler == SIG_DFL);
}

// oneDNN's products keep their stack pointer in the heap.
BOOST_AUTO_TEST_CASE(a_signal_in_the_middle_of_a_product_changes_nothing_else) {
  graph g;
  auto a = variable<float, dims<100, 784>>(g, "a", init::normal{.stddev = 1});
  auto b = variable<float, dims<784, 100>>(g, "b", init::normal{.stddev = 1});
  auto product = let(matmul(a, b));
  session s(g);
  auto step = s.prepare(fetch(product));
  const auto right = step();
  const pthread_t here = ::pthread_self();
  for (int i = 0; i < 60; ++i) {
    const stop_signals signals;
    std::thread sender([here, i] {
      std::this_thread::sleep_for(std::chrono::microseconds(400 + 17 * i));
      ::pthread_kill(here, SIGTERM);
    });
    bool same = true;
    while (signals.received() == 0) {
      const auto now = step();
      for (std::size_t k = 0; k < now.elements(); ++k) same &= now.data()[k] == right.data()[k];
    }
    sender.join();
    BOOST_TEST(same);
  }
}

BOOST_AUTO_TEST_CASE(only_the_chief_saves) {
  memory kept;
  line model;
  session s(model.g);
  supervised_session run(s, {.checkpoints = kept.of(s, model), .save = {.steps = 1}, .is_chief = false},
                         {stop_at_step(2)});
  auto step = run.prepare(fetch(model.train), feed(model.factor));
  while (!run.should_stop()) step(1.0f);
  run.close(5s);
  BOOST_TEST(kept.saved.empty());
}

BOOST_AUTO_TEST_CASE(an_exception_of_a_thread_ends_the_run_and_is_thrown) {
  line model;
  session s(model.g);
  supervised_session run(s);
  run.threads().start("reader", [] { throw std::runtime_error("no more data"); });
  auto step = run.prepare(fetch(model.train), feed(model.factor));
  while (!run.should_stop()) step(1.0f);
  BOOST_CHECK_EXCEPTION(run.close(5s), std::runtime_error,
                        [](const std::runtime_error& e) { return std::string(e.what()) == "no more data"; });
}

// Whatever fails at the end, what has been trained is kept.
BOOST_AUTO_TEST_CASE(close_saves_before_it_throws) {
  struct failing_end final : run_hook {
    void end(run_control&) override { throw std::runtime_error("no evaluation"); }
  };
  for (const int failing : {0, 1, 2}) {  // a thread, a hook, a thread that does not end in time
    memory kept;
    line model;
    session s(model.g);
    std::atomic<bool> go{false};
    std::vector<hook> hooks;
    if (failing == 1) hooks.push_back(std::make_shared<failing_end>());
    supervised_session run(s, {.checkpoints = kept.of(s, model)}, std::move(hooks));
    if (failing == 0) run.threads().start("reader", [] { throw std::runtime_error("no more data"); });
    if (failing == 2)
      run.threads().start("reader", [&] {
        while (!go) std::this_thread::sleep_for(1ms);
      });
    auto step = run.prepare(fetch(model.train), feed(model.factor));
    while (failing == 0 ? !run.should_stop() : run.global_step() < 3) step(1.0f);
    if (run.global_step() == 0) continue;  // the thread was faster
    BOOST_CHECK_EXCEPTION(run.close(50ms), std::exception, [&](const std::exception& e) {
      return std::string(e.what()).find(failing == 0   ? "no more data"
                                        : failing == 1 ? "no evaluation"
                                                       : "reader") != std::string::npos;
    });
    go = true;
    BOOST_TEST(kept.saved == (std::vector<std::int64_t>{run.global_step()}), boost::test_tools::per_element());
    BOOST_TEST(kept.flushed == 1);
    run.close(5s);
    BOOST_TEST(kept.saved.size() == 1u);
  }
}

// As torch.optim.lr_scheduler.ReduceLROnPlateau and tf.keras.callbacks.EarlyStopping do: a comparison with NaN is
// false, and the best of nothing is infinite.
BOOST_AUTO_TEST_CASE(a_measurement_that_is_not_a_number_is_no_better) {
  for (const bool higher : {false, true}) {
    const double good = higher ? 1 : -1;
    const std::vector<double> measured{NAN, higher ? -INFINITY : INFINITY, 5 * good, NAN, 6 * good, 6 * good, NAN, NAN};
    line model;
    auto rate = variable<float>(model.g, "rate", 1.0f, variable_kind::local);
    session s(model.g);
    std::size_t next = 0, step_of_plateau = 0;
    supervised_session run(
        s, {},
        {early_stop({.steps = 1}, [&] { return measured[next++]; }, {.patience = 3, .higher_is_better = higher}),
         reduce_on_plateau({.steps = 1}, [&] { return measured[step_of_plateau++]; }, s, rate,
                           {.factor = 0.5, .patience = 1, .higher_is_better = higher})});
    auto step = run.prepare(fetch(model.train), feed(model.factor));
    std::vector<float> rates;
    while (!run.should_stop()) {
      step(0.0f);
      rates.push_back(s.get(rate));
    }
    BOOST_TEST(run.stop_reason() ==
               std::string("no improvement over ") + (higher ? "6" : "-6") + " in the last 3 measurements");
    BOOST_TEST(rates == (std::vector<float>{1, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.25f, 0.25f}),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_coordinator_keeps_the_first_exception_and_names_who_does_not_end) {
  coordinator together;
  std::atomic<bool> go{false};
  together.start("slow", [&] {
    while (!go) std::this_thread::sleep_for(1ms);
  });
  together.start("first", [] { throw error(error_code::data_loss, "first", "is kept"); });
  together.start("second", [&] {
    together.wait_for_stop(10s);
    throw std::runtime_error("the consequence");
  });
  BOOST_TEST(together.wait_for_stop(10s));
  BOOST_CHECK_EXCEPTION(together.join(50ms), error, [](const error& e) {
    return e.code() == error_code::deadline_exceeded && says(e, "slow") && !says(e, "first");
  });
  go = true;
  BOOST_CHECK_EXCEPTION(together.join(10s), error, [](const error& e) { return e.code() == error_code::data_loss; });
  BOOST_CHECK_THROW(together.start("late", [] {}), error);
  // One that is never joined ends its threads all the same.
  coordinator left;
  left.start("waits", [&] { left.wait_for_stop(deadline::never()); });
}

BOOST_AUTO_TEST_CASE(a_rate_is_lowered_where_nothing_becomes_better) {
  // torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.5, patience=2, threshold=0, threshold_mode='abs', min_lr=0.1)
  // from 0.5, stepped with these numbers.
  const std::vector<double> measured{5, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3};
  const std::vector<float> rates{0.5f,  0.5f,   0.5f,   0.5f,   0.25f, 0.25f, 0.25f,
                                 0.25f, 0.125f, 0.125f, 0.125f, 0.1f,  0.1f};
  line model;
  auto rate = variable<float>(model.g, "rate", 0.5f, variable_kind::local);
  auto train = gradient_descent{.learning_rate = rate}.minimize(model.loss);
  session s(model.g);
  std::size_t next = 0;
  supervised_session run(s, {},
                         {reduce_on_plateau({.steps = 1}, [&] { return measured[next++]; }, s, rate,
                                            {.factor = 0.5, .patience = 2, .least_rate = 0.1})});
  auto step = run.prepare(fetch(train), feed(model.factor));
  for (const float expected : rates) {
    step(1.0f);
    BOOST_TEST(s.get(rate) == expected);
  }
}
