#pragma once

#include <weft/config.hpp>
#include <weft/device/cpu/loop.hpp>

/// Where an expression is entered into a graph, its kernels for GPUs are compiled too, if this compiler can: nvcc, or
/// any when WEFT_GPU_EMULATION is defined. They are found through the skeleton's slot (ops/fused.hpp).
namespace weft::gpu {

struct host_compiler {};
struct device_compiler {};

// Functions that compile kernels on the side have this as a template argument: those of a file compiled by g++ and of
// one compiled by nvcc are then two functions, not two versions of one. Which of them a caller's one version calls does
// not matter: kernels are registered by objects, before main.
#if WEFT_COMPILES_FOR_GPU
using this_compiler = device_compiler;
#else
using this_compiler = host_compiler;
#endif

/// The kernels of an operation, and of those that its gradients consist of. A file has them only if it uses the
/// operation, for the element types that it uses: where the headers of ops/gpu/ specialise this, the constructor
/// installs them.
template <class Op>
struct kernels {};

// In place of an operation, where it has more than the element type for an argument, or moves elements of any type.
template <class T>
struct sparse_cross_entropies {};
template <class T>
struct moves {};  ///< stands for what ops/box_copies.hpp has

/// A compiler without GPUs compiles nothing.
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

/// Compiles the kernels of an operation here, if this compiler can. By the number of the element type: in code that it
/// generates nvcc repeats how a type was found, `value_t<...>`, and cannot write down the extents' names in there.
template <template <class> class Op, class T, class Compiler = this_compiler>
void compile_kernels() {
  compiled<Compiler>::template operation<Op, dtype_of<T>>();
}

}  // namespace weft::gpu

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/skeletons.hpp>
#endif
