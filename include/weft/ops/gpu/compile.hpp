// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>
#include <weft/device/cpu/loop.hpp>

/// Recording an expression in a graph also compiles its GPU kernels if this compiler can: nvcc, or any compiler if
/// WEFT_GPU_EMULATION is defined. The kernels are found through the skeleton's slot (ops/fused.hpp).
namespace weft::gpu {

struct host_compiler {};
struct device_compiler {};

// Functions that also compile kernels take this as a template argument. A file compiled by g++ and a file compiled by
// nvcc then have two distinct functions instead of two versions of one. Either version of a caller works, because
// objects register the kernels before main.
#if WEFT_COMPILES_FOR_GPU
using this_compiler = device_compiler;
#else
using this_compiler = host_compiler;
#endif

/// The kernels of an operation and of the operations in its gradients. A file compiles them only if it uses the
/// operation, for the element types that it uses: specializations in ops/gpu/ install them in their constructors.
template <class Op>
struct kernels {};

// Stand-ins for operations that have more template arguments than the element type, or move elements of any type.
template <class T>
struct sparse_cross_entropies {};
template <class T>
struct moves {};  ///< stands for the operations of ops/arrays/box_copies.hpp

/// A compiler without GPU support compiles nothing.
template <class Compiler>
struct compiled {
  template <class S>
  static void map() {}
  template <class S, weft::device::reduce_op How>
  static void reduction() {}
  template <class T>
  static void gradient_primitives() {}
  template <class T>
  static void primitives() {}
  template <class T>
  static void storage_primitives() {}
  template <template <class> class Op, dtype T>
  static void operation() {}
};

/// Compiles the kernels of an operation here, if this compiler can. Takes the number of the element type, because nvcc
/// repeats in generated code how a type was found, `value_t<...>`, and cannot print the extents' names in it.
template <template <class> class Op, class T, class Compiler = this_compiler>
void compile_kernels() {
  compiled<Compiler>::template operation<Op, dtype_of<T>>();
}

/// Compiles the kernels of an operation that is called with elements of type T.
template <class Op, class T>
struct kernels_of_call {
  static void compile() {
    if constexpr (requires { &Op::copies; }) compile_kernels<moves, T>();
  }
};
template <template <class> class Op, Element U, class T>
struct kernels_of_call<Op<U>, T> {
  static void compile() { compile_kernels<Op, U>(); }
};

}  // namespace weft::gpu

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/skeletons.hpp>
#endif
