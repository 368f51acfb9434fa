// SPDX-License-Identifier: BSL-1.0
#include <utility>
#include <vector>

#include <weft/data/dataset.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case fed_batch: The whole batch of a dataset, which is a tuple.
// error: fed_value_is_not_a_tensor
// error: a step takes a tensor, tensor_view\(pointer
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
auto examples = data::from_tensors(tensor<float, dims<4, 4>>(), tensor<std::int32_t, dims<4>>());
for (auto batch : examples.batches(2)) step(batch);              // wrong
for (auto [values, labels] : examples.batches(2)) step(values);  // right

// case fed_expression: The list of fed nodes has an expression.
// error: fed_to_non_node
// error: feed: takes placeholders, or other nodes
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = exp(x);       // wrong
auto y = let(exp(x));  // right
auto fed = feed(y);

// case fed_extents: A tensor of other extents.
// error: fed_value_differs
// error: 784
// error: 100
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 784>>(g, "x");
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
tensor<float, dims<5, 100>> batch;  // wrong
tensor<float, dims<5, 784>> batch;  // right
auto y = step(batch);

// case fed_in_call: An integer for a placeholder of float in run().
// error: fed_number_differs
// error: int
// error: float
// error: with: the value must be a tensor, tensor_view or number of the node
graph g;
auto x = placeholder<float>(g, "x");
session s{g};
auto y = s.eval(x * x, with(x, 2));     // wrong
auto y = s.eval(x * x, with(x, 2.0f));  // right

// case fed_list: Values in braces.
// error: fed_value_is_not_a_tensor
// error: a step: pass values in braces as a tensor: step\(tensor<T
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
auto y = step({1, 2, 3, 4});                           // wrong
auto y = step(tensor<float, dims<1, 4>>{1, 2, 3, 4});  // right

// case fed_node: A node.
// error: fed_value_is_not_a_tensor
// error: a step takes a tensor, tensor_view\(pointer
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
auto y = step(x);                                      // wrong
auto y = step(tensor<float, dims<1, 4>>{1, 2, 3, 4});  // right

// case fed_number: A number for a placeholder that is not a scalar.
// error: fed_number_differs
// error: 784
// error: a step takes a tensor, tensor_view
graph g;
auto x = placeholder<float, dims<784>>(g, "x");  // wrong
auto x = placeholder<float>(g, "x");             // right
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
auto y = step(1.0f);

// case fed_pointer: A pointer.
// error: fed_value_is_not_a_tensor
// error: const float ?\*
// error: a step takes a tensor, tensor_view\(pointer
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
float numbers[8]{};
const float* values = numbers;
auto y = step(values);                                        // wrong
auto y = step(tensor_view<const float, dims<2, 4>>(values));  // right

// case fed_sum: An expression of tensors.
// error: fed_value_is_not_a_tensor
// error: dims<1, 4>
// error: a step takes a tensor, tensor_view\(pointer
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
tensor<float, dims<1, 4>> value;
auto y = step(value * 2);        // wrong
auto y = step(eval(value * 2));  // right

// case fed_too_few: Fewer values than the step has feeds.
// error: number_of_fed_values_differs<1, 2>
graph g;
auto x = placeholder<float>(g, "x"), y = placeholder<float>(g, "y");
session s{g};
auto step = s.prepare(fetch(x + y), feed(x, y));
auto z = step(1.0f);        // wrong
auto z = step(1.0f, 2.0f);  // right

// case fed_twice: More values than the step has feeds.
// error: number_of_fed_values_differs
// error: <2, 1>
// error: a step takes a tensor, tensor_view\(pointer
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
tensor<float, dims<1, 4>> value;
auto y = step(value, value);  // wrong
auto y = step(value);         // right

// case fed_type: A tensor of another element type.
// error: fed_value_differs
// error: int
// error: float
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
session s{g};
tensor<int, dims<3>> value;    // wrong
tensor<float, dims<3>> value;  // right
auto step = s.prepare(fetch(sum(x)), feed(x));
auto y = step(value);

// case fed_vector: A std::vector.
// error: fed_value_is_not_a_tensor
// error: std::vector<float
// error: a step takes a tensor, tensor_view\(pointer
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
std::vector<float> values(8);
auto y = step(values);                                                                       // wrong
auto y = step(tensor_view<const float, dims<dyn<"batch">, 4>>(values.data(), shape(2, 4)));  // right

// case fed_with: with() in the call of a step.
// error: fed_value_is_not_a_tensor
// error: dims<1, 4>
// error: a step takes a tensor, tensor_view\(pointer
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
session s{g};
auto step = s.prepare(fetch(sum(x)), feed(x));
tensor<float, dims<1, 4>> value;
auto y = step(with(x, value));  // wrong
auto y = step(value);           // right

// case feed_list: The placeholders are in braces.
// error: placeholders, one by one: feed\(images, labels\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = placeholder<float, dims<4, 3>>(g, "y");
session s{g};
auto step = s.prepare(fetch(x + y), feed({x, y}));  // wrong
auto step = s.prepare(fetch(x + y), feed(x, y));    // right

// case feed_with_value: A placeholder together with its value.
// error: fed_to_non_node
// error: <float>
// error: feed: takes placeholders, or other nodes: let\(\) makes one
graph g;
auto x = placeholder<float>(g, "x");
session s{g};
auto step = s.prepare(fetch(x * 2), feed(x, 1.0f));  // wrong
auto step = s.prepare(fetch(x * 2), feed(x));        // right

// case with_list: The value is in braces.
// error: fed_value_is_not_a_tensor
// error: with: pass values in braces as a tensor: with\(x, tensor<T
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
session s{g};
auto y = s.eval(x * 2, with(x, {1, 2, 3}));                        // wrong
auto y = s.eval(x * 2, with(x, tensor<float, dims<3>>{1, 2, 3}));  // right

// case with_name: The placeholder is named by a string.
// error: fed_to_non_node
// error: with: pass the node before its value: with\(x, value\)
graph g;
auto x = placeholder<float>(g, "x");
session s{g};
auto y = s.eval(x * 2, with("x", 1.0f));  // wrong
auto y = s.eval(x * 2, with(x, 1.0f));    // right

// case with_pair: A std::pair instead of with().
// error: eval: pass values in pairs: eval\(loss, with\(images, x\), with\(labels, y\)\)
graph g;
auto x = placeholder<float>(g, "x");
session s(g);
float y = s.eval(x * x, std::pair(x, 2.0f));  // wrong
float y = s.eval(x * x, with(x, 2.0f));       // right

// case with_swapped: The value comes before the node.
// error: fed_to_non_node
// error: dims<3>
// error: with: pass the node before its value: with\(x, value\)
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
tensor<float, dims<3>> value;
session s{g};
auto y = s.eval(sum(x), with(value, x));  // wrong
auto y = s.eval(sum(x), with(x, value));  // right

// case with_vector: The value is a std::vector.
// error: fed_value_is_not_a_tensor
// error: std::vector<float
// error: with: the value must be a tensor
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
session s{g};
std::vector<float> values(3);
auto y = s.eval(x * 2, with(x, values));                                      // wrong
auto y = s.eval(x * 2, with(x, tensor_view<float, dims<3>>(values.data())));  // right
