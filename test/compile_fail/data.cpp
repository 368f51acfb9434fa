// SPDX-License-Identifier: BSL-1.0
#include <string>
#include <vector>

#include <weft/data/csv.hpp>
#include <weft/data/dataset.hpp>
#include <weft/data/example.hpp>
#include <weft/data/image_folder.hpp>
#include <weft/data/lines.hpp>
#include <weft/data/records.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case csv_delimiter: The delimiter is an argument.
// error: csv_options: columns, header, separator, quote, missing_values, missing, max_row_bytes
auto rows = data::csv<float, std::int32_t>("iris.csv", ';');                 // wrong
auto rows = data::csv<float, std::int32_t>("iris.csv", {.separator = ';'});  // right

// case csv_extents: A tensor of columns has a named extent, so that the number of its columns is unknown.
// error: csv_features_are_not_valid
// error: csv: features must be numbers, std::string, or tensors with fixed extents
// max-lines: 10
auto rows = data::csv<tensor<float, dims<dyn<"columns">>>>("table.csv");  // wrong
auto rows = data::csv<tensor<float, dims<4>>>("table.csv");               // right

// case csv_misspelt: A misspelt option of csv.
// error: csv_options: columns, header, separator, quote, missing_values, missing, max_row_bytes
auto rows = data::csv<float, std::int32_t>("iris.csv", {.column = {"a", "b"}});   // wrong
auto rows = data::csv<float, std::int32_t>("iris.csv", {.columns = {"a", "b"}});  // right

// case dataset_batch: batch(), as in TensorFlow.
// error(clang++): no member named 'batch' in 'weft::data::dataset<float>'
// error(g++): 'class weft::data::dataset<float>' has no member named 'batch'; did you mean 'batches'\?
data::dataset<float> values = data::from_tensors(std::vector<float>(8));
auto batches = values.batch(4);    // wrong
auto batches = values.batches(4);  // right

// case dataset_batch_of_texts: Batches of strings, which are vectors, are batched again.
// error: batches_of_texts_have_no_batches
// error: batches: batches of strings cannot be batched again; call batches once
// max-lines: 10
auto texts = data::from_tensors(std::vector<std::string>{"a", "b"});
auto batches = texts.batches(2).batches(3);  // wrong
auto batches = texts.batches(6);             // right

// case dataset_batches_no_size: The batch size is missing.
// error: of so many elements: batches\(100\), or batches<100>\(\) of whole ones alone
data::dataset<float> values = data::from_tensors(std::vector<float>(8));
auto batches = values.batches();   // wrong
auto batches = values.batches(4);  // right

// case dataset_feature: The function returns neither a tensor nor a number nor a string.
// error: dataset_features_are_not_valid
// error: map: the function must return a tensor, a number, a std::string, or a tuple of them
// max-lines: 12
auto numbers = data::from_tensors(std::vector<int>{1, 2, 3});
auto vectors = numbers.map([](int i) { return std::vector<double>(static_cast<std::size_t>(i)); });  // wrong
auto tensors = numbers.map([](int i) { return tensor<double, dims<dyn<"n">>>(shape(i)); });          // right

// case dataset_filter_features: The filter takes the second feature only.
// error: function_takes_other_features
// error: filter: the function must take all features
// max-lines: 10
auto rows = data::from_tensors(tensor<float, dims<3, 2>>(), tensor<std::int32_t, dims<3>>());
auto kept = rows.filter([](std::int32_t label) { return label > 0; });                                 // wrong
auto kept = rows.filter([](const tensor<float, dims<2>>&, std::int32_t label) { return label > 0; });  // right

// case dataset_map_features: The function takes one of two features.
// error: function_takes_other_features
// error: map: the function must take all features
// max-lines: 10
auto rows = data::from_tensors(tensor<float, dims<3, 2>>(), tensor<std::int32_t, dims<3>>());
auto doubled = rows.map([](const tensor<float, dims<2>>& x) { return x * 2; });                // wrong
auto doubled = rows.map([](const tensor<float, dims<2>>& x, std::int32_t) { return x * 2; });  // right

// case dataset_shuffle: Three numbers instead of a seed and a buffer.
// error: shuffled\(seed\), shuffled\(seed, data::shuffle_buffer\{1000\}\)
data::dataset<float> values = data::from_tensors(std::vector<float>(8));
auto batches = values.shuffled(1, 1000, 4);                     // wrong
auto batches = values.shuffled(1, data::shuffle_buffer{1000});  // right

// case example_extents: A tensor has two named extents, which one list of numbers cannot determine.
// error: example_features_are_not_valid
// error: parse_example: features must be numbers, strings, or tensors whose extents are fixed after the first
auto parse = data::parse_example<tensor<float, dims<dyn<"rows">, dyn<"columns">>>>("x");  // wrong
auto parse = data::parse_example<tensor<float, dims<dyn<"rows">, 4>>>("x");               // right

// case image_folder_option: A misspelt option of an image folder.
// error: image_options: threads, skip_damaged, decode
data::image_folder folder("train");
auto images = folder.images({.skip_damage = true});   // wrong
auto images = folder.images({.skip_damaged = true});  // right

// case lines_misspelt: A misspelt option of lines.
// error: a path or several; line_options: skip, max_line_bytes
auto r = data::lines("a.txt", {.skipped = 1});  // wrong
auto r = data::lines("a.txt", {.skip = 1});     // right

// case record_size: Records of a fixed size have a named extent.
// error: record_has_no_fixed_size
// error: fixed_records: the record must be a tensor with fixed extents
// max-lines: 10
auto records = data::fixed_records<tensor<std::uint8_t, dims<dyn<"bytes">>>>("file");  // wrong
auto records = data::fixed_records<tensor<std::uint8_t, dims<3073>>>("file");          // right

// case records_misspelt: A misspelt option of records.
// error: a path or several; record_reader_options: max_record_bytes, skip_damaged, damaged
auto r = data::records("a.tfrecord", {.skip_damage = true});   // wrong
auto r = data::records("a.tfrecord", {.skip_damaged = true});  // right
