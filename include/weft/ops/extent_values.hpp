// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <utility>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// The values of dynamic extents by their codes, from which computed extents are evaluated.
class extent_values {
 public:
  void bind(std::int64_t code, std::int64_t size) { known_.push_back({code, size}); }
  const std::int64_t* find(std::int64_t code) const {
    for (const auto& k : known_)
      if (k.first == code) return &k.second;
    return nullptr;
  }

  /// Evaluates a computed extent; returns false if a name in it has no value. Throws invalid_argument if the value is
  /// negative or a quotient has a remainder, and resource_exhausted if it exceeds any memory size.
  bool evaluate(const extent_definition& d, std::int64_t& value) const {
    // A value bound to a quotient's own code must not replace its computed value.
    if (!(d.numerator ? quotient(d, value) : polynomial(d, value))) return false;
    if (value < 0)
      throw error(error_code::invalid_argument, d.text,
                  {"the extent must not be negative, but is computed as ", value});
    return true;
  }

 private:
  bool polynomial(const extent_definition& d, std::int64_t& value) const {
    value = 0;
    for (std::size_t k = 0; k < d.term_count; ++k) {
      std::int64_t product = d.terms[k].factor, factor = 0;
      bool fits = true;
      for (const std::int64_t atom : d.terms[k].atoms) {
        if (atom == 0) break;
        if (!value_of_atom(d, atom, factor)) return false;
        fits = fits && !__builtin_mul_overflow(product, factor, &product);
      }
      if (!fits || __builtin_add_overflow(value, product, &value))
        throw error(error_code::resource_exhausted, d.text, "the extent exceeds the size of any memory");
    }
    return true;
  }

  bool value_of_atom(const extent_definition& d, std::int64_t code, std::int64_t& value) const {
    if (const std::int64_t* const known = find(code)) return value = *known, true;
    for (std::size_t i = 0; i < d.atom_count; ++i)
      if (d.atoms[i]->code == code && d.atoms[i]->numerator) return quotient(*d.atoms[i], value);
    return false;
  }

  bool quotient(const extent_definition& d, std::int64_t& value) const {
    using rounding = extent_definition::rounding;
    std::int64_t n = 0, by = 0;
    if (!polynomial(*d.numerator, n) || !polynomial(*d.denominator, by)) return false;
    if (by <= 0 || n < 0 || (d.round == rounding::exact && n % by != 0))
      throw error(error_code::invalid_argument, d.text,
                  {"the extent is ", n, " / ", by, ", which is not a whole number"});
    value = n / by + (d.round == rounding::up && n % by != 0);
    return true;
  }

 protected:
  sequence<std::pair<std::int64_t, std::int64_t>> known_;
};

/// An extent that is not given.
inline constexpr std::int64_t inferred = -1;

/// Returns the extents `to` as numbers, derived from a tensor's extents; -1 for extents that these do not determine.
shape told_extents(const shape& from, const shape& codes, const shape& to, const extent_definition* const* each);

#if WEFT_DEFINITIONS

WEFT_DECL shape told_extents(const shape& from, const shape& codes, const shape& to,
                             const extent_definition* const* each) {
  extent_values known;
  for (std::size_t i = 0; i < codes.rank; ++i)
    if (codes[i] < 0 && !known.find(codes[i])) known.bind(codes[i], from[i]);
  shape extents = to;
  for (std::size_t j = 0; j < to.rank; ++j)
    if (const std::int64_t* const same = known.find(to[j]); to[j] < 0 && same)
      extents[j] = *same;
    else if (to[j] < 0 && !known.evaluate(*each[j], extents[j]))
      extents[j] = inferred;
  return extents;
}

#endif

/// Returns true if extents of these codes determine the extent `d`.
constexpr bool tells(const shape& codes, const extent_definition& d) {
  for (std::size_t i = 0; i < codes.rank; ++i)
    if (codes[i] == d.code) return true;
  if (d.numerator) return tells(codes, *d.numerator) && tells(codes, *d.denominator);
  if (d.is_name()) return false;
  for (std::size_t k = 0; k < d.term_count; ++k)
    for (const std::int64_t atom : d.terms[k].atoms)
      for (std::size_t i = 0; atom != 0 && i < d.atom_count; ++i)
        if (d.atoms[i]->code == atom && !tells(codes, *d.atoms[i])) return false;
  return true;
}
template <class From, class To>
constexpr std::size_t count_unknown() {
  std::size_t unknown = 0;
  for (std::size_t j = 0; j < To::rank; ++j) unknown += To::spec[j] < 0 && !tells(From::spec, *definitions_of<To>[j]);
  return unknown;
}

}  // namespace weft::detail

WEFT_COLD_END
