#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>
#include <weft/device/strides.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/short_array.hpp>

namespace weft::device {

/// The inner loop of a fused elementwise kernel: reads n consecutive elements of every input, writes n of every output.
using block_function = void (*)(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* literals);

inline constexpr std::size_t max_operands = 16;

/// How an output takes the values computed for it: stored, combined where several land on one element, or dropped.
enum class reduce_op : unsigned char { store, sum, product, maximum, minimum, discard };

/// Whether a pass over so many bytes leaves little of them in the caches of any processor.
constexpr bool exceeds_caches(std::size_t bytes) { return bytes > std::size_t{64} << 20; }

namespace detail {

inline constexpr std::size_t tile_bytes = 4096, fetched_ahead = 1024;

/// Asks for the first bytes of what is read next: the processor itself does not look beyond a page.
inline void fetch(const std::byte* from) {
  for (std::size_t i = 0; i < fetched_ahead; i += 64) __builtin_prefetch(from + i);
}

/// Copies past the caches, which would otherwise read each line before it is overwritten. (By built-in functions: the
/// header of their names is a twentieth of what including Weft costs the compiler.)
inline void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__)
  typedef float vector __attribute__((vector_size(16)));
  std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % sizeof(vector);
  if (head > bytes) head = bytes;
  __builtin_memcpy(to, from, head);
  to += head, from += head, bytes -= head;
  for (; bytes >= sizeof(vector); to += sizeof(vector), from += sizeof(vector), bytes -= sizeof(vector)) {
    vector v;
    __builtin_memcpy(&v, from, sizeof v);
  #if defined(__clang__)
    __builtin_nontemporal_store(v, reinterpret_cast<vector*>(to));
  #else
    __builtin_ia32_movntps(reinterpret_cast<float*>(to), v);
  #endif
  }
#endif
  __builtin_memcpy(to, from, bytes);
}

/// Before other threads are told of what was streamed.
inline void finish_streams() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

template <class T>
void fill(void* to, const void* from, std::size_t n) {
  const T value = *static_cast<const T*>(from);
  for (std::size_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = value;
}

/// Writes n copies of one element.
inline void splat(std::size_t size, void* to, const void* from, std::size_t n) {
  switch (size) {
    case 1:
      return fill<std::uint8_t>(to, from, n);
    case 2:
      return fill<std::uint16_t>(to, from, n);
    case 4:
      return fill<std::uint32_t>(to, from, n);
    default:
      return fill<std::uint64_t>(to, from, n);
  }
}

template <class T>
WEFT_HOST_DEVICE bool is_nan(T x) {
#if __FINITE_MATH_ONLY__ && !defined(__CUDA_ARCH__)
  if constexpr (T(0.5) != T(0)) return math::detail::is_nan(x);
#endif
  return x != x;
}

template <class T>
WEFT_HOST_DEVICE T merge(reduce_op how, T a, T b) {
  switch (how) {
    case reduce_op::sum:
      return static_cast<T>(wrapping(a) + wrapping(b));
    case reduce_op::product:
      return static_cast<T>(wrapping(a) * wrapping(b));
    case reduce_op::maximum:
      return b > a || is_nan(b) ? b : a;
    case reduce_op::minimum:
      return b < a || is_nan(b) ? b : a;
    default:
      return b;
  }
}

/// The elements of an array, combined two by two.
template <reduce_op How, std::size_t Half, class T>
WEFT_INLINE void fold(T* x) {
  if constexpr (Half > 0) {
    for (std::size_t l = 0; l < Half; ++l) x[l] = merge<T>(How, x[l], x[l + Half]);
    fold<How, Half / 2>(x);
  }
}

template <class T>
void add_run(const T* x, T* to, std::size_t n) {
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<T>(wrapping(to[i]) + wrapping(x[i]));
}

/// Sum of n elements of a tile, in an order that depends on n alone: the bits are the same whatever the vectors' width.
template <class T>
T sum_run(const T* x, std::size_t n) {
  constexpr std::size_t lanes = 16;
  T lane[lanes]{};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    WEFT_VECTORIZE
    for (std::size_t l = 0; l < lanes; ++l) lane[l] = static_cast<T>(wrapping(lane[l]) + wrapping(x[i + l]));
  }
  T total{};
  for (; i < n; ++i) total = static_cast<T>(wrapping(total) + wrapping(x[i]));
  for (std::size_t l = 0; l < lanes; ++l) total = static_cast<T>(wrapping(total) + wrapping(lane[l]));
  return total;
}

#if defined(__x86_64__)
template <class T>
WEFT_TARGET_AVX2 WEFT_LOOPS void add_run_avx2(const T* x, T* to, std::size_t n) {
  add_run(x, to, n);
}
template <class T>
WEFT_TARGET_AVX2 WEFT_LOOPS T sum_run_avx2(const T* x, std::size_t n) {
  return sum_run(x, n);
}
#endif

/// The two for this processor.
template <class T>
struct sums_of_runs {
  void (*add)(const T* x, T* to, std::size_t n) = add_run<T>;
  T (*sum)(const T* x, std::size_t n) = sum_run<T>;

  sums_of_runs() {
#if defined(__x86_64__)
    if constexpr (T(0.5) != T(0))
      if (detected_isa() != isa::baseline) add = add_run_avx2<T>, sum = sum_run_avx2<T>;
#endif
  }
};

WEFT_COLD_BEGIN

/// Adds all rows of a tile to one: so many of them side by side that a vector has work, and those two by two.
template <class T>
void sum_rows(const sums_of_runs<T>& by, const T* x, T* to, std::size_t rows, std::size_t columns) {
  constexpr std::size_t room = tile_bytes / 2 / sizeof(T);
  if (rows == 1) return by.add(x, to, columns);
  T sums[room];
  std::size_t together = room / 2 / columns;
  together = together < 1 ? 1 : together < rows ? together : rows;
  const std::size_t run = together * columns, n = rows * columns;
  __builtin_memcpy(sums, x, run * sizeof(T));
  for (std::size_t i = run; i < n; i += run) by.add(x + i, sums, n - i < run ? n - i : run);
  while (together > 1) {
    const std::size_t half = (together + 1) / 2;
    by.add(sums + half * columns, sums, (together - half) * columns);
    together = half;
  }
  by.add(sums, to, columns);
}

template <class T>
void sum_tile(const T* x, T* to, std::size_t rows, std::size_t columns, std::int64_t row_stride,
              std::int64_t column_stride) {
  const sums_of_runs<T> by;
  if (row_stride == 0 && column_stride != 0) return sum_rows(by, x, to, rows, columns);
  if (row_stride == 0) columns *= rows, rows = 1;
  for (; rows > 0; --rows, x += columns, to += row_stride)
    if (column_stride == 0)
      *to = static_cast<T>(wrapping(*to) + wrapping(by.sum(x, columns)));
    else
      by.add(x, to, columns);
}

WEFT_COLD_END

/// Anything but a sum: what it is a constant of the loops.
template <reduce_op How, class T>
WEFT_LOOPS void merge_rows(const T* x, T* to, std::size_t rows, std::size_t columns, std::int64_t row_stride,
                           std::int64_t column_stride) {
  if (column_stride == 0 && row_stride == 0) columns *= rows, rows = 1;
  for (; rows > 0; --rows, x += columns, to += row_stride)
    if (column_stride == 0) {
      T result = x[0];
      for (std::size_t i = 1; i < columns; ++i) result = merge(How, result, x[i]);
      *to = merge(How, *to, result);
    } else {
      WEFT_VECTORIZE
      for (std::size_t c = 0; c < columns; ++c) to[c] = merge(How, to[c], x[c]);
    }
}

/// Combines a tile of rows x columns into elements `row_stride` and `column_stride` apart.
template <class T>
void merge_tile(reduce_op how, const void* tile, void* into, std::size_t rows, std::size_t columns,
                std::int64_t row_stride, std::int64_t column_stride) {
  const T* x = static_cast<const T*>(tile);
  T* to = static_cast<T*>(into);
  switch (how) {
    case reduce_op::sum:
      return sum_tile(x, to, rows, columns, row_stride, column_stride);
    case reduce_op::product:
      return merge_rows<reduce_op::product>(x, to, rows, columns, row_stride, column_stride);
    case reduce_op::maximum:
      return merge_rows<reduce_op::maximum>(x, to, rows, columns, row_stride, column_stride);
    case reduce_op::minimum:
      return merge_rows<reduce_op::minimum>(x, to, rows, columns, row_stride, column_stride);
    default:
      return merge_rows<reduce_op::store>(x, to, rows, columns, row_stride, column_stride);
  }
}

/// Sum of n elements that lie side by side, in halves down to tiles.
template <class T>
T sum_of(const T* x, std::size_t n) {
  constexpr std::size_t tile = tile_bytes / sizeof(T);
  if (n > tile) {
    const std::size_t half = (n / tile + 1) / 2 * tile;
    return sum_of(x, half) + sum_of(x + half, n - half);
  }
  T sum{};
  if (n > 0) merge_tile<T>(reduce_op::sum, x, &sum, 1, n, 0, 0);
  return sum;
}

template <class T>
WEFT_HOST_DEVICE T identity(reduce_op how) {
  if constexpr (T(0.5) != T(0)) {
    switch (how) {
      case reduce_op::product:
        return 1;
      case reduce_op::maximum:
        return -__builtin_inff();
      case reduce_op::minimum:
        return __builtin_inff();
      default:
        return 0;
    }
  } else {
    switch (how) {
      case reduce_op::product:
        return 1;
      case reduce_op::maximum:
        return static_cast<T>(T(-1) < T(0) ? T(1) << (8 * sizeof(T) - 1) : 0);
      case reduce_op::minimum:
        return static_cast<T>(~(T(-1) < T(0) ? T(1) << (8 * sizeof(T) - 1) : 0));
      default:
        return 0;
    }
  }
}

template <class T>
void fill_identity(reduce_op how, void* to, std::size_t n) {
  if (how == reduce_op::sum) return static_cast<void>(__builtin_memset(to, 0, n * sizeof(T)));
  const T value = identity<T>(how);
  for (std::size_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = value;
}

template <class T>
void divide(double divisor, const void* from, void* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    static_cast<T*>(to)[i] = static_cast<T>(static_cast<double>(static_cast<const T*>(from)[i]) / divisor);
}

}  // namespace detail

/// The functions for combining values of one element type. Reached through a pointer, so that loops are compiled once,
/// and for the element types that a program uses.
struct arithmetic {
  void (*merge_tile)(reduce_op, const void* tile, void* into, std::size_t rows, std::size_t columns,
                     std::int64_t row_stride, std::int64_t column_stride);
  void (*fill_identity)(reduce_op, void* to, std::size_t n);
  void (*divide)(double divisor, const void* from, void* to, std::size_t n);
};

template <class T>
inline constexpr arithmetic arithmetic_of = {detail::merge_tile<T>, detail::fill_identity<T>, detail::divide<T>};

WEFT_INSTANTIATE(const arithmetic arithmetic_of<float>);
WEFT_INSTANTIATE(const arithmetic arithmetic_of<double>);
WEFT_INSTANTIATE(const arithmetic arithmetic_of<std::int32_t>);
WEFT_INSTANTIATE(const arithmetic arithmetic_of<std::int64_t>);

WEFT_COLD_BEGIN

/// Sums in levels: sixteen terms are added one after another, sixteen of these sums, and so on, so that what is small
/// is not lost on what is large. A term is an array of elements; the order depends on the number of terms alone.
class cascade {
 public:
  static constexpr std::size_t terms = 16;

  /// Memory for so many terms of so many bytes.
  static std::size_t room(std::size_t count, std::size_t bytes) {
    std::size_t levels = 1;
    for (; count >= terms; count /= terms) ++levels;
    return levels * step_of(bytes);
  }

  cascade() = default;
  /// Sums terms of so many bytes at most.
  cascade(const arithmetic& of, std::size_t bytes, std::byte* memory)
      : of_(&of), count_(0), step_(step_of(bytes)), memory_(memory) {}

  /// Where the next term, of so many elements as those before it, is to be added; `close` when it is.
  std::byte* open(std::size_t elements) {
    elements_ = elements;
    if (count_ % terms == 0) __builtin_memset(memory_, 0, step_);
    return memory_;
  }
  void close() {
    std::byte* from = memory_;
    for (std::size_t n = ++count_; n % terms == 0; from += step_) {
      n /= terms;
      if (n % terms == 1)
        __builtin_memcpy(from + step_, from, step_);
      else
        add(from, from + step_);
    }
  }
  /// Adds all of them to `to`, the smaller sums first, and begins anew.
  void finish(void* to) {
    std::byte *sum = nullptr, *level = memory_;
    for (std::size_t n = count_; n != 0; n /= terms, level += step_) {
      if (n % terms == 0) continue;
      if (sum) add(sum, level);
      sum = level;
    }
    if (sum) add(sum, to);
    restart();
  }
  void restart() { count_ = 0; }

 private:
  static std::size_t step_of(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  void add(const void* from, void* to) const { of_->merge_tile(reduce_op::sum, from, to, 1, elements_, 0, 1); }

  const arithmetic* of_;
  std::size_t elements_, count_, step_;
  std::byte* memory_;
};

WEFT_COLD_END

/// An operand as a loop keeps it.
struct loop_operand : operand {
  std::uint32_t size;
  reduce_op how;               // an output's
  const arithmetic* elements;  // an output's
};

/// A loop nest over broadcast and reduced operands, run block by block through one `block_function`.
///
/// Axes that every operand walks alike are merged first, so that most loops are one long run. The axes that are left
/// are cut into tiles of at most `tile_bytes` per operand; an operand that does not lie contiguous in a tile is staged
/// in a buffer, which the first-level cache holds. The function itself sees contiguous runs only.
///
/// Sums run in levels: within a tile, over the tiles that share results, over each axis outside of them, and over the
/// pieces for threads. So no rounding error grows with the number of terms, only with its logarithm.
///
/// Where the operands of a memory-bound function together exceed the caches and results are stored, all is cut into
/// small tiles: while one is computed the next is fetched, and results are staged too, to be streamed to where they
/// belong.
class loop {
 public:
  /// Elements that are reduced by one call at most. Each call has to find its way in memory again, so they are many.
  static constexpr std::size_t piece = 262144;

  /// Whether the sum of all n elements of contiguous operands is one such call.
  static bool is_one_call(std::size_t n, bool memory_bound) {
    return memory_bound ? n <= piece : n < 2 * chunk_elements;
  }

  loop() = default;

  /// `elements[k]` combines output k; it is not asked for outputs that are stored whole, and may then be null. A null
  /// `block` combines the one input as it is.
  /// `reduce`, when given, is a block function that combines all n elements into the one at out[0]; it is used where
  /// whole runs fall on one result. `memory_bound` says that memory takes longer than the function.
  loop(const shape& space, std::size_t inputs, const operand* in, std::size_t outputs, const operand* out,
       const reduce_op* how, const arithmetic* const* elements, block_function block, block_function reduce,
       bool memory_bound = true);

  std::size_t elements() const { return space_.elements(); }

  /// How many chunks it is cut into: from the extents alone, so that threads do not change bits.
  std::size_t chunks() const {
    const std::size_t n = elements(), most = extent(cut_axis_);
    const std::size_t least = memory_bound_ && reduce_runs_ && space_.rank == 1 ? piece : chunk_elements;
    if (n < 2 * least) return 1;
    const std::size_t wanted = n / least < max_chunks ? n / least : max_chunks;
    if (cuts_columns() && most / wanted > narrow) return most / narrow;
    return wanted < most ? wanted : most;
  }

  /// Whether an output is combined, and whether chunks of an axis share it, so that each needs its own copy: of the one
  /// that `run` cuts, or of the outermost, that of rows.
  bool combines(std::size_t output) const {
    return how(output) != reduce_op::store && how(output) != reduce_op::discard;
  }
  bool chunks_share_output(std::size_t output) const { return combines(output) && stride(output, cut_axis_) == 0; }
  bool rows_share_output(std::size_t output) const { return combines(output) && stride(output, 0) == 0; }

  /// Memory in which a call of `run`, or of `run_rows`, keeps sums.
  std::size_t scratch_bytes() const;
  std::size_t rows_scratch_bytes() const { return scratch_bytes({0, 0, extent(0)}); }

  /// Runs one of `chunks`. Combining outputs must hold their identity (or a value to add to) before.
  void run(const void* const* in, void* const* out, const std::uint64_t* literals, std::size_t chunk = 0,
           std::size_t chunks = 1, std::byte* scratch = nullptr) const {
    if (is_line_ && chunks == 1) return run_line(in, out, literals);
    run_range(in, out, literals, {cut_axis_, cut(chunk, chunks), cut(chunk + 1, chunks)}, scratch);
  }

  /// Whether all of it is one call of the function, where it is not cut into chunks.
  bool is_line() const { return is_line_; }
  void run_line(const void* const* in, void* const* out, const std::uint64_t* literals) const {
    block_(in, out, extent(0), literals);
  }

  /// Whether the outermost axis, or several that are one since axes were merged, can be cut into so many rows.
  bool has_rows(std::size_t rows) const { return rows != 0 && extent(0) % rows == 0; }

  /// Runs rows [begin, end) of so many.
  void run_rows(const void* const* in, void* const* out, const std::uint64_t* literals, std::size_t begin,
                std::size_t end, std::size_t rows, std::byte* scratch) const {
    const std::size_t unit = extent(0) / rows;
    run_range(in, out, literals, {0, begin * unit, end * unit}, scratch);
  }

  reduce_op how(std::size_t output) const { return operands_[inputs_ + output].how; }
  dtype output_type(std::size_t output) const { return operands_[inputs_ + output].type; }
  const arithmetic* elements_of(std::size_t output) const { return operands_[inputs_ + output].elements; }
  std::size_t inputs() const { return inputs_; }
  std::size_t outputs() const { return outputs_; }

 private:
  static constexpr std::size_t tile_bytes = detail::tile_bytes, chunk_elements = 32768, max_chunks = 16;
  static constexpr std::size_t page = 4096, cache_line = 64;
  static constexpr std::size_t long_row = 128;  // below this many elements a call per row costs more than staging
  // From so many columns on what is summed over rows is cut into columns, so narrow that the first caches hold the
  // sums.
  static constexpr std::size_t many_columns = 16384, narrow = 8192;

  std::size_t count() const { return inputs_ + outputs_; }
  std::size_t extent(std::size_t axis) const { return static_cast<std::size_t>(space_[axis]); }
  std::int64_t stride(std::size_t output, std::size_t axis) const { return operands_[inputs_ + output].stride[axis]; }
  std::int64_t inner_stride(std::size_t k) const { return operands_[k].stride[space_.rank - 1]; }
  std::int64_t row_stride(std::size_t k) const { return space_.rank > 1 ? operands_[k].stride[space_.rank - 2] : 0; }
  bool contiguous_inner(std::size_t k) const { return inner_stride(k) == 1 || space_[space_.rank - 1] == 1; }

  /// The bytes of all operands, each counted once.
  std::size_t bytes() const {
    std::size_t all = 0;
    for (std::size_t k = 0; k < count(); ++k) {
      std::size_t own = operands_[k].size;
      for (std::size_t axis = 0; axis < space_.rank; ++axis)
        if (operands_[k].stride[axis] != 0) own *= extent(axis);
      all += own;
    }
    return all;
  }

  struct position {
    const std::byte* in[max_operands];
    std::byte* out[max_operands];
  };

  /// The part of the space where one axis runs from `begin` to `end`.
  struct part {
    std::size_t axis, begin, end;
  };
  std::size_t extent_in(const part& p, std::size_t axis) const {
    return axis == p.axis ? p.end - p.begin : extent(axis);
  }

  std::size_t choose_cut() const;
  bool cuts_columns() const { return cut_axis_ != 0 && cut_axis_ + 1 == space_.rank; }
  std::size_t cut(std::size_t chunk, std::size_t chunks) const {
    // No chunk begins inside a line or, where it is fetched ahead page by page, inside a page.
    const std::size_t n = extent(cut_axis_);
    const std::size_t unit = cut_axis_ + 1 < space_.rank ? 1 : far_ ? page : cache_line;
    return chunk == chunks ? n : n * chunk / chunks / unit * unit;
  }

  /// How rows of so many columns are cut into tiles.
  struct tiling {
    tiling(const loop& l, std::size_t all_rows, std::size_t all_columns)
        : rows(all_columns < l.tile_ ? l.tile_ / (all_columns ? all_columns : 1) : 1),
          columns(all_columns < l.tile_ ? all_columns : l.tile_),
          down((all_rows + rows - 1) / rows),
          across(columns ? (all_columns + columns - 1) / columns : 0) {}

    /// The number of tiles in a row that are terms of the same results of a sum; 1 for what is not a sum.
    std::size_t terms(const loop& l, std::size_t output) const {
      if (l.how(output) != reduce_op::sum) return 1;
      const std::size_t o = l.inputs_ + output;
      return (l.row_stride(o) == 0 ? down : 1) * (l.inner_stride(o) == 0 ? across : 1);
    }
    std::size_t term_bytes(const loop& l, std::size_t output) const {
      const std::size_t o = l.inputs_ + output;
      return (l.inner_stride(o) != 0 ? columns : l.row_stride(o) != 0 ? rows : 1) * l.operands_[o].size;
    }
    /// The memory for these sums.
    std::size_t room(const loop& l, std::size_t output) const {
      const std::size_t n = terms(l, output);
      return n == 1 ? 0 : cascade::room(n, term_bytes(l, output));
    }

    std::size_t rows, columns, down, across;  // of a tile; and how many tiles
  };

  std::size_t scratch_bytes(const part&) const;
  void run_range(const void* const* in, void* const* out, const std::uint64_t* literals, const part&,
                 std::byte* scratch) const;

  std::ptrdiff_t bytes(std::size_t k, std::int64_t stride, std::size_t steps) const {
    return stride * static_cast<std::int64_t>(steps * operands_[k].size);
  }

  void move(position& at, std::size_t axis, std::size_t steps) const {
    for (std::size_t k = 0; k < inputs_; ++k) at.in[k] += bytes(k, operands_[k].stride[axis], steps);
    for (std::size_t k = 0; k < outputs_; ++k) at.out[k] += bytes(inputs_ + k, stride(k, axis), steps);
  }

  /// Whether an axis outside of the tiles has so many terms of a sum that they are added in levels; and over how many
  /// elements of the result that is.
  bool sums_along(std::size_t output, const part& p, std::size_t axis) const {
    return how(output) == reduce_op::sum && stride(output, axis) == 0 && extent_in(p, axis) > cascade::terms;
  }
  std::size_t summed_along(std::size_t output, const part& p, std::size_t axis) const {
    std::size_t n = 1;
    while (++axis < space_.rank)
      if (stride(output, axis) != 0) n *= extent_in(p, axis);
    return n;
  }

  void walk(const position& from, const std::uint64_t* literals, const part&, std::size_t axis,
            std::byte* scratch) const;

  void run_tiles(const position& at, const std::uint64_t* literals, std::size_t rows, std::size_t columns,
                 std::byte* scratch) const;

  void reduce_rows(const position& at, const std::uint64_t* literals, std::size_t rows, std::size_t columns,
                   std::byte* scratch) const;

  void store_tile(std::size_t k, const void* tile, std::byte* to, std::size_t rows, std::size_t columns) const {
    const std::size_t o = inputs_ + k;
    if (how(k) != reduce_op::store) {
      elements_of(k)->merge_tile(how(k), tile, to, rows, columns, row_stride(o), inner_stride(o));
      return;
    }
    const auto* from = static_cast<const std::byte*>(tile);
    for (std::size_t r = 0; r < rows; ++r)
      __builtin_memcpy(to + bytes(o, row_stride(o), r), from + r * columns * operands_[o].size,
                       columns * operands_[o].size);
  }

  bool lies_contiguous(std::size_t k, std::size_t rows, std::size_t columns, std::size_t row_length) const {
    if (columns > 1 && inner_stride(k) != 1) return false;
    return rows == 1 || (columns == row_length && row_stride(k) == static_cast<std::int64_t>(columns));
  }

  shape space_;
  std::size_t inputs_ = 0, outputs_ = 0, tile_ = 0;
  short_array<loop_operand, 4> operands_;
  std::size_t cut_axis_ = 0;    // that chunks are cut from
  std::size_t inner_axis_ = 0;  // the outermost one that tiles are cut from
  block_function block_ = nullptr, reduce_ = nullptr;
  bool direct_ = false, reduces_ = false, reduce_runs_ = false, memory_bound_ = true, far_ = false, is_line_ = false;
};

WEFT_COLD_BEGIN

inline loop::loop(const shape& space, std::size_t inputs, const operand* in, std::size_t outputs, const operand* out,
                  const reduce_op* how, const arithmetic* const* elements, block_function block, block_function reduce,
                  bool memory_bound)
    : inputs_(inputs),
      outputs_(outputs),
      operands_(inputs + outputs),
      block_(block),
      reduce_(reduce),
      memory_bound_(memory_bound) {
  operand all[2 * max_operands];
  for (std::size_t k = 0; k < inputs; ++k) all[k] = in[k];
  for (std::size_t k = 0; k < outputs; ++k) all[inputs + k] = out[k];
  space_ = space;
  device::merge_axes(space_, all, count());
  if (space_.rank == 0) {
    space_.push_back(1);
    for (std::size_t k = 0; k < count(); ++k) all[k].stride[0] = 0;
  }
  bool stores = false;
  std::size_t widest = 1;
  for (std::size_t k = 0; k < count(); ++k) {
    loop_operand& o = operands_[k];
    static_cast<operand&>(o) = all[k];
    o.size = static_cast<std::uint32_t>(size_of(o.type));
    if (o.size > widest) widest = o.size;
    if (k < inputs) continue;
    o.how = how[k - inputs];
    o.elements = elements ? elements[k - inputs] : nullptr;
    reduces_ = reduces_ || o.how != reduce_op::store;
    stores = stores || o.how == reduce_op::store;
  }
  far_ = memory_bound && stores && exceeds_caches(bytes());
  tile_ = (far_ ? detail::fetched_ahead : tile_bytes) / widest;
  direct_ = true;
  for (std::size_t k = 0; k < count(); ++k) direct_ = direct_ && contiguous_inner(k);
  reduce_runs_ = reduce_ && outputs_ == 1 && inner_stride(inputs_) == 0;
  for (std::size_t k = 0; k < inputs_; ++k) reduce_runs_ = reduce_runs_ && contiguous_inner(k);
  reduce_runs_ = reduce_runs_ && (space_.rank == 1 || extent(space_.rank - 1) >= long_row);

  // Rows that are longer than tiles are terms of a sum one by one.
  bool row_by_row = space_.rank == 1;
  for (std::size_t k = 0; k < outputs_ && extent(space_.rank - 1) > tile_; ++k)
    if (how[k] == reduce_op::sum && inner_stride(inputs_ + k) != 0 && row_stride(inputs_ + k) == 0) row_by_row = true;
  inner_axis_ = space_.rank - (row_by_row ? 1 : 2);
  cut_axis_ = choose_cut();
  is_line_ = direct_ && !reduces_ && !far_ && space_.rank == 1 && extent(0) != 0;
}

// The outermost axis, unless every result has to be summed over it: then the first one that they are not summed over,
// where that is long, so that no two chunks share a result.
inline std::size_t loop::choose_cut() const {
  for (std::size_t axis = 0; axis < space_.rank; ++axis) {
    std::size_t combined = 0, kept = 0;
    for (std::size_t k = 0; k < outputs_; ++k)
      if (combines(k)) ++combined, kept += stride(k, axis) != 0;
    if (kept == 0 && combined != 0) continue;
    const bool is_long = extent(axis) >= (axis + 1 < space_.rank ? max_chunks : many_columns);
    return kept == combined && is_long ? axis : 0;
  }
  return 0;
}

inline std::size_t loop::scratch_bytes() const {
  const std::size_t n = chunks();
  std::size_t longest = 0;
  for (std::size_t c = 0; c < n; ++c)
    if (cut(c + 1, n) - cut(c, n) > longest) longest = cut(c + 1, n) - cut(c, n);
  return scratch_bytes({cut_axis_, 0, longest});
}

inline std::size_t loop::scratch_bytes(const part& p) const {
  const tiling tiles(*this, inner_axis_ + 1 < space_.rank ? extent_in(p, inner_axis_) : 1,
                     extent_in(p, space_.rank - 1));
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < outputs_; ++k) {
    if (how(k) != reduce_op::sum) continue;
    for (std::size_t axis = 0; axis < inner_axis_; ++axis)
      if (sums_along(k, p, axis))
        bytes += cascade::room(extent(axis), summed_along(k, p, axis) * operands_[inputs_ + k].size);
    bytes += reduce_runs_ ? cascade::room(elements(), operands_[inputs_ + k].size) : tiles.room(*this, k);
  }
  return bytes;
}

inline void loop::run_range(const void* const* in, void* const* out, const std::uint64_t* literals, const part& p,
                            std::byte* scratch) const {
  if (elements() == 0 || p.begin >= p.end) return;
  position at;
  for (std::size_t k = 0; k < inputs_; ++k) at.in[k] = static_cast<const std::byte*>(in[k]);
  for (std::size_t k = 0; k < outputs_; ++k) at.out[k] = static_cast<std::byte*>(out[k]);
  if (p.begin != 0) move(at, p.axis, p.begin);
  walk(at, literals, p, 0, scratch);
}

inline void loop::walk(const position& from, const std::uint64_t* literals, const part& p, std::size_t axis,
                       std::byte* scratch) const {
  const std::size_t n = extent_in(p, axis);
  if (axis == inner_axis_)
    return run_tiles(from, literals, axis + 1 < space_.rank ? n : 1, extent_in(p, space_.rank - 1), scratch);
  cascade sums[max_operands];
  std::size_t results[max_operands];  // 0: not summed here
  for (std::size_t k = 0; k < outputs_; ++k) {
    results[k] = sums_along(k, p, axis) ? summed_along(k, p, axis) : 0;
    if (results[k] == 0) continue;
    const std::size_t bytes = results[k] * operands_[inputs_ + k].size;
    sums[k] = cascade(*elements_of(k), bytes, scratch);
    scratch += cascade::room(n, bytes);
  }
  position at = from;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < outputs_; ++k)
      if (results[k] != 0) at.out[k] = sums[k].open(results[k]);
    walk(at, literals, p, axis + 1, scratch);
    for (std::size_t k = 0; k < outputs_; ++k)
      if (results[k] != 0) sums[k].close();
    move(at, axis, 1);
  }
  for (std::size_t k = 0; k < outputs_; ++k)
    if (results[k] != 0) sums[k].finish(from.out[k]);
}

inline void loop::reduce_rows(const position& at, const std::uint64_t* literals, std::size_t rows, std::size_t columns,
                              std::byte* scratch) const {
  const bool shared = row_stride(inputs_) == 0;
  const std::size_t terms = (shared ? rows : 1) * ((columns + piece - 1) / piece);
  cascade sum(*elements_of(0), operands_[inputs_].size, scratch);
  const void* in[max_operands];
  for (std::size_t r = 0; r < rows; ++r) {
    void* const to = at.out[0] + bytes(inputs_, row_stride(inputs_), r);
    for (std::size_t c = 0; c < columns; c += piece) {
      for (std::size_t k = 0; k < inputs_; ++k)
        in[k] = at.in[k] + bytes(k, row_stride(k), r) + bytes(k, inner_stride(k), c);
      const bool in_levels = how(0) == reduce_op::sum && terms > 1;
      void* const into = in_levels ? sum.open(1) : to;
      reduce_(in, &into, columns - c < piece ? columns - c : piece, literals);
      if (in_levels) sum.close();
    }
    if (!shared || r + 1 == rows) sum.finish(to);
  }
}

WEFT_COLD_END

// Compiled in full: what it inlines, streaming and fetching ahead, is a third slower otherwise.
inline void loop::run_tiles(const position& at, const std::uint64_t* literals, std::size_t rows, std::size_t columns,
                            std::byte* scratch) const {
  if (reduce_runs_) return reduce_rows(at, literals, rows, columns, scratch);
  const void* in[max_operands];
  void* out[max_operands];
  const bool whole_rows = direct_ && !reduces_ && !far_ && (rows == 1 || columns >= long_row);
  if (whole_rows) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t k = 0; k < inputs_; ++k) in[k] = at.in[k] + bytes(k, row_stride(k), r);
      for (std::size_t k = 0; k < outputs_; ++k) out[k] = at.out[k] + bytes(inputs_ + k, row_stride(inputs_ + k), r);
      block_(in, out, columns, literals);
    }
    return;
  }

  bool streams[max_operands], streamed = false;
  for (std::size_t k = 0; k < outputs_; ++k) {
    streams[k] = far_ && how(k) == reduce_op::store;
    for (std::size_t i = 0; i < inputs_; ++i) streams[k] = streams[k] && at.in[i] != at.out[k];
    streamed = streamed || streams[k];
  }

  alignas(64) std::byte staging[2 * max_operands][tile_bytes];
  const void* staged_from[max_operands]{};
  std::size_t staged_rows[max_operands]{}, staged_columns[max_operands]{};
  const tiling tiles(*this, rows, columns);
  const std::size_t tile_rows = tiles.rows, tile_columns = tiles.columns;

  // `terms` says for each sum how many tiles in a row are terms of the same results.
  cascade sums[max_operands];
  std::size_t terms[max_operands];
  for (std::size_t k = 0; k < outputs_; ++k) {
    terms[k] = tiles.terms(*this, k);
    if (terms[k] == 1) continue;
    sums[k] = cascade(*elements_of(k), tiles.term_bytes(*this, k), scratch);
    scratch += tiles.room(*this, k);
  }

  std::size_t tile = 0;
  for (std::size_t r = 0; r < rows; r += tile_rows) {
    const std::size_t nr = rows - r < tile_rows ? rows - r : tile_rows;
    for (std::size_t c = 0; c < columns; c += tile_columns) {
      const std::size_t nc = columns - c < tile_columns ? columns - c : tile_columns;
      for (std::size_t k = 0; k < inputs_; ++k) {
        const std::byte* from = at.in[k] + bytes(k, row_stride(k), r) + bytes(k, inner_stride(k), c);
        if (lies_contiguous(k, nr, nc, columns)) {
          in[k] = from;
          if (far_) detail::fetch(from + nr * nc * operands_[k].size);
          continue;
        }
        in[k] = staging[k];
        const bool invariant = row_stride(k) == 0 || nr == 1;
        if (invariant && staged_from[k] == from && staged_rows[k] >= nr && staged_columns[k] == nc) continue;
        for (std::size_t i = 0; i < nr; ++i) {
          std::byte* to = staging[k] + i * nc * operands_[k].size;
          const std::byte* row = from + bytes(k, row_stride(k), i);
          if (inner_stride(k) == 1)
            __builtin_memcpy(to, row, nc * operands_[k].size);
          else
            detail::splat(operands_[k].size, to, row, nc);
        }
        staged_from[k] = row_stride(k) == 0 ? from : nullptr;
        staged_rows[k] = nr;
        staged_columns[k] = nc;
      }
      std::byte* to[max_operands];
      for (std::size_t k = 0; k < outputs_; ++k) {
        const std::size_t o = inputs_ + k;
        to[k] = at.out[k] + bytes(o, row_stride(o), r) + bytes(o, inner_stride(o), c);
        out[k] = how(k) == reduce_op::store && !streams[k] && lies_contiguous(o, nr, nc, columns) ? to[k] : staging[o];
      }
      if (block_)
        block_(in, out, nr * nc, literals);
      else
        out[0] = const_cast<void*>(in[0]);
      ++tile;
      for (std::size_t k = 0; k < outputs_; ++k) {
        if (out[k] == to[k] || how(k) == reduce_op::discard) continue;
        if (streams[k] && lies_contiguous(inputs_ + k, nr, nc, columns)) {
          detail::stream(to[k], staging[inputs_ + k], nr * nc * operands_[inputs_ + k].size);
        } else if (terms[k] == 1) {
          store_tile(k, out[k], to[k], nr, nc);
        } else {
          const std::size_t o = inputs_ + k;
          store_tile(k, out[k], sums[k].open(inner_stride(o) != 0 ? nc : row_stride(o) != 0 ? nr : 1), nr, nc);
          sums[k].close();
          if (tile % terms[k] == 0) sums[k].finish(to[k]);
        }
      }
    }
  }
  if (streamed) detail::finish_streams();
}

}  // namespace weft::device
