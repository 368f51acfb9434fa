// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/queue.hpp>
#include <weft/train/coordinator.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case coordinator_join: The deadline is missing.
// error: a wait has a deadline: threads\.join\(5s\)
coordinator threads;
threads.join();                         // wrong
threads.join(std::chrono::seconds(5));  // right

// case critical_section_text: The name instead of the options.
// error: queue_options: name, shared_name, container, seed
critical_section table("table");                   // wrong
critical_section table({.shared_name = "table"});  // right

// case queue_batch: A batch of elements whose extents differ.
// error: batch_needs_known_extents
// error: padding_fifo_queue
fifo_queue<tensor<float, dims<dyn<"length">>>> q(10);          // wrong
padding_fifo_queue<tensor<float, dims<dyn<"length">>>> q(10);  // right
auto batch = q.dequeue_many(std::chrono::seconds(1), 0);

// case queue_components: The label is missing from the element.
// error: number_of_components_differs<1, 2>|number_of_components_differs<1U?L?, 2U?L?>
fifo_queue<tensor<float, dims<3>>, std::int32_t> q(10);
const tensor<float, dims<3>> x{1, 2, 3};
q.enqueue(std::chrono::seconds(1), x);     // wrong
q.enqueue(std::chrono::seconds(1), x, 7);  // right

// case queue_dequeue_alone: dequeue() without a deadline, of a queue that was never filled.
// error: dequeue: pass a deadline: dequeue\(5s\), or in a graph dequeue\(g, 5s\)
fifo_queue<float> q(100);
auto x = q.dequeue();                         // wrong
auto x = q.dequeue(std::chrono::seconds(5));  // right

// case queue_enqueued: The element is a std::vector.
// error: enqueued_value_is_not_a_tensor
// error: vector
fifo_queue<tensor<float, dims<dyn<"n">>>> q(10);
std::vector<float> x(3);
q.enqueue(std::chrono::seconds(1), x);                                                       // wrong
q.enqueue(std::chrono::seconds(1), tensor_view<float, dims<dyn<"n">>>(x.data(), shape(3)));  // right

// case queue_extents: The element has other extents, in a graph.
// error: assigned_extents_differ
// error: dims<4>
graph g;
fifo_queue<tensor<float, dims<3>>> q(10);
auto three = placeholder<float, dims<3>>(g, "three");
auto four = placeholder<float, dims<4>>(g, "four");
auto put = q.enqueue(std::chrono::seconds(1), four);   // wrong
auto put = q.enqueue(std::chrono::seconds(1), three);  // right

// case queue_many_no_graph: dequeue_many() lacks its deadline.
// error: dequeue_many\(5s, 20\), dequeue_many<20>\(graph, 5s\)
fifo_queue<float> q(100);
auto x = q.dequeue_many(20);                           // wrong
auto x = q.dequeue_many(std::chrono::seconds(5), 20);  // right

// case queue_misspelt: A misspelt option of a queue.
// error: of a capacity; queue_options: name, shared_name, container, seed
fifo_queue<float> q(100, {.shared = "q"});       // wrong
fifo_queue<float> q(100, {.shared_name = "q"});  // right

// case queue_name_text: The name is an argument.
// error: of a capacity; queue_options: name, shared_name, container, seed
fifo_queue<float> q(100, "q");            // wrong
fifo_queue<float> q(100, {.name = "q"});  // right

// case queue_no_deadline: The deadline is missing.
// error: call_has_no_deadline
// error: dequeue\(5s\)
fifo_queue<float> q(10);
q.enqueue(std::chrono::seconds(1), 1);
auto x = q.dequeue();                         // wrong
auto x = q.dequeue(std::chrono::seconds(1));  // right

// case runner_no_threads: The number of threads is missing.
// error: queue_runner\(queue, 2, \[&\] \{ queue\.enqueue\(1min, next\(\)\); \}\)
fifo_queue<float> q(100);
queue_runner fill(q, [] {});     // wrong
queue_runner fill(q, 1, [] {});  // right
