// SPDX-License-Identifier: BSL-1.0
#include <fstream>
#include <string>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/session/step_plan.hpp>
#include <weft/session/trace.hpp>
#include <weft/weft.hpp>

#include "counted_allocations.hpp"
#include "errors.hpp"
#include "ops/gradient_check.hpp"

using namespace weft;
using test::failure;

namespace {

using batch = dyn_extent<"batch">;
using vec = dims<3>;

template <class Tensor>
void check_elements(const Tensor& x, std::initializer_list<double> right) {
  BOOST_REQUIRE_EQUAL(x.elements(), right.size());
  std::size_t i = 0;
  for (const double e : right) BOOST_CHECK_CLOSE(static_cast<double>(x.data()[i++]), e, 1e-9);
}

/// x^n by n products, with n a value of the step.
template <class X, class N>
auto power_by_loop(const X& x, const N& n, const loop_options& o = {}) {
  const auto [i, y] = while_loop([](auto i, auto, auto, auto n) { return i < n; },
                                 [](auto i, auto y, auto x, auto) { return std::tuple{i + 1, y * x}; }, o,
                                 tensor<int>(0), x / x, invariant(x), invariant(n));
  return y;
}

}  // namespace

// ---- cond ----

BOOST_AUTO_TEST_CASE(cond_yields_what_the_taken_branch_does) {
  graph g;
  const auto x = placeholder<double, vec>(g, "x");
  const auto a = placeholder<double>(g, "a");
  const auto [y, n] = cond(
      sum(x) > a, [](auto x, auto a) { return std::tuple{x * a, tensor<int>(1)}; },
      [](auto x, auto) { return std::tuple{x, tensor<int>(2)}; }, x, a);
  static_assert(std::is_same_v<dims_t<decltype(y)>, vec> && std::is_same_v<value_t<decltype(n)>, int>);
  session s{g};
  auto step = s.prepare(fetch(y, n, y + 1.), feed(x, a));
  for (const double limit : {2.0, 7.0, 3.0}) {
    const auto [value, branch, more] = step(tensor<double, vec>{1, 2, 3}, limit);
    const double f = limit < 6 ? limit : 1;
    BOOST_CHECK_EQUAL(branch, limit < 6 ? 1 : 2);
    check_elements(value, {f, 2 * f, 3 * f});
    check_elements(more, {f + 1, 2 * f + 1, 3 * f + 1});
  }
}

BOOST_AUTO_TEST_CASE(a_branch_that_is_not_taken_does_not_run) {
  graph g;
  const auto x = placeholder<float, dims<4>>(g, "x");
  const auto n = placeholder<std::int32_t, dims<2>>(g, "n");
  const auto taken = placeholder<bool>(g, "taken");
  const auto y =
      cond(taken, [](auto x, auto n) { return gather(x, n); }, [](auto x, auto) { return slice<0, 0, 2>(x); }, x, n);
  session s{g};
  auto step = s.prepare(fetch(y), feed(x, n, taken));
  const tensor<float, dims<4>> v{1, 2, 3, 4};
  const tensor<std::int32_t, dims<2>> right{3, 0}, wrong{3, 4};
  check_elements(step(v, wrong, false), {1, 2});
  check_elements(step(v, right, true), {4, 1});
  const std::string said = failure(error_code::out_of_range, [&] { step(v, wrong, true); });
  CHECK_SAYS(said, "cond: ");
  CHECK_SAYS(said, "indices[1] is 4");
  check_elements(step(v, wrong, false), {1, 2});
}

BOOST_AUTO_TEST_CASE(gradients_of_cond) {
  for (const bool taken : {true, false}) {
    gradient_check check;
    const auto p = check.fixed(tensor<bool>(taken));
    const auto x = check.input<vec>(0.5, 2);
    const auto w = check.input<dims<>>(0.5, 2);
    const auto k = check.fixed(tensor<int>(3));
    check("of one operand", cond(p, [](auto x) { return exp(x) * x; }, [](auto x) { return log(x); }, x));
    check("of an operand that one branch reads",
          cond(p, [](auto x, auto w) { return x * w * w; }, [](auto x, auto) { return x * x * 2.0; }, x, w));
    const auto [a, b] = cond(
        p, [](auto x, auto w, auto) { return std::tuple{sum(x * w), x}; },
        [](auto x, auto w, auto k) { return std::tuple{w, x * x * cast<double>(k)}; }, x, w, k);
    check("of two results", b * a);
    check("with itself as predicate", cond(w > 1., [](auto x) { return x * x; }, [](auto x) { return x * 3.; }, x * w));
    check("of a constant", cond(p, [](auto x) { return x * x; }, [](auto) { return tensor<double, vec>{1, 2, 3}; }, x));
    check("nested",
          cond(
              p,
              [](auto x, auto w) {
                return cond(sum(x) > 100., [](auto x) { return x; }, [](auto x) { return x * x * x; }, x * w);
              },
              [](auto x, auto w) { return x * w; }, x, w),
          3);
  }
}

// ---- while_loop ----

BOOST_AUTO_TEST_CASE(a_loop_runs_while_its_condition_holds) {
  graph g;
  const auto x = placeholder<double, vec>(g, "x");
  const auto n = placeholder<int>(g, "n");
  const auto free = power_by_loop(x, n), bounded = power_by_loop(x, n, {.max_iterations = 4});
  session s{g};
  auto step = s.prepare(fetch(free, bounded), feed(x, n));
  for (const int k : {3, 0, -1, 9, 4}) {
    const auto [a, b] = step(tensor<double, vec>{1, -2, 3}, k);
    const auto power = [](double base, int n) {
      double p = 1;
      for (; n > 0; --n) p *= base;
      return p;
    };
    check_elements(a, {1, power(-2, k), power(3, k)});
    const int limited = k < 4 ? k : 4;
    check_elements(b, {1, power(-2, limited), power(3, limited)});
  }
}

BOOST_AUTO_TEST_CASE(variables_change_places) {
  graph g;
  const auto a = placeholder<double, vec>(g), b = placeholder<double, vec>(g);
  const auto n = placeholder<int>(g);
  const auto [i, x, y, z] = while_loop([](auto i, auto, auto, auto, auto n) { return i < n; },
                                       [](auto i, auto x, auto y, auto z, auto) { return std::tuple{i + 1, y, x, z}; },
                                       tensor<int>(0), a, b, a, invariant(n));
  session s{g};
  auto step = s.prepare(fetch(x, y, z), feed(a, b, n));
  for (const int k : {0, 1, 2, 5}) {
    const auto [first, second, third] = step(tensor<double, vec>{1, 2, 3}, tensor<double, vec>{4, 5, 6}, k);
    if (k % 2)
      check_elements(first, {4, 5, 6}), check_elements(second, {1, 2, 3});
    else
      check_elements(first, {1, 2, 3}), check_elements(second, {4, 5, 6});
    check_elements(third, {1, 2, 3});
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_loops) {
  for (const int n : {0, 1, 3}) {
    gradient_check check;
    const auto x = check.input<vec>(0.5, 1);
    const auto w = check.input<dims<3, 3>>(0.2, 0.5);
    const auto b = check.input<dims<>>(0.2, 0.5);
    const auto count = check.fixed(tensor<int>(n));
    const auto less = [](auto i, auto... more) { return i < std::get<sizeof...(more) - 1>(std::tuple{more...}); };
    const loop_options bound{.max_iterations = 4};
    {
      const auto [i, y] = while_loop(
          less, [](auto i, auto y, auto b, auto) { return std::tuple{i + 1, sin(y) * b + y}; }, bound, tensor<int>(0),
          x, invariant(b), invariant(count));
      check("of a variable and an invariant", y, 3);
    }
    {
      const auto [i, h] = while_loop(
          less,
          [](auto i, auto h, auto w, auto b, auto) {
            return std::tuple{i + 1, tanh(matmul(h, w) + b * cast<double>(i))};
          },
          bound, tensor<int>(0), reshape<dims<1, 3>>(x), invariant(w), invariant(b), invariant(count));
      check("of a recurrent layer", h);
    }
    {
      const auto [i, u, v] = while_loop(
          less, [](auto i, auto u, auto v, auto) { return std::tuple{i + 1, v * v, u * sum(v)}; }, bound,
          tensor<int>(0), x, x * b, invariant(count));
      check("of two variables that read each other", u + v);
    }
    {
      const auto [i, y] = while_loop(
          less,
          [](auto i, auto y, auto b, auto n) {
            const auto [j, z] = while_loop([](auto j, auto, auto, auto n) { return j < n; },
                                           [](auto j, auto z, auto b, auto) { return std::tuple{j + 1, z * z * b}; },
                                           {.max_iterations = 2}, i, y, invariant(b), invariant(n));
            return std::tuple{i + 1, z + y};
          },
          bound, tensor<int>(0), x, invariant(b), invariant(count));
      check("of a loop in a loop", y);
    }
    {
      const auto [i, y] = while_loop(
          less,
          [](auto i, auto y, auto b, auto) {
            return std::tuple{
                i + 1, cond(i > 0, [](auto y, auto) { return y * y; }, [](auto y, auto b) { return y * b; }, y, b)};
          },
          bound, tensor<int>(0), x, invariant(b), invariant(count));
      check("of a branch in a loop", y, 3);
    }
    check("of a loop in a branch", cond(
                                       count > 0,
                                       [](auto x, auto b) {
                                         const auto [y, i] = while_loop(
                                             [](auto, auto i, auto) { return i < 2; },
                                             [](auto y, auto i, auto b) { return std::tuple{y * y + b, i + 1}; },
                                             {.max_iterations = 2}, x, tensor<int>(0), invariant(b));
                                         return y;
                                       },
                                       [](auto x, auto b) { return x * b; }, x, b));
  }
}

BOOST_AUTO_TEST_CASE(a_model_with_a_loop_is_trained) {
  graph g;
  const auto x = placeholder<float, dims<batch{}, 4>>(g, "x");
  const auto wanted = placeholder<float, dims<batch{}, 4>>(g, "wanted");
  const auto w = variable<float, dims<4, 4>>(g, "w", init::normal{0, 0.3});
  const auto [i, h] = while_loop([](auto i, auto, auto) { return i < 3; },
                                 [](auto i, auto h, auto w) { return std::tuple{i + 1, tanh(matmul(h, w))}; },
                                 {.max_iterations = 3}, tensor<int>(0), x, invariant(w));
  const auto loss = mean(square(h - wanted));
  const auto train = adam{.learning_rate = 0.05}.minimize(loss);
  session s{g};
  auto step = s.prepare(fetch(loss, train), feed(x, wanted));
  float first = 0, last = 0;
  for (int k = 0; k < 200; ++k) {
    const std::int64_t n = k % 2 ? 6 : 3;
    tensor<float, dims<batch{}, 4>> in(shape(n, 4)), out(shape(n, 4));
    for (std::int64_t r = 0; r < n; ++r)
      for (int c = 0; c < 4; ++c)
        in(r, c) = (r + c) % 3 == 0 ? 0.8f : -0.3f, out(r, c) = (r + c) % 3 == 1 ? 0.5f : -0.2f;
    last = std::get<0>(step(in, out));
    if (k == 0) first = last;
  }
  BOOST_CHECK_LT(last, first / 10);
}

// Newton's steps towards the root of x^3 = a, whose derivative is a^(-2/3) / 3.
BOOST_AUTO_TEST_CASE(gradients_in_a_body) {
  graph g;
  const auto a = placeholder<double, vec>(g, "a");
  const auto root = while_loop([](auto x, auto a) { return max(abs(x * x * x - a)) > 1e-12; },
                               [](auto x, auto a) {
                                 const auto f = let(x * x * x - a);
                                 const auto [slope] = gradients(sum(f), x);
                                 return x - f / slope;
                               },
                               {.max_iterations = 50}, a, invariant(a));
  const auto [d] = gradients(sum(root), a);
  session s{g};
  const auto [x, dx] = s.run(fetch(root, d), with(a, tensor<double, vec>{8, 27, 1}));
  for (int i = 0; i < 3; ++i) {
    const double right = i == 0 ? 2 : i == 1 ? 3 : 1;
    BOOST_CHECK_CLOSE(x(i), right, 1e-9);
    BOOST_CHECK_CLOSE(dx(i), 1 / (3 * right * right), 1e-6);
  }
}

// ---- extents, memory, threads ----

BOOST_AUTO_TEST_CASE(named_extents_in_bodies) {
  graph g;
  const auto x = placeholder<double, dims<batch{}, 2>>(g, "x");
  const auto n = placeholder<int>(g, "n");
  const auto [i, y] = while_loop([](auto i, auto, auto, auto n) { return i < n; },
                                 [](auto i, auto y, auto x, auto) {
                                   const auto more =
                                       cond(i < 1, [](auto x) { return x; }, [](auto x) { return x * mean<0>(x); }, x);
                                   return std::tuple{i + 1, y + more};
                                 },
                                 {.max_iterations = 3}, tensor<int>(0), x, invariant(x), invariant(n));
  const auto [dx] = gradients(sum(y * y), x);
  session s{g};
  auto step = s.prepare(fetch(y, dx), feed(x, n));
  for (const std::int64_t size : {2, 5, 1, 2, 0, 5}) {
    tensor<double, dims<batch{}, 2>> v(shape(size, 2));
    for (std::size_t k = 0; k < v.elements(); ++k) v.data()[k] = 1 + static_cast<double>(k);
    const auto [value, gradient] = step(v, 2);
    BOOST_REQUIRE_EQUAL(value.extent(0), size);
    const double h = 1e-5;
    const auto expected = [&](const auto& x, std::int64_t r, std::int64_t c) {
      double mean = 0;
      for (std::int64_t k = 0; k < size; ++k) mean += x(k, c) / static_cast<double>(size);
      return 2 * x(r, c) + x(r, c) * mean;
    };
    for (std::int64_t r = 0; r < size; ++r)
      for (std::int64_t c = 0; c < 2; ++c) {
        BOOST_CHECK_CLOSE(value(r, c), expected(v, r, c), 1e-9);
        double difference = 0;
        for (const double d : {h, -h}) {
          auto moved = v;
          moved(r, c) += d;
          for (std::int64_t k = 0; k < size; ++k) difference += expected(moved, k, c) * expected(moved, k, c) / (2 * d);
        }
        BOOST_CHECK_CLOSE(gradient(r, c), difference, 1e-4);
      }
  }
}

#if COUNTS_MALLOC
BOOST_AUTO_TEST_CASE(bodies_allocate_nothing_after_the_first_calls) {
  for (const int threads : {1, 2}) {
    graph g;
    const auto x = placeholder<float, dims<batch{}, 40>>(g, "x");
    const auto w = variable<float, dims<40, 40>>(g, "w", init::normal{0, 0.1});
    const auto [i, h] =
        while_loop([](auto i, auto, auto) { return i < 5; },
                   [](auto i, auto h, auto w) {
                     return std::tuple{i + 1, cond(
                                                  mean(h) > 0.f, [](auto h, auto w) { return tanh(matmul(h, w)); },
                                                  [](auto h, auto w) { return sigmoid(matmul(h, w)); }, h, w)};
                   },
                   {.max_iterations = 6}, tensor<int>(0), x, invariant(w));
    const auto loss = mean(square(h));
    const auto train = gradient_descent{0.1}.minimize(loss);
    session s{g, {.threads = threads}};
    auto step = s.prepare(fetch(loss, train), feed(x));
    const tensor<float, dims<batch{}, 40>> full(shape(60, 40)), ragged(shape(7, 40));
    const auto epoch = [&] {
      for (int k = 0; k < 3; ++k) step(full), step(ragged);
    };
    epoch();
    BOOST_CHECK_EQUAL(test::allocations_of(epoch), 0u);
  }
}
#endif

BOOST_AUTO_TEST_CASE(branches_share_their_memory) {
  constexpr int size = 100'000;
  graph g;
  const auto x = placeholder<float, dims<size>>(g, "x");
  // Each has a value that is stored in between.
  const auto branch = [](auto x) { return sum(concat<0>(x, x)); };
  const auto y = cond(sum(x) > 0.f, branch, [&](auto x) { return -branch(x); }, x);
  session s{g};
  auto step = s.prepare(fetch(y), feed(x));
  tensor<float, dims<size>> ones;
  for (int k = 0; k < size; ++k) ones(k) = 1;
  BOOST_CHECK_EQUAL(step(ones), 2 * size);
  const std::size_t bytes = step.prepared().plan().arena_bytes(), stored = 2 * size * sizeof(float);
  BOOST_CHECK_GE(bytes, stored);
  BOOST_CHECK_LE(bytes, stored + 4096);
}

// A loop keeps values for a gradient only where one is asked for.
BOOST_AUTO_TEST_CASE(a_loop_keeps_what_a_gradient_reads) {
  constexpr int size = 10'000;
  const auto bytes = [](bool with_gradient) {
    graph g;
    const auto x = placeholder<float, dims<size>>(g, "x");
    const auto [i, y] =
        while_loop([](auto i, auto) { return i < 20; }, [](auto i, auto y) { return std::tuple{i + 1, sin(y)}; },
                   {.max_iterations = 50}, tensor<int>(0), x);
    const auto [dx] = gradients(sum(y), x);
    session s{g};
    if (with_gradient) {
      auto step = s.prepare(fetch(dx), feed(x));
      step(tensor<float, dims<size>>());
      return step.prepared().plan().arena_bytes();
    }
    auto step = s.prepare(fetch(y), feed(x));
    step(tensor<float, dims<size>>());
    return step.prepared().plan().arena_bytes();
  };
  BOOST_CHECK_LE(bytes(false), 2 * size * sizeof(float) + 4096);
  BOOST_CHECK_GE(bytes(true), 50 * size * sizeof(float));
  BOOST_CHECK_LE(bytes(true), 56 * size * sizeof(float));
}

BOOST_AUTO_TEST_CASE(the_same_bits_with_threads_and_lanes) {
  graph g;
  const auto x = placeholder<float, dims<300, 300>>(g, "x");
  const auto layer = [](auto h) { return tanh(matmul(h, h) * 0.01f + h); };
  const auto a = cond(sum(x) > -1e9f, layer, [](auto h) { return h; }, x);
  const auto [i, b] =
      while_loop([](auto i, auto) { return i < 3; }, [&](auto i, auto h) { return std::tuple{i + 1, layer(h)}; },
                 {.max_iterations = 4}, tensor<int>(0), x);
  const auto [dx] = gradients(sum(a * b), x);
  tensor<float, dims<300, 300>> in;
  for (std::size_t k = 0; k < in.elements(); ++k) in.data()[k] = static_cast<float>(k % 17) / 17 - 0.5f;
  std::vector<float> first;
  for (const auto& [threads, lanes] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
    session s{g, {.threads = threads, .inter_op_threads = lanes}};
    auto step = s.prepare(fetch(dx), feed(x));
    step(in);
    const auto d = step(in);
    if (first.empty()) first.assign(d.data(), d.data() + d.elements());
    BOOST_CHECK(std::equal(first.begin(), first.end(), d.data()));
  }
}

BOOST_AUTO_TEST_CASE(bodies_run_where_their_node_does) {
  graph g;
  const auto x = placeholder<float, dims<batch{}, 30>>(g, "x");
  const auto y = [&] {
    const auto there = with_device(g, cpu{1});
    const auto [i, h] = while_loop(
        [](auto i, auto) { return i < 3; },
        [](auto i, auto h) {
          return std::tuple{i + 1, cond(i > 0, [](auto h) { return tanh(h); }, [](auto h) { return matmul(h, h); }, h)};
        },
        {.max_iterations = 3}, tensor<int>(0), matmul<transpose_of::a>(x, x));
    return h;
  }();
  session s{g, {.devices = 2}};
  auto step = s.prepare(fetch(y), feed(x));
  step(tensor<float, dims<batch{}, 30>>(shape(4, 30)));
  CHECK_SAYS(explain(step), "cpu:1  while_loop");
}

namespace {

/// Twice the operand, and no kernel for GPUs.
struct host_only_op {
  static constexpr const char* name = "host_only";

  class twice final : public kernel {
   public:
    explicit twice(const prepare_context& p) : from_(p.input_slots[0]), to_(p.output_slots[0]) {}
    void run(const kernel_context& f) override {
      for (int k = 0; k < 3; ++k)
        reinterpret_cast<float*>(f.buffers[to_])[k] = 2 * reinterpret_cast<float*>(f.buffers[from_])[k];
    }
    std::string describe() const override { return name; }

   private:
    std::uint32_t from_, to_;
  };
  static kernel* prepare(const prepare_context& p) { return new twice(p); }
};

}  // namespace

// With all of the bodies of the node, however deep it is in them.
BOOST_AUTO_TEST_CASE(what_no_gpu_can_run_runs_on_the_host) {
  graph g;
  const auto x = placeholder<float, vec>(g, "x");
  const auto [i, y] =
      while_loop([](auto i, auto) { return i < 2; },
                 [](auto i, auto y) {
                   const auto next = cond(
                       sum(y) > 0.f, [](auto y) { return call_operation<host_only_op, float, vec>(vec::spec, {}, y); },
                       [](auto y) { return -y; }, y);
                   return std::tuple{i + 1, next};
                 },
                 tensor<int>(0), x + 1.f);
  session s{g};
  CHECK_SAYS(s.explain(y), "on /device:CPU:0");
  auto step = s.prepare(fetch(y * 3.f), feed(x));
  for (int k = 0; k < 3; ++k) {
    check_elements(step(tensor<float, vec>{0, 1, 2}), {12, 24, 36});
    check_elements(step(tensor<float, vec>{-2, -3, -4}), {6, 12, 18});
  }
}

// Those of constants of its own, and computed ones.
BOOST_AUTO_TEST_CASE(names_in_a_body) {
  graph g;
  const auto x = placeholder<float, dims<batch{}, dyn<"width">>>(g, "x");
  const auto y = cond(
      sum(x) > 0.f, [](auto x) { return concat<0>(x, x * tensor<float, dims<dyn<"width">>>(shape(2), {1, 10})); },
      [](auto x) { return concat<0>(-x, x); }, x);
  session s{g};
  auto step = s.prepare(fetch(y), feed(x));
  using matrix = tensor<float, dims<batch{}, dyn<"width">>>;
  check_elements(step(matrix(shape(1, 2), {1, 2})), {1, 2, 1, 20});
  check_elements(step(matrix(shape(2, 2), {-1, -2, -3, -4})), {1, 2, 3, 4, -1, -2, -3, -4});
  check_elements(step(matrix(shape(1, 2), {3, 4})), {3, 4, 3, 40});
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { step(matrix(shape(1, 3), {1, 2, 3})); }),
             "the extent width is 2 here but 3 in the graph");
  check_elements(step(matrix(shape(1, 2), {1, 2})), {1, 2, 1, 20});
}

BOOST_AUTO_TEST_CASE(half_in_bodies) {
  graph g;
  const auto x = placeholder<weft::half, vec>(g, "x");
  const auto [i, y] = while_loop([](auto i, auto) { return i < 2; },
                                 [](auto i, auto y) {
                                   const auto wide = cast<float>(y);
                                   return std::tuple{i + 1, cast<weft::half>(wide * wide)};
                                 },
                                 {.max_iterations = 2}, tensor<int>(0), x);
  const auto [dx] = gradients(sum(cast<float>(y)), x);
  session s{g};
  const auto d = s.eval(dx, with(x, tensor<weft::half, vec>{weft::half(1), weft::half(2), weft::half(0.5f)}));
  check_elements(d, {4, 32, 0.5});
}

// ---- what is said ----

BOOST_AUTO_TEST_CASE(a_gradient_needs_a_bound) {
  graph g;
  const auto x = placeholder<double, vec>(g, "x");
  const auto y = power_by_loop(x, tensor<int>(3));
  const std::string said = failure(error_code::failed_precondition, [&] { static_cast<void>(gradients(sum(y), x)); });
  CHECK_SAYS(said, "while_loop: its gradient stores the loop variables of every iteration");
  CHECK_SAYS(said, "{.max_iterations = n}");
  const auto any = power_by_loop(x, tensor<int>(3), {.max_iterations = INT64_MAX});
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { static_cast<void>(gradients(sum(any), x)); }),
             "exceed the size of any memory");
  session s{g};
  check_elements(s.eval(any, with(x, tensor<double, vec>{1, 2, 3})), {1, 8, 27});
  CHECK_SAYS(failure(error_code::invalid_argument,
                     [&] { static_cast<void>(power_by_loop(x, tensor<int>(3), {.max_iterations = -2})); }),
             "max_iterations must not be negative; it is -2");
}

BOOST_AUTO_TEST_CASE(what_bodies_do_not_do) {
  graph g, other;
  const auto x = placeholder<double, vec>(g, "x");
  const auto v = variable<double, vec>(g, "v", init::ones{});
  const auto same = [](auto x) { return x; };
  const auto refused = [&](const auto& body) {
    return failure(error_code::invalid_argument, [&] { static_cast<void>(cond(sum(x) > 0., body, same, x)); });
  };
  CHECK_SAYS(refused([&](auto x) {
               static_cast<void>(assign(v, tensor<double, vec>{1, 2, 3}));
               return x;
             }),
             "writes a variable in a subgraph: return the value, and assign it outside");
  CHECK_SAYS(refused([&](auto x) {
               const auto there = with_device(g, cpu{0});
               return let(x * 2.0);
             }),
             "subgraphs run where their node runs");
  const auto of_other = placeholder<double, vec>(other, "y");
  CHECK_SAYS(failure(error_code::invalid_argument,
                     [&] {
                       static_cast<void>(cond(
                           sum(x) > 0., [](auto, auto y) { return y; }, [](auto x, auto) { return x; }, x, of_other));
                     }),
             "different graphs");
  // A call that was refused leaves nothing behind.
  session s{g};
  const auto y = cond(sum(x) > 0., same, [](auto x) { return -x; }, x);
  check_elements(s.eval(y, with(x, tensor<double, vec>{-1, -2, -3})), {1, 2, 3});
}

BOOST_AUTO_TEST_CASE(graphs_and_steps_show_bodies) {
  graph g;
  const auto x = placeholder<float, vec>(g, "x");
  const auto y = cond(
      sum(x) > 0.f, [](auto x) { return let(exp(x), "grown"); },
      [](auto x) { return cond(sum(x) < -1.f, [](auto x) { return -x; }, [](auto x) { return x; }, x); }, x);
  const std::string text = to_string(g);
  CHECK_SAYS(text,
             "\n  then(%0):\n    %0 = placeholder() : float [3]  \"parameter\"\n    %1 = map exp(a0)(%0) : float [3]  "
             "\"grown\"\n    yields %1\n  else(%0):\n");
  CHECK_SAYS(text, "\n      then(%0):\n        %0 = ");
  session s{g};
  auto step = s.prepare(fetch(y), feed(x));
  step(tensor<float, vec>{1, 2, 3});
  const std::string plan = explain(step);
  CHECK_SAYS(plan, "cond of 1 operand\n      then:\n        grown  map exp(a0)");
  CHECK_SAYS(plan, "      else:\n        ");
  CHECK_SAYS(plan, "\n          then:\n            map  map negate(a0)");
}

BOOST_AUTO_TEST_CASE(a_trace_has_the_node) {
  struct : step_observer {
    std::string seen;
    void kernel_ran(const std::string&, const std::string& node, const std::string&, std::uint64_t,
                    std::uint64_t) override {
      seen += node + " ";
    }
    void step_ended() override { seen += "."; }
  } observer;
  graph g;
  const auto x = placeholder<float, vec>(g, "x");
  const auto y = cond(sum(x) > 0.f, [](auto x) { return x; }, [](auto x) { return -x; }, x);
  session s{g};
  s.observe(&observer);
  s.eval(y, with(x, tensor<float, vec>{1, 2, 3}));
  CHECK_SAYS(observer.seen, " cond ");
}

BOOST_AUTO_TEST_CASE(equal_calls_and_hashes) {
  const auto make = [](graph& g, bool twice) {
    const auto x = placeholder<float, vec>(g, "x");
    return let(
        cond(sum(x) > 0.f, [&](auto x) { return twice ? let(x * 2.f) : let(x * 3.f); }, [](auto x) { return x; }, x));
  };
  graph a, b, c;
  make(a, true), make(b, true), make(c, false);
  BOOST_CHECK_EQUAL(a.hash(), b.hash());
  BOOST_CHECK_NE(a.hash(), c.hash());
}

// ---- over tensors ----

BOOST_AUTO_TEST_CASE(over_tensors_it_is_done_at_once) {
  const tensor<double, vec> x{1, 2, 3};
  int called = 0;
  const auto y = cond(
      sum(x) > 1., [](auto x) { return x * 2.; },
      [&](auto x) {
        ++called;
        return x;
      },
      x);
  static_assert(std::is_same_v<decltype(y), const tensor<double, vec>>);
  check_elements(y, {2, 4, 6});
  BOOST_CHECK_EQUAL(called, 0);
  check_elements(power_by_loop(x, tensor<int>(3)), {1, 8, 27});
  check_elements(power_by_loop(x, tensor<int>(3), {.max_iterations = 2}), {1, 4, 9});
  const auto z = while_loop([](auto z) { return sum(z) < 100.; }, [](auto z) { return z * 2.; }, x);
  check_elements(z, {32, 64, 96});
}

// ---- TensorFlow's ----

// As make_control_flow_values.py has them.
BOOST_AUTO_TEST_CASE(values_and_gradients_are_tensorflows) {
  std::ifstream in(TEST_DATA "/session/control_flow_values.txt");
  BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/session/control_flow_values.txt" << " cannot be read");
  const auto read = [&](auto value) {
    for (std::size_t k = 0; k < value.elements(); ++k) {
      std::string word;
      BOOST_REQUIRE((in >> word));
      value.data()[k] = std::strtod(word.c_str(), nullptr);
    }
    return value;
  };
  const auto check = [](const auto& found, const auto& right) {
    for (std::size_t k = 0; k < right.elements(); ++k) BOOST_CHECK_CLOSE(found.data()[k], right.data()[k], 1e-9);
  };
  graph g;
  const auto x = placeholder<double, dims<2, 3>>(g, "x");
  const auto w = placeholder<double, dims<3, 3>>(g, "w");
  const auto n = placeholder<int>(g, "n");
  const auto [i, h] =
      while_loop([](auto i, auto, auto, auto n) { return i < n; },
                 [](auto i, auto h, auto w, auto) {
                   const auto next = cond(
                       sum(h) > 0., [](auto h, auto w) { return tanh(matmul(h, w)); },
                       [](auto h, auto w) {
                         const auto [j, inner] =
                             while_loop([](auto j, auto, auto) { return j < 2; },
                                        [](auto j, auto h, auto w) { return std::tuple{j + 1, h * 0.5 + sum<0>(w)}; },
                                        {.max_iterations = 2}, tensor<int>(0), h, invariant(w));
                         return inner;
                       },
                       h, w);
                   return std::tuple{i + 1, next};
                 },
                 {.max_iterations = 5}, tensor<int>(0), x, invariant(w), invariant(n));
  const auto loss = sum(h * h * x);
  const auto [dx, dw] = gradients(loss, x, w);
  session s{g};
  auto step = s.prepare(fetch(i, h, dx, dw), feed(x, w, n));
  std::string word;
  std::getline(in, word);
  int cases = 0;
  while (in >> word) {
    BOOST_REQUIRE_EQUAL(word, "case");
    int count = 0, iterations = 0;
    in >> count >> iterations;
    const auto xs = read(tensor<double, dims<2, 3>>());
    const auto ws = read(tensor<double, dims<3, 3>>());
    const auto [it, value, of_x, of_w] = step(xs, ws, count);
    BOOST_CHECK_EQUAL(it, iterations);
    check(value, read(tensor<double, dims<2, 3>>()));
    check(of_x, read(tensor<double, dims<2, 3>>()));
    check(of_w, read(tensor<double, dims<3, 3>>()));
    ++cases;
  }
  BOOST_CHECK_EQUAL(cases, 6);
}
