// SPDX-License-Identifier: BSL-1.0
// The product of a matrix of random numbers and its transpose on a device that a flag names, the sum of its elements,
// and how long that took: a first program for devices. It says where each node runs.
#include <chrono>
#include <cstdio>
#include <exception>
#include <weft/weft.hpp>

#include "../command_line.hpp"

using namespace weft;

int main(int argc, char** argv) try {
  std::string device = "cpu";
  std::int64_t size = 1000;
  command_line flags("Multiplies two matrices on a device");
  flags.add("device", device, {"cpu", "gpu"}, "cpu or gpu");
  flags.add("size", size, 1, 30'000, "rows and columns of the matrix");
  if (!flags.parse(argc, argv)) return 0;

  graph g;
  const auto x = placeholder<float, dims<dyn<"rows">, dyn<"columns">>>(g, "random_matrix");
  const auto total = [&] {
    const device_scope there(g, device == "gpu" ? device_spec(cuda{0}) : device_spec(cpu{0}));
    return let(sum(let(matmul(x, transpose(x)))));
  }();
  tensor<float, dims<dyn<"rows">, dyn<"columns">>> numbers(shape(size, size));
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < numbers.elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    numbers.data()[i] = static_cast<float>(state >> 8) / (1 << 24);
  }
  session s(g, {.log_device_placement = true});
  const auto began = std::chrono::steady_clock::now();
  const float result = s.eval(total, with(x, numbers));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("result: %.1f\nshape: [%lld, %lld], device: %s\ntime: %.3f s\n", result, static_cast<long long>(size),
              static_cast<long long>(size), device.c_str(), seconds);
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
