// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <weft/data/csv_options.hpp>
#include <weft/data/dataset.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/mistake.hpp>

namespace weft::data {

/// A column must be read as a number or a text, or several consecutive ones as a tensor of static extents.
template <class... Features>
struct csv_features_are_not_valid;

/// Reads rows of comma-separated files (RFC 4180), each a tuple of `Features`: numbers, std::string, and tensors of
/// static extents, which read one column per element.
///
///     auto rows = data::csv<tensor<float, dims<4>>, std::int32_t>(
///         "iris.csv", {.columns = {"a", "b", "c", {"d", "0"}, "species"}});
///
/// Fields can be quoted, with doubled quotes and newlines inside; blank lines are skipped. Batches are parsed directly
/// into their tensors. Compressed files require zlib. Throws the errors of file_reader; not_found if the file lacks a
/// column; and invalid_argument, with the file, the line and the column, if a row has too few or too many fields, or a
/// field is missing or not a number of its type. Numbers are rounded to nearest.
template <class... Features>
dataset<Features...> csv(std::vector<std::string> paths, csv_options options = {});

template <class...>
auto csv(...) WEFT_DELETED;  // csv_options: columns, header, separator, quote, missing_values, missing, max_row_bytes
/// Reads the rows of one file.
template <class... Features>
dataset<Features...> csv(std::string path, csv_options options = {}) {
  return csv<Features...>(std::vector<std::string>{std::move(path)}, std::move(options));
}

namespace detail {

template <class F>
struct csv_feature {
  static constexpr bool supported = false;
};
template <Element T>
struct csv_feature<T> {
  static constexpr bool supported = true;
  static csv_target target() { return {false, dtype_of<T>, {}, 1}; }
};
template <class T, class Dims>
struct csv_feature<tensor<T, Dims>> {
  static constexpr bool supported = Dims::is_static;
  static csv_target target() { return {false, dtype_of<T>, Dims::spec, Dims::spec.elements()}; }
};
template <>
struct csv_feature<std::string> {
  static constexpr bool supported = true;
  static csv_target target() { return {true, dtype::uint8, {}, 1}; }
};

stage_ptr new_csv_stage(sequence<feature> features, std::vector<csv_target> targets, std::vector<std::string> paths,
                        csv_options options);

}  // namespace detail

template <class... Features>
struct csv_features_are_not_valid : mistake<!(detail::csv_feature<Features>::supported && ...)> {};

template <class... Features>
dataset<Features...> csv(std::vector<std::string> paths, csv_options options) {
  static_assert(correct<csv_features_are_not_valid<Features...>>,
                "csv: features must be numbers, std::string, or tensors with fixed extents");
  return dataset<Features...>(detail::new_csv_stage(
      dataset<Features...>::features(), std::vector<detail::csv_target>{detail::csv_feature<Features>::target()...},
      std::move(paths), std::move(options)));
}

}  // namespace weft::data

#if WEFT_DEFINITIONS
  #include <weft/data/csv_stream.hpp>
#endif
