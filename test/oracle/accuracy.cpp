// SPDX-License-Identifier: BSL-1.0
#include "accuracy.hpp"
#include "functions.hpp"

using namespace weft;
using namespace accuracy;

// Every operation and its gradient, on shapes and values at random and on values at the edges, against the mathematical
// definition in long double by plain loops. The worst errors are held to bounds of about twice what was measured.
//
//   WEFT_ACCURACY_TABLE=docs/reference/accuracy.md WEFT_ISA=avx2 test_oracle_accuracy      writes that instruction set's column

namespace {

// ---- of one operand ----

const std::pair<int, int> matrices[] = {{0, 5},  {7, 0},   {1, 1},   {1, 2},    {2, 1},    {3, 5},
                                        {1, 64}, {13, 17}, {31, 33}, {1, 4099}, {4099, 1}, {97, 101}};

/// An argument of whatever bits, of moderate size, near 0, 1 and the multiples of ln 2 / 2, and the edges.
template <class T>
T argument(source& s, const std::vector<T>& edge, std::size_t i) {
  if (i < edge.size()) return edge[i];
  switch (i % 6) {
    case 0:
      return s.any<T>();
    case 1:
      return static_cast<T>(s.in(-10, 10));
    case 2:
      return static_cast<T>(s.in(-110, 110) * (sizeof(T) == 4 ? 1 : 7));
    case 3:
      return static_cast<T>(1 + s.in(-1, 1) * std::ldexp(1.0, -static_cast<int>(s.below(24))));
    case 4:
      return static_cast<T>(s.in(-1, 1) * std::ldexp(1.0, -static_cast<int>(s.below(30))));
    default:
      return static_cast<T>(static_cast<double>(s.below(64)) * 0.34657359027997264 + s.in(-1e-6, 1e-6));
  }
}

/// Where neither the operand nor the gradient comes near the ends of the range: there products on the way overflow.
bool moderate(real x) { return x == 0 || x != x || std::isinf(x) || (std::abs(x) > 0x1p-60L && std::abs(x) < 0x1p60L); }

using functions::derived;

// The code that depends on the operation's type is small, so that the rest is compiled once.

template <class T>
using at_once_of_one = numbers (*)(const data<T>&);
template <class T>
using at_once_of_two = numbers (*)(const data<T>&, const data<T>&);

template <class T>
void check_forward(const char* name, double bound, runner run, at_once_of_one<T> eager, real (*reference)(real),
                   real (*magnitude)(real)) {
  row& value = measure<T>(name, "value", magnitude ? unit::magnitudes : unit::result, bound);
  source random(1);
  std::size_t next = 0;
  const std::vector<T> edge = edges<T>();
  for (const auto& [rows, columns] : matrices) {
    data<T> d = random.uniform<T>(shape(rows, columns), 0, 1);
    for (T& e : d.v) e = argument(random, edge, next++);
    const numbers found = run(d)[0].v;
    same(name, eager(d), found);
    for (std::size_t i = 0; i < d.size(); ++i) {
      const real expected = reference(real(d.v[i]));
      value.template add<T>(found[i], expected, magnitude ? magnitude(real(d.v[i])) : expected,
                            {"of ", double(d.v[i])});
      if (expected == 0 && found[i] == 0 && std::signbit(expected) != std::signbit(found[i]))
        BOOST_ERROR(name << " of " << d.v[i] << " is a zero of the wrong sign");
    }
  }
  check(value);
}

template <class T, class Op>
void forward(const char* name, double bound, Op op, real (*reference)(real), real (*magnitude)(real) = nullptr) {
  graph g;
  const auto x = placeholder<T, matrix>(g);
  const auto y = let(op(x));
  check_forward<T>(
      name, bound, {g, {x.erased()}, {y.erased()}},
      [](const data<T>& d) { return at_once(eval(Op{}(d.template as<matrix>()))); }, reference, magnitude);
}

template <class T>
void check_gradient(const char* name, double gradient_bound, runner run, real (*reference)(real),
                    derived (*derivative)(real, real)) {
  const bool of_magnitudes = derivative(real(0.5), real(1)).magnitude != 0;
  row& gradient = measure<T>(name, "gradient", of_magnitudes ? unit::magnitudes : unit::result, gradient_bound);
  source random(2);
  std::size_t next = 0;
  const std::vector<T> edge = edges<T>();
  for (const auto& [rows, columns] : matrices) {
    data<T> d = random.uniform<T>(shape(rows, columns), 0, 1);
    for (T& e : d.v) e = argument(random, edge, next++);
    const data<T> upstream = random.upstream<T>(d.extents);
    const numbers found = run(d, upstream)[0].v;
    for (std::size_t i = 0; i < d.size(); ++i) {
      const derived right = derivative(real(d.v[i]), real(upstream.v[i]));
      if (!moderate(d.v[i]) || !moderate(right.gradient) || !moderate(reference(real(d.v[i])))) continue;
      gradient.template add<T>(found[i], right.gradient, right.magnitude != 0 ? right.magnitude : right.gradient,
                               {"of ", double(d.v[i])});
    }
  }
  check(gradient);
}

template <class T, class Op>
void unary(const char* name, double bound, double gradient_bound, Op op, real (*reference)(real),
           derived (*derivative)(real, real), real (*magnitude)(real) = nullptr) {
  forward<T>(name, bound, op, reference, magnitude);
  graph g;
  const auto x = placeholder<T, matrix>(g), up = placeholder<T, matrix>(g);
  const auto y = let(op(x));
  g.use(primitives<T>);
  check_gradient<T>(name, gradient_bound,
                    {g, {x.erased(), up.erased()}, {g.differentiate({y.erased()}, {up.erased()}, {x.erased()})[0]}},
                    reference, derivative);
}

/// Functions of <weft/device/cpu/math.hpp> that users' operations call.
struct log1p_operation {
  static constexpr const char* name = "log1p";
  static constexpr bool cheap = false, floating_only = true, not_differentiable = true;
  template <class V>
  static V apply(V x) {
    return math::log1p(x);
  }
};
struct expm1_operation {
  static constexpr const char* name = "expm1";
  static constexpr bool cheap = false, floating_only = true, not_differentiable = true;
  template <class V>
  static V apply(V x) {
    return math::expm1(x);
  }
};
struct exp_of_minus_square_operation {
  static constexpr const char* name = "exp_of_minus_square";
  static constexpr bool cheap = false, floating_only = true, not_differentiable = true;
  template <class V>
  static V apply(V x) {
    return math::exp_of_minus_square(x);
  }
};

}  // namespace

#define OF(function) [](const auto& x) { return function(x); }

BOOST_AUTO_TEST_CASE(of_one_operand) {
  using T = float;
  unary<T>(
      "negate", 0, 0, OF(-), [](real x) { return -x; },
      [](real, real g) {
        return derived{-g, 0};
      });
  functions::each([]<class F>(F, const functions::row& right) {
    unary<T>(F::name, right.ulp, right.gradient_ulp, OF(elementwise<F>), right.value, right.gradient,
             right.magnitude);
  });
  forward<T>("math::log1p", 3, OF(elementwise<log1p_operation>), [](real x) { return std::log1p(x); });
  forward<T>("math::expm1", 2.5, OF(elementwise<expm1_operation>), [](real x) { return std::expm1(x); });
  forward<T>("math::exp_of_minus_square", 3, OF(elementwise<exp_of_minus_square_operation>),
             functions::exp_of_minus_square);
}

BOOST_AUTO_TEST_CASE(of_one_operand_in_double) {
  using T = double;
  functions::each([]<class F>(F, const functions::row& right) {
    if constexpr (functions::expected<F>.ulp_in_double != functions::none)
      forward<T>(F::name, right.ulp_in_double, OF(elementwise<F>), right.value);
  });
  forward<T>("math::exp_of_minus_square", 3, OF(elementwise<exp_of_minus_square_operation>),
             functions::exp_of_minus_square);
}

// ---- of two operands, which broadcast ----

namespace {

struct derived2 {
  real value, a, b;  // and what the result's gradient is multiplied by on its way to each operand
};

/// The type of an operand that has the axes of [a, b, c] whose bits are set: bit i is axis i.
template <unsigned Axes>
struct broadcast_operand;
template <>
struct broadcast_operand<7> {
  using type = cube;
};
template <>
struct broadcast_operand<6> {
  using type = dims<extent_b{}, extent_c{}>;
};
template <>
struct broadcast_operand<5> {
  using type = dims<extent_a{}, 1, extent_c{}>;
};
template <>
struct broadcast_operand<4> {
  using type = dims<extent_c{}>;
};
template <>
struct broadcast_operand<3> {
  using type = dims<extent_a{}, extent_b{}, 1>;
};
template <>
struct broadcast_operand<1> {
  using type = dims<extent_a{}, 1, 1>;
};
template <>
struct broadcast_operand<0> {
  using type = dims<>;
};

/// Its extents: no ones before its first axis.
shape extents_of_operand(unsigned axes, const shape& s) {
  shape extents;
  for (unsigned axis = 0; axis < 3; ++axis)
    if ((axes >> axis) & 1)
      extents.push_back(s[axis]);
    else if (extents.rank > 0)
      extents.push_back(1);
  return extents;
}

/// Where the operand's element lies that meets element (i, j, k).
struct place {
  std::size_t step[3];

  place(unsigned axes, const shape& s) {
    std::size_t n = 1;
    for (int axis = 2; axis >= 0; --axis) {
      step[axis] = (axes >> axis) & 1 ? n : 0;
      if ((axes >> axis) & 1) n *= static_cast<std::size_t>(s[static_cast<std::size_t>(axis)]);
    }
  }
  std::size_t operator()(std::size_t i, std::size_t j, std::size_t k) const {
    return i * step[0] + j * step[1] + k * step[2];
  }
};

struct bounds2 {
  double value, gradient;
};

template <class T>
void check_broadcast(const char* name, bounds2 bound, double low, unsigned axes_a, unsigned axes_b, runner run,
                     at_once_of_two<T> eager, derived2 (*reference)(real, real)) {
  row& value = measure<T>(name, "value", unit::result, bound.value);
  row& gradient = measure<T>(name, "gradient", unit::magnitudes, bound.gradient);
  source random(axes_a * 8 + axes_b);
  for (const shape& s : cubes) {
    const auto da = random.uniform<T>(extents_of_operand(axes_a, s), low, 3);
    const auto db = random.uniform<T>(extents_of_operand(axes_b, s), 0.25, 2);
    const auto dup = random.upstream<T>(s);
    const auto found = run(da, db, dup);
    const where at{"axes ", double(axes_a), " and ", double(axes_b), &s};
    same(name, eager(da, db), found[0].v);
    const place in_a(axes_a, s), in_b(axes_b, s);
    sums right_a(da.size()), right_b(db.size());
    each(s, [&](std::size_t i, std::size_t j, std::size_t k, std::size_t e) {
      const std::size_t ia = in_a(i, j, k), ib = in_b(i, j, k);
      const derived2 right = reference(real(da.v[ia]), real(db.v[ib]));
      value.add<T>(found[0].v[e], right.value, right.value, at);
      right_a.add(ia, right.a * real(dup.v[e]));
      right_b.add(ib, right.b * real(dup.v[e]));
    });
    compare<T>(gradient, found[1].v, right_a, at);
    compare<T>(gradient, found[2].v, right_b, at);
  }
  check(value), check(gradient);
}

/// Values of moderate size on all shapes, with gradients. Negative first operands are of no use to pow: they are at
/// least `low`.
template <class T, unsigned AxesA, unsigned AxesB, class Op>
void broadcast(const char* name, bounds2 bound, double low, Op op, derived2 (*reference)(real, real)) {
  using A = typename broadcast_operand<AxesA>::type;
  using B = typename broadcast_operand<AxesB>::type;
  graph g;
  const auto a = placeholder<T, A>(g);
  const auto b = placeholder<T, B>(g);
  const auto y = let(op(a, b));
  const auto up = placeholder<T, dims_t<decltype(y)>>(g);
  g.use(primitives<T>);
  const auto d = g.differentiate({y.erased()}, {up.erased()}, {a.erased(), b.erased()});
  check_broadcast<T>(
      name, bound, low, AxesA, AxesB, {g, {a.erased(), b.erased(), up.erased()}, {y.erased(), d[0], d[1]}},
      [](const data<T>& x, const data<T>& w) { return at_once(eval(Op{}(x.template as<A>(), w.template as<B>()))); },
      reference);
}

/// Gradients where the operands are of very different sizes, or near 1. Those of pow: the first from 2^-20 to 2^20, the
/// second from -3 to 3.
template <class T, class Op>
void wide(const char* name, double bound, bool power, Op op, derived2 (*reference)(real, real)) {
  row& gradient = measure<T>(name, "gradient, wide range", unit::result, bound);
  graph g;
  const auto a = placeholder<T, matrix>(g), b = placeholder<T, matrix>(g), up = placeholder<T, matrix>(g);
  const auto y = let(op(a, b));
  g.use(primitives<T>);
  const auto d = g.differentiate({y.erased()}, {up.erased()}, {a.erased(), b.erased()});
  runner run(g, {a.erased(), b.erased(), up.erased()}, {d[0], d[1]});
  source random(4);
  const shape s(83, 97);
  data<T> da = random.uniform<T>(s, -20, 20), db = random.uniform<T>(s, -20, 20);
  const data<T> dup = random.upstream<T>(s);
  for (std::size_t i = 0; i < da.size(); ++i) {
    da.v[i] = i % 7 == 0 ? static_cast<T>(1 + std::ldexp(double(da.v[i]), -24)) : std::exp2(da.v[i]);
    db.v[i] = power ? db.v[i] * T(0.15) : std::exp2(db.v[i]);
    if (!power && random.below(2)) da.v[i] = -da.v[i];
    if (!power && random.below(2)) db.v[i] = -db.v[i];
  }
  const auto found = run(da, db, dup);
  for (std::size_t i = 0; i < da.size(); ++i) {
    const derived2 right = reference(real(da.v[i]), real(db.v[i]));
    const real u = dup.v[i];
    gradient.add<T>(found[0].v[i], u * right.a, u * right.a, {"a of ", double(da.v[i]), " and ", double(db.v[i])});
    gradient.add<T>(found[1].v[i], u * right.b, u * right.b, {"b of ", double(da.v[i]), " and ", double(db.v[i])});
  }
  check(gradient);
}

/// Pairs of edges, and of whatever bits; values alone.
template <class T>
void check_pairs(const char* name, double bound, runner run, at_once_of_two<T> eager, real (*reference)(real, real),
                 bool signs) {
  row& value = measure<T>(name, "value", unit::result, bound);
  const std::vector<T> edge = edges<T>();
  const std::size_t n = edge.size();
  source random(3);
  data<T> da = random.uniform<T>(shape(static_cast<int>(n), static_cast<int>(n) * 3), -20, 20), db = da;
  for (std::size_t i = 0; i < n * n; ++i) {
    da.v[i] = edge[i / n], db.v[i] = edge[i % n];
    da.v[n * n + i] = random.any<T>(), db.v[n * n + i] = random.any<T>();
    da.v[2 * n * n + i] = argument(random, edge, n + i), db.v[2 * n * n + i] = static_cast<T>(random.in(-3, 3));
  }
  const numbers found = run(da, db)[0].v;
  same(name, eager(da, db), found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const real expected = reference(real(da.v[i]), real(db.v[i]));
    value.template add<T>(found[i], expected, expected, {"of ", double(da.v[i]), " and ", double(db.v[i])});
    if (signs && expected == 0 && found[i] == 0 && std::signbit(expected) != std::signbit(found[i]))
      BOOST_ERROR(name << " of " << da.v[i] << " and " << db.v[i] << " is a zero of the wrong sign");
  }
  check(value);
}

template <class T, class Op>
void pairs(const char* name, double bound, Op op, real (*reference)(real, real), bool signs = true) {
  graph g;
  const auto a = placeholder<T, matrix>(g), b = placeholder<T, matrix>(g);
  const auto y = let(op(a, b));
  check_pairs<T>(
      name, bound, {g, {a.erased(), b.erased()}, {y.erased()}},
      [](const data<T>& x, const data<T>& w) {
        return at_once(eval(Op{}(x.template as<matrix>(), w.template as<matrix>())));
      },
      reference, signs);
}

real larger(real a, real b) { return a != a || b != b ? a + b : a > b ? a : b; }
real smaller(real a, real b) { return a != a || b != b ? a + b : a < b ? a : b; }

}  // namespace

#define OF2(expression) [](const auto& a, const auto& b) { return expression; }

BOOST_AUTO_TEST_CASE(of_two_operands) {
  using T = float;
  const auto quotient = [](real a, real b) { return derived2{a / b, 1 / b, -a / (b * b)}; };
  broadcast<T, 7, 7>("divide", {1, 4.5}, -3, OF2(a / b), quotient);
  broadcast<T, 7, 6>("divide", {1, 4.5}, -3, OF2(a / b), quotient);
  broadcast<T, 4, 7>("divide", {1, 4.5}, -3, OF2(a / b), quotient);
  broadcast<T, 7, 3>("divide", {1, 4.5}, -3, OF2(a / b), quotient);
  broadcast<T, 1, 7>("divide", {1, 4.5}, -3, OF2(a / b), quotient);
  broadcast<T, 7, 0>("divide", {1, 4.5}, -3, OF2(a / b), quotient);
  broadcast<T, 5, 3>("divide", {1, 4.5}, -3, OF2(a / b), quotient);
  const auto sum = [](real a, real b) { return derived2{a + b, 1, 1}; };
  broadcast<T, 7, 7>("add", {1, 3.5}, -3, OF2(a + b), sum);
  broadcast<T, 7, 4>("add", {1, 3.5}, -3, OF2(a + b), sum);
  const auto difference = [](real a, real b) { return derived2{a - b, 1, -1}; };
  broadcast<T, 7, 7>("subtract", {1, 3.5}, -3, OF2(a - b), difference);
  broadcast<T, 3, 7>("subtract", {1, 3.5}, -3, OF2(a - b), difference);
  const auto product = [](real a, real b) { return derived2{a * b, b, a}; };
  broadcast<T, 7, 7>("multiply", {1, 3.5}, -3, OF2(a * b), product);
  broadcast<T, 7, 4>("multiply", {1, 3.5}, -3, OF2(a * b), product);
  broadcast<T, 0, 7>("multiply", {1, 3.5}, -3, OF2(a * b), product);
  const auto power = [](real a, real b) {
    return derived2{std::pow(a, b), b * std::pow(a, b - 1), std::pow(a, b) * std::log(a)};
  };
  broadcast<T, 7, 7>("pow", {1, 5.5}, 0.01, OF2(weft::pow(a, b)), power);
  broadcast<T, 7, 4>("pow", {1, 5.5}, 0.01, OF2(weft::pow(a, b)), power);
  wide<T>("divide", 4.5, false, OF2(a / b), quotient);
  wide<T>("multiply", 1, false, OF2(a * b), product);
  wide<T>("pow", 50, true, OF2(weft::pow(a, b)), power);
  const auto maximum_of = [](real a, real b) { return derived2{larger(a, b), real(a >= b), real(!(a >= b))}; };
  broadcast<T, 7, 7>("maximum", {0, 2.5}, -3, OF2(maximum(a, b)), maximum_of);
  broadcast<T, 4, 7>("maximum", {0, 2.5}, -3, OF2(maximum(a, b)), maximum_of);
  const auto minimum_of = [](real a, real b) { return derived2{smaller(a, b), real(a <= b), real(!(a <= b))}; };
  broadcast<T, 7, 7>("minimum", {0, 0}, -3, OF2(minimum(a, b)), minimum_of);
  const auto chosen = [](real a, real b) { return derived2{a < 2 * b ? a : b, real(a < 2 * b), real(!(a < 2 * b))}; };
  broadcast<T, 7, 7>("select", {0, 4}, -3, OF2(select(a < b + b, a, b)), chosen);
  broadcast<T, 7, 3>("select", {0, 4}, -3, OF2(select(a < b + b, a, b)), chosen);
}

BOOST_AUTO_TEST_CASE(of_pairs_of_edges) {
  using T = float;
  pairs<T>("add", 1, OF2(a + b), [](real a, real b) -> real { return a + b; });
  pairs<T>("subtract", 1, OF2(a - b), [](real a, real b) -> real { return a - b; });
  pairs<T>("multiply", 1, OF2(a * b), [](real a, real b) -> real { return a * b; });
  pairs<T>("divide", 1, OF2(a / b), [](real a, real b) -> real { return a / b; });
  pairs<T>("pow", 1, OF2(weft::pow(a, b)), [](real a, real b) -> real { return std::pow(a, b); });
  pairs<T>("maximum", 0, OF2(maximum(a, b)), larger, false);
  pairs<T>("minimum", 0, OF2(minimum(a, b)), smaller, false);
  pairs<T>("less", 0, OF2(a < b), [](real a, real b) -> real { return a < b; });
  pairs<T>("less_equal", 0, OF2(a <= b), [](real a, real b) -> real { return a <= b; });
  pairs<T>("greater", 0, OF2(a > b), [](real a, real b) -> real { return a > b; });
  pairs<T>("greater_equal", 0, OF2(a >= b), [](real a, real b) -> real { return a >= b; });
  pairs<T>("equal", 0, OF2(a == b), [](real a, real b) -> real { return a == b; });
  pairs<T>("not_equal", 0, OF2(a != b), [](real a, real b) -> real { return a != b; });
  pairs<T>("logical operations", 0, OF2((a < b && !(a == b)) || b > a), [](real a, real b) -> real { return a < b; });
  pairs<T>("cast to double", 1, OF2(cast<double>(a) + cast<double>(b)),
           [](real a, real b) { return real(static_cast<double>(a + b)); });
}

// Gradients where a formula divides by 0 or the operands are equal: as TensorFlow's, which formulas.hpp states.
BOOST_AUTO_TEST_CASE(gradients_at_edges_of_two_operands) {
  constexpr float inf = std::numeric_limits<float>::infinity(), no = std::numeric_limits<float>::quiet_NaN();
  struct right {
    float a, b, da, db;
  };
  const auto check_all = [&](const char* name, const auto& op, std::initializer_list<right> cases) {
    using T = float;
    graph g;
    const auto a = placeholder<T, matrix>(g), b = placeholder<T, matrix>(g), up = placeholder<T, matrix>(g);
    const auto y = let(op(a, b));
    g.use(primitives<T>);
    const auto d = g.differentiate({y.erased()}, {up.erased()}, {a.erased(), b.erased()});
    runner run(g, {a.erased(), b.erased(), up.erased()}, {d[0], d[1]});
    for (const right& r : cases) {
      const auto found = run(data<T>{shape(1, 1), {r.a}}, data<T>{shape(1, 1), {r.b}}, data<T>{shape(1, 1), {2}});
      const auto equal = [](double x, float e) { return x == e || (x != x && e != e); };
      BOOST_CHECK_MESSAGE(equal(found[0].v[0], r.da) && equal(found[1].v[0], r.db),
                          name << " of " << r.a << " and " << r.b << ": " << found[0].v[0] << " and " << found[1].v[0]);
    }
  };
  check_all("pow", OF2(weft::pow(a, b)),
            {{0, 2, 0, 0},
             {0, 1, 2, 0},
             {0, 0, 0, 0},
             {0, 0.5f, inf, 0},
             {-2, 3, 24, 0},
             {-2, 2, -8, 0},
             {1, 0, 0, 0},
             {no, 0, 0, 0},
             {inf, 0, 0, inf},
             {-1, 0.5f, no, 0},
             {1, inf, inf, 0},
             {inf, 1, 2, inf}});
  check_all("divide", OF2(a / b), {{1, 0, inf, -inf}, {0, 0, inf, no}, {1, inf, 0, 0}, {inf, 2, 1, -inf}});
  check_all("maximum", OF2(maximum(a, b)),
            {{1, 1, 2, 0},
             {0, -0.0f, 2, 0},
             {-0.0f, 0, 2, 0},
             {no, 1, 0, 2},
             {1, no, 0, 2},
             {inf, inf, 2, 0},
             {-inf, inf, 0, 2}});
  check_all("minimum", OF2(minimum(a, b)), {{1, 1, 2, 0}, {0, -0.0f, 2, 0}, {no, 1, 0, 2}, {1, no, 0, 2}});
}
