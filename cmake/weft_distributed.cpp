#include <weft/distributed_source.hpp>
