// SPDX-License-Identifier: BSL-1.0
// What library.cpp, compiled with hidden visibility, makes for program.cpp.
#pragma once

#include <weft/weft.hpp>

struct model {
  weft::graph g;
  weft::node<float, weft::dims<weft::dyn<"batch">, 3>> x;
  weft::node<float> loss;
  weft::node<float> doubled;  ///< by an operation of the library's own
  weft::node<float, weft::dims<4>> noise;
};

/// All that the library exports, in one table, so that a program finds it in a plugin too.
struct model_functions {
  model (*make)();
  float (*run)(model&, weft::session&);
  void (*write_offset)(model&, weft::session&, float);
  weft::tensor<float, weft::dims<weft::dyn<"n">>> (*numbers)(std::int64_t count);
  void (*fail)();
  void (*take)(weft::graph&&);
  std::uint64_t (*next_version)();
};

extern "C" __attribute__((visibility("default"))) const model_functions* library_functions();
