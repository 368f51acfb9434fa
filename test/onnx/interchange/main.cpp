// SPDX-License-Identifier: BSL-1.0
// The program that test/onnx/file.py runs: rewrite BYTES FROM TO...   reads each FROM and writes it as the TO that
// follows; initializers of more than BYTES bytes are written outside the model.

#include <cstdio>
#include <cstdlib>
#include <weft/onnx/file.hpp>

int main(int count, char** given) {
  int refused = 0;
  const unsigned long long bytes = std::strtoull(given[1], nullptr, 10);
  for (int i = 2; i + 1 < count; i += 2) try {
      weft::onnx::write_model(given[i + 1], weft::onnx::read_model(given[i]), {.external_above = bytes});
    } catch (const weft::error& e) {
      std::printf("%s\n", e.what());
      ++refused;
    }
  return refused != 0;
}
