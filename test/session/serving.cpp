// SPDX-License-Identifier: BSL-1.0
// Sessions on threads of their own that read one set of variables (clone_for_inference), and nothing else in common.
#include <atomic>
#include <thread>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

using images_dims = dims<dyn<"batch">, 12>;
using logits_dims = dims<dyn<"batch">, 4>;
using images_type = tensor<float, images_dims>;

struct classifier {
  graph g;
  node<float, images_dims> images = placeholder<float, images_dims>(g, "images");
  node<std::int32_t, dims<dyn<"batch">>> labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  variable_node<float, dims<12, 4>> w = variable<float, dims<12, 4>>(g, "w", init::glorot_uniform{});
  node<float, logits_dims> logits = let(softmax(matmul(images, w)));
  node<float> loss = mean(softmax_cross_entropy(matmul(images, w), labels));
  effect train = gradient_descent{.learning_rate = 0.5f}.minimize(loss);
  session s{g, {.threads = 1}};
};

images_type batch_of(std::int64_t n) {
  images_type x(shape(n, 12));
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<float>(i % 7) - 3.0f;
  return x;
}

bool equal(const tensor<float, logits_dims>& a, const tensor<float, logits_dims>& b) {
  for (std::size_t i = 0; i < a.elements(); ++i)
    if (a.data()[i] != b.data()[i]) return false;
  return a.elements() == b.elements();
}

}  // namespace

BOOST_AUTO_TEST_CASE(threads_serve_with_the_variables_of_one_session) {
  classifier c;
  auto train = c.s.prepare(fetch(c.loss, c.train), feed(c.images, c.labels));
  auto evaluate = c.s.prepare(fetch(c.logits), feed(c.images));
  const tensor<std::int32_t, dims<dyn<"batch">>> labels(shape(3), {0, 1, 3});
  for (int round = 0; round < 3; ++round) {
    train(batch_of(3), labels);
    std::vector<tensor<float, logits_dims>> expected;
    for (std::int64_t n = 1; n <= 4; ++n) expected.push_back(evaluate(batch_of(n)));
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, clone = c.s.clone_for_inference()]() mutable {
        // Nodes, no expressions: nothing is recorded, so threads may prepare at the same time.
        const step<tensor<float, logits_dims>(images_type)> serve = clone.prepare(fetch(c.logits), feed(c.images));
        for (int i = 0; i < 50; ++i) {
          const std::int64_t n = i % 4 + 1;
          if (!equal(serve(batch_of(n)), expected[static_cast<std::size_t>(n - 1)])) ++wrong;
        }
      });
    for (int i = 0; i < 50; ++i)
      if (!equal(evaluate(batch_of(2)), expected[1])) ++wrong;  // the session itself reads too
    for (std::thread& t : threads) t.join();
    threads.clear();
    BOOST_TEST(wrong == 0);
  }
}

BOOST_AUTO_TEST_CASE(the_last_clone_ends_on_its_thread_before_training_goes_on) {
  classifier c;
  auto train = c.s.prepare(fetch(c.loss, c.train), feed(c.images, c.labels));
  const tensor<std::int32_t, dims<dyn<"batch">>> labels(shape(3), {0, 1, 3});
  std::atomic<bool> asked = false;
  std::thread other([&, clone = c.s.clone_for_inference()]() mutable {
    {
      auto serve = clone.prepare(fetch(c.logits), feed(c.images));
      serve(batch_of(3));
      while (!asked) std::this_thread::yield();
      serve(batch_of(3));
    }
    const session ended = std::move(clone);
  });
  bool refused = false;
  for (bool trained = false; !trained;) {
    try {
      train(batch_of(3), labels);  // reads what the clone has read, and writes it, without waiting for the thread
      trained = true;
    } catch (const error& e) {
      refused = e.code() == error_code::failed_precondition;
      asked = true;
      std::this_thread::yield();
    }
  }
  BOOST_TEST(refused);
  other.join();
}

BOOST_AUTO_TEST_CASE(models_begin_and_end_on_threads_of_their_own) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        classifier c;
        classifier* const other = new classifier;
        const auto w = other->w;
        delete other;
        const auto evaluate = c.s.eval(c.logits, with(c.images, batch_of(1)));
        if (evaluate.elements() != 4) ++wrong;
        try {
          static_cast<void>(let(w * 2.0f));
          ++wrong;
        } catch (const error& e) {
          if (e.code() != error_code::failed_precondition) ++wrong;
        }
      }
    });
  for (std::thread& t : threads) t.join();
  BOOST_TEST(wrong == 0);
}
