// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Operators of images: their size, their parts, and boxes.
namespace tool::importer {

/// How an axis is resized.
struct resized_axis {
  std::size_t axis = 0;
  integer from, extent;
  double scale = 1;
  double begin = 0, end = 1;  ///< the region of interest

  bool fixed() const { return from.is_number() && extent.is_number(); }
  /// The extent as a factor and a number of elements give it.
  double width() const { return scale * static_cast<double>(from.number()); }
};

/// The attributes of Resize and Upsample.
struct resize_options {
  std::string mode, where, nearest;
  bool antialias, exclude_outside;
  double cubic;
};

/// Returns the weights of the nearest elements by the distance from the left one, in (0, 1].
inline std::vector<double> resize_weights(const resize_options& o, double ratio, double scale) {
  if (o.mode == "nearest") {
    const bool left = ratio != 1 && (o.nearest == "floor" || (o.nearest == "round_prefer_floor" && ratio <= 0.5) ||
                                     (o.nearest == "round_prefer_ceil" && ratio < 0.5));
    return {left ? 1.0 : 0.0, left ? 0.0 : 1.0};
  }
  const double width = o.antialias ? std::min(scale, 1.0) : 1, reach = o.mode == "linear" ? 1 : 2, a = o.cubic;
  const auto first = static_cast<int>(std::floor(-reach / width)) + 1;
  std::vector<double> weights;
  for (int i = first; i < 2 - first; ++i) {
    const double x = std::abs((i - ratio) * width);
    weights.push_back(o.mode == "linear" ? std::max(0.0, 1 - x)
                      : x <= 1           ? ((a + 2) * x - (a + 3)) * x * x + 1
                      : x < 2            ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
                                         : 0);
  }
  const double sum = o.antialias ? std::accumulate(weights.begin(), weights.end(), 0.0) : 1;
  for (double& w : weights) w /= sum;
  return weights;
}

/// Returns the position in the image of element i of the result.
inline double resized_position(const resize_options& o, const resized_axis& r, std::int64_t i) {
  const auto p = static_cast<double>(i), n = static_cast<double>(r.from.number()), last = n - 1;
  const double width = r.width(), half = (p + 0.5) / r.scale - 0.5;
  if (o.where == "align_corners") return width == 1 ? 0 : p * last / (width - 1);
  if (o.where == "asymmetric") return p / r.scale;
  if (o.where == "pytorch_half_pixel" && width == 1) return -0.5;
  if (o.where == "half_pixel_symmetric") return half + n / 2 * (1 - static_cast<double>(r.extent.number()) / width);
  if (o.where != "tf_crop_and_resize") return half;
  return r.begin * last + (width == 1 ? (r.end - r.begin) * last / 2 : p * (r.end - r.begin) * last / (width - 1));
}

/// Resizes an axis of the text by a product with a matrix, or by rows if each element of the result is one of the
/// image. Returns the text of the factors of the elements: 1 inside of the image, 0 outside; an empty text if all are
/// inside.
inline std::string resize_axis(call& c, const resize_options& o, const resized_axis& r, std::string& text) {
  const std::int64_t n = r.from.number(), m = r.extent.number();
  const std::size_t axis = c.physical_axis(0, r.axis), rank = c.rank();
  std::vector<double> matrix(static_cast<std::size_t>(n * m)), rows, inside;
  for (std::int64_t i = 0; i < m; ++i) {
    const double from = resized_position(o, r, i), left = std::ceil(from) - 1;
    const bool is_inside = o.where != "tf_crop_and_resize" || (from >= 0 && from <= static_cast<double>(n - 1));
    inside.push_back(is_inside ? 1 : 0);
    if (!is_inside) continue;
    std::vector<double> weights = resize_weights(o, from - left, r.scale);
    const auto reach = static_cast<std::int64_t>(weights.size() / 2);
    const std::int64_t first = std::clamp<std::int64_t>(static_cast<std::int64_t>(left) + 1 - reach, -reach, n - reach);
    const auto place = [&](std::size_t k) { return first + static_cast<std::int64_t>(k); };
    for (std::size_t k = 0; k < weights.size(); ++k)
      if (o.exclude_outside && (place(k) < 0 || place(k) >= n)) weights[k] = 0;
    const double sum = o.exclude_outside ? std::accumulate(weights.begin(), weights.end(), 0.0) : 1;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const std::int64_t at = std::clamp<std::int64_t>(place(k), 0, n - 1);
      matrix[static_cast<std::size_t>(i * n + at)] += weights[k] / sum;
      if (weights[k] == 1) rows.push_back(static_cast<double>(at));
    }
  }
  if (o.mode == "nearest" && rows.size() == static_cast<std::size_t>(m)) {
    c.need_header("ops/index/gather.hpp");
    text = form("gather<$>($, $)", axis, text, constant_text(c, "rows", {m}, rows, int32));
    return "";
  }
  c.need_header("ops/products/einsum.hpp");
  const std::string from = std::string("abcdefgh").substr(0, rank);
  std::string to = from;
  to[axis] = 'z';
  text =
      form("einsum<\"$,z$->$\">($, $)", from, std::string(1, from[axis]), to, text,
           constant_text(c, form("matrix$", r.axis), {m, n}, matrix, c.operand(0).type == float64 ? float64 : float32));
  if (std::count(inside.begin(), inside.end(), 1) == m) return "";
  return constant_text(c, form("inside$", r.axis), numbers_of(with_extent(integers(rank, 1), axis, m)), inside);
}

/// Returns the axes that Resize or Upsample changes, and their extents in `extents`.
inline std::vector<resized_axis> resized_axes(call& c, const resize_options& o, bool old, integers& extents) {
  const value& x = c.operand(0);
  const std::string policy = c.word_of("keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"});
  const std::vector<std::int64_t> given = c.list("axes", numbers_to(x.rank()));
  const std::size_t at = old ? 1 : 2;
  std::vector<double> scales, roi;
  if (const auto* a = c.opset < 9 ? c.find("scales") : nullptr) scales.assign(a->floats.begin(), a->floats.end());
  if (c.has(at) && !c.extent(at, 0).is(0)) scales = c.known_numbers(at);
  const integers sizes = scales.empty() && c.has(3) ? c.known_integers(3) : integers();
  if (o.where == "tf_crop_and_resize" && c.has(1)) roi = c.known_numbers(1);
  if ((scales.empty() ? sizes.size() : scales.size()) != given.size())
    c.refuse("scales or sizes must have one element for each axis");
  for (const double s : scales)
    if (!(s > 1e-6 && s < 1e6)) c.refuse("scales must be from 1e-6 to 1e6");
  const auto check = [&](const integers& all, const char* what) {
    for (const integer& n : all)
      if (n.is_number() && (n.number() < 1 || n.number() > (1 << 30)))
        c.refuse(std::string(what) + " must have 1 to 2^30 elements along an axis");
  };
  check(sizes, "the result");
  check(x.extents, "an image");
  double kept = 0;  // the factor for all axes
  if (!sizes.empty() && policy != "stretch")
    for (std::size_t i = 0; i < given.size(); ++i) {
      const double s =
          static_cast<double>(sizes[i].number()) / static_cast<double>(x.extents[c.axis(given[i], x.rank())].number());
      kept = i == 0 ? s : policy == "not_larger" ? std::min(kept, s) : std::max(kept, s);
    }
  std::vector<resized_axis> axes;
  for (std::size_t i = 0; i < given.size(); ++i) {
    resized_axis r{.axis = c.axis(given[i], x.rank()), .from = 0, .extent = 1};
    const integer& n = r.from = x.extents[r.axis];
    const auto number = n.is_number() ? static_cast<double>(n.number()) : 0;
    if (!scales.empty() || kept > 0) {
      const double s = r.scale = kept > 0 ? kept : scales[i], whole = std::round(s), part = std::round(1 / s);
      if (kept > 0 || n.is_number())
        r.extent = static_cast<std::int64_t>(std::floor(s * number + (kept > 0 ? 0.5 : 1e-9)));
      else if (s == whole)
        r.extent = n * integer(static_cast<std::int64_t>(whole));
      else if (std::abs(s * part - 1) < 1e-6)
        r.extent = floor_quotient(n, integer(static_cast<std::int64_t>(part)));
      else
        c.refuse("the factor " + digits(s) + " of an extent that is not known");
    } else {
      r.extent = sizes[i];
      if (r.fixed()) r.scale = static_cast<double>(r.extent.number()) / number;
    }
    if (!roi.empty()) {
      r.begin = roi.at(i);
      r.end = roi.at(i + given.size());
    }
    extents[r.axis] = r.extent;
    if (!(r.extent == n && (r.scale == 1 || !r.fixed())) || r.begin != 0 || r.end != 1) axes.push_back(r);
  }
  return axes;
}

/// Resize and Upsample: a function of Weft, or one axis after the other.
inline void resized(call& c) {
  const bool old = c.of.op == "Upsample" || c.opset < 11;
  const value& x = c.operand(0);
  resize_options o{c.word_of("mode", {"nearest", "linear", "bilinear", "cubic", "bicubic"}),
                   "asymmetric",
                   "floor",
                   c.flag("antialias"),
                   c.flag("exclude_outside"),
                   c.finite("cubic_coeff_a", -0.75)};
  if (o.mode.starts_with("bi")) o.mode.erase(0, 2);
  if (!old) {
    o.where = c.word_of("coordinate_transformation_mode", {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                                           "align_corners", "asymmetric", "tf_crop_and_resize"});
    o.nearest = c.word_of("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  }
  const double outside = c.real("extrapolation_value", 0);
  integers extents = x.extents;
  const std::vector<resized_axis> axes = resized_axes(c, o, old, extents);
  c.result(0, extents, true);
  if (axes.empty()) return c.pass(0);
  bool images = x.rank() == 4, exact = true, fixed = true, grows = true;
  for (const resized_axis& r : axes) {
    images &= r.axis >= 2;
    fixed &= r.fixed();
    exact &= !r.fixed() || std::abs(r.width() - static_cast<double>(r.extent.number())) < 1e-4;
    grows &= r.scale == std::round(r.scale) && r.scale > 1;
  }
  const bool half = o.where == "half_pixel" || (o.where == "half_pixel_symmetric" && exact) ||
                    (o.where == "pytorch_half_pixel" && !extents[2].is(1) && !extents[3].is(1)),
             same_nearest = half ? o.nearest == "round_prefer_ceil" || (o.nearest == "round_prefer_floor" && grows)
                                 : o.where == "asymmetric" && o.nearest == "floor",
             same_places =
                 o.mode == "nearest" ? same_nearest : half || o.where == "asymmetric" || o.where == "align_corners",
             same_weights = o.mode == "nearest" || (!o.antialias && is_float(x.type) && !is_half(x.type) &&
                                                    (o.mode == "linear" || o.cubic == -0.75));
  if (images && exact && same_places && same_weights && !o.exclude_outside) {
    c.need_header("ops/images/resize.hpp");
    const char* const name = o.mode == "nearest" ? "nearest" : o.mode == "linear" ? "bilinear" : "bicubic";
    c.text = form("resize_$<$, $$>({0})", name, extents[2], extents[3], half ? "" : ", resize_coordinates::" + o.where);
    return;
  }
  if (!fixed) c.refuse("extents must be static for mode " + o.mode + " with " + o.where);
  std::vector<std::string> inside;
  c.text = "{0}";
  for (const resized_axis& r : axes)
    if (const std::string factors = resize_axis(c, o, r, c.text); !factors.empty()) inside.push_back(factors);
  if (outside != 0 && !inside.empty())
    c.text = form("$ + $ * (1 - $)", c.text, literal(x.type, outside), joined(inside, " * "));
}

inline void grid_sampled(call& c) {
  c.need_rank(0, 4, 5);
  c.need_rank(1, c.rank());
  const value& x = c.operand(0);
  c.reorder(1, false);
  const std::string mode = c.word_of("mode", {"linear", "bilinear", "nearest", "cubic", "bicubic"}),
                    border = c.word_of("padding_mode", {"zeros", "border", "reflection"});
  integers extents{x.extents[0], x.extents[1]};
  append(extents, extents_of(c.in[1]->extents, 1, c.rank() - 1));
  c.result(0, extents, true);
  if (x.rank() == 5 && mode.ends_with("cubic")) c.refuse("volumes have no cubic mode");
  const std::string options = options_text({{"mode", mode == "nearest"         ? "interpolation::nearest"
                                                     : mode.ends_with("cubic") ? "interpolation::bicubic"
                                                                               : ""},
                                            {"outside", border == "border"       ? "image_border::nearest"
                                                        : border == "reflection" ? "image_border::reflection"
                                                                                 : ""},
                                            {"align_corners", if_true(c.flag("align_corners"))}});
  c.text = form("grid_sample$({0}, {1})", options.empty() ? "" : form("<grid_sample_options{$}>", options));
}

/// Grids of volumes are products of all positions with the maps.
inline void affine_grid_of(call& c) {
  c.need_rank(0, 3);
  const integers& size = c.known_integers(1);
  const bool corners = c.flag("align_corners");
  const std::vector<std::int64_t> counts = numbers_of(extents_from(size, 2));
  integers result = with_extent(extents_from(size, 1), 0, size[0]);
  result.emplace_back(static_cast<std::int64_t>(counts.size()));
  c.result(0, result);
  if (counts.size() == 2) {
    c.need_header("ops/images/grid_sample.hpp");
    c.text = form("affine_grid<$$>({0})", counts, corners ? ", true" : "");
    return;
  }
  std::vector<double> places;
  const auto position = [&](std::int64_t i, std::int64_t n) {
    const auto p = static_cast<double>(i), of = static_cast<double>(n);
    return corners ? (n == 1 ? 0.0 : 2 * p / (of - 1) - 1) : (2 * p + 1) / of - 1;
  };
  for (std::int64_t i = 0; i < counts.at(0); ++i)
    for (std::int64_t j = 0; j < counts.at(1); ++j)
      for (std::int64_t k = 0; k < counts.at(2); ++k)
        for (const double each : {position(k, counts[2]), position(j, counts[1]), position(i, counts[0]), 1.0})
          places.push_back(each);
  const auto all = static_cast<std::int64_t>(places.size() / 4);
  c.need_header("ops/products/tensordot.hpp");
  const std::string name =
      constant_text(c, "places", {all, 4}, places, c.operand(0).type == float64 ? float64 : float32);
  c.text = reshape_text(result, form("broadcast_matmul($, transpose<0, 2, 1>({0}))", name));
}

inline void roi_aligned(call& c) {
  c.need_rank(0, 4);
  c.need_rank(1, 2);
  c.need_rank(2, 1);
  const std::int64_t h = c.number("output_height", 1), w = c.number("output_width", 1),
                     samples = c.number("sampling_ratio", 0);
  const bool half =
      c.opset >= 16 && c.word_of("coordinate_transformation_mode", {"half_pixel", "output_half_pixel"}) == "half_pixel";
  if (c.word("mode", "avg") != "avg") c.refuse("mode max is not supported");
  if (samples < 1) c.refuse("sampling_ratio must be at least 1: the adaptive number of samples is not supported");
  c.result(0, {c.extent(1, 0), c.extent(0, 1), integer(h), integer(w)}, true);
  c.text = form("roi_align<$, $, $>({0}, {1}, cast<std::int32_t>({2}), {.spatial_scale = $, .aligned = $})", h, w,
                samples, digits(static_cast<float>(c.finite("spatial_scale", 1))), half ? "true" : "false");
}

inline void space_and_depth(call& c) {
  c.need_rank(0, 4);
  const value& x = c.operand(0);
  const std::int64_t b = c.number("blocksize", 1);
  if (b < 1 || b > 1000) c.refuse("blocksize must be from 1 to 1000");
  const integer n(b);
  const bool to_space = c.of.op == "DepthToSpace", crd = c.word_of("mode", {"DCR", "CRD"}) == "CRD";
  const auto divided = [&](const integer& extent, const integer& by) {
    const auto quotient = exact_quotient(extent, by);
    if (!quotient && extent.is_number()) c.refuse("an extent must be a multiple of the blocks");
    return quotient ? *quotient : floor_quotient(extent, by);
  };
  if (to_space)
    c.result(0, {x.extents[0], divided(x.extents[1], n * n), x.extents[2] * n, x.extents[3] * n}, true);
  else
    c.result(0, {x.extents[0], x.extents[1] * n * n, divided(x.extents[2], n), divided(x.extents[3], n)}, true);
  c.text = form("$<$$>({0})", to_space ? "depth_to_space" : "space_to_depth", b, crd ? ", depth_order::crd" : "");
}

inline void cropped_or_padded(call& c) {
  const value& x = c.operand(0);
  const integers& to = c.known_integers(1);
  const std::vector<std::int64_t> axes = c.list("axes", numbers_to(x.rank()));
  integers extents = x.extents;
  c.text = "{0}";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = c.axis(axes[i], x.rank()), at = c.physical_axis(0, axis);
    const integer &n = x.extents[axis], &m = extents[axis] = to[i];
    if (!n.is_number() || !m.is_number()) c.refuse("extents must be static");
    const std::int64_t more = m.number() - n.number();
    if (more > 0) c.text = form("pad<$, $, $>($)", at, more / 2, more - more / 2, c.text);
    if (more < 0) c.text = slice_text(at, -more / 2, m, c.text);
  }
  c.result(0, extents, x.last);
}

/// Rows of [image, class, box]. Their number is known when a step has run.
inline void suppressed(call& c) {
  c.need_rank(0, 3);
  c.need_rank(1, 3);
  const integer &images = c.extent(1, 0), &classes = c.extent(1, 1), &count = c.extent(0, 1);
  const bool centers = c.flag("center_point_box");
  if (!images.is_number() || !classes.is_number() || images.number() * classes.number() > 256)
    c.refuse("the images and classes must be numbers, and at most 256 pairs");
  std::int64_t most = c.has(2) ? c.known_integers(2)[0].number() : 0;
  if (count.is_number()) most = std::min(most, count.number());
  if (most < 1 || most > (1 << 24)) c.refuse("max_output_boxes_per_class must be from 1 to 2^24");
  const auto number = [&](std::size_t i) {
    return c.has(i) ? digits(static_cast<float>(c.known_numbers(i).at(0))) : "";
  };
  c.holes["options"] =
      "{" + options_text({{"iou_threshold", c.has(3) ? number(3) : "0.0"}, {"score_threshold", number(4)}}) + "}";
  const std::string boxes = named(c, 0, "boxes"), scores = named(c, 1, "scores");
  c.to.uses_graph = true;
  std::vector<std::string> rows, masks;
  std::string kept;
  for (std::int64_t i = 0; i < images.number(); ++i) {
    std::string corners = stated(c, "boxes", form("squeeze<0>($)", slice_text(0, i, 1, boxes)));
    if (centers) {
      const std::string center = slice_text(1, 0, 2, corners), half = slice_text(1, 2, 2, corners) + " / 2.0f";
      corners = stated(c, "corners", form("concat<1>($ - $, $ + $)", center, half, center, half));
    }
    for (std::int64_t k = 0; k < classes.number(); ++k) {
      const std::string score = form("squeeze<0>(squeeze<0>($))", slice_text(1, k, 1, slice_text(0, i, 1, scores)));
      kept = stated(c, "kept", form("non_max_suppression<$>($, $, {options})", most, corners, score));
      const auto column = [&](std::int64_t n) { return form("fill<std::int64_t, dims<$, 1>>(g, $)", most, n); };
      rows.push_back(form("concat<1>($, $, expand_dims<1>(cast<std::int64_t>($.values)))", column(i), column(k), kept));
      masks.push_back(form("valid($)", kept));
    }
  }
  const std::string name = c.to.name_for(c.from.outputs[0]), extent = form("dyn<\"$_rows\">", name);
  const bool one = rows.size() == 1;
  if (!one) c.need_header("ops/index/boolean_mask.hpp");
  c.to.add_statement({{name},
                      one ? form("with_count<$>($, $.count)", extent, rows[0], kept)
                          : form("boolean_mask<$>(concat<0>($), concat<0>($))", extent, joined(rows), joined(masks)),
                      ""});
  c.result(0, {integer::named(name + "_rows"), 3}, false, int64);
  c.out[0]->text = name;
  c.out[0]->stated = c.out[0]->bounded = c.done = true;
  c.need_header("ops/images/boxes.hpp");
}

inline constexpr row image_rows[] = {
    {"AffineGrid", {affine_grid_of, layout::plain, true}, "affine_grid broadcast_matmul"},
    {"CenterCropPad", {cropped_or_padded, layout::own}, "pad slice"},
    {"DepthToSpace",
     {space_and_depth, layout::channels},
     "depth_to_space depth_order",
     "ops/images/depth_to_space.hpp"},
    {"GridSample",
     {grid_sampled, layout::channels},
     "grid_sample grid_sample_options interpolation image_border",
     "ops/images/grid_sample.hpp"},
    {"NonMaxSuppression", {suppressed}, "non_max_suppression with_count boolean_mask valid fill concat"},
    {"Resize",
     {resized, layout::channels},
     "resize_bilinear resize_bicubic resize_nearest resize_coordinates gather einsum"},
    {"RoiAlign", {roi_aligned, layout::channels}, "roi_align", "ops/images/regions.hpp"},
    {"SpaceToDepth", {space_and_depth, layout::channels}, "space_to_depth", "ops/images/depth_to_space.hpp"},
    {"Upsample", {resized, layout::channels}, "resize_nearest"},
};

}  // namespace tool::importer
