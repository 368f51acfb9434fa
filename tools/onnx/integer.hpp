// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <weft/error.hpp>

/// Extents and integers of an ONNX graph that are known at import.
namespace tool::importer {

using weft::error;
using weft::error_code;

/// A polynomial over extents with names, and over quotients of polynomials. An atom is the C++ text of a name or a
/// quotient: `dyn<"batch">`, `floor_quotient(dyn<"n">, extent<2>)`.
class integer {
 public:
  integer(std::int64_t number = 0) {
    if (number != 0) terms_[{}] = number;
  }
  static integer atom(const std::string& text) {
    integer one;
    one.terms_[{text}] = 1;
    return one;
  }
  static integer named(const std::string& name) { return atom("dyn<\"" + name + "\">"); }

  bool is_number() const { return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()); }
  /// The number. Throws internal if this is not a number.
  std::int64_t number() const {
    if (!is_number()) throw error(error_code::internal, "import", {text(), " is not a number"});
    return terms_.empty() ? 0 : terms_.begin()->second;
  }
  bool is(std::int64_t number) const { return is_number() && this->number() == number; }

  friend integer operator+(const integer& a, const integer& b) {
    integer sum = a;
    for (const auto& [atoms, factor] : b.terms_) sum.add(atoms, factor);
    return sum;
  }
  friend integer operator-(const integer& a, const integer& b) { return a + b * integer(-1); }
  friend integer operator*(const integer& a, const integer& b) {
    integer product;
    for (const auto& [x, f] : a.terms_)
      for (const auto& [y, k] : b.terms_) {
        std::vector<std::string> atoms = x;
        atoms.insert(atoms.end(), y.begin(), y.end());
        std::sort(atoms.begin(), atoms.end());
        std::int64_t factor;
        if (__builtin_mul_overflow(f, k, &factor)) overflow();
        product.add(atoms, factor);
      }
    if (product.terms_.size() > 1000) overflow();
    return product;
  }
  bool operator==(const integer&) const = default;

  /// Returns the quotient if the division is known to be exact: that of polynomials, in lexicographic order.
  friend std::optional<integer> exact_quotient(integer a, const integer& b) {
    integer quotient;
    if (b.terms_.empty()) return std::nullopt;
    const auto& [divisor, by] = b.leading_term();
    for (int step = 0; !a.terms_.empty(); ++step) {
      const auto& [atoms, factor] = a.leading_term();
      integer part;
      std::vector<std::string> left;
      if (by == -1 && factor == std::numeric_limits<std::int64_t>::min()) overflow();
      if (step == 100 || factor % by != 0 || !std::includes(atoms.begin(), atoms.end(), divisor.begin(), divisor.end()))
        return std::nullopt;
      std::set_difference(atoms.begin(), atoms.end(), divisor.begin(), divisor.end(), std::back_inserter(left));
      part.add(left, factor / by);
      quotient = quotient + part;
      a = a - part * b;
    }
    return quotient;
  }
  /// Returns the quotient, rounded down. Throws invalid_argument if b is 0.
  friend integer floor_quotient(const integer& a, const integer& b) {
    if (b.is(0)) throw error(error_code::invalid_argument, "import", "a shape is divided by 0");
    if (const auto exact = exact_quotient(a, b)) return *exact;
    if (a.is_number() && b.is_number()) {
      const std::int64_t x = a.number(), y = b.number();
      return x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
    }
    return atom("floor_quotient(" + a.term_text(false) + ", " + b.term_text(false) + ")");
  }

  /// As an argument of dims: `dyn<"batch"> * extent<12>`, or for people: `12 * batch`.
  std::string text(bool for_people = false) const {
    return is_number() ? std::to_string(number()) : for_people ? plain(term_text(true)) : term_text(false);
  }

 private:
  [[noreturn]] static void overflow() {
    throw error(error_code::invalid_argument, "import", "the numbers in a shape are too large");
  }
  void add(const std::vector<std::string>& atoms, std::int64_t factor) {
    std::int64_t& sum = terms_[atoms];
    if (__builtin_add_overflow(sum, factor, &sum)) overflow();
    if (sum == 0) terms_.erase(atoms);
  }
  /// Returns the term with the most of the first atom, of the second if equal, and so on. Needs a term.
  const std::pair<const std::vector<std::string>, std::int64_t>& leading_term() const {
    return *std::min_element(terms_.begin(), terms_.end(), [](const auto& a, const auto& b) {
      const auto [x, y] = std::mismatch(a.first.begin(), a.first.end(), b.first.begin(), b.first.end());
      return x != a.first.end() && (y == b.first.end() || *x < *y);
    });
  }
  std::string term_text(bool for_people) const {
    const auto number_text = [&](std::int64_t n) {
      return for_people ? std::to_string(n) : "extent<" + std::to_string(n) + ">";
    };
    if (terms_.empty()) return number_text(0);
    std::vector<std::pair<std::vector<std::string>, std::int64_t>> order(terms_.begin(), terms_.end());
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second < 0, a.first.empty()) < std::pair(b.second < 0, b.first.empty());
    });
    std::string text;
    for (const auto& [atoms, factor] : order) {
      if (!text.empty()) text += factor < 0 ? " - " : " + ";
      const std::int64_t size = !text.empty() && factor < 0 ? -factor : factor;
      std::string product;
      for (const std::string& each : atoms) product += (product.empty() ? "" : " * ") + each;
      text += atoms.empty() ? number_text(size) : size == 1 ? product : product + " * " + number_text(size);
    }
    return text;
  }
  /// Returns the text without C++'s marks: `dyn<"batch">` is `batch`.
  static std::string plain(std::string text) {
    for (const std::string mark : {"dyn<\"", "extent<"})
      for (std::size_t at; (at = text.find(mark)) != text.npos;) {
        const bool quoted = mark.back() == '"';
        const std::size_t end = text.find(quoted ? "\">" : ">", at);
        text.erase(end, quoted ? 2 : 1);
        text.erase(at, mark.size());
      }
    return text;
  }

  std::map<std::vector<std::string>, std::int64_t> terms_;  // without zeros
};

/// Extents or elements. Files can have values of any number of axes, so that indices are checked: one that is out of
/// range throws std::out_of_range, which refuses the node that is imported.
struct integers : std::vector<integer> {
  using std::vector<integer>::vector;
  integers(std::vector<integer> all) : std::vector<integer>(std::move(all)) {}
  integer& operator[](std::size_t i) { return at(i); }
  const integer& operator[](std::size_t i) const { return at(i); }
  integer& back() { return at(size() - 1); }
  const integer& back() const { return at(size() - 1); }
};

inline bool all_numbers(const integers& all) {
  return std::all_of(all.begin(), all.end(), [](const integer& each) { return each.is_number(); });
}

inline integer product_of(const integers& all) {
  integer product = 1;
  for (const integer& each : all) product = product * each;
  return product;
}

}  // namespace tool::importer
