// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <weft/encoding/crc32c.hpp>
#include <weft/encoding/sha256.hpp>
#include <weft/printable.hpp>
#include <weft/transport/random_bytes.hpp>

namespace {

std::uint32_t of(std::string_view text) { return weft::crc32c(std::as_bytes(std::span(text))); }

std::uint32_t portable(std::span<const std::byte> bytes) {
  return ~weft::detail::crc_portable<weft::detail::crc32c_polynomial>(~0u, bytes.data(), bytes.size());
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
  for (const std::size_t edge : {0u, 8u, 256u, 768u, 1536u, 4096u, 12'288u, 24'576u, 36'864u})
    for (std::size_t size = edge < 9 ? 0 : edge - 9; size < edge + 10; ++size)
      for (const std::size_t offset : {0u, 1u, 7u}) {
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

// ---- SHA-256 ----

namespace {

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes)
    for (const unsigned digit : {std::to_integer<unsigned>(each) >> 4, std::to_integer<unsigned>(each) & 15u})
      text += "0123456789abcdef"[digit];
  return text;
}

std::string sha256_of(std::string_view text) {
  return hexadecimal(weft::sha256().update(std::as_bytes(std::span(text))).finish());
}

std::string hmac_of(std::string_view key, std::string_view text) {
  return hexadecimal(weft::hmac_sha256(std::as_bytes(std::span(key)))({std::as_bytes(std::span(text))}));
}

}  // namespace

// The examples of FIPS 180-4 and of NIST's test vectors.
BOOST_AUTO_TEST_CASE(sha256_of_known_texts) {
  BOOST_TEST(sha256_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  BOOST_TEST(sha256_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
             "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  BOOST_TEST(
      sha256_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
                "mnopqrstnopqrstu") == "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  BOOST_TEST(sha256_of(std::string(1'000'000, 'a')) ==
             "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

BOOST_AUTO_TEST_CASE(sha256_of_pieces_is_that_of_the_whole) {
  const std::string text(300, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const std::string whole = sha256_of(std::string_view(text).substr(0, size));
    for (const std::size_t cut : {std::size_t{1}, std::size_t{55}, std::size_t{64}, std::size_t{119}})
      if (cut <= size)
        BOOST_TEST(
            hexadecimal(weft::sha256().update(bytes.first(cut)).update(bytes.subspan(cut, size - cut)).finish()) ==
            whole);
  }
}

// RFC 4231, sections 4.2 to 4.8.
BOOST_AUTO_TEST_CASE(hmac_sha256_of_known_texts) {
  BOOST_TEST(hmac_of(std::string(20, 0x0b), "Hi There") ==
             "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  BOOST_TEST(hmac_of("Jefe", "what do ya want for nothing?") ==
             "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  BOOST_TEST(hmac_of(std::string(20, '\xaa'), std::string(50, '\xdd')) ==
             "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string rising;
  for (char c = 1; c <= 25; ++c) rising += c;
  BOOST_TEST(hmac_of(rising, std::string(50, '\xcd')) ==
             "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  BOOST_TEST(hmac_of(std::string(20, 0x0c), "Test With Truncation").substr(0, 32) ==
             "a3b6167473100ee06e0c796c2955552b");
  BOOST_TEST(hmac_of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
             "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  BOOST_TEST(
      hmac_of(std::string(131, '\xaa'),
              "This is a test using a larger than block-size key and a larger than block-size data. The key needs "
              "to be hashed before being used by the HMAC algorithm.") ==
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

BOOST_AUTO_TEST_CASE(digests_are_compared_to_the_last_byte) {
  weft::sha256_digest a{}, b{};
  BOOST_TEST(weft::same_digest(a, b));
  for (std::size_t i = 0; i < a.size(); ++i) {
    b = a;
    b[i] = std::byte{1};
    BOOST_TEST(!weft::same_digest(a, b));
  }
  BOOST_TEST(!weft::same_digest(a, std::span(b).first(31)));
}

BOOST_AUTO_TEST_CASE(random_bytes_differ) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::byte> bytes(300);  // more than the system gives at once
    weft::fill_random(bytes);
    seen.insert(hexadecimal(std::span(bytes).last(16)));
  }
  BOOST_TEST(seen.size() == 100u);
}

// ---- text from outside ----

BOOST_AUTO_TEST_CASE(text_from_outside_may_be_shown) {
  using weft::printable;
  BOOST_TEST(printable("w1/größe 東京 🙂 \\x") == "w1/größe 東京 🙂 \\x");
  BOOST_TEST(printable("\x1b[2J\x1b]0;title\x07") == "\\x1b[2J\\x1b]0;title\\x07");
  BOOST_TEST(printable("a\nb\rc\td\x7f") == "a\\x0ab\\x0dc\\x09d\\x7f");
  BOOST_TEST(printable("\xc2\x9b"
                       "31m") ==
             "\\xc2\\x9b"
             "31m");  // the eight-bit escape
  BOOST_TEST(printable("\xe2\x80\xae"
                       "evil") ==
             "\\xe2\\x80\\xae"
             "evil");                                                            // writes from the right
  BOOST_TEST(printable("\xff\xc3(\xe2\x82") == "\\xff\\xc3(\\xe2\\x82");         // not UTF-8
  BOOST_TEST(printable("\xc0\xaf\xed\xa0\x80") == "\\xc0\\xaf\\xed\\xa0\\x80");  // too long, and half a pair
  BOOST_TEST(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  BOOST_TEST(printable(std::string(100, 'x'), 10) == "xxxxxxx...");
  BOOST_TEST(printable(std::string(10, 'x'), 10) == "xxxxxxxxxx");
  for (std::size_t longest = 0; longest < 20; ++longest)  // a text that was cut once is not cut again
    for (const char* text : {"größer 東京 als alles", "\x1b\x1b\x1b\x1b\x1b\x1b\x1b"}) {
      const std::string shown = printable(text, longest);
      BOOST_TEST(shown.size() <= longest);
      BOOST_TEST(printable(shown, longest) == shown);
    }
  BOOST_TEST(printable(printable("\x1b")) == printable("\x1b"));
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b)
      for (const char c : printable(std::string{static_cast<char>(a), static_cast<char>(b)}))
        BOOST_REQUIRE((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
}
