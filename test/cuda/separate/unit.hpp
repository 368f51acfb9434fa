// SPDX-License-Identifier: BSL-1.0
#pragma once

// The files of the program `separate` have this in common: a model that each of them writes down for itself, with one
// operation that is its own and has the name and the type's name of the others' own.

#include <cstdint>
#include <string>
#include <vector>

#include <weft/cuda.hpp>

#include "packaging/odr.hpp"

/// The kernels of one node of a graph: where its code begins, as a map, a gradient with or without sums, or a
/// reduction, and what prepares it. Null for what it has not.
struct node_kernels {
  std::string what;
  const void *map = nullptr, *gradient = nullptr, *gradient_sums = nullptr, *reduction = nullptr, *prepare = nullptr;
  bool operator==(const node_kernels&) const = default;
};

/// The layouts and kernels that one file of the program sees.
struct unit {
  all_layouts layouts;
  bool separate = false;       ///< whether its device code is linked with that of others
  const void* fill = nullptr;  ///< the address of a kernel that every file with kernels has; null in the others
  std::vector<node_kernels> nodes{};
};

unit first_unit();
unit second_unit();
/// The losses of some steps, each before its update.
std::vector<float> train_first(const weft::session_options&);
std::vector<float> train_second(const weft::session_options&);

namespace {

template <class Own>
auto model(weft::graph& g) {
  using namespace weft;
  const auto x = placeholder<float, dims<dyn<"batch">, 8>>(g, "x");
  const auto w = variable<float, dims<8, 4>>(g, "w", init::glorot_uniform{});
  const auto b = variable<float, dims<4>>(g, "b", init::zeros{});
  const auto hidden = let(sigmoid(matmul(x, w) + b));
  const auto loss = mean(square(let(elementwise<Own>(hidden * 2.0f)) - 3.0f));
  return std::tuple{x, loss, gradient_descent{.learning_rate = 0.1}.minimize(loss)};
}

template <class Own>
std::vector<float> train(const weft::session_options& options) {
  using namespace weft;
  graph g(5);
  const auto [x, loss, update] = model<Own>(g);
  session s(g, options);
  auto step = s.prepare(fetch(loss, update), feed(x));
  tensor<float, dims<dyn<"batch">, 8>> images(shape(6, 8));
  for (std::size_t i = 0; i < images.elements(); ++i) images.data()[i] = static_cast<float>(i % 7) / 7;
  std::vector<float> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(std::get<0>(step(images)));  // the third is the first recorded one
  return losses;
}

template <class Own>
unit look() {
  using namespace weft;
  unit u;
  u.layouts = layouts();
#if defined(__CUDACC_RDC__) || defined(__CLANG_RDC__)
  u.separate = true;
#endif
#if WEFT_COMPILES_FOR_GPU
  u.fill = reinterpret_cast<const void*>(&gpu::detail::run_body<gpu::map_body<gpu::fill_program<float>, 4>>);
#endif
  graph g;
  model<Own>(g);
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    const operation& op = *g[n].def.op;
    if (!op.prepare_cpu) continue;
    node_kernels k;
    k.what = op.name;
    if (op.gpu) k.prepare = reinterpret_cast<const void*>(op.gpu->prepare);
    if (const fused* f = op.expression ? op.expression(g[n].def.detail) : nullptr) {
      k.what += ' ';
      skeleton::print(f->text, k.what);
      if (f->gpu->map) k.map = f->gpu->map->vector.device;
      if (f->gpu->gradient) k.gradient = f->gpu->gradient->vector.device;
      if (f->gpu->gradient_sums) k.gradient_sums = f->gpu->gradient_sums->body.device;
    }
    if (is_operation<weft::detail::reduction_op>(&op))
      if (const auto* code = *static_cast<const fused_reduction*>(g[n].def.detail)->gpu)
        k.reduction = code->body.device;
    u.nodes.push_back(k);
  }
  return u;
}

}  // namespace
