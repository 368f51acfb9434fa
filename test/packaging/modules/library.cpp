// SPDX-License-Identifier: BSL-1.0
#define FACTOR 2.0f
#include <weft/graph/random.hpp>
#include <weft/ops/index/gather.hpp>

#include "library.hpp"
#include "operation.hpp"

using namespace weft;

namespace {

constexpr model_functions functions = {
    .make =
        [] {
          graph g;
          const auto x = placeholder<float, dims<dyn<"batch">, 3>>(g, "x");
          const auto weights = variable<float, dims<3, 2>>(g, "weights", init::ones{});
          const auto offset = variable<float, dims<2>>(g, "offset", 0.5f);
          const auto rows = variable<float, dims<5, 2>>(g, "rows", init::constant{0.25});
          const auto taken = gather(rows, constant(g, tensor<std::int32_t, dims<3>>{1, 4, 1}));
          const auto y = let(tanh(matmul(x, weights) * 0.125f + offset));
          const node<float> loss = let(mean(square(y)) + sum(taken) * 0.5f);
          const node<float, dims<4>> noise = random_uniform<float, dims<4>>(g, 0, 1);
          return model{std::move(g), x, loss, scale(loss), noise};
        },
    .run =
        [](model& m, session& s) {
          tensor<float, dims<dyn<"batch">, 3>> x(shape(2, 3));
          x.fill(1);
          return s.eval(m.loss, with(m.x, x));
        },
    .write_offset =
        [](model& m, session& s, float to) {
          tensor<float, dims<2>> value;
          value.fill(to);
          s.set(find_variable<float, dims<2>>(m.g, "offset"), value);
        },
    .numbers =
        [](std::int64_t count) {
          tensor<float, dims<dyn<"n">>> made(shape{count});
          made.fill(3);
          return made;
        },
    .fail = [] { throw error(error_code::not_found, "library", "has nothing"); },
    .take = [](graph&& g) { const graph taken = std::move(g); },
    .next_version = [] { return content_version::next(); },
};

}  // namespace

const model_functions* library_functions() { return &functions; }
