// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/random_words.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernels of random arrays.
WEFT_COLD_BEGIN
namespace weft::detail {

/// The two literals are the ends of an interval, or mean and standard deviation.
template <class T>
device::uniform_element<T> element_of(const node_def& c, device::uniform_element<T>*) {
  const auto rounded = [](double x) { return static_cast<double>(static_cast<accumulator<T>>(static_cast<T>(x))); };
  const double low = rounded(literal_value<double>(c.literals[0])),
               high = rounded(literal_value<double>(c.literals[1]));
  // The largest element below the end, or close to it.
  double below = high, step = (high - low) * 0x1p-54;
  for (; below > low && rounded(below) >= high; step *= 2) below = high - step > low ? high - step : low;
  // Halves the ends first, so that even the widest range fits into float.
  return {low, sizeof(T) == 8 ? high - low : 2 * static_cast<double>(static_cast<float>(high / 2 - low / 2)),
          static_cast<T>(static_cast<accumulator<T>>(below))};
}
template <class T>
device::normal_element<T> element_of(const node_def& c, device::normal_element<T>*) {
  return {literal_value<double>(c.literals[0]), literal_value<double>(c.literals[1])};
}
template <class T>
device::truncated_normal_element<T> element_of(const node_def& c, device::truncated_normal_element<T>*) {
  return {element_of(c, static_cast<device::normal_element<T>*>(nullptr))};
}

template <class T>
device::integer_element<T> element_of(const node_def& c, device::integer_element<T>*) {
  const auto low = literal_value<std::uint64_t>(c.literals[0]);
  return {low, literal_value<std::uint64_t>(c.literals[1]) - low};
}

template <class T, class Element>
class random_kernel final : public kernel {
 public:
  random_kernel(const prepare_context& p, std::uint64_t key)
      : position_(p.input_slots[0]),
        out_(p.output_slots[0]),
        key_(key),
        elements_(p.outputs[0].extents.elements()),
        element_(element_of(p.node, static_cast<Element*>(nullptr))),
        name_(p.node.op->name) {}
  void run(const kernel_context& f) override {
    device::draw(f, {key_, *reinterpret_cast<const std::uint64_t*>(f.buffers[position_])}, element_, elements_,
                 reinterpret_cast<T*>(f.buffers[out_]));
  }
  std::string describe() const override { return str_cat({name_, " of ", elements_}); }

 private:
  std::uint32_t position_, out_;
  std::uint64_t key_;
  std::size_t elements_;
  Element element_;
  const char* name_;
};

}  // namespace weft::detail
WEFT_COLD_END
