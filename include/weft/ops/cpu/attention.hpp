// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/device/cpu/attention_tile.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernels of attention, by tiles (Dao, FlashAttention-2, ICLR 2024). A tile of scores has a row for each key and a
/// column for each query, so that maxima and sums over keys are vectors, and all products read their operands in place.
namespace weft::detail {

/// The operands of a call by their positions: -1 for those that are not given.
struct attention_operands {
  int mask, lengths, positions, end;
};

/// The base of the kernels of attention and of its gradient: their operands and extents.
template <class T>
class attention_base : public kernel {
 public:
  attention_base(const prepare_context& p, const device::attention_problem& s, const attention_operands& o)
      : s_(s), operands_(o) {
    for (std::size_t i = 0; i < p.node.inputs.size(); ++i) in_[i] = p.input_slots[i];
    for (std::size_t i = 0; i < p.node.outputs.size(); ++i) out_[i] = p.output_slots[i];
    bool_mask_ = o.mask >= 0 && p.inputs[o.mask].type == dtype::boolean;
  }

 protected:
  template <class X>
  const X* input(const kernel_context& f, int i) const {
    return i < 0 ? nullptr : reinterpret_cast<const X*>(f.buffers[in_[i]]);
  }
  T* output(const kernel_context& f, int i) const { return reinterpret_cast<T*>(f.buffers[out_[i]]); }
  /// Throws out_of_range if a length is not 0 to keys.
  void check_lengths(const kernel_context& f) const {
    const auto* const lengths = input<std::int32_t>(f, operands_.lengths);
    for (std::int64_t i = 0; lengths && i < s_.batch; ++i)
      if (lengths[i] < 0 || lengths[i] > s_.keys)
        throw error(
            error_code::out_of_range, "attention",
            {"the length of sequence ", i, " must be 0 to ", s_.keys, ", the number of keys; it is ", lengths[i]});
  }
  attention_call<T> call(const kernel_context& f) const {
    return {s_,
            input<T>(f, 0),
            input<T>(f, 1),
            input<T>(f, 2),
            bool_mask_ ? nullptr : input<T>(f, operands_.mask),
            bool_mask_ ? input<bool>(f, operands_.mask) : nullptr,
            input<std::int32_t>(f, operands_.lengths),
            input<std::int32_t>(f, operands_.positions),
            output(f, 0),
            output(f, 1)};
  }
  std::size_t width() const { return static_cast<std::size_t>(s_.width); }
  std::size_t value_width() const { return static_cast<std::size_t>(s_.value_width); }
  std::size_t keys() const { return static_cast<std::size_t>(s_.keys); }
  std::size_t rows() const { return static_cast<std::size_t>(s_.rows()); }
  std::size_t groups() const { return static_cast<std::size_t>(s_.groups()); }
  std::size_t place(std::size_t group, std::size_t row) const { return group * rows() + row; }
  std::string text(const char* name) const {
    return str_cat({name, " ", s_.batch, "x", s_.heads, "x", s_.queries, "x", s_.width, " of ", s_.keys, " keys"});
  }

  device::attention_problem s_;
  attention_operands operands_;

 private:
  std::uint32_t in_[9]{}, out_[3]{};
  bool bool_mask_;
};

/// Outputs: the result and, for each query, the logarithm of its sum of exponentials, infinity if it attends to no key.
template <class T>
class attention_kernel final : public attention_base<T> {
  using base = attention_base<T>;

 public:
  using base::base;

  void run(const kernel_context& f) override {
    base::check_lengths(f);
    const attention_call<T> call = base::call(f);
    f.threads->parallel_for(call.blocks(), [&](std::size_t i) {
      static thread_local matmul_scratch scratch;
      call.run(i, static_cast<T*>(scratch.reserve(attention_tile<T>::elements(base::width()) * sizeof(T))));
    });
  }
  std::string describe() const override { return base::text("attention"); }
};

/// Further inputs: the result, its logarithms and the upstream gradient. Outputs: the gradients of queries, keys and
/// values. Each thread adds to the gradients of different keys; if there are few heads, their keys are divided, and
/// each part has its own gradient of the queries, so that the bits do not depend on the threads.
template <class T>
class attention_gradient_kernel final : public attention_base<T> {
  using base = attention_base<T>;
  using base::s_, base::width, base::value_width, base::keys, base::rows, base::groups, base::place;

 public:
  attention_gradient_kernel(const prepare_context& p, const device::attention_problem& s, const attention_operands& o)
      : base(p, s, o) {
    constexpr std::size_t enough = 16;
    const std::size_t most = (keys() + 2 * tile_keys - 1) / (2 * tile_keys);
    if (groups() > 0 && groups() < enough / 2) parts_ = least((enough + groups() - 1) / groups(), most);
    if (parts_ == 0) parts_ = 1;
  }

  void run(const kernel_context& f) override {
    T* const dq = base::output(f, 0);
    const std::size_t elements = groups() * rows() * width();
    T* const results = parts_ == 1 ? dq : reinterpret_cast<T*>(f.workspace);
    f.threads->parallel_for(groups() * parts_, [&](std::size_t i) {
      const std::size_t part = i % parts_, per = (keys() + parts_ * tile_keys - 1) / (parts_ * tile_keys) * tile_keys;
      const std::size_t begin = least(part * per, keys());
      run_part(f, i / parts_, begin, least(begin + per, keys()), results + part * elements);
    });
    if (parts_ > 1)
      device::chunks(elements, elements).run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
        detail::add(dq + begin, results + begin, results + elements + begin, end - begin);
        for (std::size_t part = 2; part < parts_; ++part)
          detail::accumulate(dq + begin, results + part * elements + begin, end - begin);
      });
  }
  std::size_t workspace_bytes() const override {
    return parts_ == 1 ? 0 : parts_ * groups() * rows() * width() * sizeof(T);
  }
  std::string describe() const override { return base::text("attention_gradient"); }

 private:
  static constexpr std::size_t tile_keys = attention_tile<T>::most_keys, block = attention_tile<T>::most_queries;

  void run_part(const kernel_context& f, std::size_t group, std::size_t begin, std::size_t end, T* dq) const {
    static thread_local matmul_scratch scratch;
    const std::size_t w = width(), n = value_width(), used = attention_tile<T>::elements(w);
    T* const memory = static_cast<T*>(scratch.reserve((used + (tile_keys + n) * block) * sizeof(T)));
    T *const slopes = memory + used, *const upstream = slopes + tile_keys * block;
    const T *const q = base::template input<T>(f, 0) + place(group, 0) * w, *const up =
                                                                                further(f, 2) + place(group, 0) * n;
    const T *const y = further(f, 0) + place(group, 0) * n, *const logs = further(f, 1) + place(group, 0);
    const T* const k = base::template input<T>(f, 1) + group * keys() * w;
    const T* const v = base::template input<T>(f, 2) + group * keys() * n;
    T *const dk = base::output(f, 1) + group * keys() * w, *const dv = base::output(f, 2) + group * keys() * n;
    for (std::size_t i = begin * w; i < end * w; ++i) dk[i] = 0;
    for (std::size_t i = begin * n; i < end * n; ++i) dv[i] = 0;
    dq += place(group, 0) * w;
    const attention_call<T> call = base::call(f);
    auto t = call.tile(memory);
    for (std::size_t row = 0; row < rows(); row += block) {
      call.start(t, group, row, attention_tile<T>::most_queries);
      const std::size_t lanes = t.lanes, at_first = static_cast<std::size_t>(t.begin) > begin
                                                        ? static_cast<std::size_t>(t.begin)
                                                        : begin;
      const std::size_t at_end = least(static_cast<std::size_t>(t.end), end);
      T* const to = dq + row * w;
      for (std::size_t i = 0; at_first >= at_end && i < t.count * w; ++i) to[i] = 0;
      if (at_first >= at_end) continue;
      t.transpose(up + row * n, n, upstream);
      T log[block], inner[block];
      for (std::size_t i = 0; i < lanes; ++i) {
        log[i] = i < t.count ? logs[row + i] : std::numeric_limits<T>::infinity();
        inner[i] = 0;
        for (std::size_t d = 0; i < t.count && d < n; ++d) inner[i] += up[(row + i) * n + d] * y[(row + i) * n + d];
      }
      for (std::size_t at = at_first, many; at < at_end; at += many) {
        many = least(tile_keys, at_end - at);
        using library::reference;
        t.score(k, at, many);
        reference::matmul(matmul_shape{many, lanes, n}, T(1), v + at * n, n, upstream, lanes, T(0), slopes, lanes);
        differentiate(t.scores, slopes, many, lanes, log, inner, static_cast<T>(s_.scale));
        reference::matmul(matmul_shape{many, n, t.count}, T(1), t.scores, lanes, up + row * n, n, T(1), dv + at * n, n);
        reference::matmul(matmul_shape{many, w, t.count}, T(1), slopes, lanes, q + row * w, w, T(1), dk + at * w, w);
        reference::matmul(matmul_shape{t.count, w, many, true}, T(1), slopes, lanes, k + at * w, w,
                          at == at_first ? T(0) : T(1), to, w);
      }
    }
  }
  /// Replaces scores by weights, and the gradients of weights by those of scores.
  static void differentiate(T* scores, T* slopes, std::size_t n, std::size_t lanes, const T* log, const T* inner,
                            T scale) {
    multiversioned([=] {
      for (std::size_t j = 0; j < n; ++j) {
        T *const x = scores + j * lanes, *const d = slopes + j * lanes;
        WEFT_VECTORIZE
        for (std::size_t i = 0; i < lanes; ++i) {
          const T weight = math::exp(x[i] - log[i]);
          x[i] = weight;
          d[i] = weight * (d[i] - inner[i]) * scale;
        }
      }
    });
  }
  const T* further(const kernel_context& f, int i) const { return base::template input<T>(f, base::operands_.end + i); }

  std::size_t parts_ = 1;
};

}  // namespace weft::detail
