#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <random>
#include <span>
#include <string_view>
#include <vector>
#include <weft/transport/crc32c.hpp>

namespace {

std::uint32_t of(std::string_view text) { return weft::crc32c(std::as_bytes(std::span(text))); }

std::uint32_t portable(std::span<const std::byte> bytes) {
  return ~weft::detail::crc32c_portable(~0u, bytes.data(), bytes.size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(known_vectors) {
  BOOST_TEST(of("") == 0u);
  BOOST_TEST(of("a") == 0xc1d04330u);
  BOOST_TEST(of("123456789") == 0xe3069283u);
  // RFC 3720, B.4
  BOOST_TEST(weft::crc32c(std::vector<std::byte>(32, std::byte{0})) == 0x8a9136aau);
  BOOST_TEST(weft::crc32c(std::vector<std::byte>(32, std::byte{0xff})) == 0x62a8ab43u);
  std::vector<std::byte> rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising.push_back(static_cast<std::byte>(i));
    falling.push_back(static_cast<std::byte>(31 - i));
  }
  BOOST_TEST(weft::crc32c(rising) == 0x46dd794eu);
  BOOST_TEST(weft::crc32c(falling) == 0x113fdb5cu);
}

BOOST_AUTO_TEST_CASE(hardware_and_tables_agree_at_every_block_edge) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(40'000);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  for (const std::size_t edge : {0, 8, 256, 768, 1536, 4096, 12'288, 24'576, 36'864})
    for (std::size_t size = edge < 9 ? 0 : edge - 9; size < edge + 10; ++size)
      for (const std::size_t offset : {0, 1, 7}) {
        const auto piece = std::span(bytes).subspan(offset, size);
        BOOST_REQUIRE_EQUAL(weft::crc32c(piece), portable(piece));
      }
}

BOOST_AUTO_TEST_CASE(pieces_continue_each_other) {
  std::vector<std::byte> bytes(10'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i);
  const std::uint32_t whole = weft::crc32c(bytes);
  for (std::size_t cut : {0u, 1u, 5'000u, 9'999u, 10'000u})
    BOOST_TEST(weft::crc32c(std::span(bytes).subspan(cut), weft::crc32c(std::span(bytes).first(cut))) == whole);
}
