// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <weft/checkpoint/restore.hpp>
#include <weft/checkpoint/safetensors.hpp>
#include <weft/checkpoint/weights.hpp>

/// Loads weights of other libraries, which have other names and axis orders.
WEFT_COLD_BEGIN
namespace weft {

/// Converts a file's tensor to a variable in four steps. The tensor is split along the axis `split_axis` into `parts`
/// of equal length, and part number `part` is used. It is reshaped to `viewed`, in which one extent may be -1; parts of
/// an axis other than the first cannot be reshaped. Its axes are permuted to the order `axes`. The first `merged` axes
/// are merged into one. A member with its default value skips its step.
struct weight_layout {
  std::vector<std::int64_t> viewed{};
  std::vector<std::size_t> axes{};
  std::size_t merged = 0;
  std::size_t part = 0, parts = 1, split_axis = 0;

  bool operator==(const weight_layout&) const = default;
};

/// Conversions of weights from PyTorch's layout to the layout of Weft and TensorFlow.
namespace pytorch {

/// Conv2d: [output, input, height, width] becomes [height, width, input, output]. ConvTranspose2d: its [input, output,
/// height, width] becomes [height, width, output, input].
inline weight_layout conv2d() { return {.axes = {2, 3, 1, 0}}; }

/// Conv1d: [output, input, length] becomes [length, input, output]. ConvTranspose1d: its [input, output, length]
/// becomes [length, output, input].
inline weight_layout conv1d() { return {.axes = {2, 1, 0}}; }

/// Conv3d: [output, input, depth, height, width] becomes [depth, height, width, input, output].
inline weight_layout conv3d() { return {.axes = {2, 3, 4, 1, 0}}; }

/// Linear: [output, input] becomes [input, output].
inline weight_layout linear() { return {.axes = {1, 0}}; }

/// A third of MultiheadAttention's in_proj_weight, [3 * output, input], with Linear's layout. Parts 0 to 2 are the
/// query, the key and the value.
inline weight_layout third_of_linear(std::size_t part) { return {.axes = {1, 0}, .part = part, .parts = 3}; }

/// Conv2d with a group for each channel: [channels * multiplier, 1, height, width] becomes [height, width, channels,
/// multiplier], the extents of the variable.
inline weight_layout depthwise_conv2d(const shape& variable) {
  return {.viewed = {variable[2], variable[3], variable[0], variable[1]}, .axes = {2, 3, 0, 1}};
}

/// The first Linear after a Flatten of images [channels, height, width]; Weft flattens [height, width, channels].
inline weight_layout linear_after_flatten(std::int64_t channels, std::int64_t height, std::int64_t width) {
  return {.viewed = {-1, channels, height, width}, .axes = {2, 3, 1, 0}, .merged = 3};
}

}  // namespace pytorch

/// A row of a weight table: a tensor's name in the file, the variable's name in the graph, and the conversion. A row
/// without a variable leaves the tensor out, if the file has it. A tensor has several rows if its parts become several
/// variables. `plus` names another tensor of the same extents that is added: PyTorch's recurrent layers have two
/// biases. Both are converted to the variable's type. If several rows of one variable are `tied`, the file must contain
/// the tensors of only one of them.
struct weight_row {
  std::string in_file;
  std::string variable;
  weight_layout layout = {};
  std::string plus = {};
  bool tied = false;
};

/// A list of rows. A separate type: with a vector, `load_weights(path, s, {.partial = true})` would be ambiguous.
struct weight_table {
  std::vector<weight_row> rows;
  weight_table(std::initializer_list<weight_row> list) : rows(list) {}

  /// Returns the first row of a tensor. Throws not_found if there is none.
  weight_row& operator[](const std::string& in_file) {
    for (weight_row& row : rows)
      if (row.in_file == in_file) return row;
    throw error(error_code::not_found, "weight_table", {"no row for the tensor '", in_file, "'"});
  }
};

/// Loads variables from a safetensors file of another library by a table of names and layouts. The table contains names
/// of the file, or names that `options.rename` maps them to: `{.rename = {{"module.", ""}}}` removes the prefix of
/// torch.nn.DataParallel. A tensor that is not in the table keeps its layout and has its renamed name. If several
/// tensors share their elements, safetensors.torch.save_model writes only one of them; all their names are found.
///
///     load_weights("lenet.safetensors", s, {{"conv1.weight", "conv1/weights", pytorch::conv2d()},
///                                           {"conv1.bias", "conv1/bias"},
///                                           {"fc1.weight", "dense/weights", pytorch::linear_after_flatten(64, 7, 7)},
///                                           {"bn.num_batches_tracked", ""}});
///
/// Throws not_found if the file lacks a tensor of the table, invalid_argument if a layout does not fit its tensor, and
/// the errors of load_weights without a table. No variable has changed then.
restore_report load_weights(const std::string& path, session& s, const weight_table& table,
                            const restore_options& options = {});

namespace detail {

/// Permutes the axes of a tensor to row-major order.
struct axis_order {
  std::vector<std::int64_t> extents;  ///< of the result
  std::vector<std::size_t> steps;     ///< the source's stride along each axis of the result
  std::size_t first = 0;              ///< the source's first element

  void copy(const std::byte* from, std::byte* to, std::size_t element) const {
    std::size_t count = 1;
    for (const std::int64_t extent : extents) count *= static_cast<std::size_t>(extent);
    std::vector<std::int64_t> index(extents.size(), 0);
    for (std::size_t n = 0, at = first; n < count; ++n) {
      std::memcpy(to + n * element, from + at * element, element);
      for (std::size_t axis = extents.size(); axis-- > 0;) {
        at += steps[axis];
        if (++index[axis] < extents[axis]) break;
        at -= steps[axis] * static_cast<std::size_t>(extents[axis]);
        index[axis] = 0;
      }
    }
  }
};

[[noreturn]] inline void layout_does_not_fit(const std::string& path, const safetensors_entry& entry,
                                             const char* what) {
  throw error(error_code::invalid_argument, "load_weights",
              {path, ": the layout of '", entry.name, "', ", described(entry), ", does not fit: ", what});
}

/// Returns the element order of a layout, and sets `entry` to the resulting extents.
inline axis_order apply_layout(const std::string& path, const weight_layout& layout, safetensors_entry& entry) {
  std::vector<std::int64_t> seen = layout.viewed.empty() ? entry.extents : layout.viewed;
  std::uint64_t given = 1, known = 1;
  std::int64_t* open = nullptr;
  for (const std::int64_t extent : entry.extents) given *= static_cast<std::uint64_t>(extent);
  for (std::int64_t& extent : seen) {
    if (extent >= 0)
      known *= static_cast<std::uint64_t>(extent);
    else if (open)
      layout_does_not_fit(path, entry, "only one extent of `viewed` may be -1");
    else
      open = &extent;
  }
  if (open) {
    *open = known == 0 ? 0 : static_cast<std::int64_t>(given / known);
    known *= static_cast<std::uint64_t>(*open);
  }
  if (known != given) layout_does_not_fit(path, entry, "`viewed` has another number of elements");

  std::vector<std::size_t> axes = layout.axes;
  if (axes.empty())
    for (std::size_t i = 0; i < seen.size(); ++i) axes.push_back(i);
  std::vector<std::size_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted.size() != seen.size() || sorted[i] != i)
      layout_does_not_fit(path, entry, "`axes` must list each axis once");
  if (layout.merged > axes.size()) layout_does_not_fit(path, entry, "`merged` exceeds the number of axes");

  std::vector<std::size_t> steps(seen.size(), 1);
  for (std::size_t i = seen.size(); i-- > 1;)
    steps[i - 1] = steps[i] * static_cast<std::size_t>(seen[i]) * (i == layout.split_axis ? layout.parts : 1);
  axis_order order;
  entry.extents.clear();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    order.extents.push_back(seen[axes[i]]);
    order.steps.push_back(steps[axes[i]]);
    if (i > 0 && i < layout.merged) {
      // The product of a tensor's extents can overflow even if it has no elements.
      if (__builtin_mul_overflow(entry.extents.back(), seen[axes[i]], &entry.extents.back()))
        layout_does_not_fit(path, entry, "the merged axes have too many elements");
    } else
      entry.extents.push_back(seen[axes[i]]);
  }
  return order;
}

/// The name of a row's tensor in errors and reports: "in_proj_weight[2]" is the third part.
inline std::string name_of_part(const weight_row& row) {
  return row.layout.parts == 1 ? row.in_file : str_cat({row.in_file, "[", row.layout.part, "]"});
}

/// Returns the part of a tensor that a row loads, with the variable's extents. Sets `order` to the order of its
/// elements.
inline safetensors_entry entry_of(const std::string& path, const weight_row& row, const safetensors_entry& tensor,
                                  axis_order& order) {
  safetensors_entry entry = tensor;
  const std::size_t parts = row.layout.parts, axis = row.layout.split_axis;
  std::size_t first = parts == 1 ? 0 : row.layout.part;
  if (parts != 1) {
    if (axis >= entry.extents.size() || row.layout.part >= parts ||
        entry.extents[axis] % static_cast<std::int64_t>(parts) != 0)
      layout_does_not_fit(path, entry, "`split_axis` must be divisible into `parts`, and `part` must be one of them");
    if (axis > 0 && !row.layout.viewed.empty())
      layout_does_not_fit(path, entry, "parts of an axis other than the first cannot have `viewed`");
    entry.name = name_of_part(row);
    entry.extents[axis] /= static_cast<std::int64_t>(parts);
    entry.bytes /= parts;
    for (std::size_t i = axis; i < entry.extents.size(); ++i) first *= static_cast<std::size_t>(entry.extents[i]);
  }
  order = apply_layout(path, row.layout, entry);
  order.first = first;
  return entry;
}

/// A file's tensors by their names, their renamed names, and the names of tensors that share their elements:
/// safetensors.torch.save_model writes one of these and stores the other names in the metadata.
class renamed_tensors {
 public:
  renamed_tensors(const safetensors_file& file, const renaming& rename) : file_(file) {
    for (const safetensors_entry& e : file.entries()) add(rename(e.name), e);
    for (const auto& [name, kept] : file.metadata())
      if (const safetensors_entry* e = file.find(kept)) {
        add(name, *e);
        add(rename(name), *e);
      }
  }
  /// Returns null if the file does not contain the tensor.
  const safetensors_entry* find(const std::string& name) const {
    if (const safetensors_entry* e = file_.find(name)) return e;
    for (const auto& [other, e] : renamed_)
      if (other == name) return e;
    return nullptr;
  }

 private:
  void add(std::string name, const safetensors_entry& e) {
    if (!name.empty()) renamed_.emplace_back(std::move(name), &e);
  }

  const safetensors_file& file_;
  std::vector<std::pair<std::string, const safetensors_entry*>> renamed_;
};

/// Returns true if two tensors have the same type, extents and elements.
inline bool have_equal_elements(const safetensors_file& file, const safetensors_entry& a, const safetensors_entry& b) {
  if (a.type != b.type || a.extents != b.extents) return false;
  std::vector<std::byte> of_a(static_cast<std::size_t>(a.bytes)), of_b(of_a.size());
  file.read(a, of_a.data());
  file.read(b, of_b.data());
  return of_a == of_b;
}

/// to += from. half and bfloat16 are added in float and rounded once.
template <class T>
void add_elements(std::byte* to, const std::byte* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, to + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    if constexpr (is_storage_type<T>)
      a = static_cast<T>(static_cast<float>(a) + static_cast<float>(b));
    else
      a = static_cast<T>(a + b);
    std::memcpy(to + i * sizeof(T), &a, sizeof(T));
  }
}
inline void add_elements(dtype type, std::byte* to, const std::byte* from, std::size_t count) {
  switch (type) {
    case dtype::float32:
      return add_elements<float>(to, from, count);
    case dtype::float64:
      return add_elements<double>(to, from, count);
    case dtype::float16:
      return add_elements<half>(to, from, count);
    case dtype::bfloat16:
      return add_elements<bfloat16>(to, from, count);
    default:
      throw error(error_code::invalid_argument, "load_weights", "only floating-point tensors can be added");
  }
}

}  // namespace detail

inline restore_report load_weights(const std::string& path, session& s, const weight_table& table,
                                   const restore_options& options) {
  const safetensors_file file(path);
  const detail::renamed_tensors names(file, options.rename);
  const auto is_missing = [&](const std::string& name) { return !name.empty() && !names.find(name); };
  const auto is_found_elsewhere = [&](const weight_row& row) {
    return row.tied && std::any_of(table.rows.begin(), table.rows.end(), [&](const weight_row& other) {
             return other.variable == row.variable && !is_missing(other.in_file) && !is_missing(other.plus);
           });
  };
  std::vector<std::string> missing;
  for (const weight_row& row : table.rows)
    for (const std::string* name : {&row.in_file, &row.plus})
      if (!row.variable.empty() && is_missing(*name) && !is_found_elsewhere(row) &&
          std::find(missing.begin(), missing.end(), *name) == missing.end())
        missing.push_back(*name);
  if (!missing.empty() && !options.partial) {
    std::string names_of_missing;
    detail::append_names(names_of_missing, missing.size() > 1 ? "s " : " ", missing);
    throw error(error_code::not_found, "load_weights",
                {path, " has no tensor", names_of_missing,
                 ", which the table names; restore_options{.rename = {{\"prefix.\", \"\"}}} removes a prefix of the "
                 "file's names, {.partial = true} loads the tensors in the file"});
  }

  struct source {
    const safetensors_entry* tensor;
    const weight_row* row;  // null for a tensor that is not in the table
    detail::axis_order order;
  };
  std::vector<safetensors_entry> entries;  // with the converted extents
  std::vector<source> sources;             // of each entry
  std::vector<const safetensors_entry*> named;
  for (const weight_row& row : table.rows) {
    const safetensors_entry* const tensor = names.find(row.in_file);
    const safetensors_entry* const other = row.plus.empty() ? nullptr : names.find(row.plus);
    for (const safetensors_entry* each : {tensor, other})
      if (each) named.push_back(each);
    if (!tensor || row.variable.empty() || (!row.plus.empty() && !other)) continue;
    const auto is_floating = [](const safetensors_entry& e) { return detail::converts(e.type, dtype::float32); };
    if (other && (other->extents != tensor->extents ||
                  (other->type != tensor->type && !(is_floating(*other) && is_floating(*tensor)))))
      throw error(error_code::invalid_argument, "load_weights",
                  {path, ": '", tensor->name, "' is ", detail::described(*tensor), " and cannot be added to '",
                   other->name, "', which is ", detail::described(*other)});
    const bool is_tied = std::any_of(sources.begin(), sources.end(), [&](const source& before) {
      return before.row->variable == row.variable && before.row->layout == row.layout &&
             (before.tensor == tensor || detail::have_equal_elements(file, *before.tensor, *tensor));
    });
    if (is_tied) continue;
    source from{tensor, &row, {}};
    entries.push_back(detail::entry_of(path, row, *tensor, from.order));
    entries.back().name = detail::name_of_part(row);
    sources.push_back(std::move(from));
  }
  for (const safetensors_entry& tensor : file.entries()) {
    if (std::find(named.begin(), named.end(), &tensor) != named.end()) continue;
    entries.push_back(tensor);
    sources.push_back({&tensor, nullptr, {}});
  }
  std::vector<detail::restorable> tensors;
  for (std::size_t i = 0; i < entries.size(); ++i) tensors.push_back({&file, &entries[i], sources[i].tensor});
  const detail::wanted_variables wanted(s, options.variables);
  restore_options by_table = options;
  by_table.rename = [&](const std::string& name) {
    for (const weight_row& row : table.rows)
      if (!row.variable.empty() && detail::name_of_part(row) == name) return row.variable;
    return options.rename(name);
  };
  detail::restore_plan plan = detail::plan_restore(s, path, tensors, wanted.only(s, by_table), wanted, true);
  for (const detail::restored_variable& v : plan.variables) {
    const source& from = sources[static_cast<std::size_t>(v.from.entry - entries.data())];
    detail::restore_variable(s, v, [&](void* to) {
      const dtype type = s.variable_info(v.node).type;
      if (!from.row) return detail::read_as(file, *from.tensor, type, to);
      const std::size_t bytes = v.from.entry->bytes * from.row->layout.parts * size_of(type) * 8 /
                                detail::find_safetensors_type(from.tensor->type)->bits;
      std::vector<std::byte> given(bytes);
      detail::read_as(file, *from.tensor, type, given.data());
      if (!from.row->plus.empty()) {
        std::vector<std::byte> added(given.size());
        detail::read_as(file, *names.find(from.row->plus), type, added.data());
        detail::add_elements(type, given.data(), added.data(), given.size() / size_of(type));
      }
      from.order.copy(given.data(), static_cast<std::byte*>(to), size_of(type));
    });
  }
  return std::move(plan.report);
}

}  // namespace weft
WEFT_COLD_END
