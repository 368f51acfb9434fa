// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/session/step_plan.hpp>
#include <weft/weft.hpp>

using namespace weft;

// Kernels that ask for memory while they run find it in the step's memory, where nothing else lies meanwhile.

namespace {

using table = dims<dyn<"batch">, 256>;
constexpr std::size_t workspace = std::size_t{1} << 20;
int overwritten = 0;

/// x + 1 by way of its workspace, which nobody else writes meanwhile.
class adding_kernel final : public kernel {
 public:
  explicit adding_kernel(const prepare_context& p)
      : in_(p.input_slots[0]), out_(p.output_slots[0]), elements_(p.outputs[0].extents.elements()) {}

  void run(const kernel_context& f) override {
    if (reinterpret_cast<std::uintptr_t>(f.workspace) % alignment != 0) throw std::runtime_error("not aligned");
    const auto own = static_cast<unsigned char>(1 + in_ % 255);
    auto* const bytes = reinterpret_cast<unsigned char*>(f.workspace);
    const auto* const x = reinterpret_cast<const float*>(f.buffers[in_]);
    auto* const y = reinterpret_cast<float*>(f.buffers[out_]);
    for (int turn = 0; turn < 4; ++turn) {
      std::fill(bytes, bytes + workspace, own);
      for (std::size_t i = 0; i < elements_; ++i) y[i] = x[i] + 1;
      if (std::any_of(bytes, bytes + workspace, [&](unsigned char b) { return b != own; }))
        __atomic_fetch_add(&overwritten, 1, __ATOMIC_RELAXED);
    }
  }
  std::size_t workspace_bytes() const override { return workspace; }
  std::string describe() const override { return "adding"; }

 private:
  std::uint32_t in_, out_;
  std::size_t elements_;
};

constexpr operation adding = {.name = "adding",
                              .prepare_cpu = [](const prepare_context& p) -> kernel* { return new adding_kernel(p); }};

template <class N>
N one_more(const N& x) {
  node_def c;
  c.op = &adding;
  c.inputs = {x.id()};
  c.outputs = {x.erased().info()};
  return N(x.erased().builder()->record(c));
}

template <class N>
N more(N x, int times) {
  for (int k = 0; k < times; ++k) x = one_more(x);
  return x;
}

tensor<float, table> numbers(std::int64_t batch) {
  tensor<float, table> x(shape(batch, 256));
  float next = 0;
  for (float& v : x) v = next++;
  return x;
}

template <class X>
void check_sum(const X& x, const X& y, float added) {
  for (std::size_t i = 0; i < x.size(); ++i) BOOST_REQUIRE_EQUAL(y.data()[i], x.data()[i] + added);
}

}  // namespace

BOOST_AUTO_TEST_CASE(kernels_that_run_one_after_another_share_their_workspace) {
  graph g;
  const auto x = placeholder<float, table>(g, "x");
  const auto kept = one_more(x);  // is read at the end
  const auto y = let(more(kept, 8) * 1.0f + kept);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(y), feed(x));
  overwritten = 0;
  const auto in = numbers(16);
  const tensor<float, table> out = step(in);
  for (std::size_t i = 0; i < in.size(); ++i) BOOST_REQUIRE_EQUAL(out.data()[i], 2 * in.data()[i] + 10);
  BOOST_CHECK_EQUAL(overwritten, 0);

  const detail::step_plan& p = step.prepared().plan();
  const std::size_t value = 16 * 256 * sizeof(float);
  BOOST_CHECK_LE(p.arena_bytes(), workspace + 4 * value);
  BOOST_CHECK_GE(p.arena_bytes(), workspace);
  std::size_t seen = 0;
  const std::byte* at = nullptr;
  for (const std::byte* w : p.current()->workspaces) {
    if (!w) continue;
    if (seen++ == 1) at = w;
    if (seen > 2) BOOST_CHECK(w < at + workspace && at < w + workspace);
  }
  BOOST_CHECK_EQUAL(seen, 9u);
  BOOST_TEST(p.describe().find(" and 9437184 bytes of workspaces\n") != std::string::npos);
}

// A larger batch takes a larger block of memory; the kernels of a batch that comes again are still there.
BOOST_AUTO_TEST_CASE(workspaces_move_with_the_memory_of_a_step) {
  graph g;
  const auto x = placeholder<float, table>(g, "x");
  const auto y = more(x, 5);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(y), feed(x));
  overwritten = 0;
  for (const std::int64_t batch : {3, 700, 3, 1, 2000, 700, 3}) check_sum(numbers(batch), step(numbers(batch)), 5);
  BOOST_CHECK_EQUAL(overwritten, 0);
}

BOOST_AUTO_TEST_CASE(kernels_that_run_at_the_same_time_do_not_share_a_workspace) {
  graph g;
  const auto x = placeholder<float, table>(g, "x");
  const auto y = let(more(let(x * 2.0f), 12) + more(let(x * 3.0f), 12));
  session s{g, {.threads = 1, .inter_op_threads = 2}};
  auto step = s.prepare(fetch(y), feed(x));
  overwritten = 0;
  const auto in = numbers(64);
  for (int k = 0; k < 3; ++k) {
    const tensor<float, table> out = step(in);
    for (std::size_t i = 0; i < in.size(); ++i) BOOST_REQUIRE_EQUAL(out.data()[i], 5 * in.data()[i] + 24);
  }
  BOOST_CHECK_EQUAL(overwritten, 0);
  BOOST_CHECK_GE(step.prepared().plan().arena_bytes(), 2 * workspace);
}

BOOST_AUTO_TEST_CASE(a_body_of_a_loop_has_workspaces_in_the_memory_of_the_loop) {
  using vec = dims<512>;
  graph g;
  const auto x = placeholder<float, vec>(g, "x");
  const auto [i, y] =
      while_loop([](auto i, auto) { return i < 3; },
                 [](auto i, auto y) { return std::tuple{i + 1, more(let(y * 1.0f), 2)}; }, tensor<int>(0), x);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(y), feed(x));
  tensor<float, vec> in;
  for (int k = 0; k < 512; ++k) in(k) = static_cast<float>(k);
  overwritten = 0;
  for (int k = 0; k < 2; ++k) check_sum(in, tensor<float, vec>(step(in)), 6);
  BOOST_CHECK_EQUAL(overwritten, 0);
  BOOST_CHECK_LE(step.prepared().plan().arena_bytes(), workspace + 16 * 512 * sizeof(float));
}

// The gradients of images read filters that the step does not write: what a kernel keeps of those between runs does
// not lie in memory that other kernels use.
BOOST_AUTO_TEST_CASE(filters_that_are_kept_are_not_overwritten) {
  using maps = dims<dyn<"batch">, 14, 14, 64>;
  graph g;
  const auto x = placeholder<float, maps>(g, "x");
  const auto v = variable<float, dims<3, 3, 64, 64>>(g, "v", init::he_normal{});
  const auto w = variable<float, dims<3, 3, 64, 64>>(g, "w", init::he_normal{});
  const auto [dx] = gradients(sum(square(conv2d(tanh(conv2d(x, v)), w))), x);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(dx), feed(x));
  tensor<float, maps> in(shape(8, 14, 14, 64));
  for (std::size_t i = 0; i < in.elements(); ++i) in.data()[i] = static_cast<float>(i % 17) / 17 - 0.5f;
  const tensor<float, maps> first = step(in);
  for (int k = 0; k < 3; ++k) {
    const tensor<float, maps> again = step(in);
    BOOST_CHECK(std::equal(first.data(), first.data() + first.elements(), again.data()));
  }
}

#if defined(WEFT_HAS_DNNL)
// Twelve convolutions each need their filters' gradient in several parts, far more than all values together. The step
// needs the activations and the parts of one gradient.
BOOST_AUTO_TEST_CASE(gradients_of_filters_share_their_parts) {
  constexpr int layers = 12, channels = 64;
  constexpr std::size_t filter = 9 * channels * channels * sizeof(float), parts = 8,
                        activation = 8 * 8 * 8 * channels * sizeof(float);
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 8, 8, channels>>(g, "x");
  auto h = let(x * 1.0f);
  for (int k = 0; k < layers; ++k) {
    const auto w = variable<float, dims<3, 3, channels, channels>>(g, str_cat({"w", k}), init::glorot_uniform{});
    h = let(tanh(conv2d(h, w)));
  }
  const auto train = gradient_descent{.learning_rate = 0.01}.minimize(mean(square(h)));
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(train), feed(x));
  step(tensor<float, dims<dyn<"batch">, 8, 8, channels>>(shape(8, 8, 8, channels)));
  const detail::step_plan& p = step.prepared().plan();
  BOOST_CHECK_LE(p.arena_bytes(), (layers + 4) * activation + 2 * parts * filter);
  std::size_t held = 0;
  for (const kernel_handle& k : p.current()->kernels) held += k->memory_bytes();
  BOOST_CHECK_LE(held, layers * std::size_t{16384});  // the step changes the filters, so no kernel keeps them
}
#endif
