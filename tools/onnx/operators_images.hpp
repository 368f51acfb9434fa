// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "statements.hpp"

/// Operators of images: their size, their parts, and their normalization.
namespace tool::importer {

/// How an axis is resized: its new extent, and by which factor.
struct resized_axis {
  std::size_t axis = 0;
  integer extent = 1;
  double scale = 1;
  double begin = 0, end = 1;  ///< the region of interest
};

/// Returns the weights of the nearest elements by the distance from the left one, in (0, 1].
inline std::vector<double> resize_weights(const std::string& mode, const std::string& nearest, double ratio,
                                          double scale, bool antialias, double cubic) {
  if (mode == "nearest") {
    const bool left = ratio != 1 && (nearest == "floor" || (nearest == "round_prefer_floor" && ratio <= 0.5) ||
                                     (nearest == "round_prefer_ceil" && ratio < 0.5));
    return {left ? 1.0 : 0.0, left ? 0.0 : 1.0};
  }
  const double width = antialias ? std::min(scale, 1.0) : 1;
  const double reach = mode == "linear" ? 1 : 2;
  const auto first = static_cast<int>(std::floor(-reach / width)) + 1;
  std::vector<double> weights;
  double sum = 0;
  for (int i = first; i < 2 - first; ++i) {
    const double x = std::abs((i - ratio) * width);
    double w = std::max(0.0, 1 - x);
    if (mode == "cubic")
      w = x <= 1  ? ((cubic + 2) * x - (cubic + 3)) * x * x + 1
          : x < 2 ? ((cubic * x - 5 * cubic) * x + 8 * cubic) * x - 4 * cubic
                  : 0;
    weights.push_back(w);
    sum += w;
  }
  if (antialias)
    for (double& w : weights) w /= sum;
  return weights;
}

/// Resize and Upsample. Axes of fixed extents are products with a matrix, or rows by index, unless Weft has the
/// function.
inline void resized(call& c) {
  const bool old = c.of.op == "Upsample" || c.opset < 11;
  value& x = c.operand(0);
  std::string mode = c.word_of("mode", {"nearest", "linear", "bilinear", "cubic", "bicubic"});
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string where =
      old ? "asymmetric"
          : c.word_of("coordinate_transformation_mode", {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                                         "align_corners", "asymmetric", "tf_crop_and_resize"});
  const std::string nearest =
      old ? "floor" : c.word_of("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  const std::string policy = c.word_of("keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"});
  const bool antialias = c.number("antialias", 0) != 0, exclude = c.number("exclude_outside", 0) != 0;
  const double cubic = c.finite("cubic_coeff_a", -0.75), outside = c.real("extrapolation_value", 0);
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < x.rank(); ++i) all.push_back(static_cast<std::int64_t>(i));
  const std::vector<std::int64_t> given = c.list("axes", all);
  const std::size_t at = old ? 1 : 2;
  std::vector<double> scales;
  if (c.opset < 9)
    if (const auto* a = c.find("scales"))
      for (const float f : a->floats) scales.push_back(static_cast<double>(f));
  if (c.has(at) && !c.operand(at).extents[0].is(0)) scales = c.known_numbers(at);
  integers sizes;
  if (scales.empty() && c.has(3)) sizes = c.known_integers(3);
  const std::vector<double> roi =
      where == "tf_crop_and_resize" && c.has(1) ? c.known_numbers(1) : std::vector<double>();
  if ((scales.empty() ? sizes.size() : scales.size()) != given.size())
    c.refuse("scales or sizes must have one element for each axis");
  const auto is_usable = [](double s) { return s > 1e-6 && s < 1e6; };
  if (!std::all_of(scales.begin(), scales.end(), is_usable)) c.refuse("scales must be from 1e-6 to 1e6");
  for (const integer& n : sizes)
    if (n.is_number() && (n.number() < 1 || n.number() > (1 << 30))) c.refuse("sizes must be positive");
  for (const integer& n : x.extents)
    if (n.is(0) || (n.is_number() && n.number() > (1 << 30)))
      c.refuse("an image must have 1 to 2^30 elements along an axis");
  double kept = 0;  // the factor for all axes
  if (!sizes.empty() && policy != "stretch")
    for (std::size_t i = 0; i < given.size(); ++i) {
      const double s =
          static_cast<double>(sizes[i].number()) / static_cast<double>(x.extents[c.axis(given[i], x.rank())].number());
      kept = i == 0 ? s : policy == "not_larger" ? std::min(kept, s) : std::max(kept, s);
    }
  std::vector<resized_axis> axes;
  integers extents = x.extents;
  bool exact = true, fixed = true;
  for (std::size_t i = 0; i < given.size(); ++i) {
    resized_axis r{.axis = c.axis(given[i], x.rank())};
    const integer n = x.extents[r.axis];
    const auto number = n.is_number() ? static_cast<double>(n.number()) : 0;
    if (!scales.empty()) {
      const double s = scales[i], whole = std::round(s), part = std::round(1 / s);
      r.scale = s;
      if (n.is_number())
        r.extent = static_cast<std::int64_t>(std::floor(s * number + 1e-9));
      else if (s == whole)
        r.extent = n * integer(static_cast<std::int64_t>(whole));
      else if (std::abs(s * part - 1) < 1e-6)
        r.extent = floor_quotient(n, integer(static_cast<std::int64_t>(part)));
      else
        c.refuse("the factor " + digits(s) + " of an extent that is not known");
    } else {
      r.extent = kept > 0 ? integer(static_cast<std::int64_t>(std::floor(kept * number + 0.5))) : sizes[i];
      r.scale = kept > 0                                ? kept
                : n.is_number() && r.extent.is_number() ? static_cast<double>(r.extent.number()) / number
                                                        : 1;
    }
    if (!roi.empty()) r.begin = roi.at(i), r.end = roi.at(i + given.size());
    extents[r.axis] = r.extent;
    const bool known = n.is_number() && r.extent.is_number();
    fixed &= known || r.extent == n;
    exact &= !known || std::abs(r.scale * number - static_cast<double>(r.extent.number())) < 1e-4;
    if (!(r.extent == n && (r.scale == 1 || !known)) || r.begin != 0 || r.end != 1) axes.push_back(r);
  }
  c.result(0, extents, true);
  if (axes.empty()) return c.pass(0);
  bool images = x.rank() == 4;
  for (const resized_axis& r : axes) images &= r.axis >= 2;
  const bool half = where == "half_pixel" ||
                    (where == "pytorch_half_pixel" && !extents[2].is(1) && !extents[3].is(1)) ||
                    (where == "half_pixel_symmetric" && exact);
  const bool known_places = half || where == "asymmetric" || (where == "align_corners" && mode != "nearest");
  bool grows = true;
  for (const resized_axis& r : axes) grows &= r.scale == std::round(r.scale) && r.scale > 1;
  const bool native =
      images && exact && known_places && !exclude &&
      (mode == "nearest"  ? (where == "asymmetric" ? nearest == "floor"
                                                   : half && (nearest == "round_prefer_ceil" ||
                                                             (nearest == "round_prefer_floor" && grows)))
       : mode == "linear" ? !antialias
                          : cubic == -0.75 && !antialias) &&
      (mode == "nearest" || x.type == float32 || x.type == float64);
  if (native) {
    c.need_header("ops/images/resize.hpp");
    c.text = "resize_" +
             std::string(mode == "linear"  ? "bilinear"
                         : mode == "cubic" ? "bicubic"
                                           : "nearest") +
             "<" + extents[2].text() + ", " + extents[3].text() + (half ? "" : ", resize_coordinates::" + where) +
             ">({0})";
    return;
  }
  if (!fixed) c.refuse("extents must be static for mode " + mode + " with " + where);
  std::string text = "{0}";
  std::vector<bool> inside_all;
  std::string beyond;  // 1 for positions inside of the image
  for (const resized_axis& r : axes) {
    const std::int64_t n = x.extents[r.axis].number(), m = r.extent.number();
    const double width = r.scale * static_cast<double>(n);
    std::vector<double> matrix(static_cast<std::size_t>(n * m)), rows, inside;
    bool one_each = true, all_inside = true;
    for (std::int64_t i = 0; i < m; ++i) {
      const auto p = static_cast<double>(i);
      const auto last = static_cast<double>(n - 1);
      double from = (p + 0.5) / r.scale - 0.5;
      if (where == "align_corners") from = width == 1 ? 0 : p * last / (width - 1);
      if (where == "asymmetric") from = p / r.scale;
      if (where == "pytorch_half_pixel" && width == 1) from = -0.5;
      if (where == "half_pixel_symmetric") from += static_cast<double>(n) / 2 * (1 - static_cast<double>(m) / width);
      if (where == "tf_crop_and_resize")
        from =
            (width == 1 ? (r.end - r.begin) * last / 2 : p * (r.end - r.begin) * last / (width - 1)) + r.begin * last;
      const bool is_inside = where != "tf_crop_and_resize" || (from >= 0 && from <= last);
      inside.push_back(is_inside ? 1 : 0);
      all_inside &= is_inside;
      const double left = std::ceil(from) - 1;
      std::vector<double> w = resize_weights(mode, nearest, from - left, r.scale, antialias, cubic);
      const auto reach = static_cast<std::int64_t>(w.size() / 2);
      const std::int64_t first =
          std::clamp<std::int64_t>(static_cast<std::int64_t>(left) + 1 - reach, -reach, n - reach);
      double sum = 0;
      std::size_t ones = 0;
      for (std::size_t k = 0; k < w.size(); ++k) {
        const std::int64_t place = first + static_cast<std::int64_t>(k),
                           nearest_place = std::clamp<std::int64_t>(place, 0, n - 1);
        if (exclude && place != nearest_place) w[k] = 0;
        sum += w[k];
        ones += w[k] == 1;
        if (w[k] == 1) rows.push_back(static_cast<double>(nearest_place));
      }
      one_each &= ones == 1 && is_inside && mode == "nearest";
      for (std::size_t k = 0; k < w.size() && is_inside; ++k) {
        const std::int64_t place = std::clamp<std::int64_t>(first + static_cast<std::int64_t>(k), 0, n - 1);
        matrix[static_cast<std::size_t>(i * n + place)] += w[k] / (exclude ? sum : 1);
      }
    }
    const std::size_t axis = c.physical_axis(0, r.axis);
    if (one_each) {
      c.need_header("ops/index/gather.hpp");
      text = "gather<" + std::to_string(axis) + ">(" + text + ", " + constant_text(c, "rows", {m}, rows, int32) + ")";
      continue;
    }
    c.need_header("ops/products/einsum.hpp");
    std::string from = std::string("abcdefgh").substr(0, x.rank()), to = from;
    const std::string weights = std::string("z") + from[axis];
    to[axis] = 'z';
    text = "einsum<\"" + from + "," + weights + "->" + to + "\">(" + text + ", " +
           constant_text(c, "matrix" + std::to_string(r.axis), {m, n}, matrix, x.type == float64 ? float64 : float32) +
           ")";
    if (outside == 0 || all_inside) continue;
    std::vector<std::int64_t> column(x.rank(), 1);
    column[axis] = m;
    const std::string mask = constant_text(c, "inside" + std::to_string(r.axis), column, inside);
    beyond += (beyond.empty() ? "" : " * ") + mask;
  }
  c.text = beyond.empty() ? text : text + " + " + literal(x.type, outside) + " * (1 - " + beyond + ")";
}

inline void grid_sampled(call& c) {
  c.need_rank(0, 4, 5);
  c.need_rank(1, c.rank());
  value &x = c.operand(0), &grid = c.operand(1);
  c.reorder(1, false);
  const std::string mode = c.word_of("mode", {"linear", "bilinear", "nearest", "cubic", "bicubic"}),
                    border = c.word_of("padding_mode", {"zeros", "border", "reflection"});
  integers extents{x.extents[0], x.extents[1]};
  extents.insert(extents.end(), grid.extents.begin() + 1, grid.extents.end() - 1);
  c.result(0, extents, true);
  std::string options;
  const auto option = [&](const std::string& text) { options += (options.empty() ? "" : ", ") + text; };
  if (mode == "nearest") option(".mode = interpolation::nearest");
  if (mode == "cubic" || mode == "bicubic") option(".mode = interpolation::bicubic");
  if (border == "border") option(".outside = image_border::nearest");
  if (border == "reflection") option(".outside = image_border::reflection");
  if (c.number("align_corners", 0) != 0) option(".align_corners = true");
  if (x.rank() == 5 && mode.ends_with("cubic")) c.refuse("volumes have no cubic mode");
  c.text = "grid_sample" + (options.empty() ? "" : "<grid_sample_options{" + options + "}>") + "({0}, {1})";
}

/// Grids of volumes are products of all positions with the maps.
inline void affine_grid_of(call& c) {
  c.need_rank(0, 3);
  const integers& size = c.known_integers(1);
  const bool corners = c.number("align_corners", 0) != 0;
  integers extents{size.at(0)};
  extents.insert(extents.end(), size.begin() + 2, size.end());
  std::vector<std::int64_t> counts;
  for (std::size_t i = 2; i < size.size(); ++i) counts.push_back(size[i].number());
  integers result = extents;
  result.emplace_back(static_cast<std::int64_t>(counts.size()));
  c.result(0, result);
  if (counts.size() == 2) {
    c.need_header("ops/images/grid_sample.hpp");
    c.text = "affine_grid<" + list_text(counts) + (corners ? ", true" : "") + ">({0})";
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
  const std::int64_t all = counts[0] * counts[1] * counts[2];
  c.need_header("ops/products/tensordot.hpp");
  c.text = reshape_text(
      result, "broadcast_matmul(" +
                  constant_text(c, "places", {all, 4}, places, c.operand(0).type == float64 ? float64 : float32) +
                  ", transpose<0, 2, 1>({0}))");
}

inline void roi_aligned(call& c) {
  c.need_rank(0, 4);
  c.need_rank(1, 2);
  c.need_rank(2, 1);
  const value& x = c.operand(0);
  const std::int64_t h = c.number("output_height", 1), w = c.number("output_width", 1),
                     samples = c.number("sampling_ratio", 0);
  const bool half =
      c.opset >= 16 && c.word_of("coordinate_transformation_mode", {"half_pixel", "output_half_pixel"}) == "half_pixel";
  if (c.word("mode", "avg") != "avg") c.refuse("mode max is not supported");
  if (samples < 1) c.refuse("sampling_ratio must be at least 1: the adaptive number of samples is not supported");
  c.result(0, {c.extent(1, 0), x.extents[1], integer(h), integer(w)}, true);
  const double scale = c.finite("spatial_scale", 1);
  c.text = "roi_align<" + list_text({h, w, samples}) +
           ">({0}, {1}, cast<std::int32_t>({2}), {.spatial_scale = " + digits(static_cast<float>(scale)) +
           ", .aligned = " + (half ? "true" : "false") + "})";
}

inline void space_and_depth(call& c) {
  c.need_rank(0, 4);
  const value& x = c.operand(0);
  const std::int64_t b = c.number("blocksize", 1);
  if (b < 1 || b > 1000) c.refuse("blocksize must be from 1 to 1000");
  const integer n(b);
  const bool to_space = c.of.op == "DepthToSpace";
  const bool crd = c.word_of("mode", {"DCR", "CRD"}) == "CRD";
  const auto divided = [&](const integer& extent, const integer& by) {
    const auto quotient = exact_quotient(extent, by);
    if (!quotient && extent.is_number()) c.refuse("an extent must be a multiple of the blocks");
    return quotient ? *quotient : floor_quotient(extent, by);
  };
  if (to_space)
    c.result(0, {x.extents[0], divided(x.extents[1], n * n), x.extents[2] * n, x.extents[3] * n}, true);
  else
    c.result(0, {x.extents[0], x.extents[1] * n * n, divided(x.extents[2], n), divided(x.extents[3], n)}, true);
  c.text = std::string(to_space ? "depth_to_space<" : "space_to_depth<") + std::to_string(b) +
           (crd ? ", depth_order::crd" : "") + ">({0})";
}

/// The windows of images of two axes.
inline void summed_columns(call& c) {
  c.need_rank(0, 3);
  const value& x = c.operand(0);
  const integers &image = c.known_integers(1), &window = c.known_integers(2);
  const std::size_t axes = image.size();
  const auto strides = c.list("strides", std::vector<std::int64_t>(axes, 1)),
             dilations = c.list("dilations", std::vector<std::int64_t>(axes, 1)),
             pads = c.list("pads", std::vector<std::int64_t>(2 * axes, 0));
  if (axes != 2) c.refuse("images must have two spatial axes");
  integers counts;
  for (std::size_t i = 0; i < 2; ++i)
    counts.push_back(windows(image[i], window[i].number(), strides[i], dilations[i], pads[i] + pads[i + 2]));
  const integer channels = floor_quotient(x.extents[1], product_of(window));
  c.result(0, {x.extents[0], channels, image[0], image[1]}, true);
  const auto pair = [](std::int64_t a, std::int64_t b) { return "size2d(" + list_text({a, b}) + ")"; };
  std::string options = ".window = " + pair(window[0].number(), window[1].number());
  if (strides != std::vector<std::int64_t>{1, 1}) options += ", .stride = " + pair(strides[0], strides[1]);
  if (pads != std::vector<std::int64_t>(4, 0))
    options += ", .pad = padding::of(" + list_text({pads[0], pads[2], pads[1], pads[3]}) + ")";
  if (dilations != std::vector<std::int64_t>{1, 1}) options += ", .dilation = " + pair(dilations[0], dilations[1]);
  options += ", .order = depth_order::crd";
  c.text = "fold<" + image[0].text() + ", " + image[1].text() + ", unfold_options{" + options + "}>(" +
           reshape_text({x.extents[0], counts[0], counts[1], x.extents[1]}, "transpose<0, 2, 1>({0})") + ")";
}

inline void cropped_or_padded(call& c) {
  const value& x = c.operand(0);
  const integers& to = c.known_integers(1);
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < x.rank(); ++i) all.push_back(static_cast<std::int64_t>(i));
  const std::vector<std::int64_t> axes = c.list("axes", all);
  integers extents = x.extents;
  std::string text = "{0}";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = c.axis(axes[i], x.rank());
    const integer n = x.extents[axis], m = to.at(i);
    if (!n.is_number() || !m.is_number()) c.refuse("extents must be static");
    const std::int64_t more = m.number() - n.number();
    extents[axis] = m;
    const std::string place = std::to_string(c.physical_axis(0, axis));
    if (more > 0) text = "pad<" + place + ", " + list_text({more / 2, more - more / 2}) + ">(" + text + ")";
    if (more < 0) text = "slice<" + place + ", " + list_text({-more / 2, m.number()}) + ">(" + text + ")";
  }
  c.result(0, extents, x.last);
  c.text = text;
}

/// Rows of [image, class, box]: as many as are selected in a step.
inline void suppressed(call& c) {
  c.need_rank(0, 3);
  c.need_rank(1, 3);
  const value &boxes = c.operand(0), &scores = c.operand(1);
  const bool centers = c.number("center_point_box", 0) != 0;
  const integer &images = scores.extents[0], &classes = scores.extents[1];
  if (!images.is_number() || !classes.is_number() || images.number() * classes.number() > 256)
    c.refuse("the images and classes must be numbers, and at most 256 pairs");
  std::int64_t most = c.has(2) ? c.known_integers(2).at(0).number() : 0;
  const integer& count = boxes.extents[1];
  if (count.is_number()) most = std::min(most, count.number());
  if (most < 1 || most > (1 << 24)) c.refuse("max_output_boxes_per_class must be from 1 to 2^24");
  const auto number = [&](std::size_t i) { return digits(static_cast<float>(c.known_numbers(i).at(0))); };
  const std::string options = "{.iou_threshold = " + (c.has(3) ? number(3) : "0.0") +
                              (c.has(4) ? ", .score_threshold = " + number(4) : "") + "}";
  const std::string all = named(c, 0, "boxes"), of = named(c, 1, "scores");
  c.to.uses_graph = true;
  std::string rows, masks, kept;
  for (std::int64_t i = 0; i < images.number(); ++i) {
    std::string corners = stated(c, "boxes", "squeeze<0>(slice<0, " + list_text({i, 1}) + ">(" + all + "))");
    if (centers) {
      const std::string center = "slice<1, 0, 2>(" + corners + ")", half = "slice<1, 2, 2>(" + corners + ") / 2.0f";
      corners = stated(c, "corners", "concat<1>(" + center + " - " + half + ", " + center + " + " + half + ")");
    }
    for (std::int64_t k = 0; k < classes.number(); ++k) {
      const std::string score = "squeeze<0>(squeeze<0>(slice<1, " + list_text({k, 1}) + ">(slice<0, " +
                                list_text({i, 1}) + ">(" + of + "))))";
      kept = c.to.name_for("kept");
      c.to.add_statement(
          {{kept},
           "non_max_suppression<" + std::to_string(most) + ">(" + corners + ", " + score + ", " + options + ")",
           ""});
      const auto column = [&](std::int64_t n) {
        return "fill<std::int64_t, " + importer::dims_text({integer(most), 1}) + ">(g, " + std::to_string(n) + ")";
      };
      rows += (rows.empty() ? "" : ", ") + ("concat<1>(" + column(i) + ", " + column(k) +
                                            ", expand_dims<1>(cast<std::int64_t>(" + kept + ".values)))");
      masks += (masks.empty() ? "" : ", ") + ("valid(" + kept + ")");
    }
  }
  const std::string name = c.to.name_for(c.from.outputs[0]), extent = "dyn<\"" + name + "_rows\">";
  const bool one = images.is(1) && classes.is(1);
  if (!one) c.need_header("ops/index/boolean_mask.hpp");
  c.to.add_statement({{name},
                      one ? "with_count<" + extent + ">(" + rows + ", " + kept + ".count)"
                          : "boolean_mask<" + extent + ">(concat<0>(" + rows + "), concat<0>(" + masks + "))",
                      ""});
  c.result(0, {integer::named(name + "_rows"), 3}, false, int64);
  c.out[0]->text = name;
  c.out[0]->stated = c.out[0]->bounded = c.done = true;
  c.need_header("ops/images/boxes.hpp");
}

// ---- normalization ----

inline std::string epsilon_text(call& c, double otherwise = 1e-5) {
  return "{.epsilon = " + digits(static_cast<float>(c.finite("epsilon", otherwise))) + "}";
}

inline void local_response(call& c) {
  c.need_rank(0, 2, 8);
  same_extents(c);
  const std::int64_t size = c.number("size", 1);
  if (size % 2 == 0) c.refuse("size must be odd");
  const float alpha = static_cast<float>(c.finite("alpha", 0.0001)) / static_cast<float>(size);
  c.text = "local_response_normalization({0}, {.depth_radius = " + std::to_string(size / 2) +
           ", .bias = " + digits(static_cast<float>(c.finite("bias", 1))) + ", .alpha = " + digits(alpha) +
           ", .beta = " + digits(static_cast<float>(c.finite("beta", 0.75))) + "})";
}

inline void group_normalized(call& c) {
  c.need_rank(0, 2, 8);
  c.need_rank(1, 1);
  c.need_rank(2, 1);
  same_extents(c);
  const value& x = c.operand(0);
  c.number("stash_type", 1);
  if (c.of.op == "InstanceNormalization") {
    c.text = "instance_normalization({0}, {1}, {2}, " + epsilon_text(c) + ")";
    return;
  }
  const std::int64_t groups = c.number("num_groups", 1);
  const integer size = floor_quotient(x.extents[1], integer(groups));
  // Before opset 21, the parameters belong to groups.
  const auto parameter = [&](std::size_t i) {
    const std::string hole = "{" + std::to_string(i) + "}";
    if (c.operand(i).extents[0] == x.extents[1]) return hole;
    const integer all(groups);
    return reshape_text({x.extents[1]}, "broadcast_to<" + importer::dims_text({all, size}) + ">(" +
                                            reshape_text({all, integer(1)}, hole) + ")");
  };
  c.text = "group_normalization<" + std::to_string(groups) + ">({0}, " + parameter(1) + ", " + parameter(2) + ", " +
           epsilon_text(c) + ")";
}

/// The axes of a normalization: the physical ones of an attribute, as text.
inline std::string axes_text(call& c, const std::vector<std::int64_t>& given) {
  std::vector<std::int64_t> axes;
  for (const std::int64_t a : given) axes.push_back(static_cast<std::int64_t>(c.physical_axis(0, c.axis(a, c.rank()))));
  std::sort(axes.begin(), axes.end());
  return list_text(axes);
}

inline void root_mean_square(call& c) {
  same_extents(c);
  const value& x = c.operand(0);
  const auto axis = static_cast<std::int64_t>(c.axis(c.number("axis", -1), x.rank()));
  c.number("stash_type", 1);
  const auto axes = static_cast<std::int64_t>(x.rank()) - axis;
  if (static_cast<std::int64_t>(c.operand(1).rank()) == axes) {
    c.text = "rms_normalization" + (axes == 1 ? std::string() : "<" + std::to_string(axes) + ">") + "({0}, {1}, " +
             epsilon_text(c) + ")";
    return;
  }
  std::vector<std::int64_t> all;
  for (std::int64_t i = axis; i < static_cast<std::int64_t>(x.rank()); ++i) all.push_back(i);
  c.text = "{0} * rsqrt(mean<" + list_text(all) + ", keep_dims>(square({0})) + " +
           literal(x.type, c.finite("epsilon", 1e-5)) + ") * {1}";
}

inline void mean_variance(call& c) {
  same_extents(c);
  const std::string axes = axes_text(c, c.list("axes", {0, 2, 3})), x = named(c, 0);
  const std::string centred = stated(c, "centred", x + " - mean<" + axes + ", keep_dims>(" + x + ")");
  c.text = centred + " / (sqrt(mean<" + axes + ", keep_dims>(square(" + centred + "))) + " +
           literal(c.operand(0).type, 1e-9) + ")";
}

inline void norm_of_one(call& c) {
  same_extents(c);
  const std::string axis = std::to_string(c.physical_axis(0, c.axis(c.number("axis", -1), c.rank()))), x = named(c, 0);
  const bool first = c.number("p", 2) == 1;
  const std::string norm = stated(
      c, "norm",
      first ? "sum<" + axis + ", keep_dims>(abs(" + x + "))" : "sqrt(sum<" + axis + ", keep_dims>(square(" + x + ")))");
  c.text = "select(" + norm + " == 0, 0, " + x + " / " + norm + ")";
}

/// Global pools of powers.
inline void pooled_powers_globally(call& c) {
  pooled_globally(c);
  const value& x = c.operand(0);
  const double p = static_cast<double>(c.number("p", 2));
  c.text = p == 1   ? "sum<{axes}, keep_dims>(abs({0}))"
           : p == 2 ? "sqrt(sum<{axes}, keep_dims>(square({0})))"
                    : "pow(sum<{axes}, keep_dims>(pow(abs({0}), " + literal(x.type, p) + ")), " +
                          literal(x.type, 1 / p) + ")";
}

inline constexpr row image_rows[] = {
    {"AffineGrid", {affine_grid_of, layout::plain, true}, "affine_grid broadcast_matmul"},
    {"CenterCropPad", {cropped_or_padded, layout::own}, "pad slice"},
    {"Col2Im", {summed_columns}, "fold unfold_options size2d", "ops/images/unfold.hpp"},
    {"DepthToSpace",
     {space_and_depth, layout::channels},
     "depth_to_space depth_order",
     "ops/images/depth_to_space.hpp"},
    {"GlobalLpPool", {pooled_powers_globally, layout::channels}, "sum sqrt pow abs square keep_dims"},
    {"GridSample",
     {grid_sampled, layout::channels},
     "grid_sample grid_sample_options interpolation image_border",
     "ops/images/grid_sample.hpp"},
    {"GroupNormalization", {group_normalized, layout::channels}, "group_normalization", "ops/reduce/normalization.hpp"},
    {"InstanceNormalization",
     {group_normalized, layout::channels},
     "instance_normalization",
     "ops/reduce/normalization.hpp"},
    {"LRN",
     {local_response, layout::channels},
     "local_response_normalization",
     "ops/images/local_response_normalization.hpp"},
    {"LpNormalization", {norm_of_one, layout::kept}, "select norm"},
    {"MeanVarianceNormalization", {mean_variance, layout::kept}, "mean centred"},
    {"NonMaxSuppression", {suppressed}, "non_max_suppression with_count boolean_mask valid fill concat"},
    {"RMSNormalization", {root_mean_square}, "rms_normalization rsqrt square", "ops/reduce/normalization.hpp"},
    {"Resize",
     {resized, layout::channels},
     "resize_bilinear resize_bicubic resize_nearest resize_coordinates gather einsum"},
    {"RoiAlign", {roi_aligned, layout::channels}, "roi_align", "ops/images/regions.hpp"},
    {"SpaceToDepth", {space_and_depth, layout::channels}, "space_to_depth", "ops/images/depth_to_space.hpp"},
    {"Upsample", {resized, layout::channels}, "resize_nearest"},
};

}  // namespace tool::importer
