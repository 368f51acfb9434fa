// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Products, and the layers of networks.
namespace tool::importer {

/// Letters of axes, as in NumPy; without an arrow, the result has the letters that occur once.
inline void summed_by_letters(call& c) {
  std::string equation = c.word("equation", "");
  std::erase(equation, ' ');
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
        const auto begin = c.operand(i).extents.begin() + static_cast<std::ptrdiff_t>(axis);
        const std::size_t others = c.rank(i) - named;
        ellipsis = broadcast_of(c, ellipsis, {begin, begin + static_cast<std::ptrdiff_t>(others)});
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
      all.insert(all.end(), ellipsis.begin(), ellipsis.end()), k += 2;
    else
      all.push_back(extents[result[k]]);
  c.result(0, std::move(all));
  if (c.in.size() == 1 && equation.substr(0, arrow) == result) return c.pass(0);
  c.text = "einsum<\"" + equation + "\">({*})";
}

inline void of_matrices(call& c) {
  if (c.rank() < 2) c.refuse("the operand must be a matrix");
  const integers& extents = c.operand(0).extents;
  c.result(0, {extents.begin(), extents.end() - 2});
}

inline constexpr row network_rows[] = {
    {"AveragePool", pool, "avg_pool{rank}<{windows}>({0})"},
    {"BatchNormalization", batch_norm},
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution, "conv1d_transpose conv2d_transpose conv3d_transpose concat pad"},
    {"Det", {of_matrices, layout::plain, true}, "determinant({0})", "ops/linear_algebra/lu.hpp"},
    {"Einsum", {summed_by_letters, layout::plain, true}, "", "ops/products/einsum.hpp"},
    {"Gemm", gemm_rule},
    {"GlobalAveragePool", global_pool, "mean<{axes}, keep_dims>({0})"},
    {"GlobalMaxPool", global_pool, "max<{axes}, keep_dims>({0})"},
    {"LayerNormalization", layer_norm},
    {"LpPool", pool, "pow sqrt square abs"},
    {"MatMul", matmul_rule, "matmul({0}, {1})"},
    {"MaxPool", pool, "max_pool{rank}<{windows}>({0})"},
    {"MaxUnpool", unpool, "max_unpool2d", "ops/images/max_unpool.hpp"},
};

}  // namespace tool::importer
