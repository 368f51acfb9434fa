// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Products of matrices, and sums by letters.
namespace tool::importer {

inline void need_equal(const call& c, const integer& columns, const integer& rows) {
  if (!(columns == rows))
    c.refuse("operand 0 has " + columns.text(true) + " columns, but operand 1 has " + rows.text(true) + " rows");
}

/// Makes the text a dense layer, if operand 1 can be its weights. `order` makes their axes [in, out].
inline bool dense_layer(call& c, const std::vector<int>& order) {
  const value& b = c.operand(1);
  if (!b.trained() || b.shared || c.operand(0).known() || (b.type != float32 && b.type != float64)) return false;
  std::vector<weight> weights{permuted_weight("weights", b, order)};
  if (c.has(2)) weights.push_back(permuted_weight("bias", *c.in[2], {0}));
  const std::vector<std::int64_t>& in_out = weights[0].extents;
  const std::string type =
      b.type == float32 ? form("nn::dense<$>", in_out[1]) : form("nn::dense<$, $, double>", in_out[1], in_out[0]);
  const std::string name = c.layer(type, c.has(2) ? "" : ".use_bias = false", weights);
  if (!c.has(2)) c.out[0]->layer = name;
  return true;
}

inline void multiplied(call& c) {
  const value &a = c.operand(0), &b = c.operand(1);
  const std::size_t m = a.rank(), n = b.rank();
  if (m == 0 || n == 0) c.refuse("a scalar operand");
  const integers rows = extents_of(a.extents, 0, std::max<std::size_t>(m, 2) - 2),
                 columns = extents_of(b.extents, 0, std::max<std::size_t>(n, 2) - 2);
  integers extents = broadcast_of(c, rows, columns);
  if (m > 1) extents.push_back(a.extents[m - 2]);
  if (n > 1) extents.push_back(b.extents.back());
  need_equal(c, a.extents.back(), b.extents[n > 1 ? n - 2 : 0]);
  c.result(0, extents);
  if (m > 1 && n == 2 && b.uses == 1 && dense_layer(c, {0, 1})) return;
  if (m > 1 && (n == 2 || (n > 2 && rows == columns))) return;
  c.need_header("ops/products/tensordot.hpp");
  c.text = m > 1 && n > 1 ? "broadcast_matmul({0}, {1})"
           : m > 1        ? "matvec({0}, {1})"
           : n == 1       ? "vecdot({0}, {1})"
                          : "squeeze<-2>(broadcast_matmul(expand_dims<0>({0}), {1}))";
}

/// Operand 0 has more than two axes in nodes that simplify.cpp has changed.
inline void gemm_of(call& c) {
  const value &a = c.operand(0), &b = c.operand(1);
  const bool ta = c.flag("transA"), tb = c.flag("transB"), flat = a.rank() == 2;
  if (a.rank() < 2 || (ta && !flat) || b.rank() != 2) c.refuse("operands must be matrices");
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  if (c.opset < 7) c.flag("broadcast");
  const integer& n = b.extents[tb ? 0 : 1];
  need_equal(c, ta ? a.extents[0] : a.extents.back(), b.extents[tb ? 1 : 0]);
  c.result(0, ta ? integers{a.extents[1], n} : with_extent(a.extents, a.rank() - 1, n));
  const bool bias_fits = !c.has(2) || (c.in[2]->trained() && c.in[2]->rank() == 1 && c.in[2]->extents[0] == n);
  if (bias_fits && !ta && alpha == 1 && beta == 1 && dense_layer(c, tb ? std::vector{1, 0} : std::vector{0, 1})) return;
  c.text = !flat && tb ? "matmul({0}, transpose<1, 0>({1}))"
           : ta && tb  ? "matmul<transpose_of::both>({0}, {1})"
           : ta        ? "matmul<transpose_of::a>({0}, {1})"
           : tb        ? "matmul<transpose_of::b>({0}, {1})"
                       : "matmul({0}, {1})";
  if (alpha != 1) c.text = literal(a.type, alpha) + " * " + c.text;
  if (!c.has(2)) return;
  c.numbers_allowed = true;
  c.text += beta == 1 ? " + {2}" : form(" + $ * {2}", literal(a.type, beta));
}

/// Letters of axes, as in NumPy; without an arrow, the result has the letters that occur once.
inline void summed_by_letters(call& c) {
  std::string equation = c.word("equation", "");
  std::erase(equation, ' ');
  if (!std::all_of(equation.begin(), equation.end(),
                   [](char l) { return is_word(l) || l == ',' || l == '.' || l == '-' || l == '>'; }))
    c.refuse("the equation must have letters, commas, an arrow and three dots");
  const std::size_t arrow = equation.find("->");
  std::map<char, integer> extents;
  std::map<char, int> count;
  integers ellipsis;
  bool dots = false;
  std::size_t at = 0;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    if (at > std::min(arrow, equation.size())) c.refuse("the equation has letters of fewer operands");
    const std::size_t end = std::min({equation.find(',', at), arrow, equation.size()});
    const std::string letters = equation.substr(at, end - at);
    at = end + 1;
    const std::size_t named = letters.size() - (letters.find("...") == letters.npos ? 0 : 3);
    if (named > c.rank(i)) c.refuse("operand " + std::to_string(i) + " has too few axes for its letters");
    for (std::size_t k = 0, axis = 0; k < letters.size(); ++k) {
      if (letters[k] == '.') {
        const std::size_t others = c.rank(i) - named;
        ellipsis = broadcast_of(c, ellipsis, extents_of(c.in[i]->extents, axis, axis + others));
        dots = true, k += 2, axis += others;
        continue;
      }
      const integer& n = c.extent(i, axis++);
      if (!extents.contains(letters[k]) || extents[letters[k]].is(1)) extents[letters[k]] = n;
      ++count[letters[k]];
    }
  }
  std::string result = arrow == equation.npos ? std::string(dots ? "..." : "") : equation.substr(arrow + 2);
  if (arrow == equation.npos)
    for (const auto& [letter, times] : count)
      if (times == 1) result += letter;
  integers all;
  for (std::size_t k = 0; k < result.size(); ++k)
    if (result[k] == '.')
      append(all, ellipsis), k += 2;
    else
      all.push_back(extents[result[k]]);
  c.result(0, std::move(all));
  if (c.in.size() == 1 && equation.substr(0, arrow) == result) return c.pass(0);
  c.text = form("einsum<\"$\">({*})", equation);
}

inline void of_matrices(call& c) {
  c.need_rank(0, 2, 8);
  c.result(0, extents_of(c.operand(0).extents, 0, c.rank() - 2));
}

inline constexpr row product_rows[] = {
    {"Det", {of_matrices, layout::plain, true}, "determinant({0})", "ops/linear_algebra/lu.hpp"},
    {"Einsum", {summed_by_letters, layout::plain, true}, "", "ops/products/einsum.hpp"},
    {"Gemm", {gemm_of}},
    {"MatMul", {multiplied}, "matmul({0}, {1})"},
};

}  // namespace tool::importer
