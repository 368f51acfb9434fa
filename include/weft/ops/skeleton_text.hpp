// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/ops/skeleton.hpp>
#include <weft/text.hpp>

WEFT_COLD_BEGIN
namespace weft::skeleton {

/// A token of a skeleton in prefix order, for printing and recognition: an operation with its number of operands, an
/// argument or a constant.
struct token {
  const char* operation = nullptr;  // null for arguments and constants
  int number = 0;                   // the number of operands, or the index of an argument; ~index for a constant
  formula_id formula{};
  dtype type{};
  const char* onnx = nullptr;  // of an operation: how ONNX expresses it; null if it does not (onnx/forms.hpp)
};

template <class Op>
constexpr const char* onnx_form_of() {
  if constexpr (requires { Op::onnx; })
    return Op::onnx;
  else
    return nullptr;
}

/// The number of tokens.
template <class S>
inline constexpr std::size_t length_of = 1;
template <class Op, class T, class... S>
inline constexpr std::size_t length_of<apply<Op, T, S...>> = 1 + (length_of<S> + ...);

template <std::size_t Length>
struct token_list {
  token tokens[Length];
};

// Each overload writes the tokens of a skeleton, and returns the end of its output.
template <int Index, class T>
constexpr token* list(argument<Index, T>*, token* to) {
  *to = {nullptr, Index, {}, dtype_of<T>};
  return to + 1;
}
template <int Index, class T>
constexpr token* list(constant<Index, T>*, token* to) {
  *to = {nullptr, ~Index, {}, dtype_of<T>};
  return to + 1;
}
template <class Op, class T, class... S>
constexpr token* list(apply<Op, T, S...>*, token* to) {
  *to++ = {Op::name, static_cast<int>(sizeof...(S)), id_of_formula<Op>, dtype_of<T>, onnx_form_of<Op>()};
  ((to = list(static_cast<S*>(nullptr), to)), ...);
  return to;
}

/// Returns true if an expression applies an operation of this name.
__attribute__((noinline)) inline bool contains(const token* t, const char* operation) {
  for (int left = 1; left > 0; --left, ++t) {
    if (!t->operation) continue;
    if (__builtin_strcmp(t->operation, operation) == 0) return true;
    left += t->number;
  }
  return false;
}

/// Returns true if two expressions apply the same of Weft's formulas to the same arguments, in the same element types.
/// Compares values, because each module of a process has its own lists of tokens.
__attribute__((noinline)) inline bool same(const token* a, const token* b) {
  for (int left = 1; left > 0; --left, ++a, ++b) {
    if (!a->operation != !b->operation || a->number != b->number || a->formula != b->formula || a->type != b->type)
      return false;
    if (!a->operation) continue;
    if (a->formula == formula_id{}) return false;  // users' formulas have no identifier
    left += a->number;
  }
  return true;
}

/// Returns true if an expression applies one of Weft's formulas to its arguments in order, and nothing else.
__attribute__((noinline)) inline bool applies_only(const token* t, formula_id formula) {
  if (!t->operation || t->formula != formula) return false;
  for (int i = 0; i < t->number; ++i)
    if (t[i + 1].operation || t[i + 1].number != i) return false;
  return true;
}

/// Appends "sigmoid(add(a0, c0))", with the values of the constants in place of c0 and so on if given.
__attribute__((noinline)) inline const token* print(const token* t, std::string& out,
                                                    const std::string* constants = nullptr) {
  if (!t->operation) {
    if (t->number >= 0)
      append(out, {"a", t->number});
    else if (constants)
      out += constants[~t->number];
    else
      append(out, {"c", ~t->number});
    return t + 1;
  }
  out += t->operation;
  const int operands = t++->number;
  for (int i = 0; i < operands; ++i) {
    out += i ? ", " : "(";
    t = print(t, out, constants);
  }
  out += ")";
  return t;
}

inline std::string print(const token* t) {
  std::string text;
  print(t, text);
  return text;
}

}  // namespace weft::skeleton
WEFT_COLD_END
