// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <string>
#include <vector>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>

using weft::isa;

namespace {

// One body, as the expression layer writes it: a functor without attributes over a pack of inputs.
template <class F>
void loop(isa set, F f, const float* const* in, float* out, std::size_t n) {
  const float *a = in[0], *b = in[1], *c = in[2];
  weft::multiversioned(set, [=] {
    WEFT_VECTORIZE
    for (std::size_t i = 0; i < n; ++i) out[i] = f(a[i], b[i], c[i]);
  });
}

const auto expression = [](float a, float b, float c) {
  return a * b + b * c + a / (1.0f + weft::math::exp(-b)) + weft::math::tanh(c) * weft::math::log(a);
};

std::vector<float> ramp(std::size_t n, float from, float step) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = from + step * static_cast<float>(i);
  return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_instruction_set_computes_the_same_up_to_rounding) {
  const std::size_t n = 1003;
  const auto a = ramp(n, 0.5f, 0.01f), b = ramp(n, -3, 0.007f), c = ramp(n, 4, -0.009f);
  const float* in[] = {a.data(), b.data(), c.data()};
  for (isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (set > weft::detected_isa()) continue;
    std::vector<float> out(n);
    loop(set, expression, in, out.data(), n);
    for (std::size_t i = 0; i < n; ++i) BOOST_REQUIRE_SMALL(out[i] - expression(a[i], b[i], c[i]), 2e-5f);
  }
}

// The property that lets work be cut anywhere: vector bodies and scalar tails round alike.
BOOST_AUTO_TEST_CASE(an_elements_bits_do_not_depend_on_its_place_in_the_loop) {
  const std::size_t n = 203;
  const auto a = ramp(n, 0.5f, 0.0137f), b = ramp(n, -3, 0.0171f), c = ramp(n, 4, -0.0193f);
  for (isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (set > weft::detected_isa()) continue;
    std::vector<float> whole(n), part(n);
    const float* in[] = {a.data(), b.data(), c.data()};
    loop(set, expression, in, whole.data(), n);
    for (std::size_t width : {1u, 3u, 7u, 20u, 101u})
      for (std::size_t i = 0; i < n; i += width) {
        const float* from[] = {&a[i], &b[i], &c[i]};
        loop(set, expression, from, &part[i], std::min(width, n - i));
        BOOST_REQUIRE(std::memcmp(&part[i], &whole[i], std::min(width, n - i) * sizeof(float)) == 0);
      }
  }
}

BOOST_AUTO_TEST_CASE(a_functor_may_ask_what_it_is_compiled_for) {
  isa seen = isa::avx512;
  weft::multiversioned(isa::baseline, [&]<isa set>(weft::isa_constant<set>) { seen = set; });
  BOOST_CHECK(seen == isa::baseline);
  weft::multiversioned([&]<isa set>(weft::isa_constant<set>) { seen = set; });
  BOOST_CHECK(seen == weft::detected_isa());
}

BOOST_AUTO_TEST_CASE(the_environment_may_narrow_the_choice_and_never_widen_it_and_is_spelt_right) {
  for (isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    setenv("WEFT_ISA", weft::name(set), 1);
    BOOST_CHECK(weft::detail::requested_isa(isa::baseline) == isa::baseline);
    BOOST_CHECK(weft::detail::requested_isa(isa::avx512) == set);
  }
  setenv("WEFT_ISA", "pentium", 1);
  BOOST_CHECK_THROW(weft::detail::requested_isa(isa::avx2), weft::error);
}
