// SPDX-License-Identifier: BSL-1.0
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include <weft/data/idx.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/files.hpp"
#include "errors.hpp"

using namespace weft;
using data::read_idx;
using test::contains;

namespace {

/// An error of `code` whose sentence names the file and contains `words`.
auto says(error_code code, const std::string& path, std::string_view words) {
  return [=, words = std::string(words)](const error& e) {
    const std::string sentence = e.what();
    BOOST_TEST_INFO(sentence);
    BOOST_TEST(name(e.code()) == std::string(name(code)));
    BOOST_TEST(!contains(sentence, "\n"));
    return contains(sentence, path) && contains(sentence, words);
  };
}

#define REFUSED(type, path, code, words) \
  BOOST_CHECK_EXCEPTION(read_idx<type>(path), error, says(error_code::code, path, words))

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_are_read_in_order) {
  folder f;
  const auto a = read_idx<std::uint8_t>(f.file("a", idx(0x08, {2, 3}, {1, 2, 3, 4, 5, 255})));
  BOOST_TEST((a.extents == std::vector<std::size_t>{2, 3}));
  BOOST_TEST((a.values == std::vector<std::uint8_t>{1, 2, 3, 4, 5, 255}));
}

BOOST_AUTO_TEST_CASE(every_type_is_read_from_big_endian) {
  folder f;
  BOOST_TEST(
      (read_idx<std::int8_t>(f.file("a", idx(0x09, {2}, {0xff, 0x01}))).values == std::vector<std::int8_t>{-1, 1}));
  BOOST_TEST(
      (read_idx<std::int16_t>(f.file("a", idx(0x0b, {1}, {0x01, 0x02}))).values == std::vector<std::int16_t>{258}));
  BOOST_TEST((read_idx<std::int32_t>(f.file("a", idx(0x0c, {1}, {0xff, 0xff, 0xff, 0xfe}))).values ==
              std::vector<std::int32_t>{-2}));
  BOOST_TEST((read_idx<float>(f.file("a", idx(0x0d, {1}, {0x3f, 0xc0, 0, 0}))).values == std::vector<float>{1.5f}));
  BOOST_TEST((read_idx<double>(f.file("a", idx(0x0e, {1}, {0x3f, 0xf8, 0, 0, 0, 0, 0, 0}))).values ==
              std::vector<double>{1.5}));
}

BOOST_AUTO_TEST_CASE(an_empty_array_is_an_array) {
  folder f;
  const auto a = read_idx<std::uint8_t>(f.file("a", idx(0x08, {0, 28, 28}, {})));
  BOOST_TEST((a.extents == std::vector<std::size_t>{0, 28, 28}));
  BOOST_TEST(a.values.empty());
}

BOOST_AUTO_TEST_CASE(what_is_not_there_or_no_file) {
  folder f;
  REFUSED(std::uint8_t, (f.path / "absent").string(), not_found, "cannot be opened");
  REFUSED(std::uint8_t, f.path.string(), invalid_argument, "not a regular file");
  const std::string pipe = (f.path / "pipe").string();
  BOOST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REFUSED(std::uint8_t, pipe, invalid_argument, "not a regular file");
}

BOOST_AUTO_TEST_CASE(what_is_not_idx) {
  folder f;
  REFUSED(std::uint8_t, f.file("empty", {}), invalid_argument, "is not an IDX file");
  REFUSED(std::uint8_t, f.file("short", {0, 0, 8}), invalid_argument, "is not an IDX file");
  REFUSED(std::uint8_t, f.file("text", {'h', 'e', 'l', 'l', 'o'}), invalid_argument, "is not an IDX file");
  REFUSED(std::uint8_t, f.file("type", idx(0x0a, {1}, {1})), invalid_argument, "unknown type 10");
  REFUSED(std::uint8_t, f.file("floats", idx(0x0d, {1}, {1, 2, 3, 4})), invalid_argument,
          "contains floats, but unsigned bytes are expected");
  REFUSED(std::uint8_t, f.file("scalar", idx(0x08, {}, {1})), invalid_argument, "0 dimensions");
  REFUSED(std::uint8_t, f.file("rank", idx(0x08, std::vector<std::uint32_t>(255, 1), {1})), invalid_argument,
          "255 dimensions");
}

BOOST_AUTO_TEST_CASE(what_is_cut_or_too_long) {
  folder f;
  const bytes whole = idx(0x08, {2, 3}, {1, 2, 3, 4, 5, 6});
  for (std::size_t size = 4; size < 12; ++size)
    REFUSED(std::uint8_t, f.file("a", cut(whole, size)), data_loss, "ends inside its header");
  for (std::size_t size = 12; size < whole.size(); ++size)
    REFUSED(std::uint8_t, f.file("a", cut(whole, size)), data_loss,
            "declares 2 x 3 unsigned bytes, more than a file of");
  REFUSED(std::uint8_t, f.file("a", cut(whole, whole.size() + 1)), data_loss, "has more bytes than");
}

BOOST_AUTO_TEST_CASE(a_lying_size_allocates_nothing) {
  folder f;
  // 4 GB, 16 EB, and a product that is 0 modulo 2^64: none fits the 12 bytes that are there.
  for (const std::vector<std::uint32_t>& extents :
       {std::vector<std::uint32_t>{0xffffffffu}, {0xffffffffu, 0xffffffffu}, {0x80000000u, 0x80000000u, 4u}})
    REFUSED(std::uint8_t, f.file("a", idx(0x08, extents, bytes(12))), data_loss, "more than a file of");
  REFUSED(double, f.file("a", idx(0x0e, {0x80000000u, 0x40000000u}, bytes(12))), data_loss, "more than a file of");
}

#ifdef WEFT_HAS_ZLIB

BOOST_AUTO_TEST_CASE(compressed_files_are_read_by_content_not_by_name) {
  folder f;
  const bytes whole = idx(0x08, {3}, {7, 8, 9});
  for (const char* file_name : {"a.gz", "a"})
    BOOST_TEST((read_idx<std::uint8_t>(f.packed(file_name, whole)).values == std::vector<std::uint8_t>{7, 8, 9}));
  BOOST_TEST((read_idx<std::uint8_t>(f.file("plain.gz", whole)).values == std::vector<std::uint8_t>{7, 8, 9}));
}

BOOST_AUTO_TEST_CASE(damaged_compressed_files) {
  folder f;
  bytes content(100'000);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<unsigned char>(i * i >> 3);
  const std::string good = f.packed("a.gz", idx(0x08, {100'000}, content));
  std::ifstream in(good, std::ios::binary);
  const bytes packed{std::istreambuf_iterator<char>(in), {}};

  REFUSED(std::uint8_t, f.file("half.gz", cut(packed, packed.size() / 2)), data_loss, "");
  REFUSED(std::uint8_t, f.file("tail.gz", cut(packed, packed.size() - 4)), data_loss, "");
  bytes flipped = packed;
  flipped[packed.size() / 2] ^= 0x55;
  REFUSED(std::uint8_t, f.file("flipped.gz", flipped), data_loss, "");
  REFUSED(std::uint8_t, f.file("header.gz", {0x1f, 0x8b}), data_loss, "");
}

BOOST_AUTO_TEST_CASE(a_lying_size_in_a_compressed_file_allocates_nothing) {
  folder f;
  REFUSED(std::uint8_t, f.packed("a.gz", idx(0x08, {0xffffffffu}, bytes(12))), data_loss, "more than a file of");
  REFUSED(std::uint8_t, f.packed("b.gz", idx(0x08, {13}, bytes(12))), data_loss, "13 bytes, but has 12");
  REFUSED(std::uint8_t, f.packed("c.gz", idx(0x08, {11}, bytes(12))), data_loss, "has more bytes than");
}

#endif
