#define BOOST_TEST_DYN_LINK
#define BOOST_TEST_MODULE mixed_precision
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <weft/weft.hpp>

#include "mixed_values.hpp"

using namespace weft;

// Products of half and bfloat16, and a network that trains with them, against PyTorch; see make_mixed_values.py.

namespace {

template <class T, class D>
tensor<T, D> numbers(int which, float scale = 64) {
  tensor<T, D> t;
  for (std::size_t i = 0; i < t.elements(); ++i)
    t.data()[i] = static_cast<T>(
        static_cast<float>(static_cast<int>((i * 7919 + 31u * static_cast<unsigned>(which)) % 257) - 128) / scale);
  return t;
}

template <class T, class D>
void same_bits(const std::string& what, const tensor<T, D>& found, const std::vector<unsigned short>& expected) {
  BOOST_REQUIRE_EQUAL(found.elements(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    BOOST_REQUIRE_MESSAGE(found.data()[i].bits == expected[i],
                          what << "[" << i << "]: bits " << found.data()[i].bits << " are not " << expected[i]);
}

template <class T>
struct expected_products {
  const std::vector<unsigned short>&plain, &a, &b, &both;
};

template <class T>
void check_products(const expected_products<T>& expected) {
  using t = transpose_of;
  graph g;
  const auto a = numbers<T, dims<19, 37>>(1);
  const auto b = numbers<T, dims<37, 21>>(2);
  const auto at = numbers<T, dims<37, 19>>(1);
  const auto bt = numbers<T, dims<21, 37>>(2);
  same_bits("a b", matmul(a, b), expected.plain);
  same_bits("a' b", matmul<t::a>(at, b), expected.a);
  same_bits("a b'", matmul<t::b>(a, bt), expected.b);
  same_bits("a' b'", matmul<t::both>(at, bt), expected.both);

  const auto va = variable<T>(g, "a", a);
  const auto vb = variable<T>(g, "b", b);
  const auto vat = variable<T>(g, "at", at);
  const auto vbt = variable<T>(g, "bt", bt);
  const auto p = matmul(va, vb), pa = matmul<t::a>(vat, vb), pb = matmul<t::b>(va, vbt),
             both = matmul<t::both>(vat, vbt);
  session s{g};
  const auto [x, xa, xb, xboth] = s.run(fetch(p, pa, pb, both));
  same_bits("a b in a graph", x, expected.plain);
  same_bits("a' b in a graph", xa, expected.a);
  same_bits("a b' in a graph", xb, expected.b);
  same_bits("a' b' in a graph", xboth, expected.both);
}

// Where a number that is to be rounded lies next to the middle of two, the last bit of a float decides: one in some
// thousand of them may come out as its neighbour. `spacing` is relative to the largest number.
template <class D>
void close(const std::string& what, const tensor<float, D>& found, const std::vector<float>& expected, float spacing) {
  BOOST_REQUIRE_EQUAL(found.elements(), expected.size());
  float largest = 0;
  for (const float x : expected) largest = std::max(largest, std::abs(x));
  std::size_t neighbours = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float difference = std::abs(found.data()[i] - expected[i]);
    BOOST_CHECK_MESSAGE(difference <= spacing * largest,
                        what << "[" << i << "]: " << found.data()[i] << " is not " << expected[i]);
    neighbours += difference > 1e-5f * largest;
  }
  BOOST_CHECK_LE(neighbours, expected.size() / 20);
}

struct expected_network {
  const std::vector<float>&logits, &loss, &w1, &b1, &w2, &b2;
};

template <class T>
void check_network(const expected_network& expected, float spacing) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 12>>(g, "x");
  const auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  const auto w1 = variable<float>(g, "w1", numbers<float, dims<12, 9>>(4, 300));
  const auto b1 = variable<float>(g, "b1", numbers<float, dims<9>>(5, 300));
  const auto w2 = variable<float>(g, "w2", numbers<float, dims<9, 4>>(6, 300));
  const auto b2 = variable<float>(g, "b2", numbers<float, dims<4>>(7, 300));
  const auto hidden = relu(cast<float>(matmul(cast<T>(x), cast<T>(w1))) + b1);
  const auto logits = let(cast<float>(matmul(cast<T>(hidden), cast<T>(w2))) + b2);
  const auto loss = mean(softmax_cross_entropy(logits, labels));
  const auto [d_w1, d_b1, d_w2, d_b2] = gradients(loss, w1, b1, w2, b2);
  const auto train = gradient_descent{.learning_rate = 0.5}.minimize(loss);

  session s{g};
  const auto batch = numbers<float, dims<6, 12>>(3);
  const tensor<std::int32_t, dims<6>> classes{3, 0, 2, 1, 1, 0};
  const auto [l, cost, g1, g2, g3, g4] =
      s.run(fetch(logits, loss, d_w1, d_b1, d_w2, d_b2), with(x, batch), with(labels, classes));
  close("logits", eval(reshape<dims<24>>(tensor<float, dims<6, 4>>(l))), expected.logits, spacing);
  BOOST_CHECK_SMALL(cost - expected.loss[0], 1e-3f);
  close("w1", g1, expected.w1, spacing);
  close("b1", g2, expected.b1, spacing);
  close("w2", g3, expected.w2, spacing);
  close("b2", g4, expected.b2, spacing);

  // It learns.
  auto step = s.prepare(fetch(loss, train), feed(x, labels));
  float last = 0;
  for (int i = 0; i < 50; ++i) last = std::get<0>(step(batch, classes));
  BOOST_CHECK_LT(last, 0.1f * cost);
}

}  // namespace

using namespace oracle;

BOOST_AUTO_TEST_CASE(products) {
  check_products<weft::half>({half_product, half_product_a, half_product_b, half_product_both});
  check_products<bfloat16>({bfloat16_product, bfloat16_product_a, bfloat16_product_b, bfloat16_product_both});
}

BOOST_AUTO_TEST_CASE(a_network_of_halves) {
  check_network<weft::half>({half_logits, half_loss, half_d_w1, half_d_b1, half_d_w2, half_d_b2}, 0x1p-9f);
}

BOOST_AUTO_TEST_CASE(a_network_of_bfloat16) {
  check_network<bfloat16>({bfloat16_logits, bfloat16_loss, bfloat16_d_w1, bfloat16_d_b1, bfloat16_d_w2, bfloat16_d_b2},
                          0x1p-6f);
}
