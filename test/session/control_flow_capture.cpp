// SPDX-License-Identifier: BSL-1.0
// What bodies read from outside.
#include <cmath>
#include <string>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/graph/random.hpp>
#include <weft/nn.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/session/step_plan.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "ops/gradient_check.hpp"

using namespace weft;
using test::failure;

namespace {

using vec = dims<3>;
using steps = dyn_extent<"steps">;
using series = dims<steps{}, 3>;

template <class Tensor>
void check_elements(const Tensor& x, std::initializer_list<double> right) {
  BOOST_REQUIRE_EQUAL(x.elements(), right.size());
  std::size_t i = 0;
  for (const double e : right) BOOST_CHECK_CLOSE(static_cast<double>(x.data()[i++]), e, 1e-4);
}
template <class A, class B>
void check_equal(const A& a, const B& b) {
  BOOST_REQUIRE_EQUAL(a.elements(), b.elements());
  for (std::size_t i = 0; i < a.elements(); ++i) BOOST_CHECK_EQUAL(a.data()[i], b.data()[i]);
}
template <class T, class D = series>
tensor<T, D> counting(const shape& extents) {
  tensor<T, D> x(extents);
  for (std::size_t k = 0; k < x.elements(); ++k) x.data()[k] = static_cast<T>(1 + k % 7) / T(4);
  return x;
}

/// The node of a value.
const node_def& record_of(const graph& g, const auto& y) { return g[y.id().node].def; }

}  // namespace

BOOST_AUTO_TEST_CASE(bodies_read_values_variables_and_placeholders) {
  graph g;
  const auto x = placeholder<double, vec>(g, "x");
  const auto w = variable<double, vec>(g, "w", tensor<double, vec>{1, 2, 3});
  const auto n = placeholder<int>(g, "n");
  const auto doubled = let(w * 2., "doubled");
  const auto y = cond(sum(x) > 0., [&] { return x * w; }, [&] { return doubled; });
  BOOST_CHECK_EQUAL(record_of(g, y).inputs.size(), 4u);  // the predicate, x, w, doubled
  const auto [i, z] =
      while_loop([&](auto i) { return i < n; }, [&](auto i, auto z) { return std::tuple{i + 1, z * w + sum(doubled)}; },
                 {.max_iterations = 5}, tensor<int>(0), x);
  const auto by_operands =
      while_loop([](auto i, auto, auto n, auto...) { return i < n; },
                 [](auto i, auto z, auto, auto w, auto d) { return std::tuple{i + 1, z * w + sum(d)}; },
                 {.max_iterations = 5}, tensor<int>(0), x, invariant(n), invariant(w), invariant(doubled));
  const auto [dx, dw] = gradients(sum(square(z)) + sum(y), x, w);
  const auto [ox, ow] = gradients(sum(square(std::get<1>(by_operands))) + sum(y), x, w);
  session s{g};
  auto step = s.prepare(fetch(y, z, std::get<1>(by_operands), dx, dw, ox, ow), feed(x, n));
  for (const auto& [sign, count] : {std::pair{1., 3}, {-1., 2}, {1., 0}}) {
    const auto [a, b, c, d, e, f, h] = step(tensor<double, vec>{sign, 2 * sign, 3 * sign}, count);
    if (sign > 0)
      check_elements(a, {1, 4, 9});
    else
      check_elements(a, {2, 4, 6});
    check_equal(b, c), check_equal(d, f), check_equal(e, h);
  }
  check_elements(std::get<1>(step(tensor<double, vec>{1, 1, 1}, 2)), {25, 40, 57});
}

BOOST_AUTO_TEST_CASE(a_value_is_captured_once_and_only_if_it_is_read) {
  graph g;
  const auto x = placeholder<double, vec>(g, "x");
  const auto w = variable<double, vec>(g, "w", init::ones{}), unused = variable<double, vec>(g, "unused", init::ones{});
  const auto y = cond(
      sum(x) > 0.,
      [&](auto x) {
        BOOST_CHECK(graph_of(unused).is_subgraph());
        static_cast<void>(let(unused * 2.));
        return x * w * w + sum(w);
      },
      [&](auto x) { return x - w; }, x);
  BOOST_CHECK_EQUAL(record_of(g, y).inputs.size(), 3u);
  session s{g};
  auto step = s.prepare(fetch(y), feed(x));
  check_elements(step(tensor<double, vec>{1, 2, 3}), {4, 5, 6});
  check_elements(step(tensor<double, vec>{-1, -2, -3}), {-2, -3, -4});
  CHECK_SAYS(explain(step), "then, captures w:\n");
  CHECK_SAYS(explain(step), "else, captures w:\n");
}

BOOST_AUTO_TEST_CASE(gradients_of_captured_values) {
  for (const int n : {0, 1, 3}) {
    gradient_check check;
    const auto x = check.input<vec>(0.5, 1);
    const auto w = check.input<dims<3, 3>>(0.2, 0.5);
    const auto b = check.input<dims<>>(0.2, 0.5);
    const auto xs = check.input<series>(0.3, 1, shape(n, 3));
    const auto count = check.fixed(tensor<int>(n));
    const loop_options bound{.max_iterations = 4};
    check("of a branch", cond(count > 0, [&] { return x * x * b; }, [&] { return exp(x) * sum(w); }), 3);
    check("of a branch that returns it", cond(count > 0, [&](auto y) { return y * b; }, [&](auto) { return x; }, x));
    {
      const auto [i, y] =
          while_loop([&](auto i) { return i < count; },
                     [&](auto i, auto y) { return std::tuple{i + 1, sin(y) * b + x}; }, bound, tensor<int>(0), x);
      check("of a loop", y, 3);
    }
    {
      const auto [h, all] = scan(
          [&](auto h, auto row) {
            const auto next = let(tanh(matmul(h, w) + row * b));
            return std::tuple{next, next * x};
          },
          {.reverse = n == 3}, reshape<dims<1, 3>>(x), rows(xs));
      check("of a scan", sum(all) * h);
    }
    check("of a map", map([&](auto row) { return row * x + matmul(reshape<dims<1, 3>>(row), w); }, rows(xs)));
    check("of a fold", fold([&](auto sum, auto row) { return sum * b + sin(row * x); }, x * b, rows(xs)));
    check("of a branch in a loop in a scan",
          scan(
              [&](auto h, auto row) {
                const auto [i, y] = while_loop([&](auto i) { return i < count; },
                                               [&](auto i, auto y) {
                                                 const auto z = cond(
                                                     i > 0, [&] { return y * b + row; },
                                                     [&] { return y * sum(matmul(reshape<dims<1, 3>>(h), w)); });
                                                 return std::tuple{i + 1, z};
                                               },
                                               {.max_iterations = 2}, tensor<int>(0), h * x);
                return y;
              },
              x, rows(xs)));
    check("of one of several",
          case_of(count, [&] { return x * b; }, [&] { return x * x; }, [&] { return sin(x) * b; }), 3);
  }
}

BOOST_AUTO_TEST_CASE(one_of_several_branches_runs) {
  graph g;
  const auto x = placeholder<double, vec>(g, "x");
  const auto k = placeholder<std::int64_t>(g, "k");
  const auto [y, z] = case_of(
      k, [](auto x) { return std::tuple{x, tensor<int>(0)}; }, [](auto x) { return std::tuple{-x, tensor<int>(1)}; },
      [](auto x) { return std::tuple{x * x, tensor<int>(2)}; }, x);
  const auto only = case_of(cast<std::int32_t>(k), [&] { return let(x * 3.); });
  session s{g};
  auto step = s.prepare(fetch(y, z, only), feed(x, k));
  const auto run = [&](std::int64_t which) { return step(tensor<double, vec>{1, -2, 3}, which); };
  check_elements(std::get<0>(run(0)), {1, -2, 3});
  check_elements(std::get<0>(run(1)), {-1, 2, -3});
  for (const std::int64_t last : {std::int64_t{2}, std::int64_t{3}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    check_elements(std::get<0>(run(last)), {1, 4, 9});
    BOOST_CHECK_EQUAL(std::get<1>(run(last)), 2);
    check_elements(std::get<2>(run(last)), {3, -6, 9});
  }
  CHECK_SAYS(explain(step), "case_1:\n");
  const tensor<double, vec> v{1, 2, 3};
  const auto at_once = [&](int which) {
    return case_of(tensor<int>(which), [&] { return v; }, [&] { return v * 2.; }, [&] { return v * v; });
  };
  check_elements(at_once(0), {1, 2, 3}), check_elements(at_once(1), {2, 4, 6});
  check_elements(at_once(-1), {1, 4, 9}), check_elements(at_once(3), {1, 4, 9});
}

BOOST_AUTO_TEST_CASE(rows_are_mapped_and_folded) {
  graph g;
  const auto xs = placeholder<double, series>(g, "xs");
  const auto w = variable<double, vec>(g, "w", tensor<double, vec>{1, 2, 3});
  const auto mapped = map([&](auto row) { return sum(row * w); }, rows(xs));
  static_assert(std::is_same_v<dims_t<decltype(mapped)>, dims<steps{}>>);
  const auto digits = [](auto so_far, auto row) { return so_far * 10. + row; };
  const auto left = fold(digits, tensor<double, vec>{0, 0, 0}, rows(xs));
  const auto right = fold(digits, {.reverse = true}, tensor<double, vec>{0, 0, 0}, rows(xs));
  session s{g};
  auto step = s.prepare(fetch(mapped, left, right), feed(xs));
  const tensor<double, series> in(shape(2, 3), {1, 2, 3, 4, 5, 6});
  const auto [a, b, c] = step(in);
  check_elements(a, {14, 32}), check_elements(b, {14, 25, 36}), check_elements(c, {41, 52, 63});
  const auto [none, first, same] = step(tensor<double, series>(shape(0, 3)));
  BOOST_CHECK_EQUAL(none.elements(), 0u);
  check_elements(first, {0, 0, 0}), check_elements(same, {0, 0, 0});
  const tensor<double, vec> v{1, 2, 3};
  check_elements(map([&](auto row) { return sum(row * v); }, rows(in)), {14, 32});
  check_elements(fold(digits, v, rows(in)), {114, 225, 336});
}

// ---- layers ----

namespace {

struct cell {
  nn::dense<16> gates;

  auto operator()(const auto& h, const auto& c, const auto& x) const {
    const auto [i, f, k, o] = split<1, 4>(gates(concat<1>(x, h)));
    const auto next = let(sigmoid(f) * c + sigmoid(i) * tanh(k));
    return std::pair{let(sigmoid(o) * tanh(next)), next};
  }
};

}  // namespace

// The weights of its product are those of nn::lstm, one upon the other.
BOOST_AUTO_TEST_CASE(an_lstm_of_a_dense_layer) {
  graph g;
  using input = dims<steps{}, 2, 3>;
  using state = dims<2, 4>;
  const auto x = placeholder<float, input>(g, "x");
  const auto net = nn::named(cell{.gates = {.bias_init = init::normal{}}}, "cell");
  const auto zero = constant(g, tensor<float, state>());
  const auto [h, c, all] = scan(
      [&](auto h, auto c, auto row) {
        const auto [next_h, next_c] = net(h, c, row);
        return std::tuple{next_h, next_c, next_h};
      },
      zero, zero, rows(x));
  std::vector<std::string> names;
  for (const auto& v : variables(g)) names.push_back(v.name);
  BOOST_CHECK(names == (std::vector<std::string>{"cell/gates/weights", "cell/gates/bias"}));
  const auto w = net.gates.weights.as<dims<7, 16>>();
  const auto b = net.gates.bias.as<dims<16>>();
  // The same over operands.
  const auto [h2, c2, all2] = scan(
      [](auto h, auto c, auto row, auto w, auto b) {
        const auto [i, f, k, o] = split<1, 4>(let(matmul(concat<1>(row, h), w) + b));
        const auto next_c = let(sigmoid(f) * c + sigmoid(i) * tanh(k));
        const auto next_h = let(sigmoid(o) * tanh(next_c));
        return std::tuple{next_h, next_c, next_h};
      },
      zero, zero, rows(x), invariant(w), invariant(b));
  const auto [dw, db, dx] = gradients(mean(square(h)) + mean(square(all)), w, b, x);
  const auto [ow, ob, ox] = gradients(mean(square(h2)) + mean(square(all2)), w, b, x);
  // The layer called outside has the same variables.
  static_cast<void>(net(zero, zero, reshape<dims<2, 3>>(slice<0, 1>(x, 0))));
  BOOST_CHECK_EQUAL(variables(g).size(), 2u);
  session s{g};
  auto step = s.prepare(fetch(all, all2, dw, ow, db, ob, dx, ox), feed(x));
  for (const int count : {5, 1}) {
    const auto [a, a2, w1, w2, b1, b2, x1, x2] = step(counting<float, input>(shape(count, 2, 3)));
    check_equal(a, a2), check_equal(w1, w2), check_equal(b1, b2), check_equal(x1, x2);
    double norm = 0;
    for (const float e : w1) norm += e * e;
    BOOST_CHECK_GT(norm, 0);
  }
  CHECK_SAYS(explain(step), "body, captures cell/gates/weights, cell/gates/bias:\n");
}

namespace {

struct looked_up {
  nn::embedding<50, 4> words;
  nn::batch_norm<> norm;
  nn::dense<4> out;
};

}  // namespace

// Created in a body in a body, under the names that they have outside.
BOOST_AUTO_TEST_CASE(layers_in_bodies) {
  graph g;
  const auto ids = placeholder<std::int32_t, dims<steps{}, 2>>(g, "ids");
  const auto net = nn::named(looked_up(), "net");
  const auto h = [&] {
    const name_scope outer(g, "model");
    return scan(
        [&](auto h, auto row) {
          const auto seen = net.words(row);
          return cond(
              sum(seen) > -1000.f, [&] { return let(h * 0.5f + net.out(net.norm(seen, nn::mode::inference))); },
              [&] { return let(h + 1.f); });
        },
        constant(g, tensor<float, dims<2, 4>>()), rows(ids));
  }();
  std::vector<std::string> names;
  for (const auto& v : variables(g)) names.push_back(v.name);
  BOOST_REQUIRE_EQUAL(names.size(), 7u);
  BOOST_CHECK_EQUAL(names[0], "model/net/words/table");
  for (const std::string& name : names) BOOST_CHECK_MESSAGE(name.starts_with("model/net/"), name);
  const auto same = net.out(net.norm(net.words(ids), nn::mode::inference));
  BOOST_CHECK_EQUAL(variables(g).size(), 7u);
  const auto train = momentum{.learning_rate = 0.5}.minimize(sum(square(h)));
  session s{g};
  auto step = s.prepare(fetch(h, same, train), feed(ids));
  const auto table = find_variable<float, dims<50, 4>>(g, "model/net/words/table");
  const auto before = s.get(table);
  const auto [last, all, done] = step(tensor<std::int32_t, dims<steps{}, 2>>(shape(3, 2), {7, 8, 9, 7, 9, 9}));
  for (std::size_t k = 0; k < 8; ++k)
    BOOST_CHECK_SMALL(last.data()[k] - (all.data()[k] / 4 + all.data()[8 + k] / 2 + all.data()[16 + k]), 1e-5f);
  CHECK_SAYS(nn::describe(net), "out");
  const auto after = s.get(table);
  for (const int row : {0, 6, 10}) BOOST_CHECK_EQUAL(before(row, 1), after(row, 1));
  for (const int row : {7, 8, 9}) BOOST_CHECK_NE(before(row, 1), after(row, 1));
}

BOOST_AUTO_TEST_CASE(variables_made_in_a_body) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x");
  const auto layer = [](auto x) {
    graph& here = graph_of(x);
    const variable_scope scope(here, "layer", reuse::automatic);
    return let(x * variable<float, dims<2>>(here, "w", init::ones{}));
  };
  const auto y = cond(sum(x) > 0.f, [&](auto x) { return layer(x); }, [&](auto x) { return layer(layer(-x)); }, x);
  const auto z = layer(y);
  BOOST_CHECK_EQUAL(variables(g).size(), 1u);
  BOOST_CHECK_EQUAL(variables(g)[0].name, "layer/w");
  BOOST_CHECK_EQUAL(g[record_of(g, y).inputs[2].node].name, "layer/w");
  const auto [dw] = gradients(sum(z), find_variable<float, dims<2>>(g, "layer/w"));
  session s{g};
  check_elements(s.eval(dw, with(x, tensor<float, dims<2>>{1, 2})), {2, 4});
  check_elements(s.eval(dw, with(x, tensor<float, dims<2>>{-1, -2})), {3, 6});
}

// ---- extents, random numbers ----

BOOST_AUTO_TEST_CASE(named_extents_are_captured) {
  graph g;
  const auto x = placeholder<double, dims<dyn<"batch">, 2>>(g, "x");
  const auto table = placeholder<double, dims<dyn<"rows">, 2>>(g, "table");
  const auto n = placeholder<int>(g, "n");
  const auto [i, y] = while_loop([&](auto i) { return i < n; },
                                 [&](auto i, auto y) {
                                   const auto all = matmul<transpose_of::b>(y, table);  // [batch, rows]
                                   return std::tuple{i + 1, y + matmul(all, table) * mean<0>(x)};
                                 },
                                 {.max_iterations = 3}, tensor<int>(0), x);
  const auto [dx, dt] = gradients(sum(y), x, table);
  session s{g};
  auto step = s.prepare(fetch(y, dx, dt), feed(x, table, n));
  for (const auto& [batch, rows] : {std::pair{2, 3}, {1, 1}, {0, 2}, {2, 3}}) {
    const auto [value, gx, gt] = step(counting<double, dims<dyn<"batch">, 2>>(shape(batch, 2)),
                                      counting<double, dims<dyn<"rows">, 2>>(shape(rows, 2)), 2);
    BOOST_CHECK_EQUAL(value.extent(0), batch);
    BOOST_CHECK_EQUAL(gx.extent(0), batch);
    BOOST_CHECK_EQUAL(gt.extent(0), rows);
  }
  const auto [value, gx, gt] = step(tensor<double, dims<dyn<"batch">, 2>>(shape(1, 2), {1, 1}),
                                    tensor<double, dims<dyn<"rows">, 2>>(shape(1, 2), {1, 2}), 1);
  check_elements(value, {4, 7});
}

BOOST_AUTO_TEST_CASE(captured_values_are_drawn_from_in_each_iteration) {
  graph g;
  const auto x = placeholder<float, dims<100>>(g, "x");
  const auto once = let(dropout(x, 0.5));
  const auto counts = constant(g, tensor<int, dims<4>>());
  const auto each = map([&](auto) { return dropout(x, 0.5); }, rows(counts));
  const auto uniform = map([&](auto) { return random_uniform<float, dims<100>>(g); }, rows(counts));
  const auto equal = map([&](auto) { return once; }, rows(counts));
  const auto [dx] = gradients(sum(each), x);
  session s{g};
  tensor<float, dims<100>> ones;
  for (int k = 0; k < 100; ++k) ones(k) = 1;
  const auto [a, b, c, d] = s.run(fetch(each, uniform, equal, dx), with(x, ones));
  const auto row = [](const auto& x, int t) {
    return std::vector<float>(x.data() + t * 100, x.data() + t * 100 + 100);
  };
  for (int t = 0; t < 4; ++t)
    for (int u = 0; u < t; ++u) {
      BOOST_CHECK(row(a, t) != row(a, u));
      BOOST_CHECK(row(b, t) != row(b, u));
      BOOST_CHECK(row(c, t) == row(c, u));
    }
  for (int k = 0; k < 100; ++k) BOOST_CHECK_EQUAL(d(k), a(0, k) + a(1, k) + a(2, k) + a(3, k));
}

// ---- what is said ----

BOOST_AUTO_TEST_CASE(what_bodies_do_not_capture) {
  graph g, other;
  const auto x = placeholder<double, vec>(g, "x");
  const auto v = variable<double, vec>(g, "v", init::ones{});
  const auto far = placeholder<double, vec>(other, "far");
  const auto refused = [&](const auto& body) {
    return failure(error_code::invalid_argument,
                   [&] { static_cast<void>(cond(sum(x) > 0., body, [&] { return let(x * 1.); })); });
  };
  CHECK_SAYS(refused([&] { return let(x + far); }), "operands belong to different graphs");
  CHECK_SAYS(refused([&] { return far; }), "then: returns a value of another graph");
  CHECK_SAYS(refused([&] {
               static_cast<void>(assign(v, x));
               return x;
             }),
             "writes a variable in a subgraph: return the value, and assign it outside");
  CHECK_SAYS(refused([&] {
               const auto there = with_device(g, cpu{0});
               return let(x * 2.0);
             }),
             "subgraphs run where their node runs");
  CHECK_SAYS(refused([&] {
               const auto there = colocate_with(g, v);
               return let(x * 2.0);
             }),
             "subgraphs run where their node runs");
  CHECK_SAYS(refused([&] { return placeholder<double, vec>(graph_of(x), "y"); }), "is a placeholder of the subgraph");
  CHECK_SAYS(
      failure(error_code::failed_precondition,
              [&] { static_cast<void>(cond(sum(x) > 0., [&] { return node<double, vec>(); }, [&] { return x; })); }),
      "is empty");
  node<double, vec> inner;
  const auto y = cond(
      sum(x) > 0.,
      [&] {
        inner = let(x * 2.);
        return inner;
      },
      [&] { return x; });
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { static_cast<void>(let(y + inner)); }), "different graphs");
  // A body that failed leaves the graph as it was.
  session s{g};
  check_elements(s.eval(y + x, with(x, tensor<double, vec>{1, 2, 3})), {3, 6, 9});
  check_elements(s.eval(v), {1, 1, 1});
}

// An operand that is passed twice has two gradients, and one that is also captured has both.
BOOST_AUTO_TEST_CASE(gradients_of_one_value_in_several_places) {
  gradient_check check;
  const auto x = check.input<vec>(0.5, 1);
  const auto p = check.fixed(tensor<bool>(true));
  check(
      "of a branch",
      cond(
          p, [&](auto a, auto b, auto c) { return a * b * b * c * x; }, [](auto a, auto, auto) { return a; }, x, x, x),
      3);
  const auto xs = check.input<dims<3, 3>>(0.5, 1);
  check("of a scan", scan([&](auto h, auto row) { return h * row + matmul(reshape<dims<1, 3>>(row * x), xs); },
                          reshape<dims<1, 3>>(x), rows(xs)));
}
