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

/// Sums of rows that have one number, in the order of the lists and of the numbers in them; each stands where its
/// number comes first, and elsewhere the number is -1. A chunk has some of these places.
template <class T>
class row_sums_kernel final : public kernel {
 public:
  explicit row_sums_kernel(const prepare_context& p) : axis_(p.inputs[0].extents, 0) {
    std::size_t count = 0;
    for (std::size_t i = 1; i < p.c.inputs.size(); i += 2) {
      const value_info& numbers = p.inputs[i + 1];
      lists_.push_back({p.input_slots[i], p.input_slots[i + 1], p.output_slots[i - 1], p.output_slots[i],
                        numbers.type == dtype::int64, count, count + numbers.extents.elements()});
      count = lists_.back().end;
    }
    chunks_ = device::chunks(count, count * axis_.inner, 65536);
    if (chunks_.count > 16) chunks_.count = 16;  // each reads all places
    numbers_.resize(count);
    first_.resize(count);
    std::size_t size = 4;
    while (size < 2 * count) size *= 2, --shift_;
    table_.resize(size);
  }

  void run(const kernel_context& f) override {
    find_first_places(f);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) { add(f, begin, end); });
  }
  std::string describe() const override { return str_cat({"sum_rows ", first_.size(), " of ", axis_.extent, " rows"}); }

 private:
  struct list {
    std::uint32_t rows, numbers, sums, places;  // slots; the last two are written
    bool wide;
    std::size_t begin, end;  // among all
  };

  void find_first_places(const kernel_context& f) {
    __builtin_memset(table_.data(), 0, table_.size() * sizeof(std::size_t));
    for (const list& l : lists_) {
      const row_numbers numbers{f.buffers[l.numbers], l.wide};
      check_row_numbers(numbers, l.end - l.begin, axis_.extent);
      std::int64_t* const places = reinterpret_cast<std::int64_t*>(f.buffers[l.places]);
      for (std::size_t k = l.begin; k < l.end; ++k) {
        numbers_[k] = numbers[k - l.begin];
        first_[k] = first_place(numbers_[k], k);
        places[k - l.begin] = first_[k] == k ? numbers_[k] : -1;
      }
    }
  }
  /// A hash table of places + 1.
  std::size_t first_place(std::int64_t number, std::size_t here) {
    std::size_t i = static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15u >> shift_;
    for (; table_[i] != 0; i = (i + 1) & (table_.size() - 1))
      if (numbers_[table_[i] - 1] == number) return table_[i] - 1;
    table_[i] = here + 1;
    return here;
  }

  void add(const kernel_context& f, std::size_t begin, std::size_t end) const {
    for (const list& from : lists_)
      for (std::size_t k = from.begin > begin ? from.begin : begin; k < from.end; ++k) {
        if (first_[k] < begin || first_[k] >= end) continue;
        const list* to = lists_.begin();
        while (first_[k] >= to->end) ++to;
        const T* const x = reinterpret_cast<const T*>(f.buffers[from.rows]) + (k - from.begin) * axis_.inner;
        T* const y = reinterpret_cast<T*>(f.buffers[to->sums]) + (first_[k] - to->begin) * axis_.inner;
        if (first_[k] == k)
          __builtin_memcpy(y, x, axis_.inner * sizeof(T));
        else
          for (std::size_t i = 0; i < axis_.inner; ++i) y[i] += x[i];
      }
  }

  axis_rows axis_;
  sequence<list> lists_;
  sequence<std::int64_t> numbers_;
  sequence<std::size_t> first_, table_;
  unsigned shift_ = 62;
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

/// Rows of one number added up, and nothing for a number that does not come (tf.unsorted_segment_sum of the rows and
/// numbers of an IndexedSlices). Inputs: what the rows are of, and any number of lists: rows, and their numbers.
/// Outputs: for each list the sums that stand in it, and their numbers: a std::int64_t each, -1 where there is none and
/// the row is not written. On a GPU a number that no row has becomes -1, too.
template <class T>
struct sum_rows_op {
  static constexpr const char* name = "sum_rows";

  static kernel* prepare(const prepare_context& p) { return new detail::row_sums_kernel<T>(p); }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::extents : operand_use::read;
  }
};

/// Its transpose: rows are added up where the numbers say. Inputs: the rows, and the numbers.
template <class T>
struct scatter_add_op {
  static constexpr const char* name = "scatter_add";
  using attributes = axis_attribute;
  static constexpr const operation* row_sums = [] {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)  // what is trained
      return &operation_of<sum_rows_op<T>>;
    else
      return static_cast<const operation*>(nullptr);
  }();

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::indexed_rows_kernel<T, true>(p, a.axis);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    if (g.needs_gradient(0)) g.set_gradient(0, record<gather_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
  }
  static bool stacks(const node_def& c) { return attributes_of<scatter_add_op>(c).axis == 0; }
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
/// its gradient is then the sum of theirs, in the order of the numbers, and zero for a row that is not taken; of a
/// variable, `minimize` updates the rows that were taken and no others, where the optimizer allows it. Throws
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
