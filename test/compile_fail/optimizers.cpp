// SPDX-License-Identifier: BSL-1.0
#include <weft/weft.hpp>
using namespace weft;

// case adam_betas: A hyperparameter under PyTorch's name.
// error(clang++): field designator 'betas' does not refer to any field in type '(weft::)?adam'
// error(g++): 'weft::adam' has no non-static data member named 'betas'
graph g;
auto w = variable<float>(g, "w");
auto train = adam{.betas = {0.9, 0.99}}.minimize(w * w);         // wrong
auto train = adam{.beta1 = 0.9, .beta2 = 0.99}.minimize(w * w);  // right

// case hyperparameter_tensor: The learning rate is a tensor outside of a graph.
// error: value_not_in_a_graph
// error: an optimizer's hyperparameter must be a number, or a scalar of the graph
graph g;
auto w = variable<float, dims<3>>(g, "w");
tensor<float> rate = 0.5f;
auto train = momentum{.learning_rate = rate}.minimize(sum(w));    // wrong
auto train = momentum{.learning_rate = rate()}.minimize(sum(w));  // right

// case hyperparameter_vector: The learning rate is not a scalar.
// error: hyperparameter_is_not_scalar<weft::dims<3>
// error: an optimizer's hyperparameter must be a number, or a scalar of the graph
graph g;
auto w = variable<float, dims<3>>(g, "w");
auto rates = placeholder<float, dims<3>>(g, "rates");
auto rate = placeholder<float>(g, "rate");
auto train = momentum{.learning_rate = rates}.minimize(sum(w));        // wrong
auto train = momentum{.learning_rate = rate * 0.5f}.minimize(sum(w));  // right

// case minimize: The loss is not a scalar.
// error: minimized_value_is_not_scalar
// error: dims<10>|10
// error: the loss must be a float or double scalar in a graph, use mean\(\) or sum\(\)
graph g;
auto w = variable<float, dims<10>>(g, "w", init::ones{});
auto train = gradient_descent{}.minimize(w * w);       // wrong
auto train = gradient_descent{}.minimize(sum(w * w));  // right

// case minimize_effect: The loss is an effect.
// error: minimized_value_is_not_a_node
// error: minimize: the loss must be a float or double scalar in a graph
graph g;
auto w = variable<float>(g, "w");
auto train = gradient_descent{}.minimize(w * w);
auto again = gradient_descent{}.minimize(train);  // wrong
auto again = gradient_descent{}.minimize(w * w);  // right

// case minimize_free: minimize() without an optimizer.
// error: takes an optimizer first: minimize\(adam\{\}, loss\), or adam\{\}\.minimize\(loss\)
graph g;
auto w = variable<float>(g, "w");
auto loss = w * w;
auto train = minimize(loss);                      // wrong
auto train = minimize(gradient_descent{}, loss);  // right

// case minimize_list: The variables are in braces.
// error: trained_value_is_not_a_variable
// error: minimize: pass variables after the loss as separate arguments: minimize\(loss, w, b\)
graph g;
auto w = variable<float>(g, "w");
auto b = variable<float>(g, "b");
auto train = gradient_descent{}.minimize(w * b, {w, b});  // wrong
auto train = gradient_descent{}.minimize(w * b, w, b);    // right

// case minimize_loss_first: The loss comes before the optimizer.
// error: takes an optimizer first: minimize\(adam\{\}, loss\), or adam\{\}\.minimize\(loss\)
graph g;
auto w = variable<float>(g, "w");
auto train = minimize(square(w), adam{});  // wrong
auto train = minimize(adam{}, square(w));  // right

// case minimize_no_loss: The loss is missing.
// error: minimized_value_is_not_a_node
// error: minimize: the loss must be a float or double scalar in a graph, use mean\(\) or sum\(\);
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
auto loss = mean(square(matmul(x, w)));
auto train = gradient_descent{.learning_rate = 0.1f}.minimize();      // wrong
auto train = gradient_descent{.learning_rate = 0.1f}.minimize(loss);  // right

// case minimize_other_type: A variable has another element type than the loss.
// error: trained_value_is_not_a_variable
// error: minimize: the loss must be a float or double scalar in a graph
graph g;
auto w = variable<double>(g, "w");
auto loss = cast<float>(w * w);
auto train = gradient_descent{}.minimize(loss, w);                // wrong
auto train = gradient_descent{}.minimize(cast<double>(loss), w);  // right

// case minimize_placeholder: A placeholder among the variables.
// error: trained_value_is_not_a_variable
// error: minimize: the loss must be a float or double scalar in a graph
graph g;
auto w = variable<float>(g, "w");
auto x = placeholder<float>(g, "x");
auto train = gradient_descent{}.minimize(w * x, x);  // wrong
auto train = gradient_descent{}.minimize(w * x, w);  // right

// case minimize_rate: The learning rate is an argument of minimize().
// error: trained_value_is_not_a_variable
// error: <double, float>
// error: minimize: the loss must be a float or double scalar in a graph
graph g;
auto w = variable<float>(g, "w");
auto train = gradient_descent{}.minimize(w * w, 0.1);  // wrong
auto train = gradient_descent{0.1}.minimize(w * w);    // right

// case minimize_scope_text: The variables are given by the name of their scope.
// error: trained_value_is_not_a_variable
// error: variables_in\(graph, \\?"scope\\?"\)
graph g;
auto w = variable<float>(g, "generator/w", init::ones{});
auto loss = w * w;
auto train = adam{}.minimize(loss, "generator");                   // wrong
auto train = adam{}.minimize(loss, variables_in(g, "generator"));  // right

// case minimize_tensor: The loss is a tensor outside of a graph.
// error: value_not_in_a_graph
graph g;
auto x = variable<float, dims<3>>(g, "x");
tensor<float, dims<3>> t;
auto train = gradient_descent{}.minimize(sum(t));  // wrong
auto train = gradient_descent{}.minimize(sum(x));  // right

// case minimize_type: The optimizer's type instead of a value.
// error(clang++): 'adam' does not refer to a value
// error(g++): expected primary-expression before ',' token
graph g;
auto w = variable<float>(g, "w");
auto train = minimize(adam, square(w));    // wrong
auto train = minimize(adam{}, square(w));  // right

// case optimizer_advance: The optimizer does not advance its scalar slot.
// error: optimizer_has_no_fitting_advance
// error: advance\(\) the scalar slots
struct own_decay {
  hyperparameter learning_rate = 0.1;
  static constexpr const char* name = "own_decay";
  constexpr auto slots() const { return slot_list{scalar_slot("steps")}; }
  template <class V>              // right
  void advance(V& steps) const {  // right
    steps += V(1);                // right
  }  // right
  template <class V>
  void update(V& variable, V steps, V gradient) const {
    variable -= V(learning_rate) * gradient / steps;
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(own_decay{}, w * w);
}

// case optimizer_function: The formula calls a function that platforms round differently.
// error: function_not_exact
// error: can use only \+ - \* /, sqrt\(x\), abs\(x\), max\(x, y\), min\(x, y\) and comparisons
// error: optimizers\.cpp:\d+:3[36]:
// max-lines: 12
struct exponential_descent {
  hyperparameter learning_rate = 0.1;
  static constexpr const char* name = "exponential_descent";
  template <class V>
  void update(V& variable, V gradient) const {
    variable -= learning_rate * exp(gradient);                               // wrong
    variable -= learning_rate * (1 + gradient + 0.5 * gradient * gradient);  // right
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(exponential_descent{}, w * w);
}

// case optimizer_members: A member is a string.
// error: optimizer_members_are_not_hyperparameters
// error: an optimizer must have a name, at most 16 members, which are hyperparameters
struct own_descent {
  hyperparameter learning_rate = 0.1;
  const char* sign = "minus";  // wrong
  bool sign = true;            // right
  static constexpr const char* name = "own_descent";
  template <class V>
  void update(V& variable, V gradient) const {
    if (sign) variable -= V(learning_rate) * gradient;
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(own_descent{}, w * w);
}

// case optimizer_name: The optimizer has no name.
// error: optimizer_has_no_name
// error: an optimizer must have a name
struct nameless_descent {
  hyperparameter learning_rate = 0.1;
  static constexpr const char* name = "nameless_descent";  // right
  template <class V>
  void update(V& variable, V gradient) const {
    variable -= learning_rate * gradient;
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(nameless_descent{}, w * w);
}

// case optimizer_number: The formula takes a hyperparameter from a number.
// error: number_has_no_type
// error: <float>
// error: hyperparameters and constants has no element type; write V\(1\) - beta
// max-lines: 9
struct damped_descent {
  hyperparameter learning_rate = 0.1, damping = 0.5;
  static constexpr const char* name = "damped_descent";
  template <class V>
  void update(V& variable, V gradient) const {
    variable -= learning_rate * gradient * (1 - damping);     // wrong
    variable -= learning_rate * gradient * (V(1) - damping);  // right
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(damped_descent{}, w * w);
}

// case optimizer_option: An option under another name.
// error: 'lr'
// error: gradient_descent
graph g;
auto w = variable<float>(g, "w");
auto train = gradient_descent{.lr = 0.1}.minimize(w * w);             // wrong
auto train = gradient_descent{.learning_rate = 0.1}.minimize(w * w);  // right

// case optimizer_scalar: The update writes a scalar slot.
// error: optimizer_has_no_fitting_update
// error: update\(\) must take the variable, its slots in order and the gradient
template <class V>    // wrong
using steps_of = V&;  // wrong
template <class V>    // right
using steps_of = V;   // right

struct slower_and_slower {
  hyperparameter learning_rate = 0.1;
  static constexpr const char* name = "slower_and_slower";
  constexpr auto slots() const { return slot_list{scalar_slot("steps")}; }
  template <class V>
  void advance(V& steps) const {
    steps += V(1);
  }
  template <class V>
  void update(V& variable, steps_of<V> steps, V gradient) const {
    variable -= V(learning_rate) * gradient / steps;
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(slower_and_slower{}, w * w);
}

// case optimizer_slots: The optimizer has nine slots.
// error: optimizer_is_too_large
// error: at most 8 slots
struct many {
  static constexpr const char* name = "many";
  constexpr auto slots() const {
    return slot_list{slot("a"), slot("b"), slot("c"), slot("d"), slot("e"),  // wrong
                     slot("f"), slot("g"), slot("h"), slot("i")};            // wrong
    return slot_list{slot("a"), slot("b")};                                  // right
  }
  template <class V, class... Rest>
  void update(V& variable, const Rest&... rest) const {
    ((variable -= rest), ...);
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(many{}, w * w);
}

// case optimizer_step: step(), as in PyTorch.
// error(clang++): no member named 'step' in 'weft::adam'
// error(g++): 'struct weft::adam' has no member named 'step'
graph g;
auto w = variable<float>(g, "w");
adam optimizer;
optimizer.step();                        // wrong
auto train = optimizer.minimize(w * w);  // right

// case optimizer_text: The learning rate is a string.
// error: hyperparameter_is_not_a_number
// error: an optimizer's hyperparameter must be a number, or a scalar of the graph
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
auto loss = mean(square(matmul(x, w)));
auto train = adam{.learning_rate = "0.1"}.minimize(loss);  // wrong
auto train = adam{.learning_rate = 0.1f}.minimize(loss);   // right

// case optimizer_type: minimize() is called on a type.
// error(g++): without object
// error(clang++): without an object
graph g;
auto w = variable<float>(g, "w");
auto train = gradient_descent::minimize(w * w);                       // wrong
auto train = gradient_descent{.learning_rate = 0.1}.minimize(w * w);  // right

// case optimizer_update: The update lacks the parameter for the slot.
// error: optimizer_has_no_fitting_update
// error: update\(\) must take the variable, its slots in order and the gradient
struct own_momentum {
  hyperparameter learning_rate = 0.1;
  static constexpr const char* name = "own_momentum";
  constexpr auto slots() const { return slot_list{slot("velocity")}; }
  template <class V>                            // wrong
  void update(V& variable, V gradient) const {  // wrong
    variable -= V(learning_rate) * gradient;    // wrong
  }  // wrong
  template <class V>                                         // right
  void update(V& variable, V& velocity, V gradient) const {  // right
    velocity += gradient;                                    // right
    variable -= V(learning_rate) * velocity;                 // right
  }  // right
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(own_momentum{}, w * w);
}
