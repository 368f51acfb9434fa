// SPDX-License-Identifier: BSL-1.0
// An operation that multiplies by FACTOR, of a type that has the same name in each file.
#include <weft/weft.hpp>

namespace {

class scale_kernel final : public weft::kernel {
 public:
  explicit scale_kernel(const weft::prepare_context& p) : from_(p.input_slots[0]), to_(p.output_slots[0]) {}
  void run(const weft::kernel_context& f) override {
    *reinterpret_cast<float*>(f.buffers[to_]) = FACTOR * *reinterpret_cast<const float*>(f.buffers[from_]);
  }
  std::string describe() const override { return "scale"; }

 private:
  std::uint32_t from_, to_;
};

struct scale_op {
  static constexpr const char* name = "scale";
  static weft::kernel* prepare(const weft::prepare_context& p) { return new scale_kernel(p); }
  static void gradient(weft::gradient_context& c) { c.set_gradient(0, c.upstream() * weft::symbol(FACTOR)); }
};

weft::node<float> scale(weft::node<float> x) {
  return weft::node<float>(weft::record<scale_op>({x.erased()}, x.erased().info()));
}

}  // namespace
