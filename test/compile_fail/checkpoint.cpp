// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/checkpoint/npy.hpp>
#include <weft/checkpoint/npz.hpp>
#include <weft/checkpoint/saver.hpp>
#include <weft/checkpoint/tensorflow_checkpoint.hpp>
#include <weft/checkpoint/weights.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case read_npy: The type is a std::vector, which has no extents.
// error: read_npy: the result must be a tensor<T, dims<...>>: read_npy<tensor<...>>\(path\)
// error: file_is_not_read_as
read_npy<std::vector<float>>("a.npy");      // wrong
read_npy<tensor<float, dims<3>>>("a.npy");  // right

// case read_npz: The type is that of the elements.
// error: read: the result must be a tensor<T, dims<...>>: npz.read<tensor<...>>\(name\)
// error: file_is_not_read_as
const npz_reader archive("a.npz");
archive.read<float>("a");          // wrong
archive.read<tensor<float>>("a");  // right

// case read_tensorflow_checkpoint: The type is that of a node.
// error: read: the result must be a tensor<T, dims<...>>: checkpoint.read<tensor<...>>\(name\)
// error: file_is_not_read_as
const tensorflow_checkpoint checkpoint("model.ckpt");
checkpoint.read<node<float, dims<3>>>("weights");    // wrong
checkpoint.read<tensor<float, dims<3>>>("weights");  // right

// case saver_added_value: The object lacks its name.
// error: keeper\.add\("position", position\), a variable of the program
saver keeper;
std::int64_t position = 0;
keeper.add(position);              // wrong
keeper.add("position", position);  // right

// case saver_folder_first: The folder comes before the session.
// error: keeper\.save\(session, "folder", step\)
graph g;
session s(g);
saver keeper;
keeper.save("training", s, 1);  // wrong
keeper.save(s, "training", 1);  // right

// case saver_misspelt: A misspelt option of a saver.
// error: saver_options: shards, max_to_keep, keep_every, background, timeout
saver keeper({.max_keep = 5});     // wrong
saver keeper({.max_to_keep = 5});  // right

// case saver_no_step: The step is missing.
// error: keeper\.save\(session, "folder", step\)
graph g;
session s(g);
saver keeper;
keeper.save(s, "training");     // wrong
keeper.save(s, "training", 1);  // right

// case saver_of_graph: A saver of a graph, as in TensorFlow.
// error: saver_options: shards, max_to_keep, keep_every, background, timeout
graph g;
saver keeper(g);  // wrong
saver keeper;     // right

// case saver_restore_latest: A std::optional of a checkpoint.
// error: keeper\.restore\(session, \*latest_checkpoint\("folder"\), \{\.partial = true\}\)
graph g;
session s(g);
saver keeper;
keeper.restore(s, latest_checkpoint("training"));   // wrong
keeper.restore(s, *latest_checkpoint("training"));  // right

// case saver_restore_path: The session is missing.
// error: keeper\.restore\(session, \*latest_checkpoint\("folder"\), \{\.partial = true\}\)
graph g;
session s(g);
saver keeper;
keeper.restore("training");     // wrong
keeper.restore(s, "training");  // right

// case weights_bool: An option is a bool.
// error(clang++): no matching function for call to 'load_weights'
// error(g++): invalid initialization of reference of type 'const weft::restore_options&' from expression of
graph g;
session s(g);
load_weights("a.safetensors", s, true);               // wrong
load_weights("a.safetensors", s, {.partial = true});  // right

// case weights_misspelt: A misspelt option of load_weights.
// error(clang++): no matching function for call to 'load_weights'
// error(g++): invalid initialization of reference of type 'const weft::restore_options&' from expression of
graph g;
session s(g);
load_weights("a.safetensors", s, {.partially = true});  // wrong
load_weights("a.safetensors", s, {.partial = true});    // right

// case weights_of_graph: A graph instead of a session.
// error(clang++): no matching function for call to 'save_weights'
// error(g++): use of deleted function 'weft::session::session\(const weft::graph&, \.\.\.\) \[with
graph g;
session s(g);
save_weights("a.safetensors", g);  // wrong
save_weights("a.safetensors", s);  // right

// case weights_swapped: The session comes before the path.
// error(clang++): no matching function for call to 'save_weights'
// error(g++): invalid initialization of reference of type 'const std::string&' \{aka 'const
graph g;
session s(g);
save_weights(s, "a.safetensors");  // wrong
save_weights("a.safetensors", s);  // right
