// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/data/element.hpp>
#include <weft/data/stage.hpp>
#include <weft/error.hpp>
#include <weft/tensor/tensor.hpp>

/// Columns of a table in memory: rows of tensors, vectors of numbers and texts, pixels.
namespace weft::data {

/// Bytes that are read as floats from 0 to 1, such as pixels. The first axis numbers the elements.
template <class Dims>
struct scaled_bytes {
  detail::intrusive_ptr<const detail::ref_counted> owner;
  const std::uint8_t* bytes;
  std::size_t rows;
};

namespace detail {

/// Returns the number of rows in the bytes. Throws invalid_argument if it is not an integer.
std::size_t scaled_rows(std::size_t bytes, const shape& row);
/// Returns the column of a tensor's rows, and sets `rows` to their number.
column column_of_rows(const shape& extents, const storage& bytes, std::size_t entry_bytes, std::size_t& rows);

/// Returns a column that owns the values of `from`, without extents.
template <class From>
column column_in(From from) {
  const auto* const owner = new owner_of<From>(std::move(from));
  column c;
  c.owner = intrusive_ptr<const ref_counted>(owner);
  c.data = reinterpret_cast<const std::byte*>(owner->value.data());
  return c;
}

WEFT_COLD_BEGIN
#if WEFT_DEFINITIONS

WEFT_DECL std::size_t scaled_rows(std::size_t bytes, const shape& row) {
  const std::size_t each = row.elements();
  if (each == 0 || bytes % each != 0)
    throw error(error_code::invalid_argument, "scaled",
                {bytes, " values are not a whole number of elements of extents ", to_string(row)});
  return bytes / each;
}

WEFT_DECL column column_of_rows(const shape& extents, const storage& bytes, std::size_t entry_bytes,
                                std::size_t& rows) {
  rows = static_cast<std::size_t>(extents[0]);
  column c = column_in(bytes);
  for (std::size_t axis = 1; axis < extents.rank; ++axis) c.extents.push_back(extents[axis]);
  c.row_bytes = c.extents.elements() * entry_bytes;
  return c;
}

#endif
WEFT_COLD_END

}  // namespace detail

/// Pixels for from_tensors, stored as bytes and read as floats divided by 255: `scaled<dims<784>>(bytes)`. Throws
/// invalid_argument unless the bytes are a whole number of rows.
template <class Dims>
scaled_bytes<Dims> scaled(std::vector<std::uint8_t> bytes) {
  static_assert(Dims::is_static, "scaled: the extents of an element must be fixed numbers: scaled<dims<784>>(bytes)");
  const std::size_t rows = detail::scaled_rows(bytes.size(), Dims::spec);
  const auto* const owner = new detail::owner_of(std::move(bytes));
  return {detail::intrusive_ptr<const detail::ref_counted>(owner), owner->value.data(), rows};
}

namespace detail {

template <class Source>
struct column_of;

template <class T, class Dims>
struct column_of<tensor<T, Dims>> {
  static_assert(Dims::rank > 0, "from_tensors: a tensor needs at least one axis, whose indices are the elements");
  using rest = typename row_dims<Dims>::type;
  using type = std::conditional_t<rest::rank == 0, T, tensor<T, rest>>;

  static column make(const tensor<T, Dims>& t, std::size_t& rows) {
    return column_of_rows(t.extents(), weft::detail::tensor_storage::of(t), sizeof(T), rows);
  }
};

template <Element T>
struct column_of<std::vector<T>> {
  using type = T;
  static column make(std::vector<T> numbers, std::size_t& rows) {
    rows = numbers.size();
    column c = column_in(std::move(numbers));
    c.row_bytes = sizeof(T);
    return c;
  }
};

template <>
struct column_of<std::vector<std::string>> {
  using type = std::string;
  static column make(std::vector<std::string> texts, std::size_t& rows) {
    rows = texts.size();
    const auto* const owner = new owner_of(std::move(texts));
    column c;
    c.owner = intrusive_ptr<const ref_counted>(owner);
    c.texts = owner->value.data();
    return c;
  }
};

template <class Dims>
struct column_of<scaled_bytes<Dims>> {
  using type = tensor<float, Dims>;
  static column make(const scaled_bytes<Dims>& s, std::size_t& rows) {
    rows = s.rows;
    column c;
    c.owner = s.owner;
    c.data = reinterpret_cast<const std::byte*>(s.bytes);
    c.extents = Dims::spec;
    c.row_bytes = Dims::spec.elements();
    c.scaled = true;
    return c;
  }
};

}  // namespace detail

}  // namespace weft::data
