// SPDX-License-Identifier: BSL-1.0
// Convolutions by cuDNN's calls, answered by a stand-in: layouts, element types, padding, what is taken in, refusals.
// Compiled by the host's compiler; it runs anywhere.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <memory>
#include <string>
#include <vector>
#include <weft/cuda.hpp>
#include <weft/ops/gpu/grouped_convolution.hpp>

#include "library_machine.hpp"

using namespace weft;
using test::array;
using test::machine;
using test::number;

namespace {

shape images_of(const convolution_shape& s) { return shape(s.batch, s.height, s.width, s.channels); }
shape results_of(const convolution_shape& s) { return shape(s.batch, s.out_height, s.out_width, s.filters); }
shape filters_of(const convolution_shape& s) {
  return shape(s.window_height, s.window_width, s.channels / s.groups, s.filters);
}

/// Where an element of natural order lies.
std::size_t place(image_layout l, const shape& s, std::size_t i) {
  if (l == image_layout::channels_last) return i;
  const auto c = static_cast<std::size_t>(s[3]), pixels = static_cast<std::size_t>(s[1] * s[2]);
  return (i / (c * pixels) * c + i % c) * pixels + i / c % pixels;
}

struct call {
  convolution_kind kind;
  convolution_shape s;
  image_layout layout = image_layout::channels_last;
  bool bias = false, relu = false;
  std::string described = {};

  /// The values that the machine's cuDNN computes, in natural order; `then` and `instead` are taken over.
  template <class T>
  std::vector<float> run(machine& m, int times = 1, kernel* then = nullptr, kernel* instead = nullptr) {
    const bool forward = kind == convolution_kind::forward, spread = kind == convolution_kind::input_gradient;
    const shape of[3] = {spread ? filters_of(s) : images_of(s), forward ? filters_of(s) : results_of(s),
                         forward  ? results_of(s)
                         : spread ? images_of(s)
                                  : filters_of(s)};
    const bool is_image[3] = {!spread, !forward, kind != convolution_kind::filter_gradient};
    array<T> a(m.d, of[0].elements()), b(m.d, of[1].elements()), out(m.d, of[2].elements()),
        added(m.d, static_cast<std::size_t>(s.filters));
    const array<T>* inputs[] = {&a, &b};
    for (int k = 0; k < 2; ++k)
      for (std::size_t i = 0; i < inputs[k]->elements; ++i)
        inputs[k]->data()[is_image[k] ? place(layout, of[k], i) : i] = T(number(i + static_cast<std::size_t>(3 * k)));
    for (std::size_t i = 0; i < added.elements; ++i) added.data()[i] = T(number(i));
    std::byte* buffers[] = {a.memory.data(), b.memory.data(), out.memory.data(), added.memory.data()};
    gpu::cudnn_convolution_kernel::surroundings around{std::size_t{1} << 20, bias, relu, owned<kernel>(then),
                                                       owned<kernel>(instead)};
    std::string why;
    auto& libraries = static_cast<gpu::cuda_libraries&>(*m.d.library());
    const owned<kernel> k(
        gpu::cudnn_convolution_kernel::make(libraries, kind, s, dtype_of<T>, layout, {0, 1, 2, 3}, around, why));
    BOOST_REQUIRE_MESSAGE(k, why);
    for (int i = 0; i < times; ++i) k->run({buffers, nullptr, m.q.get()});
    m.q->synchronize();
    described = k->describe();
    std::vector<float> result(out.elements);
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = static_cast<float>(out.data()[is_image[2] ? place(layout, of[2], i) : i]);
    return result;
  }

  /// By Weft's own kernels on the CPU, in double, rounded.
  template <class T>
  std::vector<float> expected() const {
    const bool forward = kind == convolution_kind::forward, spread = kind == convolution_kind::input_gradient;
    std::vector<double> a((spread ? filters_of(s) : images_of(s)).elements()),
        b((forward ? filters_of(s) : results_of(s)).elements()),
        out((forward  ? results_of(s)
             : spread ? images_of(s)
                      : filters_of(s))
                .elements());
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = number(i);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = number(i + 3);
    std::byte* buffers[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()),
                            reinterpret_cast<std::byte*>(out.data())};
    thread_pool one(1);

    const std::unique_ptr<kernel> k(
        s.groups > 1 ? forward ? device::make_grouped_convolution<double, convolution_kind::forward>(s, 0, 1, 2)
                       : spread
                           ? device::make_grouped_convolution<double, convolution_kind::input_gradient>(s, 0, 1, 2)
                           : device::make_grouped_convolution<double, convolution_kind::filter_gradient>(s, 0, 1, 2)
        : forward ? device::make_convolution<double>(convolution_kind::forward, s, 0, 1, 2, false)
        : spread     ? device::make_convolution<double>(convolution_kind::input_gradient, s, 0, 1, 2, false)
                     : device::make_convolution<double>(convolution_kind::filter_gradient, s, 0, 1, 2, false));
    storage workspace(k->workspace_bytes());
    k->run({buffers, &one, nullptr, workspace.data()});
    std::vector<float> result(out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      double value = out[i] + (bias ? number(i % static_cast<std::size_t>(s.filters)) : 0);
      if (relu && value < 0) value = 0;
      result[i] = static_cast<float>(T(static_cast<float>(value)));
    }
    return result;
  }
};

convolution_shape shape_of(std::int64_t height, std::int64_t width, std::int64_t channels, std::int64_t window_height,
                           std::int64_t window_width, std::int64_t filters, std::int64_t stride, std::int64_t dilation,
                           std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
  using detail::windows_along;
  return {3,
          height,
          width,
          channels,
          window_height,
          window_width,
          filters,
          windows_along(height, window_height, stride, dilation, top + bottom),
          windows_along(width, window_width, stride, dilation, left + right),
          stride,
          stride,
          dilation,
          dilation,
          top,
          bottom,
          left,
          right};
}

// Even and uneven padding, strides, dilations, one channel, one filter, images of another height than width.
const convolution_shape shapes[] = {
    shape_of(5, 5, 1, 3, 3, 4, 1, 1, 1, 1, 1, 1), shape_of(7, 6, 3, 3, 2, 5, 1, 1, 0, 1, 1, 0),
    shape_of(8, 9, 2, 3, 3, 5, 2, 1, 0, 1, 0, 1), shape_of(9, 7, 2, 3, 3, 3, 1, 2, 2, 2, 2, 2),
    shape_of(6, 4, 4, 1, 1, 1, 1, 1, 0, 0, 0, 0), shape_of(11, 5, 3, 5, 5, 2, 3, 1, 2, 2, 2, 2),
};
/// In groups of 2 channels and 3 filters; one channel each with two filters, and with uneven padding.
std::vector<convolution_shape> grouped() {
  std::vector<convolution_shape> all = {shape_of(7, 6, 6, 3, 2, 9, 1, 1, 0, 1, 1, 0),
                                        shape_of(8, 9, 4, 3, 3, 8, 2, 1, 1, 1, 1, 1),
                                        shape_of(9, 7, 3, 3, 3, 3, 1, 2, 2, 1, 2, 2)};
  all[0].groups = 3, all[1].groups = 4, all[2].groups = 3;
  return all;
}
constexpr convolution_kind all_kinds[] = {convolution_kind::forward, convolution_kind::input_gradient,
                                          convolution_kind::filter_gradient};
constexpr image_layout layouts[] = {image_layout::channels_last, image_layout::channels_first};
constexpr int precomputed = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;

template <class T>
void check_all() {
  machine m;
  std::vector<convolution_shape> all = grouped();
  all.insert(all.end(), std::begin(shapes), std::end(shapes));
  for (const convolution_shape& s : all)
    for (const convolution_kind kind : all_kinds)
      for (const image_layout layout : layouts) {
        call c{kind, s, layout};
        BOOST_TEST_CONTEXT(to_string(images_of(s)) << " by " << to_string(filters_of(s)) << ", kind "
                                                   << static_cast<int>(kind) << ", layout " << static_cast<int>(layout))
        BOOST_TEST((c.run<T>(m) == c.expected<T>()));
      }
  for (const std::string& by : m.cudnn.convolved) BOOST_TEST(by[0] != '0');  // not deterministic
}

/// Counts its runs.
struct counting final : kernel {
  explicit counting(int& c) : count(c) {}
  void run(const kernel_context&) override { ++count; }
  std::string describe() const override { return "counting"; }
  int& count;
};

}  // namespace

BOOST_AUTO_TEST_CASE(floats_are_the_cpus) { check_all<float>(); }
BOOST_AUTO_TEST_CASE(halves_are_the_cpus) { check_all<weft::half>(); }
BOOST_AUTO_TEST_CASE(bfloat16s_are_the_cpus) { check_all<bfloat16>(); }

BOOST_AUTO_TEST_CASE(a_bias_and_relu_are_taken_in) {
  for (const image_layout layout : layouts)
    for (const bool relu : {false, true})
      for (const bool refuses : {false, true}) {
        machine m;
        m.cudnn.refuses_bias = refuses;
        int after = 0;
        call c{convolution_kind::forward, shapes[1], layout, true, relu};
        const auto got = c.run<float>(m, 2, new counting(after));
        if (refuses) c.bias = c.relu = false;  // the kernel that follows would do it
        BOOST_TEST((got == c.expected<float>()));
        BOOST_CHECK_EQUAL(after, refuses ? 2 : 0);
      }
}

BOOST_AUTO_TEST_CASE(an_algorithm_that_is_refused_gives_way_to_the_next) {
  for (const convolution_kind kind : all_kinds) {
    machine m;
    m.cudnn.refused = {1};
    call c{kind, shapes[3]};
    BOOST_TEST((c.run<float>(m, 2) == c.expected<float>()));
    BOOST_TEST((m.cudnn.convolved == std::vector<std::string>{"2 NHWC", "2 NHWC"}));
    BOOST_TEST(c.described.find("refused before") != std::string::npos);
    m.cudnn.refused = {1, 2};
    int instead = 0, after = 0;
    c.run<float>(m, 3, new counting(after), new counting(instead));
    BOOST_CHECK_EQUAL(instead, 3);
    BOOST_CHECK_EQUAL(after, 3);
  }
}

BOOST_AUTO_TEST_CASE(calls_are_recorded_and_launched_again) {
  machine m;
  const convolution_shape& s = shapes[1];
  array<float> x(m.d, images_of(s).elements()), w(m.d, filters_of(s).elements()), y(m.d, results_of(s).elements());
  std::byte* buffers[] = {x.memory.data(), w.memory.data(), y.memory.data()};
  gpu::cudnn_convolution_kernel::surroundings around{std::size_t{1} << 20, false, false, {}, {}};
  std::string why;
  const owned<kernel> k(gpu::cudnn_convolution_kernel::make(static_cast<gpu::cuda_libraries&>(*m.d.library()),
                                                            convolution_kind::forward, s, dtype::float32,
                                                            image_layout::channels_last, {0, 1, 2}, around, why));
  BOOST_REQUIRE(k);
  const auto fill = [&](float scale) {
    for (std::size_t i = 0; i < x.elements; ++i) x.data()[i] = scale * number(i);
    for (std::size_t i = 0; i < w.elements; ++i) w.data()[i] = number(i + 3);
  };
  fill(1);
  k->run({buffers, nullptr, m.q.get()});
  m.q->begin_recording();
  k->run({buffers, nullptr, m.q.get()});
  const auto recorded = m.q->end_recording();
  fill(2);
  m.q->launch(*recorded);
  m.q->synchronize();
  const auto once = call{convolution_kind::forward, s}.expected<float>();
  for (std::size_t i = 0; i < once.size(); ++i) BOOST_REQUIRE_EQUAL(y.data()[i], 2 * once[i]);
}

BOOST_AUTO_TEST_CASE(layouts_are_weighed_by_what_cudnn_says) {
  machine m;
  const convolution_shape& s = shapes[3];
  node_def c;
  c.op = &operation_of<convolution_op<float>>;
  c.attributes = {1, 1, 2, 2, 2, 2, 2, 2};
  c.inputs = {{}, {}};
  const value_info in[] = {{dtype::float32, images_of(s)}, {dtype::float32, filters_of(s)}};
  const value_info out = {dtype::float32, results_of(s)};
  const std::uint32_t slots[] = {0, 1, 2};
  const prepare_context p{c, in, &out, slots, slots + 2};
  const auto gain = [&] { return gpu::convolution_with_channels_first<convolution_op<float>>(p, m.d).gain; };
  BOOST_CHECK_EQUAL(gain(), 0);  // neither is measured, and neither is of a kind that is known to be faster
  gpu::math.tune = true;
  m.cudnn.channels_last_time = 3, m.cudnn.channels_first_time = 1;
  BOOST_CHECK_SMALL(gain() - 2e-3, 1e-9);
  m.cudnn.channels_first_time = 4;
  BOOST_CHECK_SMALL(gain() + 1e-3, 1e-9);
  gpu::math.tune = false;
  gpu::math.layouts = gpu::layout_policy::channels_first;
  BOOST_CHECK(gain() > 1);
  gpu::math.layouts = gpu::layout_policy::automatic;
}

int main(int count, char** arguments) { return standin::run(count, arguments); }
