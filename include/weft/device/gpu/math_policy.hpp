// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/image_layout.hpp>

namespace weft::gpu {

/// The layout of images in GPU kernels: the one that the planner expects to be faster, or always the same one.
enum class layout_policy : unsigned char { automatic, channels_last, channels_first };

/// Options by which GPU libraries trade accuracy or reproducibility for speed. Read when a step is prepared. By
/// default, arithmetic matches the CPU's, and every run yields the same bits.
struct math_policy {
  /// Allows products and convolutions of float to round their operands to TF32, with 10 bits of mantissa: several times
  /// faster on cards that support it, accurate to about three decimal digits.
  bool allow_tf32 = false;
  /// Allows cuBLASLt and cuDNN to fuse ReLU into products and convolutions. They map NaN to 0, which hides that a model
  /// has diverged.
  bool fuse_relu = false;
  /// Times the most promising algorithms of each product and convolution when it is prepared, and uses the fastest. The
  /// choice, and with it the last bits of the results, may differ between processes.
  bool tune = false;
  /// Channels first changes the order of sums, and with it the last bits.
  layout_policy layouts = layout_policy::automatic;
  /// The maximum workspace of one product. A queue holds the largest workspace of its products.
  std::size_t workspace_bytes = std::size_t{32} << 20;
  /// The memory of attention's scores: slices of the queries are computed one after the other.
  std::size_t attention_bytes = std::size_t{64} << 20;
  /// The maximum workspace of one convolution, whose fast algorithms need more; limited to half of the memory that its
  /// session may still allocate when the step is prepared.
  std::size_t convolution_workspace_bytes = std::size_t{1} << 30;
};

/// The policy of this process.
inline WEFT_API math_policy math{};

}  // namespace weft::gpu
