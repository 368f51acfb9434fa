// SPDX-License-Identifier: BSL-1.0
// Branches and loops, exported to ONNX. ONNX Runtime computes the same values.
#include "onnx/exported.hpp"

#include <weft/control_flow.hpp>

using namespace weft;
using test::some;

BOOST_AUTO_TEST_CASE(branches_and_loops) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, dims<dyn<"n">, 3>>(g, "x");
  auto p = placeholder<bool, dims<>>(g, "p");
  auto k = placeholder<std::int32_t, dims<>>(g, "k");
  auto w = variable<float, dims<3, 3>>(g, "w", init::normal{.stddev = 1});
  session s(g);
  const auto a = some<tensor<float, dims<dyn<"n">, 3>>>(1, shape(4, 3));
  auto y = cond(p, [&] { return std::tuple(matmul(x, w), sum(x)); }, [&] { return std::tuple(-x, mean(x)); });
  for (const bool yes : {false, true})
    models.add(yes ? "then" : "else", s, fetch(std::get<0>(y) + 1, std::get<1>(y)), feed(x, p), "", a, yes);
  auto z = case_of(k, [&] { return x * 2; }, [&] { return x - 1; }, [&] { return matmul(x, w); });
  for (const std::int32_t n : {0, 1, 2, 7}) models.add(str_cat({"case_", n}), s, fetch(z), feed(x, k), "", a, n);
  auto nested = cond(
      p, [&] { return cond(sum(x) > 0, [&] { return x * 3; }, [&] { return matmul(x, w); }); }, [&] { return x + 0; });
  for (const bool yes : {false, true}) models.add(yes ? "both" : "outer", s, fetch(nested), feed(x, p), "If", a, yes);

  auto start = constant(g, tensor<float, dims<3>>{1, 2, 3});
  auto [count, state] = while_loop([](auto i, auto h) { return i < 10 && sum(h) < 50.f; },
                                   [&](auto i, auto h) { return std::tuple(i + 1, matmul(h, w) + h * 1.5 + 1); },
                                   constant(g, tensor<std::int32_t>(0)), expand_dims<0>(start));
  models.add("while_loop", s, fetch(count, state), feed(), "");
  auto [bounded_count, bounded_state] =
      while_loop([](auto i, auto) { return i < 10; }, [&](auto i, auto h) { return std::tuple(i + 1, h * 1.5 + 1); },
                 {.max_iterations = 4}, constant(g, tensor<std::int32_t>(0)), start);
  models.add("bounded", s, fetch(bounded_count, bounded_state), feed(), "");

  auto [last, all] = scan(
      [&](auto h, auto row) {
        auto next = let(tanh(row + h * 0.5));
        return std::tuple(next, next * 2);
      },
      start, rows(x));
  auto backwards = scan(
      [&](auto h, auto row) {
        auto next = let(tanh(row + squeeze<0>(matmul(expand_dims<0>(h), w))));
        return std::tuple(next, next * 2);
      },
      {.reverse = true}, start, rows(x));
  models.add("scan", s, fetch(last, all, std::get<0>(backwards), std::get<1>(backwards)), feed(x), "", a);
  models.add("map", s,
             fetch(map([](auto row) { return row * row; }, rows(x)),
                   fold([](auto h, auto row) { return h * 0.5 + row; }, start, rows(x))),
             feed(x), "", a);
}
