// SPDX-License-Identifier: BSL-1.0
// What the passes of plan/compile.hpp decide for small graphs; the expectations follow from docs/explanation/design.md,
// "Order".
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>
#include <weft/plan/compile.hpp>
#include <weft/weft.hpp>

using namespace weft;
using weft::plan::none;

namespace {

using matrix = dims<3, 3>;

/// A step on one CPU, by default with one lane, compiled without a session.
struct planned {
  plan::placement place;
  sequence<plan::variable_state> variables;
  extent_bindings extents, known;
  memory_resource memory;
  plan::random_state random;
  plan::environment session;
  std::unique_ptr<plan::compiled_step> step;

  planned(const graph& g, std::vector<value> fetches, std::vector<std::uint32_t> targets = {}, std::size_t lanes = 1)
      : place(g, 1, nullptr, {}, true), session{place, variables, extents, memory, nullptr, nullptr, 1, lanes, random} {
    variables.resize(g.size());
    plan::step_request request;
    for (const value& each : fetches) request.fetches.push_back(each);
    for (const std::uint32_t each : targets) request.targets.push_back(each);
    for (std::uint32_t n = 0; n < g.size(); ++n)
      if (is_operation<placeholder_op>(g[n].def.op)) request.feeds.push_back({n, 0});
    step = std::make_unique<plan::compiled_step>(session, g, std::move(request));
    plan::compile(*step, known);
  }
  const plan::program& program() const { return *step->made; }
  const plan::step_buffer& buffer(value v) const { return program().buffers[program().root_of(v)]; }
  /// The number of the instruction that computes a node of the graph.
  std::uint32_t instruction_of(value v) const {
    for (std::uint32_t i = 0; i < program().instructions.size(); ++i) {
      const plan::instruction& in = program().instructions[i];
      if (in.node == program().index_of(v) || in.leader == program().index_of(v)) return i;
    }
    return none;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(nodes_that_nothing_needs_are_pruned) {
  graph g;
  const auto x = placeholder<float, matrix>(g, "x");
  const auto needed = let(matmul(x, x)), unused = let(matmul(needed, x));
  const planned step(g, {needed.id()});
  BOOST_TEST(step.program().instructions.size() == 1u);
  BOOST_TEST(step.program().index[unused.id().node] == none);
}

// A node that writes a variable runs after all that read its old value, whichever was made first.
BOOST_AUTO_TEST_CASE(writes_are_ordered_after_reads) {
  graph g;
  const auto v = variable<float, matrix>(g, "v", 1.0f);
  const auto x = placeholder<float, matrix>(g, "x");
  const auto write = assign(v, x);
  const auto late = let(matmul(let(matmul(x, x)), v));
  const planned step(g, {late.id()}, {write.id().node});
  const std::uint32_t reads = step.instruction_of(late.id()), writes = step.instruction_of({write.id().node, 0});
  BOOST_REQUIRE((reads != none && writes != none));
  BOOST_TEST(reads < writes);
}

BOOST_AUTO_TEST_CASE(an_expression_runs_with_the_product_that_it_alone_reads) {
  graph g;
  const auto x = placeholder<float, matrix>(g, "x");
  const auto product = let(matmul(x, x));
  const auto result = let(tanh(product));
  const planned alone(g, {result.id()});
  BOOST_REQUIRE(alone.program().instructions.size() == 1u);
  BOOST_TEST(alone.program().instructions[0].node == alone.program().index_of(result.id()));
  BOOST_TEST(alone.program().instructions[0].leader == alone.program().index_of(product.id()));
  // A product that is fetched is stored as well.
  const planned both(g, {result.id(), product.id()});
  BOOST_REQUIRE(both.program().instructions.size() == 2u);
  for (const plan::instruction& each : both.program().instructions) BOOST_TEST(each.leader == none);
}

BOOST_AUTO_TEST_CASE(an_array_whose_parts_several_lanes_write_is_in_the_memory_of_the_first) {
  graph g;
  using wide = dims<64, 64>;
  const auto x = placeholder<float, wide>(g, "x");
  const auto a = let(exp(x)), b = let(tanh(x));  // one for each lane
  const auto y = let(matmul(concat<1>(b * 2, a * 3), let(concat<0>(a, b))));
  const planned step(g, {y.id()}, {}, 2);
  std::uint32_t joined = none;
  std::vector<std::uint32_t> lanes;
  for (const plan::instruction& in : step.program().instructions)
    for (const std::uint32_t w : in.writes) {
      if (step.program().buffers[w].declared.extents != shape(64, 128)) continue;
      joined = w;
      lanes.push_back(in.lane);
    }
  BOOST_REQUIRE_EQUAL(lanes.size(), 2u);
  BOOST_TEST(lanes[0] != lanes[1]);
  BOOST_TEST(step.program().buffers[joined].arena == lanes[0]);
  BOOST_TEST(step.program().buffers[joined].last == none);
}

BOOST_AUTO_TEST_CASE(buffers_live_from_their_first_write_to_their_last_read) {
  graph g;
  const auto x = placeholder<float, matrix>(g, "x");
  const auto a = let(matmul(x, x));
  const auto b = let(matmul(a, x));
  const auto c = let(matmul(b, a));
  const auto d = let(matmul(c, x));
  const planned step(g, {d.id()});
  BOOST_TEST(step.program().instructions.size() == 4u);
  BOOST_TEST(step.buffer(a.id()).first == 0u);
  BOOST_TEST(step.buffer(a.id()).last == 2u);
  BOOST_TEST(step.buffer(b.id()).first == 1u);
  BOOST_TEST(step.buffer(b.id()).last == 2u);
  BOOST_TEST(step.buffer(c.id()).last == 3u);
  BOOST_TEST((step.buffer(a.id()).kind == plan::buffer_kind::arena));
  BOOST_TEST((step.buffer(x.id()).kind == plan::buffer_kind::fed));
  BOOST_TEST((step.buffer(d.id()).kind == plan::buffer_kind::caller));
}

// An elementwise result takes the memory of an operand that no later instruction reads.
BOOST_AUTO_TEST_CASE(elementwise_results_overwrite_operands) {
  graph g;
  const auto x = placeholder<float, matrix>(g, "x");
  const auto a = let(exp(x));
  const auto b = let(tanh(a));
  const auto c = let(matmul(b, x));
  const planned step(g, {c.id()});
  BOOST_TEST(step.buffer(b.id()).forwarded_from == step.program().root_of(a.id()));
  const auto both = let(matmul(b, a));
  const planned reads_both(g, {both.id()});
  BOOST_TEST(reads_both.buffer(b.id()).forwarded_from == none);
}

BOOST_AUTO_TEST_CASE(an_array_whose_parts_are_repeated_is_not_overwritten) {
  graph g;
  const auto x = placeholder<float, dims<7, 2, 400>>(g, "x");
  const auto whole = let(tanh(x));
  const auto [a, b] = split<1, 2>(whole);
  const auto repeated = let(b * x + a), other = let(whole * x);
  const auto forwarded = [&](const auto& y) {
    const auto moved = transpose<0, 2, 1>(y);
    return planned(g, {moved.id()}).buffer(y.id()).forwarded_from;
  };
  BOOST_TEST(forwarded(repeated) == none);
  BOOST_TEST(forwarded(other) != none);
}

// Elementwise kernels read the parts of an array, and write the parts of a joined array, where these are.
BOOST_AUTO_TEST_CASE(elementwise_kernels_access_parts_within_arrays) {
  graph g;
  const auto x = placeholder<float, dims<2, 6>>(g, "x");
  const auto whole = let(matmul(placeholder<float, dims<2, 4>>(g, "y"), placeholder<float, dims<4, 6>>(g, "z")));
  const auto [a, b, c] = split<1, 3>(whole);
  const auto [left, right] = split<1, 2>(x);
  const auto d = let(tanh(a * b)), e = let(c / d);
  const auto joined = let(concat<1>(d, e));
  const auto twice = let(concat<1>(left * 2, right * 3));
  const auto followed = let(matmul(whole, placeholder<float, dims<6, 2>>(g, "w")) * c);
  const auto instructions = [&](std::vector<value> fetches) {
    return planned(g, std::move(fetches)).program().instructions.size();
  };
  BOOST_TEST(instructions({d.id()}) == 2u);          // the product and tanh
  BOOST_TEST(instructions({e.id()}) == 3u);          // c / d reads the product, too
  BOOST_TEST(instructions({d.id(), a.id()}) == 3u);  // a is fetched, so split copies
  BOOST_TEST(instructions({joined.id()}) == 4u);     // c / d reads d as well, so concat copies
  BOOST_TEST(instructions({followed.id()}) == 2u);   // an expression that follows a product reads c
  const planned step(g, {twice.id()});
  BOOST_TEST(step.program().instructions.size() == 2u);  // both write what is fetched
  BOOST_TEST((step.buffer(twice.id()).kind == plan::buffer_kind::caller));
  BOOST_TEST(step.buffer(twice.id()).first == 0u);
}

namespace {

/// Compares a step that reads and writes parts with the same function of tensors, and its gradient with a difference.
template <class D, class F>
void compare_parts(const shape& extents, const F& f) {
  graph g;
  const auto x = placeholder<double, D>(g, "x");
  tensor<double, D> values(extents);
  for (std::size_t i = 0; i < values.elements(); ++i) values.data()[i] = static_cast<double>(i * 37 % 101) / 50 - 1;
  const auto y = f(x);
  const auto [dx] = gradients(sum(y * y), x);
  session s(g, {.threads = 2});
  const auto [result, gradient] = s.run(fetch(y, dx), with(x, values));
  const auto expected = f(values);
  BOOST_REQUIRE(result.extents() == expected.extents());
  BOOST_TEST((std::equal(result.begin(), result.end(), expected.begin())));
  auto forward = values, backward = values;
  double derivative = 0;
  constexpr double h = 1e-5;
  for (std::size_t i = 0; i < values.elements(); ++i) {
    const double along = static_cast<double>(i * 53 % 97) / 97 - 0.4;
    derivative += gradient.data()[i] * along;
    forward.data()[i] += h * along;
    backward.data()[i] -= h * along;
  }
  const double difference = eval(sum(square(f(forward))) - sum(square(f(backward))))();
  BOOST_TEST(difference / (2 * h) == derivative, boost::test_tools::tolerance(1e-5));
}

template <int Axis>
constexpr auto gates = [](const auto& x) {
  const auto [a, b, c] = split<Axis, 3>(x + 1);
  const auto d = materialize(tanh(a) * sigmoid(b));
  const auto [e, f, h] = split<Axis, 3>(concat<Axis>(a * b, d * c, exp(c * 0.5) - d));
  return materialize(e * d + f / (h * h + 2));
};
/// The last expression follows a product.
constexpr auto product_of_gates = [](const auto& x) {
  const auto [a, b] = split<-1, 2>(x + 1);
  const auto c = materialize(a * b);
  return materialize(tanh(matmul<transpose_of::b>(c, c) * 0.1) * a + b);
};

}  // namespace

BOOST_AUTO_TEST_CASE(parts_have_the_values_of_copies) {
  compare_parts<dims<dyn<"n">, 6>>(shape(5, 6), gates<1>);        // short rows, gathered in tiles
  compare_parts<dims<dyn<"n">, 900>>(shape(7, 900), gates<1>);    // long rows
  compare_parts<dims<dyn<"n">, 900>>(shape(1, 900), gates<1>);    // contiguous
  compare_parts<dims<dyn<"n">, 900>>(shape(400, 900), gates<1>);  // divided among threads
  compare_parts<dims<dyn<"n">, 3, 5>>(shape(4, 3, 5), gates<1>);  // parts of extent 1
  compare_parts<dims<dyn<"n">, 3>>(shape(4, 3), gates<1>);        // columns
  compare_parts<dims<2, 3, dyn<"n">>>(shape(2, 3, 1), gates<1>);  // columns, but the plan does not know it
  compare_parts<dims<6, dyn<"n">>>(shape(6, 11), gates<0>);
  compare_parts<dims<dyn<"n">, 6, dyn<"m">>>(shape(2, 6, 200), gates<1>);
  compare_parts<dims<dyn<"n">, 6>>(shape(0, 6), gates<1>);
  compare_parts<dims<3, 6>>(shape(3, 6), product_of_gates);
  compare_parts<dims<300, 600>>(shape(300, 600), product_of_gates);
  compare_parts<dims<2, 5, 10>>(shape(2, 5, 10), product_of_gates);
}
