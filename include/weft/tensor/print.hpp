// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <iosfwd>
#include <string>

#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>
#if WEFT_DEFINITIONS
  #include <cstdio>
  #include <cstdlib>
#endif

// Text for shapes, tensors, views and expressions over tensors: `to_string(x)` and `std::cout << x`. A program that
// writes to a stream must include <iostream>.

namespace weft {
namespace detail {

/// Formats elements in row-major order like NumPy 2.4 (numpy.array2string with default options).
std::string array_text(const void* elements, dtype type, const shape& extents);

}  // namespace detail

/// Returns the elements in NumPy's layout, `[[1 2]` above ` [3 4]]`. For more than 1,000 elements, only the first and
/// last three along each axis. Evaluates an expression over tensors first.
template <Expression X>
  requires(!X::symbolic)
std::string to_string(const X& x) {
  if constexpr (X::operations == 0)
    return detail::array_text(x.data(), dtype_of<value_t<X>>, x.extents());
  else
    return to_string(eval(x));
}

/// Returns text such as "[batch, 784]".
template <auto... Extents>
std::string to_string(const dims<Extents...>&) {
  return to_string(dims<Extents...>::spec, dims<Extents...>::names);
}

/// True for types that `std::cout << x` prints like `to_string(x)`.
template <class X>
inline constexpr bool is_printable = Expression<X>;
template <auto... Extents>
inline constexpr bool is_printable<dims<Extents...>> = true;
template <>
inline constexpr bool is_printable<shape> = true;

/// Writes the text as one string: the stream's width applies to the whole text.
template <class Traits, class X>
  requires(is_printable<X>)
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const X& x) {
  return out << to_string(x).c_str();
}

#if WEFT_DEFINITIONS

WEFT_COLD_BEGIN

namespace detail {

/// A number in decimal: d.ddd times a power of ten.
struct decimal {
  char digits[24];
  int count = 0;
  int exponent = 0;

  /// The number of digits after the point without trailing zeros.
  int fraction() const {
    int n = count;
    while (n > 1 && digits[n - 1] == '0') --n;
    return n - 1;
  }
};

/// Rounds a positive number correctly to `fraction` digits after the decimal point.
inline decimal rounded_decimal(double positive, int fraction) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*e", fraction, positive);
  decimal d;
  const char* c = text;
  for (; *c != 'e'; ++c)  // skips the decimal separator, which depends on the locale
    if (*c >= '0' && *c <= '9') d.digits[d.count++] = *c;
  d.exponent = std::atoi(c + 1);
  return d;
}

/// Returns the value of the digits, rounded to nearest, as a float if `single` and otherwise as a double.
inline double value_of(const decimal& d, bool single) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*se%d", d.count, d.digits, d.exponent - d.count + 1);
  return single ? static_cast<double>(std::strtof(text, nullptr)) : std::strtod(text, nullptr);
}

// These functions test bits because a program may be compiled with -ffast-math.
inline bool is_negative(double x) { return __builtin_bit_cast(std::uint64_t, x) >> 63; }
inline double magnitude(double x) {
  return __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, x) & ~(std::uint64_t{1} << 63));
}
inline bool is_finite(double x) { return (__builtin_bit_cast(std::uint64_t, x) >> 52 & 0x7ff) != 0x7ff; }
inline bool is_nan(double x) { return !is_finite(x) && __builtin_bit_cast(std::uint64_t, x) << 12 != 0; }

/// Returns the value of an element from its bits, which are in the low bytes.
inline double element_value(dtype type, std::uint64_t bits) {
  switch (type) {
    case dtype::float16: {
      half h;
      h.bits = static_cast<std::uint16_t>(bits);
      return h;
    }
    case dtype::bfloat16:
      return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
    case dtype::float32:
      return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits));
    default:
      return __builtin_bit_cast(double, bits);
  }
}

/// Formats numbers of a floating-point type with the fewest digits that identify them.
class shortest_decimals {
 public:
  explicit shortest_decimals(dtype type) : type_(type) {}

  /// The maximum number of digits that a number of the type requires.
  int max_digits() const {
    switch (type_) {
      case dtype::float64:
        return 17;
      case dtype::float32:
        return 9;
      case dtype::float16:
        return 5;
      default:
        return 4;
    }
  }

  /// Returns the shortest digits of a positive number and, among these, the nearest.
  decimal operator()(double positive) const {
    int low = 1, high = max_digits();
    while (low < high) {
      const int middle = (low + high) / 2;
      if (is(positive, rounded_decimal(positive, middle - 1)))
        high = middle;
      else
        low = middle + 1;
    }
    // Numbers below a power of two are twice as dense as those above. One digit less can therefore suffice if it is
    // rounded up, although rounding down is nearer.
    if (low > 1 && is_power_of_two(positive)) {
      decimal shorter = rounded_decimal(positive, low - 2);
      increment(shorter);
      if (is(positive, shorter)) return shorter;
    }
    return rounded_decimal(positive, low - 1);
  }

 private:
  static bool is_power_of_two(double x) { return (__builtin_bit_cast(std::uint64_t, x) << 12) == 0; }
  static void increment(decimal& d) {
    int i = d.count;
    while (i > 0 && d.digits[i - 1] == '9') d.digits[--i] = '0';
    if (i > 0)
      ++d.digits[i - 1];
    else
      d.digits[0] = '1', ++d.exponent;
  }

  bool is_between_neighbours(double x, double candidate) const {
    const auto bits = type_ == dtype::float16 ? half(static_cast<float>(x)).bits : bfloat16(static_cast<float>(x)).bits;
    const double below = (x + element_value(type_, bits - 1u)) / 2;
    // The largest number has no successor: assumes the distance to its predecessor.
    const double next = element_value(type_, bits + 1u), above = is_finite(next) ? (x + next) / 2 : x + (x - below);
    return (candidate > below && candidate < above) || (bits % 2 == 0 && (candidate == below || candidate == above));
  }

  /// Returns true if the digits parse to this number.
  bool is(double positive, const decimal& d) const {
    switch (type_) {
      case dtype::float64:
        return value_of(d, false) == positive;
      case dtype::float32:
        return value_of(d, true) == positive;
      default:  // exact: a number with so few digits is a double, or is far from the midpoint of two elements
        return is_between_neighbours(positive, value_of(d, false));
    }
  }

  dtype type_;
};

/// NumPy's array2string. Names follow numpy/_core/arrayprint.py.
class array_printer {
 public:
  array_printer(const void* elements, dtype type, const shape& extents)
      : data_(static_cast<const char*>(elements)), type_(type), extents_(extents), shortest_(type) {}

  std::string text() {
    const std::size_t elements = extents_.elements();
    if (elements == 0) return "[]";
    summarized_ = elements > threshold;
    find_shown(0, 0);
    if (is_floating(type_)) {
      for (const std::size_t i : shown_) find_range(i);
      choose_notation();
      for (const std::size_t i : shown_) measure(i);
      pad_not_finite();
    } else if (type_ != dtype::boolean) {
      for (const std::size_t i : shown_) widen(pad_left_, static_cast<int>(integer(i).size()));
    }
    std::string s;
    add(s, 0, 0, 1, line_width);
    return s;
  }

 private:
  static constexpr std::size_t threshold = 1000, line_width = 75;
  static constexpr std::int64_t edge_items = 3;
  static constexpr int precision = 8;

  bool is_summarized(std::size_t axis) const { return summarized_ && extents_[axis] > 2 * edge_items; }

  void find_shown(std::size_t axis, std::size_t index) {
    if (axis == extents_.rank) return shown_.push_back(index);
    const std::int64_t extent = extents_[axis];
    for (std::int64_t i = 0; i < extent; ++i) {
      if (i == edge_items && is_summarized(axis)) i = extent - edge_items;
      find_shown(axis + 1, index * static_cast<std::size_t>(extent) + static_cast<std::size_t>(i));
    }
  }

  // ---- elements ----

  std::uint64_t bits(std::size_t i) const {
    std::uint64_t value = 0;
    __builtin_memcpy(&value, data_ + i * size_of(type_), size_of(type_));  // little-endian
    return value;
  }
  double number(std::size_t i) const { return element_value(type_, bits(i)); }
  std::string integer(std::size_t i) const {
    const std::size_t above = 64 - 8 * size_of(type_);
    if (type_ >= dtype::uint8) return str_cat({bits(i)});
    return str_cat({static_cast<std::int64_t>(bits(i) << above) >> above});
  }

  // ---- floating-point formats ----

  /// Rounds a double to the element type.
  double as_element(double x) const {
    const auto single = static_cast<float>(x);
    return type_ == dtype::float64    ? x
           : type_ == dtype::float32  ? single
           : type_ == dtype::bfloat16 ? float(bfloat16(single))
                                      : float(half(single));
  }

  void find_range(std::size_t i) {
    const double x = number(i), size = magnitude(x);
    if (!is_finite(x)) {
      not_finite_ = true;
      negative_infinity_ = negative_infinity_ || (is_negative(x) && !is_nan(x));
      return;
    }
    if (__builtin_bit_cast(std::uint64_t, size) == 0) return;
    if (largest_ == 0 || size > largest_) largest_ = size;
    if (largest_ == size && smallest_ == 0) smallest_ = size;
    if (size < smallest_) smallest_ = size;
  }

  /// Uses scientific notation if the largest number has more digits than its type represents or than 8, if the smallest
  /// is below 0.0001, or if their ratio exceeds 1,000.
  void choose_notation() {
    if (largest_ == 0) return;
    const double largest_fixed = type_ == dtype::float64   ? 1e8
                                 : type_ == dtype::float32 ? 1e6
                                 : type_ == dtype::float16 ? 1e3
                                                           : 1e2;
    scientific_ = largest_ >= largest_fixed || smallest_ < as_element(0.0001) ||
                  as_element(largest_ / smallest_) > 1000 || !is_finite(as_element(largest_ / smallest_));
  }

  /// Returns the digits to print in fixed notation, or those that determine the precision in scientific notation.
  decimal digits(double size) const {
    if (__builtin_bit_cast(std::uint64_t, size) == 0) return zero();
    const decimal d = shortest_(size);
    if (scientific_) return d.count - 1 <= precision ? d : rounded_decimal(size, precision);
    return d.count - 1 - d.exponent <= precision ? d : rounded_decimal(size, d.exponent + precision);
  }
  static decimal zero() {
    decimal d;
    d.digits[d.count++] = '0';
    return d;
  }

  static void widen(std::size_t& width, int to) {
    if (to > 0 && static_cast<std::size_t>(to) > width) width = static_cast<std::size_t>(to);
  }
  void measure(std::size_t i) {
    const double x = number(i);
    if (!is_finite(x)) return;
    const decimal d = digits(magnitude(x));
    if (scientific_) {
      widen(pad_left_, 1 + is_negative(x));
      widen(fraction_, d.fraction());
      if (d.exponent >= 100 || d.exponent <= -100) exponent_digits_ = 3;
      pad_right_ = exponent_digits_ + 2 + fraction_;
    } else {
      widen(pad_left_, (d.exponent > 0 ? d.exponent + 1 : 1) + is_negative(x));
      widen(pad_right_, d.fraction() - d.exponent);
    }
  }

  void pad_not_finite() {
    if (!not_finite_) return;
    const std::size_t width = negative_infinity_ ? 4 : 3;
    if (pad_left_ + pad_right_ + 1 < width) pad_left_ = width - pad_right_ - 1;
  }

  std::string floating(std::size_t i) const {
    const double x = number(i);
    const char* const sign = is_negative(x) && !is_nan(x) ? "-" : "";
    if (!is_finite(x)) return padded(str_cat({sign, is_nan(x) ? "nan" : "inf"}), pad_left_ + pad_right_ + 1);
    std::string s = sign;
    return scientific_ ? scientific(s, magnitude(x)) : fixed(s, magnitude(x));
  }

  /// Pads with the number's exact digits instead of zeros.
  std::string scientific(std::string& s, double size) const {
    const int fraction = static_cast<int>(fraction_);
    decimal d = zero();
    if (__builtin_bit_cast(std::uint64_t, size) != 0) {
      d = shortest_(size);
      if (d.count - 1 != fraction) d = rounded_decimal(size, fraction);
    }
    s += d.digits[0];
    s += '.';
    for (int k = 1; k <= fraction; ++k) s += k < d.count ? d.digits[k] : '0';
    const int power = d.exponent < 0 ? -d.exponent : d.exponent;
    const std::string exponent = str_cat({power});
    s += d.exponent < 0 ? "e-" : "e+";
    s.append(exponent_digits_ - exponent.size(), '0');
    s += exponent;
    return padded(s, pad_left_ + 1 + pad_right_);
  }

  std::string fixed(std::string& s, double size) const {
    const decimal d = digits(size);
    const int before = d.exponent < 0 ? 0 : d.exponent + 1, last = d.fraction();
    for (int k = 0; k < before; ++k) s += k < d.count ? d.digits[k] : '0';
    if (before == 0) s += '0';
    s += '.';
    const std::size_t point = s.size();
    for (int k = -1; k > d.exponent; --k) s += '0';
    for (int k = before; k <= last; ++k) s += d.digits[k];
    s.append(pad_right_ - (s.size() - point), ' ');
    return padded(s, pad_left_ + 1 + pad_right_);
  }

  static std::string padded(const std::string& s, std::size_t width) {
    std::string text(width > s.size() ? width - s.size() : 0, ' ');
    return text += s;
  }

  std::string element(std::size_t i) const {
    if (is_floating(type_)) return floating(i);
    if (type_ == dtype::boolean) return bits(i) == 0 ? "False" : extents_.rank == 0 ? "True" : " True";
    return padded(integer(i), pad_left_);
  }

  // ---- layout ----

  /// Appends the elements below `index` of the axes before `axis`, in lines indented by `indent` blanks.
  void add(std::string& to, std::size_t axis, std::size_t index, std::size_t indent, std::size_t width) const {
    if (axis == extents_.rank) {
      to += element(index);
      return;
    }
    const std::int64_t extent = extents_[axis];
    const auto below = [&](std::int64_t i) {
      return index * static_cast<std::size_t>(extent) + static_cast<std::size_t>(i);
    };
    const bool innermost = axis + 1 == extents_.rank;
    to += '[';
    std::string line(indent, ' ');  // of the innermost axis; the indentation precedes the bracket
    const auto add_word = [&](const std::string& word, bool first) {
      if (!first) line += ' ';
      if (line.size() + word.size() > width - 1 && line.size() > indent) {
        line.erase(line.find_last_not_of(' ') + 1);
        to.append(line, indent, std::string::npos);
        (to += '\n').append(indent, ' ');
        line.assign(indent, ' ');
      }
      line += word;
    };
    for (std::int64_t i = 0; i < extent; ++i) {
      const bool gap = i == edge_items && is_summarized(axis);
      if (innermost) {
        if (gap) add_word("...", false), i = extent - edge_items;
        add_word(element(below(i)), i == 0);
        continue;
      }
      const auto next_line = [&] { to.append(extents_.rank - axis - 1, '\n').append(indent, ' '); };
      if (gap) next_line(), to += "...", i = extent - edge_items;
      if (i > 0) next_line();
      add(to, axis + 1, below(i), indent + 1, width - 1);
    }
    if (innermost) to.append(line, indent, std::string::npos);
    to += ']';
  }

  const char* data_;
  dtype type_;
  shape extents_;
  shortest_decimals shortest_;
  sequence<std::size_t> shown_;
  bool summarized_ = false;
  bool scientific_ = false, not_finite_ = false, negative_infinity_ = false;
  double smallest_ = 0, largest_ = 0;
  std::size_t pad_left_ = 0, pad_right_ = 0, fraction_ = 0, exponent_digits_ = 2;
};

WEFT_DECL std::string array_text(const void* elements, dtype type, const shape& extents) {
  return array_printer(elements, type, extents).text();
}

}  // namespace detail

WEFT_COLD_END

#endif

}  // namespace weft
