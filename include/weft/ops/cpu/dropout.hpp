// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/random_words.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel of dropout.
WEFT_COLD_BEGIN
namespace weft::detail {

/// Throws invalid_argument if a rate is not in [0, 1).
inline void check_dropout_rate(double rate) {
  if (device::dropout_element<float>::is_rate(rate)) return;
  throw error(
      error_code::invalid_argument, "dropout",
      {"the rate must be in [0, 1), the share of elements that become zero; it is ", format_number("%.*g", 9, rate)});
}

/// The source of a rate: a number, or a computed scalar.
struct dropout_rate {
  explicit dropout_rate(const prepare_context& p) : computed(p.node.inputs.size() > 2) {
    if (computed)
      slot = p.input_slots[2], wide = p.inputs[2].type == dtype::float64;
    else
      number = literal_value<double>(p.node.literals[0]);
  }
  double read(const std::byte* const* buffers) const {
    if (!computed) return number;
    return wide ? *reinterpret_cast<const double*>(buffers[slot])
                : double{*reinterpret_cast<const float*>(buffers[slot])};
  }

  bool computed, wide = false;
  std::uint32_t slot = 0;
  double number = 0;
};

template <class T>
class dropout_kernel final : public kernel {
 public:
  dropout_kernel(const prepare_context& p, std::uint64_t key)
      : in_(p.input_slots[0]),
        position_(p.input_slots[1]),
        out_(p.output_slots[0]),
        key_(key),
        elements_(p.outputs[0].extents.elements()),
        rate_(p) {}
  void run(const kernel_context& f) override {
    const double rate = rate_.read(f.buffers);
    check_dropout_rate(rate);
    device::draw(f, {key_, *reinterpret_cast<const std::uint64_t*>(f.buffers[position_])},
                 device::dropout_element<T>(rate), elements_, reinterpret_cast<T*>(f.buffers[out_]),
                 reinterpret_cast<const T*>(f.buffers[in_]));
  }
  std::string describe() const override { return str_cat({"dropout of ", elements_}); }

 private:
  std::uint32_t in_, position_, out_;
  std::uint64_t key_;
  std::size_t elements_;
  dropout_rate rate_;
};

}  // namespace weft::detail
WEFT_COLD_END
