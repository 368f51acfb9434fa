// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/device/cpu/thread_pool.hpp>
#include <weft/device/cpu/vector_loops.hpp>
#include <weft/distributed/parameter/gradient_clipping.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/row_changes.hpp>
#include <weft/distributed/parameter/row_lists.hpp>
#include <weft/distributed/parameter/steps/gradient_mean.hpp>
#include <weft/distributed/parameter/update_rule.hpp>
#include <weft/error.hpp>
#include <weft/transport/aligned_bytes.hpp>
#include <weft/transport/any_transport.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// The contents of one parameter server: the values of its variables in wire order, the slots of their rules, and the
/// number of updates applied. Performs no input or output. Not thread-safe: one thread owns the store.
class parameter_store {
 public:
  parameter_store() = default;

  /// Allocates the values and slots of the variables that belong to `ps_task`; the values are not yet initialised.
  /// Throws weft::error: not_found, unimplemented or invalid_argument for a rule, resource_exhausted if values, slots
  /// and remembered rows exceed `max_bytes` or cannot be allocated.
  parameter_store(std::span<const parameter_spec> variables, int ps_task, std::uint64_t max_bytes) {
    std::uint64_t total = 0, in_slots = 0, whole = 0;
    order_ = detail::wire_order(variables, ps_task);
    variables_.assign(variables.begin(), variables.end());
    for (const std::size_t i : order_) {
      const parameter_spec& variable = variables[i];
      range next{i, variable.type, total, variable.elements, update_rules::find(variable.rule), {}, {}};
      next.row_elements = variable.row_elements;
      const update_layout& layout = *next.code.layout;
      for (const double parameter : variable.rule.parameters) next.numbers.push_back(detail::literal_bits(parameter));
      next.numbers.resize(layout.hyperparameters + layout.slots - layout.arrays());
      total += variable.bytes();
      const bool remembers_rows = variable.has_rows() && variable.source == parameter_spec::no_source;
      in_slots += variable.bytes() * (layout.arrays() + (remembers_rows ? 1 : 0));
      if (total + in_slots > max_bytes)
        throw error(
            error_code::resource_exhausted, "parameter_server",
            {"the variables and their slots need more than ", max_bytes,
             " bytes, the limit of this server; raise server_options::max_parameter_bytes, or start more servers"});
      packed_.push_back(whole);
      if (!variable.has_rows()) whole += variable.bytes();
      ranges_.push_back(std::move(next));
    }
    std::vector<std::size_t> places(variables.size());
    for (std::size_t k = 0; k < order_.size(); ++k) places[order_[k]] = k;
    for (std::size_t k = 0; k < order_.size(); ++k)
      if (const parameter_spec& average = variables[order_[k]]; average.is_moving_average())
        moving_averages_.push_back({k, places[static_cast<std::size_t>(average.source)]});
    gradient_bytes_ = whole;
    shared_ = detail::segment_layout(variables, order_);
    has_rows_ = detail::min_row_bytes(variables, order_) > 0;
    try {
      values_ = detail::aligned_bytes(total);
      for (range& each : ranges_)
        each.slots = detail::aligned_bytes(each.elements * size_of(each.type) * each.code.layout->arrays());
    } catch (const std::bad_alloc&) {
      throw error(error_code::resource_exhausted, "parameter_server",
                  {"cannot allocate ", total + in_slots, " bytes for variables and their slots; start more servers"});
    }
    for (range& each : ranges_) each.fill_slots(variables[each.number].rule.parameters);
  }

  /// The list from which the store was made, with the variables of all parameter servers.
  const std::vector<parameter_spec>& variables() const { return variables_; }

  std::size_t bytes() const { return values_.size(); }
  mutable_bytes values() { return values_; }

  bool initialised() const { return initialised_; }
  /// Notes that values() have been filled in.
  void set_initialised() { initialised_ = true; }

  /// Size of the values and array slots in bytes, and number of scalar slots: the state in a checkpoint.
  std::size_t state_bytes() const {
    std::size_t bytes = values_.size();
    for (const range& each : ranges_) bytes += each.slots.size();
    return bytes;
  }
  std::size_t scalar_slots() const {
    std::size_t count = 0;
    for (const range& each : ranges_) count += each.scalars();
    return count;
  }
  /// Appends views of the values and array slots to `pieces`, and the scalar slots to `scalars`.
  void find_state(std::vector<const_bytes>& pieces, std::vector<double>& scalars) const {
    pieces.emplace_back(values_.data(), values_.size());
    for (const range& each : ranges_) {
      pieces.emplace_back(each.slots.data(), each.slots.size());
      for (std::size_t k = 0; k < each.scalars(); ++k)
        scalars.push_back(detail::literal_value<double>(each.numbers[each.code.layout->hyperparameters + k]));
    }
  }
  /// Replaces the state: `state` has state_bytes() bytes, `scalars` scalar_slots() elements.
  void restore(const_bytes state, std::span<const double> scalars, std::int64_t global_step) {
    const auto take = [&](std::byte* to, std::size_t size) {
      if (size > 0) std::memcpy(to, state.data(), size);
      state = state.subspan(size);
    };
    take(values_.data(), values_.size());
    for (range& each : ranges_) {
      take(each.slots.data(), each.slots.size());
      for (std::size_t k = 0; k < each.scalars(); ++k) {
        const double x = each.type == element_type::float32 ? static_cast<float>(scalars[k]) : scalars[k];
        each.numbers[each.code.layout->hyperparameters + k] = detail::literal_bits(x);
      }
      scalars = scalars.subspan(each.scalars());
      each.changes.forget();
    }
    global_step_ = global_step;
    initialised_ = true;
  }

  /// Number of updates applied.
  std::int64_t global_step() const { return global_step_; }

  /// The layout of a segment shared with a worker.
  const detail::segment_layout& shared_layout() const { return shared_; }
  /// Returns true if the gradients of some variables are lists of rows.
  bool has_rows() const { return has_rows_; }
  /// Size of the gradients of whole variables, in bytes.
  std::size_t gradient_bytes() const { return gradient_bytes_; }
  /// Minimum and maximum size of the payload of gradients, in bytes. `apart`: the gradients of whole variables are not
  /// in the payload.
  struct payload_bounds {
    std::uint64_t min, max;
  };
  payload_bounds gradient_payload(bool apart) const {
    const std::size_t whole = apart ? 0 : gradient_bytes_;
    if (!has_rows_) return {whole, whole};
    const std::size_t begin = detail::rows_begin(whole);
    return {begin + detail::min_row_bytes(variables_, order_), begin + detail::max_row_bytes(variables_, order_)};
  }
  /// Reads the rows in a received payload. Throws weft::error (invalid_argument) if they are invalid.
  void read_rows(const_bytes payload, bool apart, std::vector<detail::row_list>& lists) const {
    if (!has_rows_) return lists.clear();
    detail::read_row_lists(payload.subspan(std::min(payload.size(), detail::rows_begin(apart ? 0 : gradient_bytes_))),
                           variables_, order_, lists);
    for (std::size_t k = 0; k < order_.size(); ++k)
      if (const parameter_spec& what = variables_[order_[k]]; lists[k].count > 0 && !what.has_gradients())
        throw error(error_code::invalid_argument, "rows",
                    {"'", what.name, "' is updated by the servers and takes no gradients, but a worker has sent ",
                     lists[k].count, " rows"});
  }

  /// Finds the gradients of whole variables in a payload. The result has no rows.
  placed_gradients packed(const_bytes gradients) const { return {{gradients.data(), packed_}, {}}; }

  /// Copies the gradients of whole variables to `to`, in the layout that packed() expects.
  void pack(const placed_gradients& gradients, mutable_bytes to) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      if (ranges_[i].row_elements == 0)
        std::memcpy(to.data() + packed_[i], gradients.base + gradients.offsets[i],
                    ranges_[i].elements * size_of(ranges_[i].type));
  }

  /// The position of a gradient element that is not finite.
  struct nonfinite {
    std::size_t variable;  // index in variables()
    std::size_t element;
  };
  std::optional<nonfinite> find_nonfinite(const placed_gradients& gradients) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const range& each = ranges_[i];
      const auto look = [&]<typename T>(T) -> std::optional<nonfinite> {
        if (each.row_elements > 0) {
          const detail::row_list& list = gradients.rows[i];
          const std::size_t count = list.count * each.row_elements;
          const std::size_t at = detail::first_nonfinite(reinterpret_cast<const T*>(list.rows), count);
          if (at == count) return {};
          return nonfinite{each.number,
                           list.number(at / each.row_elements) * each.row_elements + at % each.row_elements};
        }
        const T* const of = detail::gradients_of<T>(gradients, i);
        const std::size_t at = detail::first_nonfinite(of, each.elements);
        if (at == each.elements) return {};
        return nonfinite{each.number, at};
      };
      if (const auto found = each.type == element_type::float32 ? look(float{}) : look(double{})) return found;
    }
    return {};
  }

  /// Applies one worker's gradients. Also writes the new values of whole variables to `copies`, in the same pass.
  void apply(const placed_gradients& gradients, std::span<const placed_bytes<std::byte>> copies = {},
             thread_pool* helpers = nullptr) {
    begin_update();
    for_each_piece(
        [&]<typename T>(T, std::size_t variable, std::size_t first, std::size_t count) {
          update<T>(variable, first, count, detail::gradients_of<T>(gradients, variable) + first, copies);
        },
        helpers);
    end_update(gradients.rows);
  }
  void apply(const_bytes gradients) {
    std::vector<detail::row_list> lists;
    read_rows(gradients, false, lists);
    placed_gradients placed = packed(gradients);
    placed.rows = lists;
    apply(placed);
  }

  using contribution = detail::weighted_gradients;

  /// Applies the mean of several workers' gradients: their weighted sum in the given order, divided by the sum of the
  /// weights. The threads of `helpers`, if given, share the work. With `only_finite`, a mean with an element that is
  /// not finite is not applied at all; returns true if the mean was applied.
  ///
  /// `factors`: for each variable of this server, the factor that clips its mean to a norm; empty unless
  /// clips_by_norm().
  bool apply_mean(std::span<const contribution> of, std::span<const placed_bytes<std::byte>> copies = {},
                  thread_pool* helpers = nullptr, bool only_finite = false, std::span<const double> factors = {}) {
    const detail::gradient_mean mean(of);
    // A small mean that may be refused is kept. A large one would need as much memory as the variables, so it is
    // computed twice.
    const bool keeps = only_finite && !mean.is_given() && gradient_bytes_ <= max_kept_mean;
    if (keeps && kept_mean_.size() != gradient_bytes_) kept_mean_ = detail::aligned_bytes(gradient_bytes_);
    const auto kept = [&]<typename T>(T, std::size_t variable, std::size_t first) {
      return reinterpret_cast<T*>(kept_mean_.data() + packed_[variable]) + first;
    };
    std::atomic<bool> finite{true};
    if (only_finite)
      for_each_piece(
          [&]<typename T>(T type, std::size_t variable, std::size_t first, std::size_t count) {
            bool all_finite = true;
            if (keeps)
              mean.find(kept(type, variable, first), variable, first, count, &all_finite);
            else
              all_finite = mean.is_finite<T>(variable, first, count);
            if (!all_finite) finite.store(false, std::memory_order_relaxed);
          },
          helpers);
    if (!find_mean_rows(of, mean.weights())) finite = false;
    if (only_finite && !finite) return false;
    begin_update();
    for_each_piece(
        [&]<typename T>(T type, std::size_t variable, std::size_t first, std::size_t count) {
          alignas(64) T room[max_at_once];
          const T* of_mean = keeps ? kept(type, variable, first) : mean.find(room, variable, first, count);
          if (const gradient_clipping& how = clipping_of(variable); how.kind != detail::clip_kind::none) {
            detail::clip_elements(room, of_mean, count, how, factors.empty() ? 1 : factors[variable]);
            of_mean = room;
          }
          update<T>(variable, first, count, of_mean, copies);
        },
        helpers);
    clip_mean_rows(factors);
    end_update(mean_rows_);
    return true;
  }
  void apply_mean(std::span<const const_bytes> gradients) {
    std::vector<contribution> placed;
    std::vector<std::vector<detail::row_list>> lists(gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      read_rows(gradients[i], false, lists[i]);
      placed.push_back({packed(gradients[i]), 1});
      placed.back().gradients.rows = lists[i];
    }
    apply_mean(placed);
  }

  /// Returns true if the mean of some gradient is clipped by its norm, or by a norm that several gradients share.
  bool clips_by_norm() const {
    return std::any_of(order_.begin(), order_.end(), [&](std::size_t i) { return variables_[i].clipping.uses_norm(); });
  }
  /// Computes the sums of squares that determine the `factors` of apply_mean() for the same gradients. The sums do not
  /// depend on the number of threads.
  detail::mean_squares squares_of_mean(std::span<const contribution> of, thread_pool* helpers = nullptr,
                                       bool without_averaged = false) {
    const detail::gradient_mean mean(of);
    std::vector<std::vector<double>> pieces(ranges_.size());
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      pieces[i].resize((ranges_[i].elements + max_at_once - 1) / max_at_once);
    std::atomic<bool> finite{true};
    for_each_piece(
        [&]<typename T>(T, std::size_t variable, std::size_t first, std::size_t count) {
          if (without_averaged && is_averaged(variable)) return;
          alignas(64) T room[max_at_once];
          const T* const of_mean = mean.find(room, variable, first, count);
          if (!detail::all_finite(of_mean, count)) finite.store(false, std::memory_order_relaxed);
          pieces[variable][first / max_at_once] = detail::sum_of_squares(of_mean, count);
        },
        helpers);
    if (!find_mean_rows(of, mean.weights())) finite = false;
    detail::mean_squares found;
    found.is_finite = finite;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      double total = 0;
      if (ranges_[i].row_elements == 0)
        for (const double each : pieces[i]) total += each;
      else
        total = ranges_[i].type == element_type::float32 ? squares_of_rows<float>(i) : squares_of_rows<double>(i);
      found.of_variables.push_back(total);
    }
    return found;
  }
  /// Updates moving averages after a step that changes nothing, as a single process does.
  /// Averaged variables, which steps assign, change as well.
  void skip_update(std::span<const contribution> of, thread_pool* helpers = nullptr) {
    const detail::gradient_mean mean(of);
    begin_update(false);
    for_each_piece(
        [&]<typename T>(T, std::size_t variable, std::size_t first, std::size_t count) {
          if (!is_averaged(variable)) return;
          alignas(64) T room[max_at_once];
          update<T>(variable, first, count, mean.find(room, variable, first, count), {});
        },
        helpers);
    follow_all();
  }
  /// Updates loss scales after a step, whether or not its gradients were applied.
  void update_loss_scales(bool is_finite) {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (!variables_[ranges_[i].number].is_loss_scale()) continue;
      ranges_[i].type == element_type::float32 ? update_loss_scale<float>(i, is_finite)
                                               : update_loss_scale<double>(i, is_finite);
    }
  }
  /// Indices in variables() of this server's variables, in wire order.
  const std::vector<std::size_t>& order() const { return order_; }

  void copy_to(placed_bytes<std::byte> copy) {
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      std::memcpy(copy.base + copy.offsets[i], values_.data() + ranges_[i].offset,
                  ranges_[i].elements * size_of(ranges_[i].type));
  }

  void copy_from(placed_bytes<std::byte> source) {
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      std::memcpy(values_.data() + ranges_[i].offset, source.base + source.offsets[i],
                  ranges_[i].elements * size_of(ranges_[i].type));
  }

  /// The state of the values that a worker has: the number of row changes (row_changes::count()) of each variable.
  /// Empty: none.
  using knowledge = std::vector<std::uint64_t>;
  void note(knowledge& all) const {
    all.clear();
    for (const range& each : ranges_) all.push_back(each.changes.count());
  }

  /// Writes the rows that have changed since the state `since` to `message`. Returns false if all values are smaller,
  /// or if the changes are no longer remembered.
  bool changed_since(const knowledge& since, std::vector<std::byte>& message) {
    if (since.size() != ranges_.size()) return false;
    message.clear();
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const range& each = ranges_[i];
      if (each.row_elements == 0) continue;
      if (!each.changes.since(since[i], changed_)) return false;
      const std::size_t row = each.row_elements * size_of(each.type), at = message.size(), count = changed_.size();
      if (count * (8 + row) >= each.elements * size_of(each.type)) return false;
      message.resize(at + 8 + count * (8 + row));
      std::byte* numbers = message.data() + at;
      const auto size = static_cast<std::uint64_t>(count);
      std::memcpy(numbers, &size, 8);
      numbers += 8;
      if (count > 0) std::memcpy(numbers, changed_.data(), count * 8);
      for (std::size_t k = 0; k < count; ++k)
        std::memcpy(numbers + count * 8 + k * row,
                    values_.data() + each.offset + static_cast<std::size_t>(changed_[k]) * row, row);
    }
    return true;
  }
  /// Appends the values of whole variables, which precede the rows in a message.
  void whole_values(std::vector<const_bytes>& pieces) const {
    for (const range& each : ranges_)
      if (each.row_elements == 0) pieces.emplace_back(values_.data() + each.offset, each.elements * size_of(each.type));
  }
  /// Writes the rows that have changed since the state `since` to `copy`.
  void copy_rows_to(placed_bytes<std::byte> copy, const knowledge& since) {
    for (std::size_t i = 0; has_rows_ && i < ranges_.size(); ++i) {
      const range& each = ranges_[i];
      if (each.row_elements == 0) continue;
      const std::byte* const from = values_.data() + each.offset;
      std::byte* const to = copy.base + copy.offsets[i];
      const std::size_t row = each.row_elements * size_of(each.type);
      if (since.size() != ranges_.size() || !each.changes.since(since[i], changed_)) {
        std::memcpy(to, from, each.elements * size_of(each.type));
        continue;
      }
      for (const std::int64_t number : changed_)
        std::memcpy(to + static_cast<std::size_t>(number) * row, from + static_cast<std::size_t>(number) * row, row);
    }
  }

 private:
  struct range {
    std::size_t number;  // in the list of variables
    element_type type;
    std::size_t offset;  // bytes
    std::size_t elements;
    update_implementation code;
    std::vector<std::uint64_t> numbers;  // the hyperparameters, then the scalar slots as of the last update
    detail::aligned_bytes slots;         // array slots, one after another
    std::size_t row_elements = 0;        // 0: a whole variable
    detail::row_changes changes = {};
    detail::row_mean mean = {};

    const update_implementation::loops& loops() const {
      return type == element_type::float32 ? code.of_float : code.of_double;
    }
    std::size_t scalars() const { return code.layout->slots - code.layout->arrays(); }
    void fill_slots(const std::vector<double>& parameters) {
      double first[detail::max_slots];
      code.first_values(parameters, first);
      std::size_t array = 0, scalar = code.layout->hyperparameters;
      for (std::size_t k = 0; k < code.layout->slots; ++k)
        if (code.layout->is_scalar(k))
          numbers[scalar++] =
              detail::literal_bits(type == element_type::float32 ? static_cast<float>(first[k]) : first[k]);
        else if (type == element_type::float32)
          std::fill_n(reinterpret_cast<float*>(slots.data()) + elements * array++, elements,
                      static_cast<float>(first[k]));
        else
          std::fill_n(reinterpret_cast<double*>(slots.data()) + elements * array++, elements, first[k]);
    }
  };

  bool is_averaged(std::size_t variable) const { return variables_[ranges_[variable].number].is_averaged(); }
  const gradient_clipping& clipping_of(std::size_t variable) const {
    return variables_[ranges_[variable].number].clipping;
  }

  /// Computes the mean of the gradients that are lists of rows. Returns true if it is finite.
  bool find_mean_rows(std::span<const contribution> of, double weights) {
    bool finite = true;
    mean_rows_.assign(has_rows_ ? ranges_.size() : 0, {});
    for (std::size_t i = 0; i < mean_rows_.size(); ++i) {
      if (ranges_[i].row_elements == 0) continue;
      detail::row_mean& rows = ranges_[i].mean;
      finite &= ranges_[i].type == element_type::float32 ? rows.find<float>(i, ranges_[i].row_elements, of, weights)
                                                         : rows.find<double>(i, ranges_[i].row_elements, of, weights);
      mean_rows_[i] = rows.list();
    }
    return finite;
  }
  template <typename T>
  double squares_of_rows(std::size_t variable) const {
    const detail::row_list& list = mean_rows_[variable];
    return detail::sum_of_squares(reinterpret_cast<const T*>(list.rows), list.count * ranges_[variable].row_elements);
  }
  void clip_mean_rows(std::span<const double> factors) {
    for (std::size_t i = 0; i < mean_rows_.size(); ++i)
      if (const gradient_clipping& how = clipping_of(i);
          ranges_[i].row_elements > 0 && how.kind != detail::clip_kind::none)
        ranges_[i].mean.clip(ranges_[i].type == element_type::float64, ranges_[i].row_elements, how,
                             factors.empty() ? 1 : factors[i]);
  }

  /// Advances hyperparameters and scalar slots to the next update. If the step is not `counted`, advances only moving
  /// averages, whose schedules follow the number of updates after the step.
  void begin_update(bool counted = true) {
    for (range& each : ranges_) {
      if (variables_[each.number].is_loss_scale() || (!counted && !variables_[each.number].is_moving_average()))
        continue;
      for (const scheduled_parameter& s : variables_[each.number].rule.schedules) {
        const std::int64_t step = s.first + global_step_ - (counted ? 0 : 1);
        const double now = detail::schedule_at(s.numbers.data(), s.numbers.size(), step);
        each.numbers[s.parameter] = detail::literal_bits(now);
      }
      each.loops().advance(each.numbers.data());
    }
  }
  /// Completes an update after whole variables have been updated: updates the rows of the others, and moving averages.
  void end_update(std::span<const detail::row_list> rows) {
    for (std::size_t i = 0; has_rows_ && i < ranges_.size(); ++i) {
      if (ranges_[i].row_elements == 0) continue;
      if (ranges_[i].type == element_type::float32)
        update_rows<float>(i, rows[i]);
      else
        update_rows<double>(i, rows[i]);
    }
    follow_all();
    ++global_step_;
  }
  void follow_all() {
    for (const auto& [average, source] : moving_averages_)
      ranges_[source].type == element_type::float32 ? follow<float>(average, source) : follow<double>(average, source);
  }
  template <typename T>
  void update_loss_scale(std::size_t variable, bool is_finite) {
    const T& scale = *reinterpret_cast<const T*>(values_.data() + ranges_[variable].offset);
    const T before = scale, finite = is_finite ? 1 : 0;
    update<T>(variable, 0, 1, &finite, {});
    static constexpr std::int64_t row = 0;
    if (scale != before) ranges_[variable].changes.add({reinterpret_cast<const std::byte*>(&row), 1, nullptr}, 1);
  }
  /// Updates a moving average with the new value of its variable.
  template <typename T>
  void follow(std::size_t average, std::size_t source) {
    const range& of = ranges_[source];
    if (of.elements > 0) update<T>(average, 0, of.elements, reinterpret_cast<const T*>(values_.data() + of.offset), {});
  }

  template <typename T>
  void update(std::size_t variable, std::size_t first, std::size_t count, const T* gradient,
              std::span<const placed_bytes<std::byte>> copies) {
    range& each = ranges_[variable];
    const std::size_t arrays = 1 + each.code.layout->arrays();
    const void* in[detail::max_slots + 2] = {};
    void* out[detail::max_slots + 2];
    T* const values = reinterpret_cast<T*>(values_.data() + each.offset) + first;
    out[0] = values;
    for (std::size_t i = 1; i < arrays; ++i)
      out[i] = reinterpret_cast<T*>(each.slots.data()) + (i - 1) * each.elements + first;
    in[arrays] = gradient;
    const auto place = [&](const placed_bytes<std::byte>& copy) {
      return reinterpret_cast<T*>(copy.base + copy.offsets[variable]) + first;
    };
    if (!copies.empty()) {
      out[arrays] = place(copies[0]);
      each.loops().copying(in, out, count, each.numbers.data());
      copies = copies.subspan(1);
    } else {
      each.loops().plain(in, out, count, each.numbers.data());
    }
    for (const placed_bytes<std::byte>& copy : copies) std::memcpy(place(copy), values, count * sizeof(T));
  }

  template <typename T>
  void update_rows(std::size_t variable, const detail::row_list& list) {
    range& each = ranges_[variable];
    for (std::size_t k = 0; k < list.count; ++k)
      update<T>(variable, list.number(k) * each.row_elements, each.row_elements,
                reinterpret_cast<const T*>(list.rows) + k * each.row_elements, {});
    // Beyond twice this number, a message with all values is smaller.
    const std::size_t row = each.row_elements * size_of(each.type);
    const std::size_t enough = each.elements * size_of(each.type) / (8 + row) / 2 + 1;
    each.changes.add(list, enough);
  }

  static constexpr std::size_t max_kept_mean = 1 << 21;  // bytes; beyond the caches, computing it twice is no slower
  static constexpr std::size_t max_at_once = detail::gradient_mean::max_at_once;
  static constexpr std::size_t shared_at_once = 16 * max_at_once;

  /// Calls work(T{}, variable, first element, count) for all values of whole variables, piece by piece.
  template <typename Work>
  void for_each_piece(Work work, thread_pool* helpers = nullptr) {
    for (std::size_t variable = 0; variable < ranges_.size(); ++variable) {
      const range& all = ranges_[variable];
      if (all.row_elements > 0) continue;
      const auto part = [&](std::size_t number) {
        const std::size_t end = std::min(all.elements, (number + 1) * shared_at_once);
        for (std::size_t first = number * shared_at_once; first < end; first += max_at_once) {
          const std::size_t count = std::min(max_at_once, end - first);
          if (all.type == element_type::float32)
            work(float{}, variable, first, count);
          else
            work(double{}, variable, first, count);
        }
      };
      const std::size_t parts = (all.elements + shared_at_once - 1) / shared_at_once;
      if (helpers && parts > 1)
        helpers->parallel_for(parts, part);
      else
        for (std::size_t number = 0; number < parts; ++number) part(number);
    }
  }

  std::vector<range> ranges_;
  std::vector<parameter_spec> variables_;
  std::vector<std::size_t> order_, packed_;  // packed_: offsets of the gradients of whole variables
  std::size_t gradient_bytes_ = 0;
  bool has_rows_ = false;
  std::vector<std::pair<std::size_t, std::size_t>> moving_averages_;  // each average, and its variable
  std::vector<detail::row_list> mean_rows_;
  std::vector<std::int64_t> changed_;
  detail::segment_layout shared_;
  detail::aligned_bytes values_, kept_mean_;
  bool initialised_ = false;
  std::int64_t global_step_ = 0;
};

}  // namespace weft

#pragma pop_macro("slots")
