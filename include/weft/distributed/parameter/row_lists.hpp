// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>

/// Rows of variables in messages between a worker and a parameter server: gradients in requests, changed values in
/// answers. A payload consists of the whole variables one after another and, from the next multiple of 8 bytes on, of a
/// list for each variable that travels by rows: the number of rows (8 bytes), their ascending indices (8 bytes each),
/// and the rows.
namespace weft::detail {

/// A view of the rows of one variable.
struct row_list {
  const std::byte* numbers = nullptr;
  std::size_t count = 0;
  const std::byte* rows = nullptr;

  /// Returns the index of the k-th row. Indices in a message may be unaligned.
  std::size_t number(std::size_t k) const {
    std::int64_t n;
    std::memcpy(&n, numbers + k * sizeof n, sizeof n);
    return static_cast<std::size_t>(n);
  }
};

inline constexpr std::size_t rows_begin(std::size_t bytes_before) { return (bytes_before + 7) / 8 * 8; }

/// Minimum and maximum size of the row lists of these variables' gradients, in bytes.
inline std::uint64_t min_row_bytes(std::span<const parameter_spec> variables, std::span<const std::size_t> order) {
  std::uint64_t bytes = 0;
  for (const std::size_t i : order) bytes += variables[i].has_rows() ? 8u : 0u;
  return bytes;
}
inline std::uint64_t max_row_bytes(std::span<const parameter_spec> variables, std::span<const std::size_t> order) {
  std::uint64_t bytes = 0;
  for (const std::size_t i : order)
    if (variables[i].has_rows())
      bytes += 8 + (variables[i].has_gradients() ? variables[i].rows() * (8 + variables[i].row_bytes()) : 0);
  return bytes;
}

/// Reads indices and rows that together fill `bytes`. `what` is the variable. Throws weft::error (invalid_argument)
/// unless the indices ascend and are in range.
inline row_list read_row_list(const_bytes bytes, const parameter_spec& what) {
  const std::size_t each = 8 + what.row_bytes();
  const auto refuse = [&](std::initializer_list<piece> why) {
    throw error(error_code::invalid_argument, "rows", {"the rows of '", what.name, "' ", str_cat(why)});
  };
  if (bytes.size() % each != 0)
    refuse({"take ", each, " bytes each; ", bytes.size(), " bytes are not a whole number of them"});
  const row_list list{bytes.data(), bytes.size() / each, bytes.data() + bytes.size() / each * 8};
  if (list.count > what.rows()) refuse({"are too many: ", list.count, ", but the variable has ", what.rows()});
  for (std::size_t k = 0; k < list.count; ++k) {
    const std::size_t number = list.number(k);
    if (number >= what.rows())
      refuse({"have the index ", static_cast<std::int64_t>(number), ", which is not in [0, ", what.rows(), ")"});
    if (k > 0 && number <= list.number(k - 1))
      refuse({"have the index ", number, " after ", list.number(k - 1), "; indices must ascend without duplicates"});
  }
  return list;
}

/// Reads the row lists in a peer's message: one per variable of `order`, empty for whole variables. Throws as
/// read_row_list does, and if `bytes` is too short or too long.
inline void read_row_lists(const_bytes bytes, std::span<const parameter_spec> variables,
                           std::span<const std::size_t> order, std::vector<row_list>& lists) {
  lists.assign(order.size(), {});
  for (std::size_t k = 0; k < order.size(); ++k) {
    const parameter_spec& what = variables[order[k]];
    if (!what.has_rows()) continue;
    std::uint64_t count = 0;
    if (bytes.size() < sizeof count)
      throw error(error_code::invalid_argument, "rows", {"the message ends before the rows of '", what.name, "'"});
    std::memcpy(&count, bytes.data(), sizeof count);
    bytes = bytes.subspan(sizeof count);
    const std::size_t each = 8 + what.row_bytes();
    if (count > bytes.size() / each)
      throw error(
          error_code::invalid_argument, "rows",
          {"the message announces ", count, " rows of '", what.name, "', but has bytes for ", bytes.size() / each});
    const std::size_t size = count * each;
    lists[k] = read_row_list(bytes.first(size), what);
    bytes = bytes.subspan(size);
  }
  if (!bytes.empty())
    throw error(error_code::invalid_argument, "rows",
                {"the message ends with the rows of the last variable; ", bytes.size(), " bytes follow them"});
}

}  // namespace weft::detail
