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

/// A column of a file, by its name in the header or by its number from 0 on.
struct csv_column {
  std::string name;
  std::optional<std::size_t> number;
  /// The value that is read where the field is missing; without it a missing number is an error, a missing text empty.
  std::optional<std::string> missing;

  csv_column(const char* column, std::optional<std::string> value = {}) : name(column), missing(std::move(value)) {}
  csv_column(std::string column, std::optional<std::string> value = {})
      : name(std::move(column)), missing(std::move(value)) {}
  csv_column(int column, std::optional<std::string> value = {})
      : number(static_cast<std::size_t>(column)), missing(std::move(value)) {}
};

/// Options of csv.
struct csv_options {
  /// Those that are read, in the order of the features; none: all of the file, which then has as many.
  std::vector<csv_column> columns = {};
  /// Whether the first row has the columns' names.
  bool header = true;
  char separator = ',';
  char quote = '"';
  /// The texts that say, beside an empty field, that a value is missing.
  std::vector<std::string> missing_values = {};
  /// The value for a missing field in a column that says none itself.
  std::optional<std::string> missing = {};
  /// A longer row is an error: one with a quote that nothing closes.
  std::size_t max_row_bytes = std::size_t{1} << 24;
};

namespace detail {

/// The part of a row that a feature takes.
struct csv_target {
  bool text = false;
  dtype type = dtype::float32;
  shape extents;
  std::size_t columns = 1;
};

}  // namespace detail

}  // namespace weft::data
