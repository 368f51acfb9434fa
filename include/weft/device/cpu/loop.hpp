#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>

namespace weft::device {

/// The inner loop of a fused elementwise kernel: reads n consecutive elements of every input, writes n of every output.
using block_function = void (*)(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* literals);

inline constexpr std::size_t max_operands = 16;

/// How an output takes the values computed for it: stored, combined where several land on one element, or dropped.
enum class combine : unsigned char { store, sum, product, maximum, minimum, discard };

/// Where one operand of a loop lies: element type and, per axis of the iteration space, the distance in elements
/// between neighbours; 0 along an axis that it is broadcast over or reduced along.
struct operand {
  dtype type;
  std::int64_t stride[max_rank];
};

/// Row-major strides of `inner` seen through the iteration space `outer`, aligned at the last axis.
inline operand broadcast_operand(dtype type, const shape& inner, const shape& outer) {
  operand o{type, {}};
  std::int64_t step = 1;
  for (std::size_t i = 1; i <= inner.rank; ++i) {
    const auto extent = inner[inner.rank - i];
    o.stride[outer.rank - i] = extent == 1 ? 0 : step;
    step *= extent;
  }
  return o;
}

/// Strides of a reduction's result: `kept[axis]` says which axes of the iteration space it still has.
inline operand reduced_operand(dtype type, const shape& space, const bool* kept) {
  operand o{type, {}};
  std::int64_t step = 1;
  for (std::size_t i = space.rank; i-- > 0;) {
    if (!kept[i]) continue;
    o.stride[i] = space[i] == 1 ? 0 : step;
    step *= space[i];
  }
  return o;
}

/// Drops axes of one element, and joins neighbours along which every operand walks on.
inline void merge_axes(shape& space, operand* operands, std::size_t count) {
  const shape all = space;
  space = {};
  for (std::size_t axis = 0; axis < all.rank; ++axis) {
    if (all[axis] == 1) continue;
    const std::size_t last = space.rank;
    bool joins = last > 0;
    for (std::size_t k = 0; joins && k < count; ++k)
      joins = operands[k].stride[last - 1] == operands[k].stride[axis] * all[axis];
    if (joins)
      space[last - 1] *= all[axis];
    else
      space.push_back(all[axis]);
    for (std::size_t k = 0; k < count; ++k) operands[k].stride[space.rank - 1] = operands[k].stride[axis];
  }
}

/// Whether a pass over so many bytes leaves little of them in the caches of any processor.
constexpr bool exceeds_caches(std::size_t bytes) { return bytes > std::size_t{64} << 20; }

namespace detail {

inline constexpr std::size_t fetched_ahead = 1024;

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
WEFT_HOST_DEVICE T merge(combine how, T a, T b) {
  switch (how) {
    case combine::sum:
      return static_cast<T>(wrapping(a) + wrapping(b));
    case combine::product:
      return static_cast<T>(wrapping(a) * wrapping(b));
    case combine::maximum:
      return b > a || is_nan(b) ? b : a;
    case combine::minimum:
      return b < a || is_nan(b) ? b : a;
    default:
      return b;
  }
}

inline constexpr std::size_t lanes = 16;

/// Adds n elements to n others: the one combination that is worth vectors of its own.
template <class T>
void add_run(const T* x, T* to, std::size_t n) {
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<T>(wrapping(to[i]) + wrapping(x[i]));
}

/// Sum of n elements, in an order that depends on n alone: the bits are the same whatever the vectors' width.
template <class T>
T sum_run(const T* x, std::size_t n) {
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

template <class T>
void add_row(const T* x, T* to, std::size_t n) {
#if defined(__x86_64__)
  if constexpr (T(0.5) != T(0))
    if (detected_isa() != isa::baseline) return add_run_avx2(x, to, n);
#endif
  add_run(x, to, n);
}

template <class T>
T merge_row(combine how, const T* x, std::size_t n) {
  if (how == combine::sum) {
#if defined(__x86_64__)
    if constexpr (T(0.5) != T(0))
      if (detected_isa() != isa::baseline) return sum_run_avx2(x, n);
#endif
    return sum_run(x, n);
  }
  T result = x[0];
  for (std::size_t i = 1; i < n; ++i) result = merge(how, result, x[i]);
  return result;
}

/// Combines a tile of rows x columns into elements `row_stride` and `column_stride` apart.
template <class T>
void merge_tile(combine how, const void* tile, void* into, std::size_t rows, std::size_t columns,
                std::int64_t row_stride, std::int64_t column_stride) {
  const T* x = static_cast<const T*>(tile);
  T* to = static_cast<T*>(into);
  if (column_stride == 0 && row_stride == 0) {
    *to = merge(how, *to, merge_row(how, x, rows * columns));
    return;
  }
  for (std::size_t r = 0; r < rows; ++r, x += columns, to += row_stride) {
    if (column_stride == 0)
      *to = merge(how, *to, merge_row(how, x, columns));
    else if (how == combine::sum)
      add_row(x, to, columns);
    else
      for (std::size_t c = 0; c < columns; ++c) to[c] = merge(how, to[c], x[c]);
  }
}

template <class T>
WEFT_HOST_DEVICE T identity(combine how) {
  if constexpr (T(0.5) != T(0)) {
    switch (how) {
      case combine::product:
        return 1;
      case combine::maximum:
        return -__builtin_inff();
      case combine::minimum:
        return __builtin_inff();
      default:
        return 0;
    }
  } else {
    switch (how) {
      case combine::product:
        return 1;
      case combine::maximum:
        return static_cast<T>(T(-1) < T(0) ? T(1) << (8 * sizeof(T) - 1) : 0);
      case combine::minimum:
        return static_cast<T>(~(T(-1) < T(0) ? T(1) << (8 * sizeof(T) - 1) : 0));
      default:
        return 0;
    }
  }
}

template <class T>
void fill_identity(combine how, void* to, std::size_t n) {
  const T value = identity<T>(how);
  for (std::size_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = value;
}

template <class T>
void divide(double divisor, const void* from, void* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    static_cast<T*>(to)[i] = static_cast<T>(static_cast<double>(static_cast<const T*>(from)[i]) / divisor);
}

}  // namespace detail

/// What combining values of one element type takes. Reached through a pointer, so that loops are compiled once, and for
/// the element types that a program uses.
struct arithmetic {
  void (*merge_tile)(combine, const void* tile, void* into, std::size_t rows, std::size_t columns,
                     std::int64_t row_stride, std::int64_t column_stride);
  void (*fill_identity)(combine, void* to, std::size_t n);
  void (*divide)(double divisor, const void* from, void* to, std::size_t n);
};

template <class T>
inline constexpr arithmetic arithmetic_of = {detail::merge_tile<T>, detail::fill_identity<T>, detail::divide<T>};

/// A loop nest over broadcast and reduced operands, run block by block through one `block_function`.
///
/// Axes that every operand walks alike are merged first, so that most loops are one long run. What is left is cut into
/// tiles of at most `tile_bytes` per operand; an operand that does not lie contiguous in a tile is staged in a
/// buffer, which the first-level cache holds. The function itself sees contiguous runs only.
///
/// Where the operands of a light function together exceed the caches, all is cut into small tiles: while one is computed
/// the next is fetched, and results are staged too, to be streamed to where they belong.
class loop {
 public:
  static constexpr std::size_t tile_bytes = 4096;

  loop() = default;

  /// `elements[k]` combines output k; it is not asked for outputs that are stored whole, and may then be null.
  /// `reduce`, when given, is a block function that combines all n elements into the one at out[0]; it is used where
  /// whole runs fall on one result. `light` says that memory takes longer than the function.
  loop(const shape& space, std::size_t inputs, const operand* in, std::size_t outputs, const operand* out,
       const combine* how, const arithmetic* const* elements, block_function block, block_function reduce,
       bool light = true);

  std::size_t elements() const { return space_.elements(); }

  /// How many pieces the outermost axis is cut into: from the extents alone, so that threads do not change bits.
  std::size_t chunks() const {
    const std::size_t n = elements();
    if (n < 2 * chunk_elements) return 1;
    const std::size_t wanted = n / chunk_elements, most = static_cast<std::size_t>(space_[0]);
    return wanted < 16 ? (wanted < most ? wanted : most) : (most < 16 ? most : 16);
  }

  /// Whether pieces share results, so that each needs its own copy of them.
  bool chunks_share_outputs() const {
    for (std::size_t k = 0; k < outputs_; ++k)
      if (how_[k] != combine::store && how_[k] != combine::discard && operands_[inputs_ + k].stride[0] == 0)
        return true;
    return false;
  }

  /// Runs piece `chunk` of `chunks`. Combining outputs must hold their identity (or a value to add to) before.
  void run(const void* const* in, void* const* out, const std::uint64_t* literals, std::size_t chunk = 0,
           std::size_t chunks = 1) const {
    const auto n0 = static_cast<std::size_t>(space_[0]);
    // No piece begins inside a line or, where it is fetched ahead page by page, inside a page.
    const std::size_t unit = space_.rank > 1 ? 1 : far_ ? page : cache_line;
    const auto cut = [&](std::size_t c) { return c == chunks ? n0 : n0 * c / chunks / unit * unit; };
    run_range(in, out, literals, cut(chunk), cut(chunk + 1));
  }

  /// Runs rows [begin, end) where the outermost axis was `rows` long before axes were merged.
  void run_rows(const void* const* in, void* const* out, const std::uint64_t* literals, std::size_t begin,
                std::size_t end, std::size_t rows) const {
    const std::size_t unit = static_cast<std::size_t>(space_[0]) / rows;
    run_range(in, out, literals, begin * unit, end * unit);
  }

  combine how(std::size_t output) const { return how_[output]; }
  dtype output_type(std::size_t output) const { return operands_[inputs_ + output].type; }
  const arithmetic* elements_of(std::size_t output) const { return elements_[output]; }
  std::size_t outputs() const { return outputs_; }

 private:
  static constexpr std::size_t chunk_elements = 32768;
  static constexpr std::size_t page = 4096, cache_line = 64;
  static constexpr std::size_t long_row = 128;  // below this many elements a call per row costs more than staging

  std::size_t count() const { return inputs_ + outputs_; }
  std::int64_t inner_stride(std::size_t k) const { return operands_[k].stride[space_.rank - 1]; }
  std::int64_t row_stride(std::size_t k) const { return space_.rank > 1 ? operands_[k].stride[space_.rank - 2] : 0; }
  bool contiguous_inner(std::size_t k) const { return inner_stride(k) == 1 || space_[space_.rank - 1] == 1; }

  /// Of all operands, each counted once.
  std::size_t bytes() const {
    std::size_t all = 0;
    for (std::size_t k = 0; k < count(); ++k) {
      std::size_t own = sizes_[k];
      for (std::size_t axis = 0; axis < space_.rank; ++axis)
        if (operands_[k].stride[axis] != 0) own *= static_cast<std::size_t>(space_[axis]);
      all += own;
    }
    return all;
  }

  struct position {
    const std::byte* in[max_operands];
    std::byte* out[max_operands];
  };

  void run_range(const void* const* in, void* const* out, const std::uint64_t* literals, std::size_t begin,
                 std::size_t end) const;

  std::ptrdiff_t bytes(std::size_t k, std::int64_t stride, std::size_t steps) const {
    return stride * static_cast<std::int64_t>(steps * sizes_[k]);
  }

  void move(position& at, std::size_t axis, std::int64_t steps) const {
    for (std::size_t k = 0; k < inputs_; ++k)
      at.in[k] += operands_[k].stride[axis] * steps * static_cast<std::int64_t>(sizes_[k]);
    for (std::size_t k = 0; k < outputs_; ++k)
      at.out[k] += operands_[inputs_ + k].stride[axis] * steps * static_cast<std::int64_t>(sizes_[inputs_ + k]);
  }

  void run_tiles(const position& at, const std::uint64_t* literals, std::size_t rows, std::size_t columns) const;

  void reduce_rows(const position& at, std::size_t first, std::size_t rows, std::size_t columns,
                   const std::uint64_t* literals) const;

  void store_tile(std::size_t k, const void* tile, std::byte* to, std::size_t rows, std::size_t columns) const {
    const std::size_t o = inputs_ + k;
    if (how_[k] != combine::store) {
      elements_[k]->merge_tile(how_[k], tile, to, rows, columns, row_stride(o), inner_stride(o));
      return;
    }
    const auto* from = static_cast<const std::byte*>(tile);
    for (std::size_t r = 0; r < rows; ++r)
      __builtin_memcpy(to + bytes(o, row_stride(o), r), from + r * columns * sizes_[o], columns * sizes_[o]);
  }

  bool lies_contiguous(std::size_t k, std::size_t rows, std::size_t columns, std::size_t row_length) const {
    if (columns > 1 && inner_stride(k) != 1) return false;
    return rows == 1 || (columns == row_length && row_stride(k) == static_cast<std::int64_t>(columns));
  }

  shape space_;
  operand operands_[2 * max_operands];
  std::size_t sizes_[2 * max_operands]{};
  combine how_[max_operands]{};
  const arithmetic* elements_[max_operands]{};
  std::size_t inputs_ = 0, outputs_ = 0, tile_ = 0;
  block_function block_ = nullptr, reduce_ = nullptr;
  bool direct_ = false, reduces_ = false, reduce_runs_ = false, far_ = false;
};

WEFT_COLD_BEGIN

inline loop::loop(const shape& space, std::size_t inputs, const operand* in, std::size_t outputs, const operand* out,
                  const combine* how, const arithmetic* const* elements, block_function block, block_function reduce,
                  bool light)
    : inputs_(inputs), outputs_(outputs), block_(block), reduce_(reduce) {
  std::size_t widest = 1;
  for (std::size_t k = 0; k < inputs; ++k) operands_[k] = in[k];
  for (std::size_t k = 0; k < outputs; ++k) {
    operands_[inputs + k] = out[k];
    how_[k] = how[k];
    elements_[k] = elements ? elements[k] : nullptr;
  }
  for (std::size_t k = 0; k < count(); ++k) {
    sizes_[k] = size_of(operands_[k].type);
    if (sizes_[k] > widest) widest = sizes_[k];
  }
  space_ = space;
  device::merge_axes(space_, operands_, count());
  if (space_.rank == 0) {
    space_.push_back(1);
    for (std::size_t k = 0; k < count(); ++k) operands_[k].stride[0] = 0;
  }
  far_ = light && exceeds_caches(bytes());
  tile_ = (far_ ? detail::fetched_ahead : tile_bytes) / widest;
  reduces_ = false;
  for (std::size_t k = 0; k < outputs; ++k) reduces_ = reduces_ || how_[k] != combine::store;
  direct_ = true;
  for (std::size_t k = 0; k < count(); ++k) direct_ = direct_ && contiguous_inner(k);
  reduce_runs_ = reduce_ && outputs_ == 1 && inner_stride(inputs_) == 0;
  for (std::size_t k = 0; k < inputs_; ++k) reduce_runs_ = reduce_runs_ && contiguous_inner(k);
  reduce_runs_ = reduce_runs_ && (space_.rank == 1 || space_[space_.rank - 1] >= static_cast<std::int64_t>(long_row));
}

inline void loop::run_range(const void* const* in, void* const* out, const std::uint64_t* literals, std::size_t begin,
                            std::size_t end) const {
  if (elements() == 0 || begin >= end) return;
  position at;
  for (std::size_t k = 0; k < inputs_; ++k)
    at.in[k] = static_cast<const std::byte*>(in[k]) + bytes(k, operands_[k].stride[0], begin);
  for (std::size_t k = 0; k < outputs_; ++k)
    at.out[k] = static_cast<std::byte*>(out[k]) + bytes(inputs_ + k, operands_[inputs_ + k].stride[0], begin);
  const std::size_t rank = space_.rank;
  if (rank == 1) return run_tiles(at, literals, 1, end - begin);
  if (rank == 2) return run_tiles(at, literals, end - begin, static_cast<std::size_t>(space_[1]));

  const auto rows = static_cast<std::size_t>(space_[rank - 2]), columns = static_cast<std::size_t>(space_[rank - 1]);
  std::size_t index[max_rank]{};
  const std::size_t outer = rank - 2;
  index[0] = begin;
  for (;;) {
    run_tiles(at, literals, rows, columns);
    std::size_t axis = outer;
    while (axis-- > 0) {
      const std::size_t limit = axis == 0 ? end : static_cast<std::size_t>(space_[axis]);
      const std::size_t from = axis == 0 ? begin : 0;
      move(at, axis, 1);
      if (++index[axis] < limit) break;
      move(at, axis, -static_cast<std::int64_t>(index[axis] - from));
      index[axis] = from;
      if (axis == 0) return;
    }
  }
}

WEFT_COLD_END

// Reduces rows to the one result that they share, sixteen pieces at a time and those two by two: what is added to a
// large sum is large, and the order depends on the extents alone.
inline void loop::reduce_rows(const position& at, std::size_t first, std::size_t rows, std::size_t columns,
                              const std::uint64_t* literals) const {
  const arithmetic& of = *elements_[0];
  const auto merge = [&](const void* from, void* into) { of.merge_tile(how_[0], from, into, 1, 1, 0, 0); };
  std::uint64_t partial, pairs[48];  // each large enough for an element of any type
  std::size_t pieces = 0;
  void* const to = &partial;
  const void* in[max_operands];
  const auto reduce = [&](std::size_t n) {
    if (pieces % 16 == 0) of.fill_identity(how_[0], to, 1);
    reduce_(in, &to, n, literals);
    if (++pieces % 16 != 0) return;
    std::size_t level = 0;
    for (std::size_t sixteens = pieces / 16; sixteens % 2 == 0; sixteens /= 2, ++level) merge(&pairs[level], to);
    pairs[level] = partial;
  };
  for (std::size_t r = first; r < first + rows; ++r) {
    for (std::size_t k = 0; k < inputs_; ++k) in[k] = at.in[k] + bytes(k, row_stride(k), r);
    if (!far_) {
      reduce(columns);
      continue;
    }
    const std::size_t piece = tile_ * (2 * page / detail::fetched_ahead);
    for (std::size_t n = columns, m; n > 0; n -= m) {
      m = n < piece ? n : piece;
      for (std::size_t k = 0; k < inputs_; ++k)
        for (std::size_t ahead = 0; ahead < m * sizes_[k]; ahead += page)
          detail::fetch(static_cast<const std::byte*>(in[k]) + m * sizes_[k] + ahead);
      reduce(m);
      for (std::size_t k = 0; k < inputs_; ++k) in[k] = static_cast<const std::byte*>(in[k]) + m * sizes_[k];
    }
  }
  void* const result = at.out[0] + bytes(inputs_, row_stride(inputs_), first);
  if (pieces % 16 != 0) merge(to, result);
  for (std::size_t level = 0; (pieces / 16) >> level != 0; ++level)
    if (((pieces / 16) >> level) & 1) merge(&pairs[level], result);
}

// Compiled in full: what it inlines, streaming and fetching ahead, is a third slower otherwise.
inline void loop::run_tiles(const position& at, const std::uint64_t* literals, std::size_t rows,
                            std::size_t columns) const {
  const void* in[max_operands];
  void* out[max_operands];
  if (reduce_runs_ && (far_ || (rows > 1 && row_stride(inputs_) == 0))) {
    const std::size_t together = row_stride(inputs_) == 0 ? rows : 1;
    for (std::size_t r = 0; r < rows; r += together) reduce_rows(at, r, together, columns, literals);
    return;
  }
  const bool whole_rows = direct_ && !reduces_ && !far_ && (rows == 1 || columns >= long_row);
  if (whole_rows || reduce_runs_) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t k = 0; k < inputs_; ++k) in[k] = at.in[k] + bytes(k, row_stride(k), r);
      for (std::size_t k = 0; k < outputs_; ++k) out[k] = at.out[k] + bytes(inputs_ + k, row_stride(inputs_ + k), r);
      (reduce_runs_ ? reduce_ : block_)(in, out, columns, literals);
    }
    return;
  }

  bool streams[max_operands], streamed = false;
  for (std::size_t k = 0; k < outputs_; ++k) {
    streams[k] = far_ && how_[k] == combine::store;
    for (std::size_t i = 0; i < inputs_; ++i) streams[k] = streams[k] && at.in[i] != at.out[k];
    streamed = streamed || streams[k];
  }

  alignas(64) std::byte staging[2 * max_operands][tile_bytes];
  const void* staged_from[max_operands]{};
  std::size_t staged_rows[max_operands]{}, staged_columns[max_operands]{};
  const std::size_t tile_columns = columns < tile_ ? columns : tile_;
  const std::size_t tile_rows = columns < tile_ ? tile_ / columns : 1;
  for (std::size_t r = 0; r < rows; r += tile_rows) {
    const std::size_t nr = rows - r < tile_rows ? rows - r : tile_rows;
    for (std::size_t c = 0; c < columns; c += tile_columns) {
      const std::size_t nc = columns - c < tile_columns ? columns - c : tile_columns;
      for (std::size_t k = 0; k < inputs_; ++k) {
        const std::byte* from = at.in[k] + bytes(k, row_stride(k), r) + bytes(k, inner_stride(k), c);
        if (lies_contiguous(k, nr, nc, columns)) {
          in[k] = from;
          if (far_) detail::fetch(from + nr * nc * sizes_[k]);
          continue;
        }
        in[k] = staging[k];
        const bool invariant = row_stride(k) == 0 || nr == 1;
        if (invariant && staged_from[k] == from && staged_rows[k] >= nr && staged_columns[k] == nc) continue;
        for (std::size_t i = 0; i < nr; ++i) {
          std::byte* to = staging[k] + i * nc * sizes_[k];
          const std::byte* row = from + bytes(k, row_stride(k), i);
          if (inner_stride(k) == 1)
            __builtin_memcpy(to, row, nc * sizes_[k]);
          else
            detail::splat(sizes_[k], to, row, nc);
        }
        staged_from[k] = row_stride(k) == 0 ? from : nullptr;
        staged_rows[k] = nr;
        staged_columns[k] = nc;
      }
      std::byte* to[max_operands];
      for (std::size_t k = 0; k < outputs_; ++k) {
        const std::size_t o = inputs_ + k;
        to[k] = at.out[k] + bytes(o, row_stride(o), r) + bytes(o, inner_stride(o), c);
        out[k] = how_[k] == combine::store && !streams[k] && lies_contiguous(o, nr, nc, columns) ? to[k] : staging[o];
      }
      block_(in, out, nr * nc, literals);
      for (std::size_t k = 0; k < outputs_; ++k) {
        if (out[k] == to[k] || how_[k] == combine::discard) continue;
        if (streams[k] && lies_contiguous(inputs_ + k, nr, nc, columns))
          detail::stream(to[k], staging[inputs_ + k], nr * nc * sizes_[inputs_ + k]);
        else
          store_tile(k, out[k], to[k], nr, nc);
      }
    }
  }
  if (streamed) detail::finish_streams();
}

}  // namespace weft::device
