// SPDX-License-Identifier: BSL-1.0
#include <utility>

#include <weft/train/supervised_session.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case eval_list: Several values in braces.
// error: one value: eval\(loss, with\(images, x\), with\(labels, y\)\); for several run\(fetch\(a, b\)\)
graph g;
auto a = variable<float>(g, "a");
auto b = variable<float>(g, "b");
session s(g);
auto y = s.eval({a, b});      // wrong
auto y = s.run(fetch(a, b));  // right

// case eval_of_node: eval() of a node without a session.
// error: value_needs_a_session
// error: dims<3>
// error: eval: a session computes a graph's values: session\.eval\(x\)
graph g;
auto x = variable<float, dims<3>>(g, "x");
session s{g};
auto y = eval(x * 2);    // wrong
auto y = s.eval(x * 2);  // right

// case eval_with_value: A value without its placeholder.
// error: arguments_are_not_fetch_and_with
// error: eval: pass values in pairs: eval\(loss, with\(images, x\), with\(labels
graph g;
auto x = placeholder<float>(g, "x");
session s{g};
auto y = s.eval(x * 2, 1.0f);           // wrong
auto y = s.eval(x * 2, with(x, 1.0f));  // right

// case fetch_list_braces: The fetched nodes are in braces.
// error: nodes, expressions and effects, one by one: fetch\(loss, train\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = placeholder<float, dims<4, 3>>(g, "y");
session s{g};
auto step = s.prepare(fetch({x, y}), feed(x, y));  // wrong
auto step = s.prepare(fetch(x, y), feed(x, y));    // right

// case fetched_name: A node named by a string.
// error: fetched_value_not_in_a_graph
// error: fetch: takes nodes, expressions and effects
graph g;
auto loss = variable<float>(g, "loss");
session s{g};
auto y = s.run(fetch("loss"));  // wrong
auto y = s.run(fetch(loss));    // right

// case fetched_tensor: A tensor outside of a graph.
// error: fetched_value_not_in_a_graph
// error: a tensor already has its value
graph g;
tensor<float, dims<3>> x{1, 2, 3};
session s{g};
s.run(fetch(x));               // wrong
s.run(fetch(constant(g, x)));  // right

// case get_by_name: A variable named by a string.
// error: get: reads a variable: get\(w\); find_variable<float, dims<\.\.\.>>\(graph, \\?"w\\?"\) finds one
graph g;
auto w = variable<float>(g, "w");
session s(g);
float y = s.get("w");  // wrong
float y = s.get(w);    // right

// case if_node: A node as the condition of an if statement.
// error: value_needs_a_session
// error: not a number: session\.eval\(x\) computes a graph's value; sum\(x\)
graph g;
auto loss = variable<float>(g, "loss");
session s{g};
if (loss < 0.5f) return 1;          // wrong
if (s.eval(loss < 0.5f)) return 1;  // right

// case mixed_session_get: get() by a name.
// error: value_is_not_of_a_variable
// error: get: reads a variable: get\(w\); find_variable<float, dims<\.\.\.>>\(graph, \\?"w\\?"\) finds one by
graph g;
auto w = variable<float, dims<3, 2>>(g, "w");
session s(g);
auto v = s.get("w");  // wrong
auto v = s.get(w);    // right

// case number_of_node: The value of a node without a session.
// error: value_needs_a_session
// error: a node has no value yet: session\.eval\(x\) computes it; cast<T>\(x\)
graph g;
auto loss = variable<float>(g, "loss");
session s{g};
float y = loss;          // wrong
float y = s.eval(loss);  // right

// case one_result_decomposed: One result is decomposed by a structured binding.
// error(clang++): cannot decompose non-class, non-array type 'typename __invoke_result<\(lambda at
// error(g++): cannot decompose non-array non-class type 'float'
graph g;
auto a = variable<float>(g, "a");
session s(g);
auto [y] = s.run(fetch(a));  // wrong
auto y = s.run(fetch(a));    // right

// case prepare_of_lists: The lists are in braces, as in Python.
// error: arguments_are_not_fetch_and_feed
// error: prepare: takes two lists: prepare\(fetch\(loss, train\), feed\(images
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto loss = sum(x);
session s{g};
auto step = s.prepare({loss, loss}, {x});           // wrong
auto step = s.prepare(fetch(loss, loss), feed(x));  // right

// case prepare_with_value: A value instead of a list of placeholders.
// error: arguments_are_not_fetch_and_feed
// error: prepare: takes two lists: prepare\(fetch\(loss, train\), feed\(images
graph g;
auto x = placeholder<float>(g, "x");
session s{g};
auto step = s.prepare(fetch(x * 2), with(x, 1.0f));  // wrong
auto step = s.prepare(fetch(x * 2), feed(x));        // right

// case prepare_without_feed: A placeholder without feed().
// error: arguments_are_not_fetch_and_feed
// error: prepare: takes two lists: prepare\(fetch\(loss, train\), feed\(images
graph g;
auto x = placeholder<float>(g, "x");
session s{g};
auto step = s.prepare(fetch(x * 2), x);        // wrong
auto step = s.prepare(fetch(x * 2), feed(x));  // right

// case prepare_without_fetch: A node without fetch().
// error: arguments_are_not_fetch_and_feed
// error: dims<3>
// error: prepare: takes two lists: prepare\(fetch\(loss, train\), feed\(images
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto loss = sum(x);
session s{g};
auto step = s.prepare(loss, feed(x));         // wrong
auto step = s.prepare(fetch(loss), feed(x));  // right

// case results_as_number: Two results are converted to one number.
// error(clang++): no viable conversion from 'typename __invoke_result<\(lambda at
// error(g++): cannot convert 'std::tuple<float, float>' to 'float' in initialization
graph g;
auto a = variable<float>(g, "a");
auto b = variable<float>(g, "b");
session s(g);
float y = s.run(fetch(a, b));      // wrong
auto [y, z] = s.run(fetch(a, b));  // right

// case run_dict: A dictionary of feeds.
// error: arguments_are_not_fetch_and_with
// error: run: pass fetch\(\.\.\.\) first, then with\(placeholder, value\) for each feed: run\(fetch\(loss, train\), with\(images, x\), with\(labels, y\)\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
auto loss = mean(square(matmul(x, w)));
session s(g);
s.run(fetch(loss), {{x, tensor<float, dims<4, 3>>()}});    // wrong
s.run(fetch(loss), with(x, tensor<float, dims<4, 3>>()));  // right

// case run_list: sess.run([a, b]).
// error: arguments_are_not_fetch_and_with
// error: run: pass fetch\(\.\.\.\) first, then with\(placeholder, value\) for each feed: run\(fetch\(loss, train\), with\(images, x\), with\(labels, y\)\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
auto loss = mean(square(matmul(x, w)));
session s(g);
auto [a, b] = s.run({loss, w}, with(x, tensor<float, dims<4, 3>>()));       // wrong
auto [a, b] = s.run(fetch(loss, w), with(x, tensor<float, dims<4, 3>>()));  // right

// case run_misspelt: A misspelt option of a supervised_session.
// error: run_options: checkpoints, save, is_chief, handle_signals
graph g;
session s(g);
supervised_session run(s, {.is_chef = true});   // wrong
supervised_session run(s, {.is_chief = true});  // right

// case run_nothing: sess.run() of nothing.
// error: arguments_are_not_fetch_and_with
// error: run: pass fetch\(\.\.\.\) first, then with\(placeholder, value\) for each feed: run\(fetch\(loss, train\), with\(images, x\), with\(labels, y\)\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
auto loss = mean(square(matmul(x, w)));
session s(g);
s.run();                                                   // wrong
s.run(fetch(loss), with(x, tensor<float, dims<4, 3>>()));  // right

// case run_with_feed: A list of placeholders instead of their values.
// error: arguments_are_not_fetch_and_with
// error: run: pass fetch\(\.\.\.\) first, then with\(placeholder, value\) for each feed: run\(fetch\(loss, train\), with\(images, x\)
graph g;
auto x = placeholder<float>(g, "x");
session s{g};
auto y = s.run(fetch(x * 2), feed(x));        // wrong
auto y = s.run(fetch(x * 2), with(x, 1.0f));  // right

// case run_with_value: A value without its placeholder.
// error: arguments_are_not_fetch_and_with
// error: run: pass fetch\(\.\.\.\) first, then with\(placeholder, value\) for each feed: run\(fetch\(loss, train\), with\(images, x\)
graph g;
auto x = placeholder<float>(g, "x");
session s{g};
auto y = s.run(fetch(x * 2), 1.0f);           // wrong
auto y = s.run(fetch(x * 2), with(x, 1.0f));  // right

// case run_without_fetch: A node without fetch().
// error: arguments_are_not_fetch_and_with
// error: run: pass fetch\(\.\.\.\) first, then with\(placeholder, value\) for each feed: run\(fetch\(loss, train\), with\(images, x\)
graph g;
auto x = placeholder<float>(g, "x");
auto w = variable<float>(g, "w");
auto train = gradient_descent{}.minimize(w * x);
session s{g};
s.run(train, with(x, 1.0f));         // wrong
s.run(fetch(train), with(x, 1.0f));  // right

// case session_copied: A session is copied, for example for another thread.
// error: clone_for_inference\(\) for another thread
graph g;
session s{g};
session other = s;                        // wrong
session other = s.clone_for_inference();  // right

// case session_device: A device instead of the options.
// error: session: needs a graph and options: session s\{g, \{\.threads = 4\}\}
graph g;
session s(g, cpu{0});              // wrong
session s(g, {.device = cpu{0}});  // right

// case session_equals: A session is initialized by `=`.
// error: session_options: threads, inter_op_threads, devices, pin, device, gpu, \.\.\.
graph g;
session s = g;  // wrong
session s(g);   // right

// case session_of_node: A session of a node.
// error: session_is_not_made_of
// error: dims<3>
// error: session: needs a graph and options: session s\{g, \{\.threads = 4\}\}
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
session s(x);  // wrong
session s(g);  // right

// case session_option: A misspelt option of a session.
// error: session_options: threads, inter_op_threads, devices, pin, device, gpu, \.\.\.
graph g;
session s{g, {.thread = 4}};   // wrong
session s{g, {.threads = 4}};  // right

// case session_option_other: An option under TensorFlow's name.
// error: session_options: threads, inter_op_threads, devices, pin, device, gpu, \.\.\.
graph g;
session s(g, {.num_threads = 4});  // wrong
session s(g, {.threads = 4});      // right

// case session_pointer: A session of a pointer to a graph.
// error: session: needs a graph and options: session s\{g, \{\.threads = 4\}\}
graph g;
session s(&g);  // wrong
session s(g);   // right

// case session_threads: The number of threads is an argument.
// error: session_is_not_made_of
// error: session: needs a graph and options: session s\{g, \{\.threads = 4\}\}
graph g;
session s(g, 4);               // wrong
session s(g, {.threads = 4});  // right

// case session_without_graph: The graph is missing.
// error: deleted
// error: A session runs a graph: session s\{g\};
graph g;
session s;     // wrong
session s{g};  // right

// case set_by_name: A variable named by a string.
// error: set: writes a variable: set\(w, value\); feed a placeholder by with\(x, value\)
graph g;
auto w = variable<float>(g, "w");
session s(g);
s.set("w", 1.0f);  // wrong
s.set(w, 1.0f);    // right

// case step_copied: A prepared step is copied.
// error: a step owns the buffers of its runs: move it, or prepare another
graph g;
auto w = variable<float>(g, "w");
session s(g);
auto step = s.prepare(fetch(w));
auto other = step;   // wrong
auto& other = step;  // right

// case typed_step_copied: A step<R(A...)> is constructed from a prepared step that is not moved.
// error: step_is_not_moved
// error: std::move\(step\) if it has a name
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
session s{g};
auto prepared = s.prepare(fetch(sum(x)), feed(x));
step<float(tensor<float, dims<3>>)> total = prepared;             // wrong
step<float(tensor<float, dims<3>>)> total = std::move(prepared);  // right

// case typed_step_feeds: A step<R(A...)> names other feeds than the prepared step has.
// error: number_of_fed_values_differs<0, 1>
// error: a step takes a tensor, tensor_view\(pointer, shape\(...\)\) or number for each feed
// max-lines: 9
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
session s{g};
step<float()> total = s.prepare(fetch(sum(x)), feed(x));                        // wrong
step<float(tensor<float, dims<3>>)> total = s.prepare(fetch(sum(x)), feed(x));  // right

// case typed_step_results: A step<R(A...)> names another result than the prepared step has.
// error: step_results_differ
// error: R must be the fetched value, a std::tuple of several, or void
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
session s{g};
step<float(tensor<float, dims<3>>)> twice = s.prepare(fetch(x * 2.0f), feed(x));                   // wrong
step<tensor<float, dims<3>>(tensor<float, dims<3>>)> twice = s.prepare(fetch(x * 2.0f), feed(x));  // right
