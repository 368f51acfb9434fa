#pragma once

#include <cstddef>

#include <weft/device/image_layout.hpp>

namespace weft::gpu {

/// In which layout kernels have images on a GPU: in what the planner expects to be the faster one, or always in one.
enum class layout_policy : unsigned char { automatic, channels_last, channels_first };

/// The liberties that the libraries may take for speed. Read when a step is prepared; the default is the CPU's
/// arithmetic, and the same bits in every run.
struct math_policy {
  /// Products and convolutions of floats may round their operands to TF32, to 10 bits of mantissa: several times faster
  /// on the cards that have it, exact to about three decimal digits.
  bool allow_tf32 = false;
  /// Products and convolutions may apply ReLU in their own kernel, by cuBLASLt and cuDNN, which make 0 of what is no
  /// number: a model that has diverged looks sound then.
  bool fuse_relu = false;
  /// Times the most promising algorithms of each product and convolution when it is prepared, and takes the fastest.
  /// Which one that is, and with it the last bits of the results, may change from one process to the next.
  bool tune = false;
  /// Channels first changes the order in which sums are taken, and with it last bits.
  layout_policy layouts = layout_policy::automatic;
  /// Memory that one product may use beside its operands. A queue has what the product needs of it that needs most.
  std::size_t workspace_bytes = std::size_t{32} << 20;
  /// The same of one convolution, whose fast algorithms want more; never more than half of what its session may still
  /// hold when the step is prepared.
  std::size_t convolution_workspace_bytes = std::size_t{1} << 30;
};

/// The policy of this process.
inline WEFT_API math_policy math{};

}  // namespace weft::gpu
