#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/distributed/all_reduce.hpp>
#include <weft/distributed/gradient_buffers.hpp>
#include <weft/distributed/server.hpp>
#include <weft/distributed/shared_variables.hpp>
#include <weft/distributed/strategy.hpp>

namespace weft::detail {

/// How a replicated session trains where every worker has all variables: a group forms the mean of all workers'
/// gradients, and each worker runs the graph's own updates on it. A gradient that is rows is summed as a whole, and
/// beside it one number for each row, which says whether somebody has a gradient of it. `Group` is a basic_all_reduce,
/// or has its rank(), size(), shared_block(), sum() and mean().
template <class Group, transport T, typename Clock>
class all_reduce_exchange {
 public:
  using deadline_type = basic_deadline<Clock>;

  /// Meets the other workers.
  all_reduce_exchange(basic_server<T, Clock>& here, shared_variables& variables, const graph_identity& identity,
                      deadline_type until)
      : here_(here), variables_(variables), local_(variables.local()), gradients_(variables) {
    for (std::size_t i = 0; i < variables.trained(); ++i) variables.check_hyperparameters(i);
    lay_out_gradients();
    here.with_reason([&] { here.members().wait_for(until, [](const task_id&) { return true; }); });
    all_reduce_options options;
    options.job = here.job();
    group_.emplace(here, identity, options, until);
    examples_.assign(group_->size(), 0);
    gradients_.make_blocks([&](std::size_t bytes) { return group_->shared_block(bytes, until); });
  }

  bool is_chief() const { return group_->rank() == 0; }
  gradient_buffers& gradients() { return gradients_; }

  /// A step has brought its gradients.
  void take_gradients() {
    gradients_.for_each_by_rows([&](std::size_t i, std::size_t part, std::size_t end) {
      // Behind the gradient itself come the numbers of its rows.
      variables_[i].is_double() ? note_touched<double>(i, part + 1, end) : note_touched<float>(i, part + 1, end);
    });
    variables_.note_additions(gradients_.all());
  }

  /// Forms the means and makes the update. `examples`: of how many the gradients are the mean; 0 where they are none.
  /// `repeated`: the last update has run out of time, and this call goes on with it.
  void update(deadline_type until, std::uint32_t examples, bool repeated) {
    if (stage_ == stage::begun) {
      if (unit_ == 0) {  // what counts 1, for all: the first batch of the first worker that has one
        if (!repeated) examples_[group_->rank()] = examples;
        group_->sum(std::span<double>(examples_), until);
        for (const double each : examples_)
          if (unit_ == 0) unit_ = each;
        if (unit_ == 0) unit_ = 1;
      }
      stage_ = stage::floats;
    }
    const double weight = examples / unit_;
    if (stage_ == stage::floats) {
      average<float>(until, weight);
      stage_ = stage::doubles;
    }
    average<double>(until, weight);
    stage_ = stage::begun;
    if (took_part_ == 0) return;
    apply();
    variables_.global_step = ++next_step_;
  }
  void abandon_update() { stage_ = stage::begun; }

  /// Every worker has the values of the last step.
  void refresh(deadline_type) {}

  /// Takes part in the others' updates until all have come here. `unfinished`: the examples of an update that has run
  /// out of time; `update(until, examples)` makes one, or goes on with it.
  template <class Update, class Last>
  void finish(deadline_type until, std::optional<std::uint32_t> unfinished, const Update& update, Last last) {
    const auto time_for_each = until.remaining();
    took_part_ = 1;
    if (unfinished) update(time_for_each, *unfinished);
    while (took_part_ > 0) {
      for (const bool is_double : {false, true})
        if (const mutable_bytes block = gradients_.block(is_double); !block.empty())
          __builtin_memset(block.data(), 0, block.size());
      update(time_for_each, 0);
    }
    if constexpr (!std::is_same_v<Last, std::nullptr_t>) last();
  }

  // ---- checkpoints ----

  /// The chief's variables become those of all.
  template <class Load>
  std::int64_t restore(Load& load, deadline_type until) {
    std::optional<cluster_state> at;
    if (is_chief()) at = load();
    if (at) at = variables_.adopt_step(*at);
    double front[] = {0, 0, 0, 0};
    if (at) {
      front[0] = 1;
      front[1] = static_cast<double>(at->global_step);
      front[2] = at->unit;
      front[3] = static_cast<double>(local_.step_number());
    }
    group_->sum(std::span<double>(front), until);
    if (front[0] == 0) return -1;
    const graph& g = variables_.of();
    std::vector<std::byte> bytes;
    for (std::uint32_t n = 0; n < g.size(); ++n) {
      if (g[n].def.op != &operation_of<variable_op>) continue;
      bytes.assign(local_.variable_info(n).bytes() + 1, {});
      if (is_chief()) {
        local_.read_variable(n, bytes.data());
        bytes.back() = static_cast<std::byte>(local_.state_of(n).initialized);
      }
      broadcast(bytes, until);
      if (is_chief()) continue;
      local_.write_variable(n, bytes.data());
      local_.state_of(n).initialized = bytes.back() != std::byte{0};
    }
    variables_.read_bases();
    next_step_ = variables_.global_step = static_cast<std::int64_t>(front[1]);
    unit_ = front[2];
    if (!is_chief()) local_.set_step_number(static_cast<std::int64_t>(front[3]));
    variables_.set_counters();
    return variables_.global_step;
  }

  cluster_state collect(deadline_type) {
    return {variables_.global_step, next_step_ - 1, static_cast<std::uint32_t>(unit_)};
  }

 private:
  void lay_out_gradients() {
    touched_.resize(variables_.trained());
    for (std::size_t i = 0; i < variables_.first_frozen(); ++i) {
      const shared_variable& v = variables_[i];
      gradients_.take_room(i);
      if (i >= variables_.trained()) continue;
      gradients_.fetch_whole(i);
      if (!v.has_rows()) continue;
      touched_[i].offset = gradients_.take_room(v.is_double(), v.rows * size_of(v.type));
      for (std::size_t k = 1; k < v.lists.size(); k += 2) gradients_.fetch_list(i, k);
    }
  }

  template <class Element>
  void average(deadline_type until, double weight) {
    const std::span<Element> block = gradients_.template block<Element>();
    if (block.empty()) return;
    const mean_report made = group_->mean(block, until, reduce_algorithm::automatic, weight);
    took_part_ = made.weights;
    if (!made.finite && made.weights != 0 && here_.options().not_finite != nonfinite_gradients::apply)
      refuse(made, sizeof(Element));
  }

  /// All workers have the same mean, and all throw or none does.
  void refuse(const mean_report& made, std::size_t element_bytes) const {
    const std::size_t at = made.element * element_bytes;
    const std::size_t i = gradients_.variable_at(element_bytes == sizeof(double), at);
    if (i == variables_.size()) return;
    if (!made.rank)
      throw error(error_code::invalid_argument, "exchange",
                  {"the mean of the workers' gradients of '", variables_[i].name, "' is not finite in step ",
                   next_step_, ", though each of them is; lower the learning rate"});
    throw nonfinite_gradient("exchange", to_string(task_id{here_.job(), static_cast<int>(*made.rank)}),
                             variables_[i].name, (at - gradients_.offset_of(i)) / element_bytes, next_step_);
  }

  /// Runs the graph's own updates on the gradients that were agreed on.
  void apply() {
    variables_.set_counters();  // as they were before the step: schedules go by them
    if (!apply_) plan_updates();
    for (std::size_t i = 0; i < variables_.trained(); ++i)
      if (variables_[i].has_rows()) variables_[i].is_double() ? find_touched<double>(i) : find_touched<float>(i);
    apply_->run(fed_.data(), [](std::size_t, const shape&) -> void* { return nullptr; });
    for (std::size_t i = variables_.trained(); i < variables_.first_frozen(); ++i)
      variables_.add_to_averaged(i, gradients_[i]);
  }

  void plan_updates() {
    plan::step_request updates;
    for (std::size_t i = 0; i < variables_.trained(); ++i) {
      const shared_variable& v = variables_[i];
      updates.targets.push_back(v.has_rows() ? v.summed : v.update);
      updates.feeds.push_back(v.gradient);
      fed_.push_back({gradients_[i].data(), local_.variable_info(v.node).extents});
      if (!v.has_rows()) continue;
      touched_[i].rows.resize(v.rows);
      updates.feeds.push_back(v.touched_rows);
      fed_.push_back({touched_[i].rows.data(), shape(static_cast<std::int64_t>(v.rows))});
    }
    apply_.emplace(local_, std::move(updates));
  }

  // ---- rows ----

  /// Which rows of a gradient some worker has brought.
  struct touched_rows {
    std::size_t offset = 0;          // where the block says it of each row
    std::vector<std::int64_t> rows;  // the number of each that it has, or -1
  };

  template <class Element>
  Element* touched_of(std::size_t i) {
    return reinterpret_cast<Element*>(gradients_.block(sizeof(Element) == 8).data() + touched_[i].offset);
  }
  template <class Element>
  void note_touched(std::size_t i, std::size_t part, std::size_t end) {
    Element* const touched = touched_of<Element>(i);
    for (std::size_t r = 0; r < variables_[i].rows; ++r) touched[r] = 0;
    for (; part < end; ++part) {
      const gradient_buffers::part& list = gradients_.parts()[part];
      const auto* const numbers = reinterpret_cast<const std::int64_t*>(list.came.data());
      for (std::size_t k = 0; k < list.count; ++k)
        if (numbers[k] >= 0) touched[numbers[k]] = 1;
    }
  }
  template <class Element>
  void find_touched(std::size_t i) {
    const Element* const touched = touched_of<Element>(i);
    touched_[i].rows.resize(variables_[i].rows);
    for (std::size_t r = 0; r < variables_[i].rows; ++r)
      touched_[i].rows[r] = touched[r] > 0 ? static_cast<std::int64_t>(r) : -1;
  }

  /// The chief's bytes become those of all: a sum of numbers of 48 bits each, to which the others add nothing.
  void broadcast(std::span<std::byte> bytes, deadline_type until) {
    constexpr std::size_t in_one = 6;
    words_.assign((bytes.size() + in_one - 1) / in_one, 0);
    const auto each = [&](auto use) {
      for (std::size_t k = 0; k < words_.size(); ++k)
        use(words_[k], bytes.subspan(k * in_one).first(std::min(in_one, bytes.size() - k * in_one)));
    };
    std::uint64_t bits = 0;
    if (is_chief())
      each([&](double& word, std::span<std::byte> of) {
        bits = 0;
        __builtin_memcpy(&bits, of.data(), of.size());
        word = static_cast<double>(bits);
      });
    group_->sum(std::span<double>(words_), until);
    each([&](double word, std::span<std::byte> of) {
      bits = static_cast<std::uint64_t>(word);
      __builtin_memcpy(of.data(), &bits, of.size());
    });
  }

  basic_server<T, Clock>& here_;
  shared_variables& variables_;
  session& local_;
  gradient_buffers gradients_;
  std::vector<touched_rows> touched_;  // of each variable that is trained
  std::optional<Group> group_;
  std::optional<prepared_step> apply_;
  std::vector<plan::fed_value> fed_;
  std::int64_t next_step_ = 0;
  std::vector<double> words_;  // on their way from the chief

  // An update that has run out of time is repeated, and goes on where it was.
  enum class stage : unsigned char { begun, floats, doubles };
  stage stage_ = stage::begun;
  std::vector<double> examples_;  // of each worker's first batch
  double unit_ = 0;               // the batch that counts 1
  double took_part_ = 0;          // the weights of all workers in the last update
};

template <class Strategy, transport T, typename Clock>
requires requires { typename Strategy::template group<T, Clock>; }
struct exchange_of<Strategy, T, Clock> {
  using type = all_reduce_exchange<typename Strategy::template group<T, Clock>, T, Clock>;
};

}  // namespace weft::detail
