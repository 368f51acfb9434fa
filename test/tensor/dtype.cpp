// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <weft/tensor/dtype.hpp>

using namespace weft;

namespace {

template <class H>
H of_bits(unsigned bits) {
  H h;
  h.bits = static_cast<std::uint16_t>(bits);
  return h;
}

float float_of(std::uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

/// The nearest of the finite values of H and of the infinities, ties to even, found among all of them.
template <class H>
void check_rounding(float x) {
  const H h(x);
  const float y = h;
  const std::uint16_t magnitude = h.bits & 0x7fff;
  BOOST_REQUIRE_EQUAL(std::signbit(y), std::signbit(x));
  // In doubles, neighbours and the point halfway between them are exact; beyond the largest finite one lies what would
  // come next.
  const auto at = [](int bits) -> double {
    const float f = of_bits<H>(static_cast<unsigned>(bits));
    if (!std::isinf(f)) return f;
    const double last = of_bits<H>(static_cast<unsigned>(bits - 1)),
                 before = of_bits<H>(static_cast<unsigned>(bits - 2));
    return last + (last - before);
  };
  const double a = std::abs(static_cast<double>(x)), here = at(magnitude);
  const bool infinite = std::isinf(static_cast<float>(of_bits<H>(magnitude)));
  if (magnitude > 0) {
    const double middle = (here + at(magnitude - 1)) / 2;
    BOOST_REQUIRE_MESSAGE(a > middle || (a == middle && magnitude % 2 == 0), "rounded too high: " << x << " to " << y);
  }
  if (!infinite) {
    const double middle = (here + at(magnitude + 1)) / 2;
    BOOST_REQUIRE_MESSAGE(a < middle || (a == middle && magnitude % 2 == 0), "rounded too low: " << x << " to " << y);
  }
}

template <class H>
void check_all() {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const H h = of_bits<H>(bits);
    const float f = h;
    const H back(f);
    if (std::isnan(f)) {
      BOOST_REQUIRE(std::isnan(static_cast<float>(back)));
      continue;
    }
    BOOST_REQUIRE_EQUAL(back.bits, h.bits);
    // The numbers just beside it, and just beside the middle to the next.
    if (std::isinf(f)) continue;
    for (const float to : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
      check_rounding<H>(std::nextafter(f, to));
    const H next = of_bits<H>(bits + 1);
    if ((bits & 0x7fff) != 0x7fff && std::isfinite(static_cast<float>(next))) {
      const float middle =
          static_cast<float>((static_cast<double>(f) + static_cast<double>(static_cast<float>(next))) / 2);
      check_rounding<H>(middle);
      check_rounding<H>(std::nextafter(middle, 0.0f));
      check_rounding<H>(std::nextafter(middle, middle * 2));
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float f = float_of(static_cast<std::uint32_t>(random()));
    if (!std::isnan(f) && !std::isinf(f)) check_rounding<H>(f);
  }
  for (const float f :
       {65504.0f, 65519.0f, 65520.0f, 65536.0f, 3.4e38f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1.8p-24f, 0.0f, -0.0f})
    check_rounding<H>(f), check_rounding<H>(-f);
}

}  // namespace

static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2);
static_assert(half(1.0f).bits == 0x3c00 && bfloat16(1.0f).bits == 0x3f80 && static_cast<float>(half(0.5f)) == 0.5f);
static_assert(Element<bool> && Element<half> && Element<std::int64_t> && !Element<long double> && !Element<char*>);
static_assert(dtype_of<float> == dtype::float32 && size_of(dtype_of<bfloat16>) == 2 &&
              size_of(dtype::boolean) == sizeof(bool));
static_assert(is_floating(dtype::float16) && !is_floating(dtype::uint64) && is_differentiable<double> &&
              is_differentiable<half> && is_differentiable<bfloat16> && !is_differentiable<int>);

BOOST_AUTO_TEST_CASE(every_half_survives_and_every_float_rounds_to_the_nearest) { check_all<half>(); }
BOOST_AUTO_TEST_CASE(every_bfloat16_survives_and_every_float_rounds_to_the_nearest) { check_all<bfloat16>(); }

BOOST_AUTO_TEST_CASE(not_a_number_stays_so) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xff800001u, 0x7fffffffu, 0x7f80ffffu}) {
    BOOST_CHECK(std::isnan(static_cast<float>(half(float_of(bits)))));
    BOOST_CHECK(std::isnan(static_cast<float>(bfloat16(float_of(bits)))));
  }
}
