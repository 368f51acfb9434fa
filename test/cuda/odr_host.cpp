// SPDX-License-Identifier: BSL-1.0
// Compiled by the host's compiler, and odr_b.cpp by nvcc. That they link shows that neither defines what the other
// does; that they agree shows that the two compilers see the same types.
#include <weft/cuda.hpp>

#include "../packaging/odr_a.cpp"
