// SPDX-License-Identifier: BSL-1.0
// Kernels keep what they make from a variable's values until these change. Every way to change them is followed by an
// inference, whose result must have the bits of a session that has never seen other values.
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/checkpoint/saver.hpp>
#include <weft/checkpoint/weights.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/queue/shared_values.hpp>
#include <weft/train/moving_average.hpp>
#include <weft/weft.hpp>

#include "data/files.hpp"
#include "errors.hpp"

using namespace weft;

namespace {

using image_dims = dims<dyn<"batch">, 32, 32, 16>;
using images = tensor<float, image_dims>;
using filter_dims = dims<3, 3, 16, 64>;
using result = tensor<float, dims<dyn<"batch">, 32, 32, 64>>;

images some_images(std::int64_t n) {
  images x(shape(n, 32, 32, 16));
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<float>(i * 7 % 31) / 16 - 1;
  return x;
}

tensor<float, filter_dims> filters_of(float x) {
  tensor<float, filter_dims> all;
  for (float& each : all) each = x;
  return all;
}

template <class A, class B>
bool same_bits(const A& a, const B& b) {
  return a.elements() == b.elements() && std::memcmp(a.data(), b.data(), a.elements() * sizeof(float)) == 0;
}

// A step for one image and a step for a batch cut their work differently.
constexpr std::int64_t batches[] = {1, 5};

struct network {
  graph g{1};
  node<float, image_dims> x = placeholder<float, image_dims>(g, "x");
  variable_node<float, filter_dims> w = variable<float, filter_dims>(g, "w", init::normal{});
  node<float, dims<dyn<"batch">, 32, 32, 64>> y = let(conv2d(x, w));
  node<float, image_dims> dx = std::get<0>(gradients(sum(square(y)), x));
  node<float> loss = let(mean(square(y)));
};

/// A session's steps, and whether each is right after the variable was changed.
struct prepared {
  network& n;
  session& s;
  step<result(images)> forward = s.prepare(fetch(n.y), feed(n.x));
  step<images(images)> backward = s.prepare(fetch(n.dx), feed(n.x));
  std::vector<result> before = {};

  prepared(network& of, session& in) : n(of), s(in) { note(); }
  void note() {
    before.clear();
    for (const std::int64_t batch : batches) before.push_back(forward(some_images(batch)));
  }
  void check_changed(const char* by) {
    BOOST_TEST_CONTEXT(by) {
      network other;
      session fresh(other.g, {.threads = 1});
      fresh.set(other.w, s.get(n.w));
      step<result(images)> expected = fresh.prepare(fetch(other.y), feed(other.x));
      step<images(images)> expected_gradient = fresh.prepare(fetch(other.dx), feed(other.x));
      for (std::size_t i = 0; i < before.size(); ++i) {
        const images x = some_images(batches[i]);
        const result now = forward(x);
        BOOST_TEST(!same_bits(now, before[i]));
        BOOST_TEST(same_bits(now, expected(x)));
        BOOST_TEST(same_bits(now, forward(x)));
        BOOST_TEST(same_bits(backward(x), expected_gradient(x)));
      }
      note();
    }
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(steps_that_write_a_variable_are_seen) {
  network n;
  const auto doubled = assign(n.w, n.w * 2.0f);
  const auto added = assign_add(n.w, 0.25f * n.w);
  const auto descent = gradient_descent{.learning_rate = 0.5f}.minimize(n.loss);
  const auto by_adam = adam{.learning_rate = 0.01f}.minimize(n.loss);
  const auto index = placeholder<std::int32_t, dims<1>>(n.g, "index");
  const auto picked = let(gather(node<float, filter_dims>(doubled), index) * 1.0f);
  const auto of_written = let(conv2d(n.x, node<float, filter_dims>(doubled)));
  session s(n.g, {.threads = 2});
  prepared p(n, s);
  step<void()> assigns = s.prepare(fetch(group(doubled))), adds = s.prepare(fetch(group(added)));
  step<void(images)> trains = s.prepare(fetch(descent), feed(n.x)), adapts = s.prepare(fetch(by_adam), feed(n.x));
  for (int round = 0; round < 2; ++round) {  // the second time, steps know that nothing but kernels is left to run
    adds();
    p.check_changed("assign_add");
    trains(some_images(2));
    p.check_changed("gradient descent");
    adapts(some_images(2));
    p.check_changed("Adam");
    assigns();
    p.check_changed("assign");
    s.set(n.w, filters_of(static_cast<float>(round) + 0.5f));
    p.check_changed("set");
    s.run(fetch(group(assign(n.w, n.w - 0.125f))));
    p.check_changed("a step that runs once");
  }
  // A step that ends in an error after it has written.
  step<tensor<float, dims<1, 3, 16, 64>>(tensor<std::int32_t, dims<1>>)> fails = s.prepare(fetch(picked), feed(index));
  BOOST_CHECK_THROW(fails(tensor<std::int32_t, dims<1>>{99}), error);
  p.check_changed("a step that fails");
  // A convolution with what the same step has written.
  step<result(images)> writes_and_reads = s.prepare(fetch(of_written), feed(n.x));
  for (int round = 0; round < 3; ++round) {
    const result now = writes_and_reads(some_images(1));
    p.check_changed("a step that reads what it writes");
    BOOST_TEST(same_bits(now, p.forward(some_images(1))));
  }
}

BOOST_AUTO_TEST_CASE(values_from_files_are_seen) {
  const folder f;
  const std::string path = f.path / "w.safetensors";
  network n, m;
  session s(n.g, {.threads = 1}), t(m.g, {.threads = 1});
  t.set(m.w, filters_of(0.75f));
  save_weights(path, t);
  prepared p(n, s);
  load_weights(path, s);
  p.check_changed("load_weights");
  saver keeper({.background = false});
  t.set(m.w, filters_of(0.25f));
  const std::string checkpoint = f.path / "checkpoint";
  keeper.restore(s, keeper.save(t, checkpoint, 1));
  p.check_changed("restore");
}

BOOST_AUTO_TEST_CASE(averages_that_are_swapped_in_are_seen) {
  network n;
  const auto averages =
      exponential_moving_average{.decay = 0.5}.apply(gradient_descent{.learning_rate = 0.5f}.minimize(n.loss));
  session s(n.g, {.threads = 1});
  step<void(images)> trains = s.prepare(fetch(averages), feed(n.x));
  prepared p(n, s);
  for (int i = 0; i < 2; ++i) {
    trains(some_images(2));
    p.check_changed("training");
    {
      const auto guard = averages.swapped_in(s);
      p.check_changed("averages");
    }
    p.check_changed("variables again");
  }
}

BOOST_AUTO_TEST_CASE(clones_see_values_from_before_they_were_made) {
  network n;
  const auto train = gradient_descent{.learning_rate = 0.5f}.minimize(n.loss);
  session s(n.g, {.threads = 1});
  step<void(images)> trains = s.prepare(fetch(train), feed(n.x));
  prepared p(n, s);
  for (int round = 0; round < 2; ++round) {
    {
      session clone = s.clone_for_inference({.threads = 1});
      step<result(images)> forward = clone.prepare(fetch(n.y), feed(n.x));
      for (std::size_t i = 0; i < p.before.size(); ++i)
        for (int again = 0; again < 2; ++again) BOOST_TEST(same_bits(forward(some_images(batches[i])), p.before[i]));
    }
    trains(some_images(2));
    p.check_changed("training after the clone is gone");
  }
  // Threads that read one set of variables.
  std::vector<std::thread> threads;
  std::vector<char> right(3, 1);
  for (char& mine : right)
    threads.emplace_back([&mine, &p, &n, clone = s.clone_for_inference({.threads = 1})]() mutable {
      const step<result(images)> forward = clone.prepare(fetch(n.y), feed(n.x));
      for (int i = 0; i < 3; ++i) mine = mine && same_bits(forward(some_images(1)), p.before[0]);
    });
  for (std::thread& t : threads) t.join();
  for (const char each : right) BOOST_TEST(each == 1);
}

BOOST_AUTO_TEST_CASE(sessions_of_a_container_see_each_others_writes) {
  const session_options shared{.threads = 1, .variables = variables_in("kept_filters")};
  network n, m;
  const auto train = gradient_descent{.learning_rate = 0.5f}.minimize(m.loss);
  session reader(n.g, shared), writer(m.g, shared);
  step<void(images)> trains = writer.prepare(fetch(train), feed(m.x));
  prepared p(n, reader);
  for (int round = 0; round < 3; ++round) {
    trains(some_images(2));
    p.check_changed("another session's step");
    writer.set(m.w, filters_of(static_cast<float>(round + 1)));
    p.check_changed("another session's set");
  }
}

BOOST_AUTO_TEST_CASE(filters_that_are_no_variables_are_read_in_every_run) {
  graph g(1);
  const auto x = placeholder<float, image_dims>(g, "x");
  const auto fed = placeholder<float, filter_dims>(g, "filters");
  const auto w = variable<float, filter_dims>(g, "w", init::normal{});
  const auto with_fed = let(conv2d(x, fed)), with_computed = let(conv2d(x, w * sum(fed)));
  const auto through_reshape = let(conv2d(x, reshape<filter_dims>(reshape<dims<9, 1024>>(w))));
  session s(g, {.threads = 1});
  step<std::tuple<result, result>(images, tensor<float, filter_dims>)> both =
      s.prepare(fetch(with_fed, with_computed), feed(x, fed));
  step<result(images)> reshaped = s.prepare(fetch(through_reshape), feed(x));
  tensor<float, filter_dims> filters = filters_of(0.5f);
  for (const std::int64_t batch : batches) {
    const auto [a, b] = both(some_images(batch), filters);
    const result c = reshaped(some_images(batch));
    for (float& each : filters) each *= 2;
    const auto [a2, b2] = both(some_images(batch), filters);
    // Powers of two are exact.
    for (std::size_t i = 0; i < a.elements(); ++i) {
      BOOST_REQUIRE(a2.data()[i] == 2 * a.data()[i]);
      BOOST_REQUIRE(b2.data()[i] == 2 * b.data()[i]);
    }
    tensor<float, filter_dims> doubled = s.get(w);
    for (float& each : doubled) each *= 2;
    s.set(w, doubled);
    const result c2 = reshaped(some_images(batch));
    for (std::size_t i = 0; i < c.elements(); ++i) BOOST_REQUIRE(c2.data()[i] == 2 * c.data()[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_version_changes_with_every_write_and_is_never_given_twice) {
  content_version a, b;
  BOOST_TEST(a.number() != 0u);
  const std::uint64_t first = a.number();
  a.change();
  const std::uint64_t second = a.number();
  b.change();
  BOOST_TEST(second != first);
  BOOST_TEST(b.number() != second);
  a.lose_track();
  BOOST_TEST(a.number() == 0u);
  a.change();
  BOOST_TEST(a.number() == 0u);
}
