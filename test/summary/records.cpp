// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <weft/data/record_reader.hpp>
#include <weft/encoding/protobuf_writer.hpp>

#include <string>
#include <vector>

#include "data/files.hpp"
#include "errors.hpp"
#include "summary/messages.hpp"

using namespace weft;
using test::contains;

namespace {

bytes as_bytes(const std::string& s) { return {s.begin(), s.end()}; }

/// The bytes that tf.io.TFRecordWriter of TensorFlow 2.21 writes for the records b"", b"weft", b"\x00" * 3.
const std::string of_tensorflow = [] {
  const unsigned char all[] = {
#include "summary/tfrecord_bytes.inc"
  };
  return std::string(reinterpret_cast<const char*>(all), sizeof all);
}();

std::string three_records() {
  std::string all;
  data::append_record(all, "");
  data::append_record(all, "weft");
  data::append_record(all, std::string(3, '\0'));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(records_have_the_bytes_of_tensorflow) {
  BOOST_TEST((as_bytes(three_records()) == as_bytes(of_tensorflow)));
}

BOOST_AUTO_TEST_CASE(records_are_read_in_order) {
  folder f;
  data::record_reader file(f.file("records", as_bytes(of_tensorflow)));
  std::string record = "before";
  BOOST_TEST_REQUIRE(file.next(record));
  BOOST_TEST(record.empty());
  BOOST_TEST(file.offset() == 16u);
  BOOST_TEST_REQUIRE(file.next(record));
  BOOST_TEST(record == "weft");
  BOOST_TEST_REQUIRE(file.next(record));
  BOOST_TEST(record == std::string(3, '\0'));
  BOOST_TEST(!file.next(record));
  BOOST_TEST(!file.next(record));
}

#ifdef WEFT_HAS_ZLIB
BOOST_AUTO_TEST_CASE(records_are_read_from_a_packed_file) {
  folder f;
  data::record_reader file(f.packed("records.gz", as_bytes(of_tensorflow)));
  std::string record;
  BOOST_TEST(file.next(record));
  BOOST_TEST(file.next(record));
  BOOST_TEST(record == "weft");
}
#endif

BOOST_AUTO_TEST_CASE(a_cut_file_is_reported_wherever_it_ends) {
  folder f;
  for (std::size_t size = 0; size < of_tensorflow.size(); ++size) {
    data::record_reader file(f.file("cut", cut(as_bytes(of_tensorflow), size)));
    std::size_t whole = 0;
    std::string record;
    bool reported = false;
    try {
      while (file.next(record)) ++whole;
    } catch (const error& e) {
      reported = true;
      BOOST_TEST((e.code() == error_code::data_loss));
      BOOST_TEST(contains(e.what(), "cut: record " + std::to_string(whole)));
    }
    const std::size_t ends[] = {0, 16, 36};
    BOOST_TEST(reported == (size != 0 && size != 16 && size != 36), "cut at " << size);
    BOOST_TEST(whole == static_cast<std::size_t>(size >= ends[1]) + static_cast<std::size_t>(size >= ends[2]));
  }
}

BOOST_AUTO_TEST_CASE(every_changed_bit_is_noticed) {
  folder f;
  for (std::size_t bit = 0; bit < 8 * of_tensorflow.size(); ++bit) {
    std::string changed = of_tensorflow;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    data::record_reader file(f.file("changed", as_bytes(changed)));
    std::string record;
    std::string first;
    BOOST_CHECK_EXCEPTION(while (file.next(record)), error, [&](const error& e) {
      first = e.what();
      return e.code() == error_code::data_loss;
    });
    // The records that follow are not read from the wrong place.
    BOOST_CHECK_EXCEPTION(file.next(record), error, [&](const error& e) { return e.what() == first; });
  }
}

// Whatever bit of a record differs, the others are read, and one damaged place is counted.
BOOST_AUTO_TEST_CASE(damaged_records_are_passed_over) {
  folder f;
  std::string all;
  std::size_t begins[5] = {};
  for (std::size_t i = 0; i < 5; ++i) {
    begins[i] = all.size();
    data::append_record(all, "record " + std::string(i, 'x'));
  }
  for (std::size_t bit = 8 * begins[2]; bit < 8 * begins[3]; ++bit) {
    std::string changed = all;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    data::record_reader file(f.file("changed", as_bytes(changed)), {.skip_damaged = true});
    std::string record;
    for (const std::size_t i : {0u, 1u, 3u, 4u}) {
      BOOST_TEST_REQUIRE(file.next(record));
      BOOST_TEST(record == "record " + std::string(i, 'x'));
      BOOST_TEST(file.record_offset() == begins[i] + 12);
    }
    BOOST_TEST(!file.next(record));
    BOOST_TEST(file.damaged() == 1u);
    BOOST_TEST(file.records() == 4u);
    BOOST_TEST(file.offset() == all.size());
  }
  data::record_reader file(f.file("cut", cut(as_bytes(all), all.size() - 1)), {.skip_damaged = true});
  std::string record;
  while (file.next(record)) continue;
  BOOST_TEST(file.records() == 4u);
  BOOST_TEST(file.damaged() == 1u);
}

BOOST_AUTO_TEST_CASE(a_length_that_lies_under_a_right_checksum_takes_no_memory) {
  folder f;
  std::string head;
  detail::append_little(head, std::uint64_t{1} << 60);
  detail::append_little(head, detail::masked_crc32c(head.data(), 8));
  data::record_reader file(f.file("long", as_bytes(head + "x")));
  std::string record;
  BOOST_CHECK_EXCEPTION(file.next(record), error, [](const error& e) {
    return e.code() == error_code::data_loss && contains(e.what(), "longer than the file");
  });
}

BOOST_AUTO_TEST_CASE(messages_have_the_bytes_of_the_encodings_specification) {
  // The examples of protobuf.dev/programming-guides/encoding.
  data::protobuf_writer integer, text, outer;
  integer.add_integer(1, 150);
  BOOST_TEST(integer.bytes() == "\x08\x96\x01");
  text.add_text(2, "testing");
  BOOST_TEST(text.bytes() == "\x12\x07testing");
  outer.add_message(3, integer);
  BOOST_TEST(outer.bytes() == "\x1a\x03\x08\x96\x01");

  data::protobuf_writer all;
  const double numbers[] = {0.5, -2};
  all.add_integer(1, -2);
  all.add_number(16, 0.25);
  all.add_number(17, 1.5f);
  all.add_numbers(18, numbers, 2);
  const test::message read(all.bytes());
  BOOST_TEST(read.word(1) == static_cast<std::uint64_t>(-2));
  BOOST_TEST(read.real(16) == 0.25);
  BOOST_TEST(read.single(17) == 1.5f);
  BOOST_TEST((read.reals(18) == std::vector<double>{0.5, -2}));
}
