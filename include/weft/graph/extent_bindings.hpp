#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/graph/graph.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Values of dynamic extents: of names that are given, and of what is computed from those.
class extent_bindings {
 public:
  void bind(std::int64_t code, std::int64_t size) { known_.push_back({code, size}); }
  const std::int64_t* find(std::int64_t code) const {
    for (const auto& k : known_)
      if (k.first == code) return &k.second;
    return nullptr;
  }

  /// Of a name, what it was given; of a computed extent, what comes out, which is then known. Null where a name in it
  /// has no value. Throws invalid_argument where an extent comes out negative, or a quotient leaves a rest.
  const std::int64_t* compute(const graph& g, std::int64_t code) {
    if (const std::int64_t* const value = find(code)) return value;
    const extent_definition* const d = g.extent_formula(code);
    std::int64_t value = 0;
    if (!d || !evaluate(*d, value)) return nullptr;
    bind(code, value);
    return &known_.back().second;
  }

  /// Throws invalid_argument if a computed extent was given another value than comes out.
  void check_computed(const graph& g) {
    const std::size_t given = known_.size();
    for (std::size_t k = 0; k < given; ++k) {
      const extent_definition* const d = g.extent_formula(known_[k].first);
      std::int64_t value = 0;
      if (d && evaluate(*d, value) && value != known_[k].second)
        throw error(error_code::invalid_argument, d->text,
                    {"the extent is ", known_[k].second, " but comes out as ", value});
    }
  }

  /// The extents with sizes in place of names. Throws failed_precondition for a name that has none, and
  /// resource_exhausted for more elements than any memory holds.
  shape resolve(const graph& g, const std::string& who, shape s) {
    for (std::size_t i = 0; i < s.rank; ++i) {
      if (s[i] >= 0) continue;
      const std::int64_t* size = compute(g, s[i]);
      if (!size)
        throw error(error_code::failed_precondition, who,
                    {"the extent ", g.extent_name(s[i]), " is not known: feed a value that has it, or g.set(dyn<\"",
                     g.extent_name(s[i]), "\">, n)"});
      s[i] = *size;
    }
    detail::checked_bytes(who.c_str(), s, sizeof(double));
    return s;
  }

 private:
  bool evaluate(const extent_definition& d, std::int64_t& value) const {
    // What was given for a quotient is not to be taken for its value.
    if (!(d.numerator ? quotient(d, value) : polynomial(d, value))) return false;
    if (value < 0)
      throw error(error_code::invalid_argument, d.text,
                  {"the extent comes out as ", value, ": extents are not negative"});
    return true;
  }

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
        throw error(error_code::resource_exhausted, d.text, "the extent is larger than any memory");
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

  sequence<std::pair<std::int64_t, std::int64_t>> known_;
};

}  // namespace weft

WEFT_COLD_END
