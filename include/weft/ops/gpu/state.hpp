#pragma once

#include <weft/device/gpu/updates.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/state.hpp>

/// The operations that write variables, and constants over run-time extents, prepared for a GPU.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class P>
const map_code& compiled_update(const char* name) {
  static const map_code code = compile_map<P, map_forms::vector>(name);
  return code;
}

/// A map over whole buffers: the first `states` inputs are written, too.
inline kernel* prepare_update(const prepare_context& p, const map_code& code, std::size_t states, const char* what) {
  const std::size_t n = p.c.inputs.size();
  iteration over;
  over.space = p.inputs[0].extents;
  check_size(p.c.op->name, over.space);
  dtype types[4];
  for (std::size_t k = 0; k < n; ++k) {
    if (!(p.inputs[k].extents == over.space))
      throw error(error_code::invalid_argument, p.c.op->name,
                  "a value of extents " + to_string(p.inputs[k].extents) + " is assigned to a variable of " +
                      to_string(over.space));
    over.add(weft::device::broadcast_operand(p.inputs[k].type, p.inputs[k].extents, over.space));
    types[k] = p.inputs[k].type;
  }
  over.merge_axes();
  auto* k = new launch_kernel(std::string(what) + " " + name(p.inputs[0].type));
  add_map(*k, code, over, {p.input_slots, types, n, p.input_slots, types, states}, 1, p.c.literals.data());
  return k;
}

class assign_kernel final : public kernel {
 public:
  explicit assign_kernel(const prepare_context& p)
      : variable_(p.input_slots[0]), value_(p.input_slots[1]), bytes_(p.inputs[0].bytes()) {
    if (!(p.inputs[0].extents == p.inputs[1].extents))
      throw error(error_code::invalid_argument, "assign",
                  "a value of extents " + to_string(p.inputs[1].extents) + " is assigned to a variable of " +
                      to_string(p.inputs[0].extents));
  }
  void run(const frame& f) override {
    if (bytes_ && f.buffers[variable_] != f.buffers[value_])
      f.queue->copy(f.buffers[variable_], f.buffers[value_], bytes_);
  }
  std::string describe() const override { return "assign " + std::to_string(bytes_) + " bytes"; }

 private:
  std::uint32_t variable_, value_;
  std::size_t bytes_;
};

inline kernel* prepare_assign(const prepare_context& p, device&) { return new assign_kernel(p); }

template <class T>
kernel* prepare_descend(const prepare_context& p, device&) {
  return prepare_update(p, compiled_update<descend_program<T>>("gradient descent"), 1, "gradient descent");
}
template <class T>
kernel* prepare_momentum(const prepare_context& p, device&) {
  return prepare_update(p, compiled_update<momentum_program<T>>("momentum"), 2, "momentum");
}
template <class T>
kernel* prepare_assign_add(const prepare_context& p, device&) {
  return prepare_update(p, compiled_update<add_program<T>>("assign_add"), 1, "assign_add");
}

inline kernel* prepare_fill(const prepare_context& p, device&) {
  const value_info& to = p.outputs[0];
  iteration over;
  over.space = to.extents;
  check_size("fill", over.space);
  over.merge_axes();
  auto* k = new launch_kernel(std::string("fill ") + name(to.type));
  const map_code& code = to.type == dtype::float64 ? compiled_update<fill_program<double>>("fill")
                                                   : compiled_update<fill_program<float>>("fill");
  // Nothing is read, so every axis is one.
  over.space = shape(static_cast<std::int64_t>(to.extents.elements()));
  add_map(*k, code, over, {nullptr, nullptr, 0, p.output_slots, &to.type, 1}, 1, p.c.literals.data());
  return k;
}

template <class T>
void register_updates() {
  preparation_of<weft::detail::prepare_gradient_descent<T>>.prepare = prepare_descend<T>;
  preparation_of<weft::detail::prepare_momentum<T>>.prepare = prepare_momentum<T>;
  preparation_of<weft::detail::prepare_assign_add<T>>.prepare = prepare_assign_add<T>;
}

inline const bool state_registered = [] {
  register_updates<float>();
  register_updates<double>();
  preparation_of<weft::detail::prepare_assign_add<std::int32_t>>.prepare = prepare_assign_add<std::int32_t>;
  preparation_of<weft::detail::prepare_assign_add<std::int64_t>>.prepare = prepare_assign_add<std::int64_t>;
  preparation_of<weft::detail::prepare_assign>.prepare = prepare_assign;
  preparation_of<weft::detail::prepare_fill>.prepare = prepare_fill;
  return true;
}();

}  // namespace detail
}  // namespace weft::gpu
WEFT_COLD_END
#endif
