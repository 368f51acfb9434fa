// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <weft/data/cifar10.hpp>
#include <weft/data/csv.hpp>
#include <weft/data/example.hpp>
#include <weft/data/lines.hpp>
#include <weft/data/records.hpp>
#include <weft/deadline.hpp>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#ifdef WEFT_HAS_ZLIB
  #include <zlib.h>
#endif

#include "data/files.hpp"
#include "errors.hpp"

using namespace weft;
using test::says;

namespace {

const std::string here = TEST_DATA "/data/";

bytes as_bytes(const std::string& s) { return {s.begin(), s.end()}; }

struct text_file : folder {
  std::string operator()(const std::string& content) const { return file("t.csv", as_bytes(content)); }
};

template <class T>
std::vector<T> first_feature(const data::dataset<T>& d) {
  std::vector<T> all;
  for (const auto& [x] : d) all.push_back(x);
  return all;
}

#define SAME(a, b)                                               \
  do {                                                           \
    const auto left = (a), right = (b);                          \
    BOOST_TEST(left == right, boost::test_tools::per_element()); \
  } while (false)

#define REFUSED(rows, code, words) \
  BOOST_CHECK_EXCEPTION([&] { for (const auto& e [[maybe_unused]] : rows); }(), error, says(error_code::code, words))

}  // namespace

// ---- CSV ----

BOOST_AUTO_TEST_CASE(a_table_of_pandas) {
  const auto table = data::csv<bool, std::string, double, std::int64_t>(
      here + "table.csv", {.columns = {"flag", "text", {"x", "nan"}, "id"}});
  std::vector<std::string> texts;
  std::vector<double> numbers;
  std::int64_t row = 0;
  for (const auto& [flag, text, x, id] : table) {
    BOOST_TEST(flag == (row % 2 == 0));
    BOOST_TEST(id == ++row);
    texts.push_back(text);
    numbers.push_back(x);
  }
  SAME(texts, (std::vector<std::string>{"plain", "a \"quoted\" word, and a comma", "two\nlines\r\nor three", ""}));
  BOOST_TEST(std::isnan(numbers[1]));
  numbers[1] = 0;
  SAME(numbers, (std::vector<double>{0.1, 0, -1e-7, 12345678.9}));
  // By batches, by number, and from memory.
  const auto by_number = data::csv<std::int32_t, std::string>(here + "table.csv", {.columns = {0, 1}});
  for (const auto& [ids, words] : by_number.batches(3)) {
    BOOST_TEST(words.size() == static_cast<std::size_t>(ids.extent(0)));
    BOOST_TEST((ids(0) == 1 || ids(0) == 4));
    BOOST_TEST(words[0] == (ids(0) == 1 ? "plain" : ""));
  }
  std::string letters;
  for (const auto& [id, text] : by_number.cache().shuffled(1)) letters += text.substr(0, 1) + std::to_string(id);
  BOOST_TEST(letters.size() == 7u);
}

BOOST_AUTO_TEST_CASE(numbers_are_rounded_to_the_nearest) {
  std::size_t rows = 0;
  auto singles = data::csv<float, std::uint32_t>(here + "numbers.csv", {.columns = {"number", "float"}});
  auto doubles = data::csv<double, std::uint64_t>(here + "numbers.csv", {.columns = {"number", "double"}});
  auto texts = data::csv<std::string>(here + "numbers.csv", {.columns = {"number"}});
  for (const auto& [x, x_bits, y, y_bits, text] : zip(zip(singles, doubles), texts)) {
    BOOST_TEST_CONTEXT(text) {
      BOOST_TEST(std::bit_cast<std::uint32_t>(x) == x_bits);
      BOOST_TEST(std::bit_cast<std::uint64_t>(y) == y_bits);
    }
    ++rows;
  }
  BOOST_TEST(rows > 300u);
}

BOOST_AUTO_TEST_CASE(numbers_of_every_form) {
  text_file f;
  const auto numbers = [&]<class T>(T, const std::string& lines) {
    return first_feature(data::csv<T>(f(lines), {.header = false}));
  };
  SAME(numbers(0.0f, "1\n -2.5\t\n+3\n1e39\n-1e39\n1e-60\n\"4\"\ninf\n"),
       (std::vector<float>{1, -2.5f, 3, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                           0, 4, std::numeric_limits<float>::infinity()}));
  SAME(numbers(0.0, "1e400\n-1e400\n1e-400\n00000000000000000000000000000000012\n12345678\n123456789012\n"),
       (std::vector<double>{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0, 12,
                            12345678, 123456789012}));
  const std::string zeros(5000, '0');
  SAME(numbers(0.0, "0." + zeros + "1\n-1" + zeros + "\n1" + zeros + zeros + "e-10\n1" + zeros + "e-5000\n1e-" + zeros +
                        "99999999999999999999\n"),
       (std::vector<double>{0, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 1,
                            0}));
  SAME(numbers(std::int32_t(), "-2147483648\n2147483647\n0\n-0\n00000000000000000000007"),
       (std::vector<std::int32_t>{-2147483647 - 1, 2147483647, 0, 0, 7}));
  SAME(numbers(std::int64_t(), "-9223372036854775808\n9223372036854775807\n"),
       (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}));
  SAME(numbers(std::uint64_t(), "18446744073709551615\n"), (std::vector<std::uint64_t>{~std::uint64_t{0}}));
  SAME(numbers(std::int8_t(), "-128\n127\n"), (std::vector<std::int8_t>{-128, 127}));
  BOOST_TEST(static_cast<float>(numbers(half(), "0.5\n")[0]) == 0.5f);
  // As a float they are right between two: 1 + 2^-11 and 1 + 2^-8.
  BOOST_TEST(static_cast<float>(numbers(half(), "-1.0004883\n")[0]) == -0x1.004p0f);
  BOOST_TEST(static_cast<float>(numbers(bfloat16(), "1.003906251\n")[0]) == 0x1.02p0f);
  for (const char* wrong : {"x", "1x", "1 2", "--1", "+-1", ".", "-", "1e", "0x10", "1.5.", "1,"})
    REFUSED(data::csv<float>(f(wrong), {.header = false}), invalid_argument, "t.csv:1 has ");
  for (const char* wrong : {"2147483648", "-2147483649", "1.0", "99999999999999999999", "1e3"})
    REFUSED(data::csv<std::int32_t>(f(wrong), {.header = false}), invalid_argument,
            "which is not a number of type int32");
  REFUSED(data::csv<std::uint8_t>(f("-1"), {.header = false}), invalid_argument, "uint8");
  REFUSED(data::csv<bool>(f("yes"), {.header = false}), invalid_argument, "bool");
}

BOOST_AUTO_TEST_CASE(rows_of_every_form) {
  text_file f;
  const auto rows = [&](const std::string& content, data::csv_options options = {.header = false}) {
    std::vector<std::string> all;
    for (const auto& [a, b] : data::csv<std::string, std::string>(f(content), options)) all.push_back(a + "|" + b);
    return all;
  };
  using list = std::vector<std::string>;
  SAME(rows("a,b\r\n\r\nc,d"), (list{"a|b", "c|d"}));
  SAME(rows("a,b\r\r\n\r\r\nc,d\r\r\n"), (list{"a|b", "c|d"}));  // \r\n that was written in text mode
  SAME(rows("p,q\r\r\n1,\"2\"\r\r\n", {}), list{"1|2"});
  SAME(rows("\"a\r\",\"b\r\"\r\r\n"), list{"a\r|b\r"});
  SAME(rows("\xef\xbb\xbfp,q\n1,2\n", {}), list{"1|2"});
  SAME(rows("\"a\",\"\"\"\"\n\"\",\"x\ny\"\r\n"), (list{"a|\"", "|x\ny"}));
  SAME(rows("a\"b\"\"c,d\"\n"), list{"a\"b\"\"c|d\""});  // quotes within are letters
  SAME(rows("a;'b;c'\n", {.header = false, .separator = ';', .quote = '\''}), list{"a|b;c"});
  SAME(rows("NA,b\n\"NA\",\n", {.header = false, .missing_values = {"NA"}, .missing = "?"}), (list{"?|b", "NA|?"}));
  BOOST_TEST(rows("").empty());
  BOOST_TEST(rows("\n\r\n").empty());
  // Longer than a block of the buffer, with a quoted newline across it.
  const std::string large(700'000, 'x');
  SAME(rows("\"" + large + "\n" + large + "\"," + large + "\nc,d\n"),
       (list{large + "\n" + large + "|" + large, "c|d"}));

  for (const auto& [content, words] : std::vector<std::pair<std::string, std::string>>{
           {"a,b\nc\n", "t.csv:2 has 1 fields, but 2 are expected"},
           {"a,b\nc,d,e\n", "t.csv:2 has 3 fields, but 2 are expected"},
           {"a,b\nc,d\re,f\n", "t.csv:2 has a carriage return in an unquoted field"},
           {"a\n", "t.csv:1 has 1 columns, but the features take 2"},
           {"\"a\nb\",c\n\"d,e\nf,g\n", "t.csv:3 has an unclosed quote"},
           {"\"a\"b,c\n", "t.csv:1 has text between a closing quote"}}) {
    const std::string path = f(content);
    REFUSED((data::csv<std::string, std::string>(path, {.header = false})), invalid_argument, words);
  }
  REFUSED((data::csv<std::string, std::string>(f("\"" + large), {.header = false, .max_row_bytes = 1000})),
          invalid_argument, "t.csv:1 is longer than 1000 bytes");
  REFUSED(data::csv<float>(f("")), invalid_argument, "has no header");
  REFUSED(data::csv<float>(f("a,b\r1,2\r"), {.columns = {"a"}}), invalid_argument, "end lines with newlines");
  const std::string table = f("a,b\n1,\n,2\n");
  REFUSED(data::csv<float>(table, {.columns = {"c"}}), not_found, "has no column \"c\"");
  REFUSED(data::csv<float>(table, {.columns = {7}}), not_found, "has no column 7");
  REFUSED(data::csv<float>(table, {.columns = {-1}}), not_found, "has no column -1");
  REFUSED((data::csv<float, float>(table, {.columns = {"a", 0}})), invalid_argument, "selected twice");
  const std::string twice = f.file("twice.csv", as_bytes("a,b,a\n1,2,\x1b[31m\n"));
  REFUSED(data::csv<float>(twice, {.columns = {"a"}}), invalid_argument, "has two columns \"a\", 0 and 2");
  REFUSED(data::csv<float>(twice, {.columns = {2}}), invalid_argument, "has \"\\x1b[31m\" in column \"a\"");
  SAME(first_feature(data::csv<float>(twice, {.columns = {"b"}})), (std::vector<float>{2}));
  REFUSED(data::csv<float>(table, {.columns = {"a"}}), invalid_argument, "t.csv:3 has no value in column \"a\"");
  REFUSED(data::csv<float>((f.path / "none").string()), not_found, "none");
  BOOST_CHECK_EXCEPTION((data::csv<float, float>(table, {.columns = {"a"}})), error,
                        says(error_code::invalid_argument, "take 2 columns, but `columns` has 1"));
  for (const auto& [x] : data::csv<tensor<int, dims<2>>>(table, {.columns = {{"b", "-5"}, {"a", "-6"}}}))
    BOOST_TEST((x(0) == -5 ? x(1) == 1 : x(0) == 2 && x(1) == -6));
}

BOOST_AUTO_TEST_CASE(rows_of_several_files) {
  text_file f;
  const std::string one = f.file("1.csv", as_bytes("a,b\n1,2\n3,4\n")), two = f.file("2.csv", as_bytes("b,a\n6,5\n"));
  const auto d = data::csv<int>({one, two}, {.columns = {"a"}});
  SAME(first_feature(d), (std::vector<int>{1, 3, 5}));
  for (const auto& [x] : d.batches(3)) SAME(std::vector<int>(x.begin(), x.end()), (std::vector<int>{1, 3, 5}));
  SAME(first_feature(d.repeat(2).skip(2)), (std::vector<int>{5, 1, 3, 5}));
  for (const auto& [x] : d.batches(1'000'000'000'000))
    SAME(std::vector<int>(x.begin(), x.end()), (std::vector<int>{1, 3, 5}));
  std::string many = "a,text\n";
  for (int i = 0; i < 1000; ++i) many += std::to_string(i) + ",t" + std::to_string(i) + '\n';
  for (const auto& [x, t] : data::csv<int, std::string>(f.file("4.csv", as_bytes(many))).batches(1'000'000'000'000)) {
    BOOST_TEST((x.extent(0) == 1000 && t.size() == 1000u));
    for (int i = 0; i < 1000; ++i) BOOST_TEST((x(i) == i && t[std::size_t(i)] == "t" + std::to_string(i)));
  }
  // A file without the column stays an error, and gives no rows.
  const auto other = data::csv<int>({one, f.file("3.csv", as_bytes("b,c\n7,8\n"))}, {.columns = {"a"}});
  auto i = other.from({0, 1}).begin();
  for (int turn = 0; turn < 2; ++turn)
    BOOST_CHECK_EXCEPTION(i.advance(deadline::never()), error, says(error_code::not_found, "has no column \"a\""));
#ifdef WEFT_HAS_ZLIB
  SAME(first_feature(data::csv<int>(f.packed("1.gz", as_bytes("a,b\n1,2\n")), {.columns = {"b"}})),
       std::vector<int>{2});
#endif
}

// ---- lines and records of a fixed size ----

BOOST_AUTO_TEST_CASE(lines_without_their_ends) {
  text_file f;
  using list = std::vector<std::string>;
  const std::string path = f("title\na\r\n\n\"b\nc");
  SAME(first_feature(data::lines(path)), (list{"title", "a", "", "\"b", "c"}));
  SAME(first_feature(data::lines({path, path}, {.skip = 3})), (list{"\"b", "c", "\"b", "c"}));
  SAME(first_feature(data::lines(path, {.skip = 9})), list());
  SAME(first_feature(data::lines(f("a\r\r\nb\r\r\n"))), (list{"a", "b"}));
  REFUSED(data::lines(path, {.max_line_bytes = 2}), invalid_argument, "t.csv:1 is longer than 2 bytes");
}

BOOST_AUTO_TEST_CASE(records_of_a_fixed_size) {
  text_file f;
  using record = tensor<std::uint8_t, dims<3>>;
  std::string all;
  for (const auto& [x] : data::fixed_records<record>(f("HEADabcdefEND"), {.header_bytes = 4, .footer_bytes = 3}))
    all += std::string(x.begin(), x.end()) + "|";
  BOOST_TEST(all == "abc|def|");
  for (const auto& [x] : data::fixed_records<tensor<std::int16_t, dims<>>>(f(std::string("\x01\x02", 2))))
    BOOST_TEST(x == 0x0201);
  REFUSED(data::fixed_records<record>(f("abcde")), data_loss, "the record at offset 3 has 2 bytes, but must have 3");
  REFUSED(data::fixed_records<record>(f("ab"), {.footer_bytes = 3}), data_loss, "is shorter than its header");
}

BOOST_AUTO_TEST_CASE(images_of_cifar10) {
  folder f;
  bytes content;
  for (int image = 0; image < 2; ++image) {
    content.push_back(static_cast<unsigned char>(9 - image));
    for (int channel = 0; channel < 3; ++channel)
      for (int i = 0; i < 1024; ++i) content.push_back(static_cast<unsigned char>(i / 32 + 64 * channel + image));
  }
  f.file("test_batch.bin", content);
  const auto d = data::cifar10("test", f.path.string());
  BOOST_TEST(d.size() == 2u);
  for (const auto& [x, y] : d.batches(2)) {
    BOOST_TEST((x.extents() == shape(2, 32, 32, 3)));
    BOOST_TEST((y(0) == 9 && y(1) == 8));
    BOOST_TEST(x(1, 31, 0, 2) == static_cast<float>(31 + 128 + 1) / 255.0f);
    BOOST_TEST(x(0, 5, 30, 1) == static_cast<float>(5 + 64) / 255.0f);
  }
  f.file("test_batch.bin", cut(content, 4000));
  BOOST_CHECK_EXCEPTION(data::cifar10("test", f.path.string()), error,
                        says(error_code::data_loss, "the image at offset 3073 has 927 bytes"));
  content[3073] = 10;
  f.file("test_batch.bin", content);
  BOOST_CHECK_EXCEPTION(data::cifar10("test", f.path.string()), error, says(error_code::out_of_range, "the label 10"));
  BOOST_CHECK_EXCEPTION(data::cifar10("train", f.path.string()), error, says(error_code::not_found, "data_batch_1"));
  BOOST_CHECK_EXCEPTION(data::cifar10("dev", f.path.string()), error, says(error_code::invalid_argument, "\"dev\""));
}

// ---- TFRecord and tf.train.Example ----

namespace {

using pair_tensor = tensor<float, dims<2>>;
using tokens_tensor = tensor<std::int32_t, dims<dyn<"length">>>;
using pixels_tensor = tensor<std::uint8_t, dims<3>>;

/// Checks the examples that make_files.py has had TensorFlow write.
void check_examples(const std::string& path) {
  const auto parsed =
      data::records(path).map(data::parse_example<pair_tensor, std::int64_t, tokens_tensor, std::string,
                                                  std::vector<std::string>, pixels_tensor, float>(
                                  "pair", "label", data::example_feature("tokens", 0), "name",
                                  data::example_feature("words", 0), "pixels", data::example_feature("absent", 2.5)),
                              2);
  std::int64_t i = 0, power = -1;
  for (const auto& [pair, label, tokens, name, words, pixels, absent] : parsed) {
    BOOST_TEST(pair(0) == static_cast<float>(i) + 0.5f);
    BOOST_TEST(pair(1) == static_cast<float>(-i));
    BOOST_TEST(label == power);
    BOOST_TEST(tokens.extent(0) == i);
    for (std::int64_t k = 0; k < i; ++k) BOOST_TEST(tokens(k) == k);
    BOOST_TEST(name == "record " + std::to_string(i));
    SAME(words, std::vector<std::string>(static_cast<std::size_t>(i), "w"));
    BOOST_TEST((pixels(0) == i && pixels(1) == 255 && pixels(2) == 7));
    BOOST_TEST(absent == 2.5f);
    ++i;
    power *= 10;
  }
  BOOST_TEST(i == 5);
}

std::string written_example(int i) {
  tokens_tensor tokens((shape(i)));
  for (int k = 0; k < i; ++k) tokens(k) = k;
  std::int64_t power = -1;
  for (int k = 0; k < i; ++k) power *= 10;
  return data::example_writer()
      .add("pair", std::vector<double>{i + 0.5, static_cast<double>(-i)})
      .add("label", power)
      .add("tokens", tokens)
      .add("name", "record " + std::to_string(i))
      .add("words", std::vector<std::string>(static_cast<std::size_t>(i), "w"))
      .add("pixels", std::string{static_cast<char>(i), static_cast<char>(255), 7})
      .bytes();
}

}  // namespace

BOOST_AUTO_TEST_CASE(examples_of_tensorflow) {
  check_examples(here + "examples.tfrecord");
#ifdef WEFT_HAS_ZLIB
  check_examples(here + "examples.tfrecord.gz");
  check_examples(here + "examples.tfrecord.zlib");
#endif
}

BOOST_AUTO_TEST_CASE(examples_are_written_and_read) {
  folder f;
  for (const auto packing : {data::compression::none, data::compression::gzip, data::compression::zlib}) {
#ifndef WEFT_HAS_ZLIB
    if (packing != data::compression::none) continue;
#endif
    const std::string path = (f.path / "written").string();
    data::record_writer out(path, packing);
    for (int i = 0; i < 5; ++i) out.add(written_example(i));
    out.close();
    check_examples(path);
    // Larger than every buffer.
    data::record_writer large(path, packing);
    std::string record(300'000, 'x');
    for (std::size_t i = 0; i < record.size(); ++i) record[i] = static_cast<char>(i * i >> 5);
    for (int i = 0; i < 4; ++i) large.add(record);
    large.close();
    int count = 0;
    for (const auto& [read] : data::records(path)) count += read == record;
    BOOST_TEST(count == 4);
  }
  BOOST_CHECK_EXCEPTION(data::record_writer(f.path.string() + "/a/b"), error, says(error_code::unavailable, "a/b"));
}

BOOST_AUTO_TEST_CASE(lists_may_be_packed_or_not) {
  data::protobuf_writer list, feature, features, example, floats, other;
  for (const int i : {3, -4}) list.add_integer(1, i);
  for (const float x : {1.5f, -2.0f}) floats.add_number(1, x);
  feature.add_message(3, list);
  other.add_message(2, floats);
  features.add_entry(1, "i", feature);
  features.add_entry(1, "x", other);
  example.add_message(1, features);
  const auto [i, x] = data::parse_example<tensor<std::int64_t, dims<2>>, pair_tensor>("i", "x")(example.bytes());
  BOOST_TEST((i(0) == 3 && i(1) == -4));
  BOOST_TEST((x(0) == 1.5f && x(1) == -2.0f));
}

BOOST_AUTO_TEST_CASE(examples_that_are_not_as_expected) {
  const std::string record = written_example(3);
  BOOST_CHECK_EXCEPTION(data::parse_example<float>("absent")(record), error,
                        says(error_code::not_found, "feature \"absent\" is missing"));
  BOOST_CHECK_EXCEPTION(data::parse_example<float>("label")(record), error,
                        says(error_code::invalid_argument, "\"label\" has integers, but floats are expected"));
  BOOST_CHECK_EXCEPTION(data::parse_example<std::int64_t>("tokens")(record), error,
                        says(error_code::invalid_argument, "3 numbers, but must have one"));
  BOOST_CHECK_EXCEPTION((data::parse_example<tensor<std::int32_t, dims<2>>>("tokens")(record)), error,
                        says(error_code::invalid_argument, "3 numbers, but the extents [2] require 2"));
  BOOST_CHECK_EXCEPTION((data::parse_example<tensor<std::int32_t, dims<dyn<"n">, 2>>>("tokens")(record)), error,
                        says(error_code::invalid_argument, "[n, 2]"));
  BOOST_CHECK_EXCEPTION(data::parse_example<std::int8_t>("label")(record), error,
                        says(error_code::invalid_argument, "-1000, which does not fit"));
  BOOST_CHECK_EXCEPTION(data::parse_example<std::string>("words")(record), error,
                        says(error_code::invalid_argument, "3 strings, but must have one"));
  for (std::size_t size = 1; size < record.size(); ++size)
    BOOST_CHECK_EXCEPTION(data::parse_example<float>("absent")(record.substr(0, size)), error, [](const error& e) {
      return e.code() == error_code::data_loss || e.code() == error_code::not_found;
    });
}

BOOST_AUTO_TEST_CASE(damaged_records_are_passed_over_where_that_is_asked_for) {
  folder f;
  std::string all;
  for (int i = 0; i < 5; ++i) data::append_record(all, written_example(i));
  all[200] ^= 1;
  const std::string path = f.file("damaged", as_bytes(all));
  REFUSED(data::records(path), data_loss, "damaged: record 1 at offset");
  std::size_t whole = 0;
  const auto damaged = std::make_shared<std::atomic<std::uint64_t>>(0);
  for (const auto& e [[maybe_unused]] : data::records({path, path}, {.skip_damaged = true, .damaged = damaged}))
    ++whole;
  BOOST_TEST(whole == 8u);
  BOOST_TEST(damaged->load() == 2u);
#ifdef WEFT_HAS_ZLIB
  std::ifstream in(here + "examples.tfrecord.zlib", std::ios::binary);
  const bytes packed{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t size = 20; size < packed.size(); size += 40)
    REFUSED(data::records(f.file("cut", cut(packed, size))), data_loss, "cut");
#endif
}

#ifdef WEFT_HAS_ZLIB
namespace {

/// How many bytes zlib itself unpacks from the beginning of a gzip or zlib file.
std::size_t unpackable(const bytes& packed) {
  z_stream z{};
  BOOST_REQUIRE(::inflateInit2(&z, 15 + 32) == Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(packed.data())));
  z.avail_in = static_cast<unsigned>(packed.size());
  std::vector<Bytef> out(1u << 22);
  z.next_out = out.data();
  z.avail_out = static_cast<unsigned>(out.size());
  ::inflate(&z, Z_NO_FLUSH);
  ::inflateEnd(&z);
  return z.total_out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_records_before_the_damage_of_a_packed_file_are_read) {
  folder f;
  std::mt19937 random(1);
  for (const auto packing : {data::compression::gzip, data::compression::zlib})
    for (const auto& [count, size] : {std::pair(50, 300), std::pair(2000, 1000)}) {
      const std::string path = (f.path / "whole").string();
      {
        data::record_writer out(path, packing);
        std::string record(static_cast<std::size_t>(size), '\0');
        for (int i = 0; i < count; ++i) {
          for (char& c : record) c = static_cast<char>(random());
          out.add(record);
        }
        out.close();
      }
      std::ifstream in(path, std::ios::binary);
      const bytes whole{std::istreambuf_iterator<char>(in), {}};
      std::vector<bytes> damaged{cut(whole, whole.size() / 2), cut(whole, whole.size() - 9),
                                 cut(whole, whole.size() - 2), whole, whole};
      damaged[3][whole.size() - (packing == data::compression::gzip ? 5 : 2)] ^= 1;  // in its checksum
      damaged[4][whole.size() * 2 / 3] ^= 64;
      for (const bytes& content : damaged) {
        const std::string at = f.file("damaged", content);
        std::size_t intact = 0;
        std::string said;
        data::record_reader file(at);
        const auto read = [&] {
          for (std::string record; file.next(record);) ++intact;
        };
        BOOST_TEST((test::code_of(read, &said) == error_code::data_loss));
        if (&content != &damaged[4]) {
          BOOST_TEST(intact == unpackable(content) / static_cast<std::size_t>(size + 16));
          CHECK_SAYS(said, " of " + std::to_string(content.size()));  // the byte of the file
        }
        BOOST_TEST(intact >= static_cast<std::size_t>(count) / 3);
        CHECK_SAYS(said, at + ": record " + std::to_string(intact) + " at offset " +
                             std::to_string(intact * static_cast<std::size_t>(size + 16)));
        BOOST_TEST((test::code_of(read) == error_code::data_loss));  // and no more

        const auto places = std::make_shared<std::atomic<std::uint64_t>>(0);
        std::size_t kept = 0;
        for (const auto& e [[maybe_unused]] : data::records(at, {.skip_damaged = true, .damaged = places})) ++kept;
        BOOST_TEST(kept >= intact);
        BOOST_TEST(places->load() >= 1u);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_gzip_file_may_have_several_members_and_padding) {
  folder f;
  const auto read = [&](const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    return bytes{std::istreambuf_iterator<char>(in), {}};
  };
  bytes all = read(f.packed("1.gz", as_bytes("a\nb")));
  const bytes second = read(f.packed("2.gz", as_bytes("c\nd\n"))), empty = read(f.packed("3.gz", as_bytes("")));
  all.insert(all.end(), empty.begin(), empty.end());
  all.insert(all.end(), second.begin(), second.end());
  using list = std::vector<std::string>;
  SAME(first_feature(data::lines(f.file("all.gz", all))), (list{"a", "bc", "d"}));
  bytes padded = all;
  padded.insert(padded.end(), 1000, decltype(padded)::value_type(0));
  SAME(first_feature(data::lines(f.file("padded.gz", padded))), (list{"a", "bc", "d"}));
  // A second member whose first bytes are damaged or cut off, and what was appended to a file.
  for (const std::string& rest : list{"\x1e\x8b\x08", "\x1f", "junk", {"\0\0\x1f\x8b", 4}}) {
    bytes more = all;
    for (const char c : rest) more.push_back(static_cast<bytes::value_type>(c));
    std::size_t lines = 0;
    std::string said;
    const auto read_all = [&] {
      for (const auto& e [[maybe_unused]] : data::lines(f.file("more.gz", more))) ++lines;
    };
    BOOST_TEST((test::code_of(read_all, &said) == error_code::data_loss));
    BOOST_TEST(lines == 3u);
    const std::size_t at = all.size() + rest.find_first_not_of('\0');
    CHECK_SAYS(said, "has bytes other than zeros after its compressed data at byte " + std::to_string(at) + " of ");
  }
  // What is whole comes out of text too.
  const auto broken = data::lines(f.file("cut.gz", cut(all, all.size() - 3)));
  auto i = broken.begin();
  BOOST_TEST(std::get<0>(*i) == "a");
  ++i;
  BOOST_TEST(std::get<0>(*i) == "bc");
  ++i;
  BOOST_TEST(std::get<0>(*i) == "d");
  BOOST_CHECK_EXCEPTION(++i, error, says(error_code::data_loss, "in the middle of its compressed data at byte "));
}

// A record of zeros packs to a thousandth.
BOOST_AUTO_TEST_CASE(a_record_takes_no_more_memory_than_allowed) {
  folder f;
  const std::string path = (f.path / "large.gz").string();
  {
    data::record_writer out(path, data::compression::gzip);
    out.add("small");
    out.add(std::string(1'000'000, '\0'));
    out.close();
  }
  data::record_reader file(path, {.max_record_bytes = 999'999});
  std::string record;
  BOOST_TEST(file.next(record));
  BOOST_CHECK_EXCEPTION(
      file.next(record), error,
      says(error_code::resource_exhausted, "record 1 at offset 21 has 1000000 bytes, but max_record_bytes"));
  BOOST_TEST(record.capacity() < 100'000u);
  data::record_reader enough(path, {.max_record_bytes = 1'000'000});
  BOOST_TEST((enough.next(record) && enough.next(record) && record.size() == 1'000'000u && !enough.next(record)));
}
#endif
