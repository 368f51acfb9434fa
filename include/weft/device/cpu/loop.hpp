// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/tile.hpp>
#include <weft/device/strides.hpp>
#include <weft/tensor/shape.hpp>
#include <weft/tensor/short_array.hpp>

namespace weft::device {

/// The inner loop of a fused elementwise kernel: reads n consecutive elements of every input and writes n elements of
/// every output.
using block_function = void (*)(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* literals);

inline constexpr std::size_t max_operands = 16;

/// Returns true if a pass over this many bytes exceeds the caches of any processor.
constexpr bool exceeds_caches(std::size_t bytes) { return bytes > std::size_t{64} << 20; }

WEFT_COLD_BEGIN

/// A hierarchical sum: adds sixteen terms one after another, sixteen of these sums, and so on, so that small terms do
/// not vanish. A term is an array of elements; the order depends only on the number of terms.
class cascade {
 public:
  static constexpr std::size_t terms = 16;

  /// Returns the bytes of memory required for `count` terms of `bytes` bytes.
  static std::size_t room(std::size_t count, std::size_t bytes) {
    std::size_t levels = 1;
    for (; count >= terms; count /= terms) ++levels;
    return levels * step_of(bytes);
  }

  cascade() = default;
  /// Sums terms of at most `bytes` bytes.
  cascade(const arithmetic& of, std::size_t bytes, std::byte* memory)
      : of_(&of), count_(0), step_(step_of(bytes)), memory_(memory) {}

  /// Returns the memory to which the next term must be added; all terms have the same number of elements. Call `close`
  /// afterwards.
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
  /// Adds the total to `to`, smaller sums first, and restarts.
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

/// An operand in a loop.
struct loop_operand : operand {
  std::uint32_t size;
  // In a tile, the axes from `run` on are one contiguous run, and the axes from `rows` to `run` form one axis of such
  // runs.
  std::uint8_t rows, run;
  std::uint16_t results;       // for outputs: results in a row of several axes
  reduce_op how;               // for outputs
  const arithmetic* elements;  // for outputs
};

/// A loop nest over broadcast and reduced operands, run block by block through one `block_function`.
///
/// Axes that all operands traverse in the same way are merged first, so most loops are one long run. The remaining axes
/// are divided into tiles of at most `tile_bytes` per operand: rows of the last axis or, if it is short, of as many
/// axes as fit. An operand that is not contiguous within a tile is copied to a buffer in the first-level cache. The
/// function only processes contiguous runs.
///
/// Sums are hierarchical: within a tile, over the tiles that share results, over each outer axis, and over the pieces
/// for threads. Rounding errors therefore grow only with the logarithm of the number of terms.
///
/// If the operands of a memory-bound function together exceed the caches and results are stored, the work is divided
/// into small tiles. The next tile is prefetched during the computation of the current one, and results are staged and
/// then streamed to their destination.
class loop {
 public:
  /// The maximum number of elements that one call reduces. Large, because memory access restarts in each call.
  static constexpr std::size_t piece = 262144;

  /// Returns true if the sum of n elements of contiguous operands is a single call.
  static bool is_one_call(std::size_t n, bool memory_bound) {
    return memory_bound ? n <= piece : n < 2 * chunk_elements;
  }

  loop() = default;

  /// `elements[k]` combines output k; it may be null for outputs that are stored. A null `block` combines the one input
  /// unchanged.
  /// `reduce`, if given, is a block function that combines all n elements into the element at out[0]; it is used if
  /// whole runs have one result. `memory_bound` means that memory access takes longer than the function.
  loop(const shape& space, std::size_t inputs, const operand* in, std::size_t outputs, const operand* out,
       const reduce_op* how, const arithmetic* const* elements, block_function block, block_function reduce,
       bool memory_bound = true);

  std::size_t elements() const { return space_.elements(); }

  /// Returns the number of chunks, which depends only on the extents, so that threads do not change bits.
  std::size_t chunks() const {
    const std::size_t n = elements(), most = extent(cut_axis_);
    const std::size_t least = memory_bound_ && reduce_runs_ && space_.rank == 1 ? piece : chunk_elements;
    if (n < 2 * least) return 1;
    const std::size_t wanted = n / least < max_chunks ? n / least : max_chunks;
    if (cuts_columns() && most / wanted > narrow) return most / narrow;
    return wanted < most ? wanted : most;
  }

  /// Return true if an output is combined, and if the chunks of an axis share it and therefore need separate copies:
  /// chunks of the axis that `run` divides, or of the outermost one, for rows.
  bool combines(std::size_t output) const {
    return how(output) != reduce_op::store && how(output) != reduce_op::discard;
  }
  bool chunks_share_output(std::size_t output) const { return combines(output) && stride(output, cut_axis_) == 0; }
  bool rows_share_output(std::size_t output) const { return combines(output) && stride(output, 0) == 0; }

  /// Return the bytes of memory in which a call of `run` or `run_rows` keeps sums.
  std::size_t scratch_bytes() const;
  std::size_t rows_scratch_bytes() const { return scratch_bytes({0, 0, extent(0)}); }

  /// Runs one of `chunks`. Combining outputs must contain their identity, or a value to which results are added.
  void run(const void* const* in, void* const* out, const std::uint64_t* literals, std::size_t chunk = 0,
           std::size_t chunks = 1, std::byte* scratch = nullptr) const {
    if (is_line_ && chunks == 1) return run_line(in, out, literals);
    run_range(in, out, literals, {cut_axis_, cut(chunk, chunks), cut(chunk + 1, chunks)}, scratch);
  }

  /// Returns true if the whole loop is one call of the function, unless it is divided into chunks.
  bool is_line() const { return is_line_; }
  void run_line(const void* const* in, void* const* out, const std::uint64_t* literals) const {
    block_(in, out, extent(0), literals);
  }

  /// Returns true if the outermost axis, or several that were merged into it, can be divided into this many rows.
  bool has_rows(std::size_t rows) const { return rows != 0 && extent(0) % rows == 0; }

  /// Runs rows [begin, end) of `rows`.
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
  static constexpr std::size_t long_row = 128;  // for shorter rows, a call for each row costs more than staging
  // From this many columns on, sums over rows are divided into blocks of columns, narrow enough for their sums to fit
  // into the first-level cache.
  static constexpr std::size_t many_columns = 16384, narrow = 8192;

  std::size_t count() const { return inputs_ + outputs_; }
  std::size_t extent(std::size_t axis) const { return static_cast<std::size_t>(space_[axis]); }
  std::int64_t stride(std::size_t output, std::size_t axis) const { return operands_[inputs_ + output].stride[axis]; }
  std::int64_t inner_stride(std::size_t k) const { return operands_[k].stride[space_.rank - 1]; }
  std::int64_t row_stride(std::size_t k) const {
    return space_.rank > 1 ? operands_[k].stride[rows_of_axes_ ? inner_axis_ : space_.rank - 2] : 0;
  }
  bool contiguous_inner(std::size_t k) const { return inner_stride(k) == 1 || space_[space_.rank - 1] == 1; }

  /// Returns the bytes of all operands, each counted once.
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

  /// The part of the space in which one axis runs from `begin` to `end`.
  struct part {
    std::size_t axis, begin, end;
  };
  std::size_t extent_in(const part& p, std::size_t axis) const {
    return axis == p.axis ? p.end - p.begin : extent(axis);
  }
  std::size_t columns_in(const part& p) const { return rows_of_axes_ ? row_ : extent_in(p, space_.rank - 1); }

  void choose_tiles();
  std::size_t choose_cut() const;
  bool cuts_columns() const { return cut_axis_ != 0 && cut_axis_ + 1 == space_.rank; }
  std::size_t cut(std::size_t chunk, std::size_t chunks) const {
    // No chunk begins within a cache line or, if memory is prefetched by pages, within a page.
    const std::size_t n = extent(cut_axis_);
    const std::size_t unit = cut_axis_ + 1 < space_.rank ? 1 : far_ ? page : cache_line;
    return chunk == chunks ? n : n * chunk / chunks / unit * unit;
  }

  /// The division of rows of this many columns into tiles.
  struct tiling {
    tiling(const loop& l, std::size_t all_rows, std::size_t all_columns)
        : rows(all_columns < l.tile_ ? l.tile_ / (all_columns ? all_columns : 1) : 1),
          columns(all_columns < l.tile_ ? all_columns : l.tile_),
          down((all_rows + rows - 1) / rows),
          across(columns ? (all_columns + columns - 1) / columns : 0) {}

    /// Returns the number of consecutive tiles that are terms of the same sums; 1 if the output is not a sum.
    std::size_t terms(const loop& l, std::size_t output) const {
      if (l.how(output) != reduce_op::sum) return 1;
      const std::size_t o = l.inputs_ + output;
      return (l.row_stride(o) == 0 ? down : 1) * (l.inner_stride(o) == 0 ? across : 1);
    }
    std::size_t term_bytes(const loop& l, std::size_t output) const {
      return l.results_of_row(output, columns) * l.operands_[l.inputs_ + output].size;
    }
    /// Returns the bytes of memory for these sums.
    std::size_t room(const loop& l, std::size_t output) const {
      const std::size_t n = terms(l, output);
      return n == 1 ? 0 : cascade::room(n, term_bytes(l, output));
    }

    std::size_t rows, columns, down, across;  // rows and columns of a tile; the number of tiles down and across
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

  /// Return true if an axis outside of the tiles has enough terms of a sum for a hierarchical sum, and the number of
  /// result elements it covers.
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

  /// Returns the number of results in a row of a tile, which is one term of a sum.
  std::size_t results_of_row(std::size_t output, std::size_t columns) const {
    const loop_operand& o = operands_[inputs_ + output];
    return rows_of_axes_ ? o.results : inner_stride(inputs_ + output) != 0 ? columns : 1;
  }

  struct tile_extents {
    std::size_t rows, columns;
  };
  /// Return the elements of a tile in the axes from this one on, and the tile's extent along it.
  std::size_t elements_from(std::size_t axis, const tile_extents& t) const {
    if (axis <= inner_axis_) return t.rows * t.columns;
    if (!rows_of_axes_) return t.columns;
    std::size_t n = 1;
    for (; axis < space_.rank; ++axis) n *= extent(axis);
    return n;
  }
  std::size_t extent_in(const tile_extents& t, std::size_t axis) const {
    return axis == inner_axis_ ? t.rows : extent(axis);
  }
  /// The part of a tile from an axis on, as rows of contiguous runs of an operand.
  struct rows_of_runs {
    std::size_t rows, columns;
    std::int64_t stride;
  };
  rows_of_runs rows_from(std::size_t k, std::size_t axis, const tile_extents& t) const {
    const loop_operand& o = operands_[k];
    const std::size_t all = elements_from(axis, t);
    if (axis >= o.run) return {1, all, 0};
    const std::size_t columns = elements_from(o.run, t);
    return {all / columns, columns, o.stride[o.run - 1]};
  }

  void gather(std::size_t k, std::size_t axis, const tile_extents&, const std::byte* from, std::byte* tile) const;
  void combine(std::size_t output, std::size_t axis, const tile_extents&, const std::byte* tile, std::byte* to) const;
  void fold(std::size_t output, std::size_t axis, const tile_extents&, const std::byte* tile, std::byte* to) const;

  bool lies_contiguous(std::size_t k, std::size_t rows, std::size_t columns, std::size_t row_length) const {
    if (columns > 1 && inner_stride(k) != 1) return false;
    if (rows_of_axes_ && operands_[k].run > inner_axis_ + 1) return false;
    return rows == 1 || (columns == row_length && row_stride(k) == static_cast<std::int64_t>(columns));
  }

  shape space_;
  std::size_t inputs_ = 0, outputs_ = 0, tile_ = 0;
  short_array<loop_operand, 4> operands_;
  std::size_t cut_axis_ = 0;    // the axis that chunks divide
  std::size_t inner_axis_ = 0;  // the outermost axis that tiles divide
  std::size_t row_ = 0;         // the elements of a row of tiles
  bool rows_of_axes_ = false;   // a row spans several axes
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

  choose_tiles();
  cut_axis_ = choose_cut();
  is_line_ = direct_ && !reduces_ && !far_ && space_.rank == 1 && extent(0) != 0;
}

inline void loop::choose_tiles() {
  const std::size_t last = space_.rank - 1;
  // Rows longer than a tile are separate terms of a sum.
  bool row_by_row = last == 0;
  for (std::size_t k = 0; k < outputs_ && extent(last) > tile_; ++k)
    if (how(k) == reduce_op::sum && inner_stride(inputs_ + k) != 0 && row_stride(inputs_ + k) == 0) row_by_row = true;
  inner_axis_ = row_by_row ? last : last - 1;
  row_ = extent(last);
  const bool runs_alone = row_by_row || reduce_runs_ || (direct_ && !reduces_ && !far_ && row_ >= long_row);
  while (!runs_alone && inner_axis_ > 0 && row_ * extent(inner_axis_) <= tile_ / 2) row_ *= extent(inner_axis_--);
  rows_of_axes_ = inner_axis_ + 1 < last;
  for (std::size_t k = 0; k < count(); ++k) {
    loop_operand& o = operands_[k];
    const auto joins = [&](std::size_t axis) {
      return rows_of_axes_ && axis > inner_axis_ &&
             o.stride[axis - 1] == o.stride[axis] * static_cast<std::int64_t>(extent(axis));
    };
    std::size_t run = last;
    while (joins(run)) --run;
    std::size_t rows = run > inner_axis_ ? run - 1 : run;
    while (joins(rows)) --rows;
    o.run = static_cast<std::uint8_t>(run);
    o.rows = static_cast<std::uint8_t>(rows);
    std::size_t results = 1;
    for (std::size_t axis = inner_axis_ + 1; rows_of_axes_ && axis <= last; ++axis)
      if (o.stride[axis] != 0) results *= extent(axis);
    o.results = static_cast<std::uint16_t>(results);
  }
}

// Chooses the outermost axis, unless every result is summed over it. In that case, chooses the first long axis over
// which results are not summed, so that no two chunks share a result.
inline std::size_t loop::choose_cut() const {
  for (std::size_t axis = 0; axis < space_.rank; ++axis) {
    if (rows_of_axes_ && axis > inner_axis_) break;
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
  const tiling tiles(*this, inner_axis_ + 1 < space_.rank ? extent_in(p, inner_axis_) : 1, columns_in(p));
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
  if (axis == inner_axis_) return run_tiles(from, literals, axis + 1 < space_.rank ? n : 1, columns_in(p), scratch);
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

inline void loop::fold(std::size_t output, std::size_t axis, const tile_extents& t, const std::byte* tile,
                       std::byte* to) const {
  alignas(64) std::byte one[tile_bytes / 2];
  const std::size_t n = elements_from(axis + 1, t);
  elements_of(output)->fill_identity(how(output), one, n);
  elements_of(output)->merge_tile(how(output), tile, one, extent_in(t, axis), n, 0, 1);
  combine(output, axis + 1, t, one, to);
}

WEFT_COLD_END

inline void loop::gather(std::size_t k, std::size_t axis, const tile_extents& t, const std::byte* from,
                         std::byte* tile) const {
  const loop_operand& o = operands_[k];
  if (axis >= o.rows) {
    const rows_of_runs r = rows_from(k, axis, t);
    return detail::fill_tile(o.size, tile, from, r.rows, r.columns, r.stride, inner_stride(k));
  }
  const std::size_t n = extent_in(t, axis), step = elements_from(axis + 1, t) * o.size;
  if (o.stride[axis] == 0) {
    gather(k, axis + 1, t, from, tile);
    return detail::repeat(tile, step, n);
  }
  for (std::size_t i = 0; i < n; ++i) gather(k, axis + 1, t, from + bytes(k, o.stride[axis], i), tile + i * step);
}

inline void loop::combine(std::size_t output, std::size_t axis, const tile_extents& t, const std::byte* tile,
                          std::byte* to) const {
  const std::size_t k = inputs_ + output;
  const loop_operand& o = operands_[k];
  if (axis >= o.rows) {
    const rows_of_runs r = rows_from(k, axis, t);
    if (o.how != reduce_op::store)
      return o.elements->merge_tile(o.how, tile, to, r.rows, r.columns, r.stride, inner_stride(k));
    const std::size_t n = r.columns * o.size;
    for (std::size_t i = 0; i < r.rows; ++i) __builtin_memcpy(to + bytes(k, r.stride, i), tile + i * n, n);
    return;
  }
  if (o.stride[axis] == 0 && o.how != reduce_op::store) return fold(output, axis, t, tile, to);
  const std::size_t n = extent_in(t, axis), step = elements_from(axis + 1, t) * o.size;
  for (std::size_t i = 0; i < n; ++i) combine(output, axis + 1, t, tile + i * step, to + bytes(k, o.stride[axis], i));
}

// Compiled with full optimization: otherwise the inlined streaming and prefetching are a third slower.
inline void loop::run_tiles(const position& at, const std::uint64_t* literals, std::size_t rows, std::size_t columns,
                            std::byte* scratch) const {
  if (reduce_runs_) return reduce_rows(at, literals, rows, columns, scratch);
  const void* in[max_operands];
  void* out[max_operands];
  const bool whole_rows = !rows_of_axes_ && direct_ && !reduces_ && !far_ && (rows == 1 || columns >= long_row);
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

  alignas(64) std::byte staging[2 * max_operands][tile_bytes + 64];
  const void* staged_from[max_operands]{};
  std::size_t staged_rows[max_operands]{}, staged_columns[max_operands]{};
  const tiling tiles(*this, rows, columns);
  const std::size_t tile_rows = tiles.rows, tile_columns = tiles.columns;

  // For each sum, `terms` is the number of consecutive tiles that are terms of the same results.
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
        gather(k, inner_axis_, {nr, nc}, from, staging[k]);
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
          combine(k, inner_axis_, {nr, nc}, static_cast<const std::byte*>(out[k]), to[k]);
        } else {
          combine(k, inner_axis_, {nr, nc}, static_cast<const std::byte*>(out[k]), sums[k].open(results_of_row(k, nc)));
          sums[k].close();
          if (tile % terms[k] == 0) sums[k].finish(to[k]);
        }
      }
    }
  }
  if (streamed) detail::finish_streams();
}

}  // namespace weft::device
