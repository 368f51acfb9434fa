#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/config.hpp>

/// Extents that are known at run time only: named ones, and what is computed from them.
namespace weft {

/// A string that can be a template argument: the name of a dynamic extent.
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

/// A code is how a dynamic extent is written into a shape at run time: negative, and the same wherever the extent is.
constexpr std::int64_t code_of(std::uint64_t hash) { return -1 - static_cast<std::int64_t>(hash >> 2); }

}  // namespace detail

/// The definition of a dynamic extent: a name, a quotient, or a polynomial in those.
struct extent_definition {
  enum class rounding : unsigned char { exact, down, up };

  /// factor * atom * atom ...; atoms by their codes, in order, 0 where there are no more.
  struct term {
    static constexpr std::size_t max_atoms = 4;
    std::int64_t factor = 0;
    std::int64_t atoms[max_atoms]{};
  };
  static constexpr std::size_t max_terms = 8, max_text = 96;

  char text[max_text]{};                         ///< "batch", "a + 2 * b", "ceil(height / 2)"
  std::int64_t code = 0;                         ///< the extent itself where it is a number
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

/// Adds a term to a polynomial in normal form: terms of equal atoms are one, in order. False if there are too many.
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

/// One term divided by another; false if it does not go.
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
/// The names in a term in alphabetical order, then null.
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

/// The order in which people read a polynomial's terms: what is added, what is subtracted, the number; names in the
/// order of the alphabet.
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

/// The code of an atom of a term by its place in `names_of`; 0 after the last.
constexpr std::int64_t atom_in_order(const extent_definition& d, std::size_t term, std::size_t at) {
  const char* names[extent_definition::term::max_atoms]{};
  names_of(d, d.terms[term], names);
  if (at >= extent_definition::term::max_atoms || !names[at]) return 0;
  for (std::size_t i = 0; i < d.atom_count; ++i)
    if (d.atoms[i]->text == names[at]) return d.atoms[i]->code;
  return 0;
}

/// A polynomial's code and text, from its terms.
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

/// A quotient without rest, times what it is divided by, is what is divided. False where there is no such term.
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

/// A quotient that divides term by term is a polynomial again; all else is an atom of its own.
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

/// An atom as the polynomial that it is.
constexpr void make_atom(extent_definition& d, const extent_definition* self) {
  d.terms[0] = {1, {d.code}};
  d.term_count = 1;
  d.atoms[0] = self;
  d.atom_count = 1;
}

}  // namespace detail

/// An extent that is known at run time only. Extents of the same name are equal: the compiler unifies them in types, a
/// step checks their values once per call.
template <fixed_string Name>
struct dyn_extent {
  static constexpr const char* name = Name.text;
  /// The name as a number: the extent's run-time form.
  static constexpr std::int64_t code = [] {
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
    for (const char* c = Name.text; *c; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3u;
    return detail::code_of(hash);
  }();
};

/// An extent known at run time, by its name: `dims<dyn<"batch">, 784>`. Equal names in one step are equal extents.
// A copy of the name: nvcc 12 cannot write down the parameter itself, where an alias outside of functions leads to it.
template <fixed_string Name>
inline constexpr auto dyn = dyn_extent<fixed_string(Name)>{};

/// A number among computed extents: `dyn<"n"> + extent<1>`. By itself it is an integer: `std::sqrt(extent<8>)`.
template <std::int64_t Value>
struct fixed_extent {
  static constexpr std::int64_t code = Value;
  static constexpr const char* name = nullptr;
  constexpr operator std::int64_t() const { return Value; }
};
/// A number among computed extents: `dyn<"n"> + extent<1>`.
template <std::int64_t Value>
inline constexpr fixed_extent<Value> extent{};

/// A sum, difference, product or quotient of two extents, by their types.
template <char Op, class A, class B>
struct computed_extent;

namespace detail {

// Asked of the members, because nvcc cannot deduce a template argument of class type.
template <class Extent>
concept extent_like = requires { Extent::code; };
/// A named extent, or what is computed from named ones.
template <class Extent>
concept named_extent = extent_like<Extent>;

/// Defines a name; what is more is specialised. Names are not, for nvcc cannot match what has class types for
/// arguments.
template <class Extent>
struct define_extent {
  static constexpr extent_definition make(const extent_definition* self, bool&) {
    extent_definition d;
    extent_text(d).add(Extent::name);
    d.code = Extent::code;
    make_atom(d, self);
    return d;
  }
};
template <std::int64_t Value>
struct define_extent<fixed_extent<Value>> {
  static constexpr extent_definition make(const extent_definition*, bool& fits) {
    extent_definition d;
    fits = add_term(d, {Value, {}});
    finish_extent(d);
    return d;
  }
};

template <class Extent>
struct extent_and_fit {
  extent_definition definition;
  bool fits = true;
};
template <class Extent>
inline constexpr extent_and_fit<Extent> defined_extent = [] {
  extent_and_fit<Extent> result;
  result.definition = define_extent<Extent>::make(&defined_extent<Extent>.definition, result.fits);
  return result;
}();

template <class A, class B>
struct define_extent<computed_extent<'+', A, B>> {
  static constexpr extent_definition make(const extent_definition*, bool& fits) {
    return sum_of_extents(defined_extent<A>.definition, defined_extent<B>.definition, 1, fits);
  }
};
template <class A, class B>
struct define_extent<computed_extent<'-', A, B>> {
  static constexpr extent_definition make(const extent_definition*, bool& fits) {
    return sum_of_extents(defined_extent<A>.definition, defined_extent<B>.definition, -1, fits);
  }
};
template <class A, class B>
struct define_extent<computed_extent<'*', A, B>> {
  static constexpr extent_definition make(const extent_definition*, bool& fits) {
    return product_of_extents(defined_extent<A>.definition, defined_extent<B>.definition, fits);
  }
};
template <class A, class B, extent_definition::rounding Round>
struct define_quotient {
  static constexpr extent_definition make(const extent_definition* self, bool& fits) {
    extent_definition d = quotient_of_extents(defined_extent<A>.definition, defined_extent<B>.definition, Round, fits);
    if (d.numerator) make_atom(d, self);
    return d;
  }
};
template <class A, class B>
struct define_extent<computed_extent<'/', A, B>> : define_quotient<A, B, extent_definition::rounding::exact> {};
template <class A, class B>
struct define_extent<computed_extent<'d', A, B>> : define_quotient<A, B, extent_definition::rounding::down> {};
template <class A, class B>
struct define_extent<computed_extent<'u', A, B>> : define_quotient<A, B, extent_definition::rounding::up> {};

}  // namespace detail

/// `+`, `-`, `*`, `/` without rest, or a quotient rounded down ('d') or up ('u').
template <char Op, class A, class B>
struct computed_extent {
  static_assert(detail::defined_extent<computed_extent>.fits,
                "a computed extent has at most 8 terms of 4 factors, and divides by nothing that is 0");
  static constexpr std::int64_t code = detail::defined_extent<computed_extent>.definition.code;
  static constexpr const char* name = detail::defined_extent<computed_extent>.definition.text;
};

namespace detail {

// The normal form of an extent as a type, so that `n + m` and `m + n` are one type: a fixed_extent where it is a
// number, otherwise its terms in reading order.

/// Types of names and quotients, among them all that occur in the extent.
template <class... Atoms>
struct extent_atoms {
  template <class... More>
  constexpr extent_atoms<Atoms..., More...> operator+(extent_atoms<More...>) const {
    return {};
  }
};
template <class Name>
constexpr extent_atoms<Name> atoms_in(Name) {
  return {};
}
template <std::int64_t Value>
constexpr extent_atoms<> atoms_in(fixed_extent<Value>) {
  return {};
}
template <char Op, class A, class B>
constexpr auto atoms_in(computed_extent<Op, A, B>) {
  constexpr auto parts = atoms_in(A{}) + atoms_in(B{});
  if constexpr (defined_extent<computed_extent<Op, A, B>>.definition.numerator != nullptr)
    return extent_atoms<computed_extent<Op, A, B>>{} + parts;
  else
    return parts;
}

template <std::int64_t Code, class First, class... More>
constexpr auto atom_of(extent_atoms<First, More...>) {
  if constexpr (First::code == Code)
    return First{};
  else
    return atom_of<Code>(extent_atoms<More...>{});
}

/// `Product` times the atoms of a term, from the one at place `At` of its names' order on.
template <class Extent, std::size_t Term, std::size_t At, class Product>
constexpr auto times_atoms(Product) {
  constexpr std::int64_t code = atom_in_order(defined_extent<Extent>.definition, Term, At);
  if constexpr (code == 0) {
    return Product{};
  } else {
    constexpr auto atom = atom_of<code>(atoms_in(Extent{}));
    using A = std::remove_const_t<decltype(atom)>;
    if constexpr (std::is_same_v<Product, fixed_extent<1>>)
      return times_atoms<Extent, Term, At + 1>(A{});
    else
      return times_atoms<Extent, Term, At + 1>(computed_extent<'*', Product, A>{});
  }
}

/// `Sum` and the terms from the one at place `At` of the reading order on.
template <class Extent, std::size_t At, class Sum>
constexpr auto plus_terms(Sum) {
  constexpr const extent_definition& d = defined_extent<Extent>.definition;
  if constexpr (At == d.term_count) {
    return Sum{};
  } else {
    constexpr std::size_t k = reading_order(d).at[At];
    constexpr std::int64_t factor = d.terms[k].factor;
    using Term = decltype(times_atoms<Extent, k, 0>(fixed_extent<(factor < 0 ? -factor : factor)>{}));
    if constexpr (At == 0 && factor > 0)
      return plus_terms<Extent, At + 1>(Term{});
    else
      return plus_terms<Extent, At + 1>(computed_extent<(factor < 0 ? '-' : '+'), Sum, Term>{});
  }
}

template <class Extent>
constexpr auto normal_form() {
  constexpr const extent_definition& d = defined_extent<Extent>.definition;
  if constexpr (!defined_extent<Extent>.fits)
    return Extent{};  // an error already
  else if constexpr (Extent::code >= 0)
    return fixed_extent<Extent::code>{};
  else if constexpr (d.is_number() || d.numerator != nullptr)
    return Extent{};
  else
    return plus_terms<Extent, 0>(fixed_extent<0>{});
}
template <class Extent>
using normal_extent = decltype(normal_form<Extent>());

}  // namespace detail

/// The sum of two extents: `dyn<"n"> + extent<1>`.
template <detail::extent_like A, detail::extent_like B>
constexpr auto operator+(A, B) {
  return detail::normal_extent<computed_extent<'+', A, B>>{};
}
/// The difference of two extents. A negative one is an error when a step runs.
template <detail::extent_like A, detail::extent_like B>
constexpr auto operator-(A, B) {
  return detail::normal_extent<computed_extent<'-', A, B>>{};
}
/// The product of two extents.
template <detail::extent_like A, detail::extent_like B>
constexpr auto operator*(A, B) {
  return detail::normal_extent<computed_extent<'*', A, B>>{};
}
/// A quotient without rest: one that leaves a rest is an error when a step runs.
template <detail::extent_like A, detail::extent_like B>
constexpr auto operator/(A, B) {
  return detail::normal_extent<computed_extent<'/', A, B>>{};
}
/// The quotient of two extents, rounded down.
template <detail::extent_like A, detail::extent_like B>
constexpr auto floor_quotient(A, B) {
  return detail::normal_extent<computed_extent<'d', A, B>>{};
}
/// The quotient of two extents, rounded up.
template <detail::extent_like A, detail::extent_like B>
constexpr auto ceil_quotient(A, B) {
  return detail::normal_extent<computed_extent<'u', A, B>>{};
}
/// A quotient of a quotient that is rounded the same way: `ceil(ceil(h / 2) / 2)` is `ceil(h / 4)`.
template <detail::extent_like A, std::int64_t X, std::int64_t Y>
constexpr auto floor_quotient(computed_extent<'d', A, fixed_extent<X>>, fixed_extent<Y>) {
  return computed_extent<'d', A, fixed_extent<X * Y>>{};
}
/// A quotient, rounded up, of a quotient rounded up, as one quotient.
template <detail::extent_like A, std::int64_t X, std::int64_t Y>
constexpr auto ceil_quotient(computed_extent<'u', A, fixed_extent<X>>, fixed_extent<Y>) {
  return computed_extent<'u', A, fixed_extent<X * Y>>{};
}

namespace detail {

/// The run-time form of an extent: its value, or for a dynamic extent a negative number made from what it is.
constexpr std::int64_t code(std::int64_t extent) { return extent; }
template <extent_like Extent>
constexpr std::int64_t code(Extent) {
  return Extent::code;
}

constexpr bool is_dynamic(std::int64_t) { return false; }
template <extent_like Extent>
constexpr bool is_dynamic(Extent) {
  return Extent::code < 0;
}

constexpr const char* extent_name(std::int64_t) { return nullptr; }
template <extent_like Extent>
constexpr const char* extent_name(Extent) {
  return Extent::code < 0 ? Extent::name : nullptr;
}

/// Null for numbers and names.
constexpr const extent_definition* extent_formula(std::int64_t) { return nullptr; }
template <extent_like Extent>
constexpr const extent_definition* extent_formula(Extent) {
  return nullptr;
}
template <char Op, class A, class B>
constexpr const extent_definition* extent_formula(computed_extent<Op, A, B>) {
  return computed_extent<Op, A, B>::code < 0 ? &defined_extent<computed_extent<Op, A, B>>.definition : nullptr;
}

/// Whether extents of this type are in the form in which Weft makes them: int, and names in normal form. Numbers that
/// no int holds are long long. A type that no extent has is left to the check of a dims.
template <class Extent>
inline constexpr bool has_canonical_type =
    !std::is_convertible_v<Extent, std::int64_t> || std::is_floating_point_v<Extent>;
template <>
inline constexpr bool has_canonical_type<int> = true;
template <char Op, class A, class B>
inline constexpr bool has_canonical_type<computed_extent<Op, A, B>> =
    std::is_same_v<normal_extent<computed_extent<Op, A, B>>, computed_extent<Op, A, B>>;
// The type of a template's argument: g++ adds const to that of a class, clang 14 does not.
template <char Op, class A, class B>
inline constexpr bool has_canonical_type<const computed_extent<Op, A, B>> =
    has_canonical_type<computed_extent<Op, A, B>>;

/// An extent in that form.
template <auto Value>
constexpr auto canonical() {
  using Extent = decltype(Value);
  if constexpr (has_canonical_type<Extent>)
    return Value;
  else if constexpr (code(Value) < 0 && extent_like<Extent>)
    return normal_extent<std::remove_const_t<Extent>>{};
  else if constexpr (static_cast<int>(code(Value)) == code(Value))
    return static_cast<int>(code(Value));
  else
    return static_cast<long long>(code(Value));
}

/// An extent and a number.
template <std::int64_t More, extent_like Extent>
constexpr auto longer(Extent e) {
  if constexpr (More == 0)
    return e;
  else if constexpr (More < 0)
    return e - extent<-More>;
  else
    return e + extent<More>;
}

/// Returns null for a number.
template <auto Value>
constexpr const extent_definition* definition_of() {
  if constexpr (is_dynamic(Value))
    return &defined_extent<std::remove_cvref_t<decltype(Value)>>.definition;
  else
    return nullptr;
}

/// An extent of a dims, as something to compute with.
template <auto Value>
constexpr auto operand_extent() {
  if constexpr (is_dynamic(Value))
    return Value;
  else
    return fixed_extent<code(Value)>{};
}

}  // namespace detail
}  // namespace weft
