#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/gather.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>

/// Rows by their numbers, prepared for a GPU.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// What both directions know. A number that no row has moves nothing.
template <class T>
struct indexed_rows_arguments {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  const T* x;
  T* y;
  const void* numbers;
  bool wide;
  divisor count, inner;  ///< numbers; elements of a row
  std::uint32_t rows;    ///< along the axis
  std::uint32_t work;    ///< elements of the result, or its columns

  WEFT_HOST_DEVICE std::uint32_t number(std::uint32_t k) const {
    const std::int64_t n = weft::device::index_at(numbers, wide, k);
    return n < 0 || n >= static_cast<std::int64_t>(rows) ? rows : static_cast<std::uint32_t>(n);
  }
};

template <class T>
struct gather_body : indexed_rows_arguments<T> {
  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * this->threads + at.thread; i < this->work; i += at.blocks * this->threads) {
      const std::uint32_t row = this->inner.divide(i), outer = this->count.divide(row);
      const std::uint32_t from = this->number(row - outer * this->count.extent);
      const std::uint32_t column = i - row * this->inner.extent;
      this->y[i] = from < this->rows ? this->x[(outer * this->rows + from) * this->inner.extent + column] : T();
    }
  }
};

/// A thread has a column of the result, and of its rows those of its block: no two write to one element, and each is
/// summed in the order of the numbers.
template <class T>
struct scatter_add_body : indexed_rows_arguments<T> {
  std::uint32_t split;  ///< rows of a block

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::uint32_t c = at.block * this->threads + at.thread;
    if (c >= this->work) return;
    const std::uint32_t outer = this->inner.divide(c), column = c - outer * this->inner.extent;
    const std::uint32_t begin = at.block_y * split, end = this->rows - begin < split ? this->rows : begin + split;
    T* const to = this->y + outer * this->rows * this->inner.extent + column;
    const T* const from = this->x + outer * this->count.extent * this->inner.extent + column;
    for (std::uint32_t r = begin; r < end; ++r) to[r * this->inner.extent] = T();
    for (std::uint32_t k = 0; k < this->count.extent; ++k) {
      const std::uint32_t r = this->number(k);
      if (r < begin || r >= end) continue;
      T& sum = to[r * this->inner.extent];
      sum = static_cast<T>(sum + from[k * this->inner.extent]);
    }
  }
};

/// Lists of rows, one behind the other.
struct row_lists {
  std::uint32_t all;                       ///< rows in them
  std::uint32_t begin[max_row_lists + 1];  ///< of each list among all

  WEFT_HOST_DEVICE std::uint32_t list_of(std::uint32_t k) const {
    std::uint32_t l = 0;
    while (k >= begin[l + 1]) ++l;
    return l;
  }
};

/// The numbers by which rows in lists are added up.
struct number_lists : row_lists {
  std::uint32_t rows;  ///< that there are
  std::uint32_t wide;  ///< one bit for each list
  const void* numbers[max_row_lists];

  /// -1: no row has it.
  WEFT_HOST_DEVICE std::int64_t number(std::uint32_t k) const {
    const std::uint32_t l = list_of(k);
    const std::int64_t n = weft::device::index_at(numbers[l], (wide >> l) & 1, k - begin[l]);
    return n < 0 || n >= static_cast<std::int64_t>(rows) ? -1 : n;
  }
};

/// A thread has one place among the numbers: whether its number has not come before, and where it comes next.
struct first_places_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  number_lists of;
  std::int64_t* places[max_row_lists];
  std::uint32_t* next;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::uint32_t k = at.block * threads + at.thread;
    if (k >= of.all) return;
    const std::int64_t mine = of.number(k);
    bool first = mine >= 0;
    for (std::uint32_t j = 0; j < k && first; ++j) first = of.number(j) != mine;
    std::uint32_t after = k + 1;
    while (mine >= 0 && after < of.all && of.number(after) != mine) ++after;
    next[k] = mine >= 0 ? after : of.all;
    const std::uint32_t l = of.list_of(k);
    places[l][k - of.begin[l]] = first ? mine : -1;
  }
};

/// A thread has a column of the sum that stands in one place, and follows its number from there.
template <class T>
struct sum_rows_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  row_lists lists;
  std::uint32_t work;
  divisor inner;
  const T* x[max_row_lists];
  T* sums[max_row_lists];
  const std::int64_t* places[max_row_lists];
  const std::uint32_t* next;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < work; i += at.blocks * threads) {
      const std::uint32_t k = inner.divide(i), column = i - k * inner.extent, l = lists.list_of(k);
      const std::uint32_t here = k - lists.begin[l];
      if (places[l][here] < 0) continue;
      T sum = row(k)[column];
      for (std::uint32_t j = next[k]; j < lists.all; j = next[j]) sum = static_cast<T>(sum + row(j)[column]);
      sums[l][here * inner.extent + column] = sum;
    }
  }

 private:
  WEFT_HOST_DEVICE const T* row(std::uint32_t k) const {
    const std::uint32_t l = lists.list_of(k);
    return x[l] + (k - lists.begin[l]) * inner.extent;
  }
};

template <class Body>
kernel* make_indexed_rows(const prepare_context& p, Body b, const shape& space, std::size_t axis, std::size_t blocks,
                          unsigned splits, const function& code) {
  check_size(p.c.op->name, p.inputs[0].extents);
  check_size(p.c.op->name, p.outputs[0].extents);
  const std::size_t count = p.inputs[1].extents.elements();
  auto* k = new launch_kernel(str_cat({p.c.op->name, " ", count, " of ", space[axis], " rows"}));
  if (b.work == 0) return k;
  const axis_rows r(space, axis);
  b.wide = p.inputs[1].type == dtype::int64;
  b.rows = static_cast<std::uint32_t>(r.extent);
  b.inner = divisor(static_cast<std::uint32_t>(r.inner));
  b.count = divisor(static_cast<std::uint32_t>(count > 0 ? count : 1));
  if (count == 0) b.count.extent = 0;
  auto& l = add_body(*k, b, code, blocks);
  l.blocks_y = splits;
  l.point(offset_in(b, b.x), p.input_slots[0]);
  l.point(offset_in(b, b.numbers), p.input_slots[1]);
  l.point(offset_in(b, b.y), p.output_slots[0]);
  return k;
}

template <class T>
kernel* prepare_gather(const prepare_context& p, device&) {
  static const function code = function_of<gather_body<T>>("gather");
  gather_body<T> b{};
  b.work = static_cast<std::uint32_t>(p.outputs[0].extents.elements());
  return make_indexed_rows(p, b, p.inputs[0].extents, attributes_of<gather_op<T>>(p.c).axis, blocks_for(b.work, 1), 1,
                           code);
}

template <class T>
kernel* prepare_scatter_add(const prepare_context& p, device&) {
  static const function code = function_of<scatter_add_body<T>>("scatter_add");
  const std::size_t axis = attributes_of<scatter_add_op<T>>(p.c).axis;
  const axis_rows r(p.outputs[0].extents, axis);
  scatter_add_body<T> b{};
  b.work = r.extent > 0 ? static_cast<std::uint32_t>(r.rows()) : 0;
  const std::size_t blocks = (b.work + b.threads - 1) / b.threads;
  const row_shares shares(blocks, r.extent, 1);
  b.split = shares.elements;
  return make_indexed_rows(p, b, p.outputs[0].extents, axis, blocks, shares.count, code);
}

/// The numbers are compared each with each, which costs less than the sums where there are some ten thousand of them.
template <class T>
kernel* prepare_sum_rows(const prepare_context& p, device& d) {
  static const function find = function_of<first_places_body>("first places");
  static const function add = function_of<sum_rows_body<T>>("sum_rows");
  const axis_rows rows(p.inputs[0].extents, 0);
  first_places_body first{};
  sum_rows_body<T> sums{};
  const std::size_t lists = p.c.inputs.size() / 2;
  std::size_t all = 0;
  for (std::size_t i = 0; i < lists; ++i) {
    if (p.inputs[2 * i + 2].type == dtype::int64) first.of.wide |= 1u << i;
    check_size("sum_rows", p.inputs[2 * i + 1].extents);
    all += p.inputs[2 * i + 2].extents.elements();
    check_size("sum_rows", shape(static_cast<std::int64_t>(all * rows.inner)));
    first.of.begin[i + 1] = static_cast<std::uint32_t>(all);
  }
  owned<launch_kernel> k(new launch_kernel(str_cat({"sum_rows ", all, " of ", rows.extent, " rows"})));
  if (all * rows.inner == 0) return k.release();
  device_memory next(p.memory ? *p.memory : d, all * sizeof(std::uint32_t), "workspace of sum_rows");
  first.next = reinterpret_cast<std::uint32_t*>(next.data());
  first.of.all = static_cast<std::uint32_t>(all);
  first.of.rows = static_cast<std::uint32_t>(rows.extent);
  auto& f = add_body(*k, first, find, (all + first.threads - 1) / first.threads);
  for (std::size_t i = 0; i < lists; ++i) {
    f.point(offset_in(first, first.of.numbers[i]), p.input_slots[2 * i + 2]);
    f.point(offset_in(first, first.places[i]), p.output_slots[2 * i + 1]);
  }
  sums.lists = first.of;
  sums.next = first.next;
  sums.inner = divisor(static_cast<std::uint32_t>(rows.inner));
  sums.work = static_cast<std::uint32_t>(all * rows.inner);
  auto& s = add_body(*k, sums, add, blocks_for(sums.work, 1));
  for (std::size_t i = 0; i < lists; ++i) {
    s.point(offset_in(sums, sums.x[i]), p.input_slots[2 * i + 1]);
    s.point(offset_in(sums, sums.sums[i]), p.output_slots[2 * i]);
    s.point(offset_in(sums, sums.places[i]), p.output_slots[2 * i + 1]);
  }
  k->keep(static_cast<device_memory&&>(next));
  return k.release();
}

}  // namespace detail

template <class T>
struct kernels<gather_op<T>> : installed<gather_op<T>, detail::prepare_gather<T>> {
  kernels() {
    if constexpr (is_differentiable<T>) install<scatter_add_op<T>>({.prepare = detail::prepare_scatter_add<T>});
    if constexpr (scatter_add_op<T>::row_sums != nullptr)
      install<sum_rows_op<T>>({.prepare = detail::prepare_sum_rows<T>});
  }
};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
