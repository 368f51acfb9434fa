// SPDX-License-Identifier: BSL-1.0
// Built with -O0; odr_b.cpp with -O2 -march=native. Both include everything: that they link shows that no header
// defines a function twice, that they agree shows that no flag changes a type.
#include "odr.hpp"

#include <cstdio>

all_layouts layouts_elsewhere();

int main() {
  if (layouts() == layouts_elsewhere()) return 0;
  std::puts("two translation units built with different flags disagree on the size or alignment of a type");
  return 1;
}
