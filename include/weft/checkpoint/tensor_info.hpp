// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <weft/error.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

/// A tensor's description in a file, even if Weft does not support it.
struct tensor_info {
  std::string name;
  std::string type_name;              ///< in the spelling of the file's format
  std::optional<dtype> type;          ///< none if Weft does not support the type
  std::vector<std::int64_t> extents;  ///< outermost first, none negative
};

/// Elements in row-major order, whose type and extents are known at run time.
struct untyped_tensor {
  dtype type = dtype::float32;
  shape extents;
  std::vector<std::byte> bytes;
};

namespace detail {

inline std::string extents_text(const std::vector<std::int64_t>& extents) {
  std::string text = "[";
  for (std::size_t i = 0; i < extents.size(); ++i) append(text, {i ? ", " : "", extents[i]});
  return text + "]";
}

/// Converts extents to a shape. Throws unimplemented if Weft does not support the element type or the number of axes.
inline shape checked_extents(const char* operation, const std::string& where, const tensor_info& info) {
  if (!info.type)
    throw error(error_code::unimplemented, operation,
                {where, " has elements of type ", info.type_name,
                 ", which Weft does not support: convert them, for example to float32, before saving"});
  if (info.extents.size() > max_rank)
    throw error(error_code::unimplemented, operation,
                {where, " has ", info.extents.size(), " axes, but a tensor has at most ", max_rank,
                 ": reshape it before saving"});
  shape extents;
  for (const std::int64_t extent : info.extents) extents.push_back(extent);
  return extents;
}

/// Returns the size of the elements in bytes. Throws data_loss if it is too large for any file.
inline std::uint64_t checked_bytes(const char* operation, const std::string& where, const tensor_info& info) {
  std::uint64_t bytes = info.type ? size_of(*info.type) : 1;
  bool overflows = false, empty = false;
  for (const std::int64_t extent : info.extents) {
    empty = empty || extent == 0;
    overflows = __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) || overflows;
  }
  if (empty) return 0;
  if (overflows || bytes > ~std::uint64_t{0} / 4)
    throw error(error_code::data_loss, operation,
                {where, " declares extents ", extents_text(info.extents), ", more than any file can contain"});
  return bytes;
}

/// Throws data_loss unless each bool is 0 or 1: a file can contain other bytes, which are undefined in C++.
inline void check_bools(const char* operation, const std::string& where, dtype type, const unsigned char* bytes,
                        std::size_t size) {
  if (type != dtype::boolean) return;
  for (std::size_t i = 0; i < size; ++i)
    if (bytes[i] > 1)
      throw error(error_code::data_loss, operation,
                  {where, ": element ", i, " is ", bytes[i], ", but a bool must be 0 or 1"});
}

template <class Tensor>
inline constexpr bool is_read_as = false;
template <class T, class Dims>
inline constexpr bool is_read_as<tensor<T, Dims, cpu>> = true;
template <>
inline constexpr bool is_read_as<untyped_tensor> = true;

template <class T, class Dims>
std::byte* bytes_of(tensor<T, Dims, cpu>& t) {
  return reinterpret_cast<std::byte*>(t.data());
}
inline std::byte* bytes_of(untyped_tensor& t) { return t.bytes.data(); }

/// Throws invalid_argument if the file's tensor does not match the declared type and extents.
inline void check_declared(const char* operation, const std::string& where, const tensor_info& info, dtype type,
                           const shape& declared, const char* const* names, const shape& extents) {
  if (type != *info.type)
    throw error(error_code::invalid_argument, operation,
                {where, " has elements of type ", info.type_name, ", but ", name(type),
                 " was requested: read the file's type, then use cast<T>(x)"});
  try {
    check_fits(operation, declared, names, extents);
  } catch (const error& e) {
    throw error(e.code(), operation, {where, ": ", e.sentence()});
  }
}

/// Creates an uninitialized tensor of the file's extents.
template <class Tensor>
Tensor tensor_for(const char* operation, const std::string& where, const tensor_info& info) {
  const shape extents = checked_extents(operation, where, info);
  if constexpr (std::is_same_v<Tensor, untyped_tensor>) {
    return {*info.type, extents, std::vector<std::byte>(checked_bytes(operation, where, info))};
  } else {
    using dims_type = typename Tensor::dims_type;
    check_declared(operation, where, info, dtype_of<typename Tensor::value_type>, dims_type::spec, dims_type::names,
                   extents);
    return Tensor(extents, uninitialized{});
  }
}

}  // namespace detail

/// The result must be a tensor of declared type and extents, or an untyped_tensor.
template <class Tensor>
struct file_is_not_read_as : mistake<!detail::is_read_as<Tensor>> {};

}  // namespace weft
