// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/losses/ctc_decoder.hpp>
#include <weft/ops/losses/losses.hpp>
#include <weft/train/decay.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case cdist_columns: The points have different numbers of columns.
// error: points_differ
// error: cdist: needs points \[\.\.\., n, d\] and \[\.\.\., m, d\]
tensor<float, dims<4, 3>> x;
tensor<float, dims<3, 4>> t;
auto y = cdist(x, t);                   // wrong
auto y = cdist(x, transpose<1, 0>(t));  // right

// case class_weights_node: The class weights are in a graph.
// error: nll_loss
graph g;
auto w = variable<float, dims<3>>(g, "w");
tensor<float, dims<4, 3>> x;
auto y = nll_loss(x, argmax<1>(x), {.class_weights = w});          // wrong
auto y = nll_loss(x, argmax<1>(x), {.class_weights = {1, 2, 3}});  // right

// case cosine_axis: The axis is an argument.
// error: vectors_differ
tensor<float, dims<4, 3>> x;
tensor<float, dims<4, 5>> t;
auto y = cosine_similarity(x, t, 0);  // wrong
auto y = cosine_similarity<0>(x, x);  // right

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

// case cross_entropy_third: The reduction is a third argument.
// error: arguments_are_not_taken
// error: softmax_cross_entropy: takes logits and labels, and returns a loss for each row:
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = softmax_cross_entropy(x, argmax<1>(x), "mean");  // wrong
auto y = mean(softmax_cross_entropy(x, argmax<1>(x)));    // right

// case ctc_no_lengths: The lengths are missing.
// error: logits, labels and the lengths of both: ctc_loss\(x, y, frames, n, \{\.blank = -1\}\)
tensor<float, dims<2, 8, 3>> x;
tensor<int, dims<2, 4>> y;
tensor<int, dims<2>> n;
auto loss = ctc_loss(x, y);        // wrong
auto loss = ctc_loss(x, y, n, n);  // right

// case ctc_paths: The number of paths is an option.
// error: the paths are a template argument: ctc_beam_search_decoder<3>\(x, n\)
tensor<float, dims<2, 8, 3>> x;
tensor<int, dims<2>> n;
auto y = ctc_beam_search_decoder(x, n, {.top_paths = 3});  // wrong
auto y = ctc_beam_search_decoder<3>(x, n);                 // right

// case ctc_time_major: The logits begin with the time.
// error: sequences_do_not_fit
// error: ctc_loss: needs logits \[batch, time, classes\] of float or double
tensor<float, dims<8, 2, 3>> x;
tensor<int, dims<2, 4>> y;
tensor<int, dims<2>> n;
auto loss = ctc_loss(x, y, n, n);                      // wrong
auto loss = ctc_loss(transpose<1, 0, 2>(x), y, n, n);  // right

// case focal_gamma: The exponent lacks its name.
// error: logits, labels and options: mean\(focal_loss\(x, labels, \{\.gamma = 2\}\)\)
tensor<float, dims<4, 3>> x;
auto y = focal_loss(x, x, 0.25, 2);       // wrong
auto y = focal_loss(x, x, {.gamma = 2});  // right

// case huber_extents: The targets have other extents, which would broadcast.
// error: loss_operands_differ
// error: huber_loss: needs predictions of float or double, and targets of their type and extents
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
// error: softmax_cross_entropy: needs float or double logits, and labels that fit them
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

// case nll_labels: The labels are one-hot integers.
// error: labels_do_not_fit_logits
// error: nll_loss: needs log-probabilities of float or double, and classes or distributions that fit them
tensor<float, dims<4, 3>> x;
tensor<int, dims<4, 3>> labels;
auto y = nll_loss(x, labels);               // wrong
auto y = nll_loss(x, cast<float>(labels));  // right

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
// error: sigmoid_cross_entropy: needs float or double predictions, and labels of their type and extents
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
