// SPDX-License-Identifier: BSL-1.0
#include "optimizers.hpp"

#include <charconv>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include <weft/distributed/parameter/update_rule.hpp>
#include <weft/train/all_optimizers.hpp>
#include <weft/train/decay.hpp>
#include <weft/train/schedules.hpp>

using namespace weft;

namespace {

using all_optimizers =
    std::tuple<gradient_descent, momentum, nesterov_momentum, adam, adamw, adamax, nadam, amsgrad, rmsprop,
               centered_rmsprop, adagrad, adadelta, ftrl, proximal_gradient_descent, proximal_adagrad, lars, lamb>;

/// Calls f with each of them.
template <class F>
void for_each_optimizer(F f) {
  std::apply([&](const auto&... each) { (f(each), ...); }, all_optimizers());
}

[[noreturn]] void refuse(const std::string& why) { throw error(error_code::invalid_argument, "", why); }

constexpr const char* schedules =
    "constant, exponential:0.96/1000, staircase:0.94/2epochs, natural_exp:0.5/1000, inverse_time:0.5/1000, "
    "piecewise:1000=0.5,2000=0.1, "
    "polynomial:5000/2, cosine:5000, cosine_restarts:1000, one_cycle:5000; warmup:500+ may precede any, and 5epochs "
    "stands for the steps of 5 epochs";

/// A schedule as it was written, number by number.
class schedule_reader {
 public:
  schedule_reader(const std::string& spec, std::int64_t steps_per_epoch)
      : spec_(spec), left_(spec), steps_per_epoch_(static_cast<double>(steps_per_epoch)) {}

  bool take(std::string_view word) {
    if (left_.substr(0, word.size()) != word) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  /// A whole name, behind which stands what belongs to it, or nothing.
  bool take_name(std::string_view name) {
    const std::size_t end = left_.find_first_of(":+");
    return left_.substr(0, end) == name && take(name);
  }
  double number() {
    double x = 0;
    const auto [end, problem] = std::from_chars(left_.data(), left_.data() + left_.size(), x);
    if (problem != std::errc() || !std::isfinite(x)) wrong();
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return x;
  }
  double steps() {
    constexpr double most = 1e15;
    const double given = number(), x = take("epochs") ? std::round(given * steps_per_epoch_) : given;
    if (!(given > 0 && x >= 1 && x <= most && std::floor(x) == x)) wrong();
    return x;
  }
  void expect(std::string_view word) {
    if (!take(word)) wrong();
  }
  void end() {
    if (!left_.empty()) wrong();
  }
  [[noreturn]] void wrong() const { refuse("--schedule is \"" + spec_ + "\"; it must be one of " + schedules); }

 private:
  const std::string& spec_;
  std::string_view left_;
  double steps_per_epoch_;
};

/// The schedule in numbers, before there is a graph.
struct schedule_plan {
  enum kind_type {
    constant,
    exponential,
    staircase,
    natural_exp,
    inverse_time,
    piecewise,
    polynomial,
    cosine,
    cosine_restarts,
    one_cycle
  } kind = constant;
  double warmup = 0, steps = 0, number = 0;  // steps 0: all of the run
  sequence<std::int64_t> boundaries;
  sequence<double> factors;

  bool is_number() const { return kind == constant && warmup == 0; }
};

void read_piecewise(schedule_reader& in, schedule_plan& plan) {
  plan.factors.push_back(1);
  do {
    plan.boundaries.push_back(static_cast<std::int64_t>(in.steps()));
    in.expect("=");
    plan.factors.push_back(in.number());
    const std::size_t n = plan.boundaries.size();
    if (n > 30 || (n > 1 && plan.boundaries[n - 2] >= plan.boundaries[n - 1])) in.wrong();
  } while (in.take(","));
}

schedule_plan read_schedule(const std::string& spec, std::int64_t steps_per_epoch) {
  schedule_plan plan;
  schedule_reader in(spec, steps_per_epoch);
  if (in.take("warmup:")) {
    plan.warmup = in.steps();
    if (!in.take("+")) return in.end(), plan;
  }
  const std::pair<const char*, schedule_plan::kind_type> decays[] = {{"exponential", schedule_plan::exponential},
                                                                     {"staircase", schedule_plan::staircase},
                                                                     {"natural_exp", schedule_plan::natural_exp},
                                                                     {"inverse_time", schedule_plan::inverse_time}};
  for (const auto& [name, kind] : decays)
    if (in.take_name(name)) {
      plan.kind = kind;
      in.expect(":");
      plan.number = in.number();
      in.expect("/");
      plan.steps = in.steps();
      return in.end(), plan;
    }
  if (in.take_name("piecewise")) {
    plan.kind = schedule_plan::piecewise;
    in.expect(":");
    read_piecewise(in, plan);
  } else if (in.take_name("polynomial")) {
    plan.kind = schedule_plan::polynomial;
    in.expect(":");
    plan.steps = in.steps();
    plan.number = in.take("/") ? in.number() : 1;
  } else if (in.take_name("cosine_restarts")) {
    plan.kind = schedule_plan::cosine_restarts;
    in.expect(":");
    plan.steps = in.steps();
  } else if (in.take_name("cosine") || in.take_name("one_cycle")) {
    plan.kind = spec.find("one_cycle") != std::string::npos ? schedule_plan::one_cycle : schedule_plan::cosine;
    if (in.take(":")) plan.steps = in.steps();
  } else {
    in.expect("constant");
  }
  return in.end(), plan;
}

node<double> schedule_of(const schedule_plan& plan, double rate, const variable_node<std::int64_t>& step, double all) {
  const double steps = plan.steps > 0 ? plan.steps : all;
  switch (plan.kind) {
    case schedule_plan::constant:
      break;
    case schedule_plan::exponential:
      return exponential_decay(rate, step, steps, plan.number);
    case schedule_plan::staircase:
      return exponential_decay(rate, step, steps, plan.number, true);
    case schedule_plan::natural_exp:
      return natural_exp_decay(rate, step, steps, plan.number);
    case schedule_plan::inverse_time:
      return inverse_time_decay(rate, step, steps, plan.number);
    case schedule_plan::piecewise: {
      sequence<double> values = plan.factors;
      for (double& x : values) x *= rate;
      return piecewise_constant(step, plan.boundaries, values);
    }
    case schedule_plan::polynomial:
      return polynomial_decay(rate, step, steps, 0, plan.number);
    case schedule_plan::cosine:
      return cosine_decay(rate, step, steps);
    case schedule_plan::cosine_restarts:
      return cosine_decay_restarts(rate, step, steps);
    case schedule_plan::one_cycle:
      return one_cycle(rate, step, steps);
  }
  return linear_warmup(rate, step, plan.warmup);
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for_each_optimizer([&](const auto& each) { names.emplace_back(each.name); });
  return names;
}

[[noreturn]] static void refuse_optimizer(const std::string& name) {
  refuse("unknown optimizer \"" + name + "\"; --help lists them");
}

double usual_rate(const std::string& optimizer) {
  double rate = 0;
  for_each_optimizer([&](const auto& each) {
    if (optimizer == each.name) rate = each.learning_rate.number();
  });
  if (rate == 0) refuse_optimizer(optimizer);
  return rate;
}

void add_update_rules() {
  for_each_optimizer([]<class Optimizer>(const Optimizer&) {
    // A server knows the three of weft.hpp from the beginning.
    if constexpr (!std::is_same_v<Optimizer, gradient_descent> && !std::is_same_v<Optimizer, momentum> &&
                  !std::is_same_v<Optimizer, adam>)
      update_rules::add<Optimizer>();
  });
}

void check_schedule(const std::string& spec) {
  constexpr std::int64_t some = 1000;  // the number of steps of an epoch is not known yet
  read_schedule(spec, some);
}

namespace {

/// Sets a hyperparameter that the optimizer may not have.
#define SET_HYPERPARAMETER(member)                                                     \
  if (recipe.member) {                                                                 \
    if constexpr (requires { to.member; })                                             \
      to.member = *recipe.member;                                                      \
    else                                                                               \
      refuse(std::string(Optimizer::name) + " has no hyperparameter \"" #member "\""); \
  }

template <class Optimizer>
void set_hyperparameters(Optimizer& to, const training_recipe& recipe){
    SET_HYPERPARAMETER(momentum) SET_HYPERPARAMETER(decay) SET_HYPERPARAMETER(epsilon)}
#undef SET_HYPERPARAMETER

/// The gradients of all variables, those of kernels with their decay.
variable_gradients<float> gradients_of(const node<float>& loss, double weight_decay) {
  variable_gradients<float> all = compute_gradients(loss);
  if (weight_decay == 0) return all;
  variable_gradients<float> decayed, others;
  for (const auto& each : all) (each.variable.extents().rank > 1 ? decayed : others).pairs.push_back(each);
  if (decayed.size() > 0) decayed = add_l2(decayed, weight_decay);
  for (const auto& each : others) decayed.pairs.push_back(each);
  return decayed;
}

}  // namespace

training minimize(const training_recipe& recipe, const node<float>& loss) {
  const schedule_plan plan = read_schedule(recipe.schedule, recipe.steps_per_epoch);
  graph& g = graph_of(loss);
  std::optional<variable_node<std::int64_t>> counter;
  training made{effect(symbol()), {}};
  if (recipe.counts_steps || !plan.is_number()) counter = global_step(g);
  if (!plan.is_number()) {
    made.rate = schedule_of(plan, recipe.rate, *counter, static_cast<double>(recipe.steps));
    if (plan.warmup > 0 && plan.kind != schedule_plan::constant) made.rate = linear_warmup(*made.rate, plan.warmup);
  }
  const variable_gradients<float> gradients = gradients_of(loss, recipe.weight_decay);
  bool found = false;
  for_each_optimizer([&](auto each) {
    if (recipe.optimizer != each.name) return;
    found = true;
    each.learning_rate = made.rate ? hyperparameter(*made.rate) : hyperparameter(recipe.rate);
    set_hyperparameters(each, recipe);
    made.step = counter ? apply_gradients(each, gradients, *counter) : apply_gradients(each, gradients);
  });
  if (!found) refuse_optimizer(recipe.optimizer);
  return made;
}
