// SPDX-License-Identifier: BSL-1.0
// Elementwise functions, arrays and reductions, exported to ONNX. ONNX Runtime computes the same values.
#include "onnx/exported.hpp"

#include <weft/graph/random.hpp>
#include <weft/ops/arrays/axes.hpp>
#include <weft/ops/arrays/diagonal.hpp>
#include <weft/ops/arrays/pad_modes.hpp>
#include <weft/ops/arrays/reverse.hpp>
#include <weft/ops/arrays/roll.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/arrays/triangles.hpp>
#include <weft/ops/elementwise/activations.hpp>
#include <weft/ops/elementwise/bits.hpp>
#include <weft/ops/elementwise/predicates.hpp>
#include <weft/ops/elementwise/rounding.hpp>
#include <weft/ops/elementwise/special.hpp>
#include <weft/ops/elementwise/trigonometry.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/gather_nd.hpp>
#include <weft/ops/index/one_hot.hpp>
#include <weft/ops/index/scatter.hpp>
#include <weft/ops/index/searchsorted.hpp>
#include <weft/ops/index/segments.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/reduce/argmax.hpp>
#include <weft/ops/reduce/reductions.hpp>
#include <weft/ops/reduce/scan.hpp>

#include "errors.hpp"

using namespace weft;
using test::some;

BOOST_AUTO_TEST_CASE(elementwise_functions) {
  test::exported_models models;
  graph g;
  using batch = dims<dyn<"batch">, 5>;
  auto x = placeholder<float, batch>(g, "x");
  auto y = placeholder<float, batch>(g, "y");
  auto row = constant(g, some<tensor<float, dims<5>>>());
  session s(g);
  const tensor<float, batch> a = some<tensor<float, batch>>(2, shape(3, 5)), b = tensor<float, batch>(a * a + 0.25f);
  models.add("arithmetic", s, fetch(x + y, x - row, x * y, x / y, -x, pow(y, x), maximum(x, y), minimum(x, row)),
             feed(x, y), "Add Div Max Min Mul Neg Pow Sub", a, b);
  models.add("numbers", s, fetch(x + 1, 2 - x, x * 0.5, 1 / y), feed(x, y), "", a, b);
  models.add("functions", s,
             fetch(abs(x), sign(x), floor(x), square(x), sqrt(y), rsqrt(y), exp(x), log(y), log1p(y), expm1(x), tanh(x),
                   sigmoid(x), erf(x), sin(x), cos(x)),
             feed(x, y), "", a, b);
  models.add("activations", s,
             fetch(softplus(x), relu(x), relu6(x), elu(x), selu(x), gelu(x), gelu_tanh(x), silu(x), softsign(x),
                   hard_sigmoid(x), hard_swish(x), mish(x), log_sigmoid(x)),
             feed(x), "", a);
  models.add("comparisons", s,
             fetch(x<y, x <= y, x> y, x >= y, x == y, x != y, x < 0 && y < 1, x < 0 || y < 1, !(x < y),
                   select(x < 0, x, y), cast<std::int32_t>(x * 3), cast<double>(x), cast<half>(x)),
             feed(x, y), "", a, b);
  models.add("further", s,
             fetch(ceil(x), round(x), trunc(x), floor_div(x, y), floor_mod(x, y), fmod(x, y), is_nan(x), is_inf(x),
                   is_finite(x), heaviside(x, y), exp2(x), log2(y), log10(y), sinc(x), hypot(x, y), logaddexp(x, y),
                   xlogy(y, y), erfc(x)),
             feed(x, y), "", a, b);
  models.add("trigonometry", s,
             fetch(tan(x), asin(x / 3), acos(x / 3), atan(x), sinh(x), cosh(x), asinh(x), acosh(y + 1), atanh(x / 3),
                   atan2(x, y)),
             feed(x, y), "", a, b);

  auto i = placeholder<std::int32_t, batch>(g, "i");
  auto k = placeholder<std::int32_t, batch>(g, "k");
  const tensor<std::int32_t, batch> p = some<tensor<std::int32_t, batch>>(20, shape(3, 5)),
                                    q = tensor<std::int32_t, batch>(select(p == 0, 7, p * 3 + 1));
  models.add("integers", s,
             fetch(i + k, i - k, i * k, i / k, -i, abs(i), floor_div(i, k), floor_mod(i, k), i & k, i | k, i ^ k, ~i,
                   maximum(i, k), i < k, select(i < k, i, 3), cast<float>(i), sum<1>(i), max<0>(k)),
             feed(i, k), "", p, q);
  auto u = placeholder<std::uint32_t, batch>(g, "u");
  auto v = placeholder<std::uint64_t, batch>(g, "v");
  auto bytes = placeholder<std::uint8_t, batch>(g, "bytes");
  models.add("unsigned_integers", s, fetch(max<1>(u), min<1>(u), sum<1>(u), sum<1>(v), max<1>(bytes), sum<1>(bytes)),
             feed(u, v, bytes), "", tensor<std::uint32_t, batch>(cast<std::uint32_t>(p) * 100'000'000u),
             tensor<std::uint64_t, batch>(cast<std::uint64_t>(p) + 0x8000'0000'0000u),
             tensor<std::uint8_t, batch>(cast<std::uint8_t>(p)));
  auto d = placeholder<double, batch>(g, "d");
  models.add("doubles", s, fetch(d * 2 + 1, exp(d), tanh(d), sum<0>(d), cast<float>(d)), feed(d), "",
             some<tensor<double, batch>>(1, shape(3, 5)));
  auto h = placeholder<half, batch>(g, "h");
  models.add("halves", s, fetch(cast<half>(cast<float>(h) * 2), cast<float>(h) + 1, transpose<1, 0>(h)), feed(h), "",
             tensor<half, batch>(cast<half>(a)));
  auto flags = placeholder<bool, batch>(g, "flags");
  models.add("flags", s,
             fetch(!flags, any<1>(flags), all<0>(flags), cast<float>(flags), select(flags, x, 0),
                   select(x < 1, flags, !flags)),
             feed(flags, x), "", tensor<bool, batch>(a < 0), a);
}

BOOST_AUTO_TEST_CASE(arrays) {
  test::exported_models models;
  graph g;
  using batch = dims<dyn<"batch">, 4, 6>;
  auto x = placeholder<float, batch>(g, "x");
  session s(g);
  const auto a = some<tensor<float, batch>>(2, shape(3, 4, 6));
  models.add("reductions", s,
             fetch(sum(x), mean<0>(x), sum<1, 2>(x), max<2>(x), min<1>(x), prod<1>(x), sum<1>(x * x + 1),
                   variance<2>(x), argmax<2>(x), x - mean<-1, keep_dims>(x)),
             feed(x), "", a);
  models.add(
      "shapes", s,
      fetch(reshape<dims<dyn<"batch">, 24>>(x), transpose<0, 2, 1>(x) + 1, transpose<2, 0, 1>(x), expand_dims<1>(x),
            shape_of(x), size(x), broadcast_to<dims<2, dyn<"batch">, 4, 6>>(x), flatten<0, 1>(x)),
      feed(x), "", a);
  const auto [left, right] = split<2, 2>(x);
  models.add(
      "parts", s,
      fetch(slice<1, 1, 2>(x), slice<2, 0, 3, 2>(x), strided_slice<bounds{}, bounds{.step = -1}, 2>(x),
            strided_slice<bounds{1}>(x), reverse<1, 2>(x), roll<1>(x, 3), left, right, left * right, concat<0>(x, x),
            concat<2>(left, right, left), stack<1>(left, right), slice<1, 2>(x, constant(g, tensor<std::int64_t>(1)))),
      feed(x), "", a);
  models.add("pads", s,
             fetch(pad<1, 2, 1>(x), pad<2, 0, 3>(x, 7.f), pad<2, 2, 3, pad_mode::reflect>(x),
                   pad<2, 1, 2, pad_mode::edge>(x), pad<2, 1, 2, pad_mode::wrap>(x)),
             feed(x), "", a);
  models.add("sequences", s, fetch(cumsum<1>(x), cumsum<2>(x, {.exclusive = true, .reverse = true}), zeros_like(x) + 1),
             feed(x), "", a);
  auto at = placeholder<std::int32_t, dims<dyn<"n">>>(g, "at");
  auto each = placeholder<std::int32_t, dims<dyn<"batch">, 4, 2>>(g, "each");
  models.add("indices", s,
             fetch(gather<1>(x, at), gather<0>(x, at), one_hot<5>(at), take_along_axis<2>(x, each), sort<2>(x),
                   argsort<1>(x, direction::descending), top_k<3>(x).values, top_k<3>(x).indices),
             feed(x, at, each), "", a, tensor<std::int32_t, dims<dyn<"n">>>(shape(4), {2, 0, 1, 2}),
             tensor<std::int32_t, dims<dyn<"batch">, 4, 2>>(
                 some<tensor<std::int32_t, dims<dyn<"batch">, 4, 2>>>(0, shape(3, 4, 2)) + 5));
  auto rows = placeholder<float, dims<dyn<"n">, 4, 6>>(g, "rows");
  auto ids = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "ids");
  models.add(
      "scatters", s,
      fetch(scatter<0>(x, at, rows), scatter<0>(x, at, rows, combine::add), scatter<0>(x, at, rows, combine::max),
            scatter<1>(x, constant(g, tensor<std::int32_t, dims<2>>{3, 0}), slice<1, 0, 2>(x)),
            scatter_along_axis<2>(x, each, slice<2, 0, 2>(x), combine::add), unsorted_segment_sum<5>(x, ids),
            unsorted_segment_mean<5>(x, ids)),
      feed(x, at, rows, each, ids), "", a, tensor<std::int32_t, dims<dyn<"n">>>(shape(2), {2, 0}),
      some<tensor<float, dims<dyn<"n">, 4, 6>>>(3, shape(2, 4, 6)),
      tensor<std::int32_t, dims<dyn<"batch">, 4, 2>>(
          some<tensor<std::int32_t, dims<dyn<"batch">, 4, 2>>>(0, shape(3, 4, 2)) + 5),
      tensor<std::int32_t, dims<dyn<"batch">>>(shape(3), {4, -1, 4}));
  auto squares = constant(g, some<tensor<float, dims<2, 4, 4>>>());
  models.add("matrices", s,
             fetch(diag_part(squares), diag_part<1>(squares), diag<-2>(squares), diag(squares), tril(squares, -1),
                   gather_nd(x, expand_dims<1>(at)), searchsorted(sort<2>(x), x), unsorted_segment_max<5>(x, ids)),
             feed(x, at, ids), "", a, tensor<std::int32_t, dims<dyn<"n">>>(shape(2), {2, 0}),
             tensor<std::int32_t, dims<dyn<"batch">>>(shape(3), {4, 1, 4}));
  models.add("numbers", s, fetch(range<float, dyn<"batch">>(g, 3.f, 0.5f), fill<float, dims<dyn<"batch">, 2>>(g, 2.f)),
             feed(x), "", a);
  // Computed extents are symbolic dimensions, too.
  auto twice = concat<0>(x, x);
  models.add("computed", s,
             fetch(reshape<dims<dyn<"batch"> + dyn<"batch">, 24>>(twice), slice<0, 0, dyn<"batch">>(twice)), feed(x),
             "", a);
  // Extents of 0, in a shape and in a batch, and shapes of several names.
  auto none = placeholder<float, dims<0, 3>>(g, "none");
  models.add("empty", s, fetch(reshape<dims<3, 0>>(none), sum<0>(none), concat<0>(none, none), sum(none)), feed(none),
             "", tensor<float, dims<0, 3>>());
  auto table = placeholder<float, dims<dyn<"rows">, dyn<"columns">, 2>>(g, "table");
  auto turned = fetch(reshape<dims<2, dyn<"columns">, dyn<"rows">>>(table),
                      reshape<dims<2, dyn<"rows"> * dyn<"columns">>>(table));
  models.add("table", s, turned, feed(table), "",
             some<tensor<float, dims<dyn<"rows">, dyn<"columns">, 2>>>(1, shape(3, 4, 2)));
  models.add("no_columns", s, turned, feed(table), "",
             tensor<float, dims<dyn<"rows">, dyn<"columns">, 2>>(shape(3, 0, 2)));
  models.add(
      "no_batch", s,
      fetch(reshape<dims<dyn<"batch">, 24>>(x), reshape<dims<dyn<"batch"> * extent<2>, 12>>(x), flatten<0, 2>(x)),
      feed(x), "", tensor<float, batch>(shape(0, 4, 6)));
  // Transposes that undo each other disappear.
  models.add("transposes", s, fetch(transpose<0, 2, 1>(relu(transpose<0, 2, 1>(x)) * 2)), feed(x), "Mul Relu", a);
}

BOOST_AUTO_TEST_CASE(mistakes) {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto y = placeholder<float, dims<3>>(g, "y");
  auto w = variable<float, dims<3>>(g, "w", init::constant{0});
  session s(g);
  folder f;
  const std::string path = (f.path / "model.onnx").string();
  const auto refused = [&](const auto& fetched, const char* words) {
    try {
      save_onnx(path, s, fetch(fetched), feed(x));
      BOOST_ERROR("exported");
    } catch (const error& e) {
      BOOST_TEST(std::string(e.what()).find(words) != std::string::npos, e.what());
    }
  };
  refused(x + y, "y: the placeholder of float [3] is needed but not fed");
  refused(random_normal<float, dims<3>>(g), "'random_normal' (random_normal) has no ONNX form");
  refused(assign(w, x), "writes a variable, which ONNX cannot");
  refused(digamma(x), "applies digamma, which has no ONNX form");
}
