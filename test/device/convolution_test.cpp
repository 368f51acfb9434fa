// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>
#include <weft/device/cpu/convolution.hpp>
#include <weft/device/cpu/definitions.hpp>
#include <weft/tensor/random.hpp>

#include "sanitized.hpp"

using namespace weft;

// Every kernel against the definition, over shapes drawn at random; the gradients against the definition's adjoint.

namespace {

// Under sanitizers the definition and its adjoint last for minutes: cases are fewer there, and smaller.
using test::sanitized;

convolution_shape affordable(convolution_shape s) {
  if (sanitized) s.batch = 1 + s.batch % 2;
  return s;
}

class draws {
 public:
  std::int64_t integer(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_.uniform(next_++) * static_cast<double>(most - least + 1));
  }
  template <class T>
  std::vector<T> numbers(std::size_t n) {
    std::vector<T> v(n);
    for (T& x : v) x = static_cast<T>(2 * random_.uniform(next_++) - 1);
    return v;
  }

 private:
  random_stream random_{7, 0};
  std::uint64_t next_ = 0;
};

convolution_shape draw_shape(draws& d, bool wide) {
  convolution_shape s{};
  s.batch = d.integer(1, 3);
  if (d.integer(0, 4) == 0) s.batch = d.integer(8, 20);
  s.height = d.integer(1, 14), s.width = d.integer(1, 14), s.channels = d.integer(1, wide ? 20 : 4);
  s.window_height = d.integer(1, 5), s.window_width = d.integer(1, 5), s.filters = d.integer(1, wide ? 70 : 20);
  s.stride_height = d.integer(1, 3), s.stride_width = d.integer(1, 3);
  s.dilation_height = d.integer(1, 2), s.dilation_width = d.integer(1, 2);
  s.pad_top = d.integer(0, 5), s.pad_bottom = d.integer(0, 5), s.pad_left = d.integer(0, 5),
  s.pad_right = d.integer(0, 5);
  s.out_height = weft::detail::windows_along(s.height, s.window_height, s.stride_height, s.dilation_height,
                                             s.pad_top + s.pad_bottom);
  s.out_width =
      weft::detail::windows_along(s.width, s.window_width, s.stride_width, s.dilation_width, s.pad_left + s.pad_right);
  return s;
}

std::string text_of(const convolution_shape& s) {
  std::string text;
  for (std::int64_t n :
       {s.batch, s.height, s.width, s.channels, s.window_height, s.window_width, s.filters, s.stride_height,
        s.stride_width, s.dilation_height, s.dilation_width, s.pad_top, s.pad_bottom, s.pad_left, s.pad_right})
    text += std::to_string(n) + " ";
  return text;
}

/// Computes the gradients that reach images and filters from the one that arrives at the result, term by term.
template <class T>
void adjoint(const convolution_shape& s, const std::vector<T>& images, const std::vector<T>& filters,
             const std::vector<T>& up, std::vector<double>& to_images, std::vector<double>& to_filters) {
  std::size_t at = 0;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t y = 0; y < s.out_height; ++y)
      for (std::int64_t x = 0; x < s.out_width; ++x)
        for (std::int64_t o = 0; o < s.filters; ++o, ++at)
          for (std::int64_t r = 0; r < s.window_height; ++r)
            for (std::int64_t q = 0; q < s.window_width; ++q) {
              const std::int64_t i = y * s.stride_height - s.pad_top + r * s.dilation_height;
              const std::int64_t j = x * s.stride_width - s.pad_left + q * s.dilation_width;
              if (i < 0 || j < 0 || i >= s.height || j >= s.width) continue;
              for (std::int64_t c = 0; c < s.channels; ++c) {
                const auto image = static_cast<std::size_t>(((n * s.height + i) * s.width + j) * s.channels + c);
                const auto filter =
                    static_cast<std::size_t>(((r * s.window_width + q) * s.channels + c) * s.filters + o);
                to_images[image] += static_cast<double>(up[at]) * static_cast<double>(filters[filter]);
                to_filters[filter] += static_cast<double>(up[at]) * static_cast<double>(images[image]);
              }
            }
}

template <class T, class U>
double distance(const std::vector<T>& a, const std::vector<U>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(d <= most)) most = d;
  }
  return most;
}

template <class T>
struct outcome {
  std::vector<T> result, to_images, to_filters;
};

/// The library that convolves half and bfloat16: whichever Weft chooses, the kernels for float, or oneDNN where it can.
enum class library { any, floats, onednn };
std::size_t by_onednn = 0;

template <class T>
outcome<T> run(const convolution_shape& s, std::vector<T>& images, std::vector<T>& filters, std::vector<T>& up,
               int threads, [[maybe_unused]] library by = library::any) {
  // Whatever was in the results before is to be overwritten.
  outcome<T> o{std::vector<T>(up.size(), 9), std::vector<T>(images.size(), 9), std::vector<T>(filters.size(), 9)};
  std::byte* buffers[] = {
      reinterpret_cast<std::byte*>(images.data()),      reinterpret_cast<std::byte*>(filters.data()),
      reinterpret_cast<std::byte*>(up.data()),          reinterpret_cast<std::byte*>(o.result.data()),
      reinterpret_cast<std::byte*>(o.to_images.data()), reinterpret_cast<std::byte*>(o.to_filters.data())};
  thread_pool pool(threads);
  kernel* kernels[] = {device::make_convolution<T>(convolution_kind::forward, s, 0, 1, 3, false),
                       device::make_convolution<T>(convolution_kind::input_gradient, s, 1, 2, 4, true),
                       device::make_convolution<T>(convolution_kind::filter_gradient, s, 0, 2, 5, true)};
  if constexpr (is_storage_type<T>) {
    using kind = convolution_kind;
    const struct {
      kind of;
      std::uint32_t a, b, out;
    } calls[] = {{kind::forward, 0, 1, 3}, {kind::input_gradient, 1, 2, 4}, {kind::filter_gradient, 0, 2, 5}};
    for (std::size_t i = 0; i < 3 && by != library::any; ++i) {
      kernel* k = nullptr;
#if defined(WEFT_HAS_DNNL)
      if (by == library::onednn && std::is_same_v<T, bfloat16>)
        k = device::dnnl_convolution_kernel::make(calls[i].of, dtype::bfloat16, s, calls[i].a, calls[i].b, calls[i].out,
                                                  nullptr, nullptr);
      by_onednn += k != nullptr;
#endif
      if (!k)
        k = new device::widened_convolution_kernel<T>(calls[i].of, s, calls[i].a, calls[i].b, calls[i].out, true,
                                                      nullptr, device::detail::make_convolution_of<float>);
      delete kernels[i];
      kernels[i] = k;
    }
  }
  for (int twice = 0; twice < 2; ++twice)
    for (kernel* k : kernels) {
      // The bits of a NaN: another kernel's data are no zeros.
      const storage workspace(k->workspace_bytes());
      if (workspace.bytes()) std::memset(workspace.data(), 0xff, workspace.bytes());
      k->run({buffers, &pool, nullptr, workspace.data()});
    }
  for (kernel* k : kernels) delete k;
  return o;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// A share of `density` of the gradient that arrives is not zero.
template <class T>
void check(const convolution_shape& s, draws& d, double tolerance, double density = 1) {
  auto images = d.numbers<T>(static_cast<std::size_t>(s.batch) * s.image_elements());
  auto filters = d.numbers<T>(s.filter_elements());
  auto up = d.numbers<T>(static_cast<std::size_t>(s.batch) * s.out_elements());
  if (density < 1) {
    const auto keep = d.numbers<double>(up.size());
    for (std::size_t i = 0; i < up.size(); ++i)
      if (keep[i] > 2 * density - 1) up[i] = 0;
  }
  const outcome<T> one = run(s, images, filters, up, 1), two = run(s, images, filters, up, 2);
  std::vector<T> expected(up.size());
  convolution_naive(s, images.data(), filters.data(), expected.data());
  std::vector<double> to_images(images.size()), to_filters(filters.size());
  adjoint(s, images, filters, up, to_images, to_filters);
  BOOST_TEST_CONTEXT(text_of(s)) {
    BOOST_CHECK_LE(distance(one.result, expected), tolerance);
    BOOST_CHECK_LE(distance(one.to_images, to_images), tolerance);
    BOOST_CHECK_LE(distance(one.to_filters, to_filters), tolerance * 4);
    BOOST_CHECK(same(one.result, two.result));
    BOOST_CHECK(same(one.to_images, two.to_images));
    BOOST_CHECK(same(one.to_filters, two.to_filters));
  }
}

/// The worst number of all, by how far it is from what is exact: in the spaces between two neighbours of T that are as
/// large as it is, of which a rounding takes half a one. Sums of so many terms, of 1 at most, are given what they lose
/// in float.
template <class T>
double spaces(const std::vector<T>& found, const std::vector<double>& exact, std::int64_t terms) {
  const double lost = 0x1p-24 * static_cast<double>(terms);
  double most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double space = std::ldexp(1.0, std::ilogb(std::abs(exact[i]) + 1e-9) - (std::is_same_v<T, half> ? 10 : 7));
    const double away = std::abs(static_cast<double>(static_cast<float>(found[i])) - exact[i]) - lost;
    if (!(away / space <= most)) most = away / space;
  }
  return most;
}

/// half and bfloat16, by oneDNN or Weft's kernels and by those for float: sums in float, each rounded once.
template <class T>
void check_narrow(const convolution_shape& s, draws& d, double density = 1) {
  auto images = d.numbers<T>(static_cast<std::size_t>(s.batch) * s.image_elements());
  auto filters = d.numbers<T>(s.filter_elements());
  auto up = d.numbers<T>(static_cast<std::size_t>(s.batch) * s.out_elements());
  if (density < 1)
    for (T& x : up)
      if (static_cast<double>(d.integer(0, 999)) >= 1000 * density) x = T(0.0f);
  const auto wide = [](const std::vector<T>& v) {
    std::vector<double> w(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) w[i] = static_cast<double>(static_cast<float>(v[i]));
    return w;
  };
  const auto x = wide(images), w = wide(filters), u = wide(up);
  std::vector<double> expected(up.size()), to_images(images.size()), to_filters(filters.size());
  convolution_naive(s, x.data(), w.data(), expected.data());
  adjoint(s, x, w, u, to_images, to_filters);
  BOOST_TEST_CONTEXT(text_of(s)) {
    for (const library by : {library::any, library::floats, library::onednn}) {
      const outcome<T> one = run(s, images, filters, up, 1, by), two = run(s, images, filters, up, 2, by);
      BOOST_CHECK_LE(spaces(one.result, expected, s.window_height * s.window_width * s.channels), 0.5);
      BOOST_CHECK_LE(spaces(one.to_images, to_images, s.window_height * s.window_width * s.filters), 0.5);
      BOOST_CHECK_LE(spaces(one.to_filters, to_filters, s.batch * s.out_height * s.out_width), 0.5);
      BOOST_CHECK(same(one.result, two.result));
      BOOST_CHECK(same(one.to_images, two.to_images));
      BOOST_CHECK(same(one.to_filters, two.to_filters));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(shapes_drawn_at_random) {
  draws d;
  for (int i = 0; i < (sanitized ? 150 : 250); ++i) {
    const convolution_shape s = draw_shape(d, i % 2);
    if (s.out_height < 1 || s.out_width < 1) continue;
    if (i % 3 == 0)
      check<double>(s, d, 1e-11);
    else
      check<float>(s, d, 2e-4);
  }
}

BOOST_AUTO_TEST_CASE(shapes_of_networks) {
  draws d;
  check<float>(affordable({4, 28, 28, 1, 5, 5, 32, 28, 28, 1, 1, 1, 1, 2, 2, 2, 2}), d, 1e-3);    // LeNet's first
  check<float>(affordable({16, 14, 14, 32, 5, 5, 64, 14, 14, 1, 1, 1, 1, 2, 2, 2, 2}), d, 2e-3);  // and second
  check<float>(affordable({2, 14, 14, 64, 1, 1, 256, 14, 14, 1, 1, 1, 1, 0, 0, 0, 0}), d,
               1e-3);  // ResNet's of one element
  check<float>(affordable({2, 14, 14, 32, 3, 3, 256, 7, 7, 2, 2, 1, 1, 0, 1, 0, 1}), d, 1e-3);  // with stride 2
  check<float>(affordable({1, 33, 35, 3, 7, 7, 64, 17, 18, 2, 2, 1, 1, 3, 3, 3, 3}), d,
               1e-3);  // and its first, of few channels
}

// oneDNN gathers their pixels first. What it writes beyond its scratch memory is found when that is freed.
BOOST_AUTO_TEST_CASE(strided_windows_of_one_pixel) {
  draws d;
  for (const std::int64_t channels : {1, 3, 4, 7, 8, 12, 16, 20, 33})
    for (const std::int64_t batch : {4, 20})
      check<float>(affordable({batch, 8, 8, channels, 1, 1, 8, 4, 4, 2, 2, 1, 1, 0, 0, 0, 0}), d, 1e-4);
}

// As behind a max pool; the gradients then leave zeros out.
BOOST_AUTO_TEST_CASE(zeros_that_arrive) {
  draws d;
  for (const double density : {0.0, 0.1, 0.2, 0.25}) {
    check<float>(affordable({16, 14, 14, 32, 5, 5, 64, 14, 14, 1, 1, 1, 1, 2, 2, 2, 2}), d, 1e-3, density);
    check<double>(affordable({9, 13, 12, 36, 5, 5, 70, 7, 5, 2, 3, 2, 1, 3, 5, 2, 4}), d, 1e-11,
                  density);  // nothing is even
    check<float>(affordable({11, 15, 11, 33, 6, 5, 37, 10, 7, 1, 1, 1, 1, 0, 0, 0, 0}), d, 1e-3, density);
  }
}

BOOST_AUTO_TEST_CASE(storage_types) {
  draws d;
  for (int i = 0; i < (sanitized ? 40 : 80); ++i) {
    convolution_shape s = draw_shape(d, i % 2);
    if (s.out_height < 1 || s.out_width < 1) continue;
    if (i % 3 == 0) s.batch += 4;
    if (i % 4 == 0)
      check_narrow<weft::half>(s, d);
    else
      check_narrow<bfloat16>(s, d);
  }
}

BOOST_AUTO_TEST_CASE(storage_types_in_networks) {
  draws d;
  by_onednn = 0;
  const auto both = [&](const convolution_shape& s, double density = 1) {
    check_narrow<weft::half>(affordable(s), d, density);
    check_narrow<bfloat16>(affordable(s), d, density);
  };
  both({7, 28, 28, 1, 5, 5, 32, 28, 28, 1, 1, 1, 1, 2, 2, 2, 2});
  both({16, 14, 14, 32, 5, 5, 64, 14, 14, 1, 1, 1, 1, 2, 2, 2, 2}, 0.2);
  both({4, 14, 14, 64, 1, 1, 72, 14, 14, 1, 1, 1, 1, 0, 0, 0, 0});
  both({5, 14, 14, 32, 3, 3, 100, 7, 7, 2, 2, 1, 1, 0, 1, 0, 1});
#if defined(WEFT_HAS_DNNL)
  if (weft::detail::dnnl_multiplies_bfloat16()) BOOST_CHECK_GE(by_onednn, 4 * 3 * 2u);  // on one thread and on two
#endif
  if (!sanitized)
    both({9, 96, 90, 50, 3, 3, 6, 48, 45, 2, 2, 1, 1, 1, 1, 1, 1});  // four and five images are widened at a time
}

BOOST_AUTO_TEST_CASE(no_images_of_storage_types) {
  const convolution_shape s{0, 5, 5, 2, 3, 3, 4, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0};
  std::vector<bfloat16> none, filters(s.filter_elements(), bfloat16(1.0f));
  for (const bfloat16 x : run(s, none, filters, none, 2).to_filters) BOOST_CHECK_EQUAL(static_cast<float>(x), 0);
}
