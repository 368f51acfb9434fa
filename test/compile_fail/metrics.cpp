// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case metric_called: A metric as a function, as in PyTorch.
// error(clang++): type 'metrics::mean' does not provide a call operator
// error(g++): no match for call to '\(weft::metrics::mean\) \(float\)'
metrics::mean m;
m(1.0f);                        // wrong
m.update(tensor<float>(1.0f));  // right

// case metric_extents: The targets have other extents than the predictions.
// error: metric_extents_differ
// error: update: pass labels and predictions of equal extents
metrics::mean_squared_error error;
tensor<float, dims<4, 1>> predictions;
tensor<float, dims<4>> labels;     // wrong
tensor<float, dims<4, 1>> labels;  // right
error.update(labels, predictions);

// case metric_labels: The predictions have other extents than the labels.
// error: predictions_do_not_fit_labels
// error: <dims<3>, (weft::)?dims<4, 10>>|dims<3>, weft::dims<4, 10>
// error: update: pass integer labels \[...\]; then predictions, integers \[...\] or scores \[..., classes\]
metrics::accuracy accuracy;
tensor<float, dims<4, 10>> logits;
tensor<int, dims<3>> labels;  // wrong
tensor<int, dims<4>> labels;  // right
accuracy.update(labels, logits);

// case metric_of_classes: top_k_accuracy of classes instead of scores.
// error: predictions_do_not_fit_labels
// error: update: pass integer labels \[...\]; then predictions, scores \[..., classes\]
metrics::top_k_accuracy top(5);
tensor<int, dims<4>> labels;
tensor<int, dims<4>> predictions;        // wrong
tensor<float, dims<4, 10>> predictions;  // right
top.update(labels, predictions);

// case metric_of_node: A node instead of its fetched value.
// error: value_needs_a_session
// error: update: pass integer labels \[...\]
graph g;
auto logits = placeholder<float, dims<4, 10>>(g, "logits");
session s(g);
metrics::accuracy accuracy;
tensor<int, dims<4>> labels;
tensor<float, dims<4, 10>> x;
accuracy.update(labels, logits);                           // wrong
accuracy.update(labels, s.eval(logits, with(logits, x)));  // right

// case metric_of_vector: A std::vector instead of a tensor.
// error: metric_operand_is_not_a_tensor
// error: update: pass labels and predictions of equal extents, tensors
metrics::mean_absolute_error error;
std::vector<float> labels(4), predictions(4);
error.update(labels, predictions);                            // wrong
using view = tensor_view<const float, dims<4>>;               // right
error.update(view(labels.data()), view(predictions.data()));  // right

// case metric_probabilities: Probabilities instead of classes.
// error: predictions_are_not_classes<float>
// error: update: pass integer labels \[...\]
tensor<float, dims<4>> probabilities;
tensor<int, dims<4>> labels;
metrics::accuracy accuracy;              // wrong
accuracy.update(labels, probabilities);  // wrong
metrics::binary_counts counts;           // right
counts.update(labels, probabilities);    // right

// case metric_result: result(), as in Keras.
// error(clang++): no member named 'result' in 'weft::metrics::mean'
// error(g++): 'class weft::metrics::mean' has no member named 'result'; did you mean 'reset'\?
metrics::mean m;
double x = m.result();  // wrong
double x = m.value();   // right

// case metric_swapped: The predictions come before the labels.
// error: labels_are_not_classes
// error: <float>
// error: update: pass integer labels \[...\]
metrics::accuracy accuracy;
tensor<float, dims<4, 10>> logits;
tensor<int, dims<4>> labels;
accuracy.update(logits, labels);  // wrong
accuracy.update(labels, logits);  // right

// case metric_top_k: k is missing.
// error: top_k_accuracy\(5\): a label among the five largest scores counts as right
metrics::top_k_accuracy top;     // wrong
metrics::top_k_accuracy top(3);  // right

// case metric_weights: There are fewer weights than values.
// error: weights_do_not_fit_values
// error: update: pass a tensor, a number or a fetched value
metrics::mean cost;
tensor<float, dims<4>> losses;
cost.update(losses, tensor<float, dims<3>>());  // wrong
cost.update(losses, tensor<float, dims<4>>());  // right
