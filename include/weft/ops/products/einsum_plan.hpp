// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/tensor/dims.hpp>

/// What the compiler does with the subscripts of an einsum: it parses and checks them, and plans the products.
namespace weft::detail {

inline constexpr std::size_t max_einsum_operands = 8;

/// The letters of the axes of an operand. The axes of an ellipsis have the letters '0', '1', ... counted from the last
/// one. An axis that an ellipsis broadcasts has the letter 0.
struct einsum_term {
  char axes[max_rank + 1]{};
  std::size_t rank = 0;

  constexpr bool full() const { return rank > max_rank; }
  constexpr void add(char letter) {
    if (!full()) axes[rank++] = letter;
  }
  constexpr void add(const einsum_term& more) {
    for (std::size_t i = 0; i < more.rank; ++i) add(more.axes[i]);
  }
  /// Returns the first axis with this letter, or the rank.
  constexpr std::size_t find(char letter, std::size_t from = 0) const {
    while (from < rank && axes[from] != letter) ++from;
    return from;
  }
  friend constexpr bool operator==(const einsum_term& a, const einsum_term& b) {
    if (a.rank != b.rank) return false;
    for (std::size_t i = 0; i < a.rank; ++i)
      if (a.axes[i] != b.axes[i]) return false;
    return true;
  }

  static constexpr std::uint64_t every_letter = ~std::uint64_t{0};
  static constexpr std::uint64_t letter_bit(char c) {
    return c == 0 ? 0 : std::uint64_t{1} << (c <= '9' ? c - '0' : c <= 'Z' ? c - 'A' + 8 : c - 'a' + 34);
  }
  constexpr std::uint64_t letters() const {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < rank; ++i) all |= letter_bit(axes[i]);
    return all;
  }
  /// The letters of a set, in the order of this term.
  constexpr einsum_term only(std::uint64_t set) const {
    einsum_term found;
    for (std::size_t i = 0; i < rank; ++i)
      if (set & letter_bit(axes[i])) found.add(axes[i]);
    return found;
  }
  /// The axes whose letters are not in a set, one bit each.
  constexpr std::uint32_t axes_outside(std::uint64_t set) const {
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < rank; ++i)
      if (!(set & letter_bit(axes[i]))) found |= std::uint32_t{1} << i;
    return found;
  }

  constexpr std::size_t repeated() const {  ///< the first axis whose letter occurs again, or the rank
    std::size_t i = 0;
    while (i < rank && find(axes[i], i + 1) == rank) ++i;
    return i;
  }
  /// The axis at `i` after those with the first repeated letter were moved to the end.
  constexpr std::size_t moved(std::size_t i) const {
    const std::size_t a = repeated(), b = find(axes[a], a + 1);
    if (i + 2 >= rank) return i + 2 == rank ? a : b;
    i += i >= a;
    return i + (i >= b);
  }
  constexpr einsum_term diagonal() const {
    einsum_term found;
    for (std::size_t i = 0; i + 1 < rank; ++i) found.add(axes[moved(i)]);
    return found;
  }
  /// The term after broadcast axes, repeated letters and sums over letters that nothing else needs.
  constexpr einsum_term prepared(std::uint64_t needed) const {
    einsum_term t = only(every_letter);
    while (t.repeated() < t.rank) t = t.diagonal();
    return t.only(needed);
  }
};

/// A product of two values and the sum over the letters that only they have.
struct einsum_step {
  std::size_t first = 0, second = 0;  ///< of the values that are left
  bool by_matmul = false, transpose_a = false, transpose_b = false;
  std::size_t batch = 0, left = 0, contracted = 0, right = 0;  ///< numbers of axes
  einsum_term a, b;                                            ///< the letters of the values
  einsum_term arranged_a, arranged_b;                          ///< their order for the product
  einsum_term product, result;
  std::uint32_t summed = 0;  ///< axes of an elementwise product

  /// The axis of a factor that is axis `i` of the product.
  constexpr std::size_t axis_of_a(std::size_t i) const { return i < batch ? i : i + (transpose_a ? contracted : 0); }
  constexpr std::size_t axis_of_b(std::size_t i) const { return i - left + (transpose_b ? 0 : contracted); }
};

enum class einsum_fault { none, character, operands, axes, extents, repeated, unknown, too_many_axes };

struct einsum_plan {
  einsum_fault fault = einsum_fault::none;
  char letter = 0;                    ///< of the fault
  std::size_t first = 0, second = 0;  ///< the operands of the fault, or numbers
  einsum_term operands[max_einsum_operands];
  std::size_t count = 0;
  einsum_term result;
  std::uint64_t needed[max_einsum_operands]{};  ///< the letters that the result or another operand has
  einsum_step steps[max_einsum_operands];
};

class einsum_planner {
 public:
  constexpr einsum_planner(const char* text, const shape* shapes, std::size_t count, bool multiplies)
      : multiplies_(multiplies), shapes_(shapes) {
    read(text, count);
    if (ok()) check_extents();
    if (ok()) check_result();
    if (ok()) find_steps();
  }
  einsum_plan plan;

 private:
  using set = std::uint64_t;
  static constexpr double never = 1e300;

  constexpr bool ok() const { return plan.fault == einsum_fault::none; }
  constexpr void fail(einsum_fault why, char letter, std::size_t first = 0, std::size_t second = 0) {
    if (!ok()) return;
    plan.fault = why, plan.letter = letter, plan.first = first, plan.second = second;
  }

  // ---- subscripts ----

  constexpr void read(const char* text, std::size_t count) {
    constexpr std::size_t nowhere = max_rank + 1;
    std::size_t operands = 1, ellipsis[max_einsum_operands + 1]{}, widest = 0;
    bool has_result = false;
    for (std::size_t& e : ellipsis) e = nowhere;
    einsum_term terms[max_einsum_operands + 1];
    for (const char* c = text; *c && ok(); ++c) {
      const std::size_t k = has_result ? max_einsum_operands : operands - 1;
      if (*c == ' ') continue;
      if (*c == ',' && !has_result && operands < max_einsum_operands) {
        ++operands;
      } else if (*c == '-' && c[1] == '>' && !has_result) {
        has_result = true, ++c;
      } else if (*c == '.' && c[1] == '.' && c[2] == '.' && ellipsis[k] == nowhere) {
        ellipsis[k] = terms[k].rank, c += 2;
      } else if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z')) {
        terms[k].add(*c);
      } else {
        fail(einsum_fault::character, *c);
      }
    }
    if (operands != count) fail(einsum_fault::operands, 0, operands, count);
    if (!ok()) return;
    plan.count = count;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t rank = shapes_[k].rank, letters = terms[k].rank;
      if (letters > rank || (letters < rank && ellipsis[k] == nowhere)) return fail(einsum_fault::axes, 0, letters, k);
      if (rank - letters > widest) widest = rank - letters;
      plan.operands[k] = with_ellipsis(terms[k], ellipsis[k], rank - letters);
    }
    if (!has_result) {
      ellipsis[max_einsum_operands] = 0;
      for (char c = 'A'; c <= 'z'; ++c) {
        if (c > 'Z' && c < 'a') continue;
        std::size_t times = 0;
        for (std::size_t k = 0; k < count; ++k)
          for (std::size_t i = 0; i < terms[k].rank; ++i) times += terms[k].axes[i] == c;
        if (times == 1) terms[max_einsum_operands].add(c);
      }
    }
    plan.result = with_ellipsis(terms[max_einsum_operands], ellipsis[max_einsum_operands],
                                ellipsis[max_einsum_operands] == nowhere ? 0 : widest);
  }
  static constexpr einsum_term with_ellipsis(const einsum_term& t, std::size_t at, std::size_t axes) {
    einsum_term all;
    for (std::size_t i = 0; i <= t.rank; ++i) {
      for (std::size_t k = axes; i == at && k-- > 0;) all.add(static_cast<char>('0' + k));
      if (i < t.rank) all.add(t.axes[i]);
    }
    return all;
  }

  constexpr void check_extents() {
    std::int64_t extents[128]{};
    std::size_t known[128]{};  // 1 + the operand that determines the extent of a letter
    for (std::size_t k = 0; k < plan.count; ++k)
      for (std::size_t i = 0; i < plan.operands[k].rank; ++i) {
        const auto c = static_cast<std::size_t>(plan.operands[k].axes[i]);
        const std::int64_t n = shapes_[k][i];
        const bool broadcasts = c <= '9';
        if (known[c] == 0 || (broadcasts && extents[c] == 1)) {
          extents[c] = n, known[c] = k + 1;
        } else if (extents[c] != n && !(broadcasts && n == 1)) {
          return fail(einsum_fault::extents, static_cast<char>(c), known[c] - 1, k);
        }
      }
    for (std::size_t c = 0; c < 128; ++c)
      if (known[c]) sizes_[c] = extents[c] < 0 ? 64 : static_cast<double>(extents[c]);
    for (std::size_t k = 0; k < plan.count; ++k)
      for (std::size_t i = 0; i < plan.operands[k].rank; ++i) {
        char& c = plan.operands[k].axes[i];
        if (c <= '9' && shapes_[k][i] == 1 && extents[static_cast<std::size_t>(c)] != 1) c = 0;
      }
  }
  constexpr void check_result() {
    set given = 0;
    for (std::size_t k = 0; k < plan.count; ++k) given |= plan.operands[k].letters();
    if (plan.result.full()) return fail(einsum_fault::too_many_axes, 0);
    for (std::size_t i = 0; i < plan.result.rank; ++i) {
      const char c = plan.result.axes[i];
      if (!(given & einsum_term::letter_bit(c))) return fail(einsum_fault::unknown, c);
      if (plan.result.find(c, i + 1) < plan.result.rank) return fail(einsum_fault::repeated, c);
    }
  }

  // ---- order ----

  /// The number of elements of a value with these letters. An extent with a name counts as 64.
  constexpr double elements(set letters) const {
    double n = 1;
    for (char c = '0'; c <= 'z'; ++c)
      if ((c <= '7' || (c >= 'A' && c <= 'Z') || c >= 'a') && (letters & einsum_term::letter_bit(c)))
        n *= sizes_[static_cast<std::size_t>(c)];
    return n;
  }
  static constexpr std::size_t size_of(set letters) {
    std::size_t n = 0;
    for (; letters; letters &= letters - 1) ++n;
    return n;
  }
  constexpr bool uses_matmul(set a, set b, set kept) const {
    return multiplies_ && (a & b & ~kept) && (a & ~b) && (b & ~a);
  }
  /// The multiply-adds of a product, or `never` if a value would have too many axes.
  constexpr double cost(set a, set b, set kept) const {
    const std::size_t axes = size_of(uses_matmul(a, b, kept) ? (a | b) & kept : a | b);
    return axes > max_rank ? never : elements(a | b);
  }

  struct values {
    set letters[max_einsum_operands]{};
    std::size_t count = 0;
    constexpr set kept(std::size_t i, std::size_t j, set result) const {
      set others = result;
      for (std::size_t k = 0; k < count; ++k)
        if (k != i && k != j) others |= letters[k];
      return others & (letters[i] | letters[j]);
    }
    constexpr values after(std::size_t i, std::size_t j, set result) const {
      values next;
      for (std::size_t k = 0; k < count; ++k)
        if (k != i && k != j) next.letters[next.count++] = letters[k];
      next.letters[next.count++] = kept(i, j, result);
      return next;
    }
  };
  struct pair {
    std::size_t i = 0, j = 1;
    double cost = never;
  };
  /// The pair to multiply next: the first of the cheapest order if there are at most 5 values, or else the cheapest
  /// pair.
  constexpr pair next(const values& v) const {
    pair best;
    for (std::size_t i = 0; i < v.count; ++i)
      for (std::size_t j = i + 1; j < v.count; ++j) {
        double all = cost(v.letters[i], v.letters[j], v.kept(i, j, plan.result.letters()));
        if (v.count > 2 && v.count <= 5 && all < best.cost) all += next(v.after(i, j, plan.result.letters())).cost;
        if (all < best.cost) best = {i, j, all};
      }
    return best;
  }

  constexpr void find_steps() {
    einsum_term terms[max_einsum_operands];
    values v;
    v.count = plan.count;
    for (std::size_t k = 0; k < plan.count; ++k) {
      set others = plan.result.letters();
      for (std::size_t o = 0; o < plan.count; ++o)
        if (o != k) others |= plan.operands[o].letters();
      plan.needed[k] = others;
      terms[k] = plan.operands[k].prepared(others);
      v.letters[k] = terms[k].letters();
    }
    for (std::size_t s = 0; v.count > 1; ++s) {
      const pair p = next(v);
      if (p.cost >= never) return fail(einsum_fault::too_many_axes, 0);
      const set kept = v.kept(p.i, p.j, plan.result.letters());
      einsum_step step = multiply(terms[p.i], terms[p.j], kept, v.count == 2);
      const bool exchanged = step.first == 1;
      step.first = exchanged ? p.j : p.i;
      step.second = exchanged ? p.i : p.j;
      plan.steps[s] = step;
      std::size_t n = 0;
      for (std::size_t k = 0; k < v.count; ++k)
        if (k != p.i && k != p.j) terms[n++] = terms[k];
      terms[n] = step.result;
      v = v.after(p.i, p.j, plan.result.letters());
    }
  }

  // ---- one product ----

  constexpr einsum_step multiply(const einsum_term& a, const einsum_term& b, set kept, bool last) const {
    return uses_matmul(a.letters(), b.letters(), kept) ? by_matmul(a, b, kept, last) : by_element(a, b, kept, last);
  }

  /// Chooses the order of the axes that copies the fewest elements.
  constexpr einsum_step by_matmul(const einsum_term& a, const einsum_term& b, set kept, bool last) const {
    einsum_step best;
    double least = never;
    for (unsigned choice = 0; choice < 192; ++choice) {
      const auto chosen = [&](unsigned bit) { return ((choice >> bit) & 1) != 0; };
      const unsigned batches = choice >> 6;
      if (!last && (chosen(2) || chosen(3) || batches == 2)) continue;
      einsum_step s;
      s.by_matmul = true;
      s.first = chosen(5);
      s.a = s.first ? b : a;
      s.b = s.first ? a : b;
      s.transpose_a = chosen(0), s.transpose_b = chosen(1);
      const set x = s.a.letters(), y = s.b.letters();
      const auto batch = (batches == 0 ? s.a : batches == 1 ? s.b : plan.result).only(x & y & kept);
      const auto left = (chosen(2) ? plan.result : s.a).only(x & ~y);
      const auto right = (chosen(3) ? plan.result : s.b).only(y & ~x);
      const auto contracted = (chosen(4) ? s.b : s.a).only(x & y & ~kept);
      s.batch = batch.rank, s.left = left.rank, s.contracted = contracted.rank, s.right = right.rank;
      s.arranged_a = s.arranged_b = s.product = batch;
      s.arranged_a.add(s.transpose_a ? contracted : left);
      s.arranged_a.add(s.transpose_a ? left : contracted);
      s.arranged_b.add(s.transpose_b ? right : contracted);
      s.arranged_b.add(s.transpose_b ? contracted : right);
      s.product.add(left);
      s.product.add(right);
      s.result = last ? plan.result : s.product;
      const double copied = (s.arranged_a == s.a ? 0 : elements(x)) + (s.arranged_b == s.b ? 0 : elements(y)) +
                            (s.product == s.result ? 0 : elements(kept));
      if (copied < least) best = s, least = copied;
      if (copied == 0) break;
    }
    return best;
  }

  /// A broadcast product and a sum, in the order of the factor with more axes. An axis that only the other one has
  /// follows its neighbour there.
  constexpr einsum_step by_element(const einsum_term& a, const einsum_term& b, set kept, bool last) const {
    einsum_step s;
    s.first = a.rank < b.rank;
    s.a = s.first ? b : a;
    s.b = s.first ? a : b;
    einsum_term order = s.a;
    for (std::size_t i = 0; i < s.b.rank; ++i) {
      if (s.a.letters() & einsum_term::letter_bit(s.b.axes[i])) continue;
      const std::size_t at = i == 0 ? 0 : order.find(s.b.axes[i - 1]) + 1;
      einsum_term next;
      for (std::size_t k = 0; k <= order.rank; ++k) {
        if (k == at) next.add(s.b.axes[i]);
        if (k < order.rank) next.add(order.axes[k]);
      }
      order = next;
    }
    if (last && order.rank == plan.result.rank) order = plan.result;
    s.arranged_a = s.arranged_b = order;
    s.product = order.only(kept);
    s.summed = order.axes_outside(kept);
    s.result = last ? plan.result : s.product;
    return s;
  }

  bool multiplies_;
  const shape* shapes_;
  double sizes_[128]{};
};

}  // namespace weft::detail
