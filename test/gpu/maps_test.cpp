// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <gpu/compare.hpp>

#include "functions.hpp"

using namespace weft;
using compare::input;

namespace {

template <int N>
void map_of_size() {
  BOOST_TEST_CONTEXT("size " << N) {
    graph g;
    auto a = input<float, N>(g, "a"), b = input<float, N>(g, "b");
    let(sigmoid(a * b) + 0.5f * a);
    let(a + 1.0f);
    for (std::size_t offset : {0, 4}) {
      compare::options o;
      o.offset = offset;
      BOOST_TEST(compare::run(g, o) == (N ? 2u : 0u));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(maps_of_every_size) {
  map_of_size<0>();
  map_of_size<1>();
  map_of_size<31>();
  map_of_size<32>();
  map_of_size<33>();
  map_of_size<255>();
  map_of_size<256>();
  map_of_size<257>();
  map_of_size<1000>();
  map_of_size<70001>();
}

BOOST_AUTO_TEST_CASE(few_elements_are_spread_over_the_multiprocessors) {
  const auto launched = [](int multiprocessors, auto n) {
    graph g;
    auto x = input<float, n()>(g, "x");
    let(x + 1.0f);
    gpu::emulated_platform gpus({.multiprocessors = multiprocessors});
    const node_def& c = g[static_cast<std::uint32_t>(g.size() - 1)].def;
    const std::uint32_t slots[] = {0, 1};
    const std::unique_ptr<kernel> k(
        c.op->gpu->prepare({c, &c.outputs[0], c.outputs.data(), slots, slots + 1}, gpus.device(0)));
    struct counting final : gpu::queue {
      unsigned blocks = 0;
      void launch(const gpu::function&, const gpu::launch_size& s, void**) override { blocks = s.blocks; }
      void copy(void*, const void*, std::size_t) override {}
      void clear(void*, std::size_t) override {}
      void wait_for(queue&) override {}
      void synchronize() override {}
      void begin_recording() override {}
      owned<gpu::recording> end_recording() override { return {}; }
      void launch(gpu::recording&) override {}
    } q;
    alignas(64) std::byte nowhere[64];
    std::byte* buffers[] = {nowhere, nowhere};
    k->run({buffers, nullptr, &q});
    return q.blocks;
  };
  const auto n = []<int N>() { return std::integral_constant<int, N>(); };
  // x + 1 reads one input: four groups of four elements to a thread where there are enough of them.
  BOOST_TEST(launched(1, n.operator()<4096>()) == 4u);
  BOOST_TEST(launched(1, n.operator()<8192>()) == 8u);
  BOOST_TEST(launched(1, n.operator()<8196>()) == 3u);
  BOOST_TEST(launched(100, n.operator()<8196>()) == 33u);  // an element to a thread
  BOOST_TEST(launched(100, n.operator()<100000>()) == 391u);
  BOOST_TEST(launched(100, n.operator()<400000>()) == 391u);
  BOOST_TEST(launched(100, n.operator()<4000000>()) == 977u);
}

BOOST_AUTO_TEST_CASE(maps_broadcast_over_any_axes) {
  graph g;
  auto x = input<float, 6, 5, 4, 8>(g, "x");
  let(x + input<float, 8>(g, "a"));
  let(x + input<float, 4, 1>(g, "b"));
  let(x + input<float, 5, 1, 1>(g, "c"));
  let(x + input<float, 6, 1, 1, 1>(g, "d"));
  let(x + input<float, 6, 1, 4, 1>(g, "e"));
  let(x + input<float, 1, 5, 1, 8>(g, "f"));
  let(x + input<float>(g, "s"));
  let(input<float, 6, 1, 4, 1>(g, "e2") * input<float, 1, 5, 1, 7>(g, "f2"));
  let(x * input<float, 4, 8>(g, "h") + input<float, 5, 1, 8>(g, "i"));
  compare::run(g);
  compare::options o;
  o.offset = 8;
  compare::run(g, o);
}

BOOST_AUTO_TEST_CASE(maps_of_other_types) {
  graph g;
  auto d = input<double, 131>(g, "d");
  auto i = input<std::int32_t, 131>(g, "i"), j = input<std::int32_t, 131>(g, "j");
  auto l = input<std::int64_t, 131>(g, "l");
  auto b = input<std::int8_t, 131>(g, "b");
  auto h = input<half, 131>(g, "h");
  auto bf = input<bfloat16, 131>(g, "bf");
  auto f = input<float, 131>(g, "f");
  let(exp(d) + d);
  let(i * j - 3);
  let(l + l * 2);
  let(b + b);
  let(i < j);
  let(i < j && f > 0.5f);
  let(cast<float>(i) * f);
  let(cast<float>(h) + f);
  let(cast<float>(bf) + f);
  let(cast<half>(f * 3.0f));
  let(cast<bfloat16>(f * 3.0f));
  let(cast<double>(f) * d);
  let(select(i < j, f, f * 2.0f));
  let(maximum(f, 0.25f));
  let(pow(abs(f), f) + log(abs(f)) + sqrt(abs(f)) + tanh(f));
  compare::options o;
  o.low = -50;
  o.high = 50;
  compare::run(g, o);
}

BOOST_AUTO_TEST_CASE(functions_of_the_list) {
  graph g;
  const auto f = input<float, 131>(g, "f");
  functions::each([&]<class F>(F, const functions::row&) { let(elementwise<F>(f)); });
  compare::options o;
  o.low = -50;
  o.high = 50;
  compare::run(g, o);
}
