#pragma once

#include <type_traits>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

/// Rows by their numbers. Included by name, not by <weft/weft.hpp>.
namespace weft {
namespace detail {

WEFT_COLD_BEGIN

/// The numbers of rows, 32 or 64 bits wide.
struct row_numbers {
  const std::byte* at;
  bool wide;
  std::int64_t operator[](std::size_t k) const { return device::index_at(at, wide, k); }
};

/// Throws out_of_range if one of them is not the number of a row.
void check_row_numbers(const row_numbers&, std::size_t count, std::size_t rows);

/// Rows along an axis, one for each number. `Back`: the transpose, which adds rows up where the numbers say. A chunk of
/// it has some rows of the result, so that no two write to one, and each is summed in the order of the numbers.
template <class T, bool Back>
class indexed_rows_kernel final : public kernel {
 public:
  indexed_rows_kernel(const prepare_context& p, std::size_t axis)
      : in_(p.input_slots[0]),
        numbers_(p.input_slots[1]),
        out_(p.output_slots[0]),
        name_(p.c.op->name),
        wide_(p.inputs[1].type == dtype::int64),
        rows_((Back ? p.outputs[0] : p.inputs[0]).extents, axis),
        count_(p.inputs[1].extents.elements()),
        chunks_(rows_.outer * (Back ? rows_.extent : count_),
                rows_.outer * rows_.inner * (Back ? rows_.extent + count_ : count_), 65536) {
    if (Back && chunks_.count > 16) chunks_.count = 16;  // each reads all numbers
  }

  void run(const kernel_context& f) override {
    const T* const x = reinterpret_cast<const T*>(f.buffers[in_]);
    T* const y = reinterpret_cast<T*>(f.buffers[out_]);
    const row_numbers numbers{f.buffers[numbers_], wide_};
    check_row_numbers(numbers, count_, rows_.extent);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      if constexpr (Back)
        scatter(x, numbers, y, begin, end);
      else
        gather(x, numbers, y, begin, end);
    });
  }
  std::string describe() const override { return str_cat({name_, " ", count_, " of ", rows_.extent, " rows"}); }

 private:
  void gather(const T* x, const row_numbers& numbers, T* y, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t outer = i / count_, row = static_cast<std::size_t>(numbers[i % count_]);
      __builtin_memcpy(y + i * rows_.inner, x + (outer * rows_.extent + row) * rows_.inner, rows_.inner * sizeof(T));
    }
  }
  void scatter(const T* x, const row_numbers& numbers, T* y, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin * rows_.inner; i < end * rows_.inner; ++i) y[i] = T();
    for (std::size_t outer = begin / rows_.extent; end > outer * rows_.extent; ++outer)
      for (std::size_t k = 0; k < count_; ++k) {
        const std::size_t row = outer * rows_.extent + static_cast<std::size_t>(numbers[k]);
        if (row < begin || row >= end) continue;
        const T* const from = x + (outer * count_ + k) * rows_.inner;
        T* const to = y + row * rows_.inner;
        for (std::size_t i = 0; i < rows_.inner; ++i) to[i] = static_cast<T>(to[i] + from[i]);
      }
  }

  std::uint32_t in_, numbers_, out_;
  const char* name_;
  bool wide_;
  axis_rows rows_;
  std::size_t count_;
  device::chunks chunks_;
};

}  // namespace detail

/// Inputs: x, and numbers of its rows along the axis.
template <class T>
struct gather_op {
  static constexpr const char* name = "gather";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::indexed_rows_kernel<T, false>(p, a.axis);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Its transpose: rows are added up where the numbers say. Inputs: the rows, and the numbers.
template <class T>
struct scatter_add_op {
  static constexpr const char* name = "scatter_add";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::indexed_rows_kernel<T, true>(p, a.axis);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    if (g.needs_gradient(0)) g.set_gradient(0, record<gather_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
  }
};

template <class T>
void gather_op<T>::gradient(gradient_context& g, const attributes& a) {
  if constexpr (is_differentiable<T>)
    if (g.needs_gradient(0))
      g.set_gradient(0, record<scatter_add_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
}

namespace detail {

/// x with the extents of n in place of an axis.
inline shape gathered_extents(const shape& x, const shape& n, std::size_t axis) {
  shape to;
  for (std::size_t i = 0; i < axis; ++i) to.push_back(x[i]);
  for (std::size_t i = 0; i < n.rank; ++i) to.push_back(n[i]);
  for (std::size_t i = axis + 1; i < x.rank; ++i) to.push_back(x[i]);
  return to;
}

inline void check_row_numbers(const row_numbers& numbers, std::size_t count, std::size_t rows) {
  for (std::size_t k = 0; k < count; ++k)
    if (numbers[k] < 0 || numbers[k] >= static_cast<std::int64_t>(rows))
      throw error(error_code::out_of_range, "gather",
                  {"number ", k, " of the rows is ", numbers[k], ", and there are ", rows, ": 0 to ",
                   static_cast<std::int64_t>(rows) - 1});
}

WEFT_COLD_END

/// D with the extents of I in place of an axis.
template <class D, class I, std::size_t Axis, class Indices>
struct gathered_at;
template <class D, class I, std::size_t Axis, std::size_t... Index>
struct gathered_at<D, I, Axis, indices<Index...>> {
  template <std::size_t Here>
  static constexpr auto extent() {
    if constexpr (Here < Axis)
      return extent_at<D, Here>::value;
    else if constexpr (Here < Axis + I::rank)
      return extent_at<I, Here - Axis>::value;
    else
      return extent_at<D, Here - I::rank + 1>::value;
  }
  using type = dims<extent<Index>()...>;
};
template <class D, class I, std::size_t Axis>
using gathered = typename gathered_at<D, I, Axis, typename make_indices<D::rank - 1 + I::rank>::type>::type;

}  // namespace detail

/// The numbers of rows are std::int32_t or std::int64_t.
template <class I>
struct row_numbers_not_integers : mistake<!std::is_same_v<I, std::int32_t> && !std::is_same_v<I, std::int64_t>> {};

/// Rows of x along an axis by their numbers (tf.gather, tf.nn.embedding_lookup): of `[n, d]` and numbers `[batch, k]`
/// along axis 0 `[batch, k, d]`. Numbers are std::int32_t or std::int64_t, and a row may be taken any number of times:
/// its gradient is then the sum of theirs, in the order of the numbers, and zero for a row that is not taken. Throws
/// out_of_range if there is no such row; on a GPU, which cannot, its elements are 0 and nothing is added to it.
template <int Axis = 0, Expression Expr, Expression Numbers>
[[nodiscard]] auto gather(const Expr& e, const Numbers& numbers) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, row_numbers_not_integers<value_t<Numbers>>>;
  static_assert(correct<mistake>, "gather: needs an axis, and numbers of rows: cast<std::int32_t>(numbers)");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e, numbers);
  } else {
    constexpr std::size_t axis = axis_number<D, Axis>;
    using To = detail::gathered<D, dims_t<Numbers>, axis>;
    if constexpr (Expr::symbolic || Numbers::symbolic) gpu::compile_kernels<gather_op, T>();
    const auto x = materialize(e);
    const auto n = materialize(numbers);
    return call_operation<gather_op<T>, T, To>(detail::gathered_extents(extents_of(x), extents_of(n), axis), {axis}, x,
                                               n);
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/gather.hpp>
#endif
