// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/config.hpp>
#include <weft/error.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/storage.hpp>

/// Extents as text, checks of extents, and memory for given extents.
namespace weft {

WEFT_COLD_BEGIN

/// Returns "[3, 784]". Dynamic extents are printed by their names in `names`, otherwise as "?".
inline std::string to_string(const shape& s, const char* const* names = nullptr) {
  std::string text;
  for (std::size_t i = 0; i < s.rank; ++i) {
    const piece extent = names && names[i] ? piece(names[i]) : s[i] < 0 ? piece("?") : piece(s[i]);
    append(text, {i ? ", " : "[", extent});
  }
  return str_cat({s.rank ? "" : "[", text, "]"});
}

namespace detail {

/// Throws invalid_argument unless `given` matches `spec`; equal dynamic extents must have equal values. Throws
/// resource_exhausted if the number of elements overflows.
void check_fits(const char* what, const shape& spec, const char* const* names, const shape& given);

/// Returns the size in bytes of an array with elements of `element` bytes. Throws resource_exhausted if it exceeds the
/// address space.
std::size_t checked_bytes(const char* what, const shape& extents, std::size_t element);

/// Allocates memory for an array. Throws resource_exhausted, naming the extents, if there is not enough.
storage storage_of(const char* what, const shape& extents, std::size_t element,
                   const memory_resource& source = memory_resource_of<>);

/// Throws out_of_range if an index, one for each axis, is out of range.
void check_indices(const shape& extents, const std::int64_t* indices);

/// Throws invalid_argument: the number of values, `given`, does not match the extents.
[[noreturn]] void refuse_count(const char* what, std::size_t given, const shape& extents);

/// Throws invalid_argument: braces contain `given` tensors instead of one.
[[noreturn]] void refuse_operands(std::size_t given);

/// Throws invalid_argument: in nested ranges, the range at `indices[0]`, ..., `indices[axis - 1]` has a different
/// length from the first range along that axis.
[[noreturn]] void refuse_ragged(const std::int64_t* indices, std::size_t axis, std::size_t given, std::int64_t first);

/// Throws invalid_argument unless the extents are equal.
void check_same_extents(const char* what, const shape& from, const shape& to);

/// Returns the extents of a row.
shape row_extents(const shape&);

/// Throws invalid_argument unless the elements of a matrix are contiguous. `inner` and `outer`: the strides between the
/// elements of a row, and between rows.
void check_strides(const shape& matrix, std::int64_t inner, std::int64_t outer);

#if WEFT_DEFINITIONS

[[noreturn]] inline void shape_mismatch(const char* what, const shape& declared, const char* const* names,
                                        const shape& given) {
  throw error(error_code::invalid_argument, what,
              {"the extents ", to_string(given), " do not fit the declared ", to_string(declared, names)});
}

WEFT_DECL void check_fits(const char* what, const shape& spec, const char* const* names, const shape& given) {
  for (std::size_t i = 0; i < given.rank; ++i)
    if (given[i] < 0)
      throw error(error_code::invalid_argument, what, {"an extent must be at least 0; it is ", given[i]});
  bool fits = spec.rank == given.rank;
  for (std::size_t i = 0; fits && i < spec.rank; ++i) {
    if (spec[i] >= 0) fits = spec[i] == given[i];
    for (std::size_t j = 0; fits && j < i; ++j)
      if (spec[i] < 0 && spec[i] == spec[j]) fits = given[i] == given[j];
  }
  if (!fits) shape_mismatch(what, spec, names, given);
  checked_bytes(what, given, 1);
}

WEFT_DECL std::size_t checked_bytes(const char* what, const shape& extents, std::size_t element) {
  std::size_t bytes = element;
  bool overflows = false;
  for (std::size_t i = 0; i < extents.rank; ++i) {
    const auto extent = static_cast<std::size_t>(extents[i]);
    if (extent == 0) return 0;
    overflows = __builtin_mul_overflow(bytes, extent, &bytes) || overflows;
  }
  if (overflows || bytes > ~std::size_t{0} / 2)
    throw error(error_code::resource_exhausted, what,
                {"the extents ", to_string(extents), " exceed the size of any memory"});
  return bytes;
}

WEFT_DECL storage storage_of(const char* what, const shape& extents, std::size_t element,
                             const memory_resource& source) {
  const std::size_t bytes = checked_bytes(what, extents, element);
  try {
    return storage(bytes, source);
  } catch (const error& e) {  // the error does not contain the extents
    if (e.code() != error_code::resource_exhausted) throw error(e.code(), what, e.sentence());
    throw error(error_code::resource_exhausted, what,
                {"cannot allocate the extents ", to_string(extents), ", ", bytes, " bytes"});
  }
}

WEFT_DECL void refuse_count(const char* what, std::size_t given, const shape& extents) {
  throw error(error_code::invalid_argument, what, {given, " values given for extents ", to_string(extents)});
}

WEFT_DECL void refuse_operands(std::size_t given) {
  throw error(error_code::invalid_argument, "tensor",
              {given, " tensors in braces: a tensor can be a copy of only one"});
}

WEFT_DECL void refuse_ragged(const std::int64_t* indices, std::size_t axis, std::size_t given, std::int64_t first) {
  std::string row;
  for (std::size_t i = 0; i < axis; ++i) append(row, {i ? ", " : "", indices[i]});
  throw error(error_code::invalid_argument, "tensor",
              {"rows must have equal lengths, but row ", row, " has ", given, " values and the first row has ", first});
}

WEFT_DECL void check_same_extents(const char* what, const shape& from, const shape& to) {
  if (from == to) return;
  throw error(error_code::invalid_argument, what,
              {"the value has the extents ", to_string(from), ", but the elements to write have ", to_string(to)});
}

WEFT_DECL void check_strides(const shape& matrix, std::int64_t inner, std::int64_t outer) {
  if ((inner == 1 || matrix[1] <= 1) && (outer == matrix[1] || matrix[0] <= 1)) return;
  throw error(error_code::invalid_argument, "tensor_view",
              {"a view needs contiguous elements, but those of the matrix ", to_string(matrix), " are ", inner,
               " apart and its rows ", outer, ": copy it first"});
}

WEFT_DECL shape row_extents(const shape& all) {
  shape row;
  for (std::size_t i = 1; i < all.rank; ++i) row.push_back(all[i]);
  return row;
}

WEFT_DECL void check_indices(const shape& extents, const std::int64_t* indices) {
  for (std::size_t axis = 0; axis < extents.rank; ++axis) {
    if (indices[axis] >= 0 && indices[axis] < extents[axis]) continue;
    std::string given;
    for (std::size_t i = 0; i < extents.rank; ++i) append(given, {i ? ", " : "(", indices[i]});
    throw error(error_code::out_of_range, "element",
                {"an index must be at least 0 and less than its extent, but ", given, ") is outside of ",
                 to_string(extents), ", whose axis ", axis, " has extent ", extents[axis]});
  }
}

#endif

}  // namespace detail

WEFT_COLD_END

}  // namespace weft
