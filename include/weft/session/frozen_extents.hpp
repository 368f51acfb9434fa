// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <weft/graph/extent_bindings.hpp>
#include <weft/graph/graph.hpp>
#include <weft/session/frozen_text.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// An integer that may depend on the named extent. It contains samples: the values at the maximum, at the next four
/// extents, at some smaller ones, and at extents where a computed extent differs from its polynomial.
struct frozen_number {
  static constexpr std::size_t polynomial_samples = 11, samples = 16;
  std::int64_t at[samples]{};

  frozen_number() = default;
  frozen_number(std::int64_t n) {
    for (std::int64_t& x : at) x = n;
  }
  template <class F>
    requires std::is_invocable_v<F, std::size_t>
  explicit frozen_number(const F& f) {
    for (std::size_t q = 0; q < samples; ++q) at[q] = static_cast<std::int64_t>(f(q));
  }
  bool is_fixed() const {
    for (const std::int64_t x : at)
      if (x != at[0]) return false;
    return true;
  }
  friend frozen_number operator*(const frozen_number& a, const frozen_number& b) {
    return frozen_number([&](std::size_t q) { return a.at[q] * b.at[q]; });
  }
  friend bool operator==(const frozen_number&, const frozen_number&) = default;
};

/// The named extent of a frozen step, and the extents that are computed from it.
class frozen_extents {
 public:
  /// `binds(extents)` returns true if the session can run the step with these extents.
  template <class F>
  frozen_extents(const extent_bindings& session, const graph& g, const sequence<value>& feeds, std::int64_t most,
                 const F& binds)
      : session_(session), g_(g), most_(most) {
    for (const value& v : feeds)
      for (const std::int64_t e : g_.info(v).extents.extents) {
        extent_bindings known = session_;
        if (e >= 0 || e == code_ || known.find(e) || g_.extent_formula(e)) continue;
        if (code_ != 0)
          throw error(error_code::unimplemented, "freeze",
                      {"the feeds have two named extents, ", g_.extent_name(code_), " and ", g_.extent_name(e),
                       ": give all but one a value with g.set(dyn<\"", g_.extent_name(e), "\">, n)"});
        code_ = e;
      }
    if (code_ != 0 && most_ < 1)
      throw error(error_code::invalid_argument, "freeze",
                  {"the feeds have the named extent ", g_.extent_name(code_), ": pass its maximum, {.most = 64}"});
    if (code_ != 0) {
      name_ = frozen_identifier(g_.extent_name(code_));
      while (least_ < most_ && !binds(with(least_))) ++least_;
    }
    // Extents above the least one: an extent of 1 has strides and boxes of its own, which follow no polynomial.
    const std::int64_t smaller[] = {3, 5, 7, most_ / 4, most_ / 2, most_ - 1}, low = least_ + 1;
    for (std::size_t q = 0; q < frozen_number::samples; ++q) {
      const std::int64_t n = q < 5                                   ? most_ + static_cast<std::int64_t>(q)
                             : q < frozen_number::polynomial_samples ? smaller[q - 5]
                                                                     : most_;
      sampled_.push_back(n > low || q < 5 ? n : low < most_ ? low : most_);
      known_.push_back(with(sampled_[q]));
    }
  }

  bool has_name() const { return code_ != 0; }
  const std::string& name() const { return name_; }
  /// The least value of the named extent for which the session runs the step.
  std::int64_t least() const { return least_; }
  /// The maximum of the named extent; 1 if there is none.
  std::int64_t most() const { return has_name() ? most_ : 1; }
  /// The session's extents and n for the named one.
  extent_bindings with(std::int64_t n) const {
    extent_bindings known = session_;
    if (has_name()) known.bind(code_, n);
    return known;
  }
  const extent_bindings& sample(std::size_t q) const { return known_[q]; }
  shape resolved(const shape& s, std::size_t q) { return known_[q].resolve(g_, "freeze", s); }
  frozen_number extent(std::int64_t code) {
    return frozen_number([&](std::size_t q) { return resolved(shape(code), q)[0]; });
  }

  /// An extent that is not a polynomial of the named one: a variable of `predict`.
  struct variable {
    std::int64_t code;
    std::string name, formula;
    frozen_number value;
  };
  const sequence<variable>& variables() const { return variables_; }

  /// Declares an extent of a buffer, so that `write` can use it. Samples do not suffice to recognize a polynomial:
  /// floor(time / 10) can agree with one at all of them. `unique(name)` returns the name of a new variable.
  template <class F>
  void declare(std::int64_t code, const F& unique) {
    const extent_definition* const d = has_name() && code < 0 ? g_.extent_formula(code) : nullptr;
    if (!d) return;
    for (const std::int64_t c : checked_)
      if (c == code) return;
    checked_.push_back(code);
    const auto value = [&](std::int64_t n) { return with(n).resolve(g_, "freeze", shape(code))[0]; };
    // Samples at which the extent is 1 would have strides and boxes of their own.
    for (std::size_t q = 5; q < frozen_number::polynomial_samples && value(most_) > 1; ++q) {
      std::int64_t n = sampled_[q];
      while (value(n) < 2) ++n;
      if (n != sampled_[q]) take(q, n);
    }
    polynomial sum;
    if (fit(extent(code), sum)) {
      std::int64_t n = most_;
      while (n >= least_ && sum(n) == value(n)) n -= n <= 4096 ? 1 : most_ / 4096;
      if (n < least_) return;
      if (next_sample_ < frozen_number::samples) take(next_sample_++, n);
    }
    variables_.push_back({code, unique(g_.extent_name(code)), formula(*d), {}});
    for (variable& v : variables_) {
      v.value = extent(v.code);
      if (fit(v.value, sum))
        throw error(error_code::unimplemented, "freeze",
                    {"its samples cannot distinguish the extent ", g_.extent_name(v.code), " from a polynomial: give ",
                     name_, " a value with g.set(dyn<\"", g_.extent_name(code_), "\">, n)"});
    }
  }
  /// Writes a number as a polynomial of the named extent, or as a product of extents. Returns false if it is neither.
  bool write(const frozen_number& n, std::string& sum) const {
    if (n.is_fixed()) {
      sum = std::to_string(n.at[0]);
      return true;
    }
    if (polynomial of; fit(n, of)) {
      for (std::size_t i = 0; i < 4; ++i) {
        if (of.factor[i] == 0) continue;
        if (!sum.empty()) sum += " + ";
        if (of.factor[i] != 1 || i == 0) sum += std::to_string(of.factor[i]) + (i ? " * " : "");
        for (std::size_t k = 0; k < i; ++k) append(sum, {k ? " * " : "", name_});
      }
      return true;
    }
    for (const variable& v : variables_) {
      const std::int64_t* const value = v.value.at;
      std::size_t other = 1;
      while (value[other] == value[0]) ++other;  // a variable is not a fixed number
      const std::int64_t factor = (n.at[other] - n.at[0]) / (value[other] - value[0]),
                         rest = n.at[0] - factor * value[0];
      if (n == frozen_number([&](std::size_t q) { return factor * value[q] + rest; })) {
        if (factor != 1) append(sum, {factor, " * "});
        sum += v.name;
        if (rest != 0) append(sum, {" + ", rest});
        return true;
      }
      bool divides = true;
      for (std::size_t q = 0; q < frozen_number::samples; ++q)
        divides = divides && value[q] != 0 && n.at[q] % value[q] == 0;
      if (std::string by; divides && write(frozen_number([&](std::size_t q) { return n.at[q] / value[q]; }), by)) {
        append(sum, {"(", by, ") * ", v.name});
        return true;
      }
    }
    return false;
  }

 private:
  __extension__ typedef __int128 wide;  // products of extents do not overflow

  /// A polynomial of the named extent, of degree 3 at most.
  struct polynomial {
    std::int64_t factor[4]{};
    std::int64_t operator()(std::int64_t n) const {
      wide sum = 0;
      for (std::size_t i = 4; i-- > 0;) sum = sum * n + factor[i];
      return static_cast<std::int64_t>(sum);
    }
  };
  void take(std::size_t q, std::int64_t n) {
    sampled_[q] = n;
    known_[q] = with(n);
  }
  /// Writes the formula of an extent. Quotients are of positive numbers (extent_values).
  std::string formula(const extent_definition& d) const {
    if (d.is_name()) {
      extent_bindings known = session_;
      const std::int64_t* const set = known.find(d.code);
      return set ? std::to_string(*set) : name_;
    }
    const auto grouped = [this](const extent_definition& part) {
      const std::string sum = formula(part);
      return sum.find(' ') == sum.npos ? sum : "(" + sum + ")";
    };
    if (d.numerator) {
      const std::string by = grouped(*d.denominator), n = formula(*d.numerator);
      return d.round == extent_definition::rounding::up ? str_cat({"(", n, " + ", by, " - 1) / ", by})
                                                        : str_cat({grouped(*d.numerator), " / ", by});
    }
    std::string sum;
    for (std::size_t k = 0; k < d.term_count; ++k) {
      const auto& [factor, atoms] = d.terms[k];
      const bool is_number = atoms[0] == 0 || factor != 1;
      if (k) sum += " + ";
      if (is_number) append(sum, {factor});
      for (const std::int64_t code : atoms)
        for (std::size_t i = 0; code != 0 && i < d.atom_count; ++i)
          if (d.atoms[i]->code == code) append(sum, {is_number || code != atoms[0] ? " * " : "", grouped(*d.atoms[i])});
    }
    return sum.empty() ? "0" : sum;
  }
  /// Returns false unless a polynomial has all values of a number.
  bool fit(const frozen_number& n, polynomial& sum) const {
    wide d[4];
    for (std::size_t i = 0; i < 4; ++i) d[i] = n.at[i];
    for (std::size_t i = 1; i < 4; ++i)
      for (std::size_t k = 3; k >= i; --k) d[k] -= d[k - 1];
    // Newton's form in the distance from the maximum, times 6, then in the extent itself.
    const wide m = most_, a1 = 6 * d[1] - 3 * d[2] + 2 * d[3], a2 = 3 * d[2] - 3 * d[3], a3 = d[3];
    const wide c[] = {6 * d[0] - m * a1 + m * m * a2 - m * m * m * a3, a1 - 2 * m * a2 + 3 * m * m * a3,
                      a2 - 3 * m * a3, a3};
    for (std::size_t i = 0; i < 4; ++i) {
      if (c[i] % 6 != 0) return false;
      sum.factor[i] = static_cast<std::int64_t>(c[i] / 6);
    }
    for (std::size_t q = 0; q < frozen_number::samples; ++q)
      if (sum(sampled_[q]) != n.at[q]) return false;
    return true;
  }

  const extent_bindings& session_;
  const graph& g_;
  std::int64_t most_;
  std::int64_t code_ = 0;  // of the named extent; 0: none
  std::int64_t least_ = 1;
  std::string name_;                 // empty: none
  sequence<std::int64_t> sampled_;   // the named extent in each sample of a frozen_number
  sequence<extent_bindings> known_;  // of each sample
  std::size_t next_sample_ = frozen_number::polynomial_samples;
  sequence<std::int64_t> checked_;
  sequence<variable> variables_;
};

}  // namespace weft::detail
WEFT_COLD_END
