// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <clocale>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;

namespace {

template <class X>
std::string streamed(const X& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

/// One array of printed_arrays.txt: its bits are repeated until it is full.
struct printed_array {
  std::string head, text;

  std::string printed() const {
    std::istringstream words(head);
    std::string type_name, extents_text;
    words >> type_name >> extents_text;
    const dtype type = type_of(type_name);
    shape extents;
    if (extents_text != "-") {
      std::istringstream numbers(extents_text);
      for (std::string number; std::getline(numbers, number, ',');) extents.push_back(std::stoll(number));
    }
    std::vector<std::uint64_t> bits;
    for (std::string word; words >> word;) bits.push_back(std::stoull(word, nullptr, 16));
    const std::size_t size = size_of(type);
    std::vector<unsigned char> data(extents.elements() * size + 1);
    for (std::size_t i = 0; i < extents.elements(); ++i)
      std::memcpy(&data[i * size], &bits[i % bits.size()], size);  // little-endian
    return detail::array_text(data.data(), type, extents);
  }

 private:
  static dtype type_of(const std::string& type) {
    for (int i = 0; i <= static_cast<int>(dtype::float64); ++i)
      if (type == name(static_cast<dtype>(i))) return static_cast<dtype>(i);
    throw std::runtime_error("unknown type " + type);
  }
};

std::vector<printed_array> printed_arrays() {
  std::ifstream in(TEST_DATA "/tensor/printed_arrays.txt");
  BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/tensor/printed_arrays.txt cannot be read");
  std::vector<printed_array> all;
  for (std::string line; std::getline(in, line);)
    if (line[0] == '|')
      all.back().text += (all.back().text.empty() ? "" : "\n") + line.substr(1);
    else
      all.push_back({line, ""});
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(arrays_are_printed_as_numpy_prints_them) {
  const std::vector<printed_array> all = printed_arrays();
  BOOST_CHECK_GE(all.size(), 800u);
  for (const printed_array& a : all)
    BOOST_CHECK_MESSAGE(a.printed() == a.text, a.head << "\nNumPy prints\n" << a.text << "\nWeft\n" << a.printed());
}

BOOST_AUTO_TEST_CASE(the_locale_changes_nothing) {
  if (!std::setlocale(LC_NUMERIC, "de_DE.UTF-8") && !std::setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
    BOOST_TEST_MESSAGE("no locale with a decimal comma is installed");
    return;
  }
  for (const printed_array& a : printed_arrays()) BOOST_CHECK_EQUAL(a.printed(), a.text);
  std::setlocale(LC_NUMERIC, "C");
}

BOOST_AUTO_TEST_CASE(tensors_views_and_expressions) {
  const tensor<float, dims<2, 3>> a{1, 2, 3, 4, 5, 6.5f};
  const std::string text = "[[1.  2.  3. ]\n [4.  5.  6.5]]";
  BOOST_CHECK_EQUAL(streamed(a), text);
  BOOST_CHECK_EQUAL(to_string(a), text);
  BOOST_CHECK_EQUAL(streamed(tensor_view<const float, dims<2, 3>>(a)), text);
  tensor<float, dims<2, 3>> b = a;
  BOOST_CHECK_EQUAL(to_string(tensor_view<float, dims<2, 3>>(b)), text);
  BOOST_CHECK_EQUAL(streamed(a * 2.0f), "[[ 2.  4.  6.]\n [ 8. 10. 13.]]");
  BOOST_CHECK_EQUAL(to_string(a > 2.5f), "[[False False  True]\n [ True  True  True]]");
  BOOST_CHECK_EQUAL(streamed(sum(a)), "21.5");
  BOOST_CHECK_EQUAL(streamed(tensor<double>(3)), "3.");
  BOOST_CHECK_EQUAL(streamed(cast<half>(a)), text);
  BOOST_CHECK_EQUAL(to_string(tensor<bfloat16, dims<2>>(cast<bfloat16>(tensor<float, dims<2>>{0.1f, 1}))), "[0.1 1. ]");
  const tensor<std::int64_t, dims<dyn<"n">>> open(shape(3), {1, -20, 300});
  BOOST_CHECK_EQUAL(streamed(open), "[  1 -20 300]");
  BOOST_CHECK_EQUAL(streamed(tensor<float, dims<dyn<"n">>>()), "[]");
  std::ostringstream wide;
  wide << std::setw(8) << open << '|' << std::setw(12) << std::left << tensor<int, dims<2>>{1, 2} << '|';
  BOOST_CHECK_EQUAL(wide.str(), "[  1 -20 300]|[1 2]       |");
}

BOOST_AUTO_TEST_CASE(extents) {
  BOOST_CHECK_EQUAL(streamed(shape(3, 784)), "[3, 784]");
  BOOST_CHECK_EQUAL(streamed(shape()), "[]");
  BOOST_CHECK_EQUAL((streamed(dims<dyn<"batch">, 10>())), "[batch, 10]");
  BOOST_CHECK_EQUAL((to_string(dims<dyn<"n"> + extent<1>, 2>())), "[n + 1, 2]");
  BOOST_CHECK_EQUAL(streamed(dims<>()), "[]");
}
