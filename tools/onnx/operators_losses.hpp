// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Losses of classes.
namespace tool::importer {

/// SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss. The classes are axis 1 of operand 0, the weights of the
/// classes operand 2.
inline void class_loss(call& c) {
  c.need_rank(0, 2, 8);
  value& x = c.operand(0);
  const std::string reduction = c.word_of("reduction", {"mean", "sum", "none"});
  const bool ignores = c.has_attribute("ignore_index");
  const std::string ignored = std::to_string(c.number("ignore_index", 0));
  const value& labels = c.operand(1);
  c.need_header("ops/losses/classification.hpp");
  std::string log_p = named(c, 0), label = named(c, 1, "labels");
  const std::string classes = label;
  if (c.of.op == "SoftmaxCrossEntropyLoss") log_p = stated(c, "log_p", "log_softmax(" + log_p + ")");
  also(c, 1, log_p, x.extents, x.last);
  c.result(0, reduction == "none" ? labels.extents : integers());
  std::string loss = "nll_loss(" + log_p + ", " + label + (ignores ? ", {.ignore_index = " + ignored + "}" : "") + ")";
  std::string weight;
  if (c.has(2)) {
    c.need_header("ops/index/gather.hpp");
    const std::string used = ignores ? "select(" + classes + " == " + ignored + ", 0, " + classes + ")" : classes;
    weight = "gather<0>({2}, " + used + ")";
    if (ignores) weight = "select(" + classes + " == " + ignored + ", 0, " + weight + ")";
    weight = stated(c, "weight", weight);
    loss = loss + " * " + weight;
  } else if (ignores) {
    weight = cast_text(x.type, classes + " != " + ignored);
  }
  c.text = reduction == "none"  ? loss
           : reduction == "sum" ? "sum(" + loss + ")"
           : weight.empty()     ? "mean(" + loss + ")"
                                : "sum(" + loss + ") / sum(" + weight + ")";
}

inline constexpr row loss_rows[] = {
    {"NegativeLogLikelihoodLoss", {class_loss, layout::channels}, "nll_loss select gather cast sum mean"},
    {"SoftmaxCrossEntropyLoss", {class_loss, layout::channels}, "nll_loss log_softmax"},
};

}  // namespace tool::importer
