// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Transforms of signals, windows, and random numbers.
namespace tool::importer {

/// Makes result 0 a constant of the type that an attribute names.
inline void constant_result(call& c, const std::vector<std::int64_t>& extents, const std::vector<double>& numbers) {
  const auto type = static_cast<int>(c.number("output_datatype", float32));
  if (type != float32 && type != float64) c.refuse("output_datatype must be float or double");
  set_constant(*c.out[0], new_tensor(c, c.from.outputs[0], extents, numbers, type));
}

inline void window_of(call& c) {
  const std::int64_t size = c.known_integers(0)[0].number();
  const bool blackman = c.of.op == "BlackmanWindow";
  const double n = static_cast<double>(size) - (c.flag("periodic", true) ? 0 : 1),
               mid = c.of.op == "HammingWindow" ? 25.0 / 46
                     : c.of.op == "HannWindow"  ? 0.5
                                                : 0.42,
               first = blackman ? 0.5 : 1 - mid, second = blackman ? 0.08 : 0;
  if (size < 0 || size > (1 << 24)) c.refuse("the size must be from 0 to 2^24");
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < size; ++i) {
    const double angle = 2 * 3.14159265358979323846 * static_cast<double>(i) / n;
    numbers.push_back(mid - first * std::cos(angle) + second * std::cos(2 * angle));
  }
  constant_result(c, {size}, numbers);
}

inline void mel_weights(call& c) {
  const std::int64_t mels = c.known_integers(0)[0].number(), length = c.known_integers(1)[0].number(),
                     rate = c.known_integers(2)[0].number(), bins = length / 2 + 1;
  const double low = 2595 * std::log10(1 + c.known_numbers(3).at(0) / 700),
               high = 2595 * std::log10(1 + c.known_numbers(4).at(0) / 700);
  if (mels < 1 || length < 1 || rate < 1 || mels > 65536 || bins > 65536 || mels * bins > (1 << 24))
    c.refuse("its numbers of bins are out of range");
  std::vector<double> numbers(static_cast<std::size_t>(mels * bins));
  const auto edge = [&](std::int64_t i) {
    const double mel = low + static_cast<double>(i) * (high - low) / static_cast<double>(mels + 2);
    const double at =
        std::floor(static_cast<double>(length + 1) * 700 * (std::pow(10, mel / 2595) - 1) / static_cast<double>(rate));
    if (!(at >= 0 && at < static_cast<double>(bins))) c.refuse("an edge is beyond half of the sample rate");
    return static_cast<std::int64_t>(at);
  };
  for (std::int64_t i = 0; i < mels; ++i) {
    const std::int64_t begin = edge(i), center = edge(i + 1), end = edge(i + 2);
    const auto at = [&](std::int64_t j) -> double& { return numbers[static_cast<std::size_t>(j * mels + i)]; };
    for (std::int64_t j = begin; j <= center; ++j)
      at(j) = center == begin ? 1 : static_cast<double>(j - begin) / static_cast<double>(center - begin);
    for (std::int64_t j = center; j < end; ++j)
      at(j) = static_cast<double>(end - j) / static_cast<double>(end - center);
  }
  constant_result(c, {bins, mels}, numbers);
}

/// A transform along an axis of [..., parts], whose last axis has real and perhaps imaginary parts.
inline void fourier(call& c) {
  const integers& xs = c.operand(0).extents;
  const std::size_t rank = xs.size();
  const std::int64_t given = c.opset < 20 ? c.number("axis", 1) : c.has(2) ? c.known_integers(2)[0].number() : -2;
  const std::size_t axis = c.axis(given, rank);
  const bool inverse = c.flag("inverse"), onesided = c.flag("onesided"), real = xs.back().is(1);
  if (rank < 2 || axis + 1 >= rank) c.refuse("the axis must not be the last one");
  const std::size_t last = rank - 1, row = rank - 2;
  const integer length = c.has(1)              ? c.known_integers(1)[0]
                         : inverse && onesided ? (xs[axis] - integer(1)) * integer(2)
                                               : xs[axis],
                bins = floor_quotient(length, integer(2)) + integer(1), needed = inverse && onesided ? bins : length,
                more = needed - xs[axis];
  if (!more.is_number()) c.refuse("dft_length needs a static extent");
  integers extents = with_extent(xs, axis, onesided && !inverse ? bins : length);
  extents.back() = inverse && onesided ? 1 : 2;
  c.result(0, extents);
  // The axis is made the last one.
  std::vector<std::int64_t> order = numbers_to(last);
  std::swap(order[axis], order.back());
  const auto turned = [&](const std::string& text) {
    return axis == row ? text : form("transpose<$>($)", order, text);
  };
  const std::string x = named(c, 0, "signal");
  const auto part_of = [&](std::int64_t which) {
    const std::string text = turned(form("squeeze<$>($)", last, slice_text(last, which, 1, x)));
    return more.is(0)          ? text
           : more.number() > 0 ? form("pad<$, 0, $>($)", row, more, text)
                               : slice_text(row, 0, needed, text);
  };
  const auto back = [&](const std::string& text) { return form("expand_dims<$>($)", last, turned(text)); };
  const std::string re = stated(c, "re", part_of(0)),
                    im = stated(c, "im", real ? form("zeros_like($)", re) : part_of(1));
  if (inverse && onesided) {
    c.text = back(form("irfft<$>($, $)", length, re, im));
    return;
  }
  const bool half = real && !inverse && length.is_number();
  const std::string transform = half ? form("rfft($)", re) : form(inverse ? "ifft($, $)" : "fft($, $)", re, im);
  c.text = c.after_statements(form("re_of, im_of = $; ", transform));
  const std::int64_t n = half ? length.number() : 0, mirrored = n - n / 2 - 1;
  const auto shown = [&](const char* text, const char* sign) {
    if (onesided) return back(half ? text : slice_text(row, 0, bins, text));
    return back(half && mirrored > 0
                    ? form("concat<$>($, $slice<$, $, $, -1>($))", row, text, sign, row, mirrored, mirrored, text)
                    : text);
  };
  c.text = form("concat<$>($, $)", last, shown("{re_of}", ""), shown("{im_of}", "-"));
}

inline void short_time_fourier(call& c) {
  c.need_rank(0, 2, 3);
  const integers& xs = c.operand(0).extents;
  const std::int64_t step = c.known_integers(1)[0].number();
  const integer length = c.has(3) ? c.known_integers(3)[0] : c.extent(2, 0);
  const bool onesided = c.flag("onesided", true);
  if (xs.size() == 3 && !xs[2].is(1)) c.refuse("signals must be real");
  if (step < 1 || !length.is_number()) c.refuse("the frames must have static extents");
  const integer frames = floor_quotient(xs[1] - length, integer(step)) + integer(1),
                bins = onesided ? floor_quotient(length, integer(2)) + integer(1) : length;
  c.result(0, {xs[0], frames, bins, 2});
  const std::string framed = form("frame<stft_options{.length = $, .step = $}>($)$", length, step,
                                  xs.size() == 3 ? "squeeze<2>({0})" : "{0}", c.has(2) ? " * {2}" : "");
  c.text = onesided ? form("re_of, im_of = rfft($); ", framed)
                    : form("frames = $; re_of, im_of = fft({frames}, zeros_like({frames})); ", framed);
  c.text += "concat<3>(expand_dims<3>({re_of}), expand_dims<3>({im_of}))";
}

/// Numbers of an attribute's or an operand's extents. Seeds of other libraries give other numbers, so that none is
/// used.
inline void random_numbers(call& c) {
  c.real("seed", 0);
  const bool like = c.of.op.ends_with("Like"), uniform = c.of.op.starts_with("RandomUniform");
  const std::vector<std::int64_t> shape = c.list("shape", {});
  const integers extents = like ? c.operand(0).extents : integers(shape.begin(), shape.end());
  const auto type = static_cast<int>(c.number("dtype", like ? c.operand(0).type : static_cast<int>(float32)));
  if (!is_float(type)) c.refuse("dtype must be a floating-point type");
  c.result(0, extents, false, type);
  c.to.uses_graph = true;
  const double first = uniform ? c.finite("low", 0) : c.finite("mean", 0),
               second = uniform ? c.finite("high", 1) : c.finite("scale", 1);
  c.text = form("$<$, $>(g, $, $)", uniform ? "random_uniform" : "random_normal", cpp_type(type), extents,
                digits(static_cast<float>(first)), digits(static_cast<float>(second)));
}

inline void bernoulli(call& c) {
  c.real("seed", 0);
  const int from = c.operand(0).type, type = static_cast<int>(c.number("dtype", from));
  c.result(0, c.operand(0).extents, c.last_order, type);
  c.text = type == from ? "random_bernoulli({0})" : cast_text(type, "random_bernoulli({0})");
}

inline void multinomial(call& c) {
  c.need_rank(0, 2);
  c.real("seed", 0);
  const std::int64_t samples = c.number("sample_size", 1);
  const auto type = static_cast<int>(c.number("dtype", int32));
  c.result(0, {c.extent(0, 0), samples}, false, type);
  c.text = cast_text(type, form("categorical<$>({0})", samples));
}

inline constexpr row signal_rows[] = {
    {"Bernoulli", {bernoulli, layout::kept}, "random_bernoulli", "ops/random/distributions.hpp"},
    {"BlackmanWindow", {window_of}},
    {"DFT", {fourier}, "fft ifft rfft irfft zeros_like concat expand_dims", "ops/signals/fft.hpp"},
    {"HammingWindow", {window_of}},
    {"HannWindow", {window_of}},
    {"MelWeightMatrix", {mel_weights}},
    {"Multinomial", {multinomial}, "categorical", "ops/random/categorical.hpp"},
    {"RandomNormal", {random_numbers}, "random_normal", "graph/random.hpp"},
    {"RandomNormalLike", {random_numbers}, "random_normal", "graph/random.hpp"},
    {"RandomUniform", {random_numbers}, "random_uniform", "graph/random.hpp"},
    {"RandomUniformLike", {random_numbers}, "random_uniform", "graph/random.hpp"},
    {"STFT", {short_time_fourier}, "frame stft_options rfft", "ops/signals/stft.hpp"},
};

}  // namespace tool::importer
