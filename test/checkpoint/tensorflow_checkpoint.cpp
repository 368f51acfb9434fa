// SPDX-License-Identifier: BSL-1.0
// Checkpoints that TensorFlow has written, in tensorflow/.
#include <boost/test/unit_test.hpp>

#include <weft/checkpoint/tensorflow_checkpoint.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "checkpoint/files.hpp"
#include "errors.hpp"

using namespace weft;
using test::code_of;
using test::failure;

namespace {

const std::string theirs = TEST_DATA "/checkpoint/tensorflow/";

template <class F>
void for_each_type(F f) {
  f("bool", bool());
  f("int8", std::int8_t());
  f("int16", std::int16_t());
  f("int32", std::int32_t());
  f("int64", std::int64_t());
  f("uint8", std::uint8_t());
  f("uint16", std::uint16_t());
  f("uint32", std::uint32_t());
  f("uint64", std::uint64_t());
  f("float16", half());
  f("bfloat16", bfloat16());
  f("float32", float());
  f("float64", double());
}

void check_all(const tensorflow_checkpoint& c) {
  for_each_type([&]<class T>(const char* name, T) {
    BOOST_TEST(has_expected_elements(c.read<tensor<T, dims<3, 4>>>("types/" + std::string(name))), name);
    BOOST_TEST((c.info("types/" + std::string(name)).type == dtype_of<T>));
  });
  BOOST_TEST(c.read<tensor<std::int64_t>>("global_step") == -5);
  BOOST_TEST((c.read<tensor<float, dims<dyn<"n">, 5>>>("empty").extents() == shape(0, 5)));
  BOOST_TEST(has_expected_elements(c.read<tensor<float, dims<10, 4>>>("parts/rows")));
  BOOST_TEST(has_expected_elements(c.read<tensor<double, dims<3, dyn<"columns">, 2>>>("parts/columns")));
  BOOST_TEST(has_expected_elements(c.read<tensor<std::int32_t, dims<200, 2>>>("parts/middle")));
  BOOST_TEST(has_expected_elements(c.read<tensor<std::int8_t, dims<16500>>>("parts/long")));
}

/// A copy of a checkpoint that may be spoilt.
struct copied {
  folder f;
  std::string prefix;
  explicit copied(const std::string& name) : prefix((f.path / name).string()) {
    for (const auto& each : std::filesystem::directory_iterator(theirs))
      if (each.path().filename().string().starts_with(name + "."))
        std::filesystem::copy(each.path(), f.path / each.path().filename());
  }
  bytes content(const std::string& suffix) const { return bytes_of_file(prefix + suffix); }
  void write(const std::string& suffix, const bytes& content) const {
    f.file(std::filesystem::path(prefix).filename().string() + suffix, content);
  }
};

void append_varint(std::string& to, std::uint64_t n) {
  for (; n > 127; n >>= 7) to += static_cast<char>((n & 127) | 128);
  to += static_cast<char>(n);
}
/// A field of a protobuf message.
std::string number(int field, std::uint64_t value) {
  std::string text;
  append_varint(text, static_cast<std::uint64_t>(field) << 3);
  append_varint(text, value);
  return text;
}
std::string message(int field, const std::string& content) {
  std::string text;
  append_varint(text, static_cast<std::uint64_t>(field) << 3 | 2);
  append_varint(text, content.size());
  return text + content;
}
void append_fixed(std::string& to, std::uint64_t n, int size) {
  for (int i = 0; i < size; ++i) to += static_cast<char>(n >> 8 * i);
}
/// A block of a table in LevelDB's format, whose entries share no prefixes.
std::string block(std::initializer_list<std::pair<std::string, std::string>> entries) {
  std::string text;
  for (const auto& [key, value] : entries) {
    for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{key.size()}, std::uint64_t{value.size()}})
      append_varint(text, n);
    text += key + value;
  }
  append_fixed(text, 0, 4);
  append_fixed(text, 1, 4);
  text += '\0';
  append_fixed(text, detail::masked_crc32c(reinterpret_cast<const std::byte*>(text.data()), text.size()), 4);
  return text;
}
/// The index of a checkpoint of one shard, whose tensor "v" of two floats consists of one part with these fields too.
bytes index_of_one_part(const std::string& fields_of_part) {
  const std::string extents = message(2, message(2, number(1, 2))), slice = message(7, message(1, number(2, 2)));
  const std::string data =
      block({{"", number(1, 1)},
             {detail::bundle_key("v", {{0, 2}}), number(1, 1) + extents + number(5, 8) + fields_of_part},
             {"v", number(1, 1) + extents + slice}});
  std::string place, footer;
  append_varint(place, 0);
  append_varint(place, data.size() - 5);
  const std::string index = block({{"w", place}});
  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{data.size()}, index.size() - 5})
    append_varint(footer, n);
  footer.resize(40);
  append_fixed(footer, 0xdb4775248b80fb57, 8);
  const std::string all = data + index + footer;
  return bytes(all.begin(), all.end());
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_types_from_several_shards_and_partitions) {
  const tensorflow_checkpoint c(theirs + "saver");
  check_all(c);
  BOOST_TEST(c.names().size() == 22u);
  BOOST_TEST(std::is_sorted(c.names().begin(), c.names().end()));
  BOOST_TEST(c.info("text").type_name == "string");
  BOOST_TEST(!c.info("text").type.has_value());
  BOOST_TEST((c.info("parts/columns").extents == std::vector<std::int64_t>{3, 7, 2}));
  BOOST_TEST(c.info("nine_axes").extents.size() == 9u);
  const auto untyped = c.read<untyped_tensor>("parts/rows");
  BOOST_TEST((untyped.type == dtype::float32 && untyped.extents == shape(10, 4)));
  BOOST_TEST(untyped.bytes.size() == 160u);
  check_all(tensorflow_checkpoint(theirs + "saver.index"));
}

BOOST_AUTO_TEST_CASE(an_object_based_checkpoint) {
  const tensorflow_checkpoint c(theirs + "object");
  BOOST_TEST(has_expected_elements(c.read<tensor<float, dims<5, 3>>>("kernel/.ATTRIBUTES/VARIABLE_VALUE")));
  BOOST_TEST(c.read<tensor<std::int64_t>>("step/.ATTRIBUTES/VARIABLE_VALUE") == 7);
  BOOST_TEST(c.contains("_CHECKPOINTABLE_OBJECT_GRAPH"));
}

BOOST_AUTO_TEST_CASE(an_index_packed_by_snappy_in_many_blocks) {
  const copied c("saver");
  c.write(".index", bytes_of_file(theirs + "snappy.index"));
  check_all(tensorflow_checkpoint(c.prefix));
}

BOOST_AUTO_TEST_CASE(big_endian_elements) {
  const tensorflow_checkpoint c(theirs + "big_endian");
  BOOST_TEST(has_expected_elements(c.read<tensor<float, dims<2, 3>>>("a")));
}

BOOST_AUTO_TEST_CASE(what_is_not_there_or_does_not_fit) {
  const tensorflow_checkpoint c(theirs + "saver");
  using matrix = tensor<float, dims<3, 4>>;
  const auto refusal = [&](error_code code, const char* name) { return failure(code, [&] { c.read<matrix>(name); }); };
  CHECK_SAYS(refusal(error_code::not_found, "weights"), "saver has no tensor weights; it has complex, empty, ");
  CHECK_SAYS(refusal(error_code::not_found, ""), "saver has no tensor");
  CHECK_SAYS(refusal(error_code::invalid_argument, "types/float64"),
             "saver: tensor types/float64 has elements of type float64, but float was requested");
  CHECK_SAYS(refusal(error_code::invalid_argument, "parts/rows"),
             "saver: tensor parts/rows: the extents [10, 4] do not fit the declared [3, 4]");
  CHECK_SAYS(refusal(error_code::unimplemented, "text"), "elements of type string, which Weft does not support");
  CHECK_SAYS(refusal(error_code::unimplemented, "complex"), "elements of type complex64");
  CHECK_SAYS(refusal(error_code::unimplemented, "nine_axes"), "9 axes");
  CHECK_SAYS(failure(error_code::not_found, [] { tensorflow_checkpoint absent(theirs + "absent"); }), "absent.index");
  folder f;
  const std::string other = f.file("other.index", bytes(100, 'x'));
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { tensorflow_checkpoint no(other); }), "is not a LevelDB table");
}

BOOST_AUTO_TEST_CASE(shards_that_are_damaged_cut_or_gone) {
  const copied c("saver");
  const std::string shard = ".data-00000-of-00003";
  const bytes whole = c.content(shard);
  const auto read_all = [&] { check_all(tensorflow_checkpoint(c.prefix)); };
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 200) {
    bytes flipped = whole;
    flipped[at] ^= static_cast<unsigned char>(1u << at % 8);
    c.write(shard, flipped);
    BOOST_TEST((code_of(read_all) == error_code::data_loss), at);
    c.write(shard, cut(whole, at));
    BOOST_TEST((code_of(read_all) == error_code::data_loss), at);
  }
  bytes flipped = whole;
  flipped[5] ^= 1;
  c.write(shard, flipped);
  CHECK_SAYS(failure(error_code::data_loss, read_all), "does not have the CRC-32C in the index");
  c.write(shard, cut(whole, 3));
  CHECK_SAYS(failure(error_code::data_loss, read_all), ", which has 3; fetch the files again");
  std::filesystem::remove(c.prefix + shard);
  CHECK_SAYS(failure(error_code::not_found, read_all), shard);
}

// The constructor checks the shard of whole tensors only.
BOOST_AUTO_TEST_CASE(a_part_outside_of_the_shards_is_refused) {
  const std::string slice = message(7, message(1, number(2, 2)));
  for (const std::uint64_t shard : {std::uint64_t{1}, std::uint64_t{1} << 34, ~std::uint64_t{0}})
    for (const std::string& slices : {std::string(), slice}) {
      const folder f;
      f.file("c.index", index_of_one_part(number(3, shard) + slices));
      f.file("c.data-00000-of-00001", bytes(64, 'x'));
      const auto read = [&] { tensorflow_checkpoint((f.path / "c").string()).read<untyped_tensor>("v"); };
      CHECK_SAYS(failure(error_code::data_loss, read), "; fetch the file");
    }
  // The same part in the shard that there is fails because of its checksum.
  const folder f;
  f.file("c.index", index_of_one_part(number(3, 0)));
  f.file("c.data-00000-of-00001", bytes(64, 'x'));
  CHECK_SAYS(
      failure(error_code::data_loss, [&] { tensorflow_checkpoint((f.path / "c").string()).read<untyped_tensor>("v"); }),
      "does not have the CRC-32C");
}

BOOST_AUTO_TEST_CASE(an_index_that_is_damaged_or_cut) {
  for (const char* index : {"saver.index", "snappy.index"}) {
    const copied c("saver");
    const bytes whole = bytes_of_file(theirs + index);
    const auto read_all = [&] { check_all(tensorflow_checkpoint(c.prefix)); };
    for (std::size_t at = 0; at < whole.size(); ++at) {
      c.write(".index", cut(whole, at));
      const auto code = code_of(read_all);
      BOOST_TEST((code == error_code::invalid_argument || code == error_code::data_loss), at);
      bytes flipped = whole;
      flipped[at] ^= static_cast<unsigned char>(1u << at % 8);
      c.write(".index", flipped);
      // Only what fills the footer up, and the block that is not read, may be anything: then all is right.
      code_of(read_all);
      if (at < whole.size() - 170) BOOST_TEST((code_of(read_all) != error_code{}), at);
    }
  }
}
