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

/// A step on one CPU with one lane, compiled without a session.
struct planned {
  plan::placement place;
  sequence<plan::variable_state> variables;
  extent_bindings extents, known;
  memory_resource memory;
  plan::random_state random;
  plan::environment session{place, variables, extents, memory, nullptr, nullptr, 1, 1, random};
  std::unique_ptr<plan::compiled_step> step;

  planned(const graph& g, std::vector<value> fetches, std::vector<std::uint32_t> targets = {})
      : place(g, 1, nullptr, {}, true) {
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
