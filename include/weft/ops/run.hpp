#pragma once

#include <weft/ops/node.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::detail {

/// An operation and its operands on the way to where it is recorded or, over tensors, run at once.
template <class T, class D, class Dev, class... Operands>
auto record_or_run(const operation& op, const shape& extents, std::vector<std::int64_t> attributes,
                   const Operands&... operands) {
  invocation c;
  c.op = &op;
  c.attributes = static_cast<std::vector<std::int64_t>&&>(attributes);
  c.outputs = {{dtype_of<T>, extents}};
  if constexpr ((Operands::symbolic || ...)) {
    recorder* where = nullptr;
    ([&] { if constexpr (Operands::symbolic) where = operands.erased().where(); }(), ...);
    const auto enter = [&](const auto& x) {
      if constexpr (std::remove_cvref_t<decltype(x)>::symbolic)
        return x.erased().id();
      else
        return where->record_constant(x.data(), {dtype_of<value_t<std::remove_cvref_t<decltype(x)>>>, x.extents()}).id();
    };
    (c.inputs.push_back(enter(operands)), ...);
    return node<T, D, Dev>(where->record(static_cast<invocation&&>(c)));
  } else {
    constexpr std::size_t n = sizeof...(Operands);
    const value_info inputs[] = {value_info{dtype_of<value_t<Operands>>, operands.extents()}...};
    c.inputs.resize(n);
    tensor<T, D, Dev> result(extents, typename tensor<T, D, Dev>::uninitialized{});
    std::byte* buffers[] = {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(operands.data()))...,
                            reinterpret_cast<std::byte*>(result.data())};
    std::uint32_t slots[n + 1];
    for (std::uint32_t i = 0; i <= n; ++i) slots[i] = i;
    const value_info output{dtype_of<T>, extents};
    kernel* k = op.prepare_cpu({c, inputs, &output, slots, slots + n});
    thread_pool alone(1);
    struct release {
      kernel* k;
      ~release() { delete k; }
    } guard{k};
    k->run({buffers, &alone});
    return result;
  }
}

/// The extents of a result whose axis i is axis `axes[i]` of the operands' extents put end to end.
template <class E>
shape extents_of(const E& e) {
  if constexpr (E::symbolic)
    return dims_t<E>::spec;
  else
    return e.extents();
}

}  // namespace weft::detail
