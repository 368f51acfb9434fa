#pragma once

#include <tuple>

#include <weft/ops/concat.hpp>
#include <weft/ops/convolution.hpp>

/// Grouped convolutions. Included by name, not by <weft/weft.hpp>.
namespace weft {

/// A convolution in which each of `Groups` groups of filters reads only its own group of channels (torch.nn.Conv2d with
/// groups; tf.nn.conv2d with fewer channels in the filters): `grouped_conv2d<32>(images, filters)`. Images are
/// `[batch, height, width, in]`, filters `[height, width, in / Groups, out]`, and the result has the extents that
/// conv2d gives it, with `out` channels. Each group runs as one convolution. The numbers of channels and filters must
/// be multiples of `Groups` that the compiler knows.
template <int Groups, conv2d_options Options = conv2d_options{}, Expression A, Expression B>
[[nodiscard]] auto grouped_conv2d(const A& images, const B& filters);

namespace detail {

constexpr bool groups_fit(const shape& images, const shape& filters, int groups) {
  if (images.rank != 4 || filters.rank != 4) return true;
  return groups > 0 && images[3] > 0 && filters[2] > 0 && filters[3] > 0 && filters[3] % groups == 0 &&
         images[3] == filters[2] * groups;
}

}  // namespace detail

/// The images have `Groups` times the channels of the filters, and the number of filters is a multiple of `Groups`.
template <class Images, class Filters, int Groups>
struct conv2d_groups_do_not_fit : mistake<!detail::groups_fit(Images::spec, Filters::spec, Groups)> {};

namespace detail {

template <conv2d_options Options, class A, class B, std::size_t... Group>
auto convolve_groups(const A& images, const B& filters, indices<Group...>) {
  constexpr int groups = static_cast<int>(sizeof...(Group));
  const auto x = split<3, groups>(images);
  const auto w = split<3, groups>(filters);
  return concat<3>(conv2d<Options>(std::get<Group>(x), std::get<Group>(w))...);
}

}  // namespace detail

template <int Groups, conv2d_options Options, Expression A, Expression B>
auto grouped_conv2d(const A& images, const B& filters) {
  using T = value_t<A>;
  using DA = dims_t<A>;
  using DB = dims_t<B>;
  using mistaken = first_mistake<images_are_not_of_rank_4<DA>, filters_are_not_of_rank_4<DB>,
                                 conv2d_groups_do_not_fit<DA, DB, Groups>>;
  static_assert(
      correct<mistaken>,
      "grouped_conv2d: needs images [batch, height, width, in] and filters [height, width, in / groups, out]");
  if constexpr (!correct<mistaken>)
    return detail::after_mistake<T, DA>(images, filters);
  else if constexpr (Groups == 1)
    return conv2d<Options>(images, filters);
  else
    return detail::convolve_groups<Options>(images, filters, typename detail::make_indices<Groups>::type());
}

template <auto...>
auto grouped_conv2d(...) WEFT_DELETED;  // groups, then options: grouped_conv2d<32, conv2d_options{}>(images, filters)

}  // namespace weft
