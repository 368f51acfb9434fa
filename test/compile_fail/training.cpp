// SPDX-License-Identifier: BSL-1.0
#include <weft/train/accumulation.hpp>
#include <weft/train/hooks.hpp>
#include <weft/train/loss_scale.hpp>
#include <weft/train/moving_average.hpp>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case accumulate_loss: The loss is passed instead of its gradients.
// error: changed_value_is_not_a_gradient
// error: accumulate_gradients: pass the result of compute_gradients\(\)
graph g;
auto w = variable<float, dims<3>>(g, "w");
auto loss = sum(square(w));
auto sums = accumulate_gradients(loss);                     // wrong
auto sums = accumulate_gradients(compute_gradients(loss));  // right

// case average_misspelt: A misspelt member of a moving average.
// error(clang++): field designator 'decy' does not refer to any field in type
// error(g++): 'weft::exponential_moving_average' has no non-static data member named 'decy'
graph g;
auto w = variable<float>(g, "w");
auto train = adam{}.minimize(w * w);
auto averages = exponential_moving_average{.decy = 0.9}.apply(train);   // wrong
auto averages = exponential_moving_average{.decay = 0.9}.apply(train);  // right

// case call_every_function: The function lacks the parameters of a hook.
// error(clang++): no matching function for call to 'call_every'
// error(g++): could not convert '<lambda closure object>main\(\)::<lambda\(\)>\(\)' from 'main\(\)::<lambda\(\)>' to
auto hook = call_every({.steps = 10}, [] {});                                    // wrong
auto hook = call_every({.steps = 10}, [](run_control&, const step_report&) {});  // right

// case cosine_no_step: The step is missing.
// error: \(learning_rate, global_step\(g\), decay_steps, alpha\)
graph g;
auto n = global_step(g);
auto rate = cosine_decay(0.1, 100);     // wrong
auto rate = cosine_decay(0.1, n, 100);  // right

// case decay_no_step: The step is missing.
// error: \(learning_rate, global_step\(g\), decay_steps, decay_rate, staircase\)
graph g;
auto n = global_step(g);
auto rate = exponential_decay(0.1, 100, 0.9);     // wrong
auto rate = exponential_decay(0.1, n, 100, 0.9);  // right

// case early_stop_misspelt: A misspelt option of early_stop.
// error(clang++): no matching function for call to 'early_stop'
// error(g++): could not convert '\{3\}' from '<brace-enclosed initializer list>' to 'weft::early_stop_options'
auto hook = early_stop({.steps = 10}, [] { return 1.0; }, {.patient = 3});   // wrong
auto hook = early_stop({.steps = 10}, [] { return 1.0; }, {.patience = 3});  // right

// case global_step_no_graph: The graph is missing.
// error(clang++): no matching function for call to 'global_step'
// error(g++): too few arguments to function 'weft::variable_node<long int(, weft::dims<>, weft::cpu)?> weft::global_step\(graph&\)'
graph g;
auto n = global_step();   // wrong
auto n = global_step(g);  // right

// case log_every_misspelt: A misspelt member of every.
// error(clang++): no matching function for call to 'log_every'
// error(g++): could not convert '\{200\}' from '<brace-enclosed initializer list>' to 'weft::every'
graph g;
auto w = variable<float>(g, "w");
auto hook = log_every({.step = 200}, {{w.id(), "w"}});   // wrong
auto hook = log_every({.steps = 200}, {{w.id(), "w"}});  // right

// case log_every_number: The number of steps lacks its name.
// error(clang++): no matching function for call to 'log_every'
// error(g++): could not convert '200' from 'int' to 'weft::every'
graph g;
auto w = variable<float>(g, "w");
auto hook = log_every(200, {{w.id(), "w"}});             // wrong
auto hook = log_every({.steps = 200}, {{w.id(), "w"}});  // right

// case loss_scale_gradients: The gradients come before the optimizer.
// error: optimizer_does_not_come_first
// error: loss_scale: pass the optimizer first: scale.apply_gradients\(adam\{\}, gradients\)
graph g;
auto w = variable<float>(g, "w");
loss_scale scale(g, dynamic_loss_scale{});
auto gradients = scale.compute_gradients(w * w);
auto train = scale.apply_gradients(gradients, adam{});  // wrong
auto train = scale.apply_gradients(adam{}, gradients);  // right

// case loss_scale_number: The scale is a number.
// error: scale_is_not_fixed_or_dynamic
// error: loss_scale: pass a kind of scale: loss_scale scale\(g, dynamic_loss_scale\{\}\)
graph g;
loss_scale scale(g, 1024);                    // wrong
loss_scale scale(g, fixed_loss_scale{1024});  // right

// case loss_scale_optimizer: The loss comes before the optimizer.
// error: optimizer_does_not_come_first
// error: loss_scale: pass the optimizer first: scale.minimize\(adam\{\}, loss\)
graph g;
auto w = variable<float>(g, "w");
auto loss = let(w * w);
loss_scale scale(g, dynamic_loss_scale{});
auto train = scale.minimize(loss, adam{});  // wrong
auto train = scale.minimize(adam{}, loss);  // right

// case moving_average: The averages lack the training step, as in TensorFlow.
// error: average_does_not_name_the_training
// error: exponential_moving_average: pass the training effect first, then float or double variables as
graph g;
auto w = variable<float>(g, "w");
auto train = adam{}.minimize(w * w);
auto averages = exponential_moving_average{.decay = 0.99}.apply(w);         // wrong
auto averages = exponential_moving_average{.decay = 0.99}.apply(train, w);  // right

// case moving_average_count: The number of updates is not in the graph.
// error: count_is_not_a_scalar_node
// error: num_updates: must be a scalar of the graph that counts updates, such as global_step\(g\)
graph g;
auto w = variable<float>(g, "w");
auto train = adam{}.minimize(w * w, global_step(g));
auto averages = exponential_moving_average{.num_updates = 100}.apply(train);             // wrong
auto averages = exponential_moving_average{.num_updates = global_step(g)}.apply(train);  // right

// case moving_average_value: The averaged value is not a variable.
// error: averaged_value_is_not_a_variable
// error: exponential_moving_average: pass the training effect first, then float or double variables as
graph g;
auto w = variable<float>(g, "w");
auto loss = let(w * w);
auto train = adam{}.minimize(loss);
auto averages = exponential_moving_average{}.apply(train, loss);  // wrong
auto averages = exponential_moving_average{}.apply(train, w);     // right

// case nan_guard_text: The name of a node instead of the node.
// error: a scalar node, a name and what it does: nan_guard\(loss, "cost", on_nan::stops\)
graph g;
auto w = variable<float>(g, "w");
auto hook = nan_guard("w");  // wrong
auto hook = nan_guard(w);    // right

// case one_cycle_misspelt: A misspelt option of one_cycle.
// error: one_cycle_options: rising, div_factor, final_div_factor, linear, three_phase
graph g;
auto n = global_step(g);
auto rate = one_cycle(0.1, n, 500, {.div_facter = 10});  // wrong
auto rate = one_cycle(0.1, n, 500, {.div_factor = 10});  // right

// case piecewise_no_step: The step is missing.
// error: \(global_step\(g\), \{100, 200\}, \{0\.1, 0\.01, 0\.001\}\)
graph g;
auto n = global_step(g);
auto rate = piecewise_constant({100, 200}, {0.1, 0.01, 0.001});     // wrong
auto rate = piecewise_constant(n, {100, 200}, {0.1, 0.01, 0.001});  // right

// case polynomial_no_step: The step is missing.
// error: \(learning_rate, global_step\(g\), decay_steps, end_learning_rate, power\)
graph g;
auto n = global_step(g);
auto rate = polynomial_decay(0.1, 100);     // wrong
auto rate = polynomial_decay(0.1, n, 100);  // right

// case schedule_by_float: The step is a float.
// error: step_is_not_an_integer
// error: a schedule requires an integer scalar of the graph, such as global_step\(g\)
graph g;
auto steps = variable<float>(g, "steps", 0.0f, variable_kind::counter);      // wrong
auto steps = variable<std::int32_t>(g, "steps", 0, variable_kind::counter);  // right
auto rate = exponential_decay(0.1, steps, 1000, 0.96);

// case warmup_alone: The step is missing.
// error: \(schedule, steps, first\), or \(learning_rate, global_step\(g\), steps, first\)
graph g;
auto n = global_step(g);
auto rate = linear_warmup(0.1, 500);     // wrong
auto rate = linear_warmup(0.1, n, 500);  // right
