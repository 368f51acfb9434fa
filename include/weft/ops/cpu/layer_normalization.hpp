// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/layer_normalization_gradient.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

/// CPU kernels of layer normalization and its gradient.
namespace weft::detail {

/// The extents of x as rows of the scale's length. Throws invalid_argument if they do not fit.
struct normalized_rows {
  std::size_t rows = 0, columns = 0;

  normalized_rows(const prepare_context& p, std::size_t parameters_end);
};

/// Inputs: x, scale and, if centred, offset. Outputs: the result and, for each row, 1 / sqrt(variance + epsilon) and,
/// if centred, the mean.
template <class T, bool Centred>
class layer_normalization_kernel final : public kernel {
 public:
  layer_normalization_kernel(const prepare_context& p, double epsilon)
      : name_(p.node.op->name), of_(p, Centred ? 3 : 2), chunks_(of_.rows, of_.rows * of_.columns), epsilon_(epsilon) {
    for (std::size_t i = 0; i < p.node.inputs.size(); ++i) in_[i] = p.input_slots[i];
    for (std::size_t i = 0; i < p.node.outputs.size(); ++i) out_[i] = p.output_slots[i];
  }

  void run(const kernel_context& f) override {
    const auto input = [&](std::size_t i) { return reinterpret_cast<const T*>(f.buffers[in_[i]]); };
    const auto output = [&](std::size_t i) { return reinterpret_cast<T*>(f.buffers[out_[i]]); };
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      const std::size_t at = begin * of_.columns;
      multiversioned(device::normalize_rows<T, Centred>{end - begin, of_.columns, epsilon_, input(0) + at, input(1),
                                                        Centred ? input(2) : nullptr, output(0) + at, output(1) + begin,
                                                        Centred ? output(2) + begin : nullptr});
    });
  }
  std::string describe() const override { return str_cat({name_, " ", of_.rows, "x", of_.columns}); }

 private:
  const char* name_;
  normalized_rows of_;
  device::chunks chunks_;
  double epsilon_;
  std::uint32_t in_[3]{}, out_[3]{};
};

/// Inputs: x, scale, the upstream gradient, 1 / sqrt(variance + epsilon) and, if centred, the mean. Outputs: the
/// gradients of x, scale and, if centred, offset.
template <class T, bool Centred>
class layer_normalization_gradient_kernel final : public kernel {
 public:
  explicit layer_normalization_gradient_kernel(const prepare_context& p)
      : name_(p.node.op->name), of_(p, 2), chunks_(of_.rows, of_.rows * of_.columns, elements_of_chunk(of_.columns)) {
    for (std::size_t i = 0; i < p.node.inputs.size(); ++i) in_[i] = p.input_slots[i];
    for (std::size_t i = 0; i < p.node.outputs.size(); ++i) out_[i] = p.output_slots[i];
    few_.resize(chunks_.count * 2 * of_.columns);
    sums_.resize(chunks_.count * 2 * of_.columns);
  }

  void run(const kernel_context& f) override {
    const auto input = [&](std::size_t i) { return reinterpret_cast<const T*>(f.buffers[in_[i]]); };
    const auto output = [&](std::size_t i) { return reinterpret_cast<T*>(f.buffers[out_[i]]); };
    const std::size_t n = of_.columns;
    chunks_.run(f, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
      multiversioned(device::gradients_of_rows<T, Centred>{end - begin, n, input(0) + begin * n, input(1),
                                                           input(2) + begin * n, input(3) + begin,
                                                           Centred ? input(4) + begin : nullptr, output(0) + begin * n,
                                                           few_.data() + chunk * 2 * n, sums_.data() + chunk * 2 * n});
    });
    for (std::size_t which = 0; which < (Centred ? 2 : 1); ++which)
      for (std::size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < chunks_.count; ++k) sum += sums_[(2 * k + which) * n + i];
        output(1 + which)[i] = static_cast<T>(sum);
      }
  }
  std::size_t memory_bytes() const override { return few_.memory_bytes() + sums_.memory_bytes(); }
  std::string describe() const override { return str_cat({name_, " ", of_.rows, "x", of_.columns}); }

 private:
  // Enough rows that their sums are small in comparison.
  static std::size_t elements_of_chunk(std::size_t columns) {
    constexpr std::size_t rows = 64, elements = 16384;
    return columns * rows > elements ? columns * rows : elements;
  }

  const char* name_;
  normalized_rows of_;
  device::chunks chunks_;
  sequence<T> few_;
  sequence<double> sums_;
  std::uint32_t in_[5]{}, out_[3]{};
};

#if WEFT_DEFINITIONS

WEFT_DECL normalized_rows::normalized_rows(const prepare_context& p, std::size_t parameters_end) {
  const shape &x = p.inputs[0].extents, &scale = p.inputs[1].extents;
  for (std::size_t i = 1; i < parameters_end; ++i)
    for (std::size_t axis = 0; axis < scale.rank; ++axis)
      if (p.inputs[i].extents[axis] != x[x.rank - scale.rank + axis])
        throw error(
            error_code::invalid_argument, p.node.op->name,
            {"parameters of extents ", to_string(p.inputs[i].extents), " do not fit the last axes of ", to_string(x)});
  columns = scale.elements();
  rows = 1;
  const std::size_t before = x.rank - scale.rank;
  for (std::size_t axis = 0; axis < before; ++axis) rows *= static_cast<std::size_t>(x[axis]);
}

#endif

}  // namespace weft::detail
