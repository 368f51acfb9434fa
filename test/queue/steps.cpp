// SPDX-License-Identifier: BSL-1.0
#include <weft/control_flow.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/queue.hpp>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "elements.hpp"
#include "errors.hpp"

// Queues as operations of graphs.

using namespace weft;
using namespace std::chrono_literals;
using test::code_of;
using test::contains;
using test::failure;

namespace {

constexpr auto long_ = 30s;

using image = tensor<float, dims<2>>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_enqueues_and_another_dequeues) {
  fifo_queue<image, std::int32_t> q(10, {.name = "examples"});
  graph producing, training;
  auto x = placeholder<float, dims<2>>(producing, "x");
  auto n = placeholder<std::int32_t>(producing, "n");
  session producer(producing);
  auto put = producer.prepare(fetch(q.enqueue(long_, 2 * x, n)), feed(x, n));

  auto [y, label] = q.dequeue(training, long_);
  auto sum_of = sum(y) + cast<float>(label);
  session trainer(training);
  auto step = trainer.prepare(fetch(sum_of, y));
  image last;
  for (std::int32_t i = 0; i < 5; ++i) put(image{float(i), 1}, i);
  last = image{7, 1};
  put(last, 9);
  last(0) = 100;  // a fed tensor may change afterwards
  for (int i = 0; i < 5; ++i) {
    const auto [s, values] = step();  // one dequeue for both
    BOOST_CHECK_EQUAL(s, float(3 * i + 2));
    test::check_elements(values, {2.0 * i, 2});
  }
  BOOST_CHECK_EQUAL(std::get<0>(step()), 25);
  BOOST_CHECK_EQUAL(q.size(), 0);
  BOOST_CHECK(contains(step.explain(), "dequeue from examples"));

  // Numbers and tensors beside nodes.
  auto mixed = producer.prepare(fetch(q.enqueue(long_, x, 40)), feed(x));
  mixed(image{1, 1});
  BOOST_CHECK_EQUAL(std::get<0>(step()), 42);

  // From values at once, and to them.
  q.enqueue(0s, image{1, 2}, 3);
  BOOST_CHECK_EQUAL(std::get<0>(step()), 6);
  put(image{1, 2}, 3);
  test::check_elements(std::get<0>(q.dequeue(0s)), {2, 4});
}

BOOST_AUTO_TEST_CASE(equal_dequeues_are_two_and_one_that_nobody_needs_does_not_run) {
  fifo_queue<std::int32_t, float> q;
  for (std::int32_t i = 0; i < 6; ++i) q.enqueue(0s, i, 0.0f);
  graph g;
  auto [a, unused] = q.dequeue(g, 0s);
  auto [b, also] = q.dequeue(g, 0s);
  BOOST_CHECK(a.id().node != b.id().node);
  session s(g);
  const auto [first, second] = s.run(fetch(a, b));
  BOOST_CHECK_EQUAL(first, 0);
  BOOST_CHECK_EQUAL(second, 1);
  // In the order in which they were written down, whatever is asked for first.
  const auto [later, earlier, size] = s.run(fetch(b, a, q.size(g)));
  BOOST_CHECK_EQUAL(earlier, 2);
  BOOST_CHECK_EQUAL(later, 3);
  BOOST_CHECK_EQUAL(size, 2);
  BOOST_CHECK_EQUAL(s.eval(b), 4);  // and a stays as it is
  BOOST_CHECK_EQUAL(s.eval(also), 0);
  BOOST_CHECK_EQUAL(q.size(), 0);
}

BOOST_AUTO_TEST_CASE(operations_of_a_step_run_as_they_were_written_down) {
  // To be sent before an answer is waited for: another order would block.
  for (const int lanes : {1, 3}) {
    fifo_queue<float> requests, answers;
    graph g;
    auto x = placeholder<float>(g, "x");
    auto sent = requests.enqueue(long_, x + 1);
    auto answer = answers.dequeue(g, long_);
    auto more = requests.enqueue(long_, answer * 2);
    auto left = requests.size(g);
    session s(g, {.inter_op_threads = lanes});
    auto step = s.prepare(fetch(left, sent, answer, more), feed(x));
    auto other = std::async(std::launch::async, [&] {
      for (int i = 0; i < 50; ++i) {
        answers.enqueue(long_, 10 * requests.dequeue(long_));
        if (requests.dequeue(long_) != 20 * float(i + 1)) return false;
      }
      return true;
    });
    for (int i = 0; i < 50; ++i) {
      const auto [n, a, b, c] = step(float(i));
      BOOST_CHECK_EQUAL(b, 10 * float(i + 1));
      BOOST_CHECK_LE(n, 1);
    }
    BOOST_CHECK(other.get());
  }
}

BOOST_AUTO_TEST_CASE(control_dependencies_hold_for_dequeues) {
  fifo_queue<float> q;
  graph g;
  auto w = variable<float, dims<>>(g, "w", init::zeros{});
  auto counted = assign_add(w, 1.0f);
  const auto taken = [&] {
    const control_dependencies after(g, counted);
    return q.dequeue(g, 0s);
  }();
  session s(g);
  for (int i = 0; i < 3; ++i) {
    q.enqueue(0s, float(i));
    BOOST_CHECK_EQUAL(s.eval(taken), float(i));
  }
  BOOST_CHECK_EQUAL(s.get(w), 3);

  // A value that is enqueued of a variable that the step writes is the value from before.
  auto put = q.enqueue(0s, w * 10);
  s.run(fetch(assign(w, 50.0f), put));
  BOOST_CHECK_EQUAL(q.dequeue(0s), 30);
  BOOST_CHECK_EQUAL(s.get(w), 50);
}

BOOST_AUTO_TEST_CASE(batches_in_steps) {
  fifo_queue<image, std::int32_t> q;
  graph g;
  auto rows = placeholder<float, dims<dyn<"n">, 2>>(g, "rows");
  auto labels = placeholder<std::int32_t, dims<dyn<"n">>>(g, "labels");
  auto put = q.enqueue_many(long_, rows, labels);
  auto [xs, ys] = q.dequeue_many<3>(g, 0s);
  auto limit = placeholder<float, dims<dyn<"batch">>>(g, "limit");
  auto [named, of_them] = q.dequeue_many<dyn<"batch">>(g, 0s);
  auto scaled = named * expand_dims<1>(limit);
  auto [some, also] = q.dequeue_up_to<4>(g, 0s);
  auto total = sum(some);
  session s(g);
  tensor<float, dims<7, 2>> x;
  tensor<std::int32_t, dims<7>> y;
  for (std::int32_t i = 0; i < 7; ++i) x(i, 0) = x(i, 1) = float(i), y(i) = i;
  s.run(fetch(put), with(rows, x), with(labels, y));
  const auto [a, b] = s.run(fetch(xs, ys));
  test::check_elements(a, {0, 0, 1, 1, 2, 2});
  test::check_elements(b, {0, 1, 2});
  test::check_elements(s.eval(scaled, with(limit, tensor<float, dims<2>>{1, 10})), {3, 3, 40, 40});
  BOOST_CHECK(code_of([&, some_rows = xs] { s.run(fetch(some_rows)); }) == error_code::deadline_exceeded);
  BOOST_CHECK_EQUAL(q.size(), 2);
  q.close();
  const auto [real, numbers, all] = s.run(fetch(some, also, total));
  BOOST_CHECK(real.extents() == shape(2, 2));
  test::check_elements(real, {5, 5, 6, 6});
  test::check_elements(numbers, {5, 6});
  BOOST_CHECK_EQUAL(all, 22);
  std::string text;
  BOOST_CHECK(code_of([&, rest = some] { s.run(fetch(rest)); }, &text) == error_code::out_of_range);
  BOOST_CHECK(contains(text, "fifo_queue_dequeue"));
}

BOOST_AUTO_TEST_CASE(named_extents_of_elements_are_those_of_the_step) {
  fifo_queue<tensor<float, dims<dyn<"length">>>> q;
  padding_fifo_queue<tensor<float, dims<dyn<"length">>>> padding;
  graph g;
  auto like = placeholder<float, dims<dyn<"length">>>(g, "like");
  auto y = q.dequeue(g, 0s) + like;
  auto batch = padding.dequeue_many<2>(g, 0s);
  session s(g);
  const auto of = [](std::int64_t n) {
    tensor<float, dims<dyn<"length">>> x{shape(n)};
    for (std::int64_t i = 0; i < n; ++i) x(i) = float(i + 1);
    return x;
  };
  q.enqueue(0s, of(3));
  std::string text;
  BOOST_CHECK(code_of([&] { s.eval(y, with(like, of(2))); }, &text) == error_code::invalid_argument);
  BOOST_CHECK(contains(text, "[3]") && contains(text, "[2]"));
  BOOST_CHECK_EQUAL(q.size(), 1);  // it stays
  test::check_elements(s.eval(y, with(like, of(3))), {2, 4, 6});

  padding.enqueue(0s, of(1));
  padding.enqueue(0s, of(4));
  BOOST_CHECK(code_of([&] { s.run(fetch(batch, like), with(like, of(3))); }) == error_code::invalid_argument);
  BOOST_CHECK_EQUAL(padding.size(), 2);
  test::check_elements(std::get<0>(s.run(fetch(batch, like), with(like, of(5)))), {1, 0, 0, 0, 0, 1, 2, 3, 4, 0});
}

BOOST_AUTO_TEST_CASE(a_close_wakes_a_step_and_a_step_closes) {
  fifo_queue<float> q(1);
  graph g;
  auto x = q.dequeue(g, time_limit::never());
  const effect closing = q.close(g);
  auto closed = q.is_closed(g);
  session s(g);
  auto waits = std::async(std::launch::async, [&] {
    graph other;
    auto y = q.dequeue(other, time_limit::never());
    session t(other);
    return code_of([&] { t.eval(y); });
  });
  while (q.waiting() == 0) std::this_thread::sleep_for(100us);
  BOOST_CHECK(std::get<0>(s.run(fetch(closed, closing))));
  BOOST_CHECK(waits.get() == error_code::out_of_range);
  BOOST_CHECK(code_of([&] { s.eval(x); }) == error_code::out_of_range);
  BOOST_CHECK(code_of([&] { s.run(fetch(closing)); }) == error_code::cancelled);
  s.run(fetch(q.close(g, true)));

  // The graph keeps its queue.
  graph keeps;
  auto kept = [&] {
    fifo_queue<float> local;
    local.enqueue(0s, 5.0f);
    return local.dequeue(keeps, 0s);
  }();
  session u(keeps);
  BOOST_CHECK_EQUAL(u.eval(kept), 5);
}

BOOST_AUTO_TEST_CASE(steps_of_many_threads_and_sessions_share_a_queue) {
  random_shuffle_queue<tensor<float, dims<2>>> q(16, 4, {.seed = 3});
  constexpr int threads = 3, each = 300;
  std::vector<std::thread> all;
  std::atomic<int> producing{threads}, wrong{0};
  std::vector<double> sums(threads, 0);
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      graph g;
      auto x = placeholder<float, dims<dyn<"n">, 2>>(g, "x");
      session s(g);
      auto put = s.prepare(fetch(q.enqueue_many(long_, x)), feed(x));
      for (int i = 0; i < each; i += 3) put(tensor<float, dims<3, 2>>{float(i), 1, float(i + 1), 1, float(i + 2), 1});
      if (--producing == 0) q.close();
    });
    all.emplace_back([&, t] {
      graph g;
      auto some = q.dequeue_up_to<5>(g, long_);
      session s(g);
      auto step = s.prepare(fetch(sum(some)));
      try {
        while (true) sums[static_cast<std::size_t>(t)] += step();
      } catch (const error& e) {
        if (e.code() != error_code::out_of_range) ++wrong;
      }
    });
  }
  for (std::thread& t : all) t.join();
  double total = 0;
  for (const double s : sums) total += s;
  BOOST_CHECK_EQUAL(total, threads * (each * (each - 1) / 2 + each));
  BOOST_CHECK_EQUAL(wrong.load(), 0);
}

BOOST_AUTO_TEST_CASE(gradients_do_not_pass_through_a_queue_and_train_what_is_behind_it) {
  fifo_queue<tensor<float, dims<2>>> q;
  for (int i = 0; i < 3; ++i) q.enqueue(0s, tensor<float, dims<2>>{1, 2});
  graph g;
  auto w = variable<float, dims<2>>(g, "w", init::zeros{});
  auto x = q.dequeue(g, 0s);
  auto loss = sum(w * x);
  auto train = gradient_descent{.learning_rate = 1}.minimize(loss);
  session s(g);
  s.run(fetch(train, loss));
  test::check_elements(s.get(w), {-1, -2});
  BOOST_CHECK_EQUAL(q.size(), 2);  // one for the value and its gradient
}

BOOST_AUTO_TEST_CASE(bodies_of_loops_use_no_queue) {
  fifo_queue<float> q;
  graph g;
  auto x = placeholder<float>(g, "x");
  const std::string text = failure(error_code::unimplemented, [&] {
    (void)cond(
        x > 0,
        [&](auto v) {
          (void)q.enqueue(0s, v);
          return v;
        },
        [](auto v) { return v; }, x);
  });
  BOOST_CHECK(contains(text, "body of a loop"));
}

// ---- variables that sessions share ----

BOOST_AUTO_TEST_CASE(sessions_of_a_container_have_the_same_variables) {
  const session_options jobs{.threads = 1, .variables = variables_in("variables")};
  graph training(1), testing(2);
  auto w = variable<float, dims<3>>(training, "w", init::normal{});
  auto of_test = variable<float, dims<3>>(testing, "w", init::zeros{});
  auto train = momentum{.learning_rate = 0.5f, .momentum = 0.5f}.minimize(sum(w * 2));
  session trainer(training, jobs), tester(testing, jobs), apart(testing),
      elsewhere(testing, {.variables = variables_in("others")});
  auto read = tester.prepare(fetch(let(of_test * 1)));
  const auto first = trainer.get(w);
  BOOST_CHECK(first(0) != 0 && read()(0) == first(0));
  trainer.run(fetch(train));
  test::check_elements(read(), {first(0) - 1.0f, first(1) - 1.0f, first(2) - 1.0f});
  tester.set(of_test, tensor<float, dims<3>>{1, 2, 3});
  test::check_elements(trainer.get(w), {1, 2, 3});
  test::check_elements(apart.get(of_test), {0, 0, 0});
  test::check_elements(elsewhere.get(of_test), {0, 0, 0});

  // One that is made later, of the same graph, goes on with the slots too: 2 + 0.5 * 2 is the second step's velocity.
  session again(training, jobs);
  again.run(fetch(train));
  test::check_elements(trainer.get(w), {1 - 1.5, 2 - 1.5, 3 - 1.5});
  // A variable that joins the graph later is shared as well.
  auto bias = variable<float>(training, "bias", init::ones{}), same = variable<float>(testing, "bias", init::zeros{});
  trainer.set(bias, 4.0f);
  BOOST_CHECK_EQUAL(tester.get(same), 4);

  // Resources that cannot be one are refused, each time that they are asked for.
  graph other;
  (void)variable<float, dims<2>>(other, "w", init::zeros{});
  BOOST_CHECK(contains(failure(error_code::invalid_argument, [&] { session s(other, jobs); }), "float[3]"));
  graph queues;
  (void)variable<float>(queues, "q", init::zeros{});
  const fifo_queue<float> q(1, {.shared_name = "q", .container = "variables"});
  BOOST_CHECK(contains(failure(error_code::invalid_argument, [&] { session s(queues, jobs); }), "fifo_queue"));
  auto unset = variable<float>(testing, "unset", init::none{});
  for (int i = 0; i < 2; ++i)
    BOOST_CHECK(
        contains(failure(error_code::failed_precondition, [&] { tester.get(unset); }), "unset: variables that"));

  // After a reset old ones keep what they have in common.
  reset_containers({"variables"});
  graph anew;
  auto fresh = variable<float, dims<3>>(anew, "w", init::ones{});
  session begins(anew, jobs);
  test::check_elements(begins.get(fresh), {1, 1, 1});
  again.set(w, tensor<float, dims<3>>{7, 7, 7});
  test::check_elements(trainer.get(w), {7, 7, 7});
  test::check_elements(begins.get(fresh), {1, 1, 1});
  reset_containers({"variables", "others"});
}

// ---- critical sections: python/ops/critical_section_ops.py ----

BOOST_AUTO_TEST_CASE(a_step_runs_what_a_section_records_inside_it) {
  const critical_section section({.name = "table"});
  graph g;
  const auto count = variable<std::int64_t>(g, "count", init::zeros{});
  const auto x = placeholder<float, dims<2>>(g, "x");
  const auto [before, sum_of, after] = section.execute(g, long_, [&] {
    const auto old = let(count + 0);
    return std::tuple(old, sum(x), assign_add(count, 1));
  });
  session s(g);
  const auto [b, total, a] = s.run(fetch(before, sum_of, after), with(x, image{1, 2}));
  BOOST_CHECK_EQUAL(b, 0);
  BOOST_CHECK_EQUAL(total, 3);
  BOOST_CHECK_EQUAL(a, 1);
  // One result runs all of it.
  BOOST_CHECK_EQUAL(s.eval(sum_of, with(x, image{3, 4})), 7);
  BOOST_CHECK_EQUAL(s.get(count), 2);
  (void)section.acquire(0s);
  const auto step = s.prepare(fetch(after), feed(x));
  BOOST_CHECK(contains(step.explain(), "table_enter") && contains(step.explain(), "table_leave"));

  // Nobody enters while a thread is inside.
  const effect add = section.execute(g, 10ms, [&] { (void)assign_add(count, 10); });
  {
    const auto held = section.acquire(0s);
    std::string text;
    BOOST_CHECK(code_of([&] { s.run(fetch(add)); }, &text) == error_code::deadline_exceeded);
    BOOST_CHECK(contains(text, "was inside the whole time"));
    BOOST_CHECK_EQUAL(s.get(count), 2);
  }
  s.run(fetch(add));
  BOOST_CHECK_EQUAL(s.get(count), 12);
}

BOOST_AUTO_TEST_CASE(a_step_that_fails_inside_a_section_leaves_it) {
  const critical_section section;
  graph g;
  const auto x = placeholder<float, dims<3>>(g, "x");
  const auto i = placeholder<std::int32_t, dims<1>>(g, "i");
  const auto row = section.execute(g, 0s, [&] { return gather(x, i); });
  // A node inside that a step runs alone: the section is left at the end of the run.
  std::optional<node<float, dims<3>>> inside;
  (void)section.execute(g, 0s, [&] { inside = let(x * 2.0f); });
  session s(g);
  auto step = s.prepare(fetch(row), feed(x, i));
  for (int n = 0; n < 3; ++n) {
    failure(error_code::out_of_range, [&] { step(tensor<float, dims<3>>{1, 2, 3}, tensor<std::int32_t, dims<1>>{7}); });
    test::check_elements(step(tensor<float, dims<3>>{1, 2, 3}, tensor<std::int32_t, dims<1>>{2}), {3});
    test::check_elements(s.eval(*inside, with(x, tensor<float, dims<3>>{1, 2, 3})), {2, 4, 6});
  }
}

BOOST_AUTO_TEST_CASE(steps_of_several_sessions_exclude_each_other_in_a_section) {
  const critical_section section;
  int inside = 0, most = 0;  // not atomic: ThreadSanitizer looks
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      graph g;
      fifo_queue<float> in(1), out(1);
      const auto x = placeholder<float>(g, "x");
      // The body waits for what a thread does meanwhile.
      const auto y = section.execute(g, long_, [&] {
        const control_dependencies after(g, in.enqueue(long_, x));
        return out.dequeue(g, long_);
      });
      session s(g);
      auto step = s.prepare(fetch(y), feed(x));
      std::thread other([&] {
        for (int n = 0; n < 50; ++n) {
          const float v = in.dequeue(long_);
          most = std::max(most, ++inside);
          --inside;
          out.enqueue(long_, v + 1);
        }
      });
      for (int n = 0; n < 50; ++n) wrong += step(float(n)) != float(n + 1);
      other.join();
    });
  for (std::thread& t : threads) t.join();
  BOOST_CHECK_EQUAL(most, 1);
  BOOST_CHECK_EQUAL(wrong, 0);
}
