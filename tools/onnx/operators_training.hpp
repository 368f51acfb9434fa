// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Steps of optimizers, as functions of their operands: the rate, the number of the step, and lists of variables,
/// gradients and slots.
namespace tool::importer {

inline void optimized(call& c) {
  const bool adam = c.of.op.ends_with("Adam"), adagrad = c.of.op.ends_with("Adagrad");
  const std::size_t lists = adam ? 4 : 3, count = c.in.size() < 2 ? 0 : (c.in.size() - 2) / lists;
  if (c.in.size() < 2 + lists) c.refuse("it needs as many gradients and slots as variables");
  const int type = c.operand(2).type;
  const auto option = [&](std::string_view name, double otherwise) { return literal(type, c.real(name, otherwise)); };
  const std::string mode = c.word_of("mode", {"standard", "nesterov"}), decay = option("norm_coefficient", 0),
                    alpha = option("alpha", 0.9), beta = option("beta", 0.999),
                    after = option("norm_coefficient_post", 0), t = stated(c, "t", cast_text(type, "{1}"));
  const std::string epsilon = option("epsilon", adagrad ? 0 : 1e-8), factor = option("decay_factor", 0);
  if (count == 0 || c.in.size() != 2 + lists * count) c.refuse("it needs as many gradients and slots as variables");
  const auto log_of = [&](std::string_view name, double otherwise) {
    return literal(type, std::log(c.real(name, otherwise)));
  };
  std::string rate = "{0}";
  if (adagrad) rate = "{0} / (1 + " + t + " * " + factor + ")";
  if (adam)
    rate = "select({1} > 0, {0} * sqrt(1 - exp(" + t + " * " + log_of("beta", 0.999) + ")) / (1 - exp(" + t + " * " +
           log_of("alpha", 0.9) + ")), {0})";
  rate = stated(c, "rate", rate);
  std::vector<std::string> variables, slots[2];
  for (std::size_t i = 0; i < count; ++i) {
    const auto operand = [&](std::size_t list) { return named(c, 2 + list * count + i); };
    const std::string x = operand(0), g = stated(c, "gradient", "let(" + decay + " * " + x + " + " + operand(1) + ")");
    std::string y;
    if (adam) {
      slots[0].push_back(
          stated(c, "moment", "let(" + alpha + " * " + operand(2) + " + (1 - " + alpha + ") * " + g + ")"));
      slots[1].push_back(stated(c, "square_moment",
                                "let(" + beta + " * " + operand(3) + " + (1 - " + beta + ") * square(" + g + "))"));
      y = "(1 - " + after + ") * (" + x + " - " + rate + " * " + slots[0].back() + " / (sqrt(" + slots[1].back() +
          ") + " + epsilon + "))";
    } else if (adagrad) {
      slots[0].push_back(stated(c, "squares", "let(" + operand(2) + " + square(" + g + "))"));
      y = x + " - " + rate + " * " + g + " / (sqrt(" + slots[0].back() + ") + " + epsilon + ")";
    } else {
      const std::string part = stated(c, "part", "select({1} > 0, " + beta + " * " + g + ", " + g + ")");
      slots[0].push_back(stated(c, "momentum", "let(" + alpha + " * " + operand(2) + " + " + part + ")"));
      y = x + " - " + rate + " * " +
          (mode == "nesterov" ? "(" + g + " + " + alpha + " * " + slots[0].back() + ")" : slots[0].back());
    }
    variables.push_back(stated(c, "updated", "let(" + y + ")"));
  }
  std::size_t out = 0;
  for (const auto* list : {&variables, &slots[0], &slots[1]})
    for (std::size_t i = 0; i < list->size(); ++i, ++out) also(c, out, (*list)[i], c.operand(2 + i).extents);
  c.done = true;
}

inline constexpr row training_rows[] = {
    {"ai.onnx.preview.training.Adagrad", {optimized}, "sqrt square let"},
    {"ai.onnx.preview.training.Adam", {optimized}, "exp log select cast"},
    {"ai.onnx.preview.training.Momentum", {optimized}},
};

}  // namespace tool::importer
