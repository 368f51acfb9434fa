// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// Loss scaling: multiplies gradients that are computed in `half`, so that small ones do not underflow to 0.
WEFT_COLD_BEGIN
namespace weft {

/// A constant scale (tf.train.experimental.FixedLossScale). Unlike TensorFlow, a step whose gradients are not finite
/// changes nothing.
struct fixed_loss_scale {
  double scale = 32768;
};

/// A scale, within bounds, that grows after growth_interval steps with finite gradients and shrinks after a step with
/// infinite or NaN gradients (tf.train.experimental.DynamicLossScale, torch.amp.GradScaler; Micikevicius et al. 2018).
/// Powers of two, as in the defaults, scale without rounding.
struct dynamic_loss_scale {
  double initial_scale = 65536;
  std::int64_t growth_interval = 2000;
  double growth_factor = 2, backoff_factor = 0.5;
  double min_scale = 1, max_scale = 16777216;
};

/// The scale must be a fixed_loss_scale or a dynamic_loss_scale.
template <class X>
struct scale_is_not_fixed_or_dynamic : mistake<true> {};
/// The optimizer must be the first argument; the loss or the gradients follow.
template <class X>
struct optimizer_does_not_come_first : mistake<true> {};

namespace detail {

/// An optimizer that first multiplies its gradients by a factor; 0 skips the update.
template <class Optimizer>
struct with_gradient_factor;

/// A gradient of the scaled loss, and the result of compute_gradients() for it.
struct scaled_gradient {
  symbol scaled, unscaled, variable, loss;
};

}  // namespace detail

/// Scales a loss and trains on its gradients, divided by the scale. Skips a step in which a gradient is not finite:
/// variables, slots and global_step(g) are unchanged. Updates noted for the loss (add_update) run in every step. The
/// loss is float or double; its inputs can be half.
///
///     loss_scale scale(g, dynamic_loss_scale{});
///     auto train = scale.minimize(adam{.learning_rate = 0.001}, loss);
///
/// The scale and the number of good steps are variables, `loss_scale/scale` and `loss_scale/good_steps`, which a saver
/// saves. The graph must outlive the object. In a replicated session, the mean of all workers' gradients is checked.
/// With asynchronous parameter servers, each worker has its own scale and checks its own gradients.
class loss_scale {
 public:
  /// Throws invalid_argument if the numbers are out of range.
  explicit loss_scale(graph& g, const dynamic_loss_scale& how = {});
  loss_scale(graph& g, const fixed_loss_scale& how);
  template <class X>
  loss_scale(graph&, const X&) {
    static_assert(
        correct<scale_is_not_fixed_or_dynamic<X>>,
        "loss_scale: pass a kind of scale: loss_scale scale(g, dynamic_loss_scale{}), or fixed_loss_scale{1024}");
  }

  /// The scale of the next step.
  node<float> value() const { return scale_; }
  /// Steps with finite gradients since the last change of the scale; always 0 for a fixed scale.
  node<std::int64_t> good_steps() const { return good_steps_; }

  /// Like weft::minimize(), with the scaled loss.
  template <class Optimizer, class Expr, class... V>
  [[nodiscard]] effect minimize(const Optimizer& optimizer, const Expr& loss, const V&... variables);
  /// Like weft::compute_gradients(), with the scaled loss; divides the gradients by the scale. If you do not change a
  /// gradient, apply_gradients() divides it in the update at no cost, and it stays sparse. A changed one, such as a
  /// clipped gradient, is dense.
  template <class Expr, class... V>
  [[nodiscard]] auto compute_gradients(const Expr& loss, const V&... variables);
  /// Like weft::apply_gradients(), for gradients from this object's compute_gradients(). Throws invalid_argument for
  /// other gradients, because their scaled gradients are unknown.
  template <class Optimizer, class... Pair>
  [[nodiscard]] effect apply_gradients(const Optimizer& optimizer, const Pair&... pairs);

  template <class X>
  effect minimize(const X&) {
    static_assert(correct<optimizer_does_not_come_first<X>>,
                  "loss_scale: pass the optimizer first: scale.minimize(adam{}, loss)");
    return effect(symbol());
  }

 private:
  template <class T>
  auto scaled(const node<T>& loss) {
    return let(loss * cast<T>(scale_)).erased();
  }
  template <class T>
  sequence<variable_gradient<symbol, symbol>> remember(sequence<variable_gradient<symbol, symbol>> pairs);
  template <class Optimizer>
  effect record(const Optimizer& optimizer, const sequence<detail::applied_gradient>& all,
                const sequence<symbol>& counters);
  template <class T, class Compiler = gpu::this_compiler>
  void use();

  const detail::scaled_gradient& find(const variable_gradient<symbol, symbol>& pair) const;
  /// 0 if all elements are finite, else NaN.
  symbol check(const detail::scaled_gradient&, bool by_rows) const;
  node<bool> all_finite(const sequence<detail::applied_gradient>& all, bool by_rows) const;
  void record_next_scale(const node<bool>& finite, sequence<symbol>& beside) const;

  graph* graph_ = nullptr;
  dynamic_loss_scale how_;
  bool dynamic_ = true;
  node<float> scale_;
  node<std::int64_t> good_steps_;
  sequence<detail::scaled_gradient> made_;
  const fused_reduction* checks_[2] = {nullptr, nullptr};  // for float and double
};

namespace detail {

template <std::size_t Index, class First, class... Rest>
WEFT_HOST_DEVICE WEFT_INLINE auto& argument_at(First& first, Rest&... rest) {
  if constexpr (Index == 0)
    return first;
  else
    return argument_at<Index - 1>(rest...);
}

// The update itself tests a number that each step passes to it. This needs no mask, with which NaN times 0 stays NaN,
// and no copies to restore, and it reuses the optimizers' kernels for rows, many variables and GPUs. Dividing by the
// scale costs no extra pass. Loss scaling adds only a pass that checks the gradients; updates wait for it, so all
// gradients are in memory at the same time.
template <class Optimizer>
struct with_gradient_factor {
  Optimizer base;
  hyperparameter factor = 0;

  with_gradient_factor() = default;
  template <class... Member>
    requires(sizeof...(Member) == members_of<Optimizer> + 1 && (std::is_same_v<Member, member_value> && ...))
  WEFT_HOST_DEVICE constexpr explicit with_gradient_factor(Member... members)
      : with_gradient_factor(parameter_indices<Optimizer>(), {members...}) {}

  static constexpr const char* name = Optimizer::name;
  static constexpr bool by_rows = updates_by_rows<Optimizer>;
  constexpr auto slots() const
    requires(slots_of<Optimizer> != 0)
  {
    return base.slots();
  }

  template <class V, class... Operand>
  WEFT_HOST_DEVICE WEFT_INLINE void update(V& variable, Operand&&... operands) const {
    update_with(slot_indices<Optimizer>(), norm_indices<Optimizer>(), variable, operands...);
  }
  template <class... V>
  WEFT_HOST_DEVICE void advance(V&... scalars) const
    requires(scalar_count<Optimizer> != 0)
  {
    if (makes_update<V...>()) base.advance(scalars...);
  }
  template <class V, class... Operand>
  auto norms(V variable, Operand... operands) const
    requires(norms_of<Optimizer> != 0)
  {
    return norms_with(slot_indices<Optimizer>(), variable, operands...);
  }

 private:
  struct all_members {
    member_value all[members_of<Optimizer> + 1];
  };
  template <std::size_t... Index>
  WEFT_HOST_DEVICE constexpr with_gradient_factor(indices<Index...> all, const all_members& of)
      : base(optimizer_of<Optimizer>(of.all, all)), factor(of.all[members_of<Optimizer>]) {}

  /// Returns true while norms are recorded, because the factor has no number yet.
  template <class V, class...>
  WEFT_HOST_DEVICE WEFT_INLINE bool makes_update() const {
    return std::is_same_v<V, recorded_number> || static_cast<double>(factor) != 0;
  }

  template <std::size_t... Slot, std::size_t... Norm, class V, class... Operand>
  WEFT_HOST_DEVICE WEFT_INLINE void update_with(indices<Slot...>, indices<Norm...>, V& variable,
                                                Operand&... operands) const {
    constexpr std::size_t slots = sizeof...(Slot);
    V x = variable, s[slots + 1] = {argument_at<Slot>(operands...)..., V(0)};
    base.update(x, as_operand<Optimizer, Slot>(s[Slot])..., V(argument_at<slots>(operands...) * V(factor)),
                argument_at<slots + 1 + Norm>(operands...)...);
    const bool made = makes_update<V>();
    variable = made ? x : variable;
    (keep<Slot>(made, s[Slot], argument_at<Slot>(operands...)), ...);
  }
  template <std::size_t Slot, class V, class Operand>
  WEFT_HOST_DEVICE WEFT_INLINE static void keep(bool made, V now, Operand& slot) {
    if constexpr (!is_scalar<Optimizer, Slot>) slot = made ? now : slot;
  }

  template <std::size_t... Slot, class V, class... Operand>
  auto norms_with(indices<Slot...>, V variable, Operand&... operands) const {
    return base.norms(variable, V(argument_at<Slot>(operands...))...,
                      V(argument_at<sizeof...(Slot)>(operands...) * V(factor)));
  }
};

/// The count is known: the base optimizer's members and the factor.
template <class Optimizer>
inline constexpr std::size_t members_of<with_gradient_factor<Optimizer>> = members_of<Optimizer> + 1;

template <class Optimizer>
void append_members(const with_gradient_factor<Optimizer>& o, sequence<hyperparameter>& all) {
  if constexpr (members_of<Optimizer> != 0) append_members(o.base, all);
  all.push_back(o.factor);
}

inline void check_scale(const dynamic_loss_scale& s) {
  const auto is_scale = [](double x) { return x > 0 && static_cast<float>(x) < __builtin_inff(); };
  if (is_scale(s.min_scale) && s.min_scale <= s.initial_scale && s.initial_scale <= s.max_scale &&
      is_scale(s.max_scale) && s.growth_interval >= 1 && s.growth_factor > 1 && is_scale(s.growth_factor) &&
      s.backoff_factor > 0 && s.backoff_factor < 1)
    return;
  throw error(error_code::invalid_argument, "loss_scale",
              "requires 0 < min_scale <= initial_scale <= max_scale, finite as float, a growth_interval of at least 1 "
              "step, a growth_factor above 1 and a backoff_factor between 0 and 1");
}

}  // namespace detail

inline loss_scale::loss_scale(graph& g, const dynamic_loss_scale& how) : graph_(&g.self()), how_(how) {
  detail::check_scale(how);
  scale_ = variable<float>(g, "loss_scale/scale", static_cast<float>(how.initial_scale), variable_kind::local);
  good_steps_ = variable<std::int64_t>(g, "loss_scale/good_steps", 0, variable_kind::local);
}

inline loss_scale::loss_scale(graph& g, const fixed_loss_scale& how) : graph_(&g.self()), dynamic_(false) {
  how_ = {.initial_scale = how.scale, .min_scale = how.scale, .max_scale = how.scale};
  detail::check_scale(how_);
  scale_ = constant(g, static_cast<float>(how.scale));
  good_steps_ = constant(g, std::int64_t{0});
}

template <class T, class Compiler>
void loss_scale::use() {
  using zeros = skeleton::apply<formula::subtract, T, detail::arg0<T>, detail::arg0<T>>;
  detail::use_gradient_primitives<T>(*graph_);
  gpu::compiled<Compiler>::template reduction<zeros, device::reduce_op::sum>();
  checks_[std::is_same_v<T, double>] = &reduced<zeros, device::reduce_op::sum, false>;
}

template <class T>
sequence<variable_gradient<symbol, symbol>> loss_scale::remember(sequence<variable_gradient<symbol, symbol>> pairs) {
  const symbol inverse = let(cast<T>(1.0f / scale_)).erased();
  for (auto& pair : pairs) {
    const symbol scaled = pair.gradient;
    pair.gradient = scaled * inverse;
    made_.push_back({scaled, pair.gradient, pair.variable, pair.loss});
  }
  return pairs;
}

inline const detail::scaled_gradient& loss_scale::find(const variable_gradient<symbol, symbol>& pair) const {
  for (const detail::scaled_gradient& made : made_)
    if (made.variable.id() == pair.variable.id() && !pair.loss.is_number() && made.loss.id() == pair.loss.id())
      return made;
  throw error(error_code::invalid_argument, "loss_scale",
              {"the gradient of ", (*graph_)[pair.variable.id().node].name,
               " was not computed from a loss scaled here: use scale.compute_gradients(loss, ...)"});
}

inline symbol loss_scale::check(const detail::scaled_gradient& of, bool by_rows) const {
  sequence<weft::value> lists;
  const operation* sums = nullptr;
  const fused_reduction& kernel = *checks_[of.scaled.type() == dtype::float64];
  const auto check = [&](symbol x) {
    const auto all = axis_set::of_bits((std::int64_t{1} << x.extents().rank) - 1);
    return detail::record_reduction(x, all, device::reduce_op::sum, kernel);
  };
  if (!by_rows || !detail::find_rows(*graph_, of.scaled.id(), lists, sums)) return check(of.scaled);
  symbol total = check({graph_, lists[0]});
  for (std::size_t k = 2; k < lists.size(); k += 2) total = total + check({graph_, lists[k]});
  graph_->note_whole(total.id(), check(of.scaled).id());
  return total;
}

inline node<bool> loss_scale::all_finite(const sequence<detail::applied_gradient>& all, bool by_rows) const {
  symbol totals[2];
  for (const detail::applied_gradient& each : all) {
    const symbol one = check(find(each.pair), by_rows);
    symbol& total = totals[one.type() == dtype::float64];
    total = total.is_number() ? one : total + one;
  }
  if (totals[1].is_number()) return let(node<float>(totals[0]) == 0.0f);
  if (totals[0].is_number()) return let(node<double>(totals[1]) == 0.0);
  return let(cast<double>(node<float>(totals[0])) + node<double>(totals[1]) == 0.0);
}

inline void loss_scale::record_next_scale(const node<bool>& finite, sequence<symbol>& beside) const {
  if (!dynamic_) return;
  const variable_node<float> scale(scale_.erased());
  const variable_node<std::int64_t> good(good_steps_.erased());
  const auto next = let(good + 1);
  const auto grows = let(next >= how_.growth_interval);
  const auto grown = min(scale * static_cast<float>(how_.growth_factor), static_cast<float>(how_.max_scale));
  const auto reduced = max(scale * static_cast<float>(how_.backoff_factor), static_cast<float>(how_.min_scale));
  const auto steps = select(finite && !grows, next, 0);
  beside.push_back(assign(scale, select(finite, select(grows, grown, scale), reduced)).erased());
  beside.push_back(assign(good, steps).erased());
}

template <class Optimizer>
effect loss_scale::record(const Optimizer& optimizer, const sequence<detail::applied_gradient>& all,
                          const sequence<symbol>& counters) {
  if (all.empty()) throw error(error_code::invalid_argument, Optimizer::name, "there are no gradients to apply");
  for (const detail::applied_gradient& each : all) detail::check_same_graph("loss_scale", graph_, each.pair.variable);
  const node<bool> finite = all_finite(all, detail::updates_by_rows<Optimizer>);
  sequence<symbol> beside;
  record_next_scale(finite, beside);
  for (const symbol& counter : counters)
    beside.push_back(assign_add(variable_node<std::int64_t>(counter), cast<std::int64_t>(finite)).erased());

  for (const symbol& each : beside) {  // for clusters, which use the dense mean of sparse gradients
    node_def c = (*graph_)[each.id().node].def;
    const weft::value decides = c.inputs.back();
    c.inputs.back() = detail::without_rows({graph_, decides}).id();
    if (c.inputs.back() != decides) graph_->note_whole(each.id(), graph_->record(static_cast<node_def&&>(c)).id());
  }

  detail::noted_loss_scale noted;
  noted.scale = scale_.id();
  noted.good_steps = good_steps_.id();
  noted.finite = finite.id();
  for (const symbol& each : beside) noted.assignments.push_back(each.id().node);
  noted.is_dynamic = dynamic_;
  noted.numbers = {static_cast<double>(how_.growth_interval), how_.growth_factor, how_.backoff_factor, how_.min_scale,
                   how_.max_scale};

  sequence<detail::applied_gradient> as_computed, changed;
  for (detail::applied_gradient each : all) {
    const detail::scaled_gradient& made = find(each.pair);
    const bool same = each.pair.gradient.id() == made.unscaled.id() && !each.pair.gradient.is_number();
    if (same) each.pair.gradient = made.scaled;
    (same ? as_computed : changed).push_back(each);
  }
  const auto updates = [&](const sequence<detail::applied_gradient>& of, const hyperparameter& factor) {
    detail::with_gradient_factor<Optimizer> scaled;
    scaled.base = optimizer;
    scaled.factor = factor;
    return detail::record_updates(*graph_, scaled, of, beside);
  };
  hyperparameter factor = 0, passes = 0;
  if (!as_computed.empty()) {
    factor = select(finite, 1.0 / cast<double>(scale_), 0.0);
    noted.factor = factor.node().id();
  }
  if (!changed.empty()) {
    passes = cast<double>(finite);
    noted.passes = passes.node().id();
  }
  graph_->note_loss_scale(noted);
  if (changed.empty()) return updates(as_computed, factor);
  if (as_computed.empty()) return updates(changed, passes);
  return group(updates(as_computed, factor), updates(changed, passes));
}

template <class Optimizer, class Expr, class... V>
effect loss_scale::minimize(const Optimizer& optimizer, const Expr& loss, const V&... variables) {
  if constexpr (Expression<Optimizer>) {
    static_assert(correct<optimizer_does_not_come_first<Optimizer>>,
                  "loss_scale: pass the optimizer first: scale.minimize(adam{}, loss)");
    return effect(symbol());
  } else {
    static_assert(correct<optimizer_mistake<Optimizer>>,
                  "loss_scale: the optimizer must be a struct such as adam{}; see docs/how-to/optimizers.md");
    static_assert(correct<minimize_mistake<Expr, V...>>, WEFT_NEEDS_OF_MINIMIZE);
    if constexpr (correct<minimize_mistake<Expr, V...>> && correct<optimizer_mistake<Optimizer>>) {
      using T = value_t<Expr>;
      sequence<symbol> named, counters;
      const auto append = [&](const auto& each) {
        if constexpr (is_step_counter<std::remove_cvref_t<decltype(each)>>)
          counters.push_back(detail::check_counter(Optimizer::name, each.erased()));
        else
          detail::append_variable<T>(each, Optimizer::name, named);
      };
      (append(variables), ...);
      use<T>();
      sequence<detail::applied_gradient> all;
      for (const auto& pair :
           remember<T>(detail::record_gradients(*graph_, scaled(node<T>(let(loss).erased())), Optimizer::name, named)))
        all.push_back({pair, detail::update_of<detail::with_gradient_factor<Optimizer>, T>()});
      return record(optimizer, all, counters);
    } else {
      return effect(symbol());
    }
  }
}

template <class Expr, class... V>
auto loss_scale::compute_gradients(const Expr& loss, const V&... variables) {
  using mistake = first_mistake<minimize_mistake<Expr, V...>, counter_has_no_gradient<V>...>;
  static_assert(correct<mistake>, WEFT_NEEDS_OF_MINIMIZE);
  if constexpr (correct<mistake>) {
    using T = value_t<Expr>;
    use<T>();
    const symbol root = scaled(node<T>(let(loss).erased()));
    sequence<symbol> named;
    (detail::append_variable<T>(variables, "compute_gradients", named), ...);
    auto pairs = remember<T>(detail::record_gradients(*graph_, root, "compute_gradients", named));
    if constexpr (detail::is_listed<V...>) {
      return variable_gradients<T>{static_cast<decltype(pairs)&&>(pairs)};
    } else {
      auto next = [&, i = std::size_t{0}]() mutable { return pairs[i++].gradient; };
      using detail::node_of;
      return std::tuple{variable_gradient<decltype(node_of<V>(symbol())), V>{node_of<V>(next()), variables, root}...};
    }
  } else {
    return std::tuple{variables...};
  }
}

template <class Optimizer, class... Pair>
effect loss_scale::apply_gradients(const Optimizer& optimizer, const Pair&... pairs) {
  if constexpr (correct<applied_value_is_not_a_gradient<Optimizer>>) {
    static_assert(correct<optimizer_does_not_come_first<Optimizer>>,
                  "loss_scale: pass the optimizer first: scale.apply_gradients(adam{}, gradients)");
    return effect(symbol());
  } else {
    static_assert(correct<optimizer_mistake<Optimizer>>,
                  "loss_scale: the optimizer must be a struct such as adam{}; see docs/how-to/optimizers.md");
    static_assert(correct<apply_mistake<Pair...>>, WEFT_NEEDS_OF_APPLY);
    if constexpr (correct<apply_mistake<Pair...>> && correct<optimizer_mistake<Optimizer>>) {
      detail::with_gradient_factor<Optimizer> scaled;
      scaled.base = optimizer;
      sequence<detail::applied_gradient> all;
      sequence<symbol> counters;
      const auto append = [&](const auto& each) {
        if constexpr (is_step_counter<std::remove_cvref_t<decltype(each)>>)
          counters.push_back(detail::check_counter(Optimizer::name, each.erased()));
        else
          detail::append_applied(scaled, each, all, counters);
      };
      (append(pairs), ...);
      return record(optimizer, all, counters);
    } else {
      return effect(symbol());
    }
  }
}

}  // namespace weft
WEFT_COLD_END

#pragma pop_macro("slots")
