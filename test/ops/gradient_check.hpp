// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>
#include <weft/weft.hpp>

/// Compares gradients of any order with central finite differences, in double.
///
///     gradient_check check;
///     auto x = check.input<weft::dims<2, 3>>(0.5, 2);
///     check("log", log(x));
///
/// Below the expression itself all is done on symbols, so that a case costs the compiler that expression and no more.
class gradient_check {
 public:
  weft::graph g;
  double h = 1e-5, tolerance = 1e-6;

  /// A placeholder and its elements: uniform in [low, high], none within 0.05 of 0, where kinks are.
  template <class Dims>
  auto input(double low = -2, double high = 2, const weft::shape& extents = Dims::spec) {
    const auto x = weft::placeholder<double, Dims>(g);
    add(inputs_, x.erased(), extents, low, high);
    return x;
  }

  std::vector<double>& values(std::size_t input) { return inputs_[input].values; }

  /// A value that is fed but not differentiated.
  template <class T, class Dims>
  auto fixed(const weft::tensor<T, Dims>& value) {
    const auto x = weft::placeholder<T, Dims>(g);
    leaf l{x.erased(), value.extents(), {}, {}};
    l.raw.assign(reinterpret_cast<const char*>(value.data()),
                 reinterpret_cast<const char*>(value.data() + value.elements()));
    weights_.push_back(l);
    remember(x.erased().extents(), value.extents());
    return x;
  }

  template <class E>
  void operator()(const std::string& name, const E& y, int order = 2) {
    static_assert(std::is_same_v<weft::value_t<E>, double>);
    check(name, weft::let(y).erased(), order);
  }

 private:
  struct leaf {
    weft::symbol symbol;
    weft::shape extents;
    std::vector<double> values;
    std::vector<char> raw;
    const void* data() const { return raw.empty() ? static_cast<const void*>(values.data()) : raw.data(); }
  };

  void remember(const weft::shape& declared, const weft::shape& extents) {
    for (std::size_t i = 0; i < declared.rank; ++i)
      if (declared[i] < 0) sizes_.push_back({declared[i], extents[i]});
  }

  void add(std::vector<leaf>& to, weft::symbol s, const weft::shape& extents, double low, double high) {
    const weft::random_stream random(5, numbers_++);
    leaf l{s, extents, {}, {}};
    for (std::size_t i = 0; i < extents.elements(); ++i) {
      double v = low + (high - low) * random.uniform(i);
      if (std::abs(v) < 0.05) v = v < 0 ? -0.05 : 0.05;
      l.values.push_back(v);
    }
    to.push_back(l);
    remember(s.extents(), extents);
  }

  /// sum(v * r) with random r: tells every element of v from the others.
  weft::symbol contract(weft::symbol v) {
    weft::node_def c;
    c.op = &weft::operation_of<weft::placeholder_op>;
    c.outputs = {v.info()};
    const weft::symbol r(&g, {g.add(c, "r"), 0});
    weft::extent_bindings bindings;
    for (const auto& [code, size] : sizes_) bindings.bind(code, size);
    const weft::shape extents = bindings.resolve(g, "gradient_check", v.extents());
    add(weights_, r, extents, 0.5, 1.5);
    return sum(v * r);
  }

  void check(const std::string& name, weft::symbol y, int order) {
    g.use(weft::primitives<double>);
    weft::sequence<weft::symbol> xs;
    for (const leaf& l : inputs_) xs.push_back(l.symbol);
    weft::symbol scalar = contract(y);
    for (int k = 1; k <= order; ++k) {
      const auto gradients = weft::detail::gradients(scalar, xs);
      BOOST_TEST_CONTEXT(name << ", gradient of order " << k) { compare(scalar, gradients); }
      weft::symbol next(0);
      for (const weft::symbol& d : gradients) next = next + contract(d);
      scalar = next;
    }
  }

  void compare(weft::symbol scalar, const weft::sequence<weft::symbol>& gradients) {
    weft::plan::step_request request;
    request.fetches.push_back(scalar.id());
    for (const weft::symbol& d : gradients) request.fetches.push_back(d.id());
    std::vector<leaf*> leaves;
    for (leaf& l : inputs_) leaves.push_back(&l);
    for (leaf& l : weights_) leaves.push_back(&l);
    std::vector<weft::plan::fed_value> fed;
    for (leaf* l : leaves) {
      request.feeds.push_back(l->symbol.id());
      fed.push_back({l->data(), l->extents});
    }
    weft::session session(g, {.threads = 1});
    weft::prepared_step step(session, request);
    std::vector<std::vector<double>> found(gradients.size() + 1);
    const auto run = [&] {
      step.run(fed.data(), [&](std::size_t i, const weft::shape& extents) -> void* {
        found[i].resize(extents.elements());
        return found[i].data();
      });
      return found[0][0];
    };
    run();
    const auto exact = found;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      BOOST_REQUIRE_EQUAL(exact[i + 1].size(), inputs_[i].values.size());
      for (std::size_t e = 0; e < inputs_[i].values.size(); ++e) {
        double& x = inputs_[i].values[e];
        const double here = x;
        x = here + h;
        const double above = run();
        x = here - h;
        const double below = run();
        x = here;
        const double expected = (above - below) / (2 * h), difference = exact[i + 1][e] - expected;
        BOOST_CHECK_MESSAGE(std::abs(difference) <= tolerance * (1 + std::abs(expected)),
                            "input " << i << " element " << e << ": " << exact[i + 1][e] << " is not " << expected);
      }
    }
  }

  std::vector<leaf> inputs_, weights_;
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes_;
  std::uint64_t numbers_ = 0;
};
