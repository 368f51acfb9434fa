// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <weft/device/cpu/matmul_strips.hpp>
#include <weft/frozen/attention.hpp>
#include <weft/frozen/image.hpp>
#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/images/grouped_convolution.hpp>
#include <weft/ops/images/pooling.hpp>
#include <weft/ops/images/resample.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/products/attention_op.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/reduce/argmax.hpp>
#include <weft/ops/reduce/normalization.hpp>
#include <weft/ops/reduce/softmax.hpp>
#include <weft/session/frozen_loops.hpp>
#include <weft/session/quantize.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

WEFT_COLD_BEGIN
namespace weft::detail {

/// The calls of kernels in a frozen step.
class frozen_kernels : public frozen_loops {
 protected:
  using frozen_loops::frozen_loops;

  /// `follower`: the node that overwrites the result of this one, or none.
  void operation(std::uint32_t n, std::uint32_t follower) {
    call c = call_of(n);
    if (follower != plan::none) c.result = results_of(follower);
    const weft::operation& op = *c.node.op;
    const auto is = [&](const char* name) { return __builtin_strcmp(op.name, name) == 0; };
    const dtype type = c.out().type;
    if (op.fusion == fusion_kind::expression && op.expression) return map(c);
    if (is_operation<reduction_op>(&op)) return reduce(c);
    if (op.copies) return copies(c);
    if (is("check_lengths")) return copy(output(c), input(c, 0), c.out());  // loops ignore the excess of a length
    if (is("fill")) return fill(c);
    if (is("range")) return range(c);
    if (is("gather")) return gather(c);
    if (is("argmax")) return argmax(c);
    if (type != dtype::float32 && type != dtype::float64) refuse("its elements are neither float nor double");
    if (is_operation<matmul_op<float>>(&op)) return matmul(c, follower != plan::none);
    if (is("conv2d")) return convolution<convolution_op<float>>(c);
    if (is("grouped_conv2d")) return convolution<grouped_convolution_op<float>>(c);
    if (is("conv2d_input_gradient")) return transposed_convolution(c);
    if (is("max_pool2d")) return pool(c, pool_kind::max);
    if (is("avg_pool2d")) return pool(c, pool_kind::average);
    if (is("softmax") || is("log_softmax")) return softmax(c, is("log_softmax"));
    if (is("layer_normalization") || is("rms_normalization")) return normalization(c, is("layer_normalization"));
    if (is("attention")) return attention(c);
    if (is("resample")) return type == dtype::float32 ? resample<float>(c) : resample<double>(c);
    refuse("this operation is not among those of weft/frozen.hpp");
  }

 private:
  void matmul(const call& c, bool followed) {
    needs(product_header);
    const auto t = attributes_of<matmul_op<float>>(c.node);
    sequence<matmul_batch> of;
    for (const prepare_context& p : c.at) of.push_back(product_of(p, t));
    const auto one = [&](auto member) { return size(frozen_number([&](std::size_t q) { return member(of[q]); })); };
    const matmul_shape& s = of[0].each;
    const bool ta = t.transpose_a, tb = t.transpose_b;
    bool fixed = true;
    for (const matmul_batch& b : of)
      fixed = fixed && b.each.m == s.m && b.each.n == s.n && b.each.k == s.k && b.count == of[0].count;
    const bool is_double = c.out().type == dtype::float64;
    const std::size_t element = is_double ? 8 : 4;
    const bool rows = fixed && !tb && matmul_streams(s.m, s.n, s.k),
               dots = fixed && !ta && (s.n == 1 || (tb && s.m == 1));
    const bool in_place = fixed && !tb && matmul_strips(s) == 1 && s.n * element >= 128 &&
                          (s.m < 48 || s.n * s.k * element <= (std::size_t{1} << 18));
    const bool packs = !rows && !dots && !in_place;
    if (packs)
      reserve_scratch((is_double ? matmul_packed_elements<double>(s.n, s.k) : matmul_packed_elements<float>(s.n, s.k)) *
                      element);
    if (options_.weights == frozen_weights::int8 && !is_double && !ta && of[0].count == 1)
      if (const std::byte* const w = weight(c.at[0].input_slots[1])) return quantized_matmul(c, of, w);
    std::string shape = str_cat({"{", one([](auto& b) { return b.each.m; }), ", ",
                                 one([](auto& b) { return b.each.n; }), ", ", one([](auto& b) { return b.each.k; })});
    if (ta || tb) append(shape, {ta ? ", true" : ", false", tb ? ", true" : ", false"});
    shape += "}";
    const std::string memory =
        packs ? str_cat({"reinterpret_cast<", frozen_type(c.out().type), "*>(scratch)"}) : "nullptr";
    const std::string arrays = str_cat({input(c, 0), ", ", input(c, 1), ", ", output(c)}),
                      operands = arrays + ", " + memory;
    if (rows && !ta && of[0].count == 1 && s.m == 1 && s.n > 1) {
      product_ = {static_cast<std::int64_t>(s.n),
                  str_cat({"frozen::row_product<", frozen_type(c.out().type), ", ", s.n, ", ", s.k}), arrays};
      return followed ? void() : write_product();
    }
    if (rows && !ta && of[0].count == 1)
      return line({"frozen::row_product<", frozen_type(c.out().type), ", ", s.n, ">(", shape, ", ", arrays, ");"});
    const bool single = fixed && of[0].count == 1 && (!followed || matmul_panels<float>(s, 1, of[0].outer) == 1);
    if (single) return line({"frozen::product<", frozen_type(c.out().type), ">(", shape, ", ", operands, ");"});
    line({"frozen::products<", frozen_type(c.out().type), ">({", shape, ", ", one([](auto& b) { return b.count; }),
          ", ", one([](auto& b) { return b.outer; }), "}, ", followed ? "true, " : "false, ", operands, ");"});
  }

  /// Writes the product with a quantized matrix: by its integers if it has few rows, otherwise by the floats that they
  /// stand for.
  void quantized_matmul(const call& c, const sequence<matmul_batch>& of, const std::byte* w) {
    const matmul_shape& s = of[0].each;
    const std::string b = quantize(c.at[0].input_slots[1], w, s.k, s.n, s.transpose_b);
    const std::string m = size(frozen_number([&](std::size_t q) { return of[q].each.m; }));
    if (s.m <= 4)
      return line(
          {"frozen::quantized_product({", m, ", ", s.n, ", ", s.k, "}, ", input(c, 0), ", ", b, ", ", output(c), ");"});
    const std::size_t bytes = (s.k * s.n * sizeof(float) + 63) / 64 * 64;
    reserve_scratch(bytes + matmul_packed_elements<float>(s.n, s.k) * sizeof(float));
    line({"frozen::dequantize(", b, ", reinterpret_cast<float*>(scratch), ", s.k, ", ", s.n, ", ", s.n, ");"});
    line({"frozen::product<float>({", m, ", ", s.n, ", ", s.k, "}, ", input(c, 0),
          ", reinterpret_cast<const float*>(scratch), ", output(c), ", reinterpret_cast<float*>(scratch + ", bytes,
          "));"});
  }
  /// Adds a matrix as integers and scales; returns the expression for both.
  std::string quantize(std::uint32_t buffer, const std::byte* at, std::size_t rows, std::size_t columns,
                       bool transposed) {
    const auto added = [&](const std::string& name, std::uint32_t of) {
      const auto element = [&](std::size_t p, std::size_t j) {
        float x;
        __builtin_memcpy(&x, at + 4 * (transposed ? j * rows + p : p * columns + j), sizeof x);
        return x;
      };
      sequence<float> scales;
      sequence<std::int8_t> integers(rows * columns);
      for (std::size_t j = 0; j < columns; ++j) {
        scales.push_back(quantize_channel(
            rows, [&](std::size_t p) { return element(p, j); },
            [&](std::size_t p, std::int8_t x) { integers[p * columns + j] = x; }));
      }
      const auto add = [&](const std::string& id, dtype type, const weft::shape& s, const void* data) {
        add_array(id, of, {type, s}, static_cast<const std::byte*>(data));
      };
      add(name, dtype::int8, weft::shape(rows, columns), integers.data());
      add(unique(name + "_scales"), dtype::float32, weft::shape(columns), scales.data());
    };
    const std::string name =
        array_of(buffer, transposed ? form::transposed_integers : form::integers, weft::shape(rows, columns), added);
    return str_cat({"frozen::quantized{", name, ", ", name, "_scales}"});
  }

  std::string shape_text(const sequence<convolution_shape>& of, const window_attributes& a) const {
    using s = convolution_shape;
    const auto number = [&](std::int64_t s::* member) {
      return text(frozen_number([&](std::size_t q) { return of[q].*member; }));
    };
    std::string all;
    for (const auto member :
         {&s::batch, &s::height, &s::width, &s::channels, &s::window_height, &s::window_width, &s::filters,
          &s::out_height, &s::out_width, &s::stride_height, &s::stride_width, &s::dilation_height, &s::dilation_width})
      append(all, {all.empty() ? "{" : ", ", number(member)});
    const auto margin = [&](bool by_result, std::int64_t s::* before, std::int64_t s::* after, auto... members) {
      if (!by_result) return append(all, {", ", number(before), ", ", number(after)});
      std::string arguments;
      (append(arguments, {arguments.empty() ? "" : ", ", number(members)}), ...);
      append(all, {", frozen::margin(", arguments, "), 0"});  // kernels do not read the padding after an image
    };
    margin(a.pad_top == padding_by_result, &s::pad_top, &s::pad_bottom, &s::out_height, &s::height, &s::window_height,
           &s::stride_height, &s::dilation_height);
    margin(a.pad_left == padding_by_result, &s::pad_left, &s::pad_right, &s::out_width, &s::width, &s::window_width,
           &s::stride_width, &s::dilation_width);
    if (of[0].counts_padding || of[0].groups != 1) all += of[0].counts_padding ? ", true" : ", false";
    if (of[0].groups != 1) append(all, {", ", of[0].groups});
    return all + "}";
  }
  static const window_attributes& windows_of(const window_attributes& a) { return a; }
  static const window_attributes& windows_of(const grouped_attributes& a) { return a.windows; }
  template <class Op>
  void convolution(const call& c) {
    needs(image_header);
    const auto a = attributes_of<Op>(c.node);
    sequence<convolution_shape> of;
    for (const prepare_context& p : c.at) of.push_back(shape_of_call<convolution_kind::forward>(p, a));
    convolution_shape s = of[0];
    const std::string shape = shape_text(of, windows_of(a));
    const char* const type = frozen_type(c.out().type);
    if (std::is_same_v<Op, grouped_convolution_op<float>> && s.groups == s.channels)
      return line({"frozen::depthwise(", shape, ", ", input(c, 0), ", ", input(c, 1), ", ", output(c), ");"});
    const auto groups = static_cast<std::size_t>(s.groups);
    s.channels /= s.groups, s.filters /= s.groups, s.groups = 1;
    const std::size_t element = size_of(c.out().type), columns = static_cast<std::size_t>(s.filters);
    const std::size_t stride = padded_row(columns, element);
    const std::size_t rows = s.filter_elements() / (columns ? columns : 1);
    const std::size_t elements =
        frozen::padded(s).elements() + (groups != 1 ? s.image_elements() + s.out_elements() : 0);
    const std::size_t image_bytes = (elements * element + 63) / 64 * 64;
    std::string filters;
    const std::byte* const known = weight(c.at[0].input_slots[1]);
    const std::uint32_t b = c.at[0].input_slots[1];
    reserve_scratch(image_bytes);
    if (groups != 1) {
      if (!known) refuse("the filters of its groups are computed");
      filters =
          array_of(b, form::groups, weft::shape(groups, rows, columns), [&](const std::string& name, std::uint32_t n) {
            sequence<std::byte> apart(groups * rows * columns * element);
            for (std::size_t i = 0; i < groups * rows; ++i)
              __builtin_memcpy(apart.data() + (i % groups * rows + i / groups) * columns * element,
                               known + i * columns * element, columns * element);
            add_array(name, n, c.declared[1], apart.data(), columns, stride);
          });
    } else if (known && options_.weights == frozen_weights::int8 && element == 4) {
      needs(product_header);
      filters = str_cat({"reinterpret_cast<float*>(scratch + ", image_bytes, ")"});
      line({"frozen::dequantize(", quantize(b, known, rows, columns, false), ", ", filters, ", ", rows, ", ", columns,
            ", ", stride, ");"});
      reserve_scratch(image_bytes + rows * stride * element);
    } else if (stride == columns) {
      filters = input(c, 1);
    } else if (known) {
      filters = array_of(b, form::padded, weft::shape(rows, columns), [&](const std::string& name, std::uint32_t n) {
        add_array(name, n, c.declared[1], known, columns, stride);
      });
    } else {  // computed filters
      needs(copy_header);
      filters = str_cat({"reinterpret_cast<", type, "*>(scratch + ", image_bytes, ")"});
      line({"frozen::copy(weft::shape(", rows, ", ", columns, "), ", input(c, 1), ", {", frozen_dtype(c.out().type),
            ", {", columns, ", 1}}, ", filters, ", {", frozen_dtype(c.out().type), ", {", stride, ", 1}}, ", element,
            ");"});
      reserve_scratch(image_bytes + rows * stride * element);
    }
    line({"frozen::convolve", groups != 1 ? "_groups<" : "<", type, ", ", columns, ">(", shape, ", ", input(c, 0), ", ",
          filters, ", ", stride, ", ", output(c), ", reinterpret_cast<", type, "*>(scratch));"});
  }
  /// Returns the length of a row of filters in whole vectors of any processor.
  static std::size_t padded_row(std::size_t columns, std::size_t element) {
    const std::size_t whole = 128 / element;
    return (columns + whole - 1) / whole * whole;
  }
  /// Writes the gradient of images as a convolution with reversed filters, whose images are spread by the strides.
  void transposed_convolution(const call& c) {
    needs(image_header);
    window_attributes a = attributes_of<convolution_input_gradient_op<float>>(c.node);
    sequence<convolution_shape> of;
    for (const prepare_context& p : c.at) {
      const convolution_shape s = shape_of_call<convolution_kind::input_gradient>(p, a);
      of.push_back({s.batch, s.out_height, s.out_width, s.filters, s.window_height, s.window_width, s.channels,
                    s.height, s.width, 1, 1, s.dilation_height, s.dilation_width,
                    (s.window_height - 1) * s.dilation_height - s.pad_top, 0,
                    (s.window_width - 1) * s.dilation_width - s.pad_left, 0});
    }
    a.pad_top = a.pad_left = 0;
    const convolution_shape& s = of[0];
    const std::size_t element = size_of(c.out().type), columns = static_cast<std::size_t>(s.filters),
                      inner = static_cast<std::size_t>(s.channels),
                      taps = static_cast<std::size_t>(s.window_height * s.window_width),
                      stride = padded_row(columns, element);
    const std::byte* const known = weight(c.at[0].input_slots[0]);
    if (!known) refuse("its filters are computed");
    const std::string filters = array_of(
        c.at[0].input_slots[0], form::transposed_filters, weft::shape(taps, inner, columns),
        [&](const std::string& name, std::uint32_t n) {
          sequence<std::byte> reversed(taps * inner * columns * element);
          for (std::size_t i = 0; i < taps * columns * inner; ++i)
            __builtin_memcpy(
                reversed.data() +
                    (((taps - 1 - i / inner / columns) * inner + i % inner) * columns + i / inner % columns) * element,
                known + i * element, element);
          add_array(name, n, c.declared[0], reversed.data(), columns, stride);
        });
    reserve_scratch(frozen::padded(s, a.stride_height, a.stride_width).elements() * element);
    const char* const type = frozen_type(c.out().type);
    line({"frozen::convolve<",
          type,
          ", ",
          columns,
          ">(",
          shape_text(of, a),
          ", ",
          input(c, 1),
          ", ",
          filters,
          ", ",
          stride,
          ", ",
          output(c),
          ", reinterpret_cast<",
          type,
          "*>(scratch), ",
          std::int64_t{a.stride_height},
          ", ",
          std::int64_t{a.stride_width},
          ");"});
  }
  enum class form : unsigned char { transposed_filters, padded, groups, integers, transposed_integers };
  /// Returns the name of an array that has a buffer's elements in another form for a use with these extents (a filter
  /// of several operations has a form for each); `add(name, node)` adds it at first.
  template <class F>
  std::string array_of(std::uint32_t b, form as, const shape& extents, const F& add) {
    const std::byte* const values = weight(b);
    for (const other_array& a : others_)
      if (a.values == values && a.as == as && a.extents == extents) return a.name;
    std::string name = unique(made().name(owner(b)));
    while (contains(name + "_scales")) name = unique(name);
    others_.push_back({values, as, extents, name});
    add(name, owner(b));
    return name;
  }
  void pool(const call& c, pool_kind kind) {
    needs(image_header);
    const auto a = attributes_of<max_pool_op<float>>(c.node);
    sequence<convolution_shape> of;
    for (const prepare_context& p : c.at) of.push_back(pooling_of(p, a, kind));
    line({"frozen::pool<", frozen_type(c.out().type), ", weft::pool_kind::", kind == pool_kind::max ? "max" : "average",
          ">(", shape_text(of, a.windows), ", ", input(c, 0), ", ", output(c), ");"});
  }
  template <class T>
  void resample(const call& c) {
    needs(image_header);
    const auto a = attributes_of<resample_op<T>>(c.node);
    const std::size_t axis = a.axis;
    const shape &x = c.declared[0].extents, &y = c.out().extents;
    const frozen_number in = extent(x[axis]), out = extent(y[axis]);
    if (!in.is_fixed() || !out.is_fixed()) refuse("its weights depend on the named extent");
    const resample_weights<T> all(resampling_of(c.at[0], a), static_cast<std::size_t>(out.at[0]), a.transposed);
    sequence<std::int32_t> bands;
    for (const device::resample_band& b : all.bands)
      for (const std::size_t n : {b.first, b.count, b.weights}) bands.push_back(static_cast<std::int32_t>(n));
    const auto array = [&](const char* what, const auto& values) {
      const std::uint32_t n = made().instructions[scope_->current].node;
      const std::string name = unique(made().name(n) + what);
      add_array(name, n, {dtype_of<std::remove_cvref_t<decltype(values[0])>>, shape(values.size())},
                reinterpret_cast<const std::byte*>(values.data()));
      return name;
    };
    line({"frozen::resample(", input(c, 0), ", ", output(c), ", ", text(elements(x, 0, axis)), ", ", text(in), ", ",
          text(out), ", ", text(elements(x, axis + 1)), ", ", array("_bands", bands), ", ", array("_weights", all.all),
          ");"});
  }
  void softmax(const call& c, bool log) {
    needs(rows_header);
    const shape& s = c.out().extents;
    const frozen_number columns = extent(s[s.rank - 1]);
    std::string scratch;
    if (log) {
      scratch = str_cat({", reinterpret_cast<", frozen_type(c.out().type), "*>(scratch)"});
      reserve_scratch(static_cast<std::size_t>(columns.at[0]) * size_of(c.out().type));
    }
    line({"frozen::", c.node.op->name, "(", input(c, 0), ", ", output(c), ", ", text(elements(s, 0, s.rank - 1)), ", ",
          text(columns), scratch, ");"});
  }
  void normalization(const call& c, bool centred) {
    needs(rows_header);
    const shape &x = c.declared[0].extents, &scale = c.declared[1].extents;
    const double epsilon = attributes_of<layer_normalization_op<float, true>>(c.node).epsilon;
    line({"frozen::normalize<",
          frozen_type(c.out().type),
          ", ",
          centred ? "true" : "false",
          ">(",
          input(c, 0),
          ", ",
          input(c, 1),
          ", ",
          centred ? input(c, 2) : "nullptr",
          ", ",
          output(c),
          ", ",
          output(c, 1),
          ", ",
          centred ? output(c, 2) : "nullptr",
          ", ",
          text(elements(x, 0, x.rank - scale.rank)),
          ", ",
          text(elements(scale)),
          ", ",
          format_number("%.*g", 17, epsilon),
          ");"});
  }
  void attention(const call& c) {
    needs(attention_header);
    const auto a = attributes_of<attention_op<float>>(c.node);
    const attention_operands o = a.operands();
    using problem = device::attention_problem;
    sequence<problem> of;
    for (const prepare_context& p : c.at) of.push_back(attention_problem_of(p, a));
    std::string all;
    const auto add = [&](auto f) {
      append(all, {all.empty() ? "" : ", ", text(frozen_number([&](std::size_t q) { return f(of[q]); }))});
    };
    using m = std::int64_t problem::*;
    for (const m member : {&problem::batch, &problem::heads, &problem::kv_heads, &problem::queries, &problem::keys,
                           &problem::width, &problem::value_width})
      add([=](const problem& s) { return s.*member; });
    std::string steps;
    all.swap(steps);
    for (std::size_t i = 0; i < 4; ++i) add([=](const problem& s) { return s.mask_steps[i]; });
    all = str_cat({"{", steps, ", {", all, "}, ", of[0].window, ", ", format_number("%.*g", 17, of[0].scale), ", ",
                   of[0].causal ? "true, " : "false, ", of[0].alibi ? "true, " : "false, ",
                   of[0].positions_differ ? "true}" : "false}"});
    const bool is_double = c.out().type == dtype::float64,
               is_mask = o.mask >= 0 && c.declared[static_cast<std::size_t>(o.mask)].type == dtype::boolean;
    reserve_scratch(is_double ? 8 * frozen::attention_elements<double>(of[0])
                              : 4 * frozen::attention_elements<float>(of[0]));
    const auto given = [&](int k, bool yes) {
      return k < 0 || !yes ? std::string("nullptr") : input(c, static_cast<std::size_t>(k));
    };
    const bool has_logs = made().buffers[c.result[1]].kind != plan::buffer_kind::unused;
    line({"frozen::attention<",
          frozen_type(c.out().type),
          ">(",
          all,
          ", ",
          input(c, 0),
          ", ",
          input(c, 1),
          ", ",
          input(c, 2),
          ", ",
          given(o.mask, !is_mask),
          ", ",
          given(o.mask, is_mask),
          ", ",
          given(o.lengths, true),
          ", ",
          given(o.positions, true),
          ", ",
          output(c),
          ", ",
          has_logs ? output(c, 1) : "nullptr",
          ", reinterpret_cast<",
          frozen_type(c.out().type),
          "*>(scratch));"});
  }
  void argmax(const call& c) {
    needs(rows_header);
    const shape& x = c.declared[0].extents;
    const std::size_t axis = attributes_of<argmax_op<float>>(c.node).axis;
    line({"frozen::argmax(", input(c, 0), ", ", output(c), ", ", text(elements(x, 0, axis)), ", ",
          text(extent(x[axis])), ", ", text(elements(x, axis + 1)), ");"});
  }
  void gather(const call& c) {
    needs(rows_header);
    const shape& x = c.declared[0].extents;
    const std::size_t axis = attributes_of<gather_op<float>>(c.node).axis;
    const frozen_number bytes = static_cast<std::int64_t>(size_of(c.out().type));
    line({"frozen::gather(reinterpret_cast<const std::byte*>(", input(c, 0), "), ", input(c, 1),
          ", reinterpret_cast<std::byte*>(", output(c), "), ", text(elements(x, 0, axis)), ", ", text(extent(x[axis])),
          ", ", text(elements(x, axis + 1) * bytes), ", ", text(elements(c.declared[1].extents)), ");"});
  }
  void fill(const call& c) {
    needs(map_header);
    const std::uint64_t bits = element_bits(literal_value<double>(c.node.literals[0]), c.out().type);
    line({"frozen::fill(", output(c), ", ", bits, "u, ", size_of(c.out().type), ", ", text(elements(c.out().extents)),
          ");"});
  }
  void range(const call& c) {
    needs(map_header);
    const dtype t = c.out().type;
    const auto literal = [&](std::size_t k) {
      return frozen_literal(t, reinterpret_cast<const std::byte*>(&c.node.literals[k]));
    };
    line({"frozen::range<", frozen_type(t), ">(", literal(0), ", ", literal(1), ", ", output(c), ", ",
          text(elements(c.out().extents)), ");"});
  }
  void copies(const call& c) {
    needs(copy_header);
    sequence<strided_copies> of;
    for (const prepare_context& p : c.at) of.push_back(c.node.op->copies(p));
    const std::size_t bytes = size_of(of[0].type);
    for (std::size_t o = 0; of[0].fills && o < c.node.outputs.size(); ++o) {
      needs(map_header);
      line({"frozen::fill(", output(c, o), ", ", of[0].fill, "u, ", bytes, ", ",
            text(elements(c.declared[c.inputs + o].extents)), ");"});
    }
    for (std::size_t k = 0; k < of[0].regions.size(); ++k) {
      const auto sampled = [&](auto f) {
        return text(frozen_number([&](std::size_t q) {
          if (of[q].regions.size() != of[0].regions.size()) refuse("its boxes depend on the named extent");
          return f(of[q].regions[k]);
        }));
      };
      const strided_region& r = of[0].regions[k];
      std::string extents, from, to;
      for (std::size_t i = 0; i < r.extents.rank; ++i) {
        append(extents, {i ? ", " : "", sampled([i](auto& x) { return x.extents[i]; })});
        append(from, {i ? ", " : "", sampled([i](auto& x) { return x.from_stride()[i]; })});
        append(to, {i ? ", " : "", sampled([i](auto& x) { return x.to_stride()[i]; })});
      }
      line({"frozen::copy(weft::shape(", extents, "), ",
            plus(input(c, r.from), sampled([](auto& x) { return x.from_offset; })), ", {", frozen_dtype(of[0].type),
            ", {", from, "}}, ", plus(output(c, r.to), sampled([](auto& x) { return x.to_offset; })), ", {",
            frozen_dtype(of[0].type), ", {", to, "}}, ", bytes, ");"});
    }
  }

  struct other_array {
    const std::byte* values;
    form as;
    shape extents;
    std::string name;
  };
  sequence<other_array> others_;
};

}  // namespace weft::detail
WEFT_COLD_END

#pragma pop_macro("slots")
