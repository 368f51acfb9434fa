// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Losses of classes.
namespace tool::importer {

/// SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss. The classes are axis 1 of operand 0, the weights of the
/// classes operand 2.
inline void class_loss(call& c) {
  c.need_rank(0, 2, 8);
  const value& x = c.operand(0);
  const integers classes = c.operand(1).extents;
  const std::string reduction = c.word_of("reduction", {"mean", "sum", "none"});
  const bool ignores = c.has_attribute("ignore_index");
  c.holes["ignored"] = part(c.number("ignore_index", 0));
  c.need_header("ops/losses/classification.hpp");
  c.holes["log_p"] = named(c, 0);
  c.holes["labels"] = named(c, 1, "labels");
  if (c.of.op == "SoftmaxCrossEntropyLoss") c.holes["log_p"] = stated(c, "log_p", "log_softmax({log_p})");
  also(c, 1, c.holes["log_p"], x.extents, x.last);
  c.result(0, reduction == "none" ? classes : integers());
  std::string loss = form("nll_loss({log_p}, {labels}$)", ignores ? ", {.ignore_index = {ignored}}" : ""), weight;
  if (c.has(2)) {
    c.need_header("ops/index/gather.hpp");
    weight = ignores ? "select({labels} == {ignored}, 0, gather<0>({2}, select({labels} == {ignored}, 0, {labels})))"
                     : "gather<0>({2}, {labels})";
    weight = stated(c, "weight", weight);
    loss += " * " + weight;
  } else if (ignores) {
    weight = cast_text(x.type, "{labels} != {ignored}");
  }
  c.text = reduction == "none"  ? loss
           : reduction == "sum" ? form("sum($)", loss)
           : weight.empty()     ? form("mean($)", loss)
                                : form("sum($) / sum($)", loss, weight);
}

inline constexpr row loss_rows[] = {
    {"NegativeLogLikelihoodLoss", {class_loss, layout::channels}, "nll_loss select gather cast sum mean"},
    {"SoftmaxCrossEntropyLoss", {class_loss, layout::channels}, "nll_loss log_softmax"},
};

}  // namespace tool::importer
