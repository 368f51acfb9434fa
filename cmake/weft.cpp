#include <weft/source.hpp>
