// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/map.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/update.hpp>
#include <weft/tensor/owned.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// An optimizer's formula as GPU kernels: one for the elements of all variables that are updated together and, if there
/// are scalar slots, a preceding one that advances these.
#if WEFT_COMPILES_FOR_GPU
namespace weft::gpu {
namespace detail {

WEFT_STRICT_BEGIN

/// The hyperparameters of a step.
template <class Optimizer>
struct update_numbers {
  static constexpr std::size_t parameters = weft::detail::hyperparameters_of<Optimizer>;

  double number[parameters + 1];
  const double* computed[parameters + 1];  ///< the addresses of hyperparameters that are values of the graph; null for
                                           ///< others

  WEFT_HOST_DEVICE double at(std::size_t i) const { return computed[i] ? *computed[i] : number[i]; }
  WEFT_HOST_DEVICE Optimizer optimizer() const { return make(weft::detail::parameter_indices<Optimizer>()); }

 private:
  template <std::size_t... Index>
  WEFT_HOST_DEVICE Optimizer make(weft::detail::indices<Index...>) const {
    const weft::detail::member_value members[] = {{at(Index)}..., {0.0}};
    return weft::detail::optimizer_of<Optimizer>(members, weft::detail::indices<Index...>());
  }
};

/// The maximum size of a launch's arguments in bytes: CUDA's limit on every card, minus the body's fields other than
/// its variables.
inline constexpr std::size_t max_argument_bytes = 4096 - 512;

/// Advances the scalar slots of at most `Most` variables.
template <class Optimizer, class T, std::size_t Most>
struct advance_body {
  static constexpr unsigned threads = 32;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;
  static constexpr std::size_t scalars = weft::detail::scalar_count<Optimizer>;
  struct slots_of_variable {
    T* scalar[scalars + 1];
  };

  std::uint32_t variables;
  update_numbers<Optimizer> numbers;
  slots_of_variable of[Most];

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t k = at.thread; k < variables; k += threads)
      advance(of[k], weft::detail::scalar_indices<Optimizer>());
  }

 private:
  template <std::size_t... Scalar>
  WEFT_HOST_DEVICE void advance(const slots_of_variable& s, weft::detail::indices<Scalar...>) const {
    exact<T> x[] = {exact<T>(*s.scalar[Scalar])...};
    numbers.optimizer().advance(x[Scalar]...);
    ((*s.scalar[Scalar] = x[Scalar].value()), ...);
  }
};

/// A variable whose elements a range of blocks updates.
template <class Optimizer, class T>
struct updated_variable {
  static constexpr std::size_t scalars = weft::detail::scalar_count<Optimizer>;
  static constexpr std::size_t arrays =
      1 + weft::detail::arrays_before(weft::detail::scalars_of<Optimizer>, weft::detail::slots_of<Optimizer>);

  std::uint32_t elements, first_block;
  T* array[arrays];  ///< the arrays that are written
  const T* gradient;
  T* scalar[scalars + 1];
};

/// The maximum number of variables that one launch updates.
template <class Optimizer, class T>
inline constexpr std::size_t most_together = max_argument_bytes / sizeof(updated_variable<Optimizer, T>);

/// Updates `Count` adjacent elements at a time, of one of at most `Most` variables.
template <class Optimizer, class T, int Count, std::size_t Most>
struct update_body : plain_body {
  static constexpr std::size_t slots = weft::detail::slots_of<Optimizer>;
  static constexpr std::uint32_t scalars = weft::detail::scalars_of<Optimizer>;
  static constexpr std::size_t arrays = updated_variable<Optimizer, T>::arrays;
  static constexpr int unroll = arrays >= 3 ? 1 : 2;  // as in maps: about 64 bytes in flight for each thread

  std::uint32_t variables;
  update_numbers<Optimizer> numbers;
  updated_variable<Optimizer, T> of[Most];

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    std::uint32_t k = 0;
    for (std::uint32_t above = variables; above - k > 1;) {
      const std::uint32_t middle = k + (above - k) / 2;
      (of[middle].first_block <= at.block ? k : above) = middle;
    }
    const std::uint32_t end = k + 1 < variables ? of[k + 1].first_block : at.blocks;
    run_groups(of[k], at.block - of[k].first_block, end - of[k].first_block, at.thread,
               typename weft::detail::make_indices<arrays>::type());
  }

  /// Updates a single element of the first variable, for a group of one.
  WEFT_HOST_DEVICE void update_element(std::uint32_t i, T upstream) const {
    static_assert(Count == 1);
    T x[arrays][1];
    for (std::size_t a = 0; a < arrays; ++a) x[a][0] = of[0].array[a][i];
    update_lane(numbers.optimizer(), load_scalars(of[0], weft::detail::slot_indices<Optimizer>()), x, 0, upstream,
                weft::detail::slot_indices<Optimizer>(), weft::detail::norm_indices<Optimizer>());
    for (std::size_t a = 0; a < arrays; ++a) of[0].array[a][i] = x[a][0];
  }

 private:
  using V = exact<T>;
  using variable_type = updated_variable<Optimizer, T>;
  struct scalar_slots {
    V value[slots + 1], norm[weft::detail::norms_of<Optimizer> + 1];
  };

  template <std::size_t... Array>
  WEFT_HOST_DEVICE void run_groups(const variable_type& v, std::uint32_t block, std::uint32_t blocks,
                                   std::uint32_t thread, weft::detail::indices<Array...>) const {
    const Optimizer optimizer = numbers.optimizer();
    const scalar_slots scalar = load_scalars(v, weft::detail::slot_indices<Optimizer>());
    const std::uint32_t elements = v.elements, groups = (elements + Count - 1) / Count;
    for (std::uint32_t base = block * threads * unroll + thread; base < groups; base += blocks * threads * unroll) {
      T x[unroll][arrays][Count], g[unroll][Count];
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
      for (int u = 0; u < unroll; ++u) {
        const std::uint32_t first = (base + static_cast<std::uint32_t>(u) * threads) * Count;
        if (first >= elements) break;
        (load_group(x[u][Array], v.array[Array] + first, 1, elements - first), ...);
        load_group(g[u], v.gradient + first, 1, elements - first);
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
        (store_group(x[u][Array], v.array[Array] + first, elements - first), ...);
      }
    }
  }

  template <std::size_t... Slot>
  WEFT_HOST_DEVICE scalar_slots load_scalars(const variable_type& v, weft::detail::indices<Slot...>) const {
    scalar_slots all{{load_scalar<Slot>(v)..., V(0)}, {}};
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

  // Constants instead of functions, which a kernel could not call.
  template <std::size_t Slot>
  static constexpr bool is_scalar = weft::detail::is_scalar<Optimizer, Slot>;
  template <std::size_t Slot>
  static constexpr std::size_t number = weft::detail::scalars_before(scalars, Slot);
  /// The index of a slot among the arrays; 0, the variable, for a scalar.
  template <std::size_t Slot>
  static constexpr std::size_t array_of = is_scalar<Slot> ? 0 : 1 + weft::detail::arrays_before(scalars, Slot);

  template <std::size_t Slot>
  WEFT_HOST_DEVICE static V load_scalar(const variable_type& v) {
    if constexpr (is_scalar<Slot>)
      return V(*v.scalar[number<Slot>]);
    else
      return V(0);
  }
  template <std::size_t Slot>
  WEFT_HOST_DEVICE static void keep(T (&x)[arrays][Count], int lane, V value) {
    if constexpr (!is_scalar<Slot>) x[array_of<Slot>][lane] = value.value();
  }
};

/// Updates one element at a time, in the rows that have indices.
template <class Optimizer, class T>
struct row_update_body : plain_body {
  using whole = update_body<Optimizer, T, 1, 1>;
  std::uint32_t elements, rows;  ///< elements of the gradient; rows of the variable
  divisor inner;
  const std::int64_t* number;
  const T* gradient;
  whole update;  ///< its only variable, and its numbers

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads) {
      const std::uint32_t k = inner.divide(i);
      const std::int64_t row = number[k];
      if (row >= 0 && row < static_cast<std::int64_t>(rows))
        update.update_element(static_cast<std::uint32_t>(row) * inner.extent + i - k * inner.extent, gradient[i]);
    }
  }
};

WEFT_STRICT_END

struct update_codes {
  function advance, advance_together, elements, together, rows;
};
template <class Optimizer, class T, std::size_t Most>
using whole_update_body = update_body<Optimizer, T, static_cast<int>(16 / sizeof(T)), Most>;
template <class Optimizer, class T>
const update_codes& compiled_optimizer() {
  static const update_codes codes = [] {
    update_codes c;
    constexpr std::size_t most = most_together<Optimizer, T>;
    if constexpr (weft::detail::scalar_count<Optimizer> != 0) {
      c.advance = function_of<advance_body<Optimizer, T, 1>>("advance");
      c.advance_together = function_of<advance_body<Optimizer, T, most>>("advance");
    }
    c.elements = function_of<whole_update_body<Optimizer, T, 1>>(Optimizer::name);
    c.together = function_of<whole_update_body<Optimizer, T, most>>(Optimizer::name);
    if constexpr (weft::detail::updates_by_rows<Optimizer>)
      c.rows = function_of<row_update_body<Optimizer, T>>(Optimizer::name);
    return c;
  }();
  return codes;
}

WEFT_COLD_BEGIN

/// Sets the addresses of the hyperparameters that are values of the graph.
inline void point_numbers(launch_kernel::launch& l, const prepare_context& p, const update_layout& of,
                          std::size_t computed) {
  const update_view u(p.node);
  for (std::size_t i = 0; i < of.hyperparameters; ++i)
    if (u.is_computed(i)) l.point(computed + i * sizeof(void*), p.input_slots[u.hyperparameter_input(i)]);
}
/// Sets the addresses of the scalar slots.
inline void point_scalars(launch_kernel::launch& l, const prepare_context& p, const update_layout& of,
                          std::size_t scalars) {
  for (std::size_t i = 0; i < of.slots; ++i)
    if (of.is_scalar(i)) {
      l.point(scalars, p.input_slots[update_view::slot_input(i)]);
      scalars += sizeof(void*);
    }
}
/// Sets the addresses of the variable and of the slots that are arrays.
inline void point_arrays(launch_kernel::launch& l, const prepare_context& p, const update_layout& of,
                         std::size_t arrays, std::size_t alignment) {
  l.point(arrays, p.input_slots[update_view::variable_input()], alignment);
  for (std::size_t i = 0; i < of.slots; ++i)
    if (!of.is_scalar(i)) l.point(arrays += sizeof(void*), p.input_slots[update_view::slot_input(i)], alignment);
}

template <class Optimizer, class T>
void add_row_updates(launch_kernel& k, const prepare_context& p, const function& code,
                     const update_numbers<Optimizer>& numbers) {
  const update_layout& layout = weft::detail::layout_of<Optimizer>;
  const axis_rows rows(p.inputs[0].extents, 0);
  const update_view u(p.node);
  for (std::size_t i = 0; i < u.row_lists(); ++i) {
    const std::size_t list = u.rows_input(i);
    check_size(p.node.op->name, p.inputs[list].extents);
    row_update_body<Optimizer, T> body{};
    body.elements = static_cast<std::uint32_t>(p.inputs[list].extents.elements());
    if (body.elements == 0) continue;
    body.rows = static_cast<std::uint32_t>(rows.extent);
    body.inner = divisor(static_cast<std::uint32_t>(rows.inner));
    body.update.numbers = numbers;
    auto& l = add_body(k, body, code, blocks_for(body.elements, 1));
    point_numbers(l, p, layout, offset_in(body, body.update.numbers.computed));
    point_scalars(l, p, layout, offset_in(body, body.update.of[0].scalar));
    point_arrays(l, p, layout, offset_in(body, body.update.of[0].array), 1);
    l.point(offset_in(body, body.gradient), p.input_slots[list]);
    l.point(offset_in(body, body.number), p.input_slots[u.row_indices_input(i)]);
  }
}

/// Returns update `k` of a kernel: first the additional updates, then its own.
inline const prepare_context& update_at(const prepare_context& p, std::size_t k) {
  return k < p.beside_count ? p.beside[k] : p;
}

/// Adds a launch that advances the scalar slots of updates [first, first + count).
template <class Optimizer, class T, std::size_t Most>
void add_advance(launch_kernel& k, const prepare_context& p, std::size_t first, std::size_t count, const function& code,
                 const update_numbers<Optimizer>& numbers) {
  const update_layout& layout = weft::detail::layout_of<Optimizer>;
  advance_body<Optimizer, T, Most> body{};
  static_assert(sizeof body <= 4096);
  body.variables = static_cast<std::uint32_t>(count);
  body.numbers = numbers;
  auto& l = add_body(k, body, code, 1);
  point_numbers(l, p, layout, offset_in(body, body.numbers.computed));
  for (std::size_t v = 0; v < count; ++v)
    point_scalars(l, update_at(p, first + v), layout, offset_in(body, body.of[v].scalar));
}

/// Adds a launch for all elements of updates [first, first + count).
template <class Optimizer, class T, std::size_t Most>
void add_elements(launch_kernel& k, const prepare_context& p, std::size_t first, std::size_t count,
                  const function& code, const update_numbers<Optimizer>& numbers) {
  const update_layout& layout = weft::detail::layout_of<Optimizer>;
  using body_type = whole_update_body<Optimizer, T, Most>;
  static_assert(sizeof(body_type) <= 4096);
  constexpr std::size_t lanes = 16 / sizeof(T);
  body_type body{};
  body.variables = static_cast<std::uint32_t>(count);
  body.numbers = numbers;
  std::size_t blocks = 0;
  for (std::size_t v = 0; v < count; ++v) {
    const shape& extents = update_at(p, first + v).inputs[0].extents;
    check_size(p.node.op->name, extents);
    const std::size_t n = extents.elements();
    body.of[v].elements = static_cast<std::uint32_t>(n);
    body.of[v].first_block = static_cast<std::uint32_t>(blocks);
    if (n != 0) blocks += blocks_for((n + lanes - 1) / lanes, body_type::unroll);
  }
  if (blocks == 0) return;
  auto& l = add_body(k, body, {}, 1);
  l.aligned_code = code;
  l.aligned_blocks = static_cast<unsigned>(blocks);
  point_numbers(l, p, layout, offset_in(body, body.numbers.computed));
  for (std::size_t v = 0; v < count; ++v) {
    const prepare_context& one = update_at(p, first + v);
    point_scalars(l, one, layout, offset_in(body, body.of[v].scalar));
    if (body.of[v].elements == 0) continue;
    point_arrays(l, one, layout, offset_in(body, body.of[v].array), 16);
    l.point(offset_in(body, body.of[v].gradient), one.input_slots[update_view(one.node).gradient_input()], 16);
  }
}

template <class Optimizer, class T>
kernel* prepare_update(const prepare_context& p, device&) {
  const update_layout& layout = weft::detail::layout_of<Optimizer>;
  const std::size_t all = p.beside_count + 1;
  for (std::size_t i = 0; i < all; ++i) weft::detail::check_update(update_at(p, i), layout);
  std::string text = str_cat({layout.name, " ", name(p.inputs[0].type)});
  if (all > 1) append(text, {", ", all, " variables"});
  owned<launch_kernel> k(new launch_kernel(static_cast<std::string&&>(text)));
  const update_codes& codes = compiled_optimizer<Optimizer, T>();
  update_numbers<Optimizer> numbers{};
  for (std::size_t i = 0; i < p.node.literals.size(); ++i)
    numbers.number[i] = weft::detail::literal_value<double>(p.node.literals[i]);
  constexpr bool has_scalars = weft::detail::scalar_count<Optimizer> != 0;
  if (all == 1) {
    if constexpr (has_scalars) add_advance<Optimizer, T, 1>(*k, p, 0, 1, codes.advance, numbers);
    if constexpr (weft::detail::updates_by_rows<Optimizer>)
      if (update_view(p.node).row_lists() > 0) {
        if (p.inputs[0].extents.elements() != 0) add_row_updates<Optimizer, T>(*k, p, codes.rows, numbers);
        return k.release();
      }
    add_elements<Optimizer, T, 1>(*k, p, 0, 1, codes.elements, numbers);
    return k.release();
  }
  constexpr std::size_t most = most_together<Optimizer, T>;
  for (std::size_t i = 0; i < all; i += most) {
    const std::size_t count = all - i < most ? all - i : most;
    if constexpr (has_scalars) add_advance<Optimizer, T, most>(*k, p, i, count, codes.advance_together, numbers);
    add_elements<Optimizer, T, most>(*k, p, i, count, codes.together, numbers);
  }
  return k.release();
}

WEFT_COLD_END

}  // namespace detail

template <class Optimizer, class T>
struct kernels<update_op<Optimizer, T>> : installed<update_op<Optimizer, T>, detail::prepare_update<Optimizer, T>> {};

}  // namespace weft::gpu
#endif

#pragma pop_macro("slots")
