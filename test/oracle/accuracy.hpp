// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>
#include <weft/weft.hpp>

/// Tools that accuracy.cpp measures with: errors in units in the last place, a table of the worst of them, values at
/// random.
namespace accuracy {

using weft::shape;
using real = long double;
using numbers = std::vector<double>;  // which holds what float, double, int and bool hold

/// The number in whose units in the last place an error is counted.
enum class unit { result, magnitudes };

/// |found - expected| in units in the last place (of a T) of `magnitude`. The result is infinite for numbers that T has
/// no room for; an infinity counts as the power of two behind the largest number where the right one is finite.
template <class T>
double ulps(double found, real expected, real magnitude) {
  using limits = std::numeric_limits<T>;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (found != found || expected != expected) return found != found && expected != expected ? 0 : wrong;
  const real end = std::ldexp(real(1), limits::max_exponent);
  if (std::isinf(expected) && real(found) != expected) return wrong;
  const real e = std::clamp(expected, -end, end), f = std::clamp(real(found), -end, end);
  if (e == f) return 0;
  const real m = std::clamp(std::abs(magnitude), real(limits::min()), real(limits::max()));
  return static_cast<double>(std::abs(f - e) / std::ldexp(real(1), std::ilogb(m) - (limits::digits - 1)));
}

/// Where an error was found, in words that are made when they are needed.
struct where {
  const char* before = "";
  double a = 0;
  const char* between = nullptr;
  double b = 0;
  const shape* of = nullptr;
  const char* after = "";

  std::string words() const {
    char numbers[80];
    std::string s = before;
    if (between)
      std::snprintf(numbers, sizeof numbers, "%.9g%s%.9g", a, between, b), s += numbers;
    else if (!of)
      std::snprintf(numbers, sizeof numbers, "%.9g (%a)", a, a), s += numbers;
    if (of) s += " of " + std::string(to_string(*of).c_str());
    return s + after;
  }
};

struct row {
  std::string operation, type, what;
  unit in;
  double bound;  // as the test demands it
  double worst = 0;
  std::size_t numbers = 0;
  std::string found_at;  // the worst

  std::string key() const {
    const std::string of = in == unit::result ? "the result" : "the magnitudes";
    return "| " + operation + " | " + type + " | " + what + " | " + of + " | ";
  }

  template <class T>
  void add(double found, real expected, real magnitude, const where& at) {
    ++numbers;
    const double e = ulps<T>(found, expected, magnitude);
    if (e <= worst) return;
    worst = e;
    char words[256];
    std::snprintf(words, sizeof words, "%s: %.9g (%a) is not %.12Lg, magnitude %.4Lg", at.words().c_str(), found, found,
                  expected, magnitude);
    found_at = words;
  }
};

std::string with_two_digits(double x) {
  char words[32];
  std::snprintf(words, sizeof words, x < 10 ? "%.2f" : "%.1f", x);
  return words;
}

/// All rows, in the order of their making; written as a table at the program's end. The rows that a table at the same
/// place has of other instruction sets and other programs stay, and so does the text around it.
struct table {
  std::vector<std::unique_ptr<row>> rows;

  row& make(row r) {
    for (const auto& other : rows)
      if (other->key() == r.key()) return *other;
    rows.push_back(std::make_unique<row>(std::move(r)));
    return *rows.back();
  }

  ~table() {
    const char* path = std::getenv("WEFT_ACCURACY_TABLE");
    if (!path) return;
    const std::string isa = weft::name(weft::detected_isa()), fixed = "| operation | of | what | ulp of | bound |";
    std::string before, after, line;
    std::vector<std::string> columns, old;
    std::ifstream in(path);
    bool behind = false;
    while (std::getline(in, line))
      if (line.rfind(fixed, 0) == 0)
        columns = cells(line.substr(fixed.size())), behind = true;
      else if (line.rfind("|", 0) == 0)
        old.push_back(line);
      else
        (behind ? after : before) += line + "\n";
    in.close();
    std::size_t mine = 0;
    while (mine < columns.size() && columns[mine] != isa) ++mine;
    if (mine == columns.size()) columns.push_back(isa);

    std::ofstream out(path);
    out << before << fixed;
    for (const auto& c : columns) out << " " << c << " |";
    out << "\n|---|---|---|---|---:|";
    for (std::size_t i = 0; i < columns.size(); ++i) out << "---:|";
    out << "\n";
    for (const auto& r : rows) {
      std::vector<std::string> values;
      for (auto& o : old)
        if (o.rfind(r->key(), 0) == 0) values = cells(o.substr(r->key().size() - 1)), o.clear();
      if (!values.empty()) values.erase(values.begin());  // the bound
      values.resize(columns.size());
      values[mine] = with_two_digits(r->worst);
      out << r->key() << (r->bound > 0 ? with_two_digits(r->bound) : "exact") << " |";
      for (const auto& v : values) out << " " << v << " |";
      out << "\n";
    }
    for (const auto& o : old)
      if (!o.empty() && o.rfind("|---", 0) != 0) out << o << "\n";
    out << after;
  }

 private:
  /// Those of "| a | b |", or of " a | b |".
  static std::vector<std::string> cells(const std::string& line) {
    std::vector<std::string> found;
    std::string cell;
    for (const char c : line)
      if (c == '|') {
        while (!cell.empty() && cell.back() == ' ') cell.pop_back();
        if (!cell.empty()) found.push_back(cell.substr(cell.find_first_not_of(' ')));
        cell.clear();
      } else {
        cell += c;
      }
    return found;
  }
};

inline table all;

template <class T>
row& measure(const std::string& operation, const std::string& what, unit in, double bound) {
  return all.make({operation, std::is_same_v<T, float> ? "float" : "double", what, in, bound, 0, 0, {}});
}

inline void check(const row& r) {
  BOOST_CHECK_GT(r.numbers, 0u);
  BOOST_CHECK_MESSAGE(r.worst <= r.bound, r.key() << r.worst << " ulp is more than " << r.bound << ": " << r.found_at);
}

// ---- values ----

template <class T>
struct data {
  shape extents;
  std::vector<T> v;

  std::size_t size() const { return v.size(); }
  template <class D>
  weft::tensor<T, D> as() const {
    weft::tensor<T, D> t(extents);
    std::copy(v.begin(), v.end(), t.data());
    return t;
  }
};

/// From a fixed seed. No distributions of the standard library, which differ between libraries.
struct source {
  std::mt19937_64 random;

  explicit source(unsigned seed) : random(seed) {}
  double in(double low, double high) { return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53); }
  std::size_t below(std::size_t n) { return random() % n; }

  template <class T>
  data<T> uniform(const shape& extents, double low, double high) {
    data<T> d{extents, std::vector<T>(extents.elements())};
    for (T& x : d.v) x = static_cast<T>(in(low, high));
    return d;
  }
  /// No number near 0, so that what they are multiplied with does not vanish.
  template <class T>
  data<T> upstream(const shape& extents) {
    data<T> d = uniform<T>(extents, 0.25, 2);
    for (T& x : d.v) x = below(2) ? x : -x;
    return d;
  }
  /// A number of whatever bits.
  template <class T>
  T any() {
    using bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    return __builtin_bit_cast(T, static_cast<bits>(random()));
  }
};

template <class T>
std::vector<T> edges() {
  using limits = std::numeric_limits<T>;
  std::vector<T> positive{T(0),
                          limits::denorm_min(),
                          limits::denorm_min() * 12345,
                          limits::min(),
                          std::nextafter(limits::min(), T(0)),
                          limits::epsilon(),
                          limits::epsilon() / 2,
                          T(1e-3),
                          T(0.5),
                          std::nextafter(T(0.5), T(0)),
                          T(1),
                          std::nextafter(T(1), T(0)),
                          std::nextafter(T(1), T(2)),
                          T(1.5),
                          T(2),
                          T(3),
                          std::nextafter(T(3), T(0)),
                          T(1 / limits::epsilon()),
                          T(1 / limits::epsilon()) - T(0.5),
                          T(1e10),
                          std::sqrt(limits::max()),
                          std::sqrt(limits::min()),
                          limits::max(),
                          limits::max() / 2,
                          limits::infinity(),
                          sizeof(T) == 4 ? T(88.72283) : T(709.78271289338397),
                          sizeof(T) == 4 ? T(88.72284) : T(709.782712893384),
                          sizeof(T) == 4 ? T(87.33655) : T(708.3964185322641),
                          sizeof(T) == 4 ? T(103.97208) : T(745.1332191019411),
                          sizeof(T) == 4 ? T(103.97209) : T(745.1332191019412),
                          T(0.6931471805599453),
                          T(0.34657359027997264)};
  std::vector<T> both = positive;
  for (const T x : positive) both.push_back(-x);
  both.push_back(limits::quiet_NaN());
  return both;
}

// ---- steps ----

/// A value that a session yields, as doubles.
struct result {
  shape extents;
  numbers v;
};

template <class T>
numbers as_numbers(const T* from, std::size_t n) {
  return numbers(from, from + n);
}

/// A step of a session of one thread.
class runner {
 public:
  runner(weft::graph& g, std::initializer_list<weft::symbol> fed, std::initializer_list<weft::symbol> fetched)
      : session_(g, {.threads = 1}) {
    weft::plan::step_request request;
    for (const auto& s : fed) request.feeds.push_back(s.id());
    for (const auto& s : fetched) request.fetches.push_back(s.id()), types_.push_back(s.info().type);
    step_.emplace(session_, request);
  }

  template <class... Data>
  std::vector<result> operator()(const Data&... d) {
    const weft::plan::fed_value fed[] = {{d.v.data(), d.extents}...};
    std::vector<result> found(types_.size());
    std::vector<std::vector<std::uint64_t>> bytes(types_.size());
    step_->run(fed, [&](std::size_t i, const shape& extents) -> void* {
      found[i].extents = extents;
      bytes[i].resize(extents.elements() + 1);
      return bytes[i].data();
    });
    for (std::size_t i = 0; i < found.size(); ++i) {
      const void* p = bytes[i].data();
      const std::size_t n = found[i].extents.elements();
      switch (types_[i]) {
        case weft::dtype::float32:
          found[i].v = as_numbers(static_cast<const float*>(p), n);
          break;
        case weft::dtype::float64:
          found[i].v = as_numbers(static_cast<const double*>(p), n);
          break;
        case weft::dtype::boolean:
          found[i].v = as_numbers(static_cast<const bool*>(p), n);
          break;
        default:
          BOOST_FAIL("no such type here");
      }
    }
    return found;
  }

 private:
  weft::session session_;
  std::vector<weft::dtype> types_;
  std::optional<weft::prepared_step> step_;
};

template <class Tensor>
numbers at_once(const Tensor& t) {
  return as_numbers(t.data(), t.elements());
}

/// Bit for bit, but for the bits of NaN.
inline void same(const std::string& what, const numbers& eager, const numbers& in_graph) {
  BOOST_REQUIRE_EQUAL(eager.size(), in_graph.size());
  for (std::size_t i = 0; i < eager.size(); ++i)
    if (!(eager[i] == in_graph[i] && std::signbit(eager[i]) == std::signbit(in_graph[i])) &&
        !(eager[i] != eager[i] && in_graph[i] != in_graph[i])) {
      BOOST_ERROR(what << "[" << i << "] is " << eager[i] << " at once and " << in_graph[i] << " in a graph");
      return;
    }
}

// ---- shapes ----

using extent_a = weft::dyn_extent<"a">;
using extent_b = weft::dyn_extent<"b">;
using extent_c = weft::dyn_extent<"c">;
using matrix = weft::dims<extent_a{}, extent_b{}>;
using cube = weft::dims<extent_a{}, extent_b{}, extent_c{}>;

inline const shape cubes[] = {shape(1, 1, 1),    shape(2, 3, 5),    shape(0, 3, 4),    shape(3, 0, 4),
                              shape(3, 4, 0),    shape(1, 1, 5003), shape(4001, 1, 1), shape(7, 409, 3),
                              shape(33, 16, 17), shape(1, 4096, 1), shape(3, 2, 2053), shape(2, 1, 300),
                              shape(257, 1, 31), shape(1, 19, 64)};

template <class F>
void each(const shape& s, F f) {
  const auto a = static_cast<std::size_t>(s[0]), b = static_cast<std::size_t>(s[1]), c = static_cast<std::size_t>(s[2]);
  for (std::size_t i = 0; i < a; ++i)
    for (std::size_t j = 0; j < b; ++j)
      for (std::size_t k = 0; k < c; ++k) f(i, j, k, (i * b + j) * c + k);
}

/// The sums of what arrives at an operand, and of its magnitudes.
struct sums {
  std::vector<real> sum, magnitude;
  explicit sums(std::size_t n) : sum(n), magnitude(n) {}
  void add(std::size_t i, real x) { sum[i] += x, magnitude[i] += std::abs(x); }
  void add(std::size_t i, real x, real m) { sum[i] += x, magnitude[i] += m; }
};

template <class T>
void compare(row& r, const numbers& found, const sums& right, const where& at) {
  BOOST_REQUIRE_EQUAL(found.size(), right.sum.size());
  for (std::size_t i = 0; i < found.size(); ++i) r.add<T>(found[i], right.sum[i], right.magnitude[i], at);
}

}  // namespace accuracy
