// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Transforms of signals, windows, and random numbers.
namespace tool::importer {

/// Makes result 0 a constant.
inline void constant_result(call& c, const std::vector<std::int64_t>& extents, const std::vector<double>& numbers,
                            int type) {
  auto& t = new_tensor(c, c.from.outputs[0], extents, numbers, type);
  set_constant(*c.out[0], t);
}

inline void window_of(call& c) {
  const std::int64_t size = c.known_integers(0).at(0).number();
  const int type = static_cast<int>(c.number("output_datatype", float32));
  const double n = static_cast<double>(size) - (c.number("periodic", 1) != 0 ? 0 : 1);
  const double mid = c.of.op == "HammingWindow" ? 25.0 / 46 : c.of.op == "HannWindow" ? 0.5 : 0.42;
  const double second = c.of.op == "BlackmanWindow" ? 0.08 : 0, first = c.of.op == "BlackmanWindow" ? 0.5 : 1 - mid;
  if (size < 0 || size > (1 << 24)) c.refuse("the size must be from 0 to 2^24");
  if (type != float32 && type != float64) c.refuse("output_datatype must be float or double");
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < size; ++i) {
    const double angle = 2 * 3.14159265358979323846 * static_cast<double>(i) / n;
    numbers.push_back(mid - first * std::cos(angle) + second * std::cos(2 * angle));
  }
  constant_result(c, {size}, numbers, type);
}

inline void mel_weights(call& c) {
  const std::int64_t mels = c.known_integers(0).at(0).number(), length = c.known_integers(1).at(0).number(),
                     rate = c.known_integers(2).at(0).number();
  const double low = 2595 * std::log10(1 + c.known_numbers(3).at(0) / 700),
               high = 2595 * std::log10(1 + c.known_numbers(4).at(0) / 700);
  const int type = static_cast<int>(c.number("output_datatype", float32));
  const std::int64_t bins = length / 2 + 1;
  if (mels < 1 || length < 1 || rate < 1 || mels > 65536 || bins > 65536 || mels * bins > (1 << 24))
    c.refuse("its numbers of bins are out of range");
  if (type != float32 && type != float64) c.refuse("output_datatype must be float or double");
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
  constant_result(c, {bins, mels}, numbers, type);
}

/// A transform along an axis of [..., parts], whose last axis has real and perhaps imaginary parts.
inline void fourier(call& c) {
  const integers& xs = c.operand(0).extents;
  const std::size_t rank = xs.size();
  const std::int64_t given = c.opset < 20 ? c.number("axis", 1) : c.has(2) ? c.known_integers(2).at(0).number() : -2;
  const std::size_t axis = c.axis(given, rank);
  const bool inverse = c.number("inverse", 0) != 0, onesided = c.number("onesided", 0) != 0, real = xs.back().is(1);
  if (rank < 2 || axis + 1 >= rank) c.refuse("the axis must not be the last one");
  const integer given_length = xs[axis];
  const integer length = c.has(1)              ? c.known_integers(1).at(0)
                         : inverse && onesided ? (given_length - integer(1)) * integer(2)
                                               : given_length;
  // The axis is made the last one.
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i + 1 < rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  std::swap(order[axis], order.back());
  const std::string last = std::to_string(rank - 1),
                    turned = axis + 2 == rank ? "" : "transpose<" + list_text(order) + ">";
  const std::string x = named(c, 0, "signal"), row = std::to_string(rank - 2);
  const integer needed = inverse && onesided ? floor_quotient(length, integer(2)) + integer(1) : length;
  const auto part = [&](const char* which) {
    std::string text = "squeeze<" + last + ">(slice<" + last + ", " + which + ", 1>(" + x + "))";
    if (!turned.empty()) text = turned + "(" + text + ")";
    if (given_length == needed) return text;
    const integer more = needed - given_length;
    if (!more.is_number()) c.refuse("dft_length needs a static extent");
    return more.number() > 0 ? "pad<" + row + ", 0, " + more.text() + ">(" + text + ")"
                             : "slice<" + row + ", 0, " + needed.text() + ">(" + text + ")";
  };
  const std::string re = stated(c, "re", part("0"));
  const std::string im = stated(c, "im", real ? "zeros_like(" + re + ")" : part("1"));
  integers extents = xs;
  extents[axis] = onesided && !inverse ? floor_quotient(length, integer(2)) + integer(1) : length;
  extents.back() = inverse && onesided ? 1 : 2;
  c.result(0, extents);
  const auto back = [&](const std::string& text) {
    return "expand_dims<" + last + ">(" + (turned.empty() ? text : turned + "(" + text + ")") + ")";
  };
  if (inverse && onesided) {
    c.text = back("irfft<" + length.text() + ">(" + re + ", " + im + ")");
    return;
  }
  const std::string a = c.to.name_for("re_of"), b = c.to.name_for("im_of");
  const bool half = real && !inverse && length.is_number();
  c.to.add_statement({{a, b}, half ? "rfft(" + re + ")" : (inverse ? "ifft(" : "fft(") + re + ", " + im + ")", ""});
  const std::int64_t n = half ? length.number() : 0, mirrored = n - n / 2 - 1;
  const auto shown = [&](const std::string& text, const std::string& sign) {
    if (!half) return back(onesided ? "slice<" + row + ", 0, " + extents[axis].text() + ">(" + text + ")" : text);
    if (onesided || mirrored == 0) return back(text);
    return back("concat<" + row + ">(" + text + ", " + sign + "slice<" + row + ", " +
                list_text({mirrored, mirrored, -1}) + ">(" + text + "))");
  };
  c.text = "concat<" + last + ">(" + shown(a, "") + ", " + shown(b, "-") + ")";
}

inline void short_time_fourier(call& c) {
  c.need_rank(0, 2, 3);
  const integers& xs = c.operand(0).extents;
  const std::int64_t step = c.known_integers(1).at(0).number();
  const integer length = c.has(3) ? c.known_integers(3).at(0) : c.extent(2, 0);
  const bool onesided = c.number("onesided", 1) != 0;
  if (xs.size() == 3 && !xs[2].is(1)) c.refuse("signals must be real");
  if (step < 1 || !length.is_number()) c.refuse("the frames must have static extents");
  const integer frames = floor_quotient(xs[1] - length, integer(step)) + integer(1),
                bins = onesided ? floor_quotient(length, integer(2)) + integer(1) : length;
  const std::string options = "stft_options{.length = " + length.text() + ", .step = " + std::to_string(step) + "}";
  const std::string x = xs.size() == 3 ? "squeeze<2>({0})" : "{0}";
  std::string framed = "frame<" + options + ">(" + x + ")" + (c.has(2) ? " * {2}" : "");
  const std::string a = c.to.name_for("re_of"), b = c.to.name_for("im_of");
  if (!onesided) framed = stated(c, "frames", framed);
  c.to.add_statement(
      {{a, b}, c.filled(onesided ? "rfft(" + framed + ")" : "fft(" + framed + ", zeros_like(" + framed + "))"), ""});
  c.result(0, {xs[0], frames, bins, 2});
  c.text = "concat<3>(expand_dims<3>(" + a + "), expand_dims<3>(" + b + "))";
}

/// Numbers of an attribute's or an operand's extents. Seeds of other libraries give other numbers, so that none is
/// used.
inline void random_numbers(call& c) {
  c.real("seed", 0);
  integers extents;
  const bool like = c.of.op.ends_with("Like");
  if (like) extents = c.operand(0).extents;
  for (const std::int64_t n : like ? std::vector<std::int64_t>() : c.list("shape", {})) extents.emplace_back(n);
  const int type = static_cast<int>(c.number("dtype", like ? c.operand(0).type : static_cast<int>(float32)));
  if (!is_float(type)) c.refuse("dtype must be a floating-point type");
  c.result(0, extents, false, type);
  c.to.uses_graph = true;
  const bool uniform = c.of.op.starts_with("RandomUniform");
  const auto number = [&](double x) { return digits(static_cast<float>(x)); };
  c.text = std::string(uniform ? "random_uniform<" : "random_normal<") + cpp_type(type) + ", " +
           importer::dims_text(extents) + ">(g, " +
           (uniform ? number(c.finite("low", 0)) + ", " + number(c.finite("high", 1))
                    : number(c.finite("mean", 0)) + ", " + number(c.finite("scale", 1))) +
           ")";
}

inline void bernoulli(call& c) {
  c.real("seed", 0);
  const int from = c.operand(0).type, type = static_cast<int>(c.number("dtype", from));
  c.result(0, c.operand(0).extents, c.last_order, type);
  c.text = "random_bernoulli({0})";
  if (type != from) c.text = cast_text(type, c.text);
}

inline void multinomial(call& c) {
  c.need_rank(0, 2);
  c.real("seed", 0);
  const std::int64_t samples = c.number("sample_size", 1);
  const int type = static_cast<int>(c.number("dtype", int32));
  c.result(0, {c.extent(0, 0), integer(samples)}, false, type);
  c.text = cast_text(type, "categorical<" + std::to_string(samples) + ">({0})");
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
