// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/data/element.hpp>
#include <weft/encoding/protobuf.hpp>
#include <weft/encoding/protobuf_writer.hpp>
#include <weft/error.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::data {

/// A feature of tf.train.Example, by name.
struct example_feature {
  std::string name;
  /// The value if a record lacks the feature; without it, a missing feature is an error.
  std::optional<double> missing;

  example_feature(const char* feature, std::optional<double> value = {}) : name(feature), missing(value) {}
  example_feature(std::string feature, std::optional<double> value = {}) : name(std::move(feature)), missing(value) {}
};

/// A feature must be a number, std::string, std::vector<std::string>, or a tensor in which at most the first extent is
/// dynamic.
template <class... Features>
struct example_features_are_not_valid;

/// Returns a function that parses tf.train.Example messages (tf.io.parse_single_example), for `records(path).map(...)`.
///
///     data::records("train.tfrecord").map(data::parse_example<tensor<float, dims<784>>, std::int64_t>("image",
///     "label"))
///
/// float and double are read from a float list, integers and bool from an int64 list, std::string from a bytes list of
/// one element, and std::vector<std::string> from any bytes list; a tensor of std::uint8_t also from the bytes
/// themselves (tf.io.decode_raw). A tensor's dynamic first extent is the number of elements. Throws data_loss if the
/// record is not such a message, not_found if a feature is missing, and invalid_argument, with the feature's name, if
/// it has another kind, does not match the extents or does not fit the type.
template <class... Features, class... Names>
auto parse_example(Names... names);

/// Writes a tf.train.Example: `example_writer().add("image", x).add("label", 3).bytes()` is a record.
class example_writer {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  example_writer& add(std::string_view name, T number) {
    return add_list(name, &number, 1);
  }
  template <class T, class Dims>
  example_writer& add(std::string_view name, const tensor<T, Dims>& t) {
    return add_list(name, t.data(), t.elements());
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  example_writer& add(std::string_view name, const std::vector<T>& numbers) {
    return add_list(name, numbers.data(), numbers.size());
  }
  example_writer& add(std::string_view name, std::string_view text) { return add_texts(name, {&text, 1}); }
  example_writer& add(std::string_view name, const char* text) { return add(name, std::string_view(text)); }
  example_writer& add(std::string_view name, const std::vector<std::string>& texts) {
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    return add_texts(name, views);
  }

  std::string bytes() const {
    protobuf_writer example;
    example.add_message(1, features_);
    return example.bytes();
  }

 private:
  template <class T>
  example_writer& add_list(std::string_view name, const T* numbers, std::size_t count) {
    protobuf_writer list, feature;
    if constexpr (std::is_same_v<T, float>) {
      list.add_numbers(1, numbers, count);
      feature.add_message(2, list);
    } else if constexpr (std::is_integral_v<T>) {
      list.add_integers(1, numbers, count);
      feature.add_message(3, list);
    } else {
      const std::vector<float> floats(numbers, numbers + count);
      return add_list(name, floats.data(), count);
    }
    features_.add_entry(1, name, feature);
    return *this;
  }
  example_writer& add_texts(std::string_view name, std::span<const std::string_view> texts) {
    protobuf_writer list, feature;
    for (const std::string_view text : texts) list.add_text(1, text);
    feature.add_message(1, list);
    features_.add_entry(1, name, feature);
    return *this;
  }

  protobuf_writer features_;
};

namespace detail {

/// The encoded list of a feature.
struct example_list {
  enum kind_of : unsigned char { none, bytes, floats, integers };
  kind_of kind = none;
  std::span<const std::byte> message;

  static constexpr const char* name(kind_of kind) {
    return kind == bytes ? "bytes" : kind == floats ? "floats" : kind == integers ? "integers" : "nothing";
  }
};

/// Finds features by name. The last one of a name is used, as in any map of Protocol Buffers.
inline std::vector<example_list> find_features(std::string_view record, const std::vector<example_feature>& wanted) {
  std::vector<example_list> found(wanted.size());
  const std::span bytes(reinterpret_cast<const std::byte*>(record.data()), record.size());
  for (protobuf_reader example(bytes, "tf.Example"); example.next();) {
    if (example.field() != 1) continue;
    for (protobuf_reader features = example.message(); features.next();) {
      if (features.field() != 1) continue;
      std::string_view name;
      example_list list;
      for (protobuf_reader entry = features.message(); entry.next();) {
        if (entry.field() == 1) name = entry.text();
        if (entry.field() != 2) continue;
        for (protobuf_reader feature = entry.message(); feature.next();)
          if (feature.field() >= 1 && feature.field() <= 3)
            list = {static_cast<example_list::kind_of>(feature.field()), feature.bytes()};
      }
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (wanted[i].name == name) found[i] = list;
    }
  }
  return found;
}

[[noreturn]] inline void bad_feature(error_code code, const example_feature& f, std::initializer_list<piece> why) {
  std::string text;
  append(text, {"feature \"", f.name, "\" "});
  append(text, why);
  throw error(code, "parse_example", text);
}

inline void check_kind(const example_feature& f, const example_list& list, example_list::kind_of kind) {
  if (list.kind == example_list::none)
    bad_feature(error_code::not_found, f,
                {"is missing or empty in the record: give it a default, {\"", f.name, "\", 0}"});
  if (list.kind != kind)
    bad_feature(error_code::invalid_argument, f,
                {"has ", example_list::name(list.kind), ", but ", example_list::name(kind), " are expected"});
}

/// Calls `take(float)` for each number, packed or not.
template <class Take>
void each_float(const example_list& list, Take take) {
  for (protobuf_reader m(list.message, "tf.Example"); m.next();) {
    if (m.field() != 1) continue;
    if (!m.is_bytes()) {
      take(std::bit_cast<float>(m.fixed32()));
      continue;
    }
    const auto packed = m.bytes();
    if (packed.size() % 4 != 0) m.bad("a list of floats ends in the middle of a float");
    for (std::size_t i = 0; i < packed.size(); i += 4) {
      float number;
      std::memcpy(&number, packed.data() + i, 4);
      take(number);
    }
  }
}
template <class Take>
void each_integer(const example_list& list, Take take) {
  for (protobuf_reader m(list.message, "tf.Example"); m.next();) {
    if (m.field() != 1) continue;
    if (!m.is_bytes())
      take(static_cast<std::int64_t>(m.varint()));
    else
      m.each_packed_varint([&](std::uint64_t number) { take(static_cast<std::int64_t>(number)); });
  }
}

template <class T>
T example_number(const example_feature& f, std::int64_t number) {
  if constexpr (std::is_same_v<T, bool>) {
    return number != 0;
  } else {
    if (!std::in_range<T>(number))
      bad_feature(error_code::invalid_argument, f, {"has ", number, ", which does not fit its type"});
    return static_cast<T>(number);
  }
}

/// Reads all numbers into the memory that `to(count)` returns.
template <class T, class Room>
void read_numbers(const example_feature& f, const example_list& list, Room to) {
  if (list.kind == example_list::none && f.missing) return;
  std::size_t count = 0;
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    if (list.kind == example_list::bytes) {
      std::span<const std::byte> bytes;
      for (protobuf_reader m(list.message, "tf.Example"); m.next();)
        if (m.field() == 1) bytes = m.bytes(), ++count;
      if (count != 1) bad_feature(error_code::invalid_argument, f, {"has ", count, " strings, but must have one"});
      std::uint8_t* const at = to(bytes.size());
      if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
      return;
    }
  }
  if constexpr (std::is_integral_v<T>) {
    check_kind(f, list, example_list::integers);
    each_integer(list, [&](std::int64_t) { ++count; });
    T* at = to(count);
    each_integer(list, [&](std::int64_t number) { *at++ = example_number<T>(f, number); });
  } else {
    check_kind(f, list, example_list::floats);
    each_float(list, [&](float) { ++count; });
    T* at = to(count);
    each_float(list, [&](float number) { *at++ = T(number); });
  }
}

template <class F>
struct example_value {
  static constexpr bool supported = false;
};

template <Element T>
struct example_value<T> {
  static constexpr bool supported = true;
  static T get(const example_feature& f, const example_list& list) {
    T number = static_cast<T>(static_cast<float>(f.missing.value_or(0)));
    read_numbers<T>(f, list, [&](std::size_t count) {
      if (count != 1) bad_feature(error_code::invalid_argument, f, {"has ", count, " numbers, but must have one"});
      return &number;
    });
    return number;
  }
};

template <class T, class Dims>
struct example_value<tensor<T, Dims>> {
  static constexpr bool supported = [] {
    for (std::size_t axis = 1; axis < Dims::rank; ++axis)
      if (Dims::spec[axis] < 0) return false;
    return true;
  }();

  static tensor<T, Dims> get(const example_feature& f, const example_list& list) {
    shape extents = Dims::spec;
    if (Dims::rank > 0 && extents[0] < 0) extents[0] = 0;
    tensor<T, Dims> t(extents);
    if (list.kind == example_list::none && f.missing)
      for (T *at = t.data(), *end = at + t.elements(); at != end; ++at)
        *at = static_cast<T>(static_cast<float>(*f.missing));
    read_numbers<T>(f, list, [&](std::size_t count) {
      if constexpr (!Dims::is_static) {
        extents[0] = 1;
        const std::size_t row = extents.elements();
        if (row == 0 || count % row != 0)
          bad_feature(error_code::invalid_argument, f,
                      {"has ", count, " numbers, which do not fit the extents ", to_string(Dims::spec, Dims::names)});
        extents[0] = static_cast<std::int64_t>(count / row);
        t = tensor<T, Dims>(extents, uninitialized{});
      } else if (count != t.elements()) {
        bad_feature(error_code::invalid_argument, f,
                    {"has ", count, " numbers, but the extents ", to_string(extents), " require ", t.elements()});
      }
      return t.data();
    });
    return t;
  }
};

inline std::vector<std::string> example_texts(const example_feature& f, const example_list& list) {
  std::vector<std::string> texts;
  if (list.kind == example_list::none && f.missing) return texts;
  check_kind(f, list, example_list::bytes);
  for (protobuf_reader m(list.message, "tf.Example"); m.next();)
    if (m.field() == 1) texts.emplace_back(m.text());
  return texts;
}

template <>
struct example_value<std::string> {
  static constexpr bool supported = true;
  static std::string get(const example_feature& f, const example_list& list) {
    auto texts = example_texts(f, list);
    if (texts.empty() && f.missing) return {};
    if (texts.size() != 1)
      bad_feature(error_code::invalid_argument, f, {"has ", texts.size(), " strings, but must have one"});
    return std::move(texts[0]);
  }
};
template <>
struct example_value<std::vector<std::string>> {
  static constexpr bool supported = true;
  static std::vector<std::string> get(const example_feature& f, const example_list& list) {
    return example_texts(f, list);
  }
};

template <class... Features, std::size_t... Index>
std::tuple<Features...> parse_features(std::string_view record, const std::vector<example_feature>& features,
                                       std::index_sequence<Index...>) {
  const auto lists = find_features(record, features);
  return std::tuple<Features...>(example_value<Features>::get(features[Index], lists[Index])...);
}

}  // namespace detail

template <class... Features>
struct example_features_are_not_valid : mistake<!(detail::example_value<Features>::supported && ...)> {};

template <class... Features, class... Names>
auto parse_example(Names... names) {
  static_assert(correct<example_features_are_not_valid<Features...>>,
                "parse_example: features must be numbers, strings, or tensors whose extents are fixed after the first");
  static_assert(sizeof...(Names) == sizeof...(Features), "parse_example: give one name for each feature");
  return [features = std::vector<example_feature>{example_feature(std::move(names))...}](const std::string& record) {
    return detail::parse_features<Features...>(record, features, std::index_sequence_for<Features...>());
  };
}

}  // namespace weft::data
