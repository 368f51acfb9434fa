// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include <weft/checkpoint/npy.hpp>
#include <weft/onnx/save_onnx.hpp>
#include <weft/weft.hpp>

#include "data/files.hpp"

namespace test {

/// Writes models and the values that a session computes, which ONNX Runtime then computes, too (check_exported.py).
class exported_models {
 public:
  exported_models() = default;
  ~exported_models() {
    const char* python = std::getenv("WEFT_PYTHON");
    const std::string peers = "build/peers/torch/bin/python";
    const std::string command = "\"" +
                                std::string(python                           ? python
                                            : std::filesystem::exists(peers) ? peers
                                                                             : "python3") +
                                "\" -B " TEST_DATA "/onnx/check_exported.py " + folder_.path.string();
    const int status = std::system(command.c_str());
    constexpr int skipped = 77;
    BOOST_TEST(WIFEXITED(status));
    if (WEXITSTATUS(status) != skipped) BOOST_TEST(WEXITSTATUS(status) == 0);
  }

  weft::onnx_options options;  ///< of models that are added
  double tolerance = 1e-4;

  /// Exports the values, and checks the operators, "Add Relu", sorted, unless the text is empty.
  template <class... F, class... P, class... X>
  void add(const std::string& name, weft::session& s, const weft::fetch_list<F...>& fetches,
           const weft::feed_list<P...>& feeds, const std::string& operators, const X&... given) {
    BOOST_TEST_CONTEXT(name) {
      const std::string path = (folder_.path / name).string();
      weft::save_onnx(path + ".onnx", s, fetches, feeds, options);
      std::ofstream(path + ".tolerance") << tolerance;
      const weft::onnx::model m = weft::onnx::read_model(path + ".onnx");
      if (!operators.empty()) BOOST_TEST(operators_of(m.main) == operators);
      auto step = s.prepare(fetches, feeds);
      std::size_t k = 0;
      const auto write = [&](const char* role, const auto& value) {
        write_value(weft::str_cat({path, ".", role, k++, ".npy"}), value);
      };
      (write("in", given), ...);
      const auto results = step(given...);
      k = 0;
      if constexpr (sizeof...(F) == 1)
        write("out", results);
      else
        std::apply([&](const auto&... r) { (write("out", r), ...); }, results);
    }
  }

  /// The number of nodes of each operator.
  static std::string operators_of(const weft::onnx::graph& g) {
    std::map<std::string, int> counts;
    for (const auto& n : g.nodes) ++counts[n.op_type];
    std::string text;
    for (const auto& [name, count] : counts)
      weft::append(text, {text.empty() ? "" : " ", name, count > 1 ? weft::str_cat({" ", count}) : std::string()});
    return text;
  }

 private:
  template <class T, class D>
  static void write_value(const std::string& path, const weft::tensor<T, D>& t) {
    weft::write_npy(path, t);
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  static void write_value(const std::string& path, T number) {
    weft::write_npy(path, weft::tensor<T>(number));
  }

  folder folder_;
};

/// Numbers of about 1 with both signs, in no order.
template <class Tensor>
Tensor some(double scale = 1, const weft::shape& extents = weft::dims_t<Tensor>::spec) {
  Tensor t(extents);
  for (std::size_t i = 0; i < t.elements(); ++i)
    t.data()[i] = static_cast<weft::value_t<Tensor>>(scale * std::sin(1.7 * static_cast<double>(i) + 0.3));
  return t;
}

}  // namespace test
