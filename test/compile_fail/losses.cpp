// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/losses/losses.hpp>
#include <weft/train/decay.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case cross_entropy_axis: The axis is a template argument.
// error: arguments_are_not_taken
// error: softmax_cross_entropy: takes logits and labels, and returns a loss for each row:
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = softmax_cross_entropy<1>(x, x);  // wrong
auto y = softmax_cross_entropy(x, x);     // right

// case cross_entropy_integers: The logits are integers.
// error: not_floating<.*int
graph g;
auto x = placeholder<float, dims<2, 3>>(g, "x");
auto labels = placeholder<int, dims<2>>(g, "labels");
auto y = softmax_cross_entropy(labels, labels);  // wrong
auto y = softmax_cross_entropy(x, labels);       // right

// case cross_entropy_one_operand: The labels are missing.
// error: arguments_are_not_taken
// error: softmax_cross_entropy: takes logits and labels, and returns a loss for each row:
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = softmax_cross_entropy(x);                // wrong
auto y = softmax_cross_entropy(x, argmax<1>(x));  // right

// case cross_entropy_tensors: Neither operand is in a graph.
// error: cross_entropy_of_tensors
// error: dims<2, 3>
graph g;
auto x = placeholder<float, dims<2, 3>>(g, "x");
tensor<float, dims<2, 3>> t;
tensor<int, dims<2>> labels;
auto y = softmax_cross_entropy(t, labels);  // wrong
auto y = softmax_cross_entropy(x, labels);  // right

// case cross_entropy_third: The reduction is a third argument.
// error: arguments_are_not_taken
// error: softmax_cross_entropy: takes logits and labels, and returns a loss for each row:
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = softmax_cross_entropy(x, argmax<1>(x), "mean");  // wrong
auto y = mean(softmax_cross_entropy(x, argmax<1>(x)));    // right

// case huber_extents: The targets have other extents, which would broadcast.
// error: loss_operands_differ
// error: huber_loss: needs float or double predictions, and targets of the same type and extents
tensor<float, dims<4, 3>> x;
tensor<float, dims<4, 1>> t;
auto y = huber_loss(x, t);                            // wrong
auto y = huber_loss(x, broadcast_to<dims<4, 3>>(t));  // right

// case in_top_k_template: k is a template argument.
// error: logits and labels, then k: in_top_k\(logits, labels, 5\)
tensor<float, dims<4, 3>> x;
auto y = in_top_k<2>(x, argmax<1>(x));  // wrong
auto y = in_top_k(x, argmax<1>(x), 2);  // right

// case label_smoothing_number: The smoothing lacks its name.
// error: softmax_cross_entropy: takes logits and labels
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = softmax_cross_entropy(x, argmax<1>(x), 0.1);                       // wrong
auto y = softmax_cross_entropy(x, argmax<1>(x), {.label_smoothing = 0.1});  // right

// case labels: The labels have other extents than the logits.
// error: labels_do_not_fit_logits
// error: 10
graph g;
auto logits = placeholder<float, dims<dyn<"batch">, 10>>(g, "logits");
auto labels = placeholder<int, dims<dyn<"batch">, 10>>(g, "labels");  // wrong
auto labels = placeholder<int, dims<dyn<"batch">>>(g, "labels");      // right
auto loss = softmax_cross_entropy(logits, labels);

// case labels_and_logits: The labels come before the logits.
// error: not_floating
// error: <int>
// error: softmax_cross_entropy: needs float or double logits in a graph
graph g;
auto logits = placeholder<float, dims<dyn<"batch">, 10>>(g, "logits");
auto labels = placeholder<int, dims<dyn<"batch">>>(g, "labels");
auto loss = softmax_cross_entropy(labels, logits);  // wrong
auto loss = softmax_cross_entropy(logits, labels);  // right

// case log_softmax_template_axis: The axis is a template argument.
// error: arguments_are_not_taken
// error: log_softmax: it works along the last axis: log_softmax\(x\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = log_softmax<-1>(x);  // wrong
auto y = log_softmax(x);      // right

// case penalty_of_tensor: The operand is a tensor outside of a graph, which cannot be trained.
// error: penalty_of_non_node
// error: l2_penalty: pass float or double variables as separate arguments
graph g;
auto w = variable<float, dims<3>>(g, "w");
tensor<float, dims<3>> x{1, 2, 3};
auto loss = l2_penalty(x);      // wrong
auto loss = l2_penalty(w - x);  // right

// case sigmoid_cross_entropy_labels: The labels are bool.
// error: element_types_differ
// error: sigmoid_cross_entropy: needs float or double logits, and labels of the same type and extents
tensor<float, dims<4, 3>> x;
auto y = sigmoid_cross_entropy(x, x > 0);               // wrong
auto y = sigmoid_cross_entropy(x, cast<float>(x > 0));  // right

// case softmax_axis: The axis is an argument.
// error: axis_is_not_a_template_argument
// error: dims<2, 3>
// error: softmax: it works along the last axis: softmax\(x\)
tensor<float, dims<2, 3>> x;
auto y = softmax(x, 1);  // wrong
auto y = softmax(x);     // right

// case softmax_half: The elements have a storage type.
// error: not_floating<.*half
// error: log_softmax: needs float or double logits
tensor<half, dims<2, 3>> x;    // wrong
tensor<double, dims<2, 3>> x;  // right
auto y = log_softmax(x);

// case softmax_integers: The elements are integers.
// error: not_floating<.*int
// error: softmax: needs float or double logits
graph g;
auto x = placeholder<int, dims<2, 3>>(g, "x");    // wrong
auto x = placeholder<float, dims<2, 3>>(g, "x");  // right
auto y = softmax(x);

// case softmax_scalar: The operand is a scalar.
// error: no_last_axis
// error: dims<>
tensor<float> x;           // wrong
tensor<float, dims<1>> x;  // right
auto y = softmax(x);

// case softmax_template_axis: The axis is a template argument.
// error: arguments_are_not_taken
// error: softmax: it works along the last axis: softmax\(x\)
tensor<float, dims<4, 3>> t;
auto y = softmax<1>(t);  // wrong
auto y = softmax(t);     // right
