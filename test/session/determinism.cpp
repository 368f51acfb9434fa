// SPDX-License-Identifier: BSL-1.0
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <weft/weft.hpp>

using namespace weft;

namespace {

using images = dims<dyn<"batch">, 64>;
using classes = dims<dyn<"batch">>;

/// Trains a small net, large enough that its kernels share their work between threads; all that can be seen of it.
std::vector<float> train(session_options options, int first = 0, int second = 0, bool pinned = false) {
  graph g(11);
  options.pin = pinned;
  const auto x = placeholder<float, images>(g);
  const auto labels = placeholder<std::int32_t, classes>(g);
  const auto layer = [&](auto in, auto weights_dims, const char* name, int device) {
    const device_scope there(g, cpu{device});
    const auto w = variable<float, decltype(weights_dims)>(g, name, init::glorot_uniform{});
    const auto b = variable<float, dims<decltype(weights_dims)::spec[1]>>(g, name + std::string("/bias"));
    return let(tanh(matmul(in, w) + b) * 0.9f);
  };
  const auto h1 = layer(x, dims<64, 256>{}, "h1", first);
  const auto h2 = layer(h1, dims<256, 256>{}, "h2", second);
  const auto logits = layer(h2, dims<256, 10>{}, "out", first);
  const auto loss = mean(softmax_cross_entropy(logits, labels));
  const auto update = momentum{.learning_rate = 0.1}.minimize(loss);
  session s{g, options};
  auto step = s.prepare(fetch(loss, update, sum(exp(h1)), mean<0>(logits), max(h2)), feed(x, labels));
  tensor<float, images> input(shape(500, 64));
  tensor<std::int32_t, classes> target(shape(500));
  const random_stream random(3, 4);
  for (std::size_t i = 0; i < input.elements(); ++i) input.data()[i] = static_cast<float>(random.normal(i));
  for (std::size_t i = 0; i < 500; ++i) target.data()[i] = static_cast<std::int32_t>(i % 10);
  std::vector<float> seen;
  for (int i = 0; i < 4; ++i) {
    const auto [cost, none, total, means, largest] = step(input, target);
    seen.insert(seen.end(), {cost, total, largest});
    seen.insert(seen.end(), means.begin(), means.end());
  }
  BOOST_CHECK_LT(seen[39], seen[0]);  // it learns
  return seen;
}

/// The values that another process, with WEFT_ISA in its environment, computes.
std::vector<float> train_with_isa(const char* isa) {
  char self[4096];
  const auto length = ::readlink("/proc/self/exe", self, sizeof self - 1);
  BOOST_REQUIRE(length > 0);
  const std::string command = std::string("WEFT_PRINT=1 WEFT_ISA=") + isa + " " +
                              std::string(self, static_cast<std::size_t>(length)) +
                              " --run_test=print --log_level=nothing --report_level=no 2>/dev/null";
  std::FILE* output = ::popen(command.c_str(), "r");
  BOOST_REQUIRE(output);
  std::vector<float> seen;
  float x;
  while (std::fscanf(output, "%a", &x) == 1) seen.push_back(x);
  ::pclose(output);
  return seen;
}

}  // namespace

BOOST_AUTO_TEST_CASE(print) {
  if (!std::getenv("WEFT_PRINT")) return;
  for (const float x : train({.threads = 1})) std::printf("%a\n", static_cast<double>(x));
}

BOOST_AUTO_TEST_CASE(bits_do_not_depend_on_threads) {
  const auto one = train({.threads = 1});
  BOOST_CHECK(one == train({.threads = 1}));
  BOOST_CHECK(one == train({.threads = 2}));
  BOOST_CHECK(one == train({.threads = 3}));
  BOOST_CHECK(one == train({.threads = 0}, 0, 0, true));
}

BOOST_AUTO_TEST_CASE(bits_do_not_depend_on_devices) {
  const auto one = train({.threads = 1});
  for (int repeat = 0; repeat < 3; ++repeat) {
    BOOST_CHECK(one == train({.threads = 1, .devices = 2}, 0, 1));
    BOOST_CHECK(one == train({.threads = 2, .devices = 3}, 2, 1));
    BOOST_CHECK(one == train({.threads = 1, .devices = 2}, 1, 1));
  }
}

BOOST_AUTO_TEST_CASE(instruction_sets_agree_up_to_rounding) {
  const auto here = train({.threads = 1});
  for (const char* isa : {"baseline", "avx2"}) {
    const auto there = train_with_isa(isa);
    BOOST_REQUIRE_EQUAL(there.size(), here.size());
    for (std::size_t i = 0; i < here.size(); ++i)
      BOOST_CHECK_MESSAGE(std::abs(there[i] - here[i]) <= 1e-4f * (1 + std::abs(here[i])),
                          isa << ", number " << i << ": " << there[i] << " is not " << here[i]);
  }
}

// A failure on one device ends the step on all, and the session lives on.
BOOST_AUTO_TEST_CASE(a_failure_on_one_of_several_devices) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 3>>(g);
  const auto labels = placeholder<std::int32_t, classes>(g);
  const auto loss = [&] {
    const device_scope there(g, cpu{1});
    return mean(softmax_cross_entropy(x * 2.0f, labels));
  }();
  const auto twice = let(exp(loss) * 2.0f);
  session s{g, {.threads = 1, .devices = 2}};
  auto step = s.prepare(fetch(twice), feed(x, labels));
  const tensor<float, dims<dyn<"batch">, 3>> zeros(shape(2, 3));
  for (int i = 0; i < 20; ++i) {
    BOOST_CHECK_THROW(step(zeros, tensor<std::int32_t, classes>(shape(2), {0, 7})), error);
    BOOST_CHECK_CLOSE(step(zeros, tensor<std::int32_t, classes>(shape(2), {0, 2})), 6.0f, 1e-3f);
  }
}
