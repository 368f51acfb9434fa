// SPDX-License-Identifier: BSL-1.0
#include "errors.hpp"
#include "ops/gradient_check.hpp"

// The whole of a user's own operation: a formula, its gradient, and a function to call it by.
struct soft_sign {
  static constexpr const char* name = "soft_sign";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static V apply(V x) {
    return x / (V(1) + weft::math::abs(x));
  }
  template <class V>
  WEFT_HOST_DEVICE static V gradient(V g, V x, V) {
    const V d = V(1) + weft::math::abs(x);
    return g / (d * d);
  }
};
auto soft(const weft::Expression auto& x) { return weft::elementwise<soft_sign>(x); }

// Has two operands, and a condition and numbers in its gradients.
struct clipped_product {
  static constexpr const char* name = "clipped_product";
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return a * weft::math::minimum(b, V(1));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V, V b, V) {
    return g * weft::math::minimum(b, V(1));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V a, V b, V) {
    return g * a * weft::math::select(b < V(1), V(1), V(0));
  }
};

// One without a gradient.
struct heaviside {
  static constexpr const char* name = "heaviside";
  static constexpr bool not_differentiable = true;
  template <class V>
  WEFT_HOST_DEVICE static V apply(V x) {
    return weft::math::select(x > V(0), V(1), V(0));
  }
};

// Every function of weft::math and every operator, in a formula and in its gradient.
struct all_functions {
  static constexpr const char* name = "all_functions";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static V apply(V x) {
    namespace m = weft::math;
    const V q = x * x, p = q + V(1);
    return m::exp(x) + m::expm1(x) + m::tanh(x) + m::sigmoid(x) + m::erf(x) + m::sin(x) - m::cos(x) + p * m::sqrt(p) -
           m::pow(p, V(2.5)) +
           x * (m::log(p) - m::log1p(q) / V(2) + m::abs(x) + m::sign(x) + m::floor(x) + m::maximum(x, V(0.3)) +
                m::minimum(x, V(0.4)) + m::select(x != V(1), x, V(0)));
  }
  template <class V>
  WEFT_HOST_DEVICE static V gradient(V g, V x, V) {
    namespace m = weft::math;
    const V q = x * x, p = q + V(1), t = m::tanh(x), s = m::sigmoid(x);
    const V more = V(1.1283791670955126) * m::exp(-q) + m::cos(x) + m::sin(x);
    const V smooth = more + m::exp(x) + m::expm1(x) + V(1) + (V(1) - t * t) + s * (V(1) - s) + V(3) * x * m::sqrt(p) -
                     V(5) * x * m::pow(p, V(1.5)) + m::log(p) - m::log1p(q) / V(2) + q / p;
    const V edges = V(2) * m::abs(x) + m::sign(x) + m::floor(x) + m::maximum(x, V(0.3)) + m::minimum(x, V(0.4)) +
                    m::select(!(x < V(0.3)), x, V(0)) + m::select(x <= V(0.4), x, V(0)) +
                    m::select(x != V(1), V(2) * x, V(0));
    return g * (smooth + m::select(x > V(-9), edges, -edges) + m::select(x >= V(9), V(1), V(0)));
  }
};

using namespace weft;

BOOST_AUTO_TEST_CASE(every_function_of_math) {
  gradient_check check;
  check("all functions", elementwise<all_functions>(check.input<dims<2, 3>>()), 3);
  graph g;
  const symbol x = placeholder<double>(g, "x").erased();
  g.use(primitives_in<double, primitive_set(primitive::expm1, primitive::log1p)>);
  session s{g, {.threads = 1}};
  for (const double tiny : {1e-12, 1e-20}) {  // they keep their digits in symbols too
    BOOST_CHECK_CLOSE(s.eval(node<double>(math::expm1(x)), with(node<double>(x), tiny)), tiny, 1e-9);
    BOOST_CHECK_CLOSE(s.eval(node<double>(math::log1p(x)), with(node<double>(x), tiny)), tiny, 1e-9);
  }
}

namespace {

// The operand, copied, with a gradient of its own that is written in a function of math.
struct named_op {
  static constexpr const char* name = "named";
  static constexpr primitive_set gradient_uses{primitive::tanh};
  static strided_copies copies(const prepare_context& p) {
    box_copies all(p);
    all.copy(p.inputs[0].extents, 0, {}, 0, {});
    return all;
  }
  static void gradient(gradient_context& g) { g.set_gradient(0, g.upstream() * math::tanh(g.input(0))); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_operation_names_the_functions_of_its_gradient) {
  graph g;
  const auto x = variable<double, dims<2>>(g, "x", tensor<double, dims<2>>{0.5, -2});
  const auto called = [&]<class Op>(Op) { return call_operation<Op, double, dims<2>>(shape(2), {}, x); };
  const auto [dx] = gradients(sum(called(named_op())), x);
  session s{g, {.threads = 1}};
  const auto found = s.eval(dx);
  BOOST_CHECK_CLOSE(found(0), std::tanh(0.5), 1e-9);
  BOOST_CHECK_CLOSE(found(1), std::tanh(-2.0), 1e-9);
}

BOOST_AUTO_TEST_CASE(gradients_of_any_order) {
  gradient_check check;
  const auto x = check.input<dims<2, 3>>();
  const auto w = check.input<dims<3>>();
  check("soft_sign", soft(x), 3);
  check("fused among others", tanh(soft(x * w) + 0.5) * x);
  check("inside a reduction", mean<0>(soft(x) * w));
  check("two operands", elementwise<clipped_product>(x, w), 3);
}

// Whatever else is fused with it, and reduced.
BOOST_AUTO_TEST_CASE(an_operation_without_gradient_is_an_error_where_one_is_asked_for) {
  graph g;
  const auto x = placeholder<float, dims<2, 3>>(g, "x");
  const auto y = placeholder<float, dims<3>>(g, "y");
  const auto z = weft::elementwise<heaviside>(x);
  const auto refused = [](const auto& of, const auto& by) {
    CHECK_SAYS(test::failure(error_code::unimplemented, [&] { static_cast<void>(gradients(of, by)); }),
               "heaviside(a0)");
  };
  refused(z, x), refused(z * y, x), refused(z * x, x);
  refused(sum(z), x), refused(sum(z * y), x), refused(max(z), x), refused(max(z * y), x);
  refused(std::get<0>(gradients(sum(z * y), y)), x);

  const auto [dy] = gradients(sum(z * y), y);
  const auto [chosen] = gradients(max(select(z > 0, y, 1)), x);  // a condition passes no gradient
  const auto [compared] = gradients(max(cast<float>(x > y)) + min(cast<float>(x > y)), x);
  session s{g, {.threads = 1}};
  const auto [a, b, c] = s.run(fetch(dy, chosen, compared), with(x, tensor<float, dims<2, 3>>{1, -1, 2, 3, -4, 5}),
                               with(y, tensor<float, dims<3>>{1, 2, 3}));
  BOOST_CHECK(a(0) == 2 && a(1) == 0 && a(2) == 2);
  for (const float e : b) BOOST_CHECK_EQUAL(e, 0);
  for (const float e : c) BOOST_CHECK_EQUAL(e, 0);
}

BOOST_AUTO_TEST_CASE(without_a_graph) {
  const tensor<float, dims<2>> x{1, -3};
  const auto y = eval(soft(x) * 4.0f);
  BOOST_CHECK_EQUAL(y(0), 2);
  BOOST_CHECK_EQUAL(y(1), -3);
}

BOOST_AUTO_TEST_CASE(in_a_session) {
  graph g;
  const auto w = variable<float, dims<3>>(g, "w", tensor<float, dims<3>>{1, 2, -3});
  const auto loss = sum(soft(w));
  const auto train = gradient_descent{.learning_rate = 1}.minimize(loss);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(loss, train));
  const auto [cost, none] = step();
  BOOST_CHECK_CLOSE(cost, 0.5f + 2.0f / 3 - 0.75f, 1e-4);
  BOOST_CHECK_CLOSE(s.eval(w)(2), -3 - 1.0f / 16, 1e-4);
  CHECK_SAYS(explain(step), "soft_sign(a0)");
}

namespace {

// Writes two variables, and yields besides the first one's new value what was there before, and a sum.
class swap_kernel final : public kernel {
 public:
  explicit swap_kernel(const prepare_context& p) {
    for (std::size_t i = 0; i < 2; ++i) variables_[i] = p.input_slots[i];
    for (std::size_t i = 0; i < 2; ++i) others_[i] = p.output_slots[1 + i];
    elements_ = p.inputs[0].extents.elements();
    same_ = p.output_slots[0] == p.input_slots[0];
  }
  void run(const kernel_context& f) override {
    const auto at = [&](std::uint32_t slot) { return reinterpret_cast<float*>(f.buffers[slot]); };
    *at(others_[1]) = 0;
    for (std::size_t i = 0; i < elements_; ++i) {
      float &a = at(variables_[0])[i], &b = at(variables_[1])[i];
      at(others_[0])[i] = a;
      *at(others_[1]) += a + b;
      std::swap(a, b);
    }
  }
  std::string describe() const override { return same_ ? "swap" : "not in place"; }

 private:
  std::uint32_t variables_[2], others_[2];
  std::size_t elements_;
  bool same_;
};

template <operand_use Use>
struct swap_op {
  static constexpr const char* name = Use == operand_use::update ? "swap" : "fill_both";
  static constexpr bool writes = true;
  static kernel* prepare(const prepare_context& p) { return new swap_kernel(p); }
  static constexpr operand_use use(const node_def&, std::size_t) { return Use; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_operation_that_writes_yields_other_values_too) {
  using vec = dims<3>;
  graph g;
  const auto a = variable<float, vec>(g, "a", tensor<float, vec>{1, 2, 3});
  const auto b = variable<float, vec>(g, "b", init::none{});
  const auto start = assign(b, tensor<float, vec>{10, 20, 30});
  node_def c;
  c.op = &operation_of<swap_op<operand_use::update>>;
  c.inputs = {a.id(), b.id()};
  c.outputs = {{dtype::float32, vec::spec}, {dtype::float32, vec::spec}, {dtype::float32, {}}};
  const std::uint32_t n = g.add(static_cast<node_def&&>(c), "swap");
  const auto output = [&](std::uint32_t k) { return symbol(&g, {n, k}); };
  const node<float, vec> now(output(0)), before(output(1));
  const node<float> total(output(2));

  session s{g, {.threads = 1}};
  s.run(fetch(start));
  auto step = s.prepare(fetch(now, before, total, sum(before * 2.0f) + total));
  for (int i = 0; i < 3; ++i) {
    const auto [after, old, all, more] = step();
    const bool first = i % 2 == 0;
    BOOST_CHECK_EQUAL(after(1), first ? 20 : 2);
    BOOST_CHECK_EQUAL(old(1), first ? 2 : 20);
    BOOST_CHECK_EQUAL(all, 66);
    BOOST_CHECK_EQUAL(more, 66 + (first ? 12 : 120));
  }
  BOOST_CHECK_EQUAL(s.get(a)(2), 30);
  BOOST_CHECK_EQUAL(s.get(b)(2), 3);

  // A session then knows that all variables that the operation writes have values.
  graph h;
  const auto p = variable<float, vec>(h, "p", init::none{}), q = variable<float, vec>(h, "q", init::none{});
  node_def d;
  d.op = &operation_of<swap_op<operand_use::write>>;
  d.inputs = {p.id(), q.id()};
  d.outputs = {{dtype::float32, vec::spec}, {dtype::float32, vec::spec}, {dtype::float32, {}}};
  const node<float, vec> filled(symbol(&h, {h.add(static_cast<node_def&&>(d), "fill"), 0}));
  session t{h, {.threads = 1}};
  t.run(fetch(filled));
  static_cast<void>(t.get(p));
  static_cast<void>(t.get(q));
}
