// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <weft/control_flow.hpp>
#include <weft/summary.hpp>
#include <weft/train/optimizers.hpp>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#ifdef WEFT_HAS_ZLIB
  #include <zlib.h>
#endif

#include "data/files.hpp"
#include "errors.hpp"
#include "summary/messages.hpp"

using namespace weft;
using test::contains;
using test::message;

namespace {

/// The lines of a file of values, each a list of numbers.
std::vector<std::vector<double>> values_of(const std::string& name) {
  std::ifstream file(TEST_DATA "/summary/" + name);
  std::vector<std::vector<double>> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    all.emplace_back();
    for (std::string word; words >> word;) all.back().push_back(std::strtod(word.c_str(), nullptr));
  }
  return all;
}

/// The values of all summaries of a file.
std::vector<message> values_in(const std::string& path) {
  std::vector<message> all;
  for (const message& event : test::events(path))
    if (event.find(5))
      for (const message::field& value : event.in(5).fields) all.emplace_back(value.bytes);
  return all;
}

std::uint32_t big_endian(const std::string& s, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(s.at(at + i));
  return value;
}

/// The pixels of a PNG whose rows are not filtered, by the format's specification alone.
std::vector<double> pixels_of(const std::string& png, std::size_t height, std::size_t row) {
  BOOST_TEST(png.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  std::string data;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t size = big_endian(png, at);
    if (png.substr(at + 4, 4) == "IDAT") data += png.substr(at + 8, size);
    at += 12 + size;
  }
  std::string rows(height * (row + 1), '\0');
#ifdef WEFT_HAS_ZLIB
  uLongf size = rows.size();
  BOOST_TEST(::uncompress(reinterpret_cast<Bytef*>(rows.data()), &size, reinterpret_cast<const Bytef*>(data.data()),
                          data.size()) == Z_OK);
  BOOST_TEST(size == rows.size());
#else
  rows = data.substr(7, rows.size());  // one stored block
#endif
  std::vector<double> pixels;
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < row; ++x) pixels.push_back(static_cast<unsigned char>(rows[y * (row + 1) + 1 + x]));
  return pixels;
}

}  // namespace

BOOST_AUTO_TEST_CASE(histograms_are_those_of_tensorflow) {
  const auto lines = values_of("histogram_values.txt");
  BOOST_TEST_REQUIRE(lines.size() == 32u);
  for (std::size_t i = 0; i < lines.size(); i += 4) {
    summary_histogram counted;
    for (const double x : lines[i]) counted.add(x);
    const message m(counted.message().bytes());
    for (std::uint32_t f = 1; f <= 5; ++f) BOOST_TEST(m.real(f) == lines[i + 1][f - 1], "case " << i << " field " << f);
    BOOST_TEST(m.reals(6) == lines[i + 2], boost::test_tools::per_element());
    BOOST_TEST(m.reals(7) == lines[i + 3], boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(images_are_those_of_tensorflow) {
  folder f;
  event_writer log(f.path.string());
  const auto lines = values_of("image_values.txt");
  BOOST_TEST_REQUIRE(lines.size() == 24u);
  using image = tensor<float, dims<dyn<"h">, dyn<"w">, dyn<"c">>>;
  for (std::size_t i = 0; i < lines.size(); i += 3) {
    image x(shape(static_cast<std::int64_t>(lines[i][0]), static_cast<std::int64_t>(lines[i][1]),
                  static_cast<std::int64_t>(lines[i][2])));
    float* at = x.data();
    for (const double p : lines[i + 1]) *at++ = static_cast<float>(p);
    log.add_image("i", x, 0);
  }
  log.close();
  const auto shown = values_in(log.path());
  BOOST_TEST_REQUIRE(shown.size() == lines.size() / 3);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const message m = shown[i].in(4);
    const auto& size = lines[3 * i];
    for (std::uint32_t k = 1; k <= 3; ++k) BOOST_TEST(m.word(k) == static_cast<std::uint64_t>(size[k - 1]));
    const auto pixels =
        pixels_of(m.text(4), static_cast<std::size_t>(size[0]), static_cast<std::size_t>(size[1] * size[2]));
    BOOST_TEST(pixels == lines[3 * i + 2], boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_counted_beside_the_histogram) {
  folder f;
  event_writer log(f.path.string());
  constexpr float inf = std::numeric_limits<float>::infinity();
  log.add_histogram("w", tensor<float, dims<5>>{1, inf, -inf, std::nanf(""), 2}, 3);
  log.add_histogram("whole", tensor<std::int8_t, dims<3>>{-128, 5, 127}, 3);
  log.add_histogram("half", tensor<half, dims<2>>{half(0.5f), half(-2.f)}, 3);
  log.close();
  const auto values = values_in(log.path());
  BOOST_TEST_REQUIRE(values.size() == 4u);
  BOOST_TEST(values[0].in(5).real(3) == 2);
  BOOST_TEST(values[0].in(5).real(4) == 3);
  BOOST_TEST(values[1].text(1) == "w/not_finite");
  BOOST_TEST(values[1].single(2) == 3.f);
  BOOST_TEST(values[2].in(5).real(1) == -128);
  BOOST_TEST(values[2].in(5).real(2) == 127);
  BOOST_TEST(values[3].in(5).real(4) == -1.5);
}

BOOST_AUTO_TEST_CASE(a_tensor_is_written_as_it_was_when_it_was_added) {
  folder f;
  event_writer log(f.path.string(), {.flush_interval = std::chrono::hours(1)});
  tensor<float, dims<3>> x{1, 2, 3};
  log.add_histogram("x", x, 0);
  x.data()[0] = 100;
  log.close();
  BOOST_TEST(values_in(log.path()).at(0).in(5).real(2) == 3);
}

BOOST_AUTO_TEST_CASE(bytes_are_shown_as_they_are_and_a_batch_in_part) {
  folder f;
  event_writer log(f.path.string());
  tensor<std::uint8_t, dims<4, 1, 2, 3>> images;
  for (std::uint8_t i = 0; i < 24; ++i) images.data()[i] = static_cast<std::uint8_t>(10 * i);
  log.add_image("batch", images, 0, 2);
  log.add_image("one", images, 0, 1);
  BOOST_CHECK_EXCEPTION(log.add_image("bad", tensor<float, dims<2, 2, 2>>(), 0), error, [](const error& e) {
    return e.code() == error_code::invalid_argument && contains(e.what(), "bad: ") && contains(e.what(), "[2, 2, 2]");
  });
  log.close();
  const auto values = values_in(log.path());
  BOOST_TEST_REQUIRE(values.size() == 3u);
  BOOST_TEST(values[0].text(1) == "batch/image/0");
  BOOST_TEST(values[1].text(1) == "batch/image/1");
  BOOST_TEST(values[2].text(1) == "one/image");
  const std::vector<double> second{60, 70, 80, 90, 100, 110};
  BOOST_TEST(pixels_of(values[1].in(4).text(4), 1, 6) == second, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(summaries_are_fetched_in_a_step_under_the_names_of_their_scopes) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 2>>(g, "x");
  const auto w = variable(g, "w", tensor<float, dims<2, 2>>{1, 2, 3, 4});
  const auto loss = sum(matmul(x, w));
  const auto summaries = [&] {
    const name_scope train(g, "train");
    return merge_summaries(scalar_summary("loss", loss), histogram_summary("w", w), histogram_summary("loss_h", loss));
  }();
  const auto count = scalar_summary("count", sum(cast<std::int32_t>(x > 0)));
  const auto update = assign_add(w, w);
  session s{g};
  auto step = s.prepare(fetch(loss, summaries, update, count, merge_summaries(count)), feed(x));
  folder f;
  event_writer log(f.path.string(), {.flush_interval = std::chrono::hours(1)});
  const tensor<float, dims<dyn<"batch">, 2>> one(shape(1, 2), {1, 1}), two(shape(2, 2), {1, 0, 0, 1});
  for (int i = 0; i < 2; ++i) {
    const auto [cost, made, updated, positive, again] = i == 0 ? step(one) : step(two);
    BOOST_TEST(cost == (i == 0 ? 10.f : 20.f));
    log.add(made, 7 + i);
    log.add(positive, 7 + i);
    log.add(again, 7 + i);
  }
  log.close();
  const auto events = test::events(log.path());
  BOOST_TEST_REQUIRE(events.size() == 7u);
  BOOST_TEST(events[1].word(2) == 7u);
  BOOST_TEST(events[4].word(2) == 8u);
  const auto values = values_in(log.path());
  BOOST_TEST_REQUIRE(values.size() == 10u);
  BOOST_TEST(values[0].text(1) == "train/loss");
  BOOST_TEST(values[0].single(2) == 10.f);
  BOOST_TEST(values[1].text(1) == "train/w");
  BOOST_TEST(values[1].in(5).real(4) == 10);
  BOOST_TEST(values[2].in(5).real(4) == 10);
  BOOST_TEST(values[3].text(1) == "count");
  BOOST_TEST(values[3].single(2) == 2.f);
  BOOST_TEST(values[5].single(2) == 20.f);
  // The first step's weights, whatever the second has fetched since.
  BOOST_TEST(values[6].in(5).real(4) == 20);
}

namespace {

/// A graph with most of what a graph has.
void build(graph& g) {
  const auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  const auto w = [&] {
    const name_scope layer(g, "layer");
    const device_scope there(g, "/job:ps/task:0"_device);
    return variable<float, dims<4, 3>>(g, "w", init::normal{});
  }();
  const auto y = matmul(x, w);
  const auto z =
      cond(sum(y) > 0, [](const auto& y) { return let(y * 2.f); }, [](const auto& y) { return let(y + 1.f); }, y);
  const auto [n, r] = while_loop([](const auto& n, const auto&) { return n < 3; },
                                 [](const auto& n, const auto& r) { return std::tuple(n + 1, r * 2.f); },
                                 constant(g, 0), constant(g, 1.f));
  const control_dependencies after(g, n);
  const auto loss = mean(square(z)) + r;
  static_cast<void>(gradient_descent{.learning_rate = 0.1}.minimize(loss));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_graph_is_written_with_its_edges_devices_and_extents) {
  graph g;
  build(g);
  folder f;
  event_writer log(f.path.string());
  log.add_graph(g);
  log.close();
  const message def(test::events(log.path()).at(1).text(4));
  std::set<std::string> names;
  bool in_a_body = false;
  for (const message::field& field : def.fields)
    if (field.number == 1) {
      const message node(field.bytes);
      BOOST_TEST(names.insert(node.text(1)).second, node.text(1) << " is there twice");
      in_a_body = in_a_body || contains(node.text(1), "/body/");
    }
  BOOST_TEST(in_a_body);
  for (const message::field& field : def.fields) {
    if (field.number != 1) continue;
    const message node(field.bytes);
    for (const message::field& input : node.fields) {
      if (input.number != 3) continue;
      std::string from = input.bytes.substr(input.bytes[0] == '^');
      from = from.substr(0, from.find(':'));
      BOOST_TEST(names.count(from) == 1u, node.text(1) << " reads " << from << ", which is not there");
    }
    if (node.text(1) == "layer/w") {
      BOOST_TEST(node.text(2) == "VariableV2");
      BOOST_TEST(node.text(4) == "/job:ps/task:0");
    }
    if (node.text(1) == "x") BOOST_TEST(node.text(2) == "Placeholder");
  }
}
