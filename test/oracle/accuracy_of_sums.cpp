// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/reduce/scan.hpp>

#include "accuracy.hpp"

using namespace weft;
using namespace accuracy;

// The other half of accuracy.cpp: whatever adds up. Errors are counted in units in the last place of the sum of the
// magnitudes of what is added, since where terms cancel no order of additions finds the last bits of the result.

namespace {

// ---- reductions ----

/// Where element (i, j, k) goes when the axes of the mask are reduced.
struct kept {
  std::size_t step[3], results = 1;

  kept(unsigned reduced, const shape& s) {
    for (std::size_t axis = 3; axis-- > 0;) {
      const bool stays = !((reduced >> axis) & 1);
      step[axis] = stays ? results : 0;
      if (stays) results *= static_cast<std::size_t>(s[axis]);
    }
  }
  std::size_t operator()(std::size_t i, std::size_t j, std::size_t k) const {
    return i * step[0] + j * step[1] + k * step[2];
  }
};

enum class how { sum, mean, prod, max, min, sum_of_squares, mean_of_product };

struct reduction {
  const char* name;
  how what;
  double bound, gradient_bound;

  /// Right values and the gradients of the operand, of upstream gradients `up`.
  template <class T>
  void reference(unsigned axes, const data<T>& x, const std::vector<T>& up, sums& value, sums& gradient) const {
    const shape& s = x.extents;
    const kept to(axes, s);
    std::vector<std::size_t> many(to.results), zeros(to.results);
    std::vector<real> product(to.results, 1), best(to.results, what == how::max ? -infinity : infinity);
    each(s, [&](std::size_t i, std::size_t j, std::size_t k, std::size_t e) {
      const std::size_t r = to(i, j, k);
      const real v = x.v[e];
      ++many[r];
      switch (what) {
        case how::sum:
        case how::mean:
          value.add(r, v);
          break;
        case how::sum_of_squares:
        case how::mean_of_product:
          value.add(r, v * v);
          break;
        case how::prod:
          v == 0 ? void(++zeros[r]) : void(product[r] *= v);
          break;
        case how::max:
          best[r] = v > best[r] || v != v ? v : best[r];
          break;
        case how::min:
          best[r] = v < best[r] || v != v ? v : best[r];
          break;
      }
    });
    std::vector<std::size_t> equal(to.results);
    each(s, [&](std::size_t i, std::size_t j, std::size_t k, std::size_t e) {
      const std::size_t r = to(i, j, k);
      if (what == how::max || what == how::min) equal[r] += real(x.v[e]) == best[r];
    });
    for (std::size_t r = 0; r < to.results; ++r) {
      if (what == how::mean || what == how::mean_of_product)
        value.sum[r] /= real(many[r]), value.magnitude[r] /= real(many[r]);
      if (what == how::prod) value.sum[r] = value.magnitude[r] = zeros[r] ? 0 : product[r];
      if (what == how::max || what == how::min) value.sum[r] = value.magnitude[r] = best[r];
    }
    each(s, [&](std::size_t i, std::size_t j, std::size_t k, std::size_t e) {
      const std::size_t r = to(i, j, k);
      const real v = x.v[e], g = up[r];
      switch (what) {
        case how::sum:
          gradient.add(e, g);
          break;
        case how::mean:
          gradient.add(e, g / real(many[r]));
          break;
        case how::sum_of_squares:
          gradient.add(e, 2 * g * v);
          break;
        case how::mean_of_product:
          gradient.add(e, 2 * g * v / real(many[r]));
          break;
        case how::prod:
          gradient.add(e, zeros[r] > (v == 0) ? 0 : v == 0 ? g * product[r] : g * product[r] / v);
          break;
        case how::max:
        case how::min:
          gradient.add(e, v == best[r] ? g / real(equal[r]) : 0);
          break;
      }
    });
  }

 private:
  static constexpr real infinity = std::numeric_limits<real>::infinity();
};

template <class T>
void check_reduction(const reduction& r, unsigned axes, runner run, numbers (*eager)(const data<T>&)) {
  const unit in = r.what == how::prod || r.what == how::max || r.what == how::min ? unit::result : unit::magnitudes;
  row& value = measure<T>(r.name, "value", in, r.bound);
  row& gradient = measure<T>(r.name, "gradient", in, r.gradient_bound);
  source random(axes + 10);
  for (const shape& s : cubes) {
    data<T> d = random.uniform<T>(s, -1, 3);
    if (r.what == how::prod)  // near 1, so that no partial product overflows; and some zeros
      for (T& e : d.v) e = static_cast<T>(std::exp2(0.1 * (e - 1)));
    if (r.what == how::prod)
      for (std::size_t i = 0; i < d.size(); i += 1000) d.v[i] = 0;
    if (r.what == how::max || r.what == how::min)  // with equals
      for (T& e : d.v) e = static_cast<T>(std::floor(real(e) * 64) / 64);
    shape results;
    for (std::size_t axis = 0; axis < 3; ++axis)
      if (!((axes >> axis) & 1)) results.push_back(s[axis]);
    const data<T> dup = random.upstream<T>(results);
    const auto found = run(d, dup);
    const where at{"axes ", double(axes), ", ", 0, &s};
    same(r.name, eager(d), found[0].v);
    sums right(dup.size()), right_gradient(d.size());
    r.reference(axes, d, dup.v, right, right_gradient);
    compare<T>(value, found[0].v, right, at);
    compare<T>(gradient, found[1].v, right_gradient, at);
  }
}

template <class T, class Op, int... Axes>
void reduce(const reduction& r, unsigned axes) {
  graph g;
  const auto x = placeholder<T, cube>(g);
  const auto y = let(Op{}.template operator()<Axes...>(x));
  const auto up = placeholder<T, dims_t<decltype(y)>>(g);
  g.use(primitives<T>);
  check_reduction<T>(
      r, axes,
      {g, {x.erased(), up.erased()}, {y.erased(), g.differentiate({y.erased()}, {up.erased()}, {x.erased()})[0]}},
      [](const data<T>& d) { return at_once(eval(Op{}.template operator()<Axes...>(d.template as<cube>()))); });
}

template <class T, class Op>
void reduce_all_ways(const reduction& r, Op) {
  reduce<T, Op>(r, 7);
  reduce<T, Op, 0>(r, 1);
  reduce<T, Op, 1>(r, 2);
  reduce<T, Op, 2>(r, 4);
  reduce<T, Op, 0, 2>(r, 5);
}

#define REDUCE(expression) \
  []<int... Axes>(const auto& x) { return expression; }

}  // namespace

BOOST_AUTO_TEST_CASE(reductions) {
  using T = float;
  reduce_all_ways<T>({"sum", how::sum, 7, 0}, REDUCE(sum<Axes...>(x)));
  reduce_all_ways<T>({"mean", how::mean, 5, 1}, REDUCE(mean<Axes...>(x)));
  reduce_all_ways<T>({"prod", how::prod, 50, 50}, REDUCE(prod<Axes...>(x)));
  reduce_all_ways<T>({"max", how::max, 0, 1}, REDUCE(max<Axes...>(x)));
  reduce_all_ways<T>({"min", how::min, 0, 1}, REDUCE(min<Axes...>(x)));
  reduce_all_ways<T>({"sum(square(x))", how::sum_of_squares, 6.5, 1}, REDUCE(sum<Axes...>(square(x))));
  reduce_all_ways<T>({"mean(x * x)", how::mean_of_product, 7, 3}, REDUCE(mean<Axes...>(x * x)));
  reduce_all_ways<double>({"sum", how::sum, 7, 0}, REDUCE(sum<Axes...>(x)));
  for (const auto& r : all.rows) check(*r);
}

// A few edges: what is infinite or NaN reaches the result, from whichever place, and large sums of small terms lose
// none.
BOOST_AUTO_TEST_CASE(edges_of_reductions) {
  const auto only = [](const auto& e) { return *eval(e).data(); };
  const float inf = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  const float largest = std::numeric_limits<float>::max(), tiny = std::numeric_limits<float>::denorm_min();
  for (const int n : {1, 2, 7, 64, 65, 1000, 20011})
    for (const int at : {0, n / 2, n - 1}) {
      data<float> d{shape(1, n), std::vector<float>(static_cast<std::size_t>(n), 1.0f)};
      const auto with = [&](float v) {
        d.v[static_cast<std::size_t>(at)] = v;
        return d.as<matrix>();
      };
      BOOST_CHECK_EQUAL(only(sum(with(inf))), inf);
      BOOST_CHECK_EQUAL(only(mean(with(-inf))), -inf);
      BOOST_CHECK_EQUAL(only(prod(with(-inf))), -inf);
      BOOST_CHECK_EQUAL(only(max(with(inf))), inf);
      BOOST_CHECK_EQUAL(only(min(with(-inf))), -inf);
      BOOST_CHECK_EQUAL(only(prod(with(tiny))), tiny);
      BOOST_CHECK_EQUAL(only(min(with(tiny))), tiny);
      BOOST_CHECK_EQUAL(only(max(with(largest))), largest);
      BOOST_CHECK(std::isnan(only(sum(with(none)))));
      BOOST_CHECK(std::isnan(only(prod(with(none)))));
      BOOST_CHECK(std::isnan(only(max(with(none)))));
      BOOST_CHECK(std::isnan(only(min(with(none)))));
      BOOST_CHECK(std::isnan(only(mean<1>(with(none)))));
      for (float& v : d.v) v = -inf;
      BOOST_CHECK_EQUAL(only(max(d.as<matrix>())), -inf);
      for (float& v : d.v) v = tiny;
      BOOST_CHECK_EQUAL(only(sum(d.as<matrix>())), static_cast<float>(n) * tiny);
    }
}

// ---- scans ----

namespace {

template <class T, int Axis>
void scan(double bound, double gradient_bound) {
  row& value = measure<T>("cumsum", "value", unit::magnitudes, bound);
  row& gradient = measure<T>("cumsum", "gradient", unit::magnitudes, gradient_bound);
  for (const cumsum_options o : {cumsum_options{}, cumsum_options{.exclusive = true}, cumsum_options{.reverse = true},
                                 cumsum_options{.exclusive = true, .reverse = true}}) {
    graph g;
    const auto x = placeholder<T, cube>(g), up = placeholder<T, cube>(g);
    const auto y = cumsum<Axis>(x, o);
    g.use(primitives<T>);
    runner run(g, {x.erased(), up.erased()},
               {y.erased(), g.differentiate({y.erased()}, {up.erased()}, {x.erased()})[0]});
    source random(20);
    for (const shape& s : cubes) {
      const data<T> d = random.uniform<T>(s, -1, 3), dup = random.upstream<T>(s);
      const auto found = run(d, dup);
      same("cumsum", at_once(eval(cumsum<Axis>(d.template as<cube>(), o))), found[0].v);
      const auto right = [&](const data<T>& of, bool reverse) {
        sums r(of.size());
        std::size_t step = 1;
        for (std::size_t axis = 3; --axis > Axis;) step *= static_cast<std::size_t>(s[axis]);
        const auto n = static_cast<std::size_t>(s[Axis]);
        each(s, [&](std::size_t i, std::size_t j, std::size_t k, std::size_t e) {
          const std::size_t index[] = {i, j, k};
          if (index[Axis] != 0) return;
          real sum = 0, magnitude = 0;
          for (std::size_t at = 0; at < n; ++at) {
            const std::size_t p = e + step * (reverse ? n - 1 - at : at);
            if (o.exclusive) r.add(p, sum, magnitude);
            sum += of.v[p], magnitude += std::abs(real(of.v[p]));
            if (!o.exclusive) r.add(p, sum, magnitude);
          }
        });
        return r;
      };
      const where at{"axis ", Axis, ", ", 0, &s};
      compare<T>(value, found[0].v, right(d, o.reverse), at);
      compare<T>(gradient, found[1].v, right(dup, !o.reverse), at);
    }
  }
  check(value), check(gradient);
}

}  // namespace

BOOST_AUTO_TEST_CASE(scans) {
  scan<float, 0>(1, 1);
  scan<float, 1>(1, 1);
  scan<float, 2>(1, 1);
}

// ---- softmax and cross-entropies ----

namespace {

const std::pair<int, int> logits[] = {{1, 1}, {1, 2}, {0, 3}, {5, 10}, {17, 31}, {3, 4099}, {257, 3}, {64, 64}};

/// Softmax of a row: its logarithms, x - max(x), and what log(sum(exp)) adds.
struct softmax_row {
  std::vector<real> shifted;
  real log_sum = 0;

  template <class T>
  softmax_row(const T* x, std::size_t n) : shifted(x, x + n) {
    const real largest = *std::max_element(shifted.begin(), shifted.end());
    real sum = 0;
    for (real& v : shifted) v -= largest, sum += std::exp(v);
    log_sum = std::log(sum);
  }
  real logarithm(std::size_t i) const { return shifted[i] - log_sum; }
  real operator[](std::size_t i) const { return std::exp(logarithm(i)); }
  /// The magnitude of the logarithm. The sum of exponentials, from 1 on, is rounded: its logarithm is off by as much,
  /// if it were 0.
  real magnitude(std::size_t i) const { return std::abs(shifted[i]) + log_sum + 1; }
  /// A difference of logits is rounded before it is an exponent: of size |x - max(x)|, so many times more counts.
  real condition(std::size_t i) const { return 1 + std::abs(shifted[i]); }
};

template <class T>
void softmaxes(double scale) {
  row& soft = measure<T>("softmax", "value", unit::magnitudes, 6);
  row& soft_d = measure<T>("softmax", "gradient", unit::magnitudes, 3);
  row& log_soft = measure<T>("log_softmax", "value", unit::magnitudes, 3);
  row& log_soft_d = measure<T>("log_softmax", "gradient", unit::magnitudes, 4);
  row& sparse = measure<T>("softmax_cross_entropy", "of classes", unit::magnitudes, 2.5);
  row& sparse_d = measure<T>("softmax_cross_entropy", "of classes, gradient", unit::magnitudes, 5.5);
  row& dense = measure<T>("softmax_cross_entropy", "of distributions", unit::magnitudes, 5);
  row& dense_d = measure<T>("softmax_cross_entropy", "of distributions, gradient", unit::magnitudes, 6);
  graph g;
  const auto x = placeholder<T, matrix>(g), up = placeholder<T, matrix>(g), labels = placeholder<T, matrix>(g);
  const auto classes = placeholder<std::int32_t, dims<extent_a{}>>(g);
  const auto of_row = placeholder<T, dims<extent_a{}>>(g);
  const auto s = softmax(x), l = log_softmax(x);
  const auto c = softmax_cross_entropy(x, classes), e = softmax_cross_entropy(x, labels);
  g.use(primitives<T>);
  const auto gradient = [&](symbol y, symbol from) { return g.differentiate({y}, {from}, {x.erased()})[0]; };
  runner run(g, {x.erased(), up.erased(), labels.erased(), classes.erased(), of_row.erased()},
             {s.erased(), gradient(s.erased(), up.erased()), l.erased(), gradient(l.erased(), up.erased()), c.erased(),
              gradient(c.erased(), of_row.erased()), e.erased(), gradient(e.erased(), of_row.erased())});
  source random(30);
  for (const auto& [rows, columns] : logits) {
    const shape extents(rows, columns);
    const auto n = static_cast<std::size_t>(columns);
    const data<T> dx = random.uniform<T>(extents, -scale, scale), dup = random.upstream<T>(extents);
    data<T> dlabels = random.uniform<T>(extents, 0, 2 / static_cast<double>(columns));
    const data<T> drow = random.upstream<T>(shape(rows));
    data<std::int32_t> dclasses{shape(rows), std::vector<std::int32_t>(static_cast<std::size_t>(rows))};
    for (auto& v : dclasses.v) v = static_cast<std::int32_t>(random.below(n));
    const auto found = run(dx, dup, dlabels, dclasses, drow);
    same("softmax", at_once(eval(softmax(dx.template as<matrix>()))), found[0].v);
    same("log_softmax", at_once(eval(log_softmax(dx.template as<matrix>()))), found[2].v);
    const where at{"", double(rows), " rows of ", double(columns)};
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      const std::size_t from = r * n;
      const softmax_row right(&dx.v[from], n);
      real with_y = 0, with_y_magnitude = 0, all_up = 0, all_up_magnitude = 0, loss = 0, loss_magnitude = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const real u = dup.v[from + i], label = dlabels.v[from + i];
        with_y += u * right[i], with_y_magnitude += std::abs(u * right[i]) * right.condition(i);
        all_up += u, all_up_magnitude += std::abs(u);
        loss -= label * right.logarithm(i), loss_magnitude += label * right.magnitude(i);
      }
      const auto k = static_cast<std::size_t>(dclasses.v[r]);
      const real w = drow.v[r];
      sparse.add<T>(found[4].v[r], -right.logarithm(k), right.magnitude(k), at);
      dense.add<T>(found[6].v[r], loss, loss_magnitude, at);
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t p = from + i;
        const real u = dup.v[p], y = right[i], m = y * right.condition(i), label = dlabels.v[p];
        soft.add<T>(found[0].v[p], y, m, at);
        soft_d.add<T>(found[1].v[p], y * (u - with_y), m * (std::abs(u) + with_y_magnitude), at);
        log_soft.add<T>(found[2].v[p], right.logarithm(i), right.magnitude(i), at);
        log_soft_d.add<T>(found[3].v[p], u - y * all_up, std::abs(u) + m * all_up_magnitude, at);
        const real one = i == k ? 1 : 0;
        sparse_d.add<T>(found[5].v[p], w * (y - one), std::abs(w) * (m + one), at);
        dense_d.add<T>(found[7].v[p], w * (y - label), std::abs(w) * (m + label), at);
      }
    }
  }
  for (const row* r : {&soft, &soft_d, &log_soft, &log_soft_d, &sparse, &sparse_d, &dense, &dense_d}) check(*r);
}

}  // namespace

BOOST_AUTO_TEST_CASE(softmax_and_cross_entropies) {
  softmaxes<float>(3);
  softmaxes<float>(40);
}

BOOST_AUTO_TEST_CASE(edges_of_softmax) {
  const float inf = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  using rows = dims<1, 4>;
  const auto check_row = [](const tensor<float, rows>& found, std::initializer_list<float> right) {
    std::size_t i = 0;
    for (const float r : right) {
      BOOST_CHECK(found.data()[i] == r || (std::isnan(r) && std::isnan(found.data()[i])));
      ++i;
    }
  };
  const float no = std::numeric_limits<float>::quiet_NaN();
  check_row(softmax(tensor<float, rows>{largest, 0, -largest, -inf}), {1, 0, 0, 0});
  check_row(log_softmax(tensor<float, rows>{largest, 0, -largest, -inf}), {0, -largest, -inf, -inf});
  check_row(softmax(tensor<float, rows>{largest, largest, largest, largest}), {0.25f, 0.25f, 0.25f, 0.25f});
  check_row(softmax(tensor<float, rows>{-largest, -largest, -inf, -inf}), {0.5f, 0.5f, 0, 0});
  check_row(softmax(tensor<float, rows>{0, no, 1, 2}), {no, no, no, no});
  check_row(log_softmax(tensor<float, rows>{0, 1, 2, no}), {no, no, no, no});
}

// ---- products of matrices ----

namespace {

using extent_m = dyn_extent<"m">;
using extent_n = dyn_extent<"n">;
using extent_k = dyn_extent<"k">;

struct product_shape {
  int m, k, n;
};

/// An element of op(x), x being [rows, columns] or, transposed, [columns, rows].
template <class T>
real at(const data<T>& x, bool transposed, std::size_t rows, std::size_t columns, std::size_t i, std::size_t j) {
  return x.v[transposed ? j * rows + i : i * columns + j];
}

/// a' of (m, k), b' of (k, n); transposed as they are fed. A product, the same with an epilogue, and their gradients.
template <class T, transpose_of How>
void product(const char* name, double bound, double gradient_bound) {
  constexpr bool ta = How == transpose_of::a || How == transpose_of::both;
  constexpr bool tb = How == transpose_of::b || How == transpose_of::both;
  using A = std::conditional_t<ta, dims<extent_k{}, extent_m{}>, dims<extent_m{}, extent_k{}>>;
  using B = std::conditional_t<tb, dims<extent_n{}, extent_k{}>, dims<extent_k{}, extent_n{}>>;
  const std::string epilogue = std::string(name) + " * scale + bias";
  row& value = measure<T>(name, "value", unit::magnitudes, bound);
  row& gradient = measure<T>(name, "gradient", unit::magnitudes, gradient_bound);
  row& fused = measure<T>(epilogue, "value", unit::magnitudes, bound);
  row& fused_gradient = measure<T>(epilogue, "gradient", unit::magnitudes, gradient_bound);
  graph g;
  const auto a = placeholder<T, A>(g);
  const auto b = placeholder<T, B>(g);
  const auto scale = placeholder<T, dims<extent_n{}>>(g), bias = placeholder<T, dims<extent_n{}>>(g);
  const auto up = placeholder<T, dims<extent_m{}, extent_n{}>>(g);
  const auto y = matmul<How>(a, b);
  const auto z = let(y * scale + bias);
  g.use(primitives<T>);
  const auto dy = g.differentiate({y.erased()}, {up.erased()}, {a.erased(), b.erased()});
  const auto dz = g.differentiate({z.erased()}, {up.erased()}, {a.erased(), b.erased(), scale.erased(), bias.erased()});
  const std::initializer_list<symbol> fed = {a.erased(), b.erased(), scale.erased(), bias.erased(), up.erased()};
  runner plain(g, fed, {y.erased(), dy[0], dy[1]}), with_epilogue(g, fed, {z.erased(), dz[0], dz[1], dz[2], dz[3]});
  source random(40);
  std::vector<product_shape> shapes = {{1, 1, 1},   {0, 3, 2},   {3, 0, 2},    {3, 2, 0},   {1, 3001, 1}, {2, 1500, 3},
                                       {1, 64, 97}, {97, 64, 1}, {64, 64, 64}, {17, 1, 19}, {5, 257, 40}};
  const int extents[] = {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 48};
  for (int i = 0; i < 12; ++i)
    shapes.push_back({extents[random.below(12)], extents[random.below(12)], extents[random.below(12)]});
  for (const auto& [rows, depth, columns] : shapes) {
    const data<T> da = random.uniform<T>(ta ? shape(depth, rows) : shape(rows, depth), -1, 2);
    const data<T> db = random.uniform<T>(tb ? shape(columns, depth) : shape(depth, columns), -1, 2);
    const data<T> dscale = random.uniform<T>(shape(columns), -1, 2), dbias = random.uniform<T>(shape(columns), -1, 2);
    const data<T> dup = random.upstream<T>(shape(rows, columns));
    const auto found = plain(da, db, dscale, dbias, dup), found_fused = with_epilogue(da, db, dscale, dbias, dup);
    const shape extents(rows, depth, columns);
    const auto of = [&](const char* which) { return where{"[m, k, n]", 0, " ", 0, &extents, which}; };
    same(name, at_once(eval(matmul<How>(da.template as<A>(), db.template as<B>()))), found[0].v);
    const auto m = static_cast<std::size_t>(rows), k = static_cast<std::size_t>(depth);
    const auto n = static_cast<std::size_t>(columns);
    sums ry(m * n), rz(m * n), ra(m * k), rb(k * n), raz(m * k), rbz(k * n), rscale(n), rbias(n);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const std::size_t e = i * n + j;
        const real u = dup.v[e], s = dscale.v[j];
        for (std::size_t l = 0; l < k; ++l) {
          const real x = at(da, ta, m, k, i, l), w = at(db, tb, k, n, l, j);
          const std::size_t pa = ta ? l * m + i : i * k + l, pb = tb ? j * k + l : l * n + j;
          ry.add(e, x * w);
          ra.add(pa, u * w), rb.add(pb, u * x);
          raz.add(pa, u * s * w), rbz.add(pb, u * s * x);
        }
        rz.add(e, ry.sum[e] * s, ry.magnitude[e] * std::abs(s));
        rz.add(e, dbias.v[j]);
        rscale.add(j, u * ry.sum[e], std::abs(u) * ry.magnitude[e]);
        rbias.add(j, u);
      }
    compare<T>(value, found[0].v, ry, of(""));
    compare<T>(gradient, found[1].v, ra, of(", a"));
    compare<T>(gradient, found[2].v, rb, of(", b"));
    compare<T>(fused, found_fused[0].v, rz, of(""));
    compare<T>(fused_gradient, found_fused[1].v, raz, of(", a"));
    compare<T>(fused_gradient, found_fused[2].v, rbz, of(", b"));
    compare<T>(fused_gradient, found_fused[3].v, rscale, of(", scale"));
    compare<T>(fused_gradient, found_fused[4].v, rbias, of(", bias"));
  }
  for (const row* r : {&value, &gradient, &fused, &fused_gradient}) check(*r);
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_matrices) {
  // Weft's kernels add each element up in one chain; so does what a CBLAS leaves to them.
#if defined(WEFT_HAS_DNNL)
  constexpr bool chained = false;
#else
  constexpr bool chained = true;
#endif
  product<float, transpose_of::none>("matmul", chained ? 15 : 7.5, 7);
  product<float, transpose_of::a>("matmul<a>", chained ? 15 : 7.5, 7);
  product<float, transpose_of::b>("matmul<b>", chained ? 15 : 7.5, 7);
  product<float, transpose_of::both>("matmul<both>", chained ? 15 : 7.5, 7);
  product<double, transpose_of::none>("matmul", 22, 5.5);
}

// ---- windows: convolutions and pools ----

namespace {

using extent_h = dyn_extent<"h">;
using extent_w = dyn_extent<"w">;
using images = dims<extent_n{}, extent_h{}, extent_w{}, extent_c{}>;

/// Windows of one axis: where the one of result `i` begins, and how many there are.
struct windows {
  int extent, size, stride, before, dilation, results;

  windows(int e, int s, int by, bool same, int d) : extent(e), size(s), stride(by), dilation(d) {
    const int reach = (s - 1) * d + 1;
    results = same ? (e + by - 1) / by : (e - reach) / by + 1;
    before = same ? std::max(0, (results - 1) * by + reach - e) / 2 : 0;
  }
  /// The element, or one that is not there.
  int operator()(int result, int element) const { return result * stride - before + element * dilation; }
  bool has(int x) const { return x >= 0 && x < extent; }
};

/// f(element of the images, [n, y, x, c] of the result without c, element of the window) of all that meet.
template <class F>
void each_window(int n, const windows& h, const windows& w, F f) {
  for (int i = 0; i < n; ++i)
    for (int y = 0; y < h.results; ++y)
      for (int x = 0; x < w.results; ++x)
        for (int p = 0; p < h.size; ++p)
          for (int q = 0; q < w.size; ++q)
            if (h.has(h(y, p)) && w.has(w(x, q)))
              f(static_cast<std::size_t>((i * h.extent + h(y, p)) * w.extent + w(x, q)),
                static_cast<std::size_t>((i * h.results + y) * w.results + x),
                static_cast<std::size_t>(p * w.size + q));
}

struct image_shape {
  int n, h, w, c;
};

/// Height and width may be known to the compiler alone where there is a stride or no padding.
template <class T, conv2d_options Options, int H, int W, int F, bool Same>
void convolution(const char* name, std::initializer_list<image_shape> shapes, int filters) {
  using D = std::conditional_t<H == 0, images, dims<extent_n{}, H, W, extent_c{}>>;
  using K = dims<F, F, extent_c{}, dyn_extent<"f">{}>;
  row& value = measure<T>(name, "value", unit::magnitudes, 7);
  row& gradient = measure<T>(name, "gradient", unit::magnitudes, 5.5);
  graph g;
  const auto x = placeholder<T, D>(g);
  const auto k = placeholder<T, K>(g);
  const auto y = conv2d<Options>(x, k);
  const auto up = placeholder<T, dims_t<decltype(y)>>(g);
  const auto bias = placeholder<T, dims<dyn_extent<"f">{}>>(g);
  const auto z = let(y + bias);
  g.use(primitives<T>);
  const auto d = g.differentiate({z.erased()}, {up.erased()}, {x.erased(), k.erased(), bias.erased()});
  const std::initializer_list<symbol> fed = {x.erased(), k.erased(), bias.erased(), up.erased()};
  runner plain(g, fed, {y.erased()}), with_epilogue(g, fed, {z.erased(), d[0], d[1], d[2]});
  source random(50);
  for (const auto& [n, height, width, c] : shapes) {
    const windows h(height, F, Options.stride.height, Same, Options.dilation.height);
    const windows w(width, F, Options.stride.width, Same, Options.dilation.width);
    const data<T> dx = random.uniform<T>(shape(n, height, width, c), -1, 2);
    const data<T> dk = random.uniform<T>(shape(F, F, c, filters), -1, 2);
    const data<T> dbias = random.uniform<T>(shape(filters), -1, 2);
    const data<T> dup = random.upstream<T>(shape(n, h.results, w.results, filters));
    const auto found = with_epilogue(dx, dk, dbias, dup);
    const numbers found_plain = plain(dx, dk, dbias, dup)[0].v;
    const auto of = [&](const char* which) { return where{"images", 0, " ", 0, &dx.extents, which}; };
    same(name, at_once(eval(conv2d<Options>(dx.template as<D>(), dk.template as<K>()))), found_plain);
    const auto channels = static_cast<std::size_t>(c), outputs = static_cast<std::size_t>(filters);
    sums ry(dup.size()), rz(dup.size()), rx(dx.size()), rk(dk.size()), rbias(outputs);
    each_window(n, h, w, [&](std::size_t image, std::size_t to, std::size_t element) {
      for (std::size_t i = 0; i < channels; ++i)
        for (std::size_t o = 0; o < outputs; ++o) {
          const std::size_t px = image * channels + i, pk = (element * channels + i) * outputs + o;
          const std::size_t py = to * outputs + o;
          const real a = dx.v[px], b = dk.v[pk], u = dup.v[py];
          ry.add(py, a * b), rz.add(py, a * b), rx.add(px, u * b), rk.add(pk, u * a);
        }
    });
    for (std::size_t e = 0; e < dup.size(); ++e) rz.add(e, dbias.v[e % outputs]), rbias.add(e % outputs, dup.v[e]);
    compare<T>(value, found_plain, ry, of(""));
    compare<T>(value, found[0].v, rz, of(", with bias"));
    compare<T>(gradient, found[1].v, rx, of(", images"));
    compare<T>(gradient, found[2].v, rk, of(", filters"));
    compare<T>(gradient, found[3].v, rbias, of(", bias"));
  }
  check(value), check(gradient);
}

template <class T, int Size, int Stride, bool Same, int H, int W, bool Max>
void pool(const char* name, std::initializer_list<image_shape> shapes) {
  using D = std::conditional_t<H == 0, images, dims<extent_n{}, H, W, extent_c{}>>;
  constexpr static padding pad = Same ? padding::same : padding::valid;
  row& value = measure<T>(name, "value", unit::magnitudes, Max ? 0 : 1);
  row& gradient = measure<T>(name, "gradient", unit::magnitudes, 3);
  const auto op = [](const auto& x) {
    if constexpr (Max)
      return max_pool2d<size2d(Size), size2d(Stride), pad>(x);
    else
      return avg_pool2d<size2d(Size), size2d(Stride), pad>(x);
  };
  graph g;
  const auto x = placeholder<T, D>(g);
  const auto y = op(x);
  const auto up = placeholder<T, dims_t<decltype(y)>>(g);
  g.use(primitives<T>);
  runner run(g, {x.erased(), up.erased()}, {y.erased(), g.differentiate({y.erased()}, {up.erased()}, {x.erased()})[0]});
  source random(60);
  for (const auto& [n, height, width, c] : shapes) {
    const windows h(height, Size, Stride, Same, 1), w(width, Size, Stride, Same, 1);
    data<T> dx = random.uniform<T>(shape(n, height, width, c), -1, 2);
    for (T& e : dx.v) e = static_cast<T>(std::floor(real(e) * 16) / 16);  // with equals
    const data<T> dup = random.upstream<T>(shape(n, h.results, w.results, c));
    const auto found = run(dx, dup);
    const auto of = [&](const char* which) { return where{"images", 0, " ", 0, &dx.extents, which}; };
    same(name, at_once(eval(op(dx.template as<D>()))), found[0].v);
    const auto channels = static_cast<std::size_t>(c);
    sums ry(dup.size()), rx(dx.size());
    std::vector<std::size_t> many(dup.size()), first(dup.size());
    each_window(n, h, w, [&](std::size_t image, std::size_t to, std::size_t) {
      for (std::size_t i = 0; i < channels; ++i) {
        const std::size_t px = image * channels + i, py = to * channels + i;
        const real v = dx.v[px];
        if (!Max)
          ry.add(py, v);
        else if (many[py] == 0 || v > ry.sum[py])
          ry.sum[py] = ry.magnitude[py] = v, first[py] = px;
        ++many[py];
      }
    });
    if (!Max)
      for (std::size_t e = 0; e < many.size(); ++e) ry.sum[e] /= real(many[e]), ry.magnitude[e] /= real(many[e]);
    each_window(n, h, w, [&](std::size_t image, std::size_t to, std::size_t) {
      for (std::size_t i = 0; i < channels; ++i) {
        const std::size_t px = image * channels + i, py = to * channels + i;
        const real u = dup.v[py];
        if (!Max)
          rx.add(px, u / real(many[py]));
        else if (first[py] == px)
          rx.add(px, u);
      }
    });
    compare<T>(value, found[0].v, ry, of(""));
    compare<T>(gradient, found[1].v, rx, of(""));
  }
  check(value), check(gradient);
}

}  // namespace

BOOST_AUTO_TEST_CASE(convolutions) {
  using T = float;
  convolution<T, conv2d_options{}, 0, 0, 3, true>(
      "conv2d 3x3", {{1, 1, 1, 1}, {2, 7, 5, 3}, {0, 4, 4, 2}, {1, 12, 13, 8}, {3, 2, 9, 1}, {2, 10, 10, 16}}, 5);
  convolution<T, conv2d_options{}, 0, 0, 1, true>("conv2d 1x1", {{1, 1, 1, 1}, {2, 7, 5, 3}, {1, 12, 13, 64}}, 16);
  convolution<T, conv2d_options{.stride = 2}, 11, 8, 3, true>("conv2d 3x3, stride 2", {{1, 11, 8, 1}, {3, 11, 8, 4}},
                                                              7);
  convolution<T, conv2d_options{.pad = padding::valid, .dilation = 2}, 13, 11, 3, false>(
      "conv2d 3x3, dilated", {{1, 13, 11, 1}, {3, 13, 11, 4}}, 7);
  convolution<T, conv2d_options{.pad = padding::valid}, 13, 11, 5, false>("conv2d 5x5",
                                                                          {{1, 13, 11, 1}, {3, 13, 11, 4}}, 8);
}

BOOST_AUTO_TEST_CASE(pools) {
  using T = float;
  pool<T, 2, 2, false, 12, 14, true>("max_pool2d 2x2", {{1, 12, 14, 1}, {3, 12, 14, 5}, {0, 12, 14, 3}});
  pool<T, 3, 2, true, 11, 14, true>("max_pool2d 3x3, stride 2", {{1, 11, 14, 1}, {3, 11, 14, 8}});
  pool<T, 3, 1, true, 0, 0, true>("max_pool2d 3x3, stride 1", {{1, 1, 1, 1}, {2, 5, 7, 3}, {2, 9, 1, 17}});
  pool<T, 2, 2, false, 12, 14, false>("avg_pool2d 2x2", {{1, 12, 14, 1}, {3, 12, 14, 5}, {0, 12, 14, 3}});
  pool<T, 3, 2, true, 11, 14, false>("avg_pool2d 3x3, stride 2", {{1, 11, 14, 1}, {3, 11, 14, 8}});
  pool<T, 3, 1, true, 0, 0, false>("avg_pool2d 3x3, stride 1", {{1, 1, 1, 1}, {2, 5, 7, 3}, {2, 9, 1, 17}});
}
