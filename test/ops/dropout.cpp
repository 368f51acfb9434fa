// SPDX-License-Identifier: BSL-1.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>
#include <weft/graph/random.hpp>
#include <weft/ops/random/categorical.hpp>
#include <weft/ops/random/dropout.hpp>

#include "errors.hpp"
#include "list.hpp"
#include "ops/gradient_check.hpp"
#include "session_on_cpu.hpp"

using namespace weft;
using test::list;

namespace {

using vec = dims<dyn<"rows">>;
using floats = std::vector<float>;

template <class T = float>
tensor<T, vec> filled(std::int64_t n, float value = 1) {
  tensor<T, vec> x{shape(n)};
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<T>(value);
  return x;
}

/// The key that a node draws with.
std::uint64_t key_of(const graph& g, value v) { return static_cast<std::uint64_t>(g[v.node].def.attributes[0]); }

/// The word of an element that takes one, by the definition.
std::uint32_t word_of(std::uint64_t key, std::uint64_t position, std::uint64_t element) {
  return philox(key, position, element / 128 * 32 + element % 32).word[element / 32 % 4];
}

/// A model of one dropout, of which each run is another step.
struct one_dropout {
  graph g;
  node<float, vec> x = placeholder<float, vec>(g, "x");
  node<float, vec> y;
  explicit one_dropout(double rate = 0.5, std::uint64_t seed = 7) : g(seed), y(dropout(x, rate)) {}
};

floats kept(const floats& y) {
  floats mask;
  for (const float e : y) mask.push_back(e != 0);
  return mask;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_words_of_a_group_are_those_of_philox) {
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (set > detected_isa()) continue;
    std::uint32_t word[4][device::blocks_in_group];
    multiversioned(set, [&] { device::draw_group({0, 0}, 0, word); });
    // The known answer that Random123 is published with (tests/kat_vectors, philox4x32 10).
    const std::uint32_t known[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (int k = 0; k < 4; ++k) BOOST_CHECK_EQUAL(word[k][0], known[k]);
    const device::random_source from{0x299f31d0a4093822, 0x0370734413198a2e};
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{32}, std::uint64_t{0x85a308d3243f6a80}}) {
      multiversioned(set, [&] { device::draw_group(from, first, word); });
      for (std::size_t b = 0; b < device::blocks_in_group; ++b)
        for (int k = 0; k < 4; ++k) BOOST_CHECK_EQUAL(word[k][b], philox(from.key, from.position, first + b).word[k]);
    }
    if (set == isa::avx512 || set == detected_isa()) {  // lane 8 of that group is another published answer
      const std::uint32_t counter_8[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
      for (int k = 0; k < 4; ++k) BOOST_CHECK_EQUAL(word[k][8], counter_8[k]);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_element_depends_on_key_position_and_its_number) {
  one_dropout m(0.3);
  session s{m.g};
  auto step = s.prepare(fetch(m.y), feed(m.x));
  s.set_step_number(40);
  s.set_random_stream(3);
  const auto y = list(step(filled(1000, 2)));
  const auto threshold = static_cast<std::uint32_t>(0.3 * 0x1p32);
  const float scale = static_cast<float>(1 / (1 - 0.3));
  const std::uint64_t key = key_of(m.g, m.y.id());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    wrong += y[i] != (word_of(key, (std::uint64_t{3} << 48) + 40, i) >= threshold ? 2 * scale : 0);
  BOOST_CHECK_EQUAL(wrong, 0u);
}

BOOST_AUTO_TEST_CASE(the_rate_is_the_share_of_zeros) {
  constexpr int n = 200000;
  const auto check = []<class T>(T, double rate) {
    graph g(11);
    const auto x = placeholder<T, vec>(g);
    session s{g};
    const auto y = s.run(fetch(dropout(x, rate)), with(x, filled<T>(n)));
    const T scale = static_cast<T>(static_cast<accumulator<T>>(1 / (1 - rate)));
    int zeros = 0, others = 0;
    for (const T e : y)
      if (static_cast<double>(e) == 0)
        ++zeros;
      else if (static_cast<double>(e) != static_cast<double>(scale))
        ++others;
    BOOST_CHECK_EQUAL(others, 0);
    BOOST_CHECK_SMALL(zeros - n * rate, 4 * std::sqrt(n * rate * (1 - rate)));
  };
  for (const double rate : {0.001, 0.1, 0.5, 0.9}) check(float{}, rate);
  check(double{}, 0.25);
  check(weft::half{}, 0.25);
  check(bfloat16{}, 0.25);
}

BOOST_AUTO_TEST_CASE(neighbours_steps_and_operations_are_independent) {
  constexpr int n = 100000;
  graph g(5);
  const auto x = placeholder<float, vec>(g);
  session s{g};
  auto step = s.prepare(fetch(dropout(x, 0.5), dropout(x, 0.5)), feed(x));
  const auto [a, b] = step(filled(n));
  const auto [c, d] = step(filled(n));
  const auto agree = [&](const auto& p, const auto& q, int apart) {
    int equal = 0;
    for (int i = 0; i + apart < n; ++i) equal += p.data()[i] == q.data()[i + apart];
    BOOST_CHECK_SMALL(equal - (n - apart) * 0.5, 4 * std::sqrt(n * 0.25));
  };
  agree(a, b, 0), agree(a, c, 0), agree(a, d, 0);
  for (const int apart : {1, 2, 4, 32, 128}) agree(a, a, apart);
}

BOOST_AUTO_TEST_CASE(bits_do_not_depend_on_threads_lanes_or_device) {
  const auto draw = [](auto make_session) {
    one_dropout m;
    const auto z = dropout(m.x * 2.0f, 0.25);
    auto s = make_session(m.g);
    auto step = s->prepare(fetch(m.y, z), feed(m.x));
    std::vector<floats> all;
    for (int i = 0; i < 4; ++i) {
      const auto [a, b] = step(filled(100000));
      all.push_back(list(a)), all.push_back(list(b));
    }
    return all;
  };
  const auto with_options = [&](const session_options& o) {
    return draw([&](const graph& g) { return std::make_unique<session_on_cpu>(g, o); });
  };
  const auto one = with_options({.threads = 1});
  BOOST_CHECK(one == with_options({.threads = 2}));
  BOOST_CHECK(one == with_options({.threads = 5}));
  BOOST_CHECK(one == with_options({.threads = 2, .inter_op_threads = 2}));
  BOOST_CHECK(one == with_options({.threads = 1, .devices = 2}));
  // On a GPU the first run is launched kernel by kernel, the second recorded, and the others are replays.
  BOOST_CHECK(one == draw([](const graph& g) { return std::make_unique<session>(g); }));
  BOOST_CHECK(one[0] != one[2] && one[2] != one[4] && one[4] != one[6]);
}

BOOST_AUTO_TEST_CASE(a_longer_batch_begins_as_a_shorter_one_does) {
  const auto draw = [](std::int64_t n) {
    one_dropout m;
    session s{m.g};
    return list(s.run(fetch(m.y), with(m.x, filled(n))));
  };
  const floats all = draw(70001);
  for (const std::int64_t n : {0, 1, 31, 127, 128, 129, 40000})
    BOOST_CHECK(draw(n) == floats(all.begin(), all.begin() + n));
}

BOOST_AUTO_TEST_CASE(a_restart_goes_on_as_an_uninterrupted_run) {
  one_dropout m;
  const auto x = filled(500);
  session s{m.g};
  auto step = s.prepare(fetch(m.y), feed(m.x));
  std::vector<floats> all;
  for (int i = 0; i < 6; ++i) {
    BOOST_CHECK_EQUAL(s.step_number(), i);
    all.push_back(list(step(x)));
    for (int k = 0; k < i; ++k) BOOST_CHECK(all[static_cast<std::size_t>(k)] != all.back());
  }
  session later{m.g};
  later.set_step_number(4);
  auto again = later.prepare(fetch(m.y), feed(m.x));
  BOOST_CHECK(list(again(x)) == all[4]);
  BOOST_CHECK(list(again(x)) == all[5]);
  s.set_step_number(1);
  BOOST_CHECK(list(step(x)) == all[1]);
  for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{1} << 48})
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { s.set_step_number(n); }), "must be in [0, ");
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { s.set_random_stream(1 << 15); }), "32768)");
  BOOST_CHECK_EQUAL(s.step_number(), 2);
}

BOOST_AUTO_TEST_CASE(the_steps_of_a_session_count_together_and_those_that_draw_nothing_do_not_count) {
  one_dropout m;
  const auto other = let(dropout(m.x, 0.5) + m.y);
  const auto x = filled(300);
  session s{m.g}, second{m.g};
  auto first = s.prepare(fetch(m.y), feed(m.x));
  auto both = s.prepare(fetch(m.y, other), feed(m.x));
  auto plain = s.prepare(fetch(m.x * 2.0f), feed(m.x));
  std::vector<floats> of_s{list(first(x)), list(std::get<0>(both(x)))};
  static_cast<void>(plain(x));
  BOOST_CHECK_EQUAL(s.step_number(), 2);
  of_s.push_back(list(first(x)));
  auto alone = second.prepare(fetch(m.y), feed(m.x));
  for (int i = 0; i < 3; ++i) BOOST_CHECK(list(alone(x)) == of_s[static_cast<std::size_t>(i)]);
  BOOST_CHECK_EQUAL(second.step_number(), 3);
  // A mask that is fed in place of what would draw it: the step draws nothing.
  BOOST_CHECK(list(s.run(fetch(m.y + 0.0f), with(m.y, x))) == list(x));
  BOOST_CHECK_EQUAL(s.step_number(), 3);
}

BOOST_AUTO_TEST_CASE(streams_are_for_workers) {
  one_dropout m;
  const auto x = filled(300);
  const auto draw = [&](std::int64_t stream) {
    session s{m.g};
    s.set_random_stream(stream);
    return list(s.run(fetch(m.y), with(m.x, x)));
  };
  BOOST_CHECK(draw(1) == draw(1));
  BOOST_CHECK(draw(0) != draw(1));
  BOOST_CHECK(draw((1 << 15) - 1) != draw(1));
}

BOOST_AUTO_TEST_CASE(seeds) {
  graph g(1), same(1), other(2);
  const auto draw = [](graph& in, random_options o, bool before = false) {
    const auto x = placeholder<float, vec>(in);
    if (before) static_cast<void>(dropout(x, 0.5));
    session s{in};
    return list(s.run(fetch(dropout(x, 0.5, o)), with(x, filled(300))));
  };
  const floats seeded = draw(g, {.seed = 5});
  BOOST_CHECK(draw(g, {.seed = 5}) == seeded);
  BOOST_CHECK(draw(same, {.seed = 5}, true) == seeded);  // whatever else is in the graph
  BOOST_CHECK(draw(other, {.seed = 5}) != seeded);
  BOOST_CHECK(draw(g, {.seed = 6}) != seeded);
  BOOST_CHECK(draw(g, {.seed = 0}) != draw(g, {}));
  BOOST_CHECK(draw(g, {}) != draw(g, {}));
  graph left(3), right(3);
  BOOST_CHECK(draw(left, {}) == draw(right, {}));
  BOOST_CHECK_EQUAL(left.hash(), right.hash());
  const auto x = placeholder<float, vec>(g);
  BOOST_CHECK(!(dropout(x, 0.5).id() == dropout(x, 0.5).id()));
  BOOST_CHECK(dropout(x, 0.5, {.seed = 5}).id() == dropout(x, 0.5, {.seed = 5}).id());
  BOOST_CHECK(dropout(x, 0.0).id() == x.id());
}

BOOST_AUTO_TEST_CASE(the_gradient_has_the_same_mask) {
  graph g;
  const auto x = placeholder<float, vec>(g, "x"), w = placeholder<float, vec>(g, "w");
  const auto y = dropout(x, 0.3);
  const auto [d] = gradients(sum(y * w), x);
  const auto [e] = gradients(sum(square(y) * y), x);
  const auto [second] = gradients(sum(e * w), x);
  session s{g};
  auto step = s.prepare(fetch(y, d, e, second), feed(x, w));
  tensor<float, vec> values{shape(5000)}, weights{shape(5000)};
  const random_stream random(1, 2);
  for (std::size_t i = 0; i < 5000; ++i) {
    values.data()[i] = static_cast<float>(1 + random.uniform(i));
    weights.data()[i] = static_cast<float>(random.normal(i));
  }
  const float scale = static_cast<float>(1 / (1 - 0.3));
  for (int k = 0; k < 4; ++k) {
    const auto [yes, first, of_cube, of_gradient] = step(values, weights);
    std::size_t wrong = 0, zeros = 0;
    for (std::size_t i = 0; i < 5000; ++i) {
      const float mask = yes.data()[i] != 0, at = values.data()[i], up = weights.data()[i];
      zeros += mask == 0;
      wrong += yes.data()[i] != mask * (at * scale) || first.data()[i] != mask * (up * scale);
      // y = m x, with m the scale or 0: d(y^3) = 3 y^2 m, and its derivative times w is 6 y m^2 w.
      const double m = mask * scale, right = 3 * m * m * m * at * at, next = 6 * m * m * m * at * up;
      wrong += std::abs(of_cube.data()[i] - right) > 1e-5 * (1 + std::abs(right));
      wrong += std::abs(of_gradient.data()[i] - next) > 1e-5 * (1 + std::abs(next));
    }
    BOOST_CHECK_EQUAL(wrong, 0u);
    BOOST_CHECK(zeros > 1000 && zeros < 2000);
  }
}

BOOST_AUTO_TEST_CASE(gradients_pass_through_narrow_types) {
  const auto check = []<class T>(T) {
    graph g;
    const auto x = variable<float, dims<200>>(g, "x", init::constant{3});
    const auto y = dropout(cast<T>(x), 0.5);
    const auto [d] = gradients(sum(cast<float>(y)), x);
    session s{g};
    const auto [found, gradient] = s.run(fetch(y, d));
    for (int i = 0; i < 200; ++i) BOOST_CHECK_EQUAL(gradient(i), static_cast<float>(found(i)) != 0 ? 2 : 0);
  };
  check(weft::half{}), check(bfloat16{});
}

BOOST_AUTO_TEST_CASE(what_is_dropped_is_zero_whatever_it_was) {
  one_dropout m;
  session s{m.g};
  auto x = filled(400);
  const auto mask = kept(list(s.run(fetch(m.y), with(m.x, x))));
  for (std::size_t i = 0; i < 400; ++i) x.data()[i] = std::numeric_limits<float>::quiet_NaN();
  s.set_step_number(0);
  const auto y = list(s.run(fetch(m.y), with(m.x, x)));
  for (std::size_t i = 0; i < 400; ++i) BOOST_CHECK(mask[i] != 0 ? std::isnan(y[i]) : y[i] == 0);
}

BOOST_AUTO_TEST_CASE(a_rate_that_is_fed) {
  graph g(7);
  const auto x = placeholder<float, vec>(g, "x");
  const auto rate = placeholder<float>(g, "rate");
  const auto training = placeholder<bool>(g, "training");
  const auto y = dropout(x, rate), z = dropout(x, 0.5f * cast<float>(training));
  const auto [d] = gradients(sum(square(y)), x);
  session s{g};
  auto step = s.prepare(fetch(y, z, d), feed(x, rate, training));
  const auto values = filled(1000, 3);
  const auto [off, not_training, two] = step(values, 0.0f, false);
  BOOST_CHECK(list(off) == list(values) && list(not_training) == list(values) && list(two) == list(filled(1000, 6)));
  one_dropout fixed(0.5);
  session same{fixed.g};
  same.set_step_number(1);
  const auto [half_of_them, also, twelve] = step(values, 0.5f, true);
  BOOST_CHECK(list(half_of_them) == list(same.run(fetch(fixed.y), with(fixed.x, values))));
  BOOST_CHECK(list(half_of_them) != list(also));
  for (std::size_t i = 0; i < 1000; ++i)
    BOOST_CHECK_EQUAL(twelve.data()[i], half_of_them.data()[i] != 0 ? 2 * 6 * 2 : 0);
}

BOOST_AUTO_TEST_CASE(a_step_that_throws_is_not_counted) {
  graph g(7);
  const auto x = placeholder<float, vec>(g, "x");
  const auto rate = placeholder<double>(g, "rate");
  const auto before = dropout(x, 0.5), y = dropout(before, rate);
  session s{g}, undisturbed{g};
  auto step = s.prepare(fetch(before, y), feed(x, rate));
  auto right = undisturbed.prepare(fetch(before, y), feed(x, rate));
  const auto values = filled(1000);
  for (const double wrong : {1.0, -0.25, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(step(values, wrong)); }),
               "the rate must be in [0, 1)");
    const auto [a, b] = step(values, 0.25);
    const auto [c, d] = right(values, 0.25);
    BOOST_CHECK(list(a) == list(c) && list(b) == list(d));
  }
  BOOST_CHECK_EQUAL(s.step_number(), 3);
}

BOOST_AUTO_TEST_CASE(it_may_take_the_place_of_its_operand) {
  one_dropout m(0.3);
  const auto y = dropout(exp(m.x), 0.3), z = dropout(y, 0.5);
  session s{m.g}, other{m.g};
  auto step = s.prepare(fetch(y + 0.0f, sum(z)), feed(m.x));
  auto apart = other.prepare(fetch(exp(m.x), y, z), feed(m.x));
  const auto x = filled(3000, 0.5);
  for (int i = 0; i < 3; ++i) {
    const auto [found, total] = step(x);
    const auto [of, right, last] = apart(x);
    BOOST_CHECK(list(found) == list(right));
    double all = 0;
    for (const float e : last) all += static_cast<double>(e);
    BOOST_CHECK_CLOSE(static_cast<double>(total), all, 1e-3);
    for (std::size_t k = 0; k < 3000; ++k) BOOST_CHECK((right.data()[k] != 0) <= (of.data()[k] != 0));
  }
  BOOST_CHECK(!test::contains(step.explain(), "forwarding: 0 buffers"));
}

BOOST_AUTO_TEST_CASE(rates_that_are_no_rates) {
  graph g;
  const auto x = placeholder<float, vec>(g);
  for (const double rate : {1.0, 1.5, -0.1, std::numeric_limits<double>::infinity()})
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(dropout(x, rate)); }),
               "the rate must be in [0, 1)");
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(dropout(x, 1.5)); }), "1.5");
}

BOOST_AUTO_TEST_CASE(a_model_trains_with_it) {
  // y = x * (1, -2, 3, ...): a linear layer behind a hidden one, whose units drop out.
  using batch = dims<dyn<"batch">, 8>;
  graph g(3);
  const auto x = placeholder<float, batch>(g, "x");
  const auto target = placeholder<float, dims<dyn<"batch">, 1>>(g, "target");
  const auto rate = placeholder<float>(g, "rate");
  const auto w1 = variable<float, dims<8, 64>>(g, "w1", init::glorot_uniform{});
  const auto w2 = variable<float, dims<64, 1>>(g, "w2", init::glorot_uniform{});
  const auto loss = mean(square(matmul(dropout(tanh(matmul(x, w1)), rate), w2) - target));
  const auto train = adam{.learning_rate = 0.01}.minimize(loss);
  session s{g};
  auto step = s.prepare(fetch(loss, train), feed(x, target, rate));
  auto evaluate = s.prepare(fetch(loss), feed(x, target, rate));
  const random_stream random(4, 5);
  const auto data = [&](std::uint64_t number) {
    tensor<float, batch> in(shape(64, 8));
    tensor<float, dims<dyn<"batch">, 1>> out(shape(64, 1));
    for (std::int64_t i = 0; i < 64; ++i) {
      float sum = 0;
      for (std::int64_t k = 0; k < 8; ++k) {
        in(i, k) = static_cast<float>(random.normal(number * 512 + static_cast<std::uint64_t>(i * 8 + k)));
        sum += in(i, k) * (k % 2 ? -0.3f : 0.2f);
      }
      out(i, 0) = std::tanh(sum);
    }
    return std::pair(in, out);
  };
  const auto [tested_x, tested_y] = data(1000);
  const float before = evaluate(tested_x, tested_y, 0.0f);
  for (std::uint64_t i = 0; i < 300; ++i) {
    const auto [in, out] = data(i);
    static_cast<void>(step(in, out, 0.2f));
  }
  const float after = evaluate(tested_x, tested_y, 0.0f);
  BOOST_CHECK_GT(before, 0.2f);
  BOOST_CHECK_LT(after, 0.02f);
}

BOOST_AUTO_TEST_CASE(uniform_and_normal_numbers_of_a_step) {
  constexpr int n = 100000;
  graph g(9);
  const auto u = random_uniform<float, dims<n>>(g, -1, 3), v = random_uniform<float, dims<n>>(g, -1, 3);
  const auto d = random_uniform<double, dims<n>>(g);
  const auto h = random_uniform<weft::half, dims<n>>(g, 0, 1);
  const auto z = random_normal<float, dims<n>>(g, 5, 2);
  const auto w = random_normal<double, dims<n>>(g, 0, 1, {.seed = 3});
  session s{g};
  session_on_cpu host{g};
  auto step = s.prepare(fetch(u, v, d, h, z, w));
  auto same = host.prepare(fetch(u, v, d, h, z, w));
  const auto moments = [](const auto& x, double mean, double variance, double low, double high) {
    double sum = 0, squares = 0;
    std::size_t outside = 0;
    for (const auto e : x) {
      const double y = static_cast<double>(e);
      sum += y, squares += (y - mean) * (y - mean);
      outside += y < low || y >= high;
    }
    BOOST_CHECK_SMALL(sum / n - mean, 5 * std::sqrt(variance / n));
    BOOST_CHECK_SMALL(squares / n - variance, 0.03 * variance);
    BOOST_CHECK_EQUAL(outside, 0u);
  };
  std::vector<floats> drawn;
  for (int i = 0; i < 3; ++i) {
    const auto [a, b, c, e, f, k] = step();
    moments(a, 1, 16.0 / 12, -1, 3);
    moments(c, 0.5, 1.0 / 12, 0, 1);
    moments(e, 0.5, 1.0 / 12, 0, 1);
    moments(f, 5, 4, -20, 30);
    moments(k, 0, 1, -10, 10);
    const auto [host_a, host_b, host_c, host_e, host_f, host_k] = same();
    BOOST_CHECK(list(a) == list(host_a) && list(b) == list(host_b) && list(c) == list(host_c));
    std::size_t far = 0;
    for (int j = 0; j < n; ++j)
      far += std::abs(f(j) - host_f(j)) > 4e-6 || std::abs(k(j) - host_k(j)) > 1e-13 || e(j).bits != host_e(j).bits;
    BOOST_CHECK_EQUAL(far, 0u);
    drawn.push_back(list(a)), drawn.push_back(list(b));
  }
  for (std::size_t i = 0; i < drawn.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) BOOST_CHECK(drawn[i] != drawn[j]);
  BOOST_CHECK_EQUAL(s.step_number(), 3);
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(random_uniform<float>(g, 1, 1)); }),
             "low must be less than high");
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(random_normal<float>(g, 0, -1)); }),
             "must not be negative");
}

BOOST_AUTO_TEST_CASE(uniform_numbers_stay_below_the_end) {
  // About a quarter of the numbers in [1, 1 + 2 steps) of half would round to the end.
  graph g(2);
  const auto h = random_uniform<weft::half, dims<100000>>(g, 1, 1 + 0x1p-9);
  const auto f = random_uniform<float, dims<100000>>(g, 1, 1 + 0x1p-22);
  const auto wide = random_uniform<float, dims<1000>>(g, -3e38, 3e38);
  session s{g};
  const auto [a, b, c] = s.run(fetch(h, f, wide));
  std::size_t outside = 0;
  for (const auto e : a) outside += static_cast<float>(e) < 1 || static_cast<float>(e) >= 1 + 0x1p-9f;
  for (const float e : b) outside += e < 1 || e >= 1 + 0x1p-22f;
  for (const float e : c) outside += !(e >= -3e38f && e < 3e38f);
  BOOST_CHECK_EQUAL(outside, 0u);
}

namespace {

/// Pearson's statistic of counts whose probabilities are known. With k - 1 degrees of freedom it exceeds
/// k + 4 sqrt(2 k) + 8 less than once in ten thousand times.
double chi_square(const std::vector<double>& counts, const std::vector<double>& probabilities, double n) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (probabilities[i] == 0) BOOST_CHECK_EQUAL(counts[i], 0);
    if (probabilities[i] > 0)
      sum += (counts[i] - n * probabilities[i]) * (counts[i] - n * probabilities[i]) / (n * probabilities[i]);
  }
  return sum;
}
double limit_of(std::size_t k) { return static_cast<double>(k) + 4 * std::sqrt(2.0 * static_cast<double>(k)) + 8; }

/// How many elements lie in each of k equal parts of [low, low + k * size).
template <class X>
std::vector<double> histogram(const X& x, long double low, long double size, std::size_t k) {
  std::vector<double> counts(k);
  for (const auto e : x) {
    const long double part = (static_cast<long double>(e) - low) / size;
    BOOST_REQUIRE(part >= 0 && part < static_cast<long double>(k));
    ++counts[static_cast<std::size_t>(part)];
  }
  return counts;
}
template <class X>
void check_even(const X& x, long double low, long double size, std::size_t k) {
  const std::vector<double> even(k, 1.0 / static_cast<double>(k));
  BOOST_CHECK_LT(chi_square(histogram(x, low, size, k), even, static_cast<double>(x.elements())), limit_of(k));
}

}  // namespace

BOOST_AUTO_TEST_CASE(integers_of_a_step) {
  constexpr int n = 70000;
  graph g(4);
  const auto a = random_int<std::int32_t, dims<n>>(g, -3, 4), again = random_int<std::int32_t, dims<n>>(g, -3, 4);
  // Of 2^32 words, modulo 3 * 2^30, the first third would have half of all; so of 2^64, and of the upper bits of 2^32.
  const auto b = random_int<std::int32_t, dims<n>>(g, -(1 << 30), 0x7fffffff);
  const auto c = random_int<std::int64_t, dims<n>>(g, -(std::int64_t{1} << 62), std::int64_t{1} << 61);
  const auto d = random_int<std::uint8_t, dims<n>>(g, 250, 255);
  const auto e = random_int<std::uint64_t, dims<n>>(g, 0, ~std::uint64_t{0}, {.seed = 8});
  const auto f = random_int<std::int8_t>(g, 127 - 1, 127);
  session s{g};
  session_on_cpu host{g, {.threads = 3}};
  auto step = s.prepare(fetch(a, again, b, c, d, e, f));
  auto same = host.prepare(fetch(a, again, b, c, d, e, f));
  std::vector<std::int32_t> before;
  for (int i = 0; i < 2; ++i) {
    const auto [x, y, wide, wider, narrow, all, one] = step();
    check_even(x, -3, 1, 7);
    check_even(y, -3, 1, 7);
    check_even(wide, -0x1p30L, 0x1p30L, 3);
    check_even(wide, -0x1p30L, 0x1p26L, 48);
    check_even(wider, -0x1p62L, 0x1p61L, 3);
    check_even(wider, -0x1p62L, 0x1p57L, 48);
    check_even(narrow, 250, 1, 5);
    check_even(all, 0, 0x1p59L, 32);
    BOOST_CHECK_EQUAL(int{one}, 126);
    std::size_t odd = 0;  // the lowest bits, too
    for (const std::uint64_t v : all) odd += v & 1;
    BOOST_CHECK_SMALL(static_cast<double>(odd) / n - 0.5, 4 / std::sqrt(4.0 * n));
    const auto [host_x, host_y, host_wide, host_wider, host_narrow, host_all, host_one] = same();
    BOOST_CHECK(list(x) == list(host_x) && list(y) == list(host_y) && list(wide) == list(host_wide));
    BOOST_CHECK(list(wider) == list(host_wider) && list(narrow) == list(host_narrow) && list(all) == list(host_all));
    BOOST_CHECK(list(x) != list(y) && list(x) != before);
    before = list(x);
  }
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(random_int<std::int8_t>(g, 5, 5)); }),
             "low must be less than high, but low is 5 and high is 5");
}

BOOST_AUTO_TEST_CASE(classes_by_their_probabilities) {
  constexpr int rows = 40000;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<double> weights{0, 1, 2, 0.25, 0, 4, 1e-3};
  graph g(6);
  const auto one = placeholder<float, dims<7>>(g, "one");
  const auto logits = placeholder<float, dims<dyn<"rows">, 7>>(g, "logits");
  const auto drawn = categorical(logits, {.seed = 21}), other = categorical(logits);
  const auto fourth = categorical(one);
  const auto wide = categorical(cast<double>(logits) + 500.0, {.seed = 21});
  const auto u = random_uniform<double, vec>(g, 0, 1, {.seed = 21});
  const auto halves = categorical(cast<weft::half>(logits), {.seed = 21});
  tensor<float, dims<dyn<"rows">, 7>> x(shape(rows, 7));
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<float>(std::log(weights[i % 7])) + 30;
  tensor<float, dims<7>> first;
  for (int k = 0; k < 7; ++k) first(k) = x(0, k);
  double total = 0;
  for (const double w : weights) total += w;
  std::vector<double> probabilities;
  for (const double w : weights) probabilities.push_back(w / total);
  session s{g};
  session_on_cpu alone{g, {.threads = 1}}, host{g, {.threads = 3}};
  auto step = s.prepare(fetch(drawn, other, wide, halves, u), feed(logits));
  auto step_alone = alone.prepare(fetch(drawn, other, wide, halves, u), feed(logits));
  auto step_host = host.prepare(fetch(drawn, other, wide, halves, u), feed(logits));
  std::vector<std::int32_t> before;
  for (int i = 0; i < 3; ++i) {
    const auto [a, b, c, h, numbers] = step(x);
    for (const auto* const found : {&a, &b, &c, &h}) {
      std::vector<double> counts(7);
      for (const std::int32_t k : *found) {
        BOOST_REQUIRE(k >= 0 && k < 7);
        ++counts[static_cast<std::size_t>(k)];
      }
      BOOST_CHECK_LT(chi_square(counts, probabilities, rows), limit_of(5));
    }
    // The class in which the uniform number falls.
    std::size_t wrong = 0;
    for (int r = 0; r < rows; ++r) {
      long double sum = 0, all = 0;
      for (int k = 0; k < 7; ++k) all += std::exp(static_cast<long double>(x(r, k)) - 32);
      int k = 0;
      for (; k < 7; ++k)
        if ((sum += std::exp(static_cast<long double>(x(r, k)) - 32)) > static_cast<long double>(numbers(r)) * all)
          break;
      wrong += a(r) != k || c(r) != k;
    }
    BOOST_CHECK_EQUAL(wrong, 0u);
    const auto [a1, b1, c1, h1, u1] = step_alone(x);
    const auto [a3, b3, c3, h3, u3] = step_host(x);
    BOOST_CHECK(list(a) == list(a1) && list(b) == list(b1) && list(c) == list(c1) && list(h) == list(h1));
    BOOST_CHECK(list(a) == list(a3) && list(b) == list(b3) && list(c) == list(c3) && list(h) == list(h3));
    BOOST_CHECK(list(a) != list(b) && list(a) != before);
    before = list(a);
  }
  const int k = s.eval(fourth, with(one, first));
  BOOST_CHECK(k >= 0 && k < 7 && weights[static_cast<std::size_t>(k)] > 0);

  // Rows that are no distribution have no class; others of finite logits have one, however far apart these are.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto odd =
      s.eval(drawn, with(logits, tensor<float, dims<5, 7>>{
                                     nan,       0,         0,         0,         0,         0,         0,          //
                                     0,         0,         0,         0,         0,         0,         infinity,   //
                                     -infinity, -infinity, -infinity, -infinity, -infinity, -infinity, -infinity,  //
                                     -infinity, -infinity, -3e38f,    -infinity, -infinity, -infinity, -infinity,  //
                                     -3e38f,    -3e38f,    -3e38f,    -3e38f,    -3e38f,    -3e38f,    3e38f}));
  BOOST_CHECK((list(odd) == std::vector<std::int32_t>{-1, -1, -1, 2, 6}));
  BOOST_CHECK_EQUAL(s.eval(drawn, with(logits, tensor<float, dims<0, 7>>())).elements(), 0u);
  const auto nothing = placeholder<float, dims<2, 0>>(g, "nothing");
  const auto none = categorical(nothing);
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] {
                             session of_none{g};
                             static_cast<void>(of_none.eval(none, with(nothing, tensor<float, dims<2, 0>>())));
                           }),
             "categorical: logits of [2, 0] have no classes to draw from");
}

BOOST_AUTO_TEST_CASE(extents_known_at_run_time) {
  graph g(2);
  const auto x = placeholder<float, vec>(g, "x");
  const auto noisy = let(x + random_normal<float, vec>(g, 0, 0.1));
  session s{g};
  auto step = s.prepare(fetch(noisy), feed(x));
  for (const std::int64_t n : {3, 0, 200}) BOOST_CHECK_EQUAL(step(filled(n)).extent(0), n);
}
