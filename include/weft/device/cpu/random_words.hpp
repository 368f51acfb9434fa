// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/random_words.hpp>

// clang cannot vectorise loops that call libm, and warns about them where they are inlined.
#if defined(__clang__)
  #pragma clang diagnostic push
  #pragma clang diagnostic ignored "-Wpass-failed"
#endif

namespace weft::device {

/// Draws the words of a group of blocks, starting at block `first`, a multiple of 32. Like philox, but the lanes of a
/// vector have separate counters.
WEFT_INLINE void draw_group(const random_source& from, std::uint64_t first, std::uint32_t (&word)[4][blocks_in_group]) {
  for (std::uint32_t k = 0; k < blocks_in_group; ++k) {
    word[0][k] = static_cast<std::uint32_t>(first) + k;
    word[1][k] = static_cast<std::uint32_t>(first >> 32);
    word[2][k] = static_cast<std::uint32_t>(from.position);
    word[3][k] = static_cast<std::uint32_t>(from.position >> 32);
  }
  auto k0 = static_cast<std::uint32_t>(from.key), k1 = static_cast<std::uint32_t>(from.key >> 32);
  for (int round = 0; round < 10; ++round) {
    WEFT_VECTORIZE
    for (std::size_t k = 0; k < blocks_in_group; ++k) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * word[0][k], b = std::uint64_t{0xCD9E8D57u} * word[2][k];
      word[0][k] = static_cast<std::uint32_t>(b >> 32) ^ word[1][k] ^ k0;
      word[1][k] = static_cast<std::uint32_t>(b);
      word[2][k] = static_cast<std::uint32_t>(a >> 32) ^ word[3][k] ^ k1;
      word[3][k] = static_cast<std::uint32_t>(a);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/// Computes groups [begin, end) of an array of n elements. `Element` is called with an element's words and, if x is
/// given, its element of x. y may equal x.
template <class T, class Element, class... X>
struct drawn_groups {
  random_source from;
  Element element;
  T* y;
  std::size_t n, begin, end;

  WEFT_INLINE void run(const X*... x) const {
    constexpr std::size_t runs = 4 / Element::words, size = elements_in_group<Element::words>;
    std::uint32_t word[4][blocks_in_group];
    for (std::size_t g = begin; g < end; ++g) {
      draw_group(from, g * blocks_in_group, word);
      const std::size_t first = g * size;
      for (std::size_t r = 0; r < runs; ++r) {
        const std::size_t at = first + r * blocks_in_group;
        if (at + blocks_in_group <= n) {
          WEFT_VECTORIZE
          for (std::size_t k = 0; k < blocks_in_group; ++k) put(word, r, k, at + k, x...);
        } else {
          for (std::size_t k = 0; at + k < n; ++k) put(word, r, k, at + k, x...);
        }
      }
    }
  }

 private:
  WEFT_INLINE void put(const std::uint32_t (&word)[4][blocks_in_group], std::size_t r, std::size_t k, std::size_t at,
                       const X*... x) const {
    if constexpr (Element::words == 2) {
      const std::uint32_t both[] = {word[2 * r][k], word[2 * r + 1][k]};
      y[at] = element(both, x[at]...);
    } else if constexpr (Element::words == 4) {
      const std::uint32_t all[] = {word[0][k], word[1][k], word[2][k], word[3][k]};
      y[at] = element(all, x[at]...);
    } else {
      y[at] = element(&word[r][k], x[at]...);
    }
  }
};

/// Draws an array of n elements, y[i] = element(words of i, x[i]...), on all threads.
template <class T, class Element, class... X>
void draw(const kernel_context& f, random_source from, const Element& element, std::size_t n, T* y, const X*... x) {
  constexpr std::size_t size = elements_in_group<Element::words>;
  const chunks all((n + size - 1) / size, n);
  all.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
    const drawn_groups<T, Element, X...> part{from, element, y, n, begin, end};
    multiversioned([&] { part.run(x...); });
  });
}

}  // namespace weft::device

#if defined(__clang__)
  #pragma clang diagnostic pop
#endif
