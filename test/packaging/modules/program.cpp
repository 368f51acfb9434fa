// SPDX-License-Identifier: BSL-1.0
// usage: program PLUGIN
//
// Uses the graph that a library made: the one that the program is linked with, and one that dlopen loads. Expected
// values are computed here, from the formulas.
#define FACTOR 3.0f
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <weft/checkpoint/weights.hpp>

#include "library.hpp"
#include "operation.hpp"

using namespace weft;

namespace {

int faults = 0;

void check(bool right, const char* what, const std::string& where) {
  if (!right) std::printf("%s: %s\n", where.c_str(), what), ++faults;
}
#define CHECK(...) check(__VA_ARGS__, #__VA_ARGS__, where)

bool is_near(double a, double b) { return std::fabs(a - b) < 1e-5; }

void use(const model_functions& from, const std::string& where) {
  model m = from.make();
  const auto found = variables(m.g);
  CHECK(found.size() == 3 && variables(m.g, variable_kind::trained).size() == 3);
  CHECK(to_string(m.g).find("variable") != std::string::npos);

  session s(m.g);
  tensor<float, dims<dyn<"batch">, 3>> x(shape(2, 3));
  x.fill(1);
  const auto loss_at = [](double offset, double rows) { return std::pow(std::tanh(0.375 + offset), 2) + 3 * rows; };
  CHECK(is_near(s.eval(m.loss, with(m.x, x)), loss_at(0.5, 0.25)));
  CHECK(is_near(from.run(m, s), loss_at(0.5, 0.25)));
  const auto noise = s.eval(m.noise);
  CHECK(!(noise(0) == s.eval(m.noise)(0)));  // each step draws other numbers

  // Operations of one name, in anonymous namespaces of two modules.
  const auto tripled = scale(m.loss);
  CHECK(is_near(s.eval(m.doubled, with(m.x, x)), 2 * loss_at(0.5, 0.25)));
  CHECK(is_near(s.eval(tripled, with(m.x, x)), 3 * loss_at(0.5, 0.25)));

  // The program differentiates what the library recorded.
  const auto offset = find_variable<float, dims<2>>(m.g, "offset");
  const auto rows = find_variable<float, dims<5, 2>>(m.g, "rows");
  const auto [to_offset, to_rows] = gradients(m.loss, offset, rows);
  const double y = std::tanh(0.875),
               slope = y * (1 - y * y);  // of the mean over 4 elements, 2 of which share an offset
  CHECK(is_near(s.eval(to_offset, with(m.x, x))(1), slope));
  CHECK(is_near(s.eval(to_rows, with(m.x, x))(1, 0), 1) && is_near(s.eval(to_rows, with(m.x, x))(4, 1), 0.5) &&
        is_near(s.eval(to_rows, with(m.x, x))(0, 0), 0));

  // And trains it, by rows too.
  const auto train = gradient_descent{.learning_rate = 0.5}.minimize(m.loss);
  s.run(fetch(train), with(m.x, x));
  const auto trained = s.get(rows);
  CHECK(is_near(trained(1, 0), 0.25 - 0.5) && is_near(trained(4, 1), 0.25 - 0.25) && is_near(trained(0, 0), 0.25));
  CHECK(is_near(s.get(offset)(0), 0.5 - 0.5 * slope));

  // Writes of one module are seen by the kernels of the other.
  for (int i = 0; i < 20; ++i) {
    const float of_library = 0.01f * static_cast<float>(i), of_program = -of_library;
    from.write_offset(m, s, of_library);
    CHECK(is_near(s.get(offset)(0), of_library));
    tensor<float, dims<2>> value;
    value.fill(of_program);
    s.set(offset, value);
    CHECK(is_near(from.run(m, s), s.eval(m.loss, with(m.x, x))));
  }
  std::set<std::uint64_t> versions;
  for (int i = 0; i < 1000; ++i) versions.insert({from.next_version(), content_version::next()});
  CHECK(versions.size() == 2000);

  const std::string file = "modules." + where + ".safetensors";
  save_weights(file, s);
  CHECK(safetensors_file(file).entries().size() == 3);
  std::filesystem::remove(file);

  // Tensors and errors cross the border.
  const auto numbers = from.numbers(1000);
  CHECK(numbers.size() == 1000 && numbers(999) == 3 && eval(sum(numbers)) == 3000);
  bool caught = false;
  try {
    from.fail();
  } catch (const error& e) {
    caught = e.code() == error_code::not_found && e.operation() == "library";
  }
  CHECK(caught);

  // A graph that one module moves from and the other destroys; neither gives its records to two graphs.
  {
    graph given;
    static_cast<void>(variable<float>(given, "v", 1.0f));
    from.take(std::move(given));
  }
  graph next;
  const model other = from.make();
  graph after;
  static_cast<void>(variable<float>(after, "v", 1.0f));
  CHECK(next.size() == 0 && variables(other.g).size() == 3 && after.size() == 1);
  bool refused = false;
  graph moved = std::move(next);
  try {
    static_cast<void>(variable<float>(next, "v", 1.0f));
  } catch (const error& e) {
    refused = e.code() == error_code::failed_precondition;
  }
  CHECK(refused);
}

}  // namespace

int main(int, char** arguments) try {
  use(*library_functions(), "linked");
  void* const plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!plugin) return std::printf("dlopen: %s\n", dlerror()), 1;
  const auto functions = reinterpret_cast<const model_functions* (*)()>(dlsym(plugin, "library_functions"));
  if (functions() == library_functions()) return std::puts("the plugin is the library that is linked"), 1;
  use(*functions(), "plugin");
  return faults != 0;
} catch (const std::exception& e) {
  std::puts(e.what());
  return 1;
}
