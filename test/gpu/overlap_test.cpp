// SPDX-License-Identifier: BSL-1.0
// Copies between the host and a GPU beside its kernels: the queues of an emulated GPU work in one order and in another
// one, so that a queue that does not wait for what it needs gives wrong values in one of them.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <weft/device/gpu/pinned_allocator.hpp>
#include <weft/ops/gpu/all.hpp>
#include <weft/ops/gpu/matmul.hpp>
#include <weft/session/gpu_session.hpp>
#include <weft/weft.hpp>
#include "emulated.hpp"

using namespace weft;

namespace {

#define CHECK_SAYS(text, part) \
  BOOST_CHECK_MESSAGE((text).find(part) != std::string::npos, "\"" << (text) << "\" does not say \"" << (part) << "\"")

using rows = dims<8, 16>;
using square_matrix = dims<16, 16>;

tensor<float, rows> numbers(int step, float scale) {
  tensor<float, rows> t;
  for (int i = 0; i < 8 * 16; ++i) t.data()[i] = scale * std::sin(0.37f * static_cast<float>(i + 100 * step));
  return t;
}

template <class A, class B>
void check_close(const A& a, const B& b) {
  BOOST_REQUIRE_EQUAL(a.elements(), b.elements());
  for (std::size_t i = 0; i < a.elements(); ++i) {
    BOOST_TEST_CONTEXT("element " << i)
    BOOST_CHECK_SMALL(double(a.data()[i]) - double(b.data()[i]), 1e-4);
  }
}

/// Calls `f(platform, options)` for either order of queues, with steps that are recorded and that are not.
template <class F>
void in_each_order(int devices, F f) {
  for (const bool early : {false, true})
    for (const bool record : {true, false})
      for (const bool synchronous : {false, true}) {
        if (record && synchronous) continue;
        gpu::emulated_platform gpus({.devices = devices, .early = early});
        session_options o{.threads = 1};
        o.gpu.record_steps = record;
        o.gpu.synchronous = synchronous;
        BOOST_TEST_CONTEXT("early: " << early << ", recorded: " << record << ", synchronous: " << synchronous)
        f(gpus, o);
        for (int d = 0; d < devices; ++d) BOOST_TEST(gpus.device(d).mistakes().empty());
      }
}

/// A feed that the last kernels need, values that the host wants early, and variables that change behind them.
struct model {
  graph g;
  node<float, rows> x = placeholder<float, rows>(g, "x"), late = placeholder<float, rows>(g, "late");
  variable_node<float, square_matrix> w1 = variable<float, square_matrix>(g, "w1", init::normal{.stddev = 0.3f});
  variable_node<float, square_matrix> w2 = variable<float, square_matrix>(g, "w2", init::normal{.stddev = 0.3f});
  node<float, rows> first = let(tanh(matmul(x, w1)));
  node<float, rows> second = let(sigmoid(matmul(first, w2)));
  node<float, dims<>> loss = mean(square(second - late));
  effect train = gradient_descent{.learning_rate = 0.5}.minimize(loss);
};

}  // namespace

BOOST_AUTO_TEST_CASE(uploads_and_downloads_beside_kernels_give_the_values_of_the_cpu) {
  model m;
  in_each_order(1, [&](gpu::emulated_platform&, session_options o) {
    session host{m.g, {.threads = 1}};
    o.device = cuda{0};
    session device{m.g, o};
    auto expected = host.prepare(fetch(m.loss, m.first, m.second, m.w2, m.train), feed(m.x, m.late));
    auto step = device.prepare(fetch(m.loss, m.first, m.second, m.w2, m.train), feed(m.x, m.late));
    for (int i = 0; i < 4; ++i) {
      const auto a = expected(numbers(i, 1), numbers(i, 2)), b = step(numbers(i, 1), numbers(i, 2));
      BOOST_CHECK_SMALL(std::get<0>(a) - std::get<0>(b), 1e-5f);
      check_close(std::get<1>(a), std::get<1>(b));
      check_close(std::get<2>(a), std::get<2>(b));
      check_close(std::get<3>(a), std::get<3>(b));
    }
    check_close(host.eval(m.w1), device.eval(m.w1));
  });
}

BOOST_AUTO_TEST_CASE(explain_says_which_kernels_a_copy_runs_beside) {
  model m;
  gpu::emulated_platform gpus;
  session s{m.g, {.threads = 1, .device = cuda{0}}};
  auto step = s.prepare(fetch(m.loss, m.first, m.train), feed(m.x, m.late));
  step(numbers(0, 1), numbers(0, 1));
  const std::string text = step.explain();
  BOOST_TEST_MESSAGE(text);
  // 0 x is uploaded; 1 first; 2 first is downloaded; 3 second; 4 late is uploaded; 5 the loss.
  CHECK_SAYS(text, "0  gpu:0  map  copy from the host, 512 bytes\n");
  CHECK_SAYS(text, "  copy 2 overlaps kernels 3 to ");
  CHECK_SAYS(text, "  copy 4 overlaps kernels 1 to 3\n");
  BOOST_TEST(text.find("copy 0 overlaps") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_variable_changes_after_the_host_has_read_it) {
  in_each_order(1, [](gpu::emulated_platform&, const session_options& o) {
    graph g;
    auto v = [&] {
      auto here = with_device(g, cuda{0});
      return variable<float, dims<4>>(g, "v", init::constant{1});
    }();
    auto seen = let(v + 10.0f);
    auto write = [&] {
      auto here = with_device(g, cuda{0});
      return assign(v, v * 2.0f + 1.0f);
    }();
    session s{g, o};
    auto step = s.prepare(fetch(seen, v, write));
    float value = 1;
    for (int i = 0; i < 3; ++i) {
      const auto [on_host, old, now] = step();
      BOOST_TEST(on_host.data()[1] == value + 10);
      BOOST_TEST(old.data()[2] == value);
      value = 2 * value + 1;
      BOOST_TEST(now.data()[3] == value);
    }
  });
}

BOOST_AUTO_TEST_CASE(what_comes_from_the_host_may_take_the_place_of_a_value_that_kernels_have_done_with) {
  in_each_order(1, [](gpu::emulated_platform&, const session_options& o) {
    graph g;
    auto x = placeholder<float, rows>(g, "x");
    auto of_host = let(x + 1.0f);
    auto here = with_device(g, cuda{0});
    auto passing = let(exp(x));
    auto sums = let(sum<1>(passing));
    auto product = let(of_host * of_host);
    session s{g, o};
    auto step = s.prepare(fetch(sums, product), feed(x));
    for (int i = 0; i < 3; ++i) {
      const auto in = numbers(i, 1);
      const auto [row_sums, squares] = step(in);
      for (int r = 0; r < 8; ++r) {
        double sum = 0;
        for (int k = 0; k < 16; ++k) {
          const double e = in.data()[16 * r + k];
          sum += std::exp(e);
          BOOST_CHECK_SMALL(squares.data()[16 * r + k] - (e + 1) * (e + 1), 1e-5);
        }
        BOOST_CHECK_SMALL(row_sums.data()[r] - sum, 1e-4);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(values_cross_from_gpu_to_gpu_beside_kernels) {
  in_each_order(2, [](gpu::emulated_platform&, const session_options& o) {
    graph g;
    auto x = placeholder<float, rows>(g, "x");
    auto first = [&] {
      auto here = with_device(g, cuda{0});
      return let(x * 3.0f);
    }();
    auto made = [&] {
      auto here = with_device(g, cuda{1});
      auto sums = let(sum<1>(let(x - 1.0f)));
      return std::tuple(sums, let(first + 1.0f));
    }();
    auto passing = std::get<0>(made);
    auto crossed = std::get<1>(made);
    auto back = [&] {
      auto here = with_device(g, cuda{0});
      return let(crossed * first);
    }();
    session s{g, o};
    auto step = s.prepare(fetch(back, passing, first), feed(x));
    for (int i = 0; i < 3; ++i) {
      const auto in = numbers(i, 1);
      const auto [product, sums, tripled] = step(in);
      for (int r = 0; r < 8; ++r) {
        double sum = 0;
        for (int k = 0; k < 16; ++k) {
          const double e = in.data()[16 * r + k];
          sum += e - 1;
          BOOST_CHECK_SMALL(tripled.data()[16 * r + k] - 3 * e, 1e-5);
          BOOST_CHECK_SMALL(product.data()[16 * r + k] - (3 * e + 1) * 3 * e, 1e-4);
        }
        BOOST_CHECK_SMALL(sums.data()[r] - sum, 1e-4);
      }
    }
  });
}

namespace {

using batch = dims<dyn<"n">, 128>;

tensor<float, batch> images(std::int64_t n, float first, bool pinned) {
  auto t = pinned ? tensor<float, batch>(shape{n, 128}, gpu::pinned_allocator{}) : tensor<float, batch>(shape{n, 128});
  for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = first + static_cast<float>(i % 64);
  return t;
}

bool was_read(const gpu::emulated_device& d, const tensor<float, batch>& t) {
  for (const void* p : d.reads_of_host())
    if (p == t.data()) return true;
  return false;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_fed_in_page_locked_memory_is_read_where_it_lies) {
  graph g;
  auto x = placeholder<float, batch>(g, "x"), y = placeholder<float, batch>(g, "y");
  auto z = let(2.0f * x + y);
  for (const bool early : {false, true})
    for (const bool changes : {true, false}) {
      gpu::emulated_platform gpus({.early = early, .changes_recordings = changes});
      auto& d = gpus.device(0);
      {
        session s{g, {.threads = 2, .device = cuda{0}}};
        auto step = s.prepare(fetch(z), feed(x, y));
        auto a = images(200, 1, true), b = images(200, 7, true), c = images(200, 3, false), e = images(150, 9, true);
        auto small = images(3, 5, true);
        const auto run = [&](tensor<float, batch>& first, tensor<float, batch>& second) {
          const auto out = step(first, second);
          BOOST_REQUIRE_EQUAL(out.elements(), first.elements());
          for (std::size_t i = 0; i < out.elements(); ++i)
            BOOST_REQUIRE_EQUAL(out.data()[i], 2 * first.data()[i] + second.data()[i]);
          for (auto* t : {&first, &second}) t->data()[t->elements() - 1] += 1;  // the caller's again
        };
        for (int i = 0; i < 3; ++i) run(a, b);
        BOOST_TEST((was_read(d, a) && was_read(d, b)));
        if (changes) CHECK_SAYS(step.explain(), "fed values read in place: 2 of 2");
        run(b, a), run(a, a), run(c, b), run(c, c), run(b, c), run(a, b);
        BOOST_TEST(!was_read(d, c));
        for (int i = 0; i < 3; ++i) run(e, e), run(small, small), run(c, a);
        BOOST_TEST(!was_read(d, small));  // it is copied sooner than asked about
        BOOST_TEST(was_read(d, e));
        {
          auto passing = images(200, 2, true);
          run(passing, b);
        }
        auto again = images(200, 4, true);
        run(again, b), run(c, again);
        BOOST_TEST(d.count().recordings == (changes ? 3u : 6u));
        BOOST_TEST((d.count().recorded_copies_changed > 0) == changes);
        BOOST_TEST(d.count().pageable_copies == 0u);
      }
      BOOST_TEST(d.mistakes().empty());
    }
}

BOOST_AUTO_TEST_CASE(page_locked_memory_is_asked_of_a_gpu) {
  BOOST_CHECK_EXCEPTION((tensor<float, dims<4>>(shape{4}, gpu::pinned_allocator{})), error,
                        [](const error& e) { return e.code() == error_code::unavailable; });
  gpu::emulated_platform gpus;
  {
    const tensor<float, dims<4>> t(shape{4}, gpu::pinned_allocator{});
    BOOST_TEST(gpus.device(0).is_page_locked(t.data(), 16));
    BOOST_TEST(!gpus.device(0).is_page_locked(t.data(), 1 << 20));
    gpus.fail_allocation(1);
    BOOST_CHECK_EXCEPTION((tensor<float, dims<4>>(shape{4}, gpu::pinned_allocator{})), error,
                          [](const error& e) { return e.code() == error_code::resource_exhausted; });
  }
  BOOST_TEST(gpus.device(0).count().live_host_bytes == 0u);
}

BOOST_AUTO_TEST_CASE(a_step_that_fails_leaves_page_locked_memory_to_the_caller) {
  graph g;
  auto x = placeholder<float, batch>(g, "x");
  auto z = let(x * 3.0f);
  for (std::size_t launch = 1; launch < 4; ++launch) {
    gpu::emulated_platform gpus;
    session s{g, {.threads = 1, .device = cuda{0}}};
    auto step = s.prepare(fetch(z), feed(x));
    auto a = images(200, 1, true), c = images(200, 2, false);
    gpus.fail_launch(launch);
    try {
      for (int i = 0; i < 3; ++i) step(a);
    } catch (const error& e) {
      BOOST_TEST((e.code() == error_code::internal));
    }
    gpus.fail_launch(0);
    BOOST_TEST(!gpus.device(0).is_busy());
    for (const auto* t : {&c, &a, &c}) BOOST_TEST(step(*t).data()[5] == 3 * t->data()[5]);
  }
}

BOOST_AUTO_TEST_CASE(a_launch_that_fails_among_copies_leaves_the_session_usable) {
  model m;
  for (std::size_t launch = 1; launch < 16; ++launch)  // in the first run, or in the recording of the second one
    in_each_order(1, [&](gpu::emulated_platform& gpus, session_options o) {
      session host{m.g, {.threads = 1}};
      o.device = cuda{0};
      session device{m.g, o};
      auto expected = host.prepare(fetch(m.loss, m.first), feed(m.x, m.late));
      auto step = device.prepare(fetch(m.loss, m.first), feed(m.x, m.late));
      gpus.fail_launch(launch);
      try {
        for (int i = 0; i < 2; ++i) step(numbers(0, 1), numbers(0, 2));
      } catch (const error& e) {
        BOOST_TEST((e.code() == error_code::internal));
        BOOST_TEST(!gpus.device(0).is_busy());  // no copy reads what the next step writes
      }
      gpus.fail_launch(0);
      for (int i = 1; i < 3; ++i) {
        const auto a = expected(numbers(i, 1), numbers(i, 2)), b = step(numbers(i, 1), numbers(i, 2));
        BOOST_CHECK_SMALL(std::get<0>(a) - std::get<0>(b), 1e-5f);
        check_close(std::get<1>(a), std::get<1>(b));
      }
    });
}
