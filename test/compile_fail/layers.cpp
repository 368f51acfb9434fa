// SPDX-License-Identifier: BSL-1.0
#include <tuple>
#include <vector>

#include <weft/nn.hpp>
#include <weft/nn/activations.hpp>
#include <weft/nn/attention.hpp>
#include <weft/nn/autocast.hpp>
#include <weft/nn/conv1d_transpose.hpp>
#include <weft/nn/conv3d.hpp>
#include <weft/nn/depthwise_conv2d.hpp>
#include <weft/nn/embedding_bag.hpp>
#include <weft/nn/grouped_conv2d.hpp>
#include <weft/nn/positions.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/nn/spatial_dropout.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/nn/weight_norm.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case activation_lambda: The activation is a lambda.
// error: activation_is_not_known<
// error: nn::activation<my_formula>\{\}
nn::dense<10> d{.activation = [](const auto& x) { return x * 2.0f; }};  // wrong
nn::dense<10> d{.activation = nn::silu};                                // right

// case activation_text: The activation is named by a string, as in Keras.
// error: activation_is_not_known<char *\[5\]>
// error: activation: needs a value of namespace nn, such as nn::relu
nn::dense<10> d{.activation = "relu"};    // wrong
nn::dense<10> d{.activation = nn::relu};  // right

// case activation_without_parameter: An activation has no parameter.
// error: activation_has_no_parameter<(weft::)?formula::relu>
// error: only nn::elu and the activations of <weft/nn/activations.hpp>
nn::dense<10> d{.activation = nn::relu(0.1)};        // wrong
nn::dense<10> d{.activation = nn::leaky_relu(0.1)};  // right

// case attention_heads: The number of heads does not divide the features of the query.
// error: heads_do_not_divide_the_features
// error: 20>, 8
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 20>>(g, "x");
const nn::multi_head_attention<8> attention;  // wrong
const nn::multi_head_attention<4> attention;  // right
auto y = attention(x);

// case attention_mask: The mask has the keys of another sequence.
// error: mask_does_not_fit
// error(g++): words
graph g;
auto x = placeholder<float, dims<dyn<"batch">, dyn<"words">, 8>>(g, "x");
auto m = placeholder<bool, dims<dyn<"batch">, dyn<"words">, 9>>(g, "m");             // wrong
auto m = placeholder<bool, dims<dyn<"batch">, dyn<"words">, dyn<"words">>>(g, "m");  // right
const nn::multi_head_attention<2> attention;
auto y = attention(x, nn::mask(m));

// case autocast_float: Products of float are already in float.
// error: cast_is_not_to_a_storage_type<float>
// error: autocast: needs nn::autocast<bfloat16> or <half>
graph g;
const nn::autocast<float> mixed(g);     // wrong
const nn::autocast<bfloat16> mixed(g);  // right

// case batch_norm_braces: The replicas are in braces.
// error: norm\(x, how\), norm\(x, residual, how\), or norm\(std::tuple\(x0, x1\), how\)
graph g;
auto first = placeholder<float, dims<8, 4>>(g), second = placeholder<float, dims<8, 4>>(g);
auto [y0, y1] = nn::batch_norm<>()({first, second}, nn::mode::training);            // wrong
auto [y0, y1] = nn::batch_norm<>()(std::tuple(first, second), nn::mode::training);  // right

// case batch_norm_mode: The mode is missing.
// error: mode_is_missing
// error: batch_norm: needs a mode
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
auto y = nn::batch_norm<>()(x);                      // wrong
auto y = nn::batch_norm<>()(x, nn::mode::training);  // right

// case batch_norm_replicas: The replicas have different numbers of channels.
// error: channels_of_replicas_differ
// error: batch_norm: needs nodes \[\.\.\., channels\] .* the same channels in all replicas
graph g;
auto first = placeholder<float, dims<8, 4>>(g);
auto second = placeholder<float, dims<6, 5>>(g);  // wrong
auto second = placeholder<float, dims<6, 4>>(g);  // right
auto [y0, y1] = nn::batch_norm<>()(std::tuple(first, second), nn::mode::training);

// case batch_norm_replicas_mode: Replicas are normalized without a mode.
// error: mode_is_missing
// error: batch_norm: needs a mode
graph g;
const std::vector replicas{placeholder<float, dims<8, 4>>(g), placeholder<float, dims<8, 4>>(g)};
auto y = nn::batch_norm<>()(replicas);                      // wrong
auto y = nn::batch_norm<>()(replicas, nn::mode::training);  // right

// case batch_norm_residual: The residual has other extents.
// error: residual_differs
// error: batch_norm: the residual must have the extents
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 64>>(g);
auto shortcut = placeholder<float, dims<dyn<"batch">, 8, 8, 32>>(g);  // wrong
auto shortcut = placeholder<float, dims<dyn<"batch">, 8, 8, 64>>(g);  // right
auto y = nn::batch_norm<>()(x, shortcut, nn::mode::training);

// case conv1d_transpose_images: A layer for sequences is called with images.
// error: sequences_are_not_of_rank_3
// error: conv1d_transpose: needs a node \[batch, length, channels\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 4>>(g);  // wrong
auto x = placeholder<float, dims<dyn<"batch">, 8, 4>>(g);     // right
auto y = nn::conv1d_transpose<3, 8>()(x);

// case conv3d_images: A layer for volumes is called with images.
// error: volumes_are_not_of_rank_5
// error: conv3d: needs a node \[batch, depth, height, width, channels\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 4>>(g);     // wrong
auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 8, 4>>(g);  // right
auto y = nn::conv3d<3, 8>()(x);

// case dropout_mode: The mode is missing.
// error: mode_is_missing
// error: dropout: needs a mode
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
auto y = nn::dropout{.rate = 0.1}(x);                      // wrong
auto y = nn::dropout{.rate = 0.1}(x, nn::mode::training);  // right

// case embedding_bag_weights: The mean of a bag has no weights.
// error: weights_do_not_fit_bag
// error: embedding_bag: only a bag::sum takes weights
graph g;
auto ids = placeholder<std::int32_t, dims<dyn<"batch">, 4>>(g);
auto weights = placeholder<float, dims<dyn<"batch">, 4>>(g);
auto y = nn::embedding_bag<100, 8>()(ids, weights);                // wrong
auto y = nn::embedding_bag<100, 8, nn::bag::sum>()(ids, weights);  // right

// case embedding_padding_index: The padding index is not a row of the table.
// error: padding_index_out_of_range<100, 100>
// error: the padding index must be a row of the table
nn::embedding<100, 8, float, 100> words;  // wrong
nn::embedding<100, 8, float, 99> words;   // right

// case gru_initial_state: The initial state has another number of units than the layer.
// error: initial_state_does_not_fit
// error: 16>
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
auto wide = placeholder<float, dims<dyn<"batch">, 16>>(g, "wide");
auto fits = placeholder<float, dims<dyn<"batch">, 8>>(g, "fits");
const nn::gru<8> layer;
auto [states, h] = layer(x, nn::initial_state(wide));  // wrong
auto [states, h] = layer(x, nn::initial_state(fits));  // right

// case gru_projection: A gru has no projection.
// error: projection_does_not_fit
// error: gru: needs a node \[batch, time, features\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
const nn::gru<8, nn::recurrent_options{.projection = 4}> layer;   // wrong
const nn::lstm<8, nn::recurrent_options{.projection = 4}> layer;  // right
auto states = layer(x).states;

// case lstm_projection: The projection is not smaller than the number of units.
// error: projection_does_not_fit
// error: smaller than the units
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
const nn::lstm<8, nn::recurrent_options{.projection = 8}> layer;  // wrong
const nn::lstm<8, nn::recurrent_options{.projection = 7}> layer;  // right
auto states = layer(x).states;

// case layer_arguments: The features are a constructor argument, as in Keras.
// error: extents_are_template_arguments
// error: nn::dense<10> layer\{\.activation = nn::relu\}
nn::dense layer(10, nn::relu);                // wrong
nn::dense<10> layer{.activation = nn::relu};  // right

// case layer_arguments_conv2d: The sizes of conv2d are constructor arguments.
// error: extents_are_template_arguments
// error: its sizes are template arguments: nn::
nn::conv2d layer(5, 32);  // wrong
nn::conv2d<5, 32> layer;  // right
const auto copy(layer);

// case layer_arguments_embedding: The sizes of embedding are constructor arguments.
// error: extents_are_template_arguments
// error: its sizes are template arguments: nn::
nn::embedding layer(1000, 64);  // wrong
nn::embedding<1000, 64> layer;  // right
const auto copy(layer);

// case layer_arguments_lstm: The units of lstm are a constructor argument.
// error: extents_are_template_arguments
// error: its sizes are template arguments: nn::
nn::lstm layer(128);  // wrong
nn::lstm<128> layer;  // right
const auto copy(layer);

// case layer_bfloat16: The element type is bfloat16.
// error: not_floating
// error: dense: needs a node .* float or double
graph g;
auto x = placeholder<bfloat16, dims<dyn<"batch">, 4>>(g);        // wrong
auto y = nn::dense<10, 4, bfloat16>{.activation = nn::relu}(x);  // wrong
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);           // right
auto y = nn::dense<10, 4>{.activation = nn::relu}(x);            // right

// case layer_channels_first: The images have their channels first, as in PyTorch.
// error: conv2d_channels_differ|features_differ
// error: conv2d: needs a node \[batch, height, width, channels\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 3, 32, 32>>(g);  // wrong
auto x = placeholder<float, dims<dyn<"batch">, 32, 32, 3>>(g);  // right
auto y = nn::conv2d<5, 32, conv2d_options{}, 3>()(x);

// case layer_depthwise: The depthwise layer names other channels than the operand has.
// error: features_differ
// error: depthwise_conv2d: needs a node \[batch, height, width, channels\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 6>>(g);   // wrong
auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 12>>(g);  // right
nn::depthwise_conv2d<3, 1, conv2d_options{.stride = 2}, 12>()(x);

// case layer_features: The layer names other features than the operand has.
// error: features_differ
// error: dense: needs a node
// error: 784
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 100>>(g);  // wrong
auto x = placeholder<float, dims<dyn<"batch">, 784>>(g);  // right
auto y = nn::dense<10, 784>()(x);

// case layer_groups: The groups do not divide the channels of the images.
// error: conv2d_groups_do_not_fit
// error: grouped_conv2d: needs a node \[batch, height, width, channels\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 6>>(g);   // wrong
auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 12>>(g);  // right
nn::grouped_conv2d<3, 16, 4>()(x);

// case layer_images: The operand has rows of pixels instead of images.
// error: images_are_not_of_rank_4
// error: conv2d: needs a node \[batch, height, width, channels\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 784>>(g);        // wrong
auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g);  // right
auto y = nn::conv2d<5, 32>()(x);

// case layer_init_number: The initializer is a number.
// error: value_is_not_an_initializer<float>
// error: need an initializer, such as init::constant\{0\.5\}
nn::dense<10> d{.weights_init = 0.5f};                 // wrong
nn::dense<10> d{.weights_init = init::constant{0.5}};  // right

// case layer_norm_groups: The groups of group_norm do not divide the channels.
// error: groups_do_not_divide_channels
// error: groups that divide the channels
graph g;
const auto x = placeholder<float, dims<4, 8, 8, 6>>(g, "x");
const nn::group_norm<4> norm;  // wrong
const nn::group_norm<3> norm;  // right
const auto y = norm(x);

// case layer_of_tensor: The operand is a tensor outside of a graph.
// error: value_not_in_a_graph
// error: dense: needs a node
graph g;
tensor<float, dims<3, 784>> x;
auto y = nn::dense<10>()(x);               // wrong
auto y = nn::dense<10>()(constant(g, x));  // right

// case lstm_lengths: The lengths of the sequences are floats.
// error: lengths_do_not_fit
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
auto n = placeholder<float, dims<dyn<"batch">>>(g, "n");         // wrong
auto n = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "n");  // right
const nn::lstm<8> layer;
auto [states, h, c] = layer(x, nn::lengths(n));

// case lstm_one_state: The cell state is missing from the initial state.
// error: initial_states_differ_in_number<1, 2>
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
auto first = placeholder<float, dims<dyn<"batch">, 8>>(g, "first");
const nn::lstm<8> layer;
auto [states, h, c] = layer(x, nn::initial_state(first));         // wrong
auto [states, h, c] = layer(x, nn::initial_state(first, first));  // right

// case lstm_rank: The operand has no axis of steps.
// error: operand_is_not_a_sequence
// error: 784
graph g;
auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
const nn::lstm<8> layer;
auto [states, h, c] = layer(images);                                       // wrong
auto [states, h, c] = layer(reshape<dims<dyn<"batch">, 28, 28>>(images));  // right

// case positions_of_numbers: The positions are not integers.
// error: positions_are_not_integers
// error: positional_embedding: needs a node \[..., steps, features\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 8>>(g, "x");
auto at = placeholder<float, dims<5>>(g, "at");         // wrong
auto at = placeholder<std::int32_t, dims<5>>(g, "at");  // right
auto y = nn::positional_embedding<10>()(x, at);

// case prelu_slopes: The number of slopes is not that of the channels.
// error: slopes_differ_from_channels
// error: prelu: needs a node of the layer's element type
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 8>>(g);
auto y = nn::prelu<4>()(x);  // wrong
auto y = nn::prelu<8>()(x);  // right

// case spatial_dropout_mode: The mode is missing.
// error: mode_is_missing
// error: spatial_dropout: needs a mode
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 8, 4>>(g);
auto y = nn::spatial_dropout()(x);                      // wrong
auto y = nn::spatial_dropout()(x, nn::mode::training);  // right

// case spectral_norm_mode: The mode is missing.
// error: mode_is_missing
// error: spectral_norm: needs a mode
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 8>>(g);
auto y = nn::spectral_norm<nn::dense<4>>()(x);                       // wrong
auto y = nn::spectral_norm<nn::dense<4>>()(x, nn::mode::inference);  // right

// case stacked_states: Two stacked layers take one initial state.
// error: initial_states_differ_in_number<1, 2>
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
auto first = placeholder<float, dims<dyn<"batch">, 8>>(g, "first");
const nn::stacked<nn::gru<8>, 2> layers;
auto states = layers(x, nn::initial_state(first)).states;         // wrong
auto states = layers(x, nn::initial_state(first, first)).states;  // right

// case transformer_heads: The number of heads does not divide the features.
// error: heads_do_not_divide_the_features
// error: transformer_encoder_layer: needs a node \[batch, steps, features\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 20>>(g, "x");
const nn::transformer_encoder_layer<8, 16> layer;  // wrong
const nn::transformer_encoder_layer<4, 16> layer;  // right
auto y = layer(x);

// case transformer_memory: A decoder has no memory.
// error: decoder\(x, memory, nn::mode::training\)
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 16>>(g, "x");
const nn::transformer_decoder_layer<4, 16> decoder;
auto y = decoder(x, nn::mode::training);     // wrong
auto y = decoder(x, x, nn::mode::training);  // right

// case transformer_memory_lengths: The lengths of the memory are those of other texts.
// error: lengths_do_not_fit
// error: arguments about the memory are in nn::of_memory
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 5, 16>>(g, "x");
auto n = placeholder<std::int32_t, dims<3>>(g, "n");             // wrong
auto n = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "n");  // right
const nn::transformer_decoder_layer<4, 16> decoder;
auto y = decoder(x, x, nn::of_memory(nn::lengths(n)));

// case weight_norm_layer: The layer has no weights to normalize.
// error: layer_has_no_weights_to_normalize
// error: weight_norm: needs a layer with weights
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 8>>(g);
auto y = nn::weight_norm<nn::layer_norm<>>()(x);  // wrong
auto y = nn::weight_norm<nn::dense<4>>()(x);      // right
