// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

namespace detail {

struct tensor_storage {
  template <class T, class D>
  static const storage& of(const tensor<T, D>& t) {
    return t.bytes_;
  }
  template <class Tensor>
  static Tensor make(const shape& extents, const storage& bytes) {
    check_fits("dataset", Tensor::dims_type::spec, Tensor::dims_type::names, extents);
    return Tensor(extents, bytes);
  }
};

}  // namespace detail

namespace data {

/// A position in a dataset's iteration: the epoch, and the number of its elements delivered so far. Boost.Serialization
/// saves and restores it; `dataset::from` continues there.
struct position {
  std::uint64_t epoch = 0, element = 0;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & epoch;
    archive & element;
  }
  friend bool operator==(const position&, const position&) = default;
};

namespace detail {

/// A feature's description: its extents, and the size of an entry in bytes; 0 for text.
struct feature {
  shape spec;
  const char* const* names = nullptr;
  std::size_t entry_bytes = 0;

  bool is_text() const { return entry_bytes == 0; }
};

/// The value of a feature, without its type. Numbers are in `bytes`, row-major; texts are in `texts`.
struct value {
  shape extents;
  storage bytes;
  sequence<std::string> texts;

  /// Resizes to these extents. Reuses the memory if it is unshared and has a suitable size.
  std::byte* reserve(const shape& wanted, std::size_t entry_bytes);
  /// Reserves memory to append rows.
  void grow(std::size_t rows, std::size_t entry_bytes);
  /// Makes the value a text.
  std::string& text();
};

/// One value for each feature.
using element = sequence<value>;

/// Returns the extents with a new first axis of `count`.
shape stacked(std::size_t count, const shape& extents);

WEFT_COLD_BEGIN
#if WEFT_DEFINITIONS

WEFT_DECL std::byte* value::reserve(const shape& wanted, std::size_t entry_bytes) {
  const std::size_t needed = weft::detail::checked_bytes("dataset", wanted, entry_bytes);
  if (!bytes.data() || !bytes.unique() || bytes.bytes() < needed || bytes.bytes() > 2 * needed + 64)
    bytes = weft::detail::storage_of("dataset", wanted, entry_bytes);
  extents = wanted;
  return bytes.data();
}

WEFT_DECL void value::grow(std::size_t rows, std::size_t entry_bytes) {
  shape wanted = extents;
  wanted[0] = static_cast<std::int64_t>(rows);
  storage more = weft::detail::storage_of("dataset", wanted, entry_bytes);
  std::memcpy(more.data(), bytes.data(), extents.elements() * entry_bytes);
  bytes = std::move(more);
  extents = wanted;
}

WEFT_DECL std::string& value::text() {
  texts.resize(1);
  return texts[0];
}

WEFT_DECL shape stacked(std::size_t count, const shape& extents) {
  if (extents.rank == max_rank)
    throw error(error_code::invalid_argument, "batches",
                {"a batch would have ", extents.rank + 1, " axes, but a tensor has at most ", max_rank});
  shape all(count);
  for (std::size_t i = 0; i < extents.rank; ++i) all.push_back(extents[i]);
  return all;
}

#endif
WEFT_COLD_END

template <class Dims, auto Axis>
struct batch_dims;
template <auto... Extents, auto Axis>
struct batch_dims<dims<Extents...>, Axis> {
  using type = dims<Axis, Extents...>;
};

template <class Dims>
struct row_dims;
template <auto First, auto... Rest>
struct row_dims<dims<First, Rest...>> {
  using type = dims<Rest...>;
};

}  // namespace detail

/// The types of an element's features: tensors, numbers, std::string. A batch of texts is a vector.
template <class F>
struct feature_traits {
  static constexpr bool supported = false;
};

template <Element T>
struct feature_traits<T> {
  static constexpr bool supported = true;
  template <auto Axis>
  using batch = tensor<T, dims<Axis>>;

  static detail::feature spec() { return {{}, nullptr, sizeof(T)}; }
  static T get(const detail::value& v) {
    T number;
    std::memcpy(static_cast<void*>(&number), v.bytes.data(), sizeof(T));
    return number;
  }
  static void put(T number, detail::value& v) { std::memcpy(v.reserve(shape(), sizeof(T)), &number, sizeof(T)); }
};

template <class T, class Dims>
struct feature_traits<tensor<T, Dims>> {
  static constexpr bool supported = true;
  template <auto Axis>
  using batch = tensor<T, typename detail::batch_dims<Dims, Axis>::type>;

  static detail::feature spec() { return {Dims::spec, Dims::names, sizeof(T)}; }
  static tensor<T, Dims> get(const detail::value& v) {
    return weft::detail::tensor_storage::make<tensor<T, Dims>>(v.extents, v.bytes);
  }
  static void put(const tensor<T, Dims>& t, detail::value& v) {
    v.extents = t.extents();
    v.bytes = weft::detail::tensor_storage::of(t);
  }
};

template <>
struct feature_traits<std::string> {
  static constexpr bool supported = true;
  template <auto>
  using batch = std::vector<std::string>;

  static detail::feature spec() { return {}; }
  static std::string get(const detail::value& v) { return v.texts[0]; }
  static std::string get(detail::value& v) { return std::move(v.texts[0]); }
  static void put(std::string text, detail::value& v) { v.text() = std::move(text); }
};

/// A batch of texts.
template <>
struct feature_traits<std::vector<std::string>> {
  static constexpr bool supported = true;

  static detail::feature spec() { return {shape(-1), nullptr, 0}; }
  static std::vector<std::string> get(const detail::value& v) { return {v.texts.begin(), v.texts.end()}; }
  static std::vector<std::string> get(detail::value& v) {
    std::vector<std::string> texts(v.texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = std::move(v.texts[i]);
    return texts;
  }
  static void put(std::vector<std::string> texts, detail::value& v) {
    v.extents = shape(texts.size());
    v.texts.resize(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) v.texts[i] = std::move(texts[i]);
  }
};

namespace detail {

/// Tensors share the element's memory; texts are moved out of a non-const element.
template <class... Features, class Element, std::size_t... Index>
std::tuple<Features...> typed(Element& e, std::index_sequence<Index...>) {
  return std::tuple<Features...>(feature_traits<Features>::get(e[Index])...);
}
template <class... Features, std::size_t... Index>
void untyped(std::tuple<Features...>&& from, element& to, std::index_sequence<Index...>) {
  to.resize(sizeof...(Features));
  (feature_traits<Features>::put(std::move(std::get<Index>(from)), to[Index]), ...);
}

}  // namespace detail

}  // namespace data

}  // namespace weft
