// SPDX-License-Identifier: BSL-1.0
// Matrix products by cuBLASLt's calls, answered by a stand-in: orientations, element types, what is taken in,
// workspace, tuning; and a whole step, whose products and convolutions are the libraries'. Compiled by the host's
// compiler; it runs anywhere.
#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <vector>
#include <weft/cuda.hpp>

#include "library_machine.hpp"

using namespace weft;
using test::array;
using test::machine;
using test::number;

namespace {

struct call {
  matmul_shape s;
  gpu::matmul_epilogue after = gpu::matmul_epilogue::none;
  bool accumulate = false;
  double alpha = 1;
  std::size_t workspace = std::size_t{32} << 20;
  std::size_t batch = 1;

  template <class T>
  void check(machine& m) const {
    const array<T> a(m.d, batch * s.m * s.k), b(m.d, batch * s.k * s.n), c(m.d, batch * s.m * s.n), bias(m.d, s.n);
    const auto fill = [](const array<T>& to, std::size_t seed) {
      for (std::size_t i = 0; i < to.elements; ++i) to.data()[i] = T(number(i + seed));
    };
    fill(a, 0), fill(b, 3), fill(c, 5), fill(bias, 1);
    std::byte* buffers[] = {a.memory.data(), b.memory.data(), c.memory.data(), bias.memory.data()};
    const gpu::cublaslt_problem p{s, dtype_of<T>, after, accumulate, false, workspace, batch};
    owned<kernel> nothing;
    const owned<kernel> k(
        gpu::cublaslt_kernel::make(static_cast<gpu::cuda_libraries&>(*m.d.library()), p, {0, 1, 2, 3}, alpha, nothing));
    BOOST_REQUIRE(k);
    k->run({buffers, nullptr, m.q.get()});
    m.q->synchronize();
    using e = gpu::matmul_epilogue;
    for (std::size_t e = 0; e < c.elements; ++e) {
      const std::size_t one = e / s.n / s.m, i = e / s.n % s.m, j = e % s.n;
      double sum = 0;
      for (std::size_t l = 0; l < s.k; ++l)
        sum += double(number(one * s.m * s.k + (s.transpose_a ? l * s.m + i : i * s.k + l))) *
               double(number(one * s.k * s.n + (s.transpose_b ? j * s.k + l : l * s.n + j) + 3));
      double value = alpha * sum + (accumulate ? number(e + 5) : 0);
      if (after == e::bias || after == e::bias_relu) value += number(j + 1);
      if ((after == e::relu || after == e::bias_relu) && value < 0) value = 0;
      BOOST_REQUIRE_EQUAL(static_cast<float>(c.data()[e]), static_cast<float>(T(static_cast<float>(value))));
    }
  }
};

template <class T>
void check_all() {
  machine m;
  using enum gpu::matmul_epilogue;
  for (matmul_shape s : {matmul_shape{1, 1, 1}, matmul_shape{3, 4, 5}, matmul_shape{17, 8, 33}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        s.transpose_a = ta, s.transpose_b = tb;
        for (const gpu::matmul_epilogue after : {none, bias, relu, bias_relu}) call{s, after}.check<T>(m);
        call{s, none, true, -0.5}.check<T>(m);
        call{.s = s, .after = relu, .batch = 6}.check<T>(m);
      }
}

}  // namespace

BOOST_AUTO_TEST_CASE(floats_are_the_definitions) { check_all<float>(); }
BOOST_AUTO_TEST_CASE(doubles_are_the_definitions) { check_all<double>(); }
BOOST_AUTO_TEST_CASE(halves_are_the_definitions) { check_all<weft::half>(); }
BOOST_AUTO_TEST_CASE(bfloat16s_are_the_definitions) { check_all<bfloat16>(); }

BOOST_AUTO_TEST_CASE(the_first_advice_is_taken_or_the_fastest_within_the_workspace) {
  const auto taken = [](bool tune, std::size_t workspace) {
    machine m;
    gpu::math.tune = tune;
    call{{3, 4, 5}, gpu::matmul_epilogue::bias, false, 1, workspace}.check<float>(m);
    call{{3, 4, 5}, gpu::matmul_epilogue::bias, false, 1, workspace}.check<float>(m);  // it is remembered
    gpu::math.tune = false;
    const auto& all = m.cublaslt.multiplied;
    const std::size_t tried = tune ? 13 * (workspace >= 10000 ? 3u : workspace >= 5000 ? 2u : 1u) : 0;
    BOOST_CHECK_EQUAL(all.size(), (tried > 13 ? tried : 0) + 2);
    return all.back();
  };
  BOOST_CHECK_EQUAL(taken(false, 100000), 0);
  BOOST_CHECK_EQUAL(taken(true, 100000), 2);
  BOOST_CHECK_EQUAL(taken(true, 9000), 1);
  BOOST_CHECK_EQUAL(taken(true, 0), 0);
}

BOOST_AUTO_TEST_CASE(the_alignment_is_that_of_whole_buffers_or_what_the_addresses_have) {
  machine m;
  for (const matmul_shape s : {matmul_shape{4, 8, 16}, matmul_shape{1, 3, 5}}) {
    owned<kernel> nothing;
    const gpu::cublaslt_problem p{s, dtype::float32, gpu::matmul_epilogue::bias, false, false, 100000};
    const owned<kernel> k(
        gpu::cublaslt_kernel::make(static_cast<gpu::cuda_libraries&>(*m.d.library()), p, {0, 1, 2, 3}, 1, nothing));
    for (const std::size_t operand : {0, 1, 2, 3})
      for (const std::size_t offset : {0, 64, 32, 16, 4, 16, 0, 128}) {
        const array<float> all[] = {{m.d, 200}, {m.d, 200}, {m.d, 200}, {m.d, 200}};
        std::byte* at[4];
        for (std::size_t i = 0; i < 4; ++i) {
          at[i] = all[i].memory.data() + (i == operand ? offset : 0);
          for (std::size_t j = 0; j < 160; ++j) reinterpret_cast<float*>(at[i])[j] = number(i + j);
        }
        k->run({at, nullptr, m.q.get()});
        m.q->synchronize();
        BOOST_CHECK_EQUAL(m.cublaslt.alignments.back(), offset % 64 ? offset : 64);
        double sum = number(3);
        for (std::size_t l = 0; l < s.k; ++l) sum += number(l) * number(1 + l * s.n);
        BOOST_CHECK_EQUAL(*reinterpret_cast<float*>(at[2]), static_cast<float>(sum));
      }
  }
}

BOOST_AUTO_TEST_CASE(a_step_of_library_calls_is_recorded_and_has_one_workspace) {
  machine m;
  m.cublaslt.times = {1};
  graph g;
  auto x = placeholder<float, dims<2, 6, 5, 3>>(g, "x");
  auto w = variable<float, dims<3, 3, 3, 4>>(g, "w", init::normal{.stddev = 0.5});
  auto v = variable<float, dims<120, 7>>(g, "v", init::normal{.stddev = 0.5});
  auto images = let(conv2d(conv2d(x, w), variable<float, dims<3, 2, 4, 4>>(g, "w2", init::normal{.stddev = 0.5})));
  auto y = let(matmul(reshape<dims<2, 120>>(images), v));
  const auto of_w = std::get<0>(gradients(sum(y), w));
  session s{g, {.threads = 1, .device = cuda{0}}}, host{g, {.threads = 1}};
  auto step = s.prepare(fetch(y, of_w), feed(x));
  tensor<float, dims<2, 6, 5, 3>> in;
  for (int run = 0; run < 4; ++run) {
    for (std::size_t i = 0; i < in.elements(); ++i) in.data()[i] = number(i + static_cast<std::size_t>(run));
    const auto [value, gradient] = step(in);
    const auto [same_value, same_gradient] = host.run(fetch(y, of_w), with(x, in));
    for (std::size_t i = 0; i < value.elements(); ++i)
      BOOST_CHECK_SMALL(double(value.data()[i]) - double(same_value.data()[i]), 1e-4);
    for (std::size_t i = 0; i < gradient.elements(); ++i)
      BOOST_CHECK_SMALL(double(gradient.data()[i]) - double(same_gradient.data()[i]), 1e-3);
  }
  const std::string text = step.explain();
  BOOST_TEST(text.find("cuDNN conv2d") != std::string::npos);
  BOOST_TEST(text.find("cublasLt 2x120x7") != std::string::npos);
  BOOST_TEST(text.find("launched as a whole") != std::string::npos);
  BOOST_TEST(text.find("bytes of workspace") != std::string::npos);
  BOOST_TEST(m.cuda.count("cudaGraphLaunch") > 0u);
}

int main(int count, char** arguments) { return standin::run(count, arguments); }
