// SPDX-License-Identifier: BSL-1.0
#include <cmath>
#include <limits>
#include <weft/ops/products/attention.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"
#include "session_on_cpu.hpp"

using namespace weft;

// Attention, against PyTorch (make_attention_values.py).

namespace {

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/attention_values.txt");
  return all;
}
template <class X>
tensor<double, dims<13>> folded(const X& x) {
  tensor<double, dims<13>> sums{};
  for (std::size_t i = 0; i < x.elements(); ++i)
    sums.data()[i % 13] += static_cast<double>(x.data()[i]) * static_cast<double>(1 + i % 7);
  return sums;
}

template <int Heads, int KvHeads>
struct case_of {
  using q = dims<dyn<"batch">, Heads, dyn<"queries">, dyn<"width">>;
  using k = dims<dyn<"batch">, KvHeads, dyn<"keys">, dyn<"width">>;
  using v = dims<dyn<"batch">, KvHeads, dyn<"keys">, dyn<"features">>;
};

template <class T, class C, class... A>
void check(const std::string& name, std::vector<std::int64_t> e, const attention_options& o, double tolerance,
           const A&... a) {
  const auto q = made<T, typename C::q>(1, shape(e[0], C::q::spec[1], e[1], e[3]));
  const auto k = made<T, typename C::k>(2, shape(e[0], C::k::spec[1], e[2], e[3]));
  const auto v = made<T, typename C::v>(3, shape(e[0], C::k::spec[1], e[2], e[4]));
  const auto up = made<T, typename C::q>(5, shape(e[0], C::q::spec[1], e[1], e[4]));
  right().check(name, folded(attention(q, k, v, o, a...)), tolerance);
  graph g;
  const auto x = placeholder<T, typename C::q>(g, "q");
  const auto y = placeholder<T, typename C::k>(g, "k");
  const auto z = placeholder<T, typename C::v>(g, "v");
  const auto r = placeholder<T, dims<dyn<"batch">, C::q::spec[1], dyn<"queries">, dyn<"features">>>(g, "r");
  const auto result = attention(x, y, z, o, a...);
  const auto [dq, dk, dv] = gradients(sum(result * r), x, y, z);
  tensor<T, dims_t<decltype(r)>> upstream{up.extents()};
  for (std::size_t i = 0; i < up.elements(); ++i) upstream.data()[i] = up.data()[i];
  std::vector<T> first;
  for (const int threads : {1, 2}) {
    session s{g, {.threads = threads}};
    const auto [value, a1, a2, a3] =
        s.run(fetch(result, dq, dk, dv), with(x, q), with(y, k), with(z, v), with(r, upstream));
    right().check(name, folded(value), tolerance);
    right().check(name + ".dq", folded(a1), tolerance);
    right().check(name + ".dk", folded(a2), tolerance);
    right().check(name + ".dv", folded(a3), tolerance);
    std::vector<T> all(a1.begin(), a1.end());
    all.insert(all.end(), a2.begin(), a2.end());
    if (threads == 2) BOOST_TEST((all == first));
    first = all;
  }
}
template <class C, class... A>
void check_both(const std::string& name, std::vector<std::int64_t> e, const attention_options& o, const A&... a) {
  check<double, C>(name, e, o, 1e-9, a...);
  check<float, C>(name, e, o, 3e-4, a...);
}

using batch = dims<dyn<"batch">>;
tensor<std::int32_t, batch> integers(std::initializer_list<std::int32_t> values) {
  tensor<std::int32_t, batch> t{shape(static_cast<std::int64_t>(values.size()))};
  std::copy(values.begin(), values.end(), t.data());
  return t;
}
template <class D>
auto booleans() {
  return eval(made<double, D>(4, D::spec) > -0.3);
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_and_gradients) {
  check_both<case_of<2, 2>>("plain", {2, 5, 7, 8, 8}, {});
  check_both<case_of<2, 2>>("causal", {1, 150, 150, 40, 36}, {.causal = true});
  check_both<case_of<6, 2>>("groups", {2, 37, 300, 33, 64}, {.causal = true}, query_position(integers({263, 100})));
  check_both<case_of<2, 1>>("window", {1, 200, 200, 32, 32}, {.causal = true, .window = 70});
  check_both<case_of<1, 1>>("band", {1, 70, 90, 4, 5}, {.window = 9}, query_position(tensor<std::int32_t, dims<>>{11}));
  check_both<case_of<3, 3>>("alibi", {2, 66, 130, 16, 16}, {.scale = 0.3, .alibi = true},
                            key_lengths(integers({130, 41})));
  check_both<case_of<2, 2>>("empty", {3, 4, 6, 8, 8}, {}, key_lengths(integers({0, 6, 2})));
  check_both<case_of<2, 2>>("before", {2, 4, 6, 8, 8}, {.causal = true}, query_position(integers({-2, 3})));
  check_both<case_of<4, 2>>("token", {2, 1, 200, 64, 64}, {.causal = true}, query_position(integers({199, 20})));
  check_both<case_of<1, 1>>("one", {1, 3, 1, 64, 1}, {});
}

#if defined(WEFT_GPU_EMULATION)
BOOST_AUTO_TEST_CASE(slices) {
  // Some rows of a group, whole groups, and a last slice of fewer.
  for (const std::size_t rows : {40, 1, 120, 555}) {
    gpu::math.attention_bytes = rows * 300 * sizeof(double);
    check<double, case_of<6, 2>>("groups", {2, 37, 300, 33, 64}, {.causal = true}, 1e-9,
                                 query_position(integers({263, 100})));
    check<double, case_of<3, 3>>("alibi", {2, 66, 130, 16, 16}, {.scale = 0.3, .alibi = true}, 1e-9,
                                 key_lengths(integers({130, 41})));
  }
  gpu::math = {};
}
#endif

BOOST_AUTO_TEST_CASE(masks) {
  using both = dims<dyn<"batch">, 1, dyn<"queries">, dyn<"keys">>;
  const auto first = booleans<dims<2, 1, 9, 140>>();
  tensor<bool, both> mask{shape(2, 1, 9, 140)};
  std::copy(first.begin(), first.end(), mask.data());
  check_both<case_of<2, 2>>("masked", {2, 9, 140, 8, 8}, {}, attention_mask(mask));
  const auto second = booleans<dims<2, 1, 1, 130>>();
  tensor<bool, dims<dyn<"batch">, 1, 1, dyn<"keys">>> columns{shape(2, 1, 1, 130)};
  std::copy(second.begin(), second.end(), columns.data());
  check_both<case_of<4, 2>>("keys", {2, 65, 130, 8, 8}, {.causal = true}, attention_mask(columns));
}

namespace {

template <class D>
void check_added(const std::string& name, const attention_options& o) {
  graph g;
  const auto q = variable<double, dims<2, 2, 70, 8>>(g, "q", made<double, dims<2, 2, 70, 8>>(1, shape(2, 2, 70, 8)));
  const auto k = variable<double, dims<2, 1, 33, 8>>(g, "k", made<double, dims<2, 1, 33, 8>>(2, shape(2, 1, 33, 8)));
  const auto v = variable<double, dims<2, 1, 33, 8>>(g, "v", made<double, dims<2, 1, 33, 8>>(3, shape(2, 1, 33, 8)));
  const auto m = variable<double, D>(g, "m", made<double, D>(4, D::spec));
  const auto y = attention(q, k, v, o, attention_mask(m));
  const auto [dq, dk, dv, dm] = gradients(sum(y * made<double, dims<2, 2, 70, 8>>(5, shape(2, 2, 70, 8))), q, k, v, m);
  session s{g, {.threads = 2}};
  const auto [a, b, c, d, e] = s.run(fetch(y, dq, dk, dv, dm));
  right().check(name, folded(a), 1e-9);
  right().check(name + ".dq", folded(b), 1e-9);
  right().check(name + ".dk", folded(c), 1e-9);
  right().check(name + ".dv", folded(d), 1e-9);
  right().check(name + ".dm", folded(e), 1e-9);
}

}  // namespace

BOOST_AUTO_TEST_CASE(added_masks) {
  check_added<dims<2, 70, 33>>("added", {});
  check_added<dims<2, 1, 70, 1>>("column", {.causal = true, .alibi = true});
}

BOOST_AUTO_TEST_CASE(gradients_of_gradients) {
  {
    gradient_check check;
    const auto q = check.input<dims<2, 2, 3, 2>>();
    const auto k = check.input<dims<2, 1, 4, 2>>();
    const auto v = check.input<dims<2, 1, 4, 3>>();
    check("groups",
          attention(q, k, v, {.causal = true}, query_position(check.fixed(tensor<std::int32_t, dims<2>>{1, -2}))));
  }
  {
    gradient_check check;
    const auto q = check.input<dims<1, 2, 3, 2>>();
    const auto k = check.input<dims<1, 2, 4, 2>>();
    const auto v = check.input<dims<1, 2, 4, 2>>();
    const auto m = check.input<dims<3, 4>>();
    check("added", attention(q, k, v, {.window = 3, .scale = 0.5, .alibi = true}, attention_mask(m),
                             key_lengths(tensor<std::int32_t, dims<1>>{3})));
  }
  {
    using q_dims = dims<dyn<"batch">, dyn<"heads">, dyn<"queries">, dyn<"width">>;
    using k_dims = dims<dyn<"batch">, dyn<"heads">, dyn<"keys">, dyn<"width">>;
    gradient_check check;
    const auto q = check.input<q_dims>(-2, 2, shape(1, 2, 3, 2));
    const auto k = check.input<k_dims>(-2, 2, shape(1, 2, 4, 2));
    check("named", attention(q, k, k, {.alibi = true}));
  }
}

BOOST_AUTO_TEST_CASE(ends) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  using four = dims<dyn<"batch">, 2, dyn<"steps">, 4>;
  {  // no examples, no queries, no keys
    BOOST_TEST(attention(tensor<float, four>{shape(0, 2, 3, 4)}, tensor<float, four>{shape(0, 2, 3, 4)},
                         tensor<float, four>{shape(0, 2, 3, 4)})
                   .elements() == 0u);
    const tensor<float, dims<1, 2, 0, 4>> none;
    const tensor<float, dims<1, 2, 3, 4>> q;
    BOOST_TEST(attention(none, q, q).elements() == 0u);
    for (const float e : attention(q, none, none)) BOOST_TEST(e == 0);
  }
  {  // NaN beyond the lengths, in values and gradients
    graph g;
    tensor<float, dims<1, 1, 6, 4>> filled = made<float, dims<1, 1, 6, 4>>(2, shape(1, 1, 6, 4)), broken = filled;
    for (std::size_t i = 12; i < 24; ++i) broken.data()[i] = nan;
    const auto x = placeholder<float, dims<1, 1, 6, 4>>(g, "x");
    const auto q = constant(g, filled);
    const auto y = attention(q, x, x, key_lengths(constant(g, tensor<std::int32_t, dims<1>>{3})));
    const auto [d] = gradients(sum(y * y), x);
    const auto [second] = gradients(sum(d * d), x);
    session s{g};
    const auto [a, da, sa] = s.run(fetch(y, d, second), with(x, filled));
    const auto [b, db, sb] = s.run(fetch(y, d, second), with(x, broken));
    BOOST_TEST(std::equal(sa.begin(), sa.end(), sb.begin()));
    BOOST_TEST(std::equal(a.begin(), a.end(), b.begin()));
    BOOST_TEST(std::equal(da.begin(), da.end(), db.begin()));
    for (std::size_t i = 12; i < 24; ++i) BOOST_TEST(db.data()[i] == 0);
  }
  {  // large scores, the lowest scores, and scores of -infinity
    const tensor<float, dims<1, 1, 1, 1>> q{1e4f};
    const tensor<float, dims<1, 1, 2, 1>> k{1e4f, 2e4f}, v{1, 2};
    BOOST_TEST(attention(q, k, v)(0, 0, 0, 0) == 2);
    const float lowest = std::numeric_limits<float>::lowest();
    BOOST_TEST(attention(q, v, v, attention_mask(tensor<float, dims<2>>{lowest, lowest}))(0, 0, 0, 0) == 1.5f);
    BOOST_TEST(attention(q, v, v, attention_mask(tensor<float, dims<2>>{-infinity, -infinity}))(0, 0, 0, 0) == 0);
    BOOST_TEST(std::isnan(attention(q, v, v, attention_mask(tensor<float, dims<2>>{nan, 0}))(0, 0, 0, 0)));
  }
}

BOOST_AUTO_TEST_CASE(one_query_is_as_among_others) {
  // One query has its own kernels, whose tiles have 8,192 keys.
  constexpr int keys = 8200;
  const auto q = made<double, dims<1, 2, 5, 20>>(1, shape(1, 2, 5, 20));
  const auto k = made<double, dims<1, 2, keys, 20>>(2, shape(1, 2, keys, 20));
  const auto v = made<double, dims<1, 2, keys, 7>>(3, shape(1, 2, keys, 7));
  const auto m = attention_mask(made<double, dims<keys>>(4, shape(keys)));
  tensor<double, dims<1, 2, 1, 20>> first;
  for (int head = 0; head < 2; ++head)
    for (int i = 0; i < 20; ++i) first(0, head, 0, i) = q(0, head, 0, i);
  const attention_options o{.causal = true, .window = 8195, .scale = 0.1, .alibi = true};
  const auto last = query_position(tensor<std::int32_t, dims<>>{keys - 2});
  const auto all = attention(q, k, v, o, m, last);
  const auto one = attention(first, k, v, o, m, last);
  for (int head = 0; head < 2; ++head)
    for (int i = 0; i < 7; ++i) BOOST_TEST(std::abs(all(0, head, 0, i) - one(0, head, 0, i)) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(storage_types) {
  const auto q = made<float, dims<1, 2, 5, 8>>(1, shape(1, 2, 5, 8));
  const auto small = eval(cast<bfloat16>(q));
  const auto y = eval(cast<float>(attention(small, small, small, {.causal = true})));
  const auto r =
      attention(eval(cast<float>(small)), eval(cast<float>(small)), eval(cast<float>(small)), {.causal = true});
  for (std::size_t i = 0; i < y.elements(); ++i) BOOST_TEST(std::abs(y.data()[i] - r.data()[i]) <= 0.01f);
}

BOOST_AUTO_TEST_CASE(errors) {
  const tensor<float, dims<1, 1, 3, 4>> x;
  const std::string text = test::failure(
      error_code::out_of_range, [&] { (void)attention(x, x, x, key_lengths(tensor<std::int32_t, dims<1>>{4})); });
  BOOST_TEST(test::contains(text, "the length of sequence 0 must be 0 to 3, the number of keys; it is 4"));
}
