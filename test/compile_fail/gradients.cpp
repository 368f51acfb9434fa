// SPDX-License-Identifier: BSL-1.0
#include <weft/train/clipping.hpp>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case apply_gradients: A gradient has other extents than its variable.
// error: applied_value_is_not_a_gradient
// error: apply_gradients: pass the result of compute_gradients\(\)
graph g;
auto w = variable<float, dims<3>>(g, "w");
auto [of_w] = compute_gradients(sum(w * w), w);
auto train = apply_gradients(adam{}, variable_gradient{sum(of_w.gradient), w});    // wrong
auto train = apply_gradients(adam{}, variable_gradient{2.0f * of_w.gradient, w});  // right

// case apply_gradients_alone: Gradients without their variables.
// error: applied_value_is_not_a_gradient
// error: apply_gradients: pass the result of compute_gradients\(\); each gradient must be an expression
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
auto loss = mean(square(matmul(x, w)));
auto train = adam{}.apply_gradients(gradients(loss, w));          // wrong
auto train = adam{}.apply_gradients(compute_gradients(loss, w));  // right

// case clip_global_norm: The loss is passed instead of its gradients.
// error: changed_value_is_not_a_gradient
// error: clip_by_global_norm: pass the result of compute_gradients\(\)
graph g;
auto w = variable<float, dims<3>>(g, "w");
auto loss = sum(square(w));
auto clipped = clip_by_global_norm(loss, 1.0);                        // wrong
auto clipped = clip_by_global_norm(compute_gradients(loss, w), 1.0);  // right

// case clip_no_norm: Clipping without a norm.
// error: \(compute_gradients\(loss, w, b\), 1\.0\)
graph g;
auto w = variable<float>(g, "w");
auto grads = clip_by_global_norm(compute_gradients(w * w));       // wrong
auto grads = clip_by_global_norm(compute_gradients(w * w), 1.0);  // right

// case clip_value_once: One bound instead of two.
// error: \(compute_gradients\(loss, w\), -1\.0, 1\.0\), or \(x, -1\.0f, 1\.0f\)
graph g;
auto w = variable<float>(g, "w");
auto grads = clip_by_value(compute_gradients(w * w), 1.0);        // wrong
auto grads = clip_by_value(compute_gradients(w * w), -1.0, 1.0);  // right

// case clip_variables: Variables instead of gradients, as in torch.nn.utils.clip_grad_norm_.
// error: changed_value_is_not_a_gradient
// error: global_norm: pass the result of compute_gradients\(\)
graph g;
auto w = variable<float, dims<3>>(g, "w");
auto b = variable<float>(g, "b");
auto [of_w, of_b] = compute_gradients(sum(square(w)) * b, w, b);
auto norm = global_norm(std::tuple{w, b});        // wrong
auto norm = global_norm(std::tuple{of_w, of_b});  // right

// case compute_gradients_list: The variables are in braces.
// error(clang++): no matching function for call to 'compute_gradients'
// error(g++): too many arguments to function 'auto weft::compute_gradients\(const Expr&, const V& \.\.\.\) \[with
graph g;
auto w = variable<float>(g, "w");
auto v = variable<float>(g, "v");
auto grads = compute_gradients(w * v, {w, v});  // wrong
auto grads = compute_gradients(w * v, w, v);    // right

// case compute_gradients_placeholder: The gradient with respect to a placeholder.
// error: trained_value_is_not_a_variable
// error: minimize: the loss must be a float or double scalar in a graph, use mean\(\) or sum\(\);
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
auto loss = mean(square(matmul(x, w)));
auto train = compute_gradients(loss, x);  // wrong
auto train = compute_gradients(loss, w);  // right

// case freeze_expression: The operand is an expression.
// error: frozen_value_is_not_a_variable
// error: freeze: takes variables, one by one
graph g;
auto w = variable<float, dims<3>>(g, "w");
freeze(w * 2.0f);  // wrong
freeze(w);         // right

// case gradient_of_a_counter: The gradient with respect to a step counter.
// error: counter_has_no_gradient
// error: minimize: the loss must be a float or double scalar in a graph
graph g;
auto w = variable<float>(g, "w", 1.0f);
auto step = global_step(g);
auto pairs = compute_gradients(w * w, w, step);                                      // wrong
auto train = gradient_descent{}.apply_gradients(compute_gradients(w * w, w), step);  // right

// case gradient_of_tensor: The gradient of a tensor outside of a graph.
// error: value_not_in_a_graph
// error: dims<3>
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
tensor<float, dims<3>> t;
auto [dx] = gradients(t, x);  // wrong
auto [dx] = gradients(x, x);  // right

// case gradients_list: The xs are in braces.
// error: y, and the xs one by one: auto \[dw, db\] = gradients\(loss, w, b\)
graph g;
auto w = variable<float>(g, "w");
auto b = variable<float>(g, "b");
auto slopes = gradients(w * b, {w, b});  // wrong
auto slopes = gradients(w * b, w, b);    // right

// case gradients_not_bound: The tuple of gradients is used as a node.
// error: operand_is_not_a_tensor
// error: operator\*: takes tensors, nodes and numbers: tensor<T, dims<\.\.\.>>\{\.\.\.\}; unpack gradients with auto
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
auto loss = mean(square(matmul(x, w)));
auto dw = gradients(loss, w);    // wrong
auto y = dw * 2;                 // wrong
auto [dw] = gradients(loss, w);  // right
auto y = dw * 2;                 // right

// case gradients_of_loss_only: The xs are missing.
// error: gradients: pass the xs after y, one by one: auto \[dw, db\] = gradients\(loss, w, b\);
graph g;
auto w = variable<float>(g, "w");
auto loss = w * w;
auto dw = gradients(loss);       // wrong
auto [dw] = gradients(loss, w);  // right

// case gradients_swapped_list: The y is in braces.
// error: y, and the xs one by one: auto \[dw, db\] = gradients\(loss, w, b\)
graph g;
auto w = variable<float>(g, "w");
auto loss = w * w;
auto [dw] = gradients({loss}, w);  // wrong
auto [dw] = gradients(loss, w);    // right

// case half_loss: The gradient of a value of a storage type.
// error: not_floating
// error: bfloat16
graph g;
auto x = placeholder<bfloat16, dims<3, 3>>(g, "x");
auto y = matmul(x, x);               // wrong
auto y = cast<float>(matmul(x, x));  // right
auto [dx] = gradients(y, x);

// case integer_gradient: The gradient with respect to integers.
// error: gradient_of_non_floating
// error: int
graph g;
auto x = placeholder<int, dims<3>>(g, "x");    // wrong
auto x = placeholder<float, dims<3>>(g, "x");  // right
auto y = sum(cast<float>(x) * 2);
auto [dx] = gradients(y, x);

// case member_backward: backward(), as in PyTorch.
// error: no member named 'backward'
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto loss = sum(x);
loss.backward();                 // wrong
auto [dx] = gradients(loss, x);  // right

// case stop_gradient_two: Two operands.
// error: arguments_are_not_taken
// error: stop_gradient: takes one argument
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = stop_gradient(x, x);  // wrong
auto y = stop_gradient(x);     // right
