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

/// Weights of other libraries, whose names and axes are others.
WEFT_COLD_BEGIN
namespace weft {

/// How a file's tensor becomes a variable: it is seen under `viewed` extents, of which one may be -1, what is left; its
/// axes are taken in the order `axes`; the first `merged` of them are then one. A member that is empty or 0 changes
/// nothing.
struct weight_layout {
  std::vector<std::int64_t> viewed{};
  std::vector<std::size_t> axes{};
  std::size_t merged = 0;
};

/// Layouts of PyTorch's modules, as Weft and TensorFlow have them.
namespace pytorch {

/// Conv2d: [output, input, height, width] becomes [height, width, input, output]. ConvTranspose2d: its [input, output,
/// height, width] becomes [height, width, output, input].
inline weight_layout conv2d() { return {.axes = {2, 3, 1, 0}}; }

/// Linear: [output, input] becomes [input, output].
inline weight_layout linear() { return {.axes = {1, 0}}; }

/// The first Linear behind a Flatten of images [channels, height, width]: its inputs are in that order, and Weft
/// flattens [height, width, channels].
inline weight_layout linear_after_flatten(std::int64_t channels, std::int64_t height, std::int64_t width) {
  return {.viewed = {-1, channels, height, width}, .axes = {2, 3, 1, 0}, .merged = 3};
}

}  // namespace pytorch

/// A row of a table of weights: a tensor's name in the file, the variable's in the graph, empty where the tensor is
/// left out, and how the one becomes the other.
struct weight_row {
  std::string in_file;
  std::string variable;
  weight_layout layout = {};
};

/// The rows, in braces. It is no vector, or `load_weights(path, s, {.partial = true})` would be ambiguous beside it.
struct weight_table {
  std::vector<weight_row> rows;
  weight_table(std::initializer_list<weight_row> list) : rows(list) {}

  /// The row of a tensor; throws not_found without one.
  weight_row& operator[](const std::string& in_file) {
    for (weight_row& row : rows)
      if (row.in_file == in_file) return row;
    throw error(error_code::not_found, "weight_table", {"no row for the tensor '", in_file, "'"});
  }
};

/// Gives variables the values of a safetensors file of another library, by a table of names and layouts; a tensor that
/// is not in the table has its own layout, and the name that `options.rename` says:
///
///     load_weights("lenet.safetensors", s, {{"conv1.weight", "conv1/weights", pytorch::conv2d()},
///                                           {"conv1.bias", "conv1/bias"},
///                                           {"fc1.weight", "dense/weights", pytorch::linear_after_flatten(64, 7, 7)},
///                                           {"bn.num_batches_tracked", ""}});
///
/// Throws not_found where the file has not what the table names, invalid_argument where a layout does not fit its
/// tensor, and what load_weights without a table throws. No variable has changed then.
restore_report load_weights(const std::string& path, session& s, const weight_table& table,
                            const restore_options& options = {});

namespace detail {

/// The elements of a tensor in another order of its axes, row-major.
struct axis_order {
  std::vector<std::int64_t> extents;  ///< of the result
  std::vector<std::size_t> steps;     ///< from element to element of the source, along each of them

  void copy(const std::byte* from, std::byte* to, std::size_t element) const {
    std::size_t count = 1;
    for (const std::int64_t extent : extents) count *= static_cast<std::size_t>(extent);
    std::vector<std::int64_t> index(extents.size(), 0);
    for (std::size_t n = 0, at = 0; n < count; ++n) {
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

/// How the elements are taken; gives `entry` the extents that they have then.
inline axis_order apply_layout(const std::string& path, const weight_layout& layout, safetensors_entry& entry) {
  std::vector<std::int64_t> seen = layout.viewed.empty() ? entry.extents : layout.viewed;
  std::uint64_t given = 1, known = 1;
  std::int64_t* open = nullptr;
  for (const std::int64_t extent : entry.extents) given *= static_cast<std::uint64_t>(extent);
  for (std::int64_t& extent : seen) {
    if (extent >= 0)
      known *= static_cast<std::uint64_t>(extent);
    else if (open)
      layout_does_not_fit(path, entry, "two extents are open");
    else
      open = &extent;
  }
  if (open) {
    *open = known == 0 ? 0 : static_cast<std::int64_t>(given / known);
    known *= static_cast<std::uint64_t>(*open);
  }
  if (known != given) layout_does_not_fit(path, entry, "it is seen with another number of elements");

  std::vector<std::size_t> axes = layout.axes;
  if (axes.empty())
    for (std::size_t i = 0; i < seen.size(); ++i) axes.push_back(i);
  std::vector<std::size_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted.size() != seen.size() || sorted[i] != i)
      layout_does_not_fit(path, entry, "`axes` must have each of its axes once");
  if (layout.merged > axes.size()) layout_does_not_fit(path, entry, "more axes are merged than there are");

  std::vector<std::size_t> steps(seen.size(), 1);
  for (std::size_t i = seen.size(); i-- > 1;) steps[i - 1] = steps[i] * static_cast<std::size_t>(seen[i]);
  axis_order order;
  entry.extents.clear();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    order.extents.push_back(seen[axes[i]]);
    order.steps.push_back(steps[axes[i]]);
    if (i > 0 && i < layout.merged)
      entry.extents.back() *= seen[axes[i]];
    else
      entry.extents.push_back(seen[axes[i]]);
  }
  return order;
}

}  // namespace detail

inline restore_report load_weights(const std::string& path, session& s, const weight_table& table,
                                   const restore_options& options) {
  const safetensors_file file(path);
  const auto row_of = [&](const std::string& name) {
    return std::find_if(table.rows.begin(), table.rows.end(),
                        [&](const weight_row& row) { return row.in_file == name; });
  };
  for (const weight_row& row : table.rows)
    if (!file.find(row.in_file) && !options.partial)
      throw error(error_code::not_found, "load_weights",
                  {path, " has no tensor '", row.in_file,
                   "', which the table names; restore_options{.partial = true} takes what is there"});

  std::vector<safetensors_entry> entries = file.entries();  // with the extents that they will have
  std::vector<detail::axis_order> orders(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (const auto row = row_of(entries[i].name); row != table.rows.end() && !row->variable.empty())
      orders[i] = detail::apply_layout(path, row->layout, entries[i]);
  std::vector<detail::restorable> tensors;
  for (const safetensors_entry& e : entries) tensors.push_back({&file, &e});
  const detail::wanted_variables wanted(s, options.variables);
  restore_options by_table = options;
  by_table.rename = [&](const std::string& name) {
    const auto row = row_of(name);
    return row == table.rows.end() ? options.rename(name) : row->variable;
  };
  detail::restore_plan plan = detail::plan_restore(s, path, tensors, wanted.only(s, by_table), wanted);
  for (const detail::restored_variable& v : plan.variables) {
    const detail::axis_order& order = orders[static_cast<std::size_t>(v.from.entry - entries.data())];
    detail::restore_variable(s, v, [&](void* to) {
      const safetensors_entry& entry = *v.from.entry;
      if (order.extents.empty()) return file.read(entry, to);
      std::vector<std::byte> given(static_cast<std::size_t>(entry.bytes));
      file.read(entry, given.data());
      order.copy(given.data(), static_cast<std::byte*>(to), size_of(s.variable_info(v.node).type));
    });
  }
  return std::move(plan.report);
}

}  // namespace weft
WEFT_COLD_END
