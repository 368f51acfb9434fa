// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/ops/skeleton.hpp>
#include <weft/text.hpp>

WEFT_COLD_BEGIN
namespace weft::skeleton {

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
