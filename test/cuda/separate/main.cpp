// SPDX-License-Identifier: BSL-1.0
// Compiled by the host's compiler, first.cu and second.cu by nvcc: what the three have in common is there once, what is
// one file's own is not another's. Without arguments it looks, with `gpu` it trains on the first GPU.
#include "unit.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>

#include <cuda_runtime_api.h>

using namespace weft;

namespace {

struct own {
  static constexpr const char* name = "own";
  static constexpr bool floating_only = true;
  template <class V>
  static V apply(V x) {
    return math::tanh(x);
  }
  template <class V>
  static V gradient(V g, V, V y) {
    return g * (V(1) - y * y);
  }
};

int failures = 0;

void check(bool good, const char* what, const std::string& of = {}) {
  if (good) return;
  ++failures;
  std::printf("failed: %s%s%s\n", what, of.empty() ? "" : ": ", of.c_str());
}

bool is_own(const node_kernels& k) { return k.what.find("own") != std::string::npos; }

void check_equal(const std::vector<float>& a, const std::vector<float>& b, float tolerance, const char* what) {
  check(a.size() == b.size(), what);
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    check(std::abs(a[i] - b[i]) <= tolerance * std::abs(b[i]), what,
          "step " + std::to_string(i) + ", " + std::to_string(a[i]) + " and " + std::to_string(b[i]));
}

}  // namespace

int main(int count, char** arguments) {
  const unit first = first_unit(), second = second_unit(), here = look<own>();
  check(first.layouts == here.layouts && second.layouts == here.layouts, "the files agree on every type");
  check(first.separate == SEPARATE && second.separate == SEPARATE && !here.separate,
        "the device code is linked as asked");
  check(first.fill && second.fill && !here.fill, "what is compiled for GPUs has kernels");
  if (SEPARATE) check(first.fill == second.fill, "a kernel of both files is one kernel");

  // Every file finds the same code of what all three write down.
  check(first.nodes.size() == here.nodes.size() && second.nodes.size() == here.nodes.size(),
        "the graphs are one graph");
  int of_its_own = 0;
  for (std::size_t n = 0; n < here.nodes.size() && !failures; ++n) {
    const node_kernels &a = first.nodes[n], &b = second.nodes[n], &c = here.nodes[n];
    check(a.prepare, "it is prepared for GPUs", a.what);
    if (!is_own(a)) {
      check(a == b && a == c, "it is the same in every file", a.what);
      continue;
    }
    ++of_its_own;
    const void* const codes[3][4] = {{a.map, a.gradient, a.gradient_sums, a.reduction},
                                     {b.map, b.gradient, b.gradient_sums, b.reduction},
                                     {c.map, c.gradient, c.gradient_sums, c.reduction}};
    for (int k = 0; k < 4; ++k) {
      check(!codes[0][k] == !codes[1][k] && (!codes[0][k] || codes[0][k] != codes[1][k]), "each file has its own",
            a.what);
      check(!codes[2][k], "a file that is not compiled for GPUs has none of its own", c.what);
    }
  }
  check(of_its_own >= 2, "there is an operation of one's own, and its gradient");

  const std::vector<float> squares = train<formula::square>({}), exponentials = train<formula::exp>({});
  check_equal(train_first({}), squares, 1e-6f, "the first file trains with its own operation");
  check_equal(train_second({}), exponentials, 1e-6f, "the second file trains with its own operation");
  check(std::abs(squares[3] - exponentials[3]) > 0.1f, "the two are not the same");
  if (count < 2 || std::strcmp(arguments[1], "gpu") != 0) return failures != 0;

  auto& gpus = *gpu::installed_platform;
  if (gpus.count() == 0) {
    std::printf("skipped: %s\n", gpus.reason().c_str());
    return failures ? 1 : 77;
  }
  gpus.at(0);
  for (const unit* u : {&first, &second})
    for (const node_kernels& k : u->nodes)
      for (const void* code : {k.map, k.gradient, k.gradient_sums, k.reduction, u->fill}) {
        cudaFuncAttributes a;
        if (code) check(cudaFuncGetAttributes(&a, code) == cudaSuccess, "CUDA knows the kernel", k.what);
      }
  session_options options;
  options.device = cuda{0};
  check_equal(train_first(options), squares, 1e-4f, "the first file trains on the GPU");
  check_equal(train_second(options), exponentials, 1e-4f, "the second file trains on the GPU");
  return failures != 0;
}
