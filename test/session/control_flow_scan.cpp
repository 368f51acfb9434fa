// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/graph/random.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/session/step_plan.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "ops/gradient_check.hpp"

using namespace weft;
using test::failure;

namespace {

using steps = dyn_extent<"steps">;
using vec = dims<3>;

template <class Tensor>
void check_elements(const Tensor& x, std::initializer_list<double> right) {
  BOOST_REQUIRE_EQUAL(x.elements(), right.size());
  std::size_t i = 0;
  for (const double e : right) BOOST_CHECK_CLOSE(static_cast<double>(x.data()[i++]), e, 1e-9);
}

template <class Tensor>
std::vector<double> list_of(const Tensor& x) {
  std::vector<double> list;
  for (std::size_t i = 0; i < x.elements(); ++i) list.push_back(static_cast<double>(x.data()[i]));
  return list;
}

tensor<double, dims<steps{}, 3>> counting(std::int64_t n) {
  tensor<double, dims<steps{}, 3>> x(shape(n, 3));
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<double>(i + 1);
  return x;
}

}  // namespace

// ---- values ----

BOOST_AUTO_TEST_CASE(a_scan_carries_and_stacks) {
  graph g;
  const auto x = placeholder<double, dims<steps{}, 3>>(g, "x");
  const auto a = placeholder<double, vec>(g, "a");
  const auto body = [](auto sum, auto n, auto x) {
    const auto next = let(sum + x);
    return std::tuple{next, n + 1, next * 10., x};
  };
  const auto [last, n, all, same] = scan(body, a, tensor<int>(0), rows(x));
  const auto [first, m, back, again] = scan(body, {.reverse = true}, a, tensor<int>(0), rows(x));
  static_assert(std::is_same_v<dims_t<decltype(all)>, dims<steps{}, 3>> && std::is_same_v<dims_t<decltype(last)>, vec>);
  session s{g};
  auto step = s.prepare(fetch(last, n, all, same, first, m, back), feed(a, x));
  for (const std::int64_t count : {3, 1, 0, 2}) {
    const auto in = counting(count);
    const auto [l, k, stacked, copied, f, j, reversed] = step(tensor<double, vec>{1, 2, 3}, in);
    BOOST_CHECK_EQUAL(k, count);
    BOOST_CHECK_EQUAL(j, count);
    BOOST_CHECK(list_of(copied) == list_of(in));
    BOOST_REQUIRE_EQUAL(stacked.extents()[0], count);
    for (int c = 0; c < 3; ++c) {
      double sum = 1 + c;
      for (std::int64_t t = 0; t < count; ++t) BOOST_CHECK_CLOSE(stacked(t, c), 10 * (sum += in(t, c)), 1e-9);
      BOOST_CHECK_CLOSE(l(c), sum, 1e-9);
      sum = 1 + c;
      for (std::int64_t t = count; t-- > 0;) BOOST_CHECK_CLOSE(reversed(t, c), 10 * (sum += in(t, c)), 1e-9);
      BOOST_CHECK_CLOSE(f(c), sum, 1e-9);
    }
  }
}

BOOST_AUTO_TEST_CASE(scans_of_fixed_and_of_no_carries) {
  graph g;
  const auto x = placeholder<double, dims<2, 3>>(g, "x");
  const auto y = placeholder<float, dims<2>>(g, "y");
  const auto w = placeholder<double, vec>(g, "w");
  const auto [a, b] = scan([](auto w, auto x, auto y) { return std::tuple{x * w, cast<double>(y) + sum(x)}; },
                           invariant(w), rows(x), rows(y));
  static_assert(std::is_same_v<dims_t<decltype(a)>, dims<2, 3>> && std::is_same_v<dims_t<decltype(b)>, dims<2>>);
  const auto one = scan([](auto x) { return sum(x); }, rows(x));
  const auto last = scan([](auto h, auto x) { return h * 2. + sum(x); }, tensor<double>(1), rows(x));
  static_assert(dims_t<decltype(last)>::rank == 0);
  session s{g};
  const auto [p, q, r, t] = s.run(fetch(a, b, one, last), with(x, tensor<double, dims<2, 3>>{1, 2, 3, 4, 5, 6}),
                                  with(y, tensor<float, dims<2>>{10, 20}), with(w, tensor<double, vec>{1, 10, 100}));
  check_elements(p, {1, 20, 300, 4, 50, 600});
  check_elements(q, {16, 35});
  check_elements(r, {6, 15});
  BOOST_CHECK_EQUAL(t, 31);
}

// The values are those of PyTorch's layers, as make_control_flow_scan_values.py has them.
BOOST_AUTO_TEST_CASE(recurrent_layers_are_pytorchs) {
  std::ifstream in(TEST_DATA "/session/control_flow_scan_values.txt");
  BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/session/control_flow_scan_values.txt" << " cannot be read");
  std::string word;
  std::getline(in, word);
  const auto read = [&](auto value) {
    for (std::size_t k = 0; k < value.elements(); ++k) {
      BOOST_REQUIRE((in >> word));
      value.data()[k] = std::strtod(word.c_str(), nullptr);
    }
    return value;
  };
  const auto check = [&](const auto& found) {
    const auto right = read(std::remove_cvref_t<decltype(found)>(found.extents()));
    for (std::size_t k = 0; k < right.elements(); ++k)
      BOOST_CHECK_SMALL(found.data()[k] - right.data()[k], 1e-12 * (1 + std::abs(right.data()[k])));
  };
  using state = dims<2, 4>;
  int cases = 0;
  for (std::string name, direction; in >> name; ++cases) {
    std::int64_t count = 0;
    in >> count >> direction;
    const scan_options options{.reverse = direction == "reverse"};
    graph g;
    const auto x = placeholder<double, dims<steps{}, 2, 3>>(g, "x");
    const auto h = placeholder<double, state>(g, "h");
    const auto xs = read(tensor<double, dims<steps{}, 2, 3>>(shape(count, 2, 3)));
    const auto hs = read(tensor<double, state>());
    if (name == "lstm") {
      const auto cs = read(tensor<double, state>());
      const auto w = variable<double, dims<3, 16>>(g, "w", read(tensor<double, dims<3, 16>>()));
      const auto u = variable<double, dims<4, 16>>(g, "u", read(tensor<double, dims<4, 16>>()));
      const auto b = variable<double, dims<16>>(g, "b", read(tensor<double, dims<16>>()));
      const auto b2 = variable<double, dims<16>>(g, "b2", read(tensor<double, dims<16>>()));
      const auto c = placeholder<double, state>(g, "c");
      const auto [last_h, last_c, all] = scan(
          [](auto h, auto c, auto z, auto u, auto b) {
            const auto [i, f, k, o] = split<1, 4>(let(z + matmul(h, u) + b));
            const auto next_c = let(sigmoid(f) * c + sigmoid(i) * tanh(k));
            const auto next_h = let(sigmoid(o) * tanh(next_c));
            return std::tuple{next_h, next_c, next_h};
          },
          options, h, c, rows(matmul(x, w) + b), invariant(u), invariant(b2));
      const auto loss = sum(all * all) + sum(last_h * last_h * last_h) + sum(last_c * last_c * last_c);
      const auto [dx, dh, dc, dw, du, db, db2] = gradients(loss, x, h, c, w, u, b, b2);
      session s{g};
      const auto found =
          s.run(fetch(all, last_h, last_c, dx, dh, dc, dw, du, db, db2), with(x, xs), with(h, hs), with(c, cs));
      std::apply([&](const auto&... f) { (check(f), ...); }, found);
    } else {
      BOOST_REQUIRE_EQUAL(name, "gru");
      const auto w = variable<double, dims<3, 12>>(g, "w", read(tensor<double, dims<3, 12>>()));
      const auto u = variable<double, dims<4, 12>>(g, "u", read(tensor<double, dims<4, 12>>()));
      const auto b = variable<double, dims<12>>(g, "b", read(tensor<double, dims<12>>()));
      const auto b2 = variable<double, dims<12>>(g, "b2", read(tensor<double, dims<12>>()));
      const auto [last_h, all] = scan(
          [](auto h, auto x, auto w, auto u, auto b, auto b2) {
            const auto [xr, xz, xn] = split<1, 3>(let(matmul(x, w) + b));
            const auto [hr, hz, hn] = split<1, 3>(let(matmul(h, u) + b2));
            const auto z = let(sigmoid(xz + hz));
            const auto next = let((1. - z) * tanh(xn + sigmoid(xr + hr) * hn) + z * h);
            return std::tuple{next, next};
          },
          options, h, rows(x), invariant(w), invariant(u), invariant(b), invariant(b2));
      const auto loss = sum(all * all) + sum(last_h * last_h * last_h);
      const auto [dx, dh, dw, du, db, db2] = gradients(loss, x, h, w, u, b, b2);
      session s{g};
      const auto found = s.run(fetch(all, last_h, dx, dh, dw, du, db, db2), with(x, xs), with(h, hs));
      std::apply([&](const auto&... f) { (check(f), ...); }, found);
    }
  }
  BOOST_CHECK_EQUAL(cases, 5);
}

// ---- gradients ----

BOOST_AUTO_TEST_CASE(gradients_of_scans) {
  for (const bool reverse : {false, true}) {
    gradient_check check;
    const scan_options o{.reverse = reverse};
    const auto x = check.input<dims<3, 2>>(0.3, 0.9);
    const auto y = check.input<dims<3>>(0.3, 0.9);
    const auto h = check.input<dims<1, 2>>(0.3, 0.9);
    const auto w = check.input<dims<2, 2>>(0.3, 0.9);
    const auto b = check.input<dims<>>(0.3, 0.9);
    {
      const auto [last, all] = scan(
          [](auto h, auto x, auto w, auto b) {
            const auto next = let(tanh(matmul(h, w) + x * b));
            return std::tuple{next, next * x};
          },
          o, h, rows(x), invariant(w), invariant(b));
      check("of a recurrent layer", sum(last * last) + sum(all));
      check("of what is stacked alone", all);
    }
    {
      const auto [u, v, p, q] = scan(
          [](auto u, auto x, auto v, auto y, auto w) {
            return std::tuple{sin(u) * y * v, v * sum(x) + sum(matmul(u, w)), x * y, matmul<transpose_of::b>(u, w) * v};
          },
          o, h, rows(x), b, rows(y), invariant(w));
      check("of two carries and two stacks", sum(u) * v + sum(p * p) + sum(q));
    }
    check("of no carry",
          scan([](auto x, auto w) { return matmul(reshape<dims<1, 2>>(x), matmul(w, w)); }, o, rows(x), invariant(w)));
    check("of rows alone", scan([](auto h, auto x) { return h * exp(x); }, o, tensor<double, dims<2>>{1, 2}, rows(x)));
    check("of a carry alone", scan([](auto h, auto) { return h * h; }, o, h, rows(x)), 3);
    {
      const auto numbers = check.fixed(tensor<std::int32_t, dims<3, 2>>{0, 2, 1, 1, 2, 2});
      const auto [last, all] = scan(
          [](auto h, auto n, auto table) {
            const auto next = let(h * sum<0>(gather(table, n)) + 0.5);
            return std::tuple{next, next};
          },
          o, tensor<double, dims<2>>{1, 2}, rows(numbers), invariant(x));
      check("of an embedding", sum(last) + sum(all * all));
    }
    check("of a scan in a scan", scan(
                                     [](auto h, auto x, auto y) {
                                       return scan([](auto h, auto y, auto x) { return tanh(h * y + x); }, h, rows(y),
                                                   invariant(x));
                                     },
                                     o, reshape<dims<2>>(h), rows(x), invariant(y)));
    check("of a branch in a scan", scan(
                                       [](auto h, auto x, auto w) {
                                         return cond(
                                             sum(x) > 1.2, [](auto h, auto w) { return tanh(matmul(h, w)); },
                                             [](auto h, auto) { return h * h; }, h, w);
                                       },
                                       o, h, rows(x), invariant(w)));
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_scans_over_named_extents) {
  for (const std::int64_t count : {0, 1, 4}) {
    gradient_check check;
    const auto x = check.input<dims<steps{}, 1, 2>>(0.3, 0.9, shape(count, 1, 2));
    const auto w = check.input<dims<2, 2>>(0.3, 0.9);
    const auto h = check.input<dims<1, 2>>(0.3, 0.9);
    const auto [last, all] = scan(
        [](auto h, auto x, auto w) {
          const auto next = let(sin(matmul(h, w) + x));
          return std::tuple{next, next};
        },
        h, rows(x), invariant(w));
    check("of a recurrent layer", sum(last * last) + sum(all * x));
    check("of a carry alone", scan([](auto h, auto) { return h * 3.; }, h, rows(x)));
  }
}

// Rows of an iteration by its number, in a loop with a condition: those that did not run have no gradient.
BOOST_AUTO_TEST_CASE(gradients_of_rows_by_the_number_of_an_iteration) {
  for (const int n : {0, 2, 3}) {
    gradient_check check;
    const auto x = check.input<dims<3, 2>>(0.3, 0.9);
    const auto w = check.input<dims<2, 2>>(0.3, 0.9);
    const auto limit = check.fixed(tensor<int>(n));
    const auto [i, h] = while_loop(
        [](auto i, auto limit) { return i < limit; },
        [](auto i, auto, auto h, auto x, auto w) { return std::tuple{i + 1, tanh(matmul(h, w) + gather(x, i))}; },
        {.max_iterations = 4}, tensor<int>(0), invariant(limit), tensor<double, dims<1, 2>>{1, 2}, invariant(x),
        invariant(w));
    check("of rows", h);
  }
}

// ---- bounds, conditions ----

BOOST_AUTO_TEST_CASE(a_bound_may_be_an_extent) {
  graph g;
  const auto x = placeholder<double, dims<steps{}, 3>>(g, "x");
  const auto n = placeholder<int>(g, "n");
  const auto loop = [&](const loop_options& o) {
    const auto [i, k, h] =
        while_loop([](auto i, auto n) { return i < n; },
                   [](auto i, auto n, auto h, auto x) { return std::tuple{i + 1, n, h * 2. + gather(x, i)}; }, o,
                   tensor<int>(0), n, tensor<double, vec>{1, 1, 1}, invariant(x));
    return h;
  };
  const auto h = loop({.max_iterations = steps{}}), half = loop({.max_iterations = floor_quotient(steps{}, extent<2>)});
  const auto [dx] = gradients(sum(h), x);
  session s{g};
  auto step = s.prepare(fetch(h, half, dx), feed(x, n));
  for (const auto& [rows, asked] : {std::pair{4, 9}, {4, 3}, {2, 2}, {1, 0}, {5, 7}}) {
    const auto in = counting(rows);
    const int ran = asked < rows ? asked : rows;
    const auto value = [&](int iterations) {
      double v = 1;
      for (int t = 0; t < iterations; ++t) v = 2 * v + in(t, 0);
      return v;
    };
    const auto [all, part, d] = step(in, asked);
    BOOST_CHECK_CLOSE(all(0), value(ran), 1e-9);
    BOOST_CHECK_CLOSE(part(0), value(asked < rows / 2 ? asked : rows / 2), 1e-9);
    for (int t = 0; t < rows; ++t) BOOST_CHECK_CLOSE(d(t, 1), t < ran ? std::pow(2, ran - 1 - t) : 0., 1e-9);
  }
  const auto lost = placeholder<double, vec>(g, "lost");
  const auto y = while_loop([](auto y) { return sum(y) > 0.; }, [](auto y) { return y - 1.; },
                            {.max_iterations = dyn<"nobody's">}, lost);
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { s.eval(y, with(lost, tensor<double, vec>{1, 1, 1})); }),
             "the extent nobody's is not known");
  CHECK_SAYS(failure(error_code::invalid_argument,
                     [&] {
                       static_cast<void>(while_loop([](auto y) { return sum(y) > 0.; }, [](auto y) { return y - 1.; },
                                                    {.max_iterations = steps{}}, tensor<double, vec>{1, 1, 1}));
                     }),
             "max_iterations is the extent steps, which is known only in a step: for tensors pass a number");
}

// ---- time and memory ----

BOOST_AUTO_TEST_CASE(memory_is_linear_in_the_number_of_rows) {
  graph g;
  const auto x = placeholder<float, dims<steps{}, 64>>(g, "x");
  const auto w = variable<float, dims<64, 64>>(g, "w", init::normal{0, 0.1});
  const auto [h, all] = scan(
      [](auto h, auto x, auto w) {
        const auto next = let(tanh(matmul(h, w) + x));
        return std::tuple{next, next};
      },
      tensor<float, dims<1, 64>>(), rows(x), invariant(w));
  const auto [dx, dw] = gradients(sum(h) + sum(all), x, w);
  session s{g};
  auto step = s.prepare(fetch(dx, dw), feed(x));
  const auto bytes = [&](std::int64_t count) {
    step(tensor<float, dims<steps{}, 64>>(shape(count, 64)));
    return static_cast<double>(step.prepared().plan().arena_bytes());
  };
  const double some = bytes(64), many = bytes(1024), row = 64 * sizeof(float);
  BOOST_CHECK_LE(many - some, 8 * row * (1024 - 64));
  BOOST_CHECK_GE(many - some, 2 * row * (1024 - 64));
}

// ---- random numbers ----

namespace {

using wide = dims<4, 200>;

/// Whether each element was kept, by row.
std::vector<std::vector<bool>> masks(const tensor<float, wide>& y) {
  std::vector<std::vector<bool>> all(4);
  for (std::size_t t = 0; t < 4; ++t)
    for (std::size_t k = 0; k < 200; ++k) all[t].push_back(y.data()[t * 200 + k] != 0);
  return all;
}

tensor<float, wide> ones() {
  tensor<float, wide> x;
  for (std::size_t k = 0; k < x.elements(); ++k) x.data()[k] = 1;
  return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_iteration_drops_its_own) {
  const auto run = [](std::uint64_t seed) {
    graph g(seed);
    const auto x = placeholder<float, wide>(g, "x");
    const auto [h, y] = scan(
        [](auto h, auto x) {
          const auto kept = let(dropout(x, 0.25));
          return std::tuple{h + sum(kept), kept};
        },
        tensor<float>(0), rows(x));
    const auto [dx] = gradients(sum(y), x);
    const auto [dh] = gradients(h, x);
    session s{g};
    auto step = s.prepare(fetch(y, dx, dh), feed(x));
    const auto [a, da, db] = step(ones());
    BOOST_CHECK(list_of(a) == list_of(da));
    BOOST_CHECK(list_of(a) == list_of(db));
    const auto first = masks(a), second = masks(std::get<0>(step(ones())));
    for (std::size_t t = 0; t < 4; ++t) {
      int kept = 0;
      for (const bool k : first[t]) kept += k;
      BOOST_CHECK_GT(kept, 125);
      BOOST_CHECK_LT(kept, 175);
      for (std::size_t u = 0; u < 4; ++u) {
        BOOST_CHECK(first[t] != second[u]);
        if (u != t) BOOST_CHECK(first[t] != first[u]);
      }
    }
    for (std::size_t k = 0; k < a.elements(); ++k)
      BOOST_CHECK(a.data()[k] == 0 || std::abs(a.data()[k] - 4.f / 3) < 1e-6f);
    s.set_step_number(0);
    BOOST_CHECK(masks(std::get<0>(step(ones()))) == first);
    return first;
  };
  const auto first = run(7);
  BOOST_CHECK(run(7) == first);
  BOOST_CHECK(run(8) != first);
}

// In loops in loops, branches, and conditions too, at the same place in no two of them.
BOOST_AUTO_TEST_CASE(loops_in_loops_draw_their_own) {
  graph g;
  const auto x = placeholder<float, dims<2, 100>>(g, "x");
  const auto one = [](auto x) { return let(dropout(x, 0.5)); };
  const auto y = scan(
      [&](auto x) {
        return scan(
            [&](auto, auto x) {
              return cond(sum(x) > 0.f, [&](auto x) { return one(x); }, [](auto x) { return x; }, x);
            },
            rows(tensor<float, dims<3>>()), invariant(x));
      },
      rows(x));
  static_assert(std::is_same_v<dims_t<decltype(y)>, dims<2, 3, 100>>);
  const auto [dx] = gradients(sum(y), x);
  session s{g};
  tensor<float, dims<2, 100>> in;
  for (std::size_t k = 0; k < in.elements(); ++k) in.data()[k] = 1;
  const auto [a, d] = s.run(fetch(y, dx), with(x, in));
  std::vector<std::vector<float>> seen;
  for (int t = 0; t < 2; ++t)
    for (int u = 0; u < 3; ++u) {
      std::vector<float> row(a.data() + (t * 3 + u) * 100, a.data() + (t * 3 + u + 1) * 100);
      for (const auto& other : seen) BOOST_CHECK(row != other);
      seen.push_back(row);
    }
  for (int t = 0; t < 2; ++t)
    for (int k = 0; k < 100; ++k) BOOST_CHECK_EQUAL(d(t, k), a(t, 0, k) + a(t, 1, k) + a(t, 2, k));
}

BOOST_AUTO_TEST_CASE(a_condition_that_draws) {
  graph g;
  const auto x = placeholder<float, dims<100>>(g, "x");
  const auto [i, y] = while_loop([](auto i, auto x) { return i < 20 && sum(dropout(x, 0.5)) < 110.f; },
                                 [](auto i, auto x) { return std::tuple{i + 1, x}; }, tensor<int>(0), x);
  session s{g};
  tensor<float, dims<100>> in;
  for (std::size_t k = 0; k < in.elements(); ++k) in.data()[k] = 1;
  auto step = s.prepare(fetch(i), feed(x));
  std::vector<int> counts;
  for (int k = 0; k < 40; ++k) counts.push_back(step(in));
  BOOST_CHECK(std::any_of(counts.begin(), counts.end(), [&](int n) { return n != counts[0]; }));
  BOOST_CHECK(std::any_of(counts.begin(), counts.end(), [&](int n) { return n > 1; }));
  s.set_step_number(0);
  for (int k = 0; k < 40; ++k) BOOST_CHECK_EQUAL(step(in), counts[static_cast<std::size_t>(k)]);
}

// ---- training ----

// The gradient of an embedding that is read in a scan is rows, and so is its update.
BOOST_AUTO_TEST_CASE(rows_of_an_embedding_are_trained) {
  graph g;
  const auto numbers = placeholder<std::int32_t, dims<steps{}, 2>>(g, "numbers");
  const auto table = variable<float, dims<50, 4>>(g, "table", init::ones{});
  const auto h = scan([](auto h, auto n, auto table) { return h * 0.5f + gather(table, n); },
                      tensor<float, dims<2, 4>>(), rows(numbers), invariant(table));
  const auto train = momentum{.learning_rate = 0.5, .momentum = 0.9}.minimize(sum(h));
  session s{g};
  auto step = s.prepare(fetch(train), feed(numbers));
  step(tensor<std::int32_t, dims<steps{}, 2>>(shape(3, 2), {7, 8, 9, 7, 9, 9}));
  BOOST_CHECK(step.explain().find("scatter_add") == std::string::npos);
  const auto before = s.get(table);
  const auto expect = [&](int row, float gradient) { BOOST_CHECK_CLOSE(before(row, 2), 1 - 0.5f * gradient, 1e-4); };
  expect(7, 0.25f + 0.5f), expect(8, 0.25f), expect(9, 0.5f + 2), expect(0, 0);
  step(tensor<std::int32_t, dims<steps{}, 2>>(shape(1, 2), {3, 3}));
  const auto after = s.get(table);
  for (const int untouched : {0, 7, 8, 9}) BOOST_CHECK_EQUAL(before(untouched, 1), after(untouched, 1));
  BOOST_CHECK_CLOSE(after(3, 0), 1 - 0.5f * 2, 1e-4);
}

// ---- over tensors ----

BOOST_AUTO_TEST_CASE(over_tensors_a_scan_is_done_at_once) {
  const auto [last, all] =
      scan([](auto h, auto x, auto w) { return std::tuple{h + x, (h + x) * w}; }, {.reverse = true},
           tensor<double, vec>{1, 1, 1}, rows(counting(2)), invariant(tensor<double>(2)));
  static_assert(std::is_same_v<decltype(all), const tensor<double, dims<steps{}, 3>>>);
  check_elements(last, {6, 8, 10});
  check_elements(all, {12, 16, 20, 10, 12, 14});
  const auto [none, empty] =
      scan([](auto h, auto x) { return std::tuple{h + x, x}; }, tensor<double, vec>{1, 1, 1}, rows(counting(0)));
  check_elements(none, {1, 1, 1});
  BOOST_CHECK_EQUAL(empty.elements(), 0u);
  CHECK_SAYS(
      failure(
          error_code::invalid_argument,
          [&] { static_cast<void>(scan([](auto x, auto y) { return x + y; }, rows(counting(2)), rows(counting(3)))); }),
      "scan: the operands must have equal numbers of rows, but have 2 and 3");
}
