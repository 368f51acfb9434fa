#include "accuracy.hpp"

using namespace weft;
using namespace accuracy;

// Every operation and its gradient, on shapes and values at random and on values at the edges, against the mathematical
// definition in long double by plain loops. The worst errors are held to bounds of about twice what was measured.
//
//   WEFT_ACCURACY_TABLE=docs/accuracy.md WEFT_ISA=avx2 test_oracle_accuracy      writes that instruction set's column

namespace {

// ---- of one operand ----

const std::pair<int, int> matrices[] = {{0, 5}, {7, 0},  {1, 1},    {1, 2},    {2, 1},     {3, 5},
                                        {1, 64}, {13, 17}, {31, 33}, {1, 4099}, {4099, 1}, {97, 101}};

/// Of whatever bits, of moderate size, near 0, 1 and the multiples of ln 2 / 2, and the edges.
template <class T>
T argument(source& s, const std::vector<T>& edge, std::size_t i) {
  if (i < edge.size()) return edge[i];
  switch (i % 6) {
    case 0: return s.any<T>();
    case 1: return static_cast<T>(s.in(-10, 10));
    case 2: return static_cast<T>(s.in(-110, 110) * (sizeof(T) == 4 ? 1 : 7));
    case 3: return static_cast<T>(1 + s.in(-1, 1) * std::ldexp(1.0, -static_cast<int>(s.below(24))));
    case 4: return static_cast<T>(s.in(-1, 1) * std::ldexp(1.0, -static_cast<int>(s.below(30))));
    default: return static_cast<T>(static_cast<double>(s.below(64)) * 0.34657359027997264 + s.in(-1e-6, 1e-6));
  }
}

/// Where neither the operand nor the gradient comes near the ends of the range: there products on the way overflow.
bool moderate(real x) {
  return x == 0 || x != x || std::isinf(x) || (std::abs(x) > 0x1p-60L && std::abs(x) < 0x1p60L);
}

struct derived {
  real gradient, magnitude;  // the units are of the magnitude; 0: of the gradient itself
};

template <class T, class Op, class Reference>
void forward(const char* name, double bound, Op op, Reference reference) {
  row& value = measure<T>(name, "value", unit::result, bound);
  graph g;
  const auto x = placeholder<T, matrix>(g);
  const auto y = let(op(x));
  runner run(g, {x.erased()}, {y.erased()});
  source random(1);
  std::size_t next = 0;
  const std::vector<T> edge = edges<T>();
  for (const auto& [rows, columns] : matrices) {
    data<T> d = random.uniform<T>(shape(rows, columns), 0, 1);
    for (T& e : d.v) e = argument(random, edge, next++);
    const numbers found = run(d)[0].v;
    same(name, at_once(eval(op(d.template as<matrix>()))), found);
    for (std::size_t i = 0; i < d.size(); ++i) {
      const real expected = reference(real(d.v[i]));
      const std::string at = "of " + std::to_string(d.v[i]);
      value.template add<T>(found[i], expected, expected, at.c_str());
      if (expected == 0 && found[i] == 0 && std::signbit(expected) != std::signbit(found[i]))
        BOOST_ERROR(name << " " << at << " is a zero of the wrong sign");
    }
  }
  check(value);
}

template <class T, class Op, class Reference, class Derivative>
void unary(const char* name, double bound, double gradient_bound, Op op, Reference reference, Derivative derivative) {
  forward<T>(name, bound, op, reference);
  graph g;
  const auto x = placeholder<T, matrix>(g), up = placeholder<T, matrix>(g);
  const auto y = let(op(x));
  g.use(primitives<T>);
  runner run(g, {x.erased(), up.erased()}, {g.differentiate({y.erased()}, {up.erased()}, {x.erased()})[0]});
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
      const std::string at = "of " + std::to_string(d.v[i]);
      gradient.template add<T>(found[i], right.gradient, right.magnitude != 0 ? right.magnitude : right.gradient,
                               at.c_str());
    }
  }
  check(gradient);
}

real sign_of(real x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
real logistic(real x) { return 1 / (1 + std::exp(-x)); }

/// Functions of <weft/device/cpu/math.hpp> that users' operations call.
struct log1p_operation {
  static constexpr const char* name = "log1p";
  static constexpr bool floating_only = true, not_differentiable = true;
  template <class V>
  static V apply(V x) {
    return math::log1p(x);
  }
};
struct expm1_operation {
  static constexpr const char* name = "expm1";
  static constexpr bool floating_only = true, not_differentiable = true;
  template <class V>
  static V apply(V x) {
    return math::expm1(x);
  }
};

}  // namespace

#define OF(function) [](const auto& x) { return function(x); }

BOOST_AUTO_TEST_CASE(of_one_operand) {
  using T = float;
  unary<T>("negate", 0, 0, OF(-), [](real x) { return -x; }, [](real, real g) { return derived{-g, 0}; });
  unary<T>("abs", 0, 0, OF(weft::abs), [](real x) { return std::abs(x); },
           [](real x, real g) { return derived{x != x ? x : x == 0 ? 0 : std::copysign(g, g * x), 0}; });
  unary<T>("sign", 0, 0, OF(weft::sign), sign_of, [](real, real) { return derived{0, 0}; });
  unary<T>("floor", 0, 0, OF(elementwise<formula::floor>), [](real x) { return std::floor(x); },
           [](real, real) { return derived{0, 0}; });
  unary<T>("relu", 0, 0, OF(weft::relu), [](real x) { return x != x ? x : x > 0 ? x : 0; },
           [](real x, real g) { return derived{x > 0 ? g : 0, 0}; });
  unary<T>("square", 1, 1, OF(weft::square), [](real x) { return x * x; },
           [](real x, real g) { return derived{2 * g * x, 0}; });
  unary<T>("sqrt", 1, 2, OF(weft::sqrt), [](real x) { return std::sqrt(x); },
           [](real x, real g) { return derived{g / (2 * std::sqrt(x)), 0}; });
  unary<T>("exp", 2, 4, OF(weft::exp), [](real x) { return std::exp(x); },
           [](real x, real g) { return derived{g * std::exp(x), 0}; });
  unary<T>("log", 2, 1, OF(weft::log), [](real x) { return std::log(x); },
           [](real x, real g) { return derived{g / x, 0}; });
  unary<T>("tanh", 3, 4, OF(weft::tanh), [](real x) { return std::tanh(x); },
           [](real x, real g) { return derived{g / (std::cosh(x) * std::cosh(x)), g}; });
  unary<T>("sigmoid", 3, 4, OF(weft::sigmoid), logistic,
           [](real x, real g) { return derived{g * logistic(x) * logistic(-x), g * logistic(x)}; });
  forward<T>("math::log1p", 3, OF(elementwise<log1p_operation>), [](real x) { return std::log1p(x); });
  forward<T>("math::expm1", 3, OF(elementwise<expm1_operation>), [](real x) { return std::expm1(x); });
}

BOOST_AUTO_TEST_CASE(of_one_operand_in_double) {
  using T = double;
  forward<T>("sqrt", 1, OF(weft::sqrt), [](real x) { return std::sqrt(x); });
  forward<T>("exp", 2, OF(weft::exp), [](real x) { return std::exp(x); });
  forward<T>("log", 2, OF(weft::log), [](real x) { return std::log(x); });
  forward<T>("tanh", 4, OF(weft::tanh), [](real x) { return std::tanh(x); });
  forward<T>("sigmoid", 3, OF(weft::sigmoid), logistic);
}

// ---- of two operands, which broadcast ----

namespace {

struct derived2 {
  real value, a, b;  // and what the result's gradient is multiplied by on its way to each operand
};

/// The axes of [a, b, c] that an operand has: bit i is axis i. Its type, and its extents of those of all.
template <unsigned Axes>
struct broadcast_operand;
template <>
struct broadcast_operand<7> {
  using type = cube;
  static shape of(const shape& s) { return s; }
};
template <>
struct broadcast_operand<6> {
  using type = dims<extent_b{}, extent_c{}>;
  static shape of(const shape& s) { return shape(s[1], s[2]); }
};
template <>
struct broadcast_operand<5> {
  using type = dims<extent_a{}, 1, extent_c{}>;
  static shape of(const shape& s) { return shape(s[0], 1, s[2]); }
};
template <>
struct broadcast_operand<4> {
  using type = dims<extent_c{}>;
  static shape of(const shape& s) { return shape(s[2]); }
};
template <>
struct broadcast_operand<3> {
  using type = dims<extent_a{}, extent_b{}, 1>;
  static shape of(const shape& s) { return shape(s[0], s[1], 1); }
};
template <>
struct broadcast_operand<1> {
  using type = dims<extent_a{}, 1, 1>;
  static shape of(const shape& s) { return shape(s[0], 1, 1); }
};
template <>
struct broadcast_operand<0> {
  using type = dims<>;
  static shape of(const shape&) { return shape(); }
};

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

/// Values of moderate size on all shapes, with gradients. Negative first operands are of no use to pow.
template <class T, unsigned AxesA, unsigned AxesB, class Op, class Reference>
void broadcast(const char* name, bounds2 bound, double low, Op op, Reference reference) {
  using A = broadcast_operand<AxesA>;
  using B = broadcast_operand<AxesB>;
  row& value = measure<T>(name, "value", unit::result, bound.value);
  row& gradient = measure<T>(name, "gradient", unit::magnitudes, bound.gradient);
  graph g;
  const auto a = placeholder<T, typename A::type>(g);
  const auto b = placeholder<T, typename B::type>(g);
  const auto y = let(op(a, b));
  const auto up = placeholder<T, dims_t<decltype(y)>>(g);
  g.use(primitives<T>);
  const auto d = g.differentiate({y.erased()}, {up.erased()}, {a.erased(), b.erased()});
  runner run(g, {a.erased(), b.erased(), up.erased()}, {y.erased(), d[0], d[1]});
  source random(AxesA * 8 + AxesB);
  for (const shape& s : cubes) {
    const shape extents = AxesA == 7 || AxesB == 7 ? s : AxesA + AxesB == 7 ? s : shape(1, s[1], s[2]);
    const auto da = random.uniform<T>(A::of(extents), low, 3), db = random.uniform<T>(B::of(extents), 0.25, 2);
    auto dup = random.upstream<T>(extents);
    if (y.erased().extents().rank == 2) dup.extents = shape(s[1], s[2]);
    const auto found = run(da, db, dup);
    const std::string at = std::to_string(AxesA) + " and " + std::to_string(AxesB) + " of " + to_string(s).c_str();
    same(name, at_once(eval(op(da.template as<typename A::type>(), db.template as<typename B::type>()))), found[0].v);
    const place in_a(AxesA, extents), in_b(AxesB, extents);
    sums right_a(da.size()), right_b(db.size());
    each(extents, [&](std::size_t i, std::size_t j, std::size_t k, std::size_t e) {
      const std::size_t ia = in_a(i, j, k), ib = in_b(i, j, k);
      const derived2 right = reference(real(da.v[ia]), real(db.v[ib]));
      value.add<T>(found[0].v[e], right.value, right.value, at.c_str());
      right_a.add(ia, right.a * real(dup.v[e]));
      right_b.add(ib, right.b * real(dup.v[e]));
    });
    compare<T>(gradient, found[1].v, right_a, at + ", a");
    compare<T>(gradient, found[2].v, right_b, at + ", b");
  }
  check(value), check(gradient);
}

/// Pairs of edges, and of whatever bits; values alone.
template <class T, class Op, class Reference>
void pairs(const char* name, double bound, Op op, Reference reference, bool signs = true) {
  row& value = measure<T>(name, "value", unit::result, bound);
  graph g;
  const auto a = placeholder<T, matrix>(g), b = placeholder<T, matrix>(g);
  const auto y = let(op(a, b));
  runner run(g, {a.erased(), b.erased()}, {y.erased()});
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
  same(name, at_once(eval(op(da.template as<matrix>(), db.template as<matrix>()))), found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const real expected = static_cast<real>(reference(real(da.v[i]), real(db.v[i])));
    char at[80];
    std::snprintf(at, sizeof at, "of %a and %a", double(da.v[i]), double(db.v[i]));
    value.template add<T>(found[i], expected, expected, at);
    if (signs && expected == 0 && found[i] == 0 && std::signbit(expected) != std::signbit(found[i]))
      BOOST_ERROR(name << " " << at << " is a zero of the wrong sign");
  }
  check(value);
}

real larger(real a, real b) { return a != a || b != b ? a + b : a > b ? a : b; }
real smaller(real a, real b) { return a != a || b != b ? a + b : a < b ? a : b; }

}  // namespace

#define OF2(expression) [](const auto& a, const auto& b) { return expression; }

BOOST_AUTO_TEST_CASE(of_two_operands) {
  using T = float;
  const auto quotient = [](real a, real b) { return derived2{a / b, 1 / b, -a / (b * b)}; };
  broadcast<T, 7, 7>("divide", {1, 2}, -3, OF2(a / b), quotient);
  broadcast<T, 7, 6>("divide", {1, 2}, -3, OF2(a / b), quotient);
  broadcast<T, 4, 7>("divide", {1, 2}, -3, OF2(a / b), quotient);
  broadcast<T, 7, 3>("divide", {1, 2}, -3, OF2(a / b), quotient);
  broadcast<T, 1, 7>("divide", {1, 2}, -3, OF2(a / b), quotient);
  broadcast<T, 7, 0>("divide", {1, 2}, -3, OF2(a / b), quotient);
  broadcast<T, 5, 3>("divide", {1, 2}, -3, OF2(a / b), quotient);
  const auto sum = [](real a, real b) { return derived2{a + b, 1, 1}; };
  broadcast<T, 7, 7>("add", {1, 2}, -3, OF2(a + b), sum);
  broadcast<T, 7, 4>("add", {1, 2}, -3, OF2(a + b), sum);
  const auto difference = [](real a, real b) { return derived2{a - b, 1, -1}; };
  broadcast<T, 7, 7>("subtract", {1, 2}, -3, OF2(a - b), difference);
  broadcast<T, 3, 7>("subtract", {1, 2}, -3, OF2(a - b), difference);
  const auto product = [](real a, real b) { return derived2{a * b, b, a}; };
  broadcast<T, 7, 7>("multiply", {1, 2}, -3, OF2(a * b), product);
  broadcast<T, 7, 4>("multiply", {1, 2}, -3, OF2(a * b), product);
  broadcast<T, 0, 7>("multiply", {1, 2}, -3, OF2(a * b), product);
  const auto power = [](real a, real b) {
    return derived2{std::pow(a, b), b * std::pow(a, b - 1), std::pow(a, b) * std::log(a)};
  };
  broadcast<T, 7, 7>("pow", {1, 4}, 0.01, OF2(weft::pow(a, b)), power);
  broadcast<T, 7, 4>("pow", {1, 4}, 0.01, OF2(weft::pow(a, b)), power);
  const auto maximum_of = [](real a, real b) { return derived2{larger(a, b), real(a >= b), real(!(a >= b))}; };
  broadcast<T, 7, 7>("maximum", {0, 1}, -3, OF2(maximum(a, b)), maximum_of);
  broadcast<T, 4, 7>("maximum", {0, 1}, -3, OF2(maximum(a, b)), maximum_of);
  const auto minimum_of = [](real a, real b) { return derived2{smaller(a, b), real(a <= b), real(!(a <= b))}; };
  broadcast<T, 7, 7>("minimum", {0, 1}, -3, OF2(minimum(a, b)), minimum_of);
  const auto chosen = [](real a, real b) { return derived2{a < 2 * b ? a : b, real(a < 2 * b), real(!(a < 2 * b))}; };
  broadcast<T, 7, 7>("select", {0, 1}, -3, OF2(select(a < b + b, a, b)), chosen);
  broadcast<T, 7, 3>("select", {0, 1}, -3, OF2(select(a < b + b, a, b)), chosen);
}

BOOST_AUTO_TEST_CASE(of_pairs_of_edges) {
  using T = float;
  pairs<T>("add", 1, OF2(a + b), [](real a, real b) { return a + b; });
  pairs<T>("subtract", 1, OF2(a - b), [](real a, real b) { return a - b; });
  pairs<T>("multiply", 1, OF2(a * b), [](real a, real b) { return a * b; });
  pairs<T>("divide", 1, OF2(a / b), [](real a, real b) { return a / b; });
  pairs<T>("pow", 1, OF2(weft::pow(a, b)), [](real a, real b) { return std::pow(a, b); });
  pairs<T>("maximum", 0, OF2(maximum(a, b)), larger, false);
  pairs<T>("minimum", 0, OF2(minimum(a, b)), smaller, false);
  pairs<T>("less", 0, OF2(a < b), [](real a, real b) { return a < b; });
  pairs<T>("less_equal", 0, OF2(a <= b), [](real a, real b) { return a <= b; });
  pairs<T>("greater", 0, OF2(a > b), [](real a, real b) { return a > b; });
  pairs<T>("greater_equal", 0, OF2(a >= b), [](real a, real b) { return a >= b; });
  pairs<T>("equal", 0, OF2(a == b), [](real a, real b) { return a == b; });
  pairs<T>("not_equal", 0, OF2(a != b), [](real a, real b) { return a != b; });
  pairs<T>("logical operations", 0, OF2((a < b && !(a == b)) || b > a), [](real a, real b) { return a < b; });
  pairs<T>("cast to double", 1, OF2(cast<double>(a) + cast<double>(b)),
           [](real a, real b) { return static_cast<double>(a + b); });
}
