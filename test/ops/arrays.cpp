// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/arrays/axes.hpp>
#include <weft/ops/arrays/block_diag.hpp>
#include <weft/ops/arrays/full_like.hpp>
#include <weft/ops/arrays/kron.hpp>
#include <weft/ops/arrays/meshgrid.hpp>
#include <weft/ops/arrays/pad_modes.hpp>
#include <weft/ops/arrays/roll.hpp>
#include <weft/ops/arrays/sequence_mask.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/arrays/strided_slice.hpp>
#include <weft/ops/arrays/triangles.hpp>
#include <weft/ops/images/depth_to_space.hpp>
#include <weft/ops/images/unfold.hpp>

#include "elements.hpp"
#include "errors.hpp"
#include "gradient_check.hpp"
#include "values_of.hpp"

using namespace weft;
using test::check_elements;

#define FN(...) [](const auto& x) { return __VA_ARGS__; }

namespace {

/// The elements and weights of make_array_values.py.
template <class D, class T = double>
tensor<T, D> counted(const shape& extents = D::spec) {
  tensor<T, D> x(extents);
  for (std::size_t i = 0; i < x.elements(); ++i)
    x.data()[i] = static_cast<T>(static_cast<int>((37 * i + 11) % 101) - 50);
  return x;
}
template <class D>
tensor<double, D> weights(const shape& extents) {
  tensor<double, D> w(extents);
  for (std::size_t i = 0; i < w.elements(); ++i) w.data()[i] = static_cast<int>((29 * i + 3) % 23) - 11;
  return w;
}

/// Compares a function of one array with another library's: over tensors, in a step, and its gradient.
class comparison {
 public:
  explicit comparison(const char* path) : right_(path) {}

  template <class D, class F>
  void operator()(D, const std::string& name, F f, const shape& extents = D::spec) const {
    BOOST_TEST_CONTEXT(name) {
      const auto given = counted<D>(extents);
      const auto value = eval(f(given));
      right_.check(name, value);
      graph g;
      const auto x = placeholder<double, D>(g, "x");
      const auto y = let(f(x));
      using To = dims_t<decltype(y)>;
      static_assert(std::is_same_v<To, dims_t<std::remove_cvref_t<decltype(value)>>>);
      const auto w = placeholder<double, To>(g, "w");
      const auto [dx] = gradients(sum(y * w), x);
      session s{g, {.threads = 1}};
      const auto [in_step, gradient] = s.run(fetch(y, dx), with(x, given), with(w, weights<To>(value.extents())));
      right_.check(name, in_step);
      right_.check(name + ".gradient", gradient);
    }
  }

  const values_of& values() const { return right_; }

 private:
  values_of right_;
};

const comparison& of_torch() {
  static const comparison c(TEST_DATA "/ops/array_values_torch.txt");
  return c;
}
const comparison& of_tensorflow() {
  static const comparison c(TEST_DATA "/ops/array_values_tensorflow.txt");
  return c;
}

template <pad_mode Mode>
auto padded_images(const Expression auto& x) {
  return pad<2, 1, 2, Mode>(pad<1, 2, 1, Mode>(x));
}

constexpr unfold_options like_torch{
    .window = {3, 2}, .stride = {2, 1}, .pad = padding::of(1), .order = depth_order::crd};
constexpr unfold_options same{.window = 3, .stride = 2, .pad = padding::same};

using n_4_3 = dims<dyn<"n">, 4, 3>;
using cube = dims<5, 4, 3>;

}  // namespace

#if !defined(__CUDACC__)  // nvcc writes down the types of such sums by names that it gives nowhere
BOOST_AUTO_TEST_CASE(types_of_results) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">, 8, 3>>(g);
  static_assert(std::is_same_v<dims_t<decltype(strided_slice<bounds{1, -1}, bounds{.step = -2}, 0>(x))>,
                               dims<dyn<"n"> - extent<2>, 4>>);
  static_assert(std::is_same_v<dims_t<decltype(strided_slice<bounds{.step = 2}>(x))>,
                               dims<ceil_quotient(dyn<"n">, extent<2>), 8, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(strided_slice<bounds{1, bounds::omitted, 2}>(x))>,
                               dims<floor_quotient(dyn<"n">, extent<2>), 8, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(strided_slice<bounds{-3, -1}>(x))>, dims<2, 8, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(flatten<0, 1>(x))>, dims_t<dims<extent<8> * dyn<"n">, 3>>>);
  static_assert(std::is_same_v<dims_t<decltype(repeat<0, 2>(x))>, dims_t<dims<extent<2> * dyn<"n">, 8, 3>>>);
  const auto m = placeholder<float, dims<dyn<"n">, dyn<"n">>>(g);
  static_assert(std::is_same_v<dims_t<decltype(diag_part<-1>(m))>, dims<dyn<"n"> - extent<1>>>);
  static_assert(std::is_same_v<dims_t<decltype(kron(m, m))>, dims_t<dims<dyn<"n"> * dyn<"n">, dyn<"n"> * dyn<"n">>>>);
}
#endif

BOOST_AUTO_TEST_CASE(slices) {
  const comparison& check = of_torch();
  constexpr int all = bounds::omitted;
  check(cube{}, "slice_mixed", FN(strided_slice<bounds{1, -1}, bounds{.step = -2}, 0>(x)));
  check(n_4_3{}, "slice_mixed", FN(strided_slice<bounds{1, -1}, bounds{.step = -2}, 0>(x)), shape(5, 4, 3));
  check(n_4_3{}, "slice_every_second", FN(strided_slice<bounds{.step = 2}, bounds{1, all, 2}>(x)), shape(5, 4, 3));
  check(n_4_3{}, "slice_index", FN(strided_slice<-1>(x)), shape(5, 4, 3));
  check(n_4_3{}, "slice_back", FN(strided_slice<bounds{4, 0, -2}, bounds{-3, -1}>(x)), shape(5, 4, 3));
  check(cube{}, "slice_clipped", FN(strided_slice<bounds{-100, 100}, bounds{2, 99}, bounds{.step = -5}>(x)));
  check(n_4_3{}, "slice_whole_back", FN(strided_slice<bounds{.step = -1}, bounds{.step = -1}, bounds{.step = -1}>(x)),
        shape(5, 4, 3));
  check(n_4_3{}, "slice_from_end", FN(strided_slice<bounds{-2}, bounds{.end = -1}, -1>(x)), shape(5, 4, 3));
  of_tensorflow()(n_4_3{}, "strided_slice", FN(strided_slice<bounds{4, 0, -2}, bounds{-3, -1}, 1>(x)), shape(5, 4, 3));
}

BOOST_AUTO_TEST_CASE(slices_at_the_edges) {
  const tensor<std::int8_t, dims<4>> x{1, 2, 3, 4};
  check_elements(strided_slice<bounds{5}>(x), {});
  check_elements(strided_slice<bounds{3, 1}>(x), {});
  check_elements(strided_slice<bounds{-9, 0, -1}>(x), {});
  check_elements(strided_slice<bounds{9, -9, -3}>(x), {4, 1});
  check_elements(strided_slice<2>(x), {3});
  check_elements(strided_slice<>(tensor<bool, dims<>>(true)), {1});
  check_elements(strided_slice<bounds{.step = -1}>(tensor<float, dims<dyn<"n">>>(shape(0))), {});
  check_elements(strided_slice<0, 0, 0, 0, 0, 0, -1>(counted<dims<1, 1, 1, 1, 1, 1, 2, 2>>()), {35, -29});
  const auto n = counted<dims<dyn<"n">>>(shape(3));
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(strided_slice<bounds{2, 6}>(n)); }),
             "4 elements from index 2 by steps of 1 are out of range for axis 0 of [3]");
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(strided_slice<-4>(n)); }),
             "from index -1");
  BOOST_CHECK_THROW(static_cast<void>(strided_slice<bounds{2, -2}>(n)), error);
}

BOOST_AUTO_TEST_CASE(slices_from_a_computed_index) {
  const tensor<int, dims<8>> x{0, 1, 2, 3, 4, 5, 6, 7};
  check_elements(slice<0, 3, -2>(x, 6), {6, 4, 2});
  check_elements(slice<0, 3, 3>(x, tensor<std::int32_t>(1)), {1, 4, 7});
  BOOST_CHECK_THROW(static_cast<void>(slice<0, 3, -2>(x, 3)), error);
  gradient_check check;
  const auto y = check.input<dims<dyn<"n">, 2>>(-2, 2, shape(7, 2));
  const auto i = check.fixed(tensor<std::int64_t>(5));
  check("computed", square(slice<0, 2, -3>(y, i)));
}

BOOST_AUTO_TEST_CASE(padding_by_mode) {
  const comparison& check = of_torch();
  using D = dims<3, dyn<"n">>;
  check(dims<3, 4>{}, "pad_reflect", FN(pad<1, 3, 2, pad_mode::reflect>(x)));
  check(D{}, "pad_reflect", FN(pad<-1, 3, 2, pad_mode::reflect>(x)), shape(3, 4));
  check(D{}, "pad_symmetric", FN(pad<1, 3, 2, pad_mode::symmetric>(x)), shape(3, 4));
  check(D{}, "pad_edge", FN(pad<1, 3, 2, pad_mode::edge>(x)), shape(3, 4));
  check(D{}, "pad_wrap", FN(pad<1, 3, 2, pad_mode::wrap>(x)), shape(3, 4));
  using images = dims<1, 3, 3, 2>;
  check(images{}, "pad_images", FN(padded_images<pad_mode::reflect>(x)));
  check(images{}, "pad_circular", FN(padded_images<pad_mode::wrap>(x)));
  check(images{}, "pad_replicate", FN(padded_images<pad_mode::edge>(x)));
  of_tensorflow()(dims<3, 4>{}, "pad_reflect", FN(pad<1, 3, 2, pad_mode::reflect>(x)));
  of_tensorflow()(dims<dyn<"n">, 4>{}, "pad_symmetric", FN(pad<0, 3, 1, pad_mode::symmetric>(x)), shape(3, 4));
}

BOOST_AUTO_TEST_CASE(padding_with_numbers) {
  of_torch().values().check("pad_value", pad<1, 1, 2>(counted<dims<2, 3>>(), 7));
  check_elements(pad<0, 1, 1>(tensor<bool, dims<1>>{false}, true), {1, 0, 1});
  check_elements(pad<0, 0, 1>(tensor<weft::half, dims<1>>{weft::half(2)}, -0.5f), {2, -0.5});
  check_elements(pad<0, 1, 0>(tensor<float, dims<dyn<"n">>>(shape(0)), 3), {3});
  check_elements(pad<0, 2, 0, pad_mode::edge>(tensor<std::int8_t, dims<1>>{-5}), {-5, -5, -5});
  const tensor<float, dims<dyn<"n">>> n(shape(2));
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(pad<0, 2, 0, pad_mode::reflect>(n)); }),
             "a border of 2 elements needs a longer axis than axis 0 of [2]");
  gradient_check check;
  const auto x = check.input<dims<3, dyn<"n">>>(-2, 2, shape(3, 4));
  check("number", square(pad<1, 1, 2>(x, 5)));
  check("reflect", square(pad<1, 3, 2, pad_mode::reflect>(x)));
  check("edge", square(pad<1, 0, 2, pad_mode::edge>(x)));
}

BOOST_AUTO_TEST_CASE(rotations) {
  const comparison& check = of_torch();
  check(dims<4, 3>{}, "roll", FN(roll<0, 1>(x, 1, -2)));
  check(dims<dyn<"n">, 3>{}, "roll_far", FN(roll<0>(x, -9)), shape(4, 3));
  check_elements(roll<0>(tensor<bool, dims<3>>{true, false, false}, 1), {0, 1, 0});
  check_elements(roll<0>(tensor<float, dims<dyn<"n">, 2>>(shape(0, 2)), 3), {});
  const auto x = counted<dims<4, 3>>();
  for (const std::int32_t by : {-9, -4, -1, 0, 1, 4, 6}) {
    const auto right = roll<0>(x, by);
    BOOST_CHECK(roll<0>(x, tensor<std::int32_t>(by)) == right);
    graph g;
    const auto y = placeholder<double, dims<dyn<"n">, 3>>(g, "y");
    const auto places = placeholder<std::int32_t>(g, "places");
    session s{g, {.threads = 1}};
    const auto found =
        s.eval(roll<0>(y, places), with(y, reshape<dims<dyn<"n">, 3>>(x, shape(4, 3))), with(places, by));
    for (int i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(found(i, 1), right(i, 1));
  }
  gradient_check derivatives;
  const auto z = derivatives.input<dims<4, 2>>();
  derivatives("roll", roll<0>(square(z), 3) * z);
  derivatives("by a computed number", roll<0>(square(z), derivatives.fixed(tensor<std::int64_t>(-3))) * z);
}

BOOST_AUTO_TEST_CASE(repeats_and_axes) {
  const comparison& check = of_torch();
  check(dims<2, 3>{}, "repeat", FN(repeat<1, 3>(x)));
  check(dims<dyn<"n">, 3>{}, "repeat_rows", FN(repeat<0, 2>(x)), shape(2, 3));
  check(dims<dyn<"n">, 3, 4>{}, "movedim", FN(moveaxis<-1, 0>(x)), shape(2, 3, 4));
  check(dims<2, 3, 4>{}, "movedim_back", FN(moveaxis<0, 1>(x)));
  check(dims<2, 3, 4>{}, "swap", FN(swapaxes<0, -1>(x)));
  const tensor<bool, dims<1, 2, 3>> t;
  static_assert(std::is_same_v<dims_t<decltype(flatten<1>(t))>, dims<1, 6>>);
  static_assert(std::is_same_v<dims_t<decltype(flatten<0, -2>(t))>, dims<2, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(flatten(t))>, dims<6>>);
  BOOST_CHECK((flatten<0, 1>(tensor<float, dims<dyn<"n">, 2, 3>>(shape(4, 2, 3))).extents() == shape(8, 3)));
  check_elements(full_like(counted<dims<dyn<"n">>>(shape(2)), 0.5f), {0.5, 0.5});
  check_elements(full_like<std::int32_t>(t, -1), {-1, -1, -1, -1, -1, -1});
  check_elements(full_like(t, true), {1, 1, 1, 1, 1, 1});
  graph g;
  const auto y = placeholder<bfloat16, dims<dyn<"n">>>(g, "y");
  session s{g, {.threads = 1}};
  check_elements(s.eval(full_like(y, 3), with(y, tensor<bfloat16, dims<dyn<"n">>>(shape(2)))), {3, 3});
}

BOOST_AUTO_TEST_CASE(blocks_of_pixels) {
  using images = dims<dyn<"b">, dyn<"h">, dyn<"w">, 8>;
  of_torch()(images{}, "pixel_shuffle", FN(pixel_shuffle<2>(x)), shape(1, 2, 3, 8));
  of_torch()(dims<1, dyn<"h">, 6, 2>{}, "pixel_unshuffle", FN(pixel_unshuffle<2>(x)), shape(1, 4, 6, 2));
  const comparison& check = of_tensorflow();
  check(dims<dyn<"b">, dyn<"h">, 6, 3>{}, "space_to_depth", FN(space_to_depth<2>(x)), shape(2, 4, 6, 3));
  check(dims<1, 2, 3, 8>{}, "depth_to_space", FN(depth_to_space<2>(x)));
  check(dims<dyn<"b">, 4, 3, 2>{}, "space_to_batch", FN(space_to_batch<2, 3>(x)), shape(2, 4, 3, 2));
  check(dims<6, 2, 1, 3>{}, "batch_to_space", FN(batch_to_space<2, 3>(x)));
  const tensor<float, dims<1, dyn<"h">, 2, 1>> odd(shape(1, 3, 2, 1));
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(space_to_depth<2>(odd)); }),
             "the extent is 3 / 2, which is not a whole number");
}

BOOST_AUTO_TEST_CASE(windows) {
  of_torch()(dims<1, 5, 4, 2>{}, "unfold", FN(flatten<1, 2>(unfold<like_torch>(x))));
  of_torch()(dims<dyn<"b">, dyn<"h">, 4, 1>{}, "unfold_dilated",
             FN(flatten<1, 2>(unfold<unfold_options{.window = 2, .dilation = 2}>(x))), shape(2, 5, 4, 1));
  using images = dims<1, dyn<"h">, dyn<"w">, 2>;
  of_tensorflow()(dims<1, 5, 4, 2>{}, "patches_same", FN(unfold<same>(x)));
  of_tensorflow()(images{}, "patches_same", FN(unfold<same>(x)), shape(1, 5, 4, 2));
  of_tensorflow()(dims<2, 5, 4, 1>{}, "patches_valid", [](const auto& x) {
    return unfold<unfold_options{.window = 2, .stride = {1, 2}, .dilation = {2, 1}}>(x);
  });
  constexpr unfold_options all{.window = {2, 3}, .order = depth_order::crd};
  const auto patches = reshape<dims<1, 2, 2, 12>>(counted<dims<1, 4, 12>>());
  of_torch().values().check("fold", fold<3, 4, all>(patches));
  // A window's transpose of itself counts how many windows contain a pixel.
  check_elements(
      fold<3, 3, unfold_options{.window = 2}>(unfold<unfold_options{.window = 2}>(ones<int, dims<1, 3, 3, 1>>())),
      {1, 2, 1, 2, 4, 2, 1, 2, 1});
  check_elements(unfold<unfold_options{.window = 2}>(tensor<bool, dims<1, 2, 2, 1>>{true, false, true, true}),
                 {1, 0, 1, 1});
  gradient_check check;
  const auto x = check.input<dims<1, dyn<"h">, 4, 2>>(-2, 2, shape(1, 4, 4, 2));
  check("overlapping", square(unfold<unfold_options{.window = {3, 2}, .stride = {2, 1}, .pad = padding::of(1)}>(x)));
  const auto y = check.input<dims<1, 2, 2, 12>>();
  check("sums", square(fold<3, 4, all>(y)));
}

BOOST_AUTO_TEST_CASE(matrices) {
  const comparison& check = of_torch();
  const values_of& right = check.values();
  const auto a = counted<dims<2, 3>>();
  right.check("block_diag", block_diag(a, counted<dims<dyn<"n">, 1>>(shape(1, 1)), counted<dims<3, 2>>()));
  check_elements(block_diag(tensor<bool, dims<1, 1>>{true}, tensor<bool, dims<0, 1>>()), {1, 0});
  right.check("kron", kron(a, counted<dims<dyn<"n">, 2>>(shape(3, 2))));
  check_elements(kron(tensor<int, dims<2>>{1, 2}, tensor<int, dims<2>>{3, 4}), {3, 4, 6, 8});
  gradient_check derivatives;
  const auto p = derivatives.input<dims<2, dyn<"n">>>(-2, 2, shape(2, 3));
  const auto q = derivatives.input<dims<3, 2>>();
  derivatives("block_diag", square(block_diag(p, q, p)));
  derivatives("kron", kron(square(p), q));

  check(dims<dyn<"b">, 3>{}, "diag_up", FN(diag<2>(x)), shape(2, 3));
  check(dims<2, dyn<"n">>{}, "diag_down", FN(diag<-1>(x)), shape(2, 3));
  check(dims<2, 3, 4>{}, "diagonal_up", FN(diag_part<1>(x)));
  check(dims<dyn<"n">, dyn<"n">>{}, "diagonal_down", FN(diag_part<-2>(x)), shape(4, 4));
  check(dims<2, dyn<"n">, 4>{}, "tril", FN(tril(x, -1)), shape(2, 3, 4));
  check(dims<2, 3, 4>{}, "triu", FN(triu(x, 2)));
  right.check("tril_indices", tril_indices<3, 5, 1>());
  right.check("triu_indices", triu_indices<4, 3, -1>());
  check_elements(tril(tensor<bool, dims<2, 2>>{true, true, true, true}), {1, 0, 1, 1});
  check_elements(triu(full_like<bfloat16>(tensor<float, dims<2, 2>>(), 2)), {2, 2, 0, 2});
  check_elements(tril(tensor<float, dims<2, 2>>{1, std::nanf(""), 3, 4}), {1, 0, 3, 4});
  check_elements(diag_part(tensor<std::int8_t, dims<2, 3>>{1, 2, 3, 4, 5, 6}), {1, 5});
  check_elements(diag_part<3>(tensor<float, dims<2, 3>>()), {});
  check_elements(band_part(tensor<bool, dims<3, 2>>{true, true, true, true, true, true}, 1, 0), {1, 0, 1, 1, 0, 1});
  of_tensorflow()(dims<2, 3, 4>{}, "set_diag", FN(set_diag<1>(x, tensor<double, dims<2, 3>>())));
  check_elements(set_diag(tensor<int, dims<2, 3>>{1, 2, 3, 4, 5, 6}, tensor<int, dims<2>>{-1, -2}),
                 {-1, 2, 3, 4, -2, 6});
  check_elements(set_diag<-1>(tensor<bool, dims<2, 2>>(), tensor<bool, dims<1>>{true}), {0, 0, 1, 0});
  derivatives("set_diag", square(set_diag(q, square(derivatives.input<dims<2>>()))));
}

BOOST_AUTO_TEST_CASE(grids_and_masks) {
  const auto a = counted<dims<2>>();
  const auto b = counted<dims<dyn<"n">>>(shape(3));
  const auto check = [&](const std::string& name, const auto& mesh) {
    of_torch().values().check(name + "0", std::get<0>(mesh));
    of_torch().values().check(name + "1", std::get<1>(mesh));
    of_torch().values().check(name + "2", std::get<2>(mesh));
  };
  check("mesh_xy", meshgrid(a, b, a));
  check("mesh_ij", meshgrid<mesh_indexing::ij>(a, b, a));
  gradient_check derivatives;
  const auto x = derivatives.input<dims<2>>();
  const auto y = derivatives.input<dims<dyn<"n">>>(-2, 2, shape(3));
  const auto [p, q] = meshgrid(x, y);
  static_assert(std::is_same_v<dims_t<decltype(q)>, dims<dyn<"n">, 2>>);
  derivatives("meshgrid", square(p) * q);

  const tensor<std::int32_t, dims<2, 2>> lengths{1, 0, 7, 3};
  of_tensorflow().values().check("sequence_mask", sequence_mask<4>(lengths));
  of_tensorflow().values().check("sequence_mask", sequence_mask<4, float>(cast<std::int64_t>(lengths)));
  graph g;
  const auto rows = placeholder<std::int32_t, dims<dyn<"b">>>(g, "rows");
  const auto values = placeholder<float, dims<dyn<"b">, dyn<"time">>>(g, "values");
  session s{g, {.threads = 1}};
  check_elements(s.eval(sequence_mask<dyn<"time">, float>(rows) * values,
                        with(rows, tensor<std::int32_t, dims<dyn<"b">>>(shape(2), {2, -1})),
                        with(values, tensor<float, dims<dyn<"b">, dyn<"time">>>(shape(2, 3), {1, 2, 3, 4, 5, 6}))),
                 {1, 2, 0, 0, 0, 0});
}
