// A tensor of a record has two named extents: one list of numbers does not say both.
// error: example_features_are_not_valid
// error: parse_example: features are numbers, texts, and tensors of which at most the first extent is named
#include <weft/data/example.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto parse = data::parse_example<tensor<float, dims<dyn<"rows">, dyn<"columns">>>>("x");
#else
  auto parse = data::parse_example<tensor<float, dims<dyn<"rows">, 4>>>("x");
#endif
}
