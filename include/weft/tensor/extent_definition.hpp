// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/config.hpp>

/// The definition of a dynamic extent: a name, a quotient, or a polynomial in normal form.
namespace weft {

/// A string as a template argument: the name of a dynamic extent.
template <std::size_t Count>
struct fixed_string {
  char text[Count]{};
  constexpr fixed_string(const char (&literal)[Count]) {
    for (std::size_t i = 0; i < Count; ++i) text[i] = literal[i];
  }
};

namespace detail {

constexpr std::uint64_t hash_word(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

/// Returns the code that represents a dynamic extent in a shape: negative, and equal for equal definitions.
constexpr std::int64_t code_of(std::uint64_t hash) { return -1 - static_cast<std::int64_t>(hash >> 2); }

}  // namespace detail

/// The definition of a dynamic extent: a name, a quotient, or a polynomial in names and quotients.
struct extent_definition {
  enum class rounding : unsigned char { exact, down, up };

  /// factor * atom * atom ... Atoms are sorted codes, padded with 0.
  struct term {
    static constexpr std::size_t max_atoms = 4;
    std::int64_t factor = 0;
    std::int64_t atoms[max_atoms]{};
  };
  static constexpr std::size_t max_terms = 8, max_text = 96;

  char text[max_text]{};                         ///< "batch", "a + 2 * b", "ceil(height / 2)"
  std::int64_t code = 0;                         ///< the extent itself if it is a number
  const extent_definition* numerator = nullptr;  ///< of a quotient
  const extent_definition* denominator = nullptr;
  rounding round = rounding::exact;
  term terms[max_terms]{};  ///< of a polynomial
  std::size_t term_count = 0;
  const extent_definition* atoms[max_terms]{};  ///< the names and quotients in the terms
  std::size_t atom_count = 0;

  constexpr bool is_number() const { return term_count == 0 || (term_count == 1 && terms[0].atoms[0] == 0); }
  constexpr bool is_name() const {
    return !numerator && term_count == 1 && terms[0].factor == 1 && terms[0].atoms[0] == code && terms[0].atoms[1] == 0;
  }
  constexpr std::int64_t number() const { return term_count == 0 ? 0 : terms[0].factor; }
};

namespace detail {

class extent_text {
 public:
  constexpr explicit extent_text(extent_definition& to) : to_(to) {}
  constexpr void add(const char* words) {
    while (*words && size_ + 1 < extent_definition::max_text) to_.text[size_++] = *words++;
  }
  constexpr void add(std::int64_t number) {
    char digits[24]{};
    std::size_t n = 0;
    do digits[n++] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    while (n > 0 && size_ + 1 < extent_definition::max_text) to_.text[size_++] = digits[--n];
  }

 private:
  extent_definition& to_;
  std::size_t size_ = 0;
};

constexpr bool same_atoms(const extent_definition::term& a, const extent_definition::term& b) {
  for (std::size_t i = 0; i < extent_definition::term::max_atoms; ++i)
    if (a.atoms[i] != b.atoms[i]) return false;
  return true;
}
constexpr bool before(const extent_definition::term& a, const extent_definition::term& b) {
  for (std::size_t i = 0; i < extent_definition::term::max_atoms; ++i)
    if (a.atoms[i] != b.atoms[i]) return a.atoms[i] < b.atoms[i];
  return false;
}

/// Adds a term to a polynomial in normal form: terms are sorted, and terms with equal atoms are merged. Returns false
/// if there are too many terms.
constexpr bool add_term(extent_definition& to, const extent_definition::term& t) {
  std::size_t i = 0;
  while (i < to.term_count && before(to.terms[i], t)) ++i;
  if (i < to.term_count && same_atoms(to.terms[i], t)) {
    to.terms[i].factor += t.factor;
    if (to.terms[i].factor != 0) return true;
    for (--to.term_count; i < to.term_count; ++i) to.terms[i] = to.terms[i + 1];
    to.terms[to.term_count] = {};
    return true;
  }
  if (t.factor == 0) return true;
  if (to.term_count == extent_definition::max_terms) return false;
  for (std::size_t k = to.term_count++; k > i; --k) to.terms[k] = to.terms[k - 1];
  to.terms[i] = t;
  return true;
}

constexpr bool take_atoms(extent_definition& to, const extent_definition& from) {
  for (std::size_t k = 0; k < from.atom_count; ++k) {
    bool known = false;
    for (std::size_t i = 0; i < to.atom_count; ++i) known = known || to.atoms[i]->code == from.atoms[k]->code;
    if (known) continue;
    if (to.atom_count == extent_definition::max_terms) return false;
    to.atoms[to.atom_count++] = from.atoms[k];
  }
  return true;
}

constexpr extent_definition::term multiply_terms(const extent_definition::term& a, const extent_definition::term& b,
                                                 bool& fits) {
  extent_definition::term product{a.factor * b.factor, {}};
  std::size_t n = 0;
  const extent_definition::term* const both[] = {&a, &b};
  for (const auto* t : both)
    for (const std::int64_t atom : t->atoms) {
      if (atom == 0) continue;
      if (n == extent_definition::term::max_atoms) return fits = false, product;
      std::size_t i = n++;
      for (; i > 0 && product.atoms[i - 1] > atom; --i) product.atoms[i] = product.atoms[i - 1];
      product.atoms[i] = atom;
    }
  // Atoms are sorted; absent ones come last.
  return product;
}

/// Divides a term by another. Returns false if the division is not exact.
constexpr bool divide_term(extent_definition::term& t, const extent_definition::term& by) {
  if (by.factor == 0 || t.factor % by.factor != 0) return false;
  extent_definition::term quotient{t.factor / by.factor, {}};
  std::size_t n = 0, k = 0;
  for (const std::int64_t atom : t.atoms) {
    if (atom == 0) break;
    if (k < extent_definition::term::max_atoms && by.atoms[k] == atom)
      ++k;
    else
      quotient.atoms[n++] = atom;
  }
  if (k < extent_definition::term::max_atoms && by.atoms[k] != 0) return false;
  t = quotient;
  return true;
}

constexpr int compare_text(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return static_cast<unsigned char>(*a) - static_cast<unsigned char>(*b);
}
/// Writes the names in a term in alphabetical order, followed by null.
constexpr void names_of(const extent_definition& d, const extent_definition::term& t, const char** names) {
  std::size_t n = 0;
  for (const std::int64_t atom : t.atoms)
    for (std::size_t i = 0; atom != 0 && i < d.atom_count; ++i) {
      if (d.atoms[i]->code != atom) continue;
      std::size_t k = n++;
      for (; k > 0 && compare_text(names[k - 1], d.atoms[i]->text) > 0; --k) names[k] = names[k - 1];
      names[k] = d.atoms[i]->text;
    }
}
constexpr bool reads_before(const extent_definition& d, const extent_definition::term& a,
                            const extent_definition::term& b) {
  const char *x[extent_definition::term::max_atoms + 1]{}, *y[extent_definition::term::max_atoms + 1]{};
  names_of(d, a, x), names_of(d, b, y);
  for (std::size_t i = 0; x[i] && y[i]; ++i)
    if (const int order = compare_text(x[i], y[i])) return order < 0;
  return false;
}

/// The order for printing a polynomial's terms: positive terms, negative terms, the number; alphabetical within each
/// group.
struct extent_order {
  std::size_t at[extent_definition::max_terms]{};
};
constexpr extent_order reading_order(const extent_definition& d) {
  extent_order order;
  std::size_t n = 0;
  bool taken[extent_definition::max_terms]{};
  for (int pass = 0; pass < 3; ++pass)
    for (;;) {
      std::size_t next = d.term_count;
      for (std::size_t k = 0; k < d.term_count; ++k) {
        const auto& t = d.terms[k];
        if (taken[k] || pass != (t.atoms[0] == 0 ? 2 : t.factor < 0 ? 1 : 0)) continue;
        if (next == d.term_count || reads_before(d, t, d.terms[next])) next = k;
      }
      if (next == d.term_count) break;
      taken[next] = true;
      order.at[n++] = next;
    }
  return order;
}

/// Returns the code of the atom at index `at` of `names_of`; 0 after the last.
constexpr std::int64_t atom_in_order(const extent_definition& d, std::size_t term, std::size_t at) {
  const char* names[extent_definition::term::max_atoms]{};
  names_of(d, d.terms[term], names);
  if (at >= extent_definition::term::max_atoms || !names[at]) return 0;
  for (std::size_t i = 0; i < d.atom_count; ++i)
    if (d.atoms[i]->text == names[at]) return d.atoms[i]->code;
  return 0;
}

/// Computes a polynomial's code and text from its terms.
constexpr void finish_extent(extent_definition& d) {
  extent_text text(d);
  if (d.is_number()) {
    d.code = d.number();
    d.atom_count = 0;
    if (d.number() < 0) text.add("-");
    return text.add(d.number() < 0 ? -d.number() : d.number());
  }
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t k = 0; k < d.term_count; ++k) {
    hash = hash_word(hash, static_cast<std::uint64_t>(d.terms[k].factor));
    for (const std::int64_t atom : d.terms[k].atoms) hash = hash_word(hash, static_cast<std::uint64_t>(atom));
  }
  const extent_order order = reading_order(d);
  for (std::size_t i = 0; i < d.term_count; ++i) {
    const auto& t = d.terms[order.at[i]];
    const std::int64_t factor = t.factor < 0 ? -t.factor : t.factor;
    text.add(t.factor < 0 ? (i ? " - " : "-") : (i ? " + " : ""));
    bool first = factor == 1 && t.atoms[0] != 0;
    if (!first) text.add(factor);
    const char* names[extent_definition::term::max_atoms]{};
    names_of(d, t, names);
    for (const char* name : names) {
      if (!name) break;
      if (!first) text.add(" * ");
      first = false;
      text.add(name);
    }
  }
  const bool is_atom = d.term_count == 1 && d.terms[0].factor == 1 && d.terms[0].atoms[1] == 0;
  d.code = is_atom ? d.terms[0].atoms[0] : code_of(hash);
}

/// a + factor * b
constexpr extent_definition sum_of_extents(const extent_definition& a, const extent_definition& b, std::int64_t factor,
                                           bool& fits) {
  extent_definition d;
  fits = take_atoms(d, a) && take_atoms(d, b);
  for (std::size_t k = 0; fits && k < a.term_count; ++k) fits = add_term(d, a.terms[k]);
  for (std::size_t k = 0; fits && k < b.term_count; ++k) {
    extent_definition::term t = b.terms[k];
    t.factor *= factor;
    fits = add_term(d, t);
  }
  finish_extent(d);
  return d;
}

constexpr extent_definition product_of_extents(const extent_definition& a, const extent_definition& b, bool& fits);

/// Replaces an exact quotient that is multiplied by its denominator with its numerator. Returns false if there is no
/// such term.
constexpr bool cancel_quotient(extent_definition& d, bool& fits) {
  for (std::size_t k = 0; k < d.term_count; ++k)
    for (const std::int64_t atom : d.terms[k].atoms)
      for (std::size_t i = 0; atom != 0 && i < d.atom_count; ++i) {
        const extent_definition& q = *d.atoms[i];
        extent_definition::term rest = d.terms[k];
        if (q.code != atom || !q.numerator || q.round != extent_definition::rounding::exact ||
            q.denominator->term_count != 1 || !divide_term(rest, {1, {atom}}) ||
            !divide_term(rest, q.denominator->terms[0]))
          continue;
        extent_definition others, factor;
        bool product_fits = true, sum_fits = true;
        fits = take_atoms(others, d) && take_atoms(factor, d) && add_term(factor, rest);
        for (std::size_t o = 0; o < d.term_count; ++o)
          if (o != k) fits = add_term(others, d.terms[o]) && fits;
        d = sum_of_extents(others, product_of_extents(factor, *q.numerator, product_fits), 1, sum_fits);
        fits = fits && product_fits && sum_fits;
        return fits;
      }
  return false;
}

constexpr extent_definition product_of_extents(const extent_definition& a, const extent_definition& b, bool& fits) {
  extent_definition d;
  fits = take_atoms(d, a) && take_atoms(d, b);
  for (std::size_t i = 0; i < a.term_count; ++i)
    for (std::size_t k = 0; fits && k < b.term_count; ++k) {
      const auto t = multiply_terms(a.terms[i], b.terms[k], fits);
      fits = fits && add_term(d, t);
    }
  while (fits && cancel_quotient(d, fits)) continue;
  finish_extent(d);
  return d;
}

/// If the denominator divides each term, the quotient is a polynomial; otherwise it is a new atom.
constexpr extent_definition quotient_of_extents(const extent_definition& a, const extent_definition& b,
                                                extent_definition::rounding round, bool& fits) {
  extent_definition d;
  fits = take_atoms(d, a) && b.term_count > 0;
  bool divides = fits && b.term_count == 1;
  for (std::size_t k = 0; divides && k < a.term_count; ++k) {
    extent_definition::term t = a.terms[k];
    divides = divide_term(t, b.terms[0]) && add_term(d, t);
  }
  if (divides) {
    finish_extent(d);
    return d;
  }
  if (fits && a.is_number() && b.is_number()) {
    const std::int64_t n = a.number(), by = b.number();
    fits = round != extent_definition::rounding::exact && n >= 0 && by > 0;
    d = {};
    if (fits) add_term(d, {round == extent_definition::rounding::up ? (n + by - 1) / by : n / by, {}});
    finish_extent(d);
    return d;
  }
  d = {};
  d.numerator = &a;
  d.denominator = &b;
  d.round = round;
  std::uint64_t hash = hash_word(0x84222325u, static_cast<std::uint64_t>(round));
  hash = hash_word(hash_word(hash, static_cast<std::uint64_t>(a.code)), static_cast<std::uint64_t>(b.code));
  d.code = code_of(hash);
  extent_text text(d);
  const auto operand = [&](const extent_definition& x) {
    const bool simple =
        x.is_number() || x.numerator || x.term_count == 0 || (x.term_count == 1 && x.terms[0].factor == 1);
    if (!simple) text.add("(");
    text.add(x.text);
    if (!simple) text.add(")");
  };
  if (round == extent_definition::rounding::up) text.add("ceil(");
  if (round == extent_definition::rounding::down) text.add("floor(");
  operand(a), text.add(" / "), operand(b);
  if (round != extent_definition::rounding::exact) text.add(")");
  return d;
}

/// Makes `d` the polynomial that consists of its own atom.
constexpr void make_atom(extent_definition& d, const extent_definition* self) {
  d.terms[0] = {1, {d.code}};
  d.term_count = 1;
  d.atoms[0] = self;
  d.atom_count = 1;
}

}  // namespace detail

}  // namespace weft
