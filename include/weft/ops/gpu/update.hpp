#pragma once

#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/map.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/update.hpp>

/// An optimizer's formula as kernels of a GPU: one for the elements and, where there are scalar slots, one before it
/// that brings these to their values of the step.
#if WEFT_COMPILES_FOR_GPU
namespace weft::gpu {
namespace detail {

WEFT_STRICT_BEGIN

/// The hyperparameters of a step, and where the scalar slots are.
template <class Optimizer, class T>
struct update_numbers {
  static constexpr std::size_t parameters = weft::detail::hyperparameters_of<Optimizer>;
  static constexpr std::size_t scalars = weft::detail::scalar_count<Optimizer>;

  double number[parameters + 1];
  const double* computed[parameters + 1];  ///< where a hyperparameter is that is a value of the graph; null of others
  T* scalar[scalars + 1];

  WEFT_HOST_DEVICE double at(std::size_t i) const { return computed[i] ? *computed[i] : number[i]; }
  WEFT_HOST_DEVICE Optimizer optimizer() const { return make(weft::detail::parameter_indices<Optimizer>()); }

 private:
  template <std::size_t... Index>
  WEFT_HOST_DEVICE Optimizer make(weft::detail::indices<Index...>) const {
    return Optimizer{weft::detail::member_value{at(Index)}...};
  }
};

template <class Optimizer, class T>
struct advance_body {
  static constexpr unsigned threads = 32;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  update_numbers<Optimizer, T> numbers;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    if (at.thread == 0) advance(weft::detail::scalar_indices<Optimizer>());
  }

 private:
  template <std::size_t... Scalar>
  WEFT_HOST_DEVICE void advance(weft::detail::indices<Scalar...>) const {
    exact<T> x[] = {exact<T>(*numbers.scalar[Scalar])...};
    numbers.optimizer().advance(x[Scalar]...);
    ((*numbers.scalar[Scalar] = x[Scalar].value()), ...);
  }
};

/// `Count` neighbouring elements at a time.
template <class Optimizer, class T, int Count>
struct update_body {
  static constexpr std::size_t slots = weft::detail::slots_of<Optimizer>;
  static constexpr std::uint32_t scalars = weft::detail::scalars_of<Optimizer>;
  static constexpr std::size_t arrays = 1 + weft::detail::arrays_before(scalars, slots);  // that are written
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;
  static constexpr int unroll = arrays >= 3 ? 1 : 2;  // as of maps: about 64 bytes on their way to each thread

  std::uint32_t elements;
  update_numbers<Optimizer, T> numbers;
  T* array[arrays];
  const T* gradient;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    run_groups(at, typename weft::detail::make_indices<arrays>::type());
  }

  /// One element alone, of a group of one.
  WEFT_HOST_DEVICE void update_element(std::uint32_t i, T upstream) const {
    static_assert(Count == 1);
    T x[arrays][1];
    for (std::size_t a = 0; a < arrays; ++a) x[a][0] = array[a][i];
    update_lane(numbers.optimizer(), load_scalars(weft::detail::slot_indices<Optimizer>()), x, 0, upstream,
                weft::detail::slot_indices<Optimizer>(), weft::detail::norm_indices<Optimizer>());
    for (std::size_t a = 0; a < arrays; ++a) array[a][i] = x[a][0];
  }

 private:
  using V = exact<T>;
  struct scalar_slots {
    V value[slots + 1], norm[weft::detail::norms_of<Optimizer> + 1];
  };

  template <std::size_t... Array>
  WEFT_HOST_DEVICE void run_groups(const place& at, weft::detail::indices<Array...>) const {
    const Optimizer optimizer = numbers.optimizer();
    const scalar_slots scalar = load_scalars(weft::detail::slot_indices<Optimizer>());
    const std::uint32_t groups = (elements + Count - 1) / Count;
    for (std::uint32_t base = at.block * threads * unroll + at.thread; base < groups;
         base += at.blocks * threads * unroll) {
      T x[unroll][arrays][Count], g[unroll][Count];
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
      for (int u = 0; u < unroll; ++u) {
        const std::uint32_t first = (base + static_cast<std::uint32_t>(u) * threads) * Count;
        if (first >= elements) break;
        (load_group(x[u][Array], array[Array] + first, 1, elements - first), ...);
        load_group(g[u], gradient + first, 1, elements - first);
      }
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
      for (int u = 0; u < unroll; ++u) {
        const std::uint32_t first = (base + static_cast<std::uint32_t>(u) * threads) * Count;
        if (first >= elements) break;
        for (int lane = 0; lane < Count; ++lane)
          update_lane(optimizer, scalar, x[u], lane, g[u][lane], weft::detail::slot_indices<Optimizer>(),
                      weft::detail::norm_indices<Optimizer>());
        (store_group(x[u][Array], array[Array] + first, elements - first), ...);
      }
    }
  }

  template <std::size_t... Slot>
  WEFT_HOST_DEVICE scalar_slots load_scalars(weft::detail::indices<Slot...>) const {
    scalar_slots all{{load_scalar<Slot>()..., V(0)}, {}};
    for (std::size_t k = 0; k < weft::detail::norms_of<Optimizer>; ++k)
      all.norm[k] = V(static_cast<T>(numbers.at(weft::detail::members_of<Optimizer> + k)));
    return all;
  }
  template <std::size_t... Slot, std::size_t... Norm>
  WEFT_HOST_DEVICE static void update_lane(const Optimizer& optimizer, const scalar_slots& scalar,
                                           T (&x)[arrays][Count], int lane, T upstream, weft::detail::indices<Slot...>,
                                           weft::detail::indices<Norm...>) {
    V variable(x[0][lane]);
    const V gradient_here(upstream);
    V s[slots + 1] = {(is_scalar<Slot> ? scalar.value[Slot] : V(x[array_of<Slot>][lane]))..., V(0)};
    optimizer.update(variable, weft::detail::as_operand<Optimizer, Slot>(s[Slot])..., gradient_here,
                     scalar.norm[Norm]...);
    x[0][lane] = variable.value();
    (keep<Slot>(x, lane, s[Slot]), ...);
  }

  // Constants and no functions, which a kernel could not call.
  template <std::size_t Slot>
  static constexpr bool is_scalar = weft::detail::is_scalar<Optimizer, Slot>;
  template <std::size_t Slot>
  static constexpr std::size_t number = weft::detail::scalars_before(scalars, Slot);
  /// Where a slot is among the arrays; 0, the variable, of a scalar.
  template <std::size_t Slot>
  static constexpr std::size_t array_of = is_scalar<Slot> ? 0 : 1 + weft::detail::arrays_before(scalars, Slot);

  template <std::size_t Slot>
  WEFT_HOST_DEVICE V load_scalar() const {
    if constexpr (is_scalar<Slot>)
      return V(*numbers.scalar[number<Slot>]);
    else
      return V(0);
  }
  template <std::size_t Slot>
  WEFT_HOST_DEVICE static void keep(T (&x)[arrays][Count], int lane, V value) {
    if constexpr (!is_scalar<Slot>) x[array_of<Slot>][lane] = value.value();
  }
};

/// One element at a time, of the rows that have numbers.
template <class Optimizer, class T>
struct row_update_body {
  using whole = update_body<Optimizer, T, 1>;
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  std::uint32_t elements, rows;  ///< of the gradient; of the variable
  divisor inner;
  const std::int64_t* number;
  whole of;  ///< its arrays, gradient and numbers

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads) {
      const std::uint32_t k = inner.divide(i);
      const std::int64_t row = number[k];
      if (row >= 0 && row < static_cast<std::int64_t>(rows))
        of.update_element(static_cast<std::uint32_t>(row) * inner.extent + i - k * inner.extent, of.gradient[i]);
    }
  }
};

WEFT_STRICT_END

struct update_codes {
  function advance, elements, rows;
};
template <class Optimizer, class T>
const update_codes& compiled_optimizer() {
  static const update_codes codes = [] {
    update_codes c;
    if constexpr (update_numbers<Optimizer, T>::scalars != 0)
      c.advance = function_of<advance_body<Optimizer, T>>("advance");
    c.elements = function_of<update_body<Optimizer, T, 16 / sizeof(T)>>(Optimizer::name);
    if constexpr (weft::detail::updates_by_rows<Optimizer>)
      c.rows = function_of<row_update_body<Optimizer, T>>(Optimizer::name);
    return c;
  }();
  return codes;
}

WEFT_COLD_BEGIN

/// Where the hyperparameters are that are values of the graph, and the scalar slots.
inline void point_numbers(launch_kernel::launch& l, const prepare_context& p, const update_layout& of,
                          std::size_t computed, std::size_t scalars) {
  const update_view u(p.c);
  for (std::size_t i = 0; i < of.hyperparameters; ++i)
    if (u.is_computed(i)) l.point(computed + i * sizeof(void*), p.input_slots[u.hyperparameter_input(i)]);
  for (std::size_t i = 0; i < of.slots; ++i)
    if (of.is_scalar(i)) {
      l.point(scalars, p.input_slots[update_view::slot_input(i)]);
      scalars += sizeof(void*);
    }
}
/// Where the variable is, and the other slots.
inline void point_arrays(launch_kernel::launch& l, const prepare_context& p, const update_layout& of,
                         std::size_t arrays, std::size_t alignment) {
  l.point(arrays, p.input_slots[update_view::variable_input()], alignment);
  for (std::size_t i = 0; i < of.slots; ++i)
    if (!of.is_scalar(i)) l.point(arrays += sizeof(void*), p.input_slots[update_view::slot_input(i)], alignment);
}

template <class Optimizer, class T>
void add_row_updates(launch_kernel& k, const prepare_context& p, const function& code,
                     const update_numbers<Optimizer, T>& numbers) {
  const update_layout& layout = weft::detail::layout_of<Optimizer>;
  const axis_rows rows(p.inputs[0].extents, 0);
  const update_view u(p.c);
  for (std::size_t i = 0; i < u.row_lists(); ++i) {
    const std::size_t list = u.rows_input(i);
    check_size(p.c.op->name, p.inputs[list].extents);
    row_update_body<Optimizer, T> body{};
    body.elements = static_cast<std::uint32_t>(p.inputs[list].extents.elements());
    if (body.elements == 0) continue;
    body.rows = static_cast<std::uint32_t>(rows.extent);
    body.inner = divisor(static_cast<std::uint32_t>(rows.inner));
    body.of.numbers = numbers;
    auto& l = add_body(k, body, code, blocks_for(body.elements, 1));
    point_numbers(l, p, layout, offset_in(body, body.of.numbers.computed), offset_in(body, body.of.numbers.scalar));
    point_arrays(l, p, layout, offset_in(body, body.of.array), 1);
    l.point(offset_in(body, body.of.gradient), p.input_slots[list]);
    l.point(offset_in(body, body.number), p.input_slots[u.row_indices_input(i)]);
  }
}

template <class Optimizer, class T>
kernel* prepare_update(const prepare_context& p, device&) {
  const update_layout& layout = weft::detail::layout_of<Optimizer>;
  constexpr std::size_t lanes = 16 / sizeof(T);
  using body_type = update_body<Optimizer, T, static_cast<int>(lanes)>;
  weft::detail::check_update(p, layout);
  check_size(p.c.op->name, p.inputs[0].extents);
  const std::size_t n = p.inputs[0].extents.elements();
  owned<launch_kernel> k(new launch_kernel(str_cat({layout.name, " ", name(p.inputs[0].type)})));
  const update_codes& codes = compiled_optimizer<Optimizer, T>();
  update_numbers<Optimizer, T> numbers{};
  for (std::size_t i = 0; i < p.c.literals.size(); ++i)
    numbers.number[i] = weft::detail::literal_value<double>(p.c.literals[i]);
  if constexpr (update_numbers<Optimizer, T>::scalars != 0) {
    advance_body<Optimizer, T> body{};
    body.numbers = numbers;
    point_numbers(add_body(*k, body, codes.advance, 1), p, layout, offset_in(body, body.numbers.computed),
                  offset_in(body, body.numbers.scalar));
  }
  if (n == 0) return k.release();
  if constexpr (weft::detail::updates_by_rows<Optimizer>)
    if (update_view(p.c).row_lists() > 0) {
      add_row_updates<Optimizer, T>(*k, p, codes.rows, numbers);
      return k.release();
    }
  body_type body{};
  body.elements = static_cast<std::uint32_t>(n);
  body.numbers = numbers;
  auto& l = add_body(*k, body, {}, 1);
  l.aligned_code = codes.elements;
  l.aligned_blocks = blocks_for((n + lanes - 1) / lanes, body_type::unroll);
  point_numbers(l, p, layout, offset_in(body, body.numbers.computed), offset_in(body, body.numbers.scalar));
  point_arrays(l, p, layout, offset_in(body, body.array), 16);
  l.point(offset_in(body, body.gradient), p.input_slots[update_view(p.c).gradient_input()], 16);
  return k.release();
}

WEFT_COLD_END

}  // namespace detail

template <class Optimizer, class T>
struct kernels<update_op<Optimizer, T>> : installed<update_op<Optimizer, T>, detail::prepare_update<Optimizer, T>> {};

}  // namespace weft::gpu
#endif
