#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/data/dataset.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
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

/// A column is read as a number or a text, columns one after the other as a tensor whose extents are numbers.
template <class... Features>
struct csv_features_are_not_valid;

/// The rows of files of comma-separated values (RFC 4180), each a tuple of `Features`: numbers, std::string, and
/// tensors of known extents, which take as many columns as they have elements.
///
///     auto rows = data::csv<tensor<float, dims<4>>, std::int32_t>(
///         "iris.csv", {.columns = {"a", "b", "c", {"d", "0"}, "species"}});
///
/// Fields may be quoted, quotes doubled, and newlines stand in quotes; lines that are blank are passed over. Batches
/// are parsed right into their tensors. Compressed files are read with zlib. Throws as file_reader does; not_found
/// where there is no such column; invalid_argument, with the file, the line and the column, where a row has too few or
/// too many fields, or a field is no number of its type, or missing. Numbers are rounded to the nearest.
template <class... Features>
dataset<Features...> csv(std::vector<std::string> paths, csv_options options = {});

template <class...>
auto csv(...) WEFT_DELETED;  // csv_options: columns, header, separator, quote, missing_values, missing, max_row_bytes
/// The rows of one file.
template <class... Features>
dataset<Features...> csv(std::string path, csv_options options = {}) {
  return csv<Features...>(std::vector<std::string>{std::move(path)}, std::move(options));
}

namespace detail {

/// The part of a row that a feature takes.
struct csv_target {
  bool text = false;
  dtype type = dtype::float32;
  shape extents;
  std::size_t columns = 1;
};

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
                "csv: columns are read as numbers, std::string, or tensors whose extents are numbers");
  return dataset<Features...>(detail::new_csv_stage(
      dataset<Features...>::features(), std::vector<detail::csv_target>{detail::csv_feature<Features>::target()...},
      std::move(paths), std::move(options)));
}

}  // namespace weft::data

#if WEFT_DEFINITIONS

  #include <algorithm>
  #include <bit>
  #include <charconv>
  #include <cmath>
  #include <cstring>
  #include <limits>
  #include <memory>
  #include <string_view>
  #include <system_error>
  #include <type_traits>

  #include <weft/data/text_buffer.hpp>

namespace weft::data::detail {

/// Takes up to eight digits, which are added behind those of `digits`; returns how many. Reads eight bytes.
WEFT_INLINE unsigned take_digits(const char* at, std::uint64_t& digits) {
  static_assert(std::endian::native == std::endian::little);
  static constexpr std::uint64_t powers[] = {1, 10, 100, 1000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  word ^= 0x3030303030303030u;  // digits are now 0 to 9
  const std::uint64_t others = (word | (word + 0x7676767676767676u)) & 0x8080808080808080u;
  if (others & 0x80u) return 0;
  const auto count = others ? static_cast<unsigned>(std::countr_zero(others)) / 8 : 8u;
  word <<= 8 * (8 - count);
  // Pairs, then fours, then all eight of them.
  word = word * 10 + (word >> 8);
  const std::uint64_t mask = 0x000000ff000000ffu;
  word = ((word & mask) * 0x000f424000000064u + ((word >> 16) & mask) * 0x0000271000000001u) >> 32;
  digits = digits * powers[count] + (word & 0xffffffffu);
  return count;
}
WEFT_INLINE const char* take_all_digits(const char* at, std::uint64_t& digits) {
  unsigned count = take_digits(at, digits);
  at += count;
  // Most numbers end here: outside of the loop the compiler keeps all in registers.
  if (count == 8) [[unlikely]]
    for (; count == 8; at += count) count = take_digits(at, digits);
  return at;
}

/// Parses a decimal number from its first character on. Returns what stands behind it, an exponent too, or null where
/// it is written in a way that std::from_chars must look at. Behind the text there are 8 bytes that can be read, the
/// first of them no part of a number.
template <class T>
WEFT_INLINE const char* parse_decimal(const char* at, T& to) {
  const bool negative = *at == '-';
  if (negative) ++at;
  std::uint64_t digits = 0;
  if constexpr (std::is_floating_point_v<T>) {
    const char* const first = at;
    while (static_cast<unsigned char>(*at - '0') < 10) digits = 10 * digits + static_cast<unsigned char>(*at++ - '0');
    std::ptrdiff_t count = at - first, behind = 0;
    if (*at == '.') {
      const char* const point = at + 1;
      at = take_all_digits(point, digits);
      behind = at - point;
      count += behind;
    }
    static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                        1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
    // All of up to 15 digits are exact in a double.
    if (static_cast<std::size_t>(count - 1) >= 15 && (count == 0 || count > 18 || digits > (std::uint64_t{1} << 53)))
      return nullptr;
    // Both numbers are exact in a double, hence their quotient is rounded once (Clinger 1990).
    const double value = static_cast<double>(digits) / powers[behind];
    if constexpr (std::is_same_v<T, float>) {
      // Rounded again, to a float, it is right unless it lies right between two.
      if ((std::bit_cast<std::uint64_t>(value) & 0x1fffffffu) == 0x10000000u) return nullptr;
    }
    to = static_cast<T>(negative ? -value : value);
  } else {
    const char* const first = at;
    at = take_all_digits(at, digits);
    if (at == first || at - first > 18) return nullptr;
    if (negative && std::is_unsigned_v<T> && digits > 0) return nullptr;
    if (digits > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return nullptr;
    to = static_cast<T>(negative ? 0 - digits : digits);
  }
  return at;
}

/// The types that are common enough for code of their own.
template <class T>
inline constexpr bool csv_has_fast_path = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                          std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>;

/// Whether a decimal number that no type can hold is too large, not too small.
inline bool is_too_large(std::string_view text) {
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, e);
  const std::size_t point = std::min(digits.find('.'), e), first = std::min(digits.find_first_of("123456789"), e);
  std::int64_t exponent = 0;
  std::string_view written = text.substr(std::min(e + 1, text.size()));
  if (written.starts_with('+')) written.remove_prefix(1);
  if (std::from_chars(written.data(), written.data() + written.size(), exponent).ec == std::errc::result_out_of_range)
    return written.front() != '-';
  return exponent > static_cast<std::int64_t>(first) - static_cast<std::int64_t>(point);
}

/// Parses all of a text as a number, spaces around it left out.
template <class T>
bool parse_number(std::string_view text, T& to) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  if constexpr (std::is_same_v<T, bool>) {
    for (const char* word : {"1", "true", "True", "TRUE"})
      if (text == word) return to = true, true;
    for (const char* word : {"0", "false", "False", "FALSE"})
      if (text == word) return to = false, true;
    return false;
  } else if constexpr (is_storage_type<T>) {
    double wide;
    if (!parse_number(text, wide)) return false;
    // Rounded twice, a number could end on the wrong side of a middle: the float on the way has an odd last digit
    // unless it is exact.
    float value = static_cast<float>(wide);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isfinite(value) && static_cast<double>(value) != wide && bits % 2 == 0)
      value = std::bit_cast<float>(std::abs(static_cast<double>(value)) < std::abs(wide) ? bits + 1 : bits - 1);
    to = T(value);
    return true;
  } else {
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), to);
    if (end != text.data() + text.size()) return false;
    if (problem == std::errc()) return true;
    if constexpr (std::is_floating_point_v<T>) {
      // Beyond the range numbers are infinite, or 0, as everywhere else.
      if (problem == std::errc::result_out_of_range) {
        using wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;
        wider value = std::numeric_limits<wider>::infinity();
        if constexpr (std::is_same_v<T, float>) {
          parse_number(text, value);
        } else if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
          if (!is_too_large(text)) value = 0;
          if (text.front() == '-') value = -value;
        }
        to = static_cast<T>(value);
        return true;
      }
    }
    return false;
  }
}

/// Reads rows of several files into memory.
class csv_stream final : public stream {
 public:
  csv_stream(const sequence<feature>& features, const std::vector<csv_target>& targets,
             const std::vector<std::string>& paths, const csv_options& options, stop_source* stop)
      : features_(features), targets_(targets), paths_(paths), options_(options), stop_(stop) {}

  bool next(element& to, const time_limit&) override {
    check_stop(stop_);
    if (!next_row()) return false;
    make_room(to, 0);
    parse_row(to, 0);
    return true;
  }

  optional_count next_batch(std::size_t most, element& batch) override {
    std::size_t count = 0;
    for (; count < most && next_row(); ++count) {
      if (count % 1024 == 0) check_stop(stop_);
      // A file may end long before a batch is full: the batch grows to twice the rows that it holds.
      if (count == 0)
        make_room(batch, room_ = std::min(room_, most));
      else if (count == room_)
        make_more_room(batch, room_ = std::min(2 * room_, most));
      parse_row(batch, count);
    }
    if (count == 0) return 0;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (targets_[i].text)
        batch[i].texts.resize(count);
      else
        batch[i].extents[0] = static_cast<std::int64_t>(count);
      if (targets_[i].text) batch[i].extents = shape(count);
    }
    return count;
  }

 private:
  /// How a column of the file is read, and where its values go.
  struct plan {
    std::size_t feature = 0, offset = 0;  ///< in entries of its row
    bool wanted = false;
    const csv_column* column = nullptr;
    std::size_t run = 1;  ///< so many columns from here on go one after the other into one tensor
  };

  /// Goes on to the next row, `row_`; false at the end of all files.
  bool next_row() {
    for (;;) {
      if (!text_) {
        if (file_ == paths_.size()) return false;
        text_ = std::make_unique<text_buffer>(paths_[file_], options_.max_row_bytes);
        plans_.clear();
        try {
          if (options_.header) read_header();
        } catch (...) {
          text_.reset();  // or another call would take the rows for those of the file before
          throw;
        }
      }
      if (next_line()) {
        if (plans_.empty()) plan_columns(count_fields(), {});
        return true;
      }
      text_.reset();
      ++file_;
    }
  }

  /// Goes on to the next row that is not blank: a line, or several where newlines stand in quotes.
  bool next_line() {
    while (text_->next(row_)) {
      if (std::memchr(row_.data(), options_.quote, row_.size())) {
        quoting state = quoting::none;
        for (std::size_t seen = 0; look_at_quotes(seen, state), state == quoting::open;)
          if (!text_->extend(row_)) fail(error_code::invalid_argument, "has a quote that is not closed");
      }
      // More than one where a file that had \r\n was written in text mode.
      while (row_.ends_with('\r')) row_.remove_suffix(1);
      if (!row_.empty()) return true;
    }
    return false;
  }

  /// Where a row stands in a field: in quotes, behind one that may have closed them, or in no quotes.
  enum class quoting { none, open, closed };

  /// Goes on to the row's end; what was seen is not looked at again.
  void look_at_quotes(std::size_t& seen, quoting& state) const {
    for (; seen < row_.size(); ++seen) {
      const bool is_quote = row_[seen] == options_.quote;
      if (state == quoting::open) {
        if (is_quote) state = quoting::closed;
      } else if (is_quote && (state == quoting::closed || seen == 0 || row_[seen - 1] == options_.separator)) {
        state = quoting::open;
      } else {
        state = quoting::none;
      }
    }
  }

  /// Takes the next field of the row, unquoted; a field that is not quoted is not copied.
  std::string_view take_field(const char*& at, const char* end, bool& quoted) {
    quoted = at != end && *at == options_.quote;
    if (!quoted) {
      const auto* const stop =
          static_cast<const char*>(std::memchr(at, options_.separator, static_cast<std::size_t>(end - at)));
      const std::string_view field(at, static_cast<std::size_t>((stop ? stop : end) - at));
      at = stop ? stop + 1 : nullptr;
      return field;
    }
    unquoted_.clear();
    for (++at;; ++at) {
      const auto* const stop =
          static_cast<const char*>(std::memchr(at, options_.quote, static_cast<std::size_t>(end - at)));
      if (!stop) fail(error_code::invalid_argument, "has a quote that is not closed");
      unquoted_.append(at, stop);
      at = stop + 1;
      if (at == end || *at != options_.quote) break;
      unquoted_ += options_.quote;
    }
    if (at != end && *at != options_.separator)
      fail(error_code::invalid_argument, "has something between a closing quote and the separator");
    at = at == end ? nullptr : at + 1;
    return unquoted_;
  }

  void check_line_ends(std::string_view field) const {
    if (field.find('\r') != field.npos)
      fail(error_code::invalid_argument,
           "has a carriage return in a field without quotes: end lines in newlines, or quote the field");
  }

  std::size_t count_fields() {
    std::size_t count = 0;
    bool quoted;
    for (const char *at = row_.data(), *end = at + row_.size(); at; ++count) take_field(at, end, quoted);
    return count;
  }

  void read_header() {
    if (!next_line()) fail(error_code::invalid_argument, "has no header");
    std::vector<std::string> names;
    bool quoted;
    for (const char *at = row_.data(), *end = at + row_.size(); at;) {
      names.emplace_back(take_field(at, end, quoted));
      if (!quoted) check_line_ends(names.back());
    }
    plan_columns(names.size(), names);
    names_ = std::move(names);
  }

  void plan_columns(std::size_t count, const std::vector<std::string>& names) {
    std::size_t next = 0;
    for (const csv_target& each : targets_) next += each.columns;
    if (options_.columns.empty() && count != next)
      fail(error_code::invalid_argument,
           str_cat({"has ", count, " columns where the features take ", next, ": say which ones by `columns`"}));
    std::vector<plan> plans(count);
    next = 0;
    for (std::size_t f = 0; f < targets_.size(); ++f)
      for (std::size_t k = 0; k < targets_[f].columns; ++k, ++next) {
        const csv_column* const column = options_.columns.empty() ? nullptr : &options_.columns[next];
        std::size_t number = next;
        if (column && column->number) {
          number = *column->number;
        } else if (column) {
          for (number = 0; number < names.size() && names[number] != column->name;) ++number;
          for (std::size_t other = number + 1; other < names.size(); ++other)
            if (names[other] == column->name)
              fail(error_code::invalid_argument, str_cat({"has two columns \"", column->name, "\", ", number, " and ",
                                                          other, ", counted from 0: name them by numbers"}));
          if (number == names.size())
            fail(error_code::not_found, "has no column \"" + column->name + "\"" +
                                            (names.empty() ? ": without a header columns have numbers" : ""));
        }
        if (number >= count)
          fail(error_code::not_found, str_cat({"has no column ", static_cast<std::int64_t>(number), ": there are ",
                                               count, ", counted from 0"}));
        if (plans[number].wanted)
          fail(error_code::invalid_argument, str_cat({"is to have its column ", number, " read twice"}));
        plans[number] = {f, k, true, column};
      }
    for (std::size_t i = count - 1; i-- > 0;) {
      const plan& behind = plans[i + 1];
      if (plans[i].wanted && behind.wanted && behind.feature == plans[i].feature &&
          behind.offset == plans[i].offset + 1)
        plans[i].run += behind.run;
    }
    plans_ = std::move(plans);
  }

  /// For a row, or `most` of them.
  void make_room(element& to, std::size_t most) {
    to.resize(targets_.size());
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (targets_[i].text)
        to[i].texts.resize(most > 0 ? most : 1);
      else
        to[i].reserve(most > 0 ? stacked(most, targets_[i].extents) : targets_[i].extents, features_[i].entry_bytes);
    }
    places_.clear();
    for (value& v : to) places_.push_back(v.bytes.data());
  }

  void make_more_room(element& batch, std::size_t rows) {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (targets_[i].text)
        batch[i].texts.resize(rows);
      else
        batch[i].grow(rows, features_[i].entry_bytes);
      places_[i] = batch[i].bytes.data();
    }
  }

  void parse_row(element& to, std::size_t row) {
    const char* at = row_.data();
    const char* const end = at + row_.size();
    const std::size_t count = plans_.size();
    for (std::size_t i = 0, run = 1; i < count; i += run) {
      const plan& p = plans_[i];
      run = p.run;
      if (!at) too_few(i);
      bool quoted;
      if (!p.wanted) {
        take_field(at, end, quoted);
        continue;
      }
      const csv_target& target = targets_[p.feature];
      if (target.text) {
        std::string_view field = take_field(at, end, quoted);
        if (!quoted) check_line_ends(field);
        if (!quoted && is_missing(field))
          if (const std::string* instead = instead_of(p)) field = *instead;
        to[p.feature].texts[row].assign(field);
        continue;
      }
      std::byte* const place =
          places_[p.feature] + (row * target.columns + p.offset) * features_[p.feature].entry_bytes;
      switch (target.type) {
        case dtype::float32:
          at = parse_run<float>(at, end, i, run, place);
          break;
        case dtype::float64:
          at = parse_run<double>(at, end, i, run, place);
          break;
        case dtype::int32:
          at = parse_run<std::int32_t>(at, end, i, run, place);
          break;
        case dtype::int64:
          at = parse_run<std::int64_t>(at, end, i, run, place);
          break;
        case dtype::boolean:
          at = parse_run<bool>(at, end, i, run, place);
          break;
        case dtype::int8:
          at = parse_run<std::int8_t>(at, end, i, run, place);
          break;
        case dtype::int16:
          at = parse_run<std::int16_t>(at, end, i, run, place);
          break;
        case dtype::uint8:
          at = parse_run<std::uint8_t>(at, end, i, run, place);
          break;
        case dtype::uint16:
          at = parse_run<std::uint16_t>(at, end, i, run, place);
          break;
        case dtype::uint32:
          at = parse_run<std::uint32_t>(at, end, i, run, place);
          break;
        case dtype::uint64:
          at = parse_run<std::uint64_t>(at, end, i, run, place);
          break;
        case dtype::float16:
          at = parse_run<half>(at, end, i, run, place);
          break;
        case dtype::bfloat16:
          at = parse_run<bfloat16>(at, end, i, run, place);
          break;
      }
    }
    if (at)
      fail(error_code::invalid_argument, str_cat({"has ", count_fields(), " fields where ", count, " are expected"}));
  }

  /// Fields one after the other, each a number behind the last one. Returns what stands behind them, null at the end.
  template <class T>
  const char* parse_run(const char* at, const char* end, std::size_t number, std::size_t run, std::byte* to) {
    const char separator = options_.separator;
    for (const std::size_t behind = number + run; number < behind; ++number, to += sizeof(T)) {
      if (!at) too_few(number);
      if constexpr (csv_has_fast_path<T>) {
        T value;
        // A row ends in a character that no number has: the parser needs no other bound.
        const char* const stop = parse_decimal(at, value);
        if (stop && (stop == end || *stop == separator)) {
          std::memcpy(to, &value, sizeof value);
          at = stop == end ? nullptr : stop + 1;
          continue;
        }
      }
      at = parse_slowly<T>(at, end, number, to);
    }
    return at;
  }

  template <class T>
  __attribute__((noinline)) const char* parse_slowly(const char* at, const char* end, std::size_t number,
                                                     std::byte* to) {
    bool quoted;
    std::string_view field = take_field(at, end, quoted);
    if (is_missing(field)) {
      const std::string* const instead = instead_of(plans_[number]);
      if (!instead)
        fail(error_code::invalid_argument, "has no value in " + column_name(number) +
                                               ": say what a missing one is, {\"column\", \"0\"} or `missing`");
      field = *instead;
    }
    T value{};
    if (!parse_number(field, value))
      fail(error_code::invalid_argument, "has \"" + printable(field, 40) + "\" in " + column_name(number) +
                                             " where a number of type " + name(dtype_of<T>) + " is expected");
    std::memcpy(to, &value, sizeof value);
    return at;
  }

  bool is_missing(std::string_view field) const {
    if (field.empty()) return true;
    for (const std::string& word : options_.missing_values)
      if (field == word) return true;
    return false;
  }
  const std::string* instead_of(const plan& p) const {
    if (p.column && p.column->missing) return &*p.column->missing;
    return options_.missing ? &*options_.missing : nullptr;
  }
  std::string column_name(std::size_t number) const {
    return number < names_.size() ? "column \"" + printable(names_[number], 100) + "\"" : str_cat({"column ", number});
  }

  [[noreturn]] void too_few(std::size_t fields) const {
    fail(error_code::invalid_argument, str_cat({"has ", fields, " fields where ", plans_.size(), " are expected"}));
  }
  [[noreturn]] void fail(error_code code, const std::string& why) const {
    throw error(code, "csv", {paths_[file_], ":", text_->line(), " ", why});
  }

  const sequence<feature>& features_;
  const std::vector<csv_target>& targets_;
  const std::vector<std::string>& paths_;
  const csv_options& options_;
  stop_source* stop_;
  std::size_t file_ = 0, room_ = 64;  ///< room_: the rows of a batch for which memory has been taken
  std::unique_ptr<text_buffer> text_;
  std::string_view row_;
  std::string unquoted_;
  std::vector<plan> plans_;
  std::vector<std::string> names_;
  std::vector<std::byte*> places_;
};

class csv_stage final : public stage {
 public:
  csv_stage(sequence<feature> features, std::vector<csv_target> targets, std::vector<std::string> paths,
            csv_options options)
      : stage(std::move(features)),
        targets_(std::move(targets)),
        paths_(std::move(paths)),
        options_(std::move(options)) {
    std::size_t columns = 0;
    for (const csv_target& each : targets_) columns += each.columns;
    if (!options_.columns.empty() && options_.columns.size() != columns)
      throw error(error_code::invalid_argument, "csv",
                  {"the features take ", columns, " columns, and ", options_.columns.size(), " are named"});
    const char s = options_.separator;
    if (s == options_.quote || s == '\n' || s == '\r' || s == '.' || s == '-' || s == '+' || (s >= '0' && s <= '9'))
      throw error(error_code::invalid_argument, "csv", "the separator cannot be told from what it separates");
  }

  intrusive_ptr<stream> open(std::uint64_t, stop_source* stop) const override {
    return intrusive_ptr<stream>(new csv_stream(features(), targets_, paths_, options_, stop));
  }

 private:
  std::vector<csv_target> targets_;
  std::vector<std::string> paths_;
  csv_options options_;
};

WEFT_DECL stage_ptr new_csv_stage(sequence<feature> features, std::vector<csv_target> targets,
                                  std::vector<std::string> paths, csv_options options) {
  return stage_ptr(new csv_stage(std::move(features), std::move(targets), std::move(paths), std::move(options)));
}

}  // namespace weft::data::detail
#endif
