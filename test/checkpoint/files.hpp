// SPDX-License-Identifier: BSL-1.0
#pragma once

// Helpers that tests of files from other libraries share.

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>
#include <weft/checkpoint/tensor_info.hpp>

#include "data/files.hpp"

/// The elements that the make_*.py files write: element i, counted in row-major order, is (7 * i) % 13 - 5, its
/// absolute value where the type has no sign, (7 * i) % 2 where it is bool.
template <class T>
T expected_element(std::size_t i) {
  const int value = static_cast<int>(7 * i % 13) - 5;
  if constexpr (std::is_same_v<T, bool>)
    return 7 * i % 2 != 0;
  else if constexpr (std::is_unsigned_v<T>)
    return static_cast<T>(value < 0 ? -value : value);
  else
    return T(static_cast<float>(value));
}

template <class T, class Dims>
bool has_expected_elements(const weft::tensor<T, Dims>& t) {
  for (std::size_t i = 0; i < t.elements(); ++i)
    if (static_cast<float>(t.data()[i]) != static_cast<float>(expected_element<T>(i))) return false;
  return true;
}

template <class Tensor>
Tensor expected_tensor(const weft::shape& extents) {
  Tensor t(extents);
  for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = expected_element<typename Tensor::value_type>(i);
  return t;
}

inline bytes bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(in.good(), path << " is not there");
  return bytes{std::istreambuf_iterator<char>(in), {}};
}

/// Runs a script of test/checkpoint by a Python that has this module; nothing where there is none. WEFT_PYTHON
/// names another one than python3.
inline void run_python(const std::string& module, const std::string& script, const std::string& arguments) {
  const char* const named = std::getenv("WEFT_PYTHON");
  const std::string python = std::string("\"") + (named ? named : "python3") + "\"";
  if (std::system((python + " -c 'import " + module + "' 2>/dev/null").c_str()) != 0) {
    BOOST_TEST_MESSAGE(python << " has no " << module << ": " << script << " is not run");
    return;
  }
  BOOST_TEST(std::system((python + " -B " TEST_DATA "/checkpoint/" + script + " " + arguments).c_str()) == 0);
}
