// SPDX-License-Identifier: BSL-1.0
#include <weft/graph/random.hpp>
#include <weft/ops/random/augmentation.hpp>
#include <weft/ops/random/categorical.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/ops/random/sample_logits.hpp>
#include <weft/ops/random/shuffle.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case categorical_integers: The logits are integers.
// error: logits_not_floating
// error: categorical: needs logits \[\.\.\., classes\] in a graph
graph g;
auto logits = placeholder<std::int32_t, dims<dyn<"batch">, 3>>(g, "logits");
auto y = categorical(logits);                            // wrong
auto y = categorical(cast<float>(logits), {.seed = 7});  // right

// case categorical_samples: A number of samples, as in TensorFlow.
// error: takes logits, and random_options: categorical\(x, \{.seed = 7\}\); categorical<5>\(x\)
graph g;
auto logits = placeholder<float, dims<dyn<"batch">, 3>>(g, "logits");
auto y = categorical(logits, 5, {.seed = 7});  // wrong
auto y = categorical<5>(logits, {.seed = 7});  // right

// case categorical_tensor: The logits are a tensor outside of a graph.
// error: value_not_in_a_graph
// error: categorical: needs logits \[\.\.\., classes\] in a graph, of float, double, half or bfloat16
graph g;
tensor<float, dims<2, 3>> logits;
auto y = categorical(logits);               // wrong
auto y = categorical(constant(g, logits));  // right

// case dropout_integers: Dropout of integers.
// error: elements_not_floating
// error: int
// error: float or double
graph g;
auto x = placeholder<std::int32_t, dims<dyn<"batch">, 3>>(g, "x");
auto y = dropout(x, 0.2);               // wrong
auto y = dropout(cast<float>(x), 0.2);  // right

// case dropout_misspelt: A misspelt option of dropout.
// error: takes a value, a rate and options: dropout\(x, 0\.1, \{\.seed = 7\}\); 0 turns it off
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = dropout(x, 0.5, {.sed = 7});   // wrong
auto y = dropout(x, 0.5, {.seed = 7});  // right

// case dropout_named_rate: The rate is an option.
// error: takes a value, a rate and options: dropout\(x, 0\.1, \{\.seed = 7\}\); 0 turns it off
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = dropout(x, {.rate = 0.5});  // wrong
auto y = dropout(x, 0.5);            // right

// case dropout_no_rate: The rate is missing.
// error: takes a value, a rate and options: dropout\(x, 0\.1, \{\.seed = 7\}\); 0 turns it off
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = dropout(x);        // wrong
auto y = dropout(x, 0.5f);  // right

// case dropout_rate: The rate is a percentage.
// error: not_a_dropout_rate
// error: int
// error: dropout\(x, 0.1\)
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 3>>(g, "x");
auto y = dropout(x, 20);   // wrong
auto y = dropout(x, 0.2);  // right

// case dropout_template: The rate is a template argument.
// clang 14 has no template arguments of type double, so that no overload fits.
// error(clang++): no matching function
// error(g++): takes a value, a rate and options: dropout\(x, 0\.1, \{\.seed = 7\}\)
// max-lines: 9
// alone
#include <weft/ops/random/dropout.hpp>
#include <weft/weft.hpp>
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = dropout<0.5>(x);  // wrong
auto y = dropout(x, 0.5);  // right

// case dropout_tensor: The operand is a tensor outside of a graph.
// error: value_not_in_a_graph
// error: value in a graph
graph g;
tensor<float, dims<3>> x;
auto y = dropout(x, 0.2);               // wrong
auto y = dropout(constant(g, x), 0.2);  // right

// case dropout_training: keep_prob and training as arguments.
// error: takes a value, a rate and options: dropout\(x, 0\.1, \{\.seed = 7\}\); 0 turns it off
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = dropout(x, 0.5f, true);  // wrong
auto y = dropout(x, 0.5f);        // right

// case gamma_tensor: The shapes are a tensor outside of a graph.
// error: value_not_in_a_graph
// error: random_gamma: needs float or double shapes in a graph
graph g;
tensor<float, dims<3>> shapes;
auto y = random_gamma(shapes);               // wrong
auto y = random_gamma(constant(g, shapes));  // right

// case random_crop_size: The crop is larger than the images.
// error: crop_does_not_fit
// error: random_crop: needs images \[batch, height, width, \.\.\.\] in a graph
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
auto y = random_crop<32, 24>(x);  // wrong
auto y = random_crop<24, 24>(x);  // right

// case random_extents: The shape is an argument.
// error: random_arguments_are_not_taken
// error: random_normal: write random_normal<float, dims<3, 4>>\(graph, mean, stddev\)
graph g;
auto y = random_normal<float>(g, shape(3, 4));  // wrong
auto y = random_normal<float, dims<3, 4>>(g);   // right

// case random_int_float: The type of the integers is float.
// error: random_elements_not_integers
// error: random_int: needs extents, dims<\.\.\.>, and elements of an integer type
graph g;
auto y = random_int<float, dims<3>>(g, 0, 10);         // wrong
auto y = random_int<std::int32_t, dims<3>>(g, 0, 10);  // right

// case random_int_no_type: The extents lack the type.
// error: random_arguments_are_not_taken
// error: random_int: write random_int<std::int32_t, dims<3, 4>>\(graph, low, high\)
graph g;
auto y = random_int<dims<3>>(g, 0, 10);                // wrong
auto y = random_int<std::int32_t, dims<3>>(g, 0, 10);  // right

// case random_integers: random_uniform() of integers.
// error: random_elements_not_floating
// error: int
// error: float, double, half or bfloat16
graph g;
auto y = random_uniform<std::int32_t, dims<3>>(g, 0, 10);  // wrong
auto y = random_uniform<float, dims<3>>(g, 0, 10);         // right

// case random_misspelt: A misspelt option of random_normal.
// error: random_normal<float, dims<3>>\(g, mean, stddev, \{\.seed = 7\}\)
graph g;
auto y = random_normal<float, dims<3>>(g, 0, 1, {.sed = 7});   // wrong
auto y = random_normal<float, dims<3>>(g, 0, 1, {.seed = 7});  // right

// case random_no_graph: The graph is missing.
// error: random_arguments_are_not_taken
// error: random_uniform: write random_uniform<float, dims<3, 4>>\(graph, low, high\)
graph g;
auto y = random_uniform<float, dims<3, 4>>();   // wrong
auto y = random_uniform<float, dims<3, 4>>(g);  // right

// case random_no_type: The type is missing.
// error: random_arguments_are_not_taken
// error: random_uniform: write random_uniform<float, dims<3, 4>>\(graph, low, high\)
graph g;
auto y = random_uniform<dims<3, 4>>(g);         // wrong
auto y = random_uniform<float, dims<3, 4>>(g);  // right

// case random_numbers: The extents are numbers without dims.
// error: random_arguments_are_not_taken
// error: random_normal: write random_normal<float, dims<3, 4>>\(graph, mean, stddev\)
graph g;
auto y = random_normal<float, 3, 4>(g);        // wrong
auto y = random_normal<float, dims<3, 4>>(g);  // right

// case random_options_first: The options come before the mean.
// error: random_normal<float, dims<3>>\(g, mean, stddev, \{\.seed = 7\}\)
graph g;
auto y = random_normal<float, dims<3>>(g, {.seed = 7});        // wrong
auto y = random_normal<float, dims<3>>(g, 0, 1, {.seed = 7});  // right

// case sample_top_k: An option of sampling lacks its name.
// error: logits and options: sample_logits\(x, \{\.temperature = 0\.8, \.top_p = 0\.9\}\)
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 100>>(g, "x");
auto y = sample_logits(x, 0.8, 50);                            // wrong
auto y = sample_logits(x, {.temperature = 0.8, .top_k = 50});  // right

// case shuffle_misspelt: A misspelt option of shuffle.
// error: shuffles the first axis; takes random_options: shuffle\(x, \{\.seed = 7\}\)
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = shuffle(x, {.sed = 7});   // wrong
auto y = shuffle(x, {.seed = 7});  // right

// case shuffle_seed: The seed is a number.
// error: shuffles the first axis; takes random_options: shuffle\(x, \{\.seed = 7\}\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = shuffle(x, 1);            // wrong
auto y = shuffle(x, {.seed = 1});  // right

// case shuffle_tensor: The operand is a tensor outside of a graph.
// error: value_not_in_a_graph
// error: shuffle: needs a value in a graph that has at least one axis
tensor<float, dims<4, 2>> x;
graph g;
auto y = shuffle(x);               // wrong
auto y = shuffle(constant(g, x));  // right
