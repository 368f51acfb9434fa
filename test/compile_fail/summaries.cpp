// SPDX-License-Identifier: BSL-1.0
#include <weft/summary.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case histogram_summary_tensor: The operand is a tensor outside of a graph.
// error: summarized_value_not_in_a_graph
// error: histogram_summary: pass an expression in a graph
graph g;
tensor<float, dims<3>> values;
auto w = variable(g, "w", values);
auto s = histogram_summary("w", values);  // wrong
auto s = histogram_summary("w", w);       // right

// case image_summary_channels: The image has two channels.
// error: summarized_value_is_not_an_image
// error: image_summary: pass
graph g;
auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 2>>(g, "images");  // wrong
auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 3>>(g, "images");  // right
auto s = image_summary("images", images);

// case scalar_summary_extents: The value is not a scalar.
// error: summarized_value_is_not_a_scalar
// error: scalar_summary: pass a scalar in a graph
graph g;
auto w = variable<float, dims<3>>(g, "w");
auto s = scalar_summary("w", w);        // wrong
auto s = scalar_summary("w", mean(w));  // right

// case summary_list: The summaries are in braces.
// error: one by one: merge_summaries\(scalar_summary\("loss", loss\), \.\.\.\)
graph g;
auto w = variable<float>(g, "w");
auto a = scalar_summary("a", w);
auto b = scalar_summary("b", w);
auto y = merge_summaries({a, b});  // wrong
auto y = merge_summaries(a, b);    // right

// case summary_no_name: The tag is missing.
// error: a tag and a value of the graph: histogram_summary\("weights", w\)
graph g;
auto w = variable<float>(g, "w");
auto y = histogram_summary(w);       // wrong
auto y = histogram_summary("w", w);  // right

// case summary_swapped: The value comes before the tag.
// error: a tag and a scalar of the graph: scalar_summary\("loss", loss\)
graph g;
auto w = variable<float>(g, "w");
auto y = scalar_summary(w, "loss");  // wrong
auto y = scalar_summary("loss", w);  // right

// case writer_misspelt: A misspelt option of an event_writer.
// error: event_writer_options: flush_interval, max_queue, \.\.\.
event_writer log("runs/1", {.flush_secs = 10});  // wrong
event_writer log("runs/1");                      // right

// case writer_no_folder: The folder is missing.
// error: event_writer log\("runs/1"\);
event_writer log;            // wrong
event_writer log("runs/1");  // right

// case writer_scalar_node: A node instead of a number.
// error: a tag, a number and the step: log\.add_scalar\("loss", 0\.25, 100\)
graph g;
auto w = variable<float>(g, "w");
event_writer log("runs/1");
log.add_scalar("loss", w, 1);    // wrong
log.add_scalar("loss", 0.5, 1);  // right

// case writer_scalar_swapped: The step comes before the tag.
// error: a tag, a number and the step: log\.add_scalar\("loss", 0\.25, 100\)
event_writer log("runs/1");
log.add_scalar(1, "loss", 0.5);  // wrong
log.add_scalar("loss", 0.5, 1);  // right
