// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <random>
#include <weft/transport/frame.hpp>

#include "errors.hpp"

using namespace weft;

namespace {

frame_header example() {
  frame_header header;
  header.kind = frame_kind::push_pull;
  header.flags = payload_checked;
  header.request = 0x0102030405060708u;
  header.payload_length = 1000;
  header.deadline_us = 250'000;
  header.step = -5;
  header.tag = ~std::uint64_t{0};
  header.payload_crc = 0xdeadbeefu;
  header.weight = 37;
  return header;
}

void seal(frame_header_bytes& bytes) {
  detail::put_little(bytes.data() + detail::header_crc_at, crc32c(std::span(bytes).first(detail::header_crc_at)));
}

void refused(const frame_header_bytes& bytes, error_code code, std::uint64_t limit = 1000) {
  BOOST_CHECK_EXCEPTION(decode(bytes, limit), error, test::says(code));
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_was_written_is_read) { BOOST_CHECK(decode(encode(example()), 1000) == example()); }

BOOST_AUTO_TEST_CASE(the_layout_is_fixed) {
  const auto bytes = encode(example());
  const auto at = [&](std::size_t i) { return std::to_integer<int>(bytes[i]); };
  BOOST_TEST(at(0) == 'W');
  BOOST_TEST(at(1) == 'E');
  BOOST_TEST(at(2) == 'F');
  BOOST_TEST(at(3) == 'T');
  BOOST_TEST(at(4) == protocol_version);
  BOOST_TEST(at(6) == static_cast<int>(frame_kind::push_pull));
  BOOST_TEST(at(16) == 8);  // little-endian
  BOOST_TEST(at(23) == 1);
  BOOST_TEST(at(24) == 1000 % 256);
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_is_found) {
  const auto good = encode(example());
  for (std::size_t bit = 0; bit < 8 * frame_header_size; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    BOOST_CHECK_THROW(decode(bad, ~std::uint64_t{0}), error);
  }
}

BOOST_AUTO_TEST_CASE(each_field_is_held_against_what_is_known) {
  auto bytes = encode(example());
  bytes[0] = std::byte{'X'};
  refused(bytes, error_code::invalid_argument);

  bytes = encode(example());
  bytes[4] = std::byte{protocol_version + 1};
  refused(bytes, error_code::failed_precondition);

  for (const int kind : {0, last_frame_kind + 1, 65535}) {
    bytes = encode(example());
    detail::put_little(bytes.data() + 6, static_cast<std::uint16_t>(kind));
    seal(bytes);
    refused(bytes, error_code::invalid_argument);
  }

  bytes = encode(example());
  bytes[11] = std::byte{0x80};  // an unknown flag
  seal(bytes);
  refused(bytes, error_code::invalid_argument);
}

BOOST_AUTO_TEST_CASE(lengths_are_bounded_before_anything_is_allocated) {
  refused(encode(example()), error_code::resource_exhausted, 999);
  auto hostile = example();
  hostile.payload_length = ~std::uint64_t{0};
  refused(encode(hostile), error_code::resource_exhausted, std::uint64_t{1} << 40);
}

BOOST_AUTO_TEST_CASE(noise_is_refused) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10'000; ++i) {
    frame_header_bytes bytes;
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
    BOOST_CHECK_THROW(decode(bytes, 1000), error);
  }
}
