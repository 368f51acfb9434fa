// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>

namespace weft::data {

/// A column of a file, by its name in the header or its number from 0.
struct csv_column {
  std::string name;
  std::optional<std::size_t> number;
  /// The value for a missing field; without it, a missing number is an error and a missing text is empty.
  std::optional<std::string> missing;

  csv_column(const char* column, std::optional<std::string> value = {}) : name(column), missing(std::move(value)) {}
  csv_column(std::string column, std::optional<std::string> value = {})
      : name(std::move(column)), missing(std::move(value)) {}
  csv_column(int column, std::optional<std::string> value = {})
      : number(static_cast<std::size_t>(column)), missing(std::move(value)) {}
};

/// Options of csv.
struct csv_options {
  /// The columns to read, in the order of the features. Empty: all columns of the file, which must match the features.
  std::vector<csv_column> columns = {};
  /// True if the first row contains the columns' names.
  bool header = true;
  char separator = ',';
  char quote = '"';
  /// Texts that mark a missing value, in addition to the empty field.
  std::vector<std::string> missing_values = {};
  /// The value for missing fields in columns without a value of their own.
  std::optional<std::string> missing = {};
  /// The maximum length of a row; it detects quotes that are not closed.
  std::size_t max_row_bytes = std::size_t{1} << 24;
};

namespace detail {

/// The columns that a feature reads.
struct csv_target {
  bool text = false;
  dtype type = dtype::float32;
  shape extents;
  std::size_t columns = 1;
};

}  // namespace detail

}  // namespace weft::data
