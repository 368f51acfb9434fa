// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include "ops/values_of.hpp"

/// Compares functions of one and two operands with named lines of values: over tensors at once, in float and double,
/// and in a graph, with extents that are numbers and with the names of `Named`, where the gradients of sum((y + 1)^2)
/// are compared too.
class image_check {
 public:
  explicit image_check(const char* path) : right_(path) {}

  template <class X, class Named, class F>
  void operator()(const std::string& name, const char* operand, F f, double tolerance = 1e-9) const {
    const auto x = right_.tensor<double, X>(operand);
    right_.check(name, f(x), tolerance);
    right_.check(name, f(weft::cast<float>(x)), 3e-5);
    const auto in_graph = [&]<class D>(D) {
      weft::graph g;
      const auto p = weft::placeholder<double, D>(g, "p");
      const auto y = weft::let(f(p));
      const auto [d] = weft::gradients(weft::sum(weft::square(y + 1)), p);
      weft::session s{g, {.threads = 2}};
      right_.check(name, s.eval(y, weft::with(p, x)), tolerance);
      right_.check(name + ".x", s.eval(d, weft::with(p, x)), tolerance);
    };
    in_graph(X{});
    in_graph(Named{});
  }

  template <class X, class W, class NamedX, class NamedW, class F>
  void operator()(const std::string& name, const char* operand, const char* second, F f,
                  double tolerance = 1e-9) const {
    const auto x = right_.tensor<double, X>(operand);
    const auto w = right_.tensor<double, W>(second);
    right_.check(name, f(x, w), tolerance);
    right_.check(name, f(weft::cast<float>(x), weft::cast<float>(w)), 3e-5);
    const auto in_graph = [&]<class D, class E>(D, E) {
      weft::graph g;
      const auto p = weft::placeholder<double, D>(g, "p");
      const auto q = weft::placeholder<double, E>(g, "q");
      const auto y = weft::let(f(p, q));
      const auto [dx, dw] = weft::gradients(weft::sum(weft::square(y + 1)), p, q);
      weft::session s{g, {.threads = 2}};
      right_.check(name, s.eval(y, weft::with(p, x), weft::with(q, w)), tolerance);
      right_.check(name + ".x", s.eval(dx, weft::with(p, x), weft::with(q, w)), tolerance);
      right_.check(name + ".w", s.eval(dw, weft::with(p, x), weft::with(q, w)), tolerance);
    };
    in_graph(X{}, W{});
    in_graph(NamedX{}, NamedW{});
  }

  const values_of& values() const { return right_; }

 private:
  values_of right_;
};
