// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/data/csv_options.hpp>
#include <weft/data/parse_number.hpp>
#include <weft/data/stage.hpp>
#include <weft/data/text_buffer.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/tensor/dtype.hpp>

namespace weft::data::detail {

/// True for types that are common enough for a fast path.
template <class T>
inline constexpr bool csv_has_fast_path = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                          std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>;

/// Reads the rows of several files in sequence.
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
      // A file can end long before a batch is full, so the memory grows with the rows, by a factor of two.
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
  /// The way a column is read, and the place of its values.
  struct plan {
    std::size_t feature = 0, offset = 0;  ///< in entries of the feature's row
    bool wanted = false;
    const csv_column* column = nullptr;
    std::size_t run = 1;  ///< the number of consecutive columns, beginning here, that one tensor reads
  };

  /// Advances to the next row, `row_`; returns false at the end of the last file.
  bool next_row() {
    for (;;) {
      if (!text_) {
        if (file_ == paths_.size()) return false;
        text_ = std::make_unique<text_buffer>(paths_[file_], options_.max_row_bytes);
        plans_.clear();
        try {
          if (options_.header) read_header();
        } catch (...) {
          text_.reset();  // a further call would parse this file with the plans of the previous one
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

  /// Advances to the next row that is not blank: a line, or several lines if newlines are quoted.
  bool next_line() {
    while (text_->next(row_)) {
      if (std::memchr(row_.data(), options_.quote, row_.size())) {
        quoting state = quoting::none;
        for (std::size_t seen = 0; look_at_quotes(seen, state), state == quoting::open;)
          if (!text_->extend(row_)) fail(error_code::invalid_argument, "has an unclosed quote");
      }
      // There are several if a file with \r\n was written in text mode.
      while (row_.ends_with('\r')) row_.remove_suffix(1);
      if (!row_.empty()) return true;
    }
    return false;
  }

  /// The state of the parser in a row: inside quotes, after a quote that can be closing, or outside quotes.
  enum class quoting { none, open, closed };

  /// Continues from `seen` to the end of the row.
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

  /// Returns the next field of the row, unquoted. Only quoted fields are copied.
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
      if (!stop) fail(error_code::invalid_argument, "has an unclosed quote");
      unquoted_.append(at, stop);
      at = stop + 1;
      if (at == end || *at != options_.quote) break;
      unquoted_ += options_.quote;
    }
    if (at != end && *at != options_.separator)
      fail(error_code::invalid_argument, "has text between a closing quote and the separator");
    at = at == end ? nullptr : at + 1;
    return unquoted_;
  }

  void check_line_ends(std::string_view field) const {
    if (field.find('\r') != field.npos)
      fail(error_code::invalid_argument,
           "has a carriage return in an unquoted field: end lines with newlines, or quote the field");
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
           str_cat({"has ", count, " columns, but the features take ", next, ": select them with `columns`"}));
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
                                                          other, ", counted from 0: select them by number"}));
          if (number == names.size())
            fail(error_code::not_found, "has no column \"" + column->name + "\"" +
                                            (names.empty() ? ": without a header, select columns by number" : ""));
        }
        if (number >= count)
          fail(error_code::not_found, str_cat({"has no column ", static_cast<std::int64_t>(number), ": there are ",
                                               count, ", counted from 0"}));
        if (plans[number].wanted)
          fail(error_code::invalid_argument,
               str_cat({"has column ", number, " selected twice: select each column once"}));
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

  /// Reserves memory for one row (`most` is 0) or `most` rows.
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
      fail(error_code::invalid_argument, str_cat({"has ", count_fields(), " fields, but ", count, " are expected"}));
  }

  /// Parses `run` consecutive numeric fields. Returns a pointer to the text after them, or null at the end.
  template <class T>
  const char* parse_run(const char* at, const char* end, std::size_t number, std::size_t run, std::byte* to) {
    const char separator = options_.separator;
    for (const std::size_t behind = number + run; number < behind; ++number, to += sizeof(T)) {
      if (!at) too_few(number);
      if constexpr (csv_has_fast_path<T>) {
        T value;
        // A row ends with a character that no number contains, so the parser needs no other bound.
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
        fail(error_code::invalid_argument,
             "has no value in " + column_name(number) + ": set a default, {\"column\", \"0\"} or `missing`");
      field = *instead;
    }
    T value{};
    if (!parse_number(field, value))
      fail(error_code::invalid_argument, "has \"" + printable(field, 40) + "\" in " + column_name(number) +
                                             ", which is not a number of type " + name(dtype_of<T>));
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
    fail(error_code::invalid_argument, str_cat({"has ", fields, " fields, but ", plans_.size(), " are expected"}));
  }
  [[noreturn]] void fail(error_code code, const std::string& why) const {
    throw error(code, "csv", {paths_[file_], ":", text_->line(), " ", why});
  }

  const sequence<feature>& features_;
  const std::vector<csv_target>& targets_;
  const std::vector<std::string>& paths_;
  const csv_options& options_;
  stop_source* stop_;
  std::size_t file_ = 0, room_ = 64;  ///< room_: the rows of a batch for which memory is reserved
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
                  {"the features take ", columns, " columns, but `columns` has ", options_.columns.size()});
    const char s = options_.separator;
    if (s == options_.quote || s == '\n' || s == '\r' || s == '.' || s == '-' || s == '+' || (s >= '0' && s <= '9'))
      throw error(error_code::invalid_argument, "csv",
                  "the separator must not be a quote, a newline, '.', '+', '-' or a digit");
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
