// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>
#if defined(WEFT_GPU_EMULATION)
  #include "emulated.hpp"
#endif
#include <weft/graph/leaves.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/gpu/convolution.hpp>
#include <weft/ops/gpu/grouped_convolution.hpp>
#include <weft/ops/gpu/matmul.hpp>
#include <weft/ops/gpu/pooling.hpp>
#include <weft/tensor/random.hpp>

// Products, convolutions and pools: each call on the CPU and on a GPU, an emulated one or, compiled by nvcc, the first.

using namespace weft;

namespace {

using attributes = std::initializer_list<std::int64_t>;

template <class T>
std::vector<T> numbers(std::size_t n, std::uint64_t seed) {
  const random_stream r(seed, 1);
  std::vector<T> v(n);
  // Halves of small integers: sums are exact in any order, and maxima occur more than once.
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<T>(std::floor(r.uniform(i) * 17) - 8) / 2;
  return v;
}

#if defined(WEFT_GPU_EMULATION)
/// An emulated GPU, which notices who writes where nobody should.
struct some_gpu {
  gpu::emulated_platform gpus;
  gpu::device& d = gpus.device(0);
  ~some_gpu() { BOOST_CHECK(gpus.device(0).mistakes().empty()); }
};
/// A GPU's threads run in any order: two of them.
template <class F>
void in_both_orders(F f) {
  for (const bool backwards : {false, true}) {
    gpu::emulate_backwards = backwards;
    f();
  }
  gpu::emulate_backwards = false;
}
#else
struct some_gpu {
  gpu::device& d = gpu::installed_platform->at(0);
};
template <class F>
void in_both_orders(F f) {
  f();
}
#endif

/// One operation with its operands, on either kind of device.
template <class T>
struct call {
  node_def c;
  std::vector<value_info> inputs;
  value_info output;
  std::vector<std::uint32_t> slots;
  std::uint32_t result;
  std::vector<std::vector<T>> operands;

  call(const operation& op, std::initializer_list<shape> in, const shape& out, attributes a)
      : output{dtype_of<T>, out}, result(static_cast<std::uint32_t>(in.size())) {
    c.op = &op;
    c.attributes = a;
    c.outputs = {output};
    for (const shape& s : in) {
      slots.push_back(static_cast<std::uint32_t>(slots.size()));
      inputs.push_back({dtype_of<T>, s});
      c.inputs.push_back({static_cast<std::uint32_t>(slots.size()), 0});
      operands.push_back(numbers<T>(s.elements(), slots.size()));
    }
  }

  prepare_context context() const { return {c, inputs.data(), &output, slots.data(), &result}; }

  std::vector<T> on_cpu(std::vector<T> before) {
    thread_pool threads(1);
    std::vector<std::byte*> buffers;
    for (auto& o : operands) buffers.push_back(reinterpret_cast<std::byte*>(o.data()));
    buffers.push_back(reinterpret_cast<std::byte*>(before.data()));
    const std::unique_ptr<kernel> k(c.op->prepare_cpu(context()));
    storage workspace(k->workspace_bytes());
    k->run({buffers.data(), &threads, nullptr, workspace.data()});
    return before;
  }

  std::vector<T> on_gpu(std::vector<T> before, const product_fusion* fusion = nullptr) {
    [[maybe_unused]] const some_gpu here;
    gpu::device& d = here.d;
    const auto q = d.make_queue();
    std::vector<std::byte*> buffers;
    const auto bring = [&](const std::vector<T>& v) {
      buffers.push_back(d.allocate(v.size() * sizeof(T)));
      q->copy(buffers.back(), v.data(), v.size() * sizeof(T));
    };
    for (const auto& o : operands) bring(o);
    bring(before);
    BOOST_REQUIRE(c.op->gpu && c.op->gpu->prepare);
    const std::unique_ptr<kernel> k(fusion ? c.op->gpu->prepare_fused(context(), *fusion, d)
                                           : c.op->gpu->prepare(context(), d));
    BOOST_CHECK(!k->describe().empty());
    k->run({buffers.data(), nullptr, q.get()});
    q->copy(before.data(), buffers.back(), before.size() * sizeof(T));
    q->synchronize();
    for (std::byte* b : buffers) d.deallocate(b);
    return before;
  }

  // A library may sum in another way, and half and bfloat16 are then the neighbour.
  static double tolerance([[maybe_unused]] T expected) {
#if !defined(WEFT_GPU_EMULATION)
    constexpr double spacing = std::is_same_v<T, bfloat16> ? 0x1p-7 : 0x1p-10;
    if (is_storage_type<T>) return 1e-3 + spacing * std::abs(static_cast<double>(expected));
#endif
    return 1e-3;
  }

  void check() {
    const auto before = numbers<T>(output.extents.elements(), 99);
    const auto expected = on_cpu(before);
    in_both_orders([&] {
      const auto found = on_gpu(before);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
        BOOST_REQUIRE_SMALL(std::abs(static_cast<double>(expected[i] - found[i])), tolerance(expected[i]));
      }
    });
  }
};

// The epilogue that is recognised in the last node of an expression, as a plan would put it: the product in slot 7,
// other operands from 8 on.
template <class T, class Product, class E>
gpu::known_epilogue recognised_in(const graph& g, const Product& product, const E& e) {
  const auto n = let(e);
  const node_def& c = g[n.id().node].def;
  std::vector<value_info> in;
  std::vector<std::uint32_t> slots;
  for (const value& v : c.inputs) {
    in.push_back(g[v.node].def.outputs[v.output]);
    slots.push_back(v.node == product.id().node ? 7 : 8 + v.node);
  }
  const std::uint32_t result = 7;
  const prepare_context following{c, in.data(), c.outputs.data(), slots.data(), &result};
  return gpu::recognise_epilogue<T>(&following, 7, 5);
}

template <class T>
void check_epilogues_of_storage() {
  graph g;
  const auto product = matmul(placeholder<T, dims<4, 3>>(g), placeholder<T, dims<3, 5>>(g));
  const auto bias = placeholder<float, dims<5>>(g);
  const auto wide = cast<float>(product);
  const auto e = recognised_in<T>(g, product, cast<T>(relu(wide)));
  BOOST_CHECK(e.known && e.relu && !e.has_bias);
  BOOST_CHECK(!recognised_in<T>(g, product, cast<T>(relu(wide + bias))).known);
  BOOST_CHECK(!recognised_in<T>(g, product, cast<T>(wide * 2.0f)).known);
  BOOST_CHECK(!recognised_in<T>(g, product, cast<T>(relu(cast<std::int32_t>(product)))).known);
}

template <class T>
void check_products() {
  gpu::compile_kernels<matmul_op, T>();  // as matmul does
  const std::tuple<int, int, int> sizes[] = {{1, 1, 1}, {16, 16, 16}, {17, 33, 5}, {40, 7, 65}, {3, 5, 0}, {0, 4, 4}};
  for (const int transposed : {0, 1, 2, 3})
    for (const auto& [m, n, k] : sizes) {
      const bool ta = transposed & 1, tb = transposed & 2;
      call<T> product(operation_of<matmul_op<T>>, {ta ? shape(k, m) : shape(m, k), tb ? shape(n, k) : shape(k, n)},
                      shape(m, n), {ta, tb});
      product.check();
      call<T> many(operation_of<matmul_op<T>>,
                   {ta ? shape(2, 3, k, m) : shape(2, 3, m, k), tb ? shape(2, 3, n, k) : shape(2, 3, k, n)},
                   shape(2, 3, m, n), {ta, tb});
      many.check();
    }
}

/// Images, filters, and what becomes of them.
struct window {
  std::int64_t height, width, channels, filters, window_height, window_width;
  std::int64_t stride, dilation, top, bottom, left, right;
  std::int64_t out_height() const {
    return detail::windows_along(height, window_height, stride, dilation, top + bottom);
  }
  std::int64_t out_width() const { return detail::windows_along(width, window_width, stride, dilation, left + right); }
};

constexpr window convolutions[] = {
    {5, 5, 1, 1, 3, 3, 1, 1, 0, 0, 0, 0}, {7, 6, 3, 4, 3, 2, 1, 1, 1, 1, 0, 1}, {8, 9, 2, 5, 3, 3, 2, 1, 0, 1, 1, 0},
    {9, 9, 2, 3, 3, 3, 1, 2, 2, 2, 2, 2}, {6, 6, 4, 2, 1, 1, 1, 1, 0, 0, 0, 0}, {11, 5, 1, 2, 5, 5, 3, 1, 2, 2, 2, 2},
};
constexpr window pools[] = {
    {4, 4, 1, 1, 2, 2, 2, 1, 0, 0, 0, 0}, {7, 5, 3, 3, 3, 2, 1, 1, 1, 1, 0, 1}, {8, 9, 40, 40, 3, 3, 2, 1, 0, 1, 1, 0},
    {6, 6, 2, 2, 5, 5, 1, 1, 2, 2, 2, 2}, {9, 9, 2, 2, 2, 2, 3, 1, 0, 0, 0, 0},
};

template <class T>
void check_convolutions() {
  gpu::compile_kernels<convolution_op, T>();
  const attributes of_sequences = {1, 2, 1, 1, 0, 0, 1, 1};
  const shape sequences(2, 9, 3), taps(3, 3, 4), steps(2, 5, 4);
  call<T>(operation_of<convolution_op<T>>, {sequences, taps}, steps, of_sequences).check();
  call<T>(operation_of<convolution_operation<T, convolution_kind::input_gradient>>, {taps, steps}, sequences,
          of_sequences)
      .check();
  call<T>(operation_of<convolution_operation<T, convolution_kind::filter_gradient>>, {sequences, steps}, taps,
          of_sequences)
      .check();
  for (const window& w : convolutions) {
    const attributes a = {w.stride, w.stride, w.dilation, w.dilation, w.top, w.bottom, w.left, w.right};
    const shape images(2, w.height, w.width, w.channels);
    const shape filters(w.window_height, w.window_width, w.channels, w.filters);
    const shape results(2, w.out_height(), w.out_width(), w.filters);
    call<T>(operation_of<convolution_op<T>>, {images, filters}, results, a).check();
    call<T>(operation_of<convolution_operation<T, convolution_kind::input_gradient>>, {filters, results}, images, a)
        .check();
    call<T>(operation_of<convolution_operation<T, convolution_kind::filter_gradient>>, {images, results}, filters, a)
        .check();
  }
}

/// Groups of several channels and filters, and one for each channel, with filters in either form.
template <class T>
void check_grouped_convolutions() {
  gpu::compile_kernels<grouped_convolution_op, T>();
  for (const window& w : convolutions)
    for (const std::int64_t groups : {3, 1})
      for (const std::int64_t of_group : {w.channels, std::int64_t{1}}) {
        const attributes a = {w.stride, w.stride, w.dilation, w.dilation, w.top, w.bottom, w.left, w.right, groups};
        const std::int64_t k = w.filters * groups;
        const shape images(2, w.height, w.width, of_group * groups), results(2, w.out_height(), w.out_width(), k);
        const auto check = [&](const shape& filters) {
          call<T>(operation_of<grouped_convolution_op<T>>, {images, filters}, results, a).check();
          call<T>(operation_of<grouped_operation<T, convolution_kind::input_gradient>>, {filters, results}, images, a)
              .check();
          call<T>(operation_of<grouped_operation<T, convolution_kind::filter_gradient>>, {images, results}, filters, a)
              .check();
        };
        check(shape(w.window_height, w.window_width, of_group, k));
        if (of_group == 1) check(shape(w.window_height, w.window_width, groups, w.filters));
      }
}

template <class T>
void check_pools() {
  gpu::compile_kernels<max_pool_op, T>();
  for (const window& w : pools) {
    const shape images(3, w.height, w.width, w.channels), results(3, w.out_height(), w.out_width(), w.channels);
    for (const bool counts_padding : {false, true}) {
      const attributes a = {w.stride,       w.stride,      1, 1, w.top, w.bottom, w.left, w.right, w.window_height,
                            w.window_width, counts_padding};
      call<T>(operation_of<max_pool_op<T>>, {images}, results, a).check();
      call<T>(operation_of<pool_op<T, pool_kind::max_gradient>>, {images, results, results}, images, a).check();
      call<T>(operation_of<pool_op<T, pool_kind::max_choice>>, {images, images}, results, a).check();
      call<T>(operation_of<average_pool_op<T>>, {images}, results, a).check();
      call<T>(operation_of<pool_op<T, pool_kind::average_gradient>>, {results}, images, a).check();
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_are_the_cpus) {
  check_products<float>();
  check_products<double>();
  check_products<weft::half>();
  check_products<bfloat16>();
}

BOOST_AUTO_TEST_CASE(a_descent_is_added_to_the_variable) {
  for (const int transposed : {0, 1, 2, 3}) {
    const bool ta = transposed & 1, tb = transposed & 2;
    call<float> product(operation_of<matmul_op<float>>,
                        {ta ? shape(20, 18) : shape(18, 20), tb ? shape(5, 20) : shape(20, 5)}, shape(18, 5), {ta, tb});
    const auto zeros = std::vector<float>(90), before = numbers<float>(90, 7);
    const auto plain = product.on_cpu(zeros);
    const product_fusion descent{product.result, -0.5, true};
    const auto found = product.on_gpu(before, &descent);
    for (std::size_t i = 0; i < found.size(); ++i) BOOST_CHECK_EQUAL(found[i], before[i] - 0.5f * plain[i]);
  }
}

BOOST_AUTO_TEST_CASE(grouped_convolutions_are_the_cpus) {
  check_grouped_convolutions<float>();
  check_grouped_convolutions<double>();
  check_grouped_convolutions<weft::half>();
  check_grouped_convolutions<bfloat16>();
}

BOOST_AUTO_TEST_CASE(convolutions_are_the_cpus) {
  check_convolutions<float>();
  check_convolutions<double>();
  check_convolutions<weft::half>();
  check_convolutions<bfloat16>();
}

BOOST_AUTO_TEST_CASE(pools_are_the_cpus) {
  check_pools<float>();
  check_pools<double>();
  check_pools<weft::half>();
  check_pools<bfloat16>();
}

BOOST_AUTO_TEST_CASE(pools_of_more_elements_than_kernels_count_are_errors) {
  gpu::compile_kernels<max_pool_op, float>();
  call<float> pool(operation_of<max_pool_op<float>>, {}, shape(1 << 15, 256, 256, 1),
                   {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0});
  pool.inputs = {{dtype::float32, pool.output.extents}};
  pool.slots = {0};
  [[maybe_unused]] const some_gpu here;
  try {
    delete pool.c.op->gpu->prepare(pool.context(), here.d);
    BOOST_CHECK(false);
  } catch (const error& e) {
    BOOST_CHECK(e.code() == error_code::unimplemented);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_number_wins_a_maximum) {
  call<float> pool(operation_of<max_pool_op<float>>, {shape(1, 2, 2, 1)}, shape(1, 1, 1, 1),
                   {2, 2, 1, 1, 0, 0, 0, 0, 2, 2, 0});
  pool.operands[0] = {1, NAN, 3, 2};
  BOOST_CHECK(std::isnan(pool.on_gpu({0})[0]));
}

BOOST_AUTO_TEST_CASE(epilogues_are_recognised) {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g);
  auto w = placeholder<float, dims<3, 5>>(g);
  auto b = placeholder<float, dims<5>>(g);
  auto full = placeholder<float, dims<4, 5>>(g);
  const auto product = matmul(x, w);
  const auto recognised = [&](const auto& e) { return recognised_in<float>(g, product, e); };
  const std::uint32_t bias = 8 + b.id().node;
  auto e = recognised(product + b);
  BOOST_CHECK(e.known && e.has_bias && !e.relu && e.bias == bias);
  e = recognised(b + product);
  BOOST_CHECK(e.known && e.has_bias && !e.relu && e.bias == bias);
  e = recognised(relu(product + b));
  BOOST_CHECK(e.known && e.has_bias && e.relu && e.bias == bias);
  e = recognised(maximum(product + b, 0));
  BOOST_CHECK(e.known && e.has_bias && e.relu);
  e = recognised(relu(product));
  BOOST_CHECK(e.known && !e.has_bias && e.relu);
  BOOST_CHECK(!recognised(maximum(product + b, 1)).known);
  BOOST_CHECK(!recognised(product + full).known);
  BOOST_CHECK(!recognised(sigmoid(product + b)).known);
  BOOST_CHECK(!recognised(product - b).known);
  BOOST_CHECK(!recognised(product + product).known);
  check_epilogues_of_storage<weft::half>();
  check_epilogues_of_storage<bfloat16>();
}
