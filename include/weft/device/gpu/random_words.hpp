// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/random_words.hpp>

/// Arrays of random numbers on a GPU. Each thread generates a block of words; the threads of a warp write adjacent
/// elements.
#if WEFT_COMPILES_FOR_GPU
namespace weft::gpu {

/// `Factory` creates a function object that is called with an element's words and, if x is given, its element of x. The
/// kernel reads the step's position when it runs.
template <class T, class Factory, class X = void>
struct draw_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  weft::device::random_source from;  ///< without the position
  const std::uint64_t* position;
  const X* x;
  T* y;
  std::uint32_t elements;
  Factory factory;

  static std::size_t blocks_for(std::size_t elements) {
    constexpr std::size_t size = weft::device::elements_in_group<Factory::words>;
    const std::size_t n = ((elements + size - 1) / size * weft::device::blocks_in_group + threads - 1) / threads;
    constexpr std::size_t max_blocks = 16384;
    return n < max_blocks ? n : max_blocks;
  }

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    constexpr std::uint32_t size = weft::device::elements_in_group<Factory::words>;
    constexpr std::uint32_t lanes = weft::device::blocks_in_group;
    const auto element = factory.make();
    const std::uint64_t here = *position;
    const std::uint32_t groups = (elements + size - 1) / size;
    for (std::uint32_t b = at.block * threads + at.thread; b < groups * lanes; b += at.blocks * threads) {
      const philox words(from.key, here, b);
      for (std::uint32_t r = 0; r < size / lanes; ++r) {
        const std::uint32_t i = b / lanes * size + r * lanes + b % lanes;
        if (i >= elements) break;
        if constexpr (std::is_void_v<X>)
          y[i] = element(words.word + r * Factory::words);
        else
          y[i] = element(words.word + r * Factory::words, x[i]);
      }
    }
  }
};

/// Adds one launch of a draw.
template <class Body>
launch_kernel::launch& add_draw(launch_kernel& k, const Body& b, const function& code, std::uint32_t position_slot,
                                std::uint32_t slot) {
  auto& l = add_body(k, b, code, Body::blocks_for(b.elements));
  l.point(offset_in(b, b.position), position_slot);
  l.point(offset_in(b, b.y), slot);
  return l;
}

}  // namespace weft::gpu
#endif
