// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <initializer_list>
#include <string_view>

#include <weft/graph/graph_of.hpp>
#include <weft/graph/variables.hpp>
#include <weft/train/variable_gradient.hpp>

/// Selects variables or their gradients by patterns of names, for example to train parts of a model with different
/// optimizers. Not part of weft.hpp.
///
///     const auto all = nn::parameters(net);
///     auto train = group(adamw{.weight_decay = 0.05}.minimize(loss, not_matching(all, {"*/bias", "*/scale"})),
///                        adamw{.weight_decay = 0}.minimize(loss, matching(all, {"*/bias", "*/scale"})));
///
/// In a pattern, `*` matches any characters, including "/"; all other characters match themselves. A pattern must match
/// the whole name.
WEFT_COLD_BEGIN
namespace weft {

/// Returns the variables whose names match a pattern, or their gradients, in the order of the list. Throws not_found if
/// a pattern matches no name.
[[nodiscard]] variable_list matching(const variable_list& list, std::initializer_list<std::string_view> patterns);
template <class T>
[[nodiscard]] variable_gradients<T> matching(const variable_gradients<T>& gradients,
                                             std::initializer_list<std::string_view> patterns);
/// Returns the variables or gradients that match no pattern. Throws like matching().
[[nodiscard]] variable_list not_matching(const variable_list& list, std::initializer_list<std::string_view> patterns);
template <class T>
[[nodiscard]] variable_gradients<T> not_matching(const variable_gradients<T>& gradients,
                                                 std::initializer_list<std::string_view> patterns);

namespace detail {

inline bool matches(std::string_view name, std::string_view pattern) {
  std::size_t n = 0, p = 0, star = pattern.size(), resumed = 0;  // the last `*`, and the end of its match
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, resumed = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star < pattern.size()) {
      p = star + 1, n = ++resumed;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// For each variable, true if a pattern matches its name.
inline sequence<bool> find_matching(const char* who, const sequence<symbol>& variables,
                                    std::initializer_list<std::string_view> patterns) {
  sequence<bool> found(variables.size(), false);
  for (const std::string_view pattern : patterns) {
    bool any = false;
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (matches(graph_of(variables[i])[variables[i].id().node].name, pattern)) found[i] = any = true;
    if (any) continue;
    const std::string first = variables.empty() ? std::string() : graph_of(variables[0])[variables[0].id().node].name;
    throw error(error_code::not_found, who,
                {"no variable of the list matches \"", std::string(pattern), "\"; its first variable is \"", first,
                 "\", and patterns must match whole names, as \"*/bias\" does"});
  }
  return found;
}

inline variable_list part_of(const char* who, const variable_list& list,
                             std::initializer_list<std::string_view> patterns, bool wanted) {
  const sequence<symbol>& all = list.erased();
  const sequence<bool> found = find_matching(who, all, patterns);
  sequence<symbol> part;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (found[i] == wanted) part.push_back(all[i]);
  return {list.scope(), part};
}
template <class T>
variable_gradients<T> part_of(const char* who, const variable_gradients<T>& gradients,
                              std::initializer_list<std::string_view> patterns, bool wanted) {
  sequence<symbol> variables;
  for (const auto& pair : gradients) variables.push_back(pair.variable);
  const sequence<bool> found = find_matching(who, variables, patterns);
  variable_gradients<T> part;
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (found[i] == wanted) part.pairs.push_back(gradients.pairs[i]);
  return part;
}

}  // namespace detail

inline variable_list matching(const variable_list& list, std::initializer_list<std::string_view> patterns) {
  return detail::part_of("matching", list, patterns, true);
}
inline variable_list not_matching(const variable_list& list, std::initializer_list<std::string_view> patterns) {
  return detail::part_of("not_matching", list, patterns, false);
}
template <class T>
variable_gradients<T> matching(const variable_gradients<T>& gradients,
                               std::initializer_list<std::string_view> patterns) {
  return detail::part_of("matching", gradients, patterns, true);
}
template <class T>
variable_gradients<T> not_matching(const variable_gradients<T>& gradients,
                                   std::initializer_list<std::string_view> patterns) {
  return detail::part_of("not_matching", gradients, patterns, false);
}

}  // namespace weft
WEFT_COLD_END
