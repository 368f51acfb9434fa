// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn.hpp>
#include <weft/weft.hpp>

/// Inception v3 (Szegedy et al., CVPR 2016) as torchvision has it, with its auxiliary classifier and its names of
/// layers. Average pools count the padding, as torchvision's do; TensorFlow's do not.
namespace imagenet {

using namespace weft;

inline constexpr conv2d_options unpadded{.pad = padding::valid}, halved{.stride = 2, .pad = padding::valid};

/// A convolution without a bias, batch normalization with epsilon 0.001, and ReLU.
template <int Filters, size2d Window, conv2d_options Options = conv2d_options{}>
struct conv_unit {
  nn::conv2d<Window, Filters, Options> conv{.use_bias = false, .weights_init = init::truncated_normal{.stddev = 0.1}};
  nn::batch_norm<> bn{.momentum = 0.9, .epsilon = 1e-3, .activation = nn::relu};

  auto operator()(const auto& x, nn::mode how) const { return bn(conv(x), how); }
};

inline constexpr size2d row_of_7{1, 7}, column_of_7{7, 1}, row_of_3{1, 3}, column_of_3{3, 1};

inline auto neighbourhood_mean(const auto& x) { return avg_pool2d<3, 1, padding::of(1), count_padding>(x); }

template <int PoolFilters>
struct inception_a {
  conv_unit<64, 1> branch1x1;
  conv_unit<48, 1> branch5x5_1;
  conv_unit<64, 5> branch5x5_2;
  conv_unit<64, 1> branch3x3dbl_1;
  conv_unit<96, 3> branch3x3dbl_2;
  conv_unit<96, 3> branch3x3dbl_3;
  conv_unit<PoolFilters, 1> branch_pool;

  auto operator()(const auto& x, nn::mode how) const {
    const auto five = branch5x5_2(branch5x5_1(x, how), how);
    const auto three = branch3x3dbl_3(branch3x3dbl_2(branch3x3dbl_1(x, how), how), how);
    return concat<3>(branch1x1(x, how), five, three, branch_pool(neighbourhood_mean(x), how));
  }
};

struct inception_b {
  conv_unit<384, 3, halved> branch3x3;
  conv_unit<64, 1> branch3x3dbl_1;
  conv_unit<96, 3> branch3x3dbl_2;
  conv_unit<96, 3, halved> branch3x3dbl_3;

  auto operator()(const auto& x, nn::mode how) const {
    const auto three = branch3x3dbl_3(branch3x3dbl_2(branch3x3dbl_1(x, how), how), how);
    return concat<3>(branch3x3(x, how), three, max_pool2d<3, 2>(x));
  }
};

template <int Filters>
struct inception_c {
  conv_unit<192, 1> branch1x1;
  conv_unit<Filters, 1> branch7x7_1;
  conv_unit<Filters, row_of_7> branch7x7_2;
  conv_unit<192, column_of_7> branch7x7_3;
  conv_unit<Filters, 1> branch7x7dbl_1;
  conv_unit<Filters, column_of_7> branch7x7dbl_2;
  conv_unit<Filters, row_of_7> branch7x7dbl_3;
  conv_unit<Filters, column_of_7> branch7x7dbl_4;
  conv_unit<192, row_of_7> branch7x7dbl_5;
  conv_unit<192, 1> branch_pool;

  auto operator()(const auto& x, nn::mode how) const {
    const auto seven = branch7x7_3(branch7x7_2(branch7x7_1(x, how), how), how);
    const auto twice = branch7x7dbl_3(branch7x7dbl_2(branch7x7dbl_1(x, how), how), how);
    return concat<3>(branch1x1(x, how), seven, branch7x7dbl_5(branch7x7dbl_4(twice, how), how),
                     branch_pool(neighbourhood_mean(x), how));
  }
};

struct inception_d {
  conv_unit<192, 1> branch3x3_1;
  conv_unit<320, 3, halved> branch3x3_2;
  conv_unit<192, 1> branch7x7x3_1;
  conv_unit<192, row_of_7> branch7x7x3_2;
  conv_unit<192, column_of_7> branch7x7x3_3;
  conv_unit<192, 3, halved> branch7x7x3_4;

  auto operator()(const auto& x, nn::mode how) const {
    const auto three = branch3x3_2(branch3x3_1(x, how), how);
    const auto seven = branch7x7x3_3(branch7x7x3_2(branch7x7x3_1(x, how), how), how);
    return concat<3>(three, branch7x7x3_4(seven, how), max_pool2d<3, 2>(x));
  }
};

struct inception_e {
  conv_unit<320, 1> branch1x1;
  conv_unit<384, 1> branch3x3_1;
  conv_unit<384, row_of_3> branch3x3_2a;
  conv_unit<384, column_of_3> branch3x3_2b;
  conv_unit<448, 1> branch3x3dbl_1;
  conv_unit<384, 3> branch3x3dbl_2;
  conv_unit<384, row_of_3> branch3x3dbl_3a;
  conv_unit<384, column_of_3> branch3x3dbl_3b;
  conv_unit<192, 1> branch_pool;

  auto operator()(const auto& x, nn::mode how) const {
    const auto three = branch3x3_1(x, how);
    const auto twice = branch3x3dbl_2(branch3x3dbl_1(x, how), how);
    return concat<3>(branch1x1(x, how), branch3x3_2a(three, how), branch3x3_2b(three, how), branch3x3dbl_3a(twice, how),
                     branch3x3dbl_3b(twice, how), branch_pool(neighbourhood_mean(x), how));
  }
};

template <int Classes>
struct auxiliary_classifier {
  conv_unit<128, 1> conv0;
  conv_unit<768, 5, unpadded> conv1{
      .conv = {.use_bias = false, .weights_init = init::truncated_normal{.stddev = 0.01}}};
  nn::dense<Classes> fc{.weights_init = init::truncated_normal{.stddev = 0.001}};

  auto operator()(const auto& x, nn::mode how) const {
    return fc(mean<1, 2>(conv1(conv0(avg_pool2d<5, 3>(x), how), how)));
  }
};

/// The logits, and those of the auxiliary classifier, which training alone computes.
template <class Logits>
struct inception_logits {
  Logits logits, auxiliary;
};

/// Images [batch, 299, 299, 3], logits [batch, Classes].
template <int Classes>
struct inception_v3 {
  conv_unit<32, 3, halved> Conv2d_1a_3x3;
  conv_unit<32, 3, unpadded> Conv2d_2a_3x3;
  conv_unit<64, 3> Conv2d_2b_3x3;
  conv_unit<80, 1> Conv2d_3b_1x1;
  conv_unit<192, 3, unpadded> Conv2d_4a_3x3;
  inception_a<32> Mixed_5b;
  inception_a<64> Mixed_5c;
  inception_a<64> Mixed_5d;
  inception_b Mixed_6a;
  inception_c<128> Mixed_6b;
  inception_c<160> Mixed_6c;
  inception_c<160> Mixed_6d;
  inception_c<192> Mixed_6e;
  auxiliary_classifier<Classes> AuxLogits;
  inception_d Mixed_7a;
  inception_e Mixed_7b;
  inception_e Mixed_7c;
  nn::dropout dropout;
  nn::dense<Classes> fc{.weights_init = init::truncated_normal{.stddev = 0.1}};

  auto operator()(const auto& images, nn::mode how) const {
    const auto stem = Conv2d_2b_3x3(Conv2d_2a_3x3(Conv2d_1a_3x3(images, how), how), how);
    const auto narrow = Conv2d_4a_3x3(Conv2d_3b_1x1(max_pool2d<3, 2>(stem), how), how);
    const auto a = Mixed_5d(Mixed_5c(Mixed_5b(max_pool2d<3, 2>(narrow), how), how), how);
    const auto b = Mixed_6e(Mixed_6d(Mixed_6c(Mixed_6b(Mixed_6a(a, how), how), how), how), how);
    const auto c = Mixed_7c(Mixed_7b(Mixed_7a(b, how), how), how);
    const auto auxiliary = AuxLogits(b, how);
    const auto logits = fc(dropout(mean<1, 2>(c), how));
    return inception_logits<std::remove_const_t<decltype(logits)>>{logits, auxiliary};
  }
};

}  // namespace imagenet
