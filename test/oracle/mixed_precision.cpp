// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>
#include <weft/weft.hpp>

using namespace weft;

// Products, convolutions and pools of half and bfloat16, and a network that trains with them, against PyTorch; see
// make_mixed_values.py.

namespace {

/// The numbers that mixed_values.txt has under a name: a line each, the name and its numbers.
template <class Number>
const std::vector<Number>& expected(const std::string& name) {
  static const std::map<std::string, std::vector<Number>> all = [] {
    std::map<std::string, std::vector<Number>> found;
    std::ifstream in(TEST_DATA "/oracle/mixed_values.txt");
    BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/oracle/mixed_values.txt"
                                  << " cannot be read");
    std::string line, word;
    std::getline(in, line);  // where it comes from
    while (std::getline(in, line)) {
      std::istringstream words(line);
      words >> word;
      std::vector<Number>& numbers = found[word];
      while (words >> word) numbers.push_back(static_cast<Number>(std::strtod(word.c_str(), nullptr)));
    }
    return found;
  }();
  const auto at = all.find(name);
  BOOST_REQUIRE_MESSAGE(at != all.end() && !at->second.empty(), "mixed_values.txt has no numbers under " << name);
  return at->second;
}

using bits = std::vector<unsigned short>;

template <class T>
const std::string type_name = std::is_same_v<T, weft::half> ? "half_" : "bfloat16_";

template <class T>
const bits& bits_of(const std::string& name) {
  return expected<unsigned short>(type_name<T> + name);
}

template <class T>
const std::vector<float>& floats_of(const std::string& name) {
  return expected<float>(type_name<T> + name);
}

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
void check_products() {
  using t = transpose_of;
  const bits &plain = bits_of<T>("product"), &of_a = bits_of<T>("product_a"), &of_b = bits_of<T>("product_b"),
             &of_both = bits_of<T>("product_both");
  graph g;
  const auto a = numbers<T, dims<19, 37>>(1);
  const auto b = numbers<T, dims<37, 21>>(2);
  const auto at = numbers<T, dims<37, 19>>(1);
  const auto bt = numbers<T, dims<21, 37>>(2);
  same_bits("a b", matmul(a, b), plain);
  same_bits("a' b", matmul<t::a>(at, b), of_a);
  same_bits("a b'", matmul<t::b>(a, bt), of_b);
  same_bits("a' b'", matmul<t::both>(at, bt), of_both);

  const auto va = variable<T>(g, "a", a);
  const auto vb = variable<T>(g, "b", b);
  const auto vat = variable<T>(g, "at", at);
  const auto vbt = variable<T>(g, "bt", bt);
  const auto p = matmul(va, vb), pa = matmul<t::a>(vat, vb), pb = matmul<t::b>(va, vbt),
             both = matmul<t::both>(vat, vbt);
  session s{g};
  const auto [x, xa, xb, xboth] = s.run(fetch(p, pa, pb, both));
  same_bits("a b in a graph", x, plain);
  same_bits("a' b in a graph", xa, of_a);
  same_bits("a b' in a graph", xb, of_b);
  same_bits("a' b' in a graph", xboth, of_both);
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

template <class T>
float number_of(unsigned short bits) {
  T x;
  x.bits = bits;
  return static_cast<float>(x);
}

/// The same bits; but cuDNN may transform what it convolves, and round on the way.
template <class T, class D>
void convolved(const std::string& what, const tensor<T, D>& found, const bits& expected) {
#if WEFT_COMPILES_FOR_GPU && !defined(WEFT_GPU_EMULATION)
  BOOST_REQUIRE_EQUAL(found.elements(), expected.size());
  float largest = 0;
  for (const unsigned short b : expected) largest = std::max(largest, std::abs(number_of<T>(b)));
  for (std::size_t i = 0; i < expected.size(); ++i)
    BOOST_CHECK_SMALL(static_cast<float>(found.data()[i]) - number_of<T>(expected[i]),
                      largest * (std::is_same_v<T, bfloat16> ? 0x1p-6f : 0x1p-9f));
  (void)what;
#else
  same_bits(what, found, expected);
#endif
}

/// The value of f(x, w), and the gradients of sum(value * weight).
template <class T, class Images, class Filters, class F>
void check_convolution(const std::string& name, F f) {
  const bits &value = bits_of<T>(name), &d_x = bits_of<T>(name + "_d_x"), &d_w = bits_of<T>(name + "_d_w");
  graph g;
  const auto x = variable<T>(g, "x", numbers<T, Images>(1));
  const auto w = variable<T>(g, "w", numbers<T, Filters>(2));
  const auto y = f(x, w);
  const auto [dx, dw] = gradients(sum(cast<float>(y) * numbers<float, dims_t<decltype(y)>>(4)), x, w);
  session s{g};
  const auto [found, found_x, found_w] = s.run(fetch(y, dx, dw));
  convolved(name, found, value);
  convolved(name + ", images", found_x, d_x);
  convolved(name + ", filters", found_w, d_w);
  // Without a graph, on the CPU.
  same_bits(name + " of tensors", f(numbers<T, Images>(1), numbers<T, Filters>(2)), value);
}

template <class T, class F>
void check_pool(const std::string& name, F f) {
  const bits &value = bits_of<T>(name), &d_x = bits_of<T>(name + "_d_x");
  graph g;
  const auto x = variable<T>(g, "x", numbers<T, dims<2, 6, 5, 3>>(1));
  const auto y = f(x);
  const auto [dx] = gradients(sum(cast<float>(y) * numbers<float, dims_t<decltype(y)>>(4)), x);
  session s{g};
  const auto [found, found_x] = s.run(fetch(y, dx));
  same_bits(name, found, value);
  same_bits(name + ", images", found_x, d_x);
}

template <conv2d_options Options>
struct with_options {
  template <class X, class W>
  auto operator()(const X& x, const W& w) const {
    return conv2d<Options>(x, w);
  }
};

struct max_of_nine {
  template <class X>
  auto operator()(const X& x) const {
    return max_pool2d<3, 2, padding::of(1)>(x);
  }
};
struct average_of_nine {
  template <class X>
  auto operator()(const X& x) const {
    return avg_pool2d<3, 2, padding::of(1)>(x);
  }
};

template <class T>
void check_network(float spacing) {
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
  close("logits", eval(reshape<dims<24>>(tensor<float, dims<6, 4>>(l))), floats_of<T>("logits"), spacing);
  BOOST_CHECK_SMALL(cost - floats_of<T>("loss")[0], 1e-3f);
  close("w1", g1, floats_of<T>("d_w1"), spacing);
  close("b1", g2, floats_of<T>("d_b1"), spacing);
  close("w2", g3, floats_of<T>("d_w2"), spacing);
  close("b2", g4, floats_of<T>("d_b2"), spacing);

  // It learns.
  auto step = s.prepare(fetch(loss, train), feed(x, labels));
  float last = 0;
  for (int i = 0; i < 50; ++i) last = std::get<0>(step(batch, classes));
  BOOST_CHECK_LT(last, 0.1f * cost);
}

template <class T>
void check_convolutions() {
  check_convolution<T, dims<2, 6, 5, 3>, dims<3, 3, 3, 4>>("same", with_options<conv2d_options{}>{});
  check_convolution<T, dims<5, 5, 4, 5>, dims<3, 2, 5, 7>>(
      "strided", with_options<conv2d_options{.stride = 2, .pad = padding::valid}>{});
  check_convolution<T, dims<4, 5, 3, 20>, dims<3, 3, 20, 3>>(
      "padded", with_options<conv2d_options{.stride = {2, 1}, .pad = padding::of(1)}>{});
  check_convolution<T, dims<2, 5, 4, 3>, dims<3, 3, 3, 18>>(
      "dilated", with_options<conv2d_options{.pad = padding::of(2), .dilation = 2}>{});
  check_convolution<T, dims<4, 2, 2, 33>, dims<1, 1, 33, 17>>("pointwise", with_options<conv2d_options{}>{});
}

template <class T>
void check_pools() {
  check_pool<T>("max", max_of_nine{});
  check_pool<T>("average", average_of_nine{});
}

}  // namespace

BOOST_AUTO_TEST_CASE(products) {
  check_products<weft::half>();
  check_products<bfloat16>();
}

BOOST_AUTO_TEST_CASE(a_network_of_halves) { check_network<weft::half>(0x1p-9f); }
BOOST_AUTO_TEST_CASE(a_network_of_bfloat16) { check_network<bfloat16>(0x1p-6f); }

BOOST_AUTO_TEST_CASE(convolutions_of_half) { check_convolutions<weft::half>(); }
BOOST_AUTO_TEST_CASE(pools_of_half) { check_pools<weft::half>(); }
BOOST_AUTO_TEST_CASE(convolutions_of_bfloat16) { check_convolutions<bfloat16>(); }
BOOST_AUTO_TEST_CASE(pools_of_bfloat16) { check_pools<bfloat16>(); }
