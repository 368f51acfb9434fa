// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/config.hpp>
#include <weft/tensor/extent_definition.hpp>

/// Dynamic extents, which are known only at run time: named extents, and extents computed from them.
namespace weft {

/// A named dynamic extent. Extents with the same name are equal: the compiler unifies them in types, and a step checks
/// their values once per call.
template <fixed_string Name>
struct dyn_extent {
  using type =
      dyn_extent;  ///< for nvcc, which repeats `decltype(extent)` in generated code, and cannot name the extent
  static constexpr const char* name = Name.text;
  /// A hash of the name: the extent's representation at run time.
  static constexpr std::int64_t code = [] {
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
    for (const char* c = Name.text; *c; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3u;
    return detail::code_of(hash);
  }();
};

/// A dynamic extent by its name: `dims<dyn<"batch">, 784>`. In one step, extents with equal names are equal.
// A copy of the name: nvcc 12 cannot emit the template parameter itself if an alias outside of functions refers to it.
template <fixed_string Name>
inline constexpr auto dyn = dyn_extent<fixed_string(Name)>{};

/// A number in computed extents: `dyn<"n"> + extent<1>`. Converts to an integer: `std::sqrt(extent<8>)`.
template <std::int64_t Value>
struct fixed_extent {
  using type = fixed_extent;  ///< see dyn_extent
  static constexpr std::int64_t code = Value;
  static constexpr const char* name = nullptr;
  constexpr operator std::int64_t() const { return Value; }
};
/// A number in computed extents: `dyn<"n"> + extent<1>`.
template <std::int64_t Value>
inline constexpr fixed_extent<Value> extent{};

/// The type of a sum, difference, product or quotient of two extents.
template <char Op, class A, class B>
struct computed_extent;

namespace detail {

// Tests for members, because nvcc cannot deduce template arguments of class type.
template <class Extent>
concept extent_like = requires { Extent::code; };
/// A named extent, or an extent computed from named ones.
template <class Extent>
concept named_extent = extent_like<Extent>;

/// The definition of a named extent; computed extents are specializations. The primary template handles names because
/// nvcc cannot match templates with arguments of class type.
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

/// A sum, difference, product or exact quotient (`+`, `-`, `*`, `/`), or a quotient rounded down ('d') or up ('u').
template <char Op, class A, class B>
struct computed_extent {
  using type = computed_extent;  ///< see dyn_extent
  static_assert(detail::defined_extent<computed_extent>.fits,
                "a computed extent must have at most 8 terms of 4 factors, and must not divide by 0");
  static constexpr std::int64_t code = detail::defined_extent<computed_extent>.definition.code;
  static constexpr const char* name = detail::defined_extent<computed_extent>.definition.text;
};

namespace detail {

// The normal form of an extent as a type, so that `n + m` and `m + n` are the same type: a fixed_extent for a number,
// otherwise the terms in reading order.

/// A list of names and quotients that contains all atoms of the extent.
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

/// Multiplies `Product` by the atoms of a term, starting at atom `At` in the order of names.
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

/// Adds terms to `Sum`, starting at term `At` in reading order.
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
    return Extent{};  // reported elsewhere
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
/// The difference of two extents. A step throws if it is negative.
template <detail::extent_like A, detail::extent_like B>
constexpr auto operator-(A, B) {
  return detail::normal_extent<computed_extent<'-', A, B>>{};
}
/// The product of two extents.
template <detail::extent_like A, detail::extent_like B>
constexpr auto operator*(A, B) {
  return detail::normal_extent<computed_extent<'*', A, B>>{};
}
/// The exact quotient of two extents. A step throws if the division leaves a remainder.
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
/// A quotient of a quotient with the same rounding, as one quotient: `floor(floor(h / 2) / 2)` is `floor(h / 4)`.
template <detail::extent_like A, std::int64_t X, std::int64_t Y>
constexpr auto floor_quotient(computed_extent<'d', A, fixed_extent<X>>, fixed_extent<Y>) {
  return computed_extent<'d', A, fixed_extent<X * Y>>{};
}
/// The same for quotients rounded up.
template <detail::extent_like A, std::int64_t X, std::int64_t Y>
constexpr auto ceil_quotient(computed_extent<'u', A, fixed_extent<X>>, fixed_extent<Y>) {
  return computed_extent<'u', A, fixed_extent<X * Y>>{};
}

namespace detail {

/// The run-time form of an extent: its value, or for a dynamic extent a negative code derived from its definition.
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

/// Returns null for numbers and names.
constexpr const extent_definition* extent_formula(std::int64_t) { return nullptr; }
template <extent_like Extent>
constexpr const extent_definition* extent_formula(Extent) {
  return nullptr;
}
template <char Op, class A, class B>
constexpr const extent_definition* extent_formula(computed_extent<Op, A, B>) {
  return computed_extent<Op, A, B>::code < 0 ? &defined_extent<computed_extent<Op, A, B>>.definition : nullptr;
}

/// True if extents of this type are canonical: int (long long for numbers that int cannot hold), and computed extents
/// in normal form. Types that are not extents also count; the check of a dims rejects them.
template <class Extent>
inline constexpr bool has_canonical_type =
    !std::is_convertible_v<Extent, std::int64_t> || std::is_floating_point_v<Extent>;
template <>
inline constexpr bool has_canonical_type<int> = true;
template <char Op, class A, class B>
inline constexpr bool has_canonical_type<computed_extent<Op, A, B>> =
    std::is_same_v<normal_extent<computed_extent<Op, A, B>>, computed_extent<Op, A, B>>;
// For the type of a template argument: g++ adds const to class types, clang 14 does not.
template <char Op, class A, class B>
inline constexpr bool has_canonical_type<const computed_extent<Op, A, B>> =
    has_canonical_type<computed_extent<Op, A, B>>;

/// Returns the extent in canonical form.
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

/// Returns an extent plus a number.
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

/// Returns an extent of a dims in a form that supports arithmetic.
template <auto Value>
constexpr auto operand_extent() {
  if constexpr (is_dynamic(Value))
    return Value;
  else
    return fixed_extent<code(Value)>{};
}

}  // namespace detail
}  // namespace weft
