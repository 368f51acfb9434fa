// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/checkpoint/safetensors.hpp>
#include <weft/graph/graph.hpp>
#include <weft/graph/variables.hpp>
#include <weft/session/session.hpp>

/// Assigns a file's tensors to variables.
WEFT_COLD_BEGIN
namespace weft {

/// Maps a tensor's name in a file to a variable's name in the graph, by a table of names and scopes or by a function. A
/// name that is not in the table is unchanged. An empty name leaves the tensor out. A scope matches whole components,
/// separated by "/" or "."; an entry that ends with "/" or "." is a prefix.
///
///     {{"fc.weight", "dense/weights"}, {"fc.bias", "dense/biases"}}
///     {{"net/encoder", "encoder"}}  // "net/encoder/weights" becomes "encoder/weights"
///     {{"module.", ""}}             // "module.fc.weight" becomes "fc.weight"
///     [](const std::string& name) { return "encoder/" + name; }
class renaming {
 public:
  renaming() = default;
  renaming(std::initializer_list<std::pair<std::string, std::string>> table)
      : renaming(std::vector<std::pair<std::string, std::string>>(table)) {}
  renaming(std::vector<std::pair<std::string, std::string>> table)
      : function_([table = std::move(table)](const std::string& name) {
          for (const auto& [from, to] : table)
            if (from == name) return to;
          for (const auto& [from, to] : table) {
            if (from.empty() || !name.starts_with(from)) continue;
            const char last = from.back(), next = name[from.size()];
            if (last == '/' || last == '.') return to + name.substr(from.size());
            if (next == '/' || next == '.') return to.empty() ? to : to + name.substr(from.size());
          }
          return name;
        }) {}
  template <class F>
    requires(std::is_invocable_r_v<std::string, const F&, const std::string&>)
  renaming(F function) : function_(std::move(function)) {}

  std::string operator()(const std::string& name) const { return function_ ? function_(name) : name; }

 private:
  std::function<std::string(const std::string&)> function_;
};

/// Options for loading weights and restoring checkpoints.
struct restore_options {
  /// If true, mismatches are reported instead of thrown, and the affected variables are unchanged.
  bool partial = false;
  renaming rename{};
  /// The variables that receive values; all others are unchanged, even if the file contains them. Empty: all variables
  /// of the session.
  variable_list variables{};
};

/// The outcome for a file's tensors and a session's variables.
struct restore_report {
  /// A variable whose element type or extents differ from the tensor's in the file.
  struct difference {
    std::string name;      ///< of the variable
    std::string in_file;   ///< "F32 [784, 100]"
    std::string in_graph;  ///< "float [784, 10]"
  };
  std::vector<std::string> restored;  ///< variables that now have the file's values
  std::vector<std::string> missing;   ///< variables without a tensor in the file
  std::vector<std::string> extra;     ///< tensors without a variable, by their names in the file
  std::vector<difference> different;  ///< variables whose extents or element type differ from the tensor's

  bool complete() const { return missing.empty() && extra.empty() && different.empty(); }
};

/// "2 variables restored; missing in the file: b; extra in the file: c; different: ...".
std::string to_string(const restore_report& report);

namespace detail {

/// A tensor of a file, before it is assigned to a variable.
struct restorable {
  const safetensors_file* file;
  const safetensors_entry* entry;
  const safetensors_entry* in_file = nullptr;  // the unconverted tensor, if `entry` describes a converted one
};
struct restored_variable {
  restorable from;
  std::uint32_t node;
};
struct restore_plan {
  restore_report report;
  std::vector<restored_variable> variables;
};

inline bool records_variable(const graph& g, std::uint32_t n) { return is_operation<variable_op>(g[n].def.op); }
inline bool is_weight(const graph& g, std::uint32_t n) {
  const variable_kind kind = kind_of(g[n].def);
  return kind == variable_kind::trained || kind == variable_kind::averaged || kind == variable_kind::frozen;
}

/// Returns true if a tensor of the file's type can be converted to the variable's: both must be floating-point types.
inline bool converts(const std::string& in_file, dtype type) {
  const auto is_floating = [](dtype t) {
    return t == dtype::float16 || t == dtype::bfloat16 || t == dtype::float32 || t == dtype::float64;
  };
  const safetensors_type* const from = find_safetensors_type(in_file);
  return from && from->known && is_floating(from->type) && is_floating(type);
}

/// Rounds to odd: an inexact result has a last bit of 1, so rounding it again, to half or bfloat16, gives the same
/// result as rounding `a` once (Boldo and Melquiond, IEEE Transactions on Computers, 2008).
inline float round_to_odd(double a) {
  const float nearest = static_cast<float>(a);
  const double back = static_cast<double>(nearest);
  if (back == a || a != a) return nearest;
  std::uint32_t bits;
  std::memcpy(&bits, &nearest, sizeof bits);
  if ((back > a) == (a > 0)) --bits;  // the nearest is farther from 0
  bits |= 1;
  float odd;
  std::memcpy(&odd, &bits, sizeof odd);
  return odd;
}

template <class To, class From>
To convert_element(From a) {
  if constexpr (is_storage_type<To> && std::is_same_v<From, double>)
    return static_cast<To>(round_to_odd(a));
  else if constexpr (is_storage_type<To> || is_storage_type<From>)
    return static_cast<To>(static_cast<float>(a));
  else
    return static_cast<To>(a);
}

template <class From, class To>
void convert_elements(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    From a;
    std::memcpy(&a, from + i * sizeof(From), sizeof(From));
    const To b = convert_element<To>(a);
    std::memcpy(to + i * sizeof(To), &b, sizeof(To));
  }
}
template <class From>
void convert_elements(const std::byte* from, dtype to_type, std::byte* to, std::size_t count) {
  switch (to_type) {
    case dtype::float16:
      return convert_elements<From, half>(from, to, count);
    case dtype::bfloat16:
      return convert_elements<From, bfloat16>(from, to, count);
    case dtype::float64:
      return convert_elements<From, double>(from, to, count);
    default:
      return convert_elements<From, float>(from, to, count);
  }
}
/// Rounds elements of a file's floating-point type to another one.
inline void convert_elements(const std::string& in_file, const std::byte* from, dtype to_type, std::byte* to,
                             std::size_t count) {
  switch (find_safetensors_type(in_file)->type) {
    case dtype::float16:
      return convert_elements<half>(from, to_type, to, count);
    case dtype::bfloat16:
      return convert_elements<bfloat16>(from, to_type, to, count);
    case dtype::float64:
      return convert_elements<double>(from, to_type, to, count);
    default:
      return convert_elements<float>(from, to_type, to, count);
  }
}

/// Reads a tensor as elements of `type`; converts them if the file has another type.
inline void read_as(const safetensors_file& file, const safetensors_entry& e, dtype type, void* to) {
  if (e.type == safetensors_name(type)) return file.read(e, to);
  std::vector<std::byte> given(static_cast<std::size_t>(e.bytes));
  file.read(e, given.data());
  convert_elements(e.type, given.data(), type, static_cast<std::byte*>(to),
                   given.size() * 8 / find_safetensors_type(e.type)->bits);
}

inline std::string described(const safetensors_entry& e) { return e.type + " " + extents_text(e.extents); }

/// Assigns tensors to variables. A variable must have a tensor if `wanted(node)` is true. With `convert`,
/// floating-point tensors fit variables of other floating-point types. On a mismatch, throws invalid_argument unless
/// `options.partial` is set. Writes no variable.
template <class Wanted>
restore_plan plan_restore(session& s, const std::string& path, const std::vector<restorable>& tensors,
                          const restore_options& options, Wanted wanted, bool convert = false) {
  const graph& g = s.of();
  std::vector<std::pair<std::string, std::uint32_t>> variables;
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (records_variable(g, n)) variables.emplace_back(g[n].name, n);
  std::sort(variables.begin(), variables.end());
  std::vector<const safetensors_entry*> taken(variables.size(), nullptr);

  restore_plan plan;
  for (const restorable& t : tensors) {
    const std::string name = options.rename(t.entry->name);
    if (name.empty()) continue;
    const auto found = std::lower_bound(variables.begin(), variables.end(), std::pair(name, std::uint32_t{0}));
    if (found == variables.end() || found->first != name) {
      plan.report.extra.push_back(t.entry->name);
      continue;
    }
    const safetensors_entry*& by = taken[static_cast<std::size_t>(found - variables.begin())];
    if (by)
      throw error(
          error_code::invalid_argument, "restore",
          {path, ": rename maps two tensors to the variable '", name, "': '", by->name, "' and '", t.entry->name, "'"});
    by = t.entry;
    const value_info info = s.variable_info(found->second);
    const dtype type_in_file =
        convert && converts(t.entry->type, info.type) ? find_safetensors_type(t.entry->type)->type : info.type;
    if (is_of(*t.entry, type_in_file, info.extents)) {
      plan.variables.push_back({t, found->second});
      plan.report.restored.push_back(name);
    } else {
      std::string in_file = described(t.in_file ? *t.in_file : *t.entry);
      if (t.in_file && t.in_file->extents != t.entry->extents)
        append(in_file, {" (", extents_text(t.entry->extents), " after the table's conversion)"});
      plan.report.different.push_back({name, in_file, str_cat({weft::name(info.type), " ", to_string(info.extents)})});
    }
  }
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (!taken[i] && wanted(variables[i].second)) plan.report.missing.push_back(variables[i].first);
  if (!options.partial && !plan.report.complete())
    throw error(error_code::invalid_argument, "restore",
                {path, " does not match the graph's variables: ", to_string(plan.report),
                 "; restore_options{.partial = true} restores those that match, .rename maps names"});
  for (const restored_variable& v : plan.variables) s.state_to_write(v.node);  // throws before anything changes
  return plan;
}

/// Calls `read(to)` to read a tensor directly into the variable's memory if that is local host memory, else into a host
/// buffer.
template <class Read>
void restore_variable(session& s, const restored_variable& v, Read read) {
  plan::variable_state& state = s.state_to_write(v.node);
  const std::string& path = v.from.file->path();
  if (!state.where.gpu && state.data()) {  // false for a variable of another task
    const plan::variable_writer to = state.write();
    read(to.data());
    check_bools(path, *v.from.entry, to.data());
    state.initialized = true;
    return;
  }
  const storage staged(s.variable_info(v.node).bytes());
  read(staged.data());
  check_bools(path, *v.from.entry, staged.data());
  s.write_variable(v.node, staged.data());
}

inline void append_names(std::string& text, const char* what, const std::vector<std::string>& names) {
  constexpr std::size_t most = 10;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) append(text, {i ? ", " : what, names[i]});
  if (names.size() > most) append(text, {" and ", names.size() - most, " more"});
}

}  // namespace detail

inline std::string to_string(const restore_report& report) {
  std::string text = str_cat({report.restored.size(), " variables match"});
  detail::append_names(text, "; missing in the file: ", report.missing);
  detail::append_names(text, "; extra in the file: ", report.extra);
  std::vector<std::string> different;
  for (const restore_report::difference& d : report.different)
    different.push_back(str_cat({d.name, " is ", d.in_file, " in the file and ", d.in_graph, " in the graph"}));
  detail::append_names(text, "; different: ", different);
  return text;
}

}  // namespace weft
WEFT_COLD_END
