// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/axis_rows.hpp>
#include <weft/device/sort.hpp>

/// Sorts along an axis, and gathers and scatters of sorted elements. All sorts are stable: of equal elements, the one
/// with the lower index comes first.
namespace weft::device {

template <class Key>
struct sort_entry {
  Key key;
  std::uint32_t index;
};

/// The largest number of elements sorted by insertion; larger sorts use a radix sort.
inline constexpr std::size_t max_inserted = 64;

/// Finds the `first` entries in order among the `n` elements of a row, which are `stride` apart. Inserts each element
/// into the best entries found so far, if it is among them.
template <class T>
void sort_by_insertion(const T* x, std::size_t n, std::size_t stride, direction d, std::size_t first,
                       sort_entry<sort_key<T>>* best) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const sort_key<T> key = key_of(x[i * stride], d);
    if (count == first && !(key < best[first - 1].key)) continue;
    std::size_t at = count < first ? count++ : first - 1;
    for (; at > 0 && key < best[at - 1].key; --at) best[at] = best[at - 1];
    best[at] = {key, static_cast<std::uint32_t>(i)};
  }
}

/// Returns an upper bound of the `first` smallest keys of a row. The bound is exact in its two highest bytes, so that
/// few other keys are below it.
template <class T>
sort_key<T> largest_of_first(const T* x, std::size_t n, std::size_t stride, direction d, std::size_t first) {
  std::uint64_t found = 0;
  unsigned shift = 8 * sizeof(T);
  for (int level = 0; level < 2 && shift > 0; ++level) {
    std::size_t count[256] = {}, digit = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t key = std::uint64_t{key_of(x[i * stride], d)} >> (shift - 8);
      count[key & 0xff] += key >> 8 == found;
    }
    while (count[digit] < first) first -= count[digit++];
    found = found << 8 | digit;
    shift -= 8;
  }
  return static_cast<sort_key<T>>((found << shift) | ((std::uint64_t{1} << shift) - 1));
}

/// Finds the `first` entries in order by radix; `scratch` holds 2 * n entries. Returns the half of `scratch` with the
/// result. Proceeds from the lowest byte to the highest, skipping bytes that all keys share.
template <class T>
sort_entry<sort_key<T>>* sort_by_digits(const T* x, std::size_t n, std::size_t stride, direction d, std::size_t first,
                                        sort_entry<sort_key<T>>* scratch) {
  using key = sort_key<T>;
  sort_entry<key>*from = scratch, *to = scratch + n;
  if (first < n / 2) {
    const key last = largest_of_first(x, n, stride, d, first);
    std::size_t among = 0;
    for (std::size_t i = 0; i < n; ++i) {
      from[among] = {key_of(x[i * stride], d), static_cast<std::uint32_t>(i)};
      among += from[among].key <= last;
    }
    n = among;
  } else {
    for (std::size_t i = 0; i < n; ++i) from[i] = {key_of(x[i * stride], d), static_cast<std::uint32_t>(i)};
  }
  for (unsigned shift = 0; shift < 8 * sizeof(key); shift += 8) {
    const auto digit = [&](const sort_entry<key>& e) { return static_cast<std::size_t>(e.key >> shift) & 0xff; };
    std::size_t begin[256] = {};
    for (std::size_t i = 0; i < n; ++i) ++begin[digit(from[i])];
    if (begin[digit(from[0])] == n) continue;
    std::size_t sum = 0;
    for (std::size_t& b : begin) {
      const std::size_t count = b;
      b = sum;
      sum += count;
    }
    for (std::size_t i = 0; i < n; ++i) to[begin[digit(from[i])]++] = from[i];
    sort_entry<key>* const sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

/// Returns the number of scratch entries that a thread needs.
inline std::size_t sort_scratch(std::size_t extent, std::size_t first) {
  return first <= max_inserted ? max_inserted : 2 * extent;
}

/// Computes the `first` elements in order of rows [begin, end), and their indices in the row.
template <class T>
void sort_rows(const axis_rows& s, std::size_t first, direction d, const T* x, T* values, std::int32_t* indices,
               sort_entry<sort_key<T>>* scratch, std::size_t begin, std::size_t end) {
  if (first == 0) return;
  for (std::size_t row = begin; row < end; ++row) {
    const std::size_t outer = row / s.inner, i = row % s.inner;
    const T* const from = x + outer * s.extent * s.inner + i;
    const sort_entry<sort_key<T>>* sorted = scratch;
    if (first <= max_inserted)
      sort_by_insertion(from, s.extent, s.inner, d, first, scratch);
    else
      sorted = sort_by_digits(from, s.extent, s.inner, d, first, scratch);
    std::size_t to = outer * first * s.inner + i;
    for (std::size_t k = 0; k < first; ++k, to += s.inner) {
      values[to] = from[sorted[k].index * s.inner];
      indices[to] = static_cast<std::int32_t>(sorted[k].index);
    }
  }
}

/// y[.., j, ..] = x[.., indices[.., j, ..], ..] for groups [begin, end) of rows; `s` describes the rows of x, and rows
/// of y have `count` elements.
template <class T>
void gather_along(const axis_rows& s, std::size_t count, const T* x, const std::int32_t* indices, T* y,
                  std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const axis_rows::group g = s.group_at(i);
    const T* const from = x + s.start(g);
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t at = (g.outer * count + j) * s.inner + g.first;
      for (std::size_t c = 0; c < g.width; ++c)
        y[at + c] = from[static_cast<std::size_t>(indices[at + c]) * s.inner + c];
    }
  }
}

/// The transpose: y[.., indices[.., j, ..], ..] = x[.., j, ..], and 0 elsewhere. No index occurs twice in a row. `s`
/// describes the rows of y.
template <class T>
void scatter_along(const axis_rows& s, std::size_t count, const T* x, const std::int32_t* indices, T* y,
                   std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const axis_rows::group g = s.group_at(i);
    T* const to = y + s.start(g);
    for (std::size_t k = 0; k < s.extent; ++k)
      for (std::size_t c = 0; c < g.width; ++c) to[k * s.inner + c] = T{};
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t at = (g.outer * count + j) * s.inner + g.first;
      for (std::size_t c = 0; c < g.width; ++c) to[static_cast<std::size_t>(indices[at + c]) * s.inner + c] = x[at + c];
    }
  }
}

}  // namespace weft::device
