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

/// An integer that may depend on the named extent: its values for the maximum, the next four, and some smaller extents.
struct frozen_number {
  static constexpr std::size_t samples = 11;
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
      const std::int64_t n = q < 5 ? most_ + static_cast<std::int64_t>(q) : smaller[q - 5];
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

  /// Returns false if an extent is not a polynomial of the named one. Samples do not suffice: floor(time / 10) can
  /// agree with a polynomial at all of them.
  bool is_polynomial(std::int64_t code) {
    if (!has_name() || code >= 0 || !g_.extent_formula(code)) return true;
    for (const std::int64_t c : checked_)
      if (c == code) return true;
    checked_.push_back(code);
    polynomial sum;
    bool fits = fit(extent(code), sum);
    const std::int64_t step = most_ > 4096 ? most_ / 4096 : 1;
    for (std::int64_t n = least_; fits && n <= most_; n += n < 4096 ? 1 : step)
      fits = sum(n) == with(n).resolve(g_, "freeze", shape(code))[0];
    return fits;
  }
  [[noreturn]] void refuse(std::int64_t code, piece node) const {
    throw error(error_code::unimplemented, node,
                {"the extent ", g_.extent_name(code), " has no frozen form, because it is not a polynomial of ", name_,
                 ": give ", name_, " a value with g.set(dyn<\"", g_.extent_name(code_), "\">, n)"});
  }
  /// Writes a number as a polynomial of the named extent. Returns false if it is not one.
  bool write(const frozen_number& n, std::string& sum) const {
    if (n.is_fixed()) {
      sum = std::to_string(n.at[0]);
      return true;
    }
    polynomial of;
    if (!fit(n, of)) return false;
    for (std::size_t i = 0; i < 4; ++i) {
      if (of.factor[i] == 0) continue;
      if (!sum.empty()) sum += " + ";
      if (of.factor[i] != 1 || i == 0) sum += std::to_string(of.factor[i]) + (i ? " * " : "");
      for (std::size_t k = 0; k < i; ++k) append(sum, {k ? " * " : "", name_});
    }
    return true;
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
  sequence<std::int64_t> checked_;
};

}  // namespace weft::detail
WEFT_COLD_END
